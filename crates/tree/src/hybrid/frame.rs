//! The facts about a leaf that only DRAM holds, in its page's frame: between which keys it lies, and the
//! order of its slots.
//!
//! ```text
//! mark 1 low | mark 2 high | mark 3 live, high is +infinity, listed | mark 4 lines deferred (the leaf's)
//! mark 7 version of the latch that the order of slots is for
//! aid    slots in key order, a byte each … | number of them
//! ```
//!
//! Marks are stored under the latch and read optimistically, as the page's words are. The order is
//! built by the first scan that wants it, which holds the latch meanwhile and leaves the version as it
//! was. Changes of one entry keep it in step; a split lets it go.

use std::sync::atomic::{AtomicU64, Ordering};

use everleaf_pmem::{LatchGuard, Page, Version};

use crate::bug;
use crate::hybrid::epoch_bitmap::{SLOTS_MAX, TRACKED_MARK, current, key_of, ones};

const LOW_MARK: usize = 1;
const HIGH_MARK: usize = 2;
const STATE_MARK: usize = 3;
const ORDER_MARK: usize = 7;
const LIVE: u64 = 1;
const HIGHEST: u64 = 2;
/// The leaf is on the list of those that have been emptied.
const LISTED: u64 = 4;

const _: () = {
    // No two of the marks are one, and the pool's mark 0 is none of them.
    assert!(0 < LOW_MARK && LOW_MARK < HIGH_MARK && HIGH_MARK < STATE_MARK);
    assert!(STATE_MARK < TRACKED_MARK && TRACKED_MARK < ORDER_MARK);
    // A slot of the order is a byte.
    assert!(SLOTS_MAX <= 1 << 8);
};

/// The keys that a leaf is for: `low` up to and without `high`; `None` is +infinity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeafRange {
    /// The lowest key.
    pub low: u64,
    /// The lowest key of the leaf to the right.
    pub high: Option<u64>,
}

impl LeafRange {
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
pub fn range(page: Page<'_>) -> Option<LeafRange> {
    let state = page.mark(STATE_MARK).load(Ordering::Acquire);
    let low = page.mark(LOW_MARK).load(Ordering::Acquire);
    let high = page.mark(HIGH_MARK).load(Ordering::Acquire);
    (state & LIVE != 0).then_some(LeafRange { low, high: (state & HIGHEST == 0).then_some(high) })
}

/// Gives a leaf its range. Under its latch, or before anybody can reach it.
pub fn set_range(page: Page<'_>, range: LeafRange) {
    debug_assert!(page.latch().is_held(), "page {} changes without its latch", page.no());
    debug_assert!(
        range.high.is_none_or(|high| range.low <= high),
        "{range:x?} ends before it begins"
    );
    let put = |mark: &AtomicU64, value| mark.store(value, Ordering::Release);
    put(page.mark(LOW_MARK), range.low);
    put(page.mark(HIGH_MARK), range.high.unwrap_or(0));
    // Whether it is listed is not the latch's business: somebody may be taking it from the list.
    let state = if range.high.is_some() { LIVE } else { LIVE | HIGHEST };
    page.mark(STATE_MARK).fetch_and(LISTED, Ordering::AcqRel);
    page.mark(STATE_MARK).fetch_or(state, Ordering::AcqRel);
}

/// Says that nothing leads to the page any more. Under its latch.
pub fn set_dead(page: Page<'_>) {
    debug_assert!(page.latch().is_held(), "page {} changes without its latch", page.no());
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

/// Where the number of slots stands, behind them.
fn len_word(page: Page<'_>) -> usize {
    page.geometry().aid_words() - 1
}

impl Sorted {
    /// The slots.
    #[inline(always)]
    pub fn slots(&self) -> &[u8] {
        &self.slots[..self.len]
    }

    /// The order of a leaf at a version that the caller has seen and validates after. O(1) if
    /// it is kept; else O(n log n), and kept from now on if nobody holds the latch.
    #[inline]
    pub fn of(page: Page<'_>, version: Version) -> Self {
        if Self::is_for(page, version) { Self::read(page) } else { Self::build(page, version) }
    }

    /// Whether an order is kept for a version.
    #[inline(always)]
    fn is_for(page: Page<'_>, version: Version) -> bool {
        page.mark(ORDER_MARK).load(Ordering::Acquire) == version.stamp()
    }

    #[inline]
    fn read(page: Page<'_>) -> Self {
        // All may be anything under a race; the caller validates.
        let len = (page.aid(len_word(page)) as usize).min(page.slots());
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
        let sorted = Self { slots: keys.map(|(_, slot)| slot), len };
        // Only if the version still stands: then what was read was one moment.
        if let Some(held) = page.latch().upgrade(version) {
            sorted.keep(page, version);
            held.unlock_unchanged();
        }
        sorted
    }

    fn keep(&self, page: Page<'_>, version: Version) {
        debug_assert!(page.latch().is_held(), "an order is kept under the leaf's latch");
        debug_assert!(
            self.len == current(page).count_ones() as usize || !bug::is_sound(),
            "the order has the slots that the leaf shows"
        );
        for (i, slots) in self.slots[..self.len.next_multiple_of(8)].chunks_exact(8).enumerate() {
            page.set_aid(i, u64::from_le_bytes(slots.try_into().expect("8 of them")));
        }
        page.set_aid(len_word(page), self.len as u64);
        page.mark(ORDER_MARK).store(version.stamp(), Ordering::Release);
    }

    /// Keeps the order in step with a change of one entry: slot `gone` shows no more, slot `new`
    /// shows now; with both, they have one key. Nothing is done if no order is kept. O(n) bytes.
    #[inline]
    pub fn follow(page: Page<'_>, held: &LatchGuard<'_>, gone: Option<usize>, new: Option<usize>) {
        if Self::is_for(page, held.before()) {
            Self::change(page, held.after(), gone, new);
        }
    }

    fn change(page: Page<'_>, version: Version, gone: Option<usize>, new: Option<usize>) {
        if (gone, new) == (None, None) {
            return page.mark(ORDER_MARK).store(version.stamp(), Ordering::Release);
        }
        let mut sorted = Self::read(page);
        let place = |slot| sorted.slots().iter().position(|other| usize::from(*other) == slot);
        match (gone.map(place), new) {
            (Some(Some(at)), Some(new)) => sorted.slots[at] = new as u8,
            (Some(Some(at)), None) => {
                sorted.slots.copy_within(at + 1..sorted.len, at);
                sorted.len -= 1;
            }
            (None, Some(new)) if sorted.len < SLOTS_MAX => {
                let key = key_of(page, new);
                let at =
                    sorted.slots().partition_point(|other| key_of(page, (*other).into()) < key);
                sorted.slots.copy_within(at..sorted.len, at + 1);
                sorted.slots[at] = new as u8;
                sorted.len += 1;
            }
            // Not an order of this leaf: let it go.
            _ => return,
        }
        sorted.keep(page, version);
    }
}
