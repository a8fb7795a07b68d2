//! The memory of transactions and batches that are under way, with a bound for each.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::{Error, Result};

/// What one takes is told to all when it has changed by so many bytes: most are smaller, and share no word.
const TELL_BYTES: u64 = 4096;

/// All buffers of a pool.
#[derive(Debug)]
pub(crate) struct Buffers {
    bytes: AtomicU64,
    bytes_max: u64,
}

/// What one transaction or batch keeps in memory.
#[derive(Debug)]
pub(crate) struct Buffer {
    all: Arc<Buffers>,
    bytes: u64,
    told: u64,
}

impl Buffers {
    pub fn new(bytes_max: u64) -> Arc<Self> {
        Arc::new(Self { bytes: AtomicU64::new(0), bytes_max })
    }

    /// What all take, but for less than `TELL_BYTES` of each.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
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
