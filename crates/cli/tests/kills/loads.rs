//! Loads that are killed, and what a pool must hold after them.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::process::{Child, ChildStdin, ExitStatus};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use crate::common::{Place, everleaf_under, spawn};

/// More lines than a load has time for.
pub const LINES: u64 = 2_000_000;

/// One load.
pub struct Load {
    /// Its number: its keys and values tell it.
    pub run: u64,
    /// After so many lines the input ends.
    pub lines: u64,
    /// The input pauses after so many lines, so that kills also meet an idle load.
    pub pause_every: u64,
    /// The milliseconds of an epoch.
    pub interval: &'static str,
    /// Each line is on disk before the next.
    pub sync: bool,
    /// Shell commands that set limits before it; maybe none.
    pub limits: String,
}

impl Default for Load {
    fn default() -> Self {
        let limits = String::new();
        Load { run: 0, lines: LINES, pause_every: LINES, interval: "10", sync: false, limits }
    }
}

/// When a load is killed.
#[derive(Clone, Copy)]
pub enum Life {
    Micros(u64),
    /// So long after so many lines were acknowledged.
    Acked(u64, Duration),
}

/// How a load ended.
pub struct End {
    /// Lines that were acknowledged.
    pub acked: u64,
    /// Whether the kill met it alive.
    pub killed: bool,
}

/// A multiplication by an odd number is a permutation: the keys are distinct and in no order.
fn key(run: u64, line: u64) -> String {
    format!("{:016x}", (run << 32 | line).wrapping_mul(0x9E37_79B9_7F4A_7C15))
}

/// Some are so long that they lie in extents.
fn value(run: u64, line: u64) -> String {
    let hash = line.wrapping_mul(2_654_435_761) >> 7;
    let length = if hash.is_multiple_of(1000) { 2000 + hash % 30_000 } else { hash % 120 };
    format!("{run}.{line}.{}", "x".repeat(length as usize))
}

fn feed(stdin: ChildStdin, load: &Load) {
    let mut out = BufWriter::new(stdin);
    for line in 0..load.lines {
        if writeln!(out, "{}\t{}", key(load.run, line), value(load.run, line)).is_err() {
            return;
        }
        if line % load.pause_every == 0 {
            if out.flush().is_err() {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// How a load ended, and what it said until then.
pub struct Ended {
    pub status: ExitStatus,
    pub acked: u64,
    /// Stderr.
    pub said: String,
}

/// Runs a load; `meanwhile` hears its acknowledgements, until there are no more.
fn run(place: &Place, load: &Load, meanwhile: impl FnOnce(&mut Child, Receiver<u64>)) -> Ended {
    let mut command = everleaf_under(&load.limits);
    command.arg("load").arg(&place.pool).args(["t", "-", "--ack", "--interval", load.interval]);
    if load.sync {
        command.arg("--sync");
    }
    let mut child = spawn(&mut command);
    let (stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let mut stderr = child.stderr.take().unwrap();
    let (tell, hear) = mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(move || feed(stdin, load));
        let reader = scope.spawn(move || {
            let lines = BufReader::new(stdout).lines().map_while(Result::ok);
            let numbers = lines.filter_map(|line| line.strip_prefix("durable ")?.parse().ok());
            numbers.inspect(|&acked| tell.send(acked).unwrap_or(())).last().unwrap_or(0)
        });
        let errors = scope.spawn(move || {
            let mut said = String::new();
            stderr.read_to_string(&mut said).unwrap();
            said
        });
        meanwhile(&mut child, hear);
        let (acked, said) = (reader.join().unwrap(), errors.join().unwrap());
        Ended { status: child.wait().unwrap(), acked, said }
    })
}

/// Runs a load that ends by itself.
pub fn load_to_end(place: &Place, load: &Load) -> Ended {
    run(place, load, |_, _| {})
}

/// Runs a load and kills it.
pub fn load_and_kill(place: &Place, load: &Load, life: Life) -> End {
    let Ended { status, acked, said } = run(place, load, |child, hear| {
        let life = match life {
            Life::Micros(micros) => Duration::from_micros(micros),
            Life::Acked(lines, then) => {
                // Ends without it, too, if the load does.
                hear.iter().find(|&acked| acked >= lines);
                then
            }
        };
        std::thread::sleep(life);
        child.kill().unwrap();
    });
    let killed = status.code().is_none();
    let came_through = status.success() && acked == load.lines;
    assert!(killed || came_through, "run {}: {status}, {acked} acknowledged: {said}", load.run);
    End { acked, killed }
}

/// The lines that killed loads left in one pool: the loads' numbers, and how many lines of each.
#[derive(Default)]
pub struct Loads {
    left: HashMap<u64, u64>,
}

impl Loads {
    /// Compares the pool with all that was ever acknowledged, and checks it.
    pub fn verify(&mut self, place: &Place, load: &Load, end: &End) {
        let found = self.compare(place, load.run);
        let (run, acked) = (load.run, end.acked);
        assert!(found >= acked, "run {run}: {acked} acknowledged, {found} found");
        assert!(end.killed || found == load.lines, "run {run}: {found} found");
        if place.pool.exists() {
            place.run("check", [""; 0]).ended(0);
        }
    }

    /// The pool holds what earlier runs left, and the first lines of this one. Returns how many.
    pub fn compare(&mut self, place: &Place, run: u64) -> u64 {
        let known: u64 = self.left.values().sum();
        let scanned = place.run("scan", ["t"]);
        // The kill may come so early that there is no pool yet, or no tree in it.
        if !place.pool.exists() || scanned.code == Some(1) {
            assert_eq!(known, 0, "{scanned}");
            return 0;
        }
        let scanned = scanned.ended(0);
        let (mut counts, mut ends) = (HashMap::new(), HashMap::new());
        let mut last = "";
        for pair in scanned.text().lines() {
            let (found_key, found_value) = pair.split_once('\t').unwrap();
            assert!(last < found_key, "out of order: {last} before {found_key}");
            last = found_key;
            let mut parts = found_value.split('.').map(|part| part.parse::<u64>().unwrap_or(0));
            let (of_run, line) = (parts.next().unwrap(), parts.next().unwrap());
            assert_eq!(found_key, key(of_run, line));
            assert_eq!(found_value, value(of_run, line));
            *counts.entry(of_run).or_insert(0) += 1;
            let end: &mut u64 = ends.entry(of_run).or_default();
            *end = (*end).max(line + 1);
        }
        assert_eq!(counts, ends, "run {run}: a line is missing before one that is there");
        let found = counts.get(&run).copied().unwrap_or(0);
        let mut expected = self.left.clone();
        expected.insert(run, found);
        expected.retain(|_, lines| *lines > 0);
        assert_eq!(counts, expected, "run {run}: what earlier runs left has changed");
        self.left.insert(run, found);
        found
    }
}
