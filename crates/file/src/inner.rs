//! What the handle, its ticker thread and its checkpoints share.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use everleaf_pmem::epoch::Epochs;
use everleaf_pmem::error::{Error, Result};
use everleaf_pmem::life::Life;
use everleaf_pmem::page::PageNo;
use everleaf_pmem::region::Region;
use everleaf_pmem::sync::lock_plain as lock;

use crate::barrier::{ABANDONED, POISONED, READ_ONLY};
use crate::bounds::WriteBounds;
use crate::double::TornHomes;
use crate::format::{DOUBLE_OFFSET, SUPER_BYTES, Super};
use crate::io::IoFile;
use crate::journal::HEADER_BYTES;
use crate::replay::Replay;
use crate::slots::{Need, SlotChanges};
use crate::warm::Warmth;

/// One journal file in use.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct JournalState {
    pub generation: u64,
    /// Byte where the next block goes; 0 while the file has no header.
    pub end: u64,
    /// Bytes that the file has and that need no metadata when they are written over.
    pub len: u64,
    /// What the superblock says of the first block; see [`Super::first_link`].
    pub first_link: u64,
    /// Recovery needs what is in it.
    pub busy: bool,
}

/// What only the leader of a commit touches.
#[derive(Debug, Default)]
pub(crate) struct Commit {
    pub active: usize,
    pub files: [JournalState; 2],
    /// This open has announced itself in the superblock and may append.
    pub started: bool,
    /// The crc of the last block.
    pub link: u32,
    /// The last epoch that was closed, if it is not durable for want of memory. Its records are in
    /// `spares`.
    pub closed: Option<u64>,
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
    pub checkpoints: AtomicU64,
    pub pages_written: AtomicU64,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub region: Region,
    pub warmth: Warmth,
    pub data: Box<dyn IoFile>,
    /// Serialises syncs of the data file: the system reports a failed write-back to one caller
    /// only, and the others must not take its absence for success.
    pub data_sync: Mutex<()>,
    pub journals: [Option<Box<dyn IoFile>>; 2],
    pub journal_bound: u64,
    pub bounds: WriteBounds,
    pub interval: Duration,
    pub life: Life,
    /// Shared by whoever writes to a file, and not with who gives the locks back.
    pub writing: RwLock<()>,
    pub fresh: bool,

    pub barrier: AtomicU32,
    pub cause: Mutex<Cause>,
    /// What each step may note.
    pub need: Need,
    pub epochs: Epochs<SlotChanges>,
    /// The epoch of the last durable block; 0 = this open knows of none.
    pub last_block: AtomicU64,
    pub extents: AtomicBool,

    pub commit: Mutex<Commit>,
    pub superblock: Mutex<Super>,
    pub checkpointing: Mutex<u64>,
    pub runs: Mutex<Runs>,
    pub ran: Condvar,
    /// Who wants a checkpoint to be over soon.
    pub callers: AtomicU32,
    pub pages_end: AtomicU64,

    pub replaying: AtomicBool,
    pub replay: RwLock<Option<Arc<Replay>>>,
    /// Pages that fetch has changed and that no checkpoint has written yet.
    pub recovered: Mutex<Vec<PageNo>>,
    /// Images that take the place of torn pages in a read-only open.
    pub images: TornHomes,

