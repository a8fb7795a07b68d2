//! Figures about an open pool.

use std::sync::atomic::Ordering;

use crate::inner::Inner;
use crate::store::format::EXTENT_BYTES;

/// Figures about an open pool. Counters count from the open; sizes are in bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FileStats {
    /// The running epoch.
    pub epoch: u64,
    /// The last durable epoch.
    pub durable_epoch: u64,
    /// Commits that wrote a block.
    pub commits: u64,
    /// How often an epoch had to be written that had not ended.
    pub spills: u64,
    /// Bytes of blocks, padding included.
    pub journal_bytes_written: u64,
    /// Bytes of journal that a crash now would read.
    pub journal_replay_bytes: u64,
    /// Bytes of the file that belong to the journal.
    pub journal_file_bytes: u64,
    /// Checkpoints that were completed.
    pub checkpoints: u64,
    /// Pages of which checkpoints have written images.
    pub pages_written: u64,
    /// Length of the file; 0 if the system does not say.
    pub data_bytes: u64,
    /// Bytes of the file that hold images of pages and of large values as they are now.
    pub live_bytes: u64,
    /// Bytes of the file that are free, but for its end.
    pub free_bytes: u64,
    /// No page at or behind this one has an image in the file.
    pub pages_end: u64,
    /// Pages that wait for their changes in the journal.
    pub pages_pending: u64,
    /// The pool's identity.
    pub uuid: [u8; 16],
    /// How many opens have written to the pool.
    pub open_generation: u64,
    /// Bytes noted or written that are not durable, as far as threads have told; and the most that
    /// there ever were.
    pub pending_bytes: u64,
    /// See [`pending_bytes`](Self::pending_bytes).
    pub pending_peak: u64,
    /// How many such bytes there may be now before writers wait.
    pub pending_bound: u64,
    /// The most bytes of journal that a crash would have read.
    pub journal_replay_peak: u64,
    /// How often a writer waited because of a bound.
    pub waits: u64,
    /// Bytes that pages, their frames, the page table and large values take in memory, and may take. Both are 0 if
    /// there is no bound.
    pub memory_bytes: u64,
    /// See [`memory_bytes`](Self::memory_bytes).
    pub memory_most: u64,
    /// Pages that were not in memory when somebody wanted them, or were new.
    pub misses: u64,
    /// How often a page would have left memory, and stayed because somebody had used it.
    pub hits: u64,
    /// Pages that have left memory.
    pub evictions: u64,
    /// Bytes of large values in memory; how often one was wanted that was not there; and how many have left.
    pub value_bytes: u64,
    /// See [`value_bytes`](Self::value_bytes).
    pub value_misses: u64,
    /// See [`value_bytes`](Self::value_bytes).
    pub value_evictions: u64,
}

/// O(1), and waits for no disk: nothing that is held during a sync is asked.
pub(crate) fn collect(inner: &Inner) -> FileStats {
    let (counters, bounds, residents) = (&inner.counters, &inner.bounds, &inner.residents);
    let data_bytes = inner.data.len().unwrap_or(0);
    let ((live, journal), free, pages_end) = {
        let places = inner.places();
        let free = places.extents.free_within(data_bytes);
        (places.extents.counts(), free, places.pages_end())
    };
    let replay = inner.replay.read().ok().and_then(|r| r.clone());
    FileStats {
        epoch: inner.epochs.now(),
        durable_epoch: inner.epochs.durable(),
        commits: counters.commits.load(Ordering::Relaxed),
        spills: counters.spills.load(Ordering::Relaxed),
        journal_bytes_written: counters.journal_bytes.load(Ordering::Relaxed),
        journal_replay_bytes: bounds.journal(),
        journal_file_bytes: journal * EXTENT_BYTES,
        checkpoints: counters.checkpoints.load(Ordering::Relaxed),
        pages_written: counters.pages_written.load(Ordering::Relaxed),
        data_bytes,
        live_bytes: live,
        free_bytes: free * EXTENT_BYTES,
        pages_end,
        pages_pending: replay.map_or(0, |r| r.left() as u64),
        uuid: inner.uuid,
        open_generation: counters.opens.load(Ordering::Relaxed),
        pending_bytes: bounds.pending(),
        pending_peak: bounds.peak.load(Ordering::Relaxed),
        pending_bound: bounds.bound(),
        journal_replay_peak: bounds.journal_peak.load(Ordering::Relaxed),
        waits: bounds.waits.load(Ordering::Relaxed),
        memory_bytes: residents.most.map_or(0, |_| residents.bytes()),
        memory_most: residents.most.unwrap_or(0),
        misses: residents.misses.load(Ordering::Relaxed),
        hits: residents.hits.load(Ordering::Relaxed),
        evictions: residents.evictions.load(Ordering::Relaxed),
        value_bytes: residents.values.bytes(),
        value_misses: residents.values.misses.load(Ordering::Relaxed),
        value_evictions: residents.values.evictions.load(Ordering::Relaxed),
    }
}
