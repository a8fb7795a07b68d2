//! The store on an ordinary file: epochs, a journal, and a keeper.

use std::path::Path;
use std::sync::Arc;

use everleaf_file::File;
use everleaf_file::io::{Io, MemoryIo, RealIo};
use everleaf_pmem::epoch::epoch_is_pinned;
use everleaf_pmem::{EpochPin, Medium};
use everleaf_tree::blink::KeyPlace;
use everleaf_tree::slotted::Slotted;
use everleaf_tree::{FilePool, INDEX_ANCHOR, after_undo};

use super::admission::{RightOfWay, Store};
use super::forecast;
use super::locks::Locks;
use super::medium::DbTree;
use super::named_trees::NamedTrees;
use super::open_tree::OpenTree;
use super::open_tree::{Alone, Change, TreeChanges, apply_alone};
use super::reclaim::Reclaim;
use super::sync::{Mutex, RwLock, RwLockReadGuard, lock, read, write};
use super::versions::{Closed, Gate, Passed};
use crate::{Compaction, Error, Options, Result};

/// Where a pool is.
pub(crate) enum Place<'p> {
    /// On a file system, as are its copies.
    File(Arc<dyn Io>, &'p Path),
    /// In as many bytes of memory. It goes with the process, or sooner; its copies are files of this machine.
    Memory(u64),
}

impl<'p> Place<'p> {
    pub fn path(&self) -> Option<&'p Path> {
        match self {
            Place::File(_, path) => Some(path),
            Place::Memory(_) => None,
        }
    }
}

pub(crate) struct FileStore {
    pub store: NamedTrees<File>,
    pool: RwLock<FilePool>,
    /// Where copies go.
    io: Arc<dyn Io>,
    /// Somebody may open the pool again.
    lasts: bool,
    /// Held by the batch that runs: what two batches leave is one after the other.
    batch: Mutex<()>,
}

