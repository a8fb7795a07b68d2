//! Checking a tree: every leaf is looked at, and nothing believed.
//!
//! Along the chain: pages that the map calls nodes, each met once; ranges that follow from one
//! another; each visible key within its leaf's range and visible once; fingerprints that are those of
//! the keys; no epoch that has not begun. And from the inner nodes: each entry leads to a leaf that
//! begins with its key.

use std::collections::HashSet;

use everleaf_pmem::{Medium, Page, PageNo, Result};
use everleaf_pool::{PageDamage, kind};

use crate::hybrid::epoch_bitmap::{
    epoch_of, is_leaf, key_of, ones, print_for, print_of, sibling, usable,
};
use crate::hybrid::frame::{LeafRange, range};
use crate::hybrid::tree::Hybrid;
use crate::index::Index;

/// The contents of a tree, and its damage.
#[derive(Debug, Clone, Default)]
pub struct HybridReport {
    /// Keys.
    pub entries: u64,
    /// Slots that one of the three last epochs shows: entries and what a crash may bring back.
    pub instances: u64,
    /// Leaves in the chain.
    pub leaves: u64,
    /// Leaves that show nothing now.
    pub empty_leaves: u64,
    /// Leaves without an entry in the inner nodes. A search finds them by a move to the right.
    pub missing_entries: u64,
    /// All damage that was found.
    pub damages: Vec<PageDamage>,
    /// Pages that the map calls nodes, but that are not in the chain. A crash has leaked them, and the
    /// next rebuild returns them.
    pub leaked: Vec<PageNo>,
}

impl<M: Medium> Hybrid<M> {
    /// Looks at every leaf. Nobody may write meanwhile. It always ends, whatever the pages hold.
    /// O(size of the tree).
    ///
    /// # Errors
    /// Errors of a map that cannot be read; damage is in the report.
    pub fn check(&self) -> Result<HybridReport> {
        let owners = self.pool().map_bytes()?;
        let mut report = HybridReport::default();
        let mut met = HashSet::new();
        let (mut next, mut low) = (Some(self.head), Some(0));
        while let Some(no) = next {
            if owners.get(no as usize) != Some(&kind::NODE) || !met.insert(no) {
                report.damage(no, 0, "the chain leads to a page that is no leaf, or is met twice");
                break;
            }
            let page = self.medium().page(no)?;
            let Some(own) = range(page).filter(|_| is_leaf(page)) else {
                report.damage(no, 0, "a leaf of the chain that is not in use");
                break;
            };
            if Some(own.low) != low {
                report.damage(no, 0, format!("begins at {:#x} and not at {low:#x?}", own.low));
            }
            self.check_leaf(page, own, &mut report);
            (next, low) = (sibling(page), own.high);
        }
        if let (None, Some(low)) = (next, low) {
            report.damage(self.head, 0, format!("no leaf is for the keys from {low:#x} on"));
        }
        let nodes = (0..).zip(&owners).filter(|(_, owner)| **owner == kind::NODE);
        report.leaked = nodes.map(|(no, _)| no).filter(|no| !met.contains(no)).collect();
        self.check_inner(&met, &mut report)?;
        Ok(report)
    }

    fn check_leaf(&self, page: Page<'_>, own: LeafRange, report: &mut HybridReport) {
        let (no, clock) = (page.no(), self.medium().clock());
        if epoch_of(page) > clock {
            report.damage(no, 0, format!("epoch {} has not begun", epoch_of(page)));
        }
        let views = self.views(page, clock);
        let mut keys = HashSet::new();
        for slot in ones(views.occupied() & usable(page.slots())) {
            let key = key_of(page, slot);
            let at = 64 + 16 * slot;
            if !own.contains(key) {
                report.damage(no, at, format!("key {key:#x} lies outside of {own:x?}"));
            }
            if print_of(page, slot) != print_for(key) {
                report.damage(no, at, "the fingerprint is not the key's");
            }
            if views.now >> slot & 1 != 0 && !keys.insert(key) {
                report.damage(no, at, format!("key {key:#x} is there twice"));
            }
        }
        report.leaves += 1;
        report.entries += u64::from(views.now.count_ones());
        report.instances += u64::from(views.occupied().count_ones());
        report.empty_leaves += u64::from(views.now == 0);
    }

    fn check_inner(&self, chain: &HashSet<PageNo>, report: &mut HybridReport) -> Result<()> {
        use std::ops::Bound::Unbounded;
        let entries = Index::range(&self.inner, Unbounded, Unbounded, usize::MAX)?;
        report.missing_entries = (chain.len() as u64).saturating_sub(entries.len() as u64);
        for (low, no) in entries {
            let no = no as PageNo;
            let leads = chain.contains(&no)
                && range(self.medium().page(no)?).is_some_and(|range| range.low == low);
            if !leads {
                report.damage(no, 0, format!("an inner node names it for {low:#x}"));
            }
        }
        Ok(())
    }
}

impl HybridReport {
    fn damage(&mut self, page: PageNo, offset_bytes_in_page: usize, what: impl Into<String>) {
        self.damages.push(PageDamage { page, offset_bytes_in_page, what: what.into() });
    }
}
