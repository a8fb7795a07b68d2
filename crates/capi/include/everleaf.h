/*
 * The C library of Everleaf: a crash-safe ordered store of byte strings on an ordinary file.
 *
 * Codes. A function returns EVERLEAF_OK (0) if it has done its work, EVERLEAF_NOT_FOUND (1) if what was asked for is not
 * there, and a number below 0 for an error. The numbers are fixed for ever. After an error everleaf_last_message, ..._code,
 * ..._errno, ..._conflict_tree and ..._conflict_key tell more; they belong to the thread, and stay until its next failure.
 * Every function may return EVERLEAF_INVALID for an argument that is not allowed, EVERLEAF_PANIC for a defect of the library,
 * and, if it has a handle of a pool, EVERLEAF_CLOSED after the close and EVERLEAF_FORKED in a child of the process that has
 * opened it.
 *
 * Ownership. Anything in `*out` is yours, and so are copies; each function names the one that frees it. NULL may be freed,
 * and any order of frees is right, also after the close. `*out` is NULL after an error. A tree, a cursor or a snapshot keeps
 * memory, and does not keep the pool open. Keys, values, names and paths that you give are copied, or used during the call
 * alone. Lent memory must not be freed; each function says how long it is good.
 *
 * Bytes. Keys and values are any bytes, with their length beside them; keys compare as memcmp does, and a prefix comes before
 * what it begins. With a length of 0 the pointer does not matter. Nothing that is lent or copied has a 0 at its end, but for
 * names and messages. A key has 0 to 65,536 bytes, a value 0 to 4,294,967,295.
 *
 * Threads. Any number of threads may use a pool, its trees and its snapshots at once. Options, batches, cursors, scans,
 * transactions and writers are for one thread at a time, each thread may have its own. A handle must not be freed during a
 * call that uses it. The library has threads of its own, which end ten seconds after the last pool was closed; it installs no
 * signal handlers, calls no function of yours, and never unwinds into you. It cannot be unloaded: dlclose does nothing.
 */

#ifndef EVERLEAF_H
#define EVERLEAF_H

/* Made by `cargo xtask header` of crates/capi/src: change that. */

#include <stddef.h>
#include <stdint.h>

/**
 * The call has done what was asked for.
 */
#define EVERLEAF_OK 0

/**
 * The key, the tree or the next pair is not there; the function says what that means. It is no error.
 */
#define EVERLEAF_NOT_FOUND 1

/**
 * Bytes of the pool are not what was written. The rest can still be used; everleaf_check lists all damage.
 */
#define EVERLEAF_CORRUPT -1

/**
 * The file is no pool, or one of a version that this library cannot open.
 */
#define EVERLEAF_FOREIGN -2

/**
 * The pool is open already; the message says whether in this process or in another one.
 */
#define EVERLEAF_LOCKED -3

/**
 * A file that is not the pool's has a name that the pool needs.
 */
#define EVERLEAF_IN_THE_WAY -4

/**
 * The pool was closed or abandoned. Open it again, and get new handles.
 */
#define EVERLEAF_CLOSED -5

/**
 * The pool was opened by a process of which this one is a fork. Nothing was done.
 */
#define EVERLEAF_FORKED -6

/**
 * The file is not on a DAX file system, which EVERLEAF_STORAGE_DAX needs.
 */
#define EVERLEAF_NOT_DAX -7

/**
 * The operating system failed a call: everleaf_last_errno says how.
 */
#define EVERLEAF_IO -8

/**
 * There is no memory. Nothing was changed by this call.
 */
#define EVERLEAF_NO_MEMORY -9

/**
 * Writes have stopped after an earlier failure, which the message names. Reads go on. Close the pool and open it
 * again.
 */
#define EVERLEAF_POISONED -10

/**
 * The pool has as many bytes as everleaf_options_max_bytes allows.
 */
#define EVERLEAF_FULL -11

/**
 * The epoch has changed as many bytes as memory can hold, and a checkpoint could not write them. End it with everleaf_sync.
 */
#define EVERLEAF_EPOCH_TOO_LARGE -12

/**
 * The old values that a snapshot or a transaction sees were not kept any longer. Take a new one.
 */
#define EVERLEAF_SNAPSHOT_TOO_OLD -13

/**
 * Others have changed what a transaction has read. Nothing has happened: run it again, reads included.
 * everleaf_last_conflict_key says which key it was.
 */
#define EVERLEAF_CONFLICT -14

/**
 * Other threads were in the way for more than ten minutes.
 */
#define EVERLEAF_STUCK -15

/**
 * A transaction or a batch would take more memory than everleaf_options_transaction_memory allows.
 */
#define EVERLEAF_TRANSACTION_TOO_LARGE -16

/**
 * The pool was opened for reading alone, or the tree is that of a snapshot.
 */
#define EVERLEAF_READ_ONLY -17

/**
 * A key has at most 65,536 bytes.
 */
#define EVERLEAF_KEY_TOO_LONG -18

/**
 * A key does not hold what it was to be decoded to. No function of this library returns this.
 */
#define EVERLEAF_KEY_ENCODING -19

/**
 * A value has at most 4,294,967,295 bytes.
 */
#define EVERLEAF_VALUE_TOO_LONG -20

/**
 * The source of a value failed. No function of this library returns this.
 */
#define EVERLEAF_READER -21

/**
 * A writer was finished before it had all bytes of its value. Nothing was changed.
 */
#define EVERLEAF_READER_ENDED -22

/**
 * Key and value together do not fit a page of this pool.
 */
#define EVERLEAF_RECORD_TOO_LONG -23

/**
 * The pairs of a sorted load do not ascend. No function of this library returns this.
 */
#define EVERLEAF_NOT_ASCENDING -24

/**
 * The name of a tree has 1 to 255 bytes.
 */
#define EVERLEAF_TREE_NAME -25

/**
 * Another tree has that name.
 */
#define EVERLEAF_TREE_EXISTS -26

/**
 * The tree was dropped after the handle was made.
 */
#define EVERLEAF_NO_TREE -27

/**
 * The tree belongs to another pool than the batch, transaction or snapshot.
 */
#define EVERLEAF_OTHER_POOL -28

/**
 * Only an empty tree can be discarded. No function of this library returns this.
 */
#define EVERLEAF_NOT_EMPTY -29

/**
 * The pool was made by another program with trees of another layout.
 */
#define EVERLEAF_WRONG_LAYOUT -30

/**
 * Something that was to be made is there already, or is in use.
 */
#define EVERLEAF_IN_USE -31

/**
 * A file has the name that a new one was to get. It was not touched.
 */
#define EVERLEAF_FILE_EXISTS -32

/**
 * The call would wait for an epoch that this thread keeps from ending.
 */
#define EVERLEAF_INSIDE_BATCH -33

/**
 * A crash has left work that an open for writing must do first.
 */
#define EVERLEAF_UNRECOVERED -34

/**
 * A call ended half-way. It is the cause of EVERLEAF_POISONED, and is not returned itself.
 */
#define EVERLEAF_INTERRUPTED -35

/**
 * The processor, the file system or the kind of pool cannot do this.
 */
#define EVERLEAF_UNSUPPORTED -36

/**
 * An option is outside its limits, or contradicts another one or the pool. Nothing was opened.
 */
#define EVERLEAF_INVALID_OPTION -37

/**
 * An argument is not allowed: the program has a mistake, which the message names.
 */
#define EVERLEAF_INVALID -38

