//! Sparse leaves that lie side by side become one, if the tree is told so: the paper gives back empty leaves alone (§3.6).
//!
//! ```text
//! latch L and the leaf R behind it, of which one has been left sparse by removals
//! free slots of L := all that R shows in any of the three epochs; flush, fence
//! L, line 0       := bitmaps with those slots, each in the epochs that show it, then R's sibling; flush, fence
//! R, line 0       := no leaf; map's byte of R := free; flush both, fence
//! ```
//!
//! L then shows in each epoch what both showed, so that a merge holds for every epoch that a crash may go back to, as a
//! split does. A crash before the sibling is durable leaves entries in both leaves, as in a split that was cut off, and
//! the rebuild drops them from L. A crash after it leaks R, whose entries the chain has: the rebuild returns it.

use everleaf_pmem::{Buffered, LatchGuard, Medium, Page, Result};
use everleaf_pool::{Step, Stop};

use crate::hybrid::epoch_bitmap::{self as leaf, LeafWriter, Views, current, sibling, usable};
use crate::hybrid::frame::LeafRange;
use crate::hybrid::read::FoundLeaf;
use crate::hybrid::tree::Hybrid;

/// The fate of a leaf that had been emptied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// Unlinked and freed, it or its neighbour.
    Freed,
    /// It is empty, or could be merged, but a crash may bring entries back.
    Waits,
    /// It is in use again, or gone.
    Kept,
}

/// Entries of a leaf that takes a neighbour's: so many and no more, so that the next ones do not split it again.
fn most_of_merged(page: Page<'_>) -> u32 {
    let most = usable(page.slots()).count_ones();
    most - most / 4
}

/// Whether a leaf shows so little that its neighbours are looked at: half of what it takes.
pub(super) fn is_sparse(page: Page<'_>) -> bool {
    current(page).count_ones() <= usable(page.slots()).count_ones() / 2
}

/// A leaf that this step has latched.
pub(super) struct LatchedLeaf<'m> {
    pub(super) page: Page<'m>,
    pub(super) held: LatchGuard<'m>,
    pub(super) range: LeafRange,
}

impl<M: Medium> Hybrid<M> {
    /// Has [`reclaim_empty`](Self::reclaim_empty) merge leaves, too, or not: off unless set. A removal that leaves a leaf
    /// at most half full lists it. It becomes one with a neighbour if both show three quarters of a leaf or less, and if
    /// what a crash may bring back fits, too; else it waits until those epochs have ended. A merge flushes what it moves and
    /// three fences; it is durable when it returns and changes nothing of what any epoch shows. Nothing of it is in the
    /// pool: a tree may be opened with it or without. It is not in the paper.
    pub fn merging(self, merges: bool) -> Self {
        Self { merges, ..self }
    }

    /// Merges a leaf with the one to its left, or else with the one to its right.
    pub(super) fn merge_one(&self, spot: &FoundLeaf<'_>) -> Result<Fate, Stop> {
        let page = spot.page;
        let mut fate = Fate::Kept;
        if let Some(below) = spot.range.low.checked_sub(1) {
            // Before the latches, to go after them, as in `unlink`.
            let mut step = self.pool.step();
            fate = self.absorb(&mut step, self.latch_before(page, below)?, page)?;
        }
        let Some(right) = sibling(page).filter(|_| fate != Fate::Freed) else { return Ok(fate) };
        let right = self.medium().page(right)?;
        let mut step = self.pool.step();
        let held = page.latch().upgrade(spot.version).ok_or(Stop::Busy)?;
        let left = LatchedLeaf { page, held, range: spot.range };
        let second = self.absorb(&mut step, left, right)?;
        Ok(if second == Fate::Kept { fate } else { second })
    }

    /// Whether a leaf takes all that the one behind it shows.
    fn fits_both(left: (Page<'_>, Views), right: Views) -> Fate {
        let (page, left) = left;
        let entries = left.now.count_ones() + right.now.count_ones();
        let slots = left.occupied().count_ones() + right.occupied().count_ones();
        match (entries <= most_of_merged(page), slots <= usable(page.slots()).count_ones()) {
            (true, true) => Fate::Freed,
            (true, false) => Fate::Waits,
            (false, _) => Fate::Kept,
        }
    }

    /// Moves all that `right` shows into the leaf before it, and frees its page. Nothing is changed if that has no room.
    fn absorb<'m>(
        &'m self,
        step: &mut Step<'m, Buffered<M>>,
        left: LatchedLeaf<'m>,
        right: Page<'m>,
    ) -> Result<Fate, Stop> {
        let m = self.medium();
        let (left, right_held, own) = self.latch_behind(left, right)?;
        // An epoch that ends from here on only has them show less.
        let views = |page| self.views(page, m.clock());
        match Self::fits_both((left.page, views(left.page)), views(right)) {
            Fate::Freed => {}
            fate => {
                right_held.unlock_unchanged();
                left.held.unlock_unchanged();
                return Ok(fate);
            }
        }
        step.free_page(right.no())?;
        let mut op = m.enter()?;
        let epoch = LeafWriter::begin(m, &mut op, left.page).epoch();
        let free = usable(left.page.slots()) & !self.views(left.page, epoch).occupied();
        leaf::absorb(m, left.page, right, self.views(right, epoch), free);
        // Durable with the map's byte: the page may be leaked again in its next life, before it has been built, and then
        // the chain need not have what this one has shown.
        leaf::wipe(m, right);
        self.take_out(step, op, &left, (right, own));
        if is_sparse(left.page) {
            self.list(left.page);
        }
        Ok(Fate::Freed)
    }
}
