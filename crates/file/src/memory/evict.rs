//! How pages and large values leave memory: by the second chance of a clock.
//!
//! When pages take more than they may, a hand goes over those in memory in the order of their numbers. A
//! page that somebody has used since the hand was there last is called cold, one that is cold still is
//! evicted (the word of the latch says it, after vmcache: Leis et al., SIGMOD 2023). An evicted page is
//! absent, as it was when the pool was opened, and the next one who wants it fetches it. A hand of its own
//! goes over large values, by the same part of a round.
//!
//! Only a page of which the table names the newest image can leave. One that was changed must be written
//! before, by a checkpoint: so checkpoints are due by the number of changed pages, too, and writers wait
//! when there are too many. A thread that only reads never waits. A page stays as long as the layer above says so.
//! [Frames](super::frames) follow their pages, and [leaves](super::leaves) of the page table go, too.

use std::ops::Range;
use std::sync::TryLockError;
use std::sync::atomic::{Ordering::Acquire, Ordering::Relaxed, Ordering::SeqCst};

use everleaf_pmem::error::Result;
use everleaf_pmem::latch::LatchGuard;
use everleaf_pmem::page::{Page, PageNo, Stay};
use everleaf_pmem::shared::SharedPair;

use crate::epochs::barrier::POISONED;
use crate::epochs::slots::{COPIED_MARK, DIRTY_MARK, LAST_MARK};
use crate::inner::Inner;
use crate::memory::budget::{GOES, Member};
use crate::memory::residents::Hand;
use crate::memory::values::memory_of;

/// Pages that the hand looks at in one go, at most, so that a fetch of a page does not wait long.
const MOST_LOOKS: u64 = 2048;
/// Rounds over all pages, at most, where somebody has the time.
const ROUNDS: usize = 8;
/// Pages that are given back by one call, at most.
const AT_ONCE: usize = 32;
/// When the hand moves, it makes room for so many pages.
const SLACK_PAGES: u64 = 64;

/// While this lives, no page leaves memory: what was fetched is there. Memory may take more than it should
/// meanwhile.
#[derive(Debug)]
pub struct KeptPages<'m>(&'m Inner);

impl<'m> KeptPages<'m> {
    pub(crate) fn of(inner: &'m Inner) -> Self {
        inner.residents.keepers.fetch_add(1, SeqCst);
        Self(inner)
    }
}

impl Drop for KeptPages<'_> {
    fn drop(&mut self) {
        self.0.residents.keepers.fetch_sub(1, SeqCst);
        // As many as have come may have to leave, and others fetch no more than they need.
        self.0.evict_all();
    }
}

impl Member for Inner {
    /// Has a checkpoint come if it has changed more pages than it may now.
    fn feel_others(&self) {
        self.measure_memory();
        if self.bounds.is_dirty() {
            self.call_checkpoint(true);
        }
    }

    /// The hand goes on a little, while all pools take too much memory.
    fn evict_some(&self) {
        let (residents, slack) = (&self.residents, self.slack());
        if residents.keepers.load(SeqCst) != 0 {
            return;
        }
        residents.give_ahead(|run| self.region.give_back(std::iter::once(run)));
        // An image that was written before a failed sync may be gone.
        let is_poisoned = self.barrier.load(SeqCst) & POISONED != 0;
        self.evict_frames(is_poisoned);
        if !is_poisoned {
            self.evict_leaves();
        }
        let mut hand = match residents.hand.try_lock() {
            Ok(hand) => hand,
            Err(TryLockError::Poisoned(hand)) => hand.into_inner(),
            // Somebody does it.
            Err(TryLockError::WouldBlock) => return,
        };
        let mut leaving = Leaving { held: [const { None }; AT_ONCE], n: 0 };
        let (looks, values) = self.go();
        for _ in 0..looks {
            let wanted = slack.saturating_sub(leaving.n as u64 * residents.page_bytes);
            let is_done = || !residents.is_tight(wanted) || residents.keepers.load(SeqCst) != 0;
            if is_done() {
                break;
            }
            residents.values.sweep(values, &is_done);
            let Some(page) = residents.next(&mut hand).and_then(|no| self.region.page(no)) else {
                break;
            };
            let stays = is_poisoned && page.mark(LAST_MARK).load(Acquire) != 0;
            let held = if stays { None } else { self.try_evict(page, &hand) };
            let Some(held) = held else { continue };
            leaving.push(page.no(), held);
            if leaving.n == AT_ONCE {
                self.give_back(&mut leaving);
            }
        }
        self.give_back(&mut leaving);
    }
}

