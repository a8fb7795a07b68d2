//! Media around media: [`Counted`] counts what passes the door, [`Latency`] makes it slower.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::medium::Medium;
use crate::page::{Page, Word};

/// Calls that passed the door of a [`Counted`] medium. All are plain counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Stores of 8 bytes.
    pub stores: u64,
    /// Lines flushed.
    pub flushes: u64,
    /// Fences.
    pub fences: u64,
}

impl std::ops::Sub for Counts {
    type Output = Counts;
    fn sub(self, before: Counts) -> Counts {
        Counts {
            stores: self.stores - before.stores,
            flushes: self.flushes - before.flushes,
            fences: self.fences - before.fences,
        }
    }
}

/// A medium that counts stores, flushed lines and fences.
#[derive(Debug)]
pub struct Counted<M> {
    inner: M,
    stores: AtomicU64,
    flushes: AtomicU64,
    fences: AtomicU64,
}

impl<M: Medium> Counted<M> {
    /// Counts from zero.
    pub fn new(inner: M) -> Self {
        Self { inner, stores: 0.into(), flushes: 0.into(), fences: 0.into() }
    }
    /// The calls that have passed so far.
    pub fn counts(&self) -> Counts {
        Counts {
            stores: self.stores.load(Ordering::Relaxed),
            flushes: self.flushes.load(Ordering::Relaxed),
            fences: self.fences.load(Ordering::Relaxed),
        }
    }
}

/// A medium that takes longer to flush a line or to fence, as the papers emulate slow memory.
#[derive(Debug)]
pub struct Latency<M> {
    inner: M,
    flush: Duration,
    fence: Duration,
    is_floor: bool,
}

impl<M: Medium> Latency<M> {
    /// Adds `flush` to each flushed line and `fence` to each fence, by spinning (Circ-Tree §6.1).
    pub fn new(inner: M, flush: Duration, fence: Duration) -> Self {
        Self { inner, flush, fence, is_floor: false }
    }

    /// Has each flushed line take `flush` at least, the time of the instruction included, with a fence
    /// before it, as FAST+FAIR's released code does. The fence behind it is the tree's.
    pub fn floor(inner: M, flush: Duration) -> Self {
        Self { inner, flush, fence: Duration::ZERO, is_floor: true }
    }
}

fn spin(delay: Duration) {
    if !delay.is_zero() {
        spin_since(Instant::now(), delay);
    }
}

fn spin_since(start: Instant, delay: Duration) {
    while start.elapsed() < delay {
        std::hint::spin_loop();
    }
}

impl<M: Medium> Medium for Counted<M> {
    crate::pass_on!(inner: M);
    fn store(&self, word: Word<'_>, value: u64) {
        self.stores.fetch_add(1, Ordering::Relaxed);
        self.inner.store(word, value);
    }
    fn flush(&self, page: Page<'_>, line: usize) {
        self.flushes.fetch_add(1, Ordering::Relaxed);
        self.inner.flush(page, line);
    }
    fn fence(&self) {
        self.fences.fetch_add(1, Ordering::Relaxed);
        self.inner.fence();
    }
}

impl<M: Medium> Medium for Latency<M> {
    crate::pass_on!(inner: M);
    fn store(&self, word: Word<'_>, value: u64) {
        self.inner.store(word, value);
    }
    fn flush(&self, page: Page<'_>, line: usize) {
        if self.is_floor {
            self.inner.fence();
            let start = Instant::now();
            self.inner.flush(page, line);
            return spin_since(start, self.flush);
        }
        self.inner.flush(page, line);
        spin(self.flush);
    }
    fn fence(&self) {
        self.inner.fence();
        spin(self.fence);
    }
}
