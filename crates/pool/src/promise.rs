//! Room for several steps, made sure of before the first one: no other thread gets it meanwhile.

use everleaf_pmem::Medium;
use everleaf_pmem::Result;

use crate::class::max_record;
use crate::layout::RecordShape;
use crate::pair::MAX_KEY_BYTES;
use crate::pool::Pool;
use crate::space::Wants;

/// The room that the record of a pair needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PairWants {
    /// Units of 16 bytes: records of other sizes are in other pages.
    pub units: u16,
    /// How many of them a page holds.
    pub places: u64,
    /// Pages of extents.
    pub extents: u64,
}

/// Free pages that are kept for the thread that asked for them until this is dropped.
pub struct Promise<'p, M: Medium>(&'p Pool<M>);

impl<M: Medium> Drop for Promise<'_, M> {
    fn drop(&mut self) {
        self.0.space.end_promise();
    }
}

impl<M: Medium> Pool<M> {
    /// Keeps free pages for the steps that this thread is about to make. There is one promise at a
    /// time.
    ///
    /// # Errors
    /// [`Error::Full`](everleaf_pmem::Error::Full) if there is not so much; nothing is kept then.
    pub fn promise(&self, wants: Wants) -> Result<Promise<'_, M>> {
        self.settle();
        self.space.promise(wants, false)?;
        Ok(Promise(self))
    }

    /// As [`promise`](Self::promise), for wants that were counted from the nodes that the steps meet: until
    /// it is dropped [`is_counted`](Self::is_counted), so that nodes do as they were expected to.
    ///
    /// # Errors
    /// As for `promise`.
    pub fn promise_counted(&self, wants: Wants) -> Result<Promise<'_, M>> {
        self.settle();
        self.space.promise(wants, true)?;
        Ok(Promise(self))
    }

    /// Whether the room of this thread was counted from the nodes that it meets. Then a full node is cut
    /// into halves and gives nothing to its neighbours: nobody has counted those.
    pub fn is_counted(&self) -> bool {
        self.space.is_counted()
    }

    /// Pages of extents that the longest key there may be wants as the bound of a node, beside new keys of up to
    /// `key_bytes`. While no group is for extents, the pool has no key that needs one. O(groups).
    pub fn extents_of_bound(&self, key_bytes: usize) -> u64 {
        let is_short = self.holds_record(key_bytes, 0) && !self.space.has_extents();
        if is_short { 0 } else { self.wants_of_pair(MAX_KEY_BYTES, 0).extents }
    }

    /// The room that a new record of a pair of these lengths needs.
    pub fn wants_of_pair(&self, key_bytes: usize, value_bytes: usize) -> PairWants {
        let geometry = self.geometry();
        let is_small = self.fits_record(key_bytes, value_bytes);
        let len = if is_small { 8 + key_bytes + value_bytes } else { max_record(geometry) };
        let class = self.classes.of_len(len);
        let units = class.map_or(geometry.slots() as u16, |class| self.classes.units(class));
        let places = u64::from(RecordShape::new(geometry.slots(), units).places).max(1);
        if is_small {
            return PairWants { units, places, extents: 0 };
        }
        let bytes = (key_bytes + value_bytes) as u64;
        let page_bytes = geometry.page_bytes() as u64;
        let data = bytes.div_ceil(page_bytes).max(1);
        // In the worst case each page is a run of its own, and listed.
        let extents = data + (8 * data).div_ceil(page_bytes);
        PairWants { units, places, extents }
    }
}
