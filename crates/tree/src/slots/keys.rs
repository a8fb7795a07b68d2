//! How the words of slots stand for keys and values.
//!
//! One trait asks how keys are ordered and which keys a node's slots hold; others ask for the bounds of nodes, what a
//! split puts between two of them and what a merge takes away, for values, for what a step writes beside the node, and
//! for what a check wants to know.

use std::cmp::Ordering;

use everleaf_pmem::{Medium, Page, PageNo, Result};
use everleaf_pool::{Pool, RecordRef, Step, Stop, StoredValue};

use crate::node::{FarValue, Rank, RightBounds, Run, Shape, TreeKey, TreeValue};
use crate::slots::{Probe, Slot};

/// A key that owns its bytes.
pub type OwnedOf<K> = <<K as KeyOrder>::Key as TreeKey>::Owned;

/// The order of keys, and the keys of slots.
pub trait KeyOrder: Send + Sync + Sized + 'static {
    /// A key to look for.
    type Key: ?Sized + TreeKey;
    /// Whether nodes say that their keys are byte strings.
    const BYTES: bool;

    /// Ranks a key in a node. Under a race the answer may be anything; the reader validates.
    fn rank<M: Medium, P: Probe>(
        pool: &Pool<M>,
        page: Page<'_>,
        shape: Shape,
        run: Run,
        key: &Self::Key,
    ) -> Result<Rank>;

    /// The slot of a key in a leaf. Under a race it behaves like [`rank`](Self::rank).
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

    /// The key of a slot.
    fn key<M: Medium>(pool: &Pool<M>, shape: Shape, slot: Slot) -> Result<OwnedOf<Self>>;

    /// The key of a slot, into one whose memory is used again.
    #[inline(always)]
    fn key_into<M: Medium>(
        pool: &Pool<M>,
        shape: Shape,
        slot: Slot,
        key: &mut OwnedOf<Self>,
    ) -> Result<()> {
        *key = Self::key(pool, shape, slot)?;
        Ok(())
    }

    /// The child of an inner node's slot.
    fn child<M: Medium>(pool: &Pool<M>, slot: Slot) -> Result<PageNo>;

    /// The slot of an inner node. It owns no record: the separator is the child's lower bound.
    fn entry(shape: Shape, separator: &Self::Key, child: PageNo) -> Slot;
}

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
    fn low<M: Medium>(pool: &Pool<M>, page: Page<'_>) -> Result<Option<OwnedOf<Self>>>;

    /// The upper bound of a node that has a sibling.
    fn high<M: Medium>(pool: &Pool<M>, page: Page<'_>) -> Result<OwnedOf<Self>>;

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
    /// The preparations of a split, made before its step began.
    type PreparedSplit<'p, M: Medium>;
    /// A step's reservations for a split.
    type SplitPlan;
    /// The separator of a new tree's two leaves; `None` if a new tree has one leaf.
    const FIRST_SEPARATOR: Option<u64>;

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
    fn separator<M: Medium>(prepared: &Self::PreparedSplit<'_, M>) -> Result<OwnedOf<Self>>;

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

/// The values that leaves' slots lead to.
pub trait Values: KeyOrder {
    /// A value that was found.
    type Value: TreeValue;
    /// A reference to a value that lies elsewhere.
    type Far<'p, M: Medium>: FarValue<Value = Self::Value>;

    /// The value of a leaf's slot, or what leads to it. Under a race it behaves like
    /// [`rank`](KeyOrder::rank).
    fn found<M: Medium>(
        pool: &Pool<M>,
        slot: Slot,
    ) -> Result<StoredValue<Self::Value, Self::Far<'_, M>>>;

    /// The key of a leaf's slot, and its value as [`found`](Self::found) has it.
    #[inline]
    #[allow(clippy::type_complexity)]
    fn pair<M: Medium>(
        pool: &Pool<M>,
        shape: Shape,
        slot: Slot,
    ) -> Result<(OwnedOf<Self>, StoredValue<Self::Value, Self::Far<'_, M>>)> {
        Ok((Self::key(pool, shape, slot)?, Self::found(pool, slot)?))
    }
}

/// The writes of a step for a pair, beside the leaf. The calls come in this order: `prepare`,
/// then `plain_slot`, or `plan` and `write` in a step.
pub trait ValueWrites: Values {
    /// A value to store.
    type Input: ?Sized;
    /// The preparations of an insert, written before its step began (large values). They are given back unless
    /// the step uses them.
    type Prepared<'p, M: Medium>;
    /// A step's reservations for a slot.
    type Plan;
    /// Whether replacing a value stores the payload; otherwise it stores the identity.
    const REPLACES_PAYLOAD: bool;
    /// Whether slots need no records, so that a put changes one node alone.
    const PLAIN: bool;

    /// Checks the limits of a pair, and writes what is too large for a step, ahead of it.
    fn prepare<'p, M: Medium>(
        pool: &'p Pool<M>,
        key: &Self::Key,
        value: &Self::Input,
    ) -> Result<Self::Prepared<'p, M>>;

    /// The leaf's slot, if this kind of keys is [plain](Self::PLAIN).
    fn plain_slot(key: &Self::Key, value: &Self::Input) -> Option<Slot>;

    /// Plans a slot for what was prepared, and plans to give back what the slot that it replaces
    /// refers to.
    fn plan<'s, 'p: 's, M: Medium>(
        step: &mut Step<'s, M>,
        prepared: &'s Self::Prepared<'p, M>,
        replaced: Option<Slot>,
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

    /// Plans to give back what a leaf's slot refers to.
    fn release<M: Medium>(step: &mut Step<'_, M>, slot: Slot) -> Result<(), Stop>;
}

/// Whether the words and the records of a node fit its keys.
pub trait Inspect: KeyOrder {
    /// The record that a slot refers to, if this kind of keys has records.
    fn record(shape: Shape, slot: Slot) -> Option<RecordRef>;

    /// The records of a node's bounds.
    fn bound_records(page: Page<'_>) -> [Option<RecordRef>; 2];

    /// Whether a slot's words are the ones that its key asks for.
    fn slot_fits(shape: Shape, slot: Slot, key: &OwnedOf<Self>) -> bool;

    /// Whether a node's prefix and upper bound are the ones that its bounds ask for.
    fn bounds_fit(
        page: Page<'_>,
        shape: Shape,
        low: &OwnedOf<Self>,
        high: Option<&OwnedOf<Self>>,
    ) -> bool;
}
