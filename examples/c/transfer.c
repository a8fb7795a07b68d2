/*
 * Transfers between accounts by several threads at once, each a transaction that is run again if others were in the way.
 *
 * A transaction takes no locks. everleaf_txn_commit finds out whether anything that it has read was changed; then nothing has
 * happened, and all of it is done again, the reads included.
 *
 *     transfer POOL [TRANSFERS]
 */
#include <everleaf.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 4, ACCOUNTS = 8, START = 1000 };

struct teller {
    everleaf_db *db;
    everleaf_tree *accounts;
    unsigned seed;
    unsigned long transfers;
    unsigned long conflicts;
};

/* Ends the program if a call has failed. */
static int must(int code) {
    if (code < 0) {
        fprintf(stderr, "%s: %s\n", everleaf_code_name(code), everleaf_last_message());
        exit(1);
    }
    return code;
}

/* One attempt. EVERLEAF_NOT_FOUND if the account has not so much. */
static int attempt(struct teller *teller, unsigned char from, unsigned char to, int64_t amount) {
    everleaf_txn *txn;
    int64_t balances[2] = {0, 0};
    everleaf_tree *tree = teller->accounts;
    int code = everleaf_txn_begin(teller->db, EVERLEAF_SERIALIZABLE, EVERLEAF_AS_OPENED, &txn);
    if (code == 0) code = everleaf_txn_get(txn, tree, &from, 1, &balances[0], sizeof(int64_t), NULL);
    if (code == 0) code = everleaf_txn_get(txn, tree, &to, 1, &balances[1], sizeof(int64_t), NULL);
    if (code == 0 && balances[0] < amount) code = EVERLEAF_NOT_FOUND;
    balances[0] -= amount;
    balances[1] += amount;
    if (code == 0) code = everleaf_txn_put(txn, tree, &from, 1, &balances[0], sizeof(int64_t));
    if (code == 0) code = everleaf_txn_put(txn, tree, &to, 1, &balances[1], sizeof(int64_t));
    if (code == 0) code = everleaf_txn_commit(txn);
    everleaf_txn_free(txn); /* which drops the writes if there was no commit */
    return code;
}

static void *serve(void *arg) {
    struct teller *teller = arg;
    for (unsigned long i = 0; i < teller->transfers; i++) {
        teller->seed = teller->seed * 1103515245 + 12345;
        unsigned char from = (unsigned char)((teller->seed >> 16) % ACCOUNTS);
        unsigned char to = (unsigned char)((from + 1 + (teller->seed >> 20) % (ACCOUNTS - 1)) % ACCOUNTS);
        int code;
        while ((code = attempt(teller, from, to, 1 + i % 20)) == EVERLEAF_CONFLICT) {
            teller->conflicts++; /* everleaf_last_conflict_key says which account it was */
        }
        must(code);
    }
    return NULL;
}

int main(int argc, char **argv) {
    if (argc < 2) {
        fprintf(stderr, "usage: %s POOL [TRANSFERS]\n", argv[0]);
        return 2;
    }
    unsigned long transfers = argc > 2 ? strtoul(argv[2], NULL, 10) : 4000;
    everleaf_db *db;
    everleaf_tree *accounts;
    must(everleaf_open(argv[1], NULL, &db));
    must(everleaf_tree_create(db, "accounts", &accounts));
    for (unsigned char number = 0; number < ACCOUNTS; number++) {
        int64_t balance = START;
        must(everleaf_put(accounts, &number, 1, &balance, sizeof balance));
    }
    pthread_t threads[THREADS];
    struct teller tellers[THREADS];
    for (unsigned i = 0; i < THREADS; i++) {
        tellers[i] = (struct teller){db, accounts, i, transfers / THREADS, 0};
        if (pthread_create(&threads[i], NULL, serve, &tellers[i]) != 0) {
            return 1;
        }
    }
    unsigned long conflicts = 0;
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        conflicts += tellers[i].conflicts;
    }
    int64_t sum = 0;
    for (unsigned char number = 0; number < ACCOUNTS; number++) {
        int64_t balance = 0;
        must(everleaf_get(accounts, &number, 1, &balance, sizeof balance, NULL));
        sum += balance;
    }
    fprintf(stderr, "%lu attempts met others\n", conflicts);
    printf("%lu transfers, %lld in all accounts\n", transfers, (long long)sum);
    must(everleaf_close(db));
    everleaf_tree_free(accounts);
    everleaf_db_free(db);
    return sum != (int64_t)ACCOUNTS * START;
}
