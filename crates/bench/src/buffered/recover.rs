//! How long the buffered tree takes to open: all leaves are read, and inner nodes built anew
//! (BD+Tree §4.3). `everleaf-bench recover` has the strict trees' figures.
//!
//! Persistent memory is emulated in a file whose pages stay in the system's cache, so the time
//! includes the faults that map them, as on DAX, but no disk.

use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use everleaf_pmem::{BufferedOptions, Dax, DaxOptions};
use everleaf_tree::hybrid::{Progress, Rebuild, Rebuilt};
use everleaf_tree::{BdTree, Index, open_bd_dax};

use crate::keys::key;
use crate::table::median;

/// Sizes of a run.
#[derive(clap::Args)]
pub struct Args {
    /// Numbers of pairs
    #[arg(long, value_delimiter = ',', default_values_t = [1_000_000, 10_000_000, 100_000_000])]
    keys: Vec<u64>,
    /// Threads that rebuild
    #[arg(long, value_delimiter = ',', default_value = "1,2")]
    threads: Vec<NonZeroUsize>,
    /// Puts whose epoch a crash cuts off before the open; 0: a clean end
    #[arg(long, value_delimiter = ',', default_values_t = [0, 100_000])]
    lost: Vec<u64>,
    /// Rounds; figures are medians
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// Slots of a leaf (16 bytes each)
    #[arg(long, default_value_t = 32)]
    slots: u32,
    /// Where the pool is made
    #[arg(long, default_value = ".")]
    dir: std::path::PathBuf,
}

/// An opened tree and the milliseconds it took: to read all leaves, and all in all.
struct Opened {
    tree: BdTree<Dax>,
    rebuilt: Rebuilt,
    read: f64,
    all: f64,
}

fn open(path: &Path, options: &DaxOptions, threads: usize) -> anyhow::Result<Opened> {
    // So long that no epoch ends but by hand.
    let epochs = BufferedOptions { interval: Duration::from_secs(10) };
    let start = Instant::now();
    let read_us = AtomicU64::new(0);
    let progress = |at: Progress| {
        if 2 * at.done <= at.total {
            read_us.fetch_max(start.elapsed().as_micros() as u64, Ordering::Relaxed);
        }
    };
    let how = Rebuild { threads, progress: &progress };
    let (tree, rebuilt) = open_bd_dax(path, options, &epochs, &how)?;
    let all = start.elapsed().as_secs_f64() * 1e3;
    Ok(Opened { tree, rebuilt, read: read_us.load(Ordering::Relaxed) as f64 / 1e3, all })
}

/// Each size: once clean and once after a crash, by threads.
pub fn measure(args: &Args) -> anyhow::Result<()> {
    println!("medians of {} rounds, emulated persistent memory, times in ms", args.rounds);
    println!(
        "  {:>11} {:>11} {:>9} {:>10} {:>11} {:>10} {:>10} {:>10}",
        "keys", "lost puts", "threads", "leaves", "rolled back", "read", "open", "Mkeys/s"
    );
    for &keys in &args.keys {
        let dir = tempfile::tempdir_in(&args.dir)?;
        let path = dir.path().join("pool");
        let pages = (keys * 3 / u64::from(args.slots.max(1)) + 1024) as u32;
        let options = DaxOptions {
            slots: args.slots,
            pages,
            create: true,
            emulate: true,
            ..Default::default()
        };
        let made = open(&path, &options, 1)?.tree;
        for k in (0..keys).map(key) {
            made.insert(k, !k)?;
        }
        drop(made);
        for &lost in &args.lost {
            for &threads in &args.threads {
                run(args, &path, &options, (keys, lost, threads))?;
            }
        }
    }
    Ok(())
}

fn run(
    args: &Args,
    path: &Path,
    options: &DaxOptions,
    (keys, lost, threads): (u64, u64, NonZeroUsize),
) -> anyhow::Result<()> {
    let (mut reads, mut alls) = (Vec::new(), Vec::new());
    let mut rebuilt = Rebuilt::default();
    for round in 0..args.rounds {
        eprintln!("{keys} keys, {lost} lost, {}, round {}", super::threads(threads), round + 1);
        let tree = open(path, options, threads.get())?.tree;
        for k in (0..lost).map(|i| key(i % keys.max(1))) {
            tree.insert(k, k)?;
        }
        if lost > 0 {
            tree.medium().abandon();
        }
        drop(tree);
        let opened = open(path, options, threads.get())?;
        reads.push(opened.read);
        alls.push(opened.all);
        rebuilt = opened.rebuilt;
        anyhow::ensure!(opened.tree.get(key(0))? == Some(!key(0)), "a lost put is there");
    }
    let all = median(&alls);
    println!(
        "  {keys:>11} {lost:>11} {threads:>9} {:>10} {:>11} {:>10.1} {all:>10.1} {:>10.1}",
        rebuilt.leaves,
        rebuilt.rolled_back,
        median(&reads),
        keys as f64 / all / 1e3
    );
    Ok(())
}
