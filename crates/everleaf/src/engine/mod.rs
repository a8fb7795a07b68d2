//! The store behind the facade: trees of byte strings in a pool, on a file or on persistent memory.

mod admission;
mod buffers;
mod dax;
mod dropped;
mod file;
mod forecast;
mod gate;
mod medium;
mod named_trees;
mod open_tree;
mod reclaim;
mod single;
mod sync;
mod tree_list;
mod undo;
mod versions;
mod way;

use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use everleaf_pmem::{Geometry, Medium, PageNo, fallible};
use everleaf_tree::TreeReport;
use everleaf_tree::blink::{Cursor, Step};

use crate::options::Storage;
use crate::{Compaction, Durability, Error, MemoryStats, Options, Result, Stats};
pub(crate) use buffers::{Buffer, Buffers};
pub(crate) use file::Place;
pub(crate) use open_tree::{Alone, BatchChange, Move, TreeHandle, ValueSource};
pub(crate) use versions::{Cut, KeyBefore, Versions};
pub(crate) use way::{RightOfWay, Way};

use admission::Store;
use dax::DaxStore;
use file::FileStore;
use reclaim::{Background, Reclaim};

pub(crate) enum Engine {
    File(Background<FileStore>),
    Dax(Background<DaxStore>),
}

/// Runs the same code on the store of either medium.
macro_rules! on_store {
    ($engine:expr, $store:ident => $body:expr) => {
        match $engine {
            Engine::File(on) => {
                let $store = &on.store;
                $body
            }
            Engine::Dax(on) => {
                let $store = &on.store;
                $body
            }
        }
    };
}

impl Engine {
    /// Opens the pool at a place; in memory, where the storage is that of files, makes it.
    pub fn open(place: Place<'_>, options: &Options) -> Result<Engine> {
        let has_threads = options.background;
        Ok(match (options.storage, place.path()) {
            (storage @ (Storage::Dax | Storage::EmulatedDax), Some(path)) => {
                let dax = DaxStore::open(path, options, storage == Storage::EmulatedDax)?;
                Engine::Dax(Background::new(dax, has_threads))
            }
            _ => Engine::File(Background::new(FileStore::open(place, options)?, has_threads)),
        })
    }

    /// Whether the pool is open, in this process. Asked before anything else, for a process that was
    /// forked has locks that nobody ever lets go; and after what reads memory that others see, for a
    /// close in between makes it undefined.
    #[inline]
    pub fn alive(&self) -> Result<()> {
        match self {
            Engine::File(on) => on.alive(),
            Engine::Dax(on) => on.alive(),
        }
    }

    /// Reads while the pool is open. On a file what is read is in memory of this process, or the
    /// medium sees to it.
    #[inline]
    fn read<T>(&self, read: impl FnOnce() -> Result<T>) -> Result<T> {
        self.alive()?;
        let answer = read();
        if let Engine::Dax(on) = self {
            on.store.medium().alive()?;
        }
        answer
    }

    /// The same, for who is about to change pairs: gives way before. The caller holds nothing.
    #[inline(always)]
    fn alive_to_write(&self) -> Result<()> {
        match self {
            Engine::File(on) => on.give_way(),
            Engine::Dax(on) => on.give_way(),
        }
    }

    /// What writers give way to.
    #[inline(always)]
    pub fn way(&self) -> &RightOfWay {
        on_store!(self, store => &store.way)
    }

    /// Runs an operation of a writer while the pool is open.
    #[inline]
    fn write<T>(&self, operation: impl Fn() -> Result<T>) -> Result<T> {
        match self {
            Engine::File(on) => on.admit(operation),
            Engine::Dax(on) => on.admit(operation),
        }
    }

    pub fn create_tree(&self, name: &str, durability: Durability) -> Result<TreeHandle> {
        if let Some(tree) = self.find_tree(name)? {
            return Ok(tree);
        }
        let tree = match self {
            Engine::File(on) => TreeHandle::File(on.with_room(|| on.make_tree(name))?),
            Engine::Dax(on) => {
                TreeHandle::Dax(on.with_room(|| on.pass(|| on.store.make_tree(name)))?)
            }
        };
        self.settle(durability)?;
        Ok(tree)
    }

    pub fn find_tree(&self, name: &str) -> Result<Option<TreeHandle>> {
        self.read(|| {
            Ok(match self {
                Engine::File(on) => on.store.find_tree(name)?.map(TreeHandle::File),
                Engine::Dax(on) => on.store.find_tree(name)?.map(TreeHandle::Dax),
            })
        })
    }

