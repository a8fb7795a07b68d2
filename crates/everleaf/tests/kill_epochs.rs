//! A process whose threads write long epochs, which it ends itself, is killed at random moments. The
//! journal holds most of an epoch by then, and all of it must be gone.
//!
//! Each thread has keys of its own, and what it does in a round follows from its number. A round is one
//! epoch. So what a pool holds after a kill must be what some number of whole rounds leaves: those whose end
//! was acknowledged, synced or not, and maybe the one that was just ended. Checkpoints, compactions and backups come in the
//! midst of rounds and end none; the threads of the process write some, too, in every other life.
//!
//! `EVERLEAF_SCALE` sets how often (6), `EVERLEAF_SEED` where the random numbers start.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use everleaf::{Db, Options, Tree};
use everleaf_testing::{count, seed_or};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus as Random;

mod victim;

const VICTIM: &str = "EVERLEAF_KILL_EPOCHS_VICTIM";
const THREADS: u64 = 2;
/// Keys of one thread.
const KEYS: u64 = 2_000;

/// The content of the pool.
type Model = BTreeMap<String, String>;

/// The changes of a thread in a round, one key after the other.
fn round(seed: u64, thread: u64, round: u64) -> impl Iterator<Item = (String, Option<String>)> {
    let mut random = Random::seed_from_u64(seed ^ thread << 56 ^ round << 8);
    let steps = random.random_range(1..if round.is_multiple_of(4) { 8_000 } else { 800 });
    (0..steps).map(move |i| {
        let key = format!("{:05}/{thread}", random.random_range(0..KEYS));
        let length = match random.random_range(0..400) {
            0 => random.random_range(2_000..30_000),
            1..40 => random.random_range(100..1_500),
            _ => random.random_range(0..60),
        };
        let gone = random.random_range(0..4) == 0;
        (key, (!gone).then(|| format!("{round}.{i}.{}", "x".repeat(length))))
    })
}

/// With these an epoch is spilled whenever it has 16 KiB, and the pages of a long one do not fit memory.
fn options() -> Options {
    let options = Options::new().manual_epochs(true).pending_bytes(64 << 10);
    options.page_bytes(4096).memory(2 << 20).journal_bytes(1 << 20)
}

/// May checkpoint, compact or back up beside the threads of a round, in an epoch that it must not end.
fn meddle(db: &Db, path: &str, random: &mut Random, next: u64) {
    let epoch = db.epoch();
    match random.random_range(0..4) {
        0 => db.checkpoint().expect("a checkpoint"),
        1 => drop(db.compact().expect("a compaction")),
        2 => {
            let copy = format!("{path}-copy{next}");
            // A kill may have left one.
            let _ = std::fs::remove_file(&copy);
            assert!(db.backup(&copy).expect("a backup") < epoch);
            std::fs::remove_file(copy).expect("it is there");
        }
        _ => {}
    }
    assert_eq!(db.epoch(), epoch, "its epoch has ended");
}

fn write(tree: &Tree, seed: u64, thread: u64, number: u64) {
    for (key, value) in round(seed, thread, number) {
        match value {
            Some(value) => tree.put(key, value).expect("written"),
            None => tree.delete(key).expect("written"),
        }
    }
}

/// Runs rounds from where `EVERLEAF_KILL_EPOCHS_VICTIM` says until it is killed. Does nothing by itself.
#[test]
#[ignore = "started by long_epochs_survive_kill_9_whole_or_not_at_all"]
fn victim() {
    let Some((numbers, path)) = victim::told(VICTIM) else { return };
    let (seed, mut next) = (numbers[0], numbers[1]);
    let mut random = Random::seed_from_u64(seed ^ next);
    loop {
        let background = random.random_range(0..2) == 0;
        let db = options().background(background).open(&path).expect("a sound pool");
        let tree = db.tree("t").expect("a tree");
        println!("opened");
        for _ in 0..random.random_range(1..8) {
            std::thread::scope(|scope| {
                for thread in 0..THREADS {
                    let tree = &tree;
                    scope.spawn(move || write(tree, seed, thread, next));
                }
                meddle(&db, &path, &mut random, next);
            });
            println!("ending");
            match random.random_range(0..8) {
                0 => db.sync().expect("synced"),
                _ => drop(db.end_epoch().expect("ended")),
            }
            next += 1;
            println!("durable {next}");
        }
        // An abandon leaves these changes in the journal, and the next open writes over them.
        write(&tree, seed, 0, next);
        drop(tree);
        if random.random_range(0..3) > 0 {
            println!("abandoning");
            db.abandon().expect("open");
        } else {
            write(&db.tree("t").expect("a tree"), seed, 1, next);
            println!("closing");
            db.close().expect("closed");
            next += 1;
            println!("durable {next}");
        }
    }
}

