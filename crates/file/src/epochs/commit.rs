//! How an epoch becomes durable, once the clock has cut it: large values that its block may name are
//! written, then the block, in pieces if it is long, and one sync makes all of it durable. After a crash
//! before that the epoch is there or not there, and nobody has been told either way: checksums of the
//! blocks, and those of the values that they name, tell.

use std::sync::atomic::Ordering;
use std::time::Instant;

use everleaf_pmem::epoch::{self, EpochPin, EpochTorn, SLOTS, SlotGuard};
use everleaf_pmem::error::{Error, Result};
use everleaf_pmem::fallible;
use everleaf_pmem::medium::COUNTED_TREES;
use everleaf_pmem::page::PageNo;
use everleaf_pmem::rules::{self, Stepping};
use everleaf_pmem::sync::lock_plain as lock;

use crate::epochs::barrier::{CLOSED, CROWDED, FULL, NO_ROOM, SCANT, SPILL};
use crate::epochs::counts::DurableCounts;
use crate::epochs::slots::{FileOp, SlotChanges, shrink};
use crate::inner::{Chain, Commit, Ended, Inner, Spilled};
use crate::journal::{
    BLOCK_ALIGN, BLOCK_HEAD, BlockFacts, BlockKey, Position, RECORD_HEAD, cut, next_block,
    payload_room,
};
use crate::limits::reserve::Taker;
use crate::limits::room::is_want_of_room;
use crate::observe::{self, EpochEnd, PoolState};
use crate::store::format::EXTENT_BYTES;

/// Zeros that are written ahead of the journal's end at once, at most: a thread that waits for the block waits
/// for them, too.
const AHEAD_BYTES: u64 = 1 << 20;
/// The same for a journal that is almost empty: a new pool takes little of the disk. The more there is, the more
/// zeros.
const AHEAD_LEAST: u64 = 64 << 10;
/// A block of so many bytes has none ahead of it: metadata are little beside it.
const AHEAD_BLOCK: u64 = 64 << 10;

/// Puts the records of a closed epoch in a row, behind room for a block's head and what a spill has
/// left, and before room for the zeros that follow it.
fn gather(commit: &mut Commit, counts: &mut DurableCounts, kept: usize) -> Result<()> {
    let Commit { block, spares, .. } = commit;
    let payload = spares.iter().map(Vec::len).sum::<usize>() + counts.sum_up()?;
    let bytes = BLOCK_HEAD.max(block.len()) + payload + BLOCK_ALIGN as usize;
    if block.is_empty() && block.capacity() < bytes {
        // Rather than copy what is not needed.
        *block = Vec::new();
    }
    fallible::just(block, bytes - block.len(), "the block of an epoch")?;
    if block.is_empty() {
        block.resize(BLOCK_HEAD, 0);
    }
    for spare in spares {
        block.extend_from_slice(spare);
        let used = spare.len();
        spare.clear();
        shrink(spare, used, kept);
    }
    counts.note(block);
    Ok(())
}

/// Records of an epoch that are to be in one block, as far as they fit.
struct Piece {
    /// Where they begin in those that were gathered, of so many bytes.
    at: usize,
    payload: usize,
    epoch: u64,
    /// They are the last ones.
    ends: bool,
    /// How many blocks the epoch has before.
    number: u32,
    generation: u32,
}

/// Has the chain go on in the next extent, which has `taken` as its next one from now on. Says as
/// [`Inner::find_room`] does.
fn go_on(chain: &mut Chain, records: &[u8], taken: u32) -> (u64, usize, u32) {
    let next_extent = chain.next.next_extent;
    if chain.extents.last() != Some(&next_extent) {
        chain.extents.push(next_extent);
    }
    let place = u64::from(next_extent) * EXTENT_BYTES;
    chain.next.next_extent = taken;
    chain.next.place = place;
    (place, cut(records, payload_room(place)), taken)
}

