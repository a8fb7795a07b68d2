//! A medium behind a model of the processor's cache.

use std::sync::{Mutex, MutexGuard};

use everleaf_pmem::{LINE_BYTES, Medium, Page, Word};

use super::cache::{Cache, CacheShape};
use super::counts::Wear;

/// The cache, and counts of the lines that have left it.
#[derive(Debug)]
pub struct Traffic {
    cache: Cache,
    wear: Wear,
    most_dirty: u64,
}

impl Traffic {
    /// Counts from zero. The lines that are in the cache stay there.
    pub fn restart(&mut self) {
        self.wear = Wear::default();
        self.most_dirty = self.cache.dirty();
    }

    /// The writes, line by line.
    pub fn wear(&self) -> &Wear {
        &self.wear
    }

    /// Lines that are dirty and will be written one day.
    pub fn dirty(&self) -> u64 {
        self.cache.dirty()
    }

    /// The most lines that were dirty at a time.
    pub fn most_dirty(&self) -> u64 {
        self.most_dirty
    }

    fn store(&mut self, line: u64) {
        if let Some(evicted) = self.cache.store(line) {
            self.wear.evict(evicted);
        }
        self.most_dirty = self.most_dirty.max(self.cache.dirty());
    }

    fn flush(&mut self, line: u64) {
        match self.cache.flush(line) {
            true => self.wear.flush(line),
            false => self.wear.flush_of_clean(),
        }
    }
}

/// A medium whose stores and flushes go through a cache of its own. Counts are exact on one thread; on
/// several they depend on the order in which those came.
#[derive(Debug)]
pub struct Cached<M> {
    inner: M,
    traffic: Mutex<Traffic>,
}

impl<M: Medium> Cached<M> {
    /// An empty cache before a medium.
    pub fn new(inner: M, shape: CacheShape) -> Self {
        let traffic = Traffic { cache: Cache::new(shape), wear: Wear::default(), most_dirty: 0 };
        Self { inner, traffic: Mutex::new(traffic) }
    }

    /// The traffic that has left the cache. A caller must let it go before the next store, flush or call of this.
    pub fn traffic(&self) -> MutexGuard<'_, Traffic> {
        self.traffic.lock().expect("no panic inside")
    }

    /// The number of a line among those of all pages.
    fn line(&self, page: u32, line: usize) -> u64 {
        let lines = self.inner.geometry().page_bytes() / LINE_BYTES;
        u64::from(page) * lines as u64 + line as u64
    }
}

impl<M: Medium> Medium for Cached<M> {
    everleaf_pmem::pass_on!(inner: M);
    fn store(&self, word: Word<'_>, value: u64) {
        self.traffic().store(self.line(word.page(), word.line()));
        self.inner.store(word, value);
    }
    fn flush(&self, page: Page<'_>, line: usize) {
        self.traffic().flush(self.line(page.no(), line));
        self.inner.flush(page, line);
    }
    fn fence(&self) {
        self.inner.fence();
    }
}

#[cfg(test)]
mod tests {
    use super::super::cache::FlushBy;
    use super::super::counts::Writes;
    use super::*;
    use everleaf_pmem::{Dram, Geometry};

    /// Pages of a header and two lines.
    fn cached(lines: u64) -> Cached<Dram> {
        let memory = Dram::new(Geometry::new(8).expect("a power of two"), 4).expect("memory");
        let shape = CacheShape::new(64 * lines, lines, FlushBy::Clwb).expect("a set");
        Cached::new(memory, shape)
    }

    /// Lines that are dirty, now and at most.
    fn dirty(medium: &Cached<Dram>) -> (u64, u64) {
        let traffic = medium.traffic();
        (traffic.dirty(), traffic.most_dirty())
    }

    #[test]
    fn each_line_of_each_page_has_a_count_of_its_own() {
        let medium = cached(16);
        for no in 0..4 {
            let page = medium.page(no).expect("inside");
            for word in [page.head(0), page.body(0), page.body(1), page.body(15)] {
                medium.store(word, 5);
            }
        }
        assert_eq!(dirty(&medium), (12, 12));
        for no in 0..4 {
            (0..3).for_each(|line| medium.flush(medium.page(no).expect("inside"), line));
        }
        let traffic = medium.traffic();
        assert_eq!(traffic.wear().writes(), Writes { flushed: 12, evicted: 0 });
        assert_eq!(traffic.wear().spread().expect("writes").lines, 12);
        assert_eq!((traffic.dirty(), traffic.most_dirty(), traffic.wear().useless()), (0, 12, 0));
    }

    #[test]
    fn a_line_is_evicted_where_the_cache_is_small_and_its_flush_comes_too_late() {
        let medium = cached(1);
        let page = medium.page(1).expect("inside");
        medium.store(page.body(0), 1);
        medium.store(page.body(8), 2);
        medium.flush(page, 1);
        medium.flush(page, 2);
        let wear = |medium: &Cached<Dram>| {
            let traffic = medium.traffic();
            (traffic.wear().writes(), traffic.wear().useless())
        };
        assert_eq!(wear(&medium), (Writes { flushed: 1, evicted: 1 }, 1));
        assert_eq!(page.body(8).load(), 2, "stores arrive");
        medium.store(page.body(0), 3);
        medium.traffic().restart();
        assert_eq!(wear(&medium), (Writes::default(), 0));
        assert_eq!(dirty(&medium), (1, 1));
        medium.flush(page, 1);
        assert_eq!(wear(&medium).0.flushed, 1, "what was dirty before is written now");
    }
}
