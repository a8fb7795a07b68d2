//! What the pool must be told about the layer above and the medium below, as functions.

use everleaf_pmem::{Change, Geometry, Medium, Page, PageNo, Result};

use crate::redo::redo;

/// Writes bytes into an extent: medium, first page, offset in bytes from there, the bytes.
pub type ExtentWrite<M> = fn(&M, PageNo, u64, &[u8]) -> Result<()>;
/// Reads bytes of an extent: medium, first page, offset in bytes from there, where to.
pub type ExtentRead<M> = fn(&M, PageNo, u64, &mut [u8]) -> Result<()>;

/// How a medium writes and reads extents, if it can.
#[derive(Debug)]
pub struct ExtentIo<M> {
    /// Writes. The bytes are written when it returns, and durable with the epoch of the step that
    /// follows.
    pub write: ExtentWrite<M>,
    /// Reads what was written.
    pub read: ExtentRead<M>,
}

impl<M> Clone for ExtentIo<M> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<M> Copy for ExtentIo<M> {}

/// What the pool must be told about the layer above and the medium below.
pub struct Hooks<M> {
    /// Redoes any change on any page: the tree's own, and the pool's by [`redo`](crate::redo()). One
    /// journal may hold changes of both kinds for a page, because a node can become a record page.
    pub redo: fn(&M, Page<'_>, Change<'_>) -> Result<()>,
    /// Finishes the first touch of a page, when its bytes are in memory and before readers come: it
    /// repairs a node and builds its search aid. The pool calls it under the latch, for pages of all
    /// kinds and also for the stale bytes of free pages.
    pub first_touch: fn(&M, Page<'_>) -> Result<()>,
    /// Extents, if the medium has them.
    pub extents: Option<ExtentIo<M>>,
    /// The last epoch that is durable; `u64::MAX` on media without epochs.
    pub durable: fn(&M) -> u64,
    /// The nodes that `first_touch` knows. A tree of other nodes must not be opened in this pool,
    /// because it would search by aids that nobody builds.
    pub nodes: &'static str,
    /// Whether those nodes can be in pages of that shape: some go round in the body of a page, and some
    /// take a whole one.
    pub fits: fn(Geometry) -> bool,
}

impl<M> Clone for Hooks<M> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<M> Copy for Hooks<M> {}

impl<M: Medium> Default for Hooks<M> {
    /// For a pool without trees, on a medium without extents and epochs.
    fn default() -> Self {
        let durable = |_: &M| u64::MAX;
        let (first_touch, fits) = (|_: &M, _: Page<'_>| Ok(()), |_| true);
        Self { redo, first_touch, extents: None, durable, nodes: "", fits }
    }
}