/**
 * Two transactions that lock what they use have waited for each other. Transactions of this library lock nothing, so it is
 * not returned yet.
 */
#define EVERLEAF_DEADLOCK -39

/**
 * The call has met a defect of the library, and was ended. Writes to the pool have stopped, as after
 * EVERLEAF_POISONED. The message says where it was: please report it.
 */
#define EVERLEAF_PANIC -100

/**
 * The buffer of the caller is too small; the function says how many bytes are needed. Nothing was copied.
 */
#define EVERLEAF_BUFFER_TOO_SMALL -101

/**
 * A write is as durable as everleaf_options_durability says.
 */
#define EVERLEAF_AS_OPENED 0

/**
 * A write is on disk one interval and two disk syncs after it returned.
 */
#define EVERLEAF_BUFFERED 1

/**
 * A write is on disk when it returns.
 */
#define EVERLEAF_SYNC 2

/**
 * The pool is an ordinary file.
 */
#define EVERLEAF_STORAGE_FILE 0

/**
 * The pool is persistent memory: a mapped file on a DAX file system.
 */
#define EVERLEAF_STORAGE_DAX 1

/**
 * The pool is a mapped file on any file system, and survives a crash of the process, not of the system.
 */
#define EVERLEAF_STORAGE_EMULATED_DAX 2

/**
 * Nothing is compressed.
 */
#define EVERLEAF_COMPRESSION_NONE 0

/**
 * Pages and large values are compressed with LZ4, each by itself, where that saves more than an eighth.
 */
#define EVERLEAF_COMPRESSION_LZ4 1

/**
 * A range begins behind its first bound, not at it.
 */
#define EVERLEAF_FROM_EXCLUDED 1

/**
 * A range ends at its second bound, and has that key, too.
 */
#define EVERLEAF_TO_INCLUDED 2

/**
 * A scan goes from the largest key to the smallest one. The bounds stay as they are: `from` is the smaller one.
 */
#define EVERLEAF_REVERSE 4

/**
 * A scan gives keys without values, which are not read.
 */
#define EVERLEAF_KEYS_ONLY 8

/**
 * A commit fails if others have changed anything that the transaction has read. The default.
 */
#define EVERLEAF_SERIALIZABLE 0

/**
 * A commit fails if others have changed a key that the transaction writes, since its first read.
 */
#define EVERLEAF_SNAPSHOT_ISOLATION 1

/**
 * Changes to any trees of one pool that a crash keeps or loses together. Nothing happens before everleaf_batch_commit. One
 * thread at a time may use a batch. Free it with everleaf_batch_free.
 */
typedef struct everleaf_batch everleaf_batch;

/**
 * Memory that pools share. Make one with everleaf_budget_new, open pools with options that name it
 * (everleaf_options_budget), and free it with everleaf_budget_free. Several threads may use it at once.
 *
 * All pools of a budget together take no more memory than it has: pages, large values, old values of snapshots, and changes
 * that wait for the disk. When they would, pages and values leave memory that were not used recently, whichever pool they
 * are of. Pools that name no budget and no memory of their own share that of the process, for which NULL stands here: a
 * quarter of what the process may use.
 */
typedef struct everleaf_budget everleaf_budget;

/**
 * A place in a tree. It holds no lock, and lends keys and values from its own memory.
 *
 * A new cursor is at neither end: everleaf_cursor_next goes to the first pair, everleaf_cursor_prev to the last one. A step
 * that finds no pair puts it behind the last one or before the first one, and the step back gives that one. If the pair under
 * it is removed, it keeps key and value, and goes on from there. One thread at a time may use a cursor. Free it with
 * everleaf_cursor_free.
 */
typedef struct everleaf_cursor everleaf_cursor;

/**
 * The damages of a pool, by their places in the file. The list stays as it was, whatever happens to the pool.
 */
typedef struct everleaf_damages everleaf_damages;

/**
 * An open pool of named trees, from everleaf_open. Any number of threads may use it at once.
 *
 * Close it with everleaf_close, which says whether that worked, and free it with everleaf_db_free. Handles from it
 * (trees, batches, cursors, scans, snapshots, transactions, writers) may be freed before or after it, in any order, and
 * do not keep the pool open: after the close, or the free, of this handle all calls return EVERLEAF_CLOSED.
 */
typedef struct everleaf_db everleaf_db;

/**
 * The names of trees, in bytewise order. They stay as they were, whatever happens to the trees and to the pool.
 */
typedef struct everleaf_names everleaf_names;

/**
 * Settings for opening a pool. Make them with everleaf_options_new, set what you need, open as many pools as you like with
 * them, and free them with everleaf_options_free.
 */
typedef struct everleaf_options everleaf_options;

/**
 * A walk over a range of a tree, of a tree of a snapshot, or of a tree as a transaction sees it. One thread at a time may use
 * it. Free it with everleaf_scan_free.
 */
typedef struct everleaf_scan everleaf_scan;

/**
 * All trees of a pool as they were at one moment. While it is open, writers keep the values that they replace. Any number of
 * threads may use it at once. Free it with everleaf_snapshot_free; trees that came from it keep the moment until they are
 * freed, too.
 */
typedef struct everleaf_snapshot everleaf_snapshot;

/**
 * A named ordered map from bytes to bytes, as it is now or as a snapshot sees it. Any number of threads may use it at once.
 * Free it with everleaf_tree_free.
 */
typedef struct everleaf_tree everleaf_tree;

/**
 * A transaction: reads at one moment, and writes that happen together or not at all. It takes no locks; a commit finds out
 * whether others were in the way. One thread at a time may use it, with its scans. Free it with everleaf_txn_free.
 */
typedef struct everleaf_txn everleaf_txn;

/**
 * A value that is being written in pieces. Others see the old value until everleaf_writer_finish. One thread at a time may use
 * it. Free it with everleaf_writer_free.
 */
typedef struct everleaf_writer everleaf_writer;

/**
 * Figures of an open pool at one moment. Set `size` to sizeof(everleaf_stats) before you ask for them.
 */
