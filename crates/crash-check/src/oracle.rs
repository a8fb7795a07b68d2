//! The contents that a map with durable operations may have after a crash, for workloads of one thread:
//! exactly what the operations that had answered made, with the one in flight done or not done.

use std::collections::BTreeMap;

use crate::index::Index;
use crate::trace::{CrashPoint, Trace};

/// One operation of a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MapWrite {
    /// Sets a key's value.
    Insert(u64, u64),
    /// Removes a key.
    Remove(u64),
}

/// Operations in a row, with the contents before and after each.
#[derive(Debug, Clone)]
pub struct Script {
    steps: Vec<MapWrite>,
    /// Contents before step `i`, in order; one more than steps.
    contents: Vec<Vec<(u64, u64)>>,
}

impl Script {
    /// A script that starts from these entries.
    pub fn new(start: &[(u64, u64)], steps: Vec<MapWrite>) -> Self {
        let mut map: BTreeMap<u64, u64> = start.iter().copied().collect();
        let mut contents = vec![map.clone().into_iter().collect()];
        for step in &steps {
            match *step {
                MapWrite::Insert(key, value) => map.insert(key, value),
                MapWrite::Remove(key) => map.remove(&key),
            };
            contents.push(map.clone().into_iter().collect());
        }
        Self { steps, contents }
    }

    /// Runs the script on an index; operation `i` is step `i`.
    ///
    /// # Errors
    /// The first step whose answer was wrong.
    pub fn run(&self, trace: &Trace, index: &(impl Index + ?Sized)) -> Result<(), String> {
        (0..self.steps.len()).try_for_each(|i| self.run_step(trace, index, i))
    }

    /// Runs step `i` only, for callers that look at the index between steps.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    ///
    /// # Panics
    /// If there is no such step.
    pub fn run_step(
        &self,
        trace: &Trace,
        index: &(impl Index + ?Sized),
        i: usize,
    ) -> Result<(), String> {
        let step = self.steps[i];
        let answer = trace.op(i as u64, || match step {
            MapWrite::Insert(key, value) => index.insert(key, value),
            MapWrite::Remove(key) => index.remove(key),
        });
        let (MapWrite::Insert(key, _) | MapWrite::Remove(key)) = step;
        let before = &self.contents[i];
        let old = before.binary_search_by_key(&key, |e| e.0).ok().map(|at| before[at].1);
        match answer {
            Ok(found) if found == old => Ok(()),
            other => Err(format!("step {i} {step:?}: {other:?} instead of {old:?}")),
        }
    }

    /// Whether the entries, in order, are a legal outcome of a crash.
    ///
    /// # Errors
    /// A message that says what is missing and what is too much.
    pub fn admits(&self, crash: &CrashPoint<'_>, found: &[(u64, u64)]) -> Result<(), String> {
        let (begun, done) = (crash.invoked().len(), crash.responded().len());
        debug_assert!(begun <= done + 1, "one thread has one operation in flight");
        if (done..=begun).any(|n| self.contents[n] == found) {
            return Ok(());
        }
        let expected = &self.contents[done];
        let lost: Vec<_> = expected.iter().filter(|e| !found.contains(e)).take(8).collect();
        let extra: Vec<_> = found.iter().filter(|e| !expected.contains(e)).take(8).collect();
        Err(format!(
            "after {done} of {} steps (in flight: {:?}): {} entries instead of {}; missing \
             {lost:?}, wrong {extra:?}",
            self.steps.len(),
            self.steps.get(done..begun).unwrap_or_default(),
            found.len(),
            expected.len(),
        ))
    }
}
