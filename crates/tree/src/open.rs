//! Pools with trees in them: format, open, and the upkeep that a file needs.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use everleaf_file::io::{Io, RealIo};
use everleaf_file::workers::{Job, Length, Task};
use everleaf_file::{Dax, DaxOptions, File, FileOptions, PageUse};
use everleaf_pmem::{Buffered, BufferedOptions, EpochPin, Error, Geometry, Medium, Result};
use everleaf_pool::{ExtentIo, Hooks, KeptExtents, Pool};

use crate::blink::{self, Blink};
use crate::hybrid::{self, BdTree, Hybrid, Rebuild, Rebuilt, epoch_bitmap};
use crate::named::CircTree;
use crate::node::Kind;
use crate::slots::{Circular, Layout, Probe, Sentinel, Strings, Words};
use crate::slotted::inline_value_max;

/// The anchor that every pool has from the start: the Db's catalog, or the tree of a pool that
/// holds only one.
pub const INDEX_ANCHOR: everleaf_pmem::PageNo = everleaf_pool::CATALOG_ANCHOR;

/// Opens the pool at `path` on persistent memory, for trees of these nodes; makes it if
/// `options.create`. As lazy as [`open`].
///
/// ```
/// use everleaf_file::DaxOptions;
/// use everleaf_tree::slots::{Linear, Scan};
/// use everleaf_tree::{FastFair, INDEX_ANCHOR, Index, Reading};
///
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path().join("index");
/// let options = DaxOptions { pages: 256, create: true, ..DaxOptions::default() };
/// # let options = DaxOptions { emulate: true, ..options };
/// let pool = everleaf_tree::open_dax::<Linear, Scan>(&path, &options)?;
/// let tree = FastFair::open(pool.into(), INDEX_ANCHOR)?.reading(Reading::LockFree)?;
/// tree.insert(7, 49)?; // durable
/// assert_eq!(Index::get(&tree, 7)?, Some(49));
/// everleaf_tree::recover(&tree)?; // after a crash: completes the tree, returns what leaked
/// # Ok::<(), everleaf_pmem::Error>(())
/// ```
///
/// # Errors
/// The same as for [`Dax::open`]; Corrupt for a damaged map.
pub fn open_dax<L: Layout, P: Probe>(path: &Path, options: &DaxOptions) -> Result<Pool<Dax>> {
    let dax = Dax::open(path, &DaxOptions { layout_hash: L::HASH, ..options.clone() })?;
    let extents = Some(ExtentIo::in_place(Dax::extent_write, Dax::extent_read));
    let hooks = Hooks { extents, ..Blink::<Dax, (L, P, Words)>::hooks() };
    match (Pool::is_unmade(&dax)?, options.read_only) {
        (true, true) => Pool::unformatted(dax, hooks),
        (true, false) => Pool::format(dax, hooks),
        _ => Pool::open(dax, hooks),
    }
}

