/*
 * Three macros by which a tree in C or C++ changes persistent memory. Compiled with EL_RECORD they tell the crash checker of
 * everleaf_index, which then cuts the power wherever it may hurt; otherwise they are the instructions themselves.
 *
 *     EL_STORE(place, value)   stores 8 bytes at a place that is aligned to them, whole or not at all
 *     EL_FLUSH(place)          begins to write back the line of 64 bytes that a place is in
 *     EL_FENCE()               waits until what this thread has flushed is durable
 *
 * A tree reads its memory as it likes. C99 and C++11.
 */
#ifndef EVERLEAF_RECORDER_H
#define EVERLEAF_RECORDER_H

#include <stdint.h>

#ifdef EL_RECORD

#include "everleaf_index.h"

#define EL_STORE(place, value)                                                                 \
    everleaf_index_record_store((uint64_t *)(void *)(place), (uint64_t)(value))
#define EL_FLUSH(place) everleaf_index_record_flush((const void *)(place))
#define EL_FENCE() everleaf_index_record_fence()

#else

/* Release: what was stored before is stored before, for other threads too. */
#define EL_STORE(place, value)                                                                 \
    __atomic_store_n((uint64_t *)(void *)(place), (uint64_t)(value), __ATOMIC_RELEASE)

#if defined(EL_VOLATILE)
/* Caches survive the power, or nothing is to: the order of stores is all that is left. */
#define EL_FLUSH(place) ((void)(place))
#define EL_FENCE() __atomic_thread_fence(__ATOMIC_SEQ_CST)
#elif defined(__x86_64__)
#if defined(__CLWB__)
/* clwb, as assemblers write it that do not know its name. */
#define EL_FLUSH(place)                                                                        \
    __asm__ volatile(".byte 0x66; xsaveopt %0" : "+m"(*(volatile char *)(void *)(place)))
#else
/* clflushopt, which older processors take for clflush. */
#define EL_FLUSH(place)                                                                        \
    __asm__ volatile(".byte 0x66; clflush %0" : "+m"(*(volatile char *)(void *)(place)))
#endif
#define EL_FENCE() __asm__ volatile("sfence" ::: "memory")
#elif defined(__aarch64__)
#define EL_FLUSH(place) __asm__ volatile("dc cvac, %0" ::"r"(place) : "memory")
#define EL_FENCE() __asm__ volatile("dsb ish" ::: "memory")
#else
#error "no instruction that flushes a line is known here; EL_VOLATILE leaves them out"
#endif

#endif

#endif
