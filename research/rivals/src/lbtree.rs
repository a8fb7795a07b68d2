//! LB+-Tree (Liu et al., VLDB 2020), after the code of schencoding/lbtree (commit 92f7304).
//!
//! ```text
//! leaf     body of 16 slots, 256 B:
//!          word 0       bitmap 14 bits | lock (always 0 here) | alt | fingerprints 0 to 5
//!          word 1       fingerprints 6 to 13
//!          words 2-29   14 pairs: 0 to 2 in line 0, 3 to 6, 7 to 10, 11 to 13
//!          words 30, 31 two links: `alt` says which one counts
//!
//! insert   a slot of line 0: pair, word 0 ->                        (-> is a flush and a fence)   1 line,  1 fence
//!          another: pair, and pairs of line 0 into the free slots of its line ->  words 1, 0 ->   2 lines, 2 fences
//! update   the value in place ->                                                                  1 line,  1 fence
//! remove   word 0 without the bit ->                                                              1 line,  1 fence
//! split    right leaf with the upper 7 pairs, left's other link ->  words 1, 0 with alt turned -> 6 lines, 2 fences
//! unlink   left leaf's link ->  [map]                                                             1 line,  1 fence
//! ```
//!
//! A key that has no room goes to slot 6 of the right leaf before that is flushed, or is inserted into the left one
//! after the split. The source has no update, and returns from an insert of a key that is there without storing it.
//!
//! Bug of the source, which [`AsPublished`](crate::AsPublished) has:
//!
//! - `a`: the header of 16 B is stored as two words whose order nothing forces. Word 0 before word 1 shows pairs that
//!   were moved while their fingerprints are missing: no search finds them. [`Sound`] has the order of the source's
//!   text.
//!
//! Bugs that no crash image of one thread can show are not here: a reader that acts on a write before it is durable; a leaf
//! that is freed while a reader moves right into it, since readers validate versions; keys that are compared by a
//! signed subtraction. Recovery is not in the source: leaves are walked by the links that count.

use std::marker::PhantomData;

use everleaf_pmem::{Geometry, Medium, Page, PageNo};
use everleaf_pool::kind::{self, KIND_WORD};

use crate::chained::Chained;
use crate::leaf::{Cut, Leaf, Neighbours};
use crate::parts::{bytes_like, fingerprint, ones, persist};
use crate::ulog::Log;
use crate::version::{Sound, Version};

/// LB+-Tree with its leaves of 256 B, in pages of 16 slots.
pub type LbTree<M, V = Sound> = Chained<M, Lb<V>>;

/// Pairs of a leaf.
pub const PAIRS: usize = 14;
const FULL: u64 = (1 << PAIRS) - 1;
const ALT: u64 = 1 << 15;
/// Pairs in the line of the header.
const FIRST_LINE: usize = 3;
/// Slot of a new pair in the right leaf of a split; those of the upper half follow.
const SPLIT_SLOT: usize = 6;
const LINK_WORD: usize = 30;
/// Lines of a page: its header's, that of the leaf's header, that of the links.
const HEAD_LINE: usize = 1;
const LINK_LINE: usize = 4;
const _: () = assert!(2 + 2 * PAIRS == LINK_WORD && SPLIT_SLOT + 1 + PAIRS / 2 == PAIRS);

/// The leaf.
#[derive(Debug)]
pub struct Lb<V>(PhantomData<V>);

/// The two words of a leaf's header, in DRAM.
#[derive(Clone, Copy)]
struct Header([u64; 2]);

