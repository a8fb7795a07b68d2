//! How many bytes may wait to become durable, and who waits because of them.
//!
//! A slot tells what it holds of the running epoch whenever [`TELL_BYTES`] have been added, so that
//! a step shares no word with others. When the bytes that are not durable reach their bound, or the
//! journal its own, writers take *turns*: each waits, in the order in which they came, until there is
//! room for the bytes of one turn, and goes on until its slot has noted so many. They wait in `throttle`, before
//! anything is latched, or in `File::turn`, before they hold anything at all; an epoch that became durable, and a
//! checkpoint that got on, let the next ones in. So what waits stays below
//!
//! ```text
//! the bound + what slots have not told (64 × TELL_BYTES) + one step of each thread
//! ```
//!
//! **The bound** is what the disk takes in [`BOUND_INTERVALS`], as measured, so that an epoch that is
//! under way and the one behind it are durable in that time. **The journal** may hold its bound; while
//! a checkpoint runs, what it may hold rises with the checkpoint, so that writers slow down early
//! rather than stop at the end. It counts only while somebody keeps the journal short.
//!
//! Without a thread that ends epochs nobody ever waits here, because nobody would let them in. A writer that would
//! change more pages than memory may hold [makes room](super::room) itself.

use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::time::Duration;

use everleaf_pmem::error::Result;
use everleaf_pmem::fallible;
use everleaf_pmem::locks::{Condvar, Mutex};
use everleaf_pmem::sync::lock_plain as lock;
use everleaf_pmem::sync::wait;

use crate::epochs::barrier::{CROWDED, FULL, SPILL};
use crate::memory::budget::Part;
use crate::memory::residents::Residents;
use crate::observe::Stall;
use crate::options::FileOptions;
use crate::values::bulk::Bulk;

/// Bytes that a slot may keep to itself.
pub(crate) const TELL_BYTES: usize = 8 << 10;
/// Changed pages that a slot may keep to itself.
pub(crate) const TELL_PAGES: usize = 16;
/// The longest that the bytes up to the bound take to become durable, on a disk as it was of late.
const BOUND_INTERVALS: u32 = 4;
/// The bound does not go below this, however slow the disk.
const BOUND_LEAST: u64 = 1 << 20;
/// The bound before anything was measured.
const BOUND_FIRST: u64 = 4 << 20;
/// This part of the memory that pages may take is the most that it may be, if that is more.
const BUFFERS_PART: u64 = 16;
/// In each of many pools that share memory, it may be this in any case.
const BOUND_EACH: u64 = 16 << 10;
/// Commits below this tell nothing of how many bytes a second the disk takes.
const SAMPLE_BYTES: u64 = 256 << 10;
/// A page that was changed has noted about so many bytes at least: with a turn of bytes goes one of pages.
const PAGE_NOTES: u64 = 64;
/// The shortest turn, and the same where pages are what there is little room for: as many as a slot keeps to itself.
const TURN_LEAST: u64 = 4 << 10;
const TURN_LEAST_PAGES: u64 = TELL_PAGES as u64 * PAGE_NOTES;
/// Writers wait as if the journal's bound were at least this: headers alone may pass a lower one.
const JOURNAL_LEAST: u64 = 1 << 20;
/// A turn lapses when so many epochs have become durable since it was given.
const ROUNDS: usize = 4;
/// Slots hold no more of an epoch than so many spills would write.
const HELD_SPILLS: u64 = 8;
/// A sync follows when the bytes of so many spills have been written, those of large values among them.
const LOOSE_SPILLS: u64 = 64;
/// Those who wait are woken in so many groups.
const GROUPS: usize = 64;

const _: () = {
    assert!(BOUND_LEAST <= BOUND_FIRST && SAMPLE_BYTES <= BOUND_LEAST);
    assert!(TURN_LEAST_PAGES <= TURN_LEAST);
    assert!(TURN_LEAST <= TELL_BYTES as u64, "who has a turn may use it up untold");
    assert!(ROUNDS >= 2 && GROUPS.is_power_of_two());
};

