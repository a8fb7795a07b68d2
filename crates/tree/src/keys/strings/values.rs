//! Values of byte strings: in the record of their key, or in extents.

use everleaf_pmem::{Medium, Result};
use everleaf_pool::{LargeValue, Pool, RecordRef, Step, Stop, StoredValue};

use super::slot::{Strings, record_of, slot_for};
use crate::keys::values::{ValueWrites, Values};
use crate::node::{Shape, Slot};
use crate::record::{PendingRecord, check_limits, read};

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

    fn read<M: Medium>(far: &LargeValue<'_, M>) -> Result<Vec<u8>> {
        far.read()
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

    fn weight(value: &Vec<u8>) -> usize {
        value.len()
    }

    fn far_weight<M: Medium>(far: &LargeValue<'_, M>) -> usize {
        usize::try_from(far.value_bytes()).unwrap_or(usize::MAX)
    }
}

impl ValueWrites for Strings {
    type Input = [u8];
    type Prepared<'p, M: Medium> = PendingRecord<'p, M>;
    type Plan = RecordRef;
    const REPLACES_PAYLOAD: bool = false;
    const PLAIN: bool = false;

    fn check(key: &[u8], value: Option<&[u8]>) -> Result<()> {
        check_limits(key, value)
    }

    fn prepare<'p, M: Medium>(
        pool: &'p Pool<M>,
        key: &[u8],
        value: &[u8],
    ) -> Result<PendingRecord<'p, M>> {
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
