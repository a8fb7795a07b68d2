/*
 * Everleaf for C++17: everleaf.h with owners, exceptions and std::string_view. All of it is in this header; link with the
 * C library, -leverleaf.
 *
 * Owners. Db, Options, Tree, Batch, Cursor, Scan, Snapshot, Transaction and Writer own a handle of C, can be moved and not
 * copied, and free it in the end. Any order of destruction is right. handle() lends the handle for calls of everleaf.h. A call
 * with an object that was moved from throws Error with EVERLEAF_INVALID.
 *
 * Errors are exceptions: Error has the code, the errno and a sentence, and Conflict also the tree and the key. To ask for what
 * is not there is no error: such a call returns false, or no value. No destructor throws: close a Db by close() to hear whether
 * that worked, for its destructor cannot say it.
 *
 * Bytes. Keys and values are std::string_view in, and std::string out where they are copies. Those of Cursor and Scan are
 * lent: good until its next call. Names of trees, and paths, must not hold a 0.
 *
 * Threads: as everleaf.h says.
 */

#ifndef EVERLEAF_HPP
#define EVERLEAF_HPP

#include "everleaf.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace everleaf {

/** A call that has failed. */
class Error : public std::runtime_error {
public:
    Error(int code, int number, const std::string &message)
        : std::runtime_error(message), code_(code), number_(number) {}

    /** One of the codes of everleaf.h, such as EVERLEAF_LOCKED. */
    int code() const noexcept { return code_; }
    /** The name of the code. */
    const char *code_name() const noexcept { return everleaf_code_name(code_); }
    /** The errno, or 0 if the operating system was not the reason. */
    int error_number() const noexcept { return number_; }

private:
    int code_;
    int number_;
};

/** Others have changed what a transaction has read. Nothing has happened: do all of it again. */
class Conflict : public Error {
public:
    Conflict(int number, const std::string &message, std::string tree, std::string key)
        : Error(EVERLEAF_CONFLICT, number, message), tree_(std::move(tree)), key_(std::move(key)) {}

    /** The name of the tree in which the others were. */
    const std::string &tree() const noexcept { return tree_; }
    /** The key that they have changed. */
    const std::string &key() const noexcept { return key_; }

private:
    std::string tree_;
    std::string key_;
};

/** When a write is durable. */
enum class Durability : int {
    as_opened = EVERLEAF_AS_OPENED,
    buffered = EVERLEAF_BUFFERED,
    sync = EVERLEAF_SYNC,
};

/** Where a pool is. */
enum class Storage : int {
    file = EVERLEAF_STORAGE_FILE,
    dax = EVERLEAF_STORAGE_DAX,
    emulated_dax = EVERLEAF_STORAGE_EMULATED_DAX,
};

/** How pages and large values are compressed. */
enum class Compression : int { none = EVERLEAF_COMPRESSION_NONE, lz4 = EVERLEAF_COMPRESSION_LZ4 };

/** How far transactions are kept apart. */
enum class Isolation : int {
    serializable = EVERLEAF_SERIALIZABLE,
    snapshot = EVERLEAF_SNAPSHOT_ISOLATION,
};

/** A key and a value that are copies. */
using Pair = std::pair<std::string, std::string>;
/** A key and a value that are lent. */
using PairView = std::pair<std::string_view, std::string_view>;
/** Figures of a pool. */
using Stats = everleaf_stats;

namespace detail {

/** Throws what the thread's last failure was. */
[[noreturn]] inline void fail(int code) {
    const std::string message = everleaf_last_message();
    const int number = everleaf_last_errno();
    if (code == EVERLEAF_CONFLICT) {
        std::size_t len = 0;
        const void *key = everleaf_last_conflict_key(&len);
        throw Conflict(number, message, everleaf_last_conflict_tree(),
                       std::string(static_cast<const char *>(key), key == nullptr ? 0 : len));
    }
    throw Error(code, number, message);
}

/** Whether the call found what it was asked for. */
inline bool found(int code) {
    if (code < 0) {
        fail(code);
    }
    return code != EVERLEAF_NOT_FOUND;
}

/** Throws if the call has failed. */
inline void check(int code) { static_cast<void>(found(code)); }

/** A pointer that is never NULL: NULL stands for what is not there, and an empty view is there. */
inline const void *start(std::string_view bytes) noexcept {
    return bytes.data() == nullptr ? "" : bytes.data();
}

/** Bytes that may be missing, as C has them. */
struct Maybe {
    template <typename Bytes>
    explicit Maybe(const std::optional<Bytes> &bytes) {
        if (bytes) {
            data = start(*bytes);
            len = bytes->size();
        }
    }
    const void *data = nullptr;
    std::size_t len = 0;
};

/** A text with a 0 at its end. */
class Text {
public:
    explicit Text(std::string_view text) : text_(text) {
        if (text.find('\0') != std::string_view::npos) {
            throw Error(EVERLEAF_INVALID, 0, "a name or a path holds a 0");
        }
    }
    const char *data() const noexcept { return text_.c_str(); }

private:
    std::string text_;
};

/** Bytes that C has given us to own. */
struct Bytes {
    Bytes() = default;
    Bytes(const Bytes &) = delete;
    Bytes &operator=(const Bytes &) = delete;
    ~Bytes() { everleaf_bytes_free(data); }

