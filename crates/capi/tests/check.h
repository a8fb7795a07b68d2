/* The code that the programs of these tests have in common. Each of them ends with 0, or prints the line that is wrong. */
#ifndef CHECK_H
#define CHECK_H

#include "everleaf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPECT(condition)                                                                      \
    do {                                                                                       \
        if (!(condition)) {                                                                    \
            fprintf(stderr, "%s:%d: not so: %s; the last failure was %d, %s\n", __FILE__,      \
                    __LINE__, #condition, everleaf_last_code(), everleaf_last_message());      \
            exit(1);                                                                           \
        }                                                                                      \
    } while (0)

/* The call must succeed. */
#define DO(call) EXPECT((call) == EVERLEAF_OK)

/* The call must fail with this code, and the message must have this text. */
#define FAILS(code, text, call)                                                                \
    do {                                                                                       \
        EXPECT((call) == (code));                                                              \
        EXPECT(everleaf_last_code() == (code));                                                \
        EXPECT(strstr(everleaf_last_message(), (text)) != NULL);                               \
    } while (0)

/* A path in the folder that the program was given. Good until the fourth call after it. */
static inline const char *in_folder(const char *folder, const char *name) {
    static char paths[4][4096];
    static unsigned next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

#endif
