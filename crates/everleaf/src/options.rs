//! How a pool is opened.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use everleaf_file::io::{Io, RealIo};
use everleaf_file::{DaxOptions, FileOptions};
use everleaf_pmem::Geometry;

use crate::{Db, Error, Result};

/// When an operation is durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// At most about one [interval](Options::interval) after the operation returned.
    #[default]
    Buffered,
    /// When the operation returns. Threads that wait at the same time share one disk sync.
    Sync,
}

/// What a pool is kept on.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Storage {
    /// An ordinary file on an ordinary disk: epochs and a journal.
    #[default]
    File,
    /// Persistent memory: a file on a DAX file system, mapped. Every operation is durable when it
    /// returns, whatever [`Durability`] says. Opening refuses where the system cannot grant that
    /// ([`Error::NotDax`](crate::Error::NotDax)).
    ///
    /// A new pool takes [`max_bytes`](Options::max_bytes) at once, which must be said; an existing
    /// one is enlarged to it. After a crash the open walks all trees to give back what leaked.
    Dax,
    /// As [`Dax`](Storage::Dax) on any file system: what returned survives a crash of the process,
    /// and not one of the system. For tests, and for memory that nobody expects to last.
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
    pub(crate) node_slots: u32,
    pub(crate) max_bytes: u64,
    pub(crate) create: bool,
    pub(crate) read_only: bool,
    pub(crate) storage: Storage,
    pub(crate) background: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            interval: Duration::from_millis(10),
            journal_bytes: 256 << 20,
            pending_bytes: 8 << 20,
            node_slots: 128,
            max_bytes: 256 << 30,
            create: true,
            read_only: false,
            storage: Storage::File,
            background: true,
        }
    }
}

impl Options {
    /// An interval of 10 ms, a journal of 256 MiB, nodes of 128 slots, at most 256 GiB; creates a
    /// missing pool.
    pub fn new() -> Self {
        Self::default()
    }

    /// How long an epoch lasts: about what a crash may take of what was not synced.
    ///
    /// Shorter costs more disk syncs a second, not slower operations. At least 1 ms is kept.
    #[must_use]
    pub fn interval(mut self, interval: Duration) -> Self {
        self.interval = interval.max(Duration::from_millis(1));
        self
    }

    /// How many bytes the journal may take, and one epoch more; a checkpoint begins at half of that,
    /// and writers wait for it at the bound. It bounds the disk space beside the data and the time that
    /// opening takes after a crash. Less than 1 MiB makes checkpoints more frequent, and nobody wait.
    #[must_use]
    pub fn journal_bytes(mut self, journal_bytes: u64) -> Self {
        self.journal_bytes = journal_bytes;
        self
    }

    /// How many bytes of changes may wait to become durable: above it, writers wait for the disk, each
    /// in turn. On a disk that takes less than that in four [intervals](Options::interval), as measured,
    /// it is what the disk takes, and 1 MiB at least. So a write is on disk ten intervals and two syncs
    /// after it returned, whatever the number of writers. Memory takes up to five times as much
    /// meanwhile.
    #[must_use]
    pub fn pending_bytes(mut self, pending_bytes: u64) -> Self {
        self.pending_bytes = pending_bytes;
        self
    }

    /// Slots in a node of a new pool, a power of two; a slot has 16 bytes. An existing pool keeps
    /// the size that it was created with.
    #[must_use]
    pub fn node_slots(mut self, node_slots: u32) -> Self {
        self.node_slots = node_slots;
        self
    }

    /// How many bytes of pages the pool may have. Beyond it, writes return
    /// [`Error::Full`](crate::Error::Full), which names this limit.
    #[must_use]
    pub fn max_bytes(mut self, max_bytes: u64) -> Self {
        self.max_bytes = max_bytes;
        self
    }

    /// Whether a missing pool is created (the default) or an error.
    #[must_use]
    pub fn create(mut self, create: bool) -> Self {
        self.create = create;
        self
    }

    /// Opens without writing a byte: the pool must exist, and every write returns
    /// [`Error::ReadOnly`](crate::Error::ReadOnly). It is [`Locked`](crate::Error::Locked) while
    /// another process has it open for writing.
    #[must_use]
    pub fn read_only(mut self, read_only: bool) -> Self {
        self.read_only = read_only;
        self
    }

    /// What the pool is kept on. A pool stays on what it was made for.
    #[must_use]
    pub fn storage(mut self, storage: Storage) -> Self {
        self.storage = storage;
        self
    }

