//! One open pool.

use std::fmt;
use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use everleaf_file::io::{Io, RealIo};
use everleaf_pmem::fallible;

use crate::attempts::Attempts;
use crate::engine::{Engine, Place, PoolTree, Share, Shares};
use crate::limits::check_name;
use crate::options::{Options, Storage};
use crate::{
    Batch, Compaction, Counts, Damage, Durability, Error, PageCount, Result, Snapshot, Stats,
    Transaction, TransactionOptions, Tree, TreeStats, transaction,
};

/// An open pool of named trees.
///
/// Clones are handles to the same pool, and so is all that comes from it: [`Tree`]s, snapshots, transactions and batches,
/// and the cursors and iterators of each. A handle may be used from any thread. Dropping the last one makes everything
/// durable and closes the pool; until then another open of it returns [`Locked`](crate::Error::Locked). A drop cannot
/// report an error; [`Db::close`] and [`Db::sync`] can.
#[derive(Clone)]
pub struct Db {
    engine: Engine,
    path: Option<Arc<Path>>,
    durability: Durability,
    shares: Arc<Shares<Engine>>,
}

impl Db {
    /// Opens the pool at `path` with the default [`Options`]. Creates it if it is missing.
    ///
    /// # Errors
    ///
    /// Those of [`Options::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<Db> {
        Options::new().open(path)
    }

    /// Makes a pool in memory with the default [`Options`]: for tests, and for caches.
    ///
    /// ```
    /// # fn main() -> everleaf::Result<()> {
    /// let db = everleaf::Db::in_memory()?;
    /// db.tree("t")?.put("k", "v")?;
    /// assert_eq!(db.tree("t")?.get("k")?, Some("v".into()));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`Options::in_memory`].
    pub fn in_memory() -> Result<Db> {
        Options::new().in_memory()
    }

    fn open_at(place: Place<'_>, options: &Options) -> Result<Db> {
        let path = place.path().map(Arc::from);
        let engine = Engine::open(place, options)?;
        Ok(Db { engine, path, durability: options.durability, shares: Arc::default() })
    }

    /// Returns a handle to the same pool whose writes have this durability: those of the trees, batches and
    /// transactions that come from it, and its own, which make, rename and drop trees. The handle that an open returns
    /// has [`Options::durability`]. This costs no more than a clone.
    ///
    /// ```
    /// use everleaf::Durability;
    ///
    /// # fn main() -> everleaf::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = everleaf::Db::open(dir.path().join("p.ever"))?;
    /// let (orders, sums) = (db.tree("orders")?, db.tree("sums")?);
    /// let mut batch = db.with(Durability::Sync).batch();
    /// batch.put(&orders, "1", "paid")?;
    /// batch.put(&sums, "november", "17")?;
    /// batch.commit()?; // both are on disk
    /// db.with(Durability::Sync).transact(|tx| tx.delete(&orders, "1"))?; // on disk
    /// # assert!(db.durable_epoch() > 0);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn with(&self, durability: Durability) -> Db {
        Db { durability, ..self.clone() }
    }

    /// Returns the path of the pool's file as it was given to the open, or `None` if the pool is in memory.
    ///
    /// ```
    /// # fn main() -> everleaf::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("p.ever");
    /// let db = everleaf::Db::open(&path)?;
    /// assert_eq!(db.path(), Some(&*path));
    /// # Ok(())
    /// # }
    /// ```
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Returns the tree called `name`. Creates an empty one if there is none; that is as durable as a write to a tree.
    /// O(log trees).
    ///
    /// # Errors
    ///
    /// [`TreeName`](crate::Error::TreeName) if the name has 0 bytes or more than
    /// [`TREE_NAME_BYTES_MAX`](crate::TREE_NAME_BYTES_MAX).
    /// [`ReadOnly`](crate::Error::ReadOnly) if the tree is missing in a read-only pool. Otherwise
    /// those of [`Tree::put`].
    pub fn tree(&self, name: &str) -> Result<Tree> {
        check_name(name)?;
        let on = self.engine.create_tree(name, self.durability)?;
        Ok(self.handle_of(name, on))
    }

    /// Returns the tree called `name`, or `None` if there is none. Unlike [`tree`](Db::tree) it creates none.
    ///
    /// # Errors
    ///
    /// Those of [`Tree::get`].
    pub fn open_tree(&self, name: &str) -> Result<Option<Tree>> {
        let on = self.engine.find_tree(name, None)?;
        Ok(on.map(|on| self.handle_of(name, on)))
    }

    fn handle_of(&self, name: &str, on: PoolTree) -> Tree {
        Tree::new(on, name, self.durability)
    }

    /// Returns the names of all trees, in bytewise order. O(trees).
    ///
    /// # Errors
    ///
    /// Those of [`Tree::get`].
    pub fn tree_names(&self) -> Result<Vec<String>> {
        self.engine.tree_names()
    }

    /// Removes the tree called `name` with all its pairs. Returns false if there is no such tree. The time is the
    /// same however large the tree is.
    ///
    /// From then on its handles and ranges return [`NoTree`](crate::Error::NoTree), even if another
    /// tree gets its name. A crash leaves the tree with all that it held, or nothing of it; the removal becomes
    /// durable like any write. A [`Snapshot`] from before still reads the tree.
    ///
    /// The tree's space is free some time later: once no snapshot from before needs the tree, a thread frees its pages, and
    /// [`Stats::dropped_trees`](crate::Stats::dropped_trees) counts the tree until that is done. A writer that runs out of
    /// space waits for it. If the process exits first, the next open for writing resumes it. Without
    /// [background](Options::background) threads this call frees the pages, and its time grows with the tree. If there is
    /// not even room to take the name away at once, the pairs are removed first, from the last to the first: an error or a
    /// crash may keep some of them, and snapshots [expire](crate::Error::SnapshotTooOld).
    ///
    /// ```
    /// # fn main() -> everleaf::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = everleaf::Db::open(dir.path().join("p.ever"))?;
    /// let tree = db.tree("t")?;
    /// tree.put("k", "v")?;
    /// assert!(db.drop_tree("t")?);
    /// assert!(matches!(tree.get("k"), Err(everleaf::Error::NoTree)));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`Tree::remove`].
    pub fn drop_tree(&self, name: &str) -> Result<bool> {
        let dropped = self.engine.drop_tree(name)?;
        if dropped {
            self.engine.settle(self.durability)?;
        }
        Ok(dropped)
    }

    /// Renames the tree called `from` to `to`. Returns false if there is no such tree. After a crash the
    /// tree has one of the two names; the new one is as durable as a write to a tree. Its handles stay valid, and their
    /// [`Tree::name`] still returns the old name.
    ///
    /// # Errors
    ///
    /// [`TreeExists`](crate::Error::TreeExists) if there is a tree called `to`.
    /// [`TreeName`](crate::Error::TreeName) if `to` is empty or too long. Otherwise those of
    /// [`Tree::put`].
    pub fn rename_tree(&self, from: &str, to: &str) -> Result<bool> {
        check_name(to)?;
        let renamed = self.engine.rename_tree(from, to)?;
        if renamed {
            self.engine.settle(self.durability)?;
        }
        Ok(renamed)
    }

    /// Returns an empty [`Batch`], to which you add changes to any trees of this pool that a crash keeps or loses
    /// together.
    pub fn batch(&self) -> Batch {
        Batch::new(self.share(), self.durability)
    }

    /// Returns all trees as they are now, whatever is written to them afterwards. This waits for writes in progress, and
    /// takes the same short time for any pool. See [`Snapshot`] for the cost of later writes.
    ///
    /// # Errors
    ///
    /// [`Closed`](crate::Error::Closed) or [`Forked`](crate::Error::Forked).
    pub fn snapshot(&self) -> Result<Snapshot> {
        Snapshot::new(self.engine.clone())
    }

    /// Runs a transaction, and commits it if `run` returns Ok. If others changed what it depends on, it runs again, up to
    /// [`TransactionOptions::attempts`] times. If `run` returns an error, or panics, nothing has happened.
    ///
    /// `run` may be called more than once, so perform side effects after `transact` returns. In the first run a read may
    /// return [`Conflict`](Error::Conflict): whatever `run` makes of that, it runs again. No lock is held while it
    /// runs, but long transactions conflict more often. From the ninth attempt on it has the *right of way*: other threads
    /// that are about to write wait for it, each for at most 50 ms. So a transaction that takes less than that succeeds
    /// as a rule, whatever others write. One that takes longer, or that itself changes what it has read outside of the
    /// transaction, may end with [`Conflict`](Error::Conflict), which has the number of attempts. If an old value that
    /// it needs was not kept, it ends with [`SnapshotTooOld`](Error::SnapshotTooOld), and is not tried again.
    ///
    /// ```
    /// # fn main() -> everleaf::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = everleaf::Db::open(dir.path().join("p.ever"))?;
    /// let jobs = db.tree("jobs")?;
    /// let number = db.transact(|tx| {
    ///     let last = tx.last(&jobs)?;
    ///     let number = last.map_or(0, |(key, _)| u64::from_be_bytes(key.try_into().unwrap()) + 1);
    ///     tx.put(&jobs, number.to_be_bytes(), "to do")?;
    ///     Ok(number)
    /// })?;
    /// assert_eq!(number, 0);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Those of `run`, and of [`Transaction::commit`].
    pub fn transact<T>(&self, run: impl FnMut(&Transaction) -> Result<T>) -> Result<T> {
        self.transact_with(TransactionOptions::new(), run)
    }

    /// Like [`transact`](Db::transact), with explicit options.
    ///
    /// # Errors
    ///
    /// Those of [`transact`](Db::transact).
    pub fn transact_with<T>(
        &self,
        options: TransactionOptions,
        run: impl FnMut(&Transaction) -> Result<T>,
    ) -> Result<T> {
        self.try_transact_with(options, run)
    }

    /// Like [`transact`](Db::transact), for a `run` with an error type of your own. If that is not the error type of the
    /// enclosing function, name it for the compiler: `|tx| -> Result<_, Refused> { … }`.
    ///
    /// ```
    /// #[derive(Debug)]
    /// enum Refused {
    ///     SoldOut,
    ///     Store(everleaf::Error),
    /// }
    ///
    /// impl From<everleaf::Error> for Refused {
    ///     fn from(error: everleaf::Error) -> Self {
    ///         Refused::Store(error)
    ///     }
    /// }
    ///
    /// # fn main() -> Result<(), Refused> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = everleaf::Db::open(dir.path().join("p.ever"))?;
    /// let stock = db.tree("stock")?;
    /// let sold = db.try_transact(|tx| {
    ///     if tx.remove(&stock, "chair")?.is_none() {
    ///         return Err(Refused::SoldOut);
    ///     }
    ///     Ok(())
    /// });
    /// assert!(matches!(sold, Err(Refused::SoldOut)));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`transact`](Db::transact).
    pub fn try_transact<T, E: From<Error>>(
        &self,
        run: impl FnMut(&Transaction) -> Result<T, E>,
    ) -> Result<T, E> {
        self.try_transact_with(TransactionOptions::new(), run)
    }

    /// Like [`try_transact`](Db::try_transact), with explicit options.
    ///
    /// # Errors
    ///
    /// Those of [`transact_with`](Db::transact_with).
    pub fn try_transact_with<T, E: From<Error>>(
        &self,
        options: TransactionOptions,
        run: impl FnMut(&Transaction) -> Result<T, E>,
    ) -> Result<T, E> {
        transaction::transact((&self.engine, || self.share()), self.durability, options, run)
    }

    /// Begins a transaction that you commit or drop yourself. This costs nothing yet: the moment that the transaction sees
    /// is that of its first read.
    pub fn begin(&self) -> Transaction {
        self.begin_with(TransactionOptions::new())
    }

    /// Like [`begin`](Db::begin), with explicit options. The number of attempts is ignored.
    pub fn begin_with(&self, options: TransactionOptions) -> Transaction {
        Transaction::new(self.share(), self.durability, options)
    }

    /// Begins the attempts of a transaction that the caller runs itself, as [`transact`](Db::transact) does: for bindings
    /// of languages whose functions cannot be called from within it. All of it is done by one thread.
    #[doc(hidden)]
    pub fn attempts(&self, most: u32) -> Attempts {
        Attempts::new(self.share(), most)
    }

    /// The pool, for a transaction or a batch of this thread.
    #[inline]
    fn share(&self) -> Share<Engine> {
        self.shares.take(|| self.engine.clone())
    }

    /// Waits until every operation that returned before this call is on disk.
    ///
    /// Threads that call it at the same time share one disk sync. In a pool without
    /// [background](Options::background) threads it also writes a [checkpoint](Db::checkpoint) if pages that
    /// were changed take much of the [memory](Options::memory).
    ///
    /// # Errors
    ///
    /// - [`Poisoned`](crate::Error::Poisoned) if this write to the disk fails, or an earlier one has failed. Then it is
    ///   unknown whether the operations since the last successful call are durable, until the pool is opened again.
    /// - [`NoMemory`](crate::Error::NoMemory), or [`Io`](crate::Error::Io) because the disk is full. Then nothing is lost:
    ///   call it again when there is room.
    /// - [`InsideBatch`](crate::Error::InsideBatch) if this thread runs a batch, which keeps the epoch from ending.
    /// - [`Closed`](crate::Error::Closed) or [`Forked`](crate::Error::Forked) if the handle is not valid any more.
    /// - In a pool without background threads also those of the [checkpoint](Db::checkpoint) that it writes. Then every
    ///   operation that returned before this call is on disk.
    pub fn sync(&self) -> Result<()> {
        self.engine.sync()
    }

    /// Writes all changed pages to their new places and empties the journal, so that the next open has
    /// less to do. Other threads go on reading and writing meanwhile. A pool with
    /// [background](Options::background) threads does this by itself when the journal is half full. Where the
    /// [program ends epochs](Options::manual_epochs), this ends none: the journal keeps what the current one has changed.
    /// On persistent memory there is no journal, and this does nothing.
    ///
    /// # Errors
    ///
    /// Those of [`Db::sync`]. [`ReadOnly`](crate::Error::ReadOnly).
    /// [`Corrupt`](crate::Error::Corrupt) or [`Io`](crate::Error::Io) if a page that the journal has
    /// changes for cannot be read. [`Corrupt`](crate::Error::Corrupt) if another program has cut the file
    /// off; then writes stop.
    pub fn checkpoint(&self) -> Result<()> {
        self.engine.checkpoint()
    }

    /// Makes the pool's file as short as its contents allow, plus at most an eighth and 16 KiB, and never longer than it was
    /// when everything written was durable. Without this call freed space is reused, but the file may stay as long as it was.
    ///
    /// Three things keep the file longer. Other threads read and write meanwhile, and their writes come on top; so does what
    /// a backup holds. A pool with 32 MiB or more in use keeps free blocks, so that deletes work on a full disk: a 32nd of
    /// that, 6 to 64 MiB. The close adds them if they are missing; if nothing has been written since this call, only as far
    /// as the file went before. And while others write, a pool with 16 MiB or more in use keeps an eighth of that, 8 to
    /// 64 MiB, and as much as its changed pages take.
    ///
    /// The time grows with the data that has to move. While this runs, the file may be longer by that data.
    ///
    /// ```
    /// # fn main() -> everleaf::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = everleaf::Db::open(dir.path().join("p.ever"))?;
    /// let tree = db.tree("t")?;
    /// tree.put("large", vec![1; 20 << 20])?;
    /// tree.delete("large")?;
    /// db.compact()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`Db::checkpoint`]. [`Closed`](crate::Error::Closed) if the pool is closed meanwhile.
    /// [`Unsupported`](crate::Error::Unsupported) on persistent memory.
    pub fn compact(&self) -> Result<Compaction> {
        self.compact_with(|_| {})
    }

    /// Like [`compact`](Db::compact). Calls `progress` now and then with the length of the file in bytes.
    ///
    /// # Errors
    ///
    /// Those of [`compact`](Db::compact).
    pub fn compact_with(&self, mut progress: impl FnMut(u64)) -> Result<Compaction> {
        self.engine.compact(&mut progress)
    }

    /// Copies the pool to a new file `path` and returns the epoch whose end the copy holds: everything
    /// of that epoch and of all before it, and nothing of a later one. Everything done before this call is in the copy; where
    /// the [program ends epochs](Options::manual_epochs), everything up to the last end. Other
    /// threads read and write meanwhile.
    ///
    /// The copy is a pool of its own, on disk when this returns, with the uuid of this pool. It is on the
    /// [file system](Options::open_on) that this pool was opened on; the copy of a pool [in memory](Options::in_memory) is a
    /// file of the operating system.
    ///
    /// A crash meanwhile leaves nothing under the name, and maybe an unfinished file beside it, with `-new`, or `-new1`
    /// to `-new9`, behind the name; the next backup to that name removes it if it says that it is unfinished.
    ///
    /// The time grows with the bytes in use, and so may the file of this pool: until the copy is complete,
    /// the space that was in use when it began is not used again. A pool that is open
    /// [read-only](Options::read_only) can be copied, too.
    ///
    /// ```
    /// # fn main() -> everleaf::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = everleaf::Db::open(dir.path().join("p.ever"))?;
    /// # let copy = dir.path().join("copy.ever");
    /// db.tree("t")?.put("k", "v")?;
    /// db.backup(&copy)?;
    /// let copy = everleaf::Db::open(&copy)?;
    /// assert_eq!(copy.tree("t")?.get("k")?, Some("v".into()));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`Db::sync`]. [`FileExists`](crate::Error::FileExists) if something is called `path`: it
    /// is not touched. [`Io`](crate::Error::Io) if the copy cannot be written, or this pool not be
    /// read. [`Locked`](crate::Error::Locked) while another backup is made to the same name.
    /// [`InTheWay`](crate::Error::InTheWay) if other files have all the names under which the copy could be made.
    /// [`Closed`](crate::Error::Closed) if the pool is closed meanwhile.
    /// [`Unsupported`](crate::Error::Unsupported) on persistent memory. After an error the unfinished copy
    /// is removed, and this pool goes on.
    pub fn backup(&self, path: impl AsRef<Path>) -> Result<u64> {
        self.backup_with(path, |_, _| {})
    }

    /// Like [`backup`](Db::backup). Calls `progress` now and then with the bytes that have been copied and
    /// the bytes that there are.
    ///
    /// # Errors
    ///
    /// Those of [`backup`](Db::backup).
    pub fn backup_with(
        &self,
        path: impl AsRef<Path>,
        mut progress: impl FnMut(u64, u64),
    ) -> Result<u64> {
        self.engine.backup(path.as_ref(), &mut progress)
    }

    /// Returns the current epoch. Every operation that returned before this call is in this epoch or
    /// in an earlier one. Compare it with a later [`durable_epoch`](Db::durable_epoch) to learn,
    /// without waiting, whether work is durable.
    ///
    /// ```
    /// # fn main() -> everleaf::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = everleaf::Db::open(dir.path().join("p.ever"))?;
    /// db.tree("t")?.insert("k", "v")?;
    /// let mark = db.epoch();
    /// // ... other work ...
    /// # db.sync()?;
    /// let durable = db.durable_epoch() >= mark;
    /// # assert!(durable);
    /// # Ok(())
    /// # }
    /// ```
    pub fn epoch(&self) -> u64 {
        self.engine.epochs().0
    }

    /// Returns the last epoch that is on disk. All epochs before it are on disk too. It never decreases
    /// while the pool is open. It reaches what [`epoch`](Db::epoch) has returned about an interval later, even if nothing
    /// is written; where the [program ends epochs](Options::manual_epochs), soon after it has. On persistent memory both
    /// are 0: an operation is durable when it returns.
    pub fn durable_epoch(&self) -> u64 {
        self.engine.epochs().1
    }

    /// Waits until `epoch` is on disk, and all epochs before it. It does not end the epoch early, as
    /// [`sync`](Db::sync) does: so it costs no sync of its own, and takes an interval and two syncs.
    /// `epoch` is what [`epoch`](Db::epoch) of this open has returned; for an epoch that has not begun this waits, too. It
    /// returns at once if the epoch is on disk already, even after the pool was closed, and always on persistent memory.
    ///
    /// Where the [program ends epochs](Options::manual_epochs), it waits until another thread ends this one, if it has not
    /// ended; if none does, it waits forever. While the disk is full it waits until there is room.
    ///
    /// ```
    /// # fn main() -> everleaf::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = everleaf::Db::open(dir.path().join("p.ever"))?;
    /// db.tree("t")?.put("k", "v")?;
    /// let mark = db.epoch();
    /// // ... other work ...
    /// db.wait_durable(mark)?;
    /// assert!(db.durable_epoch() >= mark);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// If the epoch is not on disk: [`Poisoned`](crate::Error::Poisoned) if writes have stopped,
    /// [`Closed`](crate::Error::Closed) if the pool was closed, [`ReadOnly`](crate::Error::ReadOnly) in a
    /// read-only pool. [`InsideBatch`](crate::Error::InsideBatch) if this thread runs a batch, which keeps
    /// the epoch from ending. [`Forked`](crate::Error::Forked) in a child process of the one that opened
    /// the pool.
    pub fn wait_durable(&self, epoch: u64) -> Result<()> {
        self.engine.wait_durable(epoch, None).map(drop)
    }

    /// Like [`wait_durable`](Db::wait_durable), for so long at most. Returns whether the epoch is on disk.
    ///
    /// # Errors
    ///
    /// Those of [`wait_durable`](Db::wait_durable).
    pub fn wait_durable_for(&self, epoch: u64, at_most: Duration) -> Result<bool> {
        // A time that no clock reaches is none.
        self.engine.wait_durable(epoch, Instant::now().checked_add(at_most))
    }

    /// Ends the current epoch without waiting for the disk, and returns its number. Everything that returned before this
    /// call is in it, or in an earlier one.
    ///
    /// All of the epoch is the operating system's when this returns: a killed process loses nothing of it. The disk has it
    /// a little later, which [`wait_durable`](Db::wait_durable) and [`durable`](Db::durable) wait for. A power cut leaves the
    /// pool as it was at the end of some epoch: the last one that ended before it, or the one before that.
    ///
    /// This waits while the epoch before is on its way to the disk: for one sync at most. If the journal is at its
    /// [bound](Options::journal_bytes), it waits for a checkpoint too, and so holds back a program that is faster than the
    /// disk. It waits before it ends anything; other threads read and write meanwhile.
    ///
    /// ```
    /// # fn main() -> everleaf::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("p.ever");
    /// let db = everleaf::Options::new().manual_epochs(true).open(&path)?;
    /// let (orders, offsets) = (db.tree("orders")?, db.tree("offsets")?);
    /// orders.put("o-1", "3 apples")?;
    /// offsets.put("partition 0", 41_u64.to_be_bytes())?;
    /// let epoch = db.end_epoch()?;
    /// // Both are there after a crash, or neither.
    /// db.wait_durable(epoch)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// In a pool whose epochs [threads end](Options::manual_epochs), it ends the current one early. On persistent memory
    /// it does nothing and returns 0.
    ///
    /// # Errors
    ///
    /// Those of [`Db::sync`]. [`ReadOnly`](crate::Error::ReadOnly). After [`NoMemory`](crate::Error::NoMemory), or
    /// [`Io`](crate::Error::Io) because the disk is full, nothing is lost: the epoch may have ended, and the next call goes
    /// on from there.
    pub fn end_epoch(&self) -> Result<u64> {
        self.engine.end_epoch()
    }

    /// Returns about how many bytes of changes the current epoch has, by what goes to the journal and by large values. A
    /// thread counts its changes when they come to 8 KiB. O(1); 0 on persistent memory.
    pub fn pending_bytes(&self) -> u64 {
        self.engine.epoch_bytes()
    }

    /// Returns a future that does what [`wait_durable`](Db::wait_durable) does, for any runtime. It needs no thread of
    /// its own, and does not keep the pool open: when the last handle is dropped, that drop makes the epoch
    /// durable.
    ///
    /// ```
    /// # fn main() -> everleaf::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = everleaf::Db::open(dir.path().join("p.ever"))?;
    /// let saved = async {
    ///     db.tree("t")?.put("k", "v")?;
    ///     db.durable(db.epoch()).await
    /// };
    /// # drop(saved);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// The future returns the errors of [`wait_durable`](Db::wait_durable), and [`NoMemory`](crate::Error::NoMemory).
    pub fn durable(&self, epoch: u64) -> Durable {
        Durable::new(&self.engine, epoch)
    }

    /// Returns figures that the pool keeps all the time: sizes, the journal, epochs. It takes the same short time for any
    /// pool, and does not wait for the disk.
    ///
    /// # Errors
    ///
    /// [`Closed`](crate::Error::Closed), [`Forked`](crate::Error::Forked).
    pub fn stats(&self) -> Result<Stats> {
        self.engine.stats()
    }

    /// Counts everything in the pool. This walks all trees: the time grows with the pool.
    ///
    /// Other threads may write meanwhile. Each node is counted as it is when the walk passes it.
    ///
    /// # Errors
    ///
    /// Those of [`Tree::get`].
    pub fn count(&self) -> Result<Counts> {
        count_all(&self.engine)
    }

    /// Reads the whole pool and lists each damage that it finds. The list is empty if the pool is sound.
    ///
    /// Other threads may write meanwhile. Unfinished changes are never taken for damage. The time grows
    /// with the pool; the leaves of a large tree are shared out to as many threads as there are processors. On a file, nodes
    /// that are not in memory are read without coming there: a check drives out little of what others use, and few bytes of
    /// [memory](crate::Options::memory) do not make it slow.
    ///
    /// # Errors
    ///
    /// Only an error that ends the walk, such as a failed read or an allocation that failed. Damage is not an error.
    pub fn check(&self) -> Result<Vec<Damage>> {
        check_all(&self.engine)
    }

    /// Says whether the pool can be used: it was not closed, and this process is the one that has opened it. It takes two
    /// loads, and reads nothing of the pool.
    ///
    /// ```
    /// # fn main() -> everleaf::Result<()> {
    /// let db = everleaf::Db::in_memory()?;
    /// let other = db.clone();
    /// db.expect_open()?;
    /// db.close()?;
    /// assert!(matches!(other.expect_open(), Err(everleaf::Error::Closed)));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Closed`](crate::Error::Closed) or [`Forked`](crate::Error::Forked) if it cannot.
    #[inline]
    pub fn expect_open(&self) -> Result<()> {
        self.engine.alive()
    }

    /// Stops all writes for good, as a write to the disk does that fails: later writes, syncs and commits return
    /// [`Poisoned`](crate::Error::Poisoned), with [`Interrupted`](crate::Error::Interrupted) and `what` as the cause. Reads
    /// go on. The epoch that has not ended is lost, and everything that was reported durable is there when the pool is
    /// opened again.
    ///
    /// This is for programs that find themselves in a state that they cannot explain, and for bindings to other
    /// languages, which catch a panic that should have ended the thread. A pool that is closed or was opened by another
    /// process is left alone. On persistent memory the cause says something else than `what`, and nothing is lost.
    ///
    /// ```
    /// # fn main() -> everleaf::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = everleaf::Db::open(dir.path().join("p.ever"))?;
    /// let sums = db.tree("sums")?;
    /// sums.put("november", "17")?;
    /// db.poison("the sums contradict each other");
    /// assert!(matches!(sums.put("december", "1"), Err(everleaf::Error::Poisoned { .. })));
    /// assert!(sums.contains("november")?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn poison(&self, what: &'static str) {
        self.engine.poison(what);
    }

    /// Makes everything durable, marks the pool as cleanly closed, and releases its locks. This also writes the pages that
    /// have changed and shortens the file, for which it moves at most 128 MiB. If the file is still long then, it does
    /// that once more. A pool [in memory](Options::in_memory) is gone then; its memory is given back with the last
    /// handle.
    ///
    /// The pool is released even if other handles exist, or child processes that were forked meanwhile.
    /// Those other handles return [`Closed`](crate::Error::Closed) from then on. In a child process,
    /// handles of the parent return [`Forked`](crate::Error::Forked), and dropping them does nothing.
    ///
    /// # Errors
    ///
    /// Those of [`Db::checkpoint`], but for [`ReadOnly`](crate::Error::ReadOnly). If a page cannot be read
    /// ([`Corrupt`](crate::Error::Corrupt) or [`Io`](crate::Error::Io)), everything is on disk, but the pool is not
    /// marked as cleanly closed, and the next open reads the journal again. The pool is released in any case.
    pub fn close(self) -> Result<()> {
        self.engine.close()
    }

    /// Closes the pool as a crash would, and releases its locks: all durable epochs stay, and everything of the
    /// [epoch](Db::epoch) that has not ended is gone. On persistent memory every operation is durable when it returns, and
    /// this does the same as [`Db::close`]; so it does for a pool [in memory](Options::in_memory), of which nothing is left.
    ///
    /// An epoch may end at any moment, even just before this call, unless the
    /// [program ends them](Options::manual_epochs): then this takes back everything since the last call that ended one,
    /// such as [`Db::end_epoch`], however much it is.
    ///
    /// ```
    /// use everleaf::{Db, Options};
    ///
    /// # fn main() -> everleaf::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("p.ever");
    /// let db = Options::new().manual_epochs(true).open(&path)?;
    /// db.tree("t")?.put("kept", "")?;
    /// db.end_epoch()?;
    /// db.tree("t")?.put("dropped", "")?;
    /// db.abandon()?;
    /// let db = Db::open(&path)?;
    /// assert_eq!(db.tree("t")?.iter().count(), 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// The error that an earlier [`Db::close`] of the pool returned, if it returned one, and, for a pool on a file,
    /// [`Closed`](crate::Error::Closed) after an earlier `abandon`.
    /// [`Forked`](crate::Error::Forked) in a child process of the one that opened the pool. The pool of
    /// this process is closed in any case, and its other handles return [`Closed`](crate::Error::Closed).
    pub fn abandon(self) -> Result<()> {
        self.engine.abandon()
    }
}

