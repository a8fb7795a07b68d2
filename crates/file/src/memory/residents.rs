//! Which pages are in memory, and how much they and large values take.
//!
//! A page that is [fetched](crate::File) is in memory until it is [evicted](super::evict).

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use everleaf_pmem::error::Result;
use everleaf_pmem::fallible;
use everleaf_pmem::locks::Mutex;
use everleaf_pmem::page::{Geometry, Page, PageNo};
use everleaf_pmem::region::SYSTEM_PAGE_BYTES;
use everleaf_pmem::sync::lock_plain as lock;

use crate::memory::budget::{Budget, Part, Share};
use crate::memory::values::ValueCache;
use crate::options::FileOptions;
use crate::store::table::{LEAF_BYTES, LEAVES_COPIED};

const WHAT: &str = "the list of pages in memory";
/// Bytes of pages that an epoch may change, however little memory there may be; and in each of many pools.
const HELD_LEAST: u64 = 1 << 20;
const HELD_EACH: u64 = 64 << 10;

/// Bytes that a buffer may keep in any case.
const BUFFER_LEAST: u64 = 4 << 10;

/// Pages that are given back by one call, at most.
const MOST_GIVEN: usize = 512;

/// Words of a chunk.
const CHUNK: usize = 512;

/// A set of numbers, in chunks: numbers that are far from each other do not take what lies between.
#[derive(Debug, Default)]
struct Bits(Vec<Option<Box<[u64]>>>);

impl Bits {
    /// Says whether it was new.
    fn insert(&mut self, no: usize) -> Result<bool> {
        let (chunk, at) = (no / 64 / CHUNK, no / 64 % CHUNK);
        if let more @ 1.. = (chunk + 1).saturating_sub(self.0.len()) {
            fallible::more(&mut self.0, more, WHAT)?;
            self.0.resize_with(chunk + 1, || None);
        }
        if self.0[chunk].is_none() {
            self.0[chunk] = Some(fallible::filled(0, CHUNK, WHAT)?.into_boxed_slice());
        }
        let Some(words) = &mut self.0[chunk] else { return Ok(false) };
        let bit = 1 << (no % 64);
        let is_new = words[at] & bit == 0;
        words[at] |= bit;
        Ok(is_new)
    }

    fn contains(&self, no: usize) -> bool {
        let words = self.0.get(no / 64 / CHUNK).and_then(Option::as_ref);
        words.is_some_and(|words| words[no / 64 % CHUNK] & 1 << (no % 64) != 0)
    }

    /// Whether none of `n` numbers from `first` on is there; both are a multiple of 64, or a power of two and its multiple.
    fn lacks(&self, first: usize, n: usize) -> bool {
        let mask = if n < 64 { ((1 << n) - 1) << (first % 64) } else { u64::MAX };
        let word = |no: usize| {
            let words = self.0.get(no / 64 / CHUNK).and_then(Option::as_ref);
            words.map_or(0, |words| words[no / 64 % CHUNK])
        };
        (first..first + n).step_by(64).all(|no| word(no) & mask == 0)
    }

    /// Says whether it was there.
    fn remove(&mut self, no: usize) -> bool {
        let Some(Some(words)) = self.0.get_mut(no / 64 / CHUNK) else { return false };
        let (word, bit) = (&mut words[no / 64 % CHUNK], 1 << (no % 64));
        let was_there = *word & bit != 0;
        *word &= !bit;
        was_there
    }

    /// The first member from `no` on.
    fn next(&self, no: usize) -> Option<usize> {
        let first = no / 64;
        for (i, words) in self.0.iter().enumerate().skip(first / CHUNK) {
            let Some(words) = words else { continue };
            let begin = if i == first / CHUNK { first % CHUNK } else { 0 };
            for (at, word) in (i * CHUNK + begin..).zip(&words[begin..]) {
                let word = if at == first { word & (u64::MAX << (no % 64)) } else { *word };
                if word != 0 {
                    return Some(64 * at + word.trailing_zeros() as usize);
                }
            }
        }
        None
    }
}