    /// The tree that had a name at a cut.
    pub fn find_tree_at(&self, cut: &Cut, name: &str) -> Result<Option<TreeHandle>> {
        self.read(|| {
            Ok(match self {
                Engine::File(on) => on.store.find_tree_at(cut, name)?.map(TreeHandle::File),
                Engine::Dax(on) => on.store.find_tree_at(cut, name)?.map(TreeHandle::Dax),
            })
        })
    }

    /// Removes a tree with all that it holds; says whether there was one.
    pub fn drop_tree(&self, name: &str) -> Result<bool> {
        self.alive_to_write()?;
        match self {
            Engine::File(on) => {
                let dropped = on.drop_tree(name).map_err(|error| on.why(error));
                dropped.inspect(|_| on.reclaim_soon())
            }
            Engine::Dax(on) => on.drop_tree(name).inspect(|_| on.reclaim_soon()),
        }
    }

    /// Takes all pairs out of a tree, and says how many there were. `likely` is a name that it had.
    pub fn clear(&self, tree: &TreeHandle, likely: &str) -> Result<u64> {
        self.alive_to_write()?;
        let cleared = match (self, tree) {
            (Engine::File(on), TreeHandle::File(tree)) => {
                let cleared =
                    on.with_room(|| on.clear(tree, likely).map_err(|error| on.why(error)));
                cleared.inspect(|_| on.reclaim_soon())
            }
            (Engine::Dax(on), TreeHandle::Dax(tree)) => {
                on.with_room(|| on.clear(tree, likely)).inspect(|_| on.reclaim_soon())
            }
            _ => unreachable!("a tree is on the medium of its pool"),
        };
        match cleared {
            // There is no room for a moment.
            Err(Error::Full { .. }) => self.remove_range(tree, Bound::Unbounded, Bound::Unbounded),
            cleared => cleared,
        }
    }

    /// Gives a tree another name; says whether there was one.
    pub fn rename_tree(&self, from: &str, to: &str) -> Result<bool> {
        self.alive()?;
        match self {
            Engine::File(on) => on.with_room(|| on.rename_tree(from, to)),
            Engine::Dax(on) => on.with_room(|| on.rename_tree(from, to)),
        }
    }

    /// A moment of all trees, to read at.
    pub fn cut(&self) -> Result<Arc<Cut>> {
        self.alive()?;
        Ok(on_store!(self, store => store.cut()))
    }

    /// What snapshots and transactions see and do.
    pub fn versions(&self) -> &Versions {
        on_store!(self, store => &store.versions)
    }

    /// What transactions and batches keep in memory.
    pub fn buffers(&self) -> &Arc<Buffers> {
        on_store!(self, store => &store.buffers)
    }

    pub fn tree_names(&self) -> Result<Vec<String>> {
        let entries = self.read(|| on_store!(self, store => store.entries()))?;
        let mut names = fallible::list(entries.len(), "the names of all trees")?;
        names.extend(entries.iter().map(|(name, _)| name.into_owned()));
        Ok(names)
    }

    /// The names that trees had at a cut.
    pub fn tree_names_at(&self, cut: &Cut) -> Result<Vec<String>> {
        self.read(|| on_store!(self, store => store.names_at(cut)))
    }

    /// Refuses if the pool is closed or the tree was dropped, for who reads what is kept beside it.
    pub fn expect_there(&self, tree: &TreeHandle) -> Result<()> {
        self.read(|| tree.expect_there())
    }

    /// How many pairs a tree has.
    pub fn len(&self, tree: &TreeHandle) -> Result<u64> {
        self.alive()?;
        match (self, tree) {
            (Engine::File(on), TreeHandle::File(tree)) => on.store.len(tree),
            (Engine::Dax(on), TreeHandle::Dax(tree)) => on.store.len(tree),
            _ => unreachable!("a tree is on the medium of its pool"),
        }
    }

    pub fn get(&self, tree: &TreeHandle, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.read(|| tree.get(key))
    }

    pub fn contains(&self, tree: &TreeHandle, key: &[u8]) -> Result<bool> {
        self.read(|| tree.contains(key))
    }

    pub fn insert(&self, tree: &TreeHandle, key: &[u8], value: &[u8]) -> Result<Option<Vec<u8>>> {
        self.write(|| tree.insert(key, value))
    }

    pub fn remove(&self, tree: &TreeHandle, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.write(|| tree.remove(key))
    }

