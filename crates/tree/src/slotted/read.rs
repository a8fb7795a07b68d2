//! What the spine reads of slotted nodes: keys, bounds, values, and copies of pairs.
//!
//! A value is in the entry, or in the record that it refers to. A key that a node keeps in part is compared and read
//! where it is whole.

use std::cmp::Ordering;

use everleaf_pmem::{LINE_BYTES, Medium, Page, PageNo, Result, Seen, fallible};
use everleaf_pool::{LargeValue, Pool, RecordRef, StoredValue};

use crate::damaged::damaged;
use crate::node::{
    FLAG_BYTES, FLAG_SLOTTED, NodeAt, NodeBounds, NodeCopies, NodeKeys, NodeValues, Rank, Shape,
};
use crate::record::{self, key_of_record, read};
use crate::slots::Slot;
use crate::slotted::copy::LeafCopy;
use crate::slotted::{Entry, FenceAt, Slotted, ValueSize, View};

/// Lines of slots that a search asks for before it knows how many there are: those of 128 slots.
const SLOT_LINES: usize = 16;

/// An entry of a slotted node.
#[derive(Clone, Copy)]
pub struct EntryAt<'m> {
    pub(super) view: View<'m>,
    pub(super) pos: usize,
    pub(super) parts: Entry,
}

impl NodeKeys for Slotted {
    type Key = [u8];
    type Owned = Vec<u8>;
    type View<'m> = View<'m>;
    type Entry<'m> = EntryAt<'m>;
    const LOCK_FREE: bool = false;

    fn lowest() -> Vec<u8> {
        Vec::new()
    }
    fn own(key: &[u8]) -> Result<Vec<u8>> {
        fallible::copy(key, "a key")
    }
    fn key_weight(key: &Vec<u8>) -> usize {
        key.len()
    }

    #[inline(always)]
    fn shape(page: Page<'_>) -> Option<Shape> {
        Shape::with_flags(page, FLAG_BYTES | FLAG_SLOTTED)
    }
    #[inline(always)]
    fn view(page: Page<'_>) -> View<'_> {
        View::read(page)
    }
    #[inline(always)]
    fn reader_view(page: Page<'_>) -> View<'_> {
        View::read(page)
    }
    #[inline(always)]
    fn count(view: View<'_>) -> usize {
        view.count()
    }
    #[inline(always)]
    fn entry<'m>(_: Page<'m>, view: View<'m>, pos: usize) -> EntryAt<'m> {
        EntryAt { view, pos, parts: view.entry(pos) }
    }
    #[inline(always)]
    fn prefetch(page: Page<'_>) {
        page.prefetch(0);
        (1..=SLOT_LINES).for_each(|line| page.prefetch_at(LINE_BYTES * line));
    }
    fn prefetch_whole(page: Page<'_>) {
        page.prefetch_whole(0);
    }

    #[inline(always)]
    fn rank<M: Medium>(
        pool: &Pool<M>,
        _: Page<'_>,
        _: Shape,
        view: View<'_>,
        key: &[u8],
    ) -> Result<Rank> {
        view.rank(key, |place| compare(pool, place, key))
    }

    #[inline]
    fn key<M: Medium>(pool: &Pool<M>, _: Shape, entry: EntryAt<'_>) -> Result<Vec<u8>> {
        let mut key = Vec::new();
        match entry.view.key_into(entry.pos, &mut key)? {
            None => Ok(key),
            Some(place) => whole(pool, place),
        }
    }
    #[inline(always)]
    fn child<M: Medium>(_: &Pool<M>, entry: EntryAt<'_>) -> Result<PageNo> {
        Ok(entry.view.child_of(&entry.parts))
    }

    fn raced(_: Slot) -> EntryAt<'static> {
        unreachable!("no reader goes on beside a writer of a slotted node")
    }
}

impl NodeBounds for Slotted {
    const PREFIXED: bool = true;

    #[inline(always)]
    fn cmp_high<M: Medium>(
        pool: &Pool<M>,
        page: Page<'_>,
        _: Shape,
        key: &[u8],
    ) -> Result<Ordering> {
        View::read(page).cmp_high(key, |place| compare(pool, place, key))
    }

