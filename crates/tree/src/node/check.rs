//! What a check, a first touch and a redo ask of a node.

use std::ops::Range;

use everleaf_pmem::{Change, Geometry, Medium, Page, Result};
use everleaf_pool::RecordRef;

use crate::node::Shape;
use crate::node::read::NodeValues;

/// An entry as a check meets it.
pub struct EntryView<'m, K: NodeValues> {
    /// Byte of the page where it is.
    pub offset: usize,
    /// A number that no other entry of the node has; `None` if the kind has no such rule.
    pub identity: Option<u64>,
    /// The entry.
    pub entry: K::Entry<'m>,
}

/// Whether a node is sound, and how it becomes so.
pub trait NodeChecks: NodeValues {
    /// The name of these nodes, which a pool remembers while it is open. Trees of one name may be in
    /// one pool.
    fn nodes() -> &'static str;
    /// The number that a pool on a file or on persistent memory remembers for these nodes.
    const HASH: u64;
    /// Their name for people.
    const NAME: &'static str;

    /// Whether these nodes can be in pages of that shape.
    fn fits(geometry: Geometry) -> bool;
    /// Refuses media on which these nodes do not survive a crash.
    ///
    /// # Errors
    /// Unsupported.
    fn check_medium<M: Medium>() -> Result<()>;
    /// Redoes one change of such a node.
    ///
    /// # Errors
    /// Corrupt, if the change cannot have been made to this page.
    fn redo<M: Medium>(m: &M, page: Page<'_>, change: Change<'_>) -> Result<()>;
    /// Finishes the first touch of a page, under its latch: checks a node's header, finishes what a
    /// crash left in it, builds its aid. Other pages need nothing.
    ///
    /// # Errors
    /// Corrupt, for a node that cannot be right.
    fn first_touch<M: Medium>(m: &M, page: Page<'_>) -> Result<()>;

    /// The bytes of a node's page that need not be kept on disk: with zeros there it is the same node, to
    /// redo, too. They are behind the header. The page may be damaged.
    fn gap(bytes: &[u8]) -> Range<usize> {
        everleaf_pool::zeros_at_end(bytes)
    }

    /// What is wrong with the node apart from its keys, if anything: the place in the page, and why.
    fn flaw(page: Page<'_>, shape: Shape) -> Option<(usize, String)>;
    /// The entry at a position, for a check.
    fn look<'m>(page: Page<'m>, view: Self::View<'m>, pos: usize) -> EntryView<'m, Self>;
    /// Whether an entry's words are the ones that its key asks for.
    fn entry_fits(shape: Shape, entry: Self::Entry<'_>, key: &Self::Owned) -> bool;
    /// Whether a node's prefix and upper bound are the ones that its bounds ask for.
    fn bounds_fit(
        page: Page<'_>,
        shape: Shape,
        low: &Self::Owned,
        high: Option<&Self::Owned>,
    ) -> bool;
    /// The records of a node's bounds.
    fn bound_records(page: Page<'_>) -> [Option<RecordRef>; 2];
    /// How much of a leaf is used, and how much there is.
    fn fill(page: Page<'_>, view: Self::View<'_>) -> (usize, usize);
}