    std::string copy() const { return std::string(static_cast<const char *>(data), len); }
    std::optional<std::string> if_there() const {
        return data == nullptr ? std::nullopt : std::optional<std::string>(copy());
    }

    void *data = nullptr;
    std::size_t len = 0;
};

/** The only owner of a handle. */
template <typename Handle, void (*free)(Handle *)>
class Owner {
public:
    Owner() noexcept = default;
    explicit Owner(Handle *handle) noexcept : handle_(handle) {}
    Owner(Owner &&other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
    Owner &operator=(Owner &&other) noexcept {
        if (this != &other) {
            free(handle_);
            handle_ = std::exchange(other.handle_, nullptr);
        }
        return *this;
    }
    Owner(const Owner &) = delete;
    Owner &operator=(const Owner &) = delete;
    ~Owner() { free(handle_); }

    /** The handle, still owned by this object; NULL if it was moved from. */
    Handle *handle() const noexcept { return handle_; }

protected:
    Handle *handle_ = nullptr;
};

/** Has C write a value to a buffer, and calls for a copy of one that is longer. */
template <typename Get, typename Alloc>
std::optional<std::string> value(Get get, Alloc alloc) {
    char buf[1024];
    std::size_t len = 0;
    const int code = get(buf, sizeof buf, &len);
    if (code != EVERLEAF_BUFFER_TOO_SMALL) {
        return found(code) ? std::optional<std::string>(std::in_place, buf, len) : std::nullopt;
    }
    Bytes bytes;
    check(alloc(&bytes.data, &bytes.len));
    return bytes.if_there();
}

/** Copies a list of names, and frees it. */
inline std::vector<std::string> strings(everleaf_names *names) {
    const std::unique_ptr<everleaf_names, decltype(&everleaf_names_free)> list(names,
                                                                              everleaf_names_free);
    std::vector<std::string> strings(everleaf_names_len(names));
    for (std::size_t i = 0; i < strings.size(); i++) {
        const char *name = nullptr;
        std::size_t len = 0;
        check(everleaf_names_at(names, i, &name, &len));
        strings[i].assign(name, len);
    }
    return strings;
}

} // namespace detail

/** The version of the library that the program runs with, such as "0.1.0". */
inline std::string_view version() { return everleaf_version(); }

/** Memory that pools share; see everleaf_budget in everleaf.h. */
class Budget : public detail::Owner<everleaf_budget, everleaf_budget_free> {
public:
    explicit Budget(std::uint64_t bytes) : Owner(everleaf_budget_new(bytes)) {
        if (handle_ == nullptr) {
            detail::fail(everleaf_last_code());
        }
    }

    std::uint64_t bytes() const { return everleaf_budget_bytes(handle_); }
    std::uint64_t used() const { return everleaf_budget_used(handle_); }
    std::uint64_t pools() const { return everleaf_budget_pools(handle_); }

private:
    friend class Options;
};

/** Settings for opening a pool; everleaf.h says for each everleaf_options_... what it does and what it is if it is not set. */
class Options : public detail::Owner<everleaf_options, everleaf_options_free> {
public:
    Options() : Owner(everleaf_options_new()) {
        if (handle_ == nullptr) {
            detail::fail(everleaf_last_code());
        }
    }

