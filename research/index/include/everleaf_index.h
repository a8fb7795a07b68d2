/*
 * Ordered indexes from uint64_t to uint64_t, by name: the trees of the papers, their variants, and eleven rivals; in memory, on
 * persistent memory, or on a file. For harnesses that measure and check them.
 *
 * Codes. A function returns EVERLEAF_INDEX_OK (0) if it has done its work, EVERLEAF_INDEX_NOT_FOUND (1) or
 * EVERLEAF_INDEX_EXISTS (2) if it has changed nothing because of what is there, and a number below 0 for an error; the numbers
 * are those of everleaf.h, and fixed. After an error everleaf_index_last_message, ..._code and ..._errno tell more; they belong
 * to the thread, and stay until its next failure. Every function may return EVERLEAF_INDEX_INVALID for an argument that is not
 * allowed, EVERLEAF_INDEX_PANIC for a defect of the library, and, if it has a handle, EVERLEAF_INDEX_CLOSED after the close
 * and EVERLEAF_INDEX_FORKED in a child of the process that has opened it.
 *
 * Ownership. everleaf_index_open gives you a handle. everleaf_index_close ends its tree, everleaf_index_free frees it, and NULL
 * may be freed. Texts that are returned last as long as the program, but for the message of the last failure. Arrays are yours.
 *
 * Threads. Any number of threads may use a handle at once. Nobody may be in a call with it while it is closed, recovered or
 * freed. The library has threads of its own for some trees, calls functions of yours in everleaf_index_check alone, never
 * unwinds into you, and cannot be unloaded.
 *
 * Keys and values. All of them are allowed, 0 and UINT64_MAX too, and values may repeat.
 */

#ifndef EVERLEAF_INDEX_H
#define EVERLEAF_INDEX_H

/* Made by `cargo xtask header` of research/index/src: change that. */

#include <stddef.h>
#include <stdint.h>

/**
 * The call has done what was asked for.
 */
#define EVERLEAF_INDEX_OK 0

/**
 * The key is not there, and nothing was changed. It is no error.
 */
#define EVERLEAF_INDEX_NOT_FOUND 1

/**
 * The key is there already, and nothing was changed. It is no error.
 */
#define EVERLEAF_INDEX_EXISTS 2

/**
 * Bytes of the pool are not what was written.
 */
#define EVERLEAF_INDEX_CORRUPT -1

/**
 * The file is no pool, or one of another tree.
 */
#define EVERLEAF_INDEX_FOREIGN -2

/**
 * The pool is open already; the message says whether in this process or in another one.
 */
#define EVERLEAF_INDEX_LOCKED -3

/**
 * A file that is not the pool's has a name that the pool needs.
 */
#define EVERLEAF_INDEX_IN_THE_WAY -4

/**
 * The handle was closed.
 */
#define EVERLEAF_INDEX_CLOSED -5

/**
 * The handle was opened by a process of which this one is a fork. Nothing was done.
 */
#define EVERLEAF_INDEX_FORKED -6

/**
 * The file is not on a DAX file system, which EVERLEAF_INDEX_DAX needs.
 */
#define EVERLEAF_INDEX_NOT_DAX -7

/**
 * The operating system failed a call: everleaf_index_last_errno says how.
 */
#define EVERLEAF_INDEX_IO -8

/**
 * There is no memory. Nothing was changed.
 */
#define EVERLEAF_INDEX_NO_MEMORY -9

/**
 * Writes have stopped after an earlier failure, which the message names.
 */
#define EVERLEAF_INDEX_POISONED -10

/**
 * There is no room for more than `keys` of the options said. Nothing was changed.
 */
#define EVERLEAF_INDEX_FULL -11

/**
 * The epoch has changed as many bytes as memory can hold, and no thread ends epochs. End it with everleaf_index_sync.
 */
#define EVERLEAF_INDEX_EPOCH_TOO_LARGE -12

/**
 * Other threads were in the way for more than ten minutes.
 */
#define EVERLEAF_INDEX_STUCK -15

/**
 * The pool has nodes of another layout than the tree.
 */
#define EVERLEAF_INDEX_WRONG_LAYOUT -30

/**
 * No tree has this name; or this tree cannot be on this medium, or cannot be read in this way; or the processor cannot.
 */
#define EVERLEAF_INDEX_UNSUPPORTED -36

/**
 * An option is outside its limits. Nothing was opened.
 */
