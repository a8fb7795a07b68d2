//! Insert, update and remove of one key.

use everleaf_pmem::{Medium, Page, Result};
use everleaf_pool::{Stop, retry};

use super::descend::Lag;
use super::{Blink, Seek};
use crate::keys::Keys;
use crate::node::racing::Racing;
use crate::node::{Layout, Probe, Run, Shape, Slot, change};

/// Under which condition a write happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Only {
    /// Always.
    Ever,
    /// Only if the key is there.
    Present,
    /// Only if the key is not there.
    Absent,
}

/// Where a slot goes in a leaf: over an old one with the same key, or between two.
struct Place<'m> {
    page: Page<'m>,
    shape: Shape,
    pos: usize,
    exact: bool,
}

/// What a write found and when it will be durable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Put<V> {
    /// The value that the key had before.
    pub old: Option<V>,
    /// The epoch that the write landed in; `None` if nothing was written.
    pub epoch: Option<u64>,
}

impl<M: Medium, L: Layout, P: Probe, K: Keys> Blink<M, L, P, K> {
    /// The value of a key. What it sees of writers that are under way, and whether it waits for them,
    /// is the tree's [`Reading`](super::Reading); on media with epochs it sees writes before they are durable.
    ///
    /// # Errors
    /// I/O errors and Corrupt.
    #[inline]
    pub fn get(&self, key: &K::Key) -> Result<Option<K::Value>> {
        self.read_leaf(
            Seek::At(key),
            |spot, run| {
                let found = K::find::<M, P>(&self.pool, spot.page, spot.shape, run, key)?;
                found.map(|slot| K::value(&self.pool, slot)).transpose()
            },
            |leaf| {
                self.found_beside_writer(leaf, key)
                    .map(|slot| K::value(&self.pool, slot))
                    .transpose()
            },
        )
    }

    /// Whether a key is there; its value is not read.
    ///
    /// # Errors
    /// I/O errors and Corrupt.
    pub fn contains(&self, key: &K::Key) -> Result<bool> {
        self.read_leaf(
            Seek::At(key),
            |spot, run| {
                let found = K::find::<M, P>(&self.pool, spot.page, spot.shape, run, key)?;
                Ok(found.is_some())
            },
            |leaf| Ok(self.found_beside_writer(leaf, key).is_some()),
        )
    }

    #[cold]
    fn found_beside_writer(&self, leaf: Racing<'_>, key: &K::Key) -> Option<Slot> {
        let key = K::order(key)?;
        // In a leaf of words the identity is the key.
        leaf.last_below(|k| k <= key).filter(|slot| slot.ident == key)
    }

    /// Stores a value under a key, if `only` allows it. Failure-atomic: after a crash the key has
    /// the old value or the new one. Cost: one leaf latched; at most half the node's slots stored.
    ///
    /// # Errors
    /// Invalid for a key or value outside the limits, Full, I/O errors, Poisoned, Corrupt. Nothing
    /// is stored then.
    #[inline]
    pub fn put(&self, key: &K::Key, value: &K::Input, only: Only) -> Result<Put<K::Value>> {
        K::check(key, Some(value))?;
        self.medium().pace();
        let prepared = K::prepare(&self.pool, key, value)?;
        loop {
            if let Some((put, lag)) = retry(|| self.try_put(key, value, &prepared, only))? {
                // The write is done. Upkeep that fails, for want of space say, is no failure of
                // it: who passes next tries again.
                let _ = self.complete(lag);
                return Ok(put);
            }
        }
    }

