//! The cost of Everleaf's reads at one moment by what has changed since, and who waits for writers.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use anyhow::{Result, ensure};
use everleaf::{Cursor, Db, Tree};

use super::work::{Apart, key};
use crate::clock::Times;
use crate::keys::seeded;
use crate::measure::kind::Figures;

/// Nanoseconds of a pair.
fn per_pair(begun: Instant, pairs: u64) -> f64 {
    begun.elapsed().as_nanos() as f64 / pairs.max(1) as f64
}

/// Walks a cursor over all pairs.
fn walk(mut at: Cursor, keys: u64) -> Result<f64> {
    let (begun, mut pairs, mut bytes) = (Instant::now(), 0, 0);
    let mut is_there = at.first()?;
    while is_there {
        if let Some((key, value)) = at.pair()? {
            bytes += key.len() + value.len();
        }
        pairs += 1;
        is_there = at.next()?;
    }
    let ns = per_pair(begun, pairs);
    ensure!(pairs == keys && bytes > 0, "{pairs} pairs of {keys}");
    Ok(ns)
}

/// The mean of what each of some turns says, by name.
fn means(rounds: &[Figures]) -> Figures {
    let Some(first) = rounds.first() else { return Figures::new() };
    let mean = |at: usize| rounds.iter().map(|round| round[at].1).sum::<f64>();
    let names = first.iter().enumerate();
    names.map(|(at, (name, _))| (name.clone(), mean(at) / rounds.len() as f64)).collect()
}

/// A cursor over a snapshot, and in turns with it the tree's own, by how many of the keys have changed since.
pub fn cursors(work: &Apart, db: &Db, tree: &Tree) -> Result<Figures> {
    let shares = [("nothing", 0), ("one", 1), ("hundredth", work.keys / 100), ("all", work.keys)];
    let mut figures = Figures::new();
    for (name, changes) in shares {
        let then = db.snapshot()?.of(tree)?;
        work.change(tree, changes)?;
        let turn = |_| {
            let of_then = walk(then.cursor(), work.keys)?;
            let of_tree = walk(tree.cursor(), work.keys)?;
            let named = [("then", of_then), ("tree", of_tree)];
            Ok(named.map(|(which, ns)| (format!("{name}_{which}_ns"), ns)).into())
        };
        let turns: Vec<Figures> = (0..work.ops).map(turn).collect::<Result<_>>()?;
        figures.extend(means(&turns));
    }
    Ok(figures)
}

/// The iterator of a new transaction: with no snapshot, and beside one since which all keys have changed.
pub fn iterators(work: &Apart, db: &Db, tree: &Tree) -> Result<Figures> {
    let fresh = || {
        let tx = db.begin();
        let (begun, mut pairs) = (Instant::now(), 0);
        for pair in tx.iter(tree) {
            pair?;
            pairs += 1;
        }
        let ns = per_pair(begun, pairs);
        ensure!(pairs == work.keys, "{pairs} pairs of {}", work.keys);
        Ok(ns)
    };
    let turn = |_| {
        let alone = fresh()?;
        let older = db.snapshot()?;
        work.change(tree, work.keys)?;
        let beside = fresh()?;
        // All are kept for it, or it would be no older one.
        ensure!(older.of(tree)?.get(key(0))?.is_some(), "a key is missing");
        Ok(vec![("alone_ns".into(), alone), ("beside_ns".into(), beside)])
    };
    let turns: Vec<Figures> = (0..work.ops).map(turn).collect::<Result<_>>()?;
    Ok(means(&turns))
}

/// How long a snapshot, `len` and a transaction that reads take, beside threads that write without pause.
pub fn waits(work: &Apart, db: &Db, tree: &Tree, seed: u64) -> Result<Figures> {
    let is_over = AtomicBool::new(false);
    // All write when the first one is timed.
    let barrier = Barrier::new(work.threads as usize + 1);
    std::thread::scope(|scope| {
        let write = |thread| {
            let (is_over, barrier) = (&is_over, &barrier);
            scope.spawn(move || {
                let value = vec![7; work.value_bytes];
                barrier.wait();
                let mut puts = 0;
                while !is_over.load(Ordering::Relaxed) {
                    let n = seeded(seed + thread, puts) % work.keys;
                    tree.put(key(n), &value)?;
                    puts += 1;
                }
                Ok::<_, everleaf::Error>(())
            })
        };
        let writers: Vec<_> = (0..work.threads).map(write).collect();
        barrier.wait();
        let figures = wait(work, db, tree);
        is_over.store(true, Ordering::Relaxed);
        writers.into_iter().try_for_each(|writer| writer.join().expect("no panic"))?;
        figures
    })
}

fn wait(work: &Apart, db: &Db, tree: &Tree) -> Result<Figures> {
    let [mut snapshots, mut lens, mut reads] = [(); 3].map(|()| Times::default());
    for n in 0..work.ops {
        snapshots.of(0..1, |_| {
            db.snapshot()?;
            Ok(())
        })?;
        lens.of(0..1, |_| {
            let len = tree.len()?;
            ensure!(len == work.keys, "{len} pairs of {}", work.keys);
            Ok(())
        })?;
        reads.of(0..1, |_| {
            let tx = db.begin();
            ensure!(tx.get(tree, key(n % work.keys))?.is_some(), "a key is missing");
            Ok(tx.commit()?)
        })?;
    }
    let all = [("snapshot", snapshots), ("len", lens), ("transaction", reads)];
    Ok(all.into_iter().flat_map(|(name, times)| times.figures(name)).collect())
}