/// The queue for turns.
#[derive(Debug, Default)]
struct Queue {
    /// The number that the next one draws.
    next: u64,
    /// Threads with numbers below this may go on.
    open: u64,
    /// Of this round and those before it: how many turns were given and are not used up yet, and
    /// what `open` was when it began.
    given: [u64; ROUNDS],
    since: [u64; ROUNDS],
}

impl Queue {
    /// Begins a round; the turns of the last one lapse.
    fn turn_round(&mut self) {
        self.given.rotate_right(1);
        self.since.rotate_right(1);
        (self.given[0], self.since[0]) = (0, self.open);
        debug_assert!(self.since.is_sorted_by(|later, earlier| later >= earlier));
        debug_assert!(self.open <= self.next, "who has not come yet was let in");
    }

    /// Turns that may still be used.
    fn given(&self) -> u64 {
        self.given.iter().sum()
    }

    /// In how many rounds before this one a turn was given.
    fn age(&self, number: u64) -> u64 {
        self.since.iter().take_while(|since| number < **since).count() as u64
    }
}

#[derive(Debug)]
pub(crate) struct WriteBounds {
    /// A thread ends epochs.
    ticks: bool,
    /// Nobody is to wait for a turn where only room is asked for.
    pub turns_are_taken: bool,
    /// The most that the bound may be, as was asked for, and now.
    asked: u64,
    most: AtomicU64,
    journal_most: u64,
    /// Somebody writes a checkpoint when one is due.
    kept: AtomicBool,
    bound: AtomicU64,
    /// Bytes a second that commits have taken of late; 0 = not measured.
    rate: AtomicU64,
    /// Bytes noted in even and in odd epochs that are not durable.
    noted: [AtomicU64; 2],
    /// Bytes of large values that were not synced.
    large: AtomicU64,
    /// Bytes of journal that recovery needs, and how many there may be now.
    journal: AtomicU64,
    journal_now: AtomicU64,
    /// Pages that may be changed and not written; `u64::MAX` if there is no bound.
    changed_most: AtomicU64,
    /// The same where nobody waits for a checkpoint: a writer is refused then.
    held_most: AtomicU64,
    /// Pages that were changed since the last checkpoint began, as far as slots have told, and those that it
    /// has still to write.
    dirty: AtomicU64,
    writing: AtomicU64,
    /// Large values since the last checkpoint began.
    pub bulk: Bulk,
    /// How many threads write, about.
    writers: AtomicU64,
    /// Counts how often turns have lapsed.
    round: AtomicU64,
    queue: Mutex<Queue>,
    groups: Box<[Condvar]>,
    pub peak: AtomicU64,
    pub journal_peak: AtomicU64,
    pub waits: AtomicU64,
}

/// How much a slot may note before its thread waits again.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Turn {
    /// Of all bytes that the slot has ever noted.
    end: u64,
    round: u64,
}

/// Bytes that may wait to become durable, by the memory that there is: a small one has small buffers.
fn most_pending(residents: &Residents) -> u64 {
    let each = residents.share.budget().each(BOUND_LEAST).max(BOUND_EACH);
    residents.part(Part::Pending, BUFFERS_PART).map_or(u64::MAX, |part| part.max(each))
}

