//! `load`: what it accepts, what it refuses, and when it acknowledges.

mod common;

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;
use std::time::{Duration, Instant};

use common::{Place, everleaf};

fn acks(out: &str) -> Vec<u64> {
    let acks: Vec<u64> =
        out.lines().map(|line| line.strip_prefix("durable ").unwrap().parse().unwrap()).collect();
    assert!(acks.is_sorted_by(|a, b| a < b), "{acks:?}");
    acks
}

#[test]
fn the_last_line_may_lack_its_newline_and_lines_may_be_long() {
    let place = Place::new();
    let long = "v".repeat(3_000_000);
    let key = "k".repeat(65_536);
    let input = format!("a\t{long}\n{key}\tb\nc\t");
    let ran = place.run_with("load", ["t"], input.as_bytes()).ended(0).says("");
    assert!(ran.err.contains("3 lines in "), "{ran}");
    assert!(ran.err.contains("lines/s"), "{ran}");
    assert_eq!(place.run("get", ["t", "a", "--raw"]).ended(0).out, long.as_bytes());
    place.run("get", ["t", &key]).ended(0).says("b\n");
    place.run("get", ["t", "c"]).ended(0).says("\n");
}

#[test]
fn a_file_loads_as_stdin_does_and_later_lines_win() {
    let place = Place::new();
    let file = place.dir.path().join("lines");
    std::fs::write(&file, "a\t1\nb\t2\na\t3\twith tab\r\n").unwrap();
    place.run("load", ["t", file.to_str().unwrap()]).ended(0);
    place.run("scan", ["t"]).ended(0).says("a\t3\\twith tab\\x0d\nb\t2\n");
}

#[test]
fn a_bad_line_is_named_and_what_came_before_is_kept() {
    for (bad, what) in [
        ("no tab", "no TAB"),
        ("", "no TAB"),
        ("a\\q\tb", "bad escape"),
        ("a\t\\x4", "bad escape"),
        ("a\tb\\", "bad escape"),
        (&format!("{}\tv", "k".repeat(65_537)), "65537"),
    ] {
        let place = Place::new();
        let input = format!("one\t1\ntwo\t2\n{bad}\nfour\t4\n");
        let ran = place.run_with("load", ["t", "-", "--ack"], input.as_bytes()).ended(2);
        assert!(ran.err.contains("line 3: ") && ran.err.contains(what), "{ran}");
        assert_eq!(acks(ran.text()).last(), Some(&2));
        place.run("scan", ["t"]).ended(0).says("one\t1\ntwo\t2\n");
    }
}

#[test]
fn the_last_acknowledgement_counts_all_lines() {
    let input: String = (0..20_000).map(|i| format!("{i}\t\n")).collect();
    for options in [&["--ack"][..], &["--ack", "--interval", "1"]] {
        let place = Place::new();
        let args = ["t", "-"].iter().chain(options);
        let ran = place.run_with("load", args, input.as_bytes()).ended(0);
        assert_eq!(acks(ran.text()).last(), Some(&20_000));
    }
    let place = Place::new();
    place.run_with("load", ["t", "--ack"], b"").ended(0).says("durable 0\n");
}

#[test]
fn with_sync_each_line_is_acknowledged_by_itself() {
    let place = Place::new();
    let input: String = (0..40).map(|i| format!("{i}\t\n")).collect();
    let ran = place.run_with("load", ["t", "--ack", "--sync"], input.as_bytes()).ended(0);
    assert_eq!(acks(ran.text()), (1..=40).collect::<Vec<_>>());
}

#[test]
fn acknowledgements_come_while_the_input_is_silent() {
    let place = Place::new();
    let mut child = everleaf()
        .arg("load")
        .arg(&place.pool)
        .args(["t", "-", "--ack"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let start = Instant::now();
    for line in 1..=5 {
        stdin.write_all(format!("key {line}\tvalue\n").as_bytes()).unwrap();
        stdin.flush().unwrap();
        let mut said = String::new();
        stdout.read_line(&mut said).unwrap();
        assert_eq!(said, format!("durable {line}\n"));
    }
    assert!(start.elapsed() < Duration::from_secs(20));
    drop(stdin);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn acknowledgements_that_nobody_can_read_end_in_a_failure() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let place = Place::new();
    let file = place.dir.path().join("lines");
    std::fs::write(&file, "a\t1\n").unwrap();
    let mut load = everleaf();
    load.arg("load").arg(&place.pool).arg("t").arg(&file).arg("--ack").stdout(full);
    assert_eq!(load.stderr(Stdio::null()).status().unwrap().code(), Some(4));
    place.run("scan", ["t"]).ended(0).says("a\t1\n");
}
