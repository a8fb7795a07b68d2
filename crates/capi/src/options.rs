//! How a pool is opened: one function for each setter of [`db::Options`], of the same name.

use std::ffi::c_int;
use std::time::Duration;

use db::{Compression, Db, Durability, Error, Options, Storage};

use crate::budget::everleaf_budget;
use crate::call::{self, Handle, on_mut};
use crate::codes::EVERLEAF_OK;
use crate::failure::Result;

/// A write is as durable as everleaf_options_durability says.
pub const EVERLEAF_AS_OPENED: c_int = 0;
/// A write is on disk one interval and two disk syncs after it returned.
pub const EVERLEAF_BUFFERED: c_int = 1;
/// A write is on disk when it returns.
pub const EVERLEAF_SYNC: c_int = 2;

/// The pool is an ordinary file.
pub const EVERLEAF_STORAGE_FILE: c_int = 0;
/// The pool is persistent memory: a mapped file on a DAX file system.
pub const EVERLEAF_STORAGE_DAX: c_int = 1;
/// The pool is a mapped file on any file system, and survives a crash of the process, not of the system.
pub const EVERLEAF_STORAGE_EMULATED_DAX: c_int = 2;

/// Nothing is compressed.
pub const EVERLEAF_COMPRESSION_NONE: c_int = 0;
/// Pages and large values are compressed with LZ4, each by itself, where that saves more than an eighth.
pub const EVERLEAF_COMPRESSION_LZ4: c_int = 1;

/// Settings for opening a pool. Make them with everleaf_options_new, set what you need, open as many pools as you like with
/// them, and free them with everleaf_options_free.
#[derive(Default)]
pub struct everleaf_options {
    pub(crate) options: Options,
}

impl Handle for everleaf_options {
    fn db(&self) -> Option<&Db> {
        None
    }
}

#[cold]
fn unknown(option: &'static str, value: c_int) -> Error {
    Error::InvalidOption { option, what: format!("{option} {value}: there is no such choice") }
}

/// The durability that a program has chosen; `None` stands for the one that the pool was opened with.
pub(crate) fn durability(value: c_int) -> Result<Option<Durability>> {
    match value {
        EVERLEAF_AS_OPENED => Ok(None),
        EVERLEAF_BUFFERED => Ok(Some(Durability::Buffered)),
        EVERLEAF_SYNC => Ok(Some(Durability::Sync)),
        other => Err(unknown("durability", other).into()),
    }
}

/// Sets an option.
///
/// # Safety
///
/// The handle is NULL or good, and no other thread uses it.
unsafe fn set(
    name: &'static str,
    handle: *mut everleaf_options,
    change: impl FnOnce(Options) -> Result<Options>,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        on_mut(name, handle, |handle| {
            handle.options = change(handle.options.clone())?;
            Ok(EVERLEAF_OK)
        })
    }
}

/// Returns the defaults, for you to free with everleaf_options_free; NULL if that fails.
#[unsafe(no_mangle)]
pub extern "C" fn everleaf_options_new() -> *mut everleaf_options {
    call::lend("everleaf_options_new", std::ptr::null_mut(), || {
        Box::into_raw(Box::new(everleaf_options::default()))
    })
}

/// Sets how long an epoch lasts, and so how long a write is at risk if nobody syncs. Default: 10,000 microseconds.
/// Less than 1,000 counts as 1,000, more than a day as a day.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_options_interval(
    options: *mut everleaf_options,
    microseconds: u64,
) -> c_int {
    // SAFETY: the promise of a caller.
    unsafe {
        set("everleaf_options_interval", options, |options| {
            Ok(options.interval(Duration::from_micros(microseconds)))
        })
    }
}

