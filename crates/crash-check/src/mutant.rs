//! Proof that a checker has teeth: a medium that loses, one at a time, a flush, a fence or a store,
//! or swaps two stores. A fault that is not noticed is either redundant in the code under test or
//! a hole in its checker.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use everleaf_pmem::{Counts, Medium, Page, PageNo, Word};

/// One fault. Calls are numbered from 0 since the wrapper was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Mutation {
    /// The flush of this number does not happen.
    DropFlush(u64),
    /// The fence of this number does not happen.
    DropFence(u64),
    /// The store of this number becomes visible after the next one.
    SwapStores(u64),
    /// The store of this number does not happen.
    DropStore(u64),
}

impl Mutation {
    /// Each single fault in a run of so many calls.
    pub fn each(calls: Counts) -> impl Iterator<Item = Mutation> {
        (0..calls.flushes)
            .map(Mutation::DropFlush)
            .chain((0..calls.fences).map(Mutation::DropFence))
            .chain((0..calls.stores.saturating_sub(1)).map(Mutation::SwapStores))
            .chain((0..calls.stores).map(Mutation::DropStore))
    }
}

impl fmt::Display for Mutation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Mutation::DropFlush(k) => write!(f, "flush {k} dropped"),
            Mutation::DropFence(k) => write!(f, "fence {k} dropped"),
            Mutation::SwapStores(k) => write!(f, "stores {k} and {} swapped", k + 1),
            Mutation::DropStore(k) => write!(f, "store {k} dropped"),
        }
    }
}

/// A handle of a medium that others hold, too. A pool that must own its medium owns this handle,
/// while the checker keeps the [`Sim`](everleaf_pmem::Sim) inside.
#[derive(Debug)]
pub struct SharedMedium<M> {
    inner: Arc<M>,
}

impl<M> SharedMedium<M> {
    /// One more handle of the medium.
    pub fn new(medium: &Arc<M>) -> Self {
        Self { inner: Arc::clone(medium) }
    }
}

impl<M: Medium> Medium for SharedMedium<M> {
    everleaf_pmem::pass_on!(inner: M);
    fn store(&self, word: Word<'_>, value: u64) {
        self.inner.store(word, value);
    }
    fn flush(&self, page: Page<'_>, line: usize) {
        self.inner.flush(page, line);
    }
    fn fence(&self) {
        self.inner.fence();
    }
}

/// A medium with at most one fault.
#[derive(Debug)]
pub struct Mutate<M> {
    inner: M,
    fault: Option<Mutation>,
    stores: AtomicU64,
    flushes: AtomicU64,
    fences: AtomicU64,
    /// A store that waits for the next one: page, word of the page, value.
    late: Mutex<Option<(PageNo, usize, u64)>>,
}

impl<M: Medium> Mutate<M> {
    /// Counts calls from now on and makes the fault happen at its call. Without a fault it only counts.
    pub fn new(inner: M, fault: Option<Mutation>) -> Self {
        let (stores, flushes, fences) = (0.into(), 0.into(), 0.into());
        Self { inner, fault, stores, flushes, fences, late: Mutex::default() }
    }

    /// The calls so far, dropped ones included: [`Mutation::each`] of a faultless run's counts are
    /// all its mutants.
    pub fn counts(&self) -> Counts {
        Counts {
            stores: self.stores.load(Ordering::Relaxed),
            flushes: self.flushes.load(Ordering::Relaxed),
            fences: self.fences.load(Ordering::Relaxed),
        }
    }

    fn store_late(&self, (page, word, value): (PageNo, usize, u64)) {
        let page = self.inner.page(page).expect("it was stored to before");
        self.inner.store(page.word(word), value);
    }
}

