//! The process that holds the lock is killed: the lock goes with it.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rand::RngExt;

use super::Random;
use crate::common::{Place, contents, everleaf};

fn spawn(command: &mut Command) -> Child {
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    command.spawn().unwrap()
}

/// Every value is too long for a pipe, so that a scan whose output nobody reads stays in the pool.
fn value(line: u64) -> String {
    format!("{line}.{}", "x".repeat(100_000))
}

/// Returns what was killed.
pub fn round(run: u64, random: &mut Random) -> [&'static str; 2] {
    let place = Place::new();
    let mut load = everleaf();
    let mut load = spawn(load.arg("load").arg(&place.pool).args(["t", "-", "--ack", "--sync"]));
    let mut stdin = load.stdin.take().unwrap();
    let mut acks = BufReader::new(load.stdout.take().unwrap()).lines();
    let lines = random.random_range(1..6);
    for line in 1..=lines {
        writeln!(stdin, "k{line}\t{}", value(line)).unwrap();
        assert_eq!(acks.next().unwrap().unwrap(), format!("durable {line}"));
    }
    for (command, args) in [("get", vec!["t", "k1"]), ("scan", vec!["t"]), ("check", vec![])] {
        let ran = place.run(command, args).ended(4);
        assert!(ran.err.contains("open in another process") && ran.out.is_empty(), "{ran}");
    }
    // A line is under way, maybe.
    writeln!(stdin, "k{}\t{}", lines + 1, value(lines + 1)).unwrap();
    std::thread::sleep(Duration::from_micros(random.random_range(0..2000)));
    load.kill().unwrap();
    load.wait().unwrap();
    let found = found(&place, lines);
    let acked = acks.map_while(Result::ok).count() as u64;
    assert!(found >= lines + acked, "run {run}: {acked} more acknowledged, {found} found");

    // Readers share the pool, and a writer waits for their end, whatever that is.
    let before = contents(place.dir.path());
    let mut readers = [0, 1].map(|_| spawn(everleaf().arg("scan").arg(&place.pool).arg("t")));
    for reader in &mut readers {
        let mut out = BufReader::new(reader.stdout.take().unwrap());
        let mut first = vec![0; 2];
        std::io::Read::read_exact(&mut out, &mut first).unwrap();
        reader.stdout = Some(out.into_inner()); // not read on: the reader stays
    }
    let refused = place.run("put", ["t", "k", "v"]).ended(4);
    assert!(refused.err.contains("open in another process"), "{refused}");
    for mut reader in readers {
        reader.kill().unwrap();
        assert_eq!(reader.wait().unwrap().code(), None);
    }
    assert!(contents(place.dir.path()) == before, "run {run}: readers changed the files");
    place.run("put", ["t", "k1", &value(1)]).ended(0);
    assert_eq!(self::found(&place, lines), found);
    place.run("check", [""; 0]).ended(0);
    ["a writer", "readers"]
}

/// How many lines are there: those that were acknowledged and maybe one more, nothing else.
fn found(place: &Place, acked: u64) -> u64 {
    let scanned = place.run("scan", ["t"]).ended(0);
    let expected = |lines| -> String {
        (1..=lines).map(|line| format!("k{line}\t{}\n", value(line))).collect()
    };
    let found = scanned.text().lines().count() as u64;
    assert!((acked..=acked + 1).contains(&found), "{acked} acknowledged, {found} found");
    assert!(scanned.text() == expected(found), "not what was loaded");
    found
}
