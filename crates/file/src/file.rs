//! The file medium: pages in memory, an ordinary file and a journal below.
//!
//! ```text
//! step ── note ──> slot of the thread ──(end of epoch)──> block of the journal, synced
//!   │ store                                                   │
//!   v                                                         │ open after a crash
//! page in memory ──(checkpoint: copy)──> image, table, root   │
//!        ^────────────────(fetch: read, check, redo)──────────┘
//! ```
//!
//! Invariants kept here:
//! - A step lands whole in one epoch; epochs become durable in order, each whole or not at all.
//! - No root holds a change that is not durable; no journal block is freed before a durable root has its
//!   changes.
//! - Nothing is written over that the durable root or its journal needs.
//! - A page in memory is its image plus all its changes, or it is absent.
//! - After a failed write or sync nothing is written any more; nothing acknowledged is lost. A disk that is
//!   full has not failed: what was to be written stays and is written later.
//!
//! Invariants kept by the layer above: the latch rule of [`Medium`]; sequence word and checksum word of the
//! header are not stored to; and **a page number is for pages or for [large values](File::extent_write),
//! not for both in turn**: the changes of a page are numbered, and a value has no number to go on from.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use everleaf_pmem::door::{copy_in, may_store, move_slots, move_words, put};
use everleaf_pmem::dram::outside;
use everleaf_pmem::epoch::{EpochPin, epoch_is_pinned};
use everleaf_pmem::error::{Error, Result};
use everleaf_pmem::life::CloseOnce;
use everleaf_pmem::locks::{Mutex, of_last_owner};
use everleaf_pmem::medium::{Change, Medium, Redo};
use everleaf_pmem::page::{Geometry, Page, PageNo, SEQ_WORD, SUM_WORD, Word};
use everleaf_pmem::rules::holds_no_latch;
use everleaf_pmem::shared::{PAIRS_AHEAD, SharedPair};
use everleaf_pmem::sync::lock_plain as lock;

use crate::epochs::barrier::{ABANDONED, CLOSED, READ_ONLY};
use crate::epochs::durable::DurableFuture;
use crate::epochs::slots::{DIRTY_MARK, FileOp};
use crate::inner::Inner;
use crate::io::Io;
use crate::memory::budget::Share;
use crate::memory::evict::KeptPages;
use crate::observe;
use crate::open;
use crate::options::FileOptions;
use crate::stats::{self, FileStats};
use crate::tasks;
use crate::workers::{Task, Waker};

/// A pool on an ordinary file.
#[derive(Debug)]
pub struct File {
    inner: Arc<Inner>,
    /// Those that end epochs and make memory ready.
    tasks: Mutex<Vec<Task>>,
    /// The result of the first [`close`](Self::close); held while it runs.
    end: CloseOnce,
}

impl File {
    /// Opens the pool at `path`.
    ///
    /// After a crash this reads the journal up to its torn tail; changes are applied page by page
    /// as they are fetched. A read-only open changes nothing on disk and excludes writers.
    ///
    /// # Errors
    /// [`Error::Foreign`] if it is no pool of this version and layout, [`Error::Locked`],
    /// [`Error::Corrupt`] if something durable is damaged or gone, [`Error::Io`].
    pub fn open(io: Arc<dyn Io>, path: &Path, options: &FileOptions) -> Result<File> {
        let inner = Arc::new(open::open(&*io, path, &options.within_bounds())?);
        let file = File { inner, tasks: Mutex::default(), end: CloseOnce::default() };
        let pool = Arc::downgrade(&file.inner);
        file.inner.residents.share.budget().join(pool)?;
        observe::opened(&file.inner.uuid, &file.inner.state());
        if options.background && !options.read_only {
            lock(&file.tasks).extend(tasks::start(&file.inner)?);
        }
        Ok(file)
    }

    /// A share for what the layer above takes of the memory of this pool, and of those that share it.
    pub fn share_memory(&self) -> Share {
        Share::new(self.inner.residents.share.budget())
    }

