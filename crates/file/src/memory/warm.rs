//! Memory: in pages of the right size, and ahead of need.
//!
//! **Size.** A huge page is quicker to reach, but one touch takes 2 MiB. An open touches a page here
//! and there, and of extents only the pages of the map are ever touched. So small pages back what
//! was there at the open, and a stretch of 2 MiB becomes a huge page when half of it has been
//! touched. Where the pool grows by pages in a row, huge pages back what comes next from the first
//! touch on.
//!
//! **Ahead.** The first touch of a huge page makes the system clear it, and in a virtual machine
//! find the memory first, which takes milliseconds. A pool that grows would meet that in the middle
//! of a step every few thousand inserts; a task meets it instead, some way ahead of the highest
//! page in use. It never runs further ahead than the pool has grown in a row, so that small pools
//! stay small. The same task makes stretches huge.
//!
//! **Addresses.** All pages of a pool have their place from the open on, for they never move: a pool reserves as much
//! address space as it may ever need. All pools of a process share 47 bits of it. If nobody has said how much a pool
//! gets, that depends on what the pools before it have: the first hundred get so much that they never notice, and
//! thousands still find room for more than most pools ever hold.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU16, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use everleaf_pmem::error::Result;
use everleaf_pmem::fallible;
use everleaf_pmem::locks::{Mutex, MutexGuard};
use everleaf_pmem::page::PageNo;
use everleaf_pmem::region::{HUGE_BYTES, Region, RegionPart, SYSTEM_PAGE_BYTES};
use everleaf_pmem::sync::lock_plain as lock;

use crate::memory::residents::Residents;
use crate::workers::Waker;

/// Memory is made ready ahead, and in huge pages, only while so much more is free.
const HUGE_ROOM: u64 = 64 << 20;
/// How far ahead memory is made ready, in bytes of pages.
const AHEAD_BYTES: usize = 32 << 20;
/// Pages that threads take at the same time are so near to each other.
const NEAR_PAGES: PageNo = 64;
/// A run may split each mapping in two places, and a process may have only so many pieces: so many runs of one
/// pool may do so, and so many of all.
const RUNS_MAX: usize = 1000;
const SPLITS_MAX: usize = 10_000;
/// How many runs of open pools have split a mapping.
static SPLITS: AtomicUsize = AtomicUsize::new(0);

const PARTS: [RegionPart; 2] = [RegionPart::Pages, RegionPart::Frames];

/// How many pages have been touched in each of a part's stretches that were there at the open.
#[derive(Debug)]
struct Stretches {
    part: RegionPart,
    touched: Vec<AtomicU16>,
}

