//! Which nodes merge, and when: what keeps the space of a tree in proportion to what it holds.
//!
//! A removal that leaves a leaf with a count of every few looks at the leaf's neighbours under the
//! same parent, without latches. A pair that fits into seven eighths of a node merges: a split leaves
//! two halves, so some writes pass before a merged node splits, and before halves merge. An empty
//! leaf fits beside any neighbour, and so does an inner node with one child. If an inner node with
//! one child stands between full ones, one of those is split to take it in. A linear leaf with a quarter of its slots
//! that fits beside no neighbour gets entries of the left one ([`give`](crate::slots::give)).
//!
//! A merge gives two nodes new neighbours: those are looked at next. The parent has lost a child, and
//! two children of inner nodes that became one are under one parent now.
//!
//! So two neighbours under one parent always hold more than four fifths of a node together, if no
//! split came between, and leaves are two fifths full in the mean. A thread that wants to merge while another
//! does leaves the place to that one, so nothing waits for somebody to pass again. Only a crash
//! between a removal and its merge leaves one node sparse for each writer, until the next removal
//! beside it.

use std::borrow::Borrow;
use std::sync::{PoisonError, TryLockError};

use everleaf_pmem::locks::{Mutex, MutexGuard};
use everleaf_pmem::{Backoff, Medium, PageNo, Result, Retries, fallible};
use everleaf_pool::retry;

use crate::blink::descend::{Blink, PendingMerges, Seek};
use crate::node::{Asking, KeyOf, Kind, NodeAt, OwnedKeyOf, Rank, TreeKey, sibling};

/// How often a place is looked at again that changes under the eyes.
const LOOKS: u32 = 64;

/// So many merges do not wait for one unless a panic ended that.
const PLACES: usize = 1 << 12;

/// The upkeep that is possible for a node.
enum Upkeep {
    /// Nothing: it does not fit beside a neighbour.
    Rest,
    /// Nothing: there is no level above it.
    Root,
    /// Its parent has no other child: that one comes first.
    Alone,
    /// It has one child, and this neighbour of it is full.
    Crowded(Side),
    /// These two can be merged.
    Merge(PageNo, PageNo),
    /// It should get entries of the left one.
    Give(PageNo, PageNo),
}

/// On which side of a node another one is.
#[derive(Clone, Copy)]
enum Side {
    Left,
    Right,
}

impl<M: Medium, K: Kind> Blink<M, K> {
    /// Merges the leaf that covers `key` with a neighbour, if they fit into one node, and then all
    /// that fits because of it, up to the root. Does nothing if descents hold no merge up
    /// (`Reading::Crabbing`).
    #[cold]
    pub(super) fn merge_at(&self, key: &KeyOf<K>) -> Result<()> {
        if self.reading.is_crabbing()
            || matches!(self.look_around(key, 0)?, Upkeep::Rest | Upkeep::Root)
        {
            return Ok(());
        }
        self.note_place(key.own()?, 0)?;
        if std::mem::replace(&mut self.pending().busy, true) {
            return Ok(());
        }
        let mut done = Ok(());
        loop {
            let mut pending = self.pending();
            let Some((key, level)) = pending.places.pop() else {
                pending.busy = false;
                return done;
            };
            drop(pending);
            debug_assert!(self.pending().busy, "who takes places has said so");
            let merging = self.lock_merges();
            let tidied = self.tidy(key.borrow(), level);
            drop(merging);
            done = done.and(tidied.map(drop));
        }
    }

