//! `stat`, `count` and `scan`: how many there are, and what is printed of them.

use serde_json::{Value, json};

use crate::common::{Place, everleaf, run};

const NONE: [&str; 0] = [];

/// Three trees: of 1,234 pairs, of two, and of none; the names ask for escapes.
fn place() -> Place {
    let place = Place::new();
    let lines: String = (0..1234).map(|i| format!("{i:04}\tvalue {i}\n")).collect();
    place.run_with("load", ["many"], lines.as_bytes()).ended(0);
    place
        .run_with("shell", NONE, b"put 'a\\tb' k v\nput 'a\\tb' kk vv\nput z k v\ndel z k\n")
        .ended(0);
    place
}

#[test]
fn stat_tells_pairs_without_a_walk() {
    let place = place();
    let text = place.run("stat", NONE).ended(0);
    for line in
        ["page             4.0 KiB (4,096 bytes)", "trees            3", "pairs            1,236"]
    {
        assert!(text.text().lines().any(|told| told == line), "{line}: {text}");
    }
    assert!(
        text.text().ends_with(
            "  a\\tb           2 pairs\n  many           1,234 pairs\n  z              0 pairs\n"
        ),
        "{text}"
    );
    let pool = place.run("stat", ["--json"]).ended(0).json();
    let trees = json!([
        { "name": "a\tb", "pairs": 2 },
        { "name": "many", "pairs": 1234 },
        { "name": "z", "pairs": 0 },
    ]);
    assert_eq!((&pool["pairs"], &pool["trees"]), (&json!(1236), &trees));
    assert!(pool["durable_epoch"].is_u64() && pool["file_bytes"].as_u64() > Some(0), "{pool}");
    assert_eq!(pool["pages"], Value::Null, "that is for --walk");
    place.run("stat", ["many"]).ended(0).says("tree             many\n  pairs          1,234\n");
    assert_eq!(place.run("stat", ["many", "--json"]).ended(0).json(), trees[1]);
    place.run("stat", ["none"]).ended(1).says("");
    place.run("stat", ["none", "--walk"]).ended(1).says("");
}

#[test]
fn stat_by_a_walk_tells_bytes_and_nodes() {
    let place = place();
    place.run("put", ["z", "large", &"v".repeat(50_000)]).ended(0);
    let (text, pool) = (
        place.run("stat", ["--walk"]).ended(0),
        place.run("stat", ["--walk", "--json"]).ended(0).json(),
    );
    assert!(text.text().contains("\ntree             many\n  pairs          1,234\n  keys           4.8 KiB (4,936 bytes)\n"), "{text}");
    assert_eq!(pool["pairs"], 1237);
    assert_eq!(
        (&pool["trees"][0]["key_bytes"], &pool["trees"][0]["value_bytes"]),
        (&json!(3), &json!(3))
    );
    assert!(pool["trees"][0]["nodes_by_level"].as_array().is_some_and(|levels| levels.len() == 1));
    for kind in ["node", "record", "extent", "map", "anchor"] {
        let (pages, bytes) =
            (pool["pages"][kind].as_u64().unwrap(), pool["bytes"][kind].as_u64().unwrap());
        assert_eq!(bytes, pages * 4096, "{kind}");
        assert!(
            text.text().contains(&format!("\n  {:<14} ", format!("{kind}s"))),
            "{kind}: {text}"
        );
    }
    assert!(pool["bytes"]["extent"].as_u64() >= Some(50_000));
    let tree = place.run("stat", ["z", "--walk", "--json"]).ended(0).json();
    assert_eq!(tree, pool["trees"][2]);
    assert_eq!((&tree["pairs"], &tree["value_bytes"]), (&json!(1), &json!(50_000)));
}

/// Numbers that are known are told of a pool whose leaves cannot be read; a walk finds the damage.
#[test]
fn stat_and_count_read_no_leaf_unless_they_walk() {
    let place = place();
    let mut bytes = std::fs::read(&place.pool).unwrap();
    let mut hits = 0;
    while let Some(at) = bytes.windows(10).position(|window| window == b"value 1000") {
        bytes[at] ^= 0xFF;
        hits += 1;
    }
    assert!(hits > 0, "a leaf is hit");
    std::fs::write(&place.pool, bytes).unwrap();
    place.run("count", ["many"]).ended(0).says("1234\n");
    assert!(place.run("stat", NONE).ended(0).text().contains("1,234 pairs"));
    place.run("stat", ["--walk"]).ended(3).says("");
    place.run("count", ["many", "--from", "0"]).ended(3).says("");
    let ran = place.run("check", ["--json"]).ended(3);
    assert_eq!(ran.json()["sound"], false);
    assert!(ran.json()["damages"][0]["offset"].as_u64() > Some(0), "{ran}");
    assert!(ran.err.ends_with("p.ever: 1 damage\n"), "{ran}");
    // The exit code says that it is damaged even if nobody reads stdout.
    let mut child = everleaf();
    let child = child
        .arg("check")
        .arg(&place.pool)
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null());
    let mut child = child.spawn().unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(3));
}

