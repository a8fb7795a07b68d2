//! Merges and shrinking of the root (Circ-Tree §5.3).
//!
//! A node that became nearly empty is merged with its right sibling, if both are under one parent
//! and fit into one node. The left one absorbs the right one: the paper moves the other way, which
//! needs the left neighbour's sibling link changed, too, possibly under another parent (errata C16).
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

use everleaf_pmem::{Backoff, Held, Medium, Page, PageNo, Result, room};
use everleaf_pool::{Stop, anchor, kind, retry};

use super::{Blink, Seek, damaged};
use crate::keys::{Keys, Rank};
use crate::node::{Image, LOW_WORD, Layout, Probe, Run, Shape, Slot, change, sibling};

/// Anchor word that announces a merge on media without a journal: left | right << 32.
const MERGE_WORD: usize = 2;

fn announce<M: Medium>(m: &M, anchor: Page<'_>, left: PageNo, right: PageNo) {
    m.store(anchor.head(MERGE_WORD), u64::from(left) | u64::from(right) << 32);
    m.flush(anchor, 0);
    m.fence();
}

fn announced(anchor: Page<'_>) -> Option<(PageNo, PageNo)> {
    let word = anchor.head(MERGE_WORD).load();
    (word != 0).then_some((word as PageNo, (word >> 32) as PageNo))
}

/// Two neighbours under one parent, all latched.
struct Family<'m> {
    left: Page<'m>,
    right: Page<'m>,
    parent: Page<'m>,
    parent_shape: Shape,
    /// Position of the right one's entry in the parent.
    entry: usize,
    parent_held: Held<'m>,
    right_held: Held<'m>,
    left_held: Held<'m>,
}

impl<M: Medium, L: Layout, P: Probe, K: Keys> Blink<M, L, P, K> {
    /// Merges the node of `level` that covers `key` with its right sibling, or its left sibling
    /// with it, if that is possible now; then looks at the parent, up to the root.
    #[cold]
    pub(crate) fn merge_at(&self, key: &K::Key, mut level: u8) -> Result<()> {
        // One at a time; whoever comes second need not wait: the node stays sparse a while longer.
        let Ok(_merging) = self.merging.try_lock() else { return Ok(()) };
        loop {
            let parent_sparse = retry(|| self.try_merge(key, level))?;
            if !parent_sparse {
                return Ok(());
            }
            level += 1;
        }
    }

    /// One merge; the answer says whether the parent became nearly empty.
    fn try_merge(&self, key: &K::Key, level: u8) -> Result<bool, Stop> {
        let Some((left, right)) = self.neighbours(key, level)? else {
            return self.shrink_root();
        };
        let Some(family) = self.latch_family(left, right, level)? else { return Ok(false) };
        let shape = Shape::of(family.left).expect("checked under its latch");
        let (nl, nr) = (Run::of(family.left).count, Run::of(family.right).count);
        let slots = family.left.slots();
        let both_infinite = !K::BYTES
            && level == 0
            && family.left.head(LOW_WORD).load() == 0
            && sibling(family.right).is_none();
        if nl + nr > slots * 3 / 4 || both_infinite {
            return Ok(false);
        }
        self.merge(family, shape)
    }

    /// The pair to merge: the node that covers `key` and its neighbour under the same parent.
    fn neighbours(&self, key: &K::Key, level: u8) -> Result<Option<(PageNo, PageNo)>> {
        let mut wait = Backoff::default();
        loop {
            let Some(spot) = self.descend::<false>(Seek::At(key), level + 1)? else {
                return Ok(None);
            };
            let run = Run::of(spot.page);
            let pair =
                K::rank::<M, P>(&self.pool, spot.page, spot.shape, run, key).and_then(|rank| {
                    let child = |i: usize| {
                        K::child(&self.pool, Slot::read(spot.page, run.slot(spot.page, i)))
                    };
                    Ok(match rank.le {
                        0 => None,
                        le if le < run.count => Some((child(le - 1)?, child(le)?)),
                        1 => None,
                        le => Some((child(le - 2)?, child(le - 1)?)),
                    })
                });
            if spot.page.latch().validate(spot.version) {
                return pair;
            }
            wait.pause();
        }
    }

