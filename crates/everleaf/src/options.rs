//! How a pool is opened.

use std::time::Duration;

#[cfg(feature = "dax")]
use everleaf_file::DaxOptions;
use everleaf_file::{Compression, FileOptions, INTERVAL_MOST};
use everleaf_pmem::Geometry;

use crate::{Budget, Error, Result};

/// Bytes of a page of a new pool on a file.
const FILE_PAGE_BYTES: u32 = 4096;
/// The sizes that can be asked for there.
const FILE_PAGES: &str = "512 to 32768";
/// Bytes of a node of a new pool on persistent memory.
const DAX_PAGE_BYTES: u32 = 2048;
/// The sizes that can be asked for there.
const DAX_PAGES: &str = "128 to 16384";
/// Bytes of a slot of a node there.
const SLOT_BYTES: u32 = 16;
/// The most bytes of journal that a pool in memory has: only backups read it, and it takes memory.
const MEMORY_JOURNAL: u64 = 16 << 20;
/// The least bytes that a pool in memory may have: the journal and room for deletes go in beside some pairs.
const MEMORY_LEAST: u64 = 32 << 20;
/// The most bytes of pages that a pool can have: a process has addresses for four times as many.
const MAX_BYTES_MOST: u64 = 32 << 40;

/// One page more than fits, so that the limit is never below what was asked for.
fn pages_of(max_bytes: u64, geometry: Geometry) -> u64 {
    max_bytes / geometry.page_bytes() as u64 + 1
}

/// When a write is durable. Each handle has one: the [`Db`](crate::Db) that an open returns has
/// [`Options::durability`], a [`Tree`](crate::Tree), a [`Batch`](crate::Batch) and a
/// [`Transaction`](crate::Transaction) have that of the `Db` that they come from, and [`Db::with`](crate::Db::with) and
/// [`Tree::with`](crate::Tree::with) return the same with another one. A batch and a transaction are durable as a
/// whole, so the handles of the trees that they change do not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// The write is on disk one [interval](Options::interval) and two disk syncs after the operation returned. If writers
    /// are faster than the disk, it is ten intervals and two syncs; see [`Options::pending_bytes`].
    #[default]
    Buffered,
    /// The write is on disk when the operation returns. Threads that wait at the same time share one disk sync. If the wait
    /// fails, with the errors of [`Db::sync`](crate::Db::sync), the write is there in memory, and it is unknown whether it
    /// is on disk until the pool is opened again. A call that finds nothing to do may return without waiting. A call that is
    /// many operations, such as [`Tree::remove_range`](crate::Tree::remove_range), waits once, at its end; if it fails
    /// before that, it does not wait for what it has done.
    Sync,
}

/// Where a pool is stored.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Storage {
    /// An ordinary file on an ordinary disk, with epochs and a journal.
    #[default]
    File,
    /// Persistent memory, as a mapped file on a DAX file system. Every operation is durable when it
    /// returns, whatever [`Durability`] says. If the system cannot grant that, the open returns
    /// [`Error::NotDax`](crate::Error::NotDax).
    ///
    /// Set [`max_bytes`](Options::max_bytes): a new pool takes that many bytes at once, and an existing
    /// one is enlarged to it. After a crash the open walks all trees to give back what leaked.
    ///
    /// In a build without the feature `dax` the open returns [`Error::Unsupported`](crate::Error::Unsupported), for this
    /// and for [`EmulatedDax`](Storage::EmulatedDax).
    Dax,
    /// Like [`Dax`](Storage::Dax), on any file system. Operations that have returned survive a crash of the process, but not
    /// of the system. For tests, and for data that need not outlive the system.
    EmulatedDax,
}

