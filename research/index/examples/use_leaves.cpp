// The tree of leaves.hpp as a program has it, without the checker: in memory, or in whatever is mapped.
//
//     c++ -std=c++17 -O2 use_leaves.cpp              lines are flushed by clflushopt, with -mclwb by clwb
//     c++ -std=c++17 -O2 -DEL_VOLATILE use_leaves.cpp    nothing is flushed
#include "leaves.hpp"

#include <cstdio>
#include <cstdlib>

int main() {
    const size_t bytes = 1 << 17;
    void *area = std::aligned_alloc(64, bytes);
    if (area == nullptr) return 1;
    for (size_t i = 0; i < bytes / 8; i++) static_cast<uint64_t *>(area)[i] = 0;
    leaves<true> tree(area, bytes);
    for (uint64_t key = 0; key < 1000; key++)
        if (!tree.put(key * 7919 % 1000, key)) return 1;
    size_t count = 0;
    for (uint64_t key = 0; key < 1000; key++) count += tree.find(key) != nullptr;
    std::printf("%zu keys\n", count);
    std::free(area);
}