impl Options {
    /// Opens the pool at `path`.
    ///
    /// After a crash this reads the journal and checks it; changes of pages are redone in the background, or when a page
    /// is first touched. Everything up to the last durable epoch is there, and nothing of a later one. The time grows with
    /// the journal, which [`journal_bytes`](Self::journal_bytes) bounds. With the pool it grows slowly: if pages have
    /// 4,096 bytes, each 16 MiB of pages and large values takes two reads of a few KiB.
    ///
    /// # Errors
    ///
    /// - [`Foreign`](crate::Error::Foreign) if the file is not a pool, or is of another version.
    /// - [`Corrupt`](crate::Error::Corrupt) if the pool is damaged.
    /// - [`Locked`](crate::Error::Locked) if the pool is open already.
    /// - [`InTheWay`](crate::Error::InTheWay) if another file has a name that the pool needs.
    /// - [`NotDax`](crate::Error::NotDax) if [`Storage::Dax`] is not possible there.
    /// - [`InvalidOption`](crate::Error::InvalidOption) if a setting is outside its limits.
    /// - [`Unrecovered`](crate::Error::Unrecovered) if the pool is on persistent memory and is to be opened read-only,
    ///   and a crash has cut off a batch: open it for writing once.
    /// - [`Io`](crate::Error::Io) if the pool is missing and not to be created, or if the system refuses.
    /// - [`NoMemory`](crate::Error::NoMemory) if an allocation failed.
    ///
    /// An error before recovery begins changes nothing on disk.
    pub fn open(&self, path: impl AsRef<Path>) -> Result<Db> {
        Db::open_at(Place::File(Arc::new(RealIo), path.as_ref()), self)
    }