    fn low<M: Medium>(pool: &Pool<M>, page: Page<'_>) -> Result<Option<Vec<u8>>> {
        let view = View::read(page);
        view.low().map(|low| fence(pool, &view, low)).transpose()
    }

    fn high<M: Medium>(pool: &Pool<M>, page: Page<'_>) -> Result<Vec<u8>> {
        let view = View::read(page);
        match view.high() {
            Some(high) => fence(pool, &view, high),
            None => Err(damaged(page, "has a sibling but no upper bound")),
        }
    }
}

impl NodeValues for Slotted {
    type Value = Vec<u8>;
    type Far<'p, M: Medium> = LargeValue<'p, M>;

    #[inline]
    fn found<'p, M: Medium>(
        pool: &'p Pool<M>,
        entry: EntryAt<'_>,
    ) -> Result<StoredValue<Vec<u8>, LargeValue<'p, M>>> {
        if let Some(record) = entry.view.reference_of(&entry.parts) {
            return found_in_record(pool, record);
        }
        let mut value = Vec::new();
        entry.view.value_onto(&entry.parts, &mut value)?;
        Ok(StoredValue::Inline(value))
    }

    fn read<M: Medium>(far: &LargeValue<'_, M>) -> Result<Vec<u8>> {
        far.read()
    }

    #[inline]
    fn pair<'p, M: Medium>(
        pool: &'p Pool<M>,
        shape: Shape,
        entry: EntryAt<'_>,
    ) -> Result<(Vec<u8>, StoredValue<Vec<u8>, LargeValue<'p, M>>)> {
        match entry.view.reference_of(&entry.parts) {
            // One visit of the record for both.
            Some(record) if entry.parts.cut => {
                read(pool, RecordRef::from_bits(record), |record| pool.find_pair(record))
            }
            _ => Ok((Self::key(pool, shape, entry)?, Self::found(pool, entry)?)),
        }
    }

    fn weight(value: &Vec<u8>) -> usize {
        value.len()
    }

    fn far_weight<M: Medium>(far: &LargeValue<'_, M>) -> usize {
        usize::try_from(far.value_bytes()).unwrap_or(usize::MAX)
    }

    #[inline(always)]
    fn record(shape: Shape, entry: EntryAt<'_>) -> Option<RecordRef> {
        let is_leaf = shape.level == 0;
        let reference = entry.view.reference_of(&entry.parts).filter(|_| is_leaf);
        reference.map(RecordRef::from_bits)
    }
}

#[cold]
fn found_in_record<M: Medium>(
    pool: &Pool<M>,
    record: u64,
) -> Result<StoredValue<Vec<u8>, LargeValue<'_, M>>> {
    read(pool, RecordRef::from_bits(record), |record| pool.find_value(record))
}

/// The order of a key that a record holds to another one.
#[cold]
pub(super) fn compare<M: Medium>(pool: &Pool<M>, record: u64, key: &[u8]) -> Result<Ordering> {
    record::compare(pool, RecordRef::from_bits(record), key)
}

/// All of a key that a record holds.
#[cold]
pub(super) fn whole<M: Medium>(pool: &Pool<M>, record: u64) -> Result<Vec<u8>> {
    key_of_record(pool, RecordRef::from_bits(record))
}

/// The record of a node's low fence, if it is long. Waits for who changes the node.
pub(super) fn low_record<M: Medium>(pool: &Pool<M>, no: PageNo) -> Result<Option<u64>> {
    let page = pool.page(no)?;
    loop {
        match page.latch().read_version() {
            Seen::Ready(version) => {
                let record = View::read(page).low().and_then(|low| low.record);
                if page.latch().validate(version) {
                    return Ok(record);
                }
            }
            Seen::Absent => pool.latch(no)?.1.unlock_unchanged(),
        }
    }
}

/// All of a fence.
pub(super) fn fence<M: Medium>(pool: &Pool<M>, view: &View<'_>, at: FenceAt) -> Result<Vec<u8>> {
    if let Some(record) = at.record {
        return key_of_record(pool, RecordRef::from_bits(record));
    }
    let mut key = Vec::new();
    view.fence_into(at, &mut key)?;
    Ok(key)
}

