//! Leaves that hold nothing any more, not even for a crash, are unlinked and freed (§3.6).
//!
//! The paper marks such leaves and looks for them by walking the chain; here a removal that empties
//! a leaf puts it on a list, and what a leaf shows says all the rest (docs/PAPERS.md, B14): it may
//! go when none of the three epochs shows an entry. Persist order, each line durable before the
//! next: the sibling of the leaf to the left; the map's byte. A crash in between leaks the page,
//! and the next rebuild returns it.

use std::sync::PoisonError;

use everleaf_pmem::{LatchGuard, Medium, Page, Result};
use everleaf_pool::{Stop, note_free, retry};

use crate::hybrid::epoch_bitmap::{link, sibling};
use crate::hybrid::frame::{LeafRange, range, set_dead, set_listed, set_range, set_unlisted};
use crate::hybrid::tree::Hybrid;

/// What became of a leaf that had been emptied.
enum Fate {
    /// Unlinked and freed.
    Freed,
    /// It is empty, but a crash may bring entries back.
    Waits,
    /// It is in use again, or gone.
    Kept,
}

impl<M: Medium> Hybrid<M> {
    /// A removal has left nothing visible in this leaf.
    pub(super) fn emptied(&self, page: Page<'_>) {
        if page.no() != self.head && set_listed(page) {
            self.empty.lock().unwrap_or_else(PoisonError::into_inner).push_back(page.no());
        }
    }

    /// The number of leaves on the list: those that were emptied, and that nobody has looked at yet or
    /// that a crash may still need.
    pub fn waiting_empty(&self) -> usize {
        self.empty.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Unlinks and frees the leaves that are empty in each epoch that a crash may go back to, and returns
    /// their number. Other leaves wait until those epochs have ended. It may run beside everything else.
    /// Costs O(leaves on the list), and two fences for each leaf that is freed.
    ///
    /// # Errors
    /// Poisoned, Corrupt; what was freed until then stays so.
    pub fn reclaim_empty(&self) -> Result<u64> {
        let mut freed = 0;
        for _ in 0..self.waiting_empty() {
            let next = self.empty.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            let Some(no) = next else { break };
            let page = self.medium().page(no)?;
            // Before it is looked at: who empties it from now on lists it again.
            set_unlisted(page);
            match retry(|| self.try_reclaim(page)) {
                Ok(Fate::Freed) => freed += 1,
                Ok(Fate::Waits) => self.emptied(page),
                Ok(Fate::Kept) => {}
                Err(error) => {
                    self.emptied(page);
                    return Err(error);
                }
            }
        }
        Ok(freed)
    }

    fn try_reclaim(&self, page: Page<'_>) -> Result<Fate, Stop> {
        let Some(spot) = self.look(page)? else { return Ok(Fate::Kept) };
        let views = self.views(page, self.medium().clock());
        if !page.latch().validate(spot.version) {
            return Err(Stop::Busy);
        }
        match (views.now, views.occupied(), spot.range.low.checked_sub(1)) {
            (0, 0, Some(below)) => self.unlink(page, below),
            (0, 1.., Some(_)) => Ok(Fate::Waits),
            _ => Ok(Fate::Kept),
        }
    }

    /// Takes a leaf out of the chain. Latches go from left to right; the second is only tried.
    fn unlink(&self, page: Page<'_>, below: u64) -> Result<Fate, Stop> {
        let m = self.medium();
        // Before the latches, to go after them: a page is given back when it can be latched again.
        let mut step = self.pool.step();
        let (left, left_held, left_range) = self.latch_before(page, below)?;
        let held = page.latch().try_lock_briefly().ok_or(Stop::Busy)?;
        let still = range(page).filter(|range| left_range.high == Some(range.low));
        let (Some(own), true) = (still, sibling(left) == Some(page.no())) else {
            left_held.unlock_unchanged();
            held.unlock_unchanged();
            return Err(Stop::Busy);
        };
        step.free_page(page.no())?;
        let mut op = m.enter()?;
        if self.views(page, m.epoch(&op)).occupied() != 0 {
            drop(op);
            left_held.unlock_unchanged();
            held.unlock_unchanged();
            return Err(Stop::Busy);
        }
        debug_assert!(
            left.latch().is_held() && page.latch().is_held(),
            "an unlinking latches both"
        );
        debug_assert_eq!(left_range.high, Some(own.low), "the left leaf is the neighbour");
        link(m, left, sibling(page).unwrap_or(0));
        set_range(left, LeafRange { high: own.high, ..left_range });
        set_dead(page);
        step.publish_free(&mut op);
        note_free(m, &mut op, page);
        drop(op);
        // It is only a hint, and may be missing already. The left leaf is latched: nobody splits it
        // and enters a leaf with the same lowest key.
        let _ = self.inner.remove(&own.low);
        Ok(Fate::Freed)
    }

    /// Latches the leaf to the left of `page`, whose keys end with `below`.
    fn latch_before(
        &self,
        page: Page<'_>,
        below: u64,
    ) -> Result<(Page<'_>, LatchGuard<'_>, LeafRange), Stop> {
        let spot = self.leaf(below)?;
        let held = spot.page.latch().upgrade(spot.version).ok_or(Stop::Busy)?;
        if spot.page.no() == page.no() {
            // Its range has grown since to the left: impossible for a leaf that stays itself.
            held.unlock_unchanged();
            return Err(Stop::Busy);
        }
        Ok((spot.page, held, spot.range))
    }
}
