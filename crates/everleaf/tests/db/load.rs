//! Sorted loads: against a map on both media, and how full they leave leaves.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use everleaf::{Db, Error, KEY_BYTES_MAX, Options, Tree};
use everleaf_testing::vecs;

use crate::cut::{Rng, inspect};
use crate::pools::{dax, file};

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// Keys of one kind: they share a beginning, are numbers, or have any length.
fn some_key(rng: &mut Rng, kind: u64) -> Vec<u8> {
    let n = rng.below(1 << 20);
    match kind {
        0 => n.to_be_bytes().to_vec(),
        1 => [&[b'p'; 90][..], &n.to_be_bytes()].concat(),
        2 => format!("{n}").into_bytes(),
        _ => {
            let len = rng.pick(&[0, 1, 8, 8, 30, 60, 60, 100, 700]);
            (0..len).map(|_| rng.below(3) as u8).collect()
        }
    }
}

fn some_value(rng: &mut Rng, longest: u64) -> Vec<u8> {
    let longest = if rng.one_in(60) { 40 * longest } else { longest };
    vec![rng.next() as u8; rng.below(longest + 1) as usize]
}

/// Pairs by rising keys between two that are not among them, or anywhere.
fn some_pairs(rng: &mut Rng, kind: u64, count: u64) -> Map {
    let longest = rng.pick(&[0, 8, 8, 50, 100]);
    (0..count).map(|_| (some_key(rng, kind), some_value(rng, longest))).collect()
}

fn content(tree: &Tree) -> Map {
    tree.iter().map(|pair| pair.map(vecs)).collect::<Result<_, _>>().expect("sound")
}

/// Loads into a tree that is empty, or has some pairs, with and without snapshots.
fn loads(db: &Db, rng: &mut Rng) {
    let tree = db.tree("t").expect("a tree");
    tree.clear().expect("room");
    let kind = rng.below(4);
    let before = rng.pick(&[0, 0, 1, 30, 1000]);
    let mut map = some_pairs(rng, kind, before);
    // In any order, so that leaves are not full.
    map.iter().step_by(2).for_each(|(key, value)| tree.put(key, value).expect("room"));
    map.iter().rev().for_each(|(key, value)| tree.put(key, value).expect("room"));
    for _ in 0..3 {
        let then = rng.one_in(2).then(|| (db.snapshot().expect("open"), map.clone()));
        let count = rng.pick(&[0, 1, 2, 50, 400, 2000]);
        let mut pairs = some_pairs(rng, kind, count);
        if rng.one_in(2) {
            // All behind what is there.
            let last = map.last_key_value().map_or(Vec::new(), |(key, _)| key.clone());
            pairs = pairs.into_iter().map(|(k, v)| ([&last[..], &[9], &k].concat(), v)).collect();
            pairs.retain(|key, _| key.len() < 2000);
        }
        assert_eq!(tree.load_sorted(&pairs).expect("room"), pairs.len() as u64);
        map.extend(pairs);
        assert_eq!(content(&tree), map);
        if let Some((snapshot, then)) = then {
            let seen = snapshot.of(&tree).expect("its own");
            let seen = seen.iter().map(|pair| pair.map(vecs)).collect::<Result<Map, _>>();
            assert_eq!(seen.expect("memory"), then);
        }
        // Loaded pairs can be changed like any others.
        for _ in 0..50 {
            let (key, value) = (some_key(rng, kind), some_value(rng, 100));
            tree.put(&key, &value).expect("room");
            map.insert(key, value);
            let gone = map.keys().nth(rng.below(map.len() as u64) as usize).cloned();
            let gone = gone.expect("there is one");
            tree.delete(&gone).expect("room");
            map.remove(&gone);
        }
        assert_eq!(content(&tree), map);
    }
}

#[test]
fn a_tree_has_what_was_loaded_and_what_it_had() {
    let dir = tempfile::tempdir().expect("a directory");
    let pools = [file(512), file(1024), file(4096), dax(dir.path(), 512)];
    for (n, db) in pools.iter().enumerate() {
        for seed in 0..15 {
            loads(db, &mut Rng(100 * n as u64 + seed));
            inspect(db, "afterwards");
        }
    }
}

