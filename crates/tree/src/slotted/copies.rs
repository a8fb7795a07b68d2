//! Pairs of slotted leaves, copied into lists that are used again.

use everleaf_pmem::{Medium, Result};
use everleaf_pool::{LargeValue, Pool, RecordRef, StoredValue};

use super::keys::EntryAt;
use super::{Slotted, far};
use crate::kind::{NodeAt, NodeCopies};
use crate::node::Shape;
use crate::node::slotted::{LeafCopy, ValueSize};
use crate::record;

impl NodeCopies for Slotted {
    #[inline]
    fn key_into<M: Medium>(
        pool: &Pool<M>,
        _: Shape,
        entry: EntryAt<'_>,
        key: &mut Vec<u8>,
    ) -> Result<()> {
        if let Some(place) = entry.view.key_into(entry.pos, key)? {
            *key = far::whole(pool, place)?;
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
    let copied = record::read(pool, record, |record| record::value_onto(pool, record, value));
    record::if_readable(copied)
}