    pub fn put(&self, tree: &TreeHandle, key: &[u8], value: &[u8]) -> Result<()> {
        self.write(|| tree.put(key, value))
    }

    pub fn delete(&self, tree: &TreeHandle, key: &[u8]) -> Result<()> {
        self.write(|| tree.delete(key))
    }

    /// Makes all changes or none.
    pub fn commit(&self, changes: &[BatchChange]) -> Result<()> {
        self.alive_to_write()?;
        match self {
            Engine::File(on) => on.with_room(|| on.commit(changes, None)),
            Engine::Dax(on) => on.with_room(|| on.commit(changes, None)),
        }
    }

    /// Makes all changes or none, and nobody else writes from the validation to the last change.
    pub fn commit_alone(&self, changes: &[BatchChange], alone: &Alone<'_>) -> Result<()> {
        self.alive_to_write()?;
        match self {
            Engine::File(on) => on.with_room(|| on.commit(changes, Some(alone))),
            Engine::Dax(on) => on.with_room(|| on.commit(changes, Some(alone))),
        }
    }

    pub fn get_into(&self, tree: &TreeHandle, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        self.read(|| tree.get_into(key, value))
    }

    /// Sets a value that comes from a reader.
    pub fn put_from(
        &self,
        tree: &TreeHandle,
        key: &[u8],
        source: &mut ValueSource<'_>,
    ) -> Result<()> {
        self.expect_writable()?;
        self.way().give();
        match self {
            Engine::File(on) => tree.put_from(&**on, key, source),
            Engine::Dax(on) => tree.put_from(&**on, key, source),
        }
    }

    pub fn read_at(
        &self,
        tree: &TreeHandle,
        key: &[u8],
        offset: u64,
        buf: &mut [u8],
    ) -> Result<Option<usize>> {
        self.read(|| tree.read_at(key, offset, buf))
    }

    pub fn value_len(&self, tree: &TreeHandle, key: &[u8]) -> Result<Option<u64>> {
        self.read(|| tree.value_len(key))
    }

    /// Moves a cursor. If the tree is not to be used any more, the cursor forgets what it has: that may
    /// be another's.
    #[inline(always)]
    pub fn go(&self, tree: &TreeHandle, cursor: &mut Cursor, to: Move<'_>) -> Result<Step> {
        let step = self.read(|| tree.go(cursor, to));
        Self::still(cursor, step)
    }

    /// Whether a step of a cursor was but one in memory of its own. If not, it is still to be made.
    #[inline(always)]
    pub fn slides(&self, tree: &TreeHandle, cursor: &mut Cursor, up: bool) -> bool {
        self.alive().is_ok() && tree.slides(cursor, up)
    }

    /// Reads the value of a cursor's pair, unless the cursor has it; says whether it has it now.
    #[inline(always)]
    pub fn read_value(&self, tree: &TreeHandle, cursor: &mut Cursor) -> Result<bool> {
        if cursor.has_all() {
            return Ok(true);
        }
        let read = self.read(|| tree.read_value(cursor));
        Self::still(cursor, read)
    }

    /// Whether a pair that cannot be read lies before the place of `limit`.
    pub fn is_short_of(
        &self,
        tree: &TreeHandle,
        cursor: &Cursor,
        limit: &Cursor,
        up: bool,
    ) -> Result<bool> {
        self.read(|| tree.is_short_of(cursor, limit, up))
    }

    #[inline(always)]
    fn still<T>(cursor: &mut Cursor, answer: Result<T>) -> Result<T> {
        if let Err(Error::Closed | Error::NoTree | Error::Forked) = answer {
            cursor.clear();
        }
        answer
    }

