//! The bounds of nodes: what a node says of them, what a split puts between two nodes, and what a
//! merge takes away.

use std::cmp::Ordering;

use everleaf_pmem::{Medium, Page, Result};
use everleaf_pool::{Pool, Step, Stop};

use super::order::KeyOrder;
use crate::node::{RightBounds, Shape, Slot};

/// Between which keys a node lies.
pub trait KeyBounds: KeyOrder {
    /// Compares a key with the upper bound of a node that has a sibling.
    fn cmp_high<M: Medium>(
        pool: &Pool<M>,
        page: Page<'_>,
        shape: Shape,
        key: &Self::Key,
    ) -> Result<Ordering>;

    /// The lower bound of a node; `None` is -infinity.
    fn low<M: Medium>(pool: &Pool<M>, page: Page<'_>) -> Result<Option<Self::Owned>>;

    /// The upper bound of a node that has a sibling.
    fn high<M: Medium>(pool: &Pool<M>, page: Page<'_>) -> Result<Self::Owned>;

    /// A slot as it must be in a node with another prefix. This reads the slot's record, so the
    /// caller must not hold record pages.
    fn reshape<M: Medium>(pool: &Pool<M>, slot: Slot, from: Shape, to: Shape) -> Result<Slot>;

    /// The shape and the right-hand bounds of the node that `left` and its sibling `right` merge
    /// into.
    fn merged<M: Medium>(
        pool: &Pool<M>,
        left: Page<'_>,
        right: Page<'_>,
        shape: Shape,
    ) -> Result<(Shape, RightBounds)>;

    /// Plans to give back the bound between two nodes that merge.
    fn release_bound<M: Medium>(
        step: &mut Step<'_, M>,
        left: Page<'_>,
        right: Page<'_>,
    ) -> Result<(), Stop>;
}

/// The bounds that a split puts between two nodes.
pub struct SplitBounds {
    /// The left node's new right-hand bounds, without the sibling.
    pub high: u64,
    /// Byte strings: the record of the left node's high key.
    pub high_record: u64,
    /// The right node's low word.
    pub low: u64,
    /// The right node's right-hand bounds.
    pub right: RightBounds,
}

/// How a split finds and writes the bounds between its two nodes.
pub trait KeySplits: KeyBounds {
    /// What was prepared for a split before its step began.
    type PreparedSplit<'p, M: Medium>;
    /// What a step has reserved for a split.
    type SplitPlan;

    /// The separator of a new tree's two leaves; `None` if a new tree has one leaf.
    fn first_separator() -> Option<u64>;

    /// Prepares the bounds of a split of `left` between the slots `last` and `first`.
    fn prepare_split<'p, M: Medium>(
        pool: &'p Pool<M>,
        left: Page<'_>,
        shape: Shape,
        last: Slot,
        first: Slot,
    ) -> Result<Self::PreparedSplit<'p, M>>;

    /// The prefix of the right node of a split.
    fn right_prefix<M: Medium>(prepared: &Self::PreparedSplit<'_, M>) -> usize;

    /// The smallest key that belongs to the right node of a split.
    ///
    /// # Errors
    /// NoMemory.
    fn separator<M: Medium>(prepared: &Self::PreparedSplit<'_, M>) -> Result<Self::Owned>;

    /// Plans the bounds of a split.
    fn plan_split<'s, 'p: 's, M: Medium>(
        step: &mut Step<'s, M>,
        prepared: &'s Self::PreparedSplit<'p, M>,
    ) -> Result<Self::SplitPlan, Stop>;

    /// Writes the bounds of a split of `left`.
    fn write_split<'s, 'p: 's, M: Medium>(
        step: &mut Step<'s, M>,
        op: &mut M::Op<'s>,
        left: Page<'_>,
        plan: &Self::SplitPlan,
        prepared: &'s Self::PreparedSplit<'p, M>,
    ) -> SplitBounds;
}
