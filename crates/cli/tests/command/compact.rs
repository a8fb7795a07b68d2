//! `everleaf compact`: the file gets short, what is in it stays, and a kill at any time loses nothing.

use std::path::Path;
use std::time::Duration;

use crate::common::{Place, Ran, contents, everleaf, spawn};

const NONE: [&str; 0] = [];

fn length(path: &Path) -> u64 {
    std::fs::metadata(path).expect("there").len()
}

/// A pool as a kill leaves it: of 20,000 pairs of 500 bytes it has lost nine of ten, and another tree has one.
fn emptied() -> Place {
    let place = Place::new();
    let db = everleaf::Options::new().background(false).open(&place.pool).expect("new");
    let tree = db.tree("t").expect("room");
    let key = |i: u32| i.to_be_bytes();
    (0..20_000).for_each(|i| tree.put(key(i), format!("{i:05}").repeat(100)).expect("room"));
    db.tree("other").expect("room").put("k", "v").expect("room");
    db.checkpoint().expect("room");
    tree.remove_range(key(2_000)..).expect("room");
    db.sync().expect("room");
    drop(tree);
    db.abandon().expect("open");
    place
}

fn dump(place: &Place) -> Vec<u8> {
    place.run("dump", NONE).ended(0).out
}

/// Both lengths are told, for people, and they are those of the file.
fn expect_told(ran: &Ran, after: u64, before: u64) {
    let (_, told) = ran.err.trim_end().rsplit_once("p.ever: ").expect("the path comes first");
    let sizes: Vec<_> = told.split(", ").collect();
    assert_eq!(sizes.len(), 2, "{ran}");
    let before_told = sizes[1].strip_suffix(" before").expect("it says which is which");
    for (told, bytes) in [(sizes[0], after), (before_told, before)] {
        let (number, unit) = told.split_once(' ').expect("a number and its unit");
        let unit = match unit {
            "B" | "bytes" => 1.0,
            "KiB" => 1024.0,
            "MiB" => 1024.0 * 1024.0,
            _ => panic!("{ran}"),
        };
        let number: f64 = number.replace(',', "").parse().expect("a number");
        assert!((number * unit - bytes as f64).abs() <= 0.06 * bytes as f64, "{bytes}: {ran}");
    }
}

#[test]
fn a_compacted_pool_is_short_and_holds_what_it_held() {
    let place = emptied();
    let (all, before) = (dump(&place), length(&place.pool));
    let ran = place.run("compact", NONE).ended(0).says("");
    let after = length(&place.pool);
    // 2,000 pairs of 500 bytes, in pages that are two thirds full at least.
    assert!(before > 10 << 20 && after < 3 << 20, "{before} to {after}");
    expect_told(&ran, after, before);
    assert_eq!(dump(&place), all);
    place.run("check", NONE).ended(0);
    let again = place.run("compact", NONE).ended(0);
    assert!(length(&place.pool) <= after, "{again}");
    // The length before leaves out what the open does for the tree that was dropped.
    place.run("drop", ["t"]).ended(0);
    let before = length(&place.pool);
    let ran = place.run("compact", NONE).ended(0);
    expect_told(&ran, length(&place.pool), before);
    assert!(length(&place.pool) <= 64 << 10, "{}", length(&place.pool));
    place.run("get", ["other", "k"]).ended(0).says("v\n");
    place.run("check", NONE).ended(0);
}

#[test]
fn nothing_is_compacted_that_is_no_pool_or_in_use() {
    let place = Place::new();
    place.run("compact", NONE).ended(4).says("");
    assert!(contents(place.dir.path()).is_empty(), "it makes none");
    std::fs::write(&place.pool, "a text of somebody's\n").expect("room");
    place.run("compact", NONE).ended(3).says("");
    assert_eq!(std::fs::read(&place.pool).expect("there"), b"a text of somebody's\n");
    let place = Place::new();
    place.run("put", ["t", "k", "v"]).ended(0);
    let db = everleaf::Db::open(&place.pool).expect("sound");
    let before = contents(place.dir.path());
    place.run("compact", NONE).ended(4).says("");
    assert_eq!(contents(place.dir.path()), before, "another process has it");
    drop(db);
}

#[test]
fn a_compaction_that_is_killed_loses_nothing() {
    let first = emptied();
    let all = dump(&first);
    let sound = std::fs::read(&first.pool).expect("there");
    let (mut killed, mut step) = (0, Duration::from_millis(1));
    for _ in 0..12 {
        let place = Place::new();
        std::fs::write(&place.pool, &sound).expect("room");
        let mut child = spawn(everleaf().arg("compact").arg(&place.pool));
        std::thread::sleep(step);
        // Later and later, up to the end of a run, and then from the start.
        step = step * 3 / 2;
        child.kill().expect("it is a child");
        if child.wait().expect("it is a child").success() {
            step = Duration::from_millis(2);
        } else {
            killed += 1;
        }
        assert_eq!(dump(&place), all);
        place.run("check", NONE).ended(0);
        assert!(length(&place.pool) <= sound.len() as u64 + (2 << 20), "{}", length(&place.pool));
    }
    assert!(killed > 0, "each had ended before");
}
