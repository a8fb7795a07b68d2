//! How keys are ordered, and how a node's slots say which keys they hold.

use std::borrow::Borrow;

use everleaf_pmem::{Medium, Page, PageNo, Result};
use everleaf_pool::Pool;

use crate::node::{Probe, Run, Shape, Slot};

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
        debug_assert!(self.le > 0 || !self.exact, "an exact rank counts the slot of its key");
        self.le - usize::from(self.exact)
    }
}

/// The order of keys, and the keys of slots.
pub trait KeyOrder: Send + Sync + Sized + 'static {
    /// A key to look for.
    type Key: ?Sized + Ord;
    /// A key that owns its bytes.
    type Owned: Borrow<Self::Key> + Clone + Ord + Send;
    /// Whether nodes say that their keys are byte strings.
    const BYTES: bool;

    /// The smallest key of all.
    fn lowest() -> Self::Owned;

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

    /// The number that orders a key, if one word orders all keys of this kind.
    fn order(_key: &Self::Key) -> Option<u64> {
        None
    }

    /// The key that a number orders.
    fn from_order(_order: u64) -> Option<Self::Owned> {
        None
    }

    /// The key of a slot.
    fn key<M: Medium>(pool: &Pool<M>, shape: Shape, slot: Slot) -> Result<Self::Owned>;

    /// Copies a key.
    ///
    /// # Errors
    /// NoMemory.
    fn own(key: &Self::Key) -> Result<Self::Owned>;

    /// How many bytes a key has.
    fn key_weight(key: &Self::Owned) -> usize;

    /// The child of an inner node's slot.
    fn child<M: Medium>(pool: &Pool<M>, slot: Slot) -> Result<PageNo>;

    /// The slot of an inner node. It owns no record: the separator is the child's lower bound.
    fn entry(shape: Shape, separator: &Self::Key, child: PageNo) -> Slot;
}
