//! The chain of leaves after a crash: it is walked from the first leaf on, and everything that is known of it in DRAM
//! is built anew.
//!
//! ```text
//! finish   what the logs say was interrupted
//! walk     each leaf: its lowest and greatest key; one without keys goes, unless it is the first
//! build    ranges in the frames, entries in the inner nodes
//! return   pages that the map calls nodes or logs and that nothing leads to: a crash has leaked them
//! ```

use everleaf_pmem::{Medium, Page, PageNo, Result};
use everleaf_pool::{Leaks, Pool, change::damaged, kind};

use crate::leaf::Leaf;
use crate::spine::{LeafRange, Spine, set_range};

/// A report of what a rebuild has found and done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Rebuilt {
    /// Leaves in the chain.
    pub leaves: u64,
    /// Splits and unlinkings that were finished.
    pub finished: u64,
    /// Leaves that were taken out of the chain.
    pub dropped: u64,
    /// Pages that had leaked and are free again.
    pub returned: u64,
}

/// The lowest and the greatest key of a leaf.
fn ends<L: Leaf>(page: Page<'_>) -> Option<(u64, u64)> {
    let mut ends: Option<(u64, u64)> = None;
    L::for_each(page, |key, _| {
        let (min, max) = ends.unwrap_or((key, key));
        ends = Some((min.min(key), max.max(key)));
    });
    ends
}

/// Walks the chain, mends its leaves and enters them. Nobody else uses the tree. O(size of the tree).
///
/// # Errors
/// Corrupt for a chain that no crash leaves, errors of the medium.
pub fn rebuild<M: Medium, L: Leaf>(
    pool: &Pool<M>,
    spine: &Spine,
    log: Option<PageNo>,
) -> Result<Rebuilt> {
    let (m, head, owners) = (pool.medium(), spine.head(), pool.map_bytes()?);
    let mut kept = vec![false; owners.len()];
    let mut chain: Vec<(Page<'_>, u64)> = Vec::new();
    let (mut next, mut greatest, mut dropped) = (head, None, 0);
    while next != 0 {
        let page = m.page(next)?;
        if owners.get(next as usize) != Some(&kind::NODE) || kept[next as usize] {
            if L::PUBLISHED {
                break;
            }
            return Err(damaged(page, 0, "the chain leads to no leaf, or twice to one"));
        }
        {
            let _held = page.latch().lock();
            L::mend(m, page);
        }
        (kept[next as usize], next) = (true, L::next(page));
        let ends = ends::<L>(page);
        let follows = ends.is_some_and(|(min, _)| greatest.is_none_or(|max| max < min));
        let Some((left, _)) = chain.last() else {
            chain.push((page, 0));
            greatest = ends.map(|(_, max)| max);
            continue;
        };
        match ends {
            Some((min, max)) if follows => {
                chain.push((page, min));
                greatest = Some(max);
            }
            Some((min, _)) if !L::PUBLISHED => {
                return Err(damaged(page, 0, format!("{min:#x} lies in a leaf further left")));
            }
            // No search would look here.
            _ => {
                let _held = left.latch().lock();
                L::set_next(m, *left, next);
                kept[page.no() as usize] = false;
                dropped += 1;
            }
        }
    }
    for (at, (page, low)) in chain.iter().enumerate() {
        let mut held = page.latch().lock();
        let high = chain.get(at + 1).map(|(_, low)| *low);
        set_range(*page, LeafRange { low: *low, high });
        held.set_ready();
        spine.enter(*low, page.no());
    }
    let is_named = |no: PageNo| kept[no as usize] || Some(no) == log;
    let returned = give_back(pool, &owners, is_named)?;
    Ok(Rebuilt { leaves: chain.len() as u64, finished: 0, dropped, returned })
}

/// Frees the nodes and logs that nothing names; says how many.
///
/// # Errors
/// Those of [`Pool::reclaim`].
pub fn give_back<M: Medium>(
    pool: &Pool<M>,
    owners: &[u8],
    is_named: impl Fn(PageNo) -> bool,
) -> Result<u64> {
    let lost = |wanted: u8| -> Vec<PageNo> {
        let pages = (0..).zip(owners).filter(|(_, owner)| **owner == wanted);
        pages.map(|(no, _)| no).filter(|no| !is_named(*no)).collect()
    };
    let leaks = Leaks { nodes: lost(kind::NODE), logs: lost(kind::LOG), ..Leaks::default() };
    pool.reclaim(&leaks)?;
    Ok((leaks.nodes.len() + leaks.logs.len()) as u64)
}