/// The record of a fence, if it is long.
pub(super) fn record(fence: Option<FenceAt>) -> Option<RecordRef> {
    fence.and_then(|fence| fence.record).map(RecordRef::from_bits)
}

/// All of the key at a position.
#[inline]
pub(super) fn key_at<M: Medium>(pool: &Pool<M>, page: Page<'_>, pos: usize) -> Result<Vec<u8>> {
    let mut key = Vec::new();
    match View::read(page).key_into(pos, &mut key)? {
        None => Ok(key),
        Some(far) => whole(pool, far),
    }
}

impl NodeCopies for Slotted {
    #[inline]
    fn key_into<M: Medium>(
        pool: &Pool<M>,
        _: Shape,
        entry: EntryAt<'_>,
        key: &mut Vec<u8>,
    ) -> Result<()> {
        if let Some(place) = entry.view.key_into(entry.pos, key)? {
            *key = whole(pool, place)?;
        }
        Ok(())
    }

    #[inline]
    fn pair_into<M: Medium>(
        pool: &Pool<M>,
        shape: Shape,
        entry: EntryAt<'_>,
        key: &mut Vec<u8>,
        value: &mut Vec<u8>,
    ) -> Result<bool> {
        if let Some(bits) = entry.view.reference_of(&entry.parts) {
            return pair_of_record(pool, shape, entry, RecordRef::from_bits(bits), key, value);
        }
        Self::key_into(pool, shape, entry, key)?;
        value.clear();
        entry.view.value_onto(&entry.parts, value)?;
        Ok(true)
    }

    fn leaf_into(at: &NodeAt<'_, Self>, copy: &mut LeafCopy) -> Result<bool> {
        copy.fill(&at.view)
    }

    #[inline]
    fn value_into<'p, M: Medium>(
        pool: &'p Pool<M>,
        _: Shape,
        entry: EntryAt<'_>,
        value: &mut Vec<u8>,
    ) -> Result<StoredValue<(), LargeValue<'p, M>>> {
        if let Some(bits) = entry.view.reference_of(&entry.parts) {
            return record::value_into(pool, RecordRef::from_bits(bits), value);
        }
        value.clear();
        entry.view.value_onto(&entry.parts, value)?;
        Ok(StoredValue::Inline(()))
    }

    fn read_into<M: Medium>(far: &LargeValue<'_, M>, value: &mut Vec<u8>) -> Result<()> {
        far.read_into(value)
    }

    #[inline]
    fn part_into<'p, M: Medium>(
        pool: &'p Pool<M>,
        _: Shape,
        entry: EntryAt<'_>,
        from: u64,
        buf: &mut [u8],
    ) -> Result<StoredValue<usize, LargeValue<'p, M>>> {
        if let Some(bits) = entry.view.reference_of(&entry.parts) {
            return record::part_into(pool, RecordRef::from_bits(bits), from, buf);
        }
        entry.view.value_part(&entry.parts, from, buf).map(StoredValue::Inline)
    }

    fn read_at<M: Medium>(far: &LargeValue<'_, M>, from: u64, buf: &mut [u8]) -> Result<usize> {
        far.read_at(from, buf)
    }

    fn value_bytes<M: Medium>(pool: &Pool<M>, _: Shape, entry: EntryAt<'_>) -> Result<u64> {
        match entry.parts.value {
            ValueSize::Inline(bytes) => Ok(bytes as u64),
            ValueSize::Reference => {
                let bits = entry.view.reference_of(&entry.parts).unwrap_or_default();
                record::value_bytes(pool, RecordRef::from_bits(bits))
            }
        }
    }
}

/// The pair of an entry that names a record.
#[cold]
fn pair_of_record<M: Medium>(
    pool: &Pool<M>,
    shape: Shape,
    entry: EntryAt<'_>,
    record: RecordRef,
    key: &mut Vec<u8>,
    value: &mut Vec<u8>,
) -> Result<bool> {
    if entry.parts.cut {
        return record::pair_into(pool, record, key, value);
    }
    Slotted::key_into(pool, shape, entry, key)?;
    record::if_readable(record::value_in_memory(pool, record, value))
}
