//! What is known of a leaf in DRAM only, in its page's frame: between which keys it lies, and the
//! order of its slots.
//!
//! ```text
//! mark 1 low | mark 2 high | mark 3 live, high is +infinity, listed | mark 4 lines deferred (the leaf's)
//! aid    slots in key order, a byte each … | number of them | version that the order is for
//! ```
//!
//! Marks are stored under the latch and read optimistically, as the page's words are. The order is
//! built by the first scan that wants it and holds until the leaf's version changes: whoever builds
//! it holds the latch and leaves the version as it was.

use std::sync::atomic::{AtomicU64, Ordering};

use everleaf_pmem::{Page, Version};

use crate::node::epoch_bitmap::{SLOTS_MAX, current, key_of, ones};

const LOW_MARK: usize = 1;
const HIGH_MARK: usize = 2;
const STATE_MARK: usize = 3;
const LIVE: u64 = 1;
const HIGHEST: u64 = 2;
/// The leaf is on the list of those that have been emptied.
const LISTED: u64 = 4;

/// The keys that a leaf is for: `low` up to and without `high`; `None` is +infinity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    /// The lowest key.
    pub low: u64,
    /// The lowest key of the leaf to the right.
    pub high: Option<u64>,
}

impl Range {
    /// Whether the leaf is for this key.
    #[inline(always)]
    pub fn contains(self, key: u64) -> bool {
        self.low <= key && !self.ends_before(key)
    }
    /// Whether the key belongs to a leaf further right.
    #[inline(always)]
    pub fn ends_before(self, key: u64) -> bool {
        self.high.is_some_and(|high| high <= key)
    }
}

/// The range of a page, or `None` if it is no leaf that can be reached (any more).
#[inline(always)]
pub fn range(page: Page<'_>) -> Option<Range> {
    let state = page.mark(STATE_MARK).load(Ordering::Acquire);
    let low = page.mark(LOW_MARK).load(Ordering::Acquire);
    let high = page.mark(HIGH_MARK).load(Ordering::Acquire);
    (state & LIVE != 0).then_some(Range { low, high: (state & HIGHEST == 0).then_some(high) })
}

/// Gives a leaf its range. Under its latch, or before anybody can reach it.
pub fn set_range(page: Page<'_>, range: Range) {
    let put = |mark: &AtomicU64, value| mark.store(value, Ordering::Release);
    put(page.mark(LOW_MARK), range.low);
    put(page.mark(HIGH_MARK), range.high.unwrap_or(0));
    put(page.mark(STATE_MARK), if range.high.is_some() { LIVE } else { LIVE | HIGHEST });
}

/// Says that nothing leads to the page any more. Under its latch.
pub fn set_dead(page: Page<'_>) {
    page.mark(STATE_MARK).store(0, Ordering::Release);
}

/// Notes that a leaf is on the list of emptied ones; false if it was already.
pub fn set_listed(page: Page<'_>) -> bool {
    page.mark(STATE_MARK).fetch_or(LISTED, Ordering::AcqRel) & LISTED == 0
}

/// Notes that a leaf has been taken from that list.
pub fn set_unlisted(page: Page<'_>) {
    page.mark(STATE_MARK).fetch_and(!LISTED, Ordering::AcqRel);
}

/// The visible slots of a leaf in key order.
pub struct Sorted {
    slots: [u8; SLOTS_MAX],
    len: usize,
}

impl Sorted {
    /// The slots.
    #[inline(always)]
    pub fn slots(&self) -> &[u8] {
        &self.slots[..self.len]
    }

    /// The order of a leaf at a version that the caller has seen and validates after. O(1) if
    /// somebody has built it for this version; else O(n log n), and kept for the next one if nobody
    /// holds the latch.
    #[inline]
    pub fn of(page: Page<'_>, version: Version) -> Self {
        let n = page.geometry().aid_words();
        if page.aid(n - 1) == version.stamp() {
            Self::read(page)
        } else {
            Self::build(page, version)
        }
    }

    #[inline]
    fn read(page: Page<'_>) -> Self {
        let n = page.geometry().aid_words();
        // Both may be anything under a race; the caller validates.
        let len = (page.aid(n - 2) as usize).min(page.slots());
        let mut slots = [0; SLOTS_MAX];
        for i in 0..len.div_ceil(8) {
            slots[8 * i..8 * i + 8].copy_from_slice(&page.aid(i).to_le_bytes());
        }
        slots[..len].iter_mut().for_each(|slot| *slot &= page.slots() as u8 - 1);
        Self { slots, len }
    }

    #[cold]
    fn build(page: Page<'_>, version: Version) -> Self {
        let mut keys = [(0u64, 0u8); SLOTS_MAX];
        let mut len = 0;
        for slot in ones(current(page)) {
            keys[len] = (key_of(page, slot), slot as u8);
            len += 1;
        }
        keys[..len].sort_unstable();
        let slots = std::array::from_fn(|i| keys[i].1);
        let sorted = Self { slots, len };
        // Only if the version still stands: then what was read was one moment.
        if let Some(held) = page.latch().upgrade(version) {
            sorted.keep(page, version);
            held.unlock_unchanged();
        }
        sorted
    }

    fn keep(&self, page: Page<'_>, version: Version) {
        let n = page.geometry().aid_words();
        for (i, slots) in self.slots[..self.len.next_multiple_of(8)].chunks_exact(8).enumerate() {
            page.set_aid(i, u64::from_le_bytes(slots.try_into().expect("8 of them")));
        }
        page.set_aid(n - 2, self.len as u64);
        page.set_aid(n - 1, version.stamp());
    }
}