/// Loads numbered pairs into an empty tree: how full its leaves are, and how many there are.
fn fill_of(db: &Db, value: &[u8], load: impl FnOnce(&Tree, Vec<([u8; 8], Vec<u8>)>)) -> (f64, u64) {
    let tree = db.tree("t").expect("a tree");
    tree.clear().expect("room");
    let pairs = (0..30_000_u64).map(|n| ((7 * n).to_be_bytes(), value.to_vec())).collect();
    load(&tree, pairs);
    inspect(db, "loaded");
    let counts = db.count().expect("sound");
    assert_eq!(counts.trees[0].entries, 30_000);
    (counts.trees[0].fill, counts.trees[0].nodes_by_level[0])
}

#[test]
fn a_load_into_an_empty_tree_leaves_full_leaves() {
    let dir = tempfile::tempdir().expect("a directory");
    for (db, is_file) in [(file(4096), true), (dax(dir.path(), 1024), false)] {
        for value in [&[1; 8][..], &[1; 100]] {
            let loaded = fill_of(&db, value, |tree, pairs| {
                assert_eq!(tree.load_sorted(pairs).expect("room"), 30_000);
            });
            let put = fill_of(&db, value, |tree, pairs| {
                pairs.iter().for_each(|(key, value)| tree.put(key, value).expect("room"));
            });
            println!("{} bytes: loaded {loaded:?}, put {put:?}", value.len());
            assert!(loaded.0 >= 0.95, "{loaded:?}");
            assert!(loaded.1 <= put.1 && (!is_file || loaded.1 < put.1), "{loaded:?}, {put:?}");
        }
    }
}

#[test]
fn pairs_that_do_not_ascend_are_refused_and_those_before_them_stay() {
    let dir = tempfile::tempdir().expect("a directory");
    for db in [file(1024), dax(dir.path(), 512)] {
        let tree = db.tree("t").expect("a tree");
        for count in [1, 2, 100, 5000, 40_000_u32] {
            for next in [0, count - 1] {
                tree.clear().expect("room");
                let numbers = (0..count).chain([next]).chain([count]);
                let error = tree.load_sorted(numbers.map(|n| (n.to_be_bytes(), [7])));
                let position = u64::from(count);
                assert!(matches!(error, Err(Error::NotAscending { position: p }) if p == position));
                assert_eq!(tree.iter().count() as u64, position);
            }
        }
        // Wherever pairs are put and others come: the last key is known.
        for count in 1600..1700_u32 {
            let error = tree.load_sorted((0..count).chain([0]).map(|n| (n.to_be_bytes(), [7])));
            assert!(
                matches!(error, Err(Error::NotAscending { position: p }) if p == u64::from(count))
            );
        }
        tree.clear().expect("room");
        let long = vec![b'l'; KEY_BYTES_MAX + 1];
        let outcome = tree.load_sorted([(&b"a"[..], "1"), (&long, "2"), (b"z", "3")]);
        assert!(matches!(outcome, Err(Error::KeyTooLong { .. })), "{outcome:?}");
        assert_eq!(tree.iter().count(), 1);
        assert_eq!(tree.load_sorted([("", ""); 0]).expect("nothing to do"), 0);
        assert_eq!(tree.load_sorted([("", "")]).expect("room"), 1);
        db.close().expect("closes");
        assert!(matches!(tree.load_sorted([("", ""); 0]), Err(Error::Closed)));
    }
}

