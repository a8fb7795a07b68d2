//! Insert, update and remove of one key; splits.
//!
//! Persist order of a split, each line durable before the next:
//!
//! 1. the map's byte of the new page: a crash here leaks it, and the next rebuild returns it;
//! 2. the new leaf: nothing leads to it;
//! 3. the old leaf's line 0: sibling, then bitmaps without what moved. Within the line a crash may
//!    keep the first of these stores only: then some entries are in both leaves, and the rebuild
//!    drops them from the left one.

use everleaf_pmem::buffered::BufferedOp;
use everleaf_pmem::{Error, LatchGuard, Medium, Page, Result};
use everleaf_pool::{Stop, kind, retry};

use crate::blink::{Condition, Put};
use crate::bug::{self, Bug};
use crate::hybrid::epoch_bitmap as leaf;
use crate::hybrid::epoch_bitmap::{Cut, LeafWriter, current, find, give_up, value_of};
use crate::hybrid::frame::{LeafRange, Sorted, range, set_range};
use crate::hybrid::tree::{Hybrid, enter_inner};
use crate::node::damaged;

const UNCHANGED: Put<u64> = Put { old: None, epoch: None };

/// An entry to be stored, and the slot with its key.
pub(super) struct NewPair {
    pub(super) key: u64,
    pub(super) value: u64,
    pub(super) found: Option<usize>,
}

/// A change of the slots that a leaf shows from an epoch on.
pub(super) struct Stored {
    epoch: u64,
    /// The slot that it does not show any more.
    gone: Option<usize>,
    /// The slot that it shows now.
    new: Option<usize>,
}

impl<M: Medium> Hybrid<M> {
    /// Stores a value, if `condition` allows it. The write is durable when the epoch in the answer has
    /// ended; [`Hybrid::wait_for`] waits for that. If the condition is not met, the answer names no epoch,
    /// although the value that was found may not be durable yet. Lines are flushed only if the leaf is
    /// split.
    ///
    /// A new value of an old entry needs a slot, too. If the pool is full, `put` first ends two epochs:
    /// that frees what only a crash would have needed.
    ///
    /// # Errors
    /// Full, Poisoned, Corrupt; nothing is stored then.
    pub fn put(&self, key: u64, value: u64, condition: Condition) -> Result<Put<u64>> {
        self.medium().throttle(true)?;
        self.with_room(|| self.try_put(key, value, condition))
    }

    /// Tries a write until it is done, and once more after room has been made if the pool is full.
    pub(super) fn with_room<T>(&self, attempt: impl Fn() -> Result<T, Stop>) -> Result<T> {
        match retry(&attempt) {
            Err(full @ Error::Full { .. }) => {
                self.make_room(full)?;
                retry(attempt)
            }
            done => done,
        }
    }

    /// Ends the epochs that old versions and emptied leaves are kept for; in a batch, which keeps its
    /// epoch, the pool is `full`.
    #[cold]
    fn make_room(&self, full: Error) -> Result<()> {
        for _ in 0..2 {
            match self.medium().tick() {
                Err(Error::InsideBatch) => return Err(full),
                ended => ended?,
            }
        }
        self.reclaim_empty().map(drop)
    }

    /// Removes a key. The removal becomes durable like a [`put`](Self::put).
    ///
    /// # Errors
    /// Poisoned, Corrupt; nothing is removed then.
    pub fn remove(&self, key: u64) -> Result<Put<u64>> {
        self.medium().throttle(false)?;
        retry(|| self.try_remove(key))
    }

    /// Waits until a write is durable, and ends its epoch at once for that. All callers that wait share
    /// one end of an epoch.
    ///
    /// # Errors
    /// Poisoned; InsideBatch inside a [`pin_epoch`](everleaf_pmem::Buffered::pin_epoch).
    pub fn wait_for(&self, put: &Put<u64>) -> Result<()> {
        put.epoch.map_or(Ok(()), |epoch| self.medium().wait_durable(epoch))
    }

    /// Latches the leaf of a key.
    pub(super) fn latch_for(&self, key: u64) -> Result<(Page<'_>, LatchGuard<'_>), Stop> {
        let spot = self.leaf(key)?;
        let held = if bug::is(Bug::B16) {
            spot.page.latch().lock()
        } else {
            // The version stands for the range: docs/PAPERS.md, B16.
            spot.page.latch().upgrade(spot.version).ok_or(Stop::Busy)?
        };
        Ok((spot.page, held))
    }

