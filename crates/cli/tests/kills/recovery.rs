//! Kills of processes that recover from a kill.

use std::process::Stdio;
use std::time::{Duration, Instant};

use rand::RngExt;

use super::loads::{LINES, Life, Load, Loads, load_and_kill};
use super::{Context, Random, kill_after};
use crate::common::{Place, everleaf};

/// The most openers that are killed in a row.
const DEPTH: u64 = 6;

/// A pool that gets a load for each round, and about how long an open takes that nobody kills.
pub struct Recovery {
    place: Place,
    loads: Loads,
    whole: Duration,
}

impl Recovery {
    pub fn new() -> Self {
        let whole = Duration::from_millis(40);
        Recovery { place: Place::new(), loads: Loads::default(), whole }
    }

    /// Returns what was killed.
    pub fn round(&mut self, run: u64, random: &mut Random) -> Vec<&'static str> {
        if run.is_multiple_of(4) {
            (self.place, self.loads) = (Place::new(), Loads::default());
        }
        let interval = ["1", "5", "10"][random.random_range(0..3)];
        let load = Load { run, lines: LINES, pause_every: 2_000, interval, ..Load::default() };
        let life = Life::Micros(random.random_range(15_000..150_000));
        let end = load_and_kill(&self.place, &load, life);
        let mut kills = vec!["the load"];
        if end.acked > 0 {
            for _ in 0..DEPTH {
                let life = self.whole.mul_f64(random.random_range(0.0..1.1));
                if self.open_and_kill(life) {
                    kills.push("the recovery");
                } else {
                    break;
                }
            }
        }
        let _context = Context(format!("run {run}, {} acknowledged, killed: {kills:?}", end.acked));
        self.loads.verify(&self.place, &load, &end);
        if end.acked > 0 {
            self.recover();
        }
        kills
    }

    /// An open for writing that changes nothing. Whether it was killed before its end.
    fn open_and_kill(&self, life: Duration) -> bool {
        let mut command = everleaf();
        command.arg("del").arg(&self.place.pool).args(["t", "no such key"]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let status = kill_after(&mut command.spawn().unwrap(), life);
        assert!(matches!(status.code(), None | Some(1)), "{status}");
        status.code().is_none()
    }

    /// An open that comes through tells how long the next ones may take.
    fn recover(&mut self) {
        let start = Instant::now();
        self.place.run("del", ["t", "no such key"]).ended(1);
        self.whole = (self.whole + start.elapsed()) / 2;
    }
}
