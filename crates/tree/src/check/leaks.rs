//! What trees name, held against what their pool says is in use.

use std::collections::HashSet;

use everleaf_pmem::{LINE_BYTES, Medium, PageNo, Result, fallible};
use everleaf_pool::{Leaks, Look, PageDamage, Pool, RecordRef, kind};

use super::report::{CHECK, TreeReport};

/// Finds what is in use in a pool although none of `trees` names it. `trees` must be the reports of all
/// trees of the pool. With a journal there is no such leak; on strict media each crash may leave a
/// little. Costs O(pages + records).
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

/// Compares a pool with its trees while others may write. It finds records that a tree names although
/// they are free, records that are named twice, and, with `and_lost`, what is in use although none of
/// `trees` names it. `trees` must be the reports of all trees of the pool, made after the look; `has_node`
/// says whether one of those trees has a node that no report names. Costs O(pages + records).
///
/// # Errors
/// NoMemory; those of `has_node`.
pub fn compare<M: Medium>(
    pool: &Pool<M>,
    look: &Look<'_, M>,
    trees: &[TreeReport],
    has_node: impl Fn(PageNo) -> Result<bool>,
    and_lost: bool,
) -> Result<Vec<PageDamage>> {
    let kinds = kinds(pool, trees)?;
    let records = trees.iter().flat_map(|tree| tree.records.iter().copied());
    let is_named = |kind, no| kinds.get(no as usize) == Some(&kind);
    look.compare(is_named, records, has_node, and_lost)
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
