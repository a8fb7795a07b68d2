//! How an epoch becomes durable, once the clock has cut it. Persist order of a commit:
//!
//! 1. large values written since the last commit (data file), because the block may link them;
//! 2. the block of the epoch. Its checksum commits it: after a crash before the sync it is there or
//!    not there, and nobody has been told either way.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::Instant;

use everleaf_pmem::epoch::{self, EpochPin, EpochTorn, SLOTS, SlotGuard};
use everleaf_pmem::error::{Error, Result};
use everleaf_pmem::fallible;
use everleaf_pmem::rules::{self, Stepping};
use everleaf_pmem::sync::lock_plain as lock;

use crate::barrier::{CLOSED, FULL};
use crate::bounds::TELL_BYTES;
use crate::format::first_link;
use crate::inner::{BackgroundWork, Commit, Inner, JournalState};
use crate::journal::{
    BLOCK_ALIGN, BLOCK_HEAD, BlockKey, HEAD_BYTES, HEADER_BYTES, IDLE_BYTES, JournalHeader, birth,
    next_block,
};
use crate::slots::{FileOp, SlotChanges, shrink};

/// Zeros that are written ahead of the journal's end at once, at most: who waits for the block waits
/// for them, too.
const AHEAD_BYTES: u64 = 1 << 20;

/// Puts the records of a closed epoch in a row, behind room for a block's head and before room for
/// the zeros that follow it.
fn gather(commit: &mut Commit) -> Result<()> {
    let Commit { block, spares, .. } = commit;
    let payload: usize = spares.iter().map(Vec::len).sum();
    let bytes = BLOCK_HEAD + payload + BLOCK_ALIGN as usize;
    block.clear();
    if block.capacity() < bytes {
        // Rather than copy what is not needed.
        *block = Vec::new();
    }
    fallible::just(block, bytes, "the block of an epoch")?;
    block.resize(BLOCK_HEAD, 0);
    for spare in spares {
        block.extend_from_slice(spare);
        let used = spare.len();
        spare.clear();
        shrink(spare, used);
    }
    Ok(())
}