/// How a batch is inside of the gate.
#[allow(clippy::large_enum_variant, reason = "for a box there may be no memory")]
enum BatchPass<'g> {
    Passed(Passed<'g>),
    Alone(#[expect(dead_code, reason = "held")] Closed<'g>),
}

impl<'g> BatchPass<'g> {
    fn alone(self, gate: &'g Gate) -> Self {
        match self {
            BatchPass::Alone(_) => self,
            BatchPass::Passed(pass) => {
                drop(pass);
                BatchPass::Alone(gate.close())
            }
        }
    }
}

impl FileStore {
    pub fn open(place: Place<'_>, options: &Options) -> Result<Self> {
        let lasts = place.path().is_some();
        let file_options = options.file_options()?;
        let open = |io, path| FilePool::open_for::<Slotted>(io, path, &file_options);
        let (pool, io) = match place {
            Place::File(io, path) => (open(Arc::clone(&io), path)?, io),
            Place::Memory(most_bytes) => {
                let memory = Arc::new(MemoryIo::new(most_bytes));
                (open(memory, Path::new("a pool in memory"))?, Arc::new(RealIo) as Arc<dyn Io>)
            }
        };
        let shared = Arc::clone(pool.pool());
        let store = {
            // Held, so that a new pool's catalog is there as a whole or not at all.
            let _hold = (!options.read_only).then(|| shared.medium().pin_epoch());
            // An epoch may have ended between the pool's first pages and its catalog. A reader
            // cannot make what a crash kept from being made.
            let blank = pool.is_blank()
                || (options.read_only && DbTree::<File>::is_rootless(&shared, INDEX_ANCHOR)?);
            NamedTrees::open(Arc::clone(&shared), blank, options)?
        };
        store.find_dropped()?;
        Ok(Self { store, pool: RwLock::new(pool), io, lasts, batch: Mutex::default() })
    }

    /// Keeps the epoch still and the pool open, for what must be whole: a close that came between
    /// two steps would refuse the second one, and make the first one durable. Refuses before the
    /// first one if the second would be refused; also for want of room, if what is to come `adds` something.
    pub fn whole(&self, adds: bool) -> Result<(EpochPin<'_>, RwLockReadGuard<'_, FilePool>)> {
        let open = read(&self.pool);
        self.store.pool().throttle(adds)?;
        let hold = self.store.medium().pin_epoch();
        drop(self.store.medium().enter()?);
        Ok((hold, open))
    }

    /// Applies all changes in one epoch. A failure between them (want of memory, say) stops the file's
    /// writes before the epoch is committed, so that a part of the batch is never durable.
    ///
    /// With `alone` it is a transaction: from the validation to the last change no other writer is
    /// inside of the gate, or in a leaf [of those that it latches](Self::commit_latched). If others could come in between, one could put a key that the transaction has read and
    /// then see that the transaction has not happened yet, although it must have happened before the put.
    pub fn commit(&self, batch: &[TreeChanges<'_>], alone: Option<&Alone<'_>>) -> Result<()> {
        if self.store.read_only {
            return Err(Error::ReadOnly);
        }
        // Before the hold: who waits here keeps no epoch from ending.
        debug_assert!(!epoch_is_pinned(), "a batch that waits would keep the epoch from ending");
        if let Some(alone) = alone
            && self.commit_latched(batch, alone).map_err(|error| self.why(error))?
        {
            return Ok(());
        }
        let _alone = lock(&self.batch);
        let inside = match alone {
            None => BatchPass::Passed(self.store.gate.pass()),
            Some(_) => BatchPass::Alone(self.store.gate.close()),
        };
        batch.iter().try_for_each(TreeChanges::expect_tree)?;
        alone.map_or(Ok(()), |alone| (alone.validate)(&|_| false))?;
        if let [part @ TreeChanges { changes: [change], .. }] = batch {
            let applied = apply_alone(&self.store.versions, part, change, alone);
            return applied.map_err(|error| self.why(error));
        }
        let adds = forecast::adds(batch);
        // Waits for room now, and not while pages are kept: memory would fill meanwhile.
        self.store.pool().throttle(adds).map_err(|error| self.why(error))?;
        // A page that is read now is not read again in the midst of the batch, where a failure could not be
        // taken back.
        let _kept = self.store.medium().keep_pages();
        let mut places = forecast::Places::default();
        let places = places.of(batch)?;
        forecast::touch(batch, places).map_err(|error| self.why(error))?;
        let _room = self.room_for((batch, adds), inside, places)?;
        let _whole = self.whole(adds).map_err(|error| self.why(error))?;
        if let Some(alone) = alone {
            alone.begin();
        }
        let _changing = self.store.versions.begin_whole();
        forecast::apply(batch, places).map_err(|(done, error)| {
            if done == 0 {
                return self.why(error);
            }
            self.store.medium().poison(&error);
            error
        })
    }

    /// All the room that the batch wants is its own before the first change.
    fn room_for<'g>(
        &'g self,
        (batch, adds): (&[TreeChanges<'_>], bool),
        inside: BatchPass<'g>,
        places: &mut [Option<KeyPlace>],
    ) -> Result<(BatchPass<'g>, impl Sized + use<'g>)> {
        let pool = &self.store.pool;
        let (inside, room) = match pool.promise(forecast::generous(pool, batch)) {
            Err(Error::Full { .. }) => {
                let alone = inside.alone(&self.store.gate);
                batch.iter().try_for_each(TreeChanges::expect_tree)?;
                let room = forecast::touch(batch, places)
                    .and_then(|()| forecast::tight(pool, batch, places))
                    .and_then(|wants| pool.promise_counted(wants));
                (alone, room.map_err(|error| self.why(error))?)
            }
            room => (inside, room?),
        };
        // A large value that finds no room in the midst of the batch could not be taken back, either.
        let page_bytes = pool.geometry().page_bytes() as u64;
        let bytes_of = |change: &Change<'_>| match change.value.map(<[u8]>::len) {
            None => 0,
            Some(n) if pool.fits_record(change.key.len(), n) => n as u64,
            // A large one fills its last page.
            Some(n) => (n as u64).next_multiple_of(page_bytes),
        };
        let changes = batch.iter().flat_map(|part| part.changes);
        let bytes: u64 = changes.map(bytes_of).sum();
        if adds {
            let expected = pool.with_room(|| pool.medium().expect_room(bytes));
            expected.map_err(|error| self.why(error))?;
        }
        Ok((inside, room))
    }

    /// Makes a tree, unless another thread was faster.
    pub fn make_tree(&self, name: &str) -> Result<Arc<OpenTree<File>>> {
        self.store.writable_catalog()?;
        let _pass = self.store.gate.pass();
        let _whole = self.whole(true)?;
        self.all_of_it(self.store.make_tree(name)).map_err(|error| self.why(error))
    }

    /// Gives a tree another name, if it is there.
    pub fn rename_tree(&self, from: &str, to: &str) -> Result<bool> {
        self.store.writable_catalog()?;
        let _names = self.store.names();
        let _pass = self.store.gate.pass();
        let _whole = self.whole(true)?;
        self.all_of_it(self.store.rename(from, to)).map_err(|error| self.why(error))
    }

    /// Stops writes if only a part was made of what must be whole: the epoch never becomes durable.
    pub fn all_of_it<T>(&self, made: Result<T>) -> Result<T> {
        debug_assert!(epoch_is_pinned(), "the epoch with a part of it could be durable already");
        if let Err(Error::Poisoned { cause }) = &made {
            self.store.medium().poison(cause);
        }
        made
    }

    /// Whether a checkpoint may run.
    fn check_writable(&self) -> Result<()> {
        if self.store.read_only {
            return Err(Error::ReadOnly);
        }
        self.store.medium().poisoned().map_or(Ok(()), Err)
    }

    pub fn checkpoint(&self) -> Result<()> {
        self.check_writable()?;
        // Shared with others and not with a close.
        let pool = read(&self.pool);
        pool.drain()?;
        self.store.medium().checkpoint()
    }

    /// Makes the file as short as it can be. A close waits for a part of it at most, so that `progress` may
    /// call one.
    pub fn compact(&self, progress: &mut dyn FnMut(u64)) -> Result<Compaction> {
        self.check_writable()?;
        let file = self.store.medium();
        let before_bytes = file.stats().data_bytes;
        // Freed space is free for it if the freeing is durable.
        file.sync_ended()?;
        read(&self.pool).drain()?;
        file.compact(progress)?;
        Ok(Compaction { before_bytes, after_bytes: file.stats().data_bytes })
    }

    /// Ends the running epoch, which is the system's then.
    pub fn end_epoch(&self) -> Result<u64> {
        if self.store.read_only {
            return Err(Error::ReadOnly);
        }
        self.store.medium().end_epoch()
    }

    /// Copies the pool to a new file. A close does not wait for it.
    pub fn backup(&self, path: &Path, progress: &mut dyn FnMut(u64, u64)) -> Result<u64> {
        self.store.medium().backup(&*self.io, path, progress)
    }

    pub fn abandon(&self) -> Result<()> {
        let ended = write(&self.pool).abandon();
        if self.lasts { ended } else { ended.or_else(is_gone) }
    }
}

/// A pool that does not last ends in one way only, and a second time says what it said the first time.
fn is_gone(error: Error) -> Result<()> {
    if matches!(error, Error::Closed) { Ok(()) } else { Err(error) }
}

impl Store for FileStore {
    #[inline(always)]
    fn alive(&self) -> Result<()> {
        self.store.medium().alive()
    }

    #[inline(always)]
    fn way(&self) -> &RightOfWay {
        &self.store.way
    }

    #[inline(always)]
    fn turn(&self) -> Result<()> {
        self.store.medium().turn()
    }

    #[inline(always)]
    fn locks(&self) -> &Locks {
        &self.store.locks
    }

    #[inline(always)]
    fn gate(&self) -> &Gate {
        &self.store.gate
    }

    /// A batch that was cut off has stopped the file's writes.
    #[inline(always)]
    fn expect_sound(&self) -> Result<()> {
        Ok(())
    }

    #[cold]
    fn why(&self, error: Error) -> Error {
        self.store.medium().poisoned().unwrap_or(error)
    }

    fn free_room(&self) -> Result<bool> {
        self.reclaim()
    }

    /// Ends the epoch. Where nobody writes checkpoints but the program, pages that were changed would fill
    /// memory one epoch after the other: then this writes one.
    fn sync(&self) -> Result<()> {
        if self.store.read_only {
            return Ok(());
        }
        let file = self.store.medium();
        file.sync()?;
        if file.is_crowded() { self.checkpoint() } else { Ok(()) }
    }

    /// A pool that nobody opens again is not made durable.
    fn close(&self) -> Result<()> {
        if self.lasts { write(&self.pool).close() } else { self.abandon() }
    }
}

impl Reclaim for FileStore {
    type Medium = File;

    fn trees(&self) -> &NamedTrees<File> {
        &self.store
    }

    fn finish(&self, tree: &OpenTree<File>, key: &[u8]) -> Result<()> {
        let _whole = self.whole(false)?;
        self.all_of_it(self.store.forget(tree, key)).map_err(|error| self.why(error))
    }

    fn part_from(&self, name: &str, tree: &Arc<OpenTree<File>>, stays: bool) -> Result<u64> {
        let _closed = self.store.gate.close();
        let pairs = self.store.medium().counted(tree.anchor())?.unwrap_or(0);
        let _whole = self.whole(stays)?;
        let parting = self.store.part(tree, stays)?;
        if let Err(error) = self.store.take_name(name, &parting.key, parting.next_anchor()) {
            return self.all_of_it(Err(after_undo(error, self.store.stay(parting))));
        }
        self.store.leave(parting);
        Ok(pairs)
    }

    fn goes_on(&self) -> bool {
        let file = self.store.medium();
        !self.store.read_only && file.alive().is_ok() && file.poisoned().is_none()
    }
}
