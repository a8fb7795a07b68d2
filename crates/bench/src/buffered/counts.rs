//! Lines that are written back, exactly counted (BD+Tree §4.1.7).
//!
//! One thread. Epochs of a number of operations end between two operations, so that their counts
//! are the same in every run; epochs of a time end in the background.

use std::time::Duration;

use everleaf_pmem::{Counted, Dram, Latency};

use super::subject::{BUFFERED, Subject, Trees, apply};
use super::{Load, duration};
use crate::workload::{Kind, Op, Workload};

/// What to run.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    load: Load,
    #[command(flatten)]
    trees: Trees,
    /// Reads of a hundred operations; lines are counted for each write
    #[arg(long, default_value_t = 20)]
    reads: u32,
    /// Lengths of epochs in operations
    #[arg(long, value_delimiter = ',', default_values_t = [50_000, 500_000])]
    epoch_ops: Vec<usize>,
    /// Lengths of epochs in time, with units: us, ms, s
    #[arg(long, value_delimiter = ',', value_parser = duration, default_value = "50ms")]
    intervals: Vec<Duration>,
    /// Nanoseconds that are added to each line, where epochs have a length in time
    #[arg(long, default_value_t = 300)]
    latency: u64,
}

/// When an epoch ends.
#[derive(Clone, Copy)]
enum Epoch {
    /// After each operation: the tree has none.
    Strict,
    /// After so many operations.
    Ops(usize),
    /// After a time.
    Time(Duration),
}

impl Epoch {
    fn name(self) -> String {
        match self {
            Self::Strict => "-".into(),
            Self::Ops(ops) => format!("{ops} ops"),
            Self::Time(interval) => format!("{interval:?}"),
        }
    }
}

/// What was written back.
struct Lines {
    writes: u64,
    /// All lines.
    total: u64,
    /// Of these: at the ends of epochs.
    deferred: u64,
    /// Of these: the word that says which epoch is durable.
    commits: u64,
    /// Pages that the tree has gained.
    pages: u64,
    /// Operations that wrote lines back themselves; not known beside a background thread.
    flushing: Option<u64>,
}

fn count(
    args: &Args,
    name: &str,
    load: &Workload,
    stream: &[Op],
    epoch: Epoch,
) -> anyhow::Result<Lines> {
    let (interval, latency) = match epoch {
        Epoch::Time(interval) => (Some(interval), Duration::from_nanos(args.latency)),
        _ => (None, Duration::ZERO),
    };
    let memory = args.trees.memory(name, load.items)?;
    let medium = Counted::new(Latency::new(memory, latency, Duration::ZERO));
    let subject: Subject<Counted<Latency<Dram>>> = Subject::make(name, medium, interval)?;
    subject.prefill(load)?;
    let flushes = || subject.medium().counts().flushes;
    let (before, nodes, ended) = (flushes(), subject.pages()?.nodes, subject.ended());
    let mut flushing = 0;
    for (i, op) in stream.iter().enumerate() {
        let before = flushes();
        apply(subject.index(), *op);
        flushing += u64::from(flushes() > before);
        if let Epoch::Ops(ops) = epoch
            && (i + 1) % ops == 0
        {
            subject.tick()?;
        }
    }
    subject.sync()?;
    let now = subject.ended();
    Ok(Lines {
        writes: stream.iter().filter(|op| op.kind != Kind::Get).count() as u64,
        total: flushes() - before,
        deferred: now.lines - ended.lines,
        commits: now.commits - ended.commits,
        pages: u64::from(subject.pages()?.nodes.saturating_sub(nodes)),
        flushing: interval.is_none().then_some(flushing),
    })
}

impl Lines {
    /// Prints the counts for each write, and how many lines are saved beside strict trees.
    fn print(&self, name: &str, epoch: Epoch, strict: &[(&str, f64)]) {
        let each = |lines: u64| lines as f64 / self.writes.max(1) as f64;
        // A split adds one leaf; leaves are given back by a call of its own, which is not made here.
        let outside = match (epoch, self.flushing) {
            (Epoch::Ops(_), Some(flushing)) => format!("{}", flushing - self.pages.min(flushing)),
            _ => "-".into(),
        };
        print!(
            "  {name:<16} {:>11} {:>10.3} {:>10.4} {outside:>10} {:>10.3} {:>10.5} {:>10.3}",
            epoch.name(),
            each(self.total - self.deferred - self.commits),
            each(self.pages),
            each(self.deferred),
            each(self.commits),
            each(self.total),
        );
        for (_, lines) in strict {
            print!(" {:>15.1}%", 100.0 * (1.0 - each(self.total) / lines));
        }
        println!();
    }
}

/// All trees on each workload.
pub fn compare(args: &Args) -> anyhow::Result<()> {
    let epochs = args.epoch_ops.iter().map(|ops| Epoch::Ops((*ops).max(1)));
    let epochs: Vec<Epoch> =
        epochs.chain(args.intervals.iter().copied().map(Epoch::Time)).collect();
    let is_strict = |name: &&str| **name != *BUFFERED;
    let names: Vec<&str> = args.trees.trees.iter().map(String::as_str).collect();
    for (load, ops) in args.load.workloads(args.reads) {
        let stream = load.stream(ops)?;
        println!(
            "\n{}, {} keys, {} % reads, {ops} operations, seed {}: lines written back for a write",
            load.picks, load.items, load.reads, load.seed
        );
        print!(
            "  {:<16} {:>11} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10}",
            "tree", "epoch", "in steps", "new pages", "unsplit", "deferred", "clock", "all"
        );
        names
            .iter()
            .copied()
            .filter(is_strict)
            .for_each(|name| print!(" {:>16}", format!("beside {name}")));
        println!();
        let mut strict = Vec::new();
        for name in names.iter().copied().filter(is_strict) {
            let lines = count(args, name, &load, &stream, Epoch::Strict)?;
            strict.push((name, lines.total as f64 / lines.writes.max(1) as f64));
            lines.print(name, Epoch::Strict, &[]);
        }
        if names.contains(&BUFFERED) {
            for &epoch in &epochs {
                count(args, BUFFERED, &load, &stream, epoch)?.print(BUFFERED, epoch, &strict);
            }
        }
    }
    println!(
        "\nin steps: by operations themselves; unsplit: operations that did so without a new page;\n\
         deferred: at the ends of epochs; clock: to say which epoch is durable"
    );
    Ok(())
}
