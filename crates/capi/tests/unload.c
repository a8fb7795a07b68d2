/*
 * unload FOLDER LIBRARY: loads the library, uses it, and lets it go, three times. Its threads run on for seconds after the
 * last close; their code must not be taken away from them.
 */
#define _POSIX_C_SOURCE 200809L
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define EXPECT(condition)                                                                      \
    do {                                                                                       \
        if (!(condition)) {                                                                    \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);            \
            exit(1);                                                                           \
        }                                                                                      \
    } while (0)

typedef int open_function(const char *, const void *, void **);
typedef int tree_function(void *, const char *, void **);
typedef int put_function(void *, const void *, size_t, const void *, size_t);
typedef int close_function(void *);
typedef void free_function(void *);

static void *symbol(void *library, const char *name) {
    void *found = dlsym(library, name);
    EXPECT(found != NULL);
    return found;
}

static void once(const char *path, const char *name) {
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL), *db, *tree;
    /* ISO C has no cast from an object to a function; POSIX has it in this way. */
    open_function *open_pool;
    tree_function *create;
    put_function *put;
    close_function *close_pool;
    free_function *free_tree, *free_pool;
    EXPECT(library != NULL);
    *(void **)&open_pool = symbol(library, "everleaf_open");
    *(void **)&create = symbol(library, "everleaf_tree_create");
    *(void **)&put = symbol(library, "everleaf_put");
    *(void **)&close_pool = symbol(library, "everleaf_close");
    *(void **)&free_tree = symbol(library, "everleaf_tree_free");
    *(void **)&free_pool = symbol(library, "everleaf_db_free");
    EXPECT(open_pool(path, NULL, &db) == 0 && create(db, "t", &tree) == 0);
    EXPECT(put(tree, "k", 1, "v", 1) == 0 && put(NULL, "k", 1, "v", 1) < 0);
    EXPECT(close_pool(db) == 0);
    free_tree(tree);
    free_pool(db);
    EXPECT(dlclose(library) == 0);
}

int main(int argc, char **argv) {
    static char path[4096];
    struct timespec rest = {0, 200000000};
    int i;
    EXPECT(argc == 3);
    snprintf(path, sizeof path, "%s/unload.ever", argv[1]);
    for (i = 0; i < 3; i++) {
        once(path, argv[2]);
        nanosleep(&rest, NULL);
    }
    /* It is still there. */
    EXPECT(dlopen(argv[2], RTLD_NOW | RTLD_NOLOAD) != NULL);
    return 0;
}
