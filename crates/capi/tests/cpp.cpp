/*
 * everleaf.hpp beside a std::map, and what happens to those who misuse it: FOLDER OPERATIONS SEED. Ends with 0, or prints
 * the line that is wrong.
 */
#include "everleaf.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <random>
#include <type_traits>

namespace {

using everleaf::Range;
using Model = std::map<std::string, std::string>;

[[noreturn]] void wrong(int line, const char *what) {
    std::fprintf(stderr, "%s:%d: not so: %s; the last failure was %s\n", __FILE__, line, what,
                 everleaf_last_message());
    std::exit(1);
}

#define EXPECT(...)                                                                                \
    do {                                                                                           \
        if (!(__VA_ARGS__)) {                                                                      \
            wrong(__LINE__, #__VA_ARGS__);                                                         \
        }                                                                                          \
    } while (0)

/** Whether a call throws an Error of this code whose message has this text. */
bool fails(int code, const char *text, const std::function<void()> &call) {
    try {
        call();
    } catch (const everleaf::Error &error) {
        return error.code() == code && std::strstr(error.what(), text) != nullptr;
    }
    return false;
}

/** Of a key that is moved from, closed, or both. */
bool is_invalid(const std::function<void()> &call) { return fails(EVERLEAF_INVALID, "", call); }
bool is_closed(const std::function<void()> &call) { return fails(EVERLEAF_CLOSED, "", call); }

struct Random {
    std::mt19937_64 numbers;

    std::uint64_t below(std::uint64_t n) { return numbers() % n; }
    /** One of some hundred keys, the empty one and some with 0 and 255 among them. */
    std::string key() {
        static const std::string ends[] = {"", std::string(1, '\0'), "\xff", "\xff\xff", "x"};
        const std::uint64_t number = below(80);
        std::string key = number == 0 ? "" : std::to_string(number);
        return key + ends[below(5)];
    }
    std::string value() {
        // Longer than the buffer of Tree::get, or than a page, at times.
        static const std::size_t most[] = {3, 100, 2000, 20000, 100000};
        const std::uint64_t kind = below(64);
        const std::size_t len = below(most[kind < 40 ? 0 : kind < 58 ? 1 : kind < 62 ? 2 : kind - 59]);
        std::string value(len, '\0');
        for (std::size_t i = 0; i < len; i += 7) {
            value[i] = static_cast<char>(numbers());
        }
        return value;
    }
};

/** Whether a range, of which the model knows the bounds, has a key. */
struct Bounds {
    Range range;
    std::string from, to;
    std::uint64_t low, high;

    explicit Bounds(Random &random)
        : from(random.key()), to(random.key()), low(random.below(3)), high(random.below(3)) {
        if (low == 1) range.from(from);
        if (low == 2) range.above(from);
        if (high == 1) range.to(to);
        if (high == 2) range.through(to);
    }
    bool has(const std::string &key) const {
        return (low == 0 || (low == 1 ? key >= from : key > from)) &&
               (high == 0 || (high == 1 ? key < to : key <= to));
    }
    std::vector<everleaf::Pair> of(const Model &model) const {
        std::vector<everleaf::Pair> pairs;
        for (const auto &[key, value] : model) {
            if (has(key)) pairs.emplace_back(key, value);
        }
        return pairs;
    }
};

std::optional<std::string> look(const Model &model, const std::string &key) {
    const auto at = model.find(key);
    return at == model.end() ? std::nullopt : std::optional<std::string>(at->second);
}

void write_one(everleaf::Tree &tree, Model &model, Random &random) {
    const std::string key = random.key();
    const std::string value = random.value();
    const std::optional<std::string> old = look(model, key);
    switch (random.below(7)) {
    case 0:
        tree.put(key, value);
        model[key] = value;
        break;
    case 1:
        EXPECT(tree.insert_new(key, value) == !old);
        model.emplace(key, value);
        break;
    case 2:
        EXPECT(tree.replace(key, value) == old.has_value());
        if (old) model[key] = value;
        break;
    case 3: {
        const std::optional<std::string> expected = random.below(4) == 0 ? value : old;
        const auto swapped = tree.compare_and_swap(key, expected, std::string_view(value));
        EXPECT(swapped.is_changed == (expected == old));
        EXPECT(swapped.found == (swapped.is_changed ? std::nullopt : old));
        if (swapped.is_changed) model[key] = value;
        break;
    }
    case 4:
        EXPECT(tree.swap(key, value) == old);
        model[key] = value;
        break;
    case 5: {
        everleaf::Writer writer = tree.writer(key, value.size());
        writer.write(std::string_view(value).substr(0, value.size() / 3));
        writer.write(std::string_view(value).substr(value.size() / 3));
        writer.finish();
        model[key] = value;
        break;
    }
    default: {
        const auto swapped = tree.compare_and_swap(key, old, std::nullopt);
        EXPECT(swapped.is_changed && !swapped.found);
        model.erase(key);
    }
    }
}

void remove_some(everleaf::Tree &tree, Model &model, Random &random) {
    const std::string key = random.key();
    switch (random.below(40)) {
    case 0: {
        const Bounds bounds(random);
        EXPECT(tree.remove_range(bounds.range) == bounds.of(model).size());
        for (const auto &[gone, value] : bounds.of(model)) {
            static_cast<void>(value);
            model.erase(gone);
        }
        break;
    }
    case 1:
        if (random.below(10) == 0) {
            EXPECT(tree.clear() == model.size());
            model.clear();
        }
        break;
    case 2:
    case 3: {
        const auto pair = tree.pop_first();
        EXPECT(pair.has_value() == !model.empty());
        EXPECT(!pair || (pair->first == model.begin()->first && pair->second == model.begin()->second));
        if (pair) model.erase(model.begin());
        break;
    }
    case 4: {
        const auto pair = tree.pop_last();
        EXPECT(pair.has_value() == !model.empty());
        EXPECT(!pair || (pair->first == model.rbegin()->first && pair->second == model.rbegin()->second));
        if (pair) model.erase(std::prev(model.end()));
        break;
    }
    case 5:
    case 6:
    case 7:
        EXPECT(tree.take(key) == look(model, key));
        model.erase(key);
        break;
    default:
        tree.erase(key);
        model.erase(key);
    }
}

void read_one(const everleaf::Tree &tree, const Model &model, Random &random) {
    const std::string key = random.key();
    const std::optional<std::string> value = look(model, key);
    EXPECT(tree.get(key) == value);
    EXPECT(tree.contains(key) == value.has_value());
    const auto len = tree.value_len(key);
    EXPECT(len.has_value() == value.has_value() && (!len || *len == value->size()));
    char buf[300];
    const std::uint64_t offset = random.below(400);
    const auto copied = tree.read_at(key, offset, buf, sizeof buf);
    EXPECT(copied.has_value() == value.has_value());
    if (value) {
        const std::string rest = offset < value->size() ? value->substr(offset, sizeof buf) : "";
        EXPECT(std::string(buf, *copied) == rest);
    }
    EXPECT(tree.len() == model.size());
}

void read_range(everleaf::Scan scan, std::vector<everleaf::Pair> wanted, bool keys_only) {
    auto at = wanted.begin();
    for (const auto &[key, value] : scan) {
        EXPECT(at != wanted.end() && key == at->first && value == (keys_only ? "" : at->second));
        ++at;
    }
    EXPECT(at == wanted.end());
    EXPECT(scan.begin() == scan.end() && !scan.next());
}

/** A range and its flags, at random. */
void read_ranges(const everleaf::Tree &tree, const Model &model, Random &random) {
    Bounds bounds(random);
    std::vector<everleaf::Pair> wanted = bounds.of(model);
    if (random.below(2) == 0) {
        bounds.range.reverse();
        std::reverse(wanted.begin(), wanted.end());
    }
    const bool keys_only = random.below(4) == 0;
    if (keys_only) bounds.range.keys_only();
    everleaf::Scan scan = tree.scan(bounds.range);
    // Less than a pair takes, so that the buffer has to grow, or a few pairs.
    if (random.below(2) == 0) scan.buffer_bytes(1 + random.below(200));
    read_range(std::move(scan), wanted, keys_only);

    const std::string start = random.key();
    wanted.clear();
    for (const auto &pair : model) {
        if (pair.first.compare(0, start.size(), start) == 0) wanted.emplace_back(pair);
    }
    read_range(tree.scan(Range::prefix(start)), wanted, false);
}

void step_about(const everleaf::Tree &tree, const Model &model, Random &random) {
    everleaf::Cursor cursor = tree.cursor();
    EXPECT(!cursor.key() && !cursor.value() && !cursor.pair());
    const std::string key = random.key();
    const auto at_or_above = model.lower_bound(key);
    EXPECT(cursor.seek(key) == (at_or_above != model.end()));
    if (at_or_above != model.end()) {
        EXPECT(cursor.key() == at_or_above->first && cursor.value() == at_or_above->second);
        EXPECT(cursor.next() == (std::next(at_or_above) != model.end()));
    }
    const auto above = model.upper_bound(key);
    EXPECT(cursor.seek_for_prev(key) == (above != model.begin()));
    if (above != model.begin()) {
        const auto at = std::prev(above);
        const auto pair = cursor.pair();
        EXPECT(pair && pair->first == at->first && pair->second == at->second);
        EXPECT(cursor.prev() == (at != model.begin()));
    }
    EXPECT(cursor.first() == !model.empty());
    EXPECT(model.empty() || cursor.key() == model.begin()->first);
    EXPECT(cursor.last() == !model.empty());
    EXPECT(model.empty() || cursor.key() == model.rbegin()->first);
}

/** Several changes at once, kept or dropped. */
void change_together(const everleaf::Db &db, const everleaf::Tree &tree, Model &model, Random &random) {
    everleaf::Batch batch = db.batch();
    everleaf::Transaction txn = db.transaction(everleaf::Isolation::snapshot);
    const bool in_batch = random.below(2) == 0;
    Model changed = model;
    const std::size_t count = random.below(6);
    for (std::size_t i = 0; i < count; i++) {
        const std::string key = random.key();
        const std::string value = random.value();
        if (random.below(3) == 0) {
            in_batch ? static_cast<void>(batch.erase(tree, key)) : static_cast<void>(txn.erase(tree, key));
            changed.erase(key);
        } else {
            in_batch ? static_cast<void>(batch.put(tree, key, value))
                     : static_cast<void>(txn.put(tree, key, value));
            changed[key] = value;
        }
        EXPECT(batch.len() == (in_batch ? i + 1 : 0));
    }
    if (!in_batch) {
        const std::string key = random.key();
        EXPECT(txn.get(tree, key) == look(changed, key));
        EXPECT(txn.contains(tree, key) == (changed.count(key) == 1));
        const Bounds bounds(random);
        read_range(txn.scan(tree, bounds.range), bounds.of(changed), false);
    }
    if (random.below(4) == 0) {
        if (!in_batch) txn.abort();
        return;
    }
    in_batch ? batch.commit() : txn.commit();
    EXPECT(batch.len() == 0);
    model = changed;
}

everleaf::Options small() {
    everleaf::Options options;
    options.interval(std::chrono::milliseconds(2)).memory(2 << 20).page_bytes(1024);
    return options;
}

void operate(const std::string &path, std::uint64_t operations, Random &random) {
    Model model, then;
    std::optional<everleaf::Db> db(everleaf::Db::open(path, small()));
    std::optional<everleaf::Tree> tree(db->create_tree("pairs"));
    std::unique_ptr<everleaf::Snapshot> snapshot;
    for (std::uint64_t i = 0; i < operations; i++) {
        switch (random.below(16)) {
        case 0:
        case 1:
        case 2:
        case 3: remove_some(*tree, model, random); break;
        case 4:
        case 5: read_one(*tree, model, random); break;
        case 6: change_together(*db, *tree, model, random); break;
        case 7: step_about(*tree, model, random); break;
        case 8:
            if (random.below(8) == 0) read_ranges(*tree, model, random);
            break;
        default: write_one(*tree, model, random);
        }
        if (i % 500 == 100) {
            snapshot = std::make_unique<everleaf::Snapshot>(db->snapshot());
            then = model;
        }
        if (i % 500 == 200) {
            read_one(snapshot->of(*tree), then, random);
            read_ranges(*snapshot->tree("pairs"), then, random);
            snapshot.reset();
        }
        if (i % 1000 == 999) {
            EXPECT(db->check().empty());
            // The old handles stay, and are replaced.
            db->close();
            EXPECT(is_closed([&] { static_cast<void>(tree->len()); }));
            db.emplace(everleaf::Db::open(path, small()));
            tree.emplace(*db->open_tree("pairs"));
        }
    }
    read_range(tree->scan(), std::vector<everleaf::Pair>(model.begin(), model.end()), false);
}

/** A write that was asked to be on disk is there after a crash, and with it all that came before. */
void durable(const std::string &folder) {
    using everleaf::Durability;
    using Write = std::function<void(const everleaf::Db &, everleaf::Tree &)>;
    const std::pair<bool, Write> writes[] = {
        {false, [](const everleaf::Db &, everleaf::Tree &tree) { tree.put("k", "v"); }},
        {true, [](const everleaf::Db &, everleaf::Tree &tree) { tree.with(Durability::sync).put("k", "v"); }},
        {false, [](const everleaf::Db &, everleaf::Tree &tree) { tree.with(Durability::buffered).put("k", "v"); }},
        {true, [](const everleaf::Db &db, everleaf::Tree &tree) { db.batch(Durability::sync).put(tree, "k", "v").commit(); }},
        {false, [](const everleaf::Db &db, everleaf::Tree &tree) { db.batch().put(tree, "k", "v").commit(); }},
        {true, [](const everleaf::Db &db, everleaf::Tree &tree) {
             db.transaction(everleaf::Isolation::serializable, Durability::sync).put(tree, "k", "v").commit();
         }},
        {false, [](const everleaf::Db &db, everleaf::Tree &tree) { db.transaction().put(tree, "k", "v").commit(); }},
    };
    everleaf::Options options;
    options.background(false);
    int number = 0;
    for (const auto &[is_durable, write] : writes) {
        const std::string path = folder + "/durable" + std::to_string(number++);
        everleaf::Db db = everleaf::Db::open(path, options);
        everleaf::Tree tree = db.create_tree("tree");
        db.sync();
        write(db, tree);
        EXPECT(tree.get("k") == "v");
        db.abandon();
        EXPECT(everleaf::Db::open(path).open_tree("tree")->contains("k") == is_durable);
    }
}

void pools(const std::string &folder) {
    const everleaf::Db db = everleaf::Db::open_in_memory(small());
    everleaf::Tree tree = db.create_tree("one");
    tree.put("key", "value");
    const std::uint64_t epoch = db.epoch();
    db.wait_durable(epoch);
    EXPECT(db.wait_durable(epoch, std::chrono::seconds(0)));
    EXPECT(db.durable_epoch() >= epoch);
    const auto ended = db.end_epoch();
    EXPECT(ended >= epoch);
    db.wait_durable(ended);
    EXPECT(db.pending_bytes() < (1u << 30));
    tree.with(everleaf::Durability::sync).put("other", "value");
    db.sync();
    db.checkpoint();
    const auto [before, after] = db.compact();
    EXPECT(after <= before && after > 0);
    EXPECT(db.rename_tree("one", "two") && !db.rename_tree("one", "two"));
    EXPECT(tree.name() == "one" && tree.len() == 2);
    EXPECT(!db.open_tree("one"));
    static_cast<void>(db.create_tree("three"));
    EXPECT(db.tree_names() == std::vector<std::string>{"three", "two"});
    const everleaf::Snapshot snapshot = db.snapshot();
    EXPECT(db.drop_tree("three") && !db.drop_tree("three"));
    EXPECT(snapshot.tree_names().size() == 2 && db.tree_names().size() == 1);
    EXPECT(!snapshot.tree("one") && snapshot.tree("three")->len() == 0);
    EXPECT(db.stats().page_bytes == 1024 && db.stats().snapshots == 1);
    EXPECT(db.backup(folder + "/copy") > 0);
    EXPECT(everleaf::Db::open(folder + "/copy").open_tree("two")->get("key") == "value");
    everleaf::Db lost = everleaf::Db::open(folder + "/lost", everleaf::Options().background(false));
    static_cast<void>(lost.create_tree("none"));
    lost.abandon();
    EXPECT(everleaf::Db::open(folder + "/lost").tree_names().empty());
    durable(folder);
    EXPECT(everleaf::Db::open_in_memory().tree_names().empty());
    EXPECT(everleaf::version() == std::string_view(everleaf_version()));
}

void options() {
    everleaf::Options all;
    all.interval(std::chrono::seconds(-1)).durability(everleaf::Durability::sync).journal_bytes(1 << 20);
    all.pending_bytes(1 << 20).max_bytes(1 << 24).create(true).read_only(false).background(true);
    all.manual_epochs(false);
    all.storage(everleaf::Storage::file).compression(everleaf::Compression::lz4);
    all.snapshot_memory(1 << 20).transaction_memory(1 << 16).memory(1 << 20);
    const everleaf::Db db = everleaf::Db::open_in_memory(all);
    const everleaf::Budget budget(1 << 20);
    const everleaf::Db shared = everleaf::Db::open_in_memory(everleaf::Options().budget(budget));
    EXPECT(budget.pools() == 1 && budget.bytes() == 1 << 20 && budget.used() < budget.bytes());
    const everleaf::Tree tree = db.create_tree("tree");
    everleaf::Batch batch = db.batch(everleaf::Durability::buffered);
    EXPECT(fails(EVERLEAF_TRANSACTION_TOO_LARGE, "", [&] { batch.put(tree, "k", std::string(1 << 17, 'v')); }));
    EXPECT(fails(EVERLEAF_INVALID_OPTION, "", [] { everleaf::Db::open_in_memory(everleaf::Options().page_bytes(1000)); }));
}

void conflicts() {
    const everleaf::Db db = everleaf::Db::open_in_memory();
    everleaf::Tree tree = db.create_tree("accounts");
    const std::string key("a\0b", 3);
    everleaf::Transaction txn = db.transaction();
    EXPECT(!txn.get(tree, key));
    tree.put(key, "1");
    txn.put(tree, "else", "2");
    try {
        txn.commit();
        wrong(__LINE__, "a conflict");
    } catch (const everleaf::Conflict &conflict) {
        EXPECT(conflict.code() == EVERLEAF_CONFLICT && conflict.tree() == "accounts");
        EXPECT(conflict.key() == key && conflict.error_number() == 0);
        EXPECT(std::string_view(conflict.code_name()) == "EVERLEAF_CONFLICT");
    }
    EXPECT(is_invalid([&] { txn.commit(); }));
    // A key that was only read may change, if that was asked for; one that is written may not.
    everleaf::Transaction reader = db.transaction(everleaf::Isolation::snapshot);
    everleaf::Transaction writer = db.transaction(everleaf::Isolation::snapshot);
    EXPECT(reader.get(tree, key) == "1" && writer.get(tree, key) == "1");
    tree.put(key, "1");
    reader.put(tree, "else", "2").commit();
    EXPECT(fails(EVERLEAF_CONFLICT, "", [&] { writer.put(tree, key, "2").commit(); }));
    int calls = 0;
    const auto add = [&](everleaf::Transaction &inside) {
        const std::string old = inside.get(tree, key).value_or("");
        if (calls++ < 3) tree.put(key, old + "x");
        inside.put(tree, key, old + "y");
    };
    db.transact(add);
    EXPECT(calls == 4 && tree.get(key) == "1xxxy");
    calls = 0;
    EXPECT(fails(EVERLEAF_CONFLICT, "", [&] { db.transact(add, 2); }));
    EXPECT(calls == 2);
    try {
        db.transact([&](everleaf::Transaction &inside) {
            inside.put(tree, "never", "");
            throw 5;
        });
        wrong(__LINE__, "an exception");
    } catch (int number) {
        EXPECT(number == 5 && !tree.contains("never"));
    }
}

void errors(const std::string &folder) {
    using everleaf::Db;
    try {
        static_cast<void>(Db::open(folder + "/none/pool"));
        wrong(__LINE__, "an error");
    } catch (const everleaf::Error &error) {
        EXPECT(error.code() == EVERLEAF_IO && error.error_number() == ENOENT);
    }
    const Db db = Db::open(folder + "/errors");
    EXPECT(fails(EVERLEAF_LOCKED, "", [&] { static_cast<void>(Db::open(folder + "/errors")); }));
    const std::string with_zero("a\0b", 3);
    EXPECT(is_invalid([&] { static_cast<void>(Db::open(folder + with_zero)); }));
    EXPECT(is_invalid([&] { static_cast<void>(db.create_tree(with_zero)); }));
    EXPECT(fails(EVERLEAF_TREE_NAME, "", [&] { static_cast<void>(db.create_tree("")); }));
    EXPECT(fails(EVERLEAF_TREE_NAME, "", [&] { static_cast<void>(db.create_tree({})); }));
    everleaf::Tree tree = db.create_tree("tree");
    EXPECT(fails(EVERLEAF_KEY_TOO_LONG, "", [&] { tree.put(std::string(65537, 'k'), ""); }));
    EXPECT(fails(EVERLEAF_READ_ONLY, "", [&] { db.snapshot().of(tree).put("k", "v"); }));
    everleaf::Writer writer = tree.writer("k", 2);
    writer.write("1");
    EXPECT(fails(EVERLEAF_READER_ENDED, "", [&] { writer.finish(); }));
    // A view without bytes is an empty key, an empty value, and a bound.
    tree.put({}, {});
    EXPECT(tree.get({}) == "" && tree.get("") == "");
    EXPECT(!tree.compare_and_swap({}, std::nullopt, "v").is_changed);
    EXPECT(tree.compare_and_swap({}, std::string_view(), "v").is_changed);
    tree.put("k", "w");
    EXPECT(tree.remove_range(Range().above({})) == 1 && tree.len() == 1);
    EXPECT(tree.remove_range(Range().to({})) == 0 && tree.len() == 1);
    EXPECT(fails(EVERLEAF_INVALID, "", [&] { tree.remove_range(Range().reverse()); }));
}

/** An object that was moved from refuses each call, and may be assigned to. */
void moves() {
    everleaf::Db db = everleaf::Db::open_in_memory();
    everleaf::Tree tree = db.create_tree("tree");
    for (int i = 0; i < 10; i++) tree.put(std::to_string(i), "value");
    everleaf::Batch batch = db.batch();
    everleaf::Cursor cursor = tree.cursor();
    everleaf::Scan scan = tree.scan();
    everleaf::Snapshot snapshot = db.snapshot();
    everleaf::Transaction txn = db.transaction();
    everleaf::Writer writer = tree.writer("w", 1);
    everleaf::Options options;
    EXPECT(scan.next()->first == "0" && cursor.first());

    everleaf::Scan other_scan = std::move(scan);
    const everleaf::Cursor other_cursor = std::move(cursor);
    const everleaf::Batch other_batch = std::move(batch);
    const everleaf::Snapshot other_snapshot = std::move(snapshot);
    const everleaf::Transaction other_txn = std::move(txn);
    const everleaf::Writer other_writer = std::move(writer);
    const everleaf::Options other_options = std::move(options);
    EXPECT(other_scan.next()->first == "1" && other_cursor.key() == "0");
    EXPECT(is_invalid([&] { scan.next(); }));
    EXPECT(is_invalid([&] { cursor.next(); }));
    EXPECT(is_invalid([&] { batch.put(tree, "k", "v"); }));
    EXPECT(is_invalid([&] { static_cast<void>(snapshot.of(tree)); }));
    EXPECT(is_invalid([&] { static_cast<void>(txn.get(tree, "k")); }));
    EXPECT(is_invalid([&] { writer.finish(); }));
    EXPECT(is_invalid([&] { options.memory(1); }));
    EXPECT(is_invalid([&] { static_cast<void>(everleaf::Db::open_in_memory(options)); }));
    const everleaf::Tree other_tree = std::move(tree);
    EXPECT(is_invalid([&] { tree.put("k", "v"); }));
    EXPECT(is_invalid([&] { static_cast<void>(tree.get("k")); }));
    EXPECT(is_invalid([&] { static_cast<void>(other_txn.get(tree, "k")); }));
    EXPECT(tree.handle() == nullptr && other_tree.handle() != nullptr);
    everleaf::Db other_db = std::move(db);
    EXPECT(is_invalid([&] { db.close(); }) && is_invalid([&] { db.sync(); }));

    tree = other_db.create_tree("tree");
    EXPECT(tree.len() == 10);
    db = everleaf::Db::open_in_memory();
    // The pool that it had is freed, and so closed.
    other_db = std::move(db);
    EXPECT(is_closed([&] { static_cast<void>(tree.len()); }));
    everleaf::Db &same = other_db;
    other_db = std::move(same);
    EXPECT(other_db.tree_names().empty());
}

/** After a close, with everything alive. */
void closes() {
    everleaf::Db db = everleaf::Db::open_in_memory();
    everleaf::Tree tree = db.create_tree("tree");
    tree.put("k", "v");
    everleaf::Batch batch = db.batch();
    batch.put(tree, "k", "v");
    everleaf::Cursor cursor = tree.cursor();
    everleaf::Scan scan = tree.scan();
    const everleaf::Snapshot snapshot = db.snapshot();
    everleaf::Transaction txn = db.transaction();
    static_cast<void>(txn.get(tree, "k"));
    db.close();
    db.close();
    EXPECT(is_closed([&] { tree.put("k", "v"); }));
    EXPECT(is_closed([&] { static_cast<void>(tree.get("k")); }));
    EXPECT(is_closed([&] { batch.commit(); }));
    EXPECT(is_closed([&] { cursor.first(); }));
    EXPECT(is_closed([&] { static_cast<void>(scan.begin()); }));
    EXPECT(is_closed([&] { static_cast<void>(snapshot.of(tree).len()); }));
    EXPECT(is_closed([&] { txn.commit(); }));
    EXPECT(is_closed([&] { db.sync(); }));
    EXPECT(is_closed([&] { static_cast<void>(db.create_tree("x")); }));
}

template <typename T>
constexpr bool is_owner = std::is_nothrow_move_constructible_v<T> && std::is_nothrow_move_assignable_v<T> &&
                          !std::is_copy_constructible_v<T> && !std::is_copy_assignable_v<T>;
static_assert(is_owner<everleaf::Db> && is_owner<everleaf::Tree> && is_owner<everleaf::Batch>);
static_assert(is_owner<everleaf::Cursor> && is_owner<everleaf::Snapshot> && is_owner<everleaf::Writer>);
static_assert(is_owner<everleaf::Scan> && is_owner<everleaf::Transaction> && is_owner<everleaf::Options>);

} // namespace

int main(int argc, char **argv) {
    if (argc != 4) {
        std::fprintf(stderr, "usage: %s FOLDER OPERATIONS SEED\n", argv[0]);
        return 2;
    }
    const std::string folder = argv[1];
    Random random{std::mt19937_64(std::strtoull(argv[3], nullptr, 10))};
    try {
        pools(folder);
        options();
        conflicts();
        errors(folder);
        moves();
        closes();
        operate(folder + "/pool", std::strtoull(argv[2], nullptr, 10), random);
    } catch (const everleaf::Error &error) {
        std::fprintf(stderr, "%s: %s\n", error.code_name(), error.what());
        return 1;
    }
    std::printf("%s operations\n", argv[2]);
    return 0;
}
