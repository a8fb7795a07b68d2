/*
 * Runs fuzz.c, where there is no libFuzzer: `FILE ...` runs inputs, `-SECONDS SEED KEPT` makes inputs of earlier ones for so
 * long. An input that reaches code which none has reached, or more often, is kept in memory and changed further; the one that
 * runs is in the file KEPT, so that it is there after a crash.
 *
 * Counters of the compiler (-sanitizer-coverage-inline-8bit-counters) tell which code is reached. Without them, inputs are
 * random.
 */
#define _DEFAULT_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
void __sanitizer_cov_8bit_counters_init(uint8_t *start, uint8_t *stop);
void __sanitizer_cov_pcs_init(const uintptr_t *start, const uintptr_t *stop);

enum { INPUT_MAX = 3000, INPUTS_MAX = 20000, RANGES_MAX = 64 };

struct input {
    uint8_t *bytes;
    size_t len;
};

static struct input inputs[INPUTS_MAX];
static size_t input_count;
static struct {
    uint8_t *start, *stop, *seen;
} ranges[RANGES_MAX];
static size_t range_count, reached;
static uint64_t state;

/* The compiler calls it for each object, most of which name the same range. */
void __sanitizer_cov_8bit_counters_init(uint8_t *start, uint8_t *stop) {
    for (size_t i = 0; i < range_count; i++) {
        if (ranges[i].start == start) return;
    }
    if (start == stop || range_count == RANGES_MAX) return;
    ranges[range_count].start = start;
    ranges[range_count].stop = stop;
    ranges[range_count++].seen = calloc((size_t)(stop - start), 1);
}

void __sanitizer_cov_pcs_init(const uintptr_t *start, const uintptr_t *stop) {
    (void)start;
    (void)stop;
}

static uint64_t next(void) {
    uint64_t z = state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static size_t below(size_t n) { return n == 0 ? 0 : (size_t)(next() % n); }

/* How often, roughly: one bit of eight. */
static uint8_t bucket(uint8_t count) {
    unsigned bit = 0;
    for (unsigned most = 1; count > most && bit < 7; bit++) most *= 2;
    return count == 0 ? 0 : (uint8_t)(1u << bit);
}

/* Whether the last run has reached anything new. */
static int is_new(void) {
    int found = 0;
    for (size_t r = 0; r < range_count; r++) {
        size_t len = (size_t)(ranges[r].stop - ranges[r].start);
        for (size_t i = 0; i < len; i++) {
            uint8_t bit = bucket(ranges[r].start[i]);
            if (bit & ~ranges[r].seen[i]) {
                reached += ranges[r].seen[i] == 0;
                ranges[r].seen[i] |= bit;
                found = 1;
            }
        }
    }
    return found;
}

/* Changes bytes in place, a few times, and returns how many there are then. */
static size_t mutate(uint8_t *bytes, size_t len) {
    for (size_t times = 1 + below(8); times > 0; times--) {
        size_t at = below(len + 1), some = 1 + below(16);
        const struct input *other = &inputs[below(input_count)];
        switch (below(5)) {
        case 0: /* a byte */
            if (at < len) bytes[at] = (uint8_t)next();
            break;
        case 1: /* new bytes between others */
            if (len + some > INPUT_MAX) break;
            memmove(bytes + at + some, bytes + at, len - at);
            for (size_t i = 0; i < some; i++) bytes[at + i] = (uint8_t)next();
            len += some;
            break;
        case 2: /* fewer */
            if (at + some > len) break;
            memmove(bytes + at, bytes + at + some, len - at - some);
            len -= some;
            break;
        case 3: /* the rest of another input */
            some = below(other->len + 1);
            if (at + other->len - some > INPUT_MAX) break;
            memcpy(bytes + at, other->bytes + some, other->len - some);
            len = at + other->len - some;
            break;
        default: /* more at the end */
            for (; some > 0 && len < INPUT_MAX; some--) bytes[len++] = (uint8_t)next();
        }
    }
    return len;
}

static void keep(const uint8_t *bytes, size_t len) {
    size_t at = input_count < INPUTS_MAX ? input_count++ : below(INPUTS_MAX);
    free(inputs[at].bytes);
    inputs[at].bytes = malloc(len + 1);
    inputs[at].len = len;
    memcpy(inputs[at].bytes, bytes, len);
}

static void search(time_t seconds, const char *kept) {
    int file = open(kept, O_RDWR | O_CREAT, 0644);
    if (file < 0 || ftruncate(file, INPUT_MAX) != 0) exit(1);
    uint8_t *bytes = mmap(NULL, INPUT_MAX, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (bytes == MAP_FAILED) exit(1);
    keep(bytes, 0);
    size_t runs = 0;
    for (time_t end = time(NULL) + seconds; time(NULL) < end; runs++) {
        const struct input *from = &inputs[below(input_count)];
        memcpy(bytes, from->bytes, from->len);
        size_t len = mutate(bytes, from->len);
        memset(bytes + len, 0, INPUT_MAX - len);
        for (size_t r = 0; r < range_count; r++) {
            memset(ranges[r].start, 0, (size_t)(ranges[r].stop - ranges[r].start));
        }
        LLVMFuzzerTestOneInput(bytes, len);
        if (is_new()) keep(bytes, len);
    }
    printf("%zu inputs in %ld s, %zu kept, %zu places reached\n", runs, (long)seconds, input_count,
           reached);
}

int main(int argc, char **argv) {
    if (argc == 4 && argv[1][0] == '-') {
        state = strtoull(argv[2], NULL, 10);
        search((time_t)strtoul(argv[1] + 1, NULL, 10), argv[3]);
        return 0;
    }
    for (int i = 1; i < argc; i++) {
        static uint8_t bytes[1 << 20];
        FILE *file = fopen(argv[i], "rb");
        if (file == NULL) return 1;
        size_t len = fread(bytes, 1, sizeof bytes, file);
        fclose(file);
        LLVMFuzzerTestOneInput(bytes, len);
        printf("%s: %zu bytes\n", argv[i], len);
    }
    return 0;
}
