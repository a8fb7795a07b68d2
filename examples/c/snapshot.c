/*
 * A report under writers: two threads move money between accounts all the time, and the report adds up all accounts as they
 * were at one moment. The sum is always the same.
 *
 * A snapshot takes no lock and copies nothing: writers keep the values that they replace while it is open, in memory of a
 * limited size. If that is used up, the report hears EVERLEAF_SNAPSHOT_TOO_OLD and takes a new snapshot.
 *
 *     snapshot POOL [REPORTS]
 */
#include <everleaf.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ACCOUNTS = 1000, START = 100, WRITERS = 2 };

static everleaf_db *db;
static everleaf_tree *accounts;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int is_over;

/* Ends the program if a call has failed. */
static int must(int code) {
    if (code < 0) {
        fprintf(stderr, "%s: %s\n", everleaf_code_name(code), everleaf_last_message());
        exit(1);
    }
    return code;
}

/* The key of an account: 4 bytes, the largest first, so that keys are in the order of numbers. */
static void key_of(unsigned number, unsigned char key[4]) {
    for (int i = 0; i < 4; i++) {
        key[i] = (unsigned char)(number >> (24 - 8 * i));
    }
}

/* Sets the balances of accounts in one step: others see all of it or nothing. */
static void set(everleaf_batch *batch, unsigned number, int64_t balance) {
    unsigned char key[4];
    key_of(number, key);
    must(everleaf_batch_put(batch, accounts, key, sizeof key, &balance, sizeof balance));
}

/* Moves money between two accounts that are this thread's alone, so that nobody can be in the way. */
static void *move(void *arg) {
    unsigned first = *(unsigned *)arg, step = 0;
    everleaf_batch *batch;
    must(everleaf_batch_new(db, EVERLEAF_AS_OPENED, &batch));
    for (;;) {
        pthread_mutex_lock(&lock);
        int ends = is_over;
        pthread_mutex_unlock(&lock);
        if (ends) {
            break;
        }
        unsigned from = first + WRITERS * (step++ % (ACCOUNTS / WRITERS / 2)) * 2;
        unsigned to = from + WRITERS;
        int64_t amount = step % 50;
        set(batch, from, START - amount);
        set(batch, to, START + amount);
        must(everleaf_batch_commit(batch));
    }
    everleaf_batch_free(batch);
    return NULL;
}

/* Adds up a tree of a snapshot, many pairs a call. The code of the call that has ended it. */
static int add_up(everleaf_tree *then, int64_t *sum, unsigned *count) {
    char buf[4096];
    size_t pairs, used;
    everleaf_scan *scan;
    int code = everleaf_scan_new(then, NULL, 0, NULL, 0, 0, &scan);
    *sum = 0;
    *count = 0;
    while (code == EVERLEAF_OK) {
        code = everleaf_scan_fill(scan, buf, sizeof buf, &pairs, &used, NULL);
        if (code != EVERLEAF_OK) {
            break;
        }
        for (char *at = buf; at < buf + used;) {
            uint32_t lens[2]; /* of the key and of the value */
            int64_t balance;
            memcpy(lens, at, sizeof lens);
            memcpy(&balance, at + sizeof lens + lens[0], sizeof balance);
            at += sizeof lens + lens[0] + lens[1];
            *sum += balance;
            ++*count;
        }
    }
    everleaf_scan_free(scan);
    return code;
}

int main(int argc, char **argv) {
    if (argc < 2) {
        fprintf(stderr, "usage: %s POOL [REPORTS]\n", argv[0]);
        return 2;
    }
    long reports = argc > 2 ? strtol(argv[2], NULL, 10) : 20;
    must(everleaf_open(argv[1], NULL, &db));
    must(everleaf_tree_create(db, "accounts", &accounts));
    everleaf_batch *batch;
    must(everleaf_batch_new(db, EVERLEAF_AS_OPENED, &batch));
    for (unsigned number = 0; number < ACCOUNTS; number++) {
        set(batch, number, START);
    }
    must(everleaf_batch_commit(batch));
    everleaf_batch_free(batch);

    pthread_t threads[WRITERS];
    unsigned firsts[WRITERS];
    for (unsigned i = 0; i < WRITERS; i++) {
        firsts[i] = i;
        if (pthread_create(&threads[i], NULL, move, &firsts[i]) != 0) {
            return 1;
        }
    }
    int is_right = 1;
    for (long done = 0; done < reports;) {
        everleaf_snapshot *snapshot;
        everleaf_tree *then;
        int64_t sum;
        unsigned count;
        must(everleaf_snapshot_new(db, &snapshot));
        must(everleaf_snapshot_of(snapshot, accounts, &then));
        int code = add_up(then, &sum, &count);
        everleaf_tree_free(then);
        everleaf_snapshot_free(snapshot);
        if (code == EVERLEAF_SNAPSHOT_TOO_OLD) {
            continue;
        }
        must(code);
        is_right = is_right && sum == (int64_t)ACCOUNTS * START && count == ACCOUNTS;
        done++;
    }
    pthread_mutex_lock(&lock);
    is_over = 1;
    pthread_mutex_unlock(&lock);
    for (int i = 0; i < WRITERS; i++) {
        pthread_join(threads[i], NULL);
    }
    printf("%ld reports, %s\n", reports, is_right ? "all of 100000" : "and a sum is wrong");
    must(everleaf_close(db));
    everleaf_tree_free(accounts);
    everleaf_db_free(db);
    return !is_right;
}
