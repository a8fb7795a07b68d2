//! Output on a terminal, which `script` makes; without that program the tests say so and pass. No control
//! character of a key, a value, a name or a path reaches it; a pipe gets the bytes as they are.

use std::process::{Command, Stdio};

use crate::common::{Place, everleaf, run};

/// The output of `everleaf ARGS` on a terminal, stdout and stderr; newlines without their returns.
fn shown(args: &[&str]) -> Option<String> {
    let quoted = |arg: &&str| format!(" '{arg}'");
    let line = format!("exec '{}'", env!("CARGO_BIN_EXE_everleaf"));
    let line = line + &args.iter().map(quoted).collect::<String>();
    let mut script = Command::new("script");
    script.args(["-qec", &line, "/dev/null"]).env("TERM", "dumb").stdin(Stdio::null());
    let Ok(output) = script.output() else {
        println!("skipped: no `script`");
        return None;
    };
    Some(String::from_utf8_lossy(&output.stdout).replace("\r\n", "\n"))
}

/// A terminal's orders: to change colour, to ring, to go back, to ask; in 7 and in 8 bits, and as UTF-8.
const HOSTILE: &str = r"a\x1b[31mb\x07\x08\x0d\x7f\xc2\x9b5n\x9b5n";

#[test]
fn no_control_character_reaches_a_terminal() {
    let mut place = Place::new();
    place.pool = place.dir.path().join("p\x1b[31m\u{9b}.ever");
    let pool = place.pool.to_str().unwrap();
    let text = HOSTILE.strip_suffix(r"\x9b5n").unwrap(); // names and JSON are UTF-8
    place.run("put", [text, HOSTILE, HOSTILE]).ended(0);
    place.run("put", [text, "json", text]).ended(0);
    let damaged = place.dir.path().join("d\x1b[31m\u{9b}.ever");
    std::fs::write(&damaged, "no pool").unwrap();
    let damaged = damaged.to_str().unwrap();
    let runs: [&[&str]; 18] = [
        &["get", pool, text, HOSTILE],
        &["get", pool, text, HOSTILE, "--raw"],
        &["get", pool, "no\x1b[31m", "k"],
        &["scan", pool, text],
        &["trees", pool],
        &["stat", pool],
        &["stat", pool, "--json"],
        &["check", pool],
        &["dump", pool],
        &["dump", pool, text, "--format", "text"],
        &["dump", pool, text, "--format", "csv"],
        &["dump", pool, text, "--format", "raw"],
        &["dump", pool, text, "--format", "json"],
        &["check", damaged],
        &["salvage", damaged, "/tmp/no\x1b[31mwhere"],
        &["load", pool, text, "/no\x1b[31m\u{9b}such"],
        &["put", pool, text, "\x1b[31m\u{9b}\\q", "v"],
        &["no\x1b[31m\u{9b}command", pool],
    ];
    for args in runs {
        let Some(shown) = shown(args) else { return };
        let acts = |char: &char| char.is_control() && !matches!(char, '\t' | '\n');
        assert_eq!(shown.chars().find(acts), None, "{args:?}: {shown:?}");
        assert!(!shown.is_empty(), "{args:?}");
    }
    // To a pipe each byte goes as it is.
    let raw = place.run("get", [text, HOSTILE, "--raw"]).ended(0).out;
    assert_eq!(raw, b"a\x1b[31mb\x07\x08\x0d\x7f\xc2\x9b5n\x9b5n");
    place.run("del", [text, HOSTILE]).ended(0);
    let csv = place.run("dump", [text, "--format", "csv"]).ended(0).out;
    assert_eq!(csv, b"json,\"a\x1b[31mb\x07\x08\x0d\x7f\xc2\x9b5n\"\n");
    let json = place.run("dump", [text, "--format", "json"]).ended(0).out;
    let back: serde_json::Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(back["value"], "a\x1b[31mb\x07\x08\r\x7f\u{9b}5n");
}

#[test]
fn names_are_arguments_as_trees_prints_them() {
    let place = Place::new();
    let names =
        [r"new\nline", r"tab\tbell\x07", r"zero\x00", r"back\\slash", "two words", "Zürich"];
    for name in names {
        place.run("put", [name, "k", "v"]).ended(0);
    }
    let printed = place.run("trees", [""; 0]).ended(0);
    let mut sorted = names;
    sorted.sort_unstable();
    let mut lines: Vec<_> = printed.text().lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, sorted);
    for name in &lines {
        place.run("get", [name, "k"]).ended(0).says("v\n");
        place.run("scan", [name]).ended(0).says("k\tv\n");
        place.run("dump", [name, "--format", "text"]).ended(0).says("k\tv\n");
        place.run_with("load", [name], b"k2\tv2\n").ended(0);
        place.run("del", [name, "k2"]).ended(0);
        let script = format!("get \"{name}\" k\n");
        let ran = run(everleaf().arg("shell").arg(&place.pool), script.as_bytes());
        ran.ended(0).says("v\n");
        place.run("rename", [name, r"other\n"]).ended(0);
        place.run("rename", [r"other\n", name]).ended(0);
    }
    // A dump of all of them goes into another pool.
    let dumped = place.run("dump", [""; 0]).ended(0).out;
    let other = Place::new();
    other.run_with("load", ["--all", "--format", "mdb"], &dumped).ended(0);
    other.run("trees", [""; 0]).ended(0).says(printed.text());
    assert_eq!(other.run("dump", [""; 0]).ended(0).out, dumped);
    for name in &lines {
        other.run("drop", [name]).ended(0);
    }
    let ran = other.run("get", [r"new\nline", "k"]).ended(1);
    assert!(ran.err.contains(r#"no tree is called "new\nline""#), "{ran}");
    place.run("put", [r"bad\q", "k", "v"]).ended(2);
    place.run("put", [r"\xff", "k", "v"]).ended(2);
}
