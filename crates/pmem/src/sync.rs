//! The parts that the latch and the epoch clock are made of. `loom_latch.rs` and `loom_epoch.rs` of `everleaf-testing`
//! compile them with another module of this name, of loom's types, and so check the code that runs.
//!
//! Under a test's scheduler ([`schedule`]) one thread runs at a time, so nothing here may
//! block for real: a thread that cannot go on reports that, and tries again.

use std::cell::Cell;
use std::sync::atomic::AtomicUsize;
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::sync::{LockResult, PoisonError, TryLockError, TryLockResult};
pub(crate) use std::thread_local;
use std::time::Duration;

pub(crate) use crate::locks::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard};
use crate::locks::{Ordered, RwLockWriteGuard};
pub(crate) use schedule::{before_read, before_write};
use schedule::{pause, scheduled};

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

/// Gives the processor away for so long.
pub(crate) fn rest(time: Duration) {
    if !pause() {
        std::thread::sleep(time);
    }
}

/// Tries until nobody else holds the lock: the scheduler runs its holder meanwhile.
#[cold]
#[track_caller]
fn try_on<G>(lock: &impl Ordered, attempt: impl Fn() -> TryLockResult<G>) -> LockResult<G> {
    lock.want();
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
#[track_caller]
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> LockResult<MutexGuard<'_, T>> {
    if scheduled() { try_on(mutex, || mutex.try_lock()) } else { mutex.lock() }
}

/// Locks, also if a thread panicked with the lock in hand: for what is right all the same.
#[inline(always)]
#[track_caller]
pub fn lock_plain<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    lock(mutex).unwrap_or_else(PoisonError::into_inner)
}

/// Locks beside other readers.
#[inline(always)]
#[track_caller]
pub(crate) fn read_lock<T>(lock: &RwLock<T>) -> LockResult<RwLockReadGuard<'_, T>> {
    if scheduled() { try_on(lock, || lock.try_read()) } else { lock.read() }
}

/// Locks without other readers.
#[inline(always)]
#[track_caller]
pub(crate) fn write_lock<T>(lock: &RwLock<T>) -> LockResult<RwLockWriteGuard<'_, T>> {
    if scheduled() { try_on(lock, || lock.try_write()) } else { lock.write() }
}

/// Locks beside other readers, as [`lock_plain`].
#[inline(always)]
#[track_caller]
pub fn read_plain<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    read_lock(lock).unwrap_or_else(PoisonError::into_inner)
}

/// Locks without other readers, as [`lock_plain`].
#[inline(always)]
#[track_caller]
pub fn write_plain<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    write_lock(lock).unwrap_or_else(PoisonError::into_inner)
}

/// Gives `guard` of `mutex` back and waits to be notified, or for nothing; then locks again.
#[track_caller]
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
#[track_caller]
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

thread_local! {
    static MINE: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// Gives this thread a number, so that runs do not depend on what other threads there were.
#[cfg(feature = "schedule")]
pub(crate) fn set_thread_number(number: usize) {
    MINE.set(number);
}

/// A small number for each thread of the process, in order of first use: to spread threads by.
#[inline]
pub fn thread_number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let mine = MINE.get();
    if mine != usize::MAX {
        return mine;
    }
    let mine = NEXT.fetch_add(1, Ordering::Relaxed);
    MINE.set(mine);
    mine
}

/// Where a test may decide which thread goes on: just before each access to memory that threads
/// share. For tests only, by the cargo feature `schedule`; without it the calls are nothing.
///
/// The points are loads of words and aids, the operations of latches and of the epoch clock, what
/// passes the door of [`Sim`](crate::Sim), the locks of file media, and each turn of a
/// loop that waits. A thread has its points reported once
/// it has set a hook; others pay one relaxed load.
pub mod schedule {
    #[cfg(feature = "schedule")]
    pub use hooked::scheduled;
    #[cfg(feature = "schedule")]
    pub use hooked::{Point, set_hook, set_number};
    #[cfg(feature = "schedule")]
    pub(crate) use hooked::{before_read, before_write, pause};

    #[cfg(feature = "schedule")]
    mod hooked {
        use std::cell::Cell;
        use std::sync::atomic::{AtomicUsize, Ordering};

        /// The step that a thread is about to take.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Point {
            /// It reads memory that threads share.
            Read,
            /// It changes such memory or a latch, or it flushes or fences.
            Write,
            /// It looks again at what another thread must change first: it cannot go on by itself.
            Pause,
        }

        /// Threads with a hook.
        static HOOKED: AtomicUsize = AtomicUsize::new(0);
        thread_local!(static HOOK: Cell<Option<fn(Point)>> = const { Cell::new(None) });

        /// Has `hook` called at each point of this thread, or nothing any more. The hook may block, and
        /// may unwind while the thread is not panicking. A thread that ends takes its hook off first.
        pub fn set_hook(hook: Option<fn(Point)>) {
            let old = HOOK.replace(hook);
            match (old.is_some(), hook.is_some()) {
                (false, true) => HOOKED.fetch_add(1, Ordering::Relaxed),
                (true, false) => HOOKED.fetch_sub(1, Ordering::Relaxed),
                _ => 0,
            };
        }

        /// Gives this thread the number by which media tell threads apart; else they are numbered in the
        /// order in which they come. Threads that use one medium have different numbers.
        pub fn set_number(number: usize) {
            crate::sync::set_thread_number(number);
        }

        #[inline(always)]
        fn hook() -> Option<fn(Point)> {
            if HOOKED.load(Ordering::Relaxed) == 0 { None } else { HOOK.get() }
        }

        /// This thread is about to read memory that threads share.
        #[inline(always)]
        pub(crate) fn before_read() {
            if let Some(hook) = hook() {
                hook(Point::Read);
            }
        }

        /// This thread is about to change memory that threads share, to flush or to fence.
        #[inline(always)]
        pub(crate) fn before_write() {
            if let Some(hook) = hook() {
                hook(Point::Write);
            }
        }

        /// Whether this thread is scheduled by a test.
        #[inline(always)]
        pub fn scheduled() -> bool {
            hook().is_some()
        }

        /// This thread waits for another one. False if nobody schedules it: then it must wait itself.
        #[inline(always)]
        pub(crate) fn pause() -> bool {
            hook().map(|hook| hook(Point::Pause)).is_some()
        }
    }

    #[cfg(not(feature = "schedule"))]
    #[inline(always)]
    pub(crate) fn before_read() {}

    #[cfg(not(feature = "schedule"))]
    #[inline(always)]
    pub(crate) fn before_write() {}

    #[cfg(not(feature = "schedule"))]
    #[inline(always)]
    pub(crate) fn pause() -> bool {
        false
    }

    /// Whether this thread is scheduled by a test.
    #[cfg(not(feature = "schedule"))]
    #[inline(always)]
    pub fn scheduled() -> bool {
        false
    }
}

/// Runs a test of one thread; loom's runs it as a model.
#[cfg(test)]
pub(crate) fn model(test: impl Fn()) {
    test();
}