    /// The current epoch, and the last one that is durable; 0 where there are no epochs.
    pub fn epochs(&self) -> (u64, u64) {
        match self {
            Engine::File(on) => {
                let file = on.store.medium();
                (file.clock(), file.durable_epoch())
            }
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
        self.alive()?;
        match self {
            Engine::File(on) => {
                on.reclaim_alone();
                on.sync()
            }
            Engine::Dax(on) => {
                on.reclaim_alone();
                Ok(())
            }
        }
    }

    /// Waits until an epoch is durable, without ending it. What is durable stays so, also after a close.
    pub fn wait_durable(&self, epoch: u64) -> Result<()> {
        match self {
            Engine::File(on) => on.store.medium().await_durable(epoch),
            Engine::Dax(_) => match self.alive() {
                Err(Error::Forked) => Err(Error::Forked),
                _ => Ok(()),
            },
        }
    }

    /// The same as a future, of a pool on a file.
    pub fn durable(&self, epoch: u64) -> Option<everleaf_file::Durable> {
        match self {
            Engine::File(on) => Some(on.store.medium().durable(epoch)),
            Engine::Dax(_) => None,
        }
    }

    pub fn checkpoint(&self) -> Result<()> {
        self.alive()?;
        match self {
            Engine::File(on) => on.checkpoint(),
            Engine::Dax(_) => Ok(()),
        }
    }

    pub fn compact(&self, progress: &mut dyn FnMut(u64)) -> Result<Compaction> {
        self.alive()?;
        match self {
            Engine::File(on) => {
                // What is dropped is to be gone.
                on.reclaim()?;
                on.compact(progress)
            }
            Engine::Dax(_) => {
                Err(not_on_dax("the file of a pool on persistent memory stays as long"))
            }
        }
    }

    pub fn backup(&self, path: &Path, progress: &mut dyn FnMut(u64, u64)) -> Result<u64> {
        self.alive()?;
        match self {
            Engine::File(on) => on.backup(path, progress),
            Engine::Dax(_) => Err(not_on_dax(
                "no backup of a pool on persistent memory: close it and copy its file",
            )),
        }
    }

    /// Closes the pool, and gives its lock back whatever handles live on. A second time it says what
    /// it said the first time.
    pub fn close(&self) -> Result<()> {
        if let Err(error @ Error::Forked) = self.alive() {
            return Err(error);
        }
        match self {
            Engine::File(on) => {
                on.stop();
                on.close()
            }
            Engine::Dax(on) => {
                on.stop();
                on.close();
                Ok(())
            }
        }
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
            Engine::Dax(_) => self.close(),
        }
    }

    /// Whether what no tree names is damage.
    fn is_recovered(&self) -> bool {
        match self {
            Engine::File(_) => true,
            Engine::Dax(on) => on.is_recovered(),
        }
    }

    /// Has `see` see the reports of all trees by name, the catalog first with an empty name.
    pub fn reports(&self, see: impl FnMut(&str, TreeReport) -> Result<()>) -> Result<()> {
        self.read(|| on_store!(self, store => store.reports(false, see)))
    }

    /// All damage that can be named, and the one that kept the walk over the trees from going on.
    pub fn check(&self) -> Result<(Vec<everleaf_pool::PageDamage>, Option<Error>)> {
        // What a crash has leaked is none, until an open for writing has looked for it.
        let and_lost = self.is_recovered();
        self.read(|| on_store!(self, store => store.check(and_lost)))
    }

    pub fn page_counts(&self) -> Result<everleaf_pool::PageCounts> {
        self.read(|| on_store!(self, store => store.pool.stats()))
    }

    /// Where a page is in the file, in bytes; 0 for one that is not there.
    pub fn page_offset(&self, no: PageNo) -> u64 {
        on_store!(self, store => store.medium().page_place(no))
    }

    pub fn geometry(&self) -> Geometry {
        on_store!(self, store => store.medium().geometry())
    }

    /// What is known without a walk.
    pub fn stats(&self) -> Result<Stats> {
        self.alive()?;
        let geometry = self.geometry();
        let (now, since) = (self.versions().figures(), self.versions().counters());
        let common = Stats {
            snapshots: now.snapshots,
            snapshot_values: now.values,
            snapshot_bytes: now.bytes,
            snapshots_given_up: since.given_up.load(Ordering::Relaxed),
            transactions: since.transactions.load(Ordering::Relaxed),
            conflicts: since.conflicts.load(Ordering::Relaxed),
            transaction_bytes: self.buffers().bytes(),
            dropped_trees: on_store!(self, store => store.dropped.count()),
            page_bytes: geometry.page_bytes() as u32,
            node_bytes: 16 * geometry.slots() as u32,
            ..Stats::default()
        };
        let stats = match self {
            Engine::File(on) => {
                let file = on.store.medium().stats();
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
                    },
                    epoch: file.epoch,
                    durable_epoch: file.durable_epoch,
                    open_generation: file.open_generation,
                    uuid: file.uuid,
                    ..common
                }
            }
            Engine::Dax(on) => {
                let dax = on.store.medium();
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

#[cold]
fn not_on_dax(what: &str) -> Error {
    Error::Unsupported { what: what.to_owned() }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // Who wants to hear of an error calls `Db::close`.
        let _ = self.close();
    }
}
