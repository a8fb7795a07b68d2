//! Everything at once: many threads on few names drop, clear, rename, load, read at snapshots and commit, and what
//! comes out is whole. Other tests know what each of these does alone; this one looks for what they do to each other,
//! with room and without.
//!
//! `EVERLEAF_SCALE` sets the milliseconds of all runs (8,000), `EVERLEAF_SEED` the seed.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use everleaf::{Db, Error, Options, Result, Storage, Tree};
use everleaf_testing::{seed_or, times};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

const THREADS: u64 = 64;
const NAMES: u64 = 6;

/// The value of a key says which key it is, so that pairs of other places are known.
fn value(key: &[u8], bytes: usize) -> Vec<u8> {
    key.iter().copied().cycle().take(bytes.max(key.len())).collect()
}

#[track_caller]
fn expect_value(key: &[u8], found: &[u8]) {
    assert!(found == value(key, found.len()), "{key:?} has another's value");
}

fn key(n: u64) -> [u8; 8] {
    // No two bytes of a key are equal by rule.
    n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}

/// Reads a tree at one moment in both directions, and by key.
fn look(db: &Db, tree: &Tree) -> Result<()> {
    let at = db.snapshot()?.of(tree)?;
    let (mut up, mut last) = (0, None);
    for pair in at.iter() {
        let (key, found) = pair?;
        expect_value(&key, &found);
        assert!(last < Some(key.clone()), "the order is wrong");
        if up % 64 == 0 {
            assert_eq!(at.get(&key)?, Some(found));
        }
        up += 1;
        last = Some(key);
    }
    let mut down = 0;
    at.iter().rev().try_for_each(|pair| pair.map(|_| down += 1))?;
    assert_eq!(up, down, "pairs of one moment");
    assert_eq!(at.last()?.map(|(key, _)| key), last);
    Ok(())
}

/// One step of a thread. Large values are rarer on persistent memory, where the pool is small.
fn step(db: &Db, random: &mut Xoshiro256PlusPlus, large: usize) -> Result<()> {
    let name = format!("t{}", random.random_range(0..NAMES));
    let tree = db.tree(&name)?;
    let one = key(random.random_range(0..1 << 16));
    match random.random_range(0..100) {
        0 => drop(db.drop_tree(&name)?),
        1..3 => drop(tree.clear()?),
        3 => look(db, &tree)?,
        4 => drop(tree.len()?),
        5 => drop(db.rename_tree(&name, &format!("t{}", random.random_range(0..NAMES)))?),
        6 => {
            let mut keys: Vec<_> = (0..300).map(|_| key(random.random_range(0..1 << 16))).collect();
            keys.sort_unstable();
            keys.dedup();
            tree.load_sorted(keys.iter().map(|key| (key, value(key, 30))))?;
        }
        7 => db.transact(|tx| {
            let had = tx.get(&tree, one)?;
            had.iter().for_each(|had| expect_value(&one, had));
            tx.put(&tree, one, value(&one, had.map_or(10, |had| had.len() % 100)))
        })?,
        8 => tree.put(one, value(&one, random.random_range(0..large)))?,
        9 => drop(tree.pop_first()?.inspect(|(key, found)| expect_value(key, found))),
        10..15 => drop(tree.remove(one)?.inspect(|found| expect_value(&one, found))),
        15..70 => tree.put(one, value(&one, random.random_range(0..300)))?,
        70..72 => {
            let up =
                tree.range(one..).take(100).map(|pair| pair.map(|(k, v)| expect_value(&k, &v)));
            up.collect::<Result<()>>()?;
        }
        _ => drop(tree.get(one)?.inspect(|found| expect_value(&one, found))),
    }
    Ok(())
}