    /// Whether nothing was ever made durable in this pool: the layer above must format it.
    pub fn is_fresh(&self) -> bool {
        self.inner.fresh
    }
    /// Keeps all steps of a batch in one epoch. Take it before any latch; waiting for durability
    /// inside is refused. A batch that panics never becomes durable, nor does anything after it; one
    /// that fails half-way becomes so, unless the caller undoes it or [poisons](Self::poison) the
    /// file before the hold is dropped. Nothing that it adds is refused for want of room: ask
    /// [`throttle`](Medium::throttle) before.
    ///
    /// # Panics
    /// If this thread holds another, of this medium or of any.
    pub fn pin_epoch(&self) -> EpochPin<'_> {
        debug_assert!(holds_no_latch(), "a batch begins before its first latch");
        self.inner.pin_epoch()
    }
    /// The running epoch. If there is a thread that ends epochs, it ends this one.
    pub fn clock(&self) -> u64 {
        let epoch = self.inner.epochs.now();
        self.inner.ticker.begin(epoch);
        epoch
    }
    /// The last epoch that is durable, with all before it.
    pub fn durable_epoch(&self) -> u64 {
        self.inner.epochs.durable()
    }
    /// Whether the next step may wait before it begins, for its turn or for the disk. It is a guess: others may change
    /// that at any moment.
    #[inline]
    pub fn may_wait(&self) -> bool {
        self.inner.barrier.load(Ordering::Relaxed) != 0
    }
    /// As [`alive`](Self::alive), for a writer: it waits while the disk is behind with what others note, if it is not this
    /// thread's turn; see [`throttle`](Medium::throttle). A thread that calls this before it takes what others want waits
    /// for the disk while it holds nothing.
    ///
    /// # Errors
    /// Those of [`alive`](Self::alive).
    #[inline(always)]
    pub fn turn(&self) -> Result<()> {
        debug_assert!(holds_no_latch(), "who waits here keeps others from a page");
        self.alive()?;
        if self.may_wait() {
            self.inner.take_turn();
        }
        Ok(())
    }
    /// Waits until `epoch` is durable, ending it if it runs. All who wait share one sync.
    ///
    /// # Errors
    /// [`Error::Poisoned`]; [`Error::InsideBatch`] inside an [`EpochPin`] of any medium; [`Error::Closed`];
    /// [`Error::NoMemory`], after which the next call goes on where this one stopped.
    pub fn wait_durable(&self, epoch: u64) -> Result<()> {
        self.inner.wait_durable(epoch)
    }
    /// Waits until `epoch` is durable, and does not end it before its time; `until` then at the longest. Says whether it
    /// is durable. See [`DurableFuture`].
    ///
    /// # Errors
    /// Those of [`durable`](Self::durable); [`Error::InsideBatch`] inside an [`EpochPin`] of any medium.
    pub fn await_durable(&self, epoch: u64, until: Option<Instant>) -> Result<bool> {
        debug_assert!(holds_no_latch(), "who waits here keeps others from a page");
        self.inner.await_durable(epoch, until)
    }
    /// The same as a future, which does not keep the pool open.
    ///
    /// # Errors
    /// [`Error::Poisoned`]; [`Error::Closed`], [`Error::ReadOnly`] or [`Error::Forked`] if the epoch does not
    /// become durable because of that; [`Error::NoMemory`].
    pub fn durable(&self, epoch: u64) -> DurableFuture {
        DurableFuture::new(Arc::clone(&self.inner), epoch)
    }
    /// Makes all steps that have ended durable.
    ///
    /// # Errors
    /// As [`wait_durable`](Self::wait_durable).
    pub fn sync(&self) -> Result<()> {
        self.alive()?;
        if self.inner.barrier.load(Ordering::SeqCst) & READ_ONLY != 0 {
            return Ok(());
        }
        self.inner.check_writable()?;
        self.inner.wait_durable(self.inner.epochs.now())
    }
    /// Ends the running epoch and makes it durable, as the background thread does each interval.
    ///
    /// # Errors
    /// As [`wait_durable`](Self::wait_durable).
    pub fn tick(&self) -> Result<()> {
        self.sync()
    }
    /// Ends the running epoch and hands all of it to the system, which writes it when it likes: a killed process loses
    /// nothing of it, and a power cut may. Says which epoch it was. It becomes durable soon if there are
    /// [tasks](FileOptions::background), else with the next call of this or of [`sync`](Self::sync). An epoch without
    /// changes is durable at once.
    ///
    /// It waits for the end before it to become durable; and while the journal is at its bound, for a checkpoint.
    ///
    /// # Errors
    /// As [`wait_durable`](Self::wait_durable). [`Error::Io`] if the disk is full: the epoch has ended, and the next call
    /// writes it first.
    pub fn end_epoch(&self) -> Result<u64> {
        debug_assert!(holds_no_latch(), "who waits here keeps others from a page");
        self.inner.end_epoch()
    }
    /// Makes all epochs durable that have ended; and the one that runs, unless the
    /// [program ends it](FileOptions::manual_epochs).
    ///
    /// # Errors
    /// As [`wait_durable`](Self::wait_durable).
    pub fn sync_ended(&self) -> Result<()> {
        self.alive()?;
        self.inner.keep_ended_epochs()
    }
    /// Bytes of changes of the running epoch, about: as threads have told. O(1).
    pub fn epoch_bytes(&self) -> u64 {
        self.inner.epoch_bytes()
    }
    /// Whether the journal is half full.
    pub fn checkpoint_due(&self) -> bool {
        lock(&self.inner.work).checkpoint_due
    }
    /// Whether pages that were changed take so much memory that a checkpoint should write them now. Never if
    /// a thread ends epochs: then writers wait for the one that writes checkpoints.
    pub fn is_crowded(&self) -> bool {
        self.inner.bounds.is_half_crowded()
    }
    /// Sees to it that so many bytes can be written, as part of a batch that has not begun. Others may take the
    /// room meanwhile. Short files have none ahead.
    ///
    /// # Errors
    /// [`Error::Io`] if the disk is full.
    pub fn expect_room(&self, bytes: u64) -> Result<()> {
        debug_assert!(holds_no_latch(), "it may write a checkpoint");
        self.inner.expect_bytes(bytes)
    }
    /// Writes images of all changed pages and frees journal. Writers go on meanwhile. To be called from
    /// a thread that holds no latch. Threads that call while a checkpoint runs share the next one.
    ///
    /// # Errors
    /// [`Error::Poisoned`], [`Error::ReadOnly`]; [`Error::Unrecovered`] while pages are
    /// [pending](Self::pending); [`Error::InsideBatch`] inside an [`EpochPin`]; [`Error::Corrupt`] if another
    /// program has cut the file off, and then writes have stopped; I/O errors.
    pub fn checkpoint(&self) -> Result<()> {
        debug_assert!(holds_no_latch(), "a checkpoint latches pages");
        self.inner.checkpoint()
    }
    /// As [`checkpoint`](Self::checkpoint), and slowly, so that others have most of the disk; faster
    /// the faster the journal fills, and as fast as it can once somebody calls that, or
    /// [`wake`](Self::wake), or the file ends.
    ///
    /// # Errors
    /// As [`checkpoint`](Self::checkpoint).
    pub fn checkpoint_steadily(&self) -> Result<()> {
        debug_assert!(holds_no_latch(), "a checkpoint latches pages");
        self.inner.checkpoint_steadily()
    }
    /// Makes the file as short as what is alive in it allows, by checkpoints that move images to its
    /// beginning. Writers go on meanwhile. `progress` hears of the file's length in bytes now and then.
    /// O(bytes that are moved).
    ///
    /// # Errors
    /// As [`checkpoint`](Self::checkpoint).
    pub fn compact(&self, progress: &mut dyn FnMut(u64)) -> Result<()> {
        debug_assert!(holds_no_latch(), "a checkpoint latches pages");
        self.alive()?;
        self.inner.compact(progress)
    }
    /// Copies the pool, as it is at the end of an epoch that this call makes durable, to a new file
    /// `path` of `io`, and says which epoch that is. Others go on reading and writing. The copy is a pool
    /// of its own, with the same uuid; it is durable when this returns. `progress` hears how many bytes
    /// of how many have been looked at. A read-only open copies what is durable and writes nothing to
    /// the pool. A crash meanwhile leaves a file whose name is `path` and `-new` at most.
    /// O(bytes in use); until it ends nothing of them is given out again.
    ///
    /// # Errors
    /// [`Error::FileExists`] if something has the name; [`Error::Locked`] while somebody else makes such
    /// a file; [`Error::Io`], of the copy or of reading the pool, which goes on; those of
    /// [`sync`](Self::sync); [`Error::Closed`] if the pool is closed meanwhile. The unfinished file is
    /// removed.
    pub fn backup(
        &self,
        io: &dyn Io,
        path: &Path,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<u64> {
        debug_assert!(holds_no_latch(), "a backup waits for the disk");
        self.alive()?;
        self.inner.backup(io, path, progress)
    }
    /// Says whether somebody writes a checkpoint whenever one is due. Meanwhile steps wait while the
    /// journal is at its bound, if the file has a thread that ends epochs; else it may grow beyond.
    pub fn set_kept(&self, kept: bool) {
        self.inner.bounds.set_kept(kept, &self.inner.barrier);
    }
    /// Has the writer of checkpoints woken whenever there may be something to do for it: one is due,
    /// something became durable, or writes have stopped. One for each open.
    pub fn set_keeper(&self, keeper: Waker) {
        let is_first = self.inner.keeper.set(keeper).is_ok();
        debug_assert!(is_first, "one keeper for each open");
    }
    /// Stops all writing for good because of `error`: the running epoch is never committed, and
    /// reopening recovers the last durable one. For layers that cannot complete what must be whole.
    pub fn poison(&self, error: &Error) {
        self.inner.poison(error.clone());
    }
    /// Lets a thread in [`checkpoint_steadily`](Self::checkpoint_steadily) hurry, from now on.
    pub fn wake(&self) {
        lock(&self.inner.work).nudged = true;
        self.inner.wake.notify_all();
    }
    /// Why writes have stopped, if they have.
    pub fn poisoned(&self) -> Option<Error> {
        self.inner.poisoned()
    }
    /// Keeps all pages in memory that are there, or come, until the guard is dropped: what was fetched
    /// needs no disk until then. Memory may take more than it should meanwhile.
    pub fn keep_pages(&self) -> KeptPages<'_> {
        KeptPages::of(&self.inner)
    }
    /// Writes bytes of a large value to pages that the layer above has reserved, from `offset` bytes
    /// behind page `first` on: a multiple of a page's bytes. Each page is written at once; only the last
    /// one of a value may get fewer bytes. They are durable with the step that
    /// [adopts](Self::extent_adopt) them.
    ///
    /// # Errors
    /// [`Error::Invalid`] outside the pool, within a page, or over a value that is there;
    /// [`Error::Poisoned`]; I/O errors.
    pub fn extent_write(&self, first: PageNo, offset: u64, bytes: &[u8]) -> Result<()> {
        self.inner.extent_write(first, offset, bytes)
    }
    /// Reads bytes of an extent that starts at page `first`, from byte `offset` of it on.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Corrupt`] behind the end of the file, [`Error::Invalid`] outside the
    /// pool.
    pub fn extent_read(&self, first: PageNo, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.inner.extent_read(first, offset, buf)
    }
    /// A long key and the value of the record of this name, if they are in memory. O(1).
    #[inline]
    pub fn value_lend(&self, name: u64) -> Option<SharedPair> {
        self.inner.residents.values.lend(name)
    }
    /// Asks the processor for what [`value_lend`](Self::value_lend) will read of some records: their values, or if those
    /// come later, where the searches for them begin. 0 is no record. O(1).
    pub fn value_prefetch(&self, names: &[u64; PAIRS_AHEAD], are_next: bool) {
        let values = &self.inner.residents.values;
        if are_next { values.prefetch(names) } else { values.prefetch_slots(names) }
    }
    /// The ticket that [`value_keep`](Self::value_keep) asks a reader for. The reader has to find the record in use and
    /// unchanged after it has this, and before it reads.
    pub fn value_ticket(&self, name: u64) -> u64 {
        self.inner.residents.values.ticket(name)
    }
    /// A copy of a long key and the value behind it for [`value_keep`](Self::value_keep), if there is room for
    /// them in [memory](FileOptions::memory_bytes). O(bytes).
    pub fn value_copy(&self, parts: [&[u8]; 2]) -> Option<SharedPair> {
        self.inner.copy_value(parts)
    }
    /// Keeps a long key and the value behind it in memory, under the name of the record that
    /// leads to them, until they leave or the record is [freed](Self::value_forget). A writer that no leaf
    /// names yet needs no ticket. O(1), as a rule.
    pub fn value_keep(&self, name: u64, ticket: Option<u64>, pair: SharedPair) {
        self.inner.residents.values.keep(name, ticket, pair);
    }
    /// The record of this name is freed; its page is latched. O(1).
    pub fn value_forget(&self, name: u64) {
        self.inner.residents.values.remove(name);
    }
    /// A step makes a run of pages that was [written](Self::extent_write) part of the pool.
    pub fn extent_adopt(&self, op: &mut FileOp<'_>, first: PageNo, pages: u32) {
        self.inner.adopt(op, first, pages);
    }
    /// A step frees a run of pages that a step has adopted. It can be read until it is
    /// [released](Self::extent_release).
    pub fn extent_forget(&self, op: &mut FileOp<'_>, first: PageNo, pages: u32) {
        self.inner.forget(op, first, pages);
    }
    /// Nobody reads a run any more that a step has [forgotten](Self::extent_forget), and no crash brings
    /// it back.
    pub fn extent_release(&self, first: PageNo, pages: u32) {
        self.inner.release_value(first, pages);
    }
    /// A run of pages that was written is given up before a step has adopted it.
    pub fn extent_discard(&self, first: PageNo, pages: u32) {
        self.inner.discard(first, pages);
    }
    /// Figures of this open. O(1); waits for nobody's sync.
    pub fn stats(&self) -> FileStats {
        stats::collect(&self.inner)
    }

    /// Makes everything durable and stops. If no page is [pending](Self::pending), images of all
    /// pages are written and the journal is emptied, so that the next open has nothing to recover. Steps
    /// are refused from now on, and reads of what is not in memory yet. The locks are given back at once,
    /// whatever handles live on. Another call is told the same, after this one is done.
    ///
    /// # Errors
    /// [`Error::Poisoned`]; [`Error::Closed`] after [`abandon`](Self::abandon); [`Error::InsideBatch`]
    /// inside an [`EpochPin`] of any medium, which changes nothing; [`Error::Corrupt`] if another program has
    /// cut the file off.
    pub fn close(&self) -> Result<()> {
        self.close_with(&|| ())
    }

    /// As [`close`](Self::close). `settle` runs when everything is durable, before the last checkpoint: what
    /// was freed may be [released](Self::extent_release) then.
    ///
    /// # Errors
    /// As [`close`](Self::close).
    pub fn close_with(&self, settle: &dyn Fn()) -> Result<()> {
        if self.inner.life.is_forked() {
            return Err(Error::Forked);
        }
        self.end.once(|| {
            let before = self.inner.barrier.fetch_or(CLOSED, Ordering::SeqCst);
            self.inner.bounds.let_go();
            let result = if before & READ_ONLY == 0 {
                self.inner.check_writable().and_then(|()| self.inner.close(settle))
            } else {
                Ok(())
            };
            self.abandon();
            self.inner.release();
            result
        })
    }

    /// Stops without another call to the disk, as if the process had been killed. For tests.
    pub fn abandon(&self) {
        if self.inner.life.is_forked() {
            return;
        }
        self.inner.barrier.fetch_or(CLOSED | ABANDONED, Ordering::SeqCst);
        self.inner.bounds.let_go();
        self.inner.wake_waiters();
        self.tell_tasks();
        // Inside a batch the end of an epoch may wait for this thread; it ends after the batch.
        if !epoch_is_pinned() {
            self.end_tasks();
        }
    }

    /// Ends without making anything durable that is not: what was durable stays, and no step of the
    /// running epoch. Steps and reads are refused, and the locks given back, as by
    /// [`close`](Self::close). A commit that runs just now may still come to its end.
    ///
    /// # Errors
    /// [`Error::InsideBatch`] inside an [`EpochPin`] of any medium, which changes nothing. If the file was
    /// closed before, what that said.
    pub fn abandon_and_release(&self) -> Result<()> {
        if self.inner.life.is_forked() {
            return Err(Error::Forked);
        }
        let mut is_first = false;
        let ended = self.end.once(|| {
            is_first = true;
            self.abandon();
            self.inner.release();
            Err(Error::Closed)
        });
        if is_first { Ok(()) } else { ended }
    }

    fn tell_tasks(&self) {
        lock(&self.inner.work).stop = true;
        self.inner.wake.notify_all();
    }

    fn end_tasks(&self) {
        let tasks = std::mem::take(&mut *lock(&self.tasks));
        drop(tasks);
    }
}

