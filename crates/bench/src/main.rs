//! Measures Everleaf beside std's `BTreeMap` and the bare disk, in one process and one run.
//!
//! Times on a shared machine are noisy: systems take turns within a round, and each figure is the
//! median over rounds of a ratio taken within a round.

#![forbid(unsafe_code)]

mod buffered;
mod db;
mod index;
mod keys;
mod open;
mod pm;
mod recover;
mod sync;
mod table;
mod workload;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "everleaf-bench", about = "Measures Everleaf beside BTreeMap and the bare disk")]
struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// u64 index: insert and get, BTreeMap, Dram and File, one thread
    Index(index::Args),
    /// u64 index: node sizes 512 B to 4 KiB on Dram
    Nodes(index::NodeArgs),
    /// u64 index: one thread against two
    Threads(index::Args),
    /// Db: load of byte strings beside a mutexed BTreeMap, with latencies
    Db(db::Args),
    /// Db: synced operations beside the disk's own append and fdatasync
    Sync(sync::Args),
    /// The strict trees: all of them, by node size and write latency
    Pm(pm::Args),
    /// The strict trees: time to open, lazily and by a walk over all nodes
    Recover(recover::Args),
    /// The buffered tree beside the strict ones: the experiments of the BD+Tree paper
    #[command(subcommand)]
    Buffered(buffered::Experiment),
    /// Time to open after a kill and after a clean close
    Open(open::Args),
}

fn main() -> anyhow::Result<()> {
    match Args::parse().what {
        What::Index(args) => index::compare(&args),
        What::Nodes(args) => index::nodes(&args),
        What::Threads(args) => index::threads(&args),
        What::Db(args) => db::load(&args),
        What::Sync(args) => sync::compare(&args),
        What::Pm(args) => pm::compare(&args),
        What::Recover(args) => recover::compare(&args),
        What::Buffered(experiment) => experiment.run(),
        What::Open(args) => open::measure(&args),
    }
}