    /// Makes a pool in memory: for tests, and for caches. It does all that a pool on a file does, and no byte of it
    /// is written to a disk except by backups. With the last handle to it, or with the process, it is gone; it cannot
    /// be opened again. Each call makes another one.
    ///
    /// It takes memory for its pages, which [`memory`](Self::memory) bounds, and for a file that the system keeps in
    /// memory. The file has everything that would lie on a disk otherwise, with a journal of 16 MiB at most. Here
    /// [`max_bytes`](Self::max_bytes) is the most bytes of that file. Default: half of what the process may use, by the
    /// machine's memory and by control groups. Less than 32 MiB counts as 32 MiB.
    /// [`compression`](Self::compression) makes the file shorter, and [`Db::compact`] gives back what is free in it.
    /// [`Stats::file_bytes`](crate::Stats::file_bytes) and [`Stats::memory`](crate::Stats::memory) say how much both
    /// take.
    ///
    /// If the file is as long as it may be, or the system refuses memory for it, that is a full disk: a call that needs
    /// room returns [`Io`](crate::Error::Io) with [`StorageFull`](std::io::ErrorKind::StorageFull), all accepted writes
    /// stay, and reads and deletes go on. Other writes go on, too, when there is room again.
    ///
    /// Nothing outlives the process. Epochs end as on a disk, and [`Db::sync`] and
    /// [`Durability::Sync`](crate::Durability::Sync) return as soon as theirs has ended: they wait for a copy in
    /// memory. Closing makes nothing durable and takes no time; it is the same as [`Db::abandon`].
    ///
    /// ```
    /// # fn main() -> everleaf::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("copy.ever");
    /// let db = everleaf::Options::new().max_bytes(64 << 20).in_memory()?;
    /// let cache = db.tree("cache")?;
    /// cache.put("k", "v")?;
    /// assert_eq!(db.path(), None);
    ///
    /// db.backup(&path)?; // a pool on disk
    /// drop((cache, db)); // nothing else is left
    /// let copy = everleaf::Db::open(&path)?;
    /// assert_eq!(copy.tree("cache")?.get("k")?, Some("v".into()));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`InvalidOption`](crate::Error::InvalidOption) if the pool was to be opened
    /// [read-only](Self::read_only) or not to be [created](Self::create), if the storage is not [`Storage::File`], or
    /// if a setting is outside its limits. [`Io`](crate::Error::Io) if the system has no files in memory.
    /// [`NoMemory`](crate::Error::NoMemory).
    pub fn in_memory(&self) -> Result<Db> {
        let refusals = [
            (
                self.storage != Storage::File,
                "storage",
                "a pool in memory has no storage of another kind",
            ),
            (self.read_only, "read_only", "a pool in memory is empty, and could not be filled"),
            (!self.create, "create", "a pool in memory is a new one"),
        ];
        if let Some((_, option, what)) = refusals.into_iter().find(|(applies, ..)| *applies) {
            return Err(Error::InvalidOption { option, what: what.into() });
        }
        let (most_bytes, options) = self.of_memory();
        Db::open_at(Place::Memory(most_bytes), &options)
    }

