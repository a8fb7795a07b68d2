//! The values that the entries of leaves lead to.

use everleaf_pmem::{Medium, Result};
use everleaf_pool::{Pool, RecordRef, StoredValue};

use super::keys::NodeKeys;
use crate::node::Shape;

/// Which value an entry of a leaf has.
pub trait NodeValues: NodeKeys {
    /// A value that was found.
    type Value: Send;
    /// What leads to a value that is read after its leaf has been left alone. Two equal ones lead to
    /// the same value for as long as both exist.
    type Far<'p, M: Medium>: PartialEq;

    /// The value of an entry, or what leads to it.
    fn found<'p, M: Medium>(
        pool: &'p Pool<M>,
        entry: Self::Entry<'_>,
    ) -> Result<StoredValue<Self::Value, Self::Far<'p, M>>>;

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

    /// The value of an entry. A large one is read at once.
    fn value<M: Medium>(pool: &Pool<M>, entry: Self::Entry<'_>) -> Result<Self::Value> {
        Self::settled(Self::found(pool, entry)?)
    }

    /// The key of an entry, and its value as [`found`](Self::found) has it.
    #[inline]
    #[allow(clippy::type_complexity)]
    fn pair<'p, M: Medium>(
        pool: &'p Pool<M>,
        shape: Shape,
        entry: Self::Entry<'_>,
    ) -> Result<(Self::Owned, StoredValue<Self::Value, Self::Far<'p, M>>)> {
        Ok((Self::key(pool, shape, entry)?, Self::found(pool, entry)?))
    }

    /// About how many bytes a value takes in memory.
    fn weight(value: &Self::Value) -> usize;

    /// Like [`weight`](Self::weight), for a value that has not been read yet.
    fn far_weight<M: Medium>(far: &Self::Far<'_, M>) -> usize;

    /// The record that an entry refers to, if it refers to one.
    fn record(shape: Shape, entry: Self::Entry<'_>) -> Option<RecordRef>;
}
