//! Runs of the real binary under limits of the system: of memory, of the length of files, of open
//! files. Each ends with a message and exit code 4, or by the allocator or the system, and what it
//! had acknowledged is there when the limit is gone.
//!
//! `EVERLEAF_SCALE` sets how many limits of each kind are tried (8).

mod common;
mod kills;

use std::os::unix::process::ExitStatusExt;

use common::Place;
use kills::Context;
use kills::loads::{self, End, Ended, Load, Loads};

const SIGABRT: i32 = 6;
const SIGSEGV: i32 = 11;
const SIGXFSZ: i32 = 25;

/// Numbers from `low` to `high`, evenly spread over magnitudes.
fn spread(low: u64, high: u64) -> impl Iterator<Item = u64> {
    let count = everleaf_testing::times(8);
    let step = (high as f64 / low as f64).ln() / (count.max(2) - 1) as f64;
    (0..count).map(move |i| (low as f64 * (step * i as f64).exp()) as u64)
}

/// Loads a new pool, and then more into it, under limits that the shell sets; `judge` says whether
/// it may end so. How many loads came through and how many did not.
fn load_under(limits: &str, sync: bool, judge: impl Fn(&Ended) -> bool) -> [u64; 2] {
    let (place, mut loads, mut ends) = (Place::new(), Loads::default(), [0, 0]);
    for run in 0..2 {
        let _context = Context(format!("{limits}, run {run}"));
        let lines = if sync { 300 } else { 12_000 };
        let load = Load { run, lines, limits: limits.into(), sync, ..Load::default() };
        let ended = loads::load_to_end(&place, &load);
        let came_through = ended.status.success();
        assert!(came_through || judge(&ended), "{}: {}", ended.status, ended.said);
        // A thread whose signal stack cannot be mapped is given up by std, with a panic.
        let by_std = ended.said.contains("/stack_overflow.rs:");
        assert!(by_std || !ended.said.contains("panicked"), "{}", ended.said);
        ends[usize::from(!came_through)] += 1;
        loads.verify(&place, &load, &End { acked: ended.acked, killed: !came_through });
        place.run("put", ["other", "k", "v"]).ended(0);
    }
    ends
}

/// Exit code 4 and one of those causes.
fn says(ended: &Ended, causes: &[&str]) -> bool {
    let said = |cause: &&str| ended.said.contains(*cause);
    let is_typed = ended.status.code() == Some(4) && said(&"everleaf:");
    is_typed && causes.iter().any(said)
}

#[test]
fn too_little_memory() {
    let judge = |ended: &Ended| {
        // The allocator ends the process, or the loader does, or the stack could not grow.
        let aborted = ended.status.signal() == Some(SIGABRT);
        says(ended, &["no memory for", "os error 12", "os error 11", "the pool is full"])
            || (aborted && ended.said.contains("memory allocation of"))
            || ended.status.signal() == Some(SIGSEGV)
            || (ended.status.code() == Some(127) && ended.acked == 0)
    };
    let mut ends = [0, 0];
    for kib in spread(10_000, 400_000) {
        let [whole, cut] = load_under(&format!("ulimit -c 0; ulimit -v {kib}"), false, judge);
        ends = [ends[0] + whole, ends[1] + cut];
    }
    assert!(ends.iter().all(|&n| n > 0), "both ends are met: {ends:?}");
}

#[test]
fn files_that_may_not_grow() {
    let mut ends = [0, 0];
    for (i, blocks) in (0..).zip(spread(8, 40_000)) {
        // With the signal ignored the write fails; else it ends the process.
        for (shell, ignored) in [("trap '' XFSZ;", true), ("", false)] {
            let judge = |ended: &Ended| match ignored {
                true => says(ended, &["File too large"]),
                false => ended.status.signal() == Some(SIGXFSZ),
            };
            let limits = format!("{shell} ulimit -c 0; ulimit -f {blocks}");
            let [whole, cut] = load_under(&limits, i % 3 == 0, judge);
            ends = [ends[0] + whole, ends[1] + cut];
        }
    }
    assert!(ends.iter().all(|&n| n > 0), "both ends are met: {ends:?}");
}

#[test]
fn few_open_files() {
    let mut ends = [0, 0];
    for files in 3..12 {
        let judge = |ended: &Ended| {
            says(ended, &["Too many open files"]) || ended.status.code() == Some(127)
        };
        let [whole, cut] = load_under(&format!("ulimit -n {files}"), false, judge);
        ends = [ends[0] + whole, ends[1] + cut];
    }
    assert!(ends.iter().all(|&n| n > 0), "both ends are met: {ends:?}");
}
