//! A tree in DRAM that leads to every pair.

use std::sync::Arc;

use everleaf_pmem::{Dram, Geometry, PageNo, Result};
use everleaf_pool::CATALOG_ANCHOR;
use everleaf_tree::CircTree;

/// Slots of its nodes.
const SLOTS: u32 = 32;

/// An empty tree with room for so many entries.
///
/// # Errors
/// Those of memory that cannot be reserved.
pub(crate) fn tree(entries: u64) -> Result<CircTree<Dram>> {
    let geometry = Geometry::new(SLOTS).expect("a power of two");
    // Leaves may be less than half full in the end, and there are inner nodes.
    let nodes = entries * 3 / u64::from(SLOTS) + 64;
    let memory = Dram::new(geometry, nodes.min(u64::from(PageNo::MAX)) as PageNo)?;
    CircTree::create(Arc::new(CircTree::format_pool(memory)?), CATALOG_ANCHOR)
}