impl WriteBounds {
    pub fn new(ticks: bool, options: &FileOptions, residents: &Residents) -> Result<Self> {
        let mut groups = fallible::list(GROUPS, "the queue of writers")?;
        groups.resize_with(GROUPS, Condvar::new);
        let asked = options.pending_bytes.max(TELL_BYTES as u64);
        let journal_most = options.journal_bytes.max(JOURNAL_LEAST);
        Ok(WriteBounds {
            ticks,
            turns_are_taken: options.turns_are_taken,
            asked,
            most: most_pending(residents).min(asked).into(),
            journal_most,
            kept: AtomicBool::new(false),
            bound: BOUND_FIRST.into(),
            rate: AtomicU64::new(0),
            noted: Default::default(),
            large: AtomicU64::new(0),
            journal: AtomicU64::new(0),
            journal_now: AtomicU64::new(journal_most),
            changed_most: residents.changed_most().unwrap_or(u64::MAX).into(),
            held_most: residents.held_most().filter(|_| !ticks).unwrap_or(u64::MAX).into(),
            dirty: AtomicU64::new(0),
            writing: AtomicU64::new(0),
            bulk: Bulk::default(),
            writers: AtomicU64::new(GROUPS as u64),
            round: AtomicU64::new(ROUNDS as u64),
            queue: Mutex::default(),
            groups: groups.into_boxed_slice(),
            peak: AtomicU64::new(0),
            journal_peak: AtomicU64::new(0),
            waits: AtomicU64::new(0),
        })
    }

    pub fn bound(&self) -> u64 {
        self.bound.load(Relaxed).min(self.most.load(Relaxed))
    }

    /// The most that may wait, as memory allows now.
    pub fn most(&self) -> u64 {
        self.most.load(Relaxed)
    }

    /// Bytes of records that are not durable, as far as slots have told.
    pub fn records(&self) -> u64 {
        self.noted.iter().map(|noted| noted.load(Relaxed)).sum()
    }

    /// Bytes that are not durable, as far as slots have told.
    pub fn pending(&self) -> u64 {
        self.records() + self.large.load(Relaxed)
    }

    /// How many bytes may be added now.
    fn room(&self) -> u64 {
        self.room_for().0
    }

    /// The same, and what there is no more room for.
    fn room_for(&self) -> (u64, Stall) {
        let (room, why) = self.room_on_disk();
        let most = self.changed_most.load(Relaxed);
        let pages = most.saturating_sub(self.changed()).saturating_mul(PAGE_NOTES);
        if self.kept.load(Relaxed) && pages < room { (pages, Stall::Memory) } else { (room, why) }
    }

    /// The same, were there all the memory.
    fn room_on_disk(&self) -> (u64, Stall) {
        let room = self.bound().saturating_sub(self.pending());
        if !self.kept.load(Relaxed) {
            return (room, Stall::Disk);
        }
        if self.bulk.is_far_too_much() {
            return (0, Stall::Values);
        }
        let journal = self.journal.load(Relaxed) + self.records();
        let journal = self.journal_now.load(Relaxed).saturating_sub(journal);
        if journal < room { (journal, Stall::Journal) } else { (room, Stall::Disk) }
    }

    /// Tells what was changed and is not written, and asks how much that may be now. So many bytes of `records` are in
    /// memory.
    pub fn measure_memory(&self, residents: &Residents, records: u64) {
        residents.share.tell(Part::Pending, records);
        residents.share.tell(Part::Changed, self.changed() * residents.page_bytes);
        self.most.store(most_pending(residents).min(self.asked), Relaxed);
        if let (Some(changed), Some(held)) = (residents.changed_most(), residents.held_most()) {
            self.changed_most.store(changed, Relaxed);
            if !self.ticks {
                self.held_most.store(held, Relaxed);
            }
        }
    }

    /// Bytes were noted in `epoch`. Says whether it should end early.
    pub fn note(&self, epoch: u64, bytes: usize) -> bool {
        let running = &self.noted[(epoch & 1) as usize];
        let running = running.fetch_add(bytes as u64, Relaxed) + bytes as u64;
        self.peak.fetch_max(self.pending(), Relaxed);
        running > self.bound() / 4
    }

    /// So many more pages were changed.
    pub fn note_dirty(&self, pages: usize) {
        self.dirty.fetch_add(pages as u64, Relaxed);
    }

    /// So many of what was noted are no pages.
    pub fn forget_dirty(&self, runs: usize) {
        let before = self.dirty.fetch_sub(runs as u64, Relaxed);
        debug_assert!(runs as u64 <= before, "{runs} of {before} changed pages");
    }

