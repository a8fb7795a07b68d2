//! Threads: writers of their own keys under readers, and writers of the same keys.

use std::collections::HashMap;
use std::ops::Bound::{Included, Unbounded};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Barrier, Mutex};
use std::thread;

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::compare::{CheckResult, ModelMap, equal, insert, remove};
use super::suite::Suite;
use crate::index::Index;

/// The first thing that went wrong in any thread; it also ends the others.
#[derive(Default)]
struct Trouble {
    first: Mutex<Option<String>>,
    over: AtomicBool,
}

impl Trouble {
    fn note(&self, verdict: CheckResult) {
        if let Err(what) = verdict {
            self.first.lock().expect("no panic inside").get_or_insert(what);
            self.over.store(true, Ordering::Release);
        }
    }
    fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }
    fn verdict(self) -> CheckResult {
        self.first.into_inner().expect("no panic inside").map_or(Ok(()), Err)
    }
}

/// Each writer has the keys that are its number modulo the writers, and finds only its own doing
/// there. Readers meanwhile get values that belong to their keys, and ranges in order.
///
/// # Errors
/// A message that says what the index does wrong.
pub fn disjoint_writers<I: Index + ?Sized>(index: &I, suite: &Suite) -> CheckResult {
    let threads = suite.threads as u64;
    let (trouble, running) = (Trouble::default(), AtomicU64::new(threads));
    let models = Mutex::new(ModelMap::new());
    thread::scope(|scope| {
        for writer in 0..threads {
            let (trouble, running, models) = (&trouble, &running, &models);
            scope.spawn(move || {
                // Also if this panics: readers wait for it.
                scopeguard::defer! { running.fetch_sub(1, Ordering::Release); }
                let mut model = ModelMap::new();
                trouble.note(write_own(index, suite, writer, &mut model, trouble));
                models.lock().expect("no panic inside").append(&mut model);
            });
        }
        for reader in 0..2 {
            let (trouble, running) = (&trouble, &running);
            scope.spawn(move || {
                let mut rng = Xoshiro256PlusPlus::seed_from_u64(suite.seed ^ reader);
                while running.load(Ordering::Acquire) > 0 && !trouble.is_over() {
                    trouble.note(read_once(index, suite, &mut rng));
                }
            });
        }
    });
    trouble.verdict()?;
    equal(index, &models.into_inner().expect("no panic inside"))
}

/// A value that shows which key it was written for.
fn tagged(key: u64, i: u64) -> u64 {
    key << 32 | i
}

fn write_own<I: Index + ?Sized>(
    index: &I,
    suite: &Suite,
    writer: u64,
    model: &mut ModelMap,
    trouble: &Trouble,
) -> CheckResult {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(suite.seed ^ writer << 32);
    for i in 0..4 * suite.keys as u64 {
        if trouble.is_over() {
            break;
        }
        let key = rng.random_range(0..suite.keys as u64) * suite.threads as u64 + writer;
        if rng.random_bool(0.6) {
            insert(index, model, key, tagged(key, i))?;
        } else {
            remove(index, model, key)?;
        }
        super::compare::get(index, model, key)?;
    }
    Ok(())
}

fn read_once<I: Index + ?Sized>(
    index: &I,
    suite: &Suite,
    rng: &mut Xoshiro256PlusPlus,
) -> CheckResult {
    let belongs = |key: u64, value: u64| {
        if value >> 32 == key { Ok(()) } else { Err(format!("key {key} has {value:#x}")) }
    };
    let key = rng.random_range(0..(suite.keys * suite.threads) as u64);
    if let Some(value) = index.get(key).map_err(|e| e.to_string())? {
        belongs(key, value)?;
    }
    let found = index.range(Included(key), Unbounded, 50).map_err(|e| e.to_string())?;
    let back = index.range_back(Unbounded, Included(key), 50).map_err(|e| e.to_string())?;
    let rising = found.iter().all(|e| e.0 >= key) && found.is_sorted_by(|a, b| a.0 < b.0);
    let falling = back.iter().all(|e| e.0 <= key) && back.is_sorted_by(|a, b| a.0 > b.0);
    if !(rising && falling) {
        return Err(format!("ranges from {key} out of order: {found:?} {back:?}"));
    }
    found.iter().chain(&back).try_for_each(|&(key, value)| belongs(key, value))
}

