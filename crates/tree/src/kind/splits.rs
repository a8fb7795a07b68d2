//! How nodes are built and cut in two.

use everleaf_pmem::{Medium, Page, PageNo, Result};
use everleaf_pool::{Pool, Step, Stop};

use super::bounds::NodeBounds;
use crate::keys::Rank;
use crate::node::Shape;

/// The entry for which a node has no room.
#[derive(Debug, Clone, Copy)]
pub struct Asking {
    /// Where its key is, or goes.
    pub rank: Rank,
    /// How many bytes it takes, with its slot.
    pub bytes: usize,
}

/// How full a node is, in units of its kind: slots, or bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeRoom {
    /// Units in use.
    pub load: usize,
    /// Units that there are.
    pub room: usize,
    /// Units that one more entry takes, at most.
    pub entry: usize,
    /// Units that a split sets free in each node, at least.
    pub gain: usize,
}

/// Runs a change of one node so that a crash on a medium without a journal leaves it as it was before
/// or whole; on other media it just runs it. Called once the right node of a split is built.
pub type UnderLog<'a> = dyn FnMut(&mut dyn FnMut()) + 'a;

/// How a node is built, gets entries for children, and is split.
pub trait NodeSplits: NodeBounds {
    /// Whether splits on a medium without a journal keep an undo log.
    const LOGGED: bool;
    /// What an entry says of a child.
    type Child: Copy;
    /// A new node, made before its step begins: it takes memory.
    type Built;
    /// An entry for a child, made before its step begins.
    type Entering<'a>;
    /// What was prepared for a split before its step began.
    type PreparedSplit<'p, M: Medium>;
    /// What a step has reserved for a split.
    type SplitPlan;
    /// Both nodes of a split, made before its step begins.
    type SplitReady;

    /// The separator of a new tree's two leaves; `None` if a new tree has one leaf.
    fn first_separator() -> Option<Self::Owned>;
    /// Makes an empty leaf, between the separator of a new tree, if it has one, and the end on its side;
    /// `right` is the separator and the sibling behind it.
    ///
    /// # Errors
    /// NoMemory.
    fn new_leaf<M: Medium>(
        pool: &Pool<M>,
        low: Option<&Self::Key>,
        right: Option<(&Self::Key, PageNo)>,
    ) -> Result<Self::Built>;
    /// Makes a root above two nodes and the separator between them.
    ///
    /// # Errors
    /// NoMemory.
    fn new_root<M: Medium>(
        pool: &Pool<M>,
        level: u8,
        below: (PageNo, &Self::Key, Self::Child),
    ) -> Result<Self::Built>;
    /// What an entry says of a child that begins at `separator`. May wait for the child's latch, so the
    /// caller holds its left neighbour's or none, and not its parent's.
    ///
    /// # Errors
    /// I/O errors, Corrupt.
    fn child_at<M: Medium>(
        pool: &Pool<M>,
        separator: &Self::Key,
        child: PageNo,
    ) -> Result<Self::Child>;
    /// Makes a page that nobody can reach the new node.
    fn build<'m, M: Medium>(m: &'m M, op: &mut M::Op<'m>, page: Page<'_>, built: &mut Self::Built);

    /// What an entry for a child at `separator` asks of an inner node; `None` if there is room for it.
    fn entry_wants<M: Medium>(
        page: Page<'_>,
        shape: Shape,
        view: Self::View<'_>,
        rank: Rank,
        separator: &Self::Key,
    ) -> Option<Asking>;
    /// Makes an entry for a child ready, for an inner node that has room for it.
    ///
    /// # Errors
    /// NoMemory, Corrupt.
    fn new_entry<'a>(
        page: Page<'_>,
        shape: Shape,
        view: Self::View<'_>,
        rank: Rank,
        entry: (&'a Self::Key, Self::Child),
    ) -> Result<Self::Entering<'a>>;
    /// Puts an entry for a child into an inner node.
    fn enter<'m, M: Medium>(
        m: &'m M,
        op: &mut M::Op<'m>,
        page: Page<'_>,
        shape: Shape,
        rank: Rank,
        entry: &mut Self::Entering<'_>,
    );

    /// How full a node on the way to `key` is, for who must know before the first of several puts that
    /// none of them will fail. `value_bytes` is the length of the value; inner nodes get separators.
    fn stage<M: Medium>(
        page: Page<'_>,
        shape: Shape,
        view: Self::View<'_>,
        key: &Self::Key,
        value_bytes: usize,
    ) -> NodeRoom;
    /// How many entries of a full node stay in it, at least one and not all.
    ///
    /// # Errors
    /// Corrupt.
    fn split_point(page: Page<'_>, view: Self::View<'_>, asking: Asking) -> Result<usize>;
    /// Reads and prepares all for a split of `left` after its first `keep` entries.
    fn prepare_split<'p, M: Medium>(
        pool: &'p Pool<M>,
        left: Page<'_>,
        shape: Shape,
        keep: usize,
    ) -> Result<Self::PreparedSplit<'p, M>>;
    /// The smallest key that belongs to the right node of a split.
    ///
    /// # Errors
    /// NoMemory.
    fn separator<M: Medium>(prepared: &Self::PreparedSplit<'_, M>) -> Result<Self::Owned>;
    /// Plans what the bounds of a split need beside the nodes.
    fn plan_split<'s, 'p: 's, M: Medium>(
        step: &mut Step<'s, M>,
        prepared: &'s Self::PreparedSplit<'p, M>,
    ) -> Result<Self::SplitPlan, Stop>;
    /// Makes both nodes ready, before the step begins; `right` is the page of the new one.
    ///
    /// # Errors
    /// NoMemory, Corrupt.
    fn ready_split<M: Medium>(
        left: Page<'_>,
        right: Page<'_>,
        plan: &Self::SplitPlan,
        prepared: &Self::PreparedSplit<'_, M>,
    ) -> Result<Self::SplitReady>;
    /// Splits the left node: builds the right one whole, and then cuts the left one by `under_log`.
    fn split<'s, 'p: 's, M: Medium>(
        step: &mut Step<'s, M>,
        op: &mut M::Op<'s>,
        nodes: (Page<'_>, Page<'_>),
        plan: &Self::SplitPlan,
        prepared: &'s Self::PreparedSplit<'p, M>,
        ready: &mut Self::SplitReady,
        under_log: &mut UnderLog<'_>,
    );
}
