//! Ordered scans, one leaf at a time, in both directions: a leaf's entries are of one moment, those
//! of several leaves need not be (docs/PAPERS.md, B19). The order of a leaf's slots is kept in its
//! frame, so that scans of leaves that nobody changes do not sort (the paper does, §4.1.5).

use std::ops::{Bound, RangeBounds};

use everleaf_pmem::{Medium, PageNo, Result, Retries};

use crate::hybrid::epoch_bitmap::{key_of, sibling, value_of};
use crate::hybrid::frame::{LeafRange, Sorted};
use crate::hybrid::read::FoundLeaf;
use crate::hybrid::tree::Hybrid;

/// The lowest key that is not below a bound; `None` if there is none.
fn lowest(from: Bound<u64>) -> Option<u64> {
    match from {
        Bound::Unbounded => Some(0),
        Bound::Included(key) => Some(key),
        Bound::Excluded(key) => key.checked_add(1),
    }
}

/// The greatest key that is not above a bound; `None` if there is none.
fn greatest(to: Bound<u64>) -> Option<u64> {
    match to {
        Bound::Unbounded => Some(u64::MAX),
        Bound::Included(key) => Some(key),
        Bound::Excluded(key) => key.checked_sub(1),
    }
}

impl<M: Medium> Hybrid<M> {
    /// Appends entries of the leaf of `at` that lie within bounds, in order, `limit` at most. Answers
    /// the leaf, as it was then.
    fn append<'m>(
        &'m self,
        mut spot: FoundLeaf<'m>,
        at: u64,
        within: (Bound<u64>, Bound<u64>),
        upwards: bool,
        limit: usize,
        out: &mut Vec<(u64, u64)>,
    ) -> Result<(LeafRange, Option<PageNo>)> {
        let (start, mut turns) = (out.len(), Retries::default());
        loop {
            let page = spot.page;
            if upwards && limit > page.slots() / 2 {
                self.prefetch(sibling(page));
            }
            let sorted = Sorted::of(page, spot.version);
            let entry = |slot: &u8| {
                let slot = usize::from(*slot);
                (key_of(page, slot), value_of(page, slot))
            };
            let wanted = |entry: &(u64, u64)| within.contains(&entry.0);
            let slots = sorted.slots().iter();
            if upwards {
                out.extend(slots.map(entry).filter(wanted).take(limit));
            } else {
                out.extend(slots.rev().map(entry).filter(wanted).take(limit));
            }
            let right = sibling(page);
            if page.latch().validate(spot.version) {
                return Ok((spot.range, right));
            }
            out.truncate(start);
            turns.again("reading a leaf")?;
            spot = self.leaf(at)?;
        }
    }

    /// Asks for all lines of the leaf that comes next, and of its frame.
    #[inline]
    fn prefetch(&self, no: Option<PageNo>) {
        // A number of no page is reported where it is followed.
        let Some(Ok(page)) = no.map(|no| self.medium().page(no)) else { return };
        page.prefetch_whole(1);
    }

    /// Returns up to `limit` entries between two bounds, in ascending order. The entries of one leaf are
    /// of one moment. Costs O(limit), and one search for the first leaf.
    ///
    /// # Errors
    /// Corrupt.
    pub fn range(&self, from: Bound<u64>, to: Bound<u64>, limit: usize) -> Result<Vec<(u64, u64)>> {
        let mut out = Vec::with_capacity(limit.min(1 << 16));
        let (Some(mut at), Some(last)) = (lowest(from), greatest(to)) else { return Ok(out) };
        let mut next = None;
        while out.len() < limit && at <= last {
            let spot = match next.take() {
                Some(spot) => spot,
                None => self.leaf(at)?,
            };
            let left = limit - out.len();
            // From `at` on: the leaf may begin further left, if the one that began there is freed.
            let within = (Bound::Included(at), to);
            let (range, right) = self.append(spot, at, within, true, left, &mut out)?;
            let Some(high) = range.high else { break };
            at = high;
            // The next leaf as a rule; whatever it is, it counts only if it begins where this ends.
            if let Some(right) = right.filter(|_| out.len() < limit && at <= last) {
                let page = self.medium().page(right)?;
                next = self.look(page)?.filter(|spot| spot.range.low == at);
            }
        }
        Ok(out)
    }

    /// Returns up to `limit` entries between two bounds, in descending order from `to`. The entries of one
    /// leaf are of one moment. Costs O(limit), and one search for each leaf.
    ///
    /// # Errors
    /// Corrupt.
    pub fn range_back(
        &self,
        from: Bound<u64>,
        to: Bound<u64>,
        limit: usize,
    ) -> Result<Vec<(u64, u64)>> {
        let mut out = Vec::with_capacity(limit.min(1 << 16));
        let (Some(first), Some(mut at)) = (lowest(from), greatest(to)) else { return Ok(out) };
        while out.len() < limit && at >= first {
            let left = limit - out.len();
            // Up to `at`: the leaf may end further right, if the one behind it is freed.
            let within = (from, Bound::Included(at));
            let (range, _) = self.append(self.leaf(at)?, at, within, false, left, &mut out)?;
            let Some(below) = range.low.checked_sub(1) else { break };
            at = below;
        }
        Ok(out)
    }

    /// The smallest key and its value.
    ///
    /// # Errors
    /// Corrupt.
    pub fn first(&self) -> Result<Option<(u64, u64)>> {
        Ok(self.range(Bound::Unbounded, Bound::Unbounded, 1)?.pop())
    }

    /// The greatest key and its value.
    ///
    /// # Errors
    /// Corrupt.
    pub fn last(&self) -> Result<Option<(u64, u64)>> {
        Ok(self.range_back(Bound::Unbounded, Bound::Unbounded, 1)?.pop())
    }
}
