//! Evening out: a full node gives entries to a neighbour instead of a split.

use everleaf_pmem::{Medium, Page, Result};
use everleaf_pool::Pool;

use super::merges::NodeMerges;
use super::splits::Asking;

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
