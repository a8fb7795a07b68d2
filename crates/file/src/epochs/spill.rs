//! Epochs that are longer than memory should hold of them.
//!
//! Where no thread ends epochs, the program does, whenever it likes. The records of its steps would by then
//! fill memory, and be written all at once. So when the slots hold much of the running epoch, it is *spilled*:
//! a task takes what they hold, step by whole step, and writes that to the journal as blocks which do not end the
//! epoch; or the next writer does, where there is no task or it does not get on. The block that ends it is the last
//! one, and the commit record: a crash before it takes back all of them.
//!
//! ```text
//! slots ──(SPILL_BYTES noted)──> block, piece 0     slots ──> block, piece 1  …  end ──> last piece, sync
//! ```
//!
//! Nothing waits for a spill, but for one that cannot begin: while an epoch that has ended is being synced, the next one
//! stays in memory. A writer that finds a lot there, and has nothing in hand, waits for that sync and spills. When 64
//! times as much has been written, a task syncs that, together with large values, so that the end of the epoch finds
//! little that the disk still has to write. The writer does it where there is no task, or the disk is far behind.
//!
//! The chain of the journal *goes on from* the epoch's first block until the epoch has ended: what a
//! superblock says, and what a backup copies, is [`Chain::whole_end`](crate::inner::Chain::whole_end).
//! Epochs are spilled only when the one before is durable, as each block's head says.

use std::sync::TryLockError;
use std::sync::atomic::Ordering;
use std::time::Instant;

use everleaf_pmem::error::Result;
use everleaf_pmem::locks::MutexGuard;
use everleaf_pmem::sync::lock_plain as lock;

use crate::epochs::barrier::SPILL;
use crate::epochs::slots::shrink;
use crate::inner::{Commit, Inner};
use crate::journal::BLOCK_HEAD;
use crate::observe::{self, Stall};

impl Inner {
    /// Has the running epoch spilled: by the task that syncs it, if there is one, and it gets on.
    ///
    /// # Errors
    /// Those of [`spill`](Self::spill).
    #[cold]
    pub(crate) fn spill_soon(&self) -> Result<()> {
        match self.ahead.syncs.get() {
            Some(task) if !self.spills.is_overdue(self.epochs.peek(), &self.bounds) => {
                // A slot that tells of more from now on asks again.
                self.barrier.fetch_and(!SPILL, Ordering::SeqCst);
                task.wake();
                Ok(())
            }
            _ => self.spill(),
        }
    }

    /// Does, in the task, what [`spill_soon`](Self::spill_soon) has asked for.
    ///
    /// # Errors
    /// Those of [`spill`](Self::spill).
    pub(crate) fn spill_now(&self) -> Result<()> {
        if self.spills.is_due(self.epochs.peek(), &self.bounds) {
            self.try_spill()?;
        }
        self.sync_spilled()
    }

    /// As [`try_spill`](Self::try_spill), by a writer.
    ///
    /// # Errors
    /// Those of it.
    #[cold]
    pub(crate) fn spill(&self) -> Result<()> {
        let begun = Instant::now();
        let spilled = self.try_spill();
        observe::stalled(&self.uuid, Stall::Spill, begun.elapsed());
        spilled
    }

    /// Spills the running epoch, unless somebody ends it just now. After a lack of memory, or of room on the
    /// disk, the epoch goes on with what it has, and a later writer tries again.
    ///
    /// # Errors
    /// Those of writing: another one than that has poisoned the file.
    fn try_spill(&self) -> Result<()> {
        // Not to be waited for: the thread that ends the epoch may wait for a batch of this one.
        let commit = match self.commit.try_lock() {
            Ok(commit) => commit,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return Ok(()),
        };
        // The task sees to what waits for a sync, if there is one, or is at it.
        let waits = self.ahead.syncs.get().is_none() && commit.closed.is_none();
        self.spill_with(commit, waits)
    }

    /// As [`spill`](Self::spill), by a writer that has nothing in hand, if slots hold as much as they may: it waits for
    /// whoever makes the epoch before this one durable. Its errors show again.
    #[cold]
    pub(crate) fn spill_in_turn(&self) {
        if !self.spills.is_too_much(self.epochs.peek(), &self.bounds) {
            return;
        }
        let begun = Instant::now();
        let commit = lock(&self.commit);
        if self.spills.is_too_much(self.epochs.peek(), &self.bounds) {
            let _ = self.spill_with(commit, true);
        }
        observe::stalled(&self.uuid, Stall::Spill, begun.elapsed());
    }

    /// Spills the running epoch, behind what has ended before it: where that is not durable, it becomes so if the caller
    /// `waits`, and else nothing is spilled.
    fn spill_with(&self, mut commit: MutexGuard<'_, Commit>, waits: bool) -> Result<()> {
        // A slot that tells of more from now on asks again.
        self.barrier.fetch_and(!SPILL, Ordering::SeqCst);
        self.check_writable()?;
        let kept = if waits { self.keep_last(&mut commit)? } else { None };
        let mut spilled = Ok(());
        if commit.closed.is_none() && commit.ended.is_none() {
            spilled = self.spill_running(&mut commit);
            self.note_room(&spilled);
        }
        drop(commit);
        self.tell_kept(kept);
        spilled
    }

    fn spill_running(&self, commit: &mut Commit) -> Result<()> {
        let epoch = self.epochs.now();
        debug_assert!(self.epochs.peek().0 + 1 == epoch, "it is not closed without this lock");
        // Records that there was no room for are to be written first.
        let is_left = commit.block.len() > BLOCK_HEAD;
        if is_left || self.spills.is_due(self.epochs.peek(), &self.bounds) {
            self.gather_running(commit, epoch)?;
            let records = commit.block.len().saturating_sub(BLOCK_HEAD);
            if records > 0 {
                self.start(commit)?;
                self.append(commit, epoch, false)?;
                shrink(&mut commit.block, records, self.residents.kept_bytes());
                self.spills.note_spilled(records as u64);
                self.counters.spills.fetch_add(1, Ordering::Relaxed);
                self.count_journal(commit);
            }
        }
        // The task does it after its next spill.
        let has_task = self.ahead.syncs.get().is_some();
        if has_task && !self.spills.is_far_too_loose() { Ok(()) } else { self.sync_spilled() }
    }

    /// Syncs what was spilled, if that is much.
    fn sync_spilled(&self) -> Result<()> {
        if !self.spills.is_loose() {
            return Ok(());
        }
        // Bytes that are written meanwhile may be in this sync, or wait for the next one.
        self.spills.begin_sync();
        self.sync_data("syncing the journal")
    }

    /// Takes what slots hold of the running epoch, behind what is in the block.
    fn gather_running(&self, commit: &mut Commit, epoch: u64) -> Result<()> {
        let (block, kept) = (&mut commit.block, self.residents.kept_bytes());
        if block.is_empty() {
            everleaf_pmem::fallible::more(block, BLOCK_HEAD, "the block of an epoch")?;
            block.resize(BLOCK_HEAD, 0);
        }
        let (before, mut told, mut fits) = (block.len(), 0, Ok(()));
        let visited = self.epochs.visit(|_, mut slot| {
            match slot.spill(epoch, block, (self.spills.tell_bytes(), kept)) {
                Ok(known) => told += known as u64,
                Err(error) => fits = Err(error),
            }
        });
        self.spills.note_taken((block.len() - before) as u64, told);
        visited.map_err(|_| self.torn())?;
        fits
    }
}
