//! Pairs in ascending order fill leaves, one leaf a step.
//!
//! ```text
//! latch L, whose last key is below the pairs     one descent for all of them
//! build R with one pair more than L takes        one step, whole after a crash: L, R
//! L := its entries, and pairs until it is full
//! latch the parent while L is still held         as after a split
//! ```
//!
//! The next step finds R, with one entry. Pairs that do not fill a leaf, do not come behind all of a leaf's entries, or
//! do not live in a leaf are put one by one.

use std::borrow::Borrow;
use std::cmp::Ordering;

use everleaf_pmem::{Medium, Page, PageNo, Result};
use everleaf_pool::{Stop, kind, retry};

use crate::blink::descend::Blink;
use crate::blink::write::{Before, KeepBefore};
use crate::node::{Filling, InputOf, KeyOf, Kind, NodeAt, ValueOf, sibling};

impl<M: Medium, K: Kind> Blink<M, K> {
    /// Puts the first of some pairs, whose keys ascend, into the tree, if they fill a leaf at whose end they belong.
    /// Says how many it has put: after a crash all of them are there or none. 0 if it has done nothing, and the first
    /// pair is to be [put](Self::set). O(log n), and O(bytes) of a page or two.
    ///
    /// # Errors
    /// As [`set`](Self::set); none of the pairs is there then.
    pub fn fill_leaf(
        &self,
        keeper: Option<&dyn KeepBefore<KeyOf<K>, ValueOf<K>>>,
        pairs: &[(&KeyOf<K>, &InputOf<K>)],
    ) -> Result<usize> {
        let Some((first, _)) = pairs.first().filter(|_| K::FILLS) else { return Ok(0) };
        self.pool().throttle(true)?;
        let Some((spot, held)) = self.latch_for(first, 0)? else { return Ok(0) };
        let (leaf, page) = (spot.node, spot.node.page());
        let rank = K::rank(&self.pool, &leaf, first)?;
        let plan = match !rank.exact && rank.le == leaf.count() {
            true => K::plan_fill(&leaf, self.below_high(&leaf, pairs)?)?,
            false => None,
        };
        let Some(Filling { count, separator, mut leaves }) = plan else {
            held.unlock_unchanged();
            return Ok(0);
        };
        if let (true, Some(right)) = (K::PREFIXED, sibling(page)) {
            // As before a split.
            if !self.enter_in_parent(page, K::high(&self.pool, page)?.borrow(), right)? {
                held.unlock_unchanged();
                return Ok(0);
            }
        }
        if let Some(keeper) = keeper {
            let due = pairs[..count].iter().filter(|(key, _)| keeper.is_due(key));
            due.into_iter().try_for_each(|(key, _)| keeper.keep(key, Before::Absent))?;
        }
        let right = retry(|| self.try_fill(page, count, &mut leaves))?;
        // The pairs are there. Upkeep that fails is no failure of them, as in `put`: the next writer that passes tries again.
        let _ = self.enter_in_parent(page, separator.borrow(), right);
        drop(held);
        let _ = self.complete(spot.lag);
        Ok(count)
    }

    /// The first of the pairs, as far as they belong to a leaf to which the first one does.
    fn below_high<'a, 'p>(
        &self,
        leaf: &NodeAt<'_, K>,
        pairs: &'a [(&'p KeyOf<K>, &'p InputOf<K>)],
    ) -> Result<&'a [(&'p KeyOf<K>, &'p InputOf<K>)]> {
        if sibling(leaf.page()).is_none() {
            return Ok(pairs);
        }
        let (mut low, mut high) = (1, pairs.len());
        while low < high {
            let middle = low.midpoint(high);
            match K::cmp_high(&self.pool, leaf, pairs[middle].0)? {
                Ordering::Less => low = middle + 1,
                _ => high = middle,
            }
        }
        Ok(&pairs[..low])
    }

    fn try_fill(
        &self,
        page: Page<'_>,
        count: usize,
        leaves: &mut K::FilledLeaves,
    ) -> Result<PageNo, Stop> {
        debug_assert!(page.latch().is_held(), "page {} is filled without its latch", page.no());
        let mut step = self.pool.step();
        let (right, mut right_held) = step.new_page(kind::NODE)?;
        let mut op = step.enter()?;
        step.publish_alloc(&mut op);
        K::fill_leaf(self.medium(), &mut op, (page, right), leaves);
        // Each key is new.
        self.medium().count(&mut op, self.anchor(), count as i64);
        right_held.set_ready();
        step.publish_free(&mut op);
        drop(op);
        Ok(right.no())
    }
}
