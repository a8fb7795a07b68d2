//! Room on the disk before it is needed, so that a full disk refuses what is added, and never what makes room.
//!
//! Nothing is written over, so a writer that deletes needs room, too: for records, for images of the pages that have
//! changed, for a root. A free extent is *ready* if the disk has blocks for all of it. There are as many of those
//! as take
//!
//! ```text
//! images of all pages that are changed and not written + the leaves of the table that know of them
//! + records that wait to become durable and are not in the journal + some spare ones
//! ```
//!
//! So a commit and a checkpoint find room on a disk that is full. A slot that tells of its changes looks whether
//! it is so. If not, the next writer, before it latches anything, has the disk give blocks to more extents. If the
//! disk has none, a checkpoint comes first, unless the program ends epochs: it frees the journal and cleans. Then
//! a writer that adds something is refused. One that deletes goes on, and is content with half of the spare ones.
//!
//! A short file has nothing ready, so that small pools stay small; and where the system cannot give blocks
//! ahead, none has.

use std::sync::atomic::Ordering;

use everleaf_pmem::epoch;
use everleaf_pmem::error::{Error, Result};
use everleaf_pmem::sync::lock_plain as lock;

use crate::checkpoint::Pace;
use crate::checkpoint::cleaner::Sweep;
use crate::epochs::barrier::SCANT;
use crate::inner::Inner;
use crate::limits::reserve::Taker;
use crate::limits::room::{is_full, is_want_of_room};
use crate::store::format::EXTENT_BYTES;
use crate::store::image::ImageKey;
use crate::store::table::{LEAF_BYTES, Places};

/// Extents that cleaning makes ready beyond what is needed now, as a share of those in use.
const CLEANED_SHARE: u64 = 32;
/// Extents that get blocks at a time, beside those that are needed now.
const STEP: u64 = 4;
/// Bytes of ready extents that cleaning leaves beside those for leaves of the table and a root.
const LEFT_BY_CLEANING: u64 = EXTENT_BYTES / 4;

const TAKING: &str = "taking room on the disk";

impl Inner {
    /// Pages that a checkpoint would have to write.
    pub(crate) fn changed(&self) -> u64 {
        self.bounds.changed() + lock(&self.recovered).len() as u64
    }

    /// Extents that are to be ready if so many pages have `changed`: for a writer that `adds` something, or for one that
    /// makes room.
    pub(crate) fn owed(&self, places: &Places, changed: u64, adds: bool) -> u64 {
        let in_use = places.extents.in_use();
        if !self.reserve.is_due(in_use) {
            return 0;
        }
        let room = |bytes: usize| ImageKey::room(bytes, &(0..0)) as u64;
        let pages = changed * room(self.region.geometry().page_bytes());
        let leaves = changed.min(places.leaves()) * room(LEAF_BYTES);
        // Some more, for ends of extents that no image fits in.
        let bytes = (pages + leaves) / 64 * 65 + self.spills.unwritten(&self.bounds);
        bytes.div_ceil(EXTENT_BYTES) + self.reserve.spare(in_use, adds)
    }

    /// How many extents are ready beyond those that are owed, or how many are missing.
    fn readiness(&self, adds: bool) -> i64 {
        let changed = self.changed();
        let places = self.places();
        places.extents.ready() as i64 - self.owed(&places, changed, adds) as i64
    }

    /// A slot has told of changes: asks the next writer to see to room, if there is not enough.
    pub(crate) fn look_at_reserve(&self) {
        if self.readiness(true) < 0 {
            self.barrier.fetch_or(SCANT, Ordering::SeqCst);
        }
    }