/// The frames in memory.
#[derive(Debug)]
pub(crate) struct Frames {
    /// Bytes of one; none if a piece of the system's memory has no whole number of them, so that they stay.
    pub bytes: Option<u64>,
    /// Pieces that are in memory.
    pub pieces: AtomicU64,
    /// How many want all frames to stay for a while.
    pub kept: AtomicU64,
    /// Images of all changes up to this epoch are durable.
    pub imaged: AtomicU64,
    /// Which frames of absent pages stay, because somebody above relies on it.
    pub stays: fn(Page<'_>) -> bool,
    /// Where the hand is.
    pub hand: Mutex<usize>,
}

impl Frames {
    pub fn new(g: Geometry, stays: fn(Page<'_>) -> bool) -> Self {
        let bytes = g.frame_bytes();
        Self {
            bytes: SYSTEM_PAGE_BYTES.is_multiple_of(bytes).then_some(bytes as u64),
            pieces: AtomicU64::new(0),
            kept: AtomicU64::new(0),
            imaged: AtomicU64::new(0),
            stays,
            hand: Mutex::default(),
        }
    }

    /// Bytes of memory that they take.
    pub fn in_memory(&self) -> u64 {
        self.pieces.load(Relaxed) * SYSTEM_PAGE_BYTES as u64
    }
}

/// Which pages are in memory, and the pieces of the system that back frames.
#[derive(Debug, Default)]
struct ResidentSets {
    pages: Bits,
    /// Pages that nobody has used, whose memory the system has found already: nobody touches them before
    /// they are noted.
    ahead: Bits,
    frames: Bits,
}

/// Where the hand is that goes over pages, and how often it has begun anew.
#[derive(Debug, Default)]
pub(crate) struct Hand {
    at: usize,
    round: u32,
}

impl Hand {
    /// Whether a page that the hand has come to, and that it looks at once in so many rounds, is looked at in this one:
    /// not all of them in the same.
    pub fn looks_at(&self, no: PageNo, rounds: u32) -> bool {
        (self.round.wrapping_add(no)).is_multiple_of(rounds)
    }
}

/// The pages in memory, and how many there may be.
#[derive(Debug)]
pub(crate) struct Residents {
    /// Bytes that pages, and what is kept beside them, may take, of all pools that share memory: a little less than all.
    /// None if no page can leave.
    pub most: Option<u64>,
    /// The part of that which this pool takes.
    pub share: Box<Share>,
    pub values: Box<ValueCache>,
    pub page_bytes: u64,
    frame_bytes: u64,
    pub frames: Box<Frames>,
    known: Mutex<Box<ResidentSets>>,
    pub pages: AtomicU64,
    ahead: AtomicU64,
    /// Bytes of the page table, and of the counts of pairs.
    pub table: AtomicU64,
    pub counts: AtomicU64,
    pub hand: Mutex<Hand>,
    pub hits: AtomicU64,
    pub misses: AtomicU64,
    pub evictions: AtomicU64,
    /// How many want all pages to stay for a while.
    pub keepers: AtomicU64,
}

impl Residents {
    pub fn new(g: Geometry, options: &FileOptions) -> Self {
        let page_bytes = g.page_bytes();
        let budget = match &options.budget {
            Some(budget) => budget.of_this_process(),
            None => Budget::new(options.memory_bytes),
        };
        let is_worth_it = page_bytes.is_multiple_of(SYSTEM_PAGE_BYTES) || options.evicts_small;
        let most = budget.most().filter(|_| is_worth_it);
        Self {
            most,
            share: Box::new(Share::new(&budget)),
            values: Box::new(ValueCache::new(budget.bytes(), most.is_none())),
            page_bytes: page_bytes as u64,
            frame_bytes: g.frame_bytes() as u64,
            frames: Box::new(Frames::new(g, options.frame_stays)),
            known: Mutex::default(),
            pages: AtomicU64::new(0),
            ahead: AtomicU64::new(0),
            table: AtomicU64::new(0),
            counts: AtomicU64::new(0),
            hand: Mutex::default(),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            evictions: AtomicU64::new(0),
            keepers: AtomicU64::new(0),
        }
    }

    /// Pages that may be changed and not written, at most this `part` of the room that there is for pages.
    fn changed_part(&self, part: impl Fn(u64) -> u64) -> Option<u64> {
        self.most?;
        self.share.budget().room().map(|room| self.share.of(Part::Changed, part(room)))
    }

    /// Pages that may be changed and not written; none if there is no bound.
    pub fn changed_most(&self) -> Option<u64> {
        self.changed_part(|room| room / 2).map(|bytes| (bytes / self.page_bytes).max(2))
    }

    /// Pages that may be changed and not written where no thread writes checkpoints by itself: most of what there
    /// may be, and some in any case.
    pub fn held_most(&self) -> Option<u64> {
        let least = self.share.budget().each(HELD_LEAST).max(HELD_EACH);
        self.changed_part(|room| room / 8 * 7).map(|bytes| bytes.max(least) / self.page_bytes)
    }

    /// Bytes that this pool may take of something that has a part of the memory; none if there is no bound.
    pub fn part(&self, part: Part, of: u64) -> Option<u64> {
        self.most.map(|most| self.share.of(part, most / of))
    }

