//! State shared by a `File` and its background tasks.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, PoisonError};
use std::time::Duration;

use everleaf_pmem::epoch::Epochs;
use everleaf_pmem::error::{Error, Result};
use everleaf_pmem::life::Life;
use everleaf_pmem::locks::{Condvar, Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};
use everleaf_pmem::page::{Page, PageNo, Stay};
use everleaf_pmem::region::Region;
use everleaf_pmem::sync::lock_plain as lock;

use crate::epochs::barrier::{ABANDONED, POISONED, READ_ONLY};
use crate::epochs::counts::DurableCounts;
use crate::epochs::slots::{Need, SlotChanges};
use crate::epochs::ticker::Ticker;
use crate::epochs::waits::Waits;
use crate::io::IoFile;
use crate::journal::Position;
use crate::limits::bounds::{Spills, WriteBounds};
use crate::limits::reserve::Reserve;
use crate::memory::residents::Residents;
use crate::memory::warm::{Addresses, Warmth};
use crate::observe;
use crate::open::replay::Replay;
use crate::options::{Compression, PageUse};
use crate::store::ahead::Ahead;
use crate::store::format::{SECTOR, SUPER_BYTES};
use crate::store::image::{FIRST_IMAGE, ImageKey, Placed};
use crate::store::superblock::Super;
use crate::store::table::Places;
use crate::workers::Waker;

/// How long after something has become durable the keeper looks what that has freed.
const KEEPER_REST: Duration = Duration::from_millis(200);

/// The journal that blocks go to.
#[derive(Debug, Default)]
pub(crate) struct Chain {
    /// Where the next block goes; no place while there is no journal.
    pub next: Position,
    /// Extents with blocks that recovery would read, in order. The next extent is the journal's, too.
    pub extents: Vec<u32>,
    /// Bytes of blocks that this open knows of, and how many of them the root does not need.
    pub written: u64,
    pub begun: u64,
    /// It goes on nearer to the start of the file when it can: the file is to be short.
    pub draws_in: bool,
    /// The running epoch, if some of its blocks have been written.
    pub spilled: Option<Spilled>,
}

/// An epoch that was spilled and has not ended: its blocks count only if it does.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Spilled {
    pub epoch: u64,
    /// Where the chain went on before its first block.
    pub from: Position,
    /// Bytes of blocks before that one.
    pub written: u64,
    /// How many blocks it has.
    pub pieces: u32,
}

impl Chain {
    pub(crate) fn is_there(&self) -> bool {
        self.next.place != 0
    }

    /// Where the last whole epoch ends, and how many bytes of blocks there are up to it.
    pub(crate) fn whole_end(&self) -> (Position, u64) {
        self.spilled.map_or((self.next, self.written), |spilled| (spilled.from, spilled.written))
    }
}

/// The image of a page of a large value that the page table does not know.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PendingValue {
    pub placed: Placed,
    /// The epoch in which a step has adopted it, where the table is to hear of that
    /// [later](crate::checkpoint::ahead).
    pub adopted: Option<u64>,
}

/// Writes images to extents of its own.
#[derive(Debug, Default)]
pub(crate) struct Stream {
    /// The extent that it fills; held.
    pub extent: Option<u32>,
    /// Byte of the file where `buffer` belongs: a multiple of 4096.
    pub from: u64,
    pub buffer: Vec<u8>,
    /// Extents that it has left, and holds until somebody names the images in them.
    pub left: Vec<u32>,
    /// To compress in.
    pub scratch: [Vec<u8>; 2],
}

/// An epoch of which everything is written and nothing synced.
#[derive(Debug)]
pub(crate) struct Ended {
    pub epoch: u64,
    /// Bytes of its records, and of large values that were written meanwhile.
    pub records: usize,
    pub large: u64,
    /// It has a block.
    pub is_commit: bool,
    /// How long it took to write.
    pub took: Duration,
}

