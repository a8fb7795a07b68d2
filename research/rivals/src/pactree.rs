//! The data layer of PACTree (Kim et al., SOSP 2021), after the code of cosmoss-jigu/pactree (commit f173a0f). Its search
//! layer, a persistent radix tree there, is [`Chained`]'s inner nodes here; as there it learns of a new leaf from the
//! logs, [later](crate::late).
//!
//! ```text
//! leaf     line 0       min | max | - | next | - | - | bitmap | -      (8 B each)
//!          line 1       64 fingerprints
//!          lines 2-17   64 pairs
//!
//! insert   pair and fingerprint ->  bitmap ->                       (-> is a flush and a fence)   3 lines, 2 fences
//! update   the value in place ->                                                                  1 line,  1 fence
//! remove   bitmap ->                                                                              1 line,  1 fence
//! split    log: both leaves, median, pair ->  [map]  new leaf ->
//!          next, max and bitmap of the old one ->                                                20 lines, 3 fences
//!          later: log := 0 ->                                                                     1 line,  1 fence
//! unlink   log: both leaves ->  max and next of the left one ->  [map]  log := 0 ->               3 lines, 3 fences
//! ```
//!
//! A pair that has no room is in the new leaf before that is flushed, or is inserted into the old one after the split. A
//! leaf in a page of fewer than 128 slots has as many pairs as there is room for.
//!
//! After a crash a log tells of a split that may be complete. If the old leaf links to the new one, `max` and the bitmap
//! are stored again. If it does not, the split is done again, by what is in all slots whatever the bitmap says: unless
//! `max` is below the median of the log, since then the split was complete and another one came after it.
//!
//! The source differs in these points; [`AsPublished`](crate::AsPublished) has them all, [`Only`](crate::Only) one by one:
//!
//! - `a`: a node has a lock between fingerprints and pairs, and lies 16 B behind the begin of a line, where the source's
//!   allocator puts it. So its first 64 B are two lines, which are both flushed, and each fourth pair is in two, too: an
//!   insert has 4 or 5 lines. `next` and the bitmap become durable in any order. No crash image shows a loss: the flush
//!   of 64 B covers both lines, fingerprints have a flush of their own, and recovery does not ask the bitmap.
//! - `b`: recovery takes a split for incomplete if the old leaf does not link to the new one. If that was split again
//!   before its first log was ended, recovery frees a leaf that is in use and splits the old one by pairs that it has no
//!   more. Here the new split gets the page of the leaf that was freed.
//! - `c`: `max` of the old leaf is lowered before the new leaf is linked. Recovery splits the leaf again, and the new leaf
//!   gets the `max` that was lowered already: it is for no key at all, and no search finds what it holds.
//!
//! Merges of leaves that are a quarter full are not here; a leaf goes when it is empty, as in all trees of [`Chained`].
//! Nor are `cur` and `prev`, which the source has in the gaps of line 0 and changes without a flush: a search that has
//! come too far right begins again. Nor is the order of pairs that a scan stores in a node for the next one: scans sort.
//! No image shows readers that act on a write before it is durable.

use std::marker::PhantomData;

use everleaf_pmem::{Geometry, Medium, Page, PageNo, Result, Word};
use everleaf_pool::Pool;
use everleaf_pool::kind::{self, KIND_WORD};

use crate::chained::Chained;
use crate::leaf::{Cut, Leaf, Neighbours};
use crate::parts::{bytes_like, fingerprint, ones, persist};
use crate::ulog::{About, Log, Logs};
use crate::version::{Sound, Version};

/// PACTree's leaves of 64 pairs, in pages of 128 slots.
pub type PacTree<M, V = Sound> = Chained<M, Pac<V>>;

/// Pairs of a leaf, at most.
pub const PAIRS: usize = 64;

/// Words of a leaf, from where it begins.
const MIN: usize = 0;
const MAX: usize = 1;
const NEXT: usize = 3;
const MAP: usize = 6;
const PRINTS: usize = 8;
const FIRST_PAIR: usize = 16;
/// Words of the source's lock, and of what its allocator puts before a node.
const LOCK_WORDS: usize = 1;
const HEADER_WORDS: usize = 2;
const _: () = assert!(PRINTS + PAIRS / 8 == FIRST_PAIR);