typedef struct everleaf_stats {
  /**
   * Bytes of this struct: yours before the call, and those that were written after it, which are fewer if the library is
   * older than your header.
   */
  size_t size;
  /**
   * Bytes in a page.
   */
  uint32_t page_bytes;
  /**
   * Bytes in a node.
   */
  uint32_t node_bytes;
  /**
   * Length of the pool's file in bytes.
   */
  uint64_t file_bytes;
  /**
   * Bytes of the file that hold pages, large values and the page table as they are now.
   */
  uint64_t live_bytes;
  /**
   * Bytes of the file that can be used again.
   */
  uint64_t free_bytes;
  /**
   * Bytes of the file that are set aside for the journal.
   */
  uint64_t journal_file_bytes;
  /**
   * Bytes of journal that the next open would read after a crash now.
   */
  uint64_t journal_bytes;
  /**
   * Bytes that were written to the journal since this open.
   */
  uint64_t journal_written_bytes;
  /**
   * Bytes of memory that pages, their frames, the page table and large values take.
   */
  uint64_t memory_bytes;
  /**
   * Bytes of memory that they may take.
   */
  uint64_t memory_most_bytes;
  /**
   * How often a page was left in memory because it was used.
   */
  uint64_t memory_hits;
  /**
   * How often a page was needed that was not in memory.
   */
  uint64_t memory_misses;
  /**
   * Pages that have left memory.
   */
  uint64_t memory_evictions;
  /**
   * Pages that checkpoints have written.
   */
  uint64_t memory_write_backs;
  /**
   * Bytes of memory that large values take, a part of memory_bytes.
   */
  uint64_t memory_value_bytes;
  /**
   * How often a large value was needed that was not in memory.
   */
  uint64_t memory_value_misses;
  /**
   * Large values that have left memory.
   */
  uint64_t memory_value_evictions;
  /**
   * Open snapshots, and open transactions that have read.
   */
  uint64_t snapshots;
  /**
   * Old values that are kept for these.
   */
  uint64_t snapshot_values;
  /**
   * Bytes of memory that the old values take.
   */
  uint64_t snapshot_bytes;
  /**
   * Snapshots and transactions that have expired since this open.
   */
  uint64_t snapshots_given_up;
  /**
   * Bytes of memory that transactions and batches under way take.
   */
  uint64_t transaction_bytes;
  /**
   * Bytes of memory that cursors and scans take.
   */
  uint64_t cursor_bytes;
  /**
   * Transactions that were committed since this open and had something to write.
   */
  uint64_t transactions;
  /**
   * Commits since this open that failed with EVERLEAF_CONFLICT.
   */
  uint64_t conflicts;
  /**
   * Trees that were dropped or cleared, and whose space is not free yet.
   */
  uint64_t dropped_trees;
  /**
   * The current epoch; 0 on persistent memory.
   */
  uint64_t epoch;
  /**
   * The last epoch that is on disk; 0 on persistent memory.
   */
  uint64_t durable_epoch;
  /**
   * How many opens have written to the pool.
   */
  uint64_t open_generation;
  /**
   * The pool's identity, chosen at random when it was created.
   */
  uint8_t uuid[16];
} everleaf_stats;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Returns the name of a code, such as "EVERLEAF_LOCKED", or "unknown". The text lasts as long as the program.
 */
const char *everleaf_code_name(int code);

/**
 * Returns the code of this thread's last failure; EVERLEAF_OK if nothing has failed yet.
 */
int everleaf_last_code(void);

/**
 * Returns a sentence about this thread's last failure, in English and UTF-8; empty if nothing has failed yet. It is good
 * until the thread's next failure, or its end.
 */
const char *everleaf_last_message(void);

/**
 * Returns the errno of this thread's last failure, or 0 if the operating system was not the reason.
 */
int everleaf_last_errno(void);

/**
 * Returns the name of the tree in which a transaction met others, if this thread's last failure was EVERLEAF_CONFLICT;
 * empty otherwise. It is good until the thread's next failure, or its end.
 */
const char *everleaf_last_conflict_tree(void);

/**
 * Returns the key that others have changed, if this thread's last failure was EVERLEAF_CONFLICT, and writes its length to
 * `*key_len`; NULL and 0 otherwise. `key_len` may be NULL. The bytes are good until the thread's next failure, or its end.
 */
const void *everleaf_last_conflict_key(size_t *key_len);

/**
 * Frees bytes that a function of this library gave to the caller to own: those of everleaf_get_alloc, everleaf_take,
 * everleaf_swap and others that say so. NULL may be freed. Do not use free(), and do not free bytes that are lent.
 */
void everleaf_bytes_free(void *bytes);

/**
 * Returns a budget of so many bytes, for you to free with everleaf_budget_free; NULL if that fails. Any number will do.
 */
struct everleaf_budget *everleaf_budget_new(uint64_t bytes);

/**
 * Returns how many bytes a budget has.
 */
uint64_t everleaf_budget_bytes(const struct everleaf_budget *budget);

/**
 * Returns how many bytes its pools take, about: a pool tells it when pages come or leave, and when an epoch ends. O(1).
 */
uint64_t everleaf_budget_used(const struct everleaf_budget *budget);

/**
 * Returns how many pools are open that share it. O(1).
 */
uint64_t everleaf_budget_pools(const struct everleaf_budget *budget);

/**
 * Frees a budget. Its pools go on sharing it, and so do options that name it. NULL may be freed.
 */
void everleaf_budget_free(struct everleaf_budget *budget);

/**
 * Returns the defaults, for you to free with everleaf_options_free; NULL if that fails.
 */
struct everleaf_options *everleaf_options_new(void);

/**
 * Sets how long an epoch lasts, and so how long a write is at risk if nobody syncs. Default: 10,000 microseconds.
 * Less than 1,000 counts as 1,000, more than a day as a day.
 */
int everleaf_options_interval(struct everleaf_options *options,
                              uint64_t microseconds);

/**
 * Sets when a write is durable: EVERLEAF_BUFFERED (the default; EVERLEAF_AS_OPENED is the same here) or
 * EVERLEAF_SYNC. Handles with another durability: everleaf_tree_with, everleaf_batch_new, everleaf_txn_begin.
 */
int everleaf_options_durability(struct everleaf_options *options,
                                int durability);

/**
 * Sets how many bytes the journal may take; one epoch more may follow. Default: 256 MiB. More than 1 PiB counts as
 * 1 PiB.
 */
int everleaf_options_journal_bytes(struct everleaf_options *options,
                                   uint64_t bytes);

/**
 * Sets how many bytes of changes may wait to become durable; above it, writers wait for the disk. Default: 8 MiB.
 * Less than 8 KiB counts as 8 KiB, more than 1 PiB as 1 PiB.
 */
int everleaf_options_pending_bytes(struct everleaf_options *options,
                                   uint64_t bytes);

/**
 * Sets the bytes of a page of a new pool: a power of two, from 512 to 32,768 on a file (default: 4,096), from 128
 * to 16,384 on persistent memory (default: 2,048). The open refuses others with EVERLEAF_INVALID_OPTION. A pool
 * that is there keeps its own.
 */
int everleaf_options_page_bytes(struct everleaf_options *options,
                                uint32_t bytes);

/**
 * Sets how many bytes of pages the pool may have; beyond, writes return EVERLEAF_FULL. Default on a file: 256 GiB.
 * On persistent memory a new pool needs this, and takes so many bytes at once. For a pool in memory it is the
 * length of its file there.
 */
int everleaf_options_max_bytes(struct everleaf_options *options,
                               uint64_t bytes);

/**
 * Sets whether a missing pool is created (the default) or is an error (0).
 */
int everleaf_options_create(struct everleaf_options *options, int create);

/**
 * Sets whether the pool is opened for reading alone (not 0). Default: 0. Then it must be there, and writes return
 * EVERLEAF_READ_ONLY.
 */
int everleaf_options_read_only(struct everleaf_options *options,
                               int read_only);

/**
 * Sets where the pool is: EVERLEAF_STORAGE_FILE (the default), EVERLEAF_STORAGE_DAX or
 * EVERLEAF_STORAGE_EMULATED_DAX. For the last two the library must be built with its feature `dax`; if it is not, the open
 * returns EVERLEAF_UNSUPPORTED.
 */
int everleaf_options_storage(struct everleaf_options *options,
                             int storage);

/**
 * Sets whether the program alone ends epochs (1), or each lasts for an interval (0, the default). If it does, all that it
 * does between two ends becomes durable together, or not at all. everleaf_end_epoch, everleaf_sync, EVERLEAF_SYNC and
 * everleaf_close end an epoch, and nothing else does: a checkpoint, a compaction and a backup go by the last epoch that has
 * ended. An epoch may be larger than memory.
 */
int everleaf_options_manual_epochs(struct everleaf_options *options,
                                   int manual_epochs);

