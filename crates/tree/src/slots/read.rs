//! What the spine reads of nodes of slots: keys, bounds, values, and copies of pairs, which lie in records.

use std::cmp::Ordering;

use everleaf_pmem::{LINE_BYTES, Medium, Page, PageNo, Result};
use everleaf_pool::{LargeValue, Pool, RecordRef, StoredValue};

use crate::node::{FLAG_BYTES, NodeBounds, NodeCopies, NodeKeys, NodeValues, Rank, Run, Shape};
use crate::record;
use crate::slots::{Inspect, KeyBounds, KeyOrder, Keys, Layout, Probe, Slot, Strings, Values};

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

impl<L: Layout, P: Probe, K: Keys> NodeValues for (L, P, K) {
    type Value = K::Value;
    type Far<'p, M: Medium> = K::Far<'p, M>;

    #[inline(always)]
    fn found<'p, M: Medium>(
        pool: &'p Pool<M>,
        slot: Slot,
    ) -> Result<StoredValue<K::Value, K::Far<'p, M>>> {
        <K as Values>::found(pool, slot)
    }
    fn read<M: Medium>(far: &K::Far<'_, M>) -> Result<K::Value> {
        <K as Values>::read(far)
    }
    #[inline]
    fn pair<'p, M: Medium>(
        pool: &'p Pool<M>,
        shape: Shape,
        slot: Slot,
    ) -> Result<(K::Owned, StoredValue<K::Value, K::Far<'p, M>>)> {
        <K as Values>::pair(pool, shape, slot)
    }
    #[inline(always)]
    fn weight(value: &K::Value) -> usize {
        <K as Values>::weight(value)
    }
    fn far_weight<M: Medium>(far: &K::Far<'_, M>) -> usize {
        <K as Values>::far_weight(far)
    }
    #[inline(always)]
    fn record(shape: Shape, slot: Slot) -> Option<RecordRef> {
        <K as Inspect>::record(shape, slot)
    }
}

impl<L: Layout, P: Probe> NodeCopies for (L, P, Strings) {
    fn key_into<M: Medium>(
        pool: &Pool<M>,
        shape: Shape,
        slot: Slot,
        key: &mut Vec<u8>,
    ) -> Result<()> {
        record::key_into(pool, of::<Self>(shape, slot), key)
    }

    fn pair_into<M: Medium>(
        pool: &Pool<M>,
        shape: Shape,
        slot: Slot,
        key: &mut Vec<u8>,
        value: &mut Vec<u8>,
    ) -> Result<bool> {
        record::pair_into(pool, of::<Self>(shape, slot), key, value)
    }

    fn value_into<'p, M: Medium>(
        pool: &'p Pool<M>,
        shape: Shape,
        slot: Slot,
        value: &mut Vec<u8>,
    ) -> Result<StoredValue<(), LargeValue<'p, M>>> {
        record::value_into(pool, of::<Self>(shape, slot), value)
    }

    fn read_into<M: Medium>(far: &LargeValue<'_, M>, value: &mut Vec<u8>) -> Result<()> {
        far.read_into(value)
    }

    fn part_into<'p, M: Medium>(
        pool: &'p Pool<M>,
        shape: Shape,
        slot: Slot,
        from: u64,
        buf: &mut [u8],
    ) -> Result<StoredValue<usize, LargeValue<'p, M>>> {
        record::part_into(pool, of::<Self>(shape, slot), from, buf)
    }

    fn read_at<M: Medium>(far: &LargeValue<'_, M>, from: u64, buf: &mut [u8]) -> Result<usize> {
        far.read_at(from, buf)
    }

    fn value_bytes<M: Medium>(pool: &Pool<M>, shape: Shape, slot: Slot) -> Result<u64> {
        record::value_bytes(pool, of::<Self>(shape, slot))
    }
}

/// The record of a leaf's slot. One that no leaf has leads to no record, which reading it says.
fn of<'m, K: NodeValues<Entry<'m> = Slot>>(shape: Shape, slot: Slot) -> RecordRef {
    K::record(shape, slot).unwrap_or(RecordRef::from_bits(0))
}
