//! Operations that look before they write: against a map on both media, and by many threads at once.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use everleaf::{Bytes, Db, Error, KEY_BYTES_MAX, Options, Storage, Swap, Tree, VALUE_BYTES_MAX};
use everleaf_file::io::SimIo;
use everleaf_testing::vecs;

use crate::cut;
use crate::cut::disk::Disk;
use crate::cut::{Rng, inspect};

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

fn file(disk: &Disk) -> Db {
    let options = Options::new().background(false).max_bytes(256 << 20).page_bytes(1024);
    options.open_on(Arc::new(disk.clone()), cut::PATH).expect("opens")
}

fn dax(dir: &Path) -> Db {
    let options = Options::new().storage(Storage::EmulatedDax).max_bytes(128 << 20);
    options.page_bytes(512).open(dir.join("pool")).expect("opens")
}

/// Runs a test on both media.
fn on_both(test: impl Fn(&Db)) {
    let dir = tempfile::tempdir().expect("a directory");
    for db in [file(&Disk::new(SimIo::new(1))), dax(dir.path())] {
        test(&db);
        inspect(&db, "afterwards");
    }
}

fn number(value: &[u8]) -> u64 {
    u64::from_be_bytes(value.try_into().expect("a number"))
}

/// Few keys, so that they meet: the empty one, short ones, long ones that begin alike.
fn some_key(rng: &mut Rng, keys: u64) -> Vec<u8> {
    let n = rng.below(keys);
    let mut key = n.to_be_bytes()[7 - (n % 2) as usize..].to_vec();
    match n % 16 {
        0 if n == 0 => key.clear(),
        1 => key.splice(0..0, vec![b'l'; 400]).for_each(drop),
        2 if n < 40 => key.resize(KEY_BYTES_MAX, b'k'),
        _ => {}
    }
    key
}

/// Few values of each length, so that an expected one is often the one that is there.
fn some_value(rng: &mut Rng) -> Vec<u8> {
    let len = rng.pick(&[0, 0, 1, 8, 8, 60, 200, 300, 900, 1024, 3000, 70_000]);
    vec![rng.below(2) as u8; len]
}

fn some_bound(rng: &mut Rng, keys: u64) -> Bound<Vec<u8>> {
    let key = some_key(rng, keys);
    rng.pick(&[Bound::Included(()), Bound::Excluded(()), Bound::Unbounded]).map(|()| key)
}

/// The pairs of a range, which may end before it begins.
fn within(map: &Map, range: &(Bound<Vec<u8>>, Bound<Vec<u8>>)) -> Vec<Vec<u8>> {
    use std::ops::RangeBounds;
    map.keys().filter(|key| range.contains(*key)).cloned().collect()
}

fn set(map: &mut Map, key: &[u8], value: Option<Vec<u8>>) {
    match value {
        Some(value) => drop(map.insert(key.to_vec(), value)),
        None => drop(map.remove(key)),
    }
}

fn conditional(tree: &Tree, map: &mut Map, rng: &mut Rng, keys: u64) {
    let (key, value) = (some_key(rng, keys), some_value(rng));
    let there = map.contains_key(&key);
    if rng.one_in(2) {
        assert_eq!(tree.insert_new(&key, &value).expect("room"), !there);
        map.entry(key).or_insert(value);
    } else {
        assert_eq!(tree.replace(&key, &value).expect("room"), there);
        if there {
            map.insert(key, value);
        }
    }
}

fn swap(tree: &Tree, map: &mut Map, rng: &mut Rng, keys: u64) {
    let key = some_key(rng, keys);
    let old = map.get(&key).cloned();
    let guessed = (!rng.one_in(3)).then(|| some_value(rng));
    let expected = if rng.one_in(2) { old.clone() } else { guessed };
    let new = (!rng.one_in(3)).then(|| some_value(rng));
    let swap = tree.compare_and_swap(&key, expected.as_ref(), new.as_ref()).expect("room");
    if expected == old {
        assert_eq!(swap, Swap::Done);
        set(map, &key, new);
    } else {
        assert_eq!(swap, Swap::Found(old.map(Bytes::from)));
    }
}

