//! What a pool calls for the pages of trees: redo of a noted change, and the first touch.

use everleaf_pmem::{Change, Medium, Page, Result};

use crate::kind::NodeChecks;
use crate::node::change;

/// Redoes one change of any kind: the tree's own or the pool's.
///
/// # Errors
/// Corrupt, if the change cannot have been made to this page.
pub fn redo<M: Medium, K: NodeChecks>(m: &M, page: Page<'_>, change: Change<'_>) -> Result<()> {
    if change.tag < change::TAG_END {
        K::redo(m, page, change)
    } else {
        everleaf_pool::redo(m, page, change)
    }
}

/// Finishes the first touch of a page, under its latch.
///
/// # Errors
/// Corrupt, for a node that cannot be right.
pub fn first_touch<M: Medium, K: NodeChecks>(m: &M, page: Page<'_>) -> Result<()> {
    K::first_touch(m, page)
}
