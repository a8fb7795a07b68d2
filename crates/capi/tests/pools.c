/*
 * pools FOLDER COUNT: many small pools in one process. Prints what each takes; fails if a pool takes more than one
 * descriptor or 0.25 MB of memory. Times are printed, and nothing depends on them.
 */
#define _POSIX_C_SOURCE 200809L
#include "check.h"

#include <dirent.h>
#include <time.h>
#include <unistd.h>

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e3 + (double)time.tv_nsec / 1e6;
}

static long resident(void) {
    long all, pages;
    FILE *file = fopen("/proc/self/statm", "r");
    EXPECT(file && fscanf(file, "%ld %ld", &all, &pages) == 2);
    fclose(file);
    return pages * sysconf(_SC_PAGESIZE);
}

static long entries(const char *folder) {
    long count = 0;
    DIR *open_folder = opendir(folder);
    while (readdir(open_folder)) count++;
    closedir(open_folder);
    return count;
}

static double open_all(const char *folder, size_t count, const everleaf_options *o, everleaf_db **dbs) {
    double begun = now();
    char name[40];
    size_t i;
    for (i = 0; i < count; i++) {
        snprintf(name, sizeof name, "%lu.ever", (unsigned long)i);
        DO(everleaf_open(in_folder(folder, name), o, &dbs[i]));
    }
    return (now() - begun) / (double)count;
}

int main(int argc, char **argv) {
    everleaf_options *o = everleaf_options_new();
    everleaf_db **dbs;
    everleaf_tree *tree;
    size_t count, i, pair;
    long memory, files, threads, each_memory, each_files;
    double made, opened;
    EXPECT(argc == 3);
    count = strtoul(argv[2], NULL, 10);
    dbs = calloc(count, sizeof *dbs);
    DO(everleaf_options_memory(o, 1 << 20));
    /* The first pool brings what all of them share. */
    DO(everleaf_open(in_folder(argv[1], "first.ever"), o, &dbs[0]));
    everleaf_db_free(dbs[0]);
    memory = resident();
    files = entries("/proc/self/fd");
    made = open_all(argv[1], count, o, dbs);
    for (i = 0; i < count; i++) {
        DO(everleaf_tree_create(dbs[i], "t", &tree));
        for (pair = 0; pair < 100; pair++) DO(everleaf_put(tree, &pair, sizeof pair, "a value of some length", 22));
        everleaf_tree_free(tree);
    }
    each_memory = (resident() - memory) / (long)count;
    each_files = (entries("/proc/self/fd") - files) / (long)count;
    EXPECT(entries("/proc/self/fd") - files == (long)count);
    threads = entries("/proc/self/task") - 2;
    for (i = 0; i < count; i++) {
        DO(everleaf_close(dbs[i]));
        everleaf_db_free(dbs[i]);
    }
    EXPECT(entries("/proc/self/fd") == files);
    opened = open_all(argv[1], count, o, dbs);
    for (i = 0; i < count; i++) everleaf_db_free(dbs[i]);
    printf("%lu pools: %ld bytes and %ld descriptors each, %ld threads, %.2f ms to make, %.2f ms to open\n",
           (unsigned long)count, each_memory, each_files, threads, made, opened);
    EXPECT(each_memory <= 250000);
    EXPECT(threads <= 65);
    free(dbs);
    everleaf_options_free(o);
    return 0;
}