fn update(tree: &Tree, map: &mut Map, rng: &mut Rng, keys: u64) {
    let key = some_key(rng, keys);
    let old = map.get(&key).cloned();
    let new = if rng.one_in(4) { old.clone() } else { Some(some_value(rng)) };
    let new = if rng.one_in(4) { None } else { new };
    let mut calls = 0;
    let updated = tree.update(&key, |found| {
        calls += 1;
        assert_eq!(found, old.as_deref());
        new.clone()
    });
    assert_eq!((updated.expect("room"), calls), (new.clone(), 1));
    set(map, &key, new);
}

fn against_a_map(db: &Db, seed: u64, operations: u32) {
    let (mut rng, mut map) = (Rng(seed), Map::new());
    let tree = db.tree("t").expect("room");
    for n in 0..operations {
        let keys = if n % 1000 < 500 { 60 } else { 600 };
        match rng.below(100) {
            0..45 => conditional(&tree, &mut map, &mut rng, keys),
            45..65 => swap(&tree, &mut map, &mut rng, keys),
            65..80 => update(&tree, &mut map, &mut rng, keys),
            80..89 => assert_eq!(tree.pop_first().expect("sound").map(vecs), map.pop_first()),
            89..98 => assert_eq!(tree.pop_last().expect("sound").map(vecs), map.pop_last()),
            98 => {
                let range = (some_bound(&mut rng, keys), some_bound(&mut rng, keys));
                let gone = within(&map, &range);
                assert_eq!(tree.remove_range(range).expect("sound"), gone.len() as u64);
                gone.iter().for_each(|key| drop(map.remove(key)));
            }
            _ if n % 7 == 0 => {
                assert_eq!(tree.clear().expect("sound"), map.len() as u64);
                map.clear();
            }
            _ => assert!(tree.iter().map(|pair| vecs(pair.expect("sound"))).eq(map.clone())),
        }
    }
    assert!(tree.iter().map(|pair| vecs(pair.expect("sound"))).eq(map));
}

#[test]
fn single_operations_do_what_a_map_does() {
    for seed in 0..3 {
        on_both(|db| against_a_map(db, seed, 4000));
    }
}

#[test]
fn what_single_operations_did_is_there_after_a_power_cut() {
    let disk = Disk::new(SimIo::new(7));
    let db = file(&disk);
    let tree = db.tree("t").expect("room");
    assert!(tree.insert_new("a", vec![1; 100_000]).expect("room"));
    assert!(tree.replace("a", vec![2; 100_000]).expect("room"));
    let swap = tree.compare_and_swap("a", Some(vec![2; 100_000]), Some(b"short".to_vec()));
    assert_eq!(swap.expect("room"), Swap::Done);
    tree.put("b", vec![3; 5000]).expect("room");
    tree.put("c", "last").expect("room");
    assert_eq!(tree.pop_last().expect("sound"), Some(("c".into(), "last".into())));
    db.sync().expect("no fault");
    // The next changes are in an epoch that does not end.
    assert!(tree.pop_first().expect("sound").is_some());
    assert_eq!(tree.clear().expect("sound"), 1);
    assert!(tree.insert_new("d", "lost").expect("room"));
    let left = disk.sim.power_cut(3);
    drop((tree, db));
    let db = file(&Disk::new(left));
    let tree = db.open_tree("t").expect("sound").expect("there");
    let pairs: Vec<_> = tree.iter().map(|pair| vecs(pair.expect("sound"))).collect();
    assert_eq!(pairs, [(b"a".to_vec(), b"short".to_vec()), (b"b".to_vec(), vec![3; 5000])]);
    inspect(&db, "after the cut");
}

