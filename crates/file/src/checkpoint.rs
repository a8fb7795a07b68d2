//! Checkpoints: changed pages go home, then the journal that held their changes is free.
//!
//! ```text
//! switch journals -> copy dirty pages -> for each batch: wait until durable, double write, homes
//!                 -> sync -> superblock: replay from the new journal -> the old one is free
//! ```
//!
//! Persist order, and what a crash leaves:
//!
//! 1. The header of the free journal file, with the next generation, is durable before a block goes
//!    there. Crash: an empty journal behind a full one.
//! 2. A batch waits until the last epoch that touched its pages is durable: nothing reaches a home
//!    that a crash could still take back.
//! 3. The double write is durable before the homes are written (`double.rs`). Crash: torn homes are
//!    restored from it, and both journals are replayed; changes that a page has seen are skipped.
//! 4. All homes are durable before the superblock says that the old journal is not needed.
//!
//! Copies are optimistic, so writers are not stopped: read the page, then latch it only if nobody
//! has changed it, mark it clean, and unlatch.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use everleaf_pmem::epoch::EpochPin;
use everleaf_pmem::error::{Error, Result};
use everleaf_pmem::fallible;
use everleaf_pmem::latch::{LatchGuard, Seen};
use everleaf_pmem::page::{Page, PageNo, SUM_WORD};
use everleaf_pmem::schedule::scheduled;
use everleaf_pmem::sync::lock_plain as lock;
use everleaf_pmem::sync::wait;

use crate::barrier::CLOSED;
use crate::bounds::CheckpointProgress;
use crate::double;
use crate::format::{HALF_BYTES, first_link, page_offset, page_sum};
use crate::inner::{BackgroundWork, Inner, JournalState};
use crate::journal::IDLE_BYTES;
use crate::slots::{DIRTY_MARK, LAST_MARK};

const OPTIMISTIC_TRIES: usize = 4;

/// Bytes of pages that are copied, written twice and synced at a time, at most: a sync of the journal
/// may have to wait for twice as much.
const BATCH_BYTES: usize = 1 << 20;
const _: () = assert!(BATCH_BYTES <= HALF_BYTES as usize, "a batch goes through a half");
/// How many times as long as a batch took a checkpoint rests after it, and the longest rest.
const REST: u32 = 3;
const LONGEST_REST: Duration = Duration::from_millis(100);

/// How fast pages are written home.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pace {
    /// As the journal fills.
    Steady,
    Full,
}

/// Copies of pages on their way home, in order of their numbers.
#[derive(Default)]
struct HomeBatch {
    pages: Vec<PageNo>,
    images: Vec<u8>,
    /// What goes to the double-write area.
    half: Vec<u8>,
    last_epoch: u64,
}

fn copy_words(page: Page<'_>, image: &mut [u8]) {
    let is_whole = page.copy_out(0, image);
    image[8 * SUM_WORD..8 * SUM_WORD + 8].fill(0);
    debug_assert!(is_whole && image.len() == page.geometry().page_bytes());
}

