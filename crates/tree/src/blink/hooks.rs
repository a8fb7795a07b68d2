//! What a pool calls for the pages of trees: redo of a noted change, and the first touch.

use everleaf_pmem::{Change, Medium, Page, Result};

use crate::damaged::damaged;
use crate::node::{Layout, Probe, Run, Shape, change};

/// Redoes one change of any kind: the tree's own or the pool's.
///
/// # Errors
/// Corrupt, if the change cannot have been made to this page.
pub fn redo<M: Medium, L: Layout>(m: &M, page: Page<'_>, change: Change<'_>) -> Result<()> {
    if change.tag < change::TAG_END {
        change::redo::<M, L>(m, page, change)
    } else {
        everleaf_pool::redo(m, page, change)
    }
}

/// Finishes the first touch of a page, under its latch: checks a node's header, finishes what a
/// crash left in it, builds its aid. Other pages need nothing.
///
/// # Errors
/// Corrupt, for a node that cannot be right.
pub fn first_touch<M: Medium, L: Layout, P: Probe>(m: &M, page: Page<'_>) -> Result<()> {
    debug_assert!(page.latch().is_held(), "the first touch of page {} is latched", page.no());
    if let Some(shape) = Shape::of(page) {
        let run = Run::of(page);
        // No crash leaves that, also where the count is not flushed with each change: a node is
        // flushed whole before anything names it, and each count stored later is within the node.
        if run.count > page.slots() {
            return Err(damaged(page, format!("count {} is above {}", run.count, page.slots())));
        }
        if !M::JOURNALED {
            L::recover(m, page, shape)?;
        }
        P::rebuild(page, Run::of(page), shape.key_word());
    }
    Ok(())
}
