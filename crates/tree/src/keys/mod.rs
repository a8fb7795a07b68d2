//! What keys are: [`Words`] (u64 → u64, the papers' interface) or
//! [`Strings`] (byte strings in records, the Db).
//!
//! This is a fifth trait beside Medium, Layout, Probe and Index. Its reason: the same spine, node
//! and probe serve both kinds of keys, and only what is here differs between them: how a key ranks
//! in a node, where a value is, and which records a step reads and writes beside its nodes.

mod strings;
mod words;

pub use strings::Strings;
pub use words::Words;

use std::borrow::Borrow;
use std::cmp::Ordering;

use everleaf_pmem::{Medium, Page, PageNo, Result};
use everleaf_pool::{Found, Pool, RecordRef, Step, Stop};

use crate::node::{Bounds, Probe, Run, Shape, Slot};

/// Where a key is in a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rank {
    /// Slots with a smaller or equal key.
    pub le: usize,
    /// Whether the slot before `le` has exactly this key.
    pub exact: bool,
}

impl Rank {
    /// Slots with a smaller key.
    pub fn lt(self) -> usize {
        self.le - usize::from(self.exact)
    }
}

/// The bounds that a split puts between two nodes.
pub struct Cut {
    /// The left node's new right-hand bounds, but for the sibling.
    pub high: u64,
    /// Byte strings: the record of the left node's high key.
    pub high_record: u64,
    /// The right node's low word.
    pub low: u64,
    /// The right node's right-hand bounds.
    pub right: Bounds,
}

