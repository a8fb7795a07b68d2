//! The reader of the output goes away: the command ends in order, without a word and with exit code 0.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use crate::common::{Place, everleaf};

/// Runs `everleaf ARGS` with a stdout whose reader is gone before anything is written.
fn unread(args: &[&str], input: &[u8]) -> (Option<i32>, String) {
    let mut command = everleaf();
    command.args(args).stdin(Stdio::piped()).stdout(closed_pipe()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let _ = child.stdin.take().unwrap().write_all(input);
    let output = child.wait_with_output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

fn closed_pipe() -> std::io::PipeWriter {
    let (_, writer) = std::io::pipe().unwrap();
    writer
}

#[test]
fn no_command_complains_when_nobody_reads_what_it_prints() {
    let place = Place::new();
    place.run("put", ["t", "k", "v"]).ended(0);
    place.run_with("load", ["many"], "k\tv\n".repeat(1000).as_bytes()).ended(0);
    let pool = place.pool.to_str().unwrap();
    let demo = place.dir.path().join("demo.ever");
    let runs: [(&[&str], &[u8]); 15] = [
        (&["get", pool, "t", "k"], b""),
        (&["get", pool, "t", "k", "--raw"], b""),
        (&["scan", pool, "many"], b""),
        (&["dump", pool], b""),
        (&["trees", pool], b""),
        (&["stat", pool], b""),
        (&["stat", pool, "--json"], b""),
        (&["del", pool, "t", "--prefix", "k"], b""),
        (&["load", pool, "t", "-", "--ack"], b"a\tb\n"),
        (&["load", pool, "t", "-", "--ack", "--sync"], b"a\tb\nb\tc\n"),
        (&["shell", pool], b"scan many\nget t a\n"),
        (&["completions", "bash"], b""),
        (&["man"], b""),
        (&["--help"], b""),
        (&["demo", demo.to_str().unwrap()], b""),
    ];
    for (args, input) in runs {
        let (code, err) = unread(args, input);
        assert_eq!(code, Some(0), "{args:?}: {err}");
        let is_quiet = err.is_empty() || args[0] == "load" && err.lines().count() == 1;
        assert!(is_quiet, "{args:?}: {err}");
    }
    // Pairs that a load has taken are there, whether or not somebody heard of them.
    place.run("scan", ["t"]).ended(0).says("a\tb\nb\tc\n");
}

#[test]
fn a_demo_whose_reader_goes_leaves_nothing_behind() {
    let place = Place::new();
    let mut demo = everleaf();
    demo.arg("demo").current_dir(place.dir.path());
    let mut child = demo.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr.is_empty()), (Some(0), true));
    assert_eq!(std::fs::read_dir(place.dir.path()).unwrap().count(), 0);
}

#[test]
fn messages_that_nobody_reads_change_no_exit_code() {
    let place = Place::new();
    place.run("put", ["t", "k", "v"]).ended(0);
    let pool = place.pool.to_str().unwrap();
    let (bad, new) = (place.dir.path().join("bad"), place.dir.path().join("new.ever"));
    std::fs::write(&bad, "a\tb\nbad\n").unwrap();
    let runs: [(&[&str], i32); 8] = [
        (&["load", pool, "t", bad.to_str().unwrap()], 2),
        (&["load", pool, "t", bad.to_str().unwrap(), "--skip-bad"], 0),
        (&["get", pool, "t", "none"], 1),
        (&["check", pool], 0),
        (&["compact", pool], 0),
        (&["backup", pool, new.to_str().unwrap()], 0),
        (&["stat", "/no/such/pool"], 4),
        (&["no-such-command"], 2),
    ];
    for (args, code) in runs {
        let mut command: Command = everleaf();
        command.args(args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(closed_pipe());
        assert_eq!(command.status().unwrap().code(), Some(code), "{args:?}");
    }
}
