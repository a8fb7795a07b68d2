//! The store behind the facade: trees of byte strings in a pool, on a file or on persistent memory.

mod admission;
mod buffers;
#[cfg(feature = "dax")]
mod dax;
mod dropped;
mod file;
mod forecast;
mod kept;
mod latched;
mod locks;
mod medium;
mod named_trees;
mod open_tree;
mod pool_tree;
mod reclaim;
mod spread;
mod sync;
mod tree_list;
#[cfg(feature = "dax")]
mod undo;
mod versions;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use everleaf_pmem::{Geometry, Medium, PageNo, fallible};
use everleaf_tree::TreeReport;

use crate::options::Storage;
use crate::{Compaction, Durability, Error, MemoryStats, Options, Result, Stats};
pub(crate) use admission::{RightOfWay, Way};
pub(crate) use buffers::{Buffer, Buffers};
pub(crate) use everleaf_tree::blink::KeyPlace;
pub(crate) use file::Place;
pub(crate) use locks::{Locks, Place as LockPlace};
pub(crate) use open_tree::{
    Alone, Change, IsHeld, SeenPlace, TreeChanges, TreeHandle, ValueSource,
};
pub(crate) use pool_tree::{Move, PoolTree, still};
pub(crate) use spread::{Share, Shares};
pub(crate) use versions::{Cut, KeyBefore, Versions};

use admission::Store;
#[cfg(feature = "dax")]
use dax::DaxStore;
use file::FileStore;
use medium::on_medium;
use pool_tree::{On, read};
use reclaim::{Background, Reclaim};

/// A pool on either medium. Clones are handles to the same one, which the last handle closes.
#[derive(Clone)]
pub(crate) enum Engine {
    File(Arc<Background<FileStore>>),
    #[cfg(feature = "dax")]
    Dax(Arc<Background<DaxStore>>),
}

impl Engine {
    /// Opens the pool at a place; in memory, where the storage is that of files, makes it.
    pub fn open(place: Place<'_>, options: &Options) -> Result<Engine> {
        let has_threads = options.background;
        Ok(match (options.storage, place.path()) {
            #[cfg(feature = "dax")]
            (storage @ (Storage::Dax | Storage::EmulatedDax), Some(path)) => {
                let dax = DaxStore::open(path, options, storage == Storage::EmulatedDax)?;
                Engine::Dax(Arc::new(Background::new(dax, has_threads)))
            }
            #[cfg(not(feature = "dax"))]
            (Storage::Dax | Storage::EmulatedDax, Some(_)) => {
                let what = "this build has no persistent memory: it needs the feature `dax`";
                return Err(Error::Unsupported { what: what.into() });
            }
            _ => {
                let file = FileStore::open(place, options)?;
                Engine::File(Arc::new(Background::new(file, has_threads)))
            }
        })
    }

    /// The pool of a tree.
    pub fn of(tree: &PoolTree) -> Engine {
        match tree {
            PoolTree::File(on) => Engine::File(Arc::clone(&on.pool)),
            #[cfg(feature = "dax")]
            PoolTree::Dax(on) => Engine::Dax(Arc::clone(&on.pool)),
        }
    }

    /// Whether a tree is of this pool.
    #[inline(always)]
    pub fn has(&self, tree: &PoolTree) -> bool {
        match (self, tree) {
            (Engine::File(store), PoolTree::File(on)) => Arc::ptr_eq(store, &on.pool),
            #[cfg(feature = "dax")]
            (Engine::Dax(store), PoolTree::Dax(on)) => Arc::ptr_eq(store, &on.pool),
            #[cfg(feature = "dax")]
            _ => false,
        }
    }

    /// Whether the pool is open, in this process.
    #[inline]
    pub fn alive(&self) -> Result<()> {
        on_medium!(self, on => on.alive())
    }

    /// The right of way, which writers grant to others.
    #[inline(always)]
    pub fn way(&self) -> &RightOfWay {
        on_medium!(self, on => on.way())
    }

