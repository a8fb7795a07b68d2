//! The numbers that functions return. They are fixed for ever: a number that was given is never given to anything else.
//!
//! [`db::Error::code`] has a number for each variant, in a match that leaves none out. The constants here give them names in
//! C; a test compares both, and `docs/guide/c.md` with them.

use std::ffi::{CStr, c_int};

/// The call has done what was asked for.
pub const EVERLEAF_OK: c_int = 0;
/// The key, the tree or the next pair is not there; the function says what that means. It is no error.
pub const EVERLEAF_NOT_FOUND: c_int = 1;

/// Bytes of the pool are not what was written. The rest can still be used; everleaf_check lists all damage.
pub const EVERLEAF_CORRUPT: c_int = -1;
/// The file is no pool, or one of a version that this library cannot open.
pub const EVERLEAF_FOREIGN: c_int = -2;
/// The pool is open already; the message says whether in this process or in another one.
pub const EVERLEAF_LOCKED: c_int = -3;
/// A file that is not the pool's has a name that the pool needs.
pub const EVERLEAF_IN_THE_WAY: c_int = -4;
/// The pool was closed or abandoned. Open it again, and get new handles.
pub const EVERLEAF_CLOSED: c_int = -5;
/// The pool was opened by a process of which this one is a fork. Nothing was done.
pub const EVERLEAF_FORKED: c_int = -6;
/// The file is not on a DAX file system, which EVERLEAF_STORAGE_DAX needs.
pub const EVERLEAF_NOT_DAX: c_int = -7;
/// The operating system failed a call: everleaf_last_errno says how.
pub const EVERLEAF_IO: c_int = -8;
/// There is no memory. Nothing was changed by this call.
pub const EVERLEAF_NO_MEMORY: c_int = -9;
/// Writes have stopped after an earlier failure, which the message names. Reads go on. Close the pool and open it
/// again.
pub const EVERLEAF_POISONED: c_int = -10;
/// The pool has as many bytes as everleaf_options_max_bytes allows.
pub const EVERLEAF_FULL: c_int = -11;
/// The epoch has changed as many bytes as memory can hold, and a checkpoint could not write them. End it with everleaf_sync.
pub const EVERLEAF_EPOCH_TOO_LARGE: c_int = -12;
/// The old values that a snapshot or a transaction sees were not kept any longer. Take a new one.
pub const EVERLEAF_SNAPSHOT_TOO_OLD: c_int = -13;
/// Others have changed what a transaction has read. Nothing has happened: run it again, reads included.
/// everleaf_last_conflict_key says which key it was.
pub const EVERLEAF_CONFLICT: c_int = -14;
/// Other threads were in the way for more than ten minutes.
pub const EVERLEAF_STUCK: c_int = -15;
/// A transaction or a batch would take more memory than everleaf_options_transaction_memory allows.
pub const EVERLEAF_TRANSACTION_TOO_LARGE: c_int = -16;
/// The pool was opened for reading alone, or the tree is that of a snapshot.
pub const EVERLEAF_READ_ONLY: c_int = -17;
/// A key has at most 65,536 bytes.
pub const EVERLEAF_KEY_TOO_LONG: c_int = -18;
/// A key does not hold what it was to be decoded to. No function of this library returns this.
pub const EVERLEAF_KEY_ENCODING: c_int = -19;
/// A value has at most 4,294,967,295 bytes.
pub const EVERLEAF_VALUE_TOO_LONG: c_int = -20;
/// The source of a value failed. No function of this library returns this.
pub const EVERLEAF_READER: c_int = -21;
/// A writer was finished before it had all bytes of its value. Nothing was changed.
pub const EVERLEAF_READER_ENDED: c_int = -22;
/// Key and value together do not fit a page of this pool.
pub const EVERLEAF_RECORD_TOO_LONG: c_int = -23;
/// The pairs of a sorted load do not ascend. No function of this library returns this.
pub const EVERLEAF_NOT_ASCENDING: c_int = -24;
/// The name of a tree has 1 to 255 bytes.
pub const EVERLEAF_TREE_NAME: c_int = -25;
/// Another tree has that name.
pub const EVERLEAF_TREE_EXISTS: c_int = -26;
/// The tree was dropped after the handle was made.
pub const EVERLEAF_NO_TREE: c_int = -27;
/// The tree belongs to another pool than the batch, transaction or snapshot.
pub const EVERLEAF_OTHER_POOL: c_int = -28;
/// Only an empty tree can be discarded. No function of this library returns this.
pub const EVERLEAF_NOT_EMPTY: c_int = -29;
/// The pool was made by another program with trees of another layout.
pub const EVERLEAF_WRONG_LAYOUT: c_int = -30;
/// Something that was to be made is there already, or is in use.
pub const EVERLEAF_IN_USE: c_int = -31;
/// A file has the name that a new one was to get. It was not touched.
pub const EVERLEAF_FILE_EXISTS: c_int = -32;
/// The call would wait for an epoch that this thread keeps from ending.
pub const EVERLEAF_INSIDE_BATCH: c_int = -33;
/// A crash has left work that an open for writing must do first.
pub const EVERLEAF_UNRECOVERED: c_int = -34;
/// A call ended half-way. It is the cause of EVERLEAF_POISONED, and is not returned itself.
pub const EVERLEAF_INTERRUPTED: c_int = -35;
/// The processor, the file system or the kind of pool cannot do this.
pub const EVERLEAF_UNSUPPORTED: c_int = -36;
/// An option is outside its limits, or contradicts another one or the pool. Nothing was opened.
pub const EVERLEAF_INVALID_OPTION: c_int = -37;
/// An argument is not allowed: the program has a mistake, which the message names.
pub const EVERLEAF_INVALID: c_int = -38;
/// Two transactions that lock what they use have waited for each other. Transactions of this library lock nothing, so it is
/// not returned yet.
pub const EVERLEAF_DEADLOCK: c_int = -39;
/// The call has met a defect of the library, and was ended. Writes to the pool have stopped, as after
/// EVERLEAF_POISONED. The message says where it was: please report it.
pub const EVERLEAF_PANIC: c_int = -100;
/// The buffer of the caller is too small; the function says how many bytes are needed. Nothing was copied.
pub const EVERLEAF_BUFFER_TOO_SMALL: c_int = -101;