/// Sets when a write is durable: EVERLEAF_BUFFERED (the default; EVERLEAF_AS_OPENED is the same here) or
/// EVERLEAF_SYNC. Handles with another durability: everleaf_tree_with, everleaf_batch_new, everleaf_txn_begin.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_options_durability(
    options: *mut everleaf_options,
    durability: c_int,
) -> c_int {
    // SAFETY: the promise of a caller.
    unsafe {
        set("everleaf_options_durability", options, |options| {
            Ok(options.durability(self::durability(durability)?.unwrap_or_default()))
        })
    }
}

/// Sets how many bytes the journal may take; one epoch more may follow. Default: 256 MiB. More than 1 PiB counts as
/// 1 PiB.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_options_journal_bytes(
    options: *mut everleaf_options,
    bytes: u64,
) -> c_int {
    // SAFETY: the promise of a caller.
    unsafe {
        set("everleaf_options_journal_bytes", options, |options| Ok(options.journal_bytes(bytes)))
    }
}

/// Sets how many bytes of changes may wait to become durable; above it, writers wait for the disk. Default: 8 MiB.
/// Less than 8 KiB counts as 8 KiB, more than 1 PiB as 1 PiB.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_options_pending_bytes(
    options: *mut everleaf_options,
    bytes: u64,
) -> c_int {
    // SAFETY: the promise of a caller.
    unsafe {
        set("everleaf_options_pending_bytes", options, |options| Ok(options.pending_bytes(bytes)))
    }
}

/// Sets the bytes of a page of a new pool: a power of two, from 512 to 32,768 on a file (default: 4,096), from 128
/// to 16,384 on persistent memory (default: 2,048). The open refuses others with EVERLEAF_INVALID_OPTION. A pool
/// that is there keeps its own.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_options_page_bytes(
    options: *mut everleaf_options,
    bytes: u32,
) -> c_int {
    // SAFETY: the promise of a caller.
    unsafe { set("everleaf_options_page_bytes", options, |options| Ok(options.page_bytes(bytes))) }
}

/// Sets how many bytes of pages the pool may have; beyond, writes return EVERLEAF_FULL. Default on a file: 256 GiB.
/// On persistent memory a new pool needs this, and takes so many bytes at once. For a pool in memory it is the
/// length of its file there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_options_max_bytes(
    options: *mut everleaf_options,
    bytes: u64,
) -> c_int {
    // SAFETY: the promise of a caller.
    unsafe { set("everleaf_options_max_bytes", options, |options| Ok(options.max_bytes(bytes))) }
}

/// Sets whether a missing pool is created (the default) or is an error (0).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_options_create(
    options: *mut everleaf_options,
    create: c_int,
) -> c_int {
    // SAFETY: the promise of a caller.
    unsafe { set("everleaf_options_create", options, |options| Ok(options.create(create != 0))) }
}

/// Sets whether the pool is opened for reading alone (not 0). Default: 0. Then it must be there, and writes return
/// EVERLEAF_READ_ONLY.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_options_read_only(
    options: *mut everleaf_options,
    read_only: c_int,
) -> c_int {
    // SAFETY: the promise of a caller.
    unsafe {
        set("everleaf_options_read_only", options, |options| Ok(options.read_only(read_only != 0)))
    }
}

/// Sets where the pool is: EVERLEAF_STORAGE_FILE (the default), EVERLEAF_STORAGE_DAX or
/// EVERLEAF_STORAGE_EMULATED_DAX. For the last two the library must be built with its feature `dax`; if it is not, the open
/// returns EVERLEAF_UNSUPPORTED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_options_storage(
    options: *mut everleaf_options,
    storage: c_int,
) -> c_int {
    // SAFETY: the promise of a caller.
    unsafe {
        set("everleaf_options_storage", options, |options| {
            Ok(options.storage(match storage {
                EVERLEAF_STORAGE_FILE => Storage::File,
                EVERLEAF_STORAGE_DAX => Storage::Dax,
                EVERLEAF_STORAGE_EMULATED_DAX => Storage::EmulatedDax,
                other => return Err(unknown("storage", other).into()),
            }))
        })
    }
}

