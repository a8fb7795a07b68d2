//! FPTree (Oukid et al., SIGMOD 2016), after the code of sfu-dis/fptree (commit a45694c), in the sizes that
//! Circ-Tree (512 B, 32 pairs) and FAST+FAIR (1 KB, 56 pairs) measure it.
//!
//! ```text
//! Fp<32>   page of up to 32 slots: header w0 = bitmap | next leaf << 32, w1 to w4 fingerprints, a pair a slot
//! Fp<56>   body of 64 slots: words 0 to 6 fingerprints, 7 bitmap, 8 to 119 pairs, 120 next leaf
//!
//! insert   pair ->  fingerprint ->  bitmap ->                   (-> is a flush and a fence)   3 lines, 3 fences
//! update   the same with a new slot; one store of the bitmap clears the old one                3 lines, 3 fences
//! remove   bitmap ->                                                                           1 line,  1 fence
//! split    log.leaf ->  [map]  log.new ->  copy of all L lines ->  new.bitmap ->
//!          leaf.bitmap := ~new.bitmap ->  leaf.next ->  log := 0 ->                       L + 6 lines, 7 fences
//! unlink   log.leaf ->  log.left ->  left.next ->  [map]  log := 0 ->                         4 lines, 4 fences
//! ```
//!
//! L is 9 for 32 pairs and 16 for 56. A leaf is split when it is full, also for an update. After a crash a log that
//! names both leaves is finished: if the old leaf is still full from its copy on, else from its bitmap on.
//!
//! Bugs of the source, which [`AsPublished`](crate::AsPublished) has and [`Only`](crate::Only) has one by one:
//!
//! - `a`: the log is given the leaf's *old* neighbour, before there is a new leaf, and that is never flushed. Recovery
//!   takes the neighbour for the new leaf and inverts its bitmap into the old one.
//! - `b`: the allocator publishes the new leaf through the old one's link while the new leaf links to nothing: a crash
//!   there cuts off all leaves behind.
//! - `c`: recovery inverts the old leaf's bitmap although it was inverted before the crash: the lower half goes, and
//!   the upper half is there twice.
//! - `g`: the log is cleared by two flushes of its one line. No crash shows it; a split has L + 7 lines and 8 fences.
//!
//! Bugs that no crash image can show are not here: `d`, a lock bit that is durable in a new leaf, since latches are in
//! frames; `e`, a value that is read after the critical section, since readers validate versions; `f`, a value 0
//! that cannot be told from none, since `get` answers an option.

use std::marker::PhantomData;

use everleaf_pmem::{Geometry, Medium, Page, PageNo, Result, Word};
use everleaf_pool::Pool;
use everleaf_pool::kind::{self, KIND_WORD};

use crate::chained::Chained;
use crate::leaf::{Cut, Leaf, Neighbours};
use crate::parts::{bytes_like, fingerprint, ones, persist};
use crate::ulog::{About, Log, Logs};
use crate::version::{Sound, Version};

/// FPTree of 512 B leaves: 32 pairs, or as many as a page has slots if those are fewer.
pub type FpTree<M, V = Sound> = Chained<M, Fp<32, V>>;
/// FPTree of 1 KB leaves: 56 pairs in pages of 64 slots.
pub type FpTree56<M, V = Sound> = Chained<M, Fp<56, V>>;

const MAP_WORD_OF_56: usize = 7;
const PAIRS_WORD_OF_56: usize = 8;
const NEXT_WORD_OF_56: usize = 120;
const _: () = assert!(PAIRS_WORD_OF_56 + 2 * 56 == NEXT_WORD_OF_56 && 8 * MAP_WORD_OF_56 == 56);

/// The leaf, for 32 or 56 pairs.
#[derive(Debug)]
pub struct Fp<const PAIRS: usize, V>(PhantomData<V>);

impl<const PAIRS: usize, V: Version> Fp<PAIRS, V> {
    /// Whether everything is in the body.
    const WIDE: bool = {
        assert!(PAIRS == 32 || PAIRS == 56, "layouts of 32 and of 56 pairs");
        PAIRS == 56
    };

    #[inline(always)]
    fn full(page: Page<'_>) -> u64 {
        let capacity = if Self::WIDE { PAIRS } else { page.slots() };
        (1 << capacity) - 1
    }