/// A kind of keys and of the values that go with them.
pub trait Keys: Send + Sync + Sized + 'static {
    /// A key to look for.
    type Key: ?Sized + Ord;
    /// A key of its own.
    type Owned: Borrow<Self::Key> + Clone + Ord + Send;
    /// A value to store.
    type Input: ?Sized;
    /// A value that was found.
    type Value: Send;
    /// What leads to a value that is not read while its leaf must stand still. Equal ones lead to the
    /// same value, as long as both are there.
    type Far<'p, M: Medium>: PartialEq;
    /// What was written for an insert before its step began (large values), given back unless used.
    type Prepared<'p, M: Medium>;
    /// As `Prepared`, for the bounds of a split.
    type PreparedCut<'p, M: Medium>;
    /// What a step has reserved for a slot.
    type Plan;
    /// What a step has reserved for a split.
    type CutPlan;
    /// Whether nodes say that their keys are byte strings.
    const BYTES: bool;

    /// A key that no key is smaller than.
    fn lowest() -> Self::Owned;

    /// Where a new tree is cut into two leaves; `None`: it has one.
    fn first_cut() -> Option<u64>;

    /// Checks the limits of a key and a value.
    ///
    /// # Errors
    /// KeyTooLong, ValueTooLong: each names the limit.
    fn check(key: &Self::Key, value: Option<&Self::Input>) -> Result<()>;

    /// Ranks a key in a node. Under a race the answer may be anything; the reader validates.
    fn rank<M: Medium, P: Probe>(
        pool: &Pool<M>,
        page: Page<'_>,
        shape: Shape,
        run: Run,
        key: &Self::Key,
    ) -> Result<Rank>;

    /// The slot of a key in a leaf. Under a race as [`rank`](Self::rank).
    #[inline(always)]
    fn find<M: Medium, P: Probe>(
        pool: &Pool<M>,
        page: Page<'_>,
        shape: Shape,
        run: Run,
        key: &Self::Key,
    ) -> Result<Option<Slot>> {
        let rank = Self::rank::<M, P>(pool, page, shape, run, key)?;
        Ok(rank.exact.then(|| Slot::read(page, run.slot(page, rank.le - 1))))
    }

    /// The number that orders a key, for kinds of keys that one word orders wholly.
    fn order(_key: &Self::Key) -> Option<u64> {
        None
    }

    /// The key that a number orders.
    fn from_order(_order: u64) -> Option<Self::Owned> {
        None
    }

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

    /// The key of a slot.
    fn key<M: Medium>(pool: &Pool<M>, shape: Shape, slot: Slot) -> Result<Self::Owned>;

    /// A key of its own.
    ///
    /// # Errors
    /// NoMemory.
    fn own(key: &Self::Key) -> Result<Self::Owned>;

    /// The value of a leaf's slot, or what leads to it. Under a race as [`rank`](Self::rank).
    fn found<M: Medium>(pool: &Pool<M>, slot: Slot)
    -> Result<Found<Self::Value, Self::Far<'_, M>>>;

    /// Reads a value that lies elsewhere. The caller holds no latch.
    fn read<M: Medium>(far: &Self::Far<'_, M>) -> Result<Self::Value>;

    /// The value that was found.
    #[inline(always)]
    fn settled<M: Medium>(found: Found<Self::Value, Self::Far<'_, M>>) -> Result<Self::Value> {
        match found {
            Found::Here(value) => Ok(value),
            Found::Far(far) => Self::read(&far),
        }
    }

    /// The value of a leaf's slot. Reads a large one at once.
    fn value<M: Medium>(pool: &Pool<M>, slot: Slot) -> Result<Self::Value> {
        Self::settled(Self::found(pool, slot)?)
    }

    /// The key of a leaf's slot, and the value as [`found`](Self::found) has it.
    #[inline]
    #[allow(clippy::type_complexity)]
    fn pair<M: Medium>(
        pool: &Pool<M>,
        shape: Shape,
        slot: Slot,
    ) -> Result<(Self::Owned, Found<Self::Value, Self::Far<'_, M>>)> {
        Ok((Self::key(pool, shape, slot)?, Self::found(pool, slot)?))
    }

    /// The child of an inner node's slot.
    fn child<M: Medium>(pool: &Pool<M>, slot: Slot) -> Result<PageNo>;

    /// About how many bytes a value takes in memory.
    fn weight(value: &Self::Value) -> usize;

    /// As [`weight`](Self::weight), of a value that has not been read yet.
    fn far_weight<M: Medium>(far: &Self::Far<'_, M>) -> usize;

    /// How many bytes a key has.
    fn key_weight(key: &Self::Owned) -> usize;

    /// The record that a slot refers to, for kinds of keys that have records.
    fn record(shape: Shape, slot: Slot) -> Option<RecordRef>;

    /// The records of a node's bounds.
    fn bound_records(page: Page<'_>) -> [Option<RecordRef>; 2];

    /// Whether a slot's words are those that its key asks for.
    fn slot_fits(shape: Shape, slot: Slot, key: &Self::Owned) -> bool;

    /// Whether a node's prefix and upper bound are those that its bounds ask for.
    fn bounds_fit(
        page: Page<'_>,
        shape: Shape,
        low: &Self::Owned,
        high: Option<&Self::Owned>,
    ) -> bool;

    /// Writes what is too large for a step ahead of it.
    fn prepare<'p, M: Medium>(
        pool: &'p Pool<M>,
        key: &Self::Key,
        value: &Self::Input,
    ) -> Result<Self::Prepared<'p, M>>;

    /// A leaf's slot, for kinds of keys that need no records: a step of a node alone.
    fn plain_slot(key: &Self::Key, value: &Self::Input) -> Option<Slot>;

    /// Plans a slot for what was prepared.
    fn plan<'s, 'p: 's, M: Medium>(
        step: &mut Step<'s, M>,
        prepared: &'s Self::Prepared<'p, M>,
    ) -> Result<Self::Plan, Stop>;

    /// Writes what `plan` reserved and returns the leaf's slot to link.
    fn write<'s, 'p: 's, M: Medium>(
        step: &mut Step<'s, M>,
        op: &mut M::Op<'s>,
        shape: Shape,
        plan: &Self::Plan,
        pair: (&Self::Key, &Self::Input),
        prepared: &'s Self::Prepared<'p, M>,
    ) -> Slot;

    /// An inner node's slot. It owns no record: the separator is the child's lower bound.
    fn entry(shape: Shape, separator: &Self::Key, child: PageNo) -> Slot;

    /// Whether replacing a value stores the payload (else the identity).
    const REPLACES_PAYLOAD: bool;

    /// Plans to give back what a leaf's slot refers to.
    fn release<M: Medium>(step: &mut Step<'_, M>, slot: Slot) -> Result<(), Stop>;

    /// Prepares the bounds of a split of `left` between the slots `last` and `first`.
    fn prepare_cut<'p, M: Medium>(
        pool: &'p Pool<M>,
        left: Page<'_>,
        shape: Shape,
        last: Slot,
        first: Slot,
    ) -> Result<Self::PreparedCut<'p, M>>;

    /// The prefix of the right node of a split.
    fn cut_prefix<M: Medium>(prepared: &Self::PreparedCut<'_, M>) -> usize;

    /// The smallest key that belongs to the right node of a split.
    ///
    /// # Errors
    /// NoMemory.
    fn separator<M: Medium>(prepared: &Self::PreparedCut<'_, M>) -> Result<Self::Owned>;

    /// Plans the bounds of a split.
    fn plan_cut<'s, 'p: 's, M: Medium>(
        step: &mut Step<'s, M>,
        prepared: &'s Self::PreparedCut<'p, M>,
    ) -> Result<Self::CutPlan, Stop>;

    /// Writes the bounds of a split of `left`.
    fn write_cut<'s, 'p: 's, M: Medium>(
        step: &mut Step<'s, M>,
        op: &mut M::Op<'s>,
        left: Page<'_>,
        plan: &Self::CutPlan,
        prepared: &'s Self::PreparedCut<'p, M>,
    ) -> Cut;

    /// A slot as it must be in a node with another prefix. Reads the slot's record, so the caller
    /// must not hold record pages.
    fn reshape<M: Medium>(pool: &Pool<M>, slot: Slot, from: Shape, to: Shape) -> Result<Slot>;

    /// The shape and right-hand bounds of the node that `left` and its sibling `right` merge into.
    fn merged<M: Medium>(
        pool: &Pool<M>,
        left: Page<'_>,
        right: Page<'_>,
        shape: Shape,
    ) -> Result<(Shape, Bounds)>;

    /// Plans to give back the bound between two nodes that merge.
    fn release_bound<M: Medium>(
        step: &mut Step<'_, M>,
        left: Page<'_>,
        right: Page<'_>,
    ) -> Result<(), Stop>;
}