    /// Bytes that a buffer may keep beside what it holds: the part of all buffers, for each pool.
    pub fn kept_bytes(&self) -> usize {
        let budget = self.share.budget();
        let all = self.most.map_or(u64::MAX, |_| budget.for_buffers());
        usize::try_from(budget.each(all).max(BUFFER_LEAST)).unwrap_or(usize::MAX)
    }

    /// Tells what pages, and all that is kept beside them, take.
    pub fn tell(&self) {
        if self.most.is_some() {
            self.share.tell(Part::Frames, self.frames.in_memory());
            let table = self.table.load(Relaxed) + self.counts.load(Relaxed);
            self.share.tell(Part::Table, table + self.of_checkpoints());
            self.tell_pages();
        }
    }

    fn tell_pages(&self) {
        self.share.tell(Part::Pages, self.can_leave());
    }

    /// Bytes that stay, whatever pages leave: of frames, of the page table and of counts of pairs.
    fn beside(&self) -> u64 {
        self.frames.in_memory() + self.table.load(Relaxed) + self.counts.load(Relaxed)
    }

    /// Bytes that a checkpoint may take for a moment, for copies of leaves of the table and of the counts.
    fn of_checkpoints(&self) -> u64 {
        let leaves = self.table.load(Relaxed).min((LEAVES_COPIED * LEAF_BYTES) as u64);
        leaves.max(2 * self.counts.load(Relaxed))
    }

    /// Bytes that all of this takes, with large values and memory that was made ready ahead.
    pub fn bytes(&self) -> u64 {
        self.can_leave() + self.beside()
    }

    /// Bytes of pages, large values and memory that was made ready ahead.
    fn can_leave(&self) -> u64 {
        let pages = self.pages.load(Relaxed) + self.ahead.load(Relaxed);
        pages * self.page_bytes + self.values.bytes()
    }

    /// Whether all that is counted would take too much with so many more bytes.
    pub fn is_full(&self, more: u64) -> bool {
        self.most.is_some_and(|most| {
            self.tell_pages();
            self.share.budget().used() + more > most
        })
    }

    /// Whether there is no room for so many more bytes of pages and values.
    pub fn is_tight(&self, more: u64) -> bool {
        if self.most.is_none() {
            return false;
        }
        self.tell_pages();
        self.share.budget().left().is_some_and(|left| more as i64 > left)
    }

    /// A page is in memory now.
    pub fn note(&self, no: PageNo) -> Result<()> {
        let mut known = lock(&self.known);
        if known.frames.insert(no as usize * self.frame_bytes as usize / SYSTEM_PAGE_BYTES)? {
            self.frames.pieces.fetch_add(1, Relaxed);
        }
        if known.pages.insert(no as usize)? {
            self.pages.fetch_add(1, Relaxed);
        }
        if known.ahead.remove(no as usize) {
            self.ahead.fetch_sub(1, Relaxed);
        }
        Ok(())
    }

    /// The system has found memory for these pages, whether somebody uses them or not.
    ///
    /// # Errors
    /// [`Error::NoMemory`](everleaf_pmem::Error::NoMemory); what could not be listed is not counted.
    pub fn note_ahead(&self, pages: Range<PageNo>) -> Result<()> {
        if self.most.is_none() {
            return Ok(());
        }
        let mut known = lock(&self.known);
        for no in pages.start as usize..pages.end as usize {
            if !known.pages.contains(no) && known.ahead.insert(no)? {
                self.ahead.fetch_add(1, Relaxed);
            }
        }
        Ok(())
    }

    /// The system has found memory for these of its pages, in which frames are.
    ///
    /// # Errors
    /// As [`note_ahead`](Self::note_ahead).
    pub fn note_frames(&self, pieces: Range<usize>) -> Result<()> {
        if self.most.is_none() {
            return Ok(());
        }
        let mut known = lock(&self.known);
        for piece in pieces {
            if known.frames.insert(piece)? {
                self.frames.pieces.fetch_add(1, Relaxed);
            }
        }
        Ok(())
    }

    /// Gives memory that was made ready ahead back by `give`, a run of pages after the other.
    pub fn give_ahead(&self, mut give: impl FnMut(Range<PageNo>)) {
        let mut from = 0;
        while self.ahead.load(Relaxed) > 0 {
            // A thread that wants to use one of them waits until it is gone.
            let mut known = lock(&self.known);
            let Some(first) = known.ahead.next(from) else { break };
            let mut n = 0;
            while n < MOST_GIVEN && known.ahead.remove(first + n) {
                n += 1;
            }
            give(first as PageNo..(first + n) as PageNo);
            self.ahead.fetch_sub(n as u64, Relaxed);
            from = first + n;
        }
    }

