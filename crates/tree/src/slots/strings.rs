//! Byte-string keys and values in records, in byte order (docs/PAPERS.md, *Byte strings in order*).
//!
//! ```text
//! slot     identity = where << 16 | key bytes p+8, p+9         payload = key bytes p … p+7 (the head)
//! where    leaf: the record of key and value; inner node: the child, whose lower bound is the key
//! p        bytes that the node's bounds share, and so all its keys; fixed when the node is made
//! ```
//!
//! Heads are big-endian and zero-padded, so comparing them as numbers is comparing bytes; where
//! head and the two bytes are equal the record decides, by length too ("a" < "a\0"). A search
//! therefore touches one record, the one that it looks for, unless keys agree in ten bytes after
//! the prefix. Each node owns the records of its bounds; inner entries own none, since a node's
//! lower bound never changes and is the separator in its parent.

use std::cmp::Ordering;

use everleaf_pmem::{Medium, Page, PageNo, Result};
use everleaf_pool::{LargeValue, Pool, RecordRef, Step, Stop, StoredValue};

use crate::node::{
    HIGH_RECORD_WORD, HIGH_WORD, LOW_WORD, Rank, RightBounds, Run, Shape, TreeKey, check_limits,
    damaged, sibling,
};
use crate::record::{PendingRecord, child_page, key_into, key_of_record, read};
use crate::slots::keys::{
    Inspect, KeyBounds, KeyOrder, KeySplits, SplitBounds, ValueWrites, Values,
};
use crate::slots::{Probe, Slot};

/// Byte strings to byte strings.
#[derive(Debug, Clone, Copy)]
pub struct Strings;

/// Up to `N` bytes of a key from `from` on, zero-padded.
fn bytes_at<const N: usize>(key: &[u8], from: usize) -> [u8; N] {
    let mut bytes = [0; N];
    let rest = key.get(from..).unwrap_or_default();
    let n = rest.len().min(N);
    bytes[..n].copy_from_slice(&rest[..n]);
    bytes
}

/// The 8 bytes that order a key in a node with this prefix.
pub(super) fn head(key: &[u8], prefix: usize) -> u64 {
    u64::from_be_bytes(bytes_at(key, prefix))
}

/// The slot of a key in a node with this prefix.
pub(super) fn slot_for(key: &[u8], prefix: usize, place: u64) -> Slot {
    let next = u16::from_be_bytes(bytes_at(key, prefix + 8));
    Slot { ident: place << 16 | u64::from(next), payload: head(key, prefix) }
}

pub(super) fn place_of(slot: Slot) -> u64 {
    slot.ident >> 16
}

pub(super) fn record_of(slot: Slot) -> RecordRef {
    RecordRef::from_bits(place_of(slot))
}

