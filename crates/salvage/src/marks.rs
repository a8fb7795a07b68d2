//! Which records nodes name: those of pairs that their leaf does not hold itself, and those of long bounds.

use std::collections::HashSet;

use everleaf::Result;
use everleaf_pmem::PageNo;
use everleaf_pool::RecordRef;
use everleaf_tree::salvage::NodeEntry;

use crate::survey::Survey;

/// A bit for each place that a record can be in. Places have two units at least.
pub(crate) struct Marks {
    words_a_page: usize,
    bits: Vec<u64>,
    /// Records that two nodes name which both are as new as they should be.
    twice: HashSet<RecordRef>,
    /// Records that a node names which is too old, and another node, too.
    again: HashSet<RecordRef>,
}

impl Marks {
    /// Goes through all nodes.
    pub fn new(survey: &mut Survey) -> Result<Self> {
        let words_a_page = survey.pool.geometry().slots().div_ceil(2).div_ceil(64);
        let bits = vec![0; words_a_page * survey.records.len()];
        let mut marks = Self { words_a_page, bits, twice: HashSet::new(), again: HashSet::new() };
        for is_stale in [false, true] {
            for i in 0..survey.nodes.len() {
                let no = survey.nodes[i];
                if survey.info(no).is_stale != is_stale {
                    continue;
                }
                survey.tidy()?;
                let Ok(node) = survey.node(no) else { continue };
                let own = node.entries.iter().filter_map(NodeEntry::record);
                for r in own.chain(node.bounds.into_iter().flatten()) {
                    if !marks.set(&survey.records, r) {
                        let named = if is_stale { &mut marks.again } else { &mut marks.twice };
                        named.insert(r);
                    }
                }
            }
        }
        Ok(marks)
    }

    fn place(&self, records: &[PageNo], r: RecordRef) -> Option<(usize, u64)> {
        debug_assert!(self.bits.len() == self.words_a_page * records.len());
        let page = records.binary_search(&r.page()).ok()?;
        let place = usize::from(r.unit()) / 2;
        let word = place / 64;
        (word < self.words_a_page).then(|| (page * self.words_a_page + word, 1 << (place % 64)))
    }

    /// Marks a record; false if it was already.
    fn set(&mut self, records: &[PageNo], r: RecordRef) -> bool {
        let Some((word, bit)) = self.place(records, r) else { return true };
        let is_new = self.bits[word] & bit == 0;
        self.bits[word] |= bit;
        is_new
    }

    /// Whether a node names the record.
    pub fn has(&self, records: &[PageNo], r: RecordRef) -> bool {
        self.place(records, r).is_some_and(|(word, bit)| self.bits[word] & bit != 0)
    }

    /// Whether a leaf may believe that a record which it names is its own.
    pub fn is_own(&self, r: RecordRef, leaf_is_stale: bool) -> bool {
        !(self.twice.contains(&r) || leaf_is_stale && self.again.contains(&r))
    }

    /// Whether a node that is too old names a record of another.
    pub fn is_named_again(&self, r: RecordRef) -> bool {
        self.again.contains(&r)
    }
}