/**
 * Sets whether threads work for the pool (the default): they end epochs, or make those durable that the program ends, and
 * write checkpoints. Without them (0) the program does both.
 */
int everleaf_options_background(struct everleaf_options *options,
                                int background);

/**
 * Sets how pages and large values are compressed: EVERLEAF_COMPRESSION_NONE (the default) or
 * EVERLEAF_COMPRESSION_LZ4. It may change from open to open.
 */
int everleaf_options_compression(struct everleaf_options *options, int compression);

/**
 * Sets how many bytes of memory pages and large values may take. By default the pool has no memory of its own, and shares
 * that of the process. The last call of this and of everleaf_options_budget counts. Any number will do.
 */
int everleaf_options_memory(struct everleaf_options *options,
                            uint64_t bytes);

/**
 * Has pools share memory with others that are opened with the same budget, in place of memory of their own. NULL stands for
 * the budget of the process, which is the default. The options keep the budget: it may be freed.
 */
int everleaf_options_budget(struct everleaf_options *options,
                            const struct everleaf_budget *budget);

/**
 * Sets how many bytes of memory may hold old values for snapshots and transactions; above it, the oldest snapshot
 * expires with EVERLEAF_SNAPSHOT_TOO_OLD. Default: a quarter of the memory, and at least 4 MiB.
 */
int everleaf_options_snapshot_memory(struct everleaf_options *options,
                                     uint64_t bytes);

/**
 * Sets how many bytes of memory one transaction, or one batch, may take; above it, its calls return
 * EVERLEAF_TRANSACTION_TOO_LARGE. Default: a quarter of the memory, and at least 4 MiB. Less than 64 KiB counts as
 * 64 KiB.
 */
int everleaf_options_transaction_memory(struct everleaf_options *options,
                                        uint64_t bytes);

/**
 * Frees options. Pools that were opened with them stay as they are. NULL may be freed.
 */
void everleaf_options_free(struct everleaf_options *options);

/**
 * Returns the version of this library, such as "0.1.0". The text lasts as long as the program.
 */
const char *everleaf_version(void);

/**
 * Opens the pool at `path` and makes a handle to it in `*out`, which is yours to free with everleaf_db_free; `*out` is NULL
 * after an error. `path` ends with 0 and has any bytes that the system allows. `options` may be NULL, which stands for the
 * defaults: then a missing pool is created.
 *
 * Errors: EVERLEAF_IO if the folder is not there, or the pool is not there and not to be created; EVERLEAF_LOCKED if it is
 * open; EVERLEAF_FOREIGN if the file is no pool; EVERLEAF_CORRUPT; EVERLEAF_INVALID_OPTION; EVERLEAF_IN_THE_WAY;
 * EVERLEAF_NOT_DAX; EVERLEAF_UNRECOVERED; EVERLEAF_NO_MEMORY.
 */
int everleaf_open(const char *path,
                  const struct everleaf_options *options,
                  struct everleaf_db **out);

/**
 * Makes a pool in memory, for tests and caches, and a handle to it in `*out`, which is yours to free with everleaf_db_free.
 * Nothing of it outlives the process; only backups are on disk. `options` may be NULL.
 *
 * Errors: EVERLEAF_INVALID_OPTION, EVERLEAF_IO, EVERLEAF_NO_MEMORY.
 */
int everleaf_open_in_memory(const struct everleaf_options *options,
                            struct everleaf_db **out);

/**
 * Makes everything durable, marks the pool as cleanly closed and releases its lock, whatever handles there are still. They
 * return EVERLEAF_CLOSED from then on; free them as always, and `db` too. A second close returns what the first one did.
 *
 * Errors: those of everleaf_checkpoint. The pool is released in any case.
 */
int everleaf_close(struct everleaf_db *db);

/**
 * Closes the pool as a crash would: all epochs that have ended stay, and everything of the one that has not is gone. An epoch
 * may end at any moment, unless the program ends them (see everleaf_options_manual_epochs).
 *
 * Errors: EVERLEAF_CLOSED if it was abandoned before; the error of an everleaf_close before; EVERLEAF_FORKED.
 */
int everleaf_abandon(struct everleaf_db *db);

/**
 * Frees the handle, and closes the pool if nobody has: an error of that is lost, so call everleaf_close before. NULL may be
 * freed. No other thread may be in a call with `db` itself; calls with trees and others of it end with EVERLEAF_CLOSED.
 */
void everleaf_db_free(struct everleaf_db *db);

/**
 * Waits until every operation that returned before this call is on disk. Threads that call it at once share one sync.
 *
 * Errors: EVERLEAF_POISONED if the disk fails; EVERLEAF_IO if it is full, and EVERLEAF_NO_MEMORY: then nothing is lost, call
 * again.
 */
int everleaf_sync(const struct everleaf_db *db);

/**
 * Writes all changed pages to their new places and empties the journal, so that the next open has less to do. Background
 * threads do this by themselves.
 *
 * Errors: those of everleaf_sync; EVERLEAF_READ_ONLY; EVERLEAF_CORRUPT.
 */
int everleaf_checkpoint(const struct everleaf_db *db);

/**
 * Makes the pool's file about as short as its contents allow. Writes its length before and after, in bytes, to
 * `*before_bytes` and `*after_bytes`; either may be NULL. Others read and write meanwhile.
 *
 * Errors: those of everleaf_checkpoint; EVERLEAF_UNSUPPORTED on persistent memory.
 */
int everleaf_compact(const struct everleaf_db *db,
                     uint64_t *before_bytes,
                     uint64_t *after_bytes);

/**
 * Copies the pool, as it is at one moment, to a new file at `path`, which is on disk when this returns. Writes the last epoch
 * that is in it to `*epoch`, which may be NULL. Others read and write meanwhile.
 *
 * Errors: those of everleaf_sync; EVERLEAF_FILE_EXISTS if `path` is there, and is not touched; EVERLEAF_IO; EVERLEAF_LOCKED;
 * EVERLEAF_IN_THE_WAY; EVERLEAF_UNSUPPORTED on persistent memory.
 */
int everleaf_backup(const struct everleaf_db *db,
                    const char *path,
                    uint64_t *epoch);

/**
 * Writes the current epoch to `*epoch`: every operation that returned before this call is in it, or in an earlier one. It is
 * 0 on persistent memory, where an operation is durable when it returns.
 */
int everleaf_epoch(const struct everleaf_db *db,
                   uint64_t *epoch);

/**
 * Writes the last epoch that is on disk to `*epoch`. All epochs before it are on disk, too.
 */
int everleaf_durable_epoch(const struct everleaf_db *db, uint64_t *epoch);

/**
 * Ends the current epoch without waiting for the disk, and writes its number to `*epoch`, which may be NULL. Everything that
 * returned before this call is in it, or in an earlier one. All of it is the operating system's then: a killed process
 * loses nothing of it. The disk has it a little later, which everleaf_wait_durable waits for; a power cut leaves the pool as
 * it was at the end of the last epoch that ended before it, or of the one before that.
 *
 * This waits while the epoch before is on its way to the disk, and while the journal is at its bound for a checkpoint. In a
 * pool whose epochs threads end, it ends the current one early. On persistent memory it does nothing, and the number is 0.
 *
 * Errors: those of everleaf_sync; EVERLEAF_READ_ONLY. After EVERLEAF_NO_MEMORY, or EVERLEAF_IO because the disk is full,
 * nothing is lost: the epoch may have ended, and the next call goes on from there.
 */