/// Sets whether the program alone ends epochs (1), or each lasts for an interval (0, the default). If it does, all that it
/// does between two ends becomes durable together, or not at all. everleaf_end_epoch, everleaf_sync, EVERLEAF_SYNC and
/// everleaf_close end an epoch, and nothing else does: a checkpoint, a compaction and a backup go by the last epoch that has
/// ended. An epoch may be larger than memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_options_manual_epochs(
    options: *mut everleaf_options,
    manual_epochs: c_int,
) -> c_int {
    // SAFETY: the promise of a caller.
    unsafe {
        set("everleaf_options_manual_epochs", options, |options| {
            Ok(options.manual_epochs(manual_epochs != 0))
        })
    }
}

/// Sets whether threads work for the pool (the default): they end epochs, or make those durable that the program ends, and
/// write checkpoints. Without them (0) the program does both.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_options_background(
    options: *mut everleaf_options,
    background: c_int,
) -> c_int {
    // SAFETY: the promise of a caller.
    unsafe {
        set("everleaf_options_background", options, |options| {
            Ok(options.background(background != 0))
        })
    }
}

/// Sets how pages and large values are compressed: EVERLEAF_COMPRESSION_NONE (the default) or
/// EVERLEAF_COMPRESSION_LZ4. It may change from open to open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_options_compression(
    options: *mut everleaf_options,
    compression: c_int,
) -> c_int {
    // SAFETY: the promise of a caller.
    unsafe {
        set("everleaf_options_compression", options, |options| {
            Ok(options.compression(match compression {
                EVERLEAF_COMPRESSION_NONE => Compression::None,
                EVERLEAF_COMPRESSION_LZ4 => Compression::Lz4,
                other => return Err(unknown("compression", other).into()),
            }))
        })
    }
}

/// Sets how many bytes of memory pages and large values may take. By default the pool has no memory of its own, and shares
/// that of the process. The last call of this and of everleaf_options_budget counts. Any number will do.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_options_memory(
    options: *mut everleaf_options,
    bytes: u64,
) -> c_int {
    // SAFETY: the promise of a caller.
    unsafe { set("everleaf_options_memory", options, |options| Ok(options.memory(bytes))) }
}

/// Has pools share memory with others that are opened with the same budget, in place of memory of their own. NULL stands for
/// the budget of the process, which is the default. The options keep the budget: it may be freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_options_budget(
    options: *mut everleaf_options,
    budget: *const everleaf_budget,
) -> c_int {
    // SAFETY: the promise of a caller.
    unsafe {
        set("everleaf_options_budget", options, |options| {
            Ok(options.budget(&crate::budget::budget(budget)))
        })
    }
}

/// Sets how many bytes of memory may hold old values for snapshots and transactions; above it, the oldest snapshot
/// expires with EVERLEAF_SNAPSHOT_TOO_OLD. Default: a quarter of the memory, and at least 4 MiB.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_options_snapshot_memory(
    options: *mut everleaf_options,
    bytes: u64,
) -> c_int {
    // SAFETY: the promise of a caller.
    unsafe {
        set("everleaf_options_snapshot_memory", options, |options| {
            Ok(options.snapshot_memory(bytes))
        })
    }
}

/// Sets how many bytes of memory one transaction, or one batch, may take; above it, its calls return
/// EVERLEAF_TRANSACTION_TOO_LARGE. Default: a quarter of the memory, and at least 4 MiB. Less than 64 KiB counts as
/// 64 KiB.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_options_transaction_memory(
    options: *mut everleaf_options,
    bytes: u64,
) -> c_int {
    // SAFETY: the promise of a caller.
    unsafe {
        set("everleaf_options_transaction_memory", options, |options| {
            Ok(options.transaction_memory(bytes))
        })
    }
}

/// Frees options. Pools that were opened with them stay as they are. NULL may be freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_options_free(options: *mut everleaf_options) {
    // SAFETY: the promise of a caller.
    unsafe { call::free("everleaf_options_free", options) }
}
