//! Merges and shrinking of the root (Circ-Tree §5.3).
//!
//! Two neighbours under one parent that fit into one node are merged; [`upkeep`](crate::blink::upkeep) says
//! which and when. The left one absorbs the right one: the paper moves the other way, which needs the
//! left neighbour's sibling link changed, too, possibly under another parent (docs/PAPERS.md, C16).
//!
//! ```text
//! on a journal   one step: L absorbs R, the parent loses R's entry, R is freed
//! strict media   anchor := (L, R); flush             a crash: not yet merged, nothing to do
//!                copy R's slots behind L's; flush    void, because their keys are ≥ L.high
//!                L: high, sibling, count; flush      the merge is done; a crash: open removes R's
//!                parent: remove R's entry            entry and frees R
//!                anchor := 0; flush                  a crash: R leaks
//!                free R
//! ```
//!
//! While a merge is announced R is the tree's. Were R freed first, another tree of the pool could be
//! opened first after a crash and use the page, and what completes the merge would free it again.

use std::borrow::Borrow;
use std::sync::atomic::Ordering;

use everleaf_pmem::{LatchGuard, Medium, Page, PageNo, Result, Version};
use everleaf_pool::{Stop, anchor, kind};

use crate::blink::descend::{Blink, Seek};
use crate::blink::log::MERGE_WORD;
use crate::node::{
    KeyOf, Kind, NodeAt, OwnedKeyOf, Rank, Shape, Siblings, TreeKey, damaged, sibling,
};

/// Announces a merge on media without a journal, as left | right << 32; 0 and 0 end it.
fn announce<M: Medium>(m: &M, anchor: Page<'_>, left: PageNo, right: PageNo) {
    debug_assert!(anchor.latch().is_held(), "one announcement at a time");
    debug_assert!(left == 0 || announced(anchor).is_none(), "another merge is announced");
    m.store(anchor.head(MERGE_WORD), u64::from(left) | u64::from(right) << 32);
    m.flush(anchor, 0);
    m.fence();
}

/// The merge that an anchor announces.
pub(crate) fn announced(anchor: Page<'_>) -> Option<(PageNo, PageNo)> {
    let word = anchor.head(MERGE_WORD).load();
    (word != 0).then_some((word as PageNo, (word >> 32) as PageNo))
}

/// Two neighbours under one parent, all latched.
pub(super) struct Family<'m> {
    pub pages: Siblings<'m>,
    parent_shape: Shape,
    parent_held: LatchGuard<'m>,
    right_held: LatchGuard<'m>,
    left_held: LatchGuard<'m>,
}

impl Family<'_> {
    /// The version at which one of the two was latched.
    pub fn before(&self, left: bool) -> Version {
        if left { self.left_held.before() } else { self.right_held.before() }
    }

    /// Unlocks all three as they were.
    pub fn unlock_unchanged(self) {
        self.parent_held.unlock_unchanged();
        self.right_held.unlock_unchanged();
        self.left_held.unlock_unchanged();
    }
}

/// The relation of two nodes that were neighbours under one parent.
pub(super) enum Neighbours<'m, K: Kind> {
    /// Still that, with this key between them.
    Family(Family<'m>, OwnedKeyOf<K>),
    /// Something was split at this key whose other half the parent may not name: since now, or since
    /// a crash.
    Split(OwnedKeyOf<K>),
    /// Something else.
    Other,
}

impl<M: Medium, K: Kind> Blink<M, K> {
    /// Merges two neighbours, if they still are under one parent and fit into one node. Answers the
    /// key that was between them.
    pub(super) fn try_merge(
        &self,
        (left, right): (PageNo, PageNo),
        level: u8,
    ) -> Result<Option<OwnedKeyOf<K>>, Stop> {
        match self.latch_family(left, right, level)? {
            Neighbours::Family(family, separator) => {
                let left = K::node(family.pages.left).expect("checked under its latch");
                let shape = left.shape();
                if !K::fit::<M>(family.pages.left, family.pages.right, shape) {
                    return Ok(None);
                }
                Ok(self.merge(family, shape)?.then_some(separator))
            }
            Neighbours::Split(high) => {
                let beyond = self.descend(Seek::At(high.borrow()), level)?;
                self.complete(beyond.and_then(|spot| spot.lag))?;
                Ok(None)
            }
            Neighbours::Other => Ok(None),
        }
    }