    /// Sees to it that so many `more` extents are ready than are owed.
    ///
    /// # Errors
    /// The disk is full.
    fn cover(&self, more: u64) -> Result<()> {
        let missing = || more as i64 - self.readiness(true);
        if missing() <= 0 || !self.reserve.is_due(self.places().extents.in_use()) {
            return Ok(());
        }
        let is_out = lock(&self.reserve.state).is_out;
        let step = if is_out { 0 } else { STEP as i64 };
        let ready = self.places().extents.ready() as i64;
        let wanted = ready + missing() + step;
        match self.take_blocks(wanted.max(0) as u64, u64::MAX) {
            Err(error) if is_want_of_room(&error) && missing() > 0 => {
                self.barrier.fetch_or(SCANT, Ordering::SeqCst);
                Err(error)
            }
            // It shows when something is written, or not at all.
            _ => Ok(()),
        }
    }

    /// Has the disk give blocks to extents, of the first `within` of the file, until so many are ready.
    ///
    /// # Errors
    /// Those of the system; [`Error::NoMemory`].
    fn take_blocks(&self, ready: u64, within: u64) -> Result<()> {
        let _writing = self.begin_write()?;
        let mut state = lock(&self.reserve.state);
        let (mut from, mut is_last) = (0, false);
        let mut full = Ok(());
        while !is_last && self.places().extents.ready() < ready {
            let no = self.places_mut().extents.take_without_blocks(from)?;
            if u64::from(no) >= within {
                self.places_mut().extents.let_go(no);
                break;
            }
            is_last = u64::from(no) + 1 >= self.places().extents.len();
            let allocated = self.allocate(no);
            self.places_mut().extents.let_go(no);
            match allocated {
                Ok(()) => is_last = false,
                // Others that were written before may have all their blocks.
                Err(e) if is_full(&e) => full = Err(Error::io(TAKING, e)),
                Err(e) => return Err(Error::io(TAKING, e)),
            }
            from = no + 1;
        }
        state.is_out = full.is_err();
        full
    }

    /// Has the disk give blocks to all of an extent that somebody holds.
    fn allocate(&self, no: u32) -> std::io::Result<()> {
        let start = u64::from(no) * EXTENT_BYTES;
        let allocated = self.data.allocate(start..start + EXTENT_BYTES);
        match &allocated {
            Ok(()) => self.places_mut().extents.note_blocks(no),
            Err(e) if e.kind() == std::io::ErrorKind::Unsupported => {
                self.reserve.give_up();
            }
            Err(_) => {}
        }
        allocated
    }

