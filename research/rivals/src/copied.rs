//! Leaves that give way to copies (NBTree): a full leaf is never changed, but one or two new ones take its place in the
//! chain by one store.
//!
//! ```text
//! copy    the lower half to a new leaf, the upper one to another ->  or all pairs to one, if few are left
//! link    the leaf to the left, or the anchor, leads to the copies ->
//! free    the old leaf: a search that still looks at it begins again
//! ```
//!
//! A crash before the link leaves two pages that nothing leads to, one after it the old leaf: the next open returns them.

use std::sync::atomic::Ordering;

use everleaf_pmem::{LatchGuard, Medium, Page, Result};
use everleaf_pool::{Stop, anchor, kind, note_free};

use crate::chained::Chained;
use crate::leaf::{Copies, Leaf};
use crate::spine::{LeafRange, range, set_dead, set_range};

/// The page that leads to a leaf: another leaf, or the anchor.
enum Before<'m> {
    Leaf(Page<'m>),
    Anchor(Page<'m>),
}

impl Before<'_> {
    fn leads_to<L: Leaf>(&self, page: Page<'_>, low: u64) -> Result<bool> {
        Ok(match self {
            Self::Leaf(left) => {
                L::next(*left) == page.no() && range(*left).is_some_and(|r| r.high == Some(low))
            }
            Self::Anchor(anchor) => anchor::root_of(*anchor)? == page.no(),
        })
    }
}

impl<M: Medium, L: Leaf> Chained<M, L> {
    /// The page that leads to the leaf whose keys begin with `low`, latched.
    fn before(&self, low: u64) -> Result<(Before<'_>, LatchGuard<'_>), Stop> {
        if let Some(below) = low.checked_sub(1) {
            let (left, held) = self.latch_for(below)?;
            return Ok((Before::Leaf(left), held));
        }
        let (anchor, held) = self.pool.latch(self.anchor)?;
        Ok((Before::Anchor(anchor), held))
    }

    /// Puts copies in the place of a full leaf whose keys begin with `low`; durable when it returns. Latches go from
    /// left to right; the second is only tried.
    #[cold]
    pub(crate) fn replace(&self, page: Page<'_>, low: u64) -> Result<(), Stop> {
        let m = self.medium();
        // Before the latches, to go after them: a page is given back when it can be latched again.
        let mut step = self.pool.step();
        let (before, before_held) = self.before(low)?;
        let Some(held) = page.latch().try_lock_briefly() else {
            before_held.unlock_unchanged();
            return Err(Stop::Busy);
        };
        let own = range(page).filter(|own| own.low == low);
        let (Some(own), true) = (own, before.leads_to::<L>(page, low)?) else {
            before_held.unlock_unchanged();
            held.unlock_unchanged();
            return Err(Stop::Busy);
        };
        let (left, _left_held) = step.new_page(kind::NODE)?;
        let cut = L::cut(page);
        let right = cut.map(|_| step.new_page(kind::NODE)).transpose()?;
        let right = right.as_ref().zip(cut).map(|((right, _held), cut)| (cut, *right));
        step.free_page(page.no())?;
        let mut op = step.enter()?;
        step.publish_alloc(&mut op);
        L::copy_out(m, page, Copies { left, right });
        match before {
            Before::Leaf(before) => L::set_next(m, before, left.no()),
            Before::Anchor(anchor) => {
                anchor::set_root(m, &mut op, anchor, left.no());
                self.spine.set_head(left.no());
            }
        }
        step.publish_free(&mut op);
        note_free(m, &mut op, page);
        set_dead(page);
        set_range(left, LeafRange { high: cut.or(own.high), ..own });
        drop(op);
        // While all of them are latched, so that none can be unlinked before it has been entered. The old leaf's entry
        // is there and takes no room.
        self.spine.enter(low, left.no());
        if let Some((cut, right)) = right {
            set_range(right, LeafRange { low: cut, ..own });
            self.spine.enter(cut, right.no());
            self.splits.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }
}
