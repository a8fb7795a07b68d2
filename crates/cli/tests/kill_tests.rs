//! `load --ack` is killed at random moments; whatever it had acknowledged is there afterwards.
//!
//! `EVERLEAF_KILLS` sets how often (5), `EVERLEAF_SEED` where the random numbers start.

mod common;

use std::collections::HashMap;
use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::process::{ChildStdin, Stdio};
use std::time::Duration;

use common::{Place, everleaf};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// More lines than a load has time for.
const LINES: u64 = 2_000_000;

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

/// A multiplication by an odd number is a permutation: the keys are distinct and in no order.
fn key(run: u64, line: u64) -> String {
    format!("{:016x}", (run << 32 | line).wrapping_mul(0x9E37_79B9_7F4A_7C15))
}

fn value(run: u64, line: u64) -> String {
    let length = (line.wrapping_mul(2_654_435_761) >> 7) % 120;
    format!("{run}.{line}.{}", "x".repeat(length as usize))
}

/// Feeds lines until the reader is gone; with pauses, so that kills also meet an idle load.
fn feed(stdin: ChildStdin, run: u64, lines_per_pause: u64) {
    let mut out = BufWriter::new(stdin);
    for line in 0..LINES {
        if writeln!(out, "{}\t{}", key(run, line), value(run, line)).is_err() {
            return;
        }
        if line % lines_per_pause == 0 {
            if out.flush().is_err() {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Runs a load and kills it. Returns how many lines it had acknowledged.
fn load_and_kill(place: &Place, run: u64, random: &mut Xoshiro256PlusPlus) -> u64 {
    let mut load = everleaf();
    load.arg("load").arg(&place.pool).args(["t", "-", "--ack"]);
    load.args(["--interval", ["1", "5", "10", "30"][random.random_range(0..4)]]);
    let mut child =
        load.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let lines_per_pause = [20, 500, 5_000, LINES][random.random_range(0..4)];
    let life = Duration::from_micros(random.random_range(0..400_000));
    let acked = std::thread::scope(|scope| {
        scope.spawn(move || feed(stdin, run, lines_per_pause));
        let reader = scope.spawn(move || {
            let lines = BufReader::new(stdout).lines().map_while(Result::ok);
            let numbers = lines.filter_map(|line| line.strip_prefix("durable ")?.parse().ok());
            numbers.last().unwrap_or(0)
        });
        std::thread::sleep(life);
        child.kill().unwrap();
        reader.join().unwrap()
    });
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    let status = child.wait().unwrap();
    assert!(!status.success() && status.code().is_none(), "run {run}: {status}: {said}");
    acked
}

#[test]
fn what_was_acknowledged_survives_kill_9() {
    let (kills, seed) = (setting("EVERLEAF_KILLS", 5), setting("EVERLEAF_SEED", 1));
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut place = Place::new();
    // What each run left in the pool: its number and how many of its lines.
    let mut left: HashMap<u64, u64> = HashMap::new();
    for run in 0..kills {
        if run % 4 == 0 {
            (place, left) = (Place::new(), HashMap::new());
        }
        let acked = load_and_kill(&place, run, &mut random);
        let known: u64 = left.values().sum();
        if !place.pool.exists() || everleaf_made_no_pool(&place) {
            assert_eq!((acked, known), (0, 0), "seed {seed}, run {run}");
            continue;
        }
        let found = compare(&place, run, &left);
        assert!(found >= acked, "seed {seed}, run {run}: {acked} acknowledged, {found} found");
        left.insert(run, found);
        place.run("check", [""; 0]).ended(0);
    }
}

/// Whether the kill came so early that there is no pool yet or no tree in it.
fn everleaf_made_no_pool(place: &Place) -> bool {
    let ran = place.run("scan", ["t", "--limit", "1"]);
    assert!(matches!(ran.code, Some(0 | 1)), "{ran}");
    ran.code == Some(1)
}

/// The pool holds what earlier runs left, and the first lines of this one. Returns how many.
fn compare(place: &Place, run: u64, left: &HashMap<u64, u64>) -> u64 {
    let scanned = place.run("scan", ["t"]).ended(0);
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
    let found = counts.remove(&run).unwrap_or(0);
    let expected: HashMap<_, _> =
        left.iter().filter(|(_, lines)| **lines > 0).map(|(run, lines)| (*run, *lines)).collect();
    assert_eq!(counts, expected, "run {run}: what earlier runs left has changed");
    found
}
