/* COUNT: four threads add the same keys to every tree, remove every other one, and each says how often it was the one. */
#define _POSIX_C_SOURCE 200809L
#include "check.h"

#include <pthread.h>

enum { THREADS = 4 };

static everleaf_index *tree;
static unsigned long count;
static pthread_barrier_t together;

struct told {
    unsigned long added, removed;
    uint64_t number;
};

static void *work(void *of) {
    struct told *told = of;
    pthread_barrier_wait(&together);
    for (uint64_t key = 0; key < count; key++) {
        int code = everleaf_index_insert(tree, key * 0x9e3779b97f4a7c15u, told->number);
        EXPECT(code == EVERLEAF_INDEX_OK || code == EVERLEAF_INDEX_EXISTS);
        told->added += code == EVERLEAF_INDEX_OK;
    }
    pthread_barrier_wait(&together);
    for (uint64_t key = 0; key < count; key += 2) {
        int code = everleaf_index_remove(tree, key * 0x9e3779b97f4a7c15u, NULL);
        EXPECT(code == EVERLEAF_INDEX_OK || code == EVERLEAF_INDEX_NOT_FOUND);
        told->removed += code == EVERLEAF_INDEX_OK;
    }
    return NULL;
}

static void try(const char *name) {
    pthread_t threads[THREADS];
    struct told told[THREADS];
    unsigned long added = 0, removed = 0;
    uint64_t *keys = malloc(count * sizeof *keys);
    size_t found;
    everleaf_index_options options = options_for(EVERLEAF_INDEX_DRAM, "", "");
    options.keys = count + 1000;
    options.epoch_us = 1000;
    DO(everleaf_index_open(name, &options, &tree));
    for (uint64_t i = 0; i < THREADS; i++) {
        told[i].added = told[i].removed = 0;
        told[i].number = i;
        EXPECT(pthread_create(&threads[i], NULL, work, &told[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++) {
        EXPECT(pthread_join(threads[i], NULL) == 0);
        added += told[i].added;
        removed += told[i].removed;
    }
    EXPECT(added == count && removed == (count + 1) / 2);
    DO(everleaf_index_scan(tree, 0, count, keys, NULL, &found));
    EXPECT(found == count / 2);
    free(keys);
    DO(everleaf_index_close(tree));
    everleaf_index_free(tree);
}

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    count = strtoul(argv[2], NULL, 10);
    EXPECT(pthread_barrier_init(&together, NULL, THREADS) == 0);
    for (size_t at = 0; at < everleaf_index_count(); at++) try(everleaf_index_name(at));
    return 0;
}