impl Drop for File {
    fn drop(&mut self) {
        if self.inner.life.is_forked() {
            return;
        }
        self.tell_tasks();
        self.end_tasks();
        // Steps and holds borrow the handle: nobody is left to be waited for, also if this thread
        // runs a batch of another medium.
        if self.inner.barrier.load(Ordering::SeqCst) & (CLOSED | ABANDONED) == 0 {
            // Twice if memory was refused to the commit before. A failure has poisoned the handle;
            // nobody is left to be told.
            let last = self.inner.epochs.now();
            let is_behind = || self.inner.epochs.durable() < last;
            of_last_owner(|| while is_behind() && self.inner.commit_now(last).is_ok() {});
        }
        self.inner.barrier.fetch_or(CLOSED | ABANDONED, Ordering::SeqCst);
        self.inner.wake_waiters();
        self.inner.release();
        self.inner.residents.share.budget().leave(&*self.inner);
    }
}

impl File {
    fn fetch_as(&self, page: Page<'_>, owned: bool, redo: &mut Redo<'_>) -> Result<()> {
        self.alive()?;
        debug_assert!(page.latch().is_held_here(), "a fetch of a page that is not latched");
        if page.mark(DIRTY_MARK).load(Ordering::Relaxed) != 0 {
            // Memory is ahead of the disk: an earlier caller fetched it and then gave up.
            return Ok(());
        }
        // Before anything is redone: a failure after that would leave a page that is ahead of the disk.
        self.inner.note_resident(page.no())?;
        // After a close somebody else may have written what was read.
        let fetched = self.inner.fetch(page, owned, redo);
        let result = fetched.and_then(|()| self.alive());
        if result.is_err() {
            (0..page.geometry().page_words()).for_each(|i| put(page.word(i), 0));
        }
        debug_assert!(result.is_err() || page.head(SUM_WORD).load() == 0);
        self.inner.evict();
        result
    }
}