#define EVERLEAF_INDEX_INVALID_OPTION -37

/**
 * An argument is not allowed: the program has a mistake, which the message names.
 */
#define EVERLEAF_INDEX_INVALID -38

/**
 * A tree that was checked is not right after a crash, or without one: the message has the image, and what was found there.
 */
#define EVERLEAF_INDEX_UNSOUND -101

/**
 * The call has met a defect of the library, and was ended. All later calls with the handle return
 * EVERLEAF_INDEX_POISONED. The message says where it was: please report it.
 */
#define EVERLEAF_INDEX_PANIC -100

/**
 * Memory: a flush and a fence are nothing, and nothing outlives the process.
 */
#define EVERLEAF_INDEX_DRAM 1

/**
 * The same, but stores, flushed lines and fences are counted, as everleaf_index_stats tells. Trees have no threads of their
 * own there, so that counts are the same each time.
 */
#define EVERLEAF_INDEX_COUNTED 2

/**
 * Any file in place of persistent memory, mapped. Lines are flushed; what is stored survives a crash of the process, and is
 * lost with the power.
 */
#define EVERLEAF_INDEX_EMULATED_DAX 4

/**
 * A file on a DAX file system, mapped: persistent memory.
 */
#define EVERLEAF_INDEX_DAX 8

/**
 * An ordinary file with a journal; writes are durable by epochs.
 */
#define EVERLEAF_INDEX_FILE 16

/**
 * Readers validate what they have read.
 */
#define EVERLEAF_INDEX_OPTIMISTIC 0

/**
 * Readers go on beside a writer, as FAST+FAIR's do: in trees of linear nodes, on EVERLEAF_INDEX_COUNTED,
 * EVERLEAF_INDEX_EMULATED_DAX and EVERLEAF_INDEX_DAX, whose stores have an order.
 */
#define EVERLEAF_INDEX_LOCK_FREE 1

/**
 * Readers latch the leaf.
 */
#define EVERLEAF_INDEX_LATCHED 2

/**
 * Lines are flushed by the best instruction that the processor has; where it reports that its caches survive, fences are
 * enough.
 */
#define EVERLEAF_INDEX_FLUSH_BEST 0

/**
 * Lines are flushed by clwb.
 */
#define EVERLEAF_INDEX_FLUSH_CLWB 1

/**
 * Lines are flushed by clflushopt.
 */
#define EVERLEAF_INDEX_FLUSH_CLFLUSHOPT 2

/**
 * Lines are flushed by clflush.
 */
#define EVERLEAF_INDEX_FLUSH_CLFLUSH 3

/**
 * No line is flushed: caches survive the power.
 */
#define EVERLEAF_INDEX_FLUSH_NONE 4

/**
 * An open tree.
 */
typedef struct everleaf_index everleaf_index;

/**
 * How a tree is opened. Fill it by everleaf_index_options_init, and change what is to be otherwise.
 */
typedef struct everleaf_index_options {
  /**
   * Its own size, which everleaf_index_options_init sets.
   */
  size_t struct_bytes;
  /**
   * The file, for media that have one; NULL for the others. It is used during the call alone.
   */
  const char *path;
  /**
   * The most keys that it holds at once: a million. A tree on a file grows as it needs.
   */
  uint64_t keys;
  /**
   * Microseconds of an epoch, for BdTree, Montage, and trees on a file: 10,000; from 100 to 10,000,000. 0: epochs end by
   * everleaf_index_sync alone, and BdTree frees no empty leaves.
   */
  uint64_t epoch_us;
  /**
   * EVERLEAF_INDEX_DRAM, or another one of the media.
   */
  uint32_t medium;
  /**
   * Slots of 16 bytes in a page, for trees of which the page has no fixed size: a power of two, 4 to 1,024. 0: 32, or 256 on
   * a file. A pool that is there keeps its own.
   */
  uint32_t slots;
  /**
   * EVERLEAF_INDEX_OPTIMISTIC, or another way of reading, for the trees that have a choice.
   */
  uint32_t reading;
  /**
   * EVERLEAF_INDEX_FLUSH_BEST, or another instruction, for EVERLEAF_INDEX_EMULATED_DAX and EVERLEAF_INDEX_DAX.
   */
  uint32_t flush;
  /**
   * Threads that rebuild the inner nodes of BdTree in an open: 1.
   */
  uint32_t threads;
  /**
   * Whether the file is made if it is not there: 1.
   */
  uint32_t create;
} everleaf_index_options;