    Options &interval(std::chrono::microseconds interval) {
        const auto count = interval.count();
        return set(everleaf_options_interval, count < 0 ? 0 : static_cast<std::uint64_t>(count));
    }
    Options &durability(Durability durability) {
        return set(everleaf_options_durability, static_cast<int>(durability));
    }
    Options &journal_bytes(std::uint64_t bytes) { return set(everleaf_options_journal_bytes, bytes); }
    Options &pending_bytes(std::uint64_t bytes) { return set(everleaf_options_pending_bytes, bytes); }
    Options &page_bytes(std::uint32_t bytes) { return set(everleaf_options_page_bytes, bytes); }
    Options &max_bytes(std::uint64_t bytes) { return set(everleaf_options_max_bytes, bytes); }
    Options &create(bool create) { return set(everleaf_options_create, create ? 1 : 0); }
    Options &read_only(bool only) { return set(everleaf_options_read_only, only ? 1 : 0); }
    Options &storage(Storage storage) {
        return set(everleaf_options_storage, static_cast<int>(storage));
    }
    Options &background(bool background) {
        return set(everleaf_options_background, background ? 1 : 0);
    }
    Options &manual_epochs(bool manual_epochs) {
        return set(everleaf_options_manual_epochs, manual_epochs ? 1 : 0);
    }
    Options &compression(Compression compression) {
        return set(everleaf_options_compression, static_cast<int>(compression));
    }
    Options &memory(std::uint64_t bytes) { return set(everleaf_options_memory, bytes); }
    Options &budget(const Budget &budget) {
        return set<const everleaf_budget *>(everleaf_options_budget, budget.handle_);
    }
    Options &snapshot_memory(std::uint64_t bytes) {
        return set(everleaf_options_snapshot_memory, bytes);
    }
    Options &transaction_memory(std::uint64_t bytes) {
        return set(everleaf_options_transaction_memory, bytes);
    }

private:
    template <typename Value>
    Options &set(int (*setter)(everleaf_options *, Value), Value value) {
        detail::check(setter(handle_, value));
        return *this;
    }
};

/** Which keys: all, or those from one bound to another. Bounds are copied. */
class Range {
public:
    /** Every key. */
    Range() = default;
    /** The keys that begin with these bytes. */
    static Range prefix(std::string_view prefix) {
        Range range;
        range.from(prefix);
        std::string end(prefix);
        // The next key that does not begin so; there is none behind a prefix of bytes 255.
        while (!end.empty() && static_cast<unsigned char>(end.back()) == 255) {
            end.pop_back();
        }
        if (!end.empty()) {
            end.back() = static_cast<char>(static_cast<unsigned char>(end.back()) + 1);
            range.to(end);
        }
        return range;
    }

    /** From this key on. */
    Range &from(std::string_view key) { return begin(key, 0); }
    /** From the first key above this one on. */
    Range &above(std::string_view key) { return begin(key, EVERLEAF_FROM_EXCLUDED); }
    /** Up to this key, which is not part of it. */
    Range &to(std::string_view key) { return end(key, 0); }
    /** Up to this key, which is part of it. */
    Range &through(std::string_view key) { return end(key, EVERLEAF_TO_INCLUDED); }
    /** From the largest key to the smallest one. The bounds stay as they are. Only for scans. */
    Range &reverse() {
        flags_ |= EVERLEAF_REVERSE;
        return *this;
    }
    /** Keys without values, which are not read and are empty. Only for scans. */
    Range &keys_only() {
        flags_ |= EVERLEAF_KEYS_ONLY;
        return *this;
    }

    /** The lower bound, as C has it. */
    detail::Maybe lower() const { return detail::Maybe(from_); }
    /** The upper bound, as C has it. */
    detail::Maybe upper() const { return detail::Maybe(to_); }
    /** The flags of everleaf_scan_new. */
    std::uint32_t flags() const noexcept { return flags_; }

private:
    Range &begin(std::string_view key, std::uint32_t flag) {
        from_.emplace(key);
        flags_ = (flags_ & ~std::uint32_t{EVERLEAF_FROM_EXCLUDED}) | flag;
        return *this;
    }
    Range &end(std::string_view key, std::uint32_t flag) {
        to_.emplace(key);
        flags_ = (flags_ & ~std::uint32_t{EVERLEAF_TO_INCLUDED}) | flag;
        return *this;
    }

    std::optional<std::string> from_;
    std::optional<std::string> to_;
    std::uint32_t flags_ = 0;
};

/**
 * A walk over a range: `for (auto [key, value] : tree.scan())`. It fetches many pairs a call. A pair that it lends is good
 * until its next step.
 */
class Scan : public detail::Owner<everleaf_scan, everleaf_scan_free> {
public:
    /** A place in the walk, which moves the walk itself: of several iterators only one is good. */
    class iterator {
    public:
        using iterator_category = std::input_iterator_tag;
        using value_type = PairView;
        using difference_type = std::ptrdiff_t;
        using pointer = const PairView *;
        using reference = const PairView &;

        iterator() noexcept = default;
        explicit iterator(Scan *scan) noexcept : scan_(scan) {}

        reference operator*() const noexcept { return scan_->pair_; }
        pointer operator->() const noexcept { return &scan_->pair_; }
        iterator &operator++() {
            if (!scan_->step()) {
                scan_ = nullptr;
            }
            return *this;
        }
        void operator++(int) { ++*this; }
        friend bool operator==(const iterator &a, const iterator &b) noexcept {
            return a.scan_ == b.scan_;
        }
        friend bool operator!=(const iterator &a, const iterator &b) noexcept { return !(a == b); }

    private:
        Scan *scan_ = nullptr;
    };

    explicit Scan(everleaf_scan *scan) noexcept : Owner(scan) {}