/// Settings for opening a pool. [`Options::new`] suits most programs.
///
/// ```
/// # fn main() -> everleaf::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path().join("log.ever");
/// use std::time::Duration;
/// let db = everleaf::Options::new().interval(Duration::from_millis(2)).open(&path)?;
/// # db.close()
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Options {
    pub(crate) interval: Duration,
    pub(crate) journal_bytes: u64,
    pub(crate) pending_bytes: u64,
    pub(crate) page_bytes: Option<u32>,
    max_bytes: Option<u64>,
    pub(crate) create: bool,
    pub(crate) read_only: bool,
    pub(crate) storage: Storage,
    pub(crate) background: bool,
    pub(crate) manual_epochs: bool,
    pub(crate) compression: Compression,
    memory: Memory,
    snapshot_memory: Option<u64>,
    transaction_memory: Option<u64>,
    pub(crate) evicts_small: bool,
    pub(crate) durability: Durability,
}

/// Whose memory a pool takes.
#[derive(Debug, Clone)]
enum Memory {
    /// The memory shared by all pools of the process that say nothing.
    Process,
    /// So many bytes of its own.
    Own(u64),
    Shared(Budget),
}

impl Default for Options {
    fn default() -> Self {
        Options {
            interval: Duration::from_millis(10),
            journal_bytes: 256 << 20,
            pending_bytes: 8 << 20,
            page_bytes: None,
            max_bytes: None,
            create: true,
            read_only: false,
            storage: Storage::File,
            background: true,
            manual_epochs: false,
            compression: Compression::None,
            memory: Memory::Process,
            snapshot_memory: None,
            transaction_memory: None,
            evicts_small: false,
            durability: Durability::Buffered,
        }
    }
}

impl Options {
    /// Returns the defaults: an interval of 10 ms, a journal of 256 MiB, at most 8 MiB of changes that
    /// wait for the disk, pages of 4 KiB, at most 256 GiB of them, a quarter of the memory for all pools, a file, and background
    /// threads. A missing pool is created.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets how long an epoch lasts, and so how long a write stays at risk if nobody syncs.
    /// Default: 10 ms. Less than 1 ms counts as 1 ms, more than a day as a day.
    ///
    /// A shorter interval costs more disk syncs a second. It does not make operations slower.
    #[must_use]
    pub fn interval(mut self, interval: Duration) -> Self {
        self.interval = interval.clamp(Duration::from_millis(1), INTERVAL_MOST);
        self
    }

    /// Sets when a write is durable: the [`Durability`] of the [`Db`](crate::Db) that is opened, and so of the trees,
    /// batches and transactions that come from it. [`Db::with`](crate::Db::with) and
    /// [`Tree::with`](crate::Tree::with) return handles with another one. Default: [`Durability::Buffered`].
    ///
    /// ```
    /// # fn main() -> everleaf::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("ledger.ever");
    /// use everleaf::{Durability, Options};
    ///
    /// let db = Options::new().durability(Durability::Sync).open(&path)?;
    /// db.tree("t")?.put("k", "v")?; // on disk
    /// # assert!(db.durable_epoch() > 0);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// Sets how many bytes the journal may take; one epoch more may follow. Default: 256 MiB. More than 1 PiB counts as
    /// 1 PiB.
    ///
    /// A checkpoint begins when the journal is half full. While it runs, the journal may fill only as fast as the
    /// checkpoint gets on, and writers that are faster wait. So this bounds the disk space beside the data, and the
    /// time that an open takes after a crash. With less than 1 MiB checkpoints come more often, but writers wait as
    /// they do with 1 MiB. Without [background](Options::background) threads writers do not wait, and the journal grows
    /// until a checkpoint.
    #[must_use]
    pub fn journal_bytes(mut self, journal_bytes: u64) -> Self {
        self.journal_bytes = journal_bytes;
        self
    }

