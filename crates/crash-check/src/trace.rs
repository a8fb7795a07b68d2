//! Recording a workload: operations with an invocation and a response, over simulated memory.

use std::sync::Arc;

use everleaf_pmem::sim::Event;
use everleaf_pmem::{Geometry, LINE_BYTES, Medium, PageNo, Sim};

/// Words of 8 bytes in a line.
pub const LINE_WORDS: usize = 8;

const _: () = assert!(8 * LINE_WORDS == LINE_BYTES, "lines are those of the media");

/// The mark that says that operation `id` has begun.
pub const fn invoke_mark(id: u64) -> u64 {
    2 * id
}
/// The mark that says that operation `id` has answered.
pub const fn respond_mark(id: u64) -> u64 {
    2 * id + 1
}

/// The record of a workload: where it started from and everything that passed the door.
#[derive(Debug, Clone)]
pub struct Recording {
    /// The shape of the pages.
    pub geometry: Geometry,
    /// The number of pages.
    pub limit: PageNo,
    /// All words at the start, which count as persisted.
    pub initial: Vec<u64>,
    /// The events that passed the door, in the order of memory.
    pub events: Vec<Event>,
}

impl Recording {
    /// Lines of one page.
    pub fn lines_per_page(&self) -> u32 {
        (self.geometry.page_words() / LINE_WORDS) as u32
    }
}

/// A running record of operations on a [`Sim`]. Threads may share it.
#[derive(Debug)]
pub struct Trace {
    sim: Arc<Sim>,
    initial: Vec<u64>,
}

impl Trace {
    /// Begins a recording. The medium's present contents count as persisted, and events that it has
    /// recorded so far are dropped.
    pub fn new(sim: &Arc<Sim>) -> Self {
        sim.take_events();
        Self { sim: Arc::clone(sim), initial: sim.image() }
    }

    /// The medium.
    pub fn sim(&self) -> &Arc<Sim> {
        &self.sim
    }

    /// Runs one operation between its two marks. Use each `id` once. Everything that the operation has
    /// acknowledged when `f` returns must survive any crash from then on.
    pub fn op<R>(&self, id: u64, f: impl FnOnce() -> R) -> R {
        self.sim.mark(invoke_mark(id));
        let answer = f();
        self.sim.mark(respond_mark(id));
        answer
    }

    /// Ends the record.
    pub fn finish(self) -> Recording {
        Recording {
            geometry: self.sim.geometry(),
            limit: self.sim.limit(),
            events: self.sim.take_events(),
            initial: self.initial,
        }
    }
}

/// Where a power cut struck the workload: what a checker needs in order to know what it may find.
#[derive(Debug)]
pub struct CrashPoint<'r> {
    events: &'r [Event],
    at: usize,
    invoked: &'r [u64],
    responded: &'r [u64],
}

impl<'r> CrashPoint<'r> {
    pub(crate) fn new(events: &'r [Event], at: usize, seen: &'r Operations) -> Self {
        debug_assert!(at <= events.len() && seen.responded.len() <= seen.invoked.len());
        Self { events, at, invoked: &seen.invoked, responded: &seen.responded }
    }
    /// How many events of the workload came before the power cut.
    pub fn event(&self) -> usize {
        self.at
    }
    /// The events before the power cut: for checkers that need the history's order.
    pub fn history(&self) -> &'r [Event] {
        &self.events[..self.at]
    }
    /// Operations that had begun, in order.
    pub fn invoked(&self) -> &'r [u64] {
        self.invoked
    }
    /// Operations that had answered, in order.
    pub fn responded(&self) -> &'r [u64] {
        self.responded
    }
    /// Operations that had begun and not answered: each may have happened or not.
    pub fn in_flight(&self) -> Vec<u64> {
        self.invoked.iter().copied().filter(|id| !self.responded.contains(id)).collect()
    }
}

/// Operations seen so far in a record.
#[derive(Debug, Clone, Default)]
pub(crate) struct Operations {
    pub invoked: Vec<u64>,
    pub responded: Vec<u64>,
}

impl Operations {
    pub fn see(&mut self, mark: u64) {
        let id = mark / 2;
        if mark.is_multiple_of(2) {
            debug_assert!(!self.invoked.contains(&id), "the number {id} is used once");
        } else {
            debug_assert!(self.invoked.contains(&id), "operation {id} answers before it has begun");
        }
        let list = if mark.is_multiple_of(2) { &mut self.invoked } else { &mut self.responded };
        list.push(id);
    }
}
