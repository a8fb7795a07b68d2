//! The memory of transactions and batches that are under way, with a bound for each, and that of cursors.

use std::sync::atomic::{AtomicU64, Ordering};

use everleaf_tree::blink::Cursor;

use super::spread::Sum;
use crate::{Error, Result};

/// A buffer tells its bytes to all when they have changed by so many: most buffers are smaller, and share no word.
const TELL_BYTES: u64 = 4096;
/// The same of a cursor, which has little more than that.
const TELL_CURSOR_BYTES: u64 = 1024;

/// All buffers of a pool.
#[derive(Debug)]
pub(crate) struct Buffers {
    bytes: AtomicU64,
    bytes_max: u64,
    /// Of cursors: a short scan tells twice what its cursor takes.
    cursors: Sum,
}

/// The memory of one transaction or batch. Its owner [says](Self::forget) when that is nothing any more.
#[derive(Debug)]
pub(crate) struct Buffer {
    bytes_max: u64,
    bytes: u64,
    told: u64,
}

impl Buffers {
    pub fn new(bytes_max: u64) -> Self {
        Self { bytes: AtomicU64::new(0), bytes_max, cursors: Sum::default() }
    }

    /// Bytes that all of them take, but for less than `TELL_BYTES` of each.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Bytes that all cursors take, but for less than `TELL_CURSOR_BYTES` of each.
    pub fn cursor_bytes(&self) -> u64 {
        self.cursors.total()
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
        self.cursors.add(bytes.wrapping_sub(cursor.told_bytes));
        cursor.told_bytes = bytes;
    }
}

impl Buffer {
    pub fn new(all: &Buffers) -> Self {
        Self { bytes_max: all.bytes_max, bytes: 0, told: 0 }
    }

    /// Bytes that it takes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Refuses so many bytes more if they are too many. No more are never refused: a list may have gone a little over.
    #[inline]
    pub fn admit(&self, more: u64) -> Result<()> {
        let (bytes, bytes_max) = (self.bytes.saturating_add(more), self.bytes_max);
        match more > 0 && bytes > bytes_max {
            false => Ok(()),
            true => Err(Error::TransactionTooLarge { bytes, bytes_max }),
        }
    }

    /// It takes so much now.
    #[inline]
    pub fn set(&mut self, all: &Buffers, bytes: u64) {
        self.bytes = bytes;
        if self.bytes.abs_diff(self.told) >= TELL_BYTES {
            self.tell(all, bytes);
        }
    }

    #[cold]
    fn tell(&mut self, all: &Buffers, bytes: u64) {
        // Modulo 2^64, so that a difference below zero is one, too.
        all.bytes.fetch_add(bytes.wrapping_sub(self.told), Ordering::Relaxed);
        self.told = bytes;
    }

    /// It takes nothing any more.
    #[inline]
    pub fn forget(&mut self, all: &Buffers) {
        if self.told > 0 {
            self.tell(all, 0);
        }
    }
}
