/* FOLDER: what a program may do wrong is told by a code and a sentence, and does nothing. */
#define _POSIX_C_SOURCE 200809L
#include "check.h"

#include <sys/wait.h>
#include <unistd.h>

#define INVALID EVERLEAF_INDEX_INVALID
#define OPTION EVERLEAF_INDEX_INVALID_OPTION

static void without_a_handle(void) {
    uint64_t word = 0;
    size_t found = 9;
    everleaf_index_stats stats;
    FAILS(INVALID, "handle is NULL", everleaf_index_get(NULL, 1, &word));
    FAILS(INVALID, "handle is NULL", everleaf_index_put(NULL, 1, 1));
    FAILS(INVALID, "handle is NULL", everleaf_index_insert(NULL, 1, 1));
    FAILS(INVALID, "handle is NULL", everleaf_index_update(NULL, 1, 1));
    FAILS(INVALID, "handle is NULL", everleaf_index_remove(NULL, 1, NULL));
    FAILS(INVALID, "handle is NULL", everleaf_index_scan(NULL, 1, 1, &word, &word, &found));
    EXPECT(found == 0);
    FAILS(INVALID, "handle is NULL", everleaf_index_get_many(NULL, &word, 1, &word, NULL, NULL));
    FAILS(INVALID, "handle is NULL", everleaf_index_sync(NULL));
    FAILS(INVALID, "handle is NULL", everleaf_index_epoch(NULL, NULL, NULL));
    FAILS(INVALID, "handle is NULL", everleaf_index_recover(NULL, NULL, NULL));
    FAILS(INVALID, "handle is NULL", everleaf_index_get_stats(NULL, &stats, sizeof stats));
    FAILS(INVALID, "handle is NULL", everleaf_index_close(NULL));
    everleaf_index_free(NULL);
}

static void wrong_opens(const char *folder) {
    everleaf_index_options options = options_for(EVERLEAF_INDEX_FILE, folder, "wrong");
    everleaf_index *index = (everleaf_index *)&options;
    FAILS(INVALID, "name is NULL", everleaf_index_open(NULL, NULL, &index));
    EXPECT(index == NULL);
    FAILS(INVALID, "handle is NULL", everleaf_index_open("CircTree", NULL, NULL));
    FAILS(EVERLEAF_INDEX_UNSUPPORTED, "BTree", everleaf_index_open("BTree", NULL, &index));
    FAILS(EVERLEAF_INDEX_UNSUPPORTED, "", everleaf_index_open("", NULL, &index));
    FAILS(INVALID, "UTF-8", everleaf_index_open("\xff", NULL, &index));
    FAILS(EVERLEAF_INDEX_UNSUPPORTED, "not on a file",
          everleaf_index_open("BdTree", &options, &index));
    FAILS(EVERLEAF_INDEX_UNSUPPORTED, "not on a file",
          everleaf_index_open("Wort", &options, &index));
    EXPECT(access(options.path, F_OK) != 0);
    options.create = 0;
    FAILS(EVERLEAF_INDEX_IO, "wrong", everleaf_index_open("CircTree", &options, &index));
    EXPECT(everleaf_index_last_errno() != 0);
    options.path = NULL;
    FAILS(INVALID, "path is NULL", everleaf_index_open("CircTree", &options, &index));
    options.path = "x\xff";
    FAILS(INVALID, "UTF-8", everleaf_index_open("CircTree", &options, &index));
    options = options_for(EVERLEAF_INDEX_FILE, "/there/is/no/such/folder", "x");
    FAILS(EVERLEAF_INDEX_IO, "folder", everleaf_index_open("CircTree", &options, &index));
    EXPECT(everleaf_index_last_errno() != 0 && index == NULL);
    EXPECT(everleaf_index_media("BTree") == 0 && everleaf_index_media(NULL) == 0);
    EXPECT(everleaf_index_name(everleaf_index_count()) == NULL);
    EXPECT(everleaf_index_name((size_t)-1) == NULL);
}

