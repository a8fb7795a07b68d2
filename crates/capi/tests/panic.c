/* panic FOLDER: a defect in the library, which the feature test-panic makes, ends no program. */
#include "check.h"

extern void everleaf_test_panic_in(const char *name);

int main(int argc, char **argv) {
    everleaf_db *db;
    everleaf_tree *tree;
    char buf[4];
    EXPECT(argc == 2);
    DO(everleaf_open(in_folder(argv[1], "panic.ever"), NULL, &db));
    DO(everleaf_tree_create(db, "t", &tree));
    DO(everleaf_put(tree, "k", 1, "v", 1));
    DO(everleaf_sync(db));
    everleaf_test_panic_in("everleaf_put");
    FAILS(EVERLEAF_PANIC, "everleaf_put met a defect", everleaf_put(tree, "lost", 4, "v", 1));
    FAILS(EVERLEAF_POISONED, "a call of the C library met a defect", everleaf_put(tree, "lost", 4, "v", 1));
    FAILS(EVERLEAF_POISONED, "a call of the C library met a defect", everleaf_sync(db));
    DO(everleaf_get(tree, "k", 1, buf, sizeof buf, NULL));
    EXPECT(everleaf_close(db) == EVERLEAF_POISONED);
    everleaf_tree_free(tree);
    everleaf_db_free(db);
    DO(everleaf_open(in_folder(argv[1], "panic.ever"), NULL, &db));
    DO(everleaf_tree_create(db, "t", &tree));
    DO(everleaf_contains(tree, "k", 1));
    EXPECT(everleaf_contains(tree, "lost", 4) == EVERLEAF_NOT_FOUND);
    everleaf_tree_free(tree);
    everleaf_db_free(db);
    return 0;
}