/**
 * Figures of a tree. A figure that does not apply is 0.
 */
typedef struct everleaf_index_stats {
  /**
   * Bytes of pages in use, on the medium.
   */
  uint64_t pool_bytes;
  /**
   * Bytes of pages that are free, on media of a fixed size.
   */
  uint64_t free_bytes;
  /**
   * Bytes of frames, in DRAM: latches, and what searches use beside the pages.
   */
  uint64_t frame_bytes;
  /**
   * Bytes of inner nodes in pages in DRAM.
   */
  uint64_t inner_bytes;
  /**
   * Stores of 8 bytes, since the open; on EVERLEAF_INDEX_COUNTED alone, and so the next two.
   */
  uint64_t stores;
  /**
   * Lines flushed.
   */
  uint64_t flushes;
  /**
   * Fences.
   */
  uint64_t fences;
  /**
   * Epochs that were made durable, of BdTree and Montage.
   */
  uint64_t epochs_ended;
  /**
   * Lines that they have written back at their ends.
   */
  uint64_t lines_deferred;
  /**
   * Bytes that were written to the journal of a file.
   */
  uint64_t journal_bytes;
} everleaf_index_stats;

/**
 * A tree of yours, as functions. None may throw an exception, and each is called by one thread.
 */
typedef struct everleaf_index_tree {
  /**
   * Makes the tree in an area of zeros, or recovers it from what a crash has left in the area; returns what the other
   * functions get, or NULL if the area is none of the tree's. The area begins at a line, and stays
   * where it is until the close; another open may get another one, so what is in it are offsets, not pointers.
   */
  void *(*open)(void *area, size_t bytes);
  /**
   * Frees what the tree has beside its area, in which it changes nothing. May be NULL.
   */
  void (*close)(void *tree);
  /**
   * Sets the value of a key, whether it is there or not. Durable when it returns.
   */
  void (*put)(void *tree, uint64_t key, uint64_t value);
  /**
   * Removes a key, if it is there. Durable when it returns.
   */
  void (*remove)(void *tree, uint64_t key);
  /**
   * Writes the value of a key, and returns whether it is there.
   */
  int (*get)(void *tree, uint64_t key, uint64_t *value);
} everleaf_index_tree;

/**
 * An operation of a workload.
 */
typedef struct everleaf_index_operation {
  /**
   * Whether `key` is removed, rather than set to `value`.
   */
  int removes;
  uint64_t key;
  uint64_t value;
} everleaf_index_operation;

/**
 * The findings of a check.
 */
typedef struct everleaf_index_verdict {
  /**
   * Crash images that were recovered and found right, if the tree is sound.
   */
  uint64_t images;
  /**
   * Of these, those of a crash inside recovery.
   */
  uint64_t in_recovery;
  /**
   * Moments at which the power was cut.
   */
  uint64_t crash_points;
  /**
   * Of these, those of which all images were built.
   */
  uint64_t exhaustive_points;
  /**
   * Stores of 8 bytes of the first open and the workload; exact.
   */
  uint64_t stores;
  /**
   * Lines that they flushed.
   */
  uint64_t flushes;
  /**
   * Their fences.
   */
  uint64_t fences;
} everleaf_index_verdict;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Returns the name of a code, such as "EVERLEAF_INDEX_FULL", or "unknown".
 */
const char *everleaf_index_code_name(int code);

/**
 * Returns the code of this thread's last failure; EVERLEAF_INDEX_OK if nothing has failed yet.
 */
int everleaf_index_last_code(void);

/**
 * Returns a sentence about this thread's last failure, in English and UTF-8; empty if nothing has failed yet. It is good
 * until the thread's next failure, or its end.
 */
const char *everleaf_index_last_message(void);

/**
 * Returns the errno of this thread's last failure, or 0 if the operating system was not the reason.
 */
int everleaf_index_last_errno(void);

/**
 * Returns how many trees there are.
 */
size_t everleaf_index_count(void);

/**
 * Returns the name of the tree at a place in the list of all, from 0 on, or NULL behind the last one.
 */
const char *everleaf_index_name(size_t at);

/**
 * Returns the media that the tree of this name can be on, as the sum of their numbers, or 0 if no tree has this name. That
 * the machine has each of them is not said.
 */
