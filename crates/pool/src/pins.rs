//! The present readers of extents. An extent freed meanwhile is not given out again before they are done.
//!
//! A reader pins while it still looks at the leaf that names the value, and validates the leaf after
//! that. If that succeeds, the thread that frees the value unlinks it later, and reads the clock later still:
//! so the freed extents bear a greater time than the pin, and wait for it. If a pin bears a greater
//! time than a freed extent, its reader came after the unlinking, and its validation has failed.

use std::sync::atomic::{AtomicU64, Ordering};

use everleaf_pmem::locks::{Mutex, MutexGuard};
use everleaf_pmem::{Result, fallible, thread_number};

/// In parts, so that readers of different threads share no lock.
const PARTS: usize = 16;

#[derive(Debug, Default)]
#[repr(align(128))]
struct PinList(Mutex<Vec<u64>>);

impl PinList {
    fn times(&self) -> MutexGuard<'_, Vec<u64>> {
        self.0.lock().expect("nothing panics with this lock")
    }
}

/// The readers of a pool's extents.
#[derive(Debug)]
pub(crate) struct Pins {
    clock: AtomicU64,
    parts: Box<[PinList; PARTS]>,
}

impl Pins {
    pub fn new() -> Self {
        Self {
            clock: AtomicU64::new(0),
            parts: Box::new(std::array::from_fn(|_| PinList::default())),
        }
    }

    /// From now on nothing that is freed is given out again, until the pin is dropped.
    ///
    /// # Errors
    /// [`Error::NoMemory`](everleaf_pmem::Error::NoMemory).
    pub fn pin(&self) -> Result<Pin<'_>> {
        let part = &self.parts[thread_number() % PARTS];
        let mut times = part.times();
        let time = self.clock.load(Ordering::SeqCst);
        fallible::push(&mut times, time, "the readers of large values")?;
        Ok(Pin { part, time })
    }

    /// The time of an extent that is freed now. It is unlinked already.
    pub fn freed(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }

    /// All present readers pinned at this time or later: nobody reads what was freed before it. That stays so. O(readers).
    pub fn oldest(&self) -> u64 {
        // Before the lists are read: a reader who is in none yet of what was freed by now came too late for it.
        let now = self.clock.load(Ordering::SeqCst);
        let oldest = |part: &PinList| part.times().iter().copied().min();
        self.parts.iter().filter_map(oldest).fold(now, u64::min)
    }
}

/// One reader.
#[derive(Debug)]
pub(crate) struct Pin<'p> {
    part: &'p PinList,
    time: u64,
}

impl Drop for Pin<'_> {
    fn drop(&mut self) {
        let mut times = self.part.times();
        let at = times.iter().position(|time| *time == self.time);
        debug_assert!(at.is_some(), "a pin stays until it is dropped");
        if let Some(at) = at {
            times.swap_remove(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_pin_counts_until_it_is_dropped() {
        let pins = Pins::new();
        let freed = pins.freed();
        assert!(pins.oldest() > freed);
        let before = pins.pin().expect("memory");
        let freed = pins.freed();
        let after = pins.pin().expect("memory");
        assert!(pins.oldest() <= freed);
        drop(before);
        assert!(pins.oldest() > freed);
        drop(after);
        assert!(pins.oldest() > freed);
        assert!(pins.oldest() <= pins.freed(), "somebody may pin before this is freed");
    }
}
