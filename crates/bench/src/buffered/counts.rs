//! Lines that are written back, exactly counted (BD+Tree §4.1.7).
//!
//! One thread. Epochs of a number of operations end between two operations, so that their counts
//! are the same in every run; epochs of a time end in the background.

use std::num::NonZeroUsize;
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
    #[arg(long, value_delimiter = ',', default_value = "50000,500000")]
    epoch_ops: Vec<NonZeroUsize>,
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
    /// Operations that wrote lines back themselves; not known beside a background thread, and of no
    /// interest where all do.
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
        flushing: matches!(epoch, Epoch::Ops(_)).then_some(flushing),
    })
}

impl Lines {
    fn for_a_write(&self, lines: u64) -> f64 {
        lines as f64 / self.writes.max(1) as f64
    }

    /// Lines that operations wrote back themselves.
    fn in_steps(&self) -> u64 {
        self.total - self.deferred - self.commits
    }

    /// Operations that did so and added no page, hence did not split a leaf. Leaves are given back
    /// only by a thread or a call that is not there beside epochs of operations.
    fn unsplit(&self) -> Option<u64> {
        self.flushing.map(|flushing| flushing.saturating_sub(self.pages))
    }

    /// Prints the counts for each write, and how many lines are saved beside strict trees.
    fn print(&self, name: &str, epoch: Epoch, strict: &[f64]) {
        let each = |lines| self.for_a_write(lines);
        let unsplit = self.unsplit().map_or("-".into(), |unsplit| unsplit.to_string());
        print!(
            "  {name:<16} {:>11} {:>10.3} {:>10.4} {unsplit:>10} {:>10.3} {:>10} {:>10.3}",
            epoch.name(),
            each(self.in_steps()),
            each(self.pages),
            each(self.deferred),
            self.commits,
            each(self.total),
        );
        for lines in strict {
            print!(" {:>15.1}%", 100.0 * (1.0 - each(self.total) / lines));
        }
        println!();
    }
}

/// All trees on each workload.
pub fn compare(args: &Args) -> anyhow::Result<()> {
    let epochs = args.epoch_ops.iter().map(|ops| Epoch::Ops(ops.get()));
    let epochs: Vec<Epoch> =
        epochs.chain(args.intervals.iter().copied().map(Epoch::Time)).collect();
    let names = args.trees.trees.iter().map(String::as_str);
    let (buffered, strict): (Vec<&str>, Vec<&str>) = names.partition(|name| *name == BUFFERED);
    for (load, ops) in args.load.workloads(args.reads) {
        let stream = load.stream(ops)?;
        println!(
            "\n{}, {} keys, {} % reads, {ops} operations, seed {}: lines written back for a write",
            load.picks, load.items, load.reads, load.seed
        );
        print!(
            "  {:<16} {:>11} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10}",
            "tree", "epoch", "in steps", "new pages", "unsplit", "deferred", "epochs", "all"
        );
        strict.iter().for_each(|name| print!(" {:>16}", format!("beside {name}")));
        println!();
        let mut others = Vec::new();
        for name in &strict {
            let lines = count(args, name, &load, &stream, Epoch::Strict)?;
            others.push(lines.for_a_write(lines.total));
            lines.print(name, Epoch::Strict, &[]);
        }
        for name in &buffered {
            for &epoch in &epochs {
                count(args, name, &load, &stream, epoch)?.print(name, epoch, &others);
            }
        }
    }
    println!(
        "\nin steps: by operations themselves; unsplit: operations that did so without a new page;\n\
         deferred: at the ends of epochs, each of which writes one line more, for the clock"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn counts(name: &str, epoch: Epoch) -> Lines {
        let Line { args } = Line::parse_from(["", "--keys", "20000", "--picks", "zipf:1.05"]);
        let (load, ops) = args.load.workloads(args.reads).next().expect("one");
        let stream = load.stream(ops).expect("valid");
        count(&args, name, &load, &stream, epoch).expect("room")
    }

    #[test]
    fn a_write_of_the_buffered_tree_flushes_nothing_but_in_splits() {
        let lines = counts(BUFFERED, Epoch::Ops(1000));
        assert!(lines.pages > 0 && lines.in_steps() > 0);
        assert_eq!(lines.unsplit(), Some(0));
        assert_eq!(lines.commits, 21, "20 epochs, and the sync");
        // Two lines at most for each write, plus what splits defer.
        assert!(lines.deferred > 0 && lines.deferred <= 2 * lines.writes + 9 * lines.pages);
    }

    #[test]
    fn strict_trees_defer_nothing() {
        let lines = counts("FastFair", Epoch::Strict);
        assert_eq!((lines.deferred, lines.commits), (0, 0));
        assert!(lines.total > counts(BUFFERED, Epoch::Ops(1000)).total);
    }
}