    /// The locks of transactions.
    #[inline(always)]
    pub fn locks(&self) -> &Locks {
        on_medium!(self, on => on.locks())
    }

    pub fn create_tree(&self, name: &str, durability: Durability) -> Result<PoolTree> {
        if let Some(tree) = self.find_tree(name, None)? {
            return Ok(tree);
        }
        let tree = match self {
            Engine::File(on) => PoolTree::File(On::new(on, on.with_room(|| on.make_tree(name))?)),
            #[cfg(feature = "dax")]
            Engine::Dax(on) => PoolTree::Dax(On::new(on, on.with_room(|| on.make_tree(name))?)),
        };
        self.settle(durability)?;
        Ok(tree)
    }

    /// The tree that has a name, or had it at a cut.
    pub fn find_tree(&self, name: &str, cut: Option<&Cut>) -> Result<Option<PoolTree>> {
        Ok(match self {
            Engine::File(on) => On::find(on, name, cut)?.map(PoolTree::File),
            #[cfg(feature = "dax")]
            Engine::Dax(on) => On::find(on, name, cut)?.map(PoolTree::Dax),
        })
    }

    /// Removes a tree with all that it holds; says whether there was one.
    pub fn drop_tree(&self, name: &str) -> Result<bool> {
        on_medium!(self, on => {
            on.give_way(|| None)?;
            let dropped = on.drop_tree(name).map_err(|error| on.why(error));
            dropped.inspect(|_| on.reclaim_soon())
        })
    }

    /// Gives a tree another name; says whether there was one.
    pub fn rename_tree(&self, from: &str, to: &str) -> Result<bool> {
        on_medium!(self, on => {
            on.alive()?;
            on.with_room(|| on.rename_tree(from, to))
        })
    }

    /// A moment of all trees, to read at.
    pub fn cut(&self) -> Result<Arc<Cut>> {
        on_medium!(self, on => on.alive().map(|()| on.trees().cut()))
    }

    /// The state of snapshots and transactions: what they see and do.
    pub fn versions(&self) -> &Versions {
        on_medium!(self, on => &on.trees().versions)
    }

    /// Whether no change of several keys is under way, as [`Versions::is_whole`] says, after a wait for the commit of a
    /// transaction.
    #[inline]
    pub fn is_whole(&self) -> bool {
        let versions = self.versions();
        versions.is_whole() || {
            drop(on_medium!(self, on => on.trees().gate.pass()));
            versions.is_whole()
        }
    }

    /// The memory of transactions and batches.
    pub fn buffers(&self) -> &Buffers {
        on_medium!(self, on => &on.trees().buffers)
    }

    pub fn tree_names(&self) -> Result<Vec<String>> {
        let entries = on_medium!(self, on => read(&*on.store, || on.trees().entries()))?;
        let mut names = fallible::list(entries.len(), "the names of all trees")?;
        names.extend(entries.iter().map(|(name, _)| name.into_owned()));
        Ok(names)
    }

    /// The names that trees had at a cut.
    pub fn tree_names_at(&self, cut: &Cut) -> Result<Vec<String>> {
        on_medium!(self, on => read(&*on.store, || on.trees().names_at(cut)))
    }