#[test]
fn count_is_of_a_tree_of_a_range_or_of_each_tree() {
    let place = place();
    place.run("count", ["many"]).ended(0).says("1234\n");
    place.run("count", NONE).ended(0).says("a\\tb\t2\nmany\t1234\nz\t0\n");
    let trees = place.run("stat", ["--json"]).ended(0).json()["trees"].clone();
    assert_eq!(
        place.run("count", ["--json"]).ended(0).json(),
        json!({ "pairs": 1236, "trees": trees })
    );
    assert_eq!(
        place.run("count", ["z", "--json"]).ended(0).json(),
        json!({ "name": "z", "pairs": 0 })
    );
    let within: [(&[&str], &str); 9] = [
        (&["--prefix", "00"], "100"),
        (&["--prefix", ""], "1234"),
        (&["--prefix", r"\xff"], "0"),
        (&["--from", "1000"], "234"),
        (&["--from", "0999z"], "234"),
        (&["--to", "0010"], "10"),
        (&["--to", ""], "0"),
        (&["--from", "0010", "--to", "0020"], "10"),
        (&["--from", "0020", "--to", "0010"], "0"),
    ];
    for (bounds, pairs) in within {
        place.run("count", ["many"].iter().chain(bounds)).ended(0).says(&format!("{pairs}\n"));
        let scan = ["many", "--count"].iter().chain(bounds);
        place.run("scan", scan).ended(0).says(&format!("{pairs}\n"));
    }
    place.run("scan", ["many", "--count", "--limit", "7"]).ended(0).says("7\n");
    place.run("count", ["none"]).ended(1).says("");
    place.run("count", ["--prefix", "a"]).ended(2).says("");
}

#[test]
fn scan_prints_keys_values_or_both_in_three_forms() {
    let place = Place::new();
    place.run_with("load", ["t"], b"a\t1\nb,c\t\\n2\n\\x9bd\t\n").ended(0);
    let scan = |args: &[&str], text: &[u8]| {
        let ran = place.run("scan", ["t"].iter().chain(args)).ended(0);
        assert!(ran.out == text, "{args:?}: {ran}");
    };
    scan(&["--keys"], b"a\nb,c\n\\x9bd\n");
    scan(&["--values"], b"1\n\\n2\n\n");
    scan(&["--keys", "--reverse", "--limit", "1"], b"\\x9bd\n");
    scan(&["--format", "csv"], b"a,1\n\"b,c\",\"\n2\"\n\x9bd,\n");
    scan(&["--format", "csv", "--values"], b"1\n\"\n2\"\n\"\"\n");
    scan(
        &["--format", "json"],
        b"{\"key\":\"a\",\"value\":\"1\"}\n{\"key\":\"b,c\",\"value\":\"\\n2\"}\n{\"key_hex\":\"9b64\",\"value\":\"\"}\n",
    );
    scan(&["--format", "json", "--keys", "--prefix", "b"], b"{\"key\":\"b,c\"}\n");
    for refused in
        [&["--format", "raw"][..], &["--keys", "--values"], &["--count", "--format", "csv"]]
    {
        place.run("scan", ["t"].iter().chain(refused)).ended(2).says("");
    }
}

/// Each form that `scan` prints is read by `load` as it was.
#[test]
fn every_byte_goes_through_scan_and_load_in_each_form() {
    let place = Place::new();
    let mut lines = Vec::new();
    for byte in 0..=255_u8 {
        for text in [
            format!("\\x{byte:02x}"),
            format!("é\\x{byte:02x},\\n\\x22"),
            format!("\\r\\n\\x{byte:02x} "),
        ] {
            lines.extend(format!("{text}\t{text}{text}\n").replace("\\r", "\\x0d").bytes());
        }
    }
    lines.extend(b"\t\n");
    place.run_with("load", ["t"], &lines).ended(0);
    let all = place.run("scan", ["t"]).ended(0).out;
    assert_eq!(all.iter().filter(|byte| **byte == b'\n').count(), 769);
    for format in ["text", "csv", "json"] {
        let printed = place.run("scan", ["t", "--format", format]).ended(0).out;
        place.run_with("load", [format, "-", "--format", format], &printed).ended(0);
        assert!(place.run("scan", [format]).ended(0).out == all, "{format}");
    }
}

/// A value is not read where keys are enough.
#[test]
fn keys_are_printed_of_values_that_cannot_be_read() {
    let place = Place::new();
    place
        .run_with("load", ["t"], format!("k\t{}\nl\tv\n", "v".repeat(100_000)).as_bytes())
        .ended(0);
    let mut bytes = std::fs::read(&place.pool).unwrap();
    let at =
        bytes.windows(1000).position(|window| window.iter().all(|byte| *byte == b'v')).unwrap();
    bytes[at] ^= 1;
    std::fs::write(&place.pool, bytes).unwrap();
    place.run("scan", ["t"]).ended(3);
    place.run("scan", ["t", "--keys"]).ended(0).says("k\nl\n");
    place.run("scan", ["t", "--count"]).ended(0).says("2\n");
    place.run("count", ["t", "--to", "z"]).ended(0).says("2\n");
    place
        .run_with("shell", ["--read-only"], b"count t --to z\nscan t --keys\n")
        .ended(0)
        .says("2\nk\nl\n");
}

#[test]
fn a_terminal_is_shown_commas_and_a_program_digits() {
    let place = place();
    let count =
        format!("'{}' count '{}' many", env!("CARGO_BIN_EXE_everleaf"), place.pool.display());
    let mut script = std::process::Command::new("script");
    script.args(["-qec", &count, "/dev/null"]);
    let Ok(output) = script.stdin(std::process::Stdio::null()).output() else {
        println!("skipped: no `script`");
        return;
    };
    assert_eq!(String::from_utf8_lossy(&output.stdout), "1,234\r\n");
    run(everleaf().arg("count").arg(&place.pool).arg("many"), b"").ended(0).says("1234\n");
}