int everleaf_end_epoch(const struct everleaf_db *db,
                       uint64_t *epoch);

/**
 * Writes about how many bytes of changes the current epoch has to `*bytes`, by what goes to the journal and by large values.
 * A thread counts its changes when they come to 8 KiB. O(1); 0 on persistent memory.
 */
int everleaf_pending_bytes(const struct everleaf_db *db,
                           uint64_t *bytes);

/**
 * Waits until `epoch`, which everleaf_epoch has told, is on disk, and all epochs before it. It does not end the epoch early:
 * so it costs no sync of its own, and takes an interval and two syncs. It waits for `timeout_ms` milliseconds at most, or
 * without end if that is below 0, and does not wait at all if it is 0. EVERLEAF_NOT_FOUND if the epoch is not on disk then;
 * that is no error, and you may call again.
 *
 * Where the program ends epochs (see everleaf_options_manual_epochs), another thread has to end this one, if it has not
 * ended. While the disk is full, nothing becomes durable.
 *
 * Errors: EVERLEAF_POISONED if writes have stopped; EVERLEAF_CLOSED if the pool was closed, also meanwhile and before the
 * epoch was on disk; EVERLEAF_READ_ONLY; EVERLEAF_FORKED.
 */
int everleaf_wait_durable(const struct everleaf_db *db,
                          uint64_t epoch,
                          int64_t timeout_ms);

/**
 * Makes a list of the names of all trees in `*out`, which is yours to free with everleaf_names_free.
 *
 * Errors: those of everleaf_get.
 */
int everleaf_tree_names(const struct everleaf_db *db,
                        struct everleaf_names **out);

/**
 * Returns how many names there are; 0 if `names` is NULL.
 */
size_t everleaf_names_len(const struct everleaf_names *names);

/**
 * Lends the name at `index`, counted from 0: `*name` ends with 0, and has `*name_len` bytes of UTF-8 before that, which
 * differs from strlen if a program in another language has put a 0 into the name. `name_len` may be NULL. The name is good
 * until the list is freed.
 *
 * Errors: EVERLEAF_INVALID if there are not as many names.
 */
int everleaf_names_at(const struct everleaf_names *names,
                      size_t index,
                      const char **name,
                      size_t *name_len);

/**
 * Frees a list of names. NULL may be freed.
 */
void everleaf_names_free(struct everleaf_names *names);

/**
 * Reads the whole pool, and makes a list of each damage that it finds in `*out`, which is yours to free with
 * everleaf_damages_free. The list is empty if the pool is sound. Others may write meanwhile.
 *
 * Errors: only one that ends the walk, such as EVERLEAF_IO. Damage is not an error.
 */
int everleaf_check(const struct everleaf_db *db,
                   struct everleaf_damages **out);

/**
 * Returns how many damages there are; 0 if `damages` is NULL.
 */
size_t everleaf_damages_len(const struct everleaf_damages *damages);

/**
 * Lends the damage at `index`, counted from 0: its place in bytes from the start of the file, and a sentence that says what
 * was expected and what was found, which ends with 0. Each may be NULL. The sentence is good until the list is freed.
 *
 * Errors: EVERLEAF_INVALID if there are not as many damages.
 */
int everleaf_damages_at(const struct everleaf_damages *damages,
                        size_t index,
                        uint64_t *offset,
                        const char **what);

/**
 * Frees a list of damages. NULL may be freed.
 */
void everleaf_damages_free(struct everleaf_damages *damages);

/**
 * Writes the figures of a pool to `*stats`, as many as its `size` has room for. It takes the same short time for any pool.
 *
 * Errors: EVERLEAF_INVALID if `size` is smaller than sizeof(size_t).
 */
int everleaf_db_stats(const struct everleaf_db *db,
                      struct everleaf_stats *stats);

/**
 * Makes a handle to the tree called `name` in `*out`, which is yours to free with everleaf_tree_free. Creates an empty tree if
 * there is none; that is as durable as a write. `name` ends with 0 and has 1 to 255 bytes of UTF-8.
 *
 * Errors: EVERLEAF_TREE_NAME; EVERLEAF_INVALID if it is not UTF-8; EVERLEAF_READ_ONLY; otherwise those of everleaf_put.
 */
int everleaf_tree_create(const struct everleaf_db *db,
                         const char *name,
                         struct everleaf_tree **out);

/**
 * Makes a handle to the tree called `name` in `*out`, which is yours to free with everleaf_tree_free; EVERLEAF_NOT_FOUND, and
 * NULL in `*out`, if there is none.
 *
 * Errors: those of everleaf_get.
 */
int everleaf_tree_open(const struct everleaf_db *db,
                       const char *name,
                       struct everleaf_tree **out);

/**
 * Removes the tree called `name` with all its pairs; EVERLEAF_NOT_FOUND if there is none. Handles to it return
 * EVERLEAF_NO_TREE from then on; a snapshot from before still reads it. The time does not grow with the tree.
 *
 * Errors: those of everleaf_delete.
 */
int everleaf_tree_drop(const struct everleaf_db *db,
                       const char *name);

/**
 * Renames the tree called `from` to `to`; EVERLEAF_NOT_FOUND if there is no tree `from`. Handles to it stay good.
 *
 * Errors: EVERLEAF_TREE_EXISTS if there is a tree `to`; EVERLEAF_TREE_NAME; otherwise those of everleaf_put.
 */
int everleaf_tree_rename(const struct everleaf_db *db,
                         const char *from,
                         const char *to);

/**
 * Makes another handle to the tree in `*out`, whose writes have this durability: EVERLEAF_BUFFERED, EVERLEAF_SYNC, or
 * EVERLEAF_AS_OPENED, which is that of `tree`. It is yours to free with everleaf_tree_free. Reads are the same through all
 * handles, and batches and transactions have a durability of their own.
 *
 * Errors: EVERLEAF_READ_ONLY if `tree` is that of a snapshot; EVERLEAF_INVALID_OPTION.
 */
int everleaf_tree_with(const struct everleaf_tree *tree,
                       int durability,
                       struct everleaf_tree **out);

/**
 * Lends the name that the handle was made with, in `*name`; it ends with 0 and is good until the handle is freed.
 */
int everleaf_tree_name(const struct everleaf_tree *tree,
                       const char **name);

/**
 * Writes the number of pairs to `*pairs`. Of a tree as it is now that takes no longer for a large one; of a tree of a snapshot
 * all keys are walked.
 *
 * Errors: those of everleaf_get.
 */
int everleaf_tree_len(const struct everleaf_tree *tree,
                      uint64_t *pairs);

/**
 * Removes all pairs at once, and writes how many there were to `*pairs`, which may be NULL. The time does not grow with the
 * tree.
 *
 * Errors: those of everleaf_delete.
 */
int everleaf_tree_clear(const struct everleaf_tree *tree,
                        uint64_t *pairs);

/**
 * Frees the handle; the tree stays. NULL may be freed.
 */
void everleaf_tree_free(struct everleaf_tree *tree);

/**
 * Sets the value of a key, which other threads see when this returns, and which is on disk soon after or then, as the
 * durability of the handle says. An empty key is a key, and an empty value a value.
 *
 * Errors: EVERLEAF_KEY_TOO_LONG, EVERLEAF_VALUE_TOO_LONG, EVERLEAF_READ_ONLY, EVERLEAF_FULL, EVERLEAF_POISONED,
 * EVERLEAF_NO_MEMORY, EVERLEAF_CORRUPT, EVERLEAF_IO, EVERLEAF_EPOCH_TOO_LARGE, EVERLEAF_NO_TREE, EVERLEAF_CLOSED,
 * EVERLEAF_FORKED, EVERLEAF_STUCK. With EVERLEAF_SYNC also those of everleaf_sync: then the value is set, and it is unknown
 * whether it is on disk.
 */