/// How a run goes.
#[derive(Clone, Copy)]
struct Run {
    seed: u64,
    for_ms: u64,
    /// Bytes of large values, at most.
    large: usize,
    may_be_full: bool,
    end: End,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum End {
    /// All is looked at before the close.
    Look,
    /// Trees are on their way out.
    Close,
    Abandon,
    /// Threads still go on.
    CloseBeside,
    AbandonBeside,
}

/// Whether other threads may have made a step fail like this.
fn is_refused(error: &Error, run: Run, is_over: bool) -> bool {
    match error {
        Error::NoTree
        | Error::TreeExists { .. }
        | Error::Conflict { .. }
        | Error::SnapshotTooOld { .. } => true,
        Error::Full { .. } => run.may_be_full,
        Error::Closed => is_over,
        _ => false,
    }
}

/// Threads make steps for so long, and the pool is closed. The first panic or error ends it.
fn churn(db: &Db, run: Run) {
    let (ends, is_over) = (AtomicBool::new(false), AtomicBool::new(false));
    let (first, steps, full) = (Mutex::new(None), AtomicU64::new(0), AtomicU64::new(0));
    thread::scope(|scope| {
        for own in 0..THREADS {
            let (ends, is_over, steps, full, first) = (&ends, &is_over, &steps, &full, &first);
            scope.spawn(move || {
                let mut random = Xoshiro256PlusPlus::seed_from_u64(run.seed << 8 | own);
                while !ends.load(Ordering::Relaxed) {
                    let done = catch_unwind(AssertUnwindSafe(|| step(db, &mut random, run.large)));
                    match done {
                        Ok(Ok(())) => drop(steps.fetch_add(1, Ordering::Relaxed)),
                        Ok(Err(error))
                            if is_refused(&error, run, is_over.load(Ordering::Relaxed)) =>
                        {
                            let is_full = matches!(error, Error::Full { .. });
                            full.fetch_add(is_full.into(), Ordering::Relaxed);
                        }
                        failed => {
                            ends.store(true, Ordering::Relaxed);
                            let what = failed.map(|done| done.unwrap_err().to_string());
                            first.lock().expect("no panic").get_or_insert(what);
                        }
                    }
                }
            });
        }
        let start = Instant::now();
        while !ends.load(Ordering::Relaxed) && start.elapsed() < Duration::from_millis(run.for_ms) {
            thread::sleep(Duration::from_millis(10));
        }
        is_over.store(true, Ordering::SeqCst);
        match run.end {
            End::CloseBeside => db.clone().close().expect("room"),
            End::AbandonBeside => db.clone().abandon().expect("open"),
            _ => {}
        }
        ends.store(true, Ordering::Relaxed);
    });
    println!("{:?}: {steps:?} steps, {full:?} without room", run.end);
    match first.into_inner().expect("no panic") {
        None => assert!(steps.into_inner() > 1000, "hardly anything has happened"),
        Some(what) => panic!("{}: {}", run.seed, what.unwrap_or("a thread has panicked".into())),
    }
    match run.end {
        End::Look => {
            expect_whole(db);
            db.clone().close().expect("room");
        }
        End::Close => db.clone().close().expect("room"),
        End::Abandon => db.clone().abandon().expect("open"),
        End::CloseBeside | End::AbandonBeside => {}
    }
}

fn expect_whole(db: &Db) {
    let start = Instant::now();
    while db.stats().expect("open").dropped_trees > 0 {
        assert!(start.elapsed() < Duration::from_secs(60), "dropped trees stay");
        thread::sleep(Duration::from_millis(1));
    }
    for name in db.tree_names().expect("readable") {
        let tree = db.open_tree(&name).expect("readable").expect("listed");
        let pairs = tree.iter().map(|pair| pair.expect("readable"));
        let count = pairs.inspect(|(key, found)| expect_value(key, found)).count() as u64;
        assert_eq!(tree.len().expect("open"), count, "{name}");
    }
    let damages = db.check().expect("readable");
    assert!(damages.is_empty(), "{damages:?}");
}

#[test]
fn whatever_many_threads_do_at_once_leaves_whole_trees() {
    let seed = seed_or(1);
    let for_ms = times(8000) / 20;
    println!("EVERLEAF_SEED={seed}");
    for (storage, large, max_bytes) in [
        (Storage::File, 200_000, 2 << 30),
        (Storage::EmulatedDax, 5_000, 2 << 30),
        (Storage::File, 20_000, 8 << 20),
        (Storage::EmulatedDax, 2_000, 3 << 20),
    ] {
        println!("{storage:?}, at most {max_bytes} bytes");
        let dir = tempfile::tempdir().expect("a directory");
        let options = Options::new().storage(storage).max_bytes(max_bytes).memory(64 << 20);
        let ends = [End::Look, End::Abandon, End::CloseBeside, End::Close, End::AbandonBeside];
        for (end, seed) in ends.into_iter().zip(seed..) {
            let db = options.open(dir.path().join("pool")).expect("opens");
            expect_whole(&db);
            churn(&db, Run { seed, for_ms, large, may_be_full: max_bytes < 1 << 30, end });
        }
        expect_whole(&options.open(dir.path().join("pool")).expect("opens"));
    }
}