/// Pages that are about to leave, latched.
struct Leaving<'m> {
    held: [Option<(PageNo, LatchGuard<'m>)>; AT_ONCE],
    n: usize,
}

impl<'m> Leaving<'m> {
    fn push(&mut self, no: PageNo, held: LatchGuard<'m>) {
        self.held[self.n] = Some((no, held));
        self.n += 1;
    }

    /// Neighbours, a run after the other.
    fn runs(&self) -> impl Iterator<Item = Range<PageNo>> {
        let numbers = self.held[..self.n].iter().flatten().map(|(no, _)| *no);
        let mut numbers = numbers.peekable();
        std::iter::from_fn(move || {
            let first = numbers.next()?;
            let mut end = first + 1;
            while numbers.next_if_eq(&end).is_some() {
                end += 1;
            }
            Some(first..end)
        })
    }
}

impl Inner {
    /// A page is about to be fetched, so that it takes memory from now on.
    ///
    /// # Errors
    /// [`Error::NoMemory`](everleaf_pmem::Error::NoMemory).
    pub(crate) fn note_resident(&self, no: PageNo) -> Result<()> {
        let residents = &self.residents;
        if residents.most.is_none() {
            return Ok(());
        }
        residents.note(no)?;
        self.measure_table();
        self.measure_memory();
        Ok(())
    }

    /// Tells those who share memory with this pool what it takes, and asks what it may take now.
    pub(crate) fn measure_memory(&self) {
        self.residents.tell();
        self.bounds.measure_memory(&self.residents, self.records_in_memory());
        self.spills.set_most(self.bounds.most());
    }

    /// Bytes of records that are not in the file.
    fn records_in_memory(&self) -> u64 {
        match self.bounds.ticks() {
            true => self.bounds.records(),
            false => self.spills.held(self.epochs.peek(), &self.bounds),
        }
    }

    /// Evicts pages if all pools take too much memory, as far as there are some that can leave: of this pool, or of
    /// others that share it. Never waits.
    pub(crate) fn evict(&self) {
        self.evict_or_wait(false);
    }

    fn evict_or_wait(&self, waits: bool) {
        let residents = &self.residents;
        let slack = self.slack();
        // Before there is no room at all: threads take pages at the same time.
        if residents.is_full(slack / 2) {
            residents.share.budget().evict(self, waits, || !residents.is_tight(slack));
        }
    }

    /// Bytes for which room is made when it is made.
    fn slack(&self) -> u64 {
        let page_bytes = self.residents.page_bytes;
        let all = self.residents.share.budget().page_bytes() / page_bytes;
        SLACK_PAGES.min(all / 8) * page_bytes
    }

    /// How many pages the hand looks at in one go, and at how many bytes of large values beside each: with
    /// both hands as far round, and neither for long.
    fn go(&self) -> (u64, u64) {
        let pages = self.residents.pages.load(Relaxed).max(1);
        let values = self.residents.values.bytes();
        let most = match (MOST_LOOKS * self.residents.page_bytes * pages).checked_div(values) {
            Some(looks) => looks.clamp(1, MOST_LOOKS),
            None => MOST_LOOKS,
        };
        ((pages / GOES as u64).clamp(1, most), values / pages)
    }

    /// A copy of a long key and the value behind it, to be kept in memory; none if there is no room for them.
    pub(crate) fn copy_value(&self, [key, value]: [&[u8]; 2]) -> Option<SharedPair> {
        let residents = &self.residents;
        let bytes = key.len() + value.len();
        if !residents.values.takes(bytes as u64) {
            return None;
        }
        let more = memory_of(bytes);
        self.evict();
        if let over @ 1.. = residents.values.over(more) {
            let goal = residents.values.bytes().saturating_sub(over);
            residents.values.sweep(over + more, &|| residents.values.bytes() <= goal);
        }
        if residents.is_tight(more) || residents.values.over(more) > 0 {
            return None;
        }
        SharedPair::copy(key, value)
    }

    /// Evicts pages until they take no more than they may, or none that nobody uses is left that can leave. The caller holds
    /// no latch.
    pub(crate) fn evict_all(&self) {
        let mut before = u64::MAX;
        // A round calls pages cold, and the next one finds those that are cold still.
        for _ in 0..ROUNDS {
            let now = self.residents.share.budget().evictions();
            if !self.residents.is_full(0) || now == before {
                break;
            }
            before = now;
            (0..3 * GOES).for_each(|_| self.evict_or_wait(true));
        }
    }

    /// Latches a page that nobody has used of late, and that can leave.
    fn try_evict<'m>(&self, page: Page<'m>, hand: &Hand) -> Option<LatchGuard<'m>> {
        let marks = [DIRTY_MARK, COPIED_MARK];
        let stays = || {
            marks.iter().any(|mark| page.mark(*mark).load(Acquire) != 0)
                || match (self.stay)(page) {
                    Stay::Always => true,
                    Stay::Rounds => false,
                    Stay::Long => !hand.looks_at(page.no(), Stay::LONG),
                }
        };
        if stays() {
            return None;
        }
        if page.latch().cool() {
            self.residents.hits.fetch_add(1, Relaxed);
            return None;
        }
        let mut held = page.latch().try_lock_cold()?;
        if stays() {
            held.set_ready();
            held.unlock_unchanged();
            return None;
        }
        Some(held)
    }

    fn give_back(&self, leaving: &mut Leaving<'_>) {
        if leaving.n > 0 {
            self.region.give_back(leaving.runs());
            self.residents.forget(leaving.runs());
            leaving.held[..leaving.n].iter_mut().for_each(|held| drop(held.take()));
            leaving.n = 0;
        }
    }
}