#[test]
fn what_is_too_long_or_read_only_is_refused() {
    on_both(|db| {
        let tree = db.tree("t").expect("room");
        let long = vec![0; KEY_BYTES_MAX + 1];
        let is_long = |error| matches!(error, Error::KeyTooLong { .. });
        assert!(tree.insert_new(&long, "").is_err_and(is_long));
        assert!(tree.replace(&long, "").is_err_and(is_long));
        assert!(tree.compare_and_swap(&long, Some(""), Some("")).is_err_and(is_long));
        assert!(tree.update(&long, |_| unreachable!("refused before")).is_err_and(is_long));
        // A bound may have any length.
        tree.put("a", "1").expect("room");
        assert_eq!(tree.remove_range(&long[..]..).expect("sound"), 1);
    });
    let dir = tempfile::tempdir().expect("a directory");
    let options = Options::new().storage(Storage::EmulatedDax).max_bytes(16 << 20);
    for (name, options) in [("file", Options::new()), ("dax", options)] {
        let path = dir.path().join(name);
        options.open(&path).and_then(|db| db.tree("t")?.put("a", "1")).expect("room");
        let db = options.read_only(true).open(&path).expect("opens");
        let tree = db.open_tree("t").expect("sound").expect("there");
        let refused = |error| matches!(error, Error::ReadOnly);
        // Also where nothing would be written.
        assert!(tree.insert_new("a", "2").is_err_and(refused));
        assert!(tree.insert_new("a", vec![0; 100_000]).is_err_and(refused));
        assert!(tree.replace("b", "2").is_err_and(refused));
        assert!(tree.compare_and_swap("a", Some("2"), Some("3")).is_err_and(refused));
        assert!(tree.update("a", |old| old.map(<[u8]>::to_vec)).is_err_and(refused));
        assert!(tree.pop_first().is_err_and(refused) && tree.pop_last().is_err_and(refused));
        assert!(tree.remove_range("b"..).is_err_and(refused) && tree.clear().is_err_and(refused));
        assert_eq!(tree.iter().count(), 1);
    }
}

#[test]
fn a_new_value_that_is_too_long_is_refused() {
    if usize::BITS < 64 {
        return;
    }
    on_both(|db| {
        let tree = db.tree("t").expect("room");
        // Of zeros: the system gives no memory for it before somebody looks.
        let long = vec![0; VALUE_BYTES_MAX + 1];
        let is_long = |error| matches!(error, Error::ValueTooLong { .. });
        assert!(tree.insert_new("a", &long).is_err_and(is_long));
        assert!(tree.replace("a", &long).is_err_and(is_long));
        assert!(tree.compare_and_swap("a", None, Some(&long)).is_err_and(is_long));
        let mut long = Some(long);
        assert!(tree.update("a", |_| long.take()).is_err_and(is_long));
        // An expected one is only not there.
        let long = vec![0; VALUE_BYTES_MAX + 1];
        let found = tree.compare_and_swap("a", Some(long), None).expect("sound");
        assert_eq!(found, Swap::Found(None));
    });
}

#[test]
fn an_update_that_panics_or_is_overtaken_changes_nothing_by_itself() {
    on_both(|db| {
        let tree = db.tree("t").expect("room");
        for old in [vec![1; 3], vec![1; 100_000]] {
            tree.put("k", &old).expect("room");
            let update = || tree.update("k", |_| panic!("the user's"));
            assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(update)).is_err());
            assert_eq!(tree.get("k").expect("sound"), Some(old.clone().into()));
            // The pool may be used, also this very key.
            let mut calls = 0;
            let updated = tree.update("k", |found| {
                calls += 1;
                if calls == 1 {
                    tree.put("k", "between").expect("room");
                }
                let mut new = found.expect("there").to_vec();
                new.push(9);
                Some(new)
            });
            assert_eq!(updated.expect("room").as_deref(), Some(&b"between\x09"[..]));
            assert_eq!(calls, 2);
        }
    });
}