impl<M: Medium> Medium for Mutate<M> {
    everleaf_pmem::pass_on!(inner: M);
    fn store(&self, word: Word<'_>, value: u64) {
        let k = self.stores.fetch_add(1, Ordering::Relaxed);
        match self.fault {
            Some(Mutation::DropStore(faulty)) if k == faulty => {}
            Some(Mutation::SwapStores(faulty)) if k == faulty => {
                let late = (word.page(), word.index(), value);
                let before = self.late.lock().expect("no panic inside").replace(late);
                debug_assert!(before.is_none(), "one fault, one late store");
            }
            Some(Mutation::SwapStores(faulty)) if k > faulty => {
                self.inner.store(word, value);
                let late = self.late.lock().expect("no panic inside").take();
                if let Some(late) = late {
                    self.store_late(late);
                }
            }
            _ => self.inner.store(word, value),
        }
    }
    fn flush(&self, page: Page<'_>, line: usize) {
        let k = self.flushes.fetch_add(1, Ordering::Relaxed);
        if self.fault != Some(Mutation::DropFlush(k)) {
            self.inner.flush(page, line);
        }
    }
    fn fence(&self) {
        let k = self.fences.fetch_add(1, Ordering::Relaxed);
        if self.fault != Some(Mutation::DropFence(k)) {
            self.inner.fence();
        }
    }
}

/// Which faults were noticed.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// Faults that the run refused, with what it said.
    pub killed: Vec<(Mutation, String)>,
    /// Faults that nobody noticed.
    pub survivors: Vec<Mutation>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = self.killed.len() + self.survivors.len();
        write!(f, "{} of {all} mutants killed", self.killed.len())?;
        self.survivors.iter().try_for_each(|fault| write!(f, "\n  survived: {fault}"))
    }
}

/// Calls `run` with each fault in turn. `run` makes a medium with the fault, records the workload, lets
/// an [`Explorer`](crate::Explorer) check it, and returns an error if anything was refused.
pub fn mutants<E: fmt::Display>(
    faults: impl IntoIterator<Item = Mutation>,
    mut run: impl FnMut(Mutation) -> std::result::Result<(), E>,
) -> Report {
    let mut report = Report::default();
    for fault in faults {
        match run(fault) {
            Ok(()) => report.survivors.push(fault),
            Err(noticed) => report.killed.push((fault, noticed.to_string())),
        }
    }
    report
}

#[cfg(test)]
mod tests {
    use super::*;
    use everleaf_pmem::sim::Event;
    use everleaf_pmem::{Geometry, Sim};

    /// The stores (as values), flushes (100) and fences (200) that reach the medium.
    fn seen(fault: Option<Mutation>) -> Vec<u64> {
        let sim = Arc::new(Sim::new(Geometry::new(4).expect("a power of two"), 1).expect("memory"));
        let m = Mutate::new(SharedMedium::new(&sim), fault);
        let page = m.page(0).expect("inside");
        for value in 0..3 {
            m.store(page.body(value as usize), value);
        }
        for _ in 0..2 {
            m.flush(page, 1);
            m.fence();
        }
        assert_eq!(m.counts(), Counts { stores: 3, flushes: 2, fences: 2 });
        let kind = |event| match event {
            Event::Store { value, .. } => value,
            Event::Flush { .. } => 100,
            Event::Fence { .. } => 200,
            Event::Mark { mark, .. } => mark,
        };
        sim.take_events().into_iter().map(kind).collect()
    }

    #[test]
    fn each_fault_changes_one_thing() {
        assert_eq!(seen(None), [0, 1, 2, 100, 200, 100, 200]);
        assert_eq!(seen(Some(Mutation::DropFlush(1))), [0, 1, 2, 100, 200, 200]);
        assert_eq!(seen(Some(Mutation::DropFence(0))), [0, 1, 2, 100, 100, 200]);
        assert_eq!(seen(Some(Mutation::SwapStores(0))), [1, 0, 2, 100, 200, 100, 200]);
        assert_eq!(seen(Some(Mutation::DropStore(2))), [0, 1, 100, 200, 100, 200]);
        let calls = Counts { stores: 3, flushes: 2, fences: 2 };
        assert_eq!(Mutation::each(calls).count(), 2 + 2 + 2 + 3);
    }
}
