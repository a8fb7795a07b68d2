/* The code that the programs of these tests share. Each program ends with 0, or prints the line that is wrong. */
#ifndef CHECK_H
#define CHECK_H

#include "everleaf_index.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPECT(condition)                                                                      \
    do {                                                                                       \
        if (!(condition)) {                                                                    \
            fprintf(stderr, "%s:%d: not so: %s; the last failure was %d, %s\n", __FILE__,      \
                    __LINE__, #condition, everleaf_index_last_code(),                          \
                    everleaf_index_last_message());                                            \
            exit(1);                                                                           \
        }                                                                                      \
    } while (0)

/* The call must succeed. */
#define DO(call) EXPECT((call) == EVERLEAF_INDEX_OK)

/* The call must fail with this code, and the message must have this text. */
#define FAILS(code, text, call)                                                                \
    do {                                                                                       \
        EXPECT((call) == (code));                                                              \
        EXPECT(everleaf_index_last_code() == (code));                                          \
        EXPECT(strstr(everleaf_index_last_message(), (text)) != NULL);                         \
    } while (0)

static const uint32_t media[] = {EVERLEAF_INDEX_DRAM, EVERLEAF_INDEX_COUNTED,
                                 EVERLEAF_INDEX_EMULATED_DAX, EVERLEAF_INDEX_DAX,
                                 EVERLEAF_INDEX_FILE};

/* Usual options, for a medium, with a file in a folder. The path is good until the next call. */
static inline everleaf_index_options options_for(uint32_t medium, const char *folder,
                                                 const char *name) {
    static char path[4096];
    everleaf_index_options options;
    DO(everleaf_index_options_init(&options, sizeof options));
    snprintf(path, sizeof path, "%s/%s-%u", folder, name, (unsigned)medium);
    options.medium = medium;
    options.keys = 20000;
    if (medium != EVERLEAF_INDEX_DRAM && medium != EVERLEAF_INDEX_COUNTED) options.path = path;
    return options;
}

#endif
