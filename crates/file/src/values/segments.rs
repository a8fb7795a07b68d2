//! Large values: their bytes go to the disk once, when they are written.
//!
//! Neither memory nor journal sees them. The layer above reserves a run of page numbers, writes the
//! value's bytes, a page's worth for each number, and then *adopts* the run in the step that links it.
//! Each page's worth is an image in a stream of its own. The record of the adoption says where the
//! images are and what their checksums are, so one sync covers block and images: if the images of the
//! last epoch fail their checksums after a crash, its block is a torn tail.
//!
//! Images that nobody adopts are forgotten by a crash. A step that frees a run has it *forgotten*: the
//! table hears of that at the next checkpoint, or when a number is used again.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::Ordering::{self, Relaxed};

use everleaf_pmem::error::{Error, Result};
use everleaf_pmem::fallible;
use everleaf_pmem::page::PageNo;
use everleaf_pmem::sync::lock_plain as lock;

use crate::epochs::barrier::CLOSED;
use crate::epochs::slots::{Changed, FileOp, LAST_MARK};
use crate::inner::{Inner, PendingValue};
use crate::journal::{TAG_ADOPT, TAG_FORGET};
use crate::memory::leaves::KeptLeaves;
use crate::open::data::expect_inside;
use crate::store::image::{IMAGE_HEAD, ImageKind, ImageName, Placed};
use crate::store::table::{LEAF_PAGES, Places, leaf_of};

/// Places that one record of the journal lists, at most.
const LISTED: u32 = 4000;

/// Names this memory in errors.
const PLACES: &str = "the places of large values";
const RELEASED: &str = "freed values";

const _: () = assert!(LISTED as usize * Placed::BYTES <= u16::MAX as usize);

/// A run of pages in a record of the journal: the first, how many, and the record's byte in the file.
pub(crate) type Redone = (PageNo, u32, u64);

/// Pages of large values whose images cannot be where the journal says, unless it says later that they
/// are gone.
#[derive(Debug, Default)]
pub(crate) struct Missing {
    /// With the byte of the record.
    pages: HashMap<PageNo, u64>,
    /// How many of them each leaf of the table has.
    leaves: HashMap<u32, u32>,
}

impl Missing {
    fn insert(&mut self, no: PageNo, at: u64) -> Result<()> {
        fallible::more_keys(&mut self.pages, 1, PLACES)?;
        fallible::more_keys(&mut self.leaves, 1, PLACES)?;
        if self.pages.insert(no, at).is_none() {
            *self.leaves.entry(leaf_of(no)).or_default() += 1;
        }
        Ok(())
    }

    fn remove(&mut self, no: PageNo) {
        if self.pages.remove(&no).is_some()
            && let Some(left) = self.leaves.get_mut(&leaf_of(no))
        {
            *left -= 1;
        }
    }

    fn has_leaf(&self, leaf: u32) -> bool {
        self.leaves.get(&leaf).is_some_and(|left| *left > 0)
    }

    /// One of them, if there is any.
    pub(crate) fn into_first(self) -> Option<(PageNo, u64)> {
        self.pages.into_iter().next()
    }
}

pub(crate) fn value(number: PageNo) -> ImageName {
    ImageName { kind: ImageKind::Value, number }
}

/// The parts of a run, each of the pages of one leaf of the table.
fn by_leaf(first: PageNo, pages: u32) -> impl Iterator<Item = Range<PageNo>> {
    let (mut from, end) = (first, first + pages);
    std::iter::from_fn(move || {
        let next = (from / LEAF_PAGES as u32 + 1).saturating_mul(LEAF_PAGES as u32).min(end);
        let part = std::mem::replace(&mut from, next)..next;
        (!part.is_empty()).then_some(part)
    })
}

/// Refuses runs of one epoch of which two have the same page: each number has one value in an epoch.
///
/// # Errors
/// [`Error::Corrupt`].
pub(crate) fn expect_apart(runs: &mut [Redone]) -> Result<()> {
    runs.sort_unstable();
    let end = |run: &Redone| u64::from(run.0) + u64::from(run.1);
    match runs.windows(2).find(|two| u64::from(two[1].0) < end(&two[0])) {
        None => Ok(()),
        Some(two) => {
            let what = format!("a second large value in page {} in one epoch", two[1].0);
            Err(Error::corrupt(two[1].2, what))
        }
    }
}

