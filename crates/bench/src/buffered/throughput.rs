//! Mixed operations a second (BD+Tree §4.1.1 and §4.1.2).

use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

use everleaf_pmem::Latency;

use super::subject::{BUFFERED, Subject, Trees, apply};
use super::{Load, duration};
use crate::table::{Grid, Table, mops, spread};
use crate::workload::{Op, Picks, Workload, deal};

/// What to run.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    load: Load,
    #[command(flatten)]
    trees: Trees,
    /// Reads of a hundred operations
    #[arg(long, value_delimiter = ',', default_values_t = [80, 20])]
    reads: Vec<u32>,
    /// Numbers of worker threads
    #[arg(long, value_delimiter = ',', default_value = "1,2")]
    threads: Vec<NonZeroUsize>,
    /// Rounds; figures are medians
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// Nanoseconds that are added to each line that is written back
    #[arg(long, default_value_t = 300)]
    latency: u64,
    /// Length of an epoch, with its unit: us, ms, s
    #[arg(long, value_parser = duration, default_value = "50ms")]
    interval: Duration,
}

/// What the epochs are swept with.
#[derive(clap::Args)]
pub struct EpochArgs {
    /// Size of the key space; half of the keys are there at first
    #[arg(long, default_value_t = 10_000_000)]
    keys: u64,
    /// Distribution: uniform, zipf:ALPHA, latest:ALPHA
    #[arg(long, default_value = "uniform")]
    picks: Picks,
    /// Reads of a hundred operations; of the writes half are removals
    #[arg(long, default_value_t = 0)]
    reads: u32,
    /// Operations; as many as keys if not given
    #[arg(long)]
    ops: Option<u64>,
    /// Seed of the operations
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Slots of a leaf (16 bytes each)
    #[arg(long, default_value_t = 32)]
    slots: u32,
    /// Lengths of an epoch, with units: us, ms, s; the first is what the others are compared with
    #[arg(
        long,
        value_delimiter = ',',
        value_parser = duration,
        default_value = "1us,10us,100us,1ms,10ms,100ms,1s,10s"
    )]
    intervals: Vec<Duration>,
    /// Numbers of worker threads
    #[arg(long, value_delimiter = ',', default_value = "1,2")]
    threads: Vec<NonZeroUsize>,
    /// Rounds; figures are medians
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// Nanoseconds that are added to each line that is written back
    #[arg(long, default_value_t = 300)]
    latency: u64,
}

/// How one figure is taken.
struct Setting<'a> {
    trees: &'a Trees,
    latency: Duration,
    interval: Duration,
}

impl Setting<'_> {
    /// Runs the streams, each on a thread of its own, on a new tree with the workload's first keys.
    /// Returns how long they took, and how long until all of it was durable.
    fn run(
        &self,
        name: &str,
        workload: &Workload,
        streams: &[Vec<Op>],
    ) -> anyhow::Result<[Duration; 2]> {
        let memory = self.trees.memory(name, workload.items)?;
        let medium = Latency::new(memory, self.latency, Duration::ZERO);
        let subject = Subject::make(name, medium, Some(self.interval))?;
        subject.prefill(workload)?;
        let start = Instant::now();
        let done = spread(streams.len(), |t| {
            streams[t].iter().for_each(|op| apply(subject.index(), *op));
        });
        subject.sync()?;
        Ok([done, start.elapsed()])
    }
}

/// All trees in each cell, taking turns within each round.
pub fn compare(args: &Args) -> anyhow::Result<()> {
    let Args { trees, rounds, latency, interval, .. } = args;
    let setting = Setting { trees, latency: Duration::from_nanos(*latency), interval: *interval };
    println!(
        "{latency} ns a line, epochs of {interval:?}, seed {}, medians of {rounds} rounds",
        args.load.seed
    );
    for &reads in &args.reads {
        for (workload, ops) in args.load.workloads(reads) {
            let stream = workload.stream(ops)?;
            let mut grid = Grid::new(&trees.trees);
            for &threads in &args.threads {
                let streams = deal(&stream, threads.get());
                for round in 0..*rounds {
                    eprintln!(
                        "{} of {} keys, {reads} % reads, {}, round {}",
                        workload.picks,
                        workload.items,
                        super::threads(threads),
                        round + 1
                    );
                    for (column, name) in trees.trees.iter().enumerate() {
                        let [took, _] = setting.run(name, &workload, &streams)?;
                        grid.add(&super::threads(threads), column, mops(ops, took));
                    }
                }
            }
            grid.print(&format!(
                "{}, {} keys, {reads} % reads, {ops} operations: Mop/s",
                workload.picks, workload.items
            ));
        }
    }
    Ok(())
}

/// The buffered tree by the length of its epochs, taking turns within each round.
pub fn sweep(args: &EpochArgs) -> anyhow::Result<()> {
    let EpochArgs { keys: items, picks, reads, seed, .. } = *args;
    let workload = Workload { items, picks, reads, puts_only: false, seed };
    let ops = args.ops.unwrap_or(items);
    let stream = workload.stream(ops)?;
    let trees = Trees { trees: vec![], slots: args.slots, strict_slots: args.slots };
    println!(
        "{picks}, {items} keys, {reads} % reads, {ops} operations, {} ns a line, seed {seed}",
        args.latency
    );
    for &threads in &args.threads {
        let streams = deal(&stream, threads.get());
        let mut tables = [Table::new("Mop/s"), Table::new("Mop/s")];
        for round in 0..args.rounds {
            for &interval in &args.intervals {
                eprintln!("{interval:?}, {}, round {}", super::threads(threads), round + 1);
                let latency = Duration::from_nanos(args.latency);
                let setting = Setting { trees: &trees, latency, interval };
                let took = setting.run(BUFFERED, &workload, &streams)?;
                for (table, took) in tables.iter_mut().zip(took) {
                    table.add(&format!("{interval:?}"), mops(ops, took));
                }
            }
        }
        let threads = super::threads(threads);
        tables[0].print(&format!("{threads}, until the operations are done"));
        tables[1].print(&format!("{threads}, until they are durable"));
    }
    Ok(())
}
