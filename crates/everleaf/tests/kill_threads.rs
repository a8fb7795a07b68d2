//! A process whose threads write, in batches and alone, durably and not, while checkpoints run and
//! the pool is closed and opened again, is killed at random moments.
//!
//! Each thread has keys of its own, in the same leaves as the others', and an endless script that
//! follows from its number. So what a pool holds after a kill must be, for each thread, what some
//! first part of its script leaves, with all that was acknowledged: no operation without those
//! before it, no part of a batch, nothing else.
//!
//! `EVERLEAF_SCALE` sets how often (5), `EVERLEAF_SEED` where the random numbers start.

use everleaf_testing::{count, seed_or};
use std::collections::BTreeMap;
use std::io::Write;
use std::process::Command;
use std::sync::RwLock;
use std::time::{Duration, Instant};

use everleaf::{Db, Durability, Options, Tree};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus as Random;

mod victim;

const VICTIM: &str = "EVERLEAF_KILL_VICTIM";
const THREADS: usize = 4;
const TREES: [&str; 3] = ["a", "b", "c"];
/// Keys of one thread in each tree.
const KEYS: u64 = 150;
/// Pools at once.
const LANES: u64 = 3;

/// A change: which tree, which key, and the new value or none.
type Change = (usize, String, Option<String>);
/// The content of one thread's part of the pool.
type Model = BTreeMap<(usize, String), String>;

/// One operation of a script.
struct Op {
    changes: Vec<Change>,
    is_batch: bool,
    is_sync: bool,
    /// Everything so far is made durable and acknowledged after it.
    then_sync: bool,
    then_checkpoint: bool,
}

/// Operation `i` of a thread's script.
fn op(seed: u64, thread: usize, i: u64) -> Op {
    let mut random = Random::seed_from_u64(seed ^ (thread as u64) << 56 ^ i << 8);
    let is_batch = random.random_range(0..4) == 0;
    let count = if is_batch { random.random_range(2..7) } else { 1 };
    let change = |random: &mut Random, n: usize| {
        let key = format!("{:04}/{thread}", random.random_range(0..KEYS));
        let length = match random.random_range(0..50) {
            0 => random.random_range(2_000..30_000),
            1..5 => random.random_range(100..1_500),
            _ => random.random_range(0..60),
        };
        let gone = random.random_range(0..4) == 0;
        let value = (!gone).then(|| format!("{i}.{n}.{}", "x".repeat(length)));
        (random.random_range(0..TREES.len()), key, value)
    };
    let changes = (0..count).map(|n| change(&mut random, n)).collect();
    Op {
        changes,
        is_batch,
        is_sync: random.random_range(0..5) == 0,
        then_sync: random.random_range(0..20) == 0,
        then_checkpoint: random.random_range(0..150) == 0,
    }
}

fn apply(model: &mut Model, op: Op) {
    for (tree, key, value) in op.changes {
        match value {
            Some(value) => drop(model.insert((tree, key), value)),
            None => drop(model.remove(&(tree, key))),
        }
    }
}

fn options(seed: u64) -> Options {
    let interval = Duration::from_millis([1, 2, 10][(seed % 3) as usize]);
    // So short a journal that checkpoints come many times a second.
    let options = Options::new().journal_bytes(256 << 10).page_bytes(512).interval(interval);
    // Every other time pages leave memory all the time.
    if seed.is_multiple_of(2) { options } else { options.memory(1).evict_small_pages() }
}

fn write(db: &Db, trees: &[Tree], op: &Op) -> everleaf::Result<()> {
    let durability = if op.is_sync { Durability::Sync } else { Durability::Buffered };
    if op.is_batch {
        let mut batch = db.with(durability).batch();
        for (tree, key, value) in &op.changes {
            match value {
                Some(value) => batch.put(&trees[*tree], key, value)?,
                None => batch.delete(&trees[*tree], key)?,
            }
        }
        return batch.commit();
    }
    for (tree, key, value) in &op.changes {
        let tree = trees[*tree].with(durability);
        match value {
            Some(value) => drop(tree.insert(key, value)?),
            None => drop(tree.remove(key)?),
        }
    }
    Ok(())
}

/// Runs the scripts from where `EVERLEAF_KILL_VICTIM` says until it is killed. Does nothing by
/// itself.
#[test]
#[ignore = "started by what_threads_acknowledged_survives_kill_9"]
fn victim() {
    let Some((numbers, path)) = victim::told(VICTIM) else { return };
    let (seed, mut next) = (numbers[0], numbers[1..].to_vec());
    let mut random = Random::seed_from_u64(seed ^ next.iter().sum::<u64>());
    loop {
        let db = options(seed).open(&path).expect("a sound pool");
        let trees = TREES.map(|name| db.tree(name).expect("a tree"));
        println!("opened");
        let session = random.random_range(10..400);
        std::thread::scope(|scope| {
            for (thread, next) in next.iter_mut().enumerate() {
                let (db, trees) = (&db, &trees);
                scope.spawn(move || {
                    for i in *next..*next + session {
                        let op = op(seed, thread, i);
                        write(db, trees, &op).expect("written");
                        if op.then_sync {
                            db.sync().expect("synced");
                        }
                        if op.is_sync || op.then_sync {
                            println!("durable {thread} {}", i + 1);
                        }
                        if op.then_checkpoint {
                            db.checkpoint().expect("a checkpoint");
                        }
                    }
                    *next += session;
                });
            }
        });
        drop(trees);
        println!("closing");
        db.close().expect("closed");
        for (thread, next) in next.iter().enumerate() {
            println!("durable {thread} {next}");
        }
    }
}

