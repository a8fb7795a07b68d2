//! How an epoch becomes durable, once the clock has cut it. Persist order of a commit:
//!
//! 1. large values written since the last commit (data file), because the block may link them;
//! 2. the block of the epoch. Its checksum commits it: after a crash before the sync it is there or
//!    not there, and nobody has been told either way.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use crate::epoch::{self, Hold, Inside, Torn};
use crate::error::{Error, Result};
use crate::room;
use crate::schedule::pause;

use super::inner::{CLOSED, Commit, Inner, JournalState, POISONED, SLEEP_SHIFT, Work, lock};
use super::journal::{BLOCK_ALIGN, BLOCK_HEAD, HEADER_BYTES, Header, Key, next_block};
use super::layout::first_link;
use super::slots::{Changes, Op};

/// Bytes in one slot's buffer above which the epoch ends early.
const SLOT_SOFT_BYTES: usize = 4 << 20;
/// Bytes in one slot's buffer above which a step waits a little for the journal.
const SLOT_HARD_BYTES: usize = 16 << 20;

/// The most memory that is kept for the next block.
const BLOCK_KEPT_BYTES: usize = 64 << 20;

/// Puts the records of a closed epoch in a row, behind room for a block's head and before room for
/// the zeros that follow it.
fn gather(commit: &mut Commit) -> Result<()> {
    let Commit { block, spares, .. } = commit;
    let payload: usize = spares.iter().map(Vec::len).sum();
    block.clear();
    room::more(block, BLOCK_HEAD + payload + BLOCK_ALIGN as usize, "the block of an epoch")?;
    block.resize(BLOCK_HEAD, 0);
    for spare in spares {
        block.extend_from_slice(spare);
        spare.clear();
        if spare.capacity() > SLOT_HARD_BYTES {
            *spare = Vec::new();
        }
    }
    Ok(())
}