/// The leaf.
#[derive(Debug)]
pub struct Pac<V>(PhantomData<V>);

impl<V: Version> Pac<V> {
    /// The word of the page's body that a leaf begins with.
    #[inline(always)]
    fn first() -> usize {
        if V::has('a') { HEADER_WORDS } else { 0 }
    }

    #[inline(always)]
    fn word(page: Page<'_>, i: usize) -> Word<'_> {
        page.body(Self::first() + i)
    }

    /// The word of the body at which the pair of a slot begins.
    #[inline(always)]
    fn pair_at(slot: usize) -> usize {
        let lock = if V::has('a') { LOCK_WORDS } else { 0 };
        Self::first() + FIRST_PAIR + lock + 2 * slot
    }

    #[inline(always)]
    fn full(page: Page<'_>) -> u64 {
        let capacity = ((2 * page.slots() - Self::pair_at(0)) / 2).min(PAIRS);
        u64::MAX >> (PAIRS - capacity)
    }

    #[inline(always)]
    fn bitmap(page: Page<'_>) -> u64 {
        Self::word(page, MAP).load() & Self::full(page)
    }

    #[inline(always)]
    fn pair(page: Page<'_>, slot: usize) -> (u64, u64) {
        let at = Self::pair_at(slot);
        (page.body(at).load(), page.body(at + 1).load())
    }

    /// Whether a search comes to this leaf for a key: in the source `max` decides. The last leaf has no bound.
    #[inline(always)]
    fn is_for(page: Page<'_>, key: u64) -> bool {
        !V::has('c') || Self::next(page) == 0 || key < Self::word(page, MAX).load()
    }

    #[inline]
    fn slot_of(page: Page<'_>, key: u64) -> Option<usize> {
        let (bitmap, print) = (Self::bitmap(page), fingerprint(key));
        let words = PAIRS / 8 - bitmap.leading_zeros() as usize / 8;
        let like = (0..words).fold(0, |like, i| {
            like | bytes_like(Self::word(page, PRINTS + i).load(), print) << (8 * i)
        });
        ones(like & bitmap).find(|slot| Self::pair(page, *slot).0 == key)
    }

    /// Makes words `from` to `to` of the body durable: one fence.
    fn persist_words<M: Medium>(m: &M, page: Page<'_>, from: usize, to: usize) {
        (page.body(from).line()..=page.body(to).line()).for_each(|line| m.flush(page, line));
        m.fence();
    }

    /// Makes the header of 64 B durable.
    fn persist_header<M: Medium>(m: &M, page: Page<'_>) {
        Self::persist_words(m, page, Self::first(), Self::first() + PRINTS - 1);
    }

    fn set_bitmap<M: Medium>(m: &M, page: Page<'_>, bits: u64) {
        m.store(Self::word(page, MAP), bits);
        Self::persist_header(m, page);
    }

    /// Stores a pair in a free slot, and shows it.
    fn add<M: Medium>(m: &M, page: Page<'_>, slot: usize, (key, value): (u64, u64)) {
        let at = Self::pair_at(slot);
        m.store(page.body(at), key);
        m.store(page.body(at + 1), value);
        (page.body(at).line()..=page.body(at + 1).line()).for_each(|line| m.flush(page, line));
        let print = Self::word(page, PRINTS + slot / 8);
        let shift = 8 * (slot % 8);
        let others = print.load() & !(0xff << shift);
        m.store(print, others | u64::from(fingerprint(key)) << shift);
        persist(m, page, print.line());
        Self::set_bitmap(m, page, Self::bitmap(page) | 1 << slot);
    }

    /// The key at which a leaf is cut, of all its slots, as in the source.
    fn median(page: Page<'_>) -> u64 {
        let mut keys: Vec<u64> =
            ones(Self::full(page)).map(|slot| Self::pair(page, slot).0).collect();
        let middle = keys.len() / 2;
        *keys.select_nth_unstable(middle).1
    }

    /// The slots, of all, that hold keys from `cut` on.
    fn from(page: Page<'_>, cut: u64) -> u64 {
        let above = |slot: &usize| Self::pair(page, *slot).0 >= cut;
        ones(Self::full(page)).filter(above).fold(0, |bits, slot| bits | 1 << slot)
    }

    /// Fills the new leaf with the upper pairs of the old one and with `pair`, if that belongs there. Flushes nothing.
    fn fill<M: Medium>(m: &M, left: Page<'_>, right: Page<'_>, cut: u64, pair: Option<(u64, u64)>) {
        let upper = ones(Self::from(left, cut)).map(|slot| Self::pair(left, slot));
        let (mut prints, mut count) = ([0u64; PAIRS / 8], 0);
        for (key, value) in upper.chain(pair) {
            let at = Self::pair_at(count);
            m.store(right.body(at), key);
            m.store(right.body(at + 1), value);
            prints[count / 8] |= u64::from(fingerprint(key)) << (8 * (count % 8));
            count += 1;
        }
        let used = prints.into_iter().take(count.div_ceil(8));
        used.enumerate().for_each(|(i, print)| m.store(Self::word(right, PRINTS + i), print));
        m.store(Self::word(right, MIN), cut);
        m.store(Self::word(right, MAX), Self::word(left, MAX).load());
        m.store(Self::word(right, NEXT), u64::from(Self::next(left)));
        m.store(Self::word(right, MAP), u64::MAX >> (PAIRS - count));
        m.store(right.head(KIND_WORD), kind::pack(kind::NODE, 0, 0, 0));
    }

    /// Splits a leaf whose slots all hold pairs, and inserts `pair`. Says whether that is in the new leaf.
    fn halve<M: Medium>(
        m: &M,
        left: Page<'_>,
        right: Page<'_>,
        cut: u64,
        pair: (u64, u64),
    ) -> bool {
        let goes_right = pair.0 >= cut;
        Self::fill(m, left, right, cut, goes_right.then_some(pair));
        if V::has('c') {
            m.store(Self::word(left, MAX), cut);
        }
        // The page's own header is not the source's: a line more, of the pool's.
        m.flush(right, 0);
        let last = Self::pair_at(Self::full(right).count_ones() as usize) - 1;
        Self::persist_words(m, right, Self::first(), last);
        m.store(Self::word(left, NEXT), u64::from(right.no()));
        Self::keep_below(m, left, cut);
        goes_right
    }

    /// Does the rest of a split whose old leaf links to the new one.
    fn keep_below<M: Medium>(m: &M, left: Page<'_>, cut: u64) {
        if !V::has('c') {
            m.store(Self::word(left, MAX), cut);
        }
        Self::set_bitmap(m, left, Self::bitmap(left) & !Self::from(left, cut));
    }

    /// Finishes a split that a log tells of. `is_new`: the pool has given the new page.
    fn finish_split<M: Medium>(
        m: &M,
        (left, right): (Page<'_>, Page<'_>),
        is_new: bool,
        [cut, key, value]: [u64; 3],
    ) {
        if Self::next(left) == right.no() {
            Self::keep_below(m, left, cut);
            return;
        }
        // Each later split of the old leaf has lowered `max` below the median of this one.
        let was_never_linked = Self::word(left, MAX).load() >= cut;
        if is_new && (V::has('b') || was_never_linked) {
            let cut = Self::median(left);
            if !Self::halve(m, left, right, cut, (key, value)) {
                Self::insert(m, left, key, value);
            }
        }
    }

    fn finish_unlink<M: Medium>(m: &M, left: Page<'_>, right: Page<'_>) {
        m.store(Self::word(left, MAX), Self::word(right, MAX).load());
        Self::set_next(m, left, Self::next(right));
    }
}

impl<V: Version> Leaf for Pac<V> {
    const NAME: &'static str = "PACTree";
    const LOGS: bool = true;
    const LATE: bool = true;
    const PUBLISHED: bool = V::PUBLISHED;

