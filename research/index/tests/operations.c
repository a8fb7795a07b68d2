/*
 * FOLDER COUNT SEED [alone]: random operations on every tree and every medium that the machine has, beside two arrays. After
 * each thousand the tree is compared as a whole, and at the end, on media with a file, closed and opened again. With `alone` the
 * work is a thread's that ends, and the program ends when all others have: memory tools see nothing of theirs.
 */
#define _POSIX_C_SOURCE 200809L
#include "check.h"

#include <dirent.h>
#include <pthread.h>
#include <time.h>

enum { KEYS = 3000 };

static uint64_t random_state;

static uint64_t next_random(void) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return random_state >> 33;
}

/* The key of a number: 0, and UINT64_MAX, and others that ascend between them. */
static uint64_t key_of(uint64_t number) {
    return number == 0 ? 0 : number == KEYS - 1 ? UINT64_MAX : number * 0x0005555555555555u;
}

static struct {
    int is_there[KEYS];
    uint64_t values[KEYS];
} model;

static void compare(everleaf_index *index, uint64_t first, size_t count) {
    static uint64_t keys[KEYS], values[KEYS];
    size_t found, at = 0;
    DO(everleaf_index_scan(index, key_of(first), count, keys, values, &found));
    EXPECT(found <= count);
    for (uint64_t number = first; number < KEYS && at < count; number++) {
        if (!model.is_there[number]) continue;
        EXPECT(at < found && keys[at] == key_of(number) && values[at] == model.values[number]);
        at++;
    }
    EXPECT(at == found);
}

static void compare_many(everleaf_index *index) {
    enum { MANY = 64 };
    uint64_t numbers[MANY], keys[MANY], values[MANY];
    uint8_t is_there[MANY];
    size_t found, expected = 0;
    for (int i = 0; i < MANY; i++) {
        numbers[i] = next_random() % KEYS;
        keys[i] = key_of(numbers[i]);
        expected += model.is_there[numbers[i]] != 0;
    }
    DO(everleaf_index_get_many(index, keys, MANY, values, is_there, &found));
    EXPECT(found == expected);
    for (int i = 0; i < MANY; i++) {
        EXPECT(is_there[i] == (model.is_there[numbers[i]] != 0));
        EXPECT(!is_there[i] || values[i] == model.values[numbers[i]]);
    }
}

static void step(everleaf_index *index) {
    uint64_t number = next_random() % KEYS, key = key_of(number), value = next_random() % 50;
    int *is_there = &model.is_there[number];
    uint64_t *known = &model.values[number], old = 77;
    switch (next_random() % 10) {
    case 0:
    case 1:
        DO(everleaf_index_put(index, key, value));
        *is_there = 1;
        *known = value;
        break;
    case 2:
    case 3:
        EXPECT(everleaf_index_insert(index, key, value) ==
               (*is_there ? EVERLEAF_INDEX_EXISTS : EVERLEAF_INDEX_OK));
        if (!*is_there) *known = value;
        *is_there = 1;
        break;
    case 4:
        EXPECT(everleaf_index_update(index, key, value) ==
               (*is_there ? EVERLEAF_INDEX_OK : EVERLEAF_INDEX_NOT_FOUND));
        if (*is_there) *known = value;
        break;
    case 5:
    case 6:
        EXPECT(everleaf_index_remove(index, key, &old) ==
               (*is_there ? EVERLEAF_INDEX_OK : EVERLEAF_INDEX_NOT_FOUND));
        EXPECT(old == (*is_there ? *known : 77));
        *is_there = 0;
        break;
    case 7:
        compare(index, number, next_random() % 40);
        break;
    default:
        EXPECT(everleaf_index_get(index, key, &old) ==
               (*is_there ? EVERLEAF_INDEX_OK : EVERLEAF_INDEX_NOT_FOUND));
        EXPECT(old == (*is_there ? *known : 77));
    }
}

static void look(everleaf_index *index, uint32_t medium) {
    everleaf_index_stats stats;
    uint64_t running = 0, durable = 0;
    compare(index, 0, KEYS);
    compare_many(index);
    DO(everleaf_index_sync(index));
    DO(everleaf_index_get_stats(index, &stats, sizeof stats));
    EXPECT(stats.pool_bytes > 0);
    EXPECT((stats.stores > 0) == (medium == EVERLEAF_INDEX_COUNTED));
    EXPECT((stats.flushes > 0) == (medium == EVERLEAF_INDEX_COUNTED));
    if (everleaf_index_epoch(index, &running, &durable) == EVERLEAF_INDEX_OK)
        EXPECT(durable < running && running > 0);
}

/* Says whether the machine has the medium. */
static int try(const char *folder, const char *name, uint32_t medium, unsigned long count) {
    everleaf_index_options options = options_for(medium, folder, name);
    everleaf_index *index;
    int code = everleaf_index_open(name, &options, &index);
    if (medium == EVERLEAF_INDEX_DAX && code == EVERLEAF_INDEX_NOT_DAX) return 0;
    EXPECT(code == EVERLEAF_INDEX_OK);
    memset(&model, 0, sizeof model);
    for (unsigned long i = 0; i < count; i++) {
        step(index);
        if (i % 1000 == 0) look(index, medium);
    }
    look(index, medium);
    DO(everleaf_index_close(index));
    FAILS(EVERLEAF_INDEX_CLOSED, "closed", everleaf_index_get(index, 1, NULL));
    everleaf_index_free(index);
    if (options.path == NULL) return 1;
    options.create = 0;
    DO(everleaf_index_open(name, &options, &index));
    look(index, medium);
    DO(everleaf_index_recover(index, &options.keys, NULL));
    EXPECT(options.keys == 0);
    everleaf_index_free(index);
    remove(options.path);
    return 1;
}

/* Waits until this thread is the only one. */
static void wait_alone(void) {
    struct timespec pause = {0, 100000000};
    int threads = 2, waits;
    for (waits = 0; threads > 1 && waits < 600; waits++) {
        DIR *tasks = opendir("/proc/self/task");
        struct dirent *entry;
        threads = 0;
        while ((entry = readdir(tasks)) != NULL) threads += entry->d_name[0] != '.';
        closedir(tasks);
        if (threads > 1) nanosleep(&pause, NULL);
    }
    EXPECT(threads == 1);
}

static void *work(void *arguments) {
    char **argv = arguments;
    unsigned long count = strtoul(argv[2], NULL, 10), trees = 0, runs = 0;
    random_state = strtoul(argv[3], NULL, 10);
    for (size_t at = 0; at < everleaf_index_count(); at++) {
        const char *name = everleaf_index_name(at);
        for (size_t i = 0; i < sizeof media / sizeof *media; i++)
            if (everleaf_index_media(name) & media[i])
                runs += (unsigned long)try(argv[1], name, media[i], count);
        trees++;
    }
    printf("%lu trees, %lu runs of %lu operations\n", trees, runs, count);
    return NULL;
}

int main(int argc, char **argv) {
    pthread_t thread;
    if (argc < 4) return 2;
    EXPECT(pthread_create(&thread, NULL, work, argv) == 0);
    EXPECT(pthread_join(thread, NULL) == 0);
    if (argc > 4) wait_alone();
    return 0;
}