impl Inner {
    pub(crate) fn extent_write(&self, first: PageNo, offset: u64, bytes: &[u8]) -> Result<()> {
        let g = self.region.geometry();
        expect_inside(g, self.region.limit(), first, offset, bytes.len())?;
        let page_bytes = g.page_bytes();
        if !offset.is_multiple_of(page_bytes as u64) {
            let what = format!("bytes of a large value at {offset}, within a page");
            return Err(Error::Invalid { what });
        }
        self.check_writable()?;
        if self.barrier.load(Ordering::SeqCst) & CLOSED != 0 {
            return Err(Error::Closed);
        }
        // Extents that are free for the newer superblock may be those that the older one needs.
        self.announce()?;
        self.expect_bytes(bytes.len() as u64)?;
        let pages = bytes.len().div_ceil(page_bytes) as u64;
        self.bounds.note_large(bytes.len() as u64, pages);
        self.spills.note_large(bytes.len() as u64, &self.barrier);
        let begin = first + (offset / page_bytes as u64) as PageNo;
        let mut pieces = (begin..).zip(bytes.chunks(page_bytes));
        let written = pieces.try_for_each(|(no, piece)| self.write_page_of_value(no, piece));
        // Also if not all of it was: the next commit takes it from what waits for one.
        self.extents.store(true, Ordering::Release);
        written
    }

    fn write_page_of_value(&self, no: PageNo, piece: &[u8]) -> Result<()> {
        self.make_room_for_value(no)?;
        let before = self.write_value(no, piece);
        if !matches!(before, Ok(None)) {
            self.places_mut().await_no_more(no);
        }
        before.map(drop)
    }

    /// The page of a large value is nobody's, and its leaf is in memory from now on, as adoption needs it.
    fn make_room_for_value(&self, no: PageNo) -> Result<()> {
        let _kept = KeptLeaves::of(self);
        let mut known = self.lookup_adopted(no)?;
        if known.has_image() {
            self.apply_forgotten()?;
            known = self.lookup_adopted(no)?;
        }
        let changed = self.region.page(no).map(|page| page.mark(LAST_MARK).load(Relaxed));
        if changed != Some(0) || known != Placed::default() {
            let what = format!("page {no} holds a large value, or was a node");
            return Err(Error::Invalid { what });
        }
        self.places_mut().make_room_to_adopt(no)
    }

    /// Writes the bytes of a page of a large value. Says where others were that have waited for their adoption.
    fn write_value(&self, no: PageNo, piece: &[u8]) -> Result<Option<Placed>> {
        let stamp = self.stamp.load(Ordering::Relaxed);
        let mut stream = lock(&self.values);
        let placed = stream.push(self, (value(no), stamp), piece, 0..0)?;
        let mut places = self.places_mut();
        places.extents.hold(placed.extent());
        stream.settle(&mut places);
        drop(places);
        drop(stream);
        let before = self.pend(no, placed);
        if let Some(gone) = before.as_ref().map_or(Some(placed), |before| *before) {
            self.places_mut().extents.let_go(gone.extent());
        }
        before
    }

    /// Keeps the place of a value's page until a step adopts it. Says where it was before.
    fn pend(&self, no: PageNo, placed: Placed) -> Result<Option<Placed>> {
        let mut pending = lock(&self.pending_values);
        fallible::more_keys(&mut *pending, 1, PLACES)?;
        let before = pending.insert(no, PendingValue { placed, adopted: None });
        debug_assert!(
            before.is_none_or(|before| before.adopted.is_none()),
            "page {no} has a value"
        );
        Ok(before.map(|before| before.placed))
    }

    /// A step makes a run that was written part of the pool.
    pub(crate) fn adopt(&self, op: &mut FileOp<'_>, first: PageNo, pages: u32) {
        self.table_epoch.fetch_max(op.epoch, Ordering::AcqRel);
        let (epoch, mut pending) = (op.epoch, lock(&self.pending_values));
        let mut places = self.places_mut();
        for from in (0..pages).step_by(LISTED as usize) {
            let n = LISTED.min(pages - from);
            let list = op.begin_run(TAG_ADOPT, first + from, n, n as usize * Placed::BYTES);
            for no in first + from..first + from + n {
                let placed = match pending.get_mut(&no) {
                    Some(value) if self.ahead.is_manual => {
                        value.adopted = Some(epoch);
                        value.placed
                    }
                    _ => self.adopt_now(&mut pending, &mut places, no),
                };
                list.extend_from_slice(&placed.encode());
            }
        }
    }

    /// Tells the table of a page that was written. Says where it is.
    fn adopt_now(
        &self,
        pending: &mut HashMap<PageNo, PendingValue>,
        places: &mut Places,
        no: PageNo,
    ) -> Placed {
        let placed = pending.remove(&no).map_or(Placed::default(), |value| value.placed);
        debug_assert!(placed.has_image(), "page {no} was never written");
        // It has memory since the value was written, and so has the extent.
        let old = places.adopt(no, placed);
        debug_assert!(!old.has_image());
        if placed.has_image() {
            places.extents.let_go(placed.extent());
        }
        placed
    }

