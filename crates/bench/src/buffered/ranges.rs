//! Range queries (BD+Tree §4.1.5).
//!
//! A pass runs queries of one size from random keys, all keys being there. A *warm* pass repeats
//! queries that have run before. In the other kind of pass a share of the keys in reach were
//! updated between, not timed: what a tree keeps in DRAM of the order of its leaves has had to follow.

use std::hint::black_box;
use std::num::NonZeroUsize;
use std::ops::Bound;

use anyhow::Context;
use everleaf_pmem::Dram;
use everleaf_tree::Index;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::subject::{Subject, memory};
use crate::keys::key;
use crate::table::{Grid, time};

/// What to run.
#[derive(clap::Args)]
pub struct Args {
    /// Numbers of keys
    #[arg(long, value_delimiter = ',', default_values_t = [1_000_000, 10_000_000])]
    keys: Vec<u64>,
    /// Keys of a query
    #[arg(long, value_delimiter = ',', default_values_t = [10, 100, 1000, 10_000])]
    sizes: Vec<usize>,
    /// Trees as NAME:SLOTS (16 bytes a slot); the first is compared with each of the others
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "BdTree:32,CircTree:32,FastFair:32,CircTree:256,FastFair:256"
    )]
    trees: Vec<String>,
    /// Before a pass that is not warm, each so many-th key in reach is updated
    #[arg(long, default_value = "16")]
    stride: NonZeroUsize,
    /// Rounds; figures are medians
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// Seed of the queries
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// The most queries of a pass.
const MAX_QUERIES: usize = 100_000;

fn make(name: &str, keys: u64) -> anyhow::Result<Subject<Dram>> {
    let (tree, slots) = name.split_once(':').unwrap_or((name, "32"));
    let slots = slots.parse().with_context(|| format!("{name:?} is not NAME:SLOTS"))?;
    let subject = Subject::make(tree, memory(slots, keys)?, None)?;
    for k in (0..keys).map(key) {
        subject.index().insert(k, !k)?;
    }
    subject.sync()?;
    Ok(subject)
}

fn query(index: &dyn Index, from: u64, size: usize) -> usize {
    let found = index.range(Bound::Included(from), Bound::Unbounded, size).expect("no fault");
    black_box(found).len()
}

/// Runs one query from each start, and returns the nanoseconds of each.
fn pass(index: &dyn Index, starts: &[u64], size: usize) -> f64 {
    let took = time(|| {
        for start in starts {
            assert_eq!(query(index, *start, size), size);
        }
    });
    took.as_nanos() as f64 / starts.len() as f64
}

/// All trees, taking turns within each round.
pub fn compare(args: &Args) -> anyhow::Result<()> {
    println!("medians of {} rounds, seed {}", args.rounds, args.seed);
    for &keys in &args.keys {
        let mut sorted: Vec<u64> = (0..keys).map(key).collect();
        sorted.sort_unstable();
        let subjects: Vec<Subject<Dram>> =
            args.trees.iter().map(|name| make(name, keys)).collect::<anyhow::Result<_>>()?;
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(args.seed);
        let (mut warm, mut stale) = (Grid::new(&args.trees), Grid::new(&args.trees));
        for &size in &args.sizes {
            anyhow::ensure!((1..=sorted.len()).contains(&size), "1 to {keys} keys in a query");
            let row = format!("{size} keys");
            let queries = (sorted.len() / 4 / size).clamp(1, MAX_QUERIES);
            for round in 0..args.rounds {
                eprintln!("{keys} keys, queries of {size}, round {}", round + 1);
                let starts: Vec<usize> =
                    (0..queries).map(|_| rng.random_range(0..=sorted.len() - size)).collect();
                let from: Vec<u64> = starts.iter().map(|at| sorted[*at]).collect();
                for (column, subject) in subjects.iter().enumerate() {
                    let index = subject.index();
                    pass(index, &from, size);
                    warm.add(&row, column, pass(index, &from, size));
                    for at in &starts {
                        for k in sorted[*at..at + size].iter().step_by(args.stride.get()) {
                            index.insert(*k, !*k)?;
                        }
                    }
                    subject.tick()?;
                    stale.add(&row, column, pass(index, &from, size));
                }
            }
        }
        warm.print(&format!("{keys} keys, queries that ran before: ns a query"));
        stale.print(&format!(
            "{keys} keys, after updates of one in {} keys: ns a query",
            args.stride.get()
        ));
    }
    Ok(())
}