/// Copies a page as it is between two steps and marks it clean; says the epoch of its last change,
/// or `None` if it was clean.
fn copy_page(page: Page<'_>, image: &mut [u8]) -> Option<u64> {
    let finish = |held: LatchGuard<'_>| {
        let dirty = page.mark(DIRTY_MARK).swap(0, Ordering::Relaxed) != 0;
        let last = page.mark(LAST_MARK).load(Ordering::Relaxed);
        debug_assert!(!dirty || last != 0, "a changed page without an epoch");
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

impl Inner {
    /// Writes home all that was changed before this call and frees a journal file: by a run that
    /// begins after the call, which all share who call before it begins.
    pub(crate) fn checkpoint(&self) -> Result<()> {
        self.life.check()?;
        self.callers.fetch_add(1, Ordering::SeqCst);
        // Who rests sees that it should not.
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
            let ran = self.run_checkpoint();
            run.result = Some(ran.clone());
            return ran;
        }
        runs.last.clone()
    }

    fn run_checkpoint(&self) -> Result<()> {
        let mut batches = lock(&self.checkpointing);
        self.ready_for_checkpoint()?;
        if self.nothing_to_do() {
            return Ok(());
        }
        self.switch_journal()?;
        self.write_pages(&mut batches, Pace::Steady)?;
        // What was active when the pages were collected holds all that is not home yet.
        let (active, file, durable) = {
            let commit = lock(&self.commit);
            (commit.active, commit.files[commit.active], self.epochs.durable())
        };
        let pages_end = self.pages_end.load(Ordering::Acquire);
        self.write_super(|s| {
            debug_assert!(s.first_batch <= (s.open_generation << 32 | *batches), "batches rise");
            debug_assert!(s.journal_generation <= file.generation && s.durable_epoch <= durable);
            debug_assert!(s.pages_end <= pages_end, "a pool does not shrink");
            debug_assert!(file.busy && !s.clean, "a block may come at any time");
            s.first_batch = s.open_generation << 32 | *batches;
            s.last_block = 0;
            s.journal_generation = file.generation;
            s.journal_floor = file.end;
            s.first_link = file.first_link;
            s.durable_epoch = durable;
            s.pages_end = pages_end;
        })?;
        self.free_journal(1 - active)?;
        self.counters.checkpoints.fetch_add(1, Ordering::Relaxed);
        Ok(())
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

    fn ready_for_checkpoint(&self) -> Result<()> {
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

    fn nothing_to_do(&self) -> bool {
        let commit = lock(&self.commit);
        let other = commit.files[1 - commit.active];
        let blocks = commit.files[commit.active].end > crate::journal::HEADER_BYTES;
        !other.busy && !blocks && lock(&self.recovered).is_empty() && !self.any_dirty()
    }

    fn any_dirty(&self) -> bool {
        let mut dirty = false;
        let torn = self.epochs.visit(|_, slot| dirty |= !slot.dirty.is_empty()).is_err();
        dirty || torn
    }

    /// Lets blocks go to the other file, if it is free. It is not free after a crash during a
    /// checkpoint; then this checkpoint frees it.
    fn switch_journal(&self) -> Result<()> {
        let (free, generation, used) = {
            let mut commit = lock(&self.commit);
            self.check_writable()?;
            self.start(&mut commit)?;
            let file = commit.files[commit.active];
            (1 - commit.active, file.generation + 1, file.end)
        };
        let other = lock(&self.commit).files[free];
        if other.busy || used <= crate::journal::HEADER_BYTES {
            return Ok(());
        }
        let fresh = self.write_header(free, generation, used)?;
        let mut commit = lock(&self.commit);
        self.check_writable()?;
        debug_assert!(commit.active != free && !commit.files[free].busy);
        debug_assert!(commit.files[commit.active].generation < fresh.generation);
        commit.files[free] = JournalState { first_link: first_link(commit.link), ..fresh };
        commit.active = free;
        self.count_journal(&commit);
        Ok(())
    }

    fn free_journal(&self, i: usize) -> Result<()> {
        let bound = self.journal_bound / 2;
        let mut commit = lock(&self.commit);
        assert!(i != commit.active, "the journal file that blocks go to is not free");
        commit.files[i].busy = false;
        let long = commit.files[i].len > bound;
        if long {
            commit.files[i].len = bound;
        }
        self.count_journal(&commit);
        drop(commit);
        // The file is free: only the next checkpoint, which waits for this one, uses it.
        if long { self.cut_journal(i, bound) } else { Ok(()) }
    }

    fn take_dirty(&self) -> Result<Vec<PageNo>> {
        let mut pages = std::mem::take(&mut *lock(&self.recovered));
        let mut fits = Ok(());
        let visited = self.epochs.visit(|_, mut slot| {
            match fallible::more(&mut pages, slot.dirty.len(), "the list of changed pages") {
                Ok(()) => pages.append(&mut slot.dirty),
                Err(error) => fits = Err(error),
            }
        });
        // What a torn step changed must not go home.
        visited.map_err(|_| self.torn())?;
        if let Err(error) = fits {
            *lock(&self.recovered) = pages;
            return Err(error);
        }
        pages.sort_unstable();
        pages.dedup();
        debug_assert!(pages.last().is_none_or(|&no| no < self.region.limit()));
        Ok(pages)
    }

    /// Writes home all pages that are dirty now, and makes them durable.
    pub(crate) fn write_pages(&self, batches: &mut u64, pace: Pace) -> Result<()> {
        let pages = self.take_dirty()?;
        let written = self.write_all(&pages, batches, pace);
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
            if page.mark(DIRTY_MARK).load(Ordering::Relaxed) == 0 {
                page.mark(DIRTY_MARK).store(last, Ordering::Relaxed);
            }
            held.unlock_unchanged();
        }
        // Nothing is added while no page is pending.
        *lock(&self.recovered) = pages;
    }

    fn write_all(&self, pages: &[PageNo], batches: &mut u64, pace: Pace) -> Result<()> {
        let g = self.region.geometry();
        let bytes = g.page_bytes();
        let most = double::batch_pages(g).min(BATCH_BYTES / bytes).max(1);
        let mut progress =
            CheckpointProgress { from: self.bounds.journal(), done: 0, all: pages.len() as u64 };
        let mut batch = HomeBatch::default();
        fallible::more(&mut batch.pages, pages.len().min(most), "a checkpoint's list of pages")?;
        fallible::more(&mut batch.images, pages.len().min(most) * bytes, "a checkpoint's images")?;
        let half = double::half_bytes(g, pages.len().min(most));
        fallible::more(&mut batch.half, half, "a half of the double-write area")?;
        let mut left = pages;
        while !left.is_empty() {
            let begun = Instant::now();
            let n = if pace == Pace::Full { most } else { most.min(self.batch_bytes() / bytes) };
            let (group, rest) = left.split_at(n.clamp(1, left.len()));
            left = rest;
            debug_assert!((1..=most).contains(&group.len()), "room for a batch");
            self.copy_batch(&mut batch, group);
            self.write_batch(&mut batch, batches)?;
            progress.done += group.len() as u64;
            if pace == Pace::Steady {
                self.rest(begun.elapsed(), &progress);
            }
        }
        debug_assert!(progress.done == progress.all, "a page was left out");
        self.sync_data("syncing pages")
    }

    /// Bytes of a batch: few enough that a commit on a slow disk does not wait long for its sync.
    fn batch_bytes(&self) -> usize {
        (self.bounds.bound() as usize / 8).clamp(BATCH_BYTES / 8, BATCH_BYTES)
    }

    /// Copies those of some pages that are dirty.
    fn copy_batch(&self, batch: &mut HomeBatch, pages: &[PageNo]) {
        let bytes = self.region.geometry().page_bytes();
        batch.pages.clear();
        batch.images.clear();
        batch.last_epoch = 0;
        for &no in pages {
            let Some(page) = self.region.page(no) else { continue };
            let at = batch.images.len();
            batch.images.resize(at + bytes, 0);
            let image = &mut batch.images[at..];
            let Some(last_epoch) = copy_page(page, image) else {
                batch.images.truncate(at);
                continue;
            };
            let sum = page_sum(no, image);
            image[8 * SUM_WORD..8 * SUM_WORD + 8].copy_from_slice(&sum.to_le_bytes());
            batch.pages.push(no);
            batch.last_epoch = batch.last_epoch.max(last_epoch);
        }
    }

    fn write_batch(&self, batch: &mut HomeBatch, batches: &mut u64) -> Result<()> {
        let Some(&highest) = batch.pages.last() else { return Ok(()) };
        self.wait_durable(batch.last_epoch)?;
        let (uuid, open_generation) = {
            let superblock = lock(&self.superblock);
            (superblock.uuid, superblock.open_generation)
        };
        debug_assert!(*batches < 1 << 32 && open_generation != 0, "batches are numbered apart");
        let number = open_generation << 32 | *batches;
        *batches += 1;
        let epoch = self.last_block.load(Ordering::Acquire);
        debug_assert!(
            batch.images.len() == batch.pages.len() * self.region.geometry().page_bytes()
        );
        debug_assert!(epoch <= self.epochs.peek().0 + 1);
        double::encode(&mut batch.half, &uuid, number, epoch, &batch.pages, &batch.images);
        self.write_data(&batch.half, double::half_offset(number), "writing the double-write area")?;
        self.sync_data("syncing the double-write area")?;
        self.write_homes(batch)?;
        self.pages_end.fetch_max(u64::from(highest) + 1, Ordering::AcqRel);
        self.counters.pages_written.fetch_add(batch.pages.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    /// Writes each run of neighbours at once.
    fn write_homes(&self, batch: &HomeBatch) -> Result<()> {
        let g = self.region.geometry();
        debug_assert!(
            batch.last_epoch <= self.epochs.peek().0,
            "a home gets no change that is not durable"
        );
        let mut start = 0;
        for i in 1..=batch.pages.len() {
            if batch.pages.get(i).is_some_and(|&no| no == batch.pages[i - 1] + 1) {
                continue;
            }
            let images = &batch.images[start * g.page_bytes()..i * g.page_bytes()];
            self.write_data(images, page_offset(batch.pages[start], g), "writing pages")?;
            start = i;
        }
        Ok(())
    }

    /// Makes everything durable, writes all pages home if it can, and marks the pool clean.
    pub(crate) fn close(&self) -> Result<()> {
        self.wait_durable(self.epochs.now())?;
        if self.pending().is_some() {
            return Ok(());
        }
        let mut batches = lock(&self.checkpointing);
        if lock(&self.superblock).clean {
            return Ok(());
        }
        self.start(&mut lock(&self.commit))?;
        self.write_pages(&mut batches, Pace::Full)?;
        debug_assert!(self.pending().is_none(), "the journal still holds changes for a page");
        let files = lock(&self.commit).files;
        let generation = files.iter().map(|f| f.generation).max().unwrap_or(0);
        let durable = self.epochs.durable();
        let pages_end = self.pages_end.load(Ordering::Acquire);
        self.write_super(|s| {
            s.clean = true;
            s.first_batch = s.open_generation << 32 | *batches;
            s.last_block = 0;
            s.journal_generation = generation + 1;
            s.journal_floor = 0;
            s.first_link = first_link(0);
            s.durable_epoch = durable;
            s.pages_end = pages_end;
        })?;
        // If both have blocks, the first one goes first: if the superblock is damaged, the one before
        // it must not find a journal that is whole but for its end.
        let first = usize::from(files[1].busy && files[1].generation < files[0].generation);
        self.cut_journal(first, IDLE_BYTES)?;
        if files[0].busy && files[1].busy {
            self.sync_journal(first)?;
        }
        self.cut_journal(1 - first, IDLE_BYTES)?;
        self.repeat_super()
    }
}