impl Inner {
    pub(crate) fn pin_epoch(&self) -> EpochPin<'_> {
        // A hold cannot be refused; its steps can.
        if self.barrier.load(Ordering::Relaxed) != 0 {
            let _ = self.throttle(false);
        }
        self.epochs.pin_epoch()
    }

    /// Waits for a turn while there is no room for what would be noted, see [`crate::limits::bounds`]; or says
    /// that there is none, see [`crate::limits::room`].
    #[cold]
    pub(crate) fn throttle(&self, adds: bool) -> Result<()> {
        let barrier = self.barrier.load(Ordering::Relaxed);
        // In a child of the process nobody ends epochs.
        if barrier & (FULL - 1) != 0 || self.life.is_forked() {
            return Ok(());
        }
        let is_pinned = epoch::epoch_is_pinned();
        if barrier & (NO_ROOM | CROWDED) != 0 && !is_pinned {
            self.expect_room(adds)?;
        }
        if barrier & SCANT != 0 {
            self.expect_reserve(adds)?;
        }
        if barrier & SPILL != 0 {
            match self.spill_soon() {
                Err(error) if adds && !is_pinned && is_want_of_room(&error) => return Err(error),
                // Other failures have poisoned the file, or show again.
                _ => {}
            }
        }
        if !self.bounds.turns_are_taken {
            self.take_turn();
        }
        Ok(())
    }

    /// Waits for a turn, and refuses nothing.
    #[cold]
    pub(crate) fn take_turn(&self) {
        let barrier = self.barrier.load(Ordering::Relaxed);
        let stops = barrier & (FULL - 1) != 0 || self.life.is_forked();
        // Everybody's epoch waits for a batch. And while the disk is full nobody comes to let writers in.
        if stops || barrier & NO_ROOM != 0 || epoch::epoch_is_pinned() {
            return;
        }
        if barrier & CROWDED != 0 && self.ahead.is_manual {
            self.relieve();
        }
        if barrier & SPILL != 0 {
            self.spill_in_turn();
        }
        if barrier & FULL != 0 {
            self.wait_for_turn();
        }
    }

    fn wait_for_turn(&self) {
        let Ok((mut slot, epoch)) = self.epochs.enter() else { return };
        let (last, total) = (slot.turn, slot.total());
        if self.bounds.goes_on(last, total) {
            return;
        }
        self.tell(&mut slot, epoch);
        drop(slot);
        self.ticker.ask_soon();
        let mut stall = None;
        let stalls = |why| stall = Some((why, Instant::now()));
        let turn = self.bounds.wait(last, total, &self.barrier, stalls);
        if let Some((why, begun)) = stall {
            observe::stalled(&self.uuid, why, begun.elapsed());
        }
        let Some(turn) = turn else { return };
        if let Ok((mut slot, _)) = self.epochs.enter() {
            slot.turn = turn.after(slot.total());
        }
    }

    #[inline]
    pub(crate) fn enter(&self) -> Result<FileOp<'_>> {
        self.life.check()?;
        debug_assert!(!rules::is_in_step(), "a thread that waits for its own step waits for ever");
        let Ok((slot, epoch)) = self.epochs.enter() else { return Err(self.torn()) };
        // Under the lock: a thread that closes or poisons the file and then locks this slot either waits
        // for this step or is seen by it.
        let barrier = self.barrier.load(Ordering::SeqCst);
        if barrier & (FULL - 1) != 0 {
            drop(slot);
            return Err(self.refusal(barrier));
        }
        let mut op = FileOp { slot, epoch, _step: Stepping::begin() };
        op.make_room(self.need)?;
        let i = (op.epoch & 1) as usize;
        if op.slot.bufs[i].len() >= op.slot.tell_at[i] {
            self.tell(&mut op.slot, op.epoch);
        }
        Ok(op)
    }

    #[cold]
    pub(crate) fn enter_for(&self, changes: usize) -> Result<FileOp<'_>> {
        let mut op = self.enter()?;
        op.make_room(self.need.with(changes))?;
        op.slot.counts.make_room_for(changes.min(COUNTED_TREES))?;
        Ok(op)
    }

    /// Says that a slot has something of the epoch, and how much. It is to be durable after an interval, or
    /// soon if it is much altogether.
    #[cold]
    fn tell(&self, slot: &mut SlotChanges, epoch: u64) {
        let more = slot.tell((epoch & 1) as usize, self.spills.tell_bytes());
        self.ticker.begin(epoch);
        self.bounds.note_dirty(slot.dirty.len() - slot.told_dirty);
        slot.told_dirty = slot.dirty.len();
        self.look_at_reserve();
        if more == 0 {
            return;
        }
        if self.bounds.note(epoch, more) {
            self.ticker.hurry();
        }
        self.measure_memory();
        self.bounds.look(&self.barrier);
        self.spills.look(self.epochs.peek(), &self.bounds, &self.barrier);
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
        self.poison(EpochTorn.error())
    }

    /// Waits until `epoch` is durable, as leader of a commit if there is none.
    pub(crate) fn wait_durable(&self, epoch: u64) -> Result<()> {
        self.life.check()?;
        let epoch = epoch.min(self.epochs.now());
        self.epochs.wait_durable(epoch, || self.check_writable(), || self.commit_now(epoch))
    }

    /// Makes the first epoch durable that is not, ending it if it runs; but none behind `upto`. Only the leader comes
    /// here, or the last owner.
    pub(crate) fn commit_now(&self, upto: u64) -> Result<()> {
        let committed = self.commit_epoch(upto);
        match &committed {
            Ok(Some(end)) => self.tell_end(end),
            // Somebody else was faster.
            Ok(None) => {}
            Err(error) => {
                // For want of memory, say, which they will meet themselves.
                self.bounds.let_go();
                // In a pool that was abandoned meanwhile none was to come.
                if !matches!(error, Error::Closed) {
                    observe::commit_failed(&self.uuid, error);
                }
            }
        }
        committed.map(drop)
    }

    /// Says that an epoch is durable. No lock is held any more: what a waker does is its own affair. Threads hear it from
    /// the leader of a commit.
    pub(crate) fn tell_end(&self, end: &EpochEnd) {
        self.wake_durable();
        observe::epoch_ended(&self.uuid, end);
    }

    fn commit_epoch(&self, upto: u64) -> Result<Option<EpochEnd>> {
        let mut commit = lock(&self.commit);
        self.check_writable()?;
        if self.epochs.durable() >= upto {
            return Ok(None);
        }
        let kept = self.keep_last(&mut commit)?;
        if kept.is_some() {
            return Ok(kept);
        }
        let ended = self.end_running(&mut commit)?;
        self.keep_ended(&mut commit, ended).map(Some)
    }

    /// Ends the running epoch, unless one before it is not written, and writes it. Says what is to be made durable.
    pub(crate) fn end_running(&self, commit: &mut Commit) -> Result<Ended> {
        debug_assert!(commit.ended.is_none(), "the epoch before is durable first");
        let epoch = match commit.closed.take() {
            Some(epoch) => epoch,
            None => self.close_epoch(commit)?,
        };
        debug_assert!(epoch == self.epochs.peek().0 + 1, "epochs become durable in order");
        debug_assert!(epoch < self.epochs.peek().1, "the epoch of running steps");
        // Again: a step or a batch that was waited for may have poisoned the file.
        self.check_writable()?;
        let begun = Instant::now();
        // After the epoch is closed: what it links was written, and counted, before it was linked.
        let large =
            if self.extents.swap(false, Ordering::AcqRel) { self.bounds.large() } else { 0 };
        let written = self.write_epoch(commit, epoch);
        self.note_room(&written);
        match written {
            Ok((records, is_commit)) => {
                Ok(Ended { epoch, records, large, is_commit, took: begun.elapsed() })
            }
            Err(error) => {
                // No record is lost: the next commit goes on from here.
                self.extents.fetch_or(large > 0, Ordering::AcqRel);
                commit.closed = Some(epoch);
                Err(error)
            }
        }
    }

    /// Makes an epoch durable that is written, and says so to all.
    pub(crate) fn keep_ended(&self, commit: &mut Commit, ended: Ended) -> Result<EpochEnd> {
        let begun = Instant::now();
        let Ended { epoch, records, large, is_commit, took } = ended;
        if is_commit {
            self.sync_data("syncing the journal")?;
            commit.chain.spilled = None;
            self.counters.commits.fetch_add(1, Ordering::Relaxed);
        } else if large > 0 {
            // Nobody has linked them yet. But who writes more may wait for them.
            self.sync_data("syncing large values")?;
        }
        let took = took + begun.elapsed();
        let bytes = records as u64 + large.max(self.spills.loose());
        self.bounds.measure(bytes, took, self.interval);
        self.spills.end_epoch();
        lock(&self.counts).publish();
        self.measure_counts();
        self.epochs.publish(epoch);
        self.count_journal(commit);
        self.bounds.publish(epoch, large, &self.barrier);
        self.measure_memory();
        self.ahead.ended_large.store(0, Ordering::Relaxed);
        let (record_bytes, value_bytes) = (records as u64, large);
        let pool = self.state();
        Ok(EpochEnd { epoch, record_bytes, value_bytes, is_commit, took, pool })
    }

    /// Figures for listeners.
    pub(crate) fn state(&self) -> PoolState {
        PoolState {
            journal_bytes: self.bounds.journal(),
            file_bytes: self.length.load(Ordering::Relaxed),
            changed_pages: self.bounds.changed(),
        }
    }

    /// Writes large values and the block of a closed epoch. Says how many bytes of records there were, and whether
    /// there is a block. After a lack of memory, or of room on the disk, it can be called again.
    fn write_epoch(&self, commit: &mut Commit, epoch: u64) -> Result<(usize, bool)> {
        // Those who wrote them were told that all is well.
        let written = lock(&self.values).flush(self);
        let goes_on = |e: &Error| matches!(e, Error::NoMemory { .. }) || is_want_of_room(e);
        written.map_err(|e| if goes_on(&e) { e } else { self.poison(e) })?;
        self.take_counts(epoch)?;
        let kept = self.residents.kept_bytes();
        gather(commit, &mut lock(&self.counts), kept)?;
        debug_assert!(commit.spares.iter().all(Vec::is_empty), "a record is in no block");
        let records = commit.block.len() - BLOCK_HEAD;
        let is_commit = records > 0 || commit.chain.spilled.is_some();
        if is_commit {
            self.start(commit)?;
            self.append(commit, epoch, true)?;
        }
        commit.block.clear();
        shrink(&mut commit.block, records, kept);
        Ok((records, is_commit))
    }

    /// Takes what steps of a closed epoch have counted. Nobody adds to that any more.
    fn take_counts(&self, epoch: u64) -> Result<()> {
        let (mut counts, mut taken) = (lock(&self.counts), Ok(()));
        let visited = self.epochs.visit(|_, mut slot| {
            if taken.is_ok() {
                taken = counts.take(epoch, &mut slot.counts);
            }
        });
        visited.map_err(|_| self.torn())?;
        taken
    }

    /// Says how much memory counts take.
    pub(crate) fn measure_counts(&self) {
        let bytes = lock(&self.counts).bytes();
        self.residents.counts.store(bytes, Ordering::Relaxed);
    }

    /// How many pairs a tree has now.
    pub(crate) fn counted(&self, tree: PageNo) -> Result<u64> {
        let counts = lock(&self.counts);
        let counted = counts.of(tree, |see| self.epochs.visit(|_, slot| see(&slot.counts)));
        drop(counts);
        counted.map_err(|_| self.torn())
    }

    /// The last durable epoch, and the list for a root of the pairs that trees had at its end.
    pub(crate) fn durable_counts(&self) -> Result<(u64, Vec<u8>)> {
        let _commit = lock(&self.commit);
        Ok((self.epochs.durable(), lock(&self.counts).to_root()?))
    }

    /// Ends the running epoch and takes its records. Needs no memory.
    fn close_epoch(&self, commit: &mut Commit) -> Result<u64> {
        debug_assert!(commit.spares.len() == SLOTS, "a list to swap for each slot");
        let (spares, kept) = (&mut commit.spares, self.residents.kept_bytes());
        let take = |epoch: u64, i: usize, mut slot: SlotGuard<'_, SlotChanges>| {
            slot.take(epoch, &mut spares[i], kept);
        };
        let epoch = self.epochs.close(take).map_err(|_| self.torn())?;
        let used = spares.iter().map(Vec::len).filter(|bytes| *bytes > 0);
        let bytes = self.spills.bytes() + used.clone().sum::<usize>() as u64;
        self.bounds.close(epoch, bytes, used.count() as u64);
        Ok(epoch)
    }

    /// Announces this open on disk, before the first block.
    pub(crate) fn start(&self, commit: &mut Commit) -> Result<()> {
        self.announce()?;
        if !commit.chain.is_there() {
            commit.chain.next = *lock(&self.begins);
        }
        Ok(())
    }

    /// Announces this open on disk, before the first image or block: a superblock that is no longer clean,
    /// and says where the journal begins. Without the lock of the commit: its leader may wait for a batch,
    /// and this be called inside that.
    pub(crate) fn announce(&self) -> Result<()> {
        if self.started.load(Ordering::Acquire) {
            return Ok(());
        }
        let mut begins = lock(&self.begins);
        if self.started.load(Ordering::Acquire) {
            return Ok(());
        }
        // Writes that an earlier process did not live to sync must not be overtaken: the copy of
        // the superblock that was read, for the other one is written over now, and blocks.
        self.sync_data("syncing the superblock")?;
        let is_new = begins.place == 0;
        if is_new {
            // Its blocks follow the last one that was ever written.
            let first = self.take_extent(Taker::Journal)?;
            *begins = Position::begin(first, begins.number, begins.link);
        }
        let next = *begins;
        self.write_super(|s| {
            s.clean = false;
            s.open_generation += 1;
            // Blocks that recovery has kept are durable by now.
            s.journal_floor = next.number;
            if is_new {
                s.journal = next;
            }
        })?;
        self.started.store(true, Ordering::Release);
        Ok(())
    }

    /// Sees to it that a chain needs no memory for blocks with so many bytes of records.
    fn make_chain_room(&self, chain: &mut Chain, records: usize) -> Result<()> {
        // Bytes of records that an extent has, at least, when the next one does not fit.
        let least = EXTENT_BYTES as usize - BLOCK_HEAD - (RECORD_HEAD + usize::from(u16::MAX));
        // Two that it leaves early because it draws in.
        let extents = records / least + 2 + 2;
        fallible::more(&mut chain.extents, extents, "the journal's extents")?;
        self.places_mut().extents.make_room(extents)
    }

    /// Where the next block goes, which begins with `records`, how many of them it takes, and what it says
    /// of where the chain goes on.
    fn find_room(&self, chain: &mut Chain, records: &[u8]) -> Result<(u64, usize, u32)> {
        let Position { place, next_extent, .. } = chain.next;
        let here = (chain.next.spot() / EXTENT_BYTES) as u32;
        if chain.draws_in
            && !records.is_empty()
            && let Some(nearer) = self.places_mut().extents.take_first_for_journal(here)
        {
            return Ok(go_on(chain, records, nearer));
        }
        if !place.is_multiple_of(EXTENT_BYTES) {
            let n = cut(records, payload_room(place));
            // Without records it is only the end of its epoch.
            if n > 0 || records.is_empty() {
                return Ok((place, n, next_extent));
            }
        }
        let taken = self.take_extent(Taker::Journal)?;
        Ok(go_on(chain, records, taken))
    }

    /// Writes the gathered records of an epoch, in as many blocks as they need; if it `ends`, the last of them says
    /// so. After a lack of memory nothing was written, and after one of room on the disk what was not
    /// is still there: this can be called again, with more behind it.
    pub(crate) fn append(&self, commit: &mut Commit, epoch: u64, ends: bool) -> Result<()> {
        let Commit { chain, block, .. } = commit;
        let (uuid, generation) = {
            let superblock = lock(&self.superblock);
            (superblock.uuid, superblock.open_generation as u32)
        };
        let (key, payload) = (BlockKey::new(&uuid), block.len() - BLOCK_HEAD);
        self.make_chain_room(chain, payload)?;
        let new = Spilled { epoch, from: chain.next, written: chain.written, pieces: 0 };
        let mut spilled = chain.spilled.unwrap_or(new);
        debug_assert!(spilled.epoch == epoch, "an epoch began before another one ended");
        debug_assert!(payload > 0 || spilled.pieces > 0, "an epoch without changes has no block");
        let (mut at, mut is_last) = (0, false);
        while !is_last {
            let piece = Piece { at, payload, epoch, ends, number: spilled.pieces, generation };
            let before = (chain.next, chain.extents.len());
            match self.write_block(chain, block, &key, &piece) {
                Ok(n) => at += n,
                Err(error) => {
                    self.take_back(chain, before);
                    block.truncate(BLOCK_HEAD + payload);
                    block.drain(..at);
                    chain.spilled = Some(spilled).filter(|spilled| spilled.pieces > 0);
                    return Err(error);
                }
            }
            spilled.pieces += 1;
            is_last = at == payload;
        }
        block.clear();
        chain.spilled = Some(spilled);
        Ok(())
    }

    /// Writes the next block of an epoch; says how many bytes of records are in it.
    fn write_block(
        &self,
        chain: &mut Chain,
        block: &mut Vec<u8>,
        key: &BlockKey,
        piece: &Piece,
    ) -> Result<usize> {
        let (at, end) = (piece.at, BLOCK_HEAD + piece.payload);
        let (place, n, next_extent) = self.find_room(chain, &block[BLOCK_HEAD + at..end])?;
        assert!(n > 0 || piece.payload == 0, "a record that fits no extent");
        let Position { number, link, .. } = chain.next;
        let facts = BlockFacts {
            number,
            epoch: piece.epoch,
            ends_epoch: piece.ends && at + n == piece.payload,
            place,
            next_extent,
            generation: piece.generation,
            link,
            piece: piece.number,
        };
        // The head takes the place of bytes that have been written.
        let bytes = BLOCK_HEAD + n;
        let crc = key.seal(&mut block[at..at + bytes], &facts);
        let next = next_block(place, n);
        let filled = self.zeros_until(chain, place, next);
        let zeros = (filled - place) as usize - bytes;
        // Before the write, so that nobody cuts it off again.
        let extent = (place / EXTENT_BYTES) as u32;
        let fill = |to: u64| {
            let filled = to - u64::from(extent) * EXTENT_BYTES;
            self.places_mut().extents.fill(extent, filled as u32);
        };
        let write = |block: &[u8]| self.write_free(block, place, "writing the journal");
        let has_zeros =
            facts.ends_epoch && fallible::just(block, zeros, "zeros behind a block").is_ok();
        fill(if has_zeros { filled } else { next });
        let mut written = Ok(());
        if has_zeros {
            block.resize(at + bytes + zeros, 0);
            written = write(&block[at..]);
            block.truncate(at + bytes);
        }
        // Where there is no room for zeros there may be some for the block.
        if !has_zeros || written.as_ref().is_err_and(is_want_of_room) {
            written = write(&block[at..at + bytes]);
        }
        written?;
        chain.next = Position { place: next, number: number + 1, link: crc, next_extent };
        chain.written += next - place;
        self.counters.journal_bytes.fetch_add(next - place, Ordering::Relaxed);
        Ok(n)
    }

    /// A block was not written: the next one goes where it was to go.
    fn take_back(&self, chain: &mut Chain, (next, extents): (Position, usize)) {
        if chain.next.next_extent != next.next_extent {
            self.places_mut().extents.release_journal(chain.next.next_extent);
        }
        chain.extents.truncate(extents);
        chain.next = next;
    }

    /// How far a write that ends with a block goes on with zeros, where the disk may have no blocks for
    /// the extent yet: the next syncs find no metadata to write.
    fn zeros_until(&self, chain: &Chain, place: u64, next: u64) -> u64 {
        let start = place / EXTENT_BYTES * EXTENT_BYTES;
        let filled = start + u64::from(self.places().extents.filled((place / EXTENT_BYTES) as u32));
        if next <= filled || next - place >= AHEAD_BLOCK {
            return next;
        }
        let used = chain.written - chain.begun + (next - place);
        let least = (self.journal_bound / 256).clamp(BLOCK_ALIGN, AHEAD_LEAST);
        let most = (self.journal_bound / 32).clamp(BLOCK_ALIGN, AHEAD_BYTES);
        (next + used.clamp(least, most)).next_multiple_of(BLOCK_ALIGN).min(start + EXTENT_BYTES)
    }

    /// Says how full the journal is, and calls for a checkpoint.
    pub(crate) fn count_journal(&self, commit: &Commit) {
        // No checkpoint frees the blocks of the program's open epoch before it has ended.
        let chain = &commit.chain;
        let end = if self.ahead.is_manual { chain.whole_end().1 } else { chain.written };
        let busy = end - chain.begun;
        self.bounds.bulk.set_live(self.places().extents.counts().0);
        self.bounds.set_journal(busy, &self.barrier);
        // Another checkpoint does not free what an epoch that goes on keeps in the journal.
        let full = busy > self.journal_bound / 2 && !self.ahead.is_stuck(self.epochs.now());
        let due = full || self.bounds.is_dirty() || self.bounds.bulk.is_too_much();
        self.call_checkpoint(due);
    }

    /// Says whether a checkpoint is due.
    pub(crate) fn call_checkpoint(&self, due: bool) {
        let mut work = lock(&self.work);
        if due != work.checkpoint_due {
            work.checkpoint_due = due;
            self.wake.notify_all();
            drop(work);
            self.wake_keeper(due);
        }
    }
}
