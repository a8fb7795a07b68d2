//! A program in C is killed at random moments: what it has said to be on disk is there, and of what came after, the changes
//! up to one of them, in their order.
//!
//! `EVERLEAF_SCALE` sets how often (20), `EVERLEAF_SEED` where the random numbers start.

mod tools;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use db::Db;
use everleaf_testing::{Rng, count, seed_or, vecs};
use tools::{Changes, Library, folder, is_there, run, source};

type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

/// The most changes that are on their way at once: those of the longest group of `kill.c`.
const GROUP_MAX: u64 = 20;

/// Makes one change, as `kill.c` does.
fn apply(number: u64, pairs: &mut Pairs) {
    let key = format!("key {}", number * 7919 % 500).into_bytes();
    if number % 11 == 3 {
        pairs.remove(&key);
        return;
    }
    let len = if number.is_multiple_of(97) { 20_000 } else { 20 + number * 31 % 300 };
    let mut value = vec![b'a' + (number % 26) as u8; len as usize];
    value[..20].copy_from_slice(format!("{number:019} ").as_bytes());
    pairs.insert(key, value);
}

/// Runs the program from a change on, kills it, and returns the last change that it has said to be on disk.
fn kill(program: &Path, pool: &Path, first: u64, rng: &mut Rng) -> Option<u64> {
    let mut command = Library::built().command(program);
    command.arg(pool).arg(first.to_string()).arg((rng.next() >> 1).to_string());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("a child");
    // Most of an open takes a few milliseconds: some lives end there.
    let most = rng.pick(&[5_000, 30_000, 150_000]);
    std::thread::sleep(Duration::from_micros(rng.below(most)));
    child.kill().expect("it runs until then");
    let output = child.wait_with_output().expect("its end");
    assert!(output.status.code().is_none(), "{}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8(output.stdout).expect("numbers");
    // A line without an end was being printed.
    let (lines, _) = said.rsplit_once('\n')?;
    lines.lines().last().map(|line| line.parse().expect("a number"))
}

/// The pairs that the pool holds; none if it has no tree yet.
fn pairs(pool: &Path) -> Pairs {
    let db = Db::open(pool).expect("an open after a kill");
    let damages = db.check().expect("a check");
    assert!(damages.is_empty(), "{damages:?}");
    let tree = db.open_tree("pairs").expect("a lookup");
    let all = tree.map(|tree| tree.range(..).map(|pair| vecs(pair.expect("a pair"))).collect());
    db.close().expect("a close");
    all.unwrap_or_default()
}

#[test]
fn what_a_program_in_c_said_to_be_on_disk_survives_kill_9() {
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
    let new = || (folder(), Changes::new(apply, GROUP_MAX));
    let (mut place, mut changes) = new();
    let (mut said, mut kept) = (0, 0);
    let rounds = count(20, 500);
    for round in 0..rounds {
        if round % 10 == 0 {
            (place, changes) = new();
        }
        let pool = place.path().join("pool");
        let acked = kill(&program, &pool, changes.made + 1, &mut rng);
        let found = if pool.exists() { pairs(&pool) } else { Pairs::new() };
        let (acked, others) = changes.follow(acked, &found, &format!("round {round}"));
        (said, kept) = (said + acked, kept + others);
    }
    println!(
        "{rounds} kills: {said} changes were said to be on disk, {kept} others were there, too"
    );
}
