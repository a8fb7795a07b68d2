//! Where a test may decide which thread goes on: just before each access to memory that threads
//! share. For tests only, by the cargo feature `schedule`; without it the calls are nothing.
//!
//! The points are loads of words and aids, the operations of latches and of the epoch clock, what
//! passes the door of [`Sim`](crate::Sim), the locks of file media, and each turn of a
//! loop that waits. A thread has its points reported once
//! it has set a hook; others pay one relaxed load.

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

    /// What a thread is about to do.
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
        crate::thread_number::set_thread_number(number);
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