/// State that only the leader of a commit touches.
#[derive(Debug, Default)]
pub(crate) struct Commit {
    pub chain: Chain,
    /// The last epoch that was closed, if it is not durable for want of memory or room. Its records are
    /// in `spares` and in `block`.
    pub closed: Option<u64>,
    /// The last epoch that was closed, if all of it is written and the disk was not asked to keep it.
    pub ended: Option<Ended>,
    /// Room for a block's head, and records that are in no block of the file yet; or nothing.
    pub block: Vec<u8>,
    /// One for each slot of the clock, to take its records.
    pub spares: Vec<Vec<u8>>,
}

/// Why writes have stopped, if they have. The error's place is made at open, because memory may be
/// what is wanting.
#[derive(Debug)]
pub(crate) struct Cause {
    error: Arc<Error>,
    is_set: bool,
}

impl Default for Cause {
    fn default() -> Self {
        Self { error: Arc::new(Error::ReadOnly), is_set: false }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub journal_bytes: AtomicU64,
    pub commits: AtomicU64,
    pub spills: AtomicU64,
    pub checkpoints: AtomicU64,
    pub pages_written: AtomicU64,
    /// How many opens have written to the pool, this one among them if it has.
    pub opens: AtomicU64,
}

impl Counters {
    pub(crate) fn of_open(generation: u64) -> Self {
        Self { opens: generation.into(), ..Self::default() }
    }
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub region: Region,
    pub _addresses: Addresses,
    pub warmth: Box<Warmth>,
    pub residents: Residents,
    pub data: Box<dyn IoFile>,
    /// Bytes that the file has at least, unless another program has cut it off.
    pub length: AtomicU64,
    /// Serialises syncs: the system reports a failed write-back to one caller only, and the others
    /// must not take its absence for success.
    pub data_sync: Mutex<()>,
    pub image_key: ImageKey,
    /// Where images are, and which extents are in use. Taken after `commit`, `values` and
    /// `pending_values`; nothing is waited for under it.
    pub places: RwLock<Places>,
    /// Large values on their way to the disk.
    pub values: Mutex<Stream>,
    /// The last epoch that the table may know of: of a change in an image, or of a step that has adopted
    /// or freed a large value.
    pub table_epoch: AtomicU64,
    /// Images of values that the page table does not know. Their extents are held.
    pub pending_values: Mutex<HashMap<PageNo, PendingValue>>,
    /// The image of the durable root, whose extents are held.
    pub root: Mutex<Placed>,
    /// Pages that have become dirty, as far as they are in no slot's list any more.
    pub changed: Mutex<Vec<PageNo>>,
    /// Runs that were freed, which the table does not know yet, and in which epoch.
    pub forgotten: Mutex<Vec<(PageNo, u32, u64)>>,
    /// Images of freed values that somebody may read still. Their extents are held.
    pub lingering: Box<Mutex<HashMap<PageNo, Placed>>>,
    /// Runs that nobody reads any more.
    pub released: Mutex<Vec<(PageNo, u32)>>,
    /// The stamp of images: the number of this open, then that of the last checkpoint.
    pub stamp: AtomicU64,
    pub compression: Compression,
    /// Extents that the file may have beyond a share of what is alive.
    pub spare_extents: u32,
    pub reserve: Box<Reserve>,
    /// Says which of a page's bytes its image needs.
    pub gap: fn(&[u8]) -> PageUse,
    /// Which pages never leave memory.
    pub stay: fn(Page<'_>) -> Stay,
    pub journal_bound: u64,
    pub bounds: WriteBounds,
    pub spills: Spills,
    pub interval: Duration,
    pub life: Life,
    /// Shared by those who write to a file, and not with one who gives the locks back.
    pub writing: RwLock<()>,
    pub fresh: bool,
    pub uuid: [u8; 16],

    pub barrier: AtomicU32,
    pub cause: Mutex<Cause>,
    /// Room for what each step may note.
    pub need: Need,
    pub epochs: Epochs<SlotChanges>,
    pub extents: AtomicBool,

    pub commit: Box<Mutex<Commit>>,
    /// How many pairs trees have. Taken after `commit`, and before a slot of the clock.
    pub counts: Box<Mutex<DurableCounts>>,
    /// This open has announced itself in the superblock and may write.
    pub started: AtomicBool,
    /// Where the first block of this open goes; no place until it is announced, if there is no journal.
    pub begins: Mutex<Position>,
    pub superblock: Mutex<Super>,
    pub checkpointing: Mutex<()>,
    pub runs: Mutex<Runs>,
    pub ran: Condvar,
    /// How many callers want a checkpoint to be over soon.
    pub callers: AtomicU32,

    pub replaying: AtomicBool,
    pub replay: RwLock<Option<Arc<Replay>>>,
    /// Pages that fetch has changed and that no checkpoint has written yet.
    pub recovered: Mutex<Vec<PageNo>>,

    pub work: Mutex<BackgroundWork>,
    pub wake: Condvar,
    pub ticker: Ticker,
    /// Futures that wait for an epoch.
    pub waits: Box<Waits>,
    /// Wakes the keeper, which keeps the journal short, if there is one.
    pub keeper: OnceLock<Waker>,
    /// State that is ahead of the last durable epoch, where the program ends epochs.
    pub ahead: Box<Ahead>,
    pub counters: Box<Counters>,
}

/// Checkpoints that all who came in the meantime share.
#[derive(Debug)]
pub(crate) struct Runs {
    pub is_running: bool,
    /// How many have begun.
    pub begun: u64,
    /// How many have ended, and how the last one went.
    pub ended: u64,
    pub last: Result<()>,
}

impl Default for Runs {
    fn default() -> Self {
        Self { is_running: false, begun: 0, ended: 0, last: Ok(()) }
    }
}

/// The work that background threads wait for.
#[derive(Debug, Default)]
pub(crate) struct BackgroundWork {
    pub stop: bool,
    pub checkpoint_due: bool,
    /// Somebody wants checkpoints to be over soon.
    pub nudged: bool,
}

impl Inner {
    /// Stops all writing for good because of `error`, and says so. That the file was abandoned is no failure: nothing
    /// of the running epoch becomes durable as it is.
    #[cold]
    pub(crate) fn poison(&self, error: Error) -> Error {
        let is_abandoned = self.barrier.load(Ordering::SeqCst) & ABANDONED != 0;
        if is_abandoned && matches!(error, Error::Closed) {
            return error;
        }
        let mut cause = lock(&self.cause);
        let is_first = !cause.is_set;
        if let (true, Some(place)) = (is_first, Arc::get_mut(&mut cause.error)) {
            *place = error;
            cause.is_set = true;
        }
        let first = cause.error.clone();
        self.barrier.fetch_or(POISONED, Ordering::SeqCst);
        drop(cause);
        self.wake_waiters();
        self.bounds.let_go();
        self.wake.notify_all();
        self.wake_keeper(true);
        if is_first {
            observe::stopped(&self.uuid, &first);
        }
        Error::Poisoned { cause: first }
    }

