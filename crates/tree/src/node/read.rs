//! What is read of a node: its keys in their order, its bounds, the values of leaves, and copies of whole pairs.

use std::borrow::Borrow;
use std::cmp::Ordering;

use everleaf_pmem::{Medium, Page, PageNo, Result};
use everleaf_pool::{Pool, RecordRef, StoredValue};

use crate::node::{Rank, Shape};
use crate::slots::Slot;
use crate::slotted::LeafCopy;

/// Which keys a node holds. What reads beside a writer answers anything, reads nothing outside the
/// page and does not panic; the reader validates afterwards.
pub trait NodeKeys: Send + Sync + Sized + 'static {
    /// A key to look for.
    type Key: ?Sized + Ord;
    /// A key that owns its bytes.
    type Owned: Borrow<Self::Key> + Clone + Ord + Send;
    /// What the header says of the entries, read once for several questions.
    type View<'m>: Copy;
    /// One entry.
    type Entry<'m>: Copy;

    /// Whether readers can go on beside a writer where stores have an order.
    const LOCK_FREE: bool;

    /// The smallest key of all.
    fn lowest() -> Self::Owned;
    /// Copies a key.
    ///
    /// # Errors
    /// NoMemory.
    fn own(key: &Self::Key) -> Result<Self::Owned>;
    /// How many bytes a key has.
    fn key_weight(key: &Self::Owned) -> usize;

    /// The shape of a page, if it is a node of this kind.
    fn shape(page: Page<'_>) -> Option<Shape>;
    /// Reads the header.
    fn view(page: Page<'_>) -> Self::View<'_>;
    /// Reads the header for a reader: cut to the page, as a race may show anything.
    fn reader_view(page: Page<'_>) -> Self::View<'_>;
    /// How many entries there are, as the header says.
    fn count(view: Self::View<'_>) -> usize;
    /// The entry at a position.
    fn entry<'m>(page: Page<'m>, view: Self::View<'m>, pos: usize) -> Self::Entry<'m>;
    /// Asks the processor for what a search in the node reads first.
    fn prefetch(page: Page<'_>);
    /// Asks the processor for all that a scan of the leaf reads.
    fn prefetch_whole(page: Page<'_>);

    /// Ranks a key that lies within the node's bounds.
    fn rank<M: Medium>(
        pool: &Pool<M>,
        page: Page<'_>,
        shape: Shape,
        view: Self::View<'_>,
        key: &Self::Key,
    ) -> Result<Rank>;

    /// What `read` makes of the entry of a key in a leaf, if there is one. An entry is large: who gave it
    /// back would move it about.
    #[inline(always)]
    fn find<'m, M: Medium, T>(
        pool: &Pool<M>,
        page: Page<'m>,
        shape: Shape,
        view: Self::View<'m>,
        key: &Self::Key,
        read: impl FnOnce(Self::Entry<'m>) -> Result<T>,
    ) -> Result<Option<T>> {
        let rank = Self::rank(pool, page, shape, view, key)?;
        if !rank.exact {
            return Ok(None);
        }
        read(Self::entry(page, view, rank.le - 1)).map(Some)
    }

    /// The key of an entry.
    fn key<M: Medium>(pool: &Pool<M>, shape: Shape, entry: Self::Entry<'_>) -> Result<Self::Owned>;

    /// The child of an entry of an inner node.
    fn child<M: Medium>(pool: &Pool<M>, entry: Self::Entry<'_>) -> Result<PageNo>;

    /// The number that orders a key, if one word orders all keys of this kind.
    fn order(_key: &Self::Key) -> Option<u64> {
        None
    }
    /// The key that a number orders.
    fn from_order(_order: u64) -> Option<Self::Owned> {
        None
    }
    /// The entry in a slot that was read beside a writer. Only asked where [`LOCK_FREE`](Self::LOCK_FREE).
    fn raced(slot: Slot) -> Self::Entry<'static>;
}

/// A node as its reader or writer has it: its page, its shape and its header.
pub struct NodeAt<'m, K: NodeKeys> {
    /// The page.
    pub page: Page<'m>,
    /// Its shape.
    pub shape: Shape,
    /// Its header.
    pub view: K::View<'m>,
}

/// Between which keys a node lies.
pub trait NodeBounds: NodeKeys {
    /// Whether the prefix of a node holds only for keys within its bounds, so that no search may come to
    /// a node for a key beyond them.
    const PREFIXED: bool;

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
}

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
