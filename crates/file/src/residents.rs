//! How much memory pages may take, and which of them leave it.
//!
//! A page that is [fetched](crate::File) stays in memory. When pages, their frames and the page table take
//! more than they may, a hand goes over the pages in the order of their numbers, as a clock does: a page
//! that somebody has used since the hand was there last is called cold, one that is cold still is evicted
//! (*second chance*; the word of the latch says it, after vmcache: Leis et al., SIGMOD 2023). An evicted
//! page is absent, as it was when the pool was opened, and the next one who wants it fetches it.
//!
//! Only a page of which the table names the newest image can leave. One that was changed must be written
//! before, by a checkpoint: so checkpoints are due by the number of changed pages, too, and writers wait
//! when there are too many. Who only reads never waits. A page stays as long as the layer above says so,
//! and so do frames.

use std::sync::atomic::{AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Mutex, TryLockError};

use everleaf_pmem::error::Result;
use everleaf_pmem::fallible;
use everleaf_pmem::latch::LatchGuard;
use everleaf_pmem::page::{Geometry, Page, PageNo};
use everleaf_pmem::region::SYSTEM_PAGE_BYTES;
use everleaf_pmem::sync::lock_plain as lock;

use crate::inner::Inner;
use crate::options::FileOptions;
use crate::slots::{COPIED_MARK, DIRTY_MARK};
use crate::table::LEAF_BYTES;

/// Pages that the hand looks at in one go, at most, so that who fetches a page does not wait long.
const MOST_LOOKS: u64 = 2048;
/// The hand needs so many goes for a round at least. So a page stays while so many others are fetched, and
/// a step that needs some pages at once gets them, however many of the others are changed.
const GOES: u64 = 16;
/// Rounds over all pages, at most, where somebody has the time.
const ROUNDS: usize = 8;
/// Neighbours that are given back by one call, at most.
const RUN: usize = 16;
/// When the hand moves, it makes room for so many pages.
const SLACK_PAGES: u64 = 64;

const WHAT: &str = "the list of pages in memory";

/// A set of numbers.
#[derive(Debug, Default)]
struct Bits(Vec<u64>);

impl Bits {
    /// Says whether it was new.
    fn insert(&mut self, no: usize) -> Result<bool> {
        if let more @ 1.. = (no / 64 + 1).saturating_sub(self.0.len()) {
            fallible::more(&mut self.0, more, WHAT)?;
            self.0.resize(no / 64 + 1, 0);
        }
        let (word, bit) = (&mut self.0[no / 64], 1 << (no % 64));
        let is_new = *word & bit == 0;
        *word |= bit;
        Ok(is_new)
    }

    fn remove(&mut self, no: usize) {
        self.0[no / 64] &= !(1 << (no % 64));
    }

    /// The first member from `no` on.
    fn next(&self, no: usize) -> Option<usize> {
        let first = self.0.get(no / 64)? & (u64::MAX << (no % 64));
        let rest = self.0.iter().copied().enumerate().skip(no / 64 + 1);
        let mut words = std::iter::once((no / 64, first)).chain(rest);
        words.find(|(_, word)| *word != 0).map(|(i, word)| 64 * i + word.trailing_zeros() as usize)
    }
}

/// Which pages are in memory, and the pieces of the system that back frames.
#[derive(Debug, Default)]
struct Known {
    pages: Bits,
    frames: Bits,
}

/// The pages in memory, and how many there may be.
#[derive(Debug)]
pub(crate) struct Residents {
    /// Bytes that pages, frames and the page table may take; none if no page can leave.
    most: Option<u64>,
    page_bytes: u64,
    frame_bytes: u64,
    known: Mutex<Known>,
    pages: AtomicU64,
    frames: AtomicU64,
    table: AtomicU64,
    /// Where the hand is.
    hand: Mutex<usize>,
    pub hits: AtomicU64,
    pub misses: AtomicU64,
    pub evictions: AtomicU64,
    /// Who wants all pages to stay for a while.
    keepers: AtomicU64,
}

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
        self.0.evict();
    }
}

impl Residents {
    pub fn new(g: Geometry, options: &FileOptions) -> Self {
        let (page_bytes, most) = (g.page_bytes(), options.memory_bytes);
        let is_worth_it = page_bytes.is_multiple_of(SYSTEM_PAGE_BYTES) || options.evicts_small;
        let can_leave = is_worth_it && most != u64::MAX;
        Self {
            most: can_leave.then_some(most),
            page_bytes: page_bytes as u64,
            frame_bytes: g.frame_bytes() as u64,
            known: Mutex::default(),
            pages: AtomicU64::new(0),
            frames: AtomicU64::new(0),
            table: AtomicU64::new(0),
            hand: Mutex::default(),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            evictions: AtomicU64::new(0),
            keepers: AtomicU64::new(0),
        }
    }

    /// Pages that may be changed and not written; none if there is no bound.
    pub fn changed_most(&self) -> Option<u64> {
        self.most.map(|most| (most / 2 / self.page_bytes).max(2))
    }

    /// Bytes that pages, frames and the page table take.
    pub fn bytes(&self) -> u64 {
        self.pages.load(Relaxed) * self.page_bytes
            + self.frames.load(Relaxed) * SYSTEM_PAGE_BYTES as u64
            + self.table.load(Relaxed)
    }

    /// Bytes that they may take.
    pub fn most(&self) -> Option<u64> {
        self.most
    }

    /// Whether there is no room for so many more bytes.
    pub fn is_tight(&self, more: u64) -> bool {
        self.most.is_some_and(|most| self.bytes() + more > most)
    }