impl Header {
    #[inline(always)]
    fn of(page: Page<'_>) -> Self {
        Self([page.body(0).load(), page.body(1).load()])
    }
    fn bitmap(self) -> u64 {
        self.0[0] & FULL
    }
    fn alt(self) -> usize {
        usize::from(self.0[0] & ALT != 0)
    }
    /// Shows a slot of that key.
    fn show(&mut self, slot: usize, key: u64) {
        let (word, shift) = ((slot + 2) / 8, 8 * ((slot + 2) % 8));
        self.0[word] = self.0[word] & !(0xff << shift) | u64::from(fingerprint(key)) << shift;
        self.0[0] |= 1 << slot;
    }
    fn hide(&mut self, slot: usize) {
        self.0[0] &= !(1 << slot);
    }
    /// The slots that may have the key.
    #[inline(always)]
    fn like(self, key: u64) -> u64 {
        let print = fingerprint(key);
        (bytes_like(self.0[0], print) >> 2 | bytes_like(self.0[1], print) << 6) & self.bitmap()
    }
}

/// The slots of the line of a slot that come after it.
fn rest_of_line(slot: usize) -> std::ops::Range<usize> {
    slot + 1..((slot + 1) / 4 * 4 + 3).min(PAIRS)
}

/// The line of a page that a slot is in.
fn line_of(slot: usize) -> usize {
    HEAD_LINE + (slot + 1) / 4
}

impl<V: Version> Lb<V> {
    #[inline(always)]
    fn pair(page: Page<'_>, slot: usize) -> (u64, u64) {
        (page.body(2 + 2 * slot).load(), page.body(3 + 2 * slot).load())
    }

    fn store_pair<M: Medium>(m: &M, page: Page<'_>, slot: usize, (key, value): (u64, u64)) {
        m.store(page.body(2 + 2 * slot), key);
        m.store(page.body(3 + 2 * slot), value);
    }

    #[inline]
    fn slot_of(page: Page<'_>, key: u64) -> Option<usize> {
        ones(Header::of(page).like(key)).find(|slot| Self::pair(page, *slot).0 == key)
    }

    /// Stores both words of the header; they are durable when it returns.
    fn commit<M: Medium>(m: &M, page: Page<'_>, header: Header) {
        let order = if V::has('a') { [0, 1] } else { [1, 0] };
        order.into_iter().for_each(|word| m.store(page.body(word), header.0[word]));
        persist(m, page, HEAD_LINE);
    }

    /// The slots of a full leaf in the order of their keys.
    fn sorted(page: Page<'_>) -> [usize; PAIRS] {
        let mut slots = std::array::from_fn(|slot| slot);
        slots.sort_unstable_by_key(|slot| Self::pair(page, *slot).0);
        slots
    }
}

impl<V: Version> Leaf for Lb<V> {
    const NAME: &'static str = "LB+-Tree";
    const LOGS: bool = false;
    const PUBLISHED: bool = V::PUBLISHED;

    fn fits(geometry: Geometry) -> bool {
        geometry.slots() == 16
    }

    fn build_empty<M: Medium>(m: &M, page: Page<'_>) {
        m.store(page.head(KIND_WORD), kind::pack(kind::NODE, 0, 0, 0));
        [0, 1, LINK_WORD, LINK_WORD + 1].into_iter().for_each(|word| m.store(page.body(word), 0));
        [0, HEAD_LINE, LINK_LINE].into_iter().for_each(|line| m.flush(page, line));
        m.fence();
    }

    fn count(page: Page<'_>) -> usize {
        Header::of(page).bitmap().count_ones() as usize
    }

    fn next(page: Page<'_>) -> PageNo {
        page.body(LINK_WORD + Header::of(page).alt()).load() as PageNo
    }

    fn set_next<M: Medium>(m: &M, page: Page<'_>, next: PageNo) {
        m.store(page.body(LINK_WORD + Header::of(page).alt()), u64::from(next));
        persist(m, page, LINK_LINE);
    }

    fn find(page: Page<'_>, key: u64) -> Option<u64> {
        Self::slot_of(page, key).map(|slot| Self::pair(page, slot).1)
    }

    fn for_each(page: Page<'_>, mut visit: impl FnMut(u64, u64)) {
        for slot in ones(Header::of(page).bitmap()) {
            let (key, value) = Self::pair(page, slot);
            visit(key, value);
        }
    }