impl Stretches {
    fn new(part: RegionPart, end: PageNo, region: &Region) -> Result<Self> {
        let n = region.stretch_of(part, end) + 1;
        let mut touched = fallible::list(n, "the counts of touched pages")?;
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

/// How a pool grows: it takes pages in a row, and now and then one far ahead, such as the page that
/// maps a group of extents, whose memory nobody touches.
#[derive(Debug, Default)]
struct Growth {
    last: PageNo,
    /// How many pages were taken in a row, up to `last`.
    run: PageNo,
    runs: usize,
    /// Of each part, the next stretch to see to.
    next: [usize; 2],
    /// Whether that is the one in which the run began, so that small pages back some of it.
    begun: [bool; 2],
    /// Whether the run has split the mapping.
    split: [bool; 2],
    splits: usize,
}

impl Drop for Growth {
    fn drop(&mut self) {
        SPLITS.fetch_sub(self.splits, Ordering::Relaxed);
    }
}

impl Growth {
    fn touch(&mut self, no: PageNo, region: &Region) {
        if no.abs_diff(self.last) > NEAR_PAGES || self.runs == 0 {
            self.next = PARTS.map(|part| region.stretch_of(part, no));
            self.begun = [true; 2];
            self.split = [false; 2];
            self.run = 0;
            self.runs += 1;
        }
        self.run = self.run.saturating_add(1);
        self.last = no;
    }
    /// Of which part a stretch is due: ahead, but no further than the run is long.
    fn due(&self, region: &Region) -> Option<usize> {
        let ahead = (AHEAD_BYTES / region.geometry().page_bytes()) as PageNo;
        let end = self.last.saturating_add(self.run.min(ahead)).min(region.limit());
        let may_split = SPLITS.load(Ordering::Relaxed) < SPLITS_MAX;
        let is_due = |i: &usize| {
            let may = self.begun[*i] || self.split[*i] || may_split;
            may && self.next[*i] < region.stretch_of(PARTS[*i], end)
        };
        (0..PARTS.len()).find(is_due).filter(|_| self.runs <= RUNS_MAX)
    }
    fn chore(&mut self, region: &Region) -> Option<Chore> {
        let i = self.due(region)?;
        let (part, stretch) = (PARTS[i], self.next[i]);
        self.next[i] += 1;
        if std::mem::replace(&mut self.begun[i], false) {
            return Some(Chore::Collapse(part, stretch));
        }
        if !std::mem::replace(&mut self.split[i], true) {
            self.splits += 1;
            SPLITS.fetch_add(1, Ordering::Relaxed);
        }
        Some(Chore::Ahead(part, stretch))
    }
}

/// Work on one stretch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Chore {
    /// Its small pages become a huge one.
    Collapse(RegionPart, usize),
    /// It is backed by a huge page before anybody touches it.
    Ahead(RegionPart, usize),
}

impl Chore {
    /// All of the stretch takes memory now.
    fn count(self, region: &Region, residents: &Residents) {
        let (Chore::Collapse(part, stretch) | Chore::Ahead(part, stretch)) = self;
        let (begin, end) = (stretch * HUGE_BYTES, (stretch + 1) * HUGE_BYTES);
        // For want of memory it counts when it is used.
        let _ = match part {
            RegionPart::Pages => {
                let page = |at: usize| at.div_ceil(region.stride(part)) as PageNo;
                residents.note_ahead(page(begin)..page(end).min(region.limit()))
            }
            RegionPart::Frames => {
                residents.note_frames(begin / SYSTEM_PAGE_BYTES..end / SYSTEM_PAGE_BYTES)
            }
        };
    }
}

/// The work that is to be done.
#[derive(Debug, Default)]
struct Chores {
    growth: Growth,
    /// Stretches that were there at the open, to be made huge.
    dense: Vec<(RegionPart, usize)>,
}

impl Chores {
    fn is_any(&self, region: &Region) -> bool {
        !self.dense.is_empty() || self.growth.due(region).is_some()
    }
    fn next(&mut self, region: &Region) -> Option<Chore> {
        if let Some(chore) = self.growth.chore(region) {
            return Some(chore);
        }
        let (part, stretch) = self.dense.pop()?;
        // One by itself splits its mapping.
        self.growth.splits += 1;
        SPLITS.fetch_add(1, Ordering::Relaxed);
        Some(Chore::Collapse(part, stretch))
    }
}

/// Which memory is in use and which is to be made ready.
#[derive(Debug)]
pub(crate) struct Warmth {
    old: [Stretches; 2],
    /// The end of what was there at the open.
    end: PageNo,
    /// Of the task that does it; none if whoever finds something to do does it.
    waker: OnceLock<Waker>,
    chores: Mutex<Chores>,
}

impl Warmth {
    /// For a pool whose pages end at `end`.
    ///
    /// # Errors
    /// [`Error::NoMemory`](everleaf_pmem::Error::NoMemory).
    pub fn new(end: PageNo, region: &Region) -> Result<Self> {
        let of = |part| Stretches::new(part, end, region);
        Ok(Self {
            old: [of(RegionPart::Pages)?, of(RegionPart::Frames)?],
            end,
            waker: OnceLock::new(),
            chores: Mutex::default(),
        })
    }

    /// From now on a task [does](Self::run) what is to be done.
    pub fn start(&self, waker: Waker) {
        let is_first = self.waker.set(waker).is_ok();
        debug_assert!(is_first, "one task for each open");
    }

