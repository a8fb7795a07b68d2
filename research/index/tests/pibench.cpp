// FOLDER COUNT SEED: the calls that PiBench makes, of every tree that the wrapper can make, beside std::map: keys 0 and
// UINT64_MAX, values that repeat, scans over keys that were removed, and threads.

#include "../pibench/everleaf_wrapper.cpp"

#include <cstdio>
#include <map>
#include <memory>
#include <random>
#include <thread>

#define EXPECT(condition)                                                                      \
    do {                                                                                       \
        if (!(condition)) {                                                                    \
            std::fprintf(stderr, "%s:%d: %s: not so: %s\n", __FILE__, __LINE__, what.c_str(), \
                         #condition);                                                          \
            std::exit(1);                                                                      \
        }                                                                                      \
    } while (0)

namespace {

std::string what;
using map = std::map<uint64_t, uint64_t>;

const char *bytes(const uint64_t &word) { return reinterpret_cast<const char *>(&word); }

bool insert(tree_api &tree, uint64_t key, uint64_t value) {
    return tree.insert(bytes(key), 8, bytes(value), 8);
}

bool update(tree_api &tree, uint64_t key, uint64_t value) {
    return tree.update(bytes(key), 8, bytes(value), 8);
}

bool remove(tree_api &tree, uint64_t key) { return tree.remove(bytes(key), 8); }

void find(tree_api &tree, const map &model, uint64_t key) {
    uint64_t value = 99;
    const auto known = model.find(key);
    const bool is_there = tree.find(bytes(key), 8, reinterpret_cast<char *>(&value));
    EXPECT(is_there == (known != model.end()));
    EXPECT(value == (is_there ? known->second : 99));
}

void scan(tree_api &tree, const map &model, uint64_t from, int count) {
    char *records = nullptr;
    const int found = tree.scan(bytes(from), 8, count, records);
    auto known = model.lower_bound(from);
    for (int i = 0; i < found; i++, ++known) {
        uint64_t pair[2];
        std::memcpy(pair, records + 16 * i, sizeof pair);
        EXPECT(known != model.end() && pair[0] == known->first && pair[1] == known->second);
    }
    EXPECT(found == count || known == model.end());
}

// The greatest keys, the smallest, and one value for many keys.
void edges(tree_api &tree, map &model) {
    for (const uint64_t key : {uint64_t(0), UINT64_MAX, UINT64_MAX - 1, uint64_t(1)}) {
        EXPECT(!update(tree, key, 7) && !remove(tree, key));
        EXPECT(insert(tree, key, 0) && !insert(tree, key, 8));
        model[key] = 0;
        find(tree, model, key);
        EXPECT(update(tree, key, UINT64_MAX));
        model[key] = UINT64_MAX;
        scan(tree, model, 0, 10);
        scan(tree, model, UINT64_MAX, 10);
    }
    EXPECT(remove(tree, 0) && !remove(tree, 0));
    model.erase(0);
    scan(tree, model, 0, 10);
    EXPECT(insert(tree, 0, 5));
    model[0] = 5;
    for (uint64_t key = 1000; key < 2000; key++) {
        EXPECT(insert(tree, key, 3));
        model[key] = 3;
    }
    // Leaves that are empty, or almost.
    for (uint64_t key = 1100; key < 1900; key++) {
        if (key % 100 == 7) continue;
        EXPECT(remove(tree, key));
        model.erase(key);
    }
    scan(tree, model, 1050, 100);
    scan(tree, model, 1100, 1);
    scan(tree, model, 1500, 0);
    scan(tree, model, 0, 5000);
}

void at_random(tree_api &tree, map &model, unsigned long count, std::mt19937_64 &random) {
    for (unsigned long i = 0; i < count; i++) {
        const uint64_t key = random() % 4000 * 0x0004000000000001u, value = random() % 20;
        const bool is_there = model.count(key) > 0;
        switch (random() % 8) {
        case 0:
        case 1:
        case 2:
            EXPECT(insert(tree, key, value) == !is_there);
            model.emplace(key, value);
            break;
        case 3:
            EXPECT(update(tree, key, value) == is_there);
            if (is_there) model[key] = value;
            break;
        case 4:
            EXPECT(remove(tree, key) == is_there);
            model.erase(key);
            break;
        case 5:
            scan(tree, model, key, static_cast<int>(random() % 200));
            break;
        default:
            find(tree, model, key);
        }
    }
    scan(tree, model, 0, 10000);
}

// Each thread has keys of its own, above those of the rest.
void threads(tree_api &tree, unsigned long count) {
    const auto work = [&](uint64_t number) {
        map own;
        std::mt19937_64 random(number);
        const uint64_t base = (uint64_t(1) << 63) + (number << 32);
        for (unsigned long i = 0; i < count; i++) {
            const uint64_t key = base + random() % 1000;
            const bool is_there = own.count(key) > 0;
            if (random() % 2 == 0) {
                EXPECT(insert(tree, key, i) == !is_there);
                own.emplace(key, i);
            } else {
                EXPECT(remove(tree, key) == is_there);
                own.erase(key);
            }
            find(tree, own, key);
        }
    };
    std::vector<std::thread> all;
    for (uint64_t number = 0; number < 3; number++) all.emplace_back(work, number);
    for (auto &thread : all) thread.join();
}

void refuses_other_sizes() {
    tree_options_t options;
    options.key_size = 4;
    bool is_refused = false;
    try {
        create_tree(options);
    } catch (const std::invalid_argument &) {
        is_refused = true;
    }
    EXPECT(is_refused);
}

} // namespace

int main(int argc, char **argv) {
    if (argc != 4) return 2;
    const unsigned long count = std::strtoul(argv[2], nullptr, 10);
    std::mt19937_64 random(std::strtoul(argv[3], nullptr, 10));
    unsigned long runs = 0;
    refuses_other_sizes();
    setenv("EVERLEAF_INDEX_KEYS", "30000", 1);
    for (size_t at = 0; at < everleaf_index_count(); at++) {
        const char *name = everleaf_index_name(at);
        setenv("EVERLEAF_INDEX_TREE", name, 1);
        for (const auto &[medium, number] : media) {
            if (number == EVERLEAF_INDEX_DAX || !(everleaf_index_media(name) & number)) continue;
            setenv("EVERLEAF_INDEX_MEDIUM", medium, 1);
            what = std::string(name) + " on " + medium;
            tree_options_t options;
            options.pool_path = std::string(argv[1]) + "/" + name + "-" + medium;
            std::unique_ptr<tree_api> tree(create_tree(options));
            map model;
            edges(*tree, model);
            at_random(*tree, model, count, random);
            threads(*tree, count / 4);
            runs++;
        }
    }
    std::printf("%lu runs of %lu operations\n", runs, count);
}
