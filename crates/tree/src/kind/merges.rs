//! How two neighbours become one node.

use everleaf_pmem::{Medium, Page, Result};
use everleaf_pool::{Pool, Step, Stop};

use super::splits::{NodeSplits, UnderLog};
use crate::node::Shape;

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