    /// Opens the pool at `path` of a file system that the caller provides: a simulated one that loses
    /// power ([`SimIo`](crate::io::SimIo)), or one that encrypts or counts.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use everleaf::io::SimIo;
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
    /// Those of [`open`](Self::open). [`InvalidOption`](crate::Error::InvalidOption) if the storage is not
    /// [`Storage::File`].
    pub fn open_on(&self, io: Arc<dyn Io>, path: impl AsRef<Path>) -> Result<Db> {
        if self.storage != Storage::File {
            let what = "only a pool on a file can be on a file system of one's own".into();
            return Err(Error::InvalidOption { option: "storage", what });
        }
        Db::open_at(Place::File(io, path.as_ref()), self)
    }
}

impl fmt::Debug for Db {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Db").field("epoch", &self.epoch()).finish_non_exhaustive()
    }
}

/// A future that is ready when an epoch is on disk, made by [`Db::durable`].
///
/// It belongs to no runtime. Its waker is woken once: when its epoch is on disk, or when that cannot happen any more.
/// If it is dropped before that, it is forgotten, and the epoch ends all the same. If it is polled after it was ready,
/// it answers again.
#[derive(Debug)]
#[must_use = "a future does nothing until it is polled"]
pub struct Durable(State);

#[derive(Debug)]
enum State {
    Waits(everleaf_file::DurableFuture),
    /// There are no epochs.
    Is(Result<()>),
}