    /// Makes all changes or none. With `alone`, nobody else writes from the validation to the last change.
    pub fn commit(&self, batch: &[TreeChanges<'_>], alone: Option<&Alone<'_>>) -> Result<()> {
        on_medium!(self, on => {
            let store = &*on.store;
            store.give_way(|| None)?;
            if store.locks().are_held() && alone.is_none_or(|alone| !alone.has_locked) {
                give_keys(store.locks(), batch);
            }
            store.with_room(|| store.commit(batch, alone))
        })
    }

    /// The current epoch, and the last one that is durable; 0 where there are no epochs.
    pub fn epochs(&self) -> (u64, u64) {
        match self {
            Engine::File(on) => {
                let file = on.trees().medium();
                (file.clock(), file.durable_epoch())
            }
            #[cfg(feature = "dax")]
            Engine::Dax(_) => (0, 0),
        }
    }

    /// Waits until what was written just now is as durable as it is to be.
    #[inline(always)]
    pub fn settle(&self, durability: Durability) -> Result<()> {
        match durability {
            Durability::Buffered => Ok(()),
            Durability::Sync => self.sync(),
        }
    }

    pub fn sync(&self) -> Result<()> {
        on_medium!(self, on => on.sync())
    }

    /// Ends the running epoch without waiting for the disk, and says which one it was; 0 where there are no epochs.
    pub fn end_epoch(&self) -> Result<u64> {
        self.alive()?;
        match self {
            Engine::File(on) => on.end_epoch(),
            #[cfg(feature = "dax")]
            Engine::Dax(_) => Ok(0),
        }
    }

    /// About how many bytes of changes the running epoch has.
    pub fn epoch_bytes(&self) -> u64 {
        match self {
            Engine::File(on) => on.trees().medium().epoch_bytes(),
            #[cfg(feature = "dax")]
            Engine::Dax(_) => 0,
        }
    }

    /// Waits until an epoch is durable, without ending it; `until` then at the longest. Says whether it is durable. A
    /// durable epoch stays so, also after a close.
    pub fn wait_durable(&self, epoch: u64, until: Option<Instant>) -> Result<bool> {
        match self {
            Engine::File(on) => on.trees().medium().await_durable(epoch, until),
            #[cfg(feature = "dax")]
            Engine::Dax(_) => match self.alive() {
                Err(Error::Forked) => Err(Error::Forked),
                _ => Ok(true),
            },
        }
    }

    /// The same as a future, of a pool on a file.
    pub fn durable(&self, epoch: u64) -> Option<everleaf_file::DurableFuture> {
        match self {
            Engine::File(on) => Some(on.trees().medium().durable(epoch)),
            #[cfg(feature = "dax")]
            Engine::Dax(_) => None,
        }
    }

    pub fn checkpoint(&self) -> Result<()> {
        self.alive()?;
        match self {
            Engine::File(on) => on.checkpoint(),
            #[cfg(feature = "dax")]
            Engine::Dax(_) => Ok(()),
        }
    }

    pub fn compact(&self, progress: &mut dyn FnMut(u64)) -> Result<Compaction> {
        self.alive()?;
        match self {
            Engine::File(on) => {
                // Dropped trees are to be gone.
                on.reclaim()?;
                on.compact(progress)
            }
            #[cfg(feature = "dax")]
            Engine::Dax(_) => {
                Err(not_on_dax("the file of a pool on persistent memory stays as long"))
            }
        }
    }

    pub fn backup(&self, path: &Path, progress: &mut dyn FnMut(u64, u64)) -> Result<u64> {
        self.alive()?;
        match self {
            Engine::File(on) => on.backup(path, progress),
            #[cfg(feature = "dax")]
            Engine::Dax(_) => Err(not_on_dax(
                "no backup of a pool on persistent memory: close it and copy its file",
            )),
        }
    }

    /// Closes the pool, and gives its lock back whatever handles live on. A second time it says what
    /// it said the first time.
    pub fn close(&self) -> Result<()> {
        on_medium!(self, on => on.close())
    }

    /// Closes the pool without making anything durable.
    pub fn abandon(&self) -> Result<()> {
        match self {
            Engine::File(on) => {
                if let Err(error @ Error::Forked) = self.alive() {
                    return Err(error);
                }
                on.stop();
                on.abandon()
            }
            // Everything is durable.
            #[cfg(feature = "dax")]
            Engine::Dax(_) => self.close(),
        }
    }

    /// Stops all writes for good.
    pub fn poison(&self, what: &'static str) {
        match self {
            // In a fork another thread may have the locks for ever.
            _ if self.alive().is_err() => {}
            Engine::File(on) => on.trees().medium().poison(&Error::Interrupted { what }),
            #[cfg(feature = "dax")]
            Engine::Dax(on) => on.poison(),
        }
    }

    /// Whether what no tree names is damage.
    fn is_recovered(&self) -> bool {
        match self {
            Engine::File(_) => true,
            #[cfg(feature = "dax")]
            Engine::Dax(on) => on.is_recovered(),
        }
    }

    /// Has `see` see the reports of all trees by name, the catalog first with an empty name.
    pub fn reports(&self, see: impl FnMut(&str, TreeReport) -> Result<()>) -> Result<()> {
        on_medium!(self, on => read(&*on.store, || on.trees().reports(false, see)))
    }

    /// All damage that can be named, and the one that kept the walk over the trees from going on.
    pub fn check(&self) -> Result<(Vec<everleaf_pool::PageDamage>, Option<Error>)> {
        // Space that a crash has leaked is no damage until an open for writing has looked for it.
        let and_lost = self.is_recovered();
        on_medium!(self, on => read(&*on.store, || on.trees().check(and_lost)))
    }

    pub fn page_counts(&self) -> Result<everleaf_pool::PageCounts> {
        on_medium!(self, on => read(&*on.store, || on.trees().pool.stats()))
    }

    /// Where a page is in the file, in bytes; 0 for one that is not there.
    pub fn page_offset(&self, no: PageNo) -> u64 {
        on_medium!(self, on => on.trees().medium().page_place(no))
    }

    pub fn geometry(&self) -> Geometry {
        on_medium!(self, on => on.trees().medium().geometry())
    }

    /// Figures that are known without a walk.
    pub fn stats(&self) -> Result<Stats> {
        self.alive()?;
        let geometry = self.geometry();
        let (now, since) = (self.versions().figures(), self.versions().counters());
        let common = Stats {
            snapshots: now.snapshots,
            snapshot_values: now.values,
            snapshot_bytes: now.bytes,
            snapshots_given_up: since.given_up.load(Ordering::Relaxed),
            transactions: since.transactions.total(),
            conflicts: since.conflicts.load(Ordering::Relaxed),
            transaction_bytes: self.buffers().bytes(),
            cursor_bytes: self.buffers().cursor_bytes(),
            dropped_trees: on_medium!(self, on => on.trees().dropped.count()),
            page_bytes: geometry.page_bytes() as u32,
            node_bytes: 16 * geometry.slots() as u32,
            ..Stats::default()
        };
        let stats = match self {
            Engine::File(on) => {
                let file = on.trees().medium().stats();
                Stats {
                    file_bytes: file.data_bytes,
                    live_bytes: file.live_bytes,
                    free_bytes: file.free_bytes,
                    journal_file_bytes: file.journal_file_bytes,
                    journal_bytes: file.journal_replay_bytes,
                    journal_written_bytes: file.journal_bytes_written,
                    memory: MemoryStats {
                        bytes: file.memory_bytes,
                        most_bytes: file.memory_most,
                        hits: file.hits,
                        misses: file.misses,
                        evictions: file.evictions,
                        write_backs: file.pages_written,
                        value_bytes: file.value_bytes,
                        value_misses: file.value_misses,
                        value_evictions: file.value_evictions,
                    },
                    epoch: file.epoch,
                    durable_epoch: file.durable_epoch,
                    open_generation: file.open_generation,
                    uuid: file.uuid,
                    ..common
                }
            }
            #[cfg(feature = "dax")]
            Engine::Dax(on) => {
                let dax = on.trees().medium();
                Stats {
                    file_bytes: dax.file_bytes(),
                    open_generation: dax.open_generation(),
                    uuid: dax.uuid(),
                    ..common
                }
            }
        };
        // A close in between makes what was read mean nothing.
        self.alive().map(|()| stats)
    }
}

/// Waits for the locks of transactions that have a key of a batch.
#[cold]
fn give_keys(locks: &Locks, batch: &[TreeChanges<'_>]) {
    for TreeChanges { tree, changes, .. } in batch {
        changes.iter().for_each(|change| locks.give(tree.id(), change.key));
    }
}

#[cfg(feature = "dax")]
#[cold]
fn not_on_dax(what: &str) -> Error {
    Error::Unsupported { what: what.to_owned() }
}
