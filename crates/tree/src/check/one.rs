//! Whether a tree has one node: what a walk beside writers cannot know of the nodes that it has not met.
//!
//! A node that gives its upper keys away after its left neighbour gave it some may lie wholly behind a walk
//! that was between the two, and is never met. Such a node has changed meanwhile; what no tree reaches does
//! not change.

use std::borrow::Borrow;

use everleaf_pmem::{Medium, PageNo, Result};

use crate::blink::{Blink, Seek};
use crate::node::Kind;

/// How often a node that others change is looked for.
const TRIES: u32 = 8;

impl<M: Medium, K: Kind> Blink<M, K> {
    /// Whether a search for the lower bound of a node leads to it. Also true of a node that others have
    /// changed again and again, so that nothing can be said. Costs a search.
    ///
    /// # Errors
    /// Corrupt pages; I/O errors.
    pub fn has_node(&self, no: PageNo) -> Result<bool> {
        let page = self.medium().page(no)?;
        for _ in 0..TRIES {
            let version = self.read_version(page)?;
            let Some(shape) = K::shape(page) else {
                if page.latch().validate(version) {
                    return Ok(false);
                }
                continue;
            };
            let low = K::low(self.pool(), page);
            if !page.latch().validate(version) {
                continue;
            }
            let low = low?.unwrap_or_else(K::lowest);
            let found = self.descend::<false>(Seek::At(low.borrow()), shape.level)?;
            if found.is_some_and(|found| found.page.no() == no) {
                return Ok(true);
            }
            // It was as it was read all the while, so the search would have come to it.
            if page.latch().validate(version) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