    /// A free extent: one that the disk has blocks for, unless that is impossible, or the file is short.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    pub(crate) fn take_extent(&self, taker: Taker) -> Result<u32> {
        let (no, is_well) = {
            let mut places = self.places_mut();
            let no = match taker {
                Taker::Images => places.extents.take()?,
                Taker::Journal => places.extents.take_journal()?,
            };
            let is_short = !self.reserve.is_due(places.extents.in_use());
            (no, is_short || places.extents.has_blocks(no))
        };
        if is_well || self.allocate(no).is_ok() {
            return Ok(no);
        }
        let mut places = self.places_mut();
        let ready = match taker {
            Taker::Images => places.extents.take_ready(),
            Taker::Journal => places.extents.take_ready_for_journal(),
        };
        let Some(ready) = ready else { return Ok(no) };
        match taker {
            Taker::Images => places.extents.let_go(no),
            Taker::Journal => places.extents.release_journal(no),
        }
        Ok(ready)
    }

    /// A writer sees to room, before it latches anything. A batch goes on in any case.
    ///
    /// # Errors
    /// The disk is full, for a writer that adds something.
    #[cold]
    pub(crate) fn expect_reserve(&self, adds: bool) -> Result<()> {
        if !adds && lock(&self.reserve.state).is_out && self.readiness(false) >= 0 {
            return Ok(());
        }
        self.barrier.fetch_and(!SCANT, Ordering::SeqCst);
        match self.make_ready(0, adds) {
            Err(error) if is_want_of_room(&error) => {
                self.barrier.fetch_or(SCANT, Ordering::SeqCst);
                if adds && !epoch::epoch_is_pinned() { Err(error) } else { Ok(()) }
            }
            // It shows again, or is that of the caller who asked for a checkpoint.
            _ => Ok(()),
        }
    }

    /// Sees to it that so many bytes of large values can be written, beside what is owed.
    ///
    /// # Errors
    /// The disk is full.
    pub(crate) fn expect_bytes(&self, bytes: u64) -> Result<()> {
        let page_bytes = self.region.geometry().page_bytes();
        let room = ImageKey::room(page_bytes, &(0..0)) as u64;
        let images = bytes.div_ceil(page_bytes as u64);
        self.make_ready(images.div_ceil(EXTENT_BYTES / room), true)
    }

    /// As [`cover`](Self::cover); where the disk is full, by a checkpoint. But that would wait for the epoch of a
    /// batch: the maker of one calls for it before.
    ///
    /// # Errors
    /// Those of `cover`.
    fn make_ready(&self, more: u64, adds: bool) -> Result<()> {
        let mut covered = self.cover(more);
        let is_wanting = covered.as_ref().is_err_and(is_want_of_room);
        let may_run = self.bounds.ticks() || self.ahead.is_manual;
        let may_run = may_run && !epoch::epoch_is_pinned();
        if !is_wanting || !may_run || !adds && self.readiness(false) >= 0 {
            return covered;
        }
        let _wanted = self.reserve.want(more);
        // The journal keeps what becomes durable while a checkpoint runs: the second one frees that.
        for _ in 0..2 {
            // Its error shows again, or is that of the caller who asked for it.
            let _ = self.checkpoint();
            covered = self.cover(more);
            if covered.is_ok() {
                break;
            }
        }
        covered
    }

    /// Bytes that cleaning may move now: on a full disk, what is ready but for the leaves of the table, a root,
    /// and what is left free at the end of an extent.
    pub(crate) fn cleaning_room(&self) -> u64 {
        if !lock(&self.reserve.state).is_out {
            return u64::MAX;
        }
        let places = self.places();
        let root = places.root_bytes(places.extents.len() as usize) as u64;
        let leaves = places.leaves() * ImageKey::room(LEAF_BYTES, &(0..0)) as u64;
        (places.extents.ready() * EXTENT_BYTES).saturating_sub(leaves + root + LEFT_BY_CLEANING)
    }

    /// Extents that cleaning is to make ready where the disk is full: those that are missing, and some for
    /// writers that add something now or next.
    pub(crate) fn missing(&self) -> u64 {
        let some = (self.places().extents.in_use() / CLEANED_SHARE).max(self.reserve.wanted());
        (some as i64 - self.readiness(true)).max(0) as u64
    }

    /// After a checkpoint, which `wrote` something: cleans while that helps, if the disk is full.
    pub(crate) fn regain(&self, wrote: bool) -> Result<()> {
        let is_clean = {
            let mut state = lock(&self.reserve.state);
            state.is_clean &= !wrote;
            state.is_clean || !state.is_out
        };
        if is_clean {
            return Ok(());
        }
        let mut before = i64::MIN;
        loop {
            if self.missing() == 0 {
                return Ok(());
            }
            // Extents that the last root needed may have their blocks.
            let covered = self.cover(0);
            let now = self.readiness(true);
            let goes_on = covered.is_err_and(|e| is_want_of_room(&e)) || now >= 0;
            if !goes_on || now <= before || self.cleaning_room() == 0 {
                break;
            }
            before = now;
            match self.checkpoint_once(Pace::Full, Sweep::Scant) {
                // All that the checkpoint itself was to write is written.
                Err(error) if is_want_of_room(&error) => break,
                ran => drop(ran?),
            }
        }
        lock(&self.reserve.state).is_clean = true;
        Ok(())
    }

    /// Has a pool that is closed keep some, so that its next open can make room on a disk that is full. A file that was
    /// compacted, and nothing has been written since, does not get longer than it was before.
    pub(crate) fn keep_ready(&self) {
        let ready = self.reserve.closed(self.places().extents.in_use());
        let next = lock(&self.commit).chain.next.number;
        let compacted = lock(&self.reserve.state).compacted.filter(|(number, _)| *number == next);
        // Without them the pool is as well.
        let _ = self.take_blocks(ready, compacted.map_or(u64::MAX, |(_, within)| within));
    }
}
