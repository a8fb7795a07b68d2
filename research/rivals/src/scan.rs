//! Scans of a chain of leaves, and the tree as an [`Index`]. The pairs of a leaf are of one moment; they are sorted
//! anew by each scan, as the sources do.

use std::ops::Bound;

use everleaf_pmem::{Backoff, Medium, Result};
use everleaf_tree::Index;
use everleaf_tree::blink::Condition;

use crate::chained::Chained;
use crate::leaf::Leaf;
use crate::spine::LeafRange;

fn lowest(from: Bound<u64>) -> Option<u64> {
    match from {
        Bound::Unbounded => Some(0),
        Bound::Included(key) => Some(key),
        Bound::Excluded(key) => key.checked_add(1),
    }
}

fn greatest(to: Bound<u64>) -> Option<u64> {
    match to {
        Bound::Unbounded => Some(u64::MAX),
        Bound::Included(key) => Some(key),
        Bound::Excluded(key) => key.checked_sub(1),
    }
}

/// The pairs within bounds, from the lowest on. `leaf` puts all pairs of the leaf of a key in order into a list, and
/// says the leaf's range.
///
/// # Errors
/// Those of `leaf`.
pub(crate) fn up(
    (from, to): (Bound<u64>, Bound<u64>),
    limit: usize,
    mut leaf: impl FnMut(u64, &mut Vec<(u64, u64)>) -> Result<LeafRange>,
) -> Result<Vec<(u64, u64)>> {
    let (mut out, mut pairs) = (Vec::new(), Vec::new());
    let (Some(mut at), Some(last)) = (lowest(from), greatest(to)) else { return Ok(out) };
    while out.len() < limit && at <= last {
        let range = leaf(at, &mut pairs)?;
        let wanted = pairs.iter().filter(|(key, _)| (at..=last).contains(key));
        out.extend(wanted.take(limit - out.len()));
        let Some(high) = range.high else { break };
        at = high;
    }
    Ok(out)
}

/// As [`up`], from the greatest on.
///
/// # Errors
/// Those of `leaf`.
pub(crate) fn down(
    (from, to): (Bound<u64>, Bound<u64>),
    limit: usize,
    mut leaf: impl FnMut(u64, &mut Vec<(u64, u64)>) -> Result<LeafRange>,
) -> Result<Vec<(u64, u64)>> {
    let (mut out, mut pairs) = (Vec::new(), Vec::new());
    let (Some(first), Some(mut at)) = (lowest(from), greatest(to)) else { return Ok(out) };
    while out.len() < limit && at >= first {
        let range = leaf(at, &mut pairs)?;
        let wanted = pairs.iter().rev().filter(|(key, _)| (first..=at).contains(key));
        out.extend(wanted.take(limit - out.len()));
        let Some(below) = range.low.checked_sub(1) else { break };
        at = below;
    }
    Ok(out)
}

impl<M: Medium, L: Leaf> Chained<M, L> {
    /// The pairs of the leaf of `at`, in order, and the leaf's range then.
    fn sorted(&self, at: u64, pairs: &mut Vec<(u64, u64)>) -> Result<LeafRange> {
        let mut wait = Backoff::default();
        loop {
            let found = self.leaf(at)?;
            pairs.clear();
            L::for_each(found.page, |key, value| pairs.push((key, value)));
            if found.page.latch().validate(found.version) {
                pairs.sort_unstable();
                return Ok(found.range);
            }
            wait.pause();
        }
    }
}

impl<M: Medium, L: Leaf> Index for Chained<M, L> {
    fn get(&self, key: u64) -> Result<Option<u64>> {
        Chained::get(self, key)
    }
    fn insert(&self, key: u64, value: u64) -> Result<Option<u64>> {
        self.put(key, value, Condition::Always)
    }
    fn add(&self, key: u64, value: u64) -> Result<Option<u64>> {
        self.put(key, value, Condition::Absent)
    }
    fn update(&self, key: u64, value: u64) -> Result<Option<u64>> {
        self.put(key, value, Condition::Present)
    }
    fn remove(&self, key: u64) -> Result<Option<u64>> {
        Chained::remove(self, key)
    }
    fn first(&self) -> Result<Option<(u64, u64)>> {
        Ok(self.range(Bound::Unbounded, Bound::Unbounded, 1)?.pop())
    }
    fn last(&self) -> Result<Option<(u64, u64)>> {
        Ok(self.range_back(Bound::Unbounded, Bound::Unbounded, 1)?.pop())
    }
    fn range(&self, from: Bound<u64>, to: Bound<u64>, limit: usize) -> Result<Vec<(u64, u64)>> {
        up((from, to), limit, |at, pairs| self.sorted(at, pairs))
    }
    fn range_back(
        &self,
        from: Bound<u64>,
        to: Bound<u64>,
        limit: usize,
    ) -> Result<Vec<(u64, u64)>> {
        down((from, to), limit, |at, pairs| self.sorted(at, pairs))
    }
}