/// All codes with their names.
pub(crate) const ALL: &[(&CStr, c_int)] = &[
    (c"EVERLEAF_OK", EVERLEAF_OK),
    (c"EVERLEAF_NOT_FOUND", EVERLEAF_NOT_FOUND),
    (c"EVERLEAF_CORRUPT", EVERLEAF_CORRUPT),
    (c"EVERLEAF_FOREIGN", EVERLEAF_FOREIGN),
    (c"EVERLEAF_LOCKED", EVERLEAF_LOCKED),
    (c"EVERLEAF_IN_THE_WAY", EVERLEAF_IN_THE_WAY),
    (c"EVERLEAF_CLOSED", EVERLEAF_CLOSED),
    (c"EVERLEAF_FORKED", EVERLEAF_FORKED),
    (c"EVERLEAF_NOT_DAX", EVERLEAF_NOT_DAX),
    (c"EVERLEAF_IO", EVERLEAF_IO),
    (c"EVERLEAF_NO_MEMORY", EVERLEAF_NO_MEMORY),
    (c"EVERLEAF_POISONED", EVERLEAF_POISONED),
    (c"EVERLEAF_FULL", EVERLEAF_FULL),
    (c"EVERLEAF_EPOCH_TOO_LARGE", EVERLEAF_EPOCH_TOO_LARGE),
    (c"EVERLEAF_SNAPSHOT_TOO_OLD", EVERLEAF_SNAPSHOT_TOO_OLD),
    (c"EVERLEAF_CONFLICT", EVERLEAF_CONFLICT),
    (c"EVERLEAF_STUCK", EVERLEAF_STUCK),
    (c"EVERLEAF_TRANSACTION_TOO_LARGE", EVERLEAF_TRANSACTION_TOO_LARGE),
    (c"EVERLEAF_READ_ONLY", EVERLEAF_READ_ONLY),
    (c"EVERLEAF_KEY_TOO_LONG", EVERLEAF_KEY_TOO_LONG),
    (c"EVERLEAF_KEY_ENCODING", EVERLEAF_KEY_ENCODING),
    (c"EVERLEAF_VALUE_TOO_LONG", EVERLEAF_VALUE_TOO_LONG),
    (c"EVERLEAF_READER", EVERLEAF_READER),
    (c"EVERLEAF_READER_ENDED", EVERLEAF_READER_ENDED),
    (c"EVERLEAF_RECORD_TOO_LONG", EVERLEAF_RECORD_TOO_LONG),
    (c"EVERLEAF_NOT_ASCENDING", EVERLEAF_NOT_ASCENDING),
    (c"EVERLEAF_TREE_NAME", EVERLEAF_TREE_NAME),
    (c"EVERLEAF_TREE_EXISTS", EVERLEAF_TREE_EXISTS),
    (c"EVERLEAF_NO_TREE", EVERLEAF_NO_TREE),
    (c"EVERLEAF_OTHER_POOL", EVERLEAF_OTHER_POOL),
    (c"EVERLEAF_NOT_EMPTY", EVERLEAF_NOT_EMPTY),
    (c"EVERLEAF_WRONG_LAYOUT", EVERLEAF_WRONG_LAYOUT),
    (c"EVERLEAF_IN_USE", EVERLEAF_IN_USE),
    (c"EVERLEAF_FILE_EXISTS", EVERLEAF_FILE_EXISTS),
    (c"EVERLEAF_INSIDE_BATCH", EVERLEAF_INSIDE_BATCH),
    (c"EVERLEAF_UNRECOVERED", EVERLEAF_UNRECOVERED),
    (c"EVERLEAF_INTERRUPTED", EVERLEAF_INTERRUPTED),
    (c"EVERLEAF_UNSUPPORTED", EVERLEAF_UNSUPPORTED),
    (c"EVERLEAF_INVALID_OPTION", EVERLEAF_INVALID_OPTION),
    (c"EVERLEAF_INVALID", EVERLEAF_INVALID),
    (c"EVERLEAF_DEADLOCK", EVERLEAF_DEADLOCK),
    (c"EVERLEAF_PANIC", EVERLEAF_PANIC),
    (c"EVERLEAF_BUFFER_TOO_SMALL", EVERLEAF_BUFFER_TOO_SMALL),
];