impl Durable {
    pub(crate) fn new(engine: &Engine, epoch: u64) -> Self {
        Self(match engine.durable(epoch) {
            Some(waits) => State::Waits(waits),
            None => State::Is(engine.wait_durable(epoch, None).map(drop)),
        })
    }
}

impl Future for Durable {
    type Output = Result<()>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        match &mut self.get_mut().0 {
            State::Waits(waits) => Pin::new(waits).poll(context),
            State::Is(answer) => Poll::Ready(answer.clone()),
        }
    }
}

/// Walks the whole pool, for [`Db::count`].
fn count_all(engine: &Engine) -> Result<Counts> {
    // The catalog comes first, and is no tree of the user's.
    let (mut trees, mut is_catalog) = (Vec::new(), true);
    engine.reports(|name, report| {
        if let Some(damage) = report.damages.first() {
            let offset = engine.page_offset(damage.page) + damage.offset_bytes_in_page as u64;
            return Err(Error::corrupt(offset, damage.what.clone()));
        }
        debug_assert_eq!(name.is_empty(), is_catalog, "the catalog is first");
        if std::mem::take(&mut is_catalog) {
            return Ok(());
        }
        let tree = TreeStats {
            name: name.to_owned(),
            entries: report.entries,
            depth: report.nodes_by_level.len() as u32,
            nodes_by_level: report.nodes_by_level,
            fill: report.fill,
            key_bytes: report.key_bytes,
            value_bytes: report.value_bytes,
        };
        fallible::push(&mut trees, tree, "the figures of all trees")
    })?;
    let pages = engine.page_counts()?;
    let count = |kind, pages| PageCount { kind, pages: u64::from(pages) };
    Ok(Counts {
        trees,
        pages: vec![
            count("node", pages.nodes),
            count("record", pages.records),
            count("extent", pages.extents),
            count("map", pages.maps),
            count("anchor", pages.anchors),
        ],
    })
}

