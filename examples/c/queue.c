/*
 * A queue of jobs that survives a crash: two threads add jobs, two take them, and each job is taken once.
 *
 * A key is the number of a job, the largest digit first, so that the smallest key is the oldest job. everleaf_insert_new
 * gives a number to one thread alone, and everleaf_pop_first a job. A producer tells others of a job only when it is on
 * disk: it asks for the epoch of its write, and waits for that, which costs no sync of its own.
 *
 *     queue POOL [JOBS]
 */
#include <everleaf.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 2 };

struct work {
    everleaf_db *db;
    everleaf_tree *jobs;
    unsigned long count; /* jobs that this thread adds, or has taken */
};

static pthread_mutex_t counter = PTHREAD_MUTEX_INITIALIZER;
static unsigned long taken, wanted;

/* Ends the program if a call has failed. */
static int must(int code) {
    if (code < 0) {
        fprintf(stderr, "%s: %s\n", everleaf_code_name(code), everleaf_last_message());
        exit(1);
    }
    return code;
}

static void *produce(void *arg) {
    struct work *work = arg;
    uint64_t epoch = 0;
    unsigned long number = 0;
    for (unsigned long i = 0; i < work->count; i++) {
        char key[21], job[40];
        int len = snprintf(job, sizeof job, "job %lu of this thread", i);
        do { /* EVERLEAF_NOT_FOUND: another thread has this number */
            snprintf(key, sizeof key, "%020lu", ++number);
        } while (must(everleaf_insert_new(work->jobs, key, 20, job, (size_t)len)) == EVERLEAF_NOT_FOUND);
    }
    must(everleaf_epoch(work->db, &epoch));
    must(everleaf_wait_durable(work->db, epoch, -1));
    return NULL;
}

/* Whether jobs are missing, of which this thread has just taken `more`. */
static int is_unfinished(unsigned long more) {
    pthread_mutex_lock(&counter);
    taken += more;
    int is = taken < wanted;
    pthread_mutex_unlock(&counter);
    return is;
}

static void *consume(void *arg) {
    struct work *work = arg;
    int found = 0;
    while (is_unfinished((unsigned long)found)) {
        void *key, *job;
        size_t key_len, job_len;
        found = must(everleaf_pop_first(work->jobs, &key, &key_len, &job, &job_len)) == EVERLEAF_OK;
        if (found) {
            work->count++; /* The job would be done here: it is `job_len` bytes, without a 0 at the end. */
        } /* Another program would wait here until a producer says that there is more. */
        everleaf_bytes_free(key);
        everleaf_bytes_free(job);
    }
    return NULL;
}

int main(int argc, char **argv) {
    if (argc < 2) {
        fprintf(stderr, "usage: %s POOL [JOBS]\n", argv[0]);
        return 2;
    }
    unsigned long jobs = argc > 2 ? strtoul(argv[2], NULL, 10) : 2000;
    everleaf_db *db;
    everleaf_tree *tree;
    must(everleaf_open(argv[1], NULL, &db));
    must(everleaf_tree_create(db, "jobs", &tree));

    /* What a run before has left over is taken as well. */
    uint64_t left = 0;
    must(everleaf_tree_len(tree, &left));
    wanted = (unsigned long)left + THREADS * (jobs / THREADS);

    pthread_t threads[2 * THREADS];
    struct work works[2 * THREADS];
    for (int i = 0; i < 2 * THREADS; i++) {
        int adds = i < THREADS;
        works[i] = (struct work){db, tree, adds ? jobs / THREADS : 0};
        if (pthread_create(&threads[i], NULL, adds ? produce : consume, &works[i]) != 0) {
            return 1;
        }
    }
    for (int i = 0; i < 2 * THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    must(everleaf_tree_len(tree, &left));
    printf("%lu jobs taken, %lu left\n", works[2].count + works[3].count, (unsigned long)left);
    must(everleaf_close(db));
    everleaf_tree_free(tree);
    everleaf_db_free(db);
    return 0;
}