/// The progress that a victim had reported when it was killed.
struct Said {
    durable: u64,
    last: &'static str,
}

fn run(place: &Place, life: Duration) -> Said {
    let told = victim::tell(&[place.seed, place.next], &place.path());
    let said = Said { durable: 0, last: "before the open" };
    victim::run_and_kill((VICTIM, told), life, Command::spawn, said, |said, mut words| {
        match words.next() {
            Some("opened") => said.last = "in an epoch",
            Some("ending") => said.last = "at its end",
            Some("abandoning") => said.last = "in an abandon",
            Some("closing") => said.last = "in a close",
            Some("durable") => {
                said.last = "in an epoch";
                // The last line may be cut.
                let number = words.next().and_then(|n| n.parse().ok());
                said.durable = number.unwrap_or(0).max(said.durable);
            }
            _ => {} // the test harness
        }
    })
}

/// One pool: how many rounds it holds, and what they have left.
struct Place {
    dir: tempfile::TempDir,
    seed: u64,
    next: u64,
    model: Model,
}

impl Place {
    fn new(seed: u64) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        Place { dir, seed, next: 0, model: Model::new() }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("p")
    }

    fn advance(&mut self) {
        for thread in 0..THREADS {
            for (key, value) in round(self.seed, thread, self.next) {
                match value {
                    Some(value) => drop(self.model.insert(key, value)),
                    None => drop(self.model.remove(&key)),
                }
            }
        }
        self.next += 1;
    }

    /// The pool after a kill.
    fn verify(&mut self, said: &Said, read_only: bool) {
        if !self.path().exists() {
            assert_eq!(said.durable, 0);
            return;
        }
        let db = options().read_only(read_only).open(self.path()).expect("a sound pool");
        let found = contents(&db);
        assert_eq!(db.check().expect("readable"), []);
        while self.next < said.durable {
            self.advance();
        }
        if self.model != found {
            self.advance();
        }
        let (seed, next, durable) = (self.seed, self.next, said.durable);
        assert!(self.model == found, "seed {seed}: not {next} rounds, {durable} durable");
        if !read_only {
            db.close().expect("closed");
        }
    }
}

fn contents(db: &Db) -> Model {
    let Some(tree) = db.open_tree("t").expect("a catalog") else { return Model::new() };
    let text = |bytes: everleaf::Bytes| String::from_utf8(bytes.into()).expect("a script's");
    let pairs = tree.iter().map(|pair| pair.expect("readable"));
    pairs.map(|(key, value)| (text(key), text(value))).collect()
}

#[test]
fn long_epochs_survive_kill_9_whole_or_not_at_all() {
    let (kills, seed) = (count(6, 500), seed_or(1));
    let start = Instant::now();
    let mut random = Random::seed_from_u64(seed);
    let mut place = Place::new(random.random());
    let mut tally = BTreeMap::<&str, u64>::new();
    for round in 0..kills {
        if round % 8 == 0 {
            place = Place::new(random.random());
        }
        let part: f64 = random.random_range(0.0..1.0);
        let life = Duration::from_micros(20_000 + (part * part * 400_000.0) as u64);
        let said = run(&place, life);
        place.verify(&said, random.random());
        *tally.entry(said.last).or_default() += 1;
    }
    let seconds = start.elapsed().as_secs_f64();
    let line = format!("kill -9, long epochs: {kills} in {seconds:.1} s, {tally:?}\n");
    let _ = std::io::stderr().write_all(line.as_bytes()); // past the harness's capture
}
