//! A pool: open, close, and what concerns all of it.

use std::ffi::{CStr, OsStr, c_char, c_int};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use db::{Db, Options};

use crate::call::{self, Handle, boxed, give, on, on_any, text};
use crate::codes::EVERLEAF_OK;
use crate::failure::Result;
use crate::options::everleaf_options;

/// An open pool of named trees, from everleaf_open. Any number of threads may use it at once.
///
/// Close it with everleaf_close, which says whether that worked, and free it with everleaf_db_free. Handles from it
/// (trees, batches, cursors, scans, snapshots, transactions, writers) may be freed before or after it, in any order, and
/// do not keep the pool open: after the close, or the free, of this handle all calls return EVERLEAF_CLOSED.
pub struct everleaf_db {
    pub(crate) db: Db,
}

impl Handle for everleaf_db {
    fn db(&self) -> Option<&Db> {
        Some(&self.db)
    }
}

impl Drop for everleaf_db {
    /// Other handles keep memory, and not the pool.
    fn drop(&mut self) {
        if self.db.expect_open().is_ok() {
            // A program that wants to know of an error has closed it before.
            let _ = self.db.clone().close();
        }
    }
}

/// The path that a caller has given, in the bytes of the file system.
///
/// # Safety
///
/// That of [`text`].
unsafe fn path<'a>(path: *const c_char) -> Result<&'a Path> {
    // SAFETY: the caller's promise.
    let path = unsafe { text(path, "a path") }?;
    Ok(Path::new(OsStr::from_bytes(path.to_bytes())))
}

/// The options that a caller has given; NULL stands for the defaults.
///
/// # Safety
///
/// The pointer is NULL or good, and no other thread changes the options.
unsafe fn options(options: *const everleaf_options) -> Options {
    // SAFETY: the caller's promise.
    unsafe { options.as_ref() }.map_or_else(Options::new, |options| options.options.clone())
}

/// Returns the version of this library, such as "0.1.0". The text lasts as long as the program.
#[unsafe(no_mangle)]
pub extern "C" fn everleaf_version() -> *const c_char {
    const VERSION: &CStr =
        match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
            Ok(version) => version,
            Err(_) => panic!("a version without a 0"),
        };
    call::lend("everleaf_version", VERSION.as_ptr(), || VERSION.as_ptr())
}

/// Opens the pool at `path` and makes a handle to it in `*out`, which is yours to free with everleaf_db_free; `*out` is NULL
/// after an error. `path` ends with 0 and has any bytes that the system allows. `options` may be NULL, which stands for the
/// defaults: then a missing pool is created.
///
/// Errors: EVERLEAF_IO if the folder is not there, or the pool is not there and not to be created; EVERLEAF_LOCKED if it is
/// open; EVERLEAF_FOREIGN if the file is no pool; EVERLEAF_CORRUPT; EVERLEAF_INVALID_OPTION; EVERLEAF_IN_THE_WAY;
/// EVERLEAF_NOT_DAX; EVERLEAF_UNRECOVERED; EVERLEAF_NO_MEMORY.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_open(
    path: *const c_char,
    options: *const everleaf_options,
    out: *mut *mut everleaf_db,
) -> c_int {
    // SAFETY: the promise of a caller.
    unsafe { give(out, std::ptr::null_mut()) };
    call::plain("everleaf_open", || {
        // SAFETY: the promise of a caller.
        unsafe {
            boxed(out, || {
                let db = self::options(options).open(self::path(path)?)?;
                Ok(Some(everleaf_db { db }))
            })
        }
    })
}

/// Makes a pool in memory, for tests and caches, and a handle to it in `*out`, which is yours to free with everleaf_db_free.
/// Nothing of it outlives the process; only backups are on disk. `options` may be NULL.
///
/// Errors: EVERLEAF_INVALID_OPTION, EVERLEAF_IO, EVERLEAF_NO_MEMORY.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_open_in_memory(
    options: *const everleaf_options,
    out: *mut *mut everleaf_db,
) -> c_int {
    // SAFETY: the promise of a caller.
    unsafe { give(out, std::ptr::null_mut()) };
    call::plain("everleaf_open_in_memory", || {
        // SAFETY: the promise of a caller.
        unsafe { boxed(out, || Ok(Some(everleaf_db { db: self::options(options).in_memory()? }))) }
    })
}