    /// Some runs of pages are in memory no more.
    pub fn forget(&self, runs: impl Iterator<Item = Range<PageNo>>) {
        let (mut known, mut n) = (lock(&self.known), 0);
        for no in runs.flatten() {
            known.pages.remove(no as usize);
            n += 1;
        }
        self.pages.fetch_sub(n, Relaxed);
        self.evictions.fetch_add(n, Relaxed);
        self.share.budget().note_evictions(n);
    }

    /// The next piece of frames in memory that the hand comes to; within, if none of its pages is in memory.
    pub fn next_piece(&self, hand: &mut usize) -> Option<Option<usize>> {
        let known = lock(&self.known);
        let piece = known.frames.next(*hand).or_else(|| known.frames.next(0))?;
        *hand = piece + 1;
        let each = SYSTEM_PAGE_BYTES / self.frame_bytes as usize;
        let is_empty = |set: &Bits| set.lacks(piece * each, each);
        Some((is_empty(&known.pages) && is_empty(&known.ahead)).then_some(piece))
    }

    /// A piece of frames is in memory no more.
    pub fn forget_piece(&self, piece: usize) {
        if lock(&self.known).frames.remove(piece) {
            self.frames.pieces.fetch_sub(1, Relaxed);
        }
    }

    /// The next page in memory that the hand comes to.
    pub fn next(&self, hand: &mut Hand) -> Option<PageNo> {
        let known = lock(&self.known);
        let no = known.pages.next(hand.at).or_else(|| {
            hand.round = hand.round.wrapping_add(1);
            known.pages.next(0)
        })?;
        hand.at = no + 1;
        Some(no as PageNo)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_of_numbers_gives_them_in_their_order() {
        let mut bits = Bits::default();
        assert_eq!((bits.next(0), bits.next(100)), (None, None));
        let all = [0, 1, 63, 64, 65, 300, 1000, 32_767, 32_768, 100_000_000];
        assert!(all.iter().rev().all(|no| bits.insert(*no).expect("memory")));
        assert!(!bits.insert(64).expect("memory"));
        let from = |bits: &Bits, no| {
            let next = |no: &usize| bits.next(no + 1);
            std::iter::successors(bits.next(no), next).collect::<Vec<_>>()
        };
        assert_eq!(from(&bits, 0), all);
        assert_eq!(from(&bits, 64), all[3..]);
        assert!(bits.contains(64) && bits.remove(64) && !bits.remove(64) && !bits.contains(64));
        assert_eq!(from(&bits, 64), all[4..]);
        assert_eq!((bits.next(1001), bits.next(100_000_001)), (Some(32_767), None));
        bits.remove(32_767);
        assert_eq!(bits.next(1001), Some(32_768), "the first one of a chunk");
        let chunks = bits.0.iter().flatten().count();
        assert_eq!(chunks, 3, "what lies between takes no memory");
    }

    #[test]
    fn the_hand_looks_at_each_page_once_in_so_many_rounds() {
        let residents = Residents::new(
            Geometry::from_slots(252).expect("valid"),
            &FileOptions { memory_bytes: 1 << 30, ..FileOptions::default() },
        );
        let pages = [7, 8, 1000, 100_000];
        assert_eq!(residents.next(&mut Hand::default()), None);
        pages.iter().for_each(|no| residents.note(*no).expect("memory"));
        let mut hand = Hand { at: 9, round: u32::MAX - 1 };
        let mut looks = [0; 4];
        for _ in 0..3 * 8 * pages.len() {
            let no = residents.next(&mut hand).expect("pages are there");
            let i = pages.iter().position(|page| *page == no).expect("one of them");
            looks[i] += u32::from(hand.looks_at(no, 8));
        }
        assert_eq!(looks, [3; 4]);
    }

    #[test]
    fn memory_ahead_counts_until_it_is_used_or_given_back() {
        let options = FileOptions { memory_bytes: 1 << 30, ..FileOptions::default() };
        let g = Geometry::from_slots(252).expect("valid");
        let residents = Residents::new(g, &options);
        let pages =
            |residents: &Residents| (residents.pages.load(Relaxed), residents.ahead.load(Relaxed));
        residents.note(1003).expect("memory");
        residents.note_ahead(1000..1010).expect("memory");
        residents.note_ahead(1000..1010).expect("memory");
        assert_eq!(pages(&residents), (1, 9));
        assert_eq!(residents.bytes(), 10 * 4096 + 4096);
        residents.note(1007).expect("memory");
        assert_eq!(pages(&residents), (2, 8));
        let mut given = vec![];
        residents.give_ahead(|run| given.push(run));
        assert_eq!(given, [1000..1003, 1004..1007, 1008..1010]);
        assert_eq!(pages(&residents), (2, 0));
    }
}
