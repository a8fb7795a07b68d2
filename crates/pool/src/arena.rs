//! Where the next record goes: hints in DRAM, empty after an open.
//!
//! Each thread fills a page of its own per class (its *arena*), so that threads do not meet. Pages
//! with room that nobody fills are *listed* by class. After an open, record pages of the map are
//! looked at a few at a time. Invariant, held by whoever unlatches a record page that has room: it
//! is in an arena, or listed, or has not been looked at since the open; for want of memory to list
//! it, it waits for the next record that is freed in it, or the next open. Entries may be stale (the
//! page became full, free or something else); the page and its marks, read under its latch, decide. A page that has left
//! memory may have lost the mark of being listed, and then be listed again.

use std::sync::atomic::Ordering;

use everleaf_pmem::locks::{Mutex, MutexGuard};
use everleaf_pmem::{Page, PageNo, Result, fallible, thread_number};

use crate::class::MAX_CLASSES;

/// Which mark of a page's frame says where the page stands; changed under the page's latch.
pub(crate) const ARENA_MARK: usize = 5;
const ARENAS: usize = 64;
/// A list of so many pages may have some of them twice.
const LISTED_LEAST: usize = 512;
/// The name of this memory in errors.
const HINTS: &str = "the list of record pages with room";

/// Where a record page stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ArenaState {
    /// Full, or not looked at yet, or held by a step; or listed before the page's frame was given back.
    None = 0,
    /// In the list of its class.
    Listed = 1,
    /// Filled by a thread.
    Arena = 2,
}

pub(crate) fn arena_state(page: Page<'_>) -> ArenaState {
    match page.mark(ARENA_MARK).load(Ordering::Relaxed) {
        0 => ArenaState::None,
        1 => ArenaState::Listed,
        _ => ArenaState::Arena,
    }
}

pub(crate) fn set_arena_state(page: Page<'_>, place: ArenaState) {
    debug_assert!(page.latch().is_held(), "the mark changes under the page's latch");
    page.mark(ARENA_MARK).store(place as u64, Ordering::Relaxed);
}

/// The record pages that have been there since the open and were not looked at.
#[derive(Debug, Default)]
struct Unseen {
    bits: Vec<u64>,
    from: usize,
}

/// The record pages of a class that have room, and that nobody fills.
#[derive(Debug, Default)]
struct Listed {
    pages: Vec<PageNo>,
    /// How many there were when each was there once, at last.
    once: usize,
}

impl Listed {
    /// # Errors
    /// [`Error::NoMemory`](everleaf_pmem::Error::NoMemory).
    fn push(&mut self, no: PageNo) -> Result<()> {
        if self.pages.len() >= 2 * self.once.max(LISTED_LEAST) {
            self.pages.sort_unstable();
            self.pages.dedup();
            self.once = self.pages.len();
        }
        fallible::push(&mut self.pages, no, HINTS)
    }
}

#[derive(Debug)]
pub(crate) struct Arenas {
    current: Vec<Mutex<[PageNo; MAX_CLASSES]>>,
    listed: Vec<Mutex<Listed>>,
    unseen: Mutex<Unseen>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("nothing panics with this lock")
}

/// The arena of this thread; threads beyond the number of arenas share.
fn mine() -> usize {
    thread_number() % ARENAS
}

impl Arenas {
    /// # Errors
    /// [`Error::NoMemory`](everleaf_pmem::Error::NoMemory).
    pub fn new(classes: usize) -> Result<Self> {
        let mut current = fallible::list(ARENAS, HINTS)?;
        current.resize_with(ARENAS, || Mutex::new([0; MAX_CLASSES]));
        let mut listed = fallible::list(classes, HINTS)?;
        listed.resize_with(classes, Mutex::default);
        Ok(Self { current, listed, unseen: Mutex::default() })
    }
    /// The page that this thread fills, 0 for none.
    pub fn current(&self, class: usize) -> PageNo {
        lock(&self.current[mine()])[class]
    }
    /// Makes a page the one that this thread fills, if it has none.
    pub fn adopt(&self, class: usize, no: PageNo) -> bool {
        debug_assert_ne!(no, 0, "0 means that there is none");
        let current = &mut lock(&self.current[mine()])[class];
        let vacant = *current == 0;
        if vacant {
            *current = no;
        }
        vacant
    }
    /// This thread no longer fills that page.
    pub fn leave(&self, class: usize, no: PageNo) {
        let current = &mut lock(&self.current[mine()])[class];
        if *current == no {
            *current = 0;
        }
    }
    /// Lists a page that has room; says whether there was memory for that.
    pub fn list(&self, class: usize, no: PageNo) -> bool {
        debug_assert_ne!(no, 0, "a map page holds no records");
        lock(&self.listed[class]).push(no).is_ok()
    }
    /// Takes the page that was listed last.
    pub fn unlist(&self, class: usize) -> Option<PageNo> {
        lock(&self.listed[class]).pages.pop()
    }
    /// A record page has yet to be looked at.
    ///
    /// # Errors
    /// [`Error::NoMemory`](everleaf_pmem::Error::NoMemory), not for a page that was added before.
    pub fn add_unseen(&self, no: PageNo) -> Result<()> {
        self.add_all_unseen(no / 64 * 64, &[1 << (no % 64)])
    }
    /// Record pages were found at open: a bit each, from page `first` on, a multiple of 64.
    ///
    /// # Errors
    /// [`Error::NoMemory`](everleaf_pmem::Error::NoMemory), not for pages that were added before.
    pub fn add_all_unseen(&self, first: PageNo, bits: &[u64]) -> Result<()> {
        debug_assert!(first.is_multiple_of(64), "a bit for each page, in words");
        let unseen = &mut *lock(&self.unseen);
        let from = first as usize / 64;
        let end = from + bits.len();
        if unseen.bits.len() < end {
            let new = end - unseen.bits.len();
            fallible::more(&mut unseen.bits, new, HINTS)?;
            unseen.bits.resize(end, 0);
        }
        unseen.bits[from..end].iter_mut().zip(bits).for_each(|(all, new)| *all |= new);
        unseen.from = unseen.from.min(from);
        Ok(())
    }
    /// Takes a page that was not looked at since the open. O(1) amortised over the pool.
    pub fn take_unseen(&self) -> Option<PageNo> {
        let unseen = &mut *lock(&self.unseen);
        while let Some(word) = unseen.bits.get_mut(unseen.from) {
            if *word != 0 {
                let bit = word.trailing_zeros();
                *word &= *word - 1;
                return Some(64 * unseen.from as u32 + bit);
            }
            unseen.from += 1;
        }
        None
    }
}