    /// A step frees a run.
    pub(crate) fn forget(&self, op: &mut FileOp<'_>, first: PageNo, pages: u32) {
        self.table_epoch.fetch_max(op.epoch, Ordering::AcqRel);
        self.bounds.bulk.note_freed(pages.into());
        op.begin_run(TAG_FORGET, first, pages, 0);
        op.slot.dirty.push(Changed::run(first, pages, op.epoch));
    }

    /// A run that was written is given up before a step adopted it.
    pub(crate) fn discard(&self, first: PageNo, pages: u32) {
        let mut values = lock(&self.values);
        let mut pending = lock(&self.pending_values);
        let mut places = self.places_mut();
        for no in (first..first.saturating_add(pages)).rev() {
            // One that a step has adopted waits for the table, which is to hear that it is free, too.
            let is_given_up = pending.get(&no).is_some_and(|value| value.adopted.is_none());
            let gone = if is_given_up { pending.remove(&no) } else { None };
            if let Some(PendingValue { placed, .. }) = gone {
                // On a full disk an epoch could not end as long as these wait to be written.
                values.take_back(placed);
                places.extents.let_go(placed.extent());
                places.await_no_more(no);
            }
        }
    }

    /// No step adopts a value any more: what waits for one, and what is free of the extent that values
    /// went to, must not keep the end of the file.
    pub(crate) fn end_values(&self) {
        let mut values = lock(&self.values);
        // Until the table knows of all of them nobody looks for one there.
        let mut pending = lock(&self.pending_values);
        let mut places = self.places_mut();
        for (no, PendingValue { placed, adopted }) in pending.drain() {
            match adopted {
                Some(_) => drop(places.adopt(no, placed)),
                None => places.await_no_more(no),
            }
            places.extents.let_go(placed.extent());
        }
        values.end(&mut places);
    }

    /// Writes the values that have gathered, and lets those that come go to another extent.
    pub(crate) fn leave_values_extent(&self) -> Result<()> {
        let mut values = lock(&self.values);
        values.flush(self)?;
        values.end(&mut self.places_mut());
        Ok(())
    }

    /// Clears the entries of all runs that steps have freed; where the program ends epochs, of those that a crash does
    /// not bring back.
    ///
    /// # Errors
    /// Those of reading the table; the runs are kept for the next time.
    pub(crate) fn apply_forgotten(&self) -> Result<()> {
        // That these were freed is among what is collected now. Of those that come meanwhile that is not sure.
        let released = std::mem::take(&mut *lock(&self.released));
        let cleared = self.clear_forgotten();
        match &cleared {
            Ok(()) => self.end_lingering(&released),
            // For want of memory their space is free with the next open.
            Err(_) => drop(fallible::append(&mut lock(&self.released), &released, RELEASED)),
        }
        cleared
    }

    fn clear_forgotten(&self) -> Result<()> {
        self.collect_changed()?;
        let mut runs = lock(&self.forgotten);
        let upto = if self.ahead.is_manual { self.epochs.durable() } else { u64::MAX };
        // Slots give theirs in no order of epochs, but no number is in two of them that are not durable.
        runs.sort_by_key(|(_, _, epoch)| *epoch);
        let ended = runs.partition_point(|(_, _, epoch)| *epoch <= upto);
        let mut done = 0;
        let cleared = runs[..ended].iter().try_for_each(|&(first, pages, _)| {
            let _kept = KeptLeaves::of(self);
            self.load_leaves(first, pages)?;
            self.linger(first, pages)?;
            done += 1;
            Ok(())
        });
        runs.drain(..done);
        cleared
    }

    /// Clears the entries of a freed run, which are in memory. A reader of it still finds its images.
    fn linger(&self, first: PageNo, pages: u32) -> Result<()> {
        let mut pending = lock(&self.pending_values);
        let mut lingering = lock(&self.lingering);
        fallible::more_keys(&mut *lingering, pages as usize, PLACES)?;
        let mut places = self.places_mut();
        for no in first..first + pages {
            if pending.get(&no).is_some_and(|value| value.adopted.is_some())
                && let Some(value) = pending.remove(&no)
            {
                // The table has never heard of it. Its extent is held.
                places.await_no_more(no);
                lingering.insert(no, value.placed);
                continue;
            }
            let old = places.set(no, Placed::default())?;
            if old.has_image() {
                places.extents.hold(old.extent());
                lingering.insert(no, old);
            }
        }
        Ok(())
    }

    /// Forgets the images of freed values that nobody reads any more.
    fn end_lingering(&self, released: &[(PageNo, u32)]) {
        for (first, pages) in released {
            self.let_linger(*first, *pages);
        }
    }

