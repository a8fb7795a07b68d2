//! What a pool holds, counted, and what is wrong with it.

use std::fmt;

/// Counts of a pool at one moment.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Stats {
    /// The trees in bytewise order of their names.
    pub trees: Vec<TreeStats>,
    /// Pages by what they hold; free ones are left out.
    pub pages: Vec<PageCount>,
    /// Bytes of a page.
    pub page_bytes: u32,
    /// Bytes of a node.
    pub node_bytes: u32,
    /// Length of the data file in bytes.
    pub file_bytes: u64,
    /// Length of the journal in bytes; 0 after a clean close.
    pub journal_bytes: u64,
    /// The current epoch.
    pub epoch: u64,
    /// The last epoch that is on disk.
    pub durable_epoch: u64,
    /// How many opens have written to the pool.
    pub open_generation: u64,
    /// The pool's own identity, random from its creation.
    pub uuid: [u8; 16],
}

/// Counts of one tree.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TreeStats {
    /// The tree's name.
    pub name: String,
    /// How many keys it holds.
    pub entries: u64,
    /// Levels from the root to a leaf; 1 for a tree that is a single leaf.
    pub depth: u32,
    /// Nodes of each level, the leaves first.
    pub nodes_by_level: Vec<u64>,
    /// Slots used of all slots in the leaves, 0 to 1.
    pub fill: f64,
    /// Bytes of all keys.
    pub key_bytes: u64,
    /// Bytes of all values.
    pub value_bytes: u64,
}

/// How many pages hold one kind of thing.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageCount {
    /// What the pages hold, one word.
    pub kind: &'static str,
    /// How many there are.
    pub pages: u64,
}

/// One thing that is wrong with a pool.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// Which file: `data`, `journal 0` or `journal 1`.
    pub file: &'static str,
    /// Where, in bytes from the start of that file.
    pub offset: u64,
    /// What was expected and what was found.
    pub what: String,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}: {}", self.file, self.offset, self.what)
    }
}