    /// Whether threads of the pool end epochs and write checkpoints (the default). Without them
    /// nothing is durable before [`Db::sync`], [`Durability::Sync`], a checkpoint or the close asks for
    /// it, and the journal grows until [`Db::checkpoint`]: for programs that want to decide when the
    /// disk is written to, and for tests that must repeat. No write waits for the disk then: what is
    /// written stays in memory, however much it is, until one of these is called.
    /// [`Storage::File`] only; the others need no such threads.
    #[must_use]
    pub fn background(mut self, background: bool) -> Self {
        self.background = background;
        self
    }

    /// Opens the pool at `path`.
    ///
    /// After a crash this replays the journal: everything up to the last durable epoch is there,
    /// nothing of a later one is.
    ///
    /// # Errors
    ///
    /// [`Foreign`](crate::Error::Foreign) if the file is not a pool,
    /// [`Corrupt`](crate::Error::Corrupt) if it is a damaged one,
    /// [`Locked`](crate::Error::Locked) if another process has it open,
    /// [`InvalidOption`](crate::Error::InvalidOption) for settings outside their limits,
    /// [`Io`](crate::Error::Io) if it is missing and not to be created, or if the system refuses.
    /// An error before recovery begins changes nothing on disk.
    pub fn open(&self, path: impl AsRef<Path>) -> Result<Db> {
        Db::open_with(Arc::new(RealIo), path.as_ref(), self)
    }

    /// Opens the pool at `path` of a file system of the caller's: a simulated one that loses power
    /// ([`SimIo`](everleaf_file::io::SimIo)), or one that encrypts or counts.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use everleaf_file::io::SimIo;
    ///
    /// # fn main() -> everleaf::Result<()> {
    /// let disk = SimIo::new(1);
    /// let db = everleaf::Options::new().background(false).open_on(Arc::new(disk.clone()), "p")?;
    /// db.tree("t")?.insert("kept", "")?;
    /// db.sync()?;
    /// db.tree("t")?.insert("lost", "")?;
    /// let after = disk.power_cut(7);
    /// let db = everleaf::Options::new().open_on(Arc::new(after), "p")?;
    /// assert!(db.tree("t")?.contains("kept")? && !db.tree("t")?.contains("lost")?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open); [`InvalidOption`](crate::Error::InvalidOption) unless the storage is
    /// [`Storage::File`].
    pub fn open_on(&self, io: Arc<dyn Io>, path: impl AsRef<Path>) -> Result<Db> {
        if self.storage != Storage::File {
            let what = "only a pool on a file can be on a file system of one's own".into();
            return Err(Error::InvalidOption { option: "storage", what });
        }
        Db::open_with(io, path.as_ref(), self)
    }

    /// Pages of a pool of `max_bytes`; 0 if that was not set.
    fn pages(&self) -> Result<u32> {
        let geometry = Geometry::new(self.node_slots).filter(|g| g.slots() >= 8);
        let page_bytes =
            geometry.map(Geometry::page_bytes).ok_or_else(|| Error::InvalidOption {
                option: "node_slots",
                what: format!(
                    "nodes of {} slots: a power of two from 8 to 1024 is needed",
                    self.node_slots
                ),
            })?;
        // One page more than fits, so that the limit is never below what was asked for; the
        // smallest pool has the map and the catalog.
        let pages = (self.max_bytes / page_bytes as u64 + 1).clamp(64, u64::from(u32::MAX));
        let is_set = self.max_bytes != Options::default().max_bytes;
        Ok(if is_set { pages as u32 } else { 0 })
    }

    /// The limit as it was asked for, if `pages` are what that came to.
    pub(crate) fn limit_bytes(&self, geometry: Geometry, pages: u32) -> Option<u64> {
        let asked = self.max_bytes / geometry.page_bytes() as u64 + 1;
        (asked == u64::from(pages)).then_some(self.max_bytes)
    }

    /// The settings of the file medium.
    pub(crate) fn file_options(&self) -> Result<FileOptions> {
        Ok(FileOptions {
            slots: self.node_slots,
            interval: self.interval,
            journal_bytes: self.journal_bytes,
            pending_bytes: self.pending_bytes,
            max_pages: self.pages()?,
            create: self.create && !self.read_only,
            read_only: self.read_only,
            background: self.background,
            ..FileOptions::default()
        })
    }

    /// The settings of persistent memory.
    pub(crate) fn dax_options(&self, emulate: bool) -> Result<DaxOptions> {
        Ok(DaxOptions {
            slots: self.node_slots,
            pages: if self.read_only { 0 } else { self.pages()? },
            create: self.create && !self.read_only,
            read_only: self.read_only,
            emulate,
            ..DaxOptions::default()
        })
    }
}