/// Several writers write values that are all different to the same keys. Each write answers the
/// value that it replaced, so the writes of a key must form one chain (that is what it takes for
/// them to be linearizable), and each writer's own writes must come in its order.
///
/// # Errors
/// A message that says what the index does wrong.
pub fn shared_keys<I: Index + ?Sized>(index: &I, suite: &Suite) -> CheckResult {
    const KEYS: u64 = 8;
    let (trouble, clock) = (Trouble::default(), AtomicU64::new(1));
    // Together: a thread that starts early could make all the writes alone.
    let start = Barrier::new(suite.threads);
    let replaced = Mutex::new(Vec::new());
    let total = (suite.keys * suite.threads) as u64;
    thread::scope(|scope| {
        for writer in 0..suite.threads as u64 {
            let (trouble, clock, replaced) = (&trouble, &clock, &replaced);
            let start = &start;
            scope.spawn(move || {
                start.wait();
                let mut rng = Xoshiro256PlusPlus::seed_from_u64(suite.seed ^ !writer);
                let mut mine = Vec::new();
                while !trouble.is_over() {
                    let stamp = clock.fetch_add(1, Ordering::AcqRel);
                    if stamp >= total {
                        break;
                    }
                    let key = rng.random_range(0..KEYS) * 1000;
                    match index.insert(key, stamp) {
                        Ok(old) => mine.push(Write { key, old, new: stamp, writer }),
                        Err(error) => trouble.note(Err(error.to_string())),
                    }
                    trouble.note(is_there(index, key, stamp));
                }
                replaced.lock().expect("no panic inside").append(&mut mine);
            });
        }
    });
    trouble.verdict()?;
    (0..KEYS).map(|key| key * 1000).try_for_each(|key| {
        let all = replaced.lock().expect("no panic inside");
        one_chain(index, key, all.iter().filter(|write| write.key == key))
    })
}

/// Several writers add the same keys, in the same order. Of each key one writer's add is the first: that one is told of
/// nothing, all others of its value, which stays.
///
/// # Errors
/// A message that says what the index does wrong.
pub fn added_once<I: Index + ?Sized>(index: &I, suite: &Suite) -> CheckResult {
    let start = Barrier::new(suite.threads);
    let told: Vec<Vec<_>> = thread::scope(|scope| {
        let writers: Vec<_> = (0..suite.threads as u64)
            .map(|writer| {
                let start = &start;
                scope.spawn(move || {
                    start.wait();
                    (0..suite.keys as u64).map(|key| index.add(key, writer)).collect()
                })
            })
            .collect();
        writers.into_iter().map(|writer| writer.join().expect("no panic inside")).collect()
    });
    for key in 0..suite.keys {
        let found = index.get(key as u64).map_err(|error| error.to_string())?;
        for (writer, told) in told.iter().enumerate() {
            let there = found.filter(|first| *first != writer as u64);
            super::compare::same(told[key].clone(), there, || {
                format!("key {key} has {found:?}, added by {writer}")
            })?;
        }
    }
    Ok(())
}

/// A key that has been written and is never removed is there.
fn is_there<I: Index + ?Sized>(index: &I, key: u64, stamp: u64) -> CheckResult {
    match index.get(key) {
        Ok(Some(_)) => Ok(()),
        other => Err(format!("key {key} after writing {stamp}: {other:?}")),
    }
}

/// One write as its writer saw it.
struct Write {
    key: u64,
    old: Option<u64>,
    new: u64,
    writer: u64,
}

/// The writes of one key: each value replaced exactly once, each writer's in its order, the last
/// one still there.
fn one_chain<'w, I: Index + ?Sized>(
    index: &I,
    key: u64,
    writes: impl Iterator<Item = &'w Write>,
) -> CheckResult {
    let mut next = HashMap::new();
    for write in writes {
        if let Some(other) = next.insert(write.old, write) {
            let (old, new) = (write.old, write.new);
            return Err(format!("key {key}: {old:?} was replaced by {} and by {new}", other.new));
        }
    }
    let (mut at, mut latest) = (None, HashMap::new());
    while let Some(write) = next.remove(&at) {
        at = Some(write.new);
        let before = latest.insert(write.writer, write.new).unwrap_or(0);
        if before > write.new {
            return Err(format!("key {key}: one writer's {before} came before its {}", write.new));
        }
    }
    if !next.is_empty() {
        return Err(format!("key {key}: {} writes were lost, the last is {at:?}", next.len()));
    }
    super::compare::same(index.get(key), at, || format!("key {key} after all writers"))
}