    fn pending(&self) -> MutexGuard<'_, PendingMerges<K>> {
        let pending: &Mutex<PendingMerges<K>> = &self.pending;
        pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// As long as this is held no other merges. Held for one place by a thread that merges, and for one leaf
    /// by a reader that writers have kept from it. The caller holds no latch.
    pub(super) fn lock_merges(&self) -> MutexGuard<'_, ()> {
        let mut wait = Backoff::default();
        loop {
            match self.merging.try_lock() {
                Ok(held) => return held,
                Err(TryLockError::Poisoned(poisoned)) => return poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => wait.pause(),
            }
        }
    }

    fn note_place(&self, key: OwnedKeyOf<K>, level: u8) -> Result<()> {
        let places = &mut self.pending().places;
        if places.len() < PLACES {
            fallible::push(places, (key, level), "a merge to be done")
        } else {
            Ok(())
        }
    }

    /// Merges one node with a neighbour, if that is possible now. The answer says whether anything
    /// has changed.
    fn tidy(&self, key: &KeyOf<K>, level: u8) -> Result<bool> {
        for _ in 0..LOOKS {
            match self.look_around(key, level)? {
                Upkeep::Rest => return Ok(false),
                Upkeep::Root => return self.shrink(),
                Upkeep::Alone if self.tidy(key, level + 1)? => {}
                Upkeep::Alone => return Ok(false),
                Upkeep::Crowded(side) => self.split_neighbour(key, level, side)?,
                Upkeep::Give(left, right) if retry(|| self.try_give((left, right)))? => {
                    return Ok(true);
                }
                Upkeep::Give(..) => {}
                Upkeep::Merge(left, right) => {
                    let merged = retry(|| self.try_merge((left, right), level))?;
                    let Some(separator) = merged else { continue };
                    self.note_place(key.own()?, level + 1)?;
                    if level > 0 {
                        self.note_place(separator, level - 1)?;
                    }
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    fn shrink(&self) -> Result<bool> {
        let mut shrunk = false;
        while retry(|| self.shrink_root())? {
            shrunk = true;
        }
        Ok(shrunk)
    }

    /// The upkeep that is possible for the node of `level` that covers `key`. Takes no latch, so it may be
    /// mistaken.
    fn look_around(&self, key: &KeyOf<K>, level: u8) -> Result<Upkeep> {
        let mut turns = Retries::default();
        loop {
            let Some(parent) = self.descend(Seek::At(key), level + 1)? else {
                return Ok(Upkeep::Root);
            };
            let next = self.look_below(&parent.node, key, level);
            if parent.node.page().latch().validate(parent.version) {
                return next;
            }
            turns.again("a look at a node's neighbours")?;
        }
    }

    fn look_below(&self, parent: &NodeAt<'_, K>, key: &KeyOf<K>, level: u8) -> Result<Upkeep> {
        let Rank { le, .. } = K::rank(&self.pool, parent, key)?;
        let child = |i: usize| -> Result<_> {
            let child = K::child(&self.pool, parent.entry(i))?;
            let child = self.medium().page(child)?;
            self.read_version_racing(child)?;
            Ok(child)
        };
        let count = parent.count();
        if le == 0 || count < 2 {
            return Ok(if le == 0 { Upkeep::Rest } else { Upkeep::Alone });
        }
        let node = child(le - 1)?;
        let Some(own) = NodeAt::<K>::of(node, level) else { return Ok(Upkeep::Rest) };
        let (shape, load) = (own.shape(), |page| K::node(page).map_or(0, |node| K::fill(&node).0));
        let right = if le < count { Some(child(le)?) } else { None };
        let fits = right.filter(|right| K::fit::<M>(node, *right, shape));
        // A merge moves the entries of the right one: the pair that moves less is taken.
        if le > 1 && fits.is_none_or(|right| K::fill(&own).0 <= load(right)) {
            let left = child(le - 2)?;
            if K::fit::<M>(left, node, shape) {
                return Ok(Upkeep::Merge(left.no(), node.no()));
            }
            let fuller = NodeAt::of(left, level).filter(|left| K::should_give(left, &own));
            if fits.is_none() && fuller.is_some() {
                return Ok(Upkeep::Give(left.no(), node.no()));
            }
        }
        let is_alone = level > 0 && own.count() <= 1;
        Ok(match (fits, right) {
            (Some(right), _) => Upkeep::Merge(node.no(), right.no()),
            (None, Some(_)) if is_alone => Upkeep::Crowded(Side::Right),
            (None, None) if is_alone => Upkeep::Crowded(Side::Left),
            _ => Upkeep::Rest,
        })
    }

    /// Splits the full neighbour of an inner node with one child, so that it can take that in.
    #[cold]
    fn split_neighbour(&self, key: &KeyOf<K>, level: u8, side: Side) -> Result<()> {
        let Some((found, held)) = self.latch_for(key, level)? else { return Ok(()) };
        let page = found.node.page();
        let (low, right) = (K::low(&self.pool, page)?, sibling(page));
        let high = right.map(|_| K::high(&self.pool, page)).transpose()?;
        held.unlock_unchanged();
        let full = match (side, low, high) {
            (Side::Left, Some(low), _) => self.latch_at(Seek::Below(low.borrow()), level)?,
            (Side::Right, _, Some(high)) => self.latch_for(high.borrow(), level)?,
            _ => None,
        };
        let Some((full, held)) = full else { return Ok(()) };
        if full.node.count() < 2 || K::takes_another::<M>(&full.node) {
            held.unlock_unchanged();
            return Ok(());
        }
        // In the middle: nobody asks.
        let rank = Rank { le: 0, exact: false };
        self.split(&full.node, held, Asking { rank, bytes: 0, slot: None })
    }
}
