//! Leaves that hold nothing any more, not even for a crash, are unlinked and freed (§3.6). A sparse leaf may be
//! [merged](Hybrid::merging).
//!
//! The paper marks such leaves and looks for them by walking the chain; here a removal that empties
//! a leaf puts it on a list, and what a leaf shows says all the rest (docs/PAPERS.md, B14): it may
//! go when none of the three epochs shows an entry. Persist order, each line durable before the
//! next: the sibling of the leaf to the left; the map's byte. A crash in between leaks the page,
//! and the next rebuild returns it.

use std::sync::PoisonError;

use everleaf_pmem::buffered::BufferedOp;
use everleaf_pmem::{Buffered, LatchGuard, Medium, Page, Result};
use everleaf_pool::{Step, Stop, note_free, retry};

use crate::hybrid::epoch_bitmap::{current, link, sibling};
use crate::hybrid::frame::{LeafRange, range, set_dead, set_listed, set_range, set_unlisted};
use crate::hybrid::merge::{Fate, LatchedLeaf, is_sparse};
use crate::hybrid::tree::Hybrid;

impl<M: Medium> Hybrid<M> {
    /// A removal has left less in this leaf: nothing, or little enough for a merge.
    #[inline]
    pub(super) fn shrunk(&self, page: Page<'_>) {
        let is_empty = current(page) == 0 && page.no() != self.head;
        if is_empty || (self.merges && is_sparse(page)) {
            self.list(page);
        }
    }

    /// Has [`Hybrid::reclaim_empty`] look at a leaf.
    pub(super) fn list(&self, page: Page<'_>) {
        if set_listed(page) {
            self.empty.lock().unwrap_or_else(PoisonError::into_inner).push_back(page.no());
        }
    }

    /// The number of leaves on the list: those that were emptied, or left sparse if leaves [merge](Self::merging), and
    /// that nobody has looked at yet or that a crash may still need.
    pub fn waiting_empty(&self) -> usize {
        self.empty.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Unlinks and frees the leaves that are empty in each epoch that a crash may go back to, merges sparse ones if it
    /// [is to](Self::merging), and returns the number of pages that it freed. Other leaves wait until those epochs
    /// have ended. It may run beside everything else. Costs O(leaves on the list), and two fences for
    /// each leaf that is freed, three if it is merged.
    ///
    /// # Errors
    /// Poisoned, Corrupt; what was freed until then stays so.
    pub fn reclaim_empty(&self) -> Result<u64> {
        let mut freed = 0;
        for _ in 0..self.waiting_empty() {
            let next = self.empty.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            let Some(no) = next else { break };
            let page = self.medium().page(no)?;
            // Before it is looked at: a removal that empties it from now on lists it again.
            set_unlisted(page);
            match retry(|| self.try_reclaim(page)) {
                Ok(Fate::Freed) => freed += 1,
                Ok(Fate::Waits) => self.list(page),
                Ok(Fate::Kept) => {}
                Err(error) => {
                    self.list(page);
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
            (now, _, below) if self.merges && is_sparse(page) => match self.merge_one(&spot)? {
                Fate::Kept if (now, below.is_some()) == (0, true) => Ok(Fate::Waits),
                fate => Ok(fate),
            },
            (0, 1.., Some(_)) => Ok(Fate::Waits),
            _ => Ok(Fate::Kept),
        }
    }

    /// Takes a leaf out of the chain.
    fn unlink(&self, page: Page<'_>, below: u64) -> Result<Fate, Stop> {
        let m = self.medium();
        // Before the latches, to go after them: a page is given back when it can be latched again.
        let mut step = self.pool.step();
        let (left, held, own) = self.latch_behind(self.latch_before(page, below)?, page)?;
        step.free_page(page.no())?;
        let op = m.enter()?;
        if self.views(page, m.epoch(&op)).occupied() != 0 {
            drop(op);
            left.held.unlock_unchanged();
            held.unlock_unchanged();
            return Err(Stop::Busy);
        }
        link(m, left.page, sibling(page).unwrap_or(0));
        self.take_out(&mut step, op, &left, (page, own));
        Ok(Fate::Freed)
    }

    /// Latches the leaf behind one, and says between which keys it lies. Latches go from left to right; the second is
    /// only tried.
    pub(super) fn latch_behind<'m>(
        &'m self,
        left: LatchedLeaf<'m>,
        page: Page<'m>,
    ) -> Result<(LatchedLeaf<'m>, LatchGuard<'m>, LeafRange), Stop> {
        let held = page.latch().try_lock_briefly().ok_or(Stop::Busy)?;
        let still = range(page).filter(|range| left.range.high == Some(range.low));
        let (Some(own), true) = (still, sibling(left.page) == Some(page.no())) else {
            left.held.unlock_unchanged();
            held.unlock_unchanged();
            return Err(Stop::Busy);
        };
        Ok((left, held, own))
    }

    /// Ends a step that has durably linked a leaf with the one behind `page`, which is freed.
    pub(super) fn take_out<'m>(
        &'m self,
        step: &mut Step<'m, Buffered<M>>,
        mut op: BufferedOp<'m, M>,
        left: &LatchedLeaf<'_>,
        (page, own): (Page<'_>, LeafRange),
    ) {
        let m = self.medium();
        debug_assert!(
            left.page.latch().is_held() && page.latch().is_held(),
            "an unlinking latches both"
        );
        debug_assert_eq!(left.range.high, Some(own.low), "the left leaf is the neighbour");
        set_range(left.page, LeafRange { high: own.high, ..left.range });
        set_dead(page);
        step.publish_free(&mut op);
        note_free(m, &mut op, page);
        drop(op);
        // It is only a hint, and may be missing already. The left leaf is latched: nobody splits it
        // and enters a leaf with the same lowest key.
        let _ = self.inner.remove(&own.low);
    }

    /// Latches the leaf to the left of `page`, whose keys end with `below`.
    pub(super) fn latch_before<'m>(
        &'m self,
        page: Page<'_>,
        below: u64,
    ) -> Result<LatchedLeaf<'m>, Stop> {
        let spot = self.leaf(below)?;
        let held = spot.page.latch().upgrade(spot.version).ok_or(Stop::Busy)?;
        if spot.page.no() == page.no() {
            // Its range has grown since to the left: impossible for a leaf that stays itself.
            held.unlock_unchanged();
            return Err(Stop::Busy);
        }
        Ok(LatchedLeaf { page: spot.page, held, range: spot.range })
    }
}
