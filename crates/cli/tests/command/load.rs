//! `load`: what it accepts, what it refuses, and when it acknowledges.

use crate::common;
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use crate::common::{Place, everleaf, run};

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
fn bad_lines_are_named_and_all_others_are_kept() {
    for (bad, what) in [
        ("no tab", "no TAB"),
        ("", "no TAB"),
        ("a\\q\tb", "bad escape"),
        ("a\t\\x4", "bad escape"),
        ("a\tb\\", "bad escape"),
        (&format!("{}\tv", "k".repeat(65_537)), "65,537"),
    ] {
        let place = Place::new();
        let input = format!("one\t1\ntwo\t2\n{bad}\nfour\t4\n");
        let ran = place.run_with("load", ["t", "-", "--ack"], input.as_bytes()).ended(2);
        assert!(ran.err.contains("line 3: ") && ran.err.contains(what), "{ran}");
        assert!(ran.err.ends_with("everleaf: 1 skipped, at line 3\n"), "{ran}");
        assert_eq!(acks(ran.text()).last(), Some(&4));
        place.run("scan", ["t"]).ended(0).says("four\t4\none\t1\ntwo\t2\n");
        let skips = ["u", "-", "--ack", "--skip-bad", "--sync"];
        let ran = place.run_with("load", skips, input.as_bytes()).ended(0);
        assert!(ran.err.contains("1 skipped, at line 3"), "{ran}");
        assert_eq!(acks(ran.text()), [1, 2, 3, 4]);
    }
}

#[test]
fn what_is_skipped_is_told_in_runs() {
    let place = Place::new();
    let input: String = (1..=100).map(|i| if i % 10 < 5 { "bad\n" } else { "k\tv\n" }).collect();
    let ran = place.run_with("load", ["t"], input.as_bytes()).ended(2);
    assert!(ran.err.contains("everleaf: 50 skipped, at line 1-4, 10-14, 20-24, "), "{ran}");
    assert_eq!(ran.err.matches(": no TAB").count(), 20, "{ran}");
}

#[test]
fn an_input_without_a_pair_makes_no_tree() {
    let place = Place::new();
    place.run("put", ["other", "k", "v"]).ended(0);
    place.run_with("load", ["t"], b"bad\nworse\n").ended(2);
    place.run("load", ["t", "/etc"]).ended(4);
    place.run("trees", [""; 0]).ended(0).says("other\n");
    place.run_with("load", ["t"], b"").ended(0);
    place.run("trees", [""; 0]).ended(0).says("other\nt\n");
    let new = Place::new();
    assert!(new.run("load", ["t", "/etc"]).ended(4).err.contains("directory"));
    let ran = run(everleaf().arg("load").arg(&new.pool).args(["t", "/proc/self/mem"]), b"");
    ran.ended(4);
    assert!(common::contents(new.dir.path()).is_empty(), "no pool was made");
}

#[test]
fn raw_lines_are_bytes_and_a_return_is_kept_unless_crlf_is_given() {
    let place = Place::new();
    let input = b"C:\\new\t{\"a\":\"\\\"\"}\r\n\xFF\ta\tb\r\r\n\t\r\n";
    let ran = place.run_with("load", ["t", "-", "--format", "raw", "--crlf"], input).ended(0);
    assert!(!ran.err.contains("--crlf"), "{ran}");
    assert_eq!(place.run("get", ["t", r"C:\\new", "--raw"]).ended(0).out, b"{\"a\":\"\\\"\"}");
    assert_eq!(place.run("get", ["t", r"\xff", "--raw"]).ended(0).out, b"a\tb\r");
    assert_eq!(place.run("get", ["t", "", "--raw"]).ended(0).out, b"");
    let ran = place.run_with("load", ["kept", "-", "--format", "raw"], input).ended(0);
    assert!(ran.err.contains("note: every line ends in a carriage return"), "{ran}");
    assert_eq!(place.run("get", ["kept", "", "--raw"]).ended(0).out, b"\r");
    let text = place.run_with("load", ["text", "-", "--crlf"], b"a\tb\\r\r\nc\td\\t\r\n").ended(2);
    assert!(text.err.contains("line 1: bad escape"), "{text}");
    place.run("scan", ["text"]).ended(0).says("c\td\\t\n");
    let dumped = place.run("dump", ["t", "--format", "raw"]).ended(0).out;
    assert_eq!(dumped, b"\t\nC:\\new\t{\"a\":\"\\\"\"}\n\xFF\ta\tb\r\n");
    // A pair that the form cannot hold is not printed wrongly.
    for (key, value) in [("a\\tb", "v"), ("a\\nb", "v"), ("a", "v\\n")] {
        let place = Place::new();
        place.run("put", ["t", key, value]).ended(0);
        let ran = place.run("dump", ["t", "--format", "raw"]).ended(2).says("");
        assert!(ran.err.contains(&format!("key {key}: ")), "{ran}");
    }
}