impl Inner {
    pub(crate) fn pin_epoch(&self) -> EpochPin<'_> {
        self.throttle();
        self.epochs.pin_epoch()
    }

    /// Waits for a turn while there is no room for what would be noted. See [`crate::bounds`].
    #[inline]
    pub(crate) fn throttle(&self) {
        debug_assert!(rules::holds_no_latch(), "who waits here keeps others from a page");
        if self.barrier.load(Ordering::Relaxed) != 0 {
            self.pace_slowly();
        }
    }

    #[cold]
    fn pace_slowly(&self) {
        let stopped = self.barrier.load(Ordering::Relaxed) & (FULL - 1) != 0;
        // Everybody's epoch waits for a batch. In a child of the process nobody ends epochs.
        if stopped || epoch::epoch_is_pinned() || self.life.is_forked() {
            return;
        }
        let Ok((mut slot, epoch)) = self.epochs.enter() else { return };
        let (last, total) = (slot.turn, slot.total());
        if self.bounds.goes_on(last, total) {
            return;
        }
        self.tell(&mut slot, epoch);
        drop(slot);
        let Some(turn) = self.bounds.wait(last, total, &self.barrier) else { return };
        if let Ok((mut slot, _)) = self.epochs.enter() {
            slot.turn = turn.after(slot.total());
        }
    }

    #[inline]
    pub(crate) fn enter(&self) -> Result<FileOp<'_>> {
        self.life.check()?;
        debug_assert!(!rules::is_in_step(), "a thread that waits for its own step waits for ever");
        let Ok((slot, epoch)) = self.epochs.enter() else { return Err(self.torn()) };
        // Under the lock: whoever closes or poisons the file and then locks this slot either waits
        // for this step or is seen by it.
        let barrier = self.barrier.load(Ordering::SeqCst);
        if barrier & (FULL - 1) != 0 {
            drop(slot);
            return Err(self.refusal(barrier));
        }
        let mut op = FileOp { slot, epoch, _step: Stepping::begin() };
        op.make_room(self.need)?;
        let i = (op.epoch & 1) as usize;
        if op.slot.bufs[i].len() >= op.slot.told[i] + TELL_BYTES {
            self.tell(&mut op.slot, op.epoch);
        }
        Ok(op)
    }

    #[cold]
    pub(crate) fn enter_for(&self, changes: usize) -> Result<FileOp<'_>> {
        let mut op = self.enter()?;
        op.make_room(self.need.with(changes))?;
        Ok(op)
    }

    /// Says how much a slot holds, and hurries the ticker if it is much altogether.
    #[cold]
    fn tell(&self, slot: &mut SlotChanges, epoch: u64) {
        let i = (epoch & 1) as usize;
        debug_assert!(slot.told[i] <= slot.bufs[i].len(), "more is known of than there is");
        let more = slot.bufs[i].len() - slot.told[i];
        slot.told[i] += more;
        if self.bounds.note(epoch, more) && !self.hurry.swap(true, Ordering::Relaxed) {
            self.tick.notify_one();
        }
        self.bounds.look(&self.barrier);
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
    pub(crate) fn torn(&self) -> Error {
        self.poison(EpochTorn.into())
    }

    /// Waits until `epoch` is durable, as leader of a commit if there is none.
    pub(crate) fn wait_durable(&self, epoch: u64) -> Result<()> {
        self.life.check()?;
        self.epochs.wait_durable(epoch, || self.check_writable(), || self.commit_now())
    }

    /// Ends the running epoch and makes it durable. Only the leader comes here, or the last owner.
    pub(crate) fn commit_now(&self) -> Result<()> {
        let committed = self.commit_epoch();
        if committed.is_err() {
            // For want of memory, say, which they will meet themselves.
            self.bounds.let_go();
        }
        committed
    }

    fn commit_epoch(&self) -> Result<()> {
        let mut commit = lock(&self.commit);
        self.check_writable()?;
        let epoch = match commit.closed.take() {
            Some(epoch) => epoch,
            None => self.close_epoch(&mut commit)?,
        };
        debug_assert!(epoch == self.epochs.peek().0 + 1, "epochs become durable in order");
        debug_assert!(epoch < self.epochs.peek().1, "the epoch of running steps");
        // Again: a step or a batch that was waited for may have poisoned the file.
        self.check_writable()?;
        if let Err(error) = gather(&mut commit) {
            // No record is lost: the next commit goes on from here.
            commit.closed = Some(epoch);
            return Err(error);
        }
        debug_assert!(commit.block.len() >= BLOCK_HEAD);
        debug_assert!(commit.spares.iter().all(Vec::is_empty), "a record is in no block");
        let begun = Instant::now();
        let (records, mut large) = (commit.block.len() - BLOCK_HEAD, 0);
        // After the epoch is closed: what it links was written, and flagged, before it was linked.
        if self.extents.swap(false, Ordering::AcqRel) {
            large = self.bounds.large();
            self.start(&mut commit)?;
            self.sync_data("syncing large values")?;
        }
        if records > 0 {
            self.start(&mut commit)?;
            self.append(&mut commit, epoch)?;
            self.counters.commits.fetch_add(1, Ordering::Relaxed);
        }
        debug_assert!(records == 0 || self.last_block.load(Ordering::Relaxed) == epoch);
        shrink(&mut commit.block, records);
        self.bounds.measure(records as u64 + large, begun.elapsed(), self.interval);
        self.epochs.publish(epoch);
        self.count_journal(&commit);
        self.bounds.publish(epoch, large, &self.barrier);
        Ok(())
    }

    /// Ends the running epoch and takes its records. Needs no memory.
    fn close_epoch(&self, commit: &mut Commit) -> Result<u64> {
        debug_assert!(commit.spares.len() == SLOTS, "a list to swap for each slot");
        let spares = &mut commit.spares;
        let take = |epoch: u64, i: usize, mut slot: SlotGuard<'_, SlotChanges>| {
            slot.take(epoch, &mut spares[i]);
        };
        let epoch = self.epochs.close(take).map_err(|_| self.torn())?;
        let used = spares.iter().map(Vec::len).filter(|bytes| *bytes > 0);
        self.bounds.close(epoch, used.clone().sum::<usize>() as u64, used.count() as u64);
        Ok(epoch)
    }

    /// Announces this open on disk, before the first block: a journal header, and a superblock that
    /// is no longer clean. A crash between the two leaves a clean pool and an empty journal.
    pub(crate) fn start(&self, commit: &mut Commit) -> Result<()> {
        if commit.started {
            return Ok(());
        }
        // What an earlier process wrote and did not live to sync must not be overtaken: the copy of
        // the superblock that was read, for the other one and the journal that it names are
        // overwritten now; and homes of pages, for the double-write area is overwritten later.
        self.sync_data("syncing the superblock")?;
        let i = commit.active;
        if commit.files[i].end == 0 {
            // The pool was closed. What journals hold all the same is older, as the open has seen:
            // a crash has kept the close from cutting it.
            for k in 0..2 {
                if commit.files[k].len > HEADER_BYTES {
                    self.cut_journal(k, IDLE_BYTES)?;
                    self.sync_journal(k)?;
                    commit.files[k].len = IDLE_BYTES;
                }
            }
            let generation = commit.files[i].generation;
            commit.files[i] = self.write_header(i, generation, 0)?;
            commit.files[i].first_link = first_link(commit.link);
        }
        // The other one, too, is needed from now on, and its length says so.
        commit.files[1 - i].len = self.lengthen(1 - i)?;
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
        debug_assert!(commit.files[i].busy && commit.files[i].end >= HEADER_BYTES);
        debug_assert!(commit.files[1 - i].len >= HEADER_BYTES);
        commit.started = true;
        Ok(())
    }

    /// Begins a generation in a journal file that nothing needs any more. Of the generation before,
    /// `floor` bytes are durable.
    pub(crate) fn write_header(
        &self,
        i: usize,
        generation: u64,
        floor: u64,
    ) -> Result<JournalState> {
        debug_assert!(floor.is_multiple_of(BLOCK_ALIGN) && generation != 0);
        let uuid = lock(&self.superblock).uuid;
        let first_epoch = self.epochs.now().saturating_sub(1);
        let header = JournalHeader { uuid, generation, first_epoch, floor };
        self.write_journal(i, &header.encode(), 0)?;
        let len = self.lengthen(i)?;
        self.sync_journal(i)?;
        Ok(JournalState { generation, end: HEADER_BYTES, len, first_link: 0, busy: true })
    }

    /// Has a journal file end no earlier than its header, and says where it ends. Never writes over
    /// what says whose the file is.
    fn lengthen(&self, i: usize) -> Result<u64> {
        let len = self
            .journal(i)?
            .len()
            .map_err(|e| self.poison(Error::io("reading the length of the journal", e)))?;
        if len < HEADER_BYTES {
            let uuid = lock(&self.superblock).uuid;
            // An empty one is of an earlier build, which wrote nothing before the first header.
            let from = if len < IDLE_BYTES { HEAD_BYTES } else { IDLE_BYTES as usize };
            self.write_journal(i, &birth(&uuid)[from..], from as u64)?;
            if len < IDLE_BYTES {
                self.sync_journal(i)?;
            }
        }
        const { assert!(HEAD_BYTES < IDLE_BYTES as usize && IDLE_BYTES < HEADER_BYTES) };
        Ok(len.max(HEADER_BYTES))
    }

    /// Writes the gathered block and makes it durable. Where the file ends, zeros are written ahead
    /// together with the block, so that the next syncs find no metadata to write.
    fn append(&self, commit: &mut Commit, epoch: u64) -> Result<()> {
        let Commit { active, files, block, link, .. } = commit;
        let file = &mut files[*active];
        let uuid = lock(&self.superblock).uuid;
        debug_assert!(
            file.busy && file.end >= HEADER_BYTES && file.end.is_multiple_of(BLOCK_ALIGN)
        );
        debug_assert!(block.len() > BLOCK_HEAD, "an epoch without changes has no block");
        debug_assert!(self.last_block.load(Ordering::Relaxed) < epoch, "blocks' epochs rise");
        let end = next_block(file.end, (block.len() - BLOCK_HEAD) as u64);
        *link = BlockKey::new(&uuid, file.generation).seal(block, epoch, *link);
        let mut len = file.len;
        if end > len {
            let least = (self.journal_bound / 256).clamp(BLOCK_ALIGN, AHEAD_BYTES);
            let most = (self.journal_bound / 32).clamp(BLOCK_ALIGN, AHEAD_BYTES);
            len = (end + len.clamp(least, most)).next_multiple_of(BLOCK_ALIGN);
            let zeros = (len - file.end) as usize - block.len();
            if fallible::just(block, zeros, "zeros ahead of the journal").is_err() {
                len = end;
            }
            block.resize((len - file.end) as usize, 0);
        } else {
            block.resize((end - file.end) as usize, 0);
        }
        debug_assert!(file.end + block.len() as u64 == if end > file.len { len } else { end });
        debug_assert!(end <= len && end.is_multiple_of(BLOCK_ALIGN));
        self.write_journal(*active, block, file.end)?;
        self.sync_journal(*active)?;
        self.last_block.store(epoch, Ordering::Release);
        self.counters.journal_bytes.fetch_add(end - file.end, Ordering::Relaxed);
        (file.end, file.len) = (end, len);
        Ok(())
    }

    /// Says how full the journal is, and calls for a checkpoint.
    pub(crate) fn count_journal(&self, commit: &Commit) {
        let busy: u64 = commit.files.iter().filter(|f| f.busy).map(|f| f.end).sum();
        self.bounds.set_journal(busy, &self.barrier);
        // Both files are in use after a crash during a checkpoint, and neither may be long.
        debug_assert!(commit.files.iter().all(|f| !f.busy || f.end >= HEADER_BYTES));
        let half = self.journal_bound / 2;
        let due = commit.files[commit.active].end > half || busy > half + half / 2;
        let mut work = lock(&self.work);
        if due != work.checkpoint_due {
            work.checkpoint_due = due;
            self.wake.notify_all();
        }
    }

    /// The ticker: ends an epoch each interval, until told to stop.
    pub(crate) fn tick_on(&self) {
        let mut work = lock(&self.work);
        while !work.stop {
            let idle = |w: &mut BackgroundWork| !w.stop && !self.hurry.load(Ordering::Relaxed);
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
