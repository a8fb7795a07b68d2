//! Everything that the pool must be told about the layer above and the medium below, as functions.

use everleaf_pmem::{Change, Geometry, Medium, PAIRS_AHEAD, Page, PageNo, Result, SharedPair};

use crate::redo::redo;

/// Writes bytes into an extent: medium, first page, offset in bytes from there, the bytes.
pub type ExtentWrite<M> = fn(&M, PageNo, u64, &[u8]) -> Result<()>;
/// Reads bytes of an extent: medium, first page, offset in bytes from there, where to.
pub type ExtentRead<M> = fn(&M, PageNo, u64, &mut [u8]) -> Result<()>;
/// Adopts or frees an extent in a running step: medium, step, first page, number of pages.
pub type ExtentStep<M> = fn(&M, &mut <M as Medium>::Op<'_>, PageNo, u32);
/// Releases or discards an extent outside of steps: medium, first page, number of pages.
pub type ExtentDiscard<M> = fn(&M, PageNo, u32);

/// How a medium writes and reads extents, if it can.
///
/// An extent is written piece by piece, and then either one step adopts it or it is discarded. An
/// adopted extent is forgotten by one later step.
#[derive(Debug)]
pub struct ExtentIo<M: Medium> {
    /// Writes. The bytes are written when it returns, and durable with the epoch of the step that
    /// adopts them. The offset is a multiple of a page's bytes, and each page is written at once: only
    /// the last page of what an extent holds may get fewer bytes.
    pub write: ExtentWrite<M>,
    /// Reads what was written.
    pub read: ExtentRead<M>,
    /// Keeps what was written and read in memory, if the medium does.
    pub kept: Option<KeptExtents<M>>,
    /// Longer values go to extents also if they would fit a record, on pages of that shape.
    pub most: fn(Geometry) -> usize,
    /// A step makes an extent that was written part of the pool. It cannot fail. It may note 27 bytes
    /// and 16 of each page: [`Step::enter`](crate::Step::enter) has asked for that room, in small
    /// changes of 64 bytes.
    pub adopt: ExtentStep<M>,
    /// A step frees an extent. Its readers go on.
    pub forget: ExtentStep<M>,
    /// An extent that a step has freed is durably free, and nobody reads it any more.
    pub release: ExtentDiscard<M>,
    /// An extent that was reserved, and perhaps written, is given up before any step adopted it.
    pub discard: ExtentDiscard<M>,
}

/// How a medium keeps large pairs in memory: what is in extents of each, a long key and the value, under
/// the name of its record.
#[derive(Debug)]
#[allow(clippy::type_complexity)]
pub struct KeptExtents<M: Medium> {
    /// Lends what was kept of the pair of a record, if it is there. A caller that has the name from a leaf that others
    /// change validates the leaf after it.
    pub lend: fn(&M, u64) -> Option<SharedPair>,
    /// Asks the processor for what will be lent next of some records, or for where it is looked for if not next. 0 is no
    /// record.
    pub prefetch: fn(&M, &[u64; PAIRS_AHEAD], bool),
    /// Draws the ticket that `keep` asks for from a reader: before it finds the record's page unchanged.
    pub ticket: fn(&M, u64) -> u64,
    /// Copies a long key and a value, if there is room for them.
    pub copy: fn(&M, [&[u8]; 2]) -> Option<SharedPair>,
    /// Keeps a copy, unless a record was freed since the ticket was drawn.
    pub keep: fn(&M, u64, Option<u64>, SharedPair),
    /// A record is freed: its name may be another one's from now on.
    pub forget: fn(&M, u64),
}

impl<M: Medium> Clone for KeptExtents<M> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<M: Medium> Copy for KeptExtents<M> {}

impl<M: Medium> ExtentIo<M> {
    /// For a medium that keeps the bytes of an extent at the places of its pages, and so need not know
    /// which extents there are.
    pub const fn in_place(write: ExtentWrite<M>, read: ExtentRead<M>) -> Self {
        let (adopt, forget) =
            (|_: &M, _: &mut M::Op<'_>, _, _| (), |_: &M, _: &mut M::Op<'_>, _, _| ());
        let (release, discard) = (|_: &M, _, _| (), |_: &M, _, _| ());
        let (kept, most) = (None, |_| usize::MAX);
        Self { write, read, kept, most, adopt, forget, release, discard }
    }
}

impl<M: Medium> Clone for ExtentIo<M> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<M: Medium> Copy for ExtentIo<M> {}

/// Everything that the pool must be told about the layer above and the medium below.
pub struct Hooks<M: Medium> {
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

impl<M: Medium> Clone for Hooks<M> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<M: Medium> Copy for Hooks<M> {}

impl<M: Medium> Default for Hooks<M> {
    /// For a pool without trees, on a medium without extents and epochs.
    fn default() -> Self {
        let durable = |_: &M| u64::MAX;
        let (first_touch, fits) = (|_: &M, _: Page<'_>| Ok(()), |_| true);
        Self { redo, first_touch, extents: None, durable, nodes: "", fits }
    }
}
