/*
 * A program that is killed: POOL FIRST SEED. It makes changes FIRST, FIRST + 1, ..., and prints the number of the last one
 * that is on disk, whenever it has made sure of that, in one of six ways. crates/capi/tests/kill.rs knows the changes, too.
 */
#include "everleaf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static everleaf_db *db;
static everleaf_tree *tree, *durable;

static void must(int code) {
    if (code != EVERLEAF_OK) {
        fprintf(stderr, "%d: %s\n", code, everleaf_last_message());
        exit(1);
    }
}

/* A change: a put of so many bytes that begin with its number, or a delete. */
struct change {
    char key[24];
    size_t key_len;
    char value[20016];
    size_t value_len;
    int is_delete;
};

static struct change *change(unsigned long number) {
    static struct change it;
    it.key_len = (size_t)sprintf(it.key, "key %lu", number * 7919 % 500);
    it.is_delete = number % 11 == 3;
    it.value_len = number % 97 == 0 ? 20000 : 20 + number * 31 % 300;
    memset(it.value, 'a' + (int)(number % 26), it.value_len);
    sprintf(it.value, "%019lu", number);
    it.value[19] = ' ';
    return &it;
}

static void apply(unsigned long number, everleaf_tree *handle) {
    struct change *it = change(number);
    must(it->is_delete ? everleaf_delete(handle, it->key, it->key_len)
                       : everleaf_put(handle, it->key, it->key_len, it->value, it->value_len));
}

/* So many changes in one batch. */
static void together(unsigned long first, unsigned long count) {
    everleaf_batch *batch;
    must(everleaf_batch_new(db, EVERLEAF_SYNC, &batch));
    for (unsigned long i = 0; i < count; i++) {
        struct change *it = change(first + i);
        must(it->is_delete
                 ? everleaf_batch_delete(batch, tree, it->key, it->key_len)
                 : everleaf_batch_put(batch, tree, it->key, it->key_len, it->value, it->value_len));
    }
    must(everleaf_batch_commit(batch));
    everleaf_batch_free(batch);
}

/* So many changes in one transaction. */
static void transact(unsigned long first, unsigned long count) {
    everleaf_txn *txn;
    must(everleaf_txn_begin(db, EVERLEAF_SERIALIZABLE, EVERLEAF_SYNC, &txn));
    for (unsigned long i = 0; i < count; i++) {
        struct change *it = change(first + i);
        must(it->is_delete
                 ? everleaf_txn_delete(txn, tree, it->key, it->key_len)
                 : everleaf_txn_put(txn, tree, it->key, it->key_len, it->value, it->value_len));
    }
    must(everleaf_txn_commit(txn));
    everleaf_txn_free(txn);
}

/* Makes some changes from `first` on that are on disk then, and returns how many. */
static unsigned long advance(unsigned long first, unsigned way) {
    uint64_t epoch;
    unsigned long count = 1;
    switch (way) {
    case 0:
        apply(first, durable);
        break;
    case 1:
        together(first, count = 5);
        break;
    case 2:
        transact(first, count = 3);
        break;
    case 3:
        apply(first, tree);
        must(everleaf_sync(db));
        break;
    default:
        for (count = way == 4 ? 1 : 20; count > 0; count--) apply(first++, tree);
        count = way == 4 ? 1 : 20;
        must(everleaf_epoch(db, &epoch));
        must(everleaf_wait_durable(db, epoch, -1));
    }
    return count;
}

int main(int argc, char **argv) {
    everleaf_options *options = everleaf_options_new();
    if (argc != 4) return 2;
    unsigned long next = strtoul(argv[2], NULL, 10), random = strtoul(argv[3], NULL, 10);
    /* Small, so that checkpoints come, and pages leave memory. */
    must(everleaf_options_interval(options, 2000));
    must(everleaf_options_page_bytes(options, 1024));
    must(everleaf_options_journal_bytes(options, 1 << 18));
    must(everleaf_options_memory(options, 1 << 18));
    must(everleaf_open(argv[1], options, &db));
    must(everleaf_tree_create(db, "pairs", &tree));
    must(everleaf_tree_with(tree, EVERLEAF_SYNC, &durable));
    for (;;) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        next += advance(next, (unsigned)(random >> 33) % 6);
        printf("%lu\n", next - 1);
        fflush(stdout);
    }
}