    #[inline]
    #[allow(clippy::type_complexity)]
    fn try_put<'s, 'p: 's>(
        &'s self,
        key: &K::Key,
        value: &K::Input,
        prepared: &'s K::Prepared<'p, M>,
        only: Only,
    ) -> Result<Option<(Put<K::Value>, Option<Lag>)>, Stop> {
        let m = self.medium();
        let Some((spot, held)) = self.latch_for(key, 0)? else { return Ok(None) };
        let (page, shape, run) = (spot.page, spot.shape, Run::of(spot.page));
        let rank = K::rank::<M, P>(&self.pool, page, shape, run, key)?;
        let found = rank.exact.then(|| Slot::read(page, run.slot(page, rank.le - 1)));
        let old = found.map(|slot| K::value(&self.pool, slot)).transpose()?;
        if only != Only::Ever && (only == Only::Present) != rank.exact {
            held.unlock_unchanged();
            return Ok(Some((Put { old, epoch: None }, spot.lag)));
        }
        if found.is_none() && run.count >= L::capacity::<M>(page.slots(), shape) {
            self.split(page, held, rank.le == run.count)?;
            return Ok(None);
        }
        let place =
            Place { page, shape, pos: rank.le - usize::from(rank.exact), exact: rank.exact };
        if let Some(slot) = K::plain_slot(key, value) {
            let mut op = m.enter()?;
            Self::link(m, &mut op, &place, slot);
            let epoch = Some(m.epoch(&op));
            drop(op);
            drop(held);
            return Ok(Some((Put { old, epoch }, spot.lag)));
        }
        let mut step = self.pool.step();
        let plan = K::plan(&mut step, prepared)?;
        if let Some(slot) = found {
            K::release(&mut step, slot)?;
        }
        let mut op = step.enter()?;
        step.publish_alloc(&mut op);
        let slot = K::write(&mut step, &mut op, shape, &plan, (key, value), prepared);
        Self::link(m, &mut op, &place, slot);
        step.publish_free(&mut op);
        let epoch = Some(m.epoch(&op));
        drop(op);
        drop(held);
        Ok(Some((Put { old, epoch }, spot.lag)))
    }

    /// Puts a slot into its place in a leaf.
    #[inline(always)]
    fn link<'s>(m: &'s M, op: &mut M::Op<'s>, at: &Place<'_>, slot: Slot) {
        let &Place { page, shape, pos, exact } = at;
        if !exact {
            L::insert::<M, P>(m, page, shape, pos, slot);
            change::note_insert(m, op, page, pos, slot);
        } else if K::REPLACES_PAYLOAD {
            change::set_payload(m, op, page, pos, slot.payload);
        } else {
            change::set_ident(m, op, page, pos, slot.ident);
        }
    }

    /// Removes a key. Failure-atomic. A leaf that becomes nearly empty is merged with its sibling.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub fn remove(&self, key: &K::Key) -> Result<Put<K::Value>> {
        K::check(key, None)?;
        self.medium().pace();
        let (put, lag, sparse) = retry(|| self.try_remove(key))?;
        // Upkeep, as in `put`.
        let _ = self.complete(lag);
        if sparse {
            let _ = self.merge_at(key, 0);
        }
        Ok(put)
    }

    #[allow(clippy::type_complexity)]
    fn try_remove(&self, key: &K::Key) -> Result<(Put<K::Value>, Option<Lag>, bool), Stop> {
        let m = self.medium();
        let Some((spot, held)) = self.latch_for(key, 0)? else { return Err(Stop::Busy) };
        let (page, shape, run) = (spot.page, spot.shape, Run::of(spot.page));
        let rank = K::rank::<M, P>(&self.pool, page, shape, run, key)?;
        if !rank.exact {
            held.unlock_unchanged();
            return Ok((Put { old: None, epoch: None }, spot.lag, false));
        }
        let slot = Slot::read(page, run.slot(page, rank.le - 1));
        let old = Some(K::value(&self.pool, slot)?);
        let mut step = self.pool.step();
        K::release(&mut step, slot)?;
        let mut op = step.enter()?;
        L::remove::<M, P>(m, page, shape, rank.le - 1);
        change::note_remove(m, &mut op, page, rank.le - 1);
        step.publish_free(&mut op);
        let epoch = Some(m.epoch(&op));
        drop(op);
        drop(held);
        Ok((Put { old, epoch }, spot.lag, run.count - 1 <= page.slots() / 4))
    }
}