static void wrong_options(void) {
    everleaf_index_options good = options_for(EVERLEAF_INDEX_DRAM, "", ""), bad = good;
    everleaf_index *index;
    FAILS(INVALID, "NULL", everleaf_index_options_init(NULL, sizeof good));
    FAILS(INVALID, "bytes", everleaf_index_options_init(&bad, sizeof bad - 8));
    bad.struct_bytes = 7;
    FAILS(INVALID, "bytes", everleaf_index_open("CircTree", &bad, &index));
    bad = good, bad.path = "x";
    FAILS(OPTION, "NULL", everleaf_index_open("CircTree", &bad, &index));
    bad = good, bad.medium = 3;
    FAILS(OPTION, "medium", everleaf_index_open("CircTree", &bad, &index));
    bad = good, bad.slots = 24;
    FAILS(OPTION, "24 slots", everleaf_index_open("CircTree", &bad, &index));
    bad = good, bad.slots = 128;
    FAILS(OPTION, "128 slots", everleaf_index_open("BdTree", &bad, &index));
    bad = good, bad.keys = 0;
    FAILS(OPTION, "keys", everleaf_index_open("CircTree", &bad, &index));
    bad = good, bad.keys = UINT64_MAX;
    FAILS(OPTION, "keys", everleaf_index_open("CircTree", &bad, &index));
    bad = good, bad.keys = (uint64_t)1 << 36, bad.slots = 4;
    FAILS(OPTION, "pages", everleaf_index_open("CircTree", &bad, &index));
    bad = good, bad.epoch_us = 1;
    FAILS(OPTION, "10,000,000", everleaf_index_open("BdTree", &bad, &index));
    bad = good, bad.reading = 9;
    FAILS(OPTION, "reading", everleaf_index_open("CircTree", &bad, &index));
    bad = good, bad.reading = EVERLEAF_INDEX_LOCK_FREE;
    FAILS(EVERLEAF_INDEX_UNSUPPORTED, "", everleaf_index_open("CircTree", &bad, &index));
    FAILS(EVERLEAF_INDEX_UNSUPPORTED, "", everleaf_index_open("BdTree", &bad, &index));
    FAILS(EVERLEAF_INDEX_UNSUPPORTED, "ordered", everleaf_index_open("FastFair", &bad, &index));
    bad.medium = EVERLEAF_INDEX_COUNTED;
    FAILS(EVERLEAF_INDEX_UNSUPPORTED, "linear", everleaf_index_open("CircTree", &bad, &index));
    DO(everleaf_index_open("FastFair", &bad, &index));
    everleaf_index_free(index);
    bad = good, bad.flush = 9;
    FAILS(OPTION, "instruction", everleaf_index_open("CircTree", &bad, &index));
    bad = good, bad.threads = 0;
    DO(everleaf_index_open("BdTree", &bad, &index));
    everleaf_index_free(index);
}

static void wrong_places(everleaf_index *index) {
    uint64_t words[4] = {1, 2, 3, 4};
    uint64_t *odd = (uint64_t *)((char *)words + 1);
    uint8_t marks[4];
    size_t found = 9;
    everleaf_index_stats stats;
    FAILS(INVALID, "NULL", everleaf_index_scan(index, 0, 4, words, words, NULL));
    FAILS(INVALID, "aligned", everleaf_index_scan(index, 0, 1, odd, NULL, &found));
    EXPECT(found == 0);
    FAILS(INVALID, "memory", everleaf_index_scan(index, 0, (size_t)-1, words, NULL, &found));
    DO(everleaf_index_scan(index, 0, 4, NULL, NULL, &found));
    EXPECT(found == 1);
    DO(everleaf_index_scan(index, 0, 0, words, words, &found));
    EXPECT(found == 0);
    FAILS(INVALID, "keys", everleaf_index_get_many(index, NULL, 1, words, marks, &found));
    FAILS(INVALID, "values", everleaf_index_get_many(index, words, 1, NULL, marks, &found));
    FAILS(INVALID, "marks", everleaf_index_get_many(index, words, 1, words, NULL, &found));
    FAILS(INVALID, "aligned", everleaf_index_get_many(index, odd, 1, words, marks, &found));
    FAILS(INVALID, "memory",
          everleaf_index_get_many(index, words, (size_t)1 << 62, words, marks, &found));
    DO(everleaf_index_get_many(index, NULL, 0, NULL, NULL, NULL));
    FAILS(INVALID, "NULL", everleaf_index_get_stats(index, NULL, sizeof stats));
    FAILS(INVALID, "bytes", everleaf_index_get_stats(index, &stats, 8));
    DO(everleaf_index_get(index, 5, NULL));
}

/* A pool that is open, and one that is of another tree. */
static void wrong_files(const char *folder) {
    everleaf_index_options options = options_for(EVERLEAF_INDEX_EMULATED_DAX, folder, "one");
    everleaf_index *index, *other;
    DO(everleaf_index_open("Wort", &options, &index));
    FAILS(EVERLEAF_INDEX_LOCKED, "process", everleaf_index_open("Wort", &options, &other));
    DO(everleaf_index_put(index, 5, 6));
    everleaf_index_free(index);
    int code = everleaf_index_open("WbTree", &options, &other);
    EXPECT(code < 0 && code != EVERLEAF_INDEX_PANIC && other == NULL);
    code = everleaf_index_open("CircTree", &options, &other);
    EXPECT(code < 0 && code != EVERLEAF_INDEX_PANIC && other == NULL);
    FILE *file = fopen(options.path, "w");
    EXPECT(file != NULL && fputs("this is no pool", file) >= 0 && fclose(file) == 0);
    FAILS(EVERLEAF_INDEX_FOREIGN, "pool", everleaf_index_open("Wort", &options, &other));
    remove(options.path);
}