/// Opens the [`BdTree`] at `path` on persistent memory and starts its epochs; makes it if
/// `options.create`. A pool holds this tree only. Reads all leaves and rebuilds the inner nodes,
/// also after a clean end: O(size of the tree). Dropping the tree makes everything durable; so does
/// [`BdTree::sync`](crate::hybrid::Hybrid::sync).
///
/// ```
/// use everleaf_file::DaxOptions;
/// use everleaf_pmem::BufferedOptions;
/// use everleaf_tree::Index;
/// use everleaf_tree::hybrid::{Keeper, Rebuild};
///
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path().join("index");
/// let options = DaxOptions { slots: 32, pages: 256, create: true, ..DaxOptions::default() };
/// # let options = DaxOptions { emulate: true, ..options };
/// let epochs = BufferedOptions::default(); // 10 ms
/// let (tree, rebuilt) =
///     everleaf_tree::open_bd_dax(&path, &options, &epochs, &Rebuild::default())?;
/// assert_eq!(rebuilt.leaves, 1);
/// let tree = std::sync::Arc::new(tree);
/// let _keeper = Keeper::start(&tree, std::time::Duration::from_millis(50))?;
/// tree.insert(7, 49)?; // durable within two intervals
/// tree.sync()?; // now
/// let put = tree.put(8, 64, everleaf_tree::blink::Condition::Always)?;
/// tree.wait_for(&put)?; // this one now
/// {
///     let _one_epoch = tree.medium().pin_epoch(); // both of these or none
///     tree.insert(9, 81)?;
///     tree.remove(7)?;
/// }
/// # Ok::<(), everleaf_pmem::Error>(())
/// ```
///
/// # Errors
/// The same as for [`Dax::open`] and [`Hybrid::open`]; NoTree for a read-only open of a pool that was never
/// made.
pub fn open_bd_dax(
    path: &Path,
    options: &DaxOptions,
    epochs: &BufferedOptions,
    how: &Rebuild<'_>,
) -> Result<(BdTree<Dax>, Rebuilt)> {
    if let (true, Some(geometry)) = (options.create && !path.exists(), Geometry::new(options.slots))
    {
        // Before there is a file that would be in the way.
        hybrid::fits(geometry)?;
    }
    let dax = Dax::open(path, &DaxOptions { layout_hash: epoch_bitmap::HASH, ..options.clone() })?;
    let is_unmade = Pool::is_unmade(&dax)?;
    if is_unmade && options.read_only {
        return Err(Error::NoTree);
    }
    let medium = Buffered::new(dax, epochs)?;
    let pool = if is_unmade { Hybrid::format_pool(medium) } else { Hybrid::open_pool(medium) }?;
    if options.read_only && pool.anchor(INDEX_ANCHOR)? == 0 {
        return Err(Error::NoTree);
    }
    let (tree, rebuilt) = Hybrid::open(Arc::new(pool), INDEX_ANCHOR, how)?;
    if !options.read_only {
        tree.medium().start()?;
    }
    Ok((tree, rebuilt))
}

/// Makes an empty pool on a medium that is all zero, for [`CircTree`]s and
/// [`StringTree`](crate::StringTree)s; other trees have a
/// [`Blink::format_pool`](crate::blink::Blink::format_pool) of their own.
///
/// # Errors
/// Full if not even the first pages fit; errors of the medium.
pub fn format<M: Medium>(medium: M) -> Result<Pool<M>> {
    CircTree::format_pool(medium)
}

/// Opens the pool on a medium, for the trees of [`format()`]: reads its map and nothing else,
/// O(pages / 4096).
///
/// On a medium without a journal, what a crash left is repaired *lazily*: a node at its first touch;
/// a merge that was under way when its tree is opened; an entry that a parent lacks, or a root, by
/// the next writer that passes. All of it may wait, and searches do not need it. Only
/// [`recover`](crate::recover) looks for leaks, by a walk over everything; it also does
/// all the rest at once ([`Blink::recover_all`](crate::blink::Blink::recover_all)).
///
/// # Errors
/// Corrupt; errors of the medium.
pub fn open<M: Medium>(medium: M) -> Result<Pool<M>> {
    CircTree::open_pool(medium)
}

/// The longest value that a pool on a file keeps in a record, if its leaf does not take it. The bytes of
/// longer ones go straight to the file, once, and not through the journal: they are written faster and
/// read more slowly.
pub fn most_in_record(geometry: Geometry) -> usize {
    inline_value_max(geometry.page_bytes()).max(512)
}

/// The part of a page that a file has to keep in a pool of trees of these nodes: [`FileOptions::gap`].
pub fn page_use<K: Kind>(bytes: &[u8]) -> PageUse {
    blink::gap::<K>(bytes).map_or(PageUse::Unused, PageUse::But)
}

/// A pool on a file, with the task that keeps it: it brings pages that the journal of the last
/// run changed up to date, and writes checkpoints, so that the journal stays bounded.
pub struct FilePool {
    pool: Arc<Pool<File>>,
    stop: Arc<AtomicBool>,
    keeper: Option<Task>,
    read_only: bool,
    blank: bool,
}

impl FilePool {
    /// Opens the pool at `path` on the real file system; makes it if `options.create`.
    ///
    /// # Errors
    /// The same as for [`File::open`]; Corrupt for a damaged map.
    pub fn open(path: &Path, options: &FileOptions) -> Result<Self> {
        Self::open_on(Arc::new(RealIo), path, options)
    }

