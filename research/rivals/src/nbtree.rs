//! NBTree (Zhang et al., VLDB 2022), after the code of SJTU-DDST/NBTree (commit 2b8cbb4): a tree for machines whose
//! caches survive a power cut, with what it writes back if they do not.
//!
//! ```text
//! leaf     body of 32 slots, 512 B:
//!          words 0-61  31 pairs, a place each; a key of 0 says that the place is free, or its pair removed
//!          word 62     next leaf
//!          word 63     the copy of the lower half, while a copy takes the leaf's place
//!          header      ours: w0 1 if key 0 is there | w1 its value
//! aid      in DRAM: words 0-3 a fingerprint for each place | word 4 places used | word 5 bitmap
//!
//! insert   value, key into the next place that was never used ->  (-> is a flush and a fence)  1 line,   1 fence
//! update   the value in place ->                                                                1 line,   1 fence
//! remove   0 in place of the key ->                                                             1 line,   1 fence
//! split    [map]  both halves into new leaves ->  the link of the leaf to the left ->  [map]    17 lines, 2 fences
//! unlink   the link of the leaf to the left ->  [map]                                           1 line,   1 fence
//! ```
//!
//! Where caches survive, the fences are all that is left. A split copies both halves, then links them; the paper's SMO
//! of three phases has one between, for what other threads change of the old leaf meanwhile. A leaf is split when all of
//! its places were used, however few pairs are left; with fewer than two it has one copy. The old leaf is garbage when
//! the link is durable, so a crash leaves pages that nothing leads to, which the next open returns. That finds pairs by
//! their keys (§3.2), and makes all that is in DRAM anew. Leaves are never merged: where as many keys are removed as are
//! inserted, they come to hold 4 pairs each (`tests/nbtree.rs`). Smaller pages, for tests, have a place less than slots.
//!
//! Bugs of the source, which [`AsPublished`](crate::AsPublished) has and [`Only`](crate::Only) has one by one:
//!
//! - `a`: a split flushes nothing, with the switch for caches that survive turned off, too: insert, update and remove
//!   flush. A crash loses what was copied, and what has been inserted since.
//! - `b`: a copy marks each value in its bits 62 and 63, for readers and writers of the old leaf. Nothing clears the
//!   marks, and a search answers the value with them, without a crash.
//! - `c`: a key 0 is stored as one that is removed. It is found until a crash or a split drops it, and cannot be removed.
//! - `d`: value and key are plain stores, whose order nothing forces. A key before its value is found with the value
//!   that lay there. [`Sound`] has the order of the source's text.
//!
//! No crash image shows these, so they are not here: two threads that insert one key, whose pairs are both appended; a
//! leaf of which all pairs are removed, which is cut at a key that was never stored; old leaves, which are never free
//! again. In no source: recovery, since the released code has the head of the chain in DRAM; what becomes of a leaf
//! without pairs, which is taken out of the chain here. The source latches nothing; here writers do, so its bitmap of
//! inserts that have ended says which places have pairs.

use std::marker::PhantomData;

use everleaf_pmem::{Geometry, Medium, Page, PageNo, Word};
use everleaf_pool::kind::{self, KIND_WORD};

use crate::chained::Chained;
use crate::leaf::{Copies, Cut, Leaf, Neighbours};
use crate::parts::{bytes_like, fingerprint, ones, persist};
use crate::ulog::Log;
use crate::version::{Sound, Version};

/// NBTree of 512 B leaves: 31 pairs, or one less than a page has slots if those are fewer.
pub type NbTree<M, V = Sound> = Chained<M, Nb<V>>;

/// Words of the header for key 0, which the source has no place for.
const ZERO_WORD: usize = 0;
const ZERO_VALUE_WORD: usize = 1;
/// Words of the aid behind the fingerprints.
const USED_AID: usize = 4;
const BITMAP_AID: usize = 5;
/// The bit of the bitmap that says that key 0 is there. Places have the bits below.
const ZERO_BIT: u64 = 1 << 31;
/// How a copy marks values: not changed since it was made, and changed in the old leaf.
const MARKS: u64 = 3 << 62;

/// The leaf.
#[derive(Debug)]
pub struct Nb<V>(PhantomData<V>);

impl<V: Version> Nb<V> {
    /// Places of a leaf.
    #[inline(always)]
    fn places(page: Page<'_>) -> usize {
        page.slots() - 1
    }