/// Bytes that two keys share at their start.
pub(super) fn common(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// Compares the key of a slot with `key`; both share the node's prefix.
fn compare<M: Medium>(pool: &Pool<M>, shape: Shape, slot: Slot, key: &[u8]) -> Result<Ordering> {
    let record = match shape.level {
        0 => Some(record_of(slot)),
        _ => separator_of(pool, slot)?,
    };
    match record {
        Some(record) => {
            let rest = key.get(shape.prefix..).unwrap_or_default();
            read(pool, record, |r| pool.compare_key(r, shape.prefix, rest))
        }
        None => Ok(<[u8]>::cmp(&[], key)),
    }
}

impl KeyOrder for Strings {
    type Key = [u8];
    const BYTES: bool = true;

    #[inline]
    fn rank<M: Medium, P: Probe>(
        pool: &Pool<M>,
        page: Page<'_>,
        shape: Shape,
        run: Run,
        key: &[u8],
    ) -> Result<Rank> {
        let wanted = slot_for(key, shape.prefix, 0);
        let mut high = P::rank(page, run, 1, wanted.payload);
        let slot = |pos| Slot::read(page, run.slot(page, pos));
        if high == 0 || slot(high - 1).payload != wanted.payload {
            return Ok(Rank { le: high, exact: false });
        }
        // Slots low..high have the key's head; the two bytes and the records order them.
        let mut low = match wanted.payload {
            0 => 0,
            h => P::rank(page, run, 1, h - 1).min(high),
        };
        while low < high {
            let mid = (low + high) / 2;
            let found = slot(mid);
            let mut order = (found.ident & 0xffff).cmp(&wanted.ident);
            if order == Ordering::Equal {
                order = compare(pool, shape, found, key)?;
            }
            match order {
                Ordering::Less => low = mid + 1,
                Ordering::Equal => return Ok(Rank { le: mid + 1, exact: true }),
                Ordering::Greater => high = mid,
            }
        }
        Ok(Rank { le: low, exact: false })
    }

    fn key<M: Medium>(pool: &Pool<M>, shape: Shape, slot: Slot) -> Result<Vec<u8>> {
        let mut key = Vec::new();
        Self::key_into(pool, shape, slot, &mut key).map(|()| key)
    }

    fn key_into<M: Medium>(
        pool: &Pool<M>,
        shape: Shape,
        slot: Slot,
        key: &mut Vec<u8>,
    ) -> Result<()> {
        let record = match shape.level {
            0 => Some(record_of(slot)),
            _ => separator_of(pool, slot)?,
        };
        match record {
            Some(record) => key_into(pool, record, key),
            None => {
                key.clear();
                Ok(())
            }
        }
    }

    #[inline]
    fn child<M: Medium>(_: &Pool<M>, slot: Slot) -> Result<PageNo> {
        Ok(place_of(slot) as PageNo)
    }

    fn entry(shape: Shape, separator: &[u8], child: PageNo) -> Slot {
        slot_for(separator, shape.prefix, u64::from(child))
    }
}

impl KeyBounds for Strings {
    #[inline]
    fn cmp_high<M: Medium>(
        pool: &Pool<M>,
        page: Page<'_>,
        shape: Shape,
        key: &[u8],
    ) -> Result<Ordering> {
        let order = head(key, shape.prefix).cmp(&page.head(HIGH_WORD).load());
        let Some(record) = bound(page, HIGH_RECORD_WORD).filter(|_| order == Ordering::Equal)
        else {
            return Ok(order);
        };
        let rest = key.get(shape.prefix..).unwrap_or_default();
        read(pool, record, |r| pool.compare_key(r, shape.prefix, rest)).map(Ordering::reverse)
    }

    fn low<M: Medium>(pool: &Pool<M>, page: Page<'_>) -> Result<Option<Vec<u8>>> {
        bound(page, LOW_WORD).map(|r| key_of_record(pool, r)).transpose()
    }

    fn high<M: Medium>(pool: &Pool<M>, page: Page<'_>) -> Result<Vec<u8>> {
        match bound(page, HIGH_RECORD_WORD) {
            Some(r) => key_of_record(pool, r),
            None => Err(damaged(page, "has a sibling but no upper bound")),
        }
    }

    fn reshape<M: Medium>(pool: &Pool<M>, slot: Slot, from: Shape, to: Shape) -> Result<Slot> {
        if from.prefix == to.prefix {
            return Ok(slot);
        }
        Ok(slot_for(&Self::key(pool, from, slot)?, to.prefix, place_of(slot)))
    }

    fn merged<M: Medium>(
        pool: &Pool<M>,
        left: Page<'_>,
        right: Page<'_>,
        shape: Shape,
    ) -> Result<(Shape, RightBounds)> {
        let old = RightBounds::of(right);
        if sibling(right).is_none() {
            return Ok((Shape { prefix: 0, ..shape }, old));
        }
        let high = Self::high(pool, right)?;
        let prefix = Self::low(pool, left)?.map_or(0, |low| common(&low, &high));
        Ok((Shape { prefix, ..shape }, RightBounds { high: head(&high, prefix), ..old }))
    }

    fn release_bound<M: Medium>(
        step: &mut Step<'_, M>,
        left: Page<'_>,
        right: Page<'_>,
    ) -> Result<(), Stop> {
        for record in [bound(left, HIGH_RECORD_WORD), bound(right, LOW_WORD)].into_iter().flatten()
        {
            step.release(record)?;
        }
        Ok(())
    }
}

/// The bounds of a split, before its step.
pub struct PendingSplit<'p, M: Medium> {
    separator: Vec<u8>,
    /// The right node's upper bound, if finite.
    high: Option<Vec<u8>>,
    prefix: usize,
    records: [PendingRecord<'p, M>; 2],
}

impl KeySplits for Strings {
    type PreparedSplit<'p, M: Medium> = PendingSplit<'p, M>;
    type SplitPlan = [RecordRef; 2];
    const FIRST_SEPARATOR: Option<u64> = None;

    fn prepare_split<'p, M: Medium>(
        pool: &'p Pool<M>,
        left: Page<'_>,
        shape: Shape,
        last: Slot,
        first: Slot,
    ) -> Result<PendingSplit<'p, M>> {
        let mut separator = Self::key(pool, shape, first)?;
        if shape.level == 0 {
            // The shortest string that is above the left keys and not above the right ones.
            let below = key_of_record(pool, record_of(last))?;
            separator.truncate(common(&below, &separator) + 1);
        }
        let high = bound(left, HIGH_RECORD_WORD).map(|r| key_of_record(pool, r)).transpose()?;
        let prefix = high.as_ref().map_or(0, |high| common(&separator, high));
        let records = [
            PendingRecord::new(pool, &separator, &[])?,
            PendingRecord::new(pool, &separator, &[])?,
        ];
        Ok(PendingSplit { separator, high, prefix, records })
    }

    fn right_prefix<M: Medium>(prepared: &PendingSplit<'_, M>) -> usize {
        prepared.prefix
    }

    fn separator<M: Medium>(prepared: &PendingSplit<'_, M>) -> Result<Vec<u8>> {
        prepared.separator.own()
    }

    fn plan_split<'s, 'p: 's, M: Medium>(
        step: &mut Step<'s, M>,
        prepared: &'s PendingSplit<'p, M>,
    ) -> Result<[RecordRef; 2], Stop> {
        Ok([prepared.records[0].plan(step)?, prepared.records[1].plan(step)?])
    }

    fn write_split<'s, 'p: 's, M: Medium>(
        step: &mut Step<'s, M>,
        op: &mut M::Op<'s>,
        left: Page<'_>,
        plan: &[RecordRef; 2],
        prepared: &'s PendingSplit<'p, M>,
    ) -> SplitBounds {
        let separator = &prepared.separator;
        for (r, record) in plan.iter().zip(&prepared.records) {
            record.write(step, op, *r, separator, &[]);
        }
        let left_prefix = Shape::of(left).map_or(0, |shape| shape.prefix);
        // The right node takes over the old upper bound, with its record.
        let right = RightBounds {
            high: prepared.high.as_ref().map_or(0, |high| head(high, prepared.prefix)),
            ..RightBounds::of(left)
        };
        SplitBounds {
            high: head(separator, left_prefix),
            high_record: plan[0].bits(),
            low: plan[1].bits(),
            right,
        }
    }
}

