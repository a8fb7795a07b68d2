//! Checkpoints: images of changed pages go to fresh places, then the journal that held their changes
//! is free.
//!
//! ```text
//! note where the journal is -> images of dirty pages -> clean sparse extents -> changed leaves of the
//! table, root -> wait until all that they hold is durable -> sync -> superblock -> free what only the
//! former root needed
//! ```
//!
//! Nothing is written over that the former root or its journal needs. So a crash at any time leaves the
//! former root with its journal, or the new one with its own. One order matters: the superblock is written
//! when all images are durable, and so is the last epoch whose changes are in one of them. Nothing that
//! a crash takes back is in a root.
//!
//! Where the program ends epochs, a checkpoint does not: [`ahead`] says what becomes of pages that an epoch has changed
//! which goes on.
//!
//! Copies are optimistic, so writers are not stopped: read the page, then latch it only if nobody
//! has changed it, mark it clean, and unlatch.

pub(crate) mod ahead;
pub(crate) mod backup;
pub(crate) mod cleaner;
pub(crate) mod compact;
mod leaves;

use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use everleaf_pmem::epoch::EpochPin;
use everleaf_pmem::error::{Error, Result};
use everleaf_pmem::fallible;
use everleaf_pmem::latch::{LatchGuard, Seen};
use everleaf_pmem::page::{Page, PageNo, SEQ_WORD, SUM_WORD};
use everleaf_pmem::schedule::scheduled;
use everleaf_pmem::sync::lock_plain as lock;
use everleaf_pmem::sync::wait;

use crate::checkpoint::cleaner::{CheckpointWork, Sweep};
use crate::epochs::barrier::CLOSED;
use crate::epochs::slots::{COPIED_MARK, DIRTY_MARK, LAST_MARK};
use crate::inner::{BackgroundWork, Inner};
use crate::journal::{JournalMark, Position};
use crate::limits::bounds::CheckpointProgress;
use crate::limits::room::is_want_of_room;
use crate::memory::leaves::KeptLeaves;
use crate::options::PageUse;
use crate::store::format::{EXTENT_BYTES, SECTOR, u64_at};
use crate::store::image::{FIRST_IMAGE, ImageKey, ImageKind, ImageName, Placed};

const OPTIMISTIC_TRIES: usize = 4;
/// Bytes of pages that are copied, written and synced at a time, at most: a sync of the journal may
/// have to wait for as much.
const BATCH_BYTES: usize = 1 << 20;
/// Bytes that a close moves, at most, so that it does not take long.
const CLOSE_BYTES: u64 = 128 << 20;
/// How many roots a close writes behind the first one, at most.
const MORE_ROOTS: usize = 2;
/// How many times as long as a batch took a checkpoint rests after it, and the longest rest.
const REST: u32 = 3;
const LONGEST_REST: Duration = Duration::from_millis(100);

/// How fast pages are written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pace {
    /// As the journal fills.
    Steady,
    Full,
}

fn copy_words(page: Page<'_>, image: &mut [u8]) {
    let is_whole = page.copy_out(0, image);
    image[8 * SUM_WORD..8 * SUM_WORD + 8].fill(0);
    debug_assert!(is_whole && image.len() == page.geometry().page_bytes());
}

/// Copies a page as it is between two steps and marks it clean and copied; says the epoch of its last
/// change, or `None` if it was clean.
fn copy_page(page: Page<'_>, image: &mut [u8]) -> Option<u64> {
    let finish = |held: LatchGuard<'_>| {
        let dirty = page.mark(DIRTY_MARK).swap(0, Ordering::Relaxed) != 0;
        let last = page.mark(LAST_MARK).load(Ordering::Relaxed);
        debug_assert!(!dirty || last != 0, "a changed page without an epoch");
        if dirty {
            page.mark(COPIED_MARK).store(1, Ordering::Relaxed);
        }
        held.unlock_unchanged();
        dirty.then_some(last)
    };
    for _ in 0..OPTIMISTIC_TRIES {
        let Seen::Ready(version) = page.latch().read_version() else { break };
        copy_words(page, image);
        if let Some(held) = page.latch().upgrade(version) {
            return finish(held);
        }
    }
    let held = page.latch().lock();
    copy_words(page, image);
    finish(held)
}

/// A run that is under way; ends it also if it panics.
struct CheckpointRun<'a> {
    inner: &'a Inner,
    result: Option<Result<()>>,
}

