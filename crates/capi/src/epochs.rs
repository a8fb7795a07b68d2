//! Epochs: which of them are durable, and waiting for that.

use std::ffi::c_int;
use std::time::Duration;

use crate::call::{expect_out, found, give, on};
use crate::codes::EVERLEAF_OK;
use crate::pool::everleaf_db;

/// Writes the current epoch to `*epoch`: every operation that returned before this call is in it, or in an earlier one. It is
/// 0 on persistent memory, where an operation is durable when it returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_epoch(db: *const everleaf_db, epoch: *mut u64) -> c_int {
    // SAFETY: the promise of a caller.
    unsafe {
        on("everleaf_epoch", db, |db| {
            expect_out(epoch)?;
            give(epoch, db.db.epoch());
            Ok(EVERLEAF_OK)
        })
    }
}

/// Writes the last epoch that is on disk to `*epoch`. All epochs before it are on disk, too.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_durable_epoch(db: *const everleaf_db, epoch: *mut u64) -> c_int {
    // SAFETY: the promise of a caller.
    unsafe {
        on("everleaf_durable_epoch", db, |db| {
            expect_out(epoch)?;
            give(epoch, db.db.durable_epoch());
            Ok(EVERLEAF_OK)
        })
    }
}

/// Ends the current epoch without waiting for the disk, and writes its number to `*epoch`, which may be NULL. Everything that
/// returned before this call is in it, or in an earlier one. All of it is the operating system's then: a killed process
/// loses nothing of it. The disk has it a little later, which everleaf_wait_durable waits for; a power cut leaves the pool as
/// it was at the end of the last epoch that ended before it, or of the one before that.
///
/// This waits while the epoch before is on its way to the disk, and while the journal is at its bound for a checkpoint. In a
/// pool whose epochs threads end, it ends the current one early. On persistent memory it does nothing, and the number is 0.
///
/// Errors: those of everleaf_sync; EVERLEAF_READ_ONLY. After EVERLEAF_NO_MEMORY, or EVERLEAF_IO because the disk is full,
/// nothing is lost: the epoch may have ended, and the next call goes on from there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_end_epoch(db: *const everleaf_db, epoch: *mut u64) -> c_int {
    // SAFETY: the promise of a caller.
    unsafe {
        on("everleaf_end_epoch", db, |db| {
            let ended = db.db.end_epoch()?;
            if !epoch.is_null() {
                give(epoch, ended);
            }
            Ok(EVERLEAF_OK)
        })
    }
}

/// Writes about how many bytes of changes the current epoch has to `*bytes`, by what goes to the journal and by large values.
/// A thread counts its changes when they come to 8 KiB. O(1); 0 on persistent memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_pending_bytes(db: *const everleaf_db, bytes: *mut u64) -> c_int {
    // SAFETY: the promise of a caller.
    unsafe {
        on("everleaf_pending_bytes", db, |db| {
            expect_out(bytes)?;
            give(bytes, db.db.pending_bytes());
            Ok(EVERLEAF_OK)
        })
    }
}

/// Waits until `epoch`, which everleaf_epoch has told, is on disk, and all epochs before it. It does not end the epoch early:
/// so it costs no sync of its own, and takes an interval and two syncs. It waits for `timeout_ms` milliseconds at most, or
/// without end if that is below 0, and does not wait at all if it is 0. EVERLEAF_NOT_FOUND if the epoch is not on disk then;
/// that is no error, and you may call again.
///
/// Where the program ends epochs (see everleaf_options_manual_epochs), another thread has to end this one, if it has not
/// ended. While the disk is full, nothing becomes durable.
///
/// Errors: EVERLEAF_POISONED if writes have stopped; EVERLEAF_CLOSED if the pool was closed, also meanwhile and before the
/// epoch was on disk; EVERLEAF_READ_ONLY; EVERLEAF_FORKED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_wait_durable(
    db: *const everleaf_db,
    epoch: u64,
    timeout_ms: i64,
) -> c_int {
    // SAFETY: the promise of a caller.
    unsafe {
        on("everleaf_wait_durable", db, |db| {
            let is_durable = match u64::try_from(timeout_ms) {
                Ok(ms) => db.db.wait_durable_for(epoch, Duration::from_millis(ms))?,
                Err(_) => db.db.wait_durable(epoch).map(|()| true)?,
            };
            Ok(found(is_durable))
        })
    }
}