    fn insert<M: Medium>(m: &M, page: Page<'_>, key: u64, value: u64) -> bool {
        let mut header = Header::of(page);
        let slot = header.bitmap().trailing_ones() as usize;
        if slot == PAIRS {
            return false;
        }
        Self::store_pair(m, page, slot, (key, value));
        header.show(slot, key);
        if slot < FIRST_LINE {
            m.store(page.body(0), header.0[0]);
            persist(m, page, HEAD_LINE);
            return true;
        }
        let used = header.bitmap();
        let free = rest_of_line(slot).filter(|slot| used >> slot & 1 == 0);
        for (to, from) in free.zip(0..FIRST_LINE) {
            let pair = Self::pair(page, from);
            Self::store_pair(m, page, to, pair);
            header.show(to, pair.0);
            header.hide(from);
        }
        persist(m, page, line_of(slot));
        Self::commit(m, page, header);
        true
    }

    fn update<M: Medium>(m: &M, page: Page<'_>, key: u64, value: u64) -> bool {
        if let Some(slot) = Self::slot_of(page, key) {
            m.store(page.body(3 + 2 * slot), value);
            persist(m, page, line_of(slot));
        }
        true
    }

    fn remove<M: Medium>(m: &M, page: Page<'_>, key: u64) {
        if let Some(slot) = Self::slot_of(page, key) {
            let mut header = Header::of(page);
            header.hide(slot);
            m.store(page.body(0), header.0[0]);
            persist(m, page, HEAD_LINE);
        }
    }

    fn split<M: Medium>(
        m: &M,
        _: Option<&Log<'_, M>>,
        Neighbours { left, right }: Neighbours<'_>,
        pair: (u64, u64),
        publish: impl FnOnce(),
    ) -> Cut {
        publish();
        let (mut header, mut new) = (Header::of(left), Header([0; 2]));
        let slots = Self::sorted(left);
        let upper = &slots[PAIRS / 2..];
        let key = Self::pair(left, upper[0]).0;
        for (from, to) in upper.iter().zip(SPLIT_SLOT + 1..) {
            let moved = Self::pair(left, *from);
            Self::store_pair(m, right, to, moved);
            new.show(to, moved.0);
            header.hide(*from);
        }
        let stored = pair.0 > key;
        if stored {
            Self::store_pair(m, right, SPLIT_SLOT, pair);
            new.show(SPLIT_SLOT, pair.0);
        }
        m.store(right.body(LINK_WORD), u64::from(Self::next(left)));
        m.store(right.body(LINK_WORD + 1), 0);
        (0..2).for_each(|word| m.store(right.body(word), new.0[word]));
        // The page's own header is not the source's: a line more, of the pool's.
        m.store(right.head(KIND_WORD), kind::pack(kind::NODE, 0, 0, 0));
        m.store(left.body(LINK_WORD + 1 - header.alt()), u64::from(right.no()));
        (0..=LINK_LINE).for_each(|line| m.flush(right, line));
        persist(m, left, LINK_LINE);
        header.0[0] ^= ALT;
        Self::commit(m, left, header);
        Cut { key, stored }
    }

    fn unlink<M: Medium>(
        m: &M,
        _: Option<&Log<'_, M>>,
        Neighbours { left, right }: Neighbours<'_>,
        publish: impl FnOnce(),
    ) {
        Self::set_next(m, left, Self::next(right));
        publish();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_three_and_four_and_four_and_three_pairs() {
        let lines: Vec<usize> = (0..PAIRS).map(line_of).collect();
        assert_eq!(lines, [1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4]);
        for slot in FIRST_LINE..PAIRS {
            let rest = (slot + 1..PAIRS).filter(|other| line_of(*other) == line_of(slot));
            assert!(rest_of_line(slot).eq(rest), "{slot}");
        }
    }
}
