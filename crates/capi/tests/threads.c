/* threads FOLDER: a pool, its trees and a snapshot are used by several threads at once; all else each has for itself. */
#define _POSIX_C_SOURCE 200809L
#include "check.h"

#include <pthread.h>

#define THREADS 4
#define EACH 3000

static everleaf_db *db;
static everleaf_tree *tree;
static everleaf_snapshot *snapshot;

static void number(uint32_t n, unsigned char key[4]) {
    key[0] = (unsigned char)(n >> 24), key[1] = (unsigned char)(n >> 16);
    key[2] = (unsigned char)(n >> 8), key[3] = (unsigned char)n;
}

static void *work(void *which) {
    uint32_t own = (uint32_t)(size_t)which, i;
    everleaf_cursor *cursor;
    everleaf_batch *batch;
    everleaf_tree *then;
    unsigned char key[4];
    uint64_t pairs;
    DO(everleaf_cursor_new(tree, &cursor));
    DO(everleaf_batch_new(db, EVERLEAF_AS_OPENED, &batch));
    for (i = 0; i < EACH; i++) {
        number(i * THREADS + own, key);
        if (i % 3) {
            DO(everleaf_put(tree, key, 4, key, 4));
        } else {
            DO(everleaf_batch_put(batch, tree, key, 4, key, 4));
            DO(everleaf_batch_commit(batch));
        }
        EXPECT(everleaf_contains(tree, key, 4) == 0 && everleaf_cursor_seek(cursor, key, 4) == 0);
        if (i % 500 == 0) {
            DO(everleaf_snapshot_tree(snapshot, "t", &then));
            DO(everleaf_tree_len(then, &pairs));
            EXPECT(pairs == 0);
            everleaf_tree_free(then);
            /* Each thread has failures of its own. */
            FAILS(EVERLEAF_KEY_TOO_LONG, "", everleaf_put(tree, tree, 100000 + own, NULL, 0));
            number(100000 + own, key);
            EXPECT(strstr(everleaf_last_message(), own == 0 ? "100,000" : own == 1 ? "100,001" : "100,00"));
        }
    }
    everleaf_cursor_free(cursor);
    everleaf_batch_free(batch);
    return NULL;
}

/* Writes until the pool is closed under it. */
static void *until_closed(void *unused) {
    uint32_t i = 0;
    int code;
    unsigned char key[4];
    (void)unused;
    do {
        number(i++, key);
        code = everleaf_put(tree, key, 4, key, 4);
    } while (code == 0);
    EXPECT(code == EVERLEAF_CLOSED);
    return NULL;
}

static void on_all(void *(*run)(void *), int closes) {
    pthread_t threads[THREADS];
    size_t i;
    for (i = 0; i < THREADS; i++) EXPECT(pthread_create(&threads[i], NULL, run, (void *)i) == 0);
    if (closes) DO(everleaf_close(db));
    for (i = 0; i < THREADS; i++) EXPECT(pthread_join(threads[i], NULL) == 0);
}

int main(int argc, char **argv) {
    uint64_t pairs;
    EXPECT(argc == 2);
    DO(everleaf_open(in_folder(argv[1], "threads.ever"), NULL, &db));
    DO(everleaf_tree_create(db, "t", &tree));
    DO(everleaf_snapshot_new(db, &snapshot));
    on_all(work, 0);
    DO(everleaf_tree_len(tree, &pairs));
    EXPECT(pairs == THREADS * EACH);
    everleaf_snapshot_free(snapshot);
    on_all(until_closed, 1);
    everleaf_tree_free(tree);
    everleaf_db_free(db);
    return 0;
}
