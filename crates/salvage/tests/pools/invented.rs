//! Random bytes in a pool whose pairs are known: what comes out was in.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use crate::damaged::sample::PAGE_BYTES;
use crate::damaged::{Files, OLD, Trees, all_pairs, missing, salvage};
use everleaf::io::SimIo;
use everleaf::{Options, Tree};
use everleaf_salvage::Salvaged;
use everleaf_testing::{seeds, times};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

type Random = Xoshiro256PlusPlus;
type Ever = BTreeMap<(String, Vec<u8>), HashSet<Vec<u8>>>;

struct Case {
    files: Files,
    now: Trees,
    ever: Ever,
}

fn value(random: &mut Random, stamp: u32) -> Vec<u8> {
    let len = match random.random_range(0..30) {
        0 => 1500,
        1 | 2 => 100,
        _ => random.random_range(8..30),
    };
    let mut bytes = format!("{stamp}:").into_bytes();
    bytes.resize(len, b'a' + (stamp % 26) as u8);
    bytes
}

fn key(random: &mut Random, space: usize) -> Vec<u8> {
    let number: u32 = random.random_range(0..300);
    let long = if number.is_multiple_of(40) { 120 } else { 0 };
    format!("{space}/{number:03}/{}", "x".repeat(long)).into_bytes()
}

/// Pairs that change, and go, and whose pages are those of other trees then.
fn build(seed: u64) -> Case {
    let mut random = Random::seed_from_u64(seed);
    let io = SimIo::new(seed);
    let options = Options::new().page_bytes(PAGE_BYTES).background(false).max_bytes(64 << 20);
    let db = options.open_on(Arc::new(io.clone()), OLD).expect("new");
    let trees: Vec<Tree> = ["a", "b", "c"].map(|name| db.tree(name).expect("new")).into();
    let mut ever = Ever::new();
    let shared = random.random_range(0..2) == 0;
    for stamp in 0..random.random_range(500..2500) {
        let i = random.random_range(0..3);
        let space = if shared { 0 } else { i };
        let key = key(&mut random, space);
        match random.random_range(0..100) {
            0..25 => drop(trees[i].remove(&key).expect("space")),
            25 => {
                let from = format!("{space}/{:03}", random.random_range(0..200));
                let to = format!("{space}/{:03}", random.random_range(200..300));
                trees[i].remove_range(from.as_str()..to.as_str()).expect("space");
            }
            26 => db.checkpoint().expect("no fault"),
            27..30 => db.sync().expect("no fault"),
            _ => {
                let value = value(&mut random, stamp);
                trees[i].put(&key, &value).expect("space");
                ever.entry((trees[i].name().to_owned(), key)).or_default().insert(value);
            }
        }
    }
    db.sync().expect("no fault");
    let now = all_pairs(&db).expect("sound");
    drop(trees);
    if random.random_range(0..2) == 0 {
        db.close().expect("no fault");
    }
    Case { files: Files::of(&io, PAGE_BYTES), now, ever }
}

/// Whether the tree is one that says of its pairs that they may not be so.
fn is_found(name: &str) -> bool {
    name.starts_with("lost+found/")
}

/// `EVERLEAF_SCALE` says how often each of six pools is hit (60).
#[test]
fn random_bytes_invent_no_pair() {
    let trials = times(60);
    let (mut older, mut lost) = (0, 0);
    for seed in seeds(1..7) {
        let case = build(seed);
        let mut random = Random::seed_from_u64(seed ^ 0x5eed);
        // Pages, not the journal: without a block of it all pages may be older.
        let pages: Vec<_> = case.files.imaged();
        for trial in 0..trials {
            let mut files = case.files.clone();
            let image = files.image(pages[random.random_range(0..pages.len())]).expect("one");
            let at = random.random_range(image.clone()).min(image.end - 32);
            random.fill(&mut files.data[at..at + 32]);
            let (report, out) = salvage(&files.disk()).expect("damage is no error");
            let name = format!("seed {seed}, trial {trial}, at byte {at}");
            for (tree, pairs) in &out {
                for (key, value) in pairs {
                    let was = |name: &String| {
                        let values = case.ever.get(&(name.clone(), key.clone()));
                        values.is_some_and(|values| values.contains(value))
                    };
                    let is_so = match is_found(tree) {
                        false => case.now[tree].get(key) == Some(value),
                        true => value.is_empty() || case.now.keys().any(was),
                    };
                    assert!(is_so, "{name}: {tree:?} has {:?}", String::from_utf8_lossy(key));
                }
            }
            older += report.pairs_older();
            lost += expect_counts(&case, &report, &out, &name);
        }
    }
    assert!(older > 0 && lost > 0, "{older} pairs may be older, {lost} are lost");
}

/// The report says how many pairs of each tree are not in it: exactly, if it says so.
fn expect_counts(case: &Case, report: &Salvaged, out: &Trees, name: &str) -> u64 {
    for tree in report.trees.iter().filter(|tree| !is_found(&tree.name)) {
        let lost = (case.now[&tree.name].len() - out[&tree.name].len()) as u64;
        let is_right = if tree.pairs_lost_is_exact {
            tree.pairs_lost == lost
        } else {
            tree.pairs_lost <= lost
        };
        assert!(is_right, "{name}: {tree:?} lacks {lost}: {:#?}", report.losses);
    }
    let lost = missing(&case.now, out) as u64;
    if report.pairs_lost_is_exact {
        assert_eq!(report.pairs_lost, lost, "{name}: {:#?}", report.losses);
    }
    lost
}