    fn next_word(page: Page<'_>) -> Word<'_> {
        page.body(2 * Self::places(page))
    }

    fn copy_word(page: Page<'_>) -> Word<'_> {
        page.body(2 * Self::places(page) + 1)
    }

    #[inline(always)]
    fn pair(page: Page<'_>, place: usize) -> (u64, u64) {
        (page.body(2 * place).load(), page.body(2 * place + 1).load())
    }

    /// Whether the key is that of the header.
    #[inline(always)]
    fn is_apart(key: u64) -> bool {
        key == 0 && !V::has('c')
    }

    #[inline(always)]
    fn used(page: Page<'_>) -> usize {
        page.aid(USED_AID) as usize
    }

    #[inline(always)]
    fn bitmap(page: Page<'_>) -> u64 {
        page.aid(BITMAP_AID)
    }

    #[inline]
    fn place_of(page: Page<'_>, key: u64) -> Option<usize> {
        let (wanted, used) = (fingerprint(key), Self::used(page));
        let like = (0..used.div_ceil(8))
            .fold(0, |like, i| like | bytes_like(page.aid(i), wanted) << (8 * i));
        let is_it = |place: &usize| page.body(2 * place).load() == key;
        ones(like & ((1 << used) - 1)).find(is_it)
    }

    fn store_pair<M: Medium>(m: &M, page: Page<'_>, place: usize, (key, value): (u64, u64)) {
        let mut stores = [(2 * place + 1, value), (2 * place, key)];
        if V::has('d') {
            stores.reverse();
        }
        stores.into_iter().for_each(|(word, value)| m.store(page.body(word), value));
    }

    /// Forgets all places, in DRAM.
    fn forget(page: Page<'_>) {
        (0..=BITMAP_AID).for_each(|i| page.set_aid(i, 0));
    }

    /// Says in DRAM that the next place has a pair of that key.
    fn show(page: Page<'_>, place: usize, key: u64) {
        page.set_aid_byte(place, fingerprint(key));
        page.set_aid(USED_AID, place as u64 + 1);
        page.set_aid(BITMAP_AID, Self::bitmap(page) | 1 << place);
    }

    /// Stores a word, if it is another.
    fn set<M: Medium>(m: &M, word: Word<'_>, value: u64) {
        if word.load() != value {
            m.store(word, value);
        }
    }

    /// Stores all of a leaf that nothing leads to, and flushes it if `is_flushed`.
    fn fill<M: Medium>(
        m: &M,
        page: Page<'_>,
        pairs: impl Iterator<Item = (u64, u64)>,
        (zero, next): (Option<u64>, PageNo),
        is_flushed: bool,
    ) {
        Self::forget(page);
        for (place, pair) in pairs.enumerate() {
            Self::store_pair(m, page, place, pair);
            Self::show(page, place, pair.0);
        }
        let rest = 2 * Self::used(page)..2 * Self::places(page);
        rest.for_each(|word| Self::set(m, page.body(word), 0));
        Self::set(m, Self::next_word(page), u64::from(next));
        Self::set(m, Self::copy_word(page), 0);
        Self::set(m, page.head(KIND_WORD), kind::pack(kind::NODE, 0, 0, 0));
        Self::set(m, page.head(ZERO_VALUE_WORD), zero.unwrap_or(0));
        Self::set(m, page.head(ZERO_WORD), u64::from(zero.is_some()));
        if zero.is_some() {
            page.set_aid(BITMAP_AID, Self::bitmap(page) | ZERO_BIT);
        }
        // The header is not the source's: without the pool's word there would be no page.
        let lines = if is_flushed { page.slots() / 4 } else { 0 };
        (0..=lines).for_each(|line| m.flush(page, line));
    }

    fn zero(page: Page<'_>) -> Option<u64> {
        (Self::bitmap(page) & ZERO_BIT != 0).then(|| page.head(ZERO_VALUE_WORD).load())
    }

    /// The pairs of places that are there, which the source tells by their keys.
    fn pairs(page: Page<'_>) -> impl Iterator<Item = (u64, u64)> {
        ones(Self::bitmap(page) & (ZERO_BIT - 1))
            .map(move |place| Self::pair(page, place))
            .filter(|(key, _)| *key != 0)
    }
}

impl<V: Version> Leaf for Nb<V> {
    const NAME: &'static str = "NBTree";
    const LOGS: bool = false;
    const COPIED: bool = true;
    const PUBLISHED: bool = V::PUBLISHED;

    fn fits(geometry: Geometry) -> bool {
        !geometry.is_whole() && geometry.slots() <= 32
    }

    fn build_empty<M: Medium>(m: &M, page: Page<'_>) {
        Self::fill(m, page, std::iter::empty(), (None, 0), true);
        m.fence();
    }

    fn count(page: Page<'_>) -> usize {
        Self::bitmap(page).count_ones() as usize
    }

    fn next(page: Page<'_>) -> PageNo {
        Self::next_word(page).load() as PageNo
    }

    fn set_next<M: Medium>(m: &M, page: Page<'_>, next: PageNo) {
        let word = Self::next_word(page);
        m.store(word, u64::from(next));
        if !V::has('a') {
            m.flush(page, word.line());
        }
        m.fence();
    }

    fn find(page: Page<'_>, key: u64) -> Option<u64> {
        if Self::is_apart(key) {
            return Self::zero(page);
        }
        Self::place_of(page, key).map(|place| page.body(2 * place + 1).load())
    }

    fn for_each(page: Page<'_>, mut visit: impl FnMut(u64, u64)) {
        Self::zero(page).into_iter().for_each(|value| visit(0, value));
        Self::pairs(page).for_each(|(key, value)| visit(key, value));
    }

    fn insert<M: Medium>(m: &M, page: Page<'_>, key: u64, value: u64) -> bool {
        if Self::is_apart(key) {
            m.store(page.head(ZERO_VALUE_WORD), value);
            m.store(page.head(ZERO_WORD), 1);
            persist(m, page, 0);
            page.set_aid(BITMAP_AID, Self::bitmap(page) | ZERO_BIT);
            return true;
        }
        let place = Self::used(page);
        if place == Self::places(page) {
            return false;
        }
        Self::store_pair(m, page, place, (key, value));
        persist(m, page, page.line_of(2 * place));
        Self::show(page, place, key);
        true
    }

    fn update<M: Medium>(m: &M, page: Page<'_>, key: u64, value: u64) -> bool {
        if Self::is_apart(key) {
            m.store(page.head(ZERO_VALUE_WORD), value);
            persist(m, page, 0);
        } else if let Some(place) = Self::place_of(page, key) {
            m.store(page.body(2 * place + 1), value);
            persist(m, page, page.line_of(2 * place));
        }
        true
    }

    fn remove<M: Medium>(m: &M, page: Page<'_>, key: u64) {
        let bit = if Self::is_apart(key) {
            m.store(page.head(ZERO_WORD), 0);
            persist(m, page, 0);
            ZERO_BIT
        } else {
            let Some(place) = Self::place_of(page, key) else { return };
            m.store(page.body(2 * place), 0);
            persist(m, page, page.line_of(2 * place));
            1 << place
        };
        page.set_aid(BITMAP_AID, Self::bitmap(page) & !bit);
    }

    fn split<M: Medium>(
        _: &M,
        _: Option<&Log<'_, M>>,
        _: Neighbours<'_>,
        _: (u64, u64),
        _: impl FnOnce(),
    ) -> Cut {
        unreachable!("a leaf that is full gives way to copies")
    }

    fn cut(page: Page<'_>) -> Option<u64> {
        let mut keys: Vec<u64> = Self::pairs(page).map(|(key, _)| key).collect();
        let middle = keys.len() / 2;
        (keys.len() > 1).then(|| *keys.select_nth_unstable(middle).1)
    }

    fn copy_out<M: Medium>(m: &M, old: Page<'_>, Copies { left, right }: Copies<'_>) {
        let cut = right.map(|(cut, _)| cut);
        let marks = if V::has('b') { MARKS } else { 0 };
        let half = |is_upper: bool| {
            Self::pairs(old)
                .filter(move |(key, _)| cut.is_some_and(|cut| *key >= cut) == is_upper)
                .map(move |(key, value)| (key, value | marks))
        };
        if let Some((_, right)) = right {
            Self::fill(m, right, half(true), (None, Self::next(old)), !V::has('a'));
        }
        let next = right.map_or(Self::next(old), |(_, right)| right.no());
        Self::fill(m, left, half(false), (Self::zero(old), next), !V::has('a'));
        // Nothing reads it after a crash, as long as the old leaf is that of the chain.
        m.store(Self::copy_word(old), u64::from(left.no()));
        m.fence();
    }

    fn unlink<M: Medium>(
        m: &M,
        _: Option<&Log<'_, M>>,
        Neighbours { left, right }: Neighbours<'_>,
        publish: impl FnOnce(),
    ) {
        let word = Self::next_word(left);
        m.store(word, u64::from(Self::next(right)));
        persist(m, left, word.line());
        publish();
    }

    /// Makes anew what was in DRAM. Places behind the last pair are used again.
    fn mend<M: Medium>(_: &M, page: Page<'_>) {
        Self::forget(page);
        let keys = || (0..Self::places(page)).map(|place| page.body(2 * place).load());
        for (place, key) in keys().enumerate().filter(|(_, key)| *key != 0) {
            Self::show(page, place, key);
        }
        // Nobody finds key 0 in a place without a pair, as if it had been forgotten.
        let gone = keys().take(Self::used(page)).enumerate().filter(|(_, key)| *key == 0);
        gone.for_each(|(place, _)| page.set_aid_byte(place, !fingerprint(0)));
        if !V::has('c') && page.head(ZERO_WORD).load() != 0 {
            page.set_aid(BITMAP_AID, Self::bitmap(page) | ZERO_BIT);
        }
    }
}
