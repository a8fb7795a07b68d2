//! How many extents a file has ready: free, with blocks on the disk. [`crate::limits::ready`] says what for, and sees
//! to it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use everleaf_pmem::locks::Mutex;

/// Extents that are ready beside those that something is known to need: a share of those in use. With fewer,
/// cleaning cannot keep up with a writer that deletes pairs here and there.
const SPARE_SHARE: u64 = 8;
const SPARE_LEAST: u64 = 8;
const SPARE_MOST: u64 = 64;
/// The same for a pool that is closed, which is to be short.
const CLOSED_SHARE: u64 = 32;
const CLOSED_LEAST: u64 = 6;
/// And the pool is longer by this factor than one that has them while it is open.
const CLOSED_FROM: u64 = 2;

#[derive(Debug, Default)]
pub(crate) struct State {
    /// The disk had no more blocks when they were asked for last.
    pub is_out: bool,
    /// Cleaning gave no room, and nothing has been written since.
    pub is_clean: bool,
    /// The number of the block that came next when the file was compacted last, and the extents that it had filled
    /// before.
    pub compacted: Option<(u64, u64)>,
}

/// How a file has room before it needs it.
#[derive(Debug)]
pub(crate) struct Reserve {
    /// Extents in use from which on it has.
    from: u64,
    /// There were as many at some time.
    begun: AtomicBool,
    /// The system can give blocks ahead.
    works: AtomicBool,
    /// Extents for which somebody waits.
    wanted: AtomicU64,
    /// Held by the thread that asks for blocks.
    pub state: Mutex<State>,
}

impl Reserve {
    pub(crate) fn new(from: u32) -> Self {
        let (begun, works) = (AtomicBool::new(false), AtomicBool::new(true));
        let (wanted, state) = (AtomicU64::new(0), Mutex::default());
        Self { from: from.into(), begun, works, wanted, state }
    }

    /// Has cleaning make so many `more` ready, until this is dropped.
    pub(crate) fn want(&self, more: u64) -> Wanted<'_> {
        self.wanted.fetch_add(more, Ordering::Relaxed);
        Wanted { reserve: self, more }
    }

    /// Extents for which somebody waits.
    pub(crate) fn wanted(&self) -> u64 {
        self.wanted.load(Ordering::Relaxed)
    }

    /// Whether a pool that has so many extents in use has some ready: also when they become fewer.
    pub(crate) fn is_due(&self, in_use: u64) -> bool {
        if in_use >= self.from {
            self.begun.store(true, Ordering::Relaxed);
        }
        self.begun.load(Ordering::Relaxed) && self.works.load(Ordering::Relaxed)
    }

    /// The system cannot give blocks ahead.
    pub(crate) fn give_up(&self) {
        self.works.store(false, Ordering::Relaxed);
    }

    /// Extents that are ready beside those that something is known to need, if so many are in use. A writer that makes
    /// room may take some, and leaves some to clean with.
    pub(crate) fn spare(&self, in_use: u64, adds: bool) -> u64 {
        let spare = (in_use / SPARE_SHARE).clamp(SPARE_LEAST, SPARE_MOST);
        if adds { spare } else { spare / 2 }
    }

    /// Extents that are ready in a pool that is closed, and had so many in use.
    pub(crate) fn closed(&self, in_use: u64) -> u64 {
        match in_use >= CLOSED_FROM * self.from && self.works.load(Ordering::Relaxed) {
            true => (in_use / CLOSED_SHARE).clamp(CLOSED_LEAST, SPARE_MOST),
            false => 0,
        }
    }
}

/// Somebody waits for extents.
pub(crate) struct Wanted<'a> {
    reserve: &'a Reserve,
    more: u64,
}

impl Drop for Wanted<'_> {
    fn drop(&mut self) {
        self.reserve.wanted.fetch_sub(self.more, Ordering::Relaxed);
    }
}

/// The taker of an extent.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Taker {
    Images,
    Journal,
}