impl Drop for CheckpointRun<'_> {
    fn drop(&mut self) {
        let cut_off = || Err(Error::Interrupted { what: "a checkpoint was cut off" });
        let mut runs = lock(&self.inner.runs);
        debug_assert!(runs.is_running && runs.ended < runs.begun, "a run that did not begin");
        runs.is_running = false;
        runs.ended = runs.begun;
        runs.last = self.result.take().unwrap_or_else(cut_off);
        drop(runs);
        self.inner.ran.notify_all();
        self.inner.bounds.set_progress(None, &self.inner.barrier);
    }
}

/// A run that panics has taken pages for clean of which no root will know: no later one may free the journal that has their
/// changes.
struct Panicked<'a>(Option<&'a Inner>);

impl Drop for Panicked<'_> {
    fn drop(&mut self) {
        if let Some(inner) = self.0 {
            inner.poison(Error::Interrupted { what: "a checkpoint was cut off" });
        }
    }
}

impl Inner {
    /// Writes images of all that was changed before this call and frees journal: by a run that
    /// begins after the call, and that is shared by all who call before it begins.
    pub(crate) fn checkpoint(&self) -> Result<()> {
        self.life.check()?;
        self.callers.fetch_add(1, Ordering::SeqCst);
        // A checkpoint that rests sees that it should not.
        drop(lock(&self.work));
        self.wake.notify_all();
        let ran = self.checkpoint_steadily();
        self.callers.fetch_sub(1, Ordering::SeqCst);
        ran
    }

