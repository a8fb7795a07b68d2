//! Memory: in pages of the right size, and ahead of need.
//!
//! **Size.** A huge page is quicker to reach, but one touch takes 2 MiB, and an open touches a page
//! here and there. So what is in the pool at the open is backed by small pages, and a stretch of
//! 2 MiB becomes a huge page when half of it has been touched. What the pool grows into will be
//! touched in a row: huge pages back it from the first touch on.
//!
//! **Ahead.** The first touch of a huge page makes the system clear it, and in a virtual machine
//! find the memory first, which takes milliseconds. A pool that grows would meet that in the middle
//! of a step every few thousand inserts; a thread meets it instead, some way ahead of the highest
//! page in use. It never runs further ahead than the pool has grown already, so that small pools
//! stay small. The same thread makes stretches huge.

use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU32, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};

use crate::error::Result;
use crate::page::PageNo;
use crate::region::{HUGE_BYTES, Part, Region};
use crate::room;

use super::inner::lock;

/// How far ahead memory is made ready, in bytes of pages.
const AHEAD_BYTES: usize = 32 << 20;
/// How much is made ready between two looks at what is needed.
const CHUNK_BYTES: usize = 2 << 20;

/// How many pages have been touched in each of a part's stretches that were there at the open.
#[derive(Debug)]
struct Stretches {
    part: Part,
    touched: Vec<AtomicU16>,
}

impl Stretches {
    fn new(part: Part, end: PageNo, region: &Region) -> Result<Self> {
        let n = region.stretch_of(part, end) + 1;
        let mut touched = room::list(n, "the counts of touched pages")?;
        touched.resize_with(n, AtomicU16::default);
        Ok(Self { part, touched })
    }
    /// Counts a touch. The stretch, if it is the one that fills half of it.
    fn touch(&self, no: PageNo, region: &Region) -> Option<usize> {
        let stretch = region.stretch_of(self.part, no);
        let half = (HUGE_BYTES / region.stride(self.part) / 2) as u16;
        let touched = self.touched.get(stretch)?.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        (touched == half).then_some(stretch)
    }
}

/// What the thread has to do, and whether it sleeps.
#[derive(Debug, Default)]
struct Chores {
    sleeping: bool,
    /// Stretches to be made huge.
    dense: Vec<(Part, usize)>,
}

/// How far pages are in use and memory is ready.
#[derive(Debug)]
pub(super) struct Warmth {
    old: [Stretches; 2],
    /// The end of what was there at the open.
    end: PageNo,
    grown: AtomicBool,
    used: AtomicU32,
    ready: AtomicU32,
    /// Whether there is a thread.
    threaded: bool,
    stop: AtomicBool,
    chores: Mutex<Chores>,
    wake: Condvar,
}

impl Warmth {
    /// For a pool whose pages end at `end`.
    ///
    /// # Errors
    /// [`Error::NoMemory`](crate::Error::NoMemory).
    pub fn new(end: PageNo, region: &Region, threaded: bool) -> Result<Self> {
        let of = |part| Stretches::new(part, end, region);
        Ok(Self {
            old: [of(Part::Pages)?, of(Part::Frames)?],
            end,
            grown: AtomicBool::new(false),
            used: AtomicU32::new(0),
            ready: AtomicU32::new(0),
            threaded,
            stop: AtomicBool::new(false),
            chores: Mutex::default(),
            wake: Condvar::new(),
        })
    }

    /// A page is touched for the first time in this open; `new` if it is to get new bytes.
    pub fn touch(&self, no: PageNo, new: bool, region: &Region) {
        for old in &self.old {
            if let Some(stretch) = old.touch(no, region) {
                self.is_dense(old.part, stretch, region);
            }
        }
        if new && no >= self.end {
            self.grow(no, region);
        }
    }

    #[cold]
    fn is_dense(&self, part: Part, stretch: usize, region: &Region) {
        if !self.threaded {
            return region.make_huge(part, stretch);
        }
        // For want of memory it stays as it is.
        let _ = room::push(&mut lock(&self.chores).dense, (part, stretch), "stretches of memory");
        self.wake.notify_one();
    }