    /// Somebody has taken pages that were noted, in order to write them.
    pub fn collect_dirty(&self, pages: usize) {
        // They are never neither.
        self.writing.fetch_add(pages as u64, Relaxed);
        let before = self.dirty.fetch_sub(pages as u64, Relaxed);
        debug_assert!(pages as u64 <= before, "{pages} of {before} changed pages");
    }

    /// So many pages are still to be written.
    pub fn set_writing(&self, pages: u64) {
        self.writing.store(pages, Relaxed);
    }

    /// Whether the journal has more than it may, and somebody comes to write a checkpoint.
    pub fn is_journal_full(&self) -> bool {
        self.kept.load(Relaxed) && self.journal.load(Relaxed) > self.journal_most
    }

    /// Whether a thread ends epochs.
    pub fn ticks(&self) -> bool {
        self.ticks
    }

    /// Pages that were changed and not written.
    pub fn changed(&self) -> u64 {
        self.dirty.load(Relaxed) + self.writing.load(Relaxed)
    }

    /// Whether so many pages were changed that they should be written.
    pub fn is_dirty(&self) -> bool {
        self.dirty.load(Relaxed) > self.changed_most.load(Relaxed) / 2
    }

    /// More pages than memory may hold were changed and not written, if that is so and nobody comes to write
    /// them: how many, and how many there may be.
    pub fn crowd(&self) -> Option<(u64, u64)> {
        let (changed, most) = (self.changed(), self.held_most.load(Relaxed));
        (changed > most).then_some((changed, most))
    }

    /// Whether half as many were, so that the end of an epoch should write them.
    pub fn is_half_crowded(&self) -> bool {
        self.changed() > self.held_most.load(Relaxed) / 2
    }

    /// Bytes of an epoch of which slots have told.
    pub fn noted(&self, epoch: u64) -> u64 {
        self.noted[(epoch & 1) as usize].load(Relaxed)
    }

    /// Bytes of a large value are about to be written, in so many pages.
    pub fn note_large(&self, bytes: u64, pages: u64) {
        self.large.fetch_add(bytes, Relaxed);
        self.bulk.note_written(bytes, pages);
    }

    pub fn large(&self) -> u64 {
        self.large.load(Relaxed)
    }

    /// All steps of `epoch` have ended; they have noted `bytes`, in so many slots.
    pub fn close(&self, epoch: u64, bytes: u64, slots: u64) {
        let told = self.noted[(epoch & 1) as usize].swap(bytes, Relaxed);
        debug_assert!(told <= bytes, "{told} bytes were told of, there are {bytes}");
        self.peak.fetch_max(self.pending(), Relaxed);
        if slots > self.writers.load(Relaxed) {
            self.count_writers(slots);
        }
    }

    /// Slowly fewer: a thread with a turn takes it to be as long as those that come after it.
    fn count_writers(&self, writers: u64) {
        let fewer = self.writers.load(Relaxed) * 7 / 8;
        self.writers.store(writers.max(fewer).max(1), Relaxed);
    }

    /// Bytes of a turn. Where memory holds few pages it is shorter than any turn of bytes has to be: the small notes
    /// of one would change a good part of them.
    fn turn(&self) -> u64 {
        let parts = 2 * self.writers.load(Relaxed).max(4);
        let pages = self.changed_most.load(Relaxed).saturating_mul(PAGE_NOTES);
        (self.bound() / parts).max(TURN_LEAST).min((pages / parts).max(TURN_LEAST_PAGES))
    }

    /// Whether half of all that there may be is free, beside so many bytes.
    fn is_roomy(&self, beside: u64) -> bool {
        let most = self.changed_most.load(Relaxed);
        let is_crowded = self.kept.load(Relaxed) && self.changed() > most / 2;
        !is_crowded && self.room_on_disk().0 > beside + self.bound() / 2
    }