    /// Latches the pair from left to right and then the parent, and checks that they still are one
    /// family.
    fn latch_family(
        &self,
        left: PageNo,
        right: PageNo,
        level: u8,
    ) -> Result<Option<Family<'_>>, Stop> {
        let m = self.medium();
        let (left, right) = (m.page(left)?, m.page(right)?);
        if left.no() == right.no() {
            return Err(damaged(left, "its parent names it twice").into());
        }
        self.see(left)?;
        self.see(right)?;
        let left_held = left.latch().lock();
        let is_node = |page: Page<'_>| Shape::of(page).is_some_and(|s| s.level == level);
        if !left_held.is_ready() || !is_node(left) || sibling(left) != Some(right.no()) {
            return Ok(None);
        }
        let right_held = right.latch().lock();
        if !right_held.is_ready() || !is_node(right) {
            return Ok(None);
        }
        let separator = K::high(&self.pool, left)?;
        let Some((spot, parent_held)) = self.latch_for(separator.borrow(), level + 1)? else {
            return Ok(None);
        };
        let (parent, run) = (spot.page, Run::of(spot.page));
        let Rank { le, exact } =
            K::rank::<M, P>(&self.pool, parent, spot.shape, run, separator.borrow())?;
        let child = |i: usize| K::child(&self.pool, Slot::read(parent, run.slot(parent, i)));
        if !exact || le < 2 || child(le - 1)? != right.no() || child(le - 2)? != left.no() {
            return Ok(None);
        }
        // The merged node's prefix holds for keys below its upper bound only: see `split`.
        if let (true, Some(next)) = (K::BYTES, sibling(right)) {
            let is_entered = match sibling(parent) {
                _ if le < run.count => child(le)? == next,
                Some(_) => K::high(&self.pool, parent)? == K::high(&self.pool, right)?,
                None => false,
            };
            if !is_entered {
                return Ok(None);
            }
        }
        let parent_shape = spot.shape;
        Ok(Some(Family {
            left,
            right,
            parent,
            parent_shape,
            entry: le - 1,
            parent_held,
            right_held,
            left_held,
        }))
    }

    fn merge(&self, family: Family<'_>, shape: Shape) -> Result<bool, Stop> {
        let m = self.medium();
        let Family { left, right, parent, parent_shape, entry, .. } = family;
        let (merged_shape, bounds) = K::merged(&self.pool, left, right, shape)?;
        let right_shape = Shape::of(right).expect("checked under its latch");
        let slots = Run::of(left).count + Run::of(right).count;
        let mut all = room::list(slots, "a node")?;
        let mut note = change::ImageNote::new::<M>(slots)?;
        for (page, from) in [(left, shape), (right, right_shape)] {
            let run = Run::of(page);
            for pos in 0..run.count {
                let slot = Slot::read(page, run.slot(page, pos));
                all.push(K::reshape(&self.pool, slot, from, merged_shape)?);
            }
        }
        let right_slots = &all[Run::of(left).count..];
        let parent_run = Run::of(parent);
        let mut step = self.pool.step();
        K::release_bound(&mut step, left, right)?;
        step.free_page(right.no())?;
        let anchor = if M::JOURNALED { None } else { Some(self.pool.latch(self.anchor)?) };
        let mut op = step.enter()?;
        if let Some((page, _)) = &anchor {
            announce(m, *page, left.no(), right.no());
        }
        let image = Image {
            shape: merged_shape,
            low: left.head(LOW_WORD).load(),
            right: bounds,
            slots: &all,
        };
        match &anchor {
            _ if !K::BYTES => L::absorb::<M, P>(m, left, shape, right_slots, bounds),
            Some((anchor, _)) => self.logged(*anchor, left, || L::build::<M, P>(m, left, &image)),
            None => L::build::<M, P>(m, left, &image),
        }
        change::note_image(m, &mut op, left, &image, &mut note);
        L::remove::<M, P>(m, parent, parent_shape, entry);
        change::note_remove(m, &mut op, parent, entry);
        if let Some((page, _)) = &anchor {
            announce(m, *page, 0, 0);
        }
        step.publish_free(&mut op);
        everleaf_pool::note_free(m, &mut op, right);
        drop(op);
        // The step is dropped last and only then gives the right page's number away: readers that do
        // not wait may be in it for as long as the latch words are those of this merge.
        drop((family.parent_held, family.right_held, family.left_held));
        Ok(parent_run.count - 1 <= parent.slots() / 4)
    }

    /// Makes the root's only child the root.
    fn shrink_root(&self) -> Result<bool, Stop> {
        let m = self.medium();
        let root = m.page(self.root())?;
        let version = self.see(root)?;
        let (Some(shape), run) = (Shape::of(root), Run::of(root)) else { return Ok(false) };
        if shape.level == 0 || run.count != 1 || sibling(root).is_some() {
            return Ok(false);
        }
        let only = Slot::read(root, run.slot(root, 0));
        let child = K::child(&self.pool, only);
        if !root.latch().validate(version) {
            return Ok(false);
        }
        let child = m.page(child?)?;
        self.see(child)?;
        let child_held = child.latch().lock();
        let Some(root_held) = root.latch().upgrade(version) else { return Ok(false) };
        if self.root() != root.no() || sibling(child).is_some() {
            return Ok(false);
        }
        if Shape::of(child).is_none_or(|only| only.level != shape.level - 1) {
            return Err(damaged(child, "is not the node that its parent names").into());
        }
        let mut step = self.pool.step();
        step.free_page(root.no())?;
        let (anchor_page, anchor_held) = self.pool.latch(self.anchor)?;
        let mut op = step.enter()?;
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
    pub(super) fn finish_merge(&self) -> Result<()> {
        let m = self.medium();
        let Some((left, right)) = announced(self.pool.latch(self.anchor)?.0) else { return Ok(()) };
        let (left, right) = (m.page(left)?, m.page(right)?);
        self.see(left)?;
        self.see(right)?;
        let merged = sibling(left) != Some(right.no());
        if let (true, Some(shape)) = (merged, Shape::of(right)) {
            let separator = K::low(&self.pool, right)?.unwrap_or_else(K::lowest);
            self.remove_entry(separator.borrow(), right.no(), shape.level + 1)?;
        }
        {
            let (page, _held) = self.pool.latch(self.anchor)?;
            announce(m, page, 0, 0);
        }
        if merged { self.pool.free_page(right.no(), kind::NODE) } else { Ok(()) }
    }

    fn remove_entry(&self, separator: &K::Key, right: PageNo, level: u8) -> Result<()> {
        let m = self.medium();
        let Some((spot, _held)) = self.latch_for(separator, level)? else { return Ok(()) };
        let (page, run) = (spot.page, Run::of(spot.page));
        let rank = K::rank::<M, P>(&self.pool, page, spot.shape, run, separator)?;
        if rank.exact
            && K::child(&self.pool, Slot::read(page, run.slot(page, rank.le - 1)))? == right
        {
            L::remove::<M, P>(m, page, spot.shape, rank.le - 1);
        }
        Ok(())
    }
}
