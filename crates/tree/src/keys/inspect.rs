//! What a check of a tree asks about keys.

use everleaf_pmem::Page;
use everleaf_pool::RecordRef;

use super::order::KeyOrder;
use crate::node::{Shape, Slot};

/// Whether the words and the records of a node fit its keys.
pub trait Inspect: KeyOrder {
    /// The record that a slot refers to, if this kind of keys has records.
    fn record(shape: Shape, slot: Slot) -> Option<RecordRef>;

    /// The records of a node's bounds.
    fn bound_records(page: Page<'_>) -> [Option<RecordRef>; 2];

    /// Whether a slot's words are the ones that its key asks for.
    fn slot_fits(shape: Shape, slot: Slot, key: &Self::Owned) -> bool;

    /// Whether a node's prefix and upper bound are the ones that its bounds ask for.
    fn bounds_fit(
        page: Page<'_>,
        shape: Shape,
        low: &Self::Owned,
        high: Option<&Self::Owned>,
    ) -> bool;
}