    /// Sets how many bytes of changes may wait to become durable. Above it, writers wait for the disk, each
    /// in turn. Default: 8 MiB. Less than 8 KiB counts as 8 KiB, and more than 1 PiB as 1 PiB. The bound is never more
    /// than a sixteenth of the [memory](Options::memory), or 1 MiB if that is more. The changes take up to five times
    /// as much memory.
    ///
    /// Until the disk has been measured, the bound is at most 4 MiB. If the disk takes less than this in four
    /// [intervals](Options::interval), as measured, then the bound is as much as the disk takes in that time, but at
    /// least 1 MiB. So a write is on disk ten intervals and two syncs after it returned, whatever the number of
    /// writers, on a disk that takes 1 MiB in four intervals.
    ///
    /// Where the program ends epochs, what waits is written to the journal as it comes, so writers do not wait for that. But
    /// while an epoch that has ended is being synced, the next one stays in memory, and writers wait for the sync when that is
    /// as much as this, and at least 1 MiB.
    #[must_use]
    pub fn pending_bytes(mut self, pending_bytes: u64) -> Self {
        self.pending_bytes = pending_bytes;
        self
    }

    /// Sets the bytes of a page, and so of a node, of a new pool: a power of two. An existing pool keeps
    /// the size that it was created with.
    ///
    /// On a file a page has 512 to 32,768 bytes; default: 4,096. Keys and values of up to an eighth of a page live in
    /// their leaf, longer ones outside of it. On persistent memory a page has 128 to 16,384 bytes, and a header of 64 bytes
    /// beside them; default: 2,048. Another number is refused by the open:
    /// [`Error::InvalidOption`](crate::Error::InvalidOption).
    #[must_use]
    pub fn page_bytes(mut self, page_bytes: u32) -> Self {
        self.page_bytes = Some(page_bytes);
        self
    }

    /// Sets how many bytes of pages the pool may have. Beyond this limit, writes return
    /// [`Error::Full`](crate::Error::Full), which names it.
    ///
    /// Default on a file: 256 GiB, or twice the pages that the pool has, if that is more. All pools of a process share
    /// its address space, so a pool that is opened while about 128 others are open gets 32 GiB instead, and beyond
    /// about 2,300 others 4 GiB. If the system has fewer addresses to give, the pool gets half of that, or a quarter,
    /// and so on.
    ///
    /// On persistent memory there is no default: a new pool is not made without this, and an existing one keeps the
    /// pages that it has.
    ///
    /// Less than 64 pages counts as 64 pages, and more than 32 TiB, or 2³² pages, counts as that; a process has
    /// addresses for two or three pools of 32 TiB. For a pool [in memory](Options::in_memory) this bounds the length of its
    /// file in memory, with another default. On a file, an existing pool with more pages is not opened:
    /// [`Error::InvalidOption`](crate::Error::InvalidOption).
    #[must_use]
    pub fn max_bytes(mut self, max_bytes: u64) -> Self {
        self.max_bytes = Some(max_bytes.min(MAX_BYTES_MOST));
        self
    }

    /// Sets whether a missing pool is created (the default) or is an error.
    #[must_use]
    pub fn create(mut self, create: bool) -> Self {
        self.create = create;
        self
    }

    /// Sets whether the pool is opened read-only. Then it must exist, no byte of it changes on disk, and
    /// every write returns [`Error::ReadOnly`](crate::Error::ReadOnly). Any number of processes may open a
    /// pool read-only at once. While a process has it open for writing, the open returns
    /// [`Error::Locked`](crate::Error::Locked). If a crash has cut off a batch of a pool on persistent memory, the open
    /// returns [`Error::Unrecovered`](crate::Error::Unrecovered) until the pool has been opened for writing once.
    #[must_use]
    pub fn read_only(mut self, read_only: bool) -> Self {
        self.read_only = read_only;
        self
    }

    /// Sets where the pool is stored. Default: [`Storage::File`]. A pool stays on the storage that it was
    /// created for.
    #[must_use]
    pub fn storage(mut self, storage: Storage) -> Self {
        self.storage = storage;
        self
    }

