//! Threads that search, insert and remove in fixed shares, in a tree that is filled before
//! (FAST+FAIR Fig. 8).
//!
//! A phase is `NAME=I:S:R`: each thread inserts I new keys, searches for S, removes R, and begins
//! again. So `search=0:1:0+mixed=4:16:1` only searches first, then does the paper's mix. Operations
//! are spread evenly over threads. Searches are for keys that were there before the first phase;
//! removes are of what the same thread has inserted, the oldest first. So every operation finds what
//! it should, and what is done does not depend on how threads take turns.

use std::hint::black_box;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;

use super::kind::{Context, Figures, Measure};
use crate::clock::Times;
use crate::keys::{key, seeded};
use crate::medium::MediumName;
use crate::system::{Readers, Subject, SystemSpec, fill};

const KINDS: [&str; 3] = ["insert", "search", "remove"];

/// The parameters.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mixed {
    system: String,
    medium: MediumName,
    slots: u32,
    /// Keys that are there before the first phase.
    keys: u64,
    /// Operations of a phase, of all threads together.
    ops: u64,
    threads: u64,
    #[serde(default)]
    readers: Readers,
    /// Phases, joined by `+`.
    phases: String,
}

/// A phase: its name, and how many inserts, searches and removes take turns.
#[derive(Debug, PartialEq)]
struct Phase<'a> {
    name: &'a str,
    shares: [u64; 3],
}

fn phase(text: &str) -> Result<Phase<'_>> {
    let (name, shares) = text.split_once('=').context("a phase is NAME=I:S:R")?;
    let shares = shares.split(':').map(str::parse).collect::<Result<Vec<u64>, _>>();
    let shares: Result<[u64; 3], _> = shares.context("shares are whole numbers")?.try_into();
    let shares = shares.ok().context("three shares: inserts, searches, removes")?;
    ensure!(shares.iter().any(|share| *share > 0), "the phase {name:?} does nothing");
    ensure!(shares[0] >= shares[2], "the phase {name:?} removes more than it inserts");
    Ok(Phase { name, shares })
}

impl Phase<'_> {
    /// The kind of a thread's operation.
    fn kind(&self, op: u64) -> usize {
        let [inserts, searches, _] = self.shares;
        let turn = op % self.shares.iter().sum::<u64>();
        usize::from(turn >= inserts) + usize::from(turn >= inserts + searches)
    }

    /// Figures of its operations: of each kind, if there are several.
    fn figures(&self, times: &[Times; 3], took: Duration) -> Figures {
        let name = self.name;
        let all: u64 = times.iter().map(Times::count).sum();
        let mut figures = vec![(format!("{name}_mops"), all as f64 / took.as_secs_f64() / 1e6)];
        let alone = self.shares.iter().filter(|share| **share > 0).count() == 1;
        for (kind, times) in KINDS.iter().zip(times).filter(|(_, times)| times.count() > 0) {
            let named = if alone { name.to_string() } else { format!("{name}_{kind}") };
            figures.extend(times.figures(&named));
        }
        figures
    }
}

/// The result of a thread: times by kind, and when it began and ended.
type ThreadRun = ([Times; 3], Instant, Instant);

impl Mixed {
    fn make<'a>(&'a self, context: &'a Context) -> SystemSpec<'a> {
        let phases = self.phases.split('+').filter_map(|text| phase(text).ok());
        let inserted = |[inserts, searches, removes]: [u64; 3]| {
            self.ops * inserts / (inserts + searches + removes) + self.threads * inserts
        };
        let new: u64 = phases.map(|phase| inserted(phase.shares)).sum();
        SystemSpec {
            name: &self.system,
            medium: self.medium,
            slots: self.slots,
            keys: self.keys + new,
            readers: self.readers,
            epoch: Some(Duration::from_millis(50)),
            epoch_ops: None,
            scratch: &context.scratch,
            dax: context.dax.as_deref(),
        }
    }

    /// The operations of one thread. Its new keys are numbered from `first`.
    fn work(
        &self,
        phase: &Phase<'_>,
        subject: &dyn Subject,
        seed: u64,
        first: u64,
    ) -> Result<ThreadRun> {
        let index = subject.index();
        let item = |i: u64| seeded(seed, i);
        let mut times = [Times::default(), Times::default(), Times::default()];
        let mut done = [0; 3];
        let start = Instant::now();
        let mut before = start;
        for op in 0..self.ops / self.threads {
            let kind = phase.kind(op);
            let nth = done[kind];
            match kind {
                0 => {
                    let k = item(first + nth);
                    ensure!(black_box(index.insert(k, !k)?).is_none(), "a new key is there");
                }
                1 => {
                    let k = item(key(first + nth) % self.keys);
                    ensure!(black_box(index.get(k)?) == Some(!k), "a key is not there");
                }
                _ => {
                    let k = item(first + nth);
                    ensure!(black_box(index.remove(k)?) == Some(!k), "a key is not there");
                }
            }
            done[kind] += 1;
            let now = Instant::now();
            times[kind].add((now - before).as_nanos() as u64);
            before = now;
        }
        Ok((times, start, before))
    }