    #[inline(always)]
    fn map_word(page: Page<'_>) -> Word<'_> {
        if Self::WIDE { page.body(MAP_WORD_OF_56) } else { page.head(0) }
    }

    #[inline(always)]
    fn next_word(page: Page<'_>) -> Word<'_> {
        if Self::WIDE { page.body(NEXT_WORD_OF_56) } else { page.head(0) }
    }

    #[inline(always)]
    fn bitmap(page: Page<'_>) -> u64 {
        Self::map_word(page).load() & Self::full(page)
    }

    #[inline(always)]
    fn print_word(page: Page<'_>, i: usize) -> Word<'_> {
        if Self::WIDE { page.body(i) } else { page.head(1 + i) }
    }

    #[inline(always)]
    fn pair_word(page: Page<'_>, slot: usize) -> Word<'_> {
        page.body(if Self::WIDE { PAIRS_WORD_OF_56 } else { 0 } + 2 * slot)
    }

    #[inline(always)]
    fn pair(page: Page<'_>, slot: usize) -> (u64, u64) {
        let first = if Self::WIDE { PAIRS_WORD_OF_56 } else { 0 } + 2 * slot;
        (page.body(first).load(), page.body(first + 1).load())
    }

    /// Lines that a copy of the leaf flushes: without the page's header if that has nothing of the leaf.
    fn lines(page: Page<'_>) -> std::ops::RangeInclusive<usize> {
        usize::from(Self::WIDE)..=page.slots() / 4
    }

    fn store_bitmap<M: Medium>(m: &M, page: Page<'_>, bits: u64) {
        let next = if Self::WIDE { 0 } else { u64::from(Self::next(page)) << 32 };
        m.store(Self::map_word(page), bits | next);
    }

    fn set_bitmap<M: Medium>(m: &M, page: Page<'_>, bits: u64) {
        Self::store_bitmap(m, page, bits);
        persist(m, page, Self::map_word(page).line());
    }

    #[inline]
    fn slot_of(page: Page<'_>, key: u64) -> Option<usize> {
        let (wanted, words) =
            (fingerprint(key), (Self::full(page).count_ones() as usize).div_ceil(8));
        let like = (0..words).fold(0, |like, i| {
            like | bytes_like(Self::print_word(page, i).load(), wanted) << (8 * i)
        });
        ones(like & Self::bitmap(page)).find(|slot| Self::pair_word(page, *slot).load() == key)
    }

    /// Stores a pair in a free slot and shows it; `gone` shows no more.
    fn add<M: Medium>(m: &M, page: Page<'_>, (key, value): (u64, u64), gone: u64) -> bool {
        let bitmap = Self::bitmap(page);
        let free = Self::full(page) & !bitmap;
        if free == 0 {
            return false;
        }
        let slot = free.trailing_zeros() as usize;
        let first = Self::pair_word(page, slot);
        let at = if Self::WIDE { PAIRS_WORD_OF_56 } else { 0 } + 2 * slot;
        m.store(first, key);
        m.store(page.body(at + 1), value);
        persist(m, page, first.line());
        let print = Self::print_word(page, slot / 8);
        let shift = 8 * (slot % 8);
        let others = print.load() & !(0xff << shift);
        m.store(print, others | u64::from(fingerprint(key)) << shift);
        persist(m, page, print.line());
        Self::set_bitmap(m, page, bitmap & !gone | 1 << slot);
        true
    }

    /// Copies all of a leaf to a new page, with `next` behind it; durable when it returns.
    fn copy<M: Medium>(m: &M, from: Page<'_>, to: Page<'_>, next: PageNo) {
        if !Self::WIDE {
            (1..5).for_each(|i| m.store(to.head(i), from.head(i).load()));
        }
        (0..2 * from.slots()).for_each(|i| m.store(to.body(i), from.body(i).load()));
        let bitmap = Self::bitmap(from);
        if Self::WIDE {
            m.store(Self::next_word(to), u64::from(next));
        }
        m.store(
            Self::map_word(to),
            if Self::WIDE { bitmap } else { bitmap | u64::from(next) << 32 },
        );
        if to.head(KIND_WORD).load() != kind::pack(kind::NODE, 0, 0, 0) || !Self::WIDE {
            m.store(to.head(KIND_WORD), kind::pack(kind::NODE, 0, 0, 0));
            if Self::WIDE {
                m.flush(to, 0);
            }
        }
        Self::lines(to).for_each(|line| m.flush(to, line));
        m.fence();
    }

    /// The key at which a full leaf is cut.
    fn median(page: Page<'_>) -> u64 {
        let mut keys: Vec<u64> =
            ones(Self::full(page)).map(|slot| Self::pair(page, slot).0).collect();
        let middle = keys.len() / 2;
        *keys.select_nth_unstable(middle).1
    }

    /// The slots of a leaf that hold keys from `cut` on.
    fn from(page: Page<'_>, cut: u64) -> u64 {
        let above = |slot: &usize| Self::pair(page, *slot).0 >= cut;
        ones(Self::full(page)).filter(above).fold(0, |bits, slot| bits | 1 << slot)
    }

    /// The steps that a split and its recovery share, from the copy's bitmap on.
    fn halve<M: Medium>(m: &M, left: Page<'_>, right: Page<'_>, upper: u64) {
        Self::set_bitmap(m, right, upper);
        Self::set_bitmap(m, left, Self::full(left) & !upper);
    }

    fn finish_split<M: Medium>(m: &M, left: Page<'_>, right: Page<'_>) {
        let full = Self::full(left);
        if Self::bitmap(left) == full {
            let cut = Self::median(left);
            if V::has('a') || V::has('b') {
                // It believes that the copy has been made.
                let upper = Self::bitmap(right) & Self::from(right, cut);
                Self::halve(m, left, right, upper);
            } else {
                Self::copy(m, left, right, Self::next(left));
                Self::halve(m, left, right, Self::from(left, cut));
            }
        } else {
            let turned = if V::has('c') { left } else { right };
            Self::set_bitmap(m, left, full & !Self::bitmap(turned));
        }
        Self::set_next(m, left, right.no());
    }
}

impl<const PAIRS: usize, V: Version> Leaf for Fp<PAIRS, V> {
    const NAME: &'static str = if Self::WIDE { "FPTree, 56 pairs" } else { "FPTree, 32 pairs" };
    const LOGS: bool = true;
    const PUBLISHED: bool = V::PUBLISHED;

    fn fits(geometry: Geometry) -> bool {
        let slots = geometry.slots();
        !geometry.is_whole() && if Self::WIDE { slots == 64 } else { slots <= PAIRS }
    }

    fn build_empty<M: Medium>(m: &M, page: Page<'_>) {
        m.store(page.head(KIND_WORD), kind::pack(kind::NODE, 0, 0, 0));
        m.store(Self::map_word(page), 0);
        m.store(Self::next_word(page), 0);
        [0, Self::map_word(page).line(), Self::next_word(page).line()]
            .into_iter()
            .for_each(|line| m.flush(page, line));
        m.fence();
    }

    fn count(page: Page<'_>) -> usize {
        Self::bitmap(page).count_ones() as usize
    }

    fn next(page: Page<'_>) -> PageNo {
        let word = Self::next_word(page).load();
        if Self::WIDE { word as PageNo } else { (word >> 32) as PageNo }
    }

    fn set_next<M: Medium>(m: &M, page: Page<'_>, next: PageNo) {
        let word = Self::next_word(page);
        let bitmap = if Self::WIDE { 0 } else { Self::bitmap(page) };
        let shift = if Self::WIDE { 0 } else { 32 };
        m.store(word, bitmap | u64::from(next) << shift);
        persist(m, page, word.line());
    }

    fn find(page: Page<'_>, key: u64) -> Option<u64> {
        Self::slot_of(page, key).map(|slot| Self::pair(page, slot).1)
    }

    fn for_each(page: Page<'_>, mut visit: impl FnMut(u64, u64)) {
        for slot in ones(Self::bitmap(page)) {
            let (key, value) = Self::pair(page, slot);
            visit(key, value);
        }
    }

    fn insert<M: Medium>(m: &M, page: Page<'_>, key: u64, value: u64) -> bool {
        Self::add(m, page, (key, value), 0)
    }

    fn update<M: Medium>(m: &M, page: Page<'_>, key: u64, value: u64) -> bool {
        let old = Self::slot_of(page, key).map_or(0, |slot| 1 << slot);
        Self::add(m, page, (key, value), old)
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
        _: (u64, u64),
        publish: impl FnOnce(),
    ) -> Cut {
        let log = log.expect("a tree of such leaves has logs");
        let next = Self::next(left);
        let key = Self::median(left);
        log.begin(About::Split, left.no());
        if V::has('a') {
            log.name_unflushed(About::Split, next);
        }
        publish();
        if !V::has('a') && !V::has('b') {
            log.name(About::Split, right.no());
        }
        Self::copy(m, left, right, if V::has('b') { 0 } else { next });
        if V::has('b') {
            Self::set_next(m, left, right.no());
            if !V::has('a') {
                log.name(About::Split, right.no());
            }
        }
        Self::halve(m, left, right, Self::from(right, key));
        if V::has('b') {
            Self::set_next(m, right, next);
        } else {
            Self::set_next(m, left, right.no());
        }
        if V::has('g') {
            log.end_twice(About::Split);
        } else {
            log.end(About::Split);
        }
        Cut { key, stored: false }
    }

    fn unlink<M: Medium>(
        m: &M,
        log: Option<&Log<'_, M>>,
        Neighbours { left, right }: Neighbours<'_>,
        publish: impl FnOnce(),
    ) {
        let log = log.expect("a tree of such leaves has logs");
        log.begin(About::Unlink, right.no());
        log.name(About::Unlink, left.no());
        Self::set_next(m, left, Self::next(right));
        publish();
        if V::has('g') {
            log.end_twice(About::Unlink);
        } else {
            log.end(About::Unlink);
        }
    }

    fn finish<M: Medium>(pool: &Pool<M>, logs: &Logs) -> Result<u64> {
        let m = pool.medium();
        let mut finished = 0;
        for (line, about, first, second) in logs.said(m)? {
            if first != 0 && second != 0 {
                let (first, second) = (pool.page(first)?, pool.page(second)?);
                let (_held, _other) = (first.latch().lock(), second.latch().lock());
                match about {
                    About::Split => Self::finish_split(m, first, second),
                    About::Unlink if Self::next(second) == first.no() => {
                        Self::set_next(m, second, Self::next(first));
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
