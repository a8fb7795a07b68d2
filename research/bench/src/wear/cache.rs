//! A write-back cache that allocates for stores: sets of a few lines, of which the one that was stored to
//! longest ago is evicted.
//!
//! The model sees what passes the door of a medium, which is stores and flushes. Loads do not pass it, and
//! nothing else of the program does. Both would take room and evict lines sooner, so what is evicted here is
//! a lower bound for a cache of this size.

use std::collections::HashMap;

use anyhow::{Context, Result, ensure};
use everleaf_pmem::LINE_BYTES;
use serde::Deserialize;

/// The instruction that flushes a line, by what it leaves in the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FlushBy {
    /// The line stays, clean.
    #[default]
    Clwb,
    /// The line leaves.
    Clflushopt,
}

/// The shape of a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheShape {
    sets: u64,
    ways: u64,
    flush: FlushBy,
}

impl CacheShape {
    /// A cache of so many bytes, rounded down to whole sets of `ways` lines.
    ///
    /// # Errors
    /// There is no line in a set, or no set in the cache.
    pub fn new(bytes: u64, ways: u64, flush: FlushBy) -> Result<Self> {
        ensure!(ways > 0, "a set of a cache has a line at least");
        let set = ways.checked_mul(LINE_BYTES as u64);
        let sets = bytes / set.with_context(|| format!("no cache has {ways} ways"))?;
        ensure!(sets > 0, "a cache of {bytes} bytes has no set of {ways} lines");
        Ok(Self { sets, ways, flush })
    }

    /// The set of a line. The number is mixed first, as processors do: headers of pages, which are a
    /// constant number of lines apart, would else share a few sets.
    fn set(self, line: u64) -> u64 {
        let mixed = line.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed ^ (mixed >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
        ((u128::from(mixed) * u128::from(self.sets)) >> 64) as u64
    }
}

/// A line in the cache.
#[derive(Debug, Clone, Copy)]
struct Held {
    line: u64,
    dirty: bool,
}

/// The lines that are in the cache. Sets are made as they are used, so that a large cache of which little is
/// used takes little memory.
#[derive(Debug)]
pub struct Cache {
    shape: CacheShape,
    /// Lines of each set, the one that was stored to last at the end.
    sets: HashMap<u64, Vec<Held>>,
    dirty: u64,
}

impl Cache {
    /// An empty cache.
    pub fn new(shape: CacheShape) -> Self {
        Self { shape, sets: HashMap::new(), dirty: 0 }
    }

    /// How many lines are dirty.
    pub fn dirty(&self) -> u64 {
        self.dirty
    }

    /// Stores to a line. Returns the line that is evicted for it and has to be written. O(ways).
    pub fn store(&mut self, line: u64) -> Option<u64> {
        let set = self.sets.entry(self.shape.set(line)).or_default();
        if let Some(at) = set.iter().position(|held| held.line == line) {
            set[at..].rotate_left(1);
            let last = set.len() - 1;
            self.dirty += u64::from(!set[last].dirty);
            set[last].dirty = true;
            return None;
        }
        let evicted = (set.len() as u64 >= self.shape.ways).then(|| set.remove(0));
        set.push(Held { line, dirty: true });
        self.dirty += 1;
        let written = evicted.filter(|held| held.dirty)?;
        self.dirty -= 1;
        Some(written.line)
    }

    /// Flushes a line. Returns whether it has to be written: a line that is clean, or that is not there, has
    /// not. O(ways).
    pub fn flush(&mut self, line: u64) -> bool {
        let Some(set) = self.sets.get_mut(&self.shape.set(line)) else { return false };
        let Some(at) = set.iter().position(|held| held.line == line) else { return false };
        let written = std::mem::replace(&mut set[at].dirty, false);
        self.dirty -= u64::from(written);
        if self.shape.flush == FlushBy::Clflushopt {
            set.remove(at);
        }
        written
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache(lines: u64, ways: u64, flush: FlushBy) -> Cache {
        Cache::new(CacheShape::new(64 * lines, ways, flush).expect("a set at least"))
    }

    /// Stores to these lines of one set; what is evicted for each.
    fn stores(cache: &mut Cache, lines: &[u64]) -> Vec<Option<u64>> {
        lines.iter().map(|line| cache.store(*line)).collect()
    }

    #[test]
    fn the_line_that_was_stored_to_longest_ago_is_evicted() {
        let mut cache = cache(3, 3, FlushBy::Clwb);
        assert_eq!(stores(&mut cache, &[0, u64::MAX, 7, 0]), [None; 4]);
        assert_eq!(cache.dirty(), 3);
        assert_eq!(stores(&mut cache, &[8, 9, 10]), [Some(u64::MAX), Some(7), Some(0)]);
        assert_eq!(cache.dirty(), 3);
    }

    #[test]
    fn a_clean_line_is_evicted_without_a_write() {
        let mut cache = cache(2, 2, FlushBy::Clwb);
        stores(&mut cache, &[1, 2]);
        assert!(cache.flush(1));
        // The flushed line keeps its place, so that it goes first.
        assert_eq!(stores(&mut cache, &[3, 4]), [None, Some(2)]);
        assert_eq!(cache.dirty(), 2);
    }

    #[test]
    fn a_line_is_written_by_its_flush_or_its_eviction_and_not_by_both() {
        let mut cache = cache(1, 1, FlushBy::Clwb);
        assert_eq!(stores(&mut cache, &[1, 2]), [None, Some(1)]);
        assert!(!cache.flush(1), "it was evicted");
        assert!(cache.flush(2) && !cache.flush(2), "it is clean now");
        assert_eq!(cache.store(3), None);
        assert!(!cache.flush(4), "it was never there");
        assert_eq!(cache.dirty(), 1);
    }

    #[test]
    fn a_line_that_is_dirty_again_is_written_again() {
        let mut cache = cache(4, 2, FlushBy::Clwb);
        for _ in 0..3 {
            assert_eq!(cache.store(5), None);
            assert!(cache.flush(5));
        }
    }

    #[test]
    fn a_flush_that_evicts_makes_room() {
        let (mut keeps, mut drops) = (cache(2, 2, FlushBy::Clwb), cache(2, 2, FlushBy::Clflushopt));
        for cache in [&mut keeps, &mut drops] {
            stores(cache, &[1, 2]);
            assert!(cache.flush(2));
        }
        assert_eq!(keeps.store(3), Some(1), "the flushed line is in the way");
        assert_eq!(drops.store(3), None);
        assert!(!drops.flush(2), "it left");
    }

    #[test]
    fn lines_at_equal_distances_use_all_sets() {
        // 1024 sets of 16: headers of pages that are 512 lines apart fill half of the cache.
        let mut cache = cache(16 * 1024, 16, FlushBy::Clwb);
        let evicted = (0..8 * 1024).filter(|page| cache.store(page * 512).is_some()).count();
        assert!(evicted < 80, "{evicted} of 8192 lines found their set full");
    }

    #[test]
    fn a_cache_has_a_set_and_a_set_has_a_line() {
        for (bytes, ways) in [(0, 1), (63, 1), (1023, 16), (1 << 20, 0), (u64::MAX, u64::MAX)] {
            assert!(CacheShape::new(bytes, ways, FlushBy::Clwb).is_err(), "{bytes}, {ways}");
        }
        let all = CacheShape::new(u64::MAX, 16, FlushBy::Clwb).expect("lines");
        assert_eq!((all.sets, Cache::new(all).store(u64::MAX)), (u64::MAX / 1024, None));
    }
}
