//! The keys of a node, in their order.

use std::borrow::Borrow;

use everleaf_pmem::{Medium, Page, PageNo, Result};
use everleaf_pool::Pool;

use crate::keys::Rank;
use crate::node::{Shape, Slot};

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
