//! How a pool is made and opened: sizes of pages, compression, memory.

use crate::common::{Place, contents};

const NONE: [&str; 0] = [];

/// The commands that make a pool if it is missing, and their arguments.
const MAKERS: [(&str, &[&str], &[u8]); 3] =
    [("put", &["t", "k", "v"], b""), ("load", &["t"], b"k\tv\n"), ("shell", &[], b"put t k v\n")];

#[test]
fn a_new_pool_has_the_pages_that_were_asked_for_and_keeps_them() {
    for (command, args, input) in MAKERS {
        let place = Place::new();
        let with = |size| [args, &["--page-size", size]].concat();
        place.run_with(command, with("16k"), input).ended(0);
        let page_bytes = || place.run("stat", ["--json"]).ended(0).json()["page_bytes"].clone();
        assert_eq!(page_bytes(), 16_384, "{command}");
        // The same may be said again, and another one is refused and changes nothing.
        place.run_with(command, with("16KiB"), input).ended(0);
        place.run_with(command, args, input).ended(0);
        let before = contents(place.dir.path());
        let ran = place.run_with(command, with("4096"), input).ended(2).says("");
        assert!(
            ran.err.contains("p.ever: the pool has pages of 16,384 bytes, and keeps them"),
            "{ran}"
        );
        assert_eq!(contents(place.dir.path()), before, "{command}");
        for wrong in ["1000", "64k", "0", "4294967296", "18446744073709551615"] {
            let other = Place::new();
            let ran = other.run_with(command, with(wrong), input).ended(2).says("");
            assert!(ran.err.contains("a power of two from 512 to 32768"), "{wrong}: {ran}");
            assert!(
                contents(other.dir.path()).is_empty(),
                "{command} --page-size {wrong} made a file"
            );
        }
    }
    // It is no fault of the lines, which are not read any further.
    for wrong in [&["--page-size", "64k"][..], &["--dax", "--emulate"]] {
        let other = Place::new();
        let args = [&["t", "-", "--ack"], wrong].concat();
        let ran = other.run_with("load", args, b"a\tb\nc\td\n").ended(2).says("durable 0\n");
        assert!(ran.err.contains("everleaf: ") && !ran.err.contains("skipped"), "{ran}");
        assert!(contents(other.dir.path()).is_empty(), "{wrong:?} made a file");
    }
    let place = Place::new();
    let dax = ["t", "k", "v", "--dax", "--emulate", "--size", "8M", "--page-size"];
    place.run("put", dax.into_iter().chain(["1k"])).ended(0);
    place.run("put", dax.into_iter().chain(["1k"])).ended(0);
    let ran = place.run("put", dax.into_iter().chain(["2k"])).ended(2);
    assert!(ran.err.contains("has pages of 1,024 bytes"), "{ran}");
}

#[test]
fn what_is_written_is_compressed_if_that_is_said() {
    let lines: String = (0..20_000).map(|i| format!("{i:08}\t{}\n", "value ".repeat(20))).collect();
    let [plain, packed] = ["none", "lz4"].map(|how| {
        let place = Place::new();
        place.run_with("load", ["t", "-", "--compression", how], lines.as_bytes()).ended(0);
        place.run("scan", ["t"]).ended(0).says(&lines);
        place.run("compact", NONE).ended(0);
        place.run("stat", ["--json"]).ended(0).json()["live_bytes"].as_u64().unwrap()
    });
    assert!(packed < plain / 2, "{packed} of {plain}");
    let place = Place::new();
    place.run("put", ["t", "k", "v", "--compression", "zip"]).ended(2);
    let dax = ["t", "k", "v", "--dax", "--emulate", "--size", "8M", "--compression", "lz4"];
    place.run("put", dax).ended(2);
    assert!(!place.pool.exists());
}

#[test]
fn a_salvaged_pool_is_compressed_if_that_is_said() {
    let place = Place::new();
    let lines: String = (0..5000).map(|i| format!("{i:08}\t{}\n", "value ".repeat(20))).collect();
    place.run_with("load", ["t", "-", "--page-size", "8k"], lines.as_bytes()).ended(0);
    let [plain, packed] = ["none", "lz4"].map(|how| {
        let new = place.dir.path().join(how);
        let args = [new.to_str().unwrap(), "--memory", "8M", "--compression", how];
        let ran = place.run("salvage", args).ended(0).says("t\t5000\n");
        assert!(ran.err.ends_with("p.ever: 1 tree, 5,000 pairs salvaged, no damage\n"), "{ran}");
        let new = Place { dir: tempfile::tempdir().unwrap(), pool: new };
        new.run("scan", ["t"]).ended(0).says(&lines);
        let stat = new.run("stat", ["--json"]).ended(0).json();
        assert_eq!(stat["page_bytes"], 8192, "as in the old one");
        stat["live_bytes"].as_u64().unwrap()
    });
    assert!(packed < plain / 2, "{packed} of {plain}");
}

/// The help of each command has what is its own before what all have.
#[test]
fn persistent_memory_is_the_end_of_the_help() {
    for command in ["put", "get", "del", "load", "scan", "count", "stat", "check", "shell"] {
        let help = crate::common::run(crate::common::everleaf().args([command, "--help"]), b"");
        let at = |what: &str| help.text().find(what).unwrap_or_else(|| panic!("{what}: {help}"));
        let headings = [
            "\nOptions:",
            "\nMemory, size and new pools:",
            "\n      --memory",
            "\nPersistent memory:",
            "\n      --dax",
        ];
        assert!(headings.map(at).is_sorted(), "{command}: {help}");
    }
}

#[test]
fn sizes_that_are_none_are_refused_with_a_word_on_how_to_write_them() {
    let place = Place::new();
    for (size, what) in [
        ("much", "is no size: write bytes, as 4096, or 4k, 64M, 1GiB or 2T"),
        ("1.5G", "is no size"),
        ("64MB", "may mean 1,000 or 1,024"),
        ("18446744073709551616", "is too large: the most is"),
    ] {
        for option in ["--memory", "--size", "--page-size"] {
            let ran = place.run("put", ["t", "k", "v", option, size]).ended(2).says("");
            assert!(ran.err.contains(what) && ran.err.contains(option), "{ran}");
        }
    }
    assert!(!place.pool.exists());
    // Those that make no pool choose no pages.
    place.run("put", ["t", "k", "v"]).ended(0);
    for command in ["stat", "check", "compact", "trees", "count"] {
        place.run(command, ["--page-size", "4k"]).ended(2);
        place.run(command, ["--compression", "lz4"]).ended(2);
    }
    place.run("shell", ["--read-only", "--page-size", "4k"]).ended(2);
}
