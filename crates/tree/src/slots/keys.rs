//! The keys and the bounds of nodes of slots.

use std::cmp::Ordering;

use everleaf_pmem::{LINE_BYTES, Medium, Page, PageNo, Result};
use everleaf_pool::Pool;

use crate::keys::{KeyBounds, KeyOrder, Keys, Rank};
use crate::kind::{NodeBounds, NodeKeys};
use crate::node::{FLAG_BYTES, Layout, Probe, Run, Shape, Slot};

/// Lines of the search aid that a search may read.
fn aid_lines<P: Probe>(page: Page<'_>) -> usize {
    (page.slots() * P::AID_BYTES).div_ceil(LINE_BYTES)
}

impl<L: Layout, P: Probe, K: Keys> NodeKeys for (L, P, K) {
    type Key = K::Key;
    type Owned = K::Owned;
    type View<'m> = Run;
    type Entry<'m> = Slot;
    const LOCK_FREE: bool = L::LOCK_FREE && !K::BYTES;

    fn lowest() -> K::Owned {
        <K as KeyOrder>::lowest()
    }
    fn own(key: &K::Key) -> Result<K::Owned> {
        <K as KeyOrder>::own(key)
    }
    fn key_weight(key: &K::Owned) -> usize {
        <K as KeyOrder>::key_weight(key)
    }

    #[inline(always)]
    fn shape(page: Page<'_>) -> Option<Shape> {
        Shape::with_flags(page, if K::BYTES { FLAG_BYTES } else { 0 })
    }
    #[inline(always)]
    fn view(page: Page<'_>) -> Run {
        Run::of(page)
    }
    #[inline(always)]
    fn reader_view(page: Page<'_>) -> Run {
        let run = Run::of(page);
        Run { count: run.count.min(page.slots()), ..run }
    }
    #[inline(always)]
    fn count(run: Run) -> usize {
        run.count
    }
    #[inline(always)]
    fn entry<'m>(page: Page<'m>, run: Run, pos: usize) -> Slot {
        Slot::read(page, run.slot(page, pos))
    }
    #[inline(always)]
    fn prefetch(page: Page<'_>) {
        page.prefetch(aid_lines::<P>(page));
    }
    fn prefetch_whole(page: Page<'_>) {
        page.prefetch_whole(aid_lines::<P>(page));
    }

    #[inline(always)]
    fn rank<M: Medium>(
        pool: &Pool<M>,
        page: Page<'_>,
        shape: Shape,
        run: Run,
        key: &K::Key,
    ) -> Result<Rank> {
        <K as KeyOrder>::rank::<M, P>(pool, page, shape, run, key)
    }

    #[inline(always)]
    fn find<'m, M: Medium, T>(
        pool: &Pool<M>,
        page: Page<'m>,
        shape: Shape,
        run: Run,
        key: &K::Key,
        read: impl FnOnce(Self::Entry<'m>) -> Result<T>,
    ) -> Result<Option<T>> {
        let found = <K as KeyOrder>::find::<M, P>(pool, page, shape, run, key)?;
        found.map(read).transpose()
    }

    #[inline(always)]
    fn key<M: Medium>(pool: &Pool<M>, shape: Shape, slot: Slot) -> Result<K::Owned> {
        <K as KeyOrder>::key(pool, shape, slot)
    }
    #[inline(always)]
    fn child<M: Medium>(pool: &Pool<M>, slot: Slot) -> Result<PageNo> {
        <K as KeyOrder>::child(pool, slot)
    }

    #[inline(always)]
    fn order(key: &K::Key) -> Option<u64> {
        <K as KeyOrder>::order(key)
    }
    fn from_order(order: u64) -> Option<K::Owned> {
        <K as KeyOrder>::from_order(order)
    }
    fn raced(slot: Slot) -> Slot {
        slot
    }
}

impl<L: Layout, P: Probe, K: Keys> NodeBounds for (L, P, K) {
    const PREFIXED: bool = K::BYTES;

    #[inline(always)]
    fn cmp_high<M: Medium>(
        pool: &Pool<M>,
        page: Page<'_>,
        shape: Shape,
        key: &K::Key,
    ) -> Result<Ordering> {
        <K as KeyBounds>::cmp_high(pool, page, shape, key)
    }
    fn low<M: Medium>(pool: &Pool<M>, page: Page<'_>) -> Result<Option<K::Owned>> {
        <K as KeyBounds>::low(pool, page)
    }
    fn high<M: Medium>(pool: &Pool<M>, page: Page<'_>) -> Result<K::Owned> {
        <K as KeyBounds>::high(pool, page)
    }
}