    /** The first pair, or the one at which an earlier loop has stopped. */
    iterator begin() {
        if (!is_at_pair_ && !step()) {
            return end();
        }
        return iterator(this);
    }
    iterator end() noexcept { return iterator(); }

    /** The next pair; none at the end. */
    std::optional<PairView> next() {
        return step() ? std::optional<PairView>(pair_) : std::nullopt;
    }

    /** How many bytes of pairs are fetched at once; a pair that is longer is fetched alone. Before the first step. */
    Scan &buffer_bytes(std::size_t bytes) {
        room_ = bytes;
        return *this;
    }

private:
    bool step() {
        is_at_pair_ = false;
        // Without a handle, what is left of the buffer is another object's.
        if ((handle_ == nullptr || pairs_ == 0) && !fill()) {
            return false;
        }
        std::uint32_t lens[2];
        std::memcpy(lens, at_, sizeof lens);
        const char *key = at_ + sizeof lens;
        pair_ = {std::string_view(key, lens[0]), std::string_view(key + lens[0], lens[1])};
        at_ = key + lens[0] + lens[1];
        pairs_--;
        is_at_pair_ = true;
        return true;
    }

    bool fill() {
        if (!buf_) {
            buf_.reset(new char[room_]);
        }
        std::size_t pairs = 0;
        std::size_t needed = 0;
        int code = everleaf_scan_fill(handle_, buf_.get(), room_, &pairs, nullptr, &needed);
        if (code == EVERLEAF_BUFFER_TOO_SMALL) {
            buf_.reset(new char[needed]);
            room_ = needed;
            code = everleaf_scan_fill(handle_, buf_.get(), room_, &pairs, nullptr, &needed);
        }
        if (!detail::found(code)) {
            return false;
        }
        pairs_ = pairs;
        at_ = buf_.get();
        return true;
    }

    std::unique_ptr<char[]> buf_;
    std::size_t room_ = 65536;
    const char *at_ = nullptr;
    std::size_t pairs_ = 0;
    PairView pair_;
    bool is_at_pair_ = false;
};

/** A place in a tree. The bytes that it lends are good until its next step. */
class Cursor : public detail::Owner<everleaf_cursor, everleaf_cursor_free> {
public:
    explicit Cursor(everleaf_cursor *cursor) noexcept : Owner(cursor) {}

    /** Each goes to a pair, and returns whether there is one. */
    bool first() { return detail::found(everleaf_cursor_first(handle_)); }
    bool last() { return detail::found(everleaf_cursor_last(handle_)); }
    bool next() { return detail::found(everleaf_cursor_next(handle_)); }
    bool prev() { return detail::found(everleaf_cursor_prev(handle_)); }
    /** To the key, or the first one above it. */
    bool seek(std::string_view key) {
        return detail::found(everleaf_cursor_seek(handle_, detail::start(key), key.size()));
    }
    /** To the key, or the last one below it. */
    bool seek_for_prev(std::string_view key) {
        return detail::found(everleaf_cursor_seek_for_prev(handle_, detail::start(key), key.size()));
    }

    /** The key that it is at; none if it is at no pair. */
    std::optional<std::string_view> key() const {
        const void *key = nullptr;
        std::size_t len = 0;
        return detail::found(everleaf_cursor_key(handle_, &key, &len)) ? view(key, len) : std::nullopt;
    }
    std::optional<std::string_view> value() {
        const void *value = nullptr;
        std::size_t len = 0;
        return detail::found(everleaf_cursor_value(handle_, &value, &len)) ? view(value, len)
                                                                           : std::nullopt;
    }
    std::optional<PairView> pair() {
        const void *key = nullptr;
        const void *value = nullptr;
        std::size_t key_len = 0;
        std::size_t value_len = 0;
        if (!detail::found(everleaf_cursor_pair(handle_, &key, &key_len, &value, &value_len))) {
            return std::nullopt;
        }
        return PairView(*view(key, key_len), *view(value, value_len));
    }

private:
    static std::optional<std::string_view> view(const void *bytes, std::size_t len) {
        return std::string_view(static_cast<const char *>(bytes), len);
    }
};

/** A value that is being written in pieces. Others see the old one until finish(). */
class Writer : public detail::Owner<everleaf_writer, everleaf_writer_free> {
public:
    explicit Writer(everleaf_writer *writer) noexcept : Owner(writer) {}

