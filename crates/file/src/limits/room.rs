//! Writers for whom there is no room, on the disk or in memory.
//!
//! **The disk is full.** A checkpoint or a large value without room is an error of that call. If the journal cannot
//! grow, acknowledged writes stay in memory: an epoch that was to end has been cut and waits for its blocks, and one
//! that was spilled continues. From then on a write that adds something first tries again to write those blocks, and
//! returns the error of the disk if that fails. So nothing has to be opened again once there is room, and memory does not
//! fill meanwhile. Deletes are still accepted. In a file that [has room before it needs it](super::ready) only a long batch
//! comes here.
//!
//! **The running epoch is too large.** Pages that it has changed cannot leave memory before it has ended.
//! Where a thread ends epochs, writers wait for a checkpoint ([`crate::limits::bounds`]); where the program does, the
//! writer makes [one](crate::checkpoint::ahead) in the midst of the epoch, and is refused if that fails.
//!
//! A batch is never refused half-way: it asks before its first change.

use std::io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
use std::sync::atomic::Ordering;
use std::time::Duration;

use everleaf_pmem::error::{Error, Result};

use everleaf_pmem::sync::{lock_plain as lock, wait_timeout};

use crate::epochs::barrier::{CROWDED, NO_ROOM};
use crate::inner::Inner;

/// After so long it is looked again whether pages have been written.
const A_WHILE: Duration = Duration::from_millis(5);

/// Whether a write failed because the disk is full, so that nothing but room is lost.
pub(crate) fn is_full(e: &std::io::Error) -> bool {
    matches!(e.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}

/// Whether an error says that the disk is full: then nothing has changed, and what removes is still accepted.
pub fn is_want_of_room(error: &Error) -> bool {
    matches!(error, Error::Io { source, .. } if is_full(source))
}

impl Inner {
    /// Writes to where nothing is that anybody needs. A full disk is an error of this call only; another
    /// failure poisons.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Poisoned`].
    pub(crate) fn write_free(&self, bytes: &[u8], at: u64, what: &str) -> Result<()> {
        let _writing = self.begin_write()?;
        self.data.write_at(bytes, at).map_err(|e| match is_full(&e) {
            true => Error::io(what, e),
            false => self.poison(Error::io(what, e)),
        })?;
        self.length.fetch_max(at + bytes.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    /// Whether records of an epoch could be written: the next caller tries it again if not.
    pub(crate) fn note_room<T>(&self, written: &Result<T>) {
        match written {
            Ok(_) if self.barrier.load(Ordering::Relaxed) & NO_ROOM != 0 => {
                self.barrier.fetch_and(!NO_ROOM, Ordering::SeqCst);
            }
            Err(error) if is_want_of_room(error) => {
                self.barrier.fetch_or(NO_ROOM, Ordering::SeqCst);
            }
            _ => {}
        }
    }

    /// Memory has no more room for pages that were changed: has a checkpoint write them, also those of the running
    /// epoch. To be called with no latch in hand.
    #[cold]
    pub(crate) fn relieve(&self) {
        // One that ran may have helped; others go on meanwhile. The caller that is to be told of a failure meets it.
        while self.bounds.crowd().is_some() && self.wait_for_run() && self.checkpoint().is_ok() {}
        if self.bounds.crowd().is_none() {
            self.barrier.fetch_and(!CROWDED, Ordering::SeqCst);
        }
    }

    /// Waits while a checkpoint runs and pages that were changed are too many. Says whether they are afterwards.
    fn wait_for_run(&self) -> bool {
        self.callers.fetch_add(1, Ordering::SeqCst);
        drop(lock(&self.work));
        self.wake.notify_all();
        let mut runs = lock(&self.runs);
        while runs.is_running && self.bounds.crowd().is_some() {
            runs = wait_timeout(&self.ran, &self.runs, runs, A_WHILE);
        }
        drop(runs);
        self.callers.fetch_sub(1, Ordering::SeqCst);
        self.bounds.crowd().is_some()
    }

    /// Looks again for room, on the disk and in memory, for a writer that is in no batch.
    ///
    /// # Errors
    /// Why there is none.
    #[cold]
    pub(crate) fn expect_room(&self, adds: bool) -> Result<()> {
        let barrier = self.barrier.load(Ordering::SeqCst);
        if barrier & NO_ROOM != 0 {
            let (durable, running) = self.epochs.peek();
            let cut = durable + 1;
            let tried = if cut < running { self.wait_durable(cut) } else { self.spill() };
            match tried {
                Err(error) if adds && is_want_of_room(&error) => return Err(error),
                // The caller that is to be told of another failure meets it.
                _ => {}
            }
        }
        if barrier & CROWDED != 0 {
            if self.ahead.is_manual {
                self.relieve();
            }
            if let Some((pages, most)) = self.bounds.crowd() {
                let bytes = |pages: u64| pages * self.residents.page_bytes;
                return Err(Error::EpochTooLarge { bytes: bytes(pages), bytes_max: bytes(most) });
            }
            self.barrier.fetch_and(!CROWDED, Ordering::SeqCst);
        }
        Ok(())
    }
}
