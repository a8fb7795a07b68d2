/*
 * Operations of C that ci/instructions.sh counts, beside crates/everleaf/examples/instructions.rs, which writes the keys:
 * POOL KEYS. Each kind of operation is in a function of its own, which callgrind knows by name.
 */
#include "everleaf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEY = 8, FILL = 40000, OPERATIONS = 10000 };

static unsigned char keys[FILL + 2 * OPERATIONS][KEY];

int c_put(everleaf_tree *tree, unsigned char (*at)[KEY]);
int c_get(everleaf_tree *tree, unsigned char (*at)[KEY]);
int c_next(everleaf_cursor *cursor);

static void must(int code) {
    if (code != EVERLEAF_OK) {
        fprintf(stderr, "%d: %s\n", code, everleaf_last_message());
        exit(1);
    }
}

__attribute__((noinline, noclone)) int c_put(everleaf_tree *tree, unsigned char (*at)[KEY]) {
    int failed = 0;
    for (int i = 0; i < OPERATIONS; i++) failed |= everleaf_put(tree, at[i], KEY, at[i], KEY);
    return failed;
}

__attribute__((noinline, noclone)) int c_get(everleaf_tree *tree, unsigned char (*at)[KEY]) {
    unsigned char value[100];
    size_t len;
    int failed = 0;
    for (int i = 0; i < OPERATIONS; i++) {
        failed |= everleaf_get(tree, at[i], KEY, value, sizeof value, &len);
    }
    return failed;
}

/* A step, and a look at the pair: two calls. */
__attribute__((noinline, noclone)) int c_next(everleaf_cursor *cursor) {
    const void *key, *value;
    size_t key_len, value_len;
    int failed = 0;
    for (int i = 0; i < OPERATIONS; i++) {
        failed |= everleaf_cursor_next(cursor);
        failed |= everleaf_cursor_pair(cursor, &key, &key_len, &value, &value_len);
    }
    return failed;
}

int main(int argc, char **argv) {
    everleaf_options *options = everleaf_options_new();
    everleaf_db *db;
    everleaf_tree *tree;
    everleaf_cursor *cursor;
    if (argc != 3) return 2;
    FILE *file = fopen(argv[2], "rb");
    if (file == NULL || fread(keys, sizeof keys, 1, file) != 1) return 1;
    fclose(file);
    must(everleaf_options_background(options, 0));
    must(everleaf_open(argv[1], options, &db));
    must(everleaf_tree_create(db, "t", &tree));
    for (int i = 0; i < FILL; i++) must(everleaf_put(tree, keys[i], KEY, keys[i], KEY));
    must(everleaf_sync(db));
    must(c_put(tree, keys + FILL));
    must(everleaf_sync(db));
    must(c_get(tree, keys + FILL + OPERATIONS));
    must(everleaf_cursor_new(tree, &cursor));
    must(c_next(cursor));
    must(everleaf_close(db));
    everleaf_cursor_free(cursor);
    everleaf_tree_free(tree);
    everleaf_db_free(db);
    everleaf_options_free(options);
    printf("operations %d\n", OPERATIONS);
    return 0;
}