    /// Has whoever keeps the journal short look around, now or in a while.
    pub(crate) fn wake_keeper(&self, soon: bool) {
        match self.keeper.get() {
            Some(keeper) if soon => keeper.wake(),
            Some(keeper) => keeper.wake_in(KEEPER_REST),
            None => {}
        }
    }

    pub(crate) fn poisoned(&self) -> Option<Error> {
        if self.barrier.load(Ordering::SeqCst) & POISONED == 0 {
            return None;
        }
        Some(Error::Poisoned { cause: lock(&self.cause).error.clone() })
    }

    /// Whether anything may be written, to memory or to disk.
    #[cold]
    pub(crate) fn check_writable(&self) -> Result<()> {
        if self.life.is_forked() {
            return Err(Error::Forked);
        }
        let barrier = self.barrier.load(Ordering::SeqCst);
        if let Some(error) = self.poisoned() {
            return Err(error);
        }
        if barrier & READ_ONLY != 0 {
            return Err(Error::ReadOnly);
        }
        if barrier & ABANDONED != 0 {
            return Err(Error::Closed);
        }
        Ok(())
    }

    /// Gives the locks back at once, whatever handles live on. The file has been abandoned: those who wrote
    /// before have ended, and nobody begins.
    pub(crate) fn release(&self) {
        let alone = self.writing.write().unwrap_or_else(PoisonError::into_inner);
        let is_first = self.life.check().is_ok();
        self.life.end();
        // A lock that cannot be given back ends with the file.
        let _ = self.data.unlock();
        drop(alone);
        if is_first {
            observe::closed(&self.uuid);
        }
    }