/// A child that is being started holds the locks of the pools that are open beside it.
static SPAWN: RwLock<()> = RwLock::new(());

/// The progress that a victim had reported when it was killed.
#[derive(Default)]
struct Said {
    durable: [u64; THREADS],
    last: &'static str,
}

fn run(place: &Place, life: Duration) -> Said {
    let told = victim::tell(&[&[place.seed], &place.next[..]].concat(), &place.path());
    let spawn = |command: &mut Command| {
        let _alone = SPAWN.write().expect("no panic");
        command.spawn()
    };
    let said = Said { last: "before the open", ..Said::default() };
    victim::run_and_kill((VICTIM, told), life, spawn, said, |said, mut words| {
        match words.next() {
            Some("opened") => said.last = "among writes",
            Some("closing") => said.last = "in the close",
            Some("durable") => {
                if said.last == "in the close" {
                    said.last = "in the next open";
                }
                // The last line may be cut.
                let mut number = || words.next()?.parse::<u64>().ok();
                if let (Some(thread), Some(n)) = (number(), number()) {
                    let durable = &mut said.durable[thread as usize];
                    *durable = n.max(*durable);
                }
            }
            _ => {} // the test harness
        }
    })
}

/// The content of the pool, by thread.
fn contents(db: &Db) -> [Model; THREADS] {
    let mut found: [Model; THREADS] = Default::default();
    for (number, name) in TREES.iter().enumerate() {
        let Some(tree) = db.open_tree(name).expect("a catalog") else { continue };
        for pair in tree.iter() {
            let (key, value) = pair.expect("readable");
            let (key, value) = (String::from_utf8(key.into()), String::from_utf8(value.into()));
            let (key, value) = (key.expect("a script's"), value.expect("a script's"));
            let thread: usize = key.split_once('/').expect("a script's").1.parse().expect("same");
            found[thread].insert((number, key), value);
        }
    }
    found
}

/// One pool: how far each script has come, and what it has left.
struct Place {
    dir: tempfile::TempDir,
    seed: u64,
    next: [u64; THREADS],
    models: [Model; THREADS],
}

impl Place {
    fn new(seed: u64) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        Place { dir, seed, next: [0; THREADS], models: Default::default() }
    }

    fn path(&self) -> std::path::PathBuf {
        self.dir.path().join("p")
    }

    /// The pool after a kill, opened by a reader or by a writer.
    fn verify(&mut self, said: &Said, read_only: bool) {
        let _no_child = SPAWN.read().expect("no panic");
        if !self.path().exists() {
            assert_eq!(said.durable, [0; THREADS]);
            return;
        }
        let db = options(self.seed).read_only(read_only).open(self.path()).expect("a sound pool");
        let found = contents(&db);
        assert_eq!(db.check().expect("readable"), []);
        for (thread, found) in found.iter().enumerate() {
            self.advance(thread, said.durable[thread], found);
        }
        if !read_only {
            db.close().expect("closed");
        }
    }

    /// Finds the part of a thread's script that leaves what was found.
    fn advance(&mut self, thread: usize, durable: u64, found: &Model) {
        let (seed, model) = (self.seed, &mut self.models[thread]);
        let number = |value: &String| value.split('.').next().and_then(|n| n.parse::<u64>().ok());
        let newest = found.values().map(|value| number(value).expect("a script's") + 1).max();
        let least = self.next[thread].max(durable).max(newest.unwrap_or(0));
        let next = &mut self.next[thread];
        while *next < least {
            apply(model, op(seed, thread, *next));
            *next += 1;
        }
        // The next operations may have left no trace: removals, and what they removed.
        const TRACELESS: u64 = 200;
        let mut ahead = model.clone();
        while ahead != *found {
            let missing: Vec<_> = model.keys().filter(|key| !found.contains_key(*key)).collect();
            assert!(
                *next < least + TRACELESS,
                "seed {seed}, thread {thread}: no end from {least} on leaves this; {durable} \
                 durable, missing: {missing:?}"
            );
            apply(&mut ahead, op(seed, thread, *next));
            *next += 1;
        }
        *model = ahead;
    }
}

#[test]
fn what_threads_acknowledged_survives_kill_9() {
    let (kills, seed) = (count(5, 500), seed_or(1));
    let start = Instant::now();
    let lane = |lane: u64| {
        let mut random = Random::seed_from_u64(seed ^ lane << 32);
        let mut place = Place::new(random.random());
        let mut tally = BTreeMap::<&str, u64>::new();
        for round in 0..kills * (lane + 1) / LANES - kills * lane / LANES {
            if round % 8 == 0 {
                place = Place::new(random.random());
            }
            let part: f64 = random.random_range(0.0..1.0);
            let life = Duration::from_micros((part * part * 400_000.0) as u64);
            let said = run(&place, life);
            place.verify(&said, random.random());
            *tally.entry(said.last).or_default() += 1;
        }
        tally
    };
    let lane = &lane;
    let tallies: Vec<_> = std::thread::scope(|scope| {
        let lanes: Vec<_> = (0..LANES).map(|n| scope.spawn(move || lane(n))).collect();
        lanes.into_iter().map(|lane| lane.join().expect("as above")).collect()
    });
    let mut sums = BTreeMap::<&str, u64>::new();
    tallies.iter().flatten().for_each(|(what, kills)| *sums.entry(what).or_default() += kills);
    let seconds = start.elapsed().as_secs_f64();
    let line = format!("kill -9, threads: {kills} in {seconds:.1} s, {sums:?}\n");
    let _ = std::io::stderr().write_all(line.as_bytes()); // past the harness's capture
}