uint32_t everleaf_index_media(const char *name);

/**
 * Fills options with what is usual. `struct_bytes` is sizeof(everleaf_index_options).
 *
 * Errors: EVERLEAF_INDEX_INVALID for NULL and for another size, which a program has that was compiled with another header.
 */
int everleaf_index_options_init(struct everleaf_index_options *options,
                                size_t struct_bytes);

/**
 * Returns the version of this library, such as "0.1.0".
 */
const char *everleaf_index_version(void);

/**
 * Opens the tree of this name and makes a handle to it in `*out`, which is yours to free with everleaf_index_free; `*out` is
 * NULL after an error. `options` may be NULL, which stands for the defaults: a tree in memory for a million keys. A tree whose
 * inner nodes are in memory reads all of its leaves.
 *
 * Errors: EVERLEAF_INDEX_UNSUPPORTED for a name that everleaf_index_name does not have, a medium that
 * everleaf_index_media does not have, or a way of reading that the tree lacks; EVERLEAF_INDEX_INVALID_OPTION;
 * EVERLEAF_INDEX_IO; EVERLEAF_INDEX_NO_MEMORY; EVERLEAF_INDEX_LOCKED; EVERLEAF_INDEX_NOT_DAX; EVERLEAF_INDEX_FOREIGN if the
 * file is no pool, or that of a tree of other pages; EVERLEAF_INDEX_WRONG_LAYOUT; EVERLEAF_INDEX_CORRUPT.
 */
int everleaf_index_open(const char *name,
                        const struct everleaf_index_options *options,
                        struct everleaf_index **out);

/**
 * Makes all durable that was done, marks the pool as cleanly closed, and gives its file back. Nobody may be in another call
 * with the handle. All calls with it return EVERLEAF_INDEX_CLOSED from then on, a second close too; free it as always.
 *
 * Errors: those of everleaf_index_sync. The file is given back in any case.
 */
int everleaf_index_close(struct everleaf_index *index);

/**
 * Frees the handle, and closes it if nobody has: an error of that is lost, so call everleaf_index_close before. NULL may be
 * freed. Nobody may be in a call with it.
 */
void everleaf_index_free(struct everleaf_index *index);

/**
 * Writes the value of a key to `*value`, which may be NULL.
 *
 * Returns EVERLEAF_INDEX_NOT_FOUND if the key is not there. Errors: EVERLEAF_INDEX_CORRUPT, EVERLEAF_INDEX_IO.
 */
int everleaf_index_get(const struct everleaf_index *index,
                       uint64_t key,
                       uint64_t *value);

/**
 * Adds a key with a value. Of several threads that insert the same key at once, one does.
 *
 * Returns EVERLEAF_INDEX_EXISTS if the key is there, with whatever value: nothing is changed then. Errors:
 * EVERLEAF_INDEX_FULL, EVERLEAF_INDEX_NO_MEMORY, EVERLEAF_INDEX_IO, EVERLEAF_INDEX_POISONED, EVERLEAF_INDEX_CORRUPT,
 * EVERLEAF_INDEX_EPOCH_TOO_LARGE, EVERLEAF_INDEX_STUCK.
 */
int everleaf_index_insert(struct everleaf_index *index,
                          uint64_t key,
                          uint64_t value);

/**
 * Sets the value of a key, whether it is there or not.
 *
 * Errors: those of everleaf_index_insert.
 */
int everleaf_index_put(struct everleaf_index *index, uint64_t key, uint64_t value);

/**
 * Sets the value of a key that is there.
 *
 * Returns EVERLEAF_INDEX_NOT_FOUND if it is not. Errors: those of everleaf_index_insert.
 */
int everleaf_index_update(struct everleaf_index *index, uint64_t key, uint64_t value);

/**
 * Removes a key, and writes its value to `*value`, which may be NULL.
 *
 * Returns EVERLEAF_INDEX_NOT_FOUND if the key is not there. Errors: those of everleaf_index_insert.
 */
int everleaf_index_remove(struct everleaf_index *index, uint64_t key, uint64_t *value);

/**
 * Fills two arrays with the first `count` pairs from the key `from` on, that included, in ascending order, and writes how
 * many there were to `*found`. Either array may be NULL, but not `found`. Pairs of one leaf are of one moment.
 *
 * Errors: those of everleaf_index_get; EVERLEAF_INDEX_NO_MEMORY.
 */