    /** Writes the next bytes. */
    void write(std::string_view bytes) {
        detail::check(everleaf_writer_write(handle_, detail::start(bytes), bytes.size()));
    }
    /** Sets the value, which has all its bytes now. */
    void finish() { detail::check(everleaf_writer_finish(handle_)); }
};

/** The outcome of Tree::compare_and_swap. */
struct Swapped {
    /** Whether the value was what was expected, and was changed. */
    bool is_changed;
    /** If nothing was changed: the value that the key has, or none if it is not there. */
    std::optional<std::string> found;
};

/** A named ordered map from bytes to bytes, as it is now or as a snapshot sees it. */
class Tree : public detail::Owner<everleaf_tree, everleaf_tree_free> {
public:
    explicit Tree(everleaf_tree *tree) noexcept : Owner(tree) {}

    /** The name that the handle was made with. */
    std::string name() const {
        const char *name = nullptr;
        detail::check(everleaf_tree_name(handle_, &name));
        return name;
    }
    /** Another handle to the tree, whose writes have this durability. */
    Tree with(Durability durability) const {
        everleaf_tree *tree = nullptr;
        detail::check(everleaf_tree_with(handle_, static_cast<int>(durability), &tree));
        return Tree(tree);
    }
    /** The number of pairs. */
    std::uint64_t len() const {
        std::uint64_t pairs = 0;
        detail::check(everleaf_tree_len(handle_, &pairs));
        return pairs;
    }
    /** Removes all pairs, and returns how many there were. */
    std::uint64_t clear() {
        std::uint64_t pairs = 0;
        detail::check(everleaf_tree_clear(handle_, &pairs));
        return pairs;
    }

    /** Sets the value of a key. */
    void put(std::string_view key, std::string_view value) {
        detail::check(everleaf_put(handle_, detail::start(key), key.size(), detail::start(value),
                                   value.size()));
    }
    /** Sets it if the key is not there, and returns whether it was so. */
    bool insert_new(std::string_view key, std::string_view value) {
        return detail::found(everleaf_insert_new(handle_, detail::start(key), key.size(),
                                                 detail::start(value), value.size()));
    }
    /** Sets it if the key is there, and returns whether it was so. */
    bool replace(std::string_view key, std::string_view value) {
        return detail::found(everleaf_replace(handle_, detail::start(key), key.size(),
                                              detail::start(value), value.size()));
    }
    /** Changes it to `desired` if it is `expected`; none stands for a key that is not there. */
    Swapped compare_and_swap(std::string_view key, std::optional<std::string_view> expected,
                             std::optional<std::string_view> desired) {
        const detail::Maybe old(expected);
        const detail::Maybe other(desired);
        detail::Bytes bytes;
        const bool is_changed = detail::found(everleaf_compare_and_swap(
            handle_, detail::start(key), key.size(), old.data, old.len, other.data, other.len,
            &bytes.data, &bytes.len));
        return Swapped{is_changed, bytes.if_there()};
    }
    /** Sets it, and returns the value that the key had. */
    std::optional<std::string> swap(std::string_view key, std::string_view value) {
        detail::Bytes old;
        detail::check(everleaf_swap(handle_, detail::start(key), key.size(), detail::start(value),
                                    value.size(), &old.data, &old.len));
        return old.if_there();
    }
    /** Removes a key if it is there. */
    void erase(std::string_view key) {
        detail::check(everleaf_delete(handle_, detail::start(key), key.size()));
    }
    /** Removes a key, and returns the value that it had. */
    std::optional<std::string> take(std::string_view key) {
        detail::Bytes value;
        detail::check(everleaf_take(handle_, detail::start(key), key.size(), &value.data, &value.len));
        return value.if_there();
    }
    /** Removes the pair with the smallest key, and returns it. Each pair comes to one thread. */
    std::optional<Pair> pop_first() { return pop(everleaf_pop_first); }
    /** Removes the pair with the largest key, and returns it. */
    std::optional<Pair> pop_last() { return pop(everleaf_pop_last); }
    /** Removes the pairs of a range, one after the other, and returns how many there were. */
    std::uint64_t remove_range(const Range &range) {
        const detail::Maybe from = range.lower();
        const detail::Maybe to = range.upper();
        std::uint64_t pairs = 0;
        detail::check(everleaf_remove_range(handle_, from.data, from.len, to.data, to.len,
                                            range.flags(), &pairs));
        return pairs;
    }
    /** Begins to write a value of so many bytes in pieces. */
    Writer writer(std::string_view key, std::uint64_t value_len) {
        everleaf_writer *writer = nullptr;
        detail::check(
            everleaf_writer_new(handle_, detail::start(key), key.size(), value_len, &writer));
        return Writer(writer);
    }