int everleaf_put(const struct everleaf_tree *tree,
                 const void *key,
                 size_t key_len,
                 const void *value,
                 size_t value_len);

/**
 * Sets the value of a key if it is not there; EVERLEAF_NOT_FOUND, and no change, if it is there.
 *
 * Errors: those of everleaf_put.
 */
int everleaf_insert_new(const struct everleaf_tree *tree,
                        const void *key,
                        size_t key_len,
                        const void *value,
                        size_t value_len);

/**
 * Sets the value of a key if it is there; EVERLEAF_NOT_FOUND, and no change, if it is not.
 *
 * Errors: those of everleaf_put.
 */
int everleaf_replace(const struct everleaf_tree *tree,
                     const void *key,
                     size_t key_len,
                     const void *value,
                     size_t value_len);

/**
 * Changes the value of a key to `desired` if it is `expected`; EVERLEAF_NOT_FOUND, and no change, if it is something else. In
 * both, NULL with a length of 0 stands for a key that is not there; an empty value has a pointer that is not NULL.
 *
 * If nothing was changed, `*found_value` is a copy of the value that the key has, which is yours to free with
 * everleaf_bytes_free, or NULL if the key is not there; otherwise it is NULL. `found_value` and `found_len` may be NULL.
 *
 * Errors: those of everleaf_put.
 */
int everleaf_compare_and_swap(const struct everleaf_tree *tree,
                              const void *key,
                              size_t key_len,
                              const void *expected,
                              size_t expected_len,
                              const void *desired,
                              size_t desired_len,
                              void **found_value,
                              size_t *found_len);

/**
 * Removes a key if it is there. This returns EVERLEAF_OK if it was not, too, for it does not look; everleaf_take does.
 *
 * Errors: those of everleaf_put.
 */
int everleaf_delete(const struct everleaf_tree *tree,
                    const void *key,
                    size_t key_len);

/**
 * Removes a key and gives you the value that it had, to free with everleaf_bytes_free; EVERLEAF_NOT_FOUND, and NULL, if it
 * was not there. If several threads take a key at once, one of them gets the value. `value_len` may be NULL.
 *
 * Errors: those of everleaf_put. After EVERLEAF_NO_MEMORY the key may be gone.
 */
int everleaf_take(const struct everleaf_tree *tree,
                  const void *key,
                  size_t key_len,
                  void **value,
                  size_t *value_len);

/**
 * Sets the value of a key and gives you the one that it had, to free with everleaf_bytes_free; EVERLEAF_NOT_FOUND, and NULL,
 * if the key was not there: the new value is set all the same. `old_len` may be NULL.
 *
 * Errors: those of everleaf_put. After EVERLEAF_NO_MEMORY the new value may be set.
 */
int everleaf_swap(const struct everleaf_tree *tree,
                  const void *key,
                  size_t key_len,
                  const void *value,
                  size_t value_len,
                  void **old,
                  size_t *old_len);

/**
 * Removes the pairs from the key `from` up to the key `to`, which stays, and writes how many there were to `*pairs`, which may
 * be NULL. NULL with a length of 0 stands for no bound. `flags` is 0, or EVERLEAF_FROM_EXCLUDED and EVERLEAF_TO_INCLUDED.
 * This is many operations: others may see a part of it, and so may a crash or an error.
 *
 * Errors: those of everleaf_put.
 */
int everleaf_remove_range(const struct everleaf_tree *tree,
                          const void *from,
                          size_t from_len,
                          const void *to,
                          size_t to_len,
                          uint32_t flags,
                          uint64_t *pairs);

/**
 * Removes the pair with the smallest key and gives you both, each to free with everleaf_bytes_free; EVERLEAF_NOT_FOUND, and
 * NULL, if the tree is empty. Of several threads that do this at once each gets another pair.
 *
 * Errors: those of everleaf_put. After EVERLEAF_NO_MEMORY the pair may be gone.
 */
int everleaf_pop_first(const struct everleaf_tree *tree,
                       void **key,
                       size_t *key_len,
                       void **value,
                       size_t *value_len);

/**
 * Removes the pair with the largest key and gives you both, as everleaf_pop_first does with the smallest one.
 *
 * Errors: those of everleaf_pop_first.
 */
int everleaf_pop_last(const struct everleaf_tree *tree,
                      void **key,
                      size_t *key_len,
                      void **value,
                      size_t *value_len);

/**
 * Says whether a key is there: EVERLEAF_OK if it is, EVERLEAF_NOT_FOUND if it is not.
 *
 * Errors: those of everleaf_get.
 */
int everleaf_contains(const struct everleaf_tree *tree, const void *key, size_t key_len);

/**
 * Copies the value of a key to `buf`, which has room for `buf_len` bytes, and writes its length to `*value_len`, which may be
 * NULL. EVERLEAF_NOT_FOUND, and 0, if the key is not there. If the value is longer than the buffer,
 * EVERLEAF_BUFFER_TOO_SMALL, and `*value_len` says how many bytes it has. Whenever this does not return EVERLEAF_OK, the
 * buffer holds anything. It is not where the key is.
 *
 * Errors: EVERLEAF_CORRUPT or EVERLEAF_IO if it cannot be read; EVERLEAF_NO_MEMORY; EVERLEAF_NO_TREE; EVERLEAF_CLOSED;
 * EVERLEAF_FORKED; EVERLEAF_STUCK; for the tree of a snapshot also EVERLEAF_SNAPSHOT_TOO_OLD.
 */
int everleaf_get(const struct everleaf_tree *tree,
                 const void *key,
                 size_t key_len,
                 void *buf,
                 size_t buf_len,
                 size_t *value_len);

/**
 * Gives you a copy of the value of a key, to free with everleaf_bytes_free; EVERLEAF_NOT_FOUND, and NULL, if the key is not
 * there. `value_len` may be NULL. The copy of an empty value is not NULL, and must be freed, too.
 *
 * Errors: those of everleaf_get.
 */
int everleaf_get_alloc(const struct everleaf_tree *tree,
                       const void *key,
                       size_t key_len,
                       void **value,
                       size_t *value_len);

/**
 * Writes the length of the value of a key to `*value_len`; EVERLEAF_NOT_FOUND if the key is not there. A large value is not
 * read for it.
 *
 * Errors: those of everleaf_get.
 */
int everleaf_value_len(const struct everleaf_tree *tree,
                       const void *key,
                       size_t key_len,
                       uint64_t *value_len);

/**
 * Copies bytes of the value of a key to `buf`, from byte `offset` of the value on, and writes how many to `*copied`: fewer than
 * `buf_len` only where the value ends. EVERLEAF_NOT_FOUND if the key is not there. Of a large value only what is asked for
 * is read. Two calls may see two values, if it is replaced in between.
 *
 * Errors: those of everleaf_get.
 */
int everleaf_read_at(const struct everleaf_tree *tree,
                     const void *key,
                     size_t key_len,
                     uint64_t offset,
                     void *buf,
                     size_t buf_len,
                     size_t *copied);

