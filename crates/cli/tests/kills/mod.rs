//! Code that the tiers of kills share.
#![allow(dead_code, reason = "each test program uses a part")]

pub mod commands;
pub mod loads;
pub mod readers;
pub mod recovery;

use everleaf_testing::seed_or;
use std::collections::BTreeMap;
use std::io::Write;
use std::ops::Range;
use std::process::{Child, ExitStatus};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

pub type Random = Xoshiro256PlusPlus;

/// How many pools a tier works on at once. Most of a short life is spent waiting for the disk.
const LANES: u64 = 3;

/// How many kills each tier makes.
pub fn count() -> u64 {
    everleaf_testing::count(5, 500)
}

/// A share of a tier's runs, with random numbers of its own.
pub struct Lane {
    pub runs: Range<u64>,
    pub random: Random,
}

/// Spreads `runs` over lanes. A failure says its seed and lane, which replay it as far as moments
/// can be replayed.
pub fn in_lanes(runs: u64, work: impl Fn(&mut Lane) + Sync) {
    let seed = seed_or(1);
    std::thread::scope(|scope| {
        for lane in 0..LANES {
            let runs = runs * lane / LANES..runs * (lane + 1) / LANES;
            let random = Random::seed_from_u64(seed ^ lane << 32);
            let work = &work;
            scope.spawn(move || {
                let _context = Context(format!("seed {seed}, lane {lane} of runs {runs:?}"));
                work(&mut Lane { runs, random });
            });
        }
    });
}

/// Is said if the thread panics.
pub struct Context(pub String);

impl Drop for Context {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("failed with {}", self.0);
        }
    }
}

/// Counts the kills of a tier and says the sums at the end, past the capture of the test harness.
pub struct Tally {
    tier: &'static str,
    start: Instant,
    kills: Mutex<BTreeMap<String, u64>>,
}

impl Tally {
    pub fn new(tier: &'static str) -> Self {
        Tally { tier, start: Instant::now(), kills: Mutex::default() }
    }

    pub fn add(&self, what: &str) {
        *self.kills.lock().unwrap().entry(what.into()).or_default() += 1;
    }
}

impl Drop for Tally {
    fn drop(&mut self) {
        let kills = self.kills.lock().unwrap();
        let sum: u64 = kills.values().sum();
        let seconds = self.start.elapsed().as_secs_f64();
        let line = format!("{}: {sum} in {seconds:.1} s, {kills:?}\n", self.tier);
        let _ = std::io::stderr().write_all(line.as_bytes());
    }
}

/// Kills a process after `life`, unless it ends before. Returns how it ended.
pub fn kill_after(child: &mut Child, life: Duration) -> ExitStatus {
    std::thread::sleep(life);
    child.kill().unwrap();
    child.wait().unwrap()
}
