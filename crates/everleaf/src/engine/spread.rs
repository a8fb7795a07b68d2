//! Words that all threads would write, spread over cache lines: how many owners a value has, and sums.
//!
//! A transaction that meets nobody should write no line that another one writes, too. The count of an `Arc` is such a line: two
//! threads whose transactions only take and give back the pool are no faster than one.

use std::fmt;
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use crossbeam_utils::CachePadded;
use everleaf_pmem::{fallible, thread_number};

/// So many threads have lines of their own.
const SHARES: usize = 64;
/// The same of a sum.
const SUMS: usize = 8;

/// A value that is kept as long as somebody owns a share of it. Its count is in the line of the thread that it was made for.
#[derive(Debug)]
pub(crate) struct Share<T>(Arc<CachePadded<T>>);

impl<T> Share<T> {
    pub fn new(value: T) -> Self {
        Self(Arc::new(CachePadded::new(value)))
    }
}

impl<T> Clone for Share<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Deref for Share<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

/// A share for each thread, made when it first asks.
pub(crate) struct Shares<T>(OnceLock<Vec<OnceLock<Share<T>>>>);

impl<T> Shares<T> {
    /// That of this thread. `make` makes another owner of what is shared.
    #[inline]
    pub fn take(&self, make: impl FnOnce() -> T) -> Share<T> {
        let Some(shares) = self.0.get().or_else(|| self.list()) else { return Share::new(make()) };
        shares[thread_number() % SHARES].get_or_init(|| Share::new(make())).clone()
    }

    #[cold]
    fn list(&self) -> Option<&Vec<OnceLock<Share<T>>>> {
        let mut shares = fallible::list(SHARES, "shares of a pool").ok()?;
        shares.resize_with(SHARES, OnceLock::new);
        Some(self.0.get_or_init(|| shares))
    }
}

impl<T> Default for Shares<T> {
    fn default() -> Self {
        Self(OnceLock::new())
    }
}

impl<T> fmt::Debug for Shares<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shares").finish_non_exhaustive()
    }
}

/// A sum whose parts may be below zero: one thread may take away what another one has added.
#[derive(Debug, Default)]
pub(crate) struct Sum([CachePadded<AtomicU64>; SUMS]);

impl Sum {
    /// Adds modulo 2^64.
    #[inline]
    pub fn add(&self, more: u64) {
        self.0[thread_number() % SUMS].fetch_add(more, Ordering::Relaxed);
    }

    /// The total of what was added and not taken away. 0 while what another thread has added is not seen yet.
    pub fn total(&self) -> u64 {
        let parts = self.0.iter().map(|part| part.load(Ordering::Relaxed));
        (parts.fold(0, u64::wrapping_add) as i64).max(0) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thread_has_a_share_which_keeps_the_value() {
        let value = Arc::new(7);
        let shares = Shares::default();
        let take = || shares.take(|| Arc::clone(&value));
        let (first, second) = (take(), take());
        assert!(Arc::ptr_eq(&first.0, &second.0));
        let other = std::thread::scope(|scope| scope.spawn(take).join().expect("no panic"));
        assert!(!Arc::ptr_eq(&first.0, &other.0), "threads count in lines of their own");
        assert_eq!((**first, **other), (7, 7));
        assert_eq!(Arc::strong_count(&value), 3, "one for each thread");
        drop((shares, second, other));
        assert_eq!(Arc::strong_count(&value), 2, "a share outlives the others");
        drop(first);
        assert_eq!(Arc::strong_count(&value), 1);
    }

    #[test]
    fn a_sum_is_that_of_all_threads() {
        let sum = Sum::default();
        sum.add(5);
        std::thread::scope(|scope| {
            scope.spawn(|| sum.add(3_u64.wrapping_neg()));
        });
        assert_eq!(sum.total(), 2);
        sum.add(3_u64.wrapping_neg());
        assert_eq!(sum.total(), 0);
    }
}