int everleaf_index_scan(const struct everleaf_index *index,
                        uint64_t from,
                        size_t count,
                        uint64_t *keys,
                        uint64_t *values,
                        size_t *found);

/**
 * Looks for `count` keys. For each one that is there, its value is written to its place in `values`, and 1 to its place in
 * `is_there`; for the others 0 to both. Writes how many are there to `*found`, which may be NULL. Each get is of a moment of
 * its own.
 *
 * Errors: those of everleaf_index_get: then the arrays hold what was found before.
 */
int everleaf_index_get_many(const struct everleaf_index *index,
                            const uint64_t *keys,
                            size_t count,
                            uint64_t *values,
                            uint8_t *is_there,
                            size_t *found);

/**
 * Makes durable all that was done before this call. Trees without epochs on persistent memory need none of it; in memory it
 * does nothing.
 *
 * Errors: EVERLEAF_INDEX_POISONED, EVERLEAF_INDEX_IO, EVERLEAF_INDEX_NO_MEMORY.
 */
int everleaf_index_sync(struct everleaf_index *index);

/**
 * Writes the running epoch to `*running` and the last durable one to `*durable`; either may be NULL. A write that returned
 * before the call is durable as soon as an epoch is that is not below `*running`.
 *
 * Returns EVERLEAF_INDEX_NOT_FOUND if the tree has no epochs: a write is durable when it returns, or the tree is in memory.
 */
int everleaf_index_epoch(const struct everleaf_index *index,
                         uint64_t *running,
                         uint64_t *durable);

/**
 * Completes what a crash has left, and gives back what it has leaked; writes the number of pages that were given back to
 * `*returned`, and that of entries that parents lacked to `*completed`. Either may be NULL. It costs a walk over the tree. Call
 * it after an open that follows a crash. Without it the tree is right, and is completed as it is used; what leaked stays so.
 * Of BdTree and the rivals the open has done all of it, and this does nothing. Nobody else may use the tree meanwhile.
 *
 * Errors: EVERLEAF_INDEX_CORRUPT, EVERLEAF_INDEX_FULL, EVERLEAF_INDEX_IO.
 */
int everleaf_index_recover(struct everleaf_index *index,
                           uint64_t *returned,
                           uint64_t *completed);

/**
 * Fills `*stats`. `struct_bytes` is sizeof(everleaf_index_stats). It looks at one byte for each page.
 *
 * Errors: EVERLEAF_INDEX_INVALID for another size; EVERLEAF_INDEX_CORRUPT, EVERLEAF_INDEX_IO.
 */
int everleaf_index_get_stats(const struct everleaf_index *index,
                             struct everleaf_index_stats *stats,
                             size_t struct_bytes);

/**
 * Stores 8 bytes at a place that is aligned to them; EL_STORE calls this. Outside of a check it only stores.
 */
void everleaf_index_record_store(uint64_t *place,
                                 uint64_t value);

/**
 * Begins to write back the line of 64 bytes that a place is in; EL_FLUSH calls this. Outside of a check it does nothing.
 */
void everleaf_index_record_flush(const void *place);

/**
 * Waits for what was flushed; EL_FENCE calls this. Outside of a check it does nothing.
 */
void everleaf_index_record_fence(void);

/**
 * Runs a workload on a tree of yours that was compiled with EL_RECORD, cuts the power before each of its stores, flushes and
 * fences, and has the tree recover from each image that a processor may leave then; crashes these recoveries, too. After each
 * one the tree must hold what it held before or after the operation that was cut off, and go on from there. The area has
 * `area_bytes` at least; it is one page after the other, each of 257 lines, and messages count from there: line 0 of a page is that
 * of its "head words", and "body word" j is byte 64 + 8 j of the page. Writes figures to `*verdict`, which may be NULL.
 *
 * Errors: EVERLEAF_INDEX_UNSOUND for the first image that is not right, which everleaf_index_last_message describes, or if the
 * tree stores beside the macros, or loses something without a crash; EVERLEAF_INDEX_INVALID; EVERLEAF_INDEX_NO_MEMORY.
 */
int everleaf_index_check(const struct everleaf_index_tree *tree,
                         const struct everleaf_index_operation *operations,
                         size_t count,
                         size_t area_bytes,
                         struct everleaf_index_verdict *verdict,
                         size_t verdict_bytes);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* EVERLEAF_INDEX_H */
