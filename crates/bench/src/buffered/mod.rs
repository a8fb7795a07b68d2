//! The experiments of the BD+Tree paper (§4): the buffered tree beside the strict ones, on emulated
//! persistent memory.
//!
//! A latency is added to each line that is written back, by spinning: by a worker inside its
//! operation, or by the thread that ends epochs. Reads cost what memory costs.

mod counts;
mod ranges;
mod recover;
mod space;
mod subject;
mod throughput;

use std::num::NonZeroUsize;
use std::time::Duration;

use anyhow::{Context, ensure};

use crate::workload::{Picks, Workload};

/// The experiments.
#[derive(clap::Subcommand)]
pub enum Experiment {
    /// Mixed operations a second, by distribution, mix and threads (Fig. 5)
    Throughput(throughput::Args),
    /// Mixed operations a second, by length of the epochs (Fig. 6)
    Epochs(throughput::EpochArgs),
    /// Lines written back: in operations, in splits, at the ends of epochs (Fig. 9)
    Counts(counts::Args),
    /// Range queries, by their size, also where writes came before (Fig. 8)
    Ranges(ranges::Args),
    /// Bytes of DRAM and of the pool for each key, and versions of keys (Table 3, §4.1.7)
    Space(space::Args),
    /// Time to open a pool and rebuild the inner nodes, after a clean end and after a crash (§4.3)
    Recover(recover::Args),
}

impl Experiment {
    /// Runs it and prints its tables.
    pub fn run(&self) -> anyhow::Result<()> {
        match self {
            Self::Throughput(args) => throughput::compare(args),
            Self::Epochs(args) => throughput::sweep(args),
            Self::Counts(args) => counts::compare(args),
            Self::Ranges(args) => ranges::compare(args),
            Self::Space(args) => space::compare(args),
            Self::Recover(args) => recover::measure(args),
        }
    }
}

/// The operations of an experiment, but for the share of reads.
#[derive(clap::Args)]
struct Load {
    /// Sizes of the key space; half of the keys are there at first
    #[arg(long, value_delimiter = ',', default_values_t = [1_000_000, 10_000_000])]
    keys: Vec<u64>,
    /// Distributions: uniform, zipf:ALPHA, latest:ALPHA
    #[arg(long, value_delimiter = ',', default_value = "uniform,latest:0.99,zipf:1.01,zipf:1.05")]
    picks: Vec<Picks>,
    /// All writes are puts; else half of them are removals
    #[arg(long)]
    puts_only: bool,
    /// Operations; as many as keys if not given
    #[arg(long)]
    ops: Option<u64>,
    /// Seed of the operations
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

impl Load {
    /// The workloads with this share of reads, with the number of their operations.
    fn workloads(&self, reads: u32) -> impl Iterator<Item = (Workload, u64)> {
        let Self { puts_only, seed, .. } = *self;
        self.keys.iter().flat_map(move |&items| {
            let ops = self.ops.unwrap_or(items);
            let of = move |&picks| (Workload { items, picks, reads, puts_only, seed }, ops);
            self.picks.iter().map(of)
        })
    }
}

/// Reads a duration: a number and us, ms or s.
fn duration(text: &str) -> anyhow::Result<Duration> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let factor = match &text[digits.len()..] {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        _ => anyhow::bail!("a number and us, ms or s"),
    };
    let number: f64 = digits.parse().context("a number and us, ms or s")?;
    ensure!((0.0..=1e6).contains(&number), "a number from 0 to 1000000");
    Ok(Duration::from_secs_f64(number * factor))
}

/// `1 thread`, `2 threads`.
fn threads(n: NonZeroUsize) -> String {
    format!("{n} thread{}", if n.get() == 1 { "" } else { "s" })
}
