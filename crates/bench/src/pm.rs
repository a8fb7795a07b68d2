//! The strict trees, all of them, at the papers' node sizes and write latencies (FAST+FAIR Fig. 5,
//! Circ-Tree Fig. 7, Sentinel Array Fig. 4 and 5).
//!
//! A latency is added to each flush of a line by spinning, as the papers do; reads cost what memory
//! costs. Counts are exact: they come from one more fill, on a medium that counts.

use std::hint::black_box;
use std::time::Duration;

use anyhow::{Context, bail};
use everleaf_pmem::{Counted, Dram, Geometry, Latency, Medium};
use everleaf_tree::Index;
use everleaf_tree::blink::Reading;
use everleaf_tree::kinds::{NAMES, Named, create};

use crate::keys::{key, lookup};
use crate::table::{median, time};

/// What to run.
#[derive(clap::Args)]
pub struct Args {
    /// Number of keys
    #[arg(long, default_value_t = 1_000_000)]
    keys: u64,
    /// Rounds; figures are medians
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// Nanoseconds that are added to each flush of a line
    #[arg(long, value_delimiter = ',', default_values_t = [0, 300])]
    latency: Vec<u64>,
    /// Slots of a node (16 bytes each)
    #[arg(long, value_delimiter = ',', default_values_t = [32, 64, 128, 256])]
    slots: Vec<u32>,
    /// Names of trees; all if none is given
    #[arg(long, value_delimiter = ',')]
    trees: Vec<String>,
    /// The tree that the others are compared with
    #[arg(long, default_value = "FastFair")]
    base: String,
    /// How readers get along with writers: optimistic, lock-free or latched
    #[arg(long, default_value = "optimistic")]
    reading: String,
}

impl Args {
    fn reading(&self) -> anyhow::Result<Reading> {
        Ok(match &self.reading[..] {
            "optimistic" => Reading::Optimistic,
            "lock-free" => Reading::LockFree,
            "latched" => Reading::Latched,
            other => bail!("no way to read is called {other:?}"),
        })
    }

    /// The trees, the one to compare with first.
    fn trees(&self) -> Vec<&str> {
        let given: Vec<&str> = self.trees.iter().map(String::as_str).collect();
        let names = if given.is_empty() { NAMES } else { &given[..] };
        let others = names.iter().copied().filter(|name| *name != self.base);
        std::iter::once(&self.base[..]).chain(others).collect()
    }
}

fn dram(keys: u64, slots: u32) -> anyhow::Result<Dram> {
    let geometry = Geometry::new(slots).context("slots must be a power of two")?;
    Ok(Dram::new(geometry, (keys * 3 / u64::from(slots) + 1024) as u32)?)
}

fn fill(index: &dyn Index, n: u64) {
    for k in (0..n).map(key) {
        index.insert(k, !k).expect("space and no fault");
    }
}

fn search(index: &dyn Index, n: u64) {
    for i in 0..n {
        let k = lookup(i, n);
        assert_eq!(black_box(index.get(k).expect("no fault")), Some(!k));
    }
}

/// One tree's figures: nanoseconds of each round, and exact counts.
struct Row<'a> {
    name: &'a str,
    insert: Vec<f64>,
    search: Vec<f64>,
    flushes: f64,
    fences: f64,
}

impl<'a> Row<'a> {
    /// Counts once; what is timed comes later.
    fn count(name: &'a str, args: &Args, slots: u32) -> anyhow::Result<Self> {
        let medium = Counted::new(dram(args.keys, slots)?);
        let Named { index, pool } = create(name, args.reading()?, medium)?;
        let before = pool.medium().counts();
        fill(&*index, args.keys);
        let counts = pool.medium().counts() - before;
        let each = |count: u64| count as f64 / args.keys as f64;
        let (flushes, fences) = (each(counts.flushes), each(counts.fences));
        Ok(Self { name, insert: vec![], search: vec![], flushes, fences })
    }

    fn forget_times(&mut self) {
        self.insert.clear();
        self.search.clear();
    }

    fn time(&mut self, args: &Args, medium: impl Medium) -> anyhow::Result<()> {
        let Named { index, .. } = create(self.name, args.reading()?, medium)?;
        let ns = |took: Duration| took.as_nanos() as f64 / args.keys as f64;
        self.insert.push(ns(time(|| fill(&*index, args.keys))));
        self.search.push(ns(time(|| search(&*index, args.keys))));
        Ok(())
    }
}

/// The median of `base / own` within each round: how many times as fast.
fn faster(own: &[f64], base: &[f64]) -> f64 {
    median(&own.iter().zip(base).map(|(own, base)| base / own).collect::<Vec<_>>())
}

fn print(rows: &[Row<'_>]) {
    println!(
        "  {:<16} {:>10} {:>8} {:>10} {:>8} {:>9} {:>9}",
        "tree", "insert ns", "speed", "search ns", "speed", "flushes", "fences"
    );
    for row in rows {
        println!(
            "  {:<16} {:>10.0} {:>7.2}x {:>10.0} {:>7.2}x {:>9.3} {:>9.3}",
            row.name,
            median(&row.insert),
            faster(&row.insert, &rows[0].insert),
            median(&row.search),
            faster(&row.search, &rows[0].search),
            row.flushes,
            row.fences
        );
    }
}

/// All trees at all sizes and latencies, taking turns within each round.
pub fn compare(args: &Args) -> anyhow::Result<()> {
    for &slots in &args.slots {
        let trees = args.trees();
        let counted = trees.iter().map(|name| Row::count(name, args, slots));
        let mut rows = counted.collect::<anyhow::Result<Vec<Row<'_>>>>()?;
        for &latency in &args.latency {
            rows.iter_mut().for_each(Row::forget_times);
            let delay = Duration::from_nanos(latency);
            for round in 0..args.rounds {
                eprintln!("{slots} slots, {latency} ns, round {}", round + 1);
                for row in &mut rows {
                    let memory = dram(args.keys, slots)?;
                    row.time(args, Latency::new(memory, delay, Duration::ZERO))?;
                }
            }
            println!(
                "\n{} keys, nodes of {} B, {latency} ns a line, {} reading (medians of {} rounds; \
                 speed beside {})",
                args.keys,
                slots * 16,
                args.reading,
                args.rounds,
                args.base
            );
            print(&rows);
        }
    }
    Ok(())
}