    /// Nobody reads a freed run any more. For want of memory its space is free with the next open.
    pub(crate) fn release_value(&self, first: PageNo, pages: u32) {
        let mut released = lock(&self.released);
        // Now rather than later: its numbers may soon be those of another value that lingers.
        if self.let_linger(first, pages) < pages {
            // The table has not heard yet that it was freed.
            let _ = fallible::push(&mut *released, (first, pages), RELEASED);
        }
    }

    /// Forgets where the images of a freed value were; says of how many of its pages they were known.
    fn let_linger(&self, first: PageNo, pages: u32) -> u32 {
        let mut lingering = lock(&self.lingering);
        let mut places = self.places_mut();
        let gone = (first..first + pages).filter_map(|no| lingering.remove(&no));
        gone.map(|placed| places.extents.let_go(placed.extent())).count() as u32
    }

    /// Where a page of a large value is, or was when it was freed.
    pub(crate) fn lookup_value(&self, no: PageNo) -> Result<Placed> {
        let placed = self.lookup_adopted(no)?;
        if placed.has_image() {
            return Ok(placed);
        }
        Ok(lock(&self.lingering).get(&no).copied().unwrap_or(placed))
    }

    /// Where a page of a large value is that a step has adopted.
    fn lookup_adopted(&self, no: PageNo) -> Result<Placed> {
        if self.ahead.is_manual {
            // The table hears of it before it is pending no more.
            let pending = lock(&self.pending_values);
            let adopted = pending.get(&no).filter(|value| value.adopted.is_some());
            if let Some(value) = adopted {
                return Ok(value.placed);
            }
        }
        self.lookup(no)
    }

    /// Has the leaves of the table for a run in memory.
    fn load_leaves(&self, first: PageNo, pages: u32) -> Result<()> {
        let last = first + pages.saturating_sub(1);
        let step = crate::store::table::LEAF_PAGES;
        let every = (first..=last).step_by(step).chain([last]);
        every.into_iter().try_for_each(|no| self.lookup(no).map(drop))
    }

    /// A run has pages of one group, each of which has a byte in a page.
    fn check_run(&self, (first, pages, at): Redone) -> Result<()> {
        let end = u64::from(first) + u64::from(pages);
        let most = 16 * u64::from(self.region.geometry().slots() as u32);
        if pages == 0 || u64::from(pages) > most || end > u64::from(self.region.limit()) {
            return Err(Error::corrupt(at, "a large value in pages outside the pool"));
        }
        Ok(())
    }

    /// An epoch has freed a run. Those of its pages that had no image are not missed any more.
    ///
    /// # Errors
    /// [`Error::Corrupt`]; those of reading the table.
    pub(crate) fn redo_forget(&self, run: Redone, missing: &mut Missing) -> Result<()> {
        self.check_run(run)?;
        for part in by_leaf(run.0, run.1) {
            let leaf = leaf_of(part.start);
            if missing.has_leaf(leaf) {
                part.clone().for_each(|no| missing.remove(no));
            }
            if self.places().has_leaf(leaf) {
                self.lookup(part.start)?;
                let mut places = self.places_mut();
                part.into_iter().try_for_each(|no| places.set(no, Placed::default()).map(drop))?;
            }
        }
        Ok(())
    }

    /// An epoch has adopted a run: `list` says where its images are. Pages that have been freed since may have
    /// been cut off with the end of the file; those go to `missing`.
    ///
    /// # Errors
    /// [`Error::Corrupt`] for places that cannot be; those of reading the table.
    pub(crate) fn redo_adopt(&self, run: Redone, list: &[u8], missing: &mut Missing) -> Result<()> {
        let (first, pages, at) = run;
        if list.len() as u64 != u64::from(pages) * Placed::BYTES as u64 {
            return Err(Error::corrupt(at, "a large value with a list of another length"));
        }
        self.check_run(run)?;
        let len = self.data.len().map_err(|e| Error::io("reading the journal", e))?;
        self.places().expect_page(first + pages - 1, len, at)?;
        self.load_leaves(first, pages)?;
        let page_bytes = self.region.geometry().page_bytes();
        for (no, entry) in (first..).zip(list.chunks_exact(Placed::BYTES)) {
            let placed = Placed::decode(entry);
            let fits = placed.bytes as usize <= IMAGE_HEAD + page_bytes;
            if !placed.has_image() || !placed.is_possible() || !fits {
                return Err(Error::corrupt(at, "a large value in a place that cannot be"));
            }
            missing.remove(no);
            if placed.end() <= len {
                let mut places = self.places_mut();
                places.set(no, placed)?;
                if self.ahead.is_manual {
                    places.note_fresh(no)?;
                }
            } else {
                missing.insert(no, at)?;
            }
        }
        Ok(())
    }
}
