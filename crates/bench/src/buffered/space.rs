//! Memory for each key (BD+Tree Table 3), and how many versions of keys the leaves keep for a crash
//! (§4.1.7).

use std::num::NonZeroUsize;

use anyhow::Context;
use everleaf_pmem::{Dram, Geometry, Medium};
use everleaf_pool::Stats;
use everleaf_tree::hybrid::HybridReport;

use super::Load;
use super::subject::{BUFFERED, Subject, Trees, apply};
use crate::workload::{Op, Picks, Workload};

/// What to run.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    load: Load,
    #[command(flatten)]
    trees: Trees,
    /// Reads of a hundred operations
    #[arg(long, default_value_t = 20)]
    reads: u32,
    /// Lengths of epochs in writes: versions of keys are counted for each
    #[arg(long, value_delimiter = ',', default_value = "10000,100000,1000000")]
    epoch_ops: Vec<NonZeroUsize>,
}

/// Bytes of pages in use, and of their frames.
fn bytes(geometry: Geometry, pages: Stats) -> [f64; 2] {
    let used = f64::from(pages.nodes + pages.maps + pages.anchors);
    [used * geometry.page_bytes() as f64, used * geometry.frame_bytes() as f64]
}

/// Runs the operations; epochs end after each `epoch` of them, but for the last.
fn run(subject: &Subject<Dram>, stream: &[Op], epoch: usize) -> anyhow::Result<()> {
    for (i, part) in stream.chunks(epoch).enumerate() {
        if i > 0 {
            subject.tick()?;
        }
        part.iter().for_each(|op| apply(subject.index(), *op));
    }
    Ok(())
}

/// All trees: bytes after the operations of each workload.
fn bytes_for_keys(args: &Args) -> anyhow::Result<()> {
    const EPOCH: usize = 50_000;
    for (workload, ops) in args.load.workloads(args.reads) {
        println!(
            "\n{}, {} keys, {ops} operations, {} % reads, seed {}, epochs of {EPOCH}: MiB, bytes a key",
            workload.picks, workload.items, workload.reads, workload.seed
        );
        println!(
            "  {:<16} {:>10} {:>17} {:>17} {:>17} {:>17}",
            "tree", "keys", "pool", "DRAM", "of it frames", "of it inner nodes"
        );
        let stream = workload.stream(ops)?;
        for name in &args.trees.trees {
            let memory = args.trees.memory(name, workload.items)?;
            let subject = Subject::make(name, memory, None)?;
            subject.prefill(&workload)?;
            run(&subject, &stream, EPOCH)?;
            let keys = subject.keys()?;
            let [pool, mut frames] = bytes(subject.medium().geometry(), subject.pages()?);
            let mut inner = 0.0;
            if let Some(tree) = subject.buffered() {
                let own = tree.inner().pool();
                let [nodes, own_frames] = bytes(own.geometry(), own.stats()?);
                (inner, frames) = (nodes, frames + own_frames);
            }
            print!("  {name:<16} {keys:>10}");
            for bytes in [pool, frames + inner, frames, inner] {
                print!(" {:>9.2} {:>7.2}", bytes / f64::from(1 << 20), bytes / keys.max(1) as f64);
            }
            println!();
        }
    }
    Ok(())
}

/// What the buffered tree holds at the end of an epoch, the last of some.
fn at_end_of_epoch(
    trees: &Trees,
    workload: &Workload,
    epoch: NonZeroUsize,
) -> anyhow::Result<HybridReport> {
    let epochs = (workload.items as usize / epoch).max(4);
    let stream = workload.stream((epochs * epoch.get()) as u64)?;
    let subject = Subject::make(BUFFERED, trees.memory(BUFFERED, workload.items)?, None)?;
    subject.prefill(workload)?;
    run(&subject, &stream, epoch.get())?;
    Ok(subject.buffered().context("a tree with epochs")?.check()?)
}

/// How many versions the paper's model has for each possible key, at the end of an epoch of so many
/// writes; for uniform ones, half of them removals.
fn model(workload: &Workload, epoch: NonZeroUsize) -> Option<f64> {
    let n = workload.items as f64;
    let is_meant = workload.picks == Picks::Uniform && !workload.puts_only;
    is_meant.then(|| 1.5 - (1.0 - 1.0 / n).powf(epoch.get() as f64))
}

/// The buffered tree: slots that one of the last three epochs shows, beside the model.
fn versions(args: &Args) -> anyhow::Result<()> {
    println!("\nversions for each of N possible keys, at the end of an epoch of M writes");
    println!(
        "  {:<12} {:>11} {:>11} {:>10} {:>10} {:>10}",
        "picks", "N", "M", "entries", "versions", "model"
    );
    for (workload, _) in args.load.workloads(0) {
        for &epoch in &args.epoch_ops {
            let report = at_end_of_epoch(&args.trees, &workload, epoch)?;
            let each = |count: u64| count as f64 / workload.items as f64;
            println!(
                "  {:<12} {:>11} {epoch:>11} {:>10.4} {:>10.4} {:>10}",
                workload.picks.to_string(),
                workload.items,
                each(report.entries),
                each(report.instances),
                model(&workload, epoch).map_or("-".into(), |model| format!("{model:.4}")),
            );
        }
    }
    Ok(())
}

/// Both tables.
pub fn compare(args: &Args) -> anyhow::Result<()> {
    bytes_for_keys(args)?;
    versions(args)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_as_many_as_the_model_says() {
        let trees = Trees { trees: vec![], slots: 32, strict_slots: 32 };
        let picks = Picks::Uniform;
        let workload = Workload { items: 20_000, picks, reads: 0, puts_only: false, seed: 3 };
        for epoch in [1, 2_000, 20_000] {
            let epoch = NonZeroUsize::new(epoch).expect("not 0");
            let report = at_end_of_epoch(&trees, &workload, epoch).expect("room");
            let (found, model) = (report.instances as f64 / 2e4, model(&workload, epoch));
            assert!(report.damages.is_empty(), "{:?}", report.damages);
            assert!((found - model.expect("uniform")).abs() < 0.015, "{epoch}: {found}, {model:?}");
        }
    }
}
