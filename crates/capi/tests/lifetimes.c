/* lifetimes FOLDER: closes, frees in any order, a pool that is open here and elsewhere, and forks. */
#define _POSIX_C_SOURCE 200809L
#include "check.h"

#include <sys/wait.h>
#include <unistd.h>

static const char *path;

/* A pool and all that can come from it. */
struct all {
    everleaf_db *db;
    everleaf_tree *tree, *then;
    everleaf_batch *batch;
    everleaf_cursor *cursor;
    everleaf_scan *scan, *txn_scan;
    everleaf_snapshot *snapshot;
    everleaf_txn *txn;
    everleaf_writer *writer;
};

static struct all make(void) {
    struct all all;
    char buf[100];
    size_t pairs;
    DO(everleaf_open(path, NULL, &all.db));
    DO(everleaf_tree_create(all.db, "t", &all.tree));
    DO(everleaf_put(all.tree, "k", 1, "v", 1));
    DO(everleaf_batch_new(all.db, 0, &all.batch));
    DO(everleaf_batch_put(all.batch, all.tree, "b", 1, "", 0));
    DO(everleaf_cursor_new(all.tree, &all.cursor));
    DO(everleaf_cursor_first(all.cursor));
    DO(everleaf_scan_new(all.tree, NULL, 0, NULL, 0, 0, &all.scan));
    DO(everleaf_scan_fill(all.scan, buf, sizeof buf, &pairs, NULL, NULL));
    DO(everleaf_snapshot_new(all.db, &all.snapshot));
    DO(everleaf_snapshot_tree(all.snapshot, "t", &all.then));
    DO(everleaf_txn_begin(all.db, 0, 0, &all.txn));
    DO(everleaf_txn_contains(all.txn, all.tree, "k", 1));
    DO(everleaf_txn_scan_new(all.txn, all.tree, NULL, 0, NULL, 0, 0, &all.txn_scan));
    DO(everleaf_writer_new(all.tree, "w", 1, 100, &all.writer));
    DO(everleaf_writer_write(all.writer, "1234", 4));
    return all;
}

static void free_group(struct all *all, int group) {
    switch (group) {
    case 0:
        everleaf_db_free(all->db);
        break;
    case 1:
        everleaf_tree_free(all->tree);
        everleaf_batch_free(all->batch);
        everleaf_writer_free(all->writer);
        break;
    case 2:
        everleaf_cursor_free(all->cursor);
        everleaf_scan_free(all->scan);
        everleaf_txn_free(all->txn);
        break;
    default:
        everleaf_snapshot_free(all->snapshot);
        everleaf_scan_free(all->txn_scan);
        everleaf_tree_free(all->then);
    }
}

/* Four groups in all their orders, with a close before, in the middle, and without one. */
static void orders(void) {
    int a, b, c, d, count = 0, closes;
    for (a = 0; a < 4; a++)
        for (b = 0; b < 4; b++)
            for (c = 0; c < 4; c++)
                for (d = 0; d < 4; d++) {
                    struct all all;
                    if (a == b || a == c || a == d || b == c || b == d || c == d) continue;
                    closes = count++ % 3;
                    all = make();
                    if (closes == 1) DO(everleaf_close(all.db));
                    free_group(&all, a);
                    free_group(&all, b);
                    if (closes == 2 && a != 0 && b != 0) DO(everleaf_close(all.db));
                    free_group(&all, c);
                    free_group(&all, d);
                }
    EXPECT(count == 24);
}