    /// Opens the pool at `path` on any file system, for [`CircTree`]s and [`StringTree`](crate::StringTree)s.
    ///
    /// # Errors
    /// The same as for [`open`](Self::open).
    pub fn open_on(io: Arc<dyn Io>, path: &Path, options: &FileOptions) -> Result<Self> {
        Self::open_for::<(Circular, Sentinel, Strings)>(io, path, options)
    }

    /// Opens the pool at `path` on any file system, for trees of these nodes.
    ///
    /// # Errors
    /// The same as for [`open`](Self::open).
    pub fn open_for<K: Kind>(io: Arc<dyn Io>, path: &Path, options: &FileOptions) -> Result<Self> {
        let makes = options.create && !options.read_only;
        if makes && !Geometry::from_slots(options.slots).is_some_and(K::fits) {
            // Before there is a file that would be in the way; one that is there has its own.
            let failed = |e| Error::io(format!("looking for {}", path.display()), e);
            if !io.exists(path).map_err(failed)? {
                let what = format!("{} nodes do not fit pages of {} slots", K::NAME, options.slots);
                return Err(Error::InvalidOption { option: "slots", what });
            }
        }
        let options = &FileOptions { layout_hash: K::HASH, gap: page_use::<K>, ..options.clone() };
        let file = File::open(io, path, options)?;
        let hooks = Hooks {
            durable: File::durable_epoch,
            extents: Some(ExtentIo {
                write: File::extent_write,
                read: File::extent_read,
                kept: Some(KeptExtents {
                    lend: File::value_lend,
                    prefetch: File::value_prefetch,
                    ticket: File::value_ticket,
                    copy: File::value_copy,
                    keep: File::value_keep,
                    forget: File::value_forget,
                }),
                adopt: File::extent_adopt,
                forget: File::extent_forget,
                most: most_in_record,
                release: File::extent_release,
                discard: File::extent_discard,
            }),
            ..Blink::<File, K>::hooks()
        };
        // Never committed to, even if the file exists: its maker did not get further.
        let fresh = file.is_fresh();
        let blank = fresh && options.read_only;
        let pool = Arc::new(match (fresh, blank) {
            (_, true) => Pool::unformatted(file, hooks)?,
            (true, _) => Pool::format(file, hooks)?,
            _ => Pool::open(file, hooks)?,
        });
        let stop = Arc::new(AtomicBool::new(false));
        let mut keeper = None;
        if options.background && !options.read_only {
            let job = JournalKeeper { pool: Arc::downgrade(&pool), stop: Arc::clone(&stop) };
            let task = Task::new(Length::Long, Box::new(job))?;
            let file = pool.medium();
            file.set_kept(true);
            file.set_keeper(task.waker().clone());
            task.waker().wake();
            keeper = Some(task);
        }
        Ok(Self { pool, stop, keeper, read_only: options.read_only, blank })
    }

    /// The pool.
    pub fn pool(&self) -> &Arc<Pool<File>> {
        &self.pool
    }

    /// Whether the pool is open read-only and nothing was ever committed to it: it has no trees,
    /// not even a catalog.
    pub fn is_blank(&self) -> bool {
        self.blank
    }

    /// Brings every page up to date that the journal of the last run changed. After it,
    /// [`File::checkpoint`] may run.
    ///
    /// # Errors
    /// I/O errors and Corrupt.
    pub fn drain(&self) -> Result<()> {
        self.pool.drain(|| true)?;
        self.pool.settle();
        Ok(())
    }

    /// Writes all changed pages to their new places and empties the journal, so that the next open has
    /// nothing to do. Stops the upkeep, and gives the pool's lock back.
    ///
    /// # Errors
    /// I/O errors. Acknowledged writes are then still in the journal. InsideBatch inside a batch, which
    /// changes nothing.
    pub fn close(&mut self) -> Result<()> {
        match self.pool.medium().alive() {
            Ok(()) => {}
            Err(Error::Closed) => return self.pool.medium().close(),
            Err(error) => return Err(error),
        }
        // The keeper may wait for the batch.
        EpochPin::refuse_inside()?;
        self.stop_keeper();
        let file = self.pool.medium();
        // A page that cannot be read keeps the journal from being emptied, not from being synced.
        let writes = !self.read_only && file.poisoned().is_none();
        let drained = if writes { self.drain() } else { Ok(()) };
        let settle = || {
            self.pool.settle();
        };
        file.close_with(&settle).and(drained)
    }