#[test]
fn a_pool_that_becomes_full_has_the_first_pairs() {
    let dir = tempfile::tempdir().expect("a directory");
    let options = Options::new().background(false).max_bytes(1 << 20).page_bytes(4096);
    let db = options.open(dir.path().join("p.ever")).expect("a pool");
    let tree = db.tree("t").expect("a tree");
    let outcome = tree.load_sorted((0..1 << 20).map(|n: u32| (n.to_be_bytes(), [1; 50])));
    assert!(matches!(outcome, Err(Error::Full { .. })), "{outcome:?}");
    inspect(&db, "full");
    let keys: Vec<_> = tree.keys().map(|key| key.expect("sound")).collect();
    assert!(keys.iter().enumerate().all(|(n, key)| key[..] == (n as u32).to_be_bytes()));
    // All the room that there is was used.
    let counts = db.count().expect("sound");
    assert!(keys.len() > 8000 && counts.trees[0].fill > 0.95, "{} {counts:?}", keys.len());
    db.close().expect("closes");
    let db = options.open(dir.path().join("p.ever")).expect("a pool");
    assert_eq!(db.tree("t").expect("a tree").iter().count(), keys.len());
    db.close().expect("closes");
    let db = options.read_only(true).open(dir.path().join("p.ever")).expect("a pool");
    let tree = db.open_tree("t").expect("open").expect("a tree");
    assert!(matches!(tree.load_sorted([("", ""); 0]), Err(Error::ReadOnly)));
}

#[test]
fn who_gives_the_pairs_may_use_the_pool() {
    let db = file(1024);
    let (tree, other) = (db.tree("t").expect("a tree"), db.tree("other").expect("a tree"));
    let pairs = (0..5000_u32).map(|n| {
        other.put(n.to_be_bytes(), "seen").expect("room");
        // It reads what it writes, and others write between.
        let pairs = tree.iter().take(3).count();
        tree.put([&n.to_be_bytes()[..], b"!"].concat(), [pairs as u8]).expect("room");
        if n % 1000 == 0 {
            db.sync().expect("a disk");
        }
        (n.to_be_bytes(), [1; 20])
    });
    assert_eq!(tree.load_sorted(pairs).expect("room"), 5000);
    assert_eq!((tree.iter().count(), other.iter().count()), (10_000, 5000));
    inspect(&db, "loaded");
}

#[test]
fn others_read_and_write_while_pairs_are_loaded() {
    const PAIRS: u32 = 40_000;
    let db = file(1024);
    let tree = &db.tree("t").expect("a tree");
    let (is_over, progress) = (&AtomicBool::new(false), &AtomicU32::new(0));
    std::thread::scope(|scope| {
        let writer = scope.spawn(move || {
            let (mut rng, mut own) = (Rng(7), Map::new());
            while !is_over.load(Ordering::Relaxed) || own.len() < 3000 {
                // Where leaves are filled just now, and anywhere.
                let here = progress.load(Ordering::Relaxed).saturating_sub(3000);
                let near = here + rng.below(3100) as u32;
                let n = if rng.one_in(2) { near } else { rng.below(u64::from(PAIRS)) as u32 };
                let key = [&n.to_be_bytes()[..], b"other"].concat();
                tree.put(&key, "1").expect("room");
                own.insert(key, b"1".to_vec());
                if rng.one_in(3) {
                    let key = own.keys().nth(rng.below(own.len() as u64) as usize).cloned();
                    let key = key.expect("there is one");
                    tree.delete(&key).expect("room");
                    own.remove(&key);
                }
            }
            own
        });
        scope.spawn(move || {
            let mut rng = Rng(8);
            while !is_over.load(Ordering::Relaxed) {
                // They come in order.
                let n = rng.next() as u32 % PAIRS;
                if tree.contains(n.to_be_bytes()).expect("sound") {
                    let before = rng.below(u64::from(n) + 1) as u32;
                    assert!(tree.contains(before.to_be_bytes()).expect("sound"), "{before}, {n}");
                    let from = before.to_be_bytes();
                    let range =
                        tree.range(from..n.to_be_bytes()).map(|pair| pair.expect("sound").0);
                    let some: Vec<_> = range.filter(|key| key.len() == 4).take(50).collect();
                    let all = (before..n).take(50).map(|n| n.to_be_bytes().to_vec());
                    assert!(some.into_iter().eq(all), "from {before} to {n}");
                }
            }
        });
        let pairs = (0..PAIRS).map(|n| {
            progress.store(n, Ordering::Relaxed);
            (n.to_be_bytes(), n.to_be_bytes())
        });
        assert_eq!(tree.load_sorted(pairs).expect("room"), u64::from(PAIRS));
        is_over.store(true, Ordering::Relaxed);
        let mut map = writer.join().expect("no panic");
        map.extend((0..PAIRS).map(|n| (n.to_be_bytes().to_vec(), n.to_be_bytes().to_vec())));
        assert!(content(tree) == map);
    });
    inspect(&db, "loaded");
}

