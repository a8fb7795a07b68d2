//! The bounds of a node.

use std::cmp::Ordering;

use everleaf_pmem::{Medium, Page, Result};
use everleaf_pool::Pool;

use super::keys::NodeKeys;
use crate::node::Shape;

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
