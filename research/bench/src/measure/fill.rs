//! Phases over one tree: insert, search, update, remove, each as many as there are keys.
//!
//! The papers mostly measure N uniform keys into an empty tree, then a search for each of them
//! (Circ-Tree §6.2, FAST+FAIR §6.2, Sentinel Array §IV).

use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use everleaf_pmem::LINE_BYTES;
use serde::Deserialize;

use super::kind::{Context, Figures, Measure, one};
use crate::clock::Times;
use crate::keys::{lookup, seeded};
use crate::medium::MediumName;
use crate::system::{Readers, Subject, SystemSpec};

/// Keys of a call with many.
const MANY: usize = 16;

/// The phases that there are.
const PHASES: [&str; 8] = [
    "insert",
    "insert_many",
    "search",
    "search_many",
    "search_dependent",
    "update",
    "remove",
    "remove_many",
];

fn yes() -> bool {
    true
}

/// In which order keys are inserted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FillOrder {
    /// Spread over all of u64.
    #[default]
    Uniform,
    /// 0, 1, 2 …
    Ascending,
    /// Down to 0.
    Descending,
}

/// The parameters.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fill {
    system: String,
    medium: MediumName,
    slots: u32,
    /// Keys of each thread.
    keys: u64,
    #[serde(default = "one")]
    threads: u64,
    #[serde(default)]
    readers: Readers,
    #[serde(default)]
    order: FillOrder,
    /// Phases, joined by `+`: insert, search, update, remove; `insert_many`, `search_many` and `remove_many` of [`MANY`]
    /// keys at a time, and `search_dependent` for keys that each depend on what the search before has found.
    phases: String,
    /// Whether each operation is timed by itself. A thread that reads the clock waits for all loads before.
    #[serde(default = "yes")]
    each: bool,
    /// Operations of an epoch, so that counts of what an epoch's end flushes are exact; else an epoch has a length in
    /// time.
    epoch_ops: Option<u64>,
}

impl Fill {
    fn make<'a>(&'a self, context: &'a Context) -> SystemSpec<'a> {
        SystemSpec {
            name: &self.system,
            medium: self.medium,
            slots: self.slots,
            keys: self.keys * self.threads,
            readers: self.readers,
            epoch: self.epoch_ops.is_none().then_some(Duration::from_millis(50)),
            epoch_ops: None,
            scratch: &context.scratch,
            dax: context.dax.as_deref(),
        }
    }

    fn key(&self, seed: u64, i: u64) -> u64 {
        match self.order {
            FillOrder::Uniform => seeded(seed, i),
            FillOrder::Ascending => i,
            FillOrder::Descending => self.keys * self.threads - 1 - i,
        }
    }

    /// Ends an epoch, if it has had its operations or these were the last ones.
    fn tick(&self, subject: &dyn Subject, done: u64) -> Result<()> {
        match self.epoch_ops {
            Some(ops) if done.is_multiple_of(ops) || done == self.keys => subject.tick(),
            _ => Ok(()),
        }
    }

    /// Does something for each item; times each, or all together.
    fn all<T>(
        &self,
        mut items: impl Iterator<Item = T>,
        op: impl FnMut(T) -> Result<()>,
    ) -> Result<Times> {
        let mut times = Times::default();
        if self.each {
            times.of(items, op)?;
        } else {
            items.try_for_each(op)?;
        }
        Ok(times)
    }

    /// Does something for [`MANY`] keys at a time, whose values are found, or no values.
    fn many(
        &self,
        mut keys: impl Iterator<Item = u64>,
        are_there: bool,
        mut op: impl FnMut(&[u64], &mut Vec<Option<u64>>) -> Result<()>,
    ) -> Result<Times> {
        let (mut some, mut found) = (Vec::with_capacity(MANY), Vec::with_capacity(MANY));
        self.all(0..self.keys.div_ceil(MANY as u64), |_| {
            some.clear();
            found.clear();
            some.extend(keys.by_ref().take(MANY));
            op(&some, &mut found)?;
            let is_right = |(k, found): (&u64, &Option<u64>)| *found == are_there.then_some(!k);
            ensure!(some.iter().zip(&found).all(is_right), "not the values that there were");
            Ok(())
        })
    }