    /// `epoch` and so many bytes of large values are durable.
    pub fn publish(&self, epoch: u64, large: u64, barrier: &AtomicU32) {
        self.noted[(epoch & 1) as usize].store(0, Relaxed);
        let before = self.large.fetch_sub(large, Relaxed);
        debug_assert!(large <= before, "{large} bytes are durable, {before} were written");
        if barrier.load(Relaxed) & FULL == 0 {
            return;
        }
        let mut queue = lock(&self.queue);
        self.count_writers(queue.next - queue.open + queue.given());
        self.round.fetch_add(1, Relaxed);
        queue.turn_round();
        self.admit(&mut queue);
        let given = self.turn() * queue.given();
        if queue.open == queue.next && self.is_roomy(given) {
            barrier.fetch_and(!FULL, SeqCst);
        }
    }

    /// A commit wrote and synced so many bytes.
    pub fn measure(&self, bytes: u64, took: Duration, interval: Duration) {
        if bytes < SAMPLE_BYTES {
            return;
        }
        let rate = (bytes as f64 / took.as_secs_f64().max(1e-6)) as u64;
        let old = self.rate.load(Relaxed);
        // Down fast, up slowly.
        let rate = match old {
            0 => rate,
            old if rate < old => old - (old - rate) / 2,
            old => old + (rate - old) / 8,
        };
        self.rate.store(rate, Relaxed);
        let bound = (rate as f64 * (BOUND_INTERVALS * interval).as_secs_f64()) as u64;
        self.bound.store(bound.max(BOUND_LEAST), Relaxed);
    }

    /// So many bytes of journal are needed now.
    pub fn set_journal(&self, bytes: u64, barrier: &AtomicU32) {
        self.journal.store(bytes, Relaxed);
        self.journal_peak.fetch_max(bytes, Relaxed);
        self.look(barrier);
    }

    /// Bytes of journal that recovery needs.
    pub fn journal(&self) -> u64 {
        self.journal.load(Relaxed)
    }

    /// Has the journal's bound rise with a checkpoint from what it held at its start, or ends that.
    pub fn set_progress(&self, progress: Option<&CheckpointProgress>, barrier: &AtomicU32) {
        let now = match progress {
            None => self.journal_most,
            Some(p) => {
                let room = self.journal_most.saturating_sub(p.from);
                p.from + room / 4 + share(room - room / 4, p.done, p.all)
            }
        };
        debug_assert!(now <= self.journal_most.max(progress.map_or(0, |p| p.from)));
        self.journal_now.store(now, Relaxed);
        self.look(barrier);
    }

    /// Whether a checkpoint that is so far should hurry: at this rate it would not be done when half
    /// of the journal that was left is used.
    pub fn is_late(&self, p: &CheckpointProgress) -> bool {
        let room = self.journal_most.saturating_sub(p.from);
        let used = (self.journal.load(Relaxed) + self.records()).saturating_sub(p.from);
        2 * used > share(room, p.done, p.all)
            || self.changed() > self.changed_most.load(Relaxed) / 4 * 3
            || self.bulk.is_too_much()
    }

    /// Somebody writes checkpoints when they are due from now on, or does not.
    pub fn set_kept(&self, kept: bool, barrier: &AtomicU32) {
        self.kept.store(kept, Relaxed);
        self.look(barrier);
    }

    /// Has writers wait if there is no room; or lets some go on if there is.
    pub fn look(&self, barrier: &AtomicU32) {
        if self.crowd().is_some() {
            barrier.fetch_or(CROWDED, SeqCst);
        }
        let full = barrier.load(Relaxed) & FULL != 0;
        if self.ticks && (full || self.room() == 0) {
            let mut queue = lock(&self.queue);
            if barrier.load(Relaxed) & FULL != 0 {
                self.admit(&mut queue);
            } else if self.room() == 0 {
                // No turn of an earlier time counts.
                self.round.fetch_add(ROUNDS as u64, Relaxed);
                (0..ROUNDS).for_each(|_| queue.turn_round());
                barrier.fetch_or(FULL, SeqCst);
            }
        }
    }