    /// A page is in memory now.
    fn note(&self, no: PageNo) -> Result<()> {
        let mut known = lock(&self.known);
        if known.frames.insert(no as usize * self.frame_bytes as usize / SYSTEM_PAGE_BYTES)? {
            self.frames.fetch_add(1, Relaxed);
        }
        if known.pages.insert(no as usize)? {
            self.pages.fetch_add(1, Relaxed);
        }
        Ok(())
    }

    /// Some pages in a row are in memory no more.
    fn forget(&self, first: PageNo, n: usize) {
        let mut known = lock(&self.known);
        (first as usize..first as usize + n).for_each(|no| known.pages.remove(no));
        self.pages.fetch_sub(n as u64, Relaxed);
        self.evictions.fetch_add(n as u64, Relaxed);
    }

    /// The next page in memory that the hand comes to.
    fn next(&self, hand: &mut usize) -> Option<PageNo> {
        let known = lock(&self.known);
        let no = known.pages.next(*hand).or_else(|| known.pages.next(0))?;
        *hand = no + 1;
        Some(no as PageNo)
    }
}

/// Neighbours that are about to leave, latched.
struct Leaving<'m> {
    first: PageNo,
    held: [Option<LatchGuard<'m>>; RUN],
    n: usize,
}

impl<'m> Leaving<'m> {
    fn takes(&self, no: PageNo) -> bool {
        self.n == 0 || self.n < RUN && u64::from(no) == u64::from(self.first) + self.n as u64
    }

    fn push(&mut self, no: PageNo, held: LatchGuard<'m>) {
        debug_assert!(self.takes(no));
        if self.n == 0 {
            self.first = no;
        }
        self.held[self.n] = Some(held);
        self.n += 1;
    }
}

impl Inner {
    /// A page has been fetched: it takes memory from now on, and others may have to leave for it.
    ///
    /// # Errors
    /// [`Error::NoMemory`](everleaf_pmem::Error::NoMemory).
    pub(crate) fn note_resident(&self, no: PageNo) -> Result<()> {
        let residents = &self.residents;
        if residents.most.is_none() {
            return Ok(());
        }
        residents.note(no)?;
        let leaves = self.places().leaves_in_memory();
        residents.table.store(leaves * LEAF_BYTES as u64, Relaxed);
        self.evict();
        Ok(())
    }

    /// Evicts pages if they take too much memory, as far as there are some that can leave. Never waits.
    pub(crate) fn evict(&self) {
        let residents = &self.residents;
        if !residents.is_tight(0) || residents.keepers.load(SeqCst) != 0 {
            return;
        }
        let mut hand = match residents.hand.try_lock() {
            Ok(hand) => hand,
            Err(TryLockError::Poisoned(hand)) => hand.into_inner(),
            // Somebody does it.
            Err(TryLockError::WouldBlock) => return,
        };
        let mut leaving = Leaving { first: 0, held: [const { None }; RUN], n: 0 };
        let pages = || residents.pages.load(Relaxed);
        let slack = SLACK_PAGES.min(pages() / 8) * residents.page_bytes;
        for _ in 0..(pages() / GOES).min(MOST_LOOKS) {
            if !residents.is_tight(slack) || residents.keepers.load(SeqCst) != 0 {
                break;
            }
            let Some(page) = residents.next(&mut hand).and_then(|no| self.region.page(no)) else {
                break;
            };
            let Some(held) = self.try_evict(page) else { continue };
            if !leaving.takes(page.no()) {
                self.give_back(&mut leaving);
            }
            leaving.push(page.no(), held);
        }
        self.give_back(&mut leaving);
    }

    /// Evicts pages until they take no more than they may, or none that nobody uses is left that can leave.
    pub(crate) fn evict_all(&self) {
        let mut before = u64::MAX;
        // A round calls pages cold, and the next one finds those that are cold still.
        for _ in 0..ROUNDS {
            let now = self.residents.evictions.load(Relaxed);
            if !self.residents.is_tight(0) || now == before {
                break;
            }
            before = now;
            (0..3 * GOES).for_each(|_| self.evict());
        }
    }

    /// Latches a page that nobody has used of late, and that can leave.
    fn try_evict<'m>(&self, page: Page<'m>) -> Option<LatchGuard<'m>> {
        let stays = || {
            page.mark(DIRTY_MARK).load(Acquire) != 0
                || page.mark(COPIED_MARK).load(Acquire) != 0
                || (self.stays)(page)
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
            self.region.give_back(leaving.first, leaving.n as u32);
            self.residents.forget(leaving.first, leaving.n);
            leaving.held[..leaving.n].iter_mut().for_each(|held| drop(held.take()));
            leaving.n = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_of_numbers_gives_them_in_their_order() {
        let mut bits = Bits::default();
        assert_eq!((bits.next(0), bits.next(100)), (None, None));
        let all = [0, 1, 63, 64, 65, 300, 1000];
        assert!(all.iter().rev().all(|no| bits.insert(*no).expect("memory")));
        assert!(!bits.insert(64).expect("memory"));
        let from = |bits: &Bits, no| {
            let next = |no: &usize| bits.next(no + 1);
            std::iter::successors(bits.next(no), next).collect::<Vec<_>>()
        };
        assert_eq!(from(&bits, 0), all);
        assert_eq!(from(&bits, 64), all[3..]);
        bits.remove(64);
        assert_eq!(from(&bits, 64), all[4..]);
        assert_eq!(bits.next(1001), None);
    }
}