    /// Sets whether the program alone ends the pool's epochs. Default: no, an epoch lasts for an
    /// [interval](Options::interval).
    ///
    /// If it does, all that it does between two ends becomes durable together, or not at all.
    /// [`Db::end_epoch`](crate::Db::end_epoch), [`Db::sync`](crate::Db::sync), [`Durability::Sync`] and the close end an
    /// epoch. Nothing else does: a checkpoint, a compaction and a backup go by the last epoch that has ended.
    /// [`Db::abandon`](crate::Db::abandon) and a crash take back what came after that.
    ///
    /// An epoch may be as long, and as large, as you like. Whenever a quarter of
    /// [`pending_bytes`](Options::pending_bytes), or 128 KiB if that is less, has been changed, a thread puts the changes
    /// into the journal, or a write does where there is none; so the end of the epoch finds little to write. Pages that it
    /// has changed leave memory, to places in the file that nobody finds after a crash. Until it has ended, the journal
    /// holds all that it has changed; the file is longer by that.
    ///
    /// This is for programs that decide themselves what becomes durable together: state stores, queues, replicas. On
    /// persistent memory there are no epochs, and this changes nothing.
    #[must_use]
    pub fn manual_epochs(mut self, manual_epochs: bool) -> Self {
        self.manual_epochs = manual_epochs;
        self
    }

    /// Sets whether threads work for the pool (the default): they end its epochs, or make those durable that the
    /// [program ends](Options::manual_epochs), and they write its checkpoints. All pools of a
    /// process share them; there are a few, and they end when nobody has needed them for 10 seconds.
    ///
    /// Without them the program [ends epochs](Options::manual_epochs) and writes checkpoints. The journal grows until
    /// [`Db::checkpoint`](crate::Db::checkpoint), which [`Db::sync`](crate::Db::sync) calls when pages that were changed take
    /// half of the [memory](Options::memory), and a write when they take most of it. An epoch that has
    /// [ended](crate::Db::end_epoch) becomes durable with the next call of that, of `sync` or of
    /// [`Db::wait_durable`](crate::Db::wait_durable).
    ///
    /// This is for tests that must repeat, and for programs that want no threads. On persistent memory this decides only
    /// whether a thread frees the pages of dropped and cleared trees, or the call that drops or clears them.
    #[must_use]
    pub fn background(mut self, background: bool) -> Self {
        self.background = background;
        self
    }

    /// Sets how pages and large values are compressed before they are written to the file. Default: not at all. It can
    /// change from one open to the next: existing data is read whatever it says, and stays as it is until it is written
    /// again. The journal and persistent memory are never compressed.
    #[must_use]
    pub fn compression(mut self, compression: Compression) -> Self {
        self.compression = compression;
        self
    }

    /// Sets how many bytes of memory the pool's pages and large values may take, with the frames of pages (64 bytes each),
    /// the page table as far as it is in memory, and about 43 to 85 bytes more for each value. By default the pool has no
    /// memory of its own, and shares the [`Budget`] of the process: a quarter of what that may use. The last call of this and
    /// of [`budget`](Options::budget) counts.
    ///
    /// Above it, pages and values that were not used recently leave memory, and are read again when they are needed.
    /// A value is kept when it is written by a put or read as a whole, unless it is longer than 4 MiB or a
    /// sixteenth of this.
    /// Pages that were changed are written first: they may take half of what the rest leaves, above which
    /// writers wait for a checkpoint. Where the [program ends epochs](Options::manual_epochs), they may take seven eighths of
    /// it, or 1 MiB if that is more. Reads never wait
    /// for room, so a pool takes a little more for a moment. A [`Batch`](crate::Batch) is one epoch and is
    /// never refused half-way: all pages that it needs stay in memory while it is committed, however many there are.
    ///
    /// Any number will do: the pages that an operation needs are in memory, however low the limit. Frames and entries
    /// stay for each page that was ever used, and 20 bytes for each tree that has pairs; all of this counts, and so do the
    /// changes that [wait for the disk](Self::pending_bytes) and the [old values](Self::snapshot_memory) of snapshots. An
    /// eighth is for pages and values in any case.
    /// A 32nd of the memory is left for buffers and lists. Two things come on top: copies of changes while they are written,
    /// and the buffers of operations under way. Changes that wait are bounded by a sixteenth of the memory, or 1 MiB if
    /// that is more, and take up to five times as much.
    ///
    /// Pages of less than 4,096 bytes never leave memory, and neither does anything on persistent memory. Beside
    /// such pages, large values may take half of this.
    #[must_use]
    pub fn memory(mut self, bytes: u64) -> Self {
        self.memory = Memory::Own(bytes);
        self
    }