    /// Lets in whoever there is room for, and one at least if there is any.
    fn admit(&self, queue: &mut Queue) {
        let (room, turn) = (self.room(), self.turn());
        while queue.open < queue.next && room > turn * queue.given() {
            queue.given[0] += 1;
            self.groups[queue.open as usize % GROUPS].notify_all();
            queue.open += 1;
        }
        debug_assert!(queue.open <= queue.next);
    }

    /// Lets all go on who wait: what they wait for may not come soon, or never.
    pub fn let_go(&self) {
        let mut queue = lock(&self.queue);
        queue.open = queue.next;
        drop(queue);
        self.groups.iter().for_each(Condvar::notify_all);
    }

    /// Whether a slot that has noted `total` bytes may go on in its turn.
    pub fn goes_on(&self, turn: Turn, total: u64) -> bool {
        total < turn.end && self.round.load(Relaxed).wrapping_sub(turn.round) < ROUNDS as u64
    }

    /// Waits for a turn, after the last one, of a slot that has noted `total` bytes. `None` if
    /// writing has stopped meanwhile. `stalls` hears why, if it is not its turn yet.
    pub fn wait(
        &self,
        last: Turn,
        total: u64,
        barrier: &AtomicU32,
        stalls: impl FnOnce(Stall),
    ) -> Option<Turn> {
        let mut queue = lock(&self.queue);
        if barrier.load(SeqCst) & FULL == 0 {
            return Some(Turn::default());
        }
        let age = self.round.load(Relaxed).wrapping_sub(last.round) as usize;
        if let Some(given) = queue.given.get_mut(age).filter(|_| total >= last.end) {
            *given = given.saturating_sub(1);
        }
        debug_assert!(queue.open <= queue.next);
        let mine = queue.next;
        queue.next += 1;
        self.admit(&mut queue);
        if queue.open <= mine {
            self.waits.fetch_add(1, Relaxed);
            stalls(self.room_for().1);
        }
        while queue.open <= mine {
            if barrier.load(SeqCst) & (FULL - 1) != 0 {
                return None;
            }
            let group = &self.groups[mine as usize % GROUPS];
            queue = wait(group, &self.queue, queue).unwrap_or_else(PoisonError::into_inner);
        }
        let round = self.round.load(Relaxed).wrapping_sub(queue.age(mine));
        Some(Turn { end: self.turn(), round })
    }
}

impl Turn {
    /// The turn of a slot that has noted `total` bytes before it.
    pub fn after(self, total: u64) -> Turn {
        Turn { end: total + self.end, ..self }
    }
}

/// When the running epoch is spilled, and synced.
#[derive(Debug)]
pub(crate) struct Spills {
    /// Bytes in slots from which on it is spilled, as was asked for, and now.
    asked: u64,
    at: AtomicU64,
    /// Bytes that were spilled of the first epoch that is not durable, and how many of them slots had told.
    bytes: AtomicU64,
    told: AtomicU64,
    /// Those of them that are in the journal.
    written: AtomicU64,
    /// Bytes of spilled records and of large values that were written since the last sync.
    loose: AtomicU64,
}

impl Spills {
    /// Where `ticks` says that epochs are ended by themselves, that comes before much is noted.
    pub fn new(ticks: bool, at: u64) -> Self {
        let asked = if ticks { u64::MAX } else { at.max(1) };
        Self {
            asked,
            at: asked.into(),
            bytes: AtomicU64::new(0),
            told: AtomicU64::new(0),
            written: AtomicU64::new(0),
            loose: AtomicU64::new(0),
        }
    }

    fn at(&self) -> u64 {
        self.at.load(Relaxed)
    }

    /// All that waits may take so many bytes of memory now.
    pub fn set_most(&self, most: u64) {
        // Where epochs end by themselves none is spilled, however little that is.
        if self.asked != u64::MAX {
            self.at.store(self.asked.min(most), Relaxed);
        }
    }

    /// Bytes that a slot may keep to itself.
    pub fn tell_bytes(&self) -> usize {
        TELL_BYTES.min(usize::try_from(self.at()).unwrap_or(usize::MAX))
    }

