//! What is durable, and waiting for it.

use std::ffi::c_int;
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use db::Db;

use crate::call::{expect_out, found, give, on};
use crate::codes::EVERLEAF_OK;
use crate::failure::Result;
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

/// Waits until `epoch`, which everleaf_epoch has told, is on disk, and all epochs before it. It does not end the epoch early:
/// so it costs no sync of its own, and takes an interval and two syncs. It waits for `timeout_ms` milliseconds at most, or
/// without end if that is below 0, and does not wait at all if it is 0. EVERLEAF_NOT_FOUND if the epoch is not on disk then;
/// that is no error, and you may call again.
///
/// Without background threads another thread has to end the epoch, with everleaf_sync for instance. While the disk is full,
/// nothing becomes durable.
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
            let timeout = u64::try_from(timeout_ms).ok().map(Duration::from_millis);
            Ok(found(wait(&db.db, epoch, timeout)?))
        })
    }
}

/// What a thread waits with.
#[derive(Default)]
struct Signal {
    was_given: Mutex<bool>,
    changed: Condvar,
}

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        *self.was_given.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_one();
    }
}

/// Waits for an epoch; says whether it is durable, or the time was up. A thread that waited for the epoch itself could not
/// give up: the future can be dropped.
fn wait(db: &Db, epoch: u64, timeout: Option<Duration>) -> Result<bool> {
    let end = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    let signal = Arc::new(Signal::default());
    let waker = Waker::from(Arc::clone(&signal));
    let mut durable = pin!(db.durable(epoch));
    loop {
        if let Poll::Ready(answer) = durable.as_mut().poll(&mut Context::from_waker(&waker)) {
            answer?;
            return Ok(true);
        }
        let mut was_given = signal.was_given.lock().unwrap_or_else(PoisonError::into_inner);
        while !*was_given {
            let Some(end) = end else {
                was_given = signal.changed.wait(was_given).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(false);
            }
            let waited = signal.changed.wait_timeout(was_given, left);
            was_given = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        *was_given = false;
    }
}