impl Inner {
    pub(super) fn hold(&self) -> Hold<'_> {
        self.pace();
        self.epochs.hold()
    }

    /// Waits a little if the journal is over its bound, or if much waits for it.
    #[inline]
    pub(super) fn pace(&self) {
        let barrier = self.barrier.load(Ordering::Relaxed);
        if barrier >> SLEEP_SHIFT != 0 || self.crowded.load(Ordering::Relaxed) != 0 {
            self.pace_slowly(barrier);
        }
    }

    #[cold]
    fn pace_slowly(&self, barrier: u32) {
        if !epoch::holding() && barrier & (CLOSED | POISONED) == 0 {
            let wait_us = (barrier >> SLEEP_SHIFT).max(self.crowded.load(Ordering::Relaxed));
            if !pause() {
                thread::sleep(Duration::from_micros(u64::from(wait_us)));
            }
        }
    }

    #[inline]
    pub(super) fn enter(&self) -> Result<Op<'_>> {
        let Ok((slot, epoch)) = self.epochs.enter() else { return Err(self.torn()) };
        // Under the lock: whoever closes or poisons the file and then locks this slot either waits
        // for this step or is seen by it.
        let barrier = self.barrier.load(Ordering::SeqCst);
        if barrier & ((1 << SLEEP_SHIFT) - 1) != 0 {
            drop(slot);
            return Err(self.refusal(barrier));
        }
        let mut op = Op { slot, epoch };
        op.make_room(self.need)?;
        if op.slot.bufs[(op.epoch & 1) as usize].len() >= SLOT_SOFT_BYTES {
            self.crowd(&op);
        }
        Ok(op)
    }

    #[cold]
    pub(super) fn enter_for(&self, changes: usize) -> Result<Op<'_>> {
        let mut op = self.enter()?;
        op.make_room(self.need.with(changes))?;
        Ok(op)
    }

    /// Much waits for the journal: hurries the ticker; and if that does not help, slows down those
    /// who come next, the more the more there is.
    #[cold]
    fn crowd(&self, op: &Op<'_>) {
        let bytes = op.slot.bufs[(op.epoch & 1) as usize].len();
        if !self.hurry.swap(true, Ordering::Relaxed) {
            self.tick.notify_one();
        }
        if let Some(excess) = bytes.checked_sub(SLOT_HARD_BYTES) {
            let wait_us = 20 + (480 * excess / SLOT_HARD_BYTES).min(480);
            self.crowded.store(wait_us as u32, Ordering::Relaxed);
        }
    }

    /// Why no step may begin.
    #[cold]
    fn refusal(&self, barrier: u32) -> Error {
        match self.check_writable() {
            Err(error) if barrier & CLOSED == 0 => error,
            _ => Error::Closed,
        }
    }

    #[cold]
    pub(super) fn torn(&self) -> Error {
        self.poison(Torn.into())
    }

    /// Waits until `epoch` is durable, as leader of a commit if there is none.
    pub(super) fn wait_durable(&self, epoch: u64) -> Result<()> {
        self.epochs.wait_durable(epoch, || self.check_writable(), || self.commit_now())
    }

    /// Ends the running epoch and makes it durable. Only the leader comes here, or the last owner.
    pub(super) fn commit_now(&self) -> Result<()> {
        let mut commit = lock(&self.commit);
        self.check_writable()?;
        let epoch = match commit.closed.take() {
            Some(epoch) => epoch,
            None => self.close_epoch(&mut commit)?,
        };
        // Again: a step or a batch that was waited for may have poisoned the file.
        self.check_writable()?;
        if let Err(error) = gather(&mut commit) {
            // No record is lost: the next commit goes on from here.
            commit.closed = Some(epoch);
            return Err(error);
        }
        // After the epoch is closed: what it links was written, and flagged, before it was linked.
        if self.extents.swap(false, Ordering::AcqRel) {
            self.start(&mut commit)?;
            self.sync_data("syncing large values")?;
        }
        if commit.block.len() > BLOCK_HEAD {
            self.start(&mut commit)?;
            self.append(&mut commit, epoch)?;
            self.counters.commits.fetch_add(1, Ordering::Relaxed);
        }
        self.epochs.publish(epoch);
        self.measure(&commit);
        Ok(())
    }

    /// Ends the running epoch and takes its records. Needs no memory.
    fn close_epoch(&self, commit: &mut Commit) -> Result<u64> {
        let spares = &mut commit.spares;
        let take = |epoch: u64, i: usize, mut slot: Inside<'_, Changes>| {
            let buf = &mut slot.bufs[(epoch & 1) as usize];
            if !buf.is_empty() {
                std::mem::swap(buf, &mut spares[i]);
            }
        };
        self.epochs.close(take).map_err(|_| self.torn())
    }

    /// Announces this open on disk, before the first block: a journal header, and a superblock that
    /// is no longer clean. A crash between the two leaves a clean pool and an empty journal.
    pub(super) fn start(&self, commit: &mut Commit) -> Result<()> {
        if commit.started {
            return Ok(());
        }
        // What an earlier process wrote and did not live to sync must not be overtaken: the copy of
        // the superblock that was read, for the other one and the journal that it names are
        // overwritten now; and homes of pages, for the double-write area is overwritten later.
        self.sync_data("syncing the superblock")?;
        let i = commit.active;
        if commit.files[i].end == 0 {
            // The pool was closed. Journals that are not empty all the same are of another history:
            // of a copy of the data file, say, that was put back.
            for k in 0..2 {
                if commit.files[k].len > 0 {
                    self.cut_journal(k, 0)?;
                    self.sync_journal(k)?;
                    commit.files[k].len = 0;
                }
            }
            let generation = commit.files[i].generation;
            commit.files[i] = self.write_header(i, generation, 0)?;
            commit.files[i].first_link = first_link(commit.link);
        }
        let files = commit.files;
        self.write_super(|s| {
            s.clean = false;
            s.open_generation += 1;
            s.first_batch = s.open_generation << 32;
            s.last_block = self.last_block.load(Ordering::Acquire);
            // What recovery has kept is durable by now.
            if let Some(first) = files.iter().find(|f| f.generation == s.journal_generation) {
                (s.journal_floor, s.first_link) = (first.end, first.first_link);
            }
        })?;
        commit.started = true;
        Ok(())
    }

    /// Begins a generation in a journal file that nothing needs any more. Of the generation before,
    /// `floor` bytes are durable.
    pub(super) fn write_header(
        &self,
        i: usize,
        generation: u64,
        floor: u64,
    ) -> Result<JournalState> {
        let uuid = lock(&self.superblock).uuid;
        let first_epoch = self.epochs.now().saturating_sub(1);
        let header = Header { uuid, generation, first_epoch, floor };
        self.write_journal(i, &header.encode(), 0)?;
        let len = self
            .journal(i)?
            .len()
            .map_err(|e| self.poison(Error::io("reading the length of the journal", e)))?;
        self.sync_journal(i)?;
        Ok(JournalState { generation, end: HEADER_BYTES, len, first_link: 0, busy: true })
    }

    /// Writes the gathered block and makes it durable. Where the file ends, zeros are written ahead
    /// together with the block, so that the next syncs find no metadata to write.
    fn append(&self, commit: &mut Commit, epoch: u64) -> Result<()> {
        let Commit { active, files, block, link, .. } = commit;
        let file = &mut files[*active];
        let uuid = lock(&self.superblock).uuid;
        let end = next_block(file.end, (block.len() - BLOCK_HEAD) as u64);
        *link = Key::new(&uuid, file.generation).seal(block, epoch, *link);
        let mut len = file.len;
        if end > len {
            let least = (self.journal_bound / 256).clamp(BLOCK_ALIGN, 1 << 20);
            let most = (self.journal_bound / 32).clamp(BLOCK_ALIGN, 8 << 20);
            len = (end + len.clamp(least, most)).next_multiple_of(BLOCK_ALIGN);
            let zeros = (len - file.end) as usize - block.len();
            if room::more(block, zeros, "zeros ahead of the journal").is_err() {
                len = end;
            }
            block.resize((len - file.end) as usize, 0);
        } else {
            block.resize((end - file.end) as usize, 0);
        }
        self.write_journal(*active, block, file.end)?;
        self.sync_journal(*active)?;
        self.last_block.store(epoch, Ordering::Release);
        self.counters.journal_bytes.fetch_add(end - file.end, Ordering::Relaxed);
        (file.end, file.len) = (end, len);
        if block.capacity() > BLOCK_KEPT_BYTES {
            *block = Vec::new();
        }
        Ok(())
    }

    /// Sets back-pressure, and calls for a checkpoint, by how full the journal is.
    pub(super) fn measure(&self, commit: &Commit) {
        let busy: u64 = commit.files.iter().filter(|f| f.busy).map(|f| f.end).sum();
        let sleep_us = match busy.checked_sub(self.journal_bound) {
            None | Some(0) => 0,
            Some(excess) => 20 + (480 * excess / self.journal_bound.max(1)).min(480),
        };
        let flags = (1 << SLEEP_SHIFT) - 1;
        let _ = self.barrier.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |b| {
            Some((b & flags) | (sleep_us as u32) << SLEEP_SHIFT)
        });
        self.crowded.store(0, Ordering::Relaxed);
        let due = commit.files[commit.active].end > self.journal_bound / 2;
        let mut work = lock(&self.work);
        if due != work.checkpoint_due {
            work.checkpoint_due = due;
            self.wake.notify_all();
        }
    }

    /// The ticker: ends an epoch each interval, until told to stop.
    pub(super) fn tick_on(&self) {
        let mut work = lock(&self.work);
        while !work.stop {
            let idle = |w: &mut Work| !w.stop && !self.hurry.load(Ordering::Relaxed);
            let (woken, _) = self
                .tick
                .wait_timeout_while(work, self.interval, idle)
                .unwrap_or_else(PoisonError::into_inner);
            self.hurry.store(false, Ordering::Relaxed);
            drop(woken);
            // A failure has poisoned the handle and is told to whoever writes or syncs next.
            let _ = self.wait_durable(self.epochs.now());
            work = lock(&self.work);
        }
    }
}