    /// Has the pool share memory with others that are opened with the same budget, in place of [`memory`](Options::memory)
    /// of its own; all that is said there of a pool is true of them together. Default: [`Budget::of_process`].
    ///
    /// Of the parts that have bounds (changed pages, changes that wait for the disk, old values) a pool may take what the
    /// others leave, or its fair part if that is more: with many busy pools less than a sixteenth of the budget, half of
    /// it or a quarter of it; 64 KiB in any case.
    #[must_use]
    pub fn budget(mut self, budget: &Budget) -> Self {
        self.memory = Memory::Shared(budget.clone());
        self
    }

    /// The memory of the pool, which may be that of others, too.
    pub(crate) fn memory_budget(&self) -> Budget {
        match &self.memory {
            Memory::Process => Budget::of_process(),
            Memory::Own(bytes) => Budget::new(*bytes),
            Memory::Shared(budget) => budget.clone(),
        }
    }

    /// Sets how many bytes of memory may hold old values for [snapshots](crate::Snapshot) and transactions. Default: a
    /// quarter of [`memory`](Options::memory), and at least 4 MiB; pools that share a [budget](Options::budget) share that.
    ///
    /// Above it the oldest snapshot expires: its reads return [`SnapshotTooOld`](crate::Error::SnapshotTooOld). Old values
    /// that are larger than a quarter of this limit are not kept: a snapshot's read of such a key returns the same
    /// error, and so does a range or a cursor that comes to it, in its place. Its reads of other keys go on. With 0 a
    /// snapshot expires at the first write that it must not see.
    #[must_use]
    pub fn snapshot_memory(mut self, bytes: u64) -> Self {
        self.snapshot_memory = Some(bytes);
        self
    }

    /// Sets how many bytes of memory one [transaction](crate::Transaction) may take for its writes and for the keys that it
    /// has read, and one [`Batch`](crate::Batch) for its changes. Default: a quarter of [`memory`](Options::memory), and at
    /// least 4 MiB. Less than 64 KiB counts as 64 KiB.
    ///
    /// Above it reads and writes of the transaction, and additions to the batch, return
    /// [`TransactionTooLarge`](crate::Error::TransactionTooLarge), and change nothing. This bounds each transaction and each
    /// batch, and not all together; [`Stats::transaction_bytes`](crate::Stats::transaction_bytes) has the sum. A commit takes
    /// 64 bytes more for each change, and the pages of its epoch [stay in memory](Options::memory) while it runs.
    #[must_use]
    pub fn transaction_memory(mut self, bytes: u64) -> Self {
        self.transaction_memory = Some(bytes.max(64 << 10));
        self
    }

    /// A part of the memory of pages, for what else is in memory.
    fn part_of_memory(&self) -> u64 {
        let bytes = match &self.memory {
            Memory::Process => crate::memory::default_bytes(),
            Memory::Own(bytes) => *bytes,
            Memory::Shared(budget) => budget.bytes(),
        };
        (bytes / 4).max(4 << 20)
    }

    /// How many bytes old values may take, and whether that is all that bounds them: else pools share it.
    pub(crate) fn snapshot_memory_bytes(&self) -> (u64, bool) {
        match self.snapshot_memory {
            Some(bytes) => (bytes, true),
            None => (self.part_of_memory(), false),
        }
    }

    pub(crate) fn transaction_memory_bytes(&self) -> u64 {
        self.transaction_memory.unwrap_or_else(|| self.part_of_memory())
    }

