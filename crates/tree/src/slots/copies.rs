//! Pairs of leaves of slots, copied into lists that are used again: both are in the record.

use everleaf_pmem::{Medium, Result};
use everleaf_pool::{LargeValue, Pool, RecordRef, StoredValue};

use crate::keys::Strings;
use crate::kind::{NodeCopies, NodeValues};
use crate::node::{Layout, Probe, Shape, Slot};
use crate::record;

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