    pub work: Mutex<BackgroundWork>,
    pub wake: Condvar,
    pub tick: Condvar,
    /// The ticker should not wait for the end of the interval.
    pub hurry: AtomicBool,
    pub counters: Counters,
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

/// What the background threads wait for.
#[derive(Debug, Default)]
pub(crate) struct BackgroundWork {
    pub stop: bool,
    pub checkpoint_due: bool,
    /// Somebody wants the waiter to look around.
    pub nudged: bool,
}

impl Inner {
    /// Stops all writing for good because of `error`, and says so.
    #[cold]
    pub(crate) fn poison(&self, error: Error) -> Error {
        let mut cause = lock(&self.cause);
        if let (false, Some(place)) = (cause.is_set, Arc::get_mut(&mut cause.error)) {
            *place = error;
            cause.is_set = true;
        }
        let first = cause.error.clone();
        self.barrier.fetch_or(POISONED, Ordering::SeqCst);
        drop(cause);
        self.epochs.wake();
        self.bounds.let_go();
        self.wake.notify_all();
        Error::Poisoned { cause: first }
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

    /// Gives the locks back at once, whatever handles live on. The file has been abandoned: who wrote
    /// before has ended, and nobody begins.
    pub(crate) fn release(&self) {
        let _alone = self.writing.write().unwrap_or_else(PoisonError::into_inner);
        self.life.end();
        for file in self.journals.iter().flatten().chain([&self.data]) {
            // A lock that cannot be given back ends with the file.
            let _ = file.unlock();
        }
    }

    /// Whether something may be written; if so, nobody [releases](Self::release) the files meanwhile.
    fn begin_write(&self) -> Result<RwLockReadGuard<'_, ()>> {
        // Before the lock, which may be nobody's after a fork.
        self.life.check()?;
        let writing = self.writing.read().unwrap_or_else(PoisonError::into_inner);
        self.check_writable()?;
        Ok(writing)
    }

    /// Writes to the data file; a failure poisons.
    pub(crate) fn write_data(&self, bytes: &[u8], offset: u64, what: &str) -> Result<()> {
        debug_assert!(
            offset >= DOUBLE_OFFSET || bytes.len() == SUPER_BYTES,
            "only superblocks are written in front"
        );
        let _writing = self.begin_write()?;
        self.data.write_at(bytes, offset).map_err(|e| self.poison(Error::io(what, e)))
    }

    /// Makes the data file durable; a failure poisons.
    pub(crate) fn sync_data(&self, what: &str) -> Result<()> {
        let _writing = self.begin_write()?;
        let _one = lock(&self.data_sync);
        self.check_writable()?;
        self.data.sync_data().map_err(|e| self.poison(Error::io(what, e)))
    }

    pub(crate) fn journal(&self, i: usize) -> Result<&dyn IoFile> {
        self.journals[i].as_deref().ok_or(Error::ReadOnly)
    }

    pub(crate) fn write_journal(&self, i: usize, bytes: &[u8], offset: u64) -> Result<()> {
        debug_assert!(
            offset >= HEADER_BYTES || offset + bytes.len() as u64 <= HEADER_BYTES,
            "a header and a block in one write"
        );
        let _writing = self.begin_write()?;
        let file = self.journal(i)?;
        file.write_at(bytes, offset).map_err(|e| self.poison(Error::io("writing the journal", e)))
    }

    pub(crate) fn sync_journal(&self, i: usize) -> Result<()> {
        let _writing = self.begin_write()?;
        let file = self.journal(i)?;
        file.sync_data().map_err(|e| self.poison(Error::io("syncing the journal", e)))
    }

    pub(crate) fn cut_journal(&self, i: usize, bytes: u64) -> Result<()> {
        let _writing = self.begin_write()?;
        let file = self.journal(i)?;
        file.set_len(bytes).map_err(|e| self.poison(Error::io("cutting the journal", e)))
    }

    /// Changes the superblock and makes it durable, together with all pages written before.
    pub(crate) fn write_super(&self, change: impl FnOnce(&mut Super)) -> Result<()> {
        self.put_super(change, || self.sync_data("syncing the superblock"))
    }

    /// Writes the superblock again, over the older copy, so that either may be damaged. It need not
    /// be durable before the next sync of the data file, without which no superblock is written.
    pub(crate) fn repeat_super(&self) -> Result<()> {
        self.put_super(|_| (), || Ok(()))
    }

    fn put_super(
        &self,
        change: impl FnOnce(&mut Super),
        sync: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let mut current = lock(&self.superblock);
        let mut next = current.clone();
        change(&mut next);
        next.counter += 1;
        debug_assert!(next.copy() != current.copy(), "the current copy is not written over");
        debug_assert!(next.uuid == current.uuid && next.slots == current.slots);
        debug_assert!(next.open_generation >= current.open_generation);
        debug_assert!(!next.unborn, "a pool that is open has its name");
        let at = next.copy() * SUPER_BYTES as u64;
        self.write_data(&next.encode(), at, "writing the superblock")?;
        sync()?;
        *current = next;
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