impl Values for Strings {
    type Value = Vec<u8>;
    type Far<'p, M: Medium> = LargeValue<'p, M>;

    #[inline]
    fn found<M: Medium>(
        pool: &Pool<M>,
        slot: Slot,
    ) -> Result<StoredValue<Vec<u8>, LargeValue<'_, M>>> {
        read(pool, record_of(slot), |record| pool.find_value(record))
    }

    /// One visit of the record for both.
    #[inline]
    fn pair<M: Medium>(
        pool: &Pool<M>,
        _: Shape,
        slot: Slot,
    ) -> Result<(Vec<u8>, StoredValue<Vec<u8>, LargeValue<'_, M>>)> {
        read(pool, record_of(slot), |record| pool.find_pair(record))
    }
}

impl ValueWrites for Strings {
    type Input = [u8];
    type Prepared<'p, M: Medium> = PendingRecord<'p, M>;
    type Plan = RecordRef;
    const REPLACES_PAYLOAD: bool = false;
    const PLAIN: bool = false;

    fn prepare<'p, M: Medium>(
        pool: &'p Pool<M>,
        key: &[u8],
        value: &[u8],
    ) -> Result<PendingRecord<'p, M>> {
        check_limits(key, value)?;
        PendingRecord::new(pool, key, value)
    }

    fn plain_slot(_: &[u8], _: &[u8]) -> Option<Slot> {
        None
    }

    fn plan<'s, 'p: 's, M: Medium>(
        step: &mut Step<'s, M>,
        prepared: &'s PendingRecord<'p, M>,
        replaced: Option<Slot>,
    ) -> Result<RecordRef, Stop> {
        let record = prepared.plan(step)?;
        if let Some(slot) = replaced {
            Self::release(step, slot)?;
        }
        Ok(record)
    }

    fn write<'s, 'p: 's, M: Medium>(
        step: &mut Step<'s, M>,
        op: &mut M::Op<'s>,
        shape: Shape,
        plan: &RecordRef,
        (key, value): (&[u8], &[u8]),
        prepared: &'s PendingRecord<'p, M>,
    ) -> Slot {
        prepared.write(step, op, *plan, key, value);
        slot_for(key, shape.prefix, plan.bits())
    }

    fn release<M: Medium>(step: &mut Step<'_, M>, slot: Slot) -> Result<(), Stop> {
        step.release(record_of(slot))
    }
}

impl Inspect for Strings {
    fn record(shape: Shape, slot: Slot) -> Option<RecordRef> {
        (shape.level == 0).then(|| record_of(slot))
    }

    fn bound_records(page: Page<'_>) -> [Option<RecordRef>; 2] {
        [bound(page, LOW_WORD), bound(page, HIGH_RECORD_WORD)]
    }

    fn slot_fits(shape: Shape, slot: Slot, key: &Vec<u8>) -> bool {
        slot == slot_for(key, shape.prefix, place_of(slot))
    }

    fn bounds_fit(page: Page<'_>, shape: Shape, low: &Vec<u8>, high: Option<&Vec<u8>>) -> bool {
        let Some(high) = high else { return shape.prefix == 0 };
        shape.prefix <= common(low, high) && page.head(HIGH_WORD).load() == head(high, shape.prefix)
    }
}

/// The record of a bound in a header word, if the bound is finite.
pub(super) fn bound(page: Page<'_>, word: usize) -> Option<RecordRef> {
    Some(page.head(word).load()).filter(|bits| *bits != 0).map(RecordRef::from_bits)
}

/// The lower bound of an inner slot's child: the record of the separator; `None`: no key is below. The
/// bound never changes while the child lives, and the caller holds the parent or validates it.
pub(super) fn separator_of<M: Medium>(pool: &Pool<M>, slot: Slot) -> Result<Option<RecordRef>> {
    Ok(bound(child_page(pool, place_of(slot) as PageNo)?, LOW_WORD))
}
