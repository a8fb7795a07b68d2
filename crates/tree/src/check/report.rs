//! What a check answers.

use std::collections::HashSet;

use everleaf_pmem::PageNo;
use everleaf_pool::{PageDamage, RecordRef};

/// What a tree holds, and what is wrong with it.
#[derive(Debug, Clone, Default)]
pub struct TreeReport {
    /// The page that names the tree in its pool.
    pub anchor: PageNo,
    /// Keys.
    pub entries: u64,
    /// Nodes of each level, the leaves first.
    pub nodes_by_level: Vec<u64>,
    /// Slots used of all slots in the leaves, 0 to 1.
    pub fill: f64,
    /// Bytes of all keys.
    pub key_bytes: u64,
    /// Bytes of all values.
    pub value_bytes: u64,
    /// Nodes that their parent has no entry for: a crash came between the two steps of a split.
    /// Searches find them, and the next writer that passes enters them.
    pub missing_entries: u64,
    /// What is wrong.
    pub damages: Vec<PageDamage>,
    /// The tree's nodes.
    pub pages: HashSet<PageNo>,
    /// The tree's log page, if it has one.
    pub log: Option<PageNo>,
    /// The records that the tree names: of its entries and of bounds.
    pub records: Vec<RecordRef>,
}

/// What memory here is for.
pub(crate) const CHECK: &str = "a check of a tree";
