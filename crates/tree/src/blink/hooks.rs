//! What a pool and its medium call for the pages of trees: redo of a noted change, the first touch, and
//! what of a page is kept on disk.

use std::ops::Range;

use everleaf_pmem::{Change, Medium, Page, Result};
use everleaf_pool::kind;

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

/// The bytes of a page that need not be kept on disk, or `None` if none of it needs to be kept: see
/// [`everleaf_pool::gap`].
pub fn gap<K: NodeChecks>(bytes: &[u8]) -> Option<Range<usize>> {
    match everleaf_pool::kind_word(bytes) {
        Some(word) if kind::kind_of(word) == kind::NODE => Some(K::gap(bytes)),
        _ => everleaf_pool::gap(bytes),
    }
}
