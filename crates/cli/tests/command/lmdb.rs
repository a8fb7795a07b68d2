//! Dumps of LMDB: what its own tools write is loaded, and what `dump` writes its own tools load.
//!
//! `data/` has dumps that mdb_dump 0.9.24 has made; where mdb_dump and mdb_load are installed (Debian:
//! lmdb-utils) they are used, too.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::common::{Place, everleaf, run};

fn sample(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

/// The pairs of the samples, as `scan` prints them.
const FRUIT: &str =
    "apple\tred or green\nbanana\tyellow\nby te\\x00\\xff\t\\x00\\x01\\xfe\nempty\t\n";
const BIRDS: &str = "owl\tby night\n";

#[test]
fn dumps_that_mdb_dump_made_are_loaded() {
    for form in ["bytevalue", "print"] {
        let place = Place::new();
        let file = sample(&format!("mdb-all-{form}.dump"));
        let load = ["--all", file.to_str().unwrap(), "--format", "mdb", "--ack"];
        // An epoch may end in between: then there is a line for what it had, too.
        let ran = place.run("load", load).ended(0);
        assert!(ran.text().ends_with("durable 5\n"), "{ran}");
        place.run("trees", [""; 0]).ended(0).says("birds\nfruit\n");
        place.run("scan", ["fruit"]).ended(0).says(FRUIT);
        place.run("scan", ["birds"]).ended(0).says(BIRDS);
        // Into one tree: another database does not go there, too.
        let one = ["one", file.to_str().unwrap(), "--format", "mdb"];
        let ran = place.run("load", one).ended(2);
        assert!(ran.err.contains("another database begins"), "{ran}");
        place.run("scan", ["one"]).ended(0).says(BIRDS);
    }
}

#[test]
fn a_dump_is_loaded_as_it_was() {
    let place = Place::new();
    let every: String = (0..=255u8).map(|b| format!("\\x{b:02x}\t\\x{b:02x}\\x00\n")).collect();
    place.run_with("load", ["a tree=1"], every.as_bytes()).ended(0);
    place.run_with("load", ["none"], b"").ended(0);
    let dumped = place.run("dump", [""; 0]).ended(0).out;
    let other = Place::new();
    other.run_with("load", ["--all", "--format", "mdb"], &dumped).ended(0);
    assert_eq!(other.run("dump", [""; 0]).ended(0).out, dumped);
    let one = place.run("dump", ["a tree=1"]).ended(0).out;
    other.run_with("load", ["copy", "-", "--format", "mdb"], &one).ended(0);
    let scanned = other.run("scan", ["copy"]).ended(0).out;
    assert_eq!(place.run("scan", ["a tree=1"]).ended(0).out, scanned);
    place.run("dump", ["missing"]).ended(1).says("");
    place.run("dump", ["--format", "text"]).ended(2).says("");
}

#[test]
fn what_is_no_sound_dump_is_refused_with_its_line() {
    const HEAD: &str = "VERSION=3\nformat=bytevalue\ntype=btree\nHEADER=END\n";
    for (input, what) in [
        ("k\tv\n".into(), "line 1: no dump of mdb_dump"),
        ("VERSION=2\n".into(), "line 1: VERSION is not 3"),
        ("VERSION=3\nformat=xml\n".into(), "line 2: a format"),
        ("VERSION=3\ntype=hash\n".into(), "line 2: a type"),
        ("VERSION=3\nduplicates=1\nHEADER=END\n".into(), "line 2: keys with several values"),
        ("VERSION=3\nformat=print\n".into(), "ends in a header"),
        (format!("{HEAD} 61\n 62\n"), "line 6: the dump ends without DATA=END"),
        (format!("{HEAD} 61\n 62\n 63\nDATA=END\n"), "line 8: a key without a value"),
        (format!("{HEAD}61\n62\nDATA=END\n"), "line 5: neither a space"),
        (format!("{HEAD} 6\n 62\n 61\n 62\nDATA=END\n"), "line 5: no pairs of hexadecimal"),
    ] {
        let place = Place::new();
        let ran = place.run_with("load", ["t", "-", "--format", "mdb"], input.as_bytes()).ended(2);
        assert!(ran.err.contains(what), "{what}: {ran}");
    }
    let place = Place::new();
    let ran = place.run_with("load", ["--all", "--format", "mdb"], HEAD.as_bytes()).ended(2);
    assert!(ran.err.contains("does not name this database"), "{ran}");
    place.run("load", ["--all"]).ended(2);
    place.run("load", ["--all", "t", "file", "--format", "mdb"]).ended(2);
}

#[test]
fn the_tools_of_lmdb_read_and_write_the_same() {
    let has = |tool| {
        let mut command = Command::new(tool);
        command.arg("-V").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
    };
    if !has("mdb_load") || !has("mdb_dump") {
        println!("skipped: mdb_load and mdb_dump are not installed");
        return;
    }
    let place = Place::new();
    let lines: String = (0..20_000)
        .map(|i| format!("{:05}\\x00\\xff{i}\tv\\x0a{i}\n", i * 7919 % 20_011))
        .collect();
    place.run_with("load", ["numbers"], lines.as_bytes()).ended(0);
    place.run_with("load", ["ü b"], "a\\\\b\t\nb\t2\n".as_bytes()).ended(0);
    let (env, file) = (place.dir.path().join("lmdb"), place.dir.path().join("dump"));
    fs::create_dir(&env).unwrap();
    fs::write(&file, place.run("dump", [""; 0]).ended(0).out).unwrap();
    let loaded = Command::new("mdb_load").arg("-f").arg(&file).arg(&env).status().unwrap();
    assert!(loaded.success());
    for print in [false, true] {
        let mut dump = Command::new("mdb_dump");
        dump.args(if print { &["-p", "-s", "numbers"][..] } else { &["-a"] }).arg(&env);
        let dumped = dump.output().unwrap();
        assert!(dumped.status.success());
        let back = Place::new();
        back.run_with("load", ["--all", "--format", "mdb"], &dumped.stdout).ended(0);
        // mdb_dump -p does not tell a backslash from the beginning of \\HH.
        for tree in if print { &["numbers"][..] } else { &["numbers", "ü b"] } {
            let scanned = place.run("scan", [tree]).ended(0).out;
            assert!(back.run("scan", [tree]).ended(0).out == scanned, "{tree}, print: {print}");
        }
    }
    run(everleaf().arg("check").arg(&place.pool), b"").ended(0);
}
