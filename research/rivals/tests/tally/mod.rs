//! Memory that counts flushed lines and fences: those of structures, and those of the pool's map.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use everleaf_pmem::{Dram, Geometry, Medium, Page, PageNo, Word};

/// The lines and fences that have passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cost {
    pub lines: u64,
    pub fences: u64,
}

/// Counts for one thread: a fence is the structure's if it completes a line of the structure.
pub struct Tally {
    inner: Dram,
    structure: [AtomicU64; 2],
    allocator: [AtomicU64; 2],
    pending: AtomicBool,
}

impl Tally {
    pub fn new(slots: u32, pages: PageNo) -> Self {
        let inner = Dram::new(Geometry::new(slots).expect("a power of two"), pages);
        Self {
            inner: inner.expect("memory"),
            structure: Default::default(),
            allocator: Default::default(),
            pending: AtomicBool::new(false),
        }
    }

    pub fn structure(&self) -> Cost {
        cost(&self.structure)
    }

    pub fn allocator(&self) -> Cost {
        cost(&self.allocator)
    }

    /// The cost of a change, without the allocator.
    pub fn of(&self, change: impl FnOnce()) -> Cost {
        let before = self.structure();
        change();
        let after = self.structure();
        Cost { lines: after.lines - before.lines, fences: after.fences - before.fences }
    }
}

fn cost(counts: &[AtomicU64; 2]) -> Cost {
    let [lines, fences] = counts.each_ref().map(|count| count.load(Ordering::Relaxed));
    Cost { lines, fences }
}

impl Medium for Tally {
    everleaf_pmem::pass_on!(inner: Dram);
    fn store(&self, word: Word<'_>, value: u64) {
        self.inner.store(word, value);
    }
    fn flush(&self, page: Page<'_>, _: usize) {
        // A group is as many pages as its first one, the map, has bytes.
        let is_map = page.no().is_multiple_of(16 * page.slots() as u32);
        let side = if is_map { &self.allocator } else { &self.structure };
        side[0].fetch_add(1, Ordering::Relaxed);
        self.pending.fetch_or(!is_map, Ordering::Relaxed);
    }
    fn fence(&self) {
        let side = if self.pending.swap(false, Ordering::Relaxed) {
            &self.structure
        } else {
            &self.allocator
        };
        side[1].fetch_add(1, Ordering::Relaxed);
    }
}