    /// Stops without making anything durable that is not, and gives the pool's lock back. Durable data
    /// stays; the running epoch is as if it had never been.
    ///
    /// # Errors
    /// InsideBatch inside a batch, which changes nothing; Forked; what a close before it said.
    pub fn abandon(&mut self) -> Result<()> {
        let file = self.pool.medium();
        if let Err(error @ Error::Forked) = file.alive() {
            return Err(error);
        }
        EpochPin::refuse_inside()?;
        // Before the keeper is waited for, whose checkpoint would end the epoch.
        file.abandon();
        self.stop_keeper();
        self.pool.medium().abandon_and_release()
    }

    fn stop_keeper(&mut self) {
        let Some(keeper) = self.keeper.take() else { return };
        if matches!(self.pool.medium().alive(), Err(Error::Forked)) {
            return;
        }
        self.stop.store(true, Ordering::Release);
        self.pool.medium().wake();
        // The journal has what it did not write.
        drop(keeper);
        self.pool.medium().set_kept(false);
    }
}

impl Drop for FilePool {
    fn drop(&mut self) {
        self.stop_keeper();
    }
}

/// Keeps the journal short. An error of a write poisons the file; one of a read shows again at the next
/// touch of the page. Neither is reported here; the journal is kept, and reading is tried again.
struct JournalKeeper {
    pool: Weak<Pool<File>>,
    stop: Arc<AtomicBool>,
}

/// When the keeper tries again what failed, and looks again what is free by now.
const KEEPER_REST: Duration = Duration::from_millis(200);

impl Job for JournalKeeper {
    fn run(&mut self) -> Option<Duration> {
        let pool = self.pool.upgrade()?;
        let file = pool.medium();
        let goes_on = || !self.stop.load(Ordering::Acquire) && file.poisoned().is_none();
        if !goes_on() {
            file.set_kept(false);
            return None;
        }
        let drained = pool.drain(|| !self.stop.load(Ordering::Acquire));
        file.set_kept(drained.is_ok());
        if drained.is_err() {
            return Some(KEEPER_REST);
        }
        // Values that were freed may wait for something still.
        let is_waited_for = pool.settle();
        if file.checkpoint_due() && goes_on() && file.checkpoint_steadily().is_err() {
            // For want of memory, say.
            file.set_kept(false);
            return Some(KEEPER_REST);
        }
        if file.checkpoint_due() && goes_on() {
            return Some(Duration::ZERO);
        }
        is_waited_for.then_some(KEEPER_REST)
    }

    /// Nobody writes checkpoints any more.
    fn broke(&mut self) {
        if let Some(pool) = self.pool.upgrade() {
            pool.medium().set_kept(false);
        }
    }
}

#[cfg(test)]
mod tests {
    use everleaf_file::io::SimIo;

    use super::*;
    use crate::slotted::Slotted;

    #[test]
    fn a_pool_is_not_made_with_pages_that_its_nodes_do_not_fit() {
        type Round = (Circular, Sentinel, Strings);
        let (io, path) = (SimIo::new(1), Path::new("/p"));
        let options = |slots| FileOptions {
            slots,
            max_pages: 64,
            create: true,
            background: false,
            ..FileOptions::default()
        };
        let shared = || Arc::new(io.clone()) as Arc<dyn Io>;
        let refusals = [
            FilePool::open_for::<Round>(shared(), path, &options(28)).map(drop),
            FilePool::open_for::<Slotted>(shared(), path, &options(32)).map(drop),
            FilePool::open_for::<Slotted>(shared(), path, &options(3)).map(drop),
        ];
        for refused in refusals {
            assert!(matches!(refused, Err(Error::InvalidOption { option: "slots", .. })));
            assert!(!io.exists(path).expect("no fault"));
        }
        drop(FilePool::open_for::<Slotted>(shared(), path, &options(28)).expect("they fit"));
        // It keeps its own.
        drop(FilePool::open_for::<Slotted>(shared(), path, &options(32)).expect("it is there"));
    }
}