    /** Whether a key is there. */
    bool contains(std::string_view key) const {
        return detail::found(everleaf_contains(handle_, detail::start(key), key.size()));
    }
    /** The value of a key; none if it is not there. */
    std::optional<std::string> get(std::string_view key) const {
        const void *data = detail::start(key);
        return detail::value(
            [&](char *buf, std::size_t room, std::size_t *len) {
                return everleaf_get(handle_, data, key.size(), buf, room, len);
            },
            [&](void **value, std::size_t *len) {
                return everleaf_get_alloc(handle_, data, key.size(), value, len);
            });
    }
    /** How long a value is. A large one is not read for it. */
    std::optional<std::uint64_t> value_len(std::string_view key) const {
        std::uint64_t len = 0;
        const int code = everleaf_value_len(handle_, detail::start(key), key.size(), &len);
        return detail::found(code) ? std::optional<std::uint64_t>(len) : std::nullopt;
    }
    /** Copies bytes of a value from byte `offset` on to `buf`; returns how many, and none if the key is not there. */
    std::optional<std::size_t> read_at(std::string_view key, std::uint64_t offset, void *buf,
                                       std::size_t buf_len) const {
        std::size_t copied = 0;
        const int code = everleaf_read_at(handle_, detail::start(key), key.size(), offset, buf,
                                          buf_len, &copied);
        return detail::found(code) ? std::optional<std::size_t>(copied) : std::nullopt;
    }

    /** A cursor, which is at no pair yet. */
    Cursor cursor() const {
        everleaf_cursor *cursor = nullptr;
        detail::check(everleaf_cursor_new(handle_, &cursor));
        return Cursor(cursor);
    }
    /** A walk over a range. */
    Scan scan(const Range &range = Range()) const {
        const detail::Maybe from = range.lower();
        const detail::Maybe to = range.upper();
        everleaf_scan *scan = nullptr;
        detail::check(everleaf_scan_new(handle_, from.data, from.len, to.data, to.len, range.flags(),
                                        &scan));
        return Scan(scan);
    }

private:
    std::optional<Pair> pop(int (*call)(const everleaf_tree *, void **, std::size_t *, void **,
                                        std::size_t *)) {
        detail::Bytes key;
        detail::Bytes value;
        if (!detail::found(call(handle_, &key.data, &key.len, &value.data, &value.len))) {
            return std::nullopt;
        }
        return Pair(key.copy(), value.copy());
    }
};

/** Changes that a crash keeps or loses together. Nothing happens before commit(). */
class Batch : public detail::Owner<everleaf_batch, everleaf_batch_free> {
public:
    explicit Batch(everleaf_batch *batch) noexcept : Owner(batch) {}

    /** Adds a change that sets a value. */
    Batch &put(const Tree &tree, std::string_view key, std::string_view value) {
        detail::check(everleaf_batch_put(handle_, tree.handle(), detail::start(key), key.size(),
                                         detail::start(value), value.size()));
        return *this;
    }
    /** Adds a change that removes a key if it is there. */
    Batch &erase(const Tree &tree, std::string_view key) {
        detail::check(everleaf_batch_delete(handle_, tree.handle(), detail::start(key), key.size()));
        return *this;
    }
    /** How many changes were added since the last commit. */
    std::size_t len() const {
        std::size_t changes = 0;
        detail::check(everleaf_batch_len(handle_, &changes));
        return changes;
    }
    /** Applies all changes. The batch is empty afterwards, and can be filled again. */
    void commit() { detail::check(everleaf_batch_commit(handle_)); }
};

/** All trees of a pool as they were at one moment. */
class Snapshot : public detail::Owner<everleaf_snapshot, everleaf_snapshot_free> {
public:
    explicit Snapshot(everleaf_snapshot *snapshot) noexcept : Owner(snapshot) {}

    /** The tree that had this name then; none if there was none. */
    std::optional<Tree> tree(std::string_view name) const {
        everleaf_tree *tree = nullptr;
        const int code = everleaf_snapshot_tree(handle_, detail::Text(name).data(), &tree);
        return detail::found(code) ? std::optional<Tree>(std::in_place, tree) : std::nullopt;
    }
    /** A tree as it was then: empty if it was made later. */
    Tree of(const Tree &tree) const {
        everleaf_tree *then = nullptr;
        detail::check(everleaf_snapshot_of(handle_, tree.handle(), &then));
        return Tree(then);
    }
    /** The names that trees had then, in bytewise order. */
    std::vector<std::string> tree_names() const {
        everleaf_names *names = nullptr;
        detail::check(everleaf_snapshot_tree_names(handle_, &names));
        return detail::strings(names);
    }
};

/** Reads at one moment, and writes that happen together or not at all. Dropped if it is not committed. */
class Transaction : public detail::Owner<everleaf_txn, everleaf_txn_free> {
public:
    explicit Transaction(everleaf_txn *txn) noexcept : Owner(txn) {}

