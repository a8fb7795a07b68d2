//! The values of leaves of slots.

use everleaf_pmem::{Medium, Result};
use everleaf_pool::{Pool, RecordRef, StoredValue};

use crate::keys::{Inspect, Keys, Values};
use crate::kind::NodeValues;
use crate::node::{Layout, Probe, Shape, Slot};

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
