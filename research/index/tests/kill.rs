//! A program in C is killed at random moments: what it has said to be durable is there, and of what came after, the changes
//! up to one of them, in their order. All trees on emulated persistent memory, and those that can be on a file there.
//!
//! `EVERLEAF_SCALE` sets how often (2 for each tree and medium), `EVERLEAF_SEED` where the random numbers start.

#[path = "../../../crates/capi/tests/tools/mod.rs"]
mod tools;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use everleaf_rivals::named;
use everleaf_testing::{Rng, count, seed_or};
use tools::{Changes, Library, folder, is_there, run, source};

type Pairs = BTreeMap<u64, u64>;

/// The media, as the header numbers them.
const EMULATED_DAX: &str = "4";
const FILE: &str = "16";

/// The most changes that are on their way at once: those of a group that is not synced, and those of the one before, of
/// which the program could not say so any more.
const GROUP_MAX: u64 = 32;

/// Makes one change, as `kill.c` does.
fn apply(number: u64, pairs: &mut Pairs) {
    let key = number * 7919 % 500;
    if number % 11 == 3 {
        pairs.remove(&key);
    } else {
        pairs.insert(key, number);
    }
}

/// Runs the program from a change on, kills it, and returns the last change that it has said to be durable.
fn kill(program: &Path, args: [&str; 3], first: u64, rng: &mut Rng) -> Option<u64> {
    let mut command = Library::built().command(program);
    command.args(args).arg(first.to_string()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("a child");
    let most = rng.pick(&[8_000, 20_000, 60_000]);
    std::thread::sleep(Duration::from_micros(rng.below(most)));
    child.kill().expect("it runs until then");
    let output = child.wait_with_output().expect("its end");
    assert!(output.status.code().is_none(), "{}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8(output.stdout).expect("numbers");
    // A line without an end was being printed.
    let (lines, _) = said.rsplit_once('\n')?;
    lines.lines().last().map(|line| line.parse().expect("a number"))
}

/// The pairs that the tree holds.
fn pairs(program: &Path, args: [&str; 3]) -> Pairs {
    let said = run(Library::built().command(program).args(args).arg("read"));
    let pair = |line: &str| {
        let (key, value) = line.split_once(' ').expect("two numbers");
        (key.parse().expect("a key"), value.parse().expect("a value"))
    };
    said.lines().map(pair).collect()
}

#[test]
fn what_a_program_in_c_said_to_be_durable_survives_kill_9() {
    if !is_there("cc") {
        eprintln!("skipped: there is no C compiler called cc");
        return;
    }
    let program = Library::built().folder().join("kill");
    let mut compiler = Command::new("cc");
    compiler.args(["-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "-O1", "-o"]);
    compiler.arg(&program).arg("-I").arg(source("include")).arg(source("tests/kill.c"));
    run(compiler.arg(Library::built().shared()));

    let mut rng = Rng(seed_or(1));
    let (mut kills, mut said, mut kept) = (0, 0, 0);
    let all = named::names().map(|name| (name, EMULATED_DAX));
    let on_file = everleaf_tree::named::NAMES.iter().map(|name| (*name, FILE));
    for (name, medium) in all.chain(on_file) {
        let (folder, mut changes) = (folder(), Changes::new(apply, GROUP_MAX));
        let pool = folder.path().join("pool");
        let args = [name, medium, pool.to_str().expect("UTF-8")];
        for round in 0..count(2, 50) {
            let acked = kill(&program, args, changes.made + 1, &mut rng);
            let what = format!("{name} on medium {medium}, round {round}");
            let (acked, others) = changes.follow(acked, &pairs(&program, args), &what);
            (kills, said, kept) = (kills + 1, said + acked, kept + others);
        }
    }
    println!(
        "{kills} kills: {said} changes were said to be durable, {kept} others were there, too"
    );
    assert!(said > kills, "the kills came before anything was done");
}
