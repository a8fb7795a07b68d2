//! Persistent memory: a file on a DAX file system, mapped; pages are updated in place.
//!
//! ```text
//! step ── store ──> mapped page ── flush, fence ──> durable
//! ```
//!
//! There is no journal and no epoch. Stores are durable when they have been flushed and fenced, in units of
//! 8 bytes; the layer above keeps the order that makes its operations failure-atomic. The file is
//! mapped with `MAP_SYNC`, which only DAX file systems grant: there, what is flushed can be found
//! again after a power failure. Elsewhere the open is refused, unless [`DaxOptions::emulate`] says
//! that only crashes of the process matter.
//!
//! The file begins as that of [`File`](crate::File) does, with a feature bit; its pages are at fixed
//! places behind: see `docs/FORMAT.md`. All of its blocks are reserved when it is made, so that a store
//! cannot fail for want of space. **Another process that shortens the file makes the next touch raise SIGBUS**;
//! the lock keeps out only those that ask for it.
//!
//! # By itself
//!
//! An application needs no tree: pages are arrays of words. A durable counter (the example
//! `dax_counter` is a program of it):
//!
//! ```
//! use everleaf_file::{Dax, DaxOptions};
//! use everleaf_pmem::Medium;
//!
//! # let dir = tempfile::tempdir()?;
//! # let path = dir.path().join("counter");
//! // On a DAX file system leave `emulate` out.
//! let options = DaxOptions { pages: 16, create: true, emulate: true, ..DaxOptions::default() };
//! {
//!     let pool = Dax::open(&path, &options)?;
//!     assert!(pool.is_fresh());
//!     let page = pool.page(0)?;
//!     let count = page.body(0);
//!     for _ in 0..3 {
//!         pool.enter()?; // refuses when the pool is read-only
//!         pool.store(count, count.load() + 1); // 8 bytes, whole or not at all
//!         pool.flush(page, page.line_of(0));
//!         pool.fence(); // from here on it survives
//!     }
//! }
//! let pool = Dax::open(&path, &options)?;
//! assert!(!pool.is_fresh() && pool.was_clean());
//! assert_eq!(pool.page(0)?.body(0).load(), 3);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Data that changes together and does not fit 8 bytes is written beside what it replaces, flushed and
//! fenced; then one store of 8 bytes names it, and is flushed and fenced too. All words of page 0 are
//! zero in a new pool; [`Dax::is_fresh`] asks for that, so page 0 gets its first contents when all
//! else has been set up and fenced.

mod open;

use std::collections::HashMap;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use everleaf_pmem::error::Result;
use everleaf_pmem::fallible;
use everleaf_pmem::flush::Flush;
use everleaf_pmem::locks::{Mutex, RwLock};
use everleaf_pmem::mapped::{Mapped, Running};
use everleaf_pmem::medium::{Change, Medium, Redo};
use everleaf_pmem::page::{FIRST_PAGE_OFFSET, Geometry, Page, PageNo, Word};

use crate::io::IoFile;
use crate::open::data::expect_inside;
use crate::store::format::{SUPER_BYTES, page_offset};
use crate::store::superblock::Super;

/// How a pool on persistent memory is opened.
#[derive(Debug, Clone)]
pub struct DaxOptions {
    /// Slots of 16 bytes in a page, for a new pool; an existing one keeps its own. A power of two in
    /// 4..=1024.
    pub slots: u32,
    /// Pages of a new pool, for which blocks are reserved. An existing pool that has fewer is
    /// enlarged, one that has more keeps them. 0: as many as there are, which a new pool refuses.
    pub pages: PageNo,
    /// The hash of what the layer above puts into pages; a pool with another one is not opened.
    pub layout_hash: u64,
    /// Whether to make the pool if it is missing.
    pub create: bool,
    /// Whether to change nothing in the file. Stores are then private to this handle and are lost
    /// with it, so that a layer above may recover before it reads; steps are refused.
    pub read_only: bool,
    /// Whether to accept a file that is not on a DAX file system. Stores then survive the
    /// death of the process, and are lost in a power failure. Lines are flushed all the same.
    pub emulate: bool,
    /// How lines are written back. `None`: the best that the processor has, or fences alone if the
    /// platform reports that its caches survive (eADR).
    pub flush: Option<Flush>,
}

impl Default for DaxOptions {
    fn default() -> Self {
        Self {
            slots: 256,
            pages: 0,
            layout_hash: 0,
            create: false,
            read_only: false,
            emulate: false,
            flush: None,
        }
    }
}

/// A pool on persistent memory.
#[derive(Debug)]
pub struct Dax {
    mapped: Mapped,
    superblock: Mutex<Super>,
    /// The layer above has not recovered yet: a close leaves the pool marked unclean.
    recovering: AtomicBool,
    emulated: bool,
    fresh: bool,
    was_clean: bool,
    open_generation: u64,
    /// How many pairs trees have, as far as somebody has said it.
    counts: RwLock<HashMap<PageNo, AtomicU64>>,
    /// Holds the lock.
    file: Box<dyn IoFile>,
}

impl Dax {
    /// Whether all of page 0 was zero at the open: the pool is new, or nobody got as far as to
    /// store to page 0. The layer above must format it, and store to page 0 last.
    pub fn is_fresh(&self) -> bool {
        self.fresh
    }
    /// Whether the last one who wrote had closed the pool.
    pub fn was_clean(&self) -> bool {
        self.was_clean
    }
    /// Whether stores survive only the process: the file was opened for writing and is not mapped
    /// with `MAP_SYNC`.
    pub fn is_emulated(&self) -> bool {
        self.emulated
    }
    /// How lines are written back.
    pub fn flush_instruction(&self) -> Flush {
        self.mapped.flush_instruction()
    }
    /// How often the pool has been opened for writing, this time included.
    pub fn open_generation(&self) -> u64 {
        self.open_generation
    }

