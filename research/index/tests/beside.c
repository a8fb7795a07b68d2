/* FOLDER: what the check says of trees that are none. */
#define EL_RECORD
#include "everleaf_recorder.h"

#include "check.h"

static uint64_t *area;
static uint64_t elsewhere[8];
static int how;

static void *open_area(void *memory, size_t bytes) {
    area = memory;
    EXPECT(bytes >= 1000 && (uintptr_t)memory % 64 == 0);
    return how == 1 ? NULL : memory;
}

static void put(void *tree, uint64_t key, uint64_t value) {
    (void)tree;
    switch (how) {
    case 2:
        area[key] = value;
        break;
    case 3:
        EL_STORE(&elsewhere[1], value);
        break;
    case 4:
        EL_STORE((char *)area + 4, value);
        break;
    case 5:
        EL_FLUSH(elsewhere);
        break;
    case 6:
        EL_STORE(&area[key], 1);
        EL_FLUSH(&area[key]);
        EL_FENCE();
        break;
    default:
        EL_STORE(&area[key], value);
        EL_FLUSH(&area[key]);
        EL_FENCE();
    }
}

static void removes(void *tree, uint64_t key) { put(tree, key, 0); }

static int get(void *tree, uint64_t key, uint64_t *value) {
    (void)tree;
    *value = area[key];
    return area[key] != 0;
}

int main(void) {
    everleaf_index_tree tree = {open_area, NULL, put, removes, get};
    everleaf_index_operation operations[] = {{0, 1, 2}, {0, 3, 4}, {1, 1, 0}};
    everleaf_index_verdict verdict;
    const char *told[] = {"", "NULL", "byte 8 of the area was changed without EL_STORE",
                          "EL_STORE outside of the area", "not aligned", "EL_FLUSH outside",
                          "without a crash, after operation 0, Put(1, 2): found {1: 1}"};
    for (how = 1; how < 7; how++)
        FAILS(EVERLEAF_INDEX_UNSOUND, told[how],
              everleaf_index_check(&tree, operations, 3, 1000, NULL, 0));
    how = 0;
    DO(everleaf_index_check(&tree, operations, 3, 1000, &verdict, sizeof verdict));
    EXPECT(verdict.stores == 3 && verdict.flushes == 3 && verdict.fences == 3);
    EXPECT(verdict.images > 3 && verdict.crash_points == verdict.exhaustive_points);
    DO(everleaf_index_check(&tree, NULL, 0, 0, NULL, 0));
    FAILS(EVERLEAF_INDEX_INVALID, "bytes",
          everleaf_index_check(&tree, operations, 3, 1000, &verdict, 8));
    FAILS(EVERLEAF_INDEX_INVALID, "NULL", everleaf_index_check(&tree, NULL, 3, 1000, NULL, 0));
    FAILS(EVERLEAF_INDEX_INVALID, "NULL", everleaf_index_check(NULL, operations, 3, 1000, NULL, 0));
    FAILS(EVERLEAF_INDEX_INVALID, "64 MiB",
          everleaf_index_check(&tree, operations, 3, (size_t)1 << 40, NULL, 0));
    tree.get = NULL;
    FAILS(EVERLEAF_INDEX_INVALID, "NULL",
          everleaf_index_check(&tree, operations, 3, 1000, NULL, 0));
    /* Outside of a check the macros store, and nothing else. */
    EL_STORE(&elsewhere[2], 9);
    EL_FLUSH(&elsewhere[2]);
    EL_FENCE();
    EXPECT(elsewhere[2] == 9);
    return 0;
}
