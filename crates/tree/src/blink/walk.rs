//! The way down with latches: every node on it is latched, one after the other and never two at once.
//!
//! `Reading::Crabbing` goes down like this always, to read and to write, and is the B-link tree that
//! FAST+FAIR is measured against (§6.7). Other trees do so when writers keep a reader from its leaf.
//!
//! Latches are taken from the leaves up (see [the spine](super)), so a descent cannot hold the parent
//! while it waits for the child. Between the two latches the child may be split, which a search sees by
//! the high key; it must not die. So nodes are not merged meanwhile: by the lock of merges, or, in a tree
//! that is read like this always, ever, as in Lehman and Yao's tree (§4).

use std::borrow::Borrow;

use everleaf_pmem::{Medium, Page, Result};

use crate::blink::descend::{Blink, FoundNode, Latched, Onward, Seek};
use crate::node::{KeyOf, Kind, NodeAt, damaged, sibling};

/// Each start but the first one needs a step of another thread just before: with so many nobody is in the way, and the
/// tree is damaged.
const STARTS_MAX: u32 = 10_000;

impl<M: Medium, K: Kind> Blink<M, K> {
    /// The node of `level` that covers what is sought, latched; `None` if the tree is not that high
    /// (yet). Waits for each writer on the way once. Nothing merges.
    #[cold]
    #[allow(clippy::type_complexity)]
    pub(super) fn walk(
        &self,
        seek: Seek<'_, KeyOf<K>>,
        level: u8,
    ) -> Result<Option<Latched<'_, K>>> {
        debug_assert!(
            self.reading.is_crabbing() || self.merging.try_lock().is_err(),
            "a merge may cut off the way"
        );
        let (mut no, mut expected, mut lag, mut hops) = (self.root(), None, None, 0_u32);
        let mut starts = 1;
        loop {
            let (page, held) = self.pool.latch(no)?;
            let is_old_root = expected.is_none() && self.root() != no;
            if is_old_root || (K::EVENS && self.has_passed(page, seek)?) {
                // Another root; or entries have gone to the left while nothing was latched.
                held.unlock_unchanged();
                starts += 1;
                if starts > STARTS_MAX {
                    return Err(damaged(page, "does not begin where its parent says"));
                }
                (no, expected, lag, hops) = (self.root(), None, None, 0);
                continue;
            }
            let version = held.before();
            let step =
                match K::node(page).filter(|at| expected.is_none_or(|level| level == at.level())) {
                    None => Err(damaged(page, "is not the node that its parent names")),
                    Some(node) if node.level() < level => {
                        held.unlock_unchanged();
                        return Ok(None);
                    }
                    Some(node) => self.onwards_from(&node, seek, level).map(|next| (node, next)),
                };
            let (own_level, next) = match step {
                Ok((node, None)) => {
                    return Ok(Some((FoundNode { node, version, lag }, held)));
                }
                Ok((node, Some(next))) => (node.level(), next),
                Err(error) => {
                    held.unlock_unchanged();
                    return Err(error);
                }
            };
            let below = match next {
                Onward::Right(right) => {
                    lag = Some((no, version));
                    (right, own_level)
                }
                Onward::Down(child) => (child, own_level - 1),
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

    /// As [`onwards`](Self::onwards), for a search that may have come to a node that was split meanwhile. Such a node may
    /// have another prefix than the key, and then heads say nothing: its bound is compared as a whole.
    fn onwards_from(
        &self,
        node: &NodeAt<'_, K>,
        seek: Seek<'_, KeyOf<K>>,
        level: u8,
    ) -> Result<Option<Onward>> {
        if let (true, Some(right)) = (K::PREFIXED, sibling(node.page())) {
            let high = K::high(&self.pool, node.page())?;
            let is_beyond = match seek {
                Seek::Min => false,
                Seek::Max => true,
                Seek::At(key) => high.borrow() <= key,
                Seek::Below(key) => high.borrow() < key,
            };
            if is_beyond {
                return Ok(Some(Onward::Right(right)));
            }
        }
        self.onwards(node, seek, level)
    }

    /// Whether a search has come to a node to the right of what is sought.
    fn has_passed(&self, page: Page<'_>, seek: Seek<'_, KeyOf<K>>) -> Result<bool> {
        if K::node(page).is_none() {
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use everleaf_pmem::{Dram, Geometry};

    use super::*;
    use crate::blink::Condition;
    use crate::node::NodeReads;
    use crate::slots::Strings;
    use crate::slots::{Circular, Sentinel};
    use crate::{INDEX_ANCHOR, StringTree};

    type K = (Circular, Sentinel, Strings);

    /// As when a leaf was split between its parent and it, so that it has a longer prefix than the key that comes to it.
    #[test]
    fn who_comes_to_a_node_with_another_prefix_goes_on() {
        let medium = Dram::new(Geometry::new(4).expect("valid"), 1 << 12).expect("memory");
        let pool = Arc::new(StringTree::<Dram>::format_pool(medium).expect("formats"));
        let tree = StringTree::create(pool, INDEX_ANCHOR).expect("space");
        let mut keys: Vec<Vec<u8>> = ["a", "b", "by itself", "c"].map(Into::into).to_vec();
        // Not by rising keys: the last leaf has no upper bound, and so no prefix.
        keys.extend((0..60).map(|n| format!("a long common prefix {:02}", n * 37 % 60).into()));
        for key in &keys {
            tree.put(key, b"", Condition::Always).expect("space");
        }
        let (mut with_prefix, _no_merge) = (0, tree.lock_merges());
        for key in &keys {
            let walked = tree.walk(Seek::At(key), 0).expect("sound");
            let (FoundNode { node, .. }, held) = walked.expect("a leaf");
            let page = node.page();
            let low = <K as NodeReads>::low(tree.pool(), page).expect("sound");
            let high =
                sibling(page).map(|_| <K as NodeReads>::high(tree.pool(), page).expect("sound"));
            with_prefix += usize::from(node.shape().prefix > 0);
            for other in keys.iter().filter(|key| low.as_ref().is_none_or(|low| *key >= low)) {
                let on = |seek| tree.onwards_from(&node, seek, 0).expect("sound").is_some();
                let is_beyond = high.as_ref().is_some_and(|high| other >= high);
                assert_eq!(on(Seek::At(other)), is_beyond, "{other:?}, below {high:?}");
                let is_beyond = high.as_ref().is_some_and(|high| other > high);
                assert_eq!(on(Seek::Below(other)), is_beyond, "below {other:?}, below {high:?}");
            }
            held.unlock_unchanged();
        }
        assert!(with_prefix > 20, "{with_prefix} keys in leaves with a prefix");
    }
}