/**
 * Begins to write a value of `value_len` bytes in pieces, and makes a writer in `*out`, which is yours to free with
 * everleaf_writer_free. The key is copied. A writer has a thread of its own until it is finished, has failed or was freed.
 *
 * Errors: EVERLEAF_READ_ONLY if the tree is that of a snapshot; EVERLEAF_IO if no thread can be started. Others come with
 * everleaf_writer_write or everleaf_writer_finish.
 */
int everleaf_writer_new(const struct everleaf_tree *tree,
                        const void *key,
                        size_t key_len,
                        uint64_t value_len,
                        struct everleaf_writer **out);

/**
 * Writes the next bytes of the value; they are copied. A call may wait for the disk.
 *
 * Errors: those of everleaf_put: then the writer has ended, and nothing has changed. EVERLEAF_INVALID for more bytes than the
 * value has: then nothing of them was taken.
 */
int everleaf_writer_write(struct everleaf_writer *writer,
                          const void *bytes,
                          size_t len);

/**
 * Sets the value, which has all its bytes now, in one step. It is as durable as a put of the tree's handle. The writer has
 * ended then, also after an error; free it.
 *
 * Errors: those of everleaf_put; EVERLEAF_READER_ENDED if bytes are missing: then nothing has changed; EVERLEAF_INVALID if the
 * writer has ended before.
 */
int everleaf_writer_finish(struct everleaf_writer *writer);

/**
 * Frees the writer. A value that was not finished is dropped, and its room is free again. NULL may be freed.
 */
void everleaf_writer_free(struct everleaf_writer *writer);

/**
 * Makes an empty batch in `*out`, which is yours to free with everleaf_batch_free. `durability` is EVERLEAF_AS_OPENED,
 * EVERLEAF_BUFFERED or EVERLEAF_SYNC, and counts for the whole batch, whatever that of the trees is.
 *
 * Errors: EVERLEAF_INVALID_OPTION.
 */
int everleaf_batch_new(const struct everleaf_db *db,
                       int durability,
                       struct everleaf_batch **out);

/**
 * Adds a change that sets the value of a key. Key and value are copied. Of several changes of a key the last one counts.
 *
 * Errors: EVERLEAF_KEY_TOO_LONG, EVERLEAF_VALUE_TOO_LONG, EVERLEAF_OTHER_POOL, EVERLEAF_NO_MEMORY,
 * EVERLEAF_TRANSACTION_TOO_LARGE. The batch stays as it was.
 */
int everleaf_batch_put(struct everleaf_batch *batch,
                       const struct everleaf_tree *tree,
                       const void *key,
                       size_t key_len,
                       const void *value,
                       size_t value_len);

/**
 * Adds a change that removes a key if it is there.
 *
 * Errors: those of everleaf_batch_put.
 */
int everleaf_batch_delete(struct everleaf_batch *batch,
                          const struct everleaf_tree *tree,
                          const void *key,
                          size_t key_len);

/**
 * Writes how many changes were added since the last commit to `*changes`, several of one key included.
 */
int everleaf_batch_len(const struct everleaf_batch *batch,
                       size_t *changes);

/**
 * Applies all changes in one epoch. The batch is empty afterwards, also after an error, and can be filled again.
 *
 * Errors: those of everleaf_put; then nothing has changed. If a read, an allocation or the disk fails after the first change,
 * writes stop with EVERLEAF_POISONED, and none of the changes becomes durable.
 */
int everleaf_batch_commit(struct everleaf_batch *batch);

/**
 * Frees the batch; what was not committed is dropped. NULL may be freed.
 */
void everleaf_batch_free(struct everleaf_batch *batch);

/**
 * Makes a cursor of a tree in `*out`, which is yours to free with everleaf_cursor_free. It reads nothing yet.
 */
int everleaf_cursor_new(const struct everleaf_tree *tree,
                        struct everleaf_cursor **out);

/**
 * Goes to the pair with the smallest key; EVERLEAF_NOT_FOUND if there is none.
 *
 * Errors: those of everleaf_get. If one pair cannot be read, the cursor is there without key and value, and the next step
 * goes on behind it.
 */
int everleaf_cursor_first(struct everleaf_cursor *cursor);

/**
 * Goes to the pair with the largest key; EVERLEAF_NOT_FOUND if there is none.
 *
 * Errors: those of everleaf_cursor_first.
 */
int everleaf_cursor_last(struct everleaf_cursor *cursor);

/**
 * Goes to the first pair whose key is `key` or above it; EVERLEAF_NOT_FOUND if there is none: then it is behind the last pair.
 *
 * Errors: those of everleaf_cursor_first.
 */
int everleaf_cursor_seek(struct everleaf_cursor *cursor,
                         const void *key,
                         size_t key_len);

/**
 * Goes to the last pair whose key is `key` or below it; EVERLEAF_NOT_FOUND if there is none: then it is before the first pair.
 *
 * Errors: those of everleaf_cursor_first.
 */
int everleaf_cursor_seek_for_prev(struct everleaf_cursor *cursor,
                                  const void *key,
                                  size_t key_len);

/**
 * Goes to the next pair; EVERLEAF_NOT_FOUND if there is none.
 *
 * Errors: those of everleaf_cursor_first.
 */
int everleaf_cursor_next(struct everleaf_cursor *cursor);

/**
 * Goes to the pair before this one; EVERLEAF_NOT_FOUND if there is none.
 *
 * Errors: those of everleaf_cursor_first.
 */
int everleaf_cursor_prev(struct everleaf_cursor *cursor);

/**
 * Lends the key that the cursor is at; EVERLEAF_NOT_FOUND, NULL and 0 if it is at no pair. The bytes are good until the next
 * call with this cursor but everleaf_cursor_key, everleaf_cursor_value and everleaf_cursor_pair. No 0 follows them.
 */
int everleaf_cursor_key(const struct everleaf_cursor *cursor,
                        const void **key,
                        size_t *key_len);

/**
 * Lends the value that the cursor is at; EVERLEAF_NOT_FOUND, NULL and 0 if it is at no pair, or if a large value was removed
 * since the cursor came there. The bytes are good as long as those of everleaf_cursor_key, and no 0 follows them. A value
 * that is too long for the page of its key is read by the first call.
 *
 * Errors: those of everleaf_cursor_first.
 */
int everleaf_cursor_value(struct everleaf_cursor *cursor,
                          const void **value,
                          size_t *value_len);

/**
 * Lends key and value at once, as everleaf_cursor_key and everleaf_cursor_value do.
 *
 * Errors: those of everleaf_cursor_first.
 */
int everleaf_cursor_pair(struct everleaf_cursor *cursor,
                         const void **key,
                         size_t *key_len,
                         const void **value,
                         size_t *value_len);

/**
 * Frees the cursor. NULL may be freed.
 */
void everleaf_cursor_free(struct everleaf_cursor *cursor);

/**
 * Makes a snapshot of all trees as they are now in `*out`, which is yours to free with everleaf_snapshot_free.
 */
int everleaf_snapshot_new(const struct everleaf_db *db,
                          struct everleaf_snapshot **out);

/**
 * Makes a handle in `*out` to the tree that had this name at the moment of the snapshot, which is yours to free with
 * everleaf_tree_free; EVERLEAF_NOT_FOUND, and NULL, if there was none. All functions that read a tree read it; those that
 * write return EVERLEAF_READ_ONLY.
 *
 * Errors: those of everleaf_get.
 */