    fn grow(&self, no: PageNo, region: &Region) {
        if !self.grown.load(Ordering::Relaxed) && !self.grown.swap(true, Ordering::Relaxed) {
            for old in &self.old {
                region.huge_from(old.part, old.touched.len());
            }
        }
        let used = self.used.fetch_max(no, Ordering::Relaxed).max(no);
        let ready = self.ready.load(Ordering::Relaxed);
        if ready < used.saturating_add(ahead(used, region) / 2) {
            // Nobody waits here: if the thread is about to sleep, the next page wakes it.
            if self.chores.try_lock().is_ok_and(|chores| chores.sleeping) {
                self.wake.notify_one();
            }
        }
    }

    pub fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        drop(lock(&self.chores));
        self.wake.notify_all();
    }

    /// The thread's life.
    pub fn run(&self, region: &Region) {
        let chunk = (CHUNK_BYTES / region.geometry().page_bytes()).max(1) as PageNo;
        while !self.stop.load(Ordering::Acquire) {
            let used = self.used.load(Ordering::Relaxed);
            let from = self.ready.load(Ordering::Relaxed).max(used);
            let end = used.saturating_add(ahead(used, region)).min(region.limit());
            if from < end {
                let to = from.saturating_add(chunk).min(end);
                region.populate(from, to);
                self.ready.store(to, Ordering::Relaxed);
            } else if let Some((part, stretch)) = self.chore() {
                region.make_huge(part, stretch);
            }
        }
    }

    /// A stretch to be made huge; sleeps first if there is none.
    fn chore(&self) -> Option<(Part, usize)> {
        let mut chores = lock(&self.chores);
        if chores.dense.is_empty() && !self.stop.load(Ordering::Acquire) {
            chores.sleeping = true;
            chores = self.wake.wait(chores).unwrap_or_else(PoisonError::into_inner);
            chores.sleeping = false;
        }
        chores.dense.pop()
    }
}

/// How many pages ahead of page `used` memory should be ready.
fn ahead(used: PageNo, region: &Region) -> PageNo {
    used.min((AHEAD_BYTES / region.geometry().page_bytes()) as PageNo)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::Geometry;

    #[test]
    fn a_stretch_is_dense_once_when_half_of_it_was_touched() {
        let g = Geometry::new(128).expect("valid");
        let region = Region::sparse(g, 10_000).expect("address space");
        let pages_in = |part| (HUGE_BYTES / region.stride(part)) as PageNo;
        let warmth = Warmth::new(3000, &region, true).expect("memory");
        assert_eq!(warmth.old[0].touched.len(), region.stretch_of(Part::Pages, 3000) + 1);
        for no in 0..pages_in(Part::Pages) / 2 - 1 {
            warmth.touch(no, false, &region);
        }
        assert_eq!(lock(&warmth.chores).dense, []);
        for no in pages_in(Part::Pages) / 2 - 1..pages_in(Part::Pages) {
            warmth.touch(no, false, &region);
        }
        assert_eq!(lock(&warmth.chores).dense, [(Part::Pages, 0)]);
        // What lies behind is not counted, and an open that looks there does not make it grow.
        (8000..10_000).for_each(|no| warmth.touch(no, false, &region));
        assert_eq!(lock(&warmth.chores).dense.len(), 1);
        assert_eq!((warmth.used.load(Ordering::Relaxed), warmth.grown.into_inner()), (0, false));
    }

    #[test]
    fn pages_keep_their_words_in_small_and_huge_memory() {
        let g = Geometry::new(128).expect("valid");
        let region = Region::sparse(g, 5000).expect("address space");
        let warmth = Warmth::new(2500, &region, false).expect("memory");
        for no in 0..5000 {
            warmth.touch(no, no % 3 == 0, &region);
            let page = region.page(no).expect("there");
            page.word(7).put(u64::from(no));
            page.mark(1).store(u64::from(no), Ordering::Relaxed);
        }
        for part in [Part::Pages, Part::Frames] {
            (0..=region.stretch_of(part, 5000)).for_each(|stretch| region.make_huge(part, stretch));
        }
        assert!(warmth.grown.into_inner());
        for no in 0..5000 {
            let page = region.page(no).expect("there");
            assert_eq!(page.word(7).load(), u64::from(no));
            assert_eq!(page.mark(1).load(Ordering::Relaxed), u64::from(no));
        }
    }
}