    fn fits(geometry: Geometry) -> bool {
        !geometry.is_whole() && (16..=128).contains(&geometry.slots())
    }

    fn build_empty<M: Medium>(m: &M, page: Page<'_>) {
        m.store(page.head(KIND_WORD), kind::pack(kind::NODE, 0, 0, 0));
        m.store(Self::word(page, MIN), 0);
        m.store(Self::word(page, MAX), u64::MAX);
        m.store(Self::word(page, NEXT), 0);
        m.store(Self::word(page, MAP), 0);
        m.flush(page, 0);
        Self::persist_header(m, page);
    }

    fn count(page: Page<'_>) -> usize {
        Self::bitmap(page).count_ones() as usize
    }

    fn next(page: Page<'_>) -> PageNo {
        Self::word(page, NEXT).load() as PageNo
    }

    fn set_next<M: Medium>(m: &M, page: Page<'_>, next: PageNo) {
        m.store(Self::word(page, NEXT), u64::from(next));
        Self::persist_header(m, page);
    }

    fn find(page: Page<'_>, key: u64) -> Option<u64> {
        let slot = Self::slot_of(page, key).filter(|_| Self::is_for(page, key));
        slot.map(|slot| Self::pair(page, slot).1)
    }

    fn for_each(page: Page<'_>, mut visit: impl FnMut(u64, u64)) {
        for slot in ones(Self::bitmap(page)) {
            let (key, value) = Self::pair(page, slot);
            if Self::is_for(page, key) {
                visit(key, value);
            }
        }
    }