/// Four threads put, four take: each pair comes out once, and each thread's pairs in their order.
fn queue(db: &Db, value_bytes: usize, end: fn(&Tree) -> everleaf::Result<Option<everleaf::Pair>>) {
    const EACH: u64 = 2000;
    let tree = db.tree("queue").expect("room");
    let (left, popped) = (AtomicU64::new(4 * EACH), AtomicU64::new(0));
    let taken: Vec<_> = thread::scope(|threads| {
        for thread in 0..4_u64 {
            let tree = &tree;
            threads.spawn(move || {
                for n in 0..EACH {
                    let key = n.to_be_bytes().into_iter().chain([thread as u8]);
                    let mut value = vec![thread as u8; value_bytes];
                    value.extend(n.to_be_bytes());
                    assert!(tree.insert_new(key.collect::<Vec<_>>(), value).expect("room"));
                }
            });
        }
        let takers = [(); 4].map(|()| {
            threads.spawn(|| {
                let mut taken = Vec::new();
                while left.load(Ordering::Relaxed) > 0 {
                    match end(&tree).expect("sound") {
                        Some(pair) => {
                            left.fetch_sub(1, Ordering::Relaxed);
                            popped.fetch_add(1, Ordering::Relaxed);
                            taken.push(pair);
                        }
                        None => thread::yield_now(),
                    }
                }
                taken
            })
        });
        takers.map(|taker| taker.join().expect("no panic")).into_iter().flatten().collect()
    });
    assert_eq!(taken.len() as u64, 4 * EACH);
    let once: BTreeMap<_, _> = taken.into_iter().collect();
    assert_eq!(once.len() as u64, 4 * EACH, "a pair came out twice");
    for (key, value) in once {
        let (n, thread) = (number(&key[..8]), key[8]);
        let (fill, counted) = value.split_at(value_bytes);
        assert!(fill.iter().all(|byte| *byte == thread) && number(counted) == n);
    }
    assert_eq!(end(&tree).expect("sound"), None);
    db.drop_tree("queue").expect("sound");
}

#[test]
fn threads_that_drain_a_queue_get_each_pair_once() {
    on_both(|db| {
        queue(db, 20, Tree::pop_first);
        queue(db, 300, Tree::pop_last);
    });
}

#[test]
fn counters_of_many_threads_lose_no_step() {
    const EACH: u64 = 1500;
    on_both(|db| {
        let tree = db.tree("counters").expect("room");
        // Short ones, and one that is large.
        for pad in [0, 40_000] {
            let steps = if pad == 0 { EACH } else { EACH / 30 };
            tree.clear().expect("sound");
            let next = |old: Option<&[u8]>| {
                let n = old.map_or(0, |old| number(&old[..8])) + 1;
                let mut new = n.to_be_bytes().to_vec();
                new.resize(8 + pad, n as u8);
                new
            };
            thread::scope(|threads| {
                for thread in 0..4 {
                    let tree = &tree;
                    threads.spawn(move || {
                        for _ in 0..steps {
                            if thread % 2 == 0 {
                                tree.update("n", |old| Some(next(old))).expect("room");
                                continue;
                            }
                            let mut old = tree.get("n").expect("sound");
                            loop {
                                let new = next(old.as_deref());
                                let swap = tree.compare_and_swap("n", old, Some(new.into()));
                                match swap.expect("room") {
                                    Swap::Done => break,
                                    Swap::Found(now) => old = now,
                                }
                            }
                        }
                    });
                }
            });
            let counted = tree.get("n").expect("sound").expect("there");
            assert_eq!(number(&counted[..8]), 4 * steps);
        }
    });
}

/// A pair behind the end never comes out before one at the end that was there all the time.
#[test]
fn a_pop_passes_no_pair_that_is_nearer_to_the_end() {
    on_both(|db| {
        let tree = db.tree("t").expect("room");
        let ended = AtomicBool::new(false);
        // Leaves beside the ends empty themselves all the time.
        for n in 0..400_u32 {
            tree.put(n.to_be_bytes(), [7; 50]).expect("room");
        }
        thread::scope(|threads| {
            for (key, behind) in [(0, 1..100_u32), (399, 300..399)] {
                let (tree, ended) = (&tree, &ended);
                threads.spawn(move || {
                    while !ended.load(Ordering::Relaxed) {
                        for n in behind.clone() {
                            tree.delete(u32::to_be_bytes(n)).expect("sound");
                        }
                        for n in behind.clone() {
                            tree.put(u32::to_be_bytes(n), [8; 50]).expect("room");
                        }
                        assert!(tree.contains(u32::to_be_bytes(key)).is_ok());
                    }
                });
            }
            for n in 0..2000 {
                let (popped, key) = match n % 2 {
                    0 => (tree.pop_first(), 0_u32),
                    _ => (tree.pop_last(), 399),
                };
                let (found, _) = popped.expect("sound").expect("there");
                assert_eq!(found, key.to_be_bytes());
                assert!(tree.insert_new(key.to_be_bytes(), "again").expect("room"));
            }
            ended.store(true, Ordering::Relaxed);
        });
    });
}