    /// Has pages of less than 4,096 bytes leave memory, too, although that gives nothing back. For tests of
    /// this crate.
    #[doc(hidden)]
    #[must_use]
    pub fn evict_small_pages(mut self) -> Self {
        self.evicts_small = true;
        self
    }

    /// The shape of a new pool's pages.
    fn geometry(&self) -> Result<Geometry> {
        let is_dax = self.storage != Storage::File;
        let (geometry, range) = match (self.page_bytes, is_dax) {
            (None, false) => (Geometry::whole(FILE_PAGE_BYTES), FILE_PAGES),
            (None, true) => (Geometry::new(DAX_PAGE_BYTES / SLOT_BYTES), DAX_PAGES),
            (Some(bytes), false) => (Geometry::whole(bytes), FILE_PAGES),
            (Some(bytes), true) => {
                let slots = if bytes.is_power_of_two() { bytes / SLOT_BYTES } else { 0 };
                (Geometry::new(slots).filter(|g| g.slots() >= 8), DAX_PAGES)
            }
        };
        geometry.ok_or_else(|| {
            let asked = self.page_bytes.unwrap_or_default();
            let what = format!("pages of {asked} bytes: a power of two from {range} is needed");
            Error::InvalidOption { option: "page_bytes", what }
        })
    }

    /// Pages of a pool of `max_bytes`; 0 if that was not set.
    fn pages(&self, geometry: Geometry) -> u32 {
        let Some(max_bytes) = self.max_bytes else { return 0 };
        // The smallest pool has the map and the catalog.
        let pages = pages_of(max_bytes, geometry).max(64);
        u32::try_from(pages).unwrap_or(u32::MAX)
    }

    /// The limit as it was asked for, if `pages` are what that came to.
    pub(crate) fn limit_bytes(&self, geometry: Geometry, pages: u32) -> Option<u64> {
        self.max_bytes.filter(|bytes| pages_of(*bytes, geometry) == u64::from(pages))
    }

    /// How many bytes a pool in memory may have, and its other settings: that bound is the only one.
    pub(crate) fn of_memory(&self) -> (u64, Options) {
        let most_bytes = self.max_bytes.unwrap_or_else(|| 2 * crate::memory::default_bytes());
        let most_bytes = most_bytes.max(MEMORY_LEAST);
        let journal_bytes = self.journal_bytes.min(MEMORY_JOURNAL).min(most_bytes / 8);
        (most_bytes, Options { max_bytes: None, journal_bytes, ..self.clone() })
    }

    /// The settings of the file medium.
    pub(crate) fn file_options(&self) -> Result<FileOptions> {
        let geometry = self.geometry()?;
        Ok(FileOptions {
            slots: geometry.slots() as u32,
            interval: self.interval,
            journal_bytes: self.journal_bytes,
            pending_bytes: self.pending_bytes,
            spill_bytes: (self.pending_bytes / 4).min(FileOptions::default().spill_bytes),
            max_pages: self.pages(geometry),
            create: self.create && !self.read_only,
            read_only: self.read_only,
            background: self.background,
            manual_epochs: self.manual_epochs || !self.background,
            compression: self.compression,
            budget: Some(self.memory_budget().0),
            evicts_small: self.evicts_small,
            stay: everleaf_pool::stay,
            frame_stays: everleaf_pool::frame_stays,
            turns_are_taken: true,
            ..FileOptions::default()
        })
    }

    /// The settings of persistent memory.
    #[cfg(feature = "dax")]
    pub(crate) fn dax_options(&self, emulate: bool) -> Result<DaxOptions> {
        let geometry = self.geometry()?;
        Ok(DaxOptions {
            slots: geometry.slots() as u32,
            pages: if self.read_only { 0 } else { self.pages(geometry) },
            create: self.create && !self.read_only,
            read_only: self.read_only,
            emulate,
            ..DaxOptions::default()
        })
    }
}