    /// All threads: times by kind, and how long it took from the first start to the last end.
    fn spread(
        &self,
        phase: &Phase<'_>,
        subject: &dyn Subject,
        seed: u64,
        first: u64,
    ) -> Result<([Times; 3], Duration)> {
        let each = self.ops / self.threads;
        let barrier = Barrier::new(self.threads as usize);
        let parts = std::thread::scope(|scope| {
            let run = |t| {
                let barrier = &barrier;
                scope.spawn(move || {
                    barrier.wait();
                    self.work(phase, subject, seed, first + t * each)
                })
            };
            let threads: Vec<_> = (0..self.threads).map(run).collect();
            let joined = threads.into_iter().map(|thread| thread.join().expect("no panic"));
            joined.collect::<Result<Vec<ThreadRun>>>()
        })?;
        let mut times = [Times::default(), Times::default(), Times::default()];
        for (part, ..) in &parts {
            times.iter_mut().zip(part).for_each(|(all, own)| all.merge(own));
        }
        let start = parts.iter().map(|part| part.1).min();
        let end = parts.iter().map(|part| part.2).max();
        let (start, end) = start.zip(end).context("no threads")?;
        Ok((times, end - start))
    }
}

impl Measure for Mixed {
    fn check(&self) -> Result<()> {
        let phases = self.phases.split('+').map(phase).collect::<Result<Vec<_>>>()?;
        for (i, phase) in phases.iter().enumerate() {
            let again = phases[..i].iter().any(|other| other.name == phase.name);
            ensure!(!phase.name.is_empty() && !again, "phases have names of their own");
        }
        ensure!(self.keys > 0 && self.threads > 0, "no keys, or no threads");
        ensure!(self.ops >= self.threads, "fewer operations than threads");
        self.make(&Context::default()).check()
    }

    fn run(&self, context: &Context, _round: u32) -> Result<Figures> {
        let subject = self.make(context).make()?;
        let seed = context.seed;
        fill(subject.index(), (0..self.keys).map(|i| seeded(seed, i)))?;
        let mut figures = Figures::new();
        for (i, text) in self.phases.split('+').enumerate() {
            let phase = phase(text)?;
            let before = subject.counts();
            let first = self.keys + i as u64 * self.ops;
            let (times, took) = self.spread(&phase, &*subject, seed, first)?;
            let Some((after, before)) = subject.counts().zip(before) else {
                figures.extend(phase.figures(&times, took));
                continue;
            };
            let (counts, name) = (after - before, phase.name);
            let all: u64 = times.iter().map(Times::count).sum();
            let each = |count: u64| count as f64 / all as f64;
            figures.push((format!("{name}_stores_count"), each(counts.stores)));
            figures.push((format!("{name}_flushed_lines"), each(counts.flushes)));
            figures.push((format!("{name}_fences"), each(counts.fences)));
        }
        Ok(figures)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{cell, of, run};
    use super::*;

    #[test]
    fn operations_take_turns_in_their_shares() {
        let mixed = phase("mixed=4:16:1").expect("a phase");
        assert_eq!(mixed, Phase { name: "mixed", shares: [4, 16, 1] });
        let kinds: Vec<usize> = (0..42).map(|op| mixed.kind(op)).collect();
        assert_eq!(kinds[..21], kinds[21..]);
        assert_eq!(kinds[..4], [0; 4]);
        assert_eq!(kinds[4..20], [1; 16]);
        assert_eq!(kinds[20], 2);
        let search = phase("search=0:1:0").expect("a phase");
        assert!((0..9).all(|op| search.kind(op) == 1));
        for wrong in ["mixed", "m=1:2", "m=1:2:3:4", "m=0:0:0", "m=1:1:2", "m=a:1:0"] {
            assert!(phase(wrong).is_err(), "{wrong:?}");
        }
    }

    fn text(system: &str, medium: &str, threads: u64, phases: &str) -> String {
        format!(
            "system = \"{system}\"\nmedium = \"{medium}\"\nslots = 32\nkeys = 1000\nops = 840\n\
             threads = {threads}\nphases = \"{phases}\""
        )
    }

    #[test]
    fn each_kind_and_each_phase_has_its_figures() {
        let phases = "search=0:1:0+mixed=4:16:1+insert=1:0:0";
        for threads in [1, 2] {
            let figures = run("mixed", &text("CircTree", "dram", threads, phases));
            for name in ["search", "mixed_insert", "mixed_search", "mixed_remove", "insert"] {
                assert!(of(&figures, &format!("{name}_mean_ns")) > 0.0);
            }
            assert!(["search", "mixed", "insert"].iter().all(|name| {
                let rate = of(&figures, &format!("{name}_mops"));
                rate.is_finite() && rate > 0.0
            }));
        }
    }

    #[test]
    fn searches_flush_nothing_and_counts_are_the_same_again() {
        let text = text("FastFair", "counted", 1, "search=0:1:0+mixed=4:16:1");
        let figures = run("mixed", &text);
        assert_eq!(figures, run("mixed", &text));
        assert_eq!(of(&figures, "search_flushed_lines"), 0.0);
        assert_eq!(of(&figures, "search_stores_count"), 0.0);
        // Five of 21 change a leaf: a line at least, and a header.
        assert!(of(&figures, "mixed_flushed_lines") >= 5.0 / 21.0);
        let twice = text.replace("mixed=", "search=");
        assert!(crate::measure::check("mixed", &cell(&twice)).is_err());
    }
}