    /// A phase on one thread. Keys are removed in the order in which they came in; those that are searched
    /// for or updated are drawn.
    fn phase(&self, name: &str, subject: &dyn Subject, seed: u64, t: u64) -> Result<Times> {
        let index = subject.index();
        let mut done = 0;
        let mut ended = || {
            done += 1;
            self.tick(subject, done)
        };
        let inserted = (t * self.keys..(t + 1) * self.keys).map(|i| self.key(seed, i));
        let again = (0..self.keys)
            .map(|i| self.key(seed, t * self.keys + lookup(i, self.keys) % self.keys));
        match name {
            "insert" => self.all(inserted, |k| {
                black_box(index.insert(k, !k)?);
                ended()
            }),
            "search" => self.all(again, |k| {
                ensure!(black_box(index.get(k)?) == Some(!k), "a key is not there");
                ended()
            }),
            "search_dependent" => {
                let (mut last, mut all) = (0, 0);
                let times = self.all(again, |k| {
                    // Only with the value is it known that this is 0: so it is asked about only at the end.
                    let k = k ^ last;
                    last = black_box(index.get(k)?.map_or(1, |value| value ^ !k));
                    all |= last;
                    ended()
                })?;
                ensure!(all == 0, "a key is not there");
                Ok(times)
            }
            "update" => self.all(again, |k| {
                ensure!(black_box(index.update(k, !k)?) == Some(!k), "a key is not there");
                ended()
            }),
            "remove" => self.all(inserted, |k| {
                ensure!(black_box(index.remove(k)?) == Some(!k), "a key is not there");
                ended()
            }),
            "search_many" => self.many(again, true, |keys, found| Ok(index.get_many(keys, found)?)),
            "remove_many" => {
                self.many(inserted, true, |keys, old| Ok(index.remove_many(keys, old)?))
            }
            "insert_many" => {
                let mut pairs = Vec::with_capacity(MANY);
                self.many(inserted, false, |keys, old| {
                    pairs.clear();
                    pairs.extend(keys.iter().map(|k| (*k, !k)));
                    Ok(index.put_many(&pairs, old)?)
                })
            }
            other => bail!("no phase is called {other:?}"),
        }
    }

    /// Lines and fences of the most common insert: of one that does not split, as most do not.
    fn common(&self, subject: &dyn Subject, seed: u64) -> Result<Figures> {
        let mut costs = BTreeMap::new();
        for i in 0..self.keys {
            let (k, before) = (self.key(seed, i), subject.counts());
            subject.index().insert(k, !k)?;
            let Some((after, before)) = subject.counts().zip(before) else {
                bail!("the medium does not count");
            };
            let counts = after - before;
            *costs.entry((counts.flushes, counts.fences)).or_insert(0_u64) += 1;
            self.tick(subject, i + 1)?;
        }
        let (lines, fences) = costs
            .into_iter()
            .max_by_key(|(_, times)| *times)
            .map(|(cost, _)| cost)
            .context("no keys")?;
        Ok(vec![
            ("insert_common_lines".into(), lines as f64),
            ("insert_common_fences".into(), fences as f64),
        ])
    }

    /// One phase on all threads: its times, and how long all of it took.
    fn spread(&self, name: &str, subject: &dyn Subject, seed: u64) -> Result<(Times, Duration)> {
        let start = Instant::now();
        let all = std::thread::scope(|scope| {
            let run = |t| scope.spawn(move || self.phase(name, subject, seed, t));
            let threads: Vec<_> = (0..self.threads).map(run).collect();
            let joined = threads.into_iter().map(|thread| thread.join().expect("no panic"));
            joined.collect::<Result<Vec<Times>>>()
        })?;
        let took = start.elapsed();
        let mut times = Times::default();
        all.iter().for_each(|one| times.merge(one));
        Ok((times, took))
    }
}

impl Measure for Fill {
    fn check(&self) -> Result<()> {
        let phases: Vec<&str> = self.phases.split('+').collect();
        let first = phases.first().is_some_and(|first| first.starts_with("insert"));
        ensure!(first, "the first phase is insert, or insert_many");
        for phase in &phases {
            ensure!(PHASES.contains(phase), "no phase is called {phase:?}");
        }
        ensure!(self.keys > 0 && self.threads > 0, "no keys, or no threads");
        if let Some(ops) = self.epoch_ops {
            ensure!(ops > 0, "epoch_ops: an epoch has an operation at least");
            let is_counted = self.medium == MediumName::Counted && self.threads == 1;
            ensure!(is_counted, "epoch_ops: only counts of one thread have epochs of operations");
            let singly = phases.iter().all(|phase| !phase.ends_with("_many"));
            ensure!(singly, "epoch_ops: operations come one by one");
        }
        self.make(&Context::default()).check()
    }