    /// The pool's own identity, random from its creation.
    pub fn uuid(&self) -> [u8; 16] {
        self.superblock.lock().unwrap_or_else(PoisonError::into_inner).uuid
    }
    /// Length of the file in bytes.
    pub fn file_bytes(&self) -> u64 {
        page_offset(self.limit(), self.geometry())
    }

    /// Says how many pairs the tree of an anchor has, as nobody changes it: from now on it is known.
    ///
    /// # Errors
    /// [`NoMemory`](everleaf_pmem::error::Error::NoMemory).
    pub fn know_count(&self, tree: PageNo, pairs: u64) -> Result<()> {
        let mut counts = self.counts.write().unwrap_or_else(PoisonError::into_inner);
        fallible::more_keys(&mut counts, 1, "the counts of pairs")?;
        counts.insert(tree, AtomicU64::new(pairs));
        Ok(())
    }

    /// Says whether the layer above has still to recover what a crash left. While it has, a close
    /// does not mark the pool clean, so that the next open recovers, too.
    pub fn set_recovering(&self, recovering: bool) {
        self.recovering.store(recovering, Ordering::SeqCst);
    }

    /// Marks the pool clean, durably, and gives its lock back. All steps must have ended, with what
    /// they flushed fenced; steps are refused from now on, and what is read may be of another process
    /// that has opened the pool meanwhile: ask [`alive`](Self::alive) after it. Does nothing the
    /// second time, on a read-only handle, and in a forked child. Dropping the handle closes it,
    /// unless its thread is panicking.
    pub fn close(&self) {
        if self.mapped.alive().is_err() {
            return;
        }
        let was_open = self.mapped.refuse_steps();
        let is_recovered = !self.recovering.load(Ordering::SeqCst);
        if was_open && is_recovered {
            self.write_super(|s| s.clean = true);
        }
        self.mapped.end();
        // A lock that cannot be given back ends with the file.
        let _ = self.file.unlock();
    }

    /// Writes `bytes` from `offset` bytes behind the start of page `first`, into pages that the layer
    /// above has reserved and nothing durable refers to. They are durable when this returns. Between
    /// them, two calls at a time must not touch the same 8 bytes. O(bytes).
    ///
    /// # Errors
    /// `Invalid` outside the pool; `Closed`; `ReadOnly`.
    pub fn extent_write(&self, first: PageNo, offset: u64, bytes: &[u8]) -> Result<()> {
        self.mapped.alive()?;
        let start = self.extent_start(first, offset, bytes.len())?;
        self.mapped.write_bytes(start, bytes)
    }
    /// Reads bytes of an extent that starts at page `first`, from byte `offset` of it on. O(bytes).
    ///
    /// # Errors
    /// `Invalid` outside the pool.
    pub fn extent_read(&self, first: PageNo, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.mapped.alive()?;
        let start = self.extent_start(first, offset, buf.len())?;
        self.mapped.read_bytes(start, buf)
    }

    /// Where an extent's bytes start, counted from the start of page 0. They lie in the pool.
    fn extent_start(&self, first: PageNo, offset: u64, len: usize) -> Result<usize> {
        expect_inside(self.geometry(), self.limit(), first, offset, len)?;
        let at = page_offset(first, self.geometry()) + offset;
        Ok((at - FIRST_PAGE_OFFSET) as usize)
    }

    /// Changes the superblock, durably, in the copy that is not current. A torn one fails its
    /// checksum, and the other copy counts.
    fn write_super(&self, change: impl FnOnce(&mut Super)) {
        let mut current = self.superblock.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut current);
        current.counter += 1;
        self.mapped.write_lead(current.copy() as usize * SUPER_BYTES, &current.encode());
    }
}

impl Drop for Dax {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.close();
        }
    }
}

impl Medium for Dax {
    type Op<'m> = Running<'m>;
    const JOURNALED: bool = false;

    fn geometry(&self) -> Geometry {
        self.mapped.geometry()
    }
    fn limit(&self) -> PageNo {
        self.mapped.limit()
    }
    #[inline(always)]
    fn page(&self, no: PageNo) -> Result<Page<'_>> {
        self.mapped.page(no)
    }
    fn fetch(&self, page: Page<'_>, redo: &mut Redo<'_>) -> Result<()> {
        self.mapped.fetch(page, redo)
    }
    #[inline(always)]
    fn store(&self, word: Word<'_>, value: u64) {
        self.mapped.store(word, value);
    }
    #[inline(always)]
    fn flush(&self, page: Page<'_>, line: usize) {
        self.mapped.flush(page, line);
    }
    #[inline(always)]
    fn fence(&self) {
        self.mapped.fence();
    }
    #[inline(always)]
    fn alive(&self) -> Result<()> {
        self.mapped.alive()
    }
    #[inline(always)]
    fn enter(&self) -> Result<Running<'_>> {
        self.mapped.enter()
    }
    #[inline(always)]
    fn note(&self, op: &mut Running<'_>, page: Page<'_>, change: Change<'_>) {
        self.mapped.note(op, page, change);
    }
    fn count(&self, _op: &mut Running<'_>, tree: PageNo, by: i64) {
        let counts = self.counts.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(pairs) = counts.get(&tree) {
            pairs.fetch_add(by as u64, Ordering::Relaxed);
        }
    }
    fn counted(&self, tree: PageNo) -> Result<Option<u64>> {
        let counts = self.counts.read().unwrap_or_else(PoisonError::into_inner);
        Ok(counts.get(&tree).map(|pairs| pairs.load(Ordering::Relaxed)))
    }
    fn epoch(&self, op: &Running<'_>) -> u64 {
        self.mapped.epoch(op)
    }
}
