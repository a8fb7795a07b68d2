//! The values of slotted leaves: in the entry, or in the record that it refers to.

use everleaf_pmem::{Medium, Result};
use everleaf_pool::{LargeValue, Pool, RecordRef, StoredValue};

use super::Slotted;
use super::keys::EntryAt;
use crate::kind::{NodeKeys, NodeValues};
use crate::node::Shape;
use crate::record::read;

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
