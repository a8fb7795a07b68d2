//! The memory of transactions and batches that are under way, with a bound for each, and that of cursors.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use everleaf_pmem::thread_number;
use everleaf_tree::blink::Cursor;

use crate::{Error, Result};

/// What one takes is told to all when it has changed by so many bytes: most are smaller, and share no word.
const TELL_BYTES: u64 = 4096;
/// The same of a cursor, which has little more than that.
const TELL_CURSOR_BYTES: u64 = 1024;
/// Threads share as many sums, and not one: a short scan tells twice what its cursor takes.
const SUMS: usize = 8;

/// All buffers of a pool.
#[derive(Debug)]
pub(crate) struct Buffers {
    bytes: AtomicU64,
    bytes_max: u64,
    /// Of cursors. Only the sum of all is a number of bytes: one thread may let go what another one has made.
    cursors: [CursorSum; SUMS],
}

/// A sum in a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(64))]
struct CursorSum(AtomicU64);

/// What one transaction or batch keeps in memory.
#[derive(Debug)]
pub(crate) struct Buffer {
    all: Arc<Buffers>,
    bytes: u64,
    told: u64,
}

impl Buffers {
    pub fn new(bytes_max: u64) -> Arc<Self> {
        Arc::new(Self { bytes: AtomicU64::new(0), bytes_max, cursors: Default::default() })
    }

    /// What all take, but for less than `TELL_BYTES` of each.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// What all cursors take, but for less than `TELL_CURSOR_BYTES` of each.
    pub fn cursor_bytes(&self) -> u64 {
        let sums = self.cursors.iter().map(|sum| sum.0.load(Ordering::Relaxed));
        // Below zero while one is told and the other is not yet.
        (sums.fold(0, u64::wrapping_add) as i64).max(0) as u64
    }

    /// A cursor takes so much now.
    #[inline(always)]
    pub fn note_cursor(&self, cursor: &mut Cursor) {
        let bytes = cursor.memory() as u64;
        if bytes.abs_diff(cursor.told_bytes) >= TELL_CURSOR_BYTES {
            self.tell_cursor(cursor, bytes);
        }
    }

    /// A cursor takes nothing more of this pool.
    #[inline(always)]
    pub fn forget_cursor(&self, cursor: &mut Cursor) {
        if cursor.told_bytes > 0 {
            self.tell_cursor(cursor, 0);
        }
    }

    #[inline(never)]
    fn tell_cursor(&self, cursor: &mut Cursor, bytes: u64) {
        let sum = &self.cursors[thread_number() % SUMS].0;
        sum.fetch_add(bytes.wrapping_sub(cursor.told_bytes), Ordering::Relaxed);
        cursor.told_bytes = bytes;
    }
}

impl Buffer {
    pub fn new(all: &Arc<Buffers>) -> Self {
        Self { all: Arc::clone(all), bytes: 0, told: 0 }
    }

    /// What it takes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Refuses so many bytes more if they are too many. No more are never refused: a list may have gone a little over.
    #[inline]
    pub fn admit(&self, more: u64) -> Result<()> {
        let (bytes, bytes_max) = (self.bytes.saturating_add(more), self.all.bytes_max);
        match more > 0 && bytes > bytes_max {
            false => Ok(()),
            true => Err(Error::TransactionTooLarge { bytes, bytes_max }),
        }
    }

    /// It takes so much now.
    #[inline]
    pub fn set(&mut self, bytes: u64) {
        self.bytes = bytes;
        if self.bytes.abs_diff(self.told) >= TELL_BYTES {
            self.tell(bytes);
        }
    }

    #[cold]
    fn tell(&mut self, bytes: u64) {
        // Modulo 2^64, so that a difference below zero is one, too.
        self.all.bytes.fetch_add(bytes.wrapping_sub(self.told), Ordering::Relaxed);
        self.told = bytes;
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if self.told > 0 {
            self.tell(0);
        }
    }
}
