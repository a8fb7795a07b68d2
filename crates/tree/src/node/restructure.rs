//! How nodes are built, cut in two, merged, and evened out: a full node gives entries to a neighbour instead of a split.

use everleaf_pmem::{Medium, Page, PageNo, Result};
use everleaf_pool::{Pool, Step, Stop};

use crate::node::read::NodeBounds;
use crate::node::{Rank, Shape};

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
    /// The same, for who holds the child's latch.
    ///
    /// # Errors
    /// Corrupt.
    fn held_child<M: Medium>(
        pool: &Pool<M>,
        separator: &Self::Key,
        child: Page<'_>,
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

/// Whether and how two neighbours become one.
pub trait NodeMerges: NodeSplits {
    /// What was prepared for a merge before its step began.
    type PreparedMerge;

    /// Whether a removal that leaves a leaf so should look at the leaf's neighbours.
    fn is_sparse(page: Page<'_>, view: Self::View<'_>) -> bool;
    /// How much of a node is used, in a measure that is the same for all nodes of a tree.
    fn load(page: Page<'_>, view: Self::View<'_>) -> usize;
    /// Whether an inner node can take in one more child without a split.
    fn takes_another<M: Medium>(page: Page<'_>, shape: Shape, view: Self::View<'_>) -> bool;
    /// Whether two neighbours fit into one node. Reads beside writers, too.
    fn fit<M: Medium>(left: Page<'_>, right: Page<'_>, shape: Shape) -> bool;
    /// Reads and prepares all for a merge of `right` into `left`; none if they do not fit after all.
    fn prepare_merge<M: Medium>(
        pool: &Pool<M>,
        left: Page<'_>,
        right: Page<'_>,
        shape: Shape,
    ) -> Result<Option<Self::PreparedMerge>>;
    /// Plans to give back the bound between two nodes that merge.
    fn release_bound<M: Medium>(
        step: &mut Step<'_, M>,
        left: Page<'_>,
        right: Page<'_>,
    ) -> Result<(), Stop>;
    /// Makes `left` the node of both.
    fn merge<'m, M: Medium>(
        m: &'m M,
        op: &mut M::Op<'m>,
        left: Page<'_>,
        prepared: &mut Self::PreparedMerge,
        under_log: &mut UnderLog<'_>,
    );
}

/// Two neighbours under one parent, and the position of the right one's entry in it.
#[derive(Clone, Copy)]
pub struct Siblings<'m> {
    /// The left one.
    pub left: Page<'m>,
    /// The right one.
    pub right: Page<'m>,
    /// Their parent.
    pub parent: Page<'m>,
    /// Position of the right one's entry.
    pub entry: usize,
}

/// Whether and how entries go from a full node to a neighbour.
pub trait NodeEvens: NodeMerges {
    /// Whether nodes of this kind are ever evened out.
    const EVENS: bool;
    /// What goes where.
    type EvenPlan;

    /// Whether the entries of a full leaf came in ascending order up to the one that asks, so that a split
    /// which leaves the leaf full is better.
    fn is_run(page: Page<'_>, view: Self::View<'_>, asking: Asking) -> bool;
    /// Whether a neighbour may have room for some entries of a full node. Reads beside writers, too.
    fn may_take(neighbour: Page<'_>) -> bool;
    /// Plans to move entries so that the one that asks has room where it then belongs; `None` if that
    /// cannot be. All three pages are latched. `asks_left`: the full node is the left one.
    fn plan_even<M: Medium>(
        pool: &Pool<M>,
        siblings: &Siblings<'_>,
        asking: Asking,
        asks_left: bool,
        key: &Self::Key,
    ) -> Result<Option<Self::EvenPlan>>;
    /// Moves them.
    fn even<'m, M: Medium>(
        m: &'m M,
        op: &mut M::Op<'m>,
        siblings: &Siblings<'_>,
        plan: &mut Self::EvenPlan,
    );
}