    /// A step's registration, if a bug has put it before the latches.
    fn enter_first(&self) -> Result<Option<BufferedOp<'_, M>>> {
        if bug::is(Bug::EnterFirst) { self.medium().enter().map(Some) } else { Ok(None) }
    }

    pub(super) fn try_put(
        &self,
        key: u64,
        value: u64,
        condition: Condition,
    ) -> Result<Put<u64>, Stop> {
        let early = self.enter_first()?;
        let (page, held) = self.latch_for(key)?;
        let found = find(page, current(page), key);
        let old = found.map(|slot| value_of(page, slot));
        let unwanted = match condition {
            Condition::Always => false,
            Condition::Present => old.is_none(),
            Condition::Absent => old.is_some(),
        };
        if unwanted {
            held.unlock_unchanged();
            return Ok(Put { old, epoch: None });
        }
        let entry = NewPair { key, value, found };
        let mut op = match early {
            Some(op) => op,
            None => self.medium().enter()?,
        };
        let epoch = match self.store(&mut op, page, &entry) {
            Some(stored) => {
                drop(op);
                Sorted::follow(page, &held, stored.gone, stored.new);
                stored.epoch
            }
            None => {
                drop(op);
                self.split_and_store(page, &entry)?
            }
        };
        Ok(Put { old, epoch: Some(epoch) })
    }

    /// Stores an entry if the leaf has room.
    #[inline]
    pub(super) fn store<'m>(
        &'m self,
        op: &mut BufferedOp<'m, M>,
        page: Page<'m>,
        entry: &NewPair,
    ) -> Option<Stored> {
        debug_assert!(page.latch().is_held(), "a step enters after it has latched");
        let views = self.views(page, self.medium().epoch(op));
        let in_place = entry.found.filter(|slot| views.is_new(*slot));
        let slot = in_place.or_else(|| views.free_slot(page.slots()))?;
        let mut writer = LeafWriter::begin(self.medium(), op, page);
        let epoch = writer.epoch();
        if in_place.is_some() {
            writer.update(slot, entry.value);
            return Some(Stored { epoch, gone: None, new: None });
        }
        writer.insert(slot, entry.key, entry.value, entry.found);
        Some(Stored { epoch, gone: entry.found, new: Some(slot) })
    }

    /// Makes room by a split, unless an epoch has ended meanwhile and made some.
    #[cold]
    fn split_and_store(&self, page: Page<'_>, entry: &NewPair) -> Result<u64, Stop> {
        let m = self.medium();
        let mut step = self.pool.step();
        let (right, right_held) = step.new_page(kind::NODE)?;
        let mut op = m.enter()?;
        if let Some(stored) = self.store(&mut op, page, entry) {
            drop(op);
            return Ok(stored.epoch);
        }
        let views = self.views(page, m.epoch(&op));
        let old_range = range(page).ok_or_else(|| damaged(page, "a leaf without a range"))?;
        let new = entry.found.is_none().then_some(entry.key);
        let Cut { key: cut, moved } = leaf::cut(page, views, new)
            .filter(|cut| old_range.low < cut.key && old_range.contains(cut.key))
            .ok_or_else(|| damaged(page, "a full leaf that cannot be split"))?;
        step.publish_alloc(&mut op);
        let epoch = LeafWriter::begin(m, &mut op, page).epoch();
        leaf::build_right(m, page, right, moved);
        give_up(m, page, right.no(), moved);
        set_range(right, LeafRange { low: cut, ..old_range });
        set_range(page, LeafRange { high: Some(cut), ..old_range });
        let half = if entry.key >= cut { right } else { page };
        let found = find(half, current(half), entry.key);
        let found = if bug::is(Bug::B2) { entry.found } else { found };
        let stored = self.store(&mut op, half, &NewPair { found, ..*entry });
        assert!(stored.is_some(), "half a leaf has room");
        drop(op);
        // The other half may show nothing now: old versions alone can fill a leaf.
        [page, right].into_iter().filter(|half| current(*half) == 0).for_each(|h| self.shrunk(h));
        debug_assert!(right.latch().is_held());
        // While the new leaf is latched, so that it cannot be unlinked before it has been entered.
        enter_inner(&self.inner, cut, right.no());
        drop(right_held);
        Ok(epoch)
    }

    fn try_remove(&self, key: u64) -> Result<Put<u64>, Stop> {
        let early = self.enter_first()?;
        let (page, held) = self.latch_for(key)?;
        let Some(slot) = find(page, current(page), key) else {
            held.unlock_unchanged();
            return Ok(UNCHANGED);
        };
        let old = value_of(page, slot);
        let mut op = match early {
            Some(op) => op,
            None => self.medium().enter()?,
        };
        let mut writer = LeafWriter::begin(self.medium(), &mut op, page);
        writer.remove(slot);
        let epoch = writer.epoch();
        drop(op);
        Sorted::follow(page, &held, Some(slot), None);
        if bug::is(Bug::B12) && current(page) == 0 {
            std::mem::forget(held);
        }
        self.shrunk(page);
        Ok(Put { old: Some(old), epoch: Some(epoch) })
    }
}