    /// A page is touched for the first time in this open; `new` if it is to get new bytes.
    pub fn touch(&self, no: PageNo, new: bool, region: &Region, residents: &Residents) {
        if residents.is_tight(HUGE_ROOM) {
            return;
        }
        let mut dense = self.old.iter().filter_map(|old| Some((old.part, old.touch(no, region)?)));
        let (first, second) = (dense.next(), dense.next());
        let may_split = SPLITS.load(Ordering::Relaxed) < SPLITS_MAX;
        let grows = new && no >= self.end;
        if grows || first.is_some() {
            let mut chores = lock(&self.chores);
            for stretch in first.into_iter().chain(second).filter(|_| may_split) {
                // For want of memory it stays as it is.
                let _ = fallible::push(&mut chores.dense, stretch, "stretches of memory");
            }
            if grows {
                chores.growth.touch(no, region);
            }
            self.see_to(chores, region, residents);
        }
    }

    /// Wakes the task if there is something to do; does it where there is none, but for what is only
    /// sooner than needed.
    fn see_to(&self, mut chores: MutexGuard<'_, Chores>, region: &Region, residents: &Residents) {
        if let Some(waker) = self.waker.get() {
            if chores.is_any(region) {
                waker.wake_in(Duration::ZERO);
            }
            return;
        }
        while let Some(chore) = chores.next(region) {
            match chore {
                Chore::Collapse(part, stretch) => region.make_huge(part, stretch),
                Chore::Ahead(part, stretch) => region.huge(part, stretch),
            }
            chore.count(region, residents);
        }
    }