/// Walks the whole pool, for [`Db::check`].
fn check_all(engine: &Engine) -> Result<Vec<Damage>> {
    let (found, stopped) = engine.check()?;
    let mut damages = fallible::list(found.len() + 1, "the damages of a pool")?;
    damages.extend(found.into_iter().map(|d| {
        let offset = engine.page_offset(d.page) + d.offset_bytes_in_page as u64;
        Damage { file: "data", offset, what: d.what }
    }));
    if let Some(Error::Corrupt { file, offset, what }) = stopped {
        damages.push(Damage { file, offset, what });
    }
    damages.sort_unstable_by(|a, b| (a.offset, &a.what).cmp(&(b.offset, &b.what)));
    damages.dedup();
    Ok(damages)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_reads_while_a_batch_is_half_made_has_a_cut() {
        let db = Db::in_memory().expect("memory");
        let tree = db.tree("t").expect("room");
        tree.put("k", "v").expect("room");
        let cuts = || {
            db.transact(|tx| {
                tx.get(&tree, "k")?;
                Ok(db.stats()?.snapshots)
            })
        };
        assert_eq!(cuts().expect("sound"), 0);
        let batch = db.engine.versions().begin_whole();
        assert_eq!(cuts().expect("sound"), 1);
        drop(batch);
        assert_eq!(cuts().expect("sound"), 0);
    }
}
