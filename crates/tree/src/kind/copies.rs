//! Pairs of byte strings, copied out of a leaf into lists that are used again.

use everleaf_pmem::{Medium, Result};
use everleaf_pool::{Pool, StoredValue};

use super::keys::{NodeAt, NodeKeys};
use super::values::NodeValues;
use crate::node::Shape;
use crate::node::slotted::LeafCopy;

/// How pairs of byte strings come out of a leaf without memory of their own.
pub trait NodeCopies: NodeKeys<Key = [u8], Owned = Vec<u8>> + NodeValues<Value = Vec<u8>> {
    /// Copies the key of an entry of a leaf into a list, which is cleared before.
    ///
    /// # Errors
    /// Corrupt, I/O errors, NoMemory.
    fn key_into<M: Medium>(
        pool: &Pool<M>,
        shape: Shape,
        entry: Self::Entry<'_>,
        key: &mut Vec<u8>,
    ) -> Result<()>;

    /// Copies key and value of an entry of a leaf into lists, which are cleared before. Says whether the
    /// value is there: one in extents is left out, and so is one that cannot be read.
    ///
    /// # Errors
    /// As [`key_into`](Self::key_into), of the key.
    fn pair_into<M: Medium>(
        pool: &Pool<M>,
        shape: Shape,
        entry: Self::Entry<'_>,
        key: &mut Vec<u8>,
        value: &mut Vec<u8>,
    ) -> Result<bool>;

    /// Copies a whole leaf, if pairs lie in their leaf. Says whether it did. The reader validates afterwards.
    ///
    /// # Errors
    /// NoMemory.
    fn leaf_into(_: &NodeAt<'_, Self>, _: &mut LeafCopy) -> Result<bool> {
        Ok(false)
    }

    /// Copies the value of an entry of a leaf into a list, which is cleared before, or says what leads to
    /// it.
    ///
    /// # Errors
    /// As [`key_into`](Self::key_into).
    fn value_into<'p, M: Medium>(
        pool: &'p Pool<M>,
        shape: Shape,
        entry: Self::Entry<'_>,
        value: &mut Vec<u8>,
    ) -> Result<StoredValue<(), Self::Far<'p, M>>>;

    /// Reads a value that lies elsewhere into a list, which is cleared before. The caller holds no latch.
    ///
    /// # Errors
    /// As [`key_into`](Self::key_into).
    fn read_into<M: Medium>(far: &Self::Far<'_, M>, value: &mut Vec<u8>) -> Result<()>;

    /// Fills a buffer with bytes of the value of an entry of a leaf, from byte `from` of it on. Says how
    /// many that were, or what leads to them.
    ///
    /// # Errors
    /// As [`key_into`](Self::key_into).
    fn part_into<'p, M: Medium>(
        pool: &'p Pool<M>,
        shape: Shape,
        entry: Self::Entry<'_>,
        from: u64,
        buf: &mut [u8],
    ) -> Result<StoredValue<usize, Self::Far<'p, M>>>;

    /// As [`part_into`](Self::part_into), of a value that lies elsewhere. The caller holds no latch.
    ///
    /// # Errors
    /// As [`key_into`](Self::key_into).
    fn read_at<M: Medium>(far: &Self::Far<'_, M>, from: u64, buf: &mut [u8]) -> Result<usize>;

    /// Bytes of the value of an entry of a leaf.
    ///
    /// # Errors
    /// As [`key_into`](Self::key_into).
    fn value_bytes<M: Medium>(pool: &Pool<M>, shape: Shape, entry: Self::Entry<'_>) -> Result<u64>;
}
