//! `put` and `del`, one process each: the exit code is the acknowledgement.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rand::RngExt;

use super::{Random, kill_after};
use crate::common::{Place, everleaf};

type Pairs = BTreeMap<String, String>;

/// A pool, and what is in it.
pub struct Commands {
    place: Place,
    pairs: Pairs,
    number: u64,
    /// About how long a command takes that nobody kills.
    whole: Duration,
}

/// The change that a command makes to the pairs.
enum Change {
    Put(String, String),
    Del(String),
}

impl Change {
    fn random(random: &mut Random, number: u64) -> Change {
        let key = format!("k{:02}", random.random_range(0..40));
        if random.random_range(0..3) == 0 {
            return Change::Del(key);
        }
        // In a node's record, in a record of its own, in extents.
        let length = [random.random_range(0..60), random.random_range(60..1000), 60_000];
        let length = length[[0, 0, 1, 1, 1, 2][random.random_range(0..6)]];
        Change::Put(key, format!("{number}.{}", "v".repeat(length)))
    }

    fn command(&self, place: &Place) -> Command {
        let mut command = everleaf();
        match self {
            Change::Put(key, value) => command.arg("put").arg(&place.pool).args(["t", key, value]),
            Change::Del(key) => command.arg("del").arg(&place.pool).args(["t", key]),
        };
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    /// The exit code that acknowledges it.
    fn expected_code(&self, pairs: &Pairs) -> i32 {
        match self {
            Change::Del(key) if !pairs.contains_key(key) => 1,
            _ => 0,
        }
    }

    fn apply(self, pairs: &mut Pairs) {
        match self {
            Change::Put(key, value) => drop(pairs.insert(key, value)),
            Change::Del(key) => drop(pairs.remove(&key)),
        }
    }
}

impl Commands {
    pub fn new() -> Self {
        let place = Place::new();
        place.run("put", ["t", "first", "0"]).ended(0);
        let start = Instant::now();
        place.run("put", ["t", "first", "1"]).ended(0);
        let pairs = Pairs::from([("first".into(), "1".into())]);
        Commands { place, pairs, number: 1, whole: start.elapsed() }
    }

    /// Lets some commands come through and kills one. Says whether the kill met it alive.
    pub fn run_and_kill(&mut self, random: &mut Random) -> &'static str {
        for _ in 0..random.random_range(0..3) {
            let change = self.next(random);
            let status = change.command(&self.place).status().unwrap();
            assert_eq!(status.code(), Some(change.expected_code(&self.pairs)));
            change.apply(&mut self.pairs);
        }
        let change = self.next(random);
        let life = self.whole.mul_f64(random.random_range(0.0..1.3));
        let status = kill_after(&mut change.command(&self.place).spawn().unwrap(), life);
        let found = self.found();
        if let Some(code) = status.code() {
            assert_eq!(code, change.expected_code(&self.pairs));
            change.apply(&mut self.pairs);
            assert!(found == self.pairs, "an acknowledged change is missing");
        } else if found != self.pairs {
            change.apply(&mut self.pairs);
            assert!(found == self.pairs, "neither before nor after the change that was killed");
        }
        self.place.run("check", [""; 0]).ended(0);
        if status.code().is_none() { "alive" } else { "after its end" }
    }

    fn next(&mut self, random: &mut Random) -> Change {
        self.number += 1;
        Change::random(random, self.number)
    }

    fn found(&self) -> Pairs {
        let scanned = self.place.run("scan", ["t"]).ended(0);
        let pair = |line: &str| {
            let (key, value) = line.split_once('\t').unwrap();
            (key.to_owned(), value.to_owned())
        };
        scanned.text().lines().map(pair).collect()
    }
}
