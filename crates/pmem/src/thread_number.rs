//! Numbers of threads, by which media spread them and tell them apart.

use std::sync::atomic::{AtomicUsize, Ordering};

thread_local! {
    static MINE: std::cell::Cell<usize> = const { std::cell::Cell::new(usize::MAX) };
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
