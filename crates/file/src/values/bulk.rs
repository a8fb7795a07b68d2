//! How much of the file waits for a checkpoint because large values took the place of others.
//!
//! The space of a value is used again only when a root does not name it any more. The journal hears little of
//! large values, so its length does not say when that is due.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Large values of so many bytes may be written before a checkpoint is due because of them, however little
/// is alive.
const BULK_LEAST: u64 = 32 << 20;

/// Large values that were written and freed since the last checkpoint began.
#[derive(Debug)]
pub(crate) struct Bulk {
    bytes: AtomicU64,
    pages: AtomicU64,
    freed_pages: AtomicU64,
    /// How many bytes may wait before a checkpoint is due.
    most: AtomicU64,
}

impl Default for Bulk {
    fn default() -> Self {
        let zero = || AtomicU64::new(0);
        Self { bytes: zero(), pages: zero(), freed_pages: zero(), most: AtomicU64::new(BULK_LEAST) }
    }
}

impl Bulk {
    pub fn note_written(&self, bytes: u64, pages: u64) {
        self.bytes.fetch_add(bytes, Relaxed);
        self.pages.fetch_add(pages, Relaxed);
    }

    pub fn note_freed(&self, pages: u64) {
        self.freed_pages.fetch_add(pages, Relaxed);
    }

    /// A checkpoint begins: what was freed before is free when it ends. Says how many bytes were written
    /// since the last one began.
    pub fn begin_checkpoint(&self) -> u64 {
        self.pages.store(0, Relaxed);
        self.freed_pages.store(0, Relaxed);
        self.bytes.swap(0, Relaxed)
    }

    /// So many bytes of the file are alive: values may take the place of a share of them before a checkpoint
    /// is due.
    pub fn set_live(&self, bytes: u64) {
        self.most.store((bytes / 8).max(BULK_LEAST), Relaxed);
    }

    /// About so many bytes took the place of others, if those were of the same sizes: how long a freed value
    /// was is not known where it is freed.
    fn replaced(&self) -> u64 {
        let (bytes, pages) = (self.bytes.load(Relaxed), self.pages.load(Relaxed).max(1));
        let freed = self.freed_pages.load(Relaxed).min(pages);
        (u128::from(bytes) * u128::from(freed) / u128::from(pages)) as u64
    }

    /// Whether more waits than may.
    pub fn is_too_much(&self) -> bool {
        self.replaced() > self.most.load(Relaxed)
    }

    /// Whether half as much more waits.
    pub fn is_far_too_much(&self) -> bool {
        let most = self.most.load(Relaxed);
        self.replaced() > most + most / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_takes_the_place_of_others_counts() {
        let bulk = Bulk::default();
        bulk.set_live(80 * BULK_LEAST);
        let is_too_much = || (bulk.is_too_much(), bulk.is_far_too_much());
        bulk.note_written(100 * BULK_LEAST, 1000);
        assert_eq!(is_too_much(), (false, false), "a load");
        bulk.note_freed(101);
        assert_eq!(is_too_much(), (true, false), "a tenth replaced others");
        bulk.note_freed(50);
        assert_eq!(is_too_much(), (true, true));
        bulk.note_freed(5000);
        assert_eq!(bulk.replaced(), 100 * BULK_LEAST, "no more than there is");
        assert_eq!(bulk.begin_checkpoint(), 100 * BULK_LEAST);
        bulk.note_freed(5000);
        assert_eq!(is_too_much(), (false, false), "nothing was written");
        assert_eq!(bulk.begin_checkpoint(), 0);
    }
}