static void closed(void) {
    struct all all = make();
    everleaf_db *again;
    const void *key;
    size_t len;
    uint64_t epoch;
    char buf[100];
    int i;
    DO(everleaf_epoch(all.db, &epoch));
    DO(everleaf_close(all.db));
    FAILS(EVERLEAF_CLOSED, "the pool has been closed", everleaf_put(all.tree, "k", 1, "v", 1));
    FAILS(EVERLEAF_CLOSED, "closed", everleaf_cursor_next(all.cursor));
    FAILS(EVERLEAF_CLOSED, "closed", everleaf_cursor_key(all.cursor, &key, &len));
    FAILS(EVERLEAF_CLOSED, "closed", everleaf_scan_fill(all.scan, buf, sizeof buf, &len, NULL, NULL));
    FAILS(EVERLEAF_CLOSED, "closed", everleaf_scan_fill(all.txn_scan, buf, sizeof buf, &len, NULL, NULL));
    FAILS(EVERLEAF_CLOSED, "closed", everleaf_contains(all.then, "k", 1));
    FAILS(EVERLEAF_CLOSED, "closed", everleaf_batch_put(all.batch, all.tree, "k", 1, "", 0));
    FAILS(EVERLEAF_CLOSED, "closed", everleaf_batch_commit(all.batch));
    FAILS(EVERLEAF_CLOSED, "closed", everleaf_txn_put(all.txn, all.tree, "k", 1, "", 0));
    FAILS(EVERLEAF_CLOSED, "closed", everleaf_txn_commit(all.txn));
    FAILS(EVERLEAF_CLOSED, "closed", everleaf_writer_write(all.writer, "1", 1));
    FAILS(EVERLEAF_CLOSED, "closed", everleaf_wait_durable(all.db, epoch, 0));
    DO(everleaf_close(all.db));
    /* The pool is free, whatever handles there are. */
    DO(everleaf_open(path, NULL, &again));
    FAILS(EVERLEAF_CLOSED, "closed", everleaf_sync(all.db));
    for (i = 0; i < 4; i++) free_group(&all, i);
    DO(everleaf_abandon(again));
    FAILS(EVERLEAF_CLOSED, "closed", everleaf_abandon(again));
    everleaf_db_free(again);
}

/* The exit code of a child that runs this, and everything else in it must be right, too. */
static void in_child(void (*run)(struct all *), struct all *all) {
    int status;
    pid_t child;
    fflush(NULL);
    child = fork();
    EXPECT(child >= 0);
    if (child == 0) {
        run(all);
        _exit(0);
    }
    EXPECT(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void forked(struct all *all) {
    everleaf_db *other;
    everleaf_tree *tree;
    char name[4096];
    int i;
    FAILS(EVERLEAF_FORKED, "of which this is a fork", everleaf_put(all->tree, "k", 1, "v", 1));
    FAILS(EVERLEAF_FORKED, "fork", everleaf_batch_put(all->batch, all->tree, "k", 1, "", 0));
    FAILS(EVERLEAF_FORKED, "fork", everleaf_txn_commit(all->txn));
    FAILS(EVERLEAF_FORKED, "fork", everleaf_cursor_next(all->cursor));
    FAILS(EVERLEAF_FORKED, "fork", everleaf_writer_write(all->writer, "1", 1));
    FAILS(EVERLEAF_FORKED, "fork", everleaf_close(all->db));
    FAILS(EVERLEAF_LOCKED, "is open in another process", everleaf_open(path, NULL, &other));
    for (i = 3; i >= 0; i--) free_group(all, i);
    /* A pool of its own is as good as any. */
    snprintf(name, sizeof name, "%s-child", path);
    DO(everleaf_open(name, NULL, &other));
    DO(everleaf_tree_create(other, "t", &tree));
    DO(everleaf_put(tree, "k", 1, "v", 1));
    everleaf_tree_free(tree);
    DO(everleaf_close(other));
    everleaf_db_free(other);
}

static void open_twice(void) {
    struct all all = make();
    everleaf_db *other;
    int i;
    FAILS(EVERLEAF_LOCKED, "is open in this process already", everleaf_open(path, NULL, &other));
    EXPECT(other == NULL);
    in_child(forked, &all);
    /* The child has changed nothing. */
    DO(everleaf_put(all.tree, "k", 1, "v", 1));
    DO(everleaf_cursor_first(all.cursor));
    DO(everleaf_sync(all.db));
    for (i = 0; i < 4; i++) free_group(&all, i);
}

int main(int argc, char **argv) {
    EXPECT(argc == 2);
    path = in_folder(argv[1], "lifetimes.ever");
    orders();
    closed();
    open_twice();
    return 0;
}
