//! Finding a leaf, and one key in it.

use everleaf_pmem::{Medium, Page, PageNo, Result, Retries, Version};

use crate::bug::{self, Bug};
use crate::hybrid::epoch_bitmap::{current, find, sibling, value_of};
use crate::hybrid::frame::{LeafRange, range};
use crate::hybrid::tree::Hybrid;
use crate::node::damaged;

/// More moves to the right than any tree needs: the chain must have a cycle.
const HOPS_MAX: u32 = 1 << 28;

/// A leaf that was for the key when it had this version.
pub(super) struct FoundLeaf<'m> {
    pub page: Page<'m>,
    pub version: Version,
    pub range: LeafRange,
}

impl<M: Medium> Hybrid<M> {
    /// The leaf of a key. Latches nothing; waits for a writer that is inside.
    #[inline]
    pub(super) fn leaf(&self, key: u64) -> Result<FoundLeaf<'_>> {
        let mut turns = Retries::default();
        loop {
            if let Some(spot) = self.try_leaf(key)? {
                return Ok(spot);
            }
            turns.again("a search for a leaf")?;
        }
    }

    #[inline]
    fn try_leaf(&self, key: u64) -> Result<Option<FoundLeaf<'_>>> {
        let mut no = match self.inner.floor(&key)? {
            Some((_, leaf)) => leaf as PageNo,
            None => self.head,
        };
        for _ in 0..HOPS_MAX {
            let page = self.medium().page(no)?;
            page.prefetch(0);
            let Some(spot) = self.look(page)? else { return Ok(None) };
            if !spot.range.ends_before(key) {
                return Ok((spot.range.low <= key).then_some(spot));
            }
            let right = sibling(page);
            if !page.latch().validate(spot.version) {
                return Ok(None);
            }
            no = right.ok_or_else(|| damaged(page, "keys end, but the chain does not"))?;
        }
        Err(damaged(self.medium().page(no)?, "siblings form a cycle"))
    }

    /// A page as a leaf; `None` if it is none now. Pages that are no leaves yet may lack bytes.
    #[inline]
    pub(super) fn look<'m>(&'m self, page: Page<'m>) -> Result<Option<FoundLeaf<'m>>> {
        let version = match page.latch().read_version() {
            everleaf_pmem::Seen::Ready(version) => version,
            everleaf_pmem::Seen::Absent => return Ok(None),
        };
        let range = range(page);
        if !page.latch().validate(version) {
            return Ok(None);
        }
        Ok(range.map(|range| FoundLeaf { page, version, range }))
    }

    /// The value of a key. Sees writes before they are durable; O(1) leaves and O(log n) inner
    /// nodes in DRAM, no store, no latch.
    ///
    /// # Errors
    /// Corrupt.
    #[inline]
    pub fn get(&self, key: u64) -> Result<Option<u64>> {
        let mut turns = Retries::default();
        loop {
            let FoundLeaf { page, version, .. } = self.leaf(key)?;
            let value = find(page, current(page), key).map(|slot| value_of(page, slot));
            let unchecked = value.is_none() && bug::is(Bug::B13);
            if unchecked || page.latch().validate(version) {
                return Ok(value);
            }
            turns.again("reading a leaf")?;
        }
    }
}