int everleaf_snapshot_tree(const struct everleaf_snapshot *snapshot,
                           const char *name,
                           struct everleaf_tree **out);

/**
 * Makes a handle in `*out` to `tree` as it was at the moment of the snapshot: empty if it was made later. It is yours to free
 * with everleaf_tree_free.
 *
 * Errors: EVERLEAF_OTHER_POOL; EVERLEAF_READ_ONLY if `tree` is that of a snapshot.
 */
int everleaf_snapshot_of(const struct everleaf_snapshot *snapshot,
                         const struct everleaf_tree *tree,
                         struct everleaf_tree **out);

/**
 * Makes a list of the names that trees had at the moment of the snapshot in `*out`, which is yours to free with
 * everleaf_names_free.
 *
 * Errors: those of everleaf_get.
 */
int everleaf_snapshot_tree_names(const struct everleaf_snapshot *snapshot,
                                 struct everleaf_names **out);

/**
 * Frees the snapshot. NULL may be freed.
 */
void everleaf_snapshot_free(struct everleaf_snapshot *snapshot);

/**
 * Begins a transaction in `*out`, which is yours to free with everleaf_txn_free. The moment that it sees is that of its first
 * read. `isolation` is EVERLEAF_SERIALIZABLE or EVERLEAF_SNAPSHOT_ISOLATION; `durability` is EVERLEAF_AS_OPENED,
 * EVERLEAF_BUFFERED or EVERLEAF_SYNC.
 *
 * Errors: EVERLEAF_INVALID_OPTION.
 */
int everleaf_txn_begin(const struct everleaf_db *db,
                       int isolation,
                       int durability,
                       struct everleaf_txn **out);

/**
 * Copies a value as everleaf_get does, as the transaction sees it: with its own writes. The key counts as read, whether it is
 * there or not.
 *
 * Errors: those of everleaf_get; EVERLEAF_BUFFER_TOO_SMALL; EVERLEAF_SNAPSHOT_TOO_OLD; EVERLEAF_OTHER_POOL;
 * EVERLEAF_TRANSACTION_TOO_LARGE; EVERLEAF_INVALID after the transaction has ended.
 */
int everleaf_txn_get(const struct everleaf_txn *txn,
                     const struct everleaf_tree *tree,
                     const void *key,
                     size_t key_len,
                     void *buf,
                     size_t buf_len,
                     size_t *value_len);

/**
 * Gives you a copy of a value as everleaf_get_alloc does, as the transaction sees it.
 *
 * Errors: those of everleaf_txn_get.
 */
int everleaf_txn_get_alloc(const struct everleaf_txn *txn,
                           const struct everleaf_tree *tree,
                           const void *key,
                           size_t key_len,
                           void **value,
                           size_t *value_len);

/**
 * Says whether a key is there, as the transaction sees it: EVERLEAF_OK or EVERLEAF_NOT_FOUND.
 *
 * Errors: those of everleaf_txn_get.
 */
int everleaf_txn_contains(const struct everleaf_txn *txn,
                          const struct everleaf_tree *tree,
                          const void *key,
                          size_t key_len);

/**
 * Sets the value of a key when the transaction is committed. Key and value are copied, and its own reads see them at once.
 *
 * Errors: EVERLEAF_KEY_TOO_LONG, EVERLEAF_VALUE_TOO_LONG, EVERLEAF_OTHER_POOL, EVERLEAF_NO_MEMORY,
 * EVERLEAF_TRANSACTION_TOO_LARGE; EVERLEAF_INVALID after the transaction has ended. The transaction stays as it was.
 */
int everleaf_txn_put(struct everleaf_txn *txn,
                     const struct everleaf_tree *tree,
                     const void *key,
                     size_t key_len,
                     const void *value,
                     size_t value_len);

/**
 * Removes a key when the transaction is committed, if it is there.
 *
 * Errors: those of everleaf_txn_put.
 */
int everleaf_txn_delete(struct everleaf_txn *txn,
                        const struct everleaf_tree *tree,
                        const void *key,
                        size_t key_len);

/**
 * Makes all writes in one epoch if everything that was read is unchanged. The transaction has ended then, also after an error;
 * free it.
 *
 * Errors: EVERLEAF_CONFLICT if others were in the way: nothing has happened; begin a new one, and do all of it again.
 * EVERLEAF_SNAPSHOT_TOO_OLD: nothing has happened. Otherwise those of everleaf_batch_commit; EVERLEAF_INVALID if the
 * transaction had ended before.
 */
int everleaf_txn_commit(struct everleaf_txn *txn);

/**
 * Ends the transaction and drops its writes; everleaf_txn_free does so, too.
 *
 * Errors: EVERLEAF_INVALID if it had ended before.
 */
int everleaf_txn_abort(struct everleaf_txn *txn);

/**
 * Frees the transaction, and ends it if it has not ended. NULL may be freed.
 */
void everleaf_txn_free(struct everleaf_txn *txn);

/**
 * Makes a walk in `*out` over the pairs from the key `from` up to the key `to`, which is not part of it; it is yours to free
 * with everleaf_scan_free. NULL with a length of 0 stands for no bound. `flags` is 0 or a sum of EVERLEAF_FROM_EXCLUDED,
 * EVERLEAF_TO_INCLUDED, EVERLEAF_REVERSE and EVERLEAF_KEYS_ONLY. It reads nothing yet, and the bounds are copied.
 *
 * Errors: EVERLEAF_INVALID for other flags.
 */
int everleaf_scan_new(const struct everleaf_tree *tree,
                      const void *from,
                      size_t from_len,
                      const void *to,
                      size_t to_len,
                      uint32_t flags,
                      struct everleaf_scan **out);

/**
 * Makes a walk in `*out` over a range of a tree as the transaction sees it, as everleaf_scan_new does over the tree; it is yours
 * to free with everleaf_scan_free, before or after the transaction. Keys that it passes count as read. It ends with the
 * transaction: everleaf_scan_fill returns EVERLEAF_INVALID then.
 *
 * Errors: those of everleaf_txn_get.
 */
int everleaf_txn_scan_new(const struct everleaf_txn *txn,
                          const struct everleaf_tree *tree,
                          const void *from,
                          size_t from_len,
                          const void *to,
                          size_t to_len,
                          uint32_t flags,
                          struct everleaf_scan **out);

/**
 * Fills a buffer with the next pairs, as many as fit. Each is the length of the key (uint32_t), the length of the value
 * (uint32_t), the key and the value, without gaps and not aligned: use memcpy. Writes to `*pairs` how many there are, to
 * `*used_len` how many bytes they take, and to `*needed_len`, if the first pair alone does not fit, how many bytes it takes;
 * else 0. `used_len` and `needed_len` may be NULL. EVERLEAF_NOT_FOUND, and no pairs, at the end.
 *
 * Errors: EVERLEAF_BUFFER_TOO_SMALL if the first pair does not fit: call again with more room. Otherwise those of
 * everleaf_get. Pairs before a failure are given first, and the next call fails; a pair that cannot be read is passed over by
 * the call after that. After EVERLEAF_SNAPSHOT_TOO_OLD the walk cannot go on.
 */
int everleaf_scan_fill(struct everleaf_scan *scan,
                       void *buf,
                       size_t buf_len,
                       size_t *pairs,
                       size_t *used_len,
                       size_t *needed_len);

/**
 * Frees the walk. NULL may be freed.
 */
void everleaf_scan_free(struct everleaf_scan *scan);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* EVERLEAF_H */