static void a_full_tree(void) {
    everleaf_index_options options = options_for(EVERLEAF_INDEX_DRAM, "", "");
    options.keys = 1;
    for (size_t at = 0; at < everleaf_index_count(); at++) {
        everleaf_index *index;
        int code = EVERLEAF_INDEX_OK;
        uint64_t key = 0, value;
        DO(everleaf_index_open(everleaf_index_name(at), &options, &index));
        while (code == EVERLEAF_INDEX_OK && key < 1000000)
            code = everleaf_index_insert(index, key++ * 0x9e3779b97f4a7c15u, 3);
        EXPECT(code == EVERLEAF_INDEX_FULL);
        EXPECT(strstr(everleaf_index_last_message(), "full") != NULL);
        EXPECT(key > 1000);
        DO(everleaf_index_get(index, 0, &value));
        EXPECT(value == 3);
        everleaf_index_free(index);
    }
}

static void after_a_close(const char *folder) {
    for (size_t i = 0; i < sizeof media / sizeof *media; i++) {
        everleaf_index_options options = options_for(media[i], folder, "close");
        everleaf_index *index, *again;
        uint64_t word;
        size_t found;
        if (media[i] == EVERLEAF_INDEX_DAX) continue;
        DO(everleaf_index_open("CircTree", &options, &index));
        DO(everleaf_index_put(index, 1, 2));
        DO(everleaf_index_close(index));
        FAILS(EVERLEAF_INDEX_CLOSED, "closed", everleaf_index_close(index));
        FAILS(EVERLEAF_INDEX_CLOSED, "closed", everleaf_index_put(index, 1, 3));
        FAILS(EVERLEAF_INDEX_CLOSED, "closed", everleaf_index_insert(index, 7, 3));
        FAILS(EVERLEAF_INDEX_CLOSED, "closed", everleaf_index_get(index, 1, &word));
        FAILS(EVERLEAF_INDEX_CLOSED, "closed",
              everleaf_index_scan(index, 0, 1, &word, NULL, &found));
        FAILS(EVERLEAF_INDEX_CLOSED, "closed", everleaf_index_sync(index));
        /* The file is free, though the handle is not. */
        if (options.path != NULL) {
            DO(everleaf_index_open("CircTree", &options, &again));
            DO(everleaf_index_get(again, 1, &word));
            EXPECT(word == 2);
            everleaf_index_free(again);
        }
        everleaf_index_free(index);
        if (options.path != NULL) remove(options.path);
    }
}

static void in_a_fork(const char *folder) {
    everleaf_index_options options = options_for(EVERLEAF_INDEX_EMULATED_DAX, folder, "fork");
    everleaf_index *index;
    uint64_t word;
    int status = 0;
    DO(everleaf_index_open("BdTree", &options, &index));
    DO(everleaf_index_put(index, 1, 2));
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        FAILS(EVERLEAF_INDEX_FORKED, "fork", everleaf_index_put(index, 1, 3));
        FAILS(EVERLEAF_INDEX_FORKED, "fork", everleaf_index_get(index, 1, &word));
        FAILS(EVERLEAF_INDEX_FORKED, "fork", everleaf_index_close(index));
        everleaf_index_free(index);
        _exit(0);
    }
    EXPECT(child > 0 && waitpid(child, &status, 0) == child);
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    DO(everleaf_index_get(index, 1, &word));
    EXPECT(word == 2);
    DO(everleaf_index_close(index));
    everleaf_index_free(index);
    remove(options.path);
}

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    EXPECT(everleaf_index_last_code() == EVERLEAF_INDEX_OK);
    EXPECT(everleaf_index_last_message()[0] == 0 && everleaf_index_last_errno() == 0);
    EXPECT(strcmp(everleaf_index_code_name(EVERLEAF_INDEX_FULL), "EVERLEAF_INDEX_FULL") == 0);
    EXPECT(strcmp(everleaf_index_code_name(5), "unknown") == 0);
    EXPECT(strchr(everleaf_index_version(), '.') != NULL);
    everleaf_index *index;
    without_a_handle();
    wrong_opens(argv[1]);
    wrong_options();
    DO(everleaf_index_open("CircTree", NULL, &index));
    DO(everleaf_index_put(index, 5, 6));
    wrong_places(index);
    everleaf_index_free(index);
    wrong_files(argv[1]);
    a_full_tree();
    after_a_close(argv[1]);
    in_a_fork(argv[1]);
    return 0;
}