    /** The value of a key, with the transaction's own writes. The key counts as read. */
    std::optional<std::string> get(const Tree &tree, std::string_view key) const {
        const void *data = detail::start(key);
        return detail::value(
            [&](char *buf, std::size_t room, std::size_t *len) {
                return everleaf_txn_get(handle_, tree.handle(), data, key.size(), buf, room, len);
            },
            [&](void **value, std::size_t *len) {
                return everleaf_txn_get_alloc(handle_, tree.handle(), data, key.size(), value, len);
            });
    }
    /** Whether a key is there. It counts as read. */
    bool contains(const Tree &tree, std::string_view key) const {
        return detail::found(
            everleaf_txn_contains(handle_, tree.handle(), detail::start(key), key.size()));
    }
    /** Sets a value when the transaction is committed. */
    Transaction &put(const Tree &tree, std::string_view key, std::string_view value) {
        detail::check(everleaf_txn_put(handle_, tree.handle(), detail::start(key), key.size(),
                                       detail::start(value), value.size()));
        return *this;
    }
    /** Removes a key when the transaction is committed, if it is there. */
    Transaction &erase(const Tree &tree, std::string_view key) {
        detail::check(everleaf_txn_delete(handle_, tree.handle(), detail::start(key), key.size()));
        return *this;
    }
    /** A walk over a range, which ends with the transaction. */
    Scan scan(const Tree &tree, const Range &range = Range()) const {
        const detail::Maybe from = range.lower();
        const detail::Maybe to = range.upper();
        everleaf_scan *scan = nullptr;
        detail::check(everleaf_txn_scan_new(handle_, tree.handle(), from.data, from.len, to.data,
                                            to.len, range.flags(), &scan));
        return Scan(scan);
    }
    /** Makes all writes if everything that was read is unchanged; throws Conflict otherwise. It has ended then. */
    void commit() { detail::check(everleaf_txn_commit(handle_)); }
    /** Ends it and drops its writes, as its destructor does. */
    void abort() { detail::check(everleaf_txn_abort(handle_)); }
};

/** One thing that is wrong with a pool. */
struct Damage {
    /** Where: bytes from the start of the file. */
    std::uint64_t offset;
    /** Says what was expected and what was found. */
    std::string what;
};

/** An open pool of named trees. */
class Db : public detail::Owner<everleaf_db, everleaf_db_free> {
public:
    explicit Db(everleaf_db *db) noexcept : Owner(db) {}

    /** Opens a pool, and makes one if there is none. */
    static Db open(std::string_view path) { return open_with(path, nullptr); }
    static Db open(std::string_view path, const Options &options) {
        return open_with(path, used(options));
    }
    /** Makes a pool in memory, for tests and caches. */
    static Db open_in_memory() { return in_memory_with(nullptr); }
    static Db open_in_memory(const Options &options) { return in_memory_with(used(options)); }

    /** Makes everything durable and closes the pool, whatever objects there are still: their calls throw then. */
    void close() { detail::check(everleaf_close(handle_)); }
    /** Closes the pool as a crash would. */
    void abandon() { detail::check(everleaf_abandon(handle_)); }

    /** Waits until every operation that returned before this call is on disk. */
    void sync() const { detail::check(everleaf_sync(handle_)); }
    /** Writes all changed pages, so that the next open has less to do. */
    void checkpoint() const { detail::check(everleaf_checkpoint(handle_)); }
    /** Makes the file as short as its contents allow; returns its bytes before and after. */
    std::pair<std::uint64_t, std::uint64_t> compact() const {
        std::pair<std::uint64_t, std::uint64_t> bytes;
        detail::check(everleaf_compact(handle_, &bytes.first, &bytes.second));
        return bytes;
    }
    /** Copies the pool as it is at one moment to a new file; returns the last epoch that is in it. */
    std::uint64_t backup(std::string_view path) const {
        std::uint64_t epoch = 0;
        detail::check(everleaf_backup(handle_, detail::Text(path).data(), &epoch));
        return epoch;
    }
    /** Reads the whole pool, and returns each damage that it finds. */
    std::vector<Damage> check() const {
        everleaf_damages *list = nullptr;
        detail::check(everleaf_check(handle_, &list));
        const std::unique_ptr<everleaf_damages, decltype(&everleaf_damages_free)> owner(
            list, everleaf_damages_free);
        std::vector<Damage> damages(everleaf_damages_len(list));
        for (std::size_t i = 0; i < damages.size(); i++) {
            const char *what = nullptr;
            detail::check(everleaf_damages_at(list, i, &damages[i].offset, &what));
            damages[i].what = what;
        }
        return damages;
    }
    /** Figures of the pool at this moment. */
    Stats stats() const {
        Stats stats = {};
        stats.size = sizeof stats;
        detail::check(everleaf_db_stats(handle_, &stats));
        return stats;
    }

