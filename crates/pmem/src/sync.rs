//! What the latch and the epoch clock are made of. `loom_latch.rs` and `loom_epoch.rs` of `everleaf-testing`
//! compile them with another module of this name, of loom's types, and so check the code that runs.
//!
//! Under a test's scheduler ([`crate::schedule`]) one thread runs at a time, so nothing here may
//! block for real: a thread that cannot go on reports that, and tries again.

pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
pub(crate) use std::sync::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard};
use std::sync::{LockResult, PoisonError, RwLockWriteGuard, TryLockError, TryLockResult};
pub(crate) use std::thread_local;
use std::time::Duration;

pub(crate) use crate::schedule::{before_read, before_write};
use crate::schedule::{pause, scheduled};
pub(crate) use crate::thread_number::thread_number;

/// One turn of a short wait.
#[inline]
pub(crate) fn spin_loop() {
    if !pause() {
        std::hint::spin_loop();
    }
}

/// One turn of a long wait.
#[inline]
pub(crate) fn yield_now() {
    if !pause() {
        std::thread::yield_now();
    }
}

/// Tries until nobody else holds the lock: the scheduler runs its holder meanwhile.
#[cold]
fn try_on<G>(attempt: impl Fn() -> TryLockResult<G>) -> LockResult<G> {
    loop {
        before_write();
        match attempt() {
            Ok(guard) => return Ok(guard),
            Err(TryLockError::Poisoned(poisoned)) => return Err(poisoned),
            Err(TryLockError::WouldBlock) => yield_now(),
        }
    }
}

/// Locks; an error says that a thread panicked with the lock in hand.
#[inline(always)]
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> LockResult<MutexGuard<'_, T>> {
    if scheduled() { try_on(|| mutex.try_lock()) } else { mutex.lock() }
}

/// Locks, also if a thread panicked with the lock in hand: for what is right all the same.
#[inline(always)]
pub fn lock_plain<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    lock(mutex).unwrap_or_else(PoisonError::into_inner)
}

/// Locks beside other readers.
#[inline(always)]
pub(crate) fn read_lock<T>(lock: &RwLock<T>) -> LockResult<RwLockReadGuard<'_, T>> {
    if scheduled() { try_on(|| lock.try_read()) } else { lock.read() }
}

/// Locks without other readers.
#[inline(always)]
pub(crate) fn write_lock<T>(lock: &RwLock<T>) -> LockResult<RwLockWriteGuard<'_, T>> {
    if scheduled() { try_on(|| lock.try_write()) } else { lock.write() }
}

/// Locks beside other readers, as [`lock_plain`].
#[inline(always)]
pub fn read_plain<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    read_lock(lock).unwrap_or_else(PoisonError::into_inner)
}

/// Locks without other readers, as [`lock_plain`].
#[inline(always)]
pub fn write_plain<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    write_lock(lock).unwrap_or_else(PoisonError::into_inner)
}

/// Gives `guard` of `mutex` back and waits to be notified, or for nothing; then locks again.
pub fn wait<'m, T>(
    condvar: &Condvar,
    mutex: &'m Mutex<T>,
    guard: MutexGuard<'m, T>,
) -> LockResult<MutexGuard<'m, T>> {
    if scheduled() {
        drop(guard);
        yield_now();
        return lock(mutex);
    }
    condvar.wait(guard)
}

/// The same, but for `most` at the most; also if a thread panicked with the lock in hand, as [`lock_plain`].
pub fn wait_timeout<'m, T>(
    condvar: &Condvar,
    mutex: &'m Mutex<T>,
    guard: MutexGuard<'m, T>,
    most: Duration,
) -> MutexGuard<'m, T> {
    if scheduled() {
        drop(guard);
        yield_now();
        return lock_plain(mutex);
    }
    condvar.wait_timeout(guard, most).unwrap_or_else(PoisonError::into_inner).0
}

/// Runs a test of one thread; loom's runs it as a model.
#[cfg(test)]
pub(crate) fn model(test: impl Fn()) {
    test();
}
