// FOLDER: the two trees of leaves.hpp under the crash checker: one is sound, and one has an order that a power cut finds out.
//
//     c++ -std=c++17 -DEL_RECORD check_leaves.cpp -leverleaf_index
#include "leaves.hpp"

#include <cstdio>

template <bool Careful> struct functions {
    using tree = leaves<Careful>;
    static void *open(void *area, size_t bytes) { return new tree(area, bytes); }
    static void close(void *it) { delete static_cast<tree *>(it); }
    static void put(void *it, uint64_t key, uint64_t value) { static_cast<tree *>(it)->put(key, value); }
    static void remove(void *it, uint64_t key) { static_cast<tree *>(it)->remove(key); }
    static int get(void *it, uint64_t key, uint64_t *value) {
        const uint64_t *found = static_cast<tree *>(it)->find(key);
        if (found != nullptr) *value = *found;
        return found != nullptr;
    }
};

template <bool Careful> int check(const char *name) {
    using the = functions<Careful>;
    const everleaf_index_tree tree = {the::open, the::close, the::put, the::remove, the::get};
    // Each path: an insert, splits, a new value, a removal, the greatest and the smallest key.
    const everleaf_index_operation operations[] = {
        {0, 50, 1}, {0, 20, 2}, {0, 70, 3}, {0, UINT64_MAX, 4}, {0, 60, 5}, {0, 50, 6},
        {1, 20, 0}, {0, 0, 7},  {0, 10, 8}, {0, 30, 9},         {1, 60, 0}, {0, 65, 1},
    };
    const size_t count = sizeof operations / sizeof *operations;
    everleaf_index_verdict verdict;
    const int code = everleaf_index_check(&tree, operations, count, 2048, &verdict, sizeof verdict);
    if (code != EVERLEAF_INDEX_OK) {
        std::printf("%s: %s\n%s\n", name, everleaf_index_code_name(code), everleaf_index_last_message());
        return code;
    }
    const auto number = [](uint64_t figure) { return static_cast<unsigned long long>(figure); };
    std::printf("%s: sound in %llu images, %llu of them of recovery, at %llu moments, of which %llu had all of theirs; "
                "%llu stores, %llu flushes, %llu fences\n",
                name, number(verdict.images), number(verdict.in_recovery), number(verdict.crash_points),
                number(verdict.exhaustive_points), number(verdict.stores), number(verdict.flushes),
                number(verdict.fences));
    return code;
}

int main() {
    const bool is_sound = check<true>("careful") == EVERLEAF_INDEX_OK;
    const bool is_found = check<false>("careless") == EVERLEAF_INDEX_UNSOUND;
    return is_sound && is_found ? 0 : 1;
}
