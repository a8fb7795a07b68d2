//! Checking a tree: everything that its pages and records say is looked at, and nothing believed.
//!
//! Level by level from the root down, each from left to right by the sibling links. What must hold:
//! nodes are pages of nodes in the map and are met once; keys rise, lie within their node's bounds
//! and are named once; a node's lower bound is its left neighbour's upper one; each entry of a
//! parent names the node that begins at its separator; every record that is named can be read. A
//! node without an entry in its parent is no damage: a split that a crash interrupted, counted.
//!
//! Others may write meanwhile. Each node is read at one moment: version, read, validate. A link is
//! believed if the node that holds it is unchanged when the next one's version is known; else the walk
//! goes on with a search for the key that it has come to. What two nodes say of each other is damage
//! if both are as they were read.

use std::collections::HashSet;

use everleaf_pmem::{LINE_BYTES, Medium, PageNo, Result, fallible};
use everleaf_pool::{Leaks, Look, PageDamage, Pool, RecordRef, kind};

use crate::blink::Blink;
use crate::keys::Keys;
use crate::node::{Layout, Probe};
use crate::walk::Walk;

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

/// What is in use in a pool and named by none of `trees`; give it the reports of all trees of the
/// pool. On a journal that is nothing; on strict media each crash may leave a little.
/// O(pages + records).
///
/// # Errors
/// Corrupt map or record pages; I/O errors.
pub fn leaks<M: Medium>(pool: &Pool<M>, trees: &[TreeReport]) -> Result<Leaks> {
    let mut named = HashSet::new();
    for r in trees.iter().flat_map(|tree| &tree.records) {
        fallible::insert(&mut named, *r, CHECK)?;
    }
    let kinds = kinds(pool, trees)?;
    pool.leaks(|kind, no| kinds.get(no as usize) == Some(&kind), &named)
}

/// What trees call each page of the pool.
fn kinds<M: Medium>(pool: &Pool<M>, trees: &[TreeReport]) -> Result<Vec<u8>> {
    // By the page's number, so that a look costs the same however many trees there are.
    let mut kinds = fallible::filled(kind::FREE, pool.pages_in_groups() as usize, CHECK)?;
    let mut name = |no: PageNo, kind| {
        if let Some(place) = kinds.get_mut(no as usize) {
            *place = kind;
        }
    };
    for tree in trees {
        tree.pages.iter().for_each(|no| name(*no, kind::NODE));
        tree.log.iter().for_each(|no| name(*no, kind::LOG));
        name(tree.anchor, kind::ANCHOR);
    }
    Ok(kinds)
}

/// What is wrong between the pool and its trees, while others may write: records that are free, or
/// named twice; and, with `and_lost`, what is in use and named by none of `trees`. Give it the reports
/// of all trees of the pool, made after the look. O(pages + records).
///
/// # Errors
/// NoMemory.
pub fn compare<M: Medium>(
    pool: &Pool<M>,
    look: &Look<'_, M>,
    trees: &[TreeReport],
    and_lost: bool,
) -> Result<Vec<PageDamage>> {
    let kinds = kinds(pool, trees)?;
    let records = trees.iter().flat_map(|tree| tree.records.iter().copied());
    look.compare(|kind, no| kinds.get(no as usize) == Some(&kind), records, and_lost)
}

/// What is wrong with the records that `trees` name; give it the reports of all trees of the pool:
/// records that are free, and records that are named twice. O(records).
///
/// # Errors
/// Corrupt map or record pages; I/O errors.
pub fn misnamed<M: Medium>(pool: &Pool<M>, trees: &[TreeReport]) -> Result<Vec<PageDamage>> {
    let mut in_use = HashSet::new();
    for r in pool.records() {
        fallible::insert(&mut in_use, r?, CHECK)?;
    }
    let named = trees.iter().flat_map(|tree| tree.records.iter().copied());
    let damage = |r: RecordRef| PageDamage {
        page: r.page(),
        offset_bytes_in_page: LINE_BYTES + 16 * usize::from(r.unit()),
        what: "a record that a tree names is free, or is named twice".into(),
    };
    Ok(named.filter(|r| !in_use.remove(r)).map(damage).collect())
}

impl<M: Medium, L: Layout, P: Probe, K: Keys> Blink<M, L, P, K> {
    /// Looks at every node and record of the tree. Others may write meanwhile: what they change is
    /// seen before or after, and is no damage. Never panics and always ends, whatever the pages hold.
    /// O(size of the tree).
    ///
    /// # Errors
    /// I/O errors, and a map that cannot be read; damage is in the report.
    pub fn check(&self) -> Result<TreeReport> {
        self.check_in(&self.pool().map_bytes()?)
    }

    /// As [`check`](Self::check), with the [map](Pool::map_bytes) read already: who checks many trees
    /// reads it once. O(size of the tree).
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub fn check_in(&self, owners: &[u8]) -> Result<TreeReport> {
        Walk::run(self, owners)
    }
}