    /// Bytes that slots hold of the running epoch. While the one before is not durable, what was spilled is of that.
    pub fn held(&self, (durable, epoch): (u64, u64), bounds: &WriteBounds) -> u64 {
        let told = if durable + 1 == epoch { self.told.load(Relaxed) } else { 0 };
        bounds.noted(epoch).saturating_sub(told)
    }

    /// Whether that is much.
    pub fn is_due(&self, clock: (u64, u64), bounds: &WriteBounds) -> bool {
        self.held(clock, bounds) >= self.at()
    }

    /// Whether it is so much that whoever writes must see to it.
    pub fn is_overdue(&self, clock: (u64, u64), bounds: &WriteBounds) -> bool {
        self.held(clock, bounds) >= self.at().saturating_mul(HELD_SPILLS)
    }

    /// Whether it is so much that a writer waits for the end of a sync, because nothing can be spilled before.
    pub fn is_too_much(&self, clock: (u64, u64), bounds: &WriteBounds) -> bool {
        self.is_overdue(clock, bounds) && self.held(clock, bounds) >= bounds.most()
    }

    /// Whether much was written that was not synced.
    pub fn is_loose(&self) -> bool {
        self.loose.load(Relaxed) >= self.asked.saturating_mul(LOOSE_SPILLS)
    }

    /// Whether it is so much that whoever writes must wait for a sync.
    pub fn is_far_too_loose(&self) -> bool {
        self.loose.load(Relaxed) >= self.asked.saturating_mul(4 * LOOSE_SPILLS)
    }

    /// A slot has told what it holds of the running epoch: asks for a spill if it is much altogether.
    pub fn look(&self, clock: (u64, u64), bounds: &WriteBounds, barrier: &AtomicU32) {
        if self.is_due(clock, bounds) {
            barrier.fetch_or(SPILL, SeqCst);
        }
    }

    /// Bytes of a large value are about to be written.
    pub fn note_large(&self, bytes: u64, barrier: &AtomicU32) {
        self.loose.fetch_add(bytes, Relaxed);
        if self.is_loose() {
            barrier.fetch_or(SPILL, SeqCst);
        }
    }

    /// Slots have given up so many bytes of the running epoch, of which they had told some. The one before is durable.
    pub fn note_taken(&self, bytes: u64, told: u64) {
        self.bytes.fetch_add(bytes, Relaxed);
        self.told.fetch_add(told, Relaxed);
    }

    /// Bytes of records were written and not synced.
    pub fn note_spilled(&self, bytes: u64) {
        self.written.fetch_add(bytes, Relaxed);
        self.loose.fetch_add(bytes, Relaxed);
    }

    /// All that was written so far is about to be synced.
    pub fn begin_sync(&self) {
        self.loose.store(0, Relaxed);
    }

    /// Bytes of records that were spilled of the running epoch.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    /// Bytes that the next sync has to write, beside those that come with it.
    pub fn loose(&self) -> u64 {
        self.loose.load(Relaxed)
    }

    /// The epoch has ended, and all of it is durable.
    pub fn end_epoch(&self) {
        self.bytes.store(0, Relaxed);
        self.told.store(0, Relaxed);
        self.written.store(0, Relaxed);
        self.loose.store(0, Relaxed);
    }

    /// Bytes that are not durable and for which the file has no room yet: what was spilled has its own.
    pub fn unwritten(&self, bounds: &WriteBounds) -> u64 {
        let in_hand = self.bytes().saturating_sub(self.written.load(Relaxed));
        bounds.pending().saturating_sub(self.told.load(Relaxed)) + in_hand
    }
}

/// How far a checkpoint is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CheckpointProgress {
    /// Bytes of journal when it began.
    pub from: u64,
    /// Pages that it has dealt with, of so many.
    pub done: u64,
    pub all: u64,
}

/// `done` parts of `all` of a whole.
fn share(whole: u64, done: u64, all: u64) -> u64 {
    debug_assert!(done <= all, "{done} of {all}");
    (u128::from(whole) * u128::from(done) / u128::from(all.max(1))) as u64
}