/// Makes everything durable, marks the pool as cleanly closed and releases its lock, whatever handles there are still. They
/// return EVERLEAF_CLOSED from then on; free them as always, and `db` too. A second close returns what the first one did.
///
/// Errors: those of everleaf_checkpoint. The pool is released in any case.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_close(db: *mut everleaf_db) -> c_int {
    // SAFETY: the promise of a caller.
    unsafe {
        on_any("everleaf_close", db, |db| {
            db.db.clone().close()?;
            Ok(EVERLEAF_OK)
        })
    }
}

/// Closes the pool as a crash would: all epochs that have ended stay, and everything of the one that has not is gone. An epoch
/// may end at any moment, unless the program ends them (see everleaf_options_manual_epochs).
///
/// Errors: EVERLEAF_CLOSED if it was abandoned before; the error of an everleaf_close before; EVERLEAF_FORKED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_abandon(db: *mut everleaf_db) -> c_int {
    // SAFETY: the promise of a caller.
    unsafe {
        on_any("everleaf_abandon", db, |db| {
            db.db.clone().abandon()?;
            Ok(EVERLEAF_OK)
        })
    }
}

/// Frees the handle, and closes the pool if nobody has: an error of that is lost, so call everleaf_close before. NULL may be
/// freed. No other thread may be in a call with `db` itself; calls with trees and others of it end with EVERLEAF_CLOSED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_db_free(db: *mut everleaf_db) {
    // SAFETY: the promise of a caller.
    unsafe { call::free("everleaf_db_free", db) }
}

/// Waits until every operation that returned before this call is on disk. Threads that call it at once share one sync.
///
/// Errors: EVERLEAF_POISONED if the disk fails; EVERLEAF_IO if it is full, and EVERLEAF_NO_MEMORY: then nothing is lost, call
/// again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_sync(db: *const everleaf_db) -> c_int {
    // SAFETY: the promise of a caller.
    unsafe {
        on("everleaf_sync", db, |db| {
            db.db.sync()?;
            Ok(EVERLEAF_OK)
        })
    }
}

/// Writes all changed pages to their new places and empties the journal, so that the next open has less to do. Background
/// threads do this by themselves.
///
/// Errors: those of everleaf_sync; EVERLEAF_READ_ONLY; EVERLEAF_CORRUPT.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_checkpoint(db: *const everleaf_db) -> c_int {
    // SAFETY: the promise of a caller.
    unsafe {
        on("everleaf_checkpoint", db, |db| {
            db.db.checkpoint()?;
            Ok(EVERLEAF_OK)
        })
    }
}

/// Makes the pool's file about as short as its contents allow. Writes its length before and after, in bytes, to
/// `*before_bytes` and `*after_bytes`; either may be NULL. Others read and write meanwhile.
///
/// Errors: those of everleaf_checkpoint; EVERLEAF_UNSUPPORTED on persistent memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_compact(
    db: *const everleaf_db,
    before_bytes: *mut u64,
    after_bytes: *mut u64,
) -> c_int {
    // SAFETY: the promise of a caller.
    unsafe {
        on("everleaf_compact", db, |db| {
            let compaction = db.db.compact()?;
            give(before_bytes, compaction.before_bytes);
            give(after_bytes, compaction.after_bytes);
            Ok(EVERLEAF_OK)
        })
    }
}

/// Copies the pool, as it is at one moment, to a new file at `path`, which is on disk when this returns. Writes the last epoch
/// that is in it to `*epoch`, which may be NULL. Others read and write meanwhile.
///
/// Errors: those of everleaf_sync; EVERLEAF_FILE_EXISTS if `path` is there, and is not touched; EVERLEAF_IO; EVERLEAF_LOCKED;
/// EVERLEAF_IN_THE_WAY; EVERLEAF_UNSUPPORTED on persistent memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_backup(
    db: *const everleaf_db,
    path: *const c_char,
    epoch: *mut u64,
) -> c_int {
    // SAFETY: the promise of a caller.
    unsafe {
        on("everleaf_backup", db, |db| {
            give(epoch, db.db.backup(self::path(path)?)?);
            Ok(EVERLEAF_OK)
        })
    }
}