    /** The current epoch, in which, or before which, every operation is that has returned. */
    std::uint64_t epoch() const {
        std::uint64_t epoch = 0;
        detail::check(everleaf_epoch(handle_, &epoch));
        return epoch;
    }
    /** The last epoch that is on disk. */
    std::uint64_t durable_epoch() const {
        std::uint64_t epoch = 0;
        detail::check(everleaf_durable_epoch(handle_, &epoch));
        return epoch;
    }
    /** Ends the current epoch without waiting for the disk, and returns its number. */
    std::uint64_t end_epoch() const {
        std::uint64_t epoch = 0;
        detail::check(everleaf_end_epoch(handle_, &epoch));
        return epoch;
    }
    /** About how many bytes of changes the current epoch has. */
    std::uint64_t pending_bytes() const {
        std::uint64_t bytes = 0;
        detail::check(everleaf_pending_bytes(handle_, &bytes));
        return bytes;
    }
    /** Waits until the epoch is on disk. */
    void wait_durable(std::uint64_t epoch) const {
        detail::check(everleaf_wait_durable(handle_, epoch, -1));
    }
    /** Waits so long at most, and returns whether the epoch is on disk. */
    bool wait_durable(std::uint64_t epoch, std::chrono::milliseconds timeout) const {
        const auto count = timeout.count() < 0 ? 0 : static_cast<std::int64_t>(timeout.count());
        return detail::found(everleaf_wait_durable(handle_, epoch, count));
    }

    /** The names of all trees, in bytewise order. */
    std::vector<std::string> tree_names() const {
        everleaf_names *names = nullptr;
        detail::check(everleaf_tree_names(handle_, &names));
        return detail::strings(names);
    }
    /** The tree of this name, which is made if there is none. */
    Tree create_tree(std::string_view name) const {
        everleaf_tree *tree = nullptr;
        detail::check(everleaf_tree_create(handle_, detail::Text(name).data(), &tree));
        return Tree(tree);
    }
    /** The tree of this name; none if there is none. */
    std::optional<Tree> open_tree(std::string_view name) const {
        everleaf_tree *tree = nullptr;
        const int code = everleaf_tree_open(handle_, detail::Text(name).data(), &tree);
        return detail::found(code) ? std::optional<Tree>(std::in_place, tree) : std::nullopt;
    }
    /** Removes a tree, and returns whether there was one. */
    bool drop_tree(std::string_view name) const {
        return detail::found(everleaf_tree_drop(handle_, detail::Text(name).data()));
    }
    /** Renames a tree, and returns whether there was one. */
    bool rename_tree(std::string_view from, std::string_view to) const {
        return detail::found(
            everleaf_tree_rename(handle_, detail::Text(from).data(), detail::Text(to).data()));
    }

    /** An empty batch. */
    Batch batch(Durability durability = Durability::as_opened) const {
        everleaf_batch *batch = nullptr;
        detail::check(everleaf_batch_new(handle_, static_cast<int>(durability), &batch));
        return Batch(batch);
    }
    /** All trees as they are now. */
    Snapshot snapshot() const {
        everleaf_snapshot *snapshot = nullptr;
        detail::check(everleaf_snapshot_new(handle_, &snapshot));
        return Snapshot(snapshot);
    }
    /** A transaction, which sees the moment of its first read. */
    Transaction transaction(Isolation isolation = Isolation::serializable,
                            Durability durability = Durability::as_opened) const {
        everleaf_txn *txn = nullptr;
        detail::check(everleaf_txn_begin(handle_, static_cast<int>(isolation),
                                         static_cast<int>(durability), &txn));
        return Transaction(txn);
    }
    /**
     * Calls `work` with a transaction and commits it, again and again while others are in the way. The last of so many
     * attempts throws its Conflict. An exception of `work` drops the transaction, and goes on to the caller.
     */
    template <typename Work>
    void transact(Work work, unsigned attempts = 100) const {
        for (unsigned attempt = 1;; attempt++) {
            Transaction txn = transaction();
            try {
                work(txn);
                txn.commit();
                return;
            } catch (const Conflict &) {
                if (attempt >= attempts) {
                    throw;
                }
            }
        }
    }

private:
    /** Options that were moved from are a mistake, and not the defaults. */
    static const everleaf_options *used(const Options &options) {
        if (options.handle() == nullptr) {
            throw Error(EVERLEAF_INVALID, 0, "the options were moved from");
        }
        return options.handle();
    }
    static Db open_with(std::string_view path, const everleaf_options *options) {
        everleaf_db *db = nullptr;
        detail::check(everleaf_open(detail::Text(path).data(), options, &db));
        return Db(db);
    }
    static Db in_memory_with(const everleaf_options *options) {
        everleaf_db *db = nullptr;
        detail::check(everleaf_open_in_memory(options, &db));
        return Db(db);
    }
};

} // namespace everleaf

#endif // EVERLEAF_HPP