    /// Whether something may be written; if so, nobody [releases](Self::release) the files meanwhile.
    pub(crate) fn begin_write(&self) -> Result<RwLockReadGuard<'_, ()>> {
        // Before the lock, which may be nobody's after a fork.
        self.life.check()?;
        let writing = self.writing.read().unwrap_or_else(PoisonError::into_inner);
        self.check_writable()?;
        Ok(writing)
    }

    pub(crate) fn places(&self) -> RwLockReadGuard<'_, Places> {
        self.places.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn places_mut(&self) -> RwLockWriteGuard<'_, Places> {
        self.places.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes to the file; a failure poisons.
    pub(crate) fn write_data(&self, bytes: &[u8], offset: u64, what: &str) -> Result<()> {
        debug_assert!(
            offset >= FIRST_IMAGE || bytes.len() == SUPER_BYTES,
            "only superblocks are written in front"
        );
        debug_assert!(offset.is_multiple_of(SECTOR), "a write at byte {offset}");
        let _writing = self.begin_write()?;
        self.data.write_at(bytes, offset).map_err(|e| self.poison(Error::io(what, e)))
    }

    /// Makes the file durable; a failure poisons.
    pub(crate) fn sync_data(&self, what: &str) -> Result<()> {
        let _writing = self.begin_write()?;
        let _one = lock(&self.data_sync);
        self.check_writable()?;
        self.data.sync_data().map_err(|e| self.poison(Error::io(what, e)))
    }

    /// Changes the superblock and makes it durable, together with all that was written before: first
    /// over the older copy and then over the other one, so that either may be damaged later.
    pub(crate) fn write_super(&self, change: impl FnOnce(&mut Super)) -> Result<()> {
        let mut current = lock(&self.superblock);
        let mut next = current.clone();
        change(&mut next);
        debug_assert!(next.uuid == current.uuid && next.slots == current.slots);
        debug_assert!(next.open_generation >= current.open_generation);
        debug_assert!(!next.unborn, "a pool that is open has its name");
        for _ in 0..2 {
            next.counter += 1;
            debug_assert!(next.copy() != current.copy(), "the current copy is not written over");
            let at = next.copy() * SUPER_BYTES as u64;
            self.write_data(&next.encode(), at, "writing the superblock")?;
            self.sync_data("syncing the superblock")?;
            *current = next.clone();
        }
        self.counters.opens.store(current.open_generation, Ordering::Relaxed);
        Ok(())
    }

    /// Whether changes of a journal still wait for their page to be fetched.
    pub(crate) fn pending(&self) -> Option<PageNo> {
        if !self.replaying.load(Ordering::Acquire) {
            return None;
        }
        let replay = self.replay.read().unwrap_or_else(PoisonError::into_inner);
        replay.as_ref().and_then(|r| r.pending())
    }
}

/// An allocation of this many bytes may end the process if there is no memory: handles are made so.
// With debug assertions locks are larger.
#[cfg(not(debug_assertions))]
const _: () = assert!(size_of::<Inner>() <= 1920, "what only some opens need belongs in a box");