    fn insert<M: Medium>(m: &M, page: Page<'_>, key: u64, value: u64) -> bool {
        let free = Self::full(page) & !Self::bitmap(page);
        if free != 0 {
            Self::add(m, page, free.trailing_zeros() as usize, (key, value));
        }
        free != 0
    }

    fn update<M: Medium>(m: &M, page: Page<'_>, key: u64, value: u64) -> bool {
        if let Some(slot) = Self::slot_of(page, key) {
            let word = page.body(Self::pair_at(slot) + 1);
            m.store(word, value);
            persist(m, page, word.line());
        }
        true
    }

    fn remove<M: Medium>(m: &M, page: Page<'_>, key: u64) {
        if let Some(slot) = Self::slot_of(page, key) {
            Self::set_bitmap(m, page, Self::bitmap(page) & !(1 << slot));
        }
    }

    fn split<M: Medium>(
        m: &M,
        log: Option<&Log<'_, M>>,
        Neighbours { left, right }: Neighbours<'_>,
        pair: (u64, u64),
        publish: impl FnOnce(),
    ) -> Cut {
        let log = log.expect("a tree of such leaves has logs");
        let key = Self::median(left);
        log.begin_both(About::Split, [left.no(), right.no()], [key, pair.0, pair.1]);
        publish();
        Cut { key, stored: Self::halve(m, left, right, key, pair) }
    }

    fn unlink<M: Medium>(
        m: &M,
        log: Option<&Log<'_, M>>,
        Neighbours { left, right }: Neighbours<'_>,
        publish: impl FnOnce(),
    ) {
        let log = log.expect("a tree of such leaves has logs");
        log.begin_both(About::Unlink, [right.no(), left.no()], [0; 3]);
        Self::finish_unlink(m, left, right);
        publish();
        log.end(About::Unlink);
    }

    fn finish<M: Medium>(pool: &Pool<M>, logs: &Logs) -> Result<u64> {
        let (m, owners, mut finished) = (pool.medium(), pool.map_bytes()?, 0);
        let (mut linked, mut told) = (Vec::new(), Vec::new());
        for log in logs.said(m)? {
            let (.., first, second) = log;
            // A split that is linked has lowered `max`, by which others are judged. The source goes by their places.
            let goes_first = !V::has('b') && first != 0 && Self::next(pool.page(first)?) == second;
            if goes_first { linked.push(log) } else { told.push(log) }
        }
        linked.append(&mut told);
        for (line, about, first, second) in linked {
            if first != 0 && second != 0 {
                let (page, other) = (pool.page(first)?, pool.page(second)?);
                let (_held, _other_held) = (page.latch().lock(), other.latch().lock());
                match about {
                    About::Split => {
                        let is_new = owners.get(second as usize) == Some(&kind::NODE);
                        Self::finish_split(m, (page, other), is_new, logs.notes(m, line)?);
                    }
                    About::Unlink if Self::next(other) == page.no() => {
                        Self::finish_unlink(m, other, page);
                    }
                    About::Unlink => {}
                }
                finished += 1;
            }
            logs.line(m, line)?.end(about);
        }
        Ok(finished)
    }
}
