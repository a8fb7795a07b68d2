//! Where the time of an insert goes: to flushes, to the search for its place, to the change of the
//! node (FAST+FAIR Fig. 5).
//!
//! Three fills with the same keys tell it. The time that a medium takes beyond memory that is not flushed
//! is the flushes' part. In memory, a search for a key that is about to be inserted finds its place
//! and nothing else; the rest of an insert's time is the change of the node, its splits included.

use std::hint::black_box;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use serde::Deserialize;

use super::kind::{Context, Figures, Measure};
use crate::keys::seeded;
use crate::medium::MediumName;
use crate::system::{Readers, Subject, SystemSpec, fill};

/// Searches that are timed together. Their paths are then in the cache for the inserts that follow,
/// which are not timed.
const BATCH: u64 = 1000;

/// The parameters.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PutParts {
    system: String,
    medium: MediumName,
    slots: u32,
    keys: u64,
}

impl PutParts {
    fn make<'a>(&'a self, context: &'a Context, medium: MediumName) -> SystemSpec<'a> {
        SystemSpec {
            name: &self.system,
            medium,
            slots: self.slots,
            keys: self.keys,
            readers: Readers::default(),
            epoch: Some(Duration::from_millis(50)),
            epoch_ops: None,
            scratch: &context.scratch,
            dax: context.dax.as_deref(),
        }
    }

    fn all(&self, seed: u64) -> impl Iterator<Item = u64> {
        (0..self.keys).map(move |i| seeded(seed, i))
    }

    /// Nanoseconds of a whole fill.
    fn inserts(&self, subject: &dyn Subject, seed: u64) -> Result<f64> {
        let start = Instant::now();
        fill(subject.index(), self.all(seed))?;
        Ok(start.elapsed().as_nanos() as f64)
    }

    /// Nanoseconds of searches for all keys, each shortly before it is inserted.
    fn searches(&self, subject: &dyn Subject, seed: u64) -> Result<f64> {
        let (index, keys) = (subject.index(), self.all(seed).collect::<Vec<u64>>());
        let mut spent = Duration::ZERO;
        for batch in keys.chunks(BATCH as usize) {
            let start = Instant::now();
            for k in batch {
                ensure!(black_box(index.get(*k)?).is_none(), "a key is there before its insert");
            }
            spent += start.elapsed();
            fill(index, batch.iter().copied())?;
        }
        Ok(spent.as_nanos() as f64)
    }

    fn counts(&self, subject: &dyn Subject, seed: u64) -> Result<Figures> {
        let before = subject.counts();
        fill(subject.index(), self.all(seed))?;
        let Some((after, before)) = subject.counts().zip(before) else {
            bail!("the medium does not count");
        };
        let counts = after - before;
        let each = |count: u64| count as f64 / self.keys as f64;
        Ok(vec![
            ("insert_stores_count".into(), each(counts.stores)),
            ("insert_flushed_lines".into(), each(counts.flushes)),
            ("insert_fences".into(), each(counts.fences)),
        ])
    }
}

impl Measure for PutParts {
    fn check(&self) -> Result<()> {
        ensure!(self.keys > 0, "no keys");
        ensure!(!matches!(self.medium, MediumName::File(_)), "a file flushes in another thread");
        self.make(&Context::default(), self.medium).check()
    }

    fn run(&self, context: &Context, _round: u32) -> Result<Figures> {
        let seed = context.seed;
        let subject = self.make(context, self.medium).make()?;
        if self.medium == MediumName::Counted {
            return self.counts(&*subject, seed);
        }
        let total = self.inserts(&*subject, seed)?;
        drop(subject);
        let memory = self.make(context, MediumName::Dram);
        let bare = self.inserts(&*memory.make()?, seed)?;
        let search = self.searches(&*memory.make()?, seed)?;
        let each = |ns: f64| ns / self.keys as f64;
        Ok(vec![
            ("insert_mean_ns".into(), each(total)),
            ("flush_mean_ns".into(), each(total - bare)),
            ("search_mean_ns".into(), each(search)),
            ("update_mean_ns".into(), each(bare - search)),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{cell, of, run};

    #[test]
    fn the_parts_sum_up_to_the_whole() {
        let text = r#"system = "FastFair"
            medium = "latency:300"
            slots = 32
            keys = 2500"#;
        let figures = run("parts", text);
        let sum =
            ["flush", "search", "update"].map(|part| of(&figures, &format!("{part}_mean_ns")));
        let whole = of(&figures, "insert_mean_ns");
        assert!((sum.iter().sum::<f64>() / whole - 1.0).abs() < 1e-9, "{figures:?}");
        // Each insert spins for a line at least.
        assert!(whole > 300.0);
    }

    #[test]
    fn counts_are_those_of_a_fill() {
        let of_kind = |kind: &str, phases: &str| {
            let text = r#"system = "FastFair"
                medium = "counted"
                slots = 32
                keys = 1000"#;
            run(kind, &format!("{text}\n{phases}"))
        };
        let (parts, fill) = (of_kind("parts", ""), of_kind("fill", "phases = \"insert\""));
        for metric in ["insert_stores_count", "insert_flushed_lines", "insert_fences"] {
            assert_eq!(of(&parts, metric), of(&fill, metric), "{metric}");
        }
        let on_file = cell("system = \"CircTree\"\nmedium = \"file\"\nslots = 32\nkeys = 9");
        assert!(crate::measure::check("parts", &on_file).is_err());
    }
}
