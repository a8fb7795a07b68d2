/*
 * A program that is killed: NAME MEDIUM PATH FIRST. It makes changes FIRST, FIRST + 1, ..., and prints the number of the last
 * one that is durable whenever it knows that. tests/kill.rs knows the changes, too. With `read` in place of FIRST it prints all
 * pairs.
 */
#include "check.h"

static everleaf_index *tree;

static int apply(unsigned long number) {
    uint64_t key = number * 7919 % 500;
    if (number % 11 == 3) {
        int code = everleaf_index_remove(tree, key, NULL);
        return code == EVERLEAF_INDEX_NOT_FOUND ? EVERLEAF_INDEX_OK : code;
    }
    return everleaf_index_put(tree, key, number);
}

static int print_all(void) {
    static uint64_t keys[1000], values[1000];
    size_t found;
    DO(everleaf_index_scan(tree, 0, 1000, keys, values, &found));
    for (size_t i = 0; i < found; i++)
        printf("%llu %llu\n", (unsigned long long)keys[i], (unsigned long long)values[i]);
    DO(everleaf_index_recover(tree, NULL, NULL));
    DO(everleaf_index_close(tree));
    everleaf_index_free(tree);
    return 0;
}

int main(int argc, char **argv) {
    if (argc != 5) return 2;
    everleaf_index_options options;
    DO(everleaf_index_options_init(&options, sizeof options));
    options.medium = (uint32_t)strtoul(argv[2], NULL, 10);
    options.path = argv[3];
    options.keys = 1000;
    options.epoch_us = 1000;
    DO(everleaf_index_open(argv[1], &options, &tree));
    if (strcmp(argv[4], "read") == 0) return print_all();
    unsigned long first = strtoul(argv[4], NULL, 10);
    uint64_t running;
    int has_epochs = everleaf_index_epoch(tree, &running, NULL) == EVERLEAF_INDEX_OK;
    for (unsigned long number = first;; number++) {
        DO(apply(number));
        if (has_epochs && number % 16 != 0) continue;
        if (has_epochs) DO(everleaf_index_sync(tree));
        printf("%lu\n", number);
        fflush(stdout);
    }
}
