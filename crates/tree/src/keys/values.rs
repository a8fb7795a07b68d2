//! Values: how a reader gets one, and what a step writes for one beside the node.

use everleaf_pmem::{Medium, Result};
use everleaf_pool::{Pool, Step, Stop, StoredValue};

use super::order::KeyOrder;
use crate::node::{Shape, Slot};

/// The values that leaves' slots lead to.
pub trait Values: KeyOrder {
    /// A value that was found.
    type Value: Send;
    /// What leads to a value that is read after its leaf has been left alone. Two equal ones lead to
    /// the same value for as long as both exist.
    type Far<'p, M: Medium>: PartialEq;

    /// The value of a leaf's slot, or what leads to it. Under a race it behaves like
    /// [`rank`](KeyOrder::rank).
    fn found<M: Medium>(
        pool: &Pool<M>,
        slot: Slot,
    ) -> Result<StoredValue<Self::Value, Self::Far<'_, M>>>;

    /// Reads a value that lies elsewhere. The caller holds no latch.
    fn read<M: Medium>(far: &Self::Far<'_, M>) -> Result<Self::Value>;

    /// The value that was found.
    #[inline(always)]
    fn settled<M: Medium>(
        found: StoredValue<Self::Value, Self::Far<'_, M>>,
    ) -> Result<Self::Value> {
        match found {
            StoredValue::Inline(value) => Ok(value),
            StoredValue::External(far) => Self::read(&far),
        }
    }

    /// The value of a leaf's slot. A large one is read at once.
    fn value<M: Medium>(pool: &Pool<M>, slot: Slot) -> Result<Self::Value> {
        Self::settled(Self::found(pool, slot)?)
    }

    /// The key of a leaf's slot, and its value as [`found`](Self::found) has it.
    #[inline]
    #[allow(clippy::type_complexity)]
    fn pair<M: Medium>(
        pool: &Pool<M>,
        shape: Shape,
        slot: Slot,
    ) -> Result<(Self::Owned, StoredValue<Self::Value, Self::Far<'_, M>>)> {
        Ok((Self::key(pool, shape, slot)?, Self::found(pool, slot)?))
    }

    /// About how many bytes a value takes in memory.
    fn weight(value: &Self::Value) -> usize;

    /// Like [`weight`](Self::weight), for a value that has not been read yet.
    fn far_weight<M: Medium>(far: &Self::Far<'_, M>) -> usize;
}

/// What a step writes for a pair, beside the leaf. The calls come in this order: `check`,
/// `prepare`, then `plain_slot`, or `plan` and `write` in a step.
pub trait ValueWrites: Values {
    /// A value to store.
    type Input: ?Sized;
    /// What was written for an insert before its step began (large values). It is given back unless
    /// the step uses it.
    type Prepared<'p, M: Medium>;
    /// What a step has reserved for a slot.
    type Plan;
    /// Whether replacing a value stores the payload; otherwise it stores the identity.
    const REPLACES_PAYLOAD: bool;
    /// Whether slots need no records, so that a put changes one node alone.
    const PLAIN: bool;

    /// Checks the limits of a key and a value.
    ///
    /// # Errors
    /// KeyTooLong, ValueTooLong: each names the limit.
    fn check(key: &Self::Key, value: Option<&Self::Input>) -> Result<()>;

    /// Writes what is too large for a step, ahead of it.
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
