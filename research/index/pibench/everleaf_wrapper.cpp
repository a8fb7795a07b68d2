// Every tree of everleaf_index as a tree of PiBench. README.md says how to build it, and which variables of the environment
// choose the tree. Keys and values are 8 bytes; keys ascend as numbers of the machine.

#include "everleaf_index.h"
#include "tree_api.hpp"

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <utility>
#include <vector>

namespace {

// An error is no answer: the program ends with its sentence.
[[noreturn]] void fail(const char *what) {
    throw std::runtime_error(std::string(what) + ": " + everleaf_index_last_message());
}

uint64_t word(const char *bytes, size_t size, const char *what) {
    uint64_t word;
    if (bytes == nullptr || size != sizeof word)
        throw std::invalid_argument(std::string(what) + " has 8 bytes");
    std::memcpy(&word, bytes, sizeof word);
    return word;
}

// Whether an operation has found what it was to change; `otherwise` is the answer that says no.
bool done(int code, int otherwise, const char *what) {
    if (code == EVERLEAF_INDEX_OK) return true;
    if (code == otherwise) return false;
    fail(what);
}

class tree final : public tree_api {
public:
    explicit tree(everleaf_index *opened) : index(opened) {}
    tree(const tree &) = delete;
    tree &operator=(const tree &) = delete;
    ~tree() override { everleaf_index_free(index); }

    bool find(const char *key, size_t key_size, char *value_out) override {
        uint64_t value;
        if (!done(everleaf_index_get(index, word(key, key_size, "a key"), &value),
                  EVERLEAF_INDEX_NOT_FOUND, "find"))
            return false;
        std::memcpy(value_out, &value, sizeof value);
        return true;
    }

    bool insert(const char *key, size_t key_size, const char *value, size_t value_size) override {
        return done(everleaf_index_insert(index, word(key, key_size, "a key"),
                                          word(value, value_size, "a value")),
                    EVERLEAF_INDEX_EXISTS, "insert");
    }

    bool update(const char *key, size_t key_size, const char *value, size_t value_size) override {
        return done(everleaf_index_update(index, word(key, key_size, "a key"),
                                          word(value, value_size, "a value")),
                    EVERLEAF_INDEX_NOT_FOUND, "update");
    }

    bool remove(const char *key, size_t key_size) override {
        return done(everleaf_index_remove(index, word(key, key_size, "a key"), nullptr),
                    EVERLEAF_INDEX_NOT_FOUND, "remove");
    }

    int scan(const char *key, size_t key_size, int count, char *&records_out) override {
        thread_local std::vector<uint64_t> keys, values;
        thread_local std::vector<std::pair<uint64_t, uint64_t>> records;
        size_t found = 0, wanted = count > 0 ? static_cast<size_t>(count) : 0;
        keys.resize(wanted);
        values.resize(wanted);
        if (everleaf_index_scan(index, word(key, key_size, "a key"), wanted, keys.data(),
                                values.data(), &found) != EVERLEAF_INDEX_OK)
            fail("scan");
        records.resize(found);
        for (size_t i = 0; i < found; i++) records[i] = {keys[i], values[i]};
        records_out = reinterpret_cast<char *>(records.data());
        return static_cast<int>(found);
    }

private:
    everleaf_index *index;
};

const char *variable(const char *name, const char *otherwise) {
    const char *text = std::getenv(name);
    return text != nullptr && *text != 0 ? text : otherwise;
}

// The number that a name stands for.
template <size_t N>
uint32_t chosen(const char *variable_name, const std::pair<const char *, uint32_t> (&names)[N]) {
    const std::string name = variable(variable_name, names[0].first);
    std::string all;
    for (const auto &[known, number] : names) {
        if (name == known) return number;
        all += all.empty() ? known : std::string(", ") + known;
    }
    throw std::invalid_argument(std::string(variable_name) + " is " + name + ": " + all);
}

uint64_t number(const char *name, uint64_t otherwise) {
    const char *text = variable(name, nullptr);
    if (text == nullptr) return otherwise;
    char *end;
    const uint64_t number = std::strtoull(text, &end, 10);
    if (*end != 0) throw std::invalid_argument(std::string(name) + " is no number: " + text);
    return number;
}

const std::pair<const char *, uint32_t> media[] = {
    {"dram", EVERLEAF_INDEX_DRAM},
    {"counted", EVERLEAF_INDEX_COUNTED},
    {"emulated-dax", EVERLEAF_INDEX_EMULATED_DAX},
    {"dax", EVERLEAF_INDEX_DAX},
    {"file", EVERLEAF_INDEX_FILE},
};

const std::pair<const char *, uint32_t> ways_of_reading[] = {
    {"optimistic", EVERLEAF_INDEX_OPTIMISTIC},
    {"lock-free", EVERLEAF_INDEX_LOCK_FREE},
    {"latched", EVERLEAF_INDEX_LATCHED},
};

// Bytes of a pool for each key, if a size of the pool is all that was said.
constexpr size_t bytes_of_key = 48;

} // namespace

extern "C" tree_api *create_tree(const tree_options_t &asked) {
    if (asked.key_size != 8 || asked.value_size != 8)
        throw std::invalid_argument("keys and values have 8 bytes: --key_size 8 --value_size 8");
    everleaf_index_options options;
    if (everleaf_index_options_init(&options, sizeof options) != EVERLEAF_INDEX_OK) fail("options");
    options.medium = chosen("EVERLEAF_INDEX_MEDIUM", media);
    options.reading = chosen("EVERLEAF_INDEX_READING", ways_of_reading);
    options.keys = number("EVERLEAF_INDEX_KEYS",
                          asked.pool_size > 0 ? asked.pool_size / bytes_of_key + 1 : 10000000);
    options.epoch_us = number("EVERLEAF_INDEX_EPOCH_US", options.epoch_us);
    options.slots = static_cast<uint32_t>(number("EVERLEAF_INDEX_SLOTS", options.slots));
    options.threads = static_cast<uint32_t>(asked.num_threads);
    if (options.medium != EVERLEAF_INDEX_DRAM && options.medium != EVERLEAF_INDEX_COUNTED)
        options.path = asked.pool_path.c_str();
    everleaf_index *index;
    if (everleaf_index_open(variable("EVERLEAF_INDEX_TREE", "CircTree"), &options, &index) !=
        EVERLEAF_INDEX_OK)
        fail("create_tree");
    return new tree(index);
}
