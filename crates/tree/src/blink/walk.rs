//! The way down with latches: every node on it is latched, one after the other and never two at once.
//!
//! `Reading::Crabbing` goes down like this always, to read and to write, and is the B-link tree that
//! FAST+FAIR is measured against (§6.7). Other trees do so when writers keep a reader from its leaf.
//!
//! Latches are taken from the leaves up (see [the spine](super)), so who goes down cannot hold the parent
//! while it waits for the child. Between the two latches the child may be split, which a search sees by
//! the high key; it must not die. So nodes are not merged meanwhile: by the lock of merges, or, in a tree
//! that is read like this always, ever, as in Lehman and Yao's tree (§4).

use std::borrow::Borrow;

use everleaf_pmem::{LatchGuard, Medium, Page, Result};

use super::descend::{FoundNode, Onward};
use super::seek::Seek;
use super::tree::Blink;
use crate::damaged::damaged;
use crate::kind::{KeyOf, Kind};

impl<M: Medium, K: Kind> Blink<M, K> {
    /// The node of `level` that covers what is sought, latched; `None` if the tree is not that high
    /// (yet). Waits for each writer on the way once. Nothing merges.
    #[cold]
    #[allow(clippy::type_complexity)]
    pub(super) fn walk(
        &self,
        seek: Seek<'_, KeyOf<K>>,
        level: u8,
    ) -> Result<Option<(FoundNode<'_>, LatchGuard<'_>)>> {
        debug_assert!(
            self.reading.is_crabbing() || self.merging.try_lock().is_err(),
            "a merge may cut off the way"
        );
        let (mut no, mut expected, mut lag, mut hops) = (self.root(), None, None, 0_u32);
        loop {
            let (page, held) = self.pool.latch(no)?;
            let is_old_root = expected.is_none() && self.root() != no;
            if is_old_root || (K::EVENS && self.has_passed(page, seek)?) {
                // Another root; or entries have gone to the left while nothing was latched.
                held.unlock_unchanged();
                (no, expected, lag, hops) = (self.root(), None, None, 0);
                continue;
            }
            let version = held.before();
            let step =
                match K::shape(page).filter(|s| expected.is_none_or(|level| level == s.level)) {
                    None => Err(damaged(page, "is not the node that its parent names")),
                    Some(shape) if shape.level < level => {
                        held.unlock_unchanged();
                        return Ok(None);
                    }
                    Some(shape) => self.onwards(page, shape, seek, level).map(|next| (shape, next)),
                };
            let (shape, next) = match step {
                Ok((shape, None)) => {
                    return Ok(Some((FoundNode { page, version, shape, lag }, held)));
                }
                Ok((shape, Some(next))) => (shape, next),
                Err(error) => {
                    held.unlock_unchanged();
                    return Err(error);
                }
            };
            let below = match next {
                Onward::Right(right) => {
                    lag = Some((no, version));
                    (right, shape.level)
                }
                Onward::Down(child) => (child, shape.level - 1),
            };
            held.unlock_unchanged();
            hops += 1;
            if hops > self.pool.pages_in_groups() {
                return Err(damaged(page, "siblings form a cycle"));
            }
            let next = self.medium().page(below.0)?;
            if next.latch().is_locked() && !Self::may_be(next, Some(below.1)) {
                // Damage may lead to a page that this very thread holds: not to be waited for.
                return Err(damaged(page, "names a page that is no node of its level"));
            }
            (no, expected) = (below.0, Some(below.1));
        }
    }

    /// Whether a search has come to a node to the right of what is sought.
    fn has_passed(&self, page: Page<'_>, seek: Seek<'_, KeyOf<K>>) -> Result<bool> {
        if K::shape(page).is_none() {
            return Ok(false);
        }
        let low = K::low(&self.pool, page)?;
        Ok(match (seek, low) {
            (_, None) | (Seek::Max, _) => false,
            (Seek::Min, Some(_)) => true,
            (Seek::At(key), Some(low)) => key < low.borrow(),
            (Seek::Below(key), Some(low)) => key <= low.borrow(),
        })
    }
}
