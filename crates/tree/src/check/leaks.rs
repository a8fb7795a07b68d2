//! What trees name, held against what their pool says is in use.

use std::collections::HashSet;

use everleaf_pmem::{LINE_BYTES, Medium, PageNo, Result, fallible};
use everleaf_pool::{Leaks, Look, PageDamage, Pool, RecordRef, kind};

use crate::check::report::{CHECK, TreeReport};

/// What trees name of a pool, gathered tree by tree: one report after the other need not be kept.
#[derive(Debug, Default)]
pub struct NamedPages {
    /// By the page's number, so that a look costs the same however many trees there are: what a tree
    /// calls the page.
    kinds: Vec<u8>,
    records: Vec<RecordRef>,
}

impl NamedPages {
    /// Adds what a tree names. Costs O(what it names).
    ///
    /// # Errors
    /// NoMemory.
    pub fn add(&mut self, tree: &TreeReport) -> Result<()> {
        fallible::append(&mut self.records, &tree.records, CHECK)?;
        tree.pages.iter().try_for_each(|no| self.name(*no, kind::NODE))?;
        tree.log.iter().try_for_each(|no| self.name(*no, kind::LOG))?;
        self.name(tree.anchor, kind::ANCHOR)
    }

    fn of(trees: &[TreeReport]) -> Result<Self> {
        let mut named = Self::default();
        trees.iter().try_for_each(|tree| named.add(tree))?;
        Ok(named)
    }

    fn name(&mut self, no: PageNo, kind: u8) -> Result<()> {
        let no = no as usize;
        if let more @ 1.. = (no + 1).saturating_sub(self.kinds.len()) {
            fallible::more(&mut self.kinds, more, CHECK)?;
            self.kinds.resize(no + 1, kind::FREE);
        }
        self.kinds[no] = kind;
        Ok(())
    }

    /// Whether this is the anchor of one of the trees.
    pub fn has_anchor(&self, no: PageNo) -> bool {
        self.has(kind::ANCHOR, no)
    }

    fn has(&self, kind: u8, no: PageNo) -> bool {
        self.kinds.get(no as usize) == Some(&kind)
    }
}

/// Finds what is in use in a pool although none of `trees` names it. `trees` must be the reports of all
/// trees of the pool. With a journal there is no such leak; on strict media each crash may leave a
/// little. Costs O(pages + records).
///
/// # Errors
/// Corrupt map or record pages; I/O errors.
pub fn leaks<M: Medium>(pool: &Pool<M>, trees: &[TreeReport]) -> Result<Leaks> {
    let (named, mut records) = (NamedPages::of(trees)?, HashSet::new());
    for r in &named.records {
        fallible::insert(&mut records, *r, CHECK)?;
    }
    pool.leaks(|kind, no| named.has(kind, no), &records)
}

/// Compares a pool with its trees while others may write. It finds records that a tree names although
/// they are free, records that are named twice, and, with `and_lost`, what is in use although none of
/// the trees names it. `named` must be what all trees of the pool name, looked at after the look;
/// `has_node` says whether one of those trees has a node that no report names. Costs O(pages + records).
///
/// # Errors
/// NoMemory; those of `has_node`.
pub fn compare<M: Medium>(
    look: &Look<'_, M>,
    named: &NamedPages,
    has_node: impl Fn(PageNo) -> Result<bool>,
    and_lost: bool,
) -> Result<Vec<PageDamage>> {
    let is_named = |kind, no| named.has(kind, no);
    look.compare(is_named, named.records.iter().copied(), has_node, and_lost)
}

/// Finds records that `trees` name although they are free, and records that are named twice. `trees`
/// must be the reports of all trees of the pool. Costs O(records).
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