    /// As [`checkpoint`](Self::checkpoint), at the pace at which the journal fills, unless somebody
    /// is in a hurry.
    pub(crate) fn checkpoint_steadily(&self) -> Result<()> {
        EpochPin::refuse_inside()?;
        let mut runs = lock(&self.runs);
        let mine = runs.begun + 1;
        while runs.ended < mine {
            if runs.is_running {
                runs = wait(&self.ran, &self.runs, runs).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            runs.is_running = true;
            runs.begun += 1;
            drop(runs);
            let mut run = CheckpointRun { inner: self, result: None };
            let ran = self.run_checkpoint(Pace::Steady, Sweep::Some);
            run.result = Some(ran.clone());
            return ran;
        }
        runs.last.clone()
    }

    pub(crate) fn run_checkpoint(&self, pace: Pace, sweep: Sweep) -> Result<()> {
        let ran = self.checkpoint_alone(pace, sweep);
        self.evict_all();
        ran
    }

    fn checkpoint_alone(&self, pace: Pace, sweep: Sweep) -> Result<()> {
        let _alone = lock(&self.checkpointing);
        let wrote = self.checkpoint_once(pace, sweep)?;
        self.regain(wrote)
    }

    /// The same, by a thread that has the lock for it. Says whether there was anything to do.
    pub(crate) fn checkpoint_once(&self, pace: Pace, sweep: Sweep) -> Result<bool> {
        self.ready_for_checkpoint()?;
        self.expect_length()?;
        if sweep == Sweep::Some && self.nothing_to_do() {
            // Large values that nobody has linked yet are no reason to wait for another one.
            self.bounds.bulk.begin_checkpoint();
            self.count_journal(&lock(&self.commit));
            return Ok(false);
        }
        let bulk = self.bounds.bulk.begin_checkpoint();
        if self.ahead.is_manual {
            self.wait_durable(self.last_ended())?;
        } else {
            // Blocks from here on adopt only values that count as new.
            self.places_mut().age();
            self.wait_durable(self.table_epoch.load(Ordering::Acquire))?;
        }
        // And they hold changes that the images may not have.
        let journal = {
            let mut commit = lock(&self.commit);
            self.check_writable()?;
            self.start(&mut commit)?;
            // Blocks of an epoch that has not ended are behind it.
            let (next, written) = commit.chain.whole_end();
            JournalMark { next, written, epoch: self.epochs.durable() }
        };
        self.begin_ahead()?;
        self.write_root(pace, sweep, Some(journal), bulk)?;
        self.counters.checkpoints.fetch_add(1, Ordering::Relaxed);
        Ok(true)
    }

    /// Writes all that has changed, and a root; then frees what only the former one needed. Without
    /// `journal` the pool is closed: the root has everything. `bulk` bytes of large values were written since
    /// the former run.
    fn write_root(
        &self,
        pace: Pace,
        sweep: Sweep,
        journal: Option<JournalMark>,
        bulk: u64,
    ) -> Result<()> {
        let mut run = self.begin_run(bulk);
        let mut panicked = Panicked(Some(self));
        let written = self
            .write_pages(&mut run, pace)
            .and_then(|()| self.note_written(journal))
            .and_then(|()| self.clean(&mut run, sweep))
            .and_then(|()| self.switch_root(&mut run, sweep, journal));
        panicked.0 = None;
        self.end_run(run, written)
    }

    /// Writes the leaves of the table that have changed and a root, and makes it the pool's.
    fn switch_root(
        &self,
        run: &mut CheckpointWork,
        sweep: Sweep,
        journal: Option<JournalMark>,
    ) -> Result<()> {
        let journal = self.name_for_root(journal)?;
        self.apply_forgotten()?;
        self.write_dirty_leaves(run)?;
        // One moment: what steps change later is in the journal behind the place that the root names.
        let (leaves, raw, mut live) = {
            let mut places = self.places_mut();
            if journal.is_none() {
                places.forget_free()?;
            }
            places.take_dirty()?
        };
        let is_short = matches!(sweep, Sweep::Short { .. });
        let switched = self
            .write_leaves(run, &leaves, raw, &mut live)
            .and_then(|()| self.write_root_image(run, &live))
            .and_then(|root| {
                let whole = self.make_durable().and_then(|()| self.expect_length());
                let named = whole.and_then(|()| match is_short {
                    true => self.name_short_root(root, journal),
                    false => self.name_root(root, journal).map(|()| journal),
                });
                named.inspect_err(|_| self.let_root_go(root)).map(|journal| (root, journal))
            });
        let (root, journal) = switched.inspect_err(|_| {
            let mut places = self.places_mut();
            leaves.iter().for_each(|leaf| places.soil_leaf(*leaf));
        })?;
        self.ahead.forget_runs(journal);
        self.free_behind(root, &live, journal);
        self.cut_file(journal.is_none() || is_short)
    }

    /// Makes the images durable, and the steps that they and the table know of.
    fn make_durable(&self) -> Result<()> {
        if !self.ahead.is_manual {
            self.wait_durable(self.table_epoch.load(Ordering::Acquire))?;
        }
        self.sync_data("syncing pages")
    }

    /// Writes the root's image: into the stream, or, if it fits no extent, into some in a row.
    fn write_root_image(&self, run: &mut CheckpointWork, live: &[u32]) -> Result<Placed> {
        let (mut raw, (epoch, counts)) = (Vec::new(), self.durable_counts()?);
        {
            let mut places = self.places_mut();
            places.list_bytes = counts.len();
            fallible::more(&mut raw, places.root_bytes(live.len()), "the root of the page table")?;
            places.encode_root(live, (epoch, &counts), &mut raw);
        }
        drop(counts);
        let name = (ImageName { kind: ImageKind::Root, number: 0 }, run.stamp);
        let room = ImageKey::room(raw.len(), &(0..0));
        if room as u64 <= EXTENT_BYTES - FIRST_IMAGE {
            let placed = run.stream.push(self, name, &raw, 0..0)?;
            run.stream.flush(self)?;
            self.places_mut().extents.hold(placed.extent());
            return Ok(placed);
        }
        run.stream.flush(self)?;
        let n = (room as u64).div_ceil(EXTENT_BYTES) as usize;
        let mut image = fallible::list(n * EXTENT_BYTES as usize, "the root of the page table")?;
        let first = self.places_mut().extents.take_run(n)?;
        let at = u64::from(first) * EXTENT_BYTES;
        let placed = self.image_key.append(&mut image, name, at, &raw, 0..0);
        image.resize(image.len().next_multiple_of(SECTOR as usize), 0);
        let mut pieces =
            (0..).map(|i| at + i * EXTENT_BYTES).zip(image.chunks(EXTENT_BYTES as usize));
        let written = pieces.try_for_each(|(at, piece)| self.write_images(piece, at));
        if let Err(error) = written {
            self.let_root_go(placed);
            return Err(error);
        }
        Ok(placed)
    }

    /// Lets the extents of a root go, if it has any.
    fn let_root_go(&self, root: Placed) {
        if root.has_image() {
            let mut places = self.places_mut();
            root.extents().for_each(|no| places.extents.let_go(no));
        }
    }

    /// Makes a root that is durable the pool's.
    pub(crate) fn name_root(&self, root: Placed, journal: Option<JournalMark>) -> Result<()> {
        let (next, durable) = {
            let commit = lock(&self.commit);
            debug_assert!(journal.is_some() || commit.chain.spilled.is_none(), "a closed epoch");
            (commit.chain.whole_end().0, self.epochs.durable())
        };
        self.write_root_name(root, journal, (next, durable))
    }

    /// Writes the superblock of a root. The chain's whole epochs end at `next`, and the last of them is
    /// `durable`.
    pub(crate) fn write_root_name(
        &self,
        root: Placed,
        journal: Option<JournalMark>,
        (next, durable): (Position, u64),
    ) -> Result<()> {
        self.write_super(|s| {
            debug_assert!(s.journal.number <= next.number && s.durable_epoch <= durable);
            debug_assert!(!s.clean || journal.is_none(), "a block may come at any time");
            s.clean = journal.is_none();
            s.root = root;
            let none = Position { place: 0, next_extent: 0, ..next };
            s.journal = journal.map_or(none, |mark| mark.next);
            s.journal_floor = next.number;
            s.durable_epoch = journal.map_or(durable, |mark| mark.epoch);
        })
    }

    /// Frees what only the former root needed, and the journal before the new one's.
    fn free_behind(&self, root: Placed, live: &[u32], journal: Option<JournalMark>) {
        if let Some(mark) = journal {
            self.residents.frames.imaged.fetch_max(mark.epoch, Ordering::SeqCst);
        }
        let former = std::mem::replace(&mut *lock(&self.root), root);
        self.let_root_go(former);
        let mut commit = lock(&self.commit);
        let mut places = self.places_mut();
        places.note_synced(true);
        places.extents.switch(live);
        let chain = &mut commit.chain;
        // The extent in which the root's first block is, if it has one yet.
        let first = journal.map(|mark| (mark.next.spot() / EXTENT_BYTES) as u32);
        let done = chain.extents.iter().position(|no| Some(*no) == first);
        let done = done.unwrap_or(chain.extents.len());
        let next = chain.next.next_extent;
        for no in chain.extents.drain(..done).filter(|no| *no != next || journal.is_none()) {
            places.extents.release_journal(no);
        }
        match journal {
            Some(mark) => chain.begun = mark.written,
            None => {
                if next != 0 && places.extents.is_journal(next) {
                    places.extents.release_journal(next);
                }
                chain.next = Position { place: 0, next_extent: 0, ..chain.next };
                chain.begun = chain.written;
            }
        }
        drop(places);
        self.count_journal(&commit);
    }

    /// After a batch that took so long: lets others have the disk, unless the journal fills faster
    /// than this checkpoint gets on, or somebody waits for its end.
    fn rest(&self, took: Duration, progress: &CheckpointProgress) {
        self.bounds.set_progress(Some(progress), &self.barrier);
        let hurries = || self.callers.load(Ordering::SeqCst) != 0 || self.bounds.is_late(progress);
        if scheduled() || hurries() {
            return;
        }
        let goes_on = |w: &mut BackgroundWork| !w.stop && !w.nudged && !hurries();
        let work = lock(&self.work);
        let rest = (REST * took).min(LONGEST_REST);
        // Woken or not, it goes on.
        drop(self.wake.wait_timeout_while(work, rest, goes_on));
    }

    pub(crate) fn ready_for_checkpoint(&self) -> Result<()> {
        self.check_writable()?;
        if self.barrier.load(Ordering::SeqCst) & CLOSED != 0 {
            return Err(Error::Closed);
        }
        match self.pending() {
            None => Ok(()),
            Some(no) => Err(Error::Unrecovered {
                what: format!("page {no} and maybe more wait for recovery before a checkpoint"),
            }),
        }
    }

    pub(crate) fn nothing_to_do(&self) -> bool {
        let begun = lock(&self.superblock).journal;
        let blocks = {
            let commit = lock(&self.commit);
            commit.chain.next.number != begun.number
        };
        let recovered = !lock(&self.recovered).is_empty();
        let has_ended = self.ahead.has_ended(self.epochs.durable());
        !blocks && !recovered && !has_ended && !self.any_dirty()
    }

    fn any_dirty(&self) -> bool {
        let mut dirty = !lock(&self.changed).is_empty() || !lock(&self.forgotten).is_empty();
        let torn = self.epochs.visit(|_, slot| dirty |= !slot.dirty.is_empty()).is_err();
        dirty || torn
    }

    /// Takes what steps have changed out of their slots.
    ///
    /// # Errors
    /// [`Error::NoMemory`]: nothing is lost.
    pub(crate) fn collect_changed(&self) -> Result<()> {
        let (mut pages, mut runs) = (lock(&self.changed), lock(&self.forgotten));
        let mut fits = Ok(());
        let visited = self.epochs.visit(|_, mut slot| {
            let n = slot.dirty.len();
            let room = fallible::more(&mut pages, n, "the list of changed pages");
            match room.and_then(|()| fallible::more(&mut runs, n, "the list of freed values")) {
                Err(error) => fits = Err(error),
                Ok(()) => {
                    // They count as changed until a checkpoint takes them from the list.
                    self.bounds.note_dirty(n - std::mem::take(&mut slot.told_dirty));
                    let before = pages.len();
                    for changed in slot.dirty.drain(..) {
                        match changed.pages() {
                            None => pages.push(changed.first),
                            Some(n) => runs.push((changed.first, n, changed.epoch)),
                        }
                    }
                    self.bounds.forget_dirty(n - (pages.len() - before));
                }
            }
        });
        // Changes of a torn step must not be in a root.
        visited.map_err(|_| self.torn())?;
        fits
    }

    fn take_dirty(&self) -> Result<Vec<PageNo>> {
        self.collect_changed()?;
        // A thread with a slot may want those that were recovered, and one that collects has the changed ones and wants slots.
        let mut changed = lock(&self.changed);
        let mut recovered = lock(&self.recovered);
        fallible::more(&mut changed, recovered.len(), "the list of changed pages")?;
        self.bounds.collect_dirty(changed.len());
        changed.append(&mut recovered);
        let mut pages = std::mem::take(&mut *changed);
        drop((changed, recovered));
        pages.sort_unstable();
        pages.dedup();
        debug_assert!(pages.last().is_none_or(|&no| no < self.region.limit()));
        Ok(pages)
    }

    /// Writes images of all pages that are dirty now.
    fn write_pages(&self, run: &mut CheckpointWork, pace: Pace) -> Result<()> {
        let pages = self.take_dirty()?;
        let written = self.write_all(&pages, run, pace);
        self.bounds.set_writing(0);
        if written.is_err() && self.poisoned().is_none() {
            self.keep_dirty(pages);
        }
        written
    }

    /// For want of memory, say: the next checkpoint writes these pages.
    #[cold]
    fn keep_dirty(&self, pages: Vec<PageNo>) {
        for page in pages.iter().filter_map(|no| self.region.page(*no)) {
            let held = page.latch().lock();
            let last = page.mark(LAST_MARK).load(Ordering::Relaxed);
            // A page that has left memory since has its image.
            if held.is_ready() && page.mark(DIRTY_MARK).load(Ordering::Relaxed) == 0 {
                page.mark(DIRTY_MARK).store(last, Ordering::Relaxed);
            }
            page.mark(COPIED_MARK).store(0, Ordering::Release);
            held.unlock_unchanged();
        }
        // Nothing is added there while no page is pending.
        *lock(&self.recovered) = pages;
    }

    fn write_all(&self, pages: &[PageNo], run: &mut CheckpointWork, pace: Pace) -> Result<()> {
        let bytes = self.region.geometry().page_bytes();
        let most = (BATCH_BYTES / bytes).max(1);
        let mut progress =
            CheckpointProgress { from: self.bounds.journal(), done: 0, all: pages.len() as u64 };
        fallible::more(&mut run.batch, pages.len().min(most), "a checkpoint's list of pages")?;
        let mut raw = fallible::filled(0, bytes, "a checkpoint's copy of a page")?;
        let mut left = pages;
        self.bounds.set_writing(progress.all);
        while !left.is_empty() {
            let begun = Instant::now();
            let n = if pace == Pace::Full { most } else { most.min(self.batch_bytes() / bytes) };
            let (group, rest) = left.split_at(n.clamp(1, left.len()));
            left = rest;
            debug_assert!((1..=most).contains(&group.len()), "room for a batch");
            self.write_batch(run, group, &mut raw)?;
            progress.done += group.len() as u64;
            self.bounds.set_writing(progress.all - progress.done);
            self.bounds.look(&self.barrier);
            self.evict();
            if pace == Pace::Steady {
                if !left.is_empty() {
                    self.sync_data("syncing pages")?;
                }
                self.rest(begun.elapsed(), &progress);
            }
        }
        debug_assert!(progress.done == progress.all, "a page was left out");
        Ok(())
    }

    /// Bytes of a batch: few enough that a commit on a slow disk does not wait long for its sync.
    fn batch_bytes(&self) -> usize {
        (self.bounds.bound() as usize / 8).clamp(BATCH_BYTES / 8, BATCH_BYTES)
    }

    /// Writes images of those of some pages that are dirty.
    fn write_batch(
        &self,
        run: &mut CheckpointWork,
        pages: &[PageNo],
        raw: &mut [u8],
    ) -> Result<()> {
        let kept = KeptLeaves::of(self);
        run.batch.clear();
        for &no in pages {
            let Some(page) = self.region.page(no) else { continue };
            // Before the page is called clean: the table can be told where it is.
            self.lookup(no)?;
            let Some(last_epoch) = copy_page(page, raw) else { continue };
            // Also if this checkpoint fails, and a later one names the image.
            self.table_epoch.fetch_max(last_epoch, Ordering::AcqRel);
            let seq = u64_at(raw, 8 * SEQ_WORD) as u32;
            let placed = match (self.gap)(raw) {
                PageUse::Unused if seq != 0 => Placed::blank(seq),
                used => {
                    let gap = match used {
                        PageUse::But(gap) => gap,
                        PageUse::Unused => 0..0,
                    };
                    let name = ImageName { kind: ImageKind::Page, number: no };
                    let placed = run.stream.push(self, (name, run.stamp), raw, gap)?;
                    run.bytes += u64::from(placed.room());
                    placed
                }
            };
            run.batch.push((no, placed, last_epoch));
        }
        run.stream.flush(self)?;
        for &(no, placed, epoch) in &run.batch {
            if !self.keep_ahead(no, placed, epoch)? {
                self.places_mut().set(no, placed)?;
            }
        }
        run.stream.settle(&mut self.places_mut());
        let written = run.batch.iter().filter_map(|(no, ..)| self.region.page(*no));
        written.for_each(|page| page.mark(COPIED_MARK).store(0, Ordering::Release));
        self.spill_leaves(run, kept)?;
        run.pages += run.batch.len() as u64;
        self.counters.pages_written.fetch_add(run.batch.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    /// Makes everything durable, lets the layer above `settle` what is free by that, writes a root that
    /// has all of it if that is possible, and marks the pool clean.
    pub(crate) fn close(&self, settle: &dyn Fn()) -> Result<()> {
        // Before a block makes the file longer. A checkpoint that runs just now looks itself.
        if let Ok(_alone) = self.checkpointing.try_lock()
            && let Err(error @ Error::Corrupt { .. }) = self.expect_length()
        {
            return Err(error);
        }
        self.wait_durable(self.epochs.now())?;
        settle();
        if self.pending().is_some() {
            return Ok(());
        }
        let _alone = lock(&self.checkpointing);
        if lock(&self.superblock).clean {
            return Ok(());
        }
        self.start(&mut lock(&self.commit))?;
        self.end_values();
        // No journal will say where values are, so that all of them may move.
        self.places_mut().age();
        self.write_last_roots()?;
        self.keep_ready();
        debug_assert!(self.pending().is_none(), "the journal still holds changes for a page");
        Ok(())
    }

    /// Names a root that has everything, and writes others while that makes the file much shorter: what the one
    /// before needed is free then, and so is the journal.
    fn write_last_roots(&self) -> Result<()> {
        let len = self.data.len().map_err(|e| Error::io("reading the length of the file", e))?;
        let within = len.div_ceil(EXTENT_BYTES);
        let shorter = Sweep::Closed { within, budget: CLOSE_BYTES };
        if self.keeps_root() {
            self.keep_root()?;
        } else {
            // A small pool is written as a whole, so that the next root finds the start of the file free.
            let first = if self.is_small() { shorter } else { Sweep::None };
            let closed = self.write_root(Pace::Full, first, None, 0);
            match closed {
                Err(error) if first != Sweep::None && is_want_of_room(&error) => {
                    self.write_root(Pace::Full, Sweep::None, None, 0)?;
                }
                closed => closed?,
            }
        }
        for _ in 0..MORE_ROOTS {
            if !self.is_long_for_closed(within) {
                break;
            }
            // The pool is closed already; where the disk is full the file stays longer.
            match self.write_root(Pace::Full, shorter, None, 0) {
                Err(error) if is_want_of_room(&error) => break,
                moved => moved?,
            }
        }
        Ok(())
    }

    /// Closes the pool with the root that it has: nothing has changed since.
    fn keep_root(&self) -> Result<()> {
        let root = *lock(&self.root);
        self.name_root(root, None)?;
        let live = {
            let mut places = self.places_mut();
            // As it does for a new one.
            root.extents().for_each(|no| places.extents.hold(no));
            places.extents.live()?
        };
        self.free_behind(root, &live, None);
        self.cut_file(true)
    }
}