#[test]
fn csv_has_two_columns_of_any_bytes() {
    let place = Place::new();
    let input = b"key,value\r\nk,\"v \"\"q\"\" \n2\"\r\n\r\nbad\r\nx,y,z\r\n\xFF,\r\nk2,v2";
    let csv = ["t", "-", "--format", "csv", "--header", "--ack"];
    let ran = place.run_with("load", csv, input).ended(2);
    assert!(
        ran.err.contains("line 5: columns: 1,") && ran.err.contains("line 6: columns: 3,"),
        "{ran}"
    );
    assert_eq!(acks(ran.text()).last(), Some(&5));
    place.run("scan", ["t"]).ended(0).says("k\tv \"q\" \\n2\nk2\tv2\n\\xff\t\n");
    let dumped = place.run("dump", ["t", "--format", "csv"]).ended(0).out;
    assert_eq!(dumped, b"k,\"v \"\"q\"\" \n2\"\nk2,v2\n\xFF,\n");
    place.run_with("load", ["copy", "-", "--format", "csv"], &dumped).ended(0);
    let copy = place.run("scan", ["copy"]).ended(0).out;
    place.run("scan", ["t"]).ended(0).says(std::str::from_utf8(&copy).unwrap());
    // A quote that is open to the end does not swallow the rest in silence.
    let open =
        place.run_with("load", ["open", "-", "--format", "csv"], b"a,b\nc,\"d\ne,f\n").ended(2);
    assert!(open.err.contains("line 2: a quote that is not closed"), "{open}");
    place.run("scan", ["open"]).ended(0).says("a\tb\n");
    place.run("load", ["t", "-", "--header"]).ended(2);
}

#[test]
fn json_lines_are_objects_with_a_key_and_a_value() {
    let place = Place::new();
    let input = concat!(
        "{\"key\":\"k\",\"value\":\"a \\\"quote\\\" \\u00e9\\n\"}\r\n",
        "{\"value\":\"w\",\"key\":\"\"}\n",
        "{\"key\":1,\"value\":\"v\"}\n{\"key\":\"k\"}\nx\n[]\n\n",
        "{\"key\":\"a\",\"value\":\"b\",\"more\":1}\n{\"key\":\"\\ud800\",\"value\":\"\"}\n",
    );
    let ran = place.run_with("load", ["t", "-", "--format", "json"], input.as_bytes()).ended(2);
    assert!(ran.err.ends_with("6 skipped, at line 3-6, 8-9\n"), "{ran}");
    for what in ["\"key\" is no string", "no field \"value\"", "no object", "neither \"key\" nor"] {
        assert!(ran.err.contains(what), "{what}: {ran}");
    }
    place.run("scan", ["t"]).ended(0).says("\tw\nk\ta \"quote\" é\\n\n");
    let dumped = place.run("dump", ["t", "--format", "json"]).ended(0).out;
    place.run_with("load", ["copy", "-", "--format", "json"], &dumped).ended(0);
    assert_eq!(place.run("dump", ["copy", "--format", "json"]).ended(0).out, dumped);
    place.run("put", ["t", "z", r"\xff"]).ended(0);
    // A value that is not UTF-8 is in a field of digits.
    let dumped = place.run("dump", ["t", "--format", "json"]).ended(0).out;
    assert!(dumped.ends_with(b"\n{\"key\":\"z\",\"value_hex\":\"ff\"}\n"));
    place.run_with("load", ["copy", "-", "--format", "json"], &dumped).ended(0);
    assert_eq!(place.run("scan", ["copy"]).ended(0).out, place.run("scan", ["t"]).ended(0).out);
}

#[test]
fn the_last_acknowledgement_counts_all_lines() {
    let input: String = (0..20_000).map(|i| format!("{i}\t\n")).collect();
    for options in [&["--ack"][..], &["--ack", "--interval", "1"]] {
        let place = Place::new();
        let args = ["t", "-"].iter().chain(options);
        let ran = place.run_with("load", args, input.as_bytes()).ended(0);
        assert_eq!(acks(ran.text()).last(), Some(&20_000));
        assert!(ran.err.starts_with("20,000 lines in "), "{ran}");
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
    for line in 1..=5 {
        stdin.write_all(format!("key {line}\tvalue\n").as_bytes()).unwrap();
        stdin.flush().unwrap();
        let mut said = String::new();
        stdout.read_line(&mut said).unwrap();
        assert_eq!(said, format!("durable {line}\n"));
    }
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