    /// Does one thing; says whether there was one to do.
    pub fn run(&self, region: &Region, residents: &Residents) -> bool {
        let Some(chore) = lock(&self.chores).next(region) else { return false };
        match chore {
            _ if residents.is_tight(HUGE_ROOM) => return true,
            Chore::Collapse(part, stretch) => region.make_huge(part, stretch),
            Chore::Ahead(part, stretch) => {
                region.huge(part, stretch);
                region.populate(part, stretch);
            }
        }
        chore.count(region, residents);
        true
    }
}

/// Bytes of pages that a pool gets while all pools together have fewer bytes than these.
const TIERS: [(u64, u64); 3] = [(32 << 40, 256 << 30), (100 << 40, 32 << 30), (u64::MAX, 4 << 30)];

/// Bytes of pages for which all open pools have reserved addresses.
static TAKEN: AtomicU64 = AtomicU64::new(0);

/// Bytes of pages that a pool gets if nobody has said how much.
pub(crate) fn default_address_bytes() -> u64 {
    bytes_beside(TAKEN.load(Ordering::Relaxed))
}

fn bytes_beside(taken: u64) -> u64 {
    let tier = TIERS.iter().find(|(below, _)| taken < *below);
    tier.map_or(0, |(_, bytes)| *bytes)
}

/// The addresses that an open pool has reserved.
#[derive(Debug)]
pub(crate) struct Addresses(u64);

impl Addresses {
    /// So many bytes of pages were reserved.
    pub fn of(bytes: u64) -> Self {
        TAKEN.fetch_add(bytes, Ordering::Relaxed);
        Self(bytes)
    }
}

impl Drop for Addresses {
    fn drop(&mut self) {
        TAKEN.fetch_sub(self.0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use everleaf_pmem::door::put;
    use everleaf_pmem::page::Geometry;

    use crate::options::FileOptions;
    use crate::workers::{Job, Length, Task};

    fn unbounded(g: Geometry) -> Residents {
        Residents::new(g, &FileOptions { memory_bytes: u64::MAX, ..FileOptions::default() })
    }

    /// Leaves what there is to do for the test to see.
    struct Idle;

    impl Job for Idle {
        fn run(&mut self) -> Option<Duration> {
            None
        }
        fn broke(&mut self) {}
    }

    #[test]
    fn a_stretch_is_dense_once_when_half_of_it_was_touched() {
        let g = Geometry::new(128).expect("valid");
        let region = Region::sparse(g, 10_000).expect("address space");
        let pages_in = |part| (HUGE_BYTES / region.stride(part)) as PageNo;
        let residents = unbounded(g);
        let warmth = Warmth::new(3000, &region).expect("memory");
        let task = Task::new(Length::Short, Box::new(Idle)).expect("a thread");
        warmth.start(task.waker().clone());
        assert_eq!(warmth.old[0].touched.len(), region.stretch_of(RegionPart::Pages, 3000) + 1);
        for no in 0..pages_in(RegionPart::Pages) / 2 - 1 {
            warmth.touch(no, false, &region, &residents);
        }
        assert_eq!(lock(&warmth.chores).dense, []);
        for no in pages_in(RegionPart::Pages) / 2 - 1..pages_in(RegionPart::Pages) {
            warmth.touch(no, false, &region, &residents);
        }
        assert_eq!(lock(&warmth.chores).dense, [(RegionPart::Pages, 0)]);
        // Pages that lie behind are not counted, and an open that looks there does not make it grow.
        (8000..10_000).for_each(|no| warmth.touch(no, false, &region, &residents));
        assert_eq!(lock(&warmth.chores).dense.len(), 1);
        assert_eq!(lock(&warmth.chores).growth.runs, 0);
    }

    #[test]
    fn what_comes_next_is_made_ready_where_pages_are_taken_in_a_row() {
        let g = Geometry::new(128).expect("valid");
        let region = Region::sparse(g, 200_000).expect("address space");
        let mut growth = Growth::default();
        let mut touch = |no| {
            growth.touch(no, &region);
            std::iter::from_fn(|| growth.chore(&region)).collect::<Vec<_>>()
        };
        // The pages that map groups of extents.
        assert!((0..60_000).step_by(2048).all(|no| touch(no).is_empty()));
        let chores: Vec<_> = (100_000..120_000).flat_map(touch).collect();
        let of = |part: RegionPart| -> Vec<Chore> {
            let is_of = |chore: &Chore| match chore {
                Chore::Collapse(p, _) | Chore::Ahead(p, _) => *p == part,
            };
            chores.iter().copied().filter(is_of).collect()
        };
        for part in PARTS {
            let (first, last) =
                (region.stretch_of(part, 100_000), region.stretch_of(part, 120_000));
            let ahead = AHEAD_BYTES / HUGE_BYTES * region.stride(part) / g.page_bytes();
            let chores = of(part);
            assert_eq!(chores[0], Chore::Collapse(part, first));
            for (i, chore) in chores.iter().enumerate().skip(1) {
                assert_eq!(*chore, Chore::Ahead(part, first + i));
            }
            assert!((last + ahead - 2..=last + ahead + 1).contains(&(first + chores.len())));
        }
    }

    #[test]
    fn pages_keep_their_words_in_small_and_huge_memory() {
        let g = Geometry::new(128).expect("valid");
        let region = Region::sparse(g, 5000).expect("address space");
        let residents = unbounded(g);
        let warmth = Warmth::new(2500, &region).expect("memory");
        for no in 0..5000 {
            warmth.touch(no, no % 3 == 0, &region, &residents);
            let page = region.page(no).expect("there");
            put(page.word(7), u64::from(no));
            page.mark(1).store(u64::from(no), Ordering::Relaxed);
        }
        for part in [RegionPart::Pages, RegionPart::Frames] {
            (0..=region.stretch_of(part, 5000)).for_each(|stretch| region.make_huge(part, stretch));
        }
        for no in 0..5000 {
            let page = region.page(no).expect("there");
            assert_eq!(page.word(7).load(), u64::from(no));
            assert_eq!(page.mark(1).load(Ordering::Relaxed), u64::from(no));
        }
    }

    #[test]
    fn thousands_of_pools_fit_into_the_addresses_of_a_process() {
        let (mut taken, mut pools) = (0, [0; 3]);
        for _ in 0..6000 {
            let bytes = bytes_beside(taken);
            pools[TIERS.iter().position(|(_, tier)| *tier == bytes).expect("a tier")] += 1;
            // With a frame of 64 bytes for each page of 4 KiB.
            taken += bytes;
        }
        assert_eq!(pools, [128, 2176, 3696]);
        assert!(taken + taken / 64 < 1 << 47, "{taken:#x}");
    }
}