    fn run(&self, context: &Context, _round: u32) -> Result<Figures> {
        let subject = self.make(context).make()?;
        let mut figures = Figures::new();
        for phase in self.phases.split('+') {
            let (before, journal) = (subject.counts(), subject.journal_bytes());
            let (times, took) = self.spread(phase, &*subject, context.seed)?;
            let operations = (self.keys * self.threads) as f64;
            let each = |count: u64| count as f64 / operations;
            if let (Some(after), Some(before)) = (subject.counts(), before) {
                let counts = after - before;
                figures.push((format!("{phase}_stores_count"), each(counts.stores)));
                figures.push((format!("{phase}_flushed_lines"), each(counts.flushes)));
                let bytes = each(counts.flushes) * LINE_BYTES as f64;
                figures.push((format!("{phase}_flushed_bytes"), bytes));
                figures.push((format!("{phase}_fences"), each(counts.fences)));
                if phase == "insert" && self.threads == 1 {
                    figures.extend(self.common(&*self.make(context).make()?, context.seed)?);
                }
            } else {
                let rate = operations / took.as_secs_f64() / 1e6;
                figures.push((format!("{phase}_mops"), rate));
                if self.each {
                    figures.extend(times.figures(phase));
                }
            }
            if matches!(self.medium, MediumName::File(_)) && !phase.starts_with("search") {
                // How much it is depends on how many operations share an epoch.
                subject.sync()?;
                let bytes = subject.journal_bytes() - journal;
                figures.push((format!("{phase}_journal_bytes"), each(bytes)));
            }
        }
        Ok(figures)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{cell, of, run};

    fn text(system: &str, medium: &str, keys: u64, order: &str, phases: &str) -> String {
        format!(
            "system = \"{system}\"\nmedium = \"{medium}\"\nslots = 256\nkeys = {keys}\n\
             order = \"{order}\"\nphases = \"{phases}\""
        )
    }

    #[test]
    fn every_phase_has_times_and_a_rate() {
        let phases = "insert+search+update+remove";
        for system in ["FastFair", "CircTree", "BdTree", "BTreeMap"] {
            // The bitmaps of BdTree are for 64 slots at most.
            let text = text(system, "dram", 300, "uniform", phases);
            let figures = run("fill", &text.replace("slots = 256", "slots = 64"));
            for phase in phases.split('+') {
                let rate = of(&figures, &format!("{phase}_mops"));
                assert!(rate > 0.0);
                for stat in ["mean", "geo", "p50", "p99", "p999", "max"] {
                    assert!(of(&figures, &format!("{phase}_{stat}_ns")) > 0.0);
                }
            }
        }
    }

    #[test]
    fn many_keys_at_a_time_have_a_rate_of_keys() {
        let phases = "insert_many+search+search_many+search_dependent+remove_many";
        for (system, medium) in [("CircTree", "dram"), ("BTreeMap", "dram"), ("CircTree", "file")] {
            let text = text(system, medium, 300, "uniform", phases);
            let figures = run("fill", &format!("{text}\neach = false"));
            for phase in phases.split('+') {
                assert!(of(&figures, &format!("{phase}_mops")) > 0.0);
                let timed = format!("{phase}_p50_ns");
                assert!(!figures.iter().any(|(metric, _)| *metric == timed), "{phase}");
            }
        }
    }

    #[test]
    fn flushed_lines_are_those_that_the_shifts_dirty() {
        // All keys are in one leaf, four slots a line. Descending, the n entries that are there move
        // by one each time: n/4 + 1 lines, which makes 4 (1 + 2 + … + 50) in all. A circular node
        // moves nothing, and writes a slot and its header.
        for (system, order, lines) in [
            ("FastFair", "descending", 4.0 * 1275.0 / 200.0),
            ("FastFair", "ascending", 1.0),
            ("CircTree", "descending", 2.0),
            ("CircTree", "ascending", 2.0),
        ] {
            let figures = run("fill", &text(system, "counted", 200, order, "insert+search"));
            assert_eq!(of(&figures, "insert_flushed_lines"), lines, "{system}, {order}");
            assert_eq!(of(&figures, "insert_fences"), lines, "{system}, {order}");
            assert_eq!(of(&figures, "search_flushed_lines"), 0.0);
            if lines < 3.0 {
                assert_eq!(of(&figures, "insert_common_lines"), lines, "{system}, {order}");
            }
        }
    }

    /// 300 payloads of a line each, which the ends of epochs flush, and lines of the pool's map: most inserts flush
    /// nothing themselves.
    #[test]
    fn epochs_of_operations_make_counts_exact() {
        let text = text("Montage", "counted", 300, "uniform", "insert");
        let figures = [1, 2].map(|_| run("fill", &format!("{text}\nepoch_ops = 100")));
        let of = |metric| figures.each_ref().map(|figures| of(figures, metric));
        let [lines, again] = of("insert_flushed_lines");
        assert!(lines > 1.0 && lines < 2.0 && lines == again, "{lines} {again}");
        assert!(of("insert_fences")[0] < 1.0);
        assert_eq!(of("insert_common_lines"), [0.0; 2]);
        let wrong = text.replace("counted", "dram") + "\nepoch_ops = 100";
        assert!(super::super::check("fill", &cell(&wrong)).is_err(), "times have epochs in time");
    }

    #[test]
    fn a_file_has_journal_bytes() {
        let figures = run("fill", &text("CircTree", "file", 500, "uniform", "insert+search"));
        // Key and value, at least.
        assert!(of(&figures, "insert_journal_bytes") >= 16.0);
        assert!(!figures.iter().any(|(metric, _)| metric == "search_journal_bytes"));
    }
}