    /// Latches the pair from left to right and then the parent, and looks whether they still are one
    /// family.
    pub(super) fn latch_family(
        &self,
        left: PageNo,
        right: PageNo,
        level: u8,
    ) -> Result<Neighbours<'_, K>, Stop> {
        let m = self.medium();
        let (left, right) = (m.page(left)?, m.page(right)?);
        if left.no() == right.no() {
            return Err(damaged(left, "its parent names it twice").into());
        }
        self.read_version(left)?;
        self.read_version(right)?;
        // They may have left memory meanwhile.
        let mut left_held = left.latch().lock();
        self.pool.ensure(left, &mut left_held)?;
        if NodeAt::<K>::of(left, level).is_none() || sibling(left).is_none() {
            return Ok(Neighbours::Other);
        }
        let separator = K::high(&self.pool, left)?;
        if sibling(left) != Some(right.no()) {
            return Ok(Neighbours::Split(separator));
        }
        let mut right_held = right.latch().lock();
        self.pool.ensure(right, &mut right_held)?;
        if NodeAt::<K>::of(right, level).is_none() {
            return Ok(Neighbours::Other);
        }
        let Some((spot, parent_held)) = self.latch_for(separator.borrow(), level + 1)? else {
            return Ok(Neighbours::Other);
        };
        let (above, parent) = (spot.node, spot.node.page());
        let Rank { le, exact } = K::rank(&self.pool, &above, separator.borrow())?;
        let child = |i: usize| K::child(&self.pool, above.entry(i));
        if K::GIVES && !exact {
            // A crash has left its separator behind.
            return Ok(Neighbours::Split(separator));
        }
        if !exact || le < 2 || child(le - 1)? != right.no() || child(le - 2)? != left.no() {
            return Ok(Neighbours::Other);
        }
        // The merged node's prefix holds for keys below its upper bound only: see `split`.
        if let (true, Some(next)) = (K::PREFIXED, sibling(right)) {
            let is_entered = match sibling(parent) {
                _ if le < above.count() => child(le)? == next,
                Some(_) => K::high(&self.pool, parent)? == K::high(&self.pool, right)?,
                None => false,
            };
            if !is_entered {
                return Ok(Neighbours::Split(K::high(&self.pool, right)?));
            }
        }
        let pages = Siblings { left, right, parent, entry: le - 1 };
        let parent_shape = above.shape();
        let family = Family { pages, parent_shape, parent_held, right_held, left_held };
        Ok(Neighbours::Family(family, separator))
    }

    /// Has the left one of two neighbours give entries to the right one, if they still are under one parent and should
    /// do so. Says whether it did.
    pub(super) fn try_give(&self, (left, right): (PageNo, PageNo)) -> Result<bool, Stop> {
        let family = match self.latch_family(left, right, 0)? {
            Neighbours::Family(family, _) => family,
            Neighbours::Split(high) => {
                let beyond = self.descend(Seek::At(high.borrow()), 0)?;
                self.complete(beyond.and_then(|spot| spot.lag))?;
                return Ok(false);
            }
            Neighbours::Other => return Ok(false),
        };
        let Some(mut gift) = K::plan_give::<M>(&family.pages)? else {
            family.unlock_unchanged();
            return Ok(false);
        };
        debug_assert!(self.merging.try_lock().is_err(), "nothing merges meanwhile");
        let m = self.medium();
        let mut op = m.enter()?;
        K::give(m, &mut op, &family.pages, &mut gift);
        drop(op);
        drop(family);
        Ok(true)
    }

    /// False if they do not fit after all.
    fn merge(&self, family: Family<'_>, shape: Shape) -> Result<bool, Stop> {
        let m = self.medium();
        let Siblings { left, right, parent, entry } = family.pages;
        let parent_shape = family.parent_shape;
        debug_assert!(self.merging.try_lock().is_err(), "one merge of a tree at a time");
        debug_assert!([left, right, parent].iter().all(|page| page.latch().is_held()));
        debug_assert_eq!(parent_shape.level, shape.level + 1);
        let mut step = self.pool.step();
        let Some(mut plan) = K::plan_merge(&mut step, left, right, shape)? else {
            family.unlock_unchanged();
            return Ok(false);
        };
        step.free_page(right.no())?;
        let anchor = if M::JOURNALED { None } else { Some(self.pool.latch(self.anchor())?) };
        let mut op = step.enter()?;
        if let Some((page, _)) = &anchor {
            announce(m, *page, left.no(), right.no());
        }
        K::merge(m, &mut op, left, &mut plan, &mut |build| match &anchor {
            Some((anchor, _)) => self.logged(*anchor, left, build),
            None => build(),
        });
        K::remove(m, &mut op, parent, parent_shape, entry);
        if let Some((page, _)) = &anchor {
            announce(m, *page, 0, 0);
        }
        step.publish_free(&mut op);
        everleaf_pool::note_free(m, &mut op, right);
        drop(op);
        // The step is dropped last and only then gives the right page's number away: readers that do
        // not wait may be in it for as long as the latch words are those of this merge.
        drop((family.parent_held, family.right_held, family.left_held));
        Ok(true)
    }

    /// Makes the root's only child the root; the answer says whether there was one.
    pub(super) fn shrink_root(&self) -> Result<bool, Stop> {
        let m = self.medium();
        let root = m.page(self.root())?;
        let version = self.read_version(root)?;
        let Some(node) = K::node(root) else { return Ok(false) };
        if node.level() == 0 || node.count() != 1 || sibling(root).is_some() {
            return Ok(false);
        }
        let child = K::child(&self.pool, node.entry(0));
        if !root.latch().validate(version) {
            return Ok(false);
        }
        let child = m.page(child?)?;
        self.read_version(child)?;
        let mut child_held = child.latch().lock();
        self.pool.ensure(child, &mut child_held)?;
        let Some(root_held) = root.latch().upgrade(version) else { return Ok(false) };
        if self.root() != root.no() || sibling(child).is_some() {
            return Ok(false);
        }
        if NodeAt::<K>::of(child, node.level() - 1).is_none() {
            return Err(damaged(child, "is not the node that its parent names").into());
        }
        let mut step = self.pool.step();
        step.free_page(root.no())?;
        let (anchor_page, anchor_held) = self.pool.latch(self.anchor())?;
        let mut op = step.enter()?;
        debug_assert!(child.latch().is_held() && root.latch().is_held());
        anchor::set_root(m, &mut op, anchor_page, child.no());
        self.root.store(child.no(), Ordering::Release);
        step.publish_free(&mut op);
        everleaf_pool::note_free(m, &mut op, root);
        drop(op);
        drop((anchor_held, root_held));
        child_held.unlock_unchanged();
        Ok(true)
    }

    /// Completes the merge that a crash interrupted on a medium without a journal.
    ///
    /// # Errors
    /// Corrupt, also if the medium has a journal, where none is announced.
    pub(super) fn finish_merge(&self) -> Result<()> {
        let m = self.medium();
        let anchor = self.pool.latch(self.anchor())?;
        let Some((left, right)) = announced(anchor.0) else { return Ok(()) };
        if M::JOURNALED {
            return Err(damaged(anchor.0, "announces a merge, although there is a journal"));
        }
        drop(anchor);
        let (left, right) = (m.page(left)?, m.page(right)?);
        self.read_version(left)?;
        self.read_version(right)?;
        let merged = sibling(left) != Some(right.no());
        if let (true, Some(node)) = (merged, K::node(right)) {
            let separator = K::low(&self.pool, right)?.unwrap_or_else(K::Key::lowest);
            self.remove_entry(separator.borrow(), right.no(), node.level() + 1)?;
        }
        {
            let (page, _held) = self.pool.latch(self.anchor())?;
            announce(m, page, 0, 0);
        }
        if merged { self.pool.free_page(right.no(), kind::NODE) } else { Ok(()) }
    }

    /// Removes the entry of `right` from its parent: the rest of a merge that a crash cut off.
    fn remove_entry(&self, separator: &KeyOf<K>, right: PageNo, level: u8) -> Result<()> {
        let m = self.medium();
        let Some((spot, _held)) = self.latch_for(separator, level)? else { return Ok(()) };
        let node = spot.node;
        let rank = K::rank(&self.pool, &node, separator)?;
        if rank.exact && K::child(&self.pool, node.entry(rank.le - 1))? == right {
            let mut op = m.enter()?;
            K::remove(m, &mut op, node.page(), node.shape(), rank.le - 1);
        }
        Ok(())
    }
}