#[test]
fn a_load_takes_pairs_references_to_them_and_results_of_them() {
    let dir = tempfile::tempdir().expect("a directory");
    let db = Db::open(dir.path().join("p")).expect("it opens");
    let (from, to) = (db.tree("from").expect("room"), db.tree("to").expect("room"));
    let pairs: Vec<_> = (0..5000_u32).map(|n| (n.to_be_bytes(), [n as u8; 9])).collect();
    assert_eq!(from.load_sorted(&pairs).expect("ascending"), 5000);
    assert_eq!(to.load_sorted(from.iter()).expect("ascending"), 5000);
    assert_eq!(content(&from), content(&to));
    let to = db.tree("map").expect("room");
    assert_eq!(to.load_sorted(&content(&from)).expect("ascending"), 5000);
    assert_eq!(content(&from), content(&to));
    // An error in place of a pair ends the load with what came before, whatever type of error it is.
    #[derive(Debug)]
    struct Mine(String);
    impl From<Error> for Mine {
        fn from(error: Error) -> Self {
            Mine(error.to_string())
        }
    }
    let to = db.tree("part").expect("room");
    let lines = ["a=1", "b=2", "c", "d=4"];
    let parsed = lines.map(|line| line.split_once('=').ok_or_else(|| Mine(line.into())));
    let Mine(line) = to.load_sorted(parsed).expect_err("one line is no pair");
    assert_eq!((&line[..], to.len().expect("sound")), ("c", 2));
    let parsed = [Ok::<_, Mine>(("z", "1")), Ok(("y", "2"))];
    let Mine(error) = to.load_sorted(parsed).expect_err("they do not ascend");
    assert_eq!(error, Error::NotAscending { position: 1 }.to_string());
}

/// A key that is another one from some question on.
struct Fickle {
    asked: Cell<u32>,
    changes_at: u32,
    keys: [Vec<u8>; 2],
}

impl AsRef<[u8]> for Fickle {
    fn as_ref(&self) -> &[u8] {
        let asked = self.asked.replace(self.asked.get() + 1);
        &self.keys[usize::from(asked >= self.changes_at)]
    }
}

#[test]
fn keys_that_change_while_they_are_loaded_leave_a_sound_tree() {
    let mut refused = 0;
    for (changes_at, seed) in (0..8).flat_map(|at| (0..6).map(move |seed| (at, seed))) {
        let db = Db::in_memory().expect("memory");
        let tree = db.tree("t").expect("room");
        let mut rng = Rng(seed);
        let key = |i: u64| {
            let other = match seed {
                0 => Vec::new(),
                1 => (4000 - i).to_be_bytes().to_vec(),
                2 => vec![7; KEY_BYTES_MAX + 1],
                _ => rng.next().to_be_bytes().to_vec(),
            };
            Fickle { asked: Cell::new(0), changes_at, keys: [i.to_be_bytes().to_vec(), other] }
        };
        let loaded = tree.load_sorted((0..4000).map(key).map(|key| (key, "v")));
        let what = format!("from question {changes_at} on, seed {seed}: {loaded:?}");
        assert!(db.check().expect("memory").is_empty(), "{what}");
        let there = tree.len().expect("sound");
        assert_eq!(content(&tree).len() as u64, there, "{what}");
        match loaded {
            Ok(count) => assert_eq!((count, there), (4000, 4000), "{what}"),
            Err(Error::NotAscending { position }) => {
                refused += 1;
                assert_eq!(there, position, "{what}");
            }
            Err(error) => assert!(matches!(error, Error::KeyTooLong { .. }), "{what}"),
        }
    }
    assert!(refused > 10, "{refused}");
}
