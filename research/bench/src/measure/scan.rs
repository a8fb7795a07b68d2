//! Range queries by their size (BD+Tree §4.1.5), in memory.
//!
//! A pass runs queries of one size from random keys, all keys being there. It runs first over a tree
//! that no query has seen, then again, and once more after a share of the keys in reach were updated:
//! what a tree keeps of the order of its leaves has had to be made, is there, and has had to follow.

use std::hint::black_box;
use std::ops::Bound;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use everleaf_tree::Index;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::Deserialize;

use super::kind::{Context, Figures, Measure};
use crate::keys::key;
use crate::medium::MediumName;
use crate::system::{Readers, SystemSpec, fill};

/// The most queries of a pass.
const MAX_QUERIES: usize = 100_000;

/// The parameters.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeScans {
    system: String,
    slots: u32,
    /// Keys that are there.
    keys: u64,
    /// Keys of a query.
    size: usize,
    /// Each so many-th key in reach is updated before the last pass.
    #[serde(default = "sixteen")]
    stride: usize,
}

fn sixteen() -> usize {
    16
}

impl NodeScans {
    fn make<'a>(&'a self, context: &'a Context) -> SystemSpec<'a> {
        SystemSpec {
            name: &self.system,
            medium: MediumName::Dram,
            slots: self.slots,
            keys: self.keys,
            readers: Readers::default(),
            epoch: None,
            epoch_ops: None,
            scratch: &context.scratch,
            dax: None,
        }
    }
}

/// Runs one query from each start; returns the nanoseconds of one.
fn pass(index: &dyn Index, starts: &[u64], size: usize) -> Result<f64> {
    let start = Instant::now();
    for from in starts {
        let found = black_box(index.range(Bound::Included(*from), Bound::Unbounded, size)?);
        ensure!(found.len() == size, "{} keys in a query of {size}", found.len());
    }
    let took: Duration = start.elapsed();
    Ok(took.as_nanos() as f64 / starts.len() as f64)
}

impl Measure for NodeScans {
    fn check(&self) -> Result<()> {
        ensure!(self.size > 0 && self.size as u64 <= self.keys, "1 to {} keys a query", self.keys);
        ensure!(self.stride > 0, "each how many-th key?");
        self.make(&Context::default()).check()
    }

    fn run(&self, context: &Context, _round: u32) -> Result<Figures> {
        let subject = self.make(context).make()?;
        let index = subject.index();
        fill(index, (0..self.keys).map(key))?;
        subject.sync()?;
        let mut sorted: Vec<u64> = (0..self.keys).map(key).collect();
        sorted.sort_unstable();
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(context.seed);
        let queries = (sorted.len() / 4 / self.size).clamp(1, MAX_QUERIES);
        let starts: Vec<usize> =
            (0..queries).map(|_| rng.random_range(0..=sorted.len() - self.size)).collect();
        let from: Vec<u64> = starts.iter().map(|at| sorted[*at]).collect();
        let cold = pass(index, &from, self.size)?;
        let warm = pass(index, &from, self.size)?;
        for at in &starts {
            for k in sorted[*at..at + self.size].iter().step_by(self.stride) {
                index.insert(*k, !*k)?;
            }
        }
        subject.tick()?;
        let updated = pass(index, &from, self.size)?;
        let figures = [("cold", cold), ("warm", warm), ("updated", updated)];
        Ok(figures.map(|(name, ns)| (format!("range_{name}_ns"), ns)).into())
    }
}