impl Medium for File {
    type Op<'m> = FileOp<'m>;
    const ORDERED: bool = false;
    const JOURNALED: bool = true;

    fn geometry(&self) -> Geometry {
        self.inner.region.geometry()
    }
    fn limit(&self) -> PageNo {
        self.inner.region.limit()
    }
    #[inline(always)]
    fn page(&self, no: PageNo) -> Result<Page<'_>> {
        let region = &self.inner.region;
        region.page(no).ok_or_else(|| outside(no, region.limit(), region.geometry(), "data"))
    }
    #[inline(always)]
    fn page_if_any(&self, no: PageNo) -> Option<Page<'_>> {
        self.inner.region.page(no)
    }
    fn page_place(&self, no: PageNo) -> u64 {
        self.inner.newest(no).map_or(0, |placed| placed.place)
    }
    fn fetch(&self, page: Page<'_>, redo: &mut Redo<'_>) -> Result<()> {
        self.fetch_as(page, true, redo)
    }
    fn fetch_unowned(&self, page: Page<'_>, redo: &mut Redo<'_>) -> Result<()> {
        self.fetch_as(page, false, redo)
    }
    fn frames_kept(&self) -> Option<&AtomicU64> {
        Some(&self.inner.residents.frames.kept)
    }
    fn read_aside(&self, no: PageNo, aside: Page<'_>) -> Result<bool> {
        self.alive()?;
        debug_assert!(aside.latch().is_held_here(), "a copy into a page that is not latched");
        let read = self.inner.read_aside(no, aside);
        // After a close somebody else may have written what was read.
        read.and_then(|is_read| self.alive().map(|()| is_read))
    }
    #[inline(always)]
    fn store(&self, word: Word<'_>, value: u64) {
        debug_assert!(word.index() != SEQ_WORD && word.index() != SUM_WORD);
        debug_assert!(may_store(word), "neither latched nor entered");
        put(word, value);
    }
    #[inline(always)]
    fn move_slots(&self, page: Page<'_>, from: usize, n: usize, right: bool) {
        debug_assert!(may_store(page.head(0)), "neither latched nor entered");
        move_slots(page, from, n, right);
    }
    #[inline(always)]
    fn copy_in(&self, page: Page<'_>, at: usize, bytes: &[u8]) {
        debug_assert!(may_store(page.head(0)), "neither latched nor entered");
        copy_in(page, at, bytes);
    }
    #[inline(always)]
    fn move_words(&self, page: Page<'_>, from: usize, to: usize, n: usize) {
        debug_assert!(may_store(page.head(0)), "neither latched nor entered");
        move_words(page, from, to, n);
    }
    #[inline(always)]
    fn flush(&self, _page: Page<'_>, _line: usize) {}
    #[inline(always)]
    fn fence(&self) {}
    #[inline(always)]
    fn alive(&self) -> Result<()> {
        self.inner.life.check()
    }
    #[inline(always)]
    fn throttle(&self, adds: bool) -> Result<()> {
        debug_assert!(holds_no_latch(), "who waits here keeps others from a page");
        if self.may_wait() { self.inner.throttle(adds) } else { Ok(()) }
    }
    fn pending(&self) -> Option<PageNo> {
        self.inner.pending()
    }
    #[inline(always)]
    fn enter(&self) -> Result<FileOp<'_>> {
        self.inner.enter()
    }
    fn enter_for(&self, changes: usize) -> Result<FileOp<'_>> {
        self.inner.enter_for(changes)
    }
    #[inline(always)]
    fn note(&self, op: &mut FileOp<'_>, page: Page<'_>, change: Change<'_>) {
        op.note(page, change);
    }
    #[inline(always)]
    fn note_parts(&self, op: &mut FileOp<'_>, page: Page<'_>, tag: u8, parts: &[&[u8]]) {
        op.note_parts(page, tag, parts);
    }
    #[inline(always)]
    fn count(&self, op: &mut FileOp<'_>, tree: PageNo, by: i64) {
        op.slot.counts.add(tree, op.epoch, by);
    }
    fn counted(&self, tree: PageNo) -> Result<Option<u64>> {
        self.inner.counted(tree).map(Some)
    }
    #[inline(always)]
    fn epoch(&self, op: &FileOp<'_>) -> u64 {
        debug_assert!(op.epoch > self.inner.epochs.peek().0, "a step in an epoch that has ended");
        op.epoch
    }
}
