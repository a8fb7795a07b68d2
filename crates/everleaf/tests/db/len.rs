//! How many pairs a tree has: beside writers, in all that writes, and after any end of a pool.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use everleaf::{Db, Error, Options, Storage};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::pools::{on_each, options};

fn open(path: &Path, storage: Storage) -> Db {
    options(storage).open(path).expect("opens")
}

/// Each operation once in a while, of few keys, so that many find what they look for.
fn operate(db: &Db, name: &str, keys: &mut BTreeSet<u64>, rng: &mut Xoshiro256PlusPlus) {
    let tree = db.tree(name).expect("room");
    let n = rng.random_range(0..200_u64);
    let (key, value) = (n.to_be_bytes(), vec![7; rng.random_range(0..600)]);
    match rng.random_range(0..13) {
        0..4 => tree.put(key, value).map(drop),
        4 => tree.insert(key, value).map(drop),
        5 => tree.insert_new(key, value).map(drop),
        6 => tree.put_from(key, &value[..], value.len() as u64),
        7 => tree.update(key, |_| Some(value.clone())).map(drop),
        8 => {
            let mut batch = db.batch();
            batch.put(&tree, key, &value).expect("within limits");
            batch.put(&tree, (n / 2).to_be_bytes(), &value).expect("within limits");
            batch.delete(&tree, (n + 1).to_be_bytes()).expect("within limits");
            batch.commit().expect("room");
            keys.extend([n, n / 2]);
            keys.remove(&(n + 1));
            return;
        }
        9 => {
            let some = n + 1..n + rng.random_range(2..120);
            let pairs = some.clone().map(|n| (n.to_be_bytes(), vec![8; 40]));
            tree.load_sorted(pairs).expect("room");
            keys.extend(some);
            return;
        }
        10 => {
            tree.delete(key).expect("room");
            keys.remove(&n);
            return;
        }
        11 => {
            let popped = tree.pop_first().expect("room");
            assert_eq!(
                popped.map(|(key, _)| key),
                keys.pop_first().map(|n| n.to_be_bytes().into())
            );
            return;
        }
        _ => {
            tree.remove_range(key..(n + 9).to_be_bytes()).expect("room");
            keys.retain(|key| !(n..n + 9).contains(key));
            return;
        }
    }
    .expect("room");
    keys.insert(n);
}

#[test]
fn the_count_is_that_of_the_pairs_whatever_ends_the_pool() {
    on_each(|path, storage| {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
        let (mut a, mut b) = (BTreeSet::new(), BTreeSet::new());
        for round in 0..12 {
            let db = open(path, storage);
            for _ in 0..rng.random_range(0..400) {
                let (name, keys) = if rng.random() { ("a", &mut a) } else { ("b", &mut b) };
                operate(&db, name, keys, &mut rng);
                let tree = db.tree(name).expect("room");
                assert_eq!(tree.len().expect("open"), keys.len() as u64, "round {round}");
                assert_eq!(tree.is_empty().expect("open"), keys.is_empty());
                if rng.random_range(0..100) == 0 {
                    db.checkpoint().expect("room");
                }
            }
            db.sync().expect("room");
            match round % 3 {
                0 => db.close().expect("room"),
                1 => drop(db),
                _ => db.abandon().expect("no batch"),
            }
            let db = Options::new().storage(storage).read_only(true).open(path).expect("opens");
            for (name, keys) in [("a", &a), ("b", &b)] {
                let Some(tree) = db.open_tree(name).expect("readable") else { continue };
                assert_eq!(tree.len().expect("open"), keys.len() as u64, "round {round}");
            }
        }
    });
}

#[test]
fn what_was_not_durable_is_not_counted() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("pool");
    let open = || Options::new().background(false).open(&path).expect("opens");
    for round in 0..4_u64 {
        let db = open();
        let tree = db.tree("t").expect("room");
        assert_eq!(tree.len().expect("open"), 100 * round);
        for n in 0..100 {
            tree.put((round * 100 + n).to_be_bytes(), "").expect("room");
        }
        db.sync().expect("room");
        if round == 2 {
            db.checkpoint().expect("room");
        }
        for n in 0..50_u64 {
            tree.delete(n.to_be_bytes()).expect("room");
        }
        assert_eq!(tree.len().expect("open"), 100 * round + 50);
        db.abandon().expect("no batch");
    }
    assert_eq!(open().tree("t").expect("room").len().expect("open"), 400);
}

/// Epochs that end while a checkpoint writes are in its root, and in the journal behind it.
#[test]
fn what_ends_beside_a_checkpoint_is_counted_once() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("pool");
    let mut all = 0;
    for round in 0..20_u64 {
        let db = Options::new().open(&path).expect("opens");
        let tree = db.tree("t").expect("room");
        assert_eq!(tree.len().expect("open"), all, "before round {round}");
        let ended = AtomicBool::new(false);
        thread::scope(|scope| {
            let checkpoints = scope.spawn(|| {
                (0..4).for_each(|_| db.checkpoint().expect("room"));
                ended.store(true, Ordering::Relaxed);
            });
            while !ended.load(Ordering::Relaxed) {
                (0..40_u64).for_each(|i| tree.put((all + i).to_be_bytes(), "").expect("room"));
                db.sync().expect("room");
                all += 40;
            }
            checkpoints.join().expect("no panic");
        });
        db.abandon().expect("no batch");
    }
    let db = Options::new().open(&path).expect("opens");
    let tree = db.tree("t").expect("room");
    assert_eq!((tree.len().expect("open"), tree.iter().count() as u64), (all, all));
}

#[test]
fn a_batch_is_counted_whole_or_not() {
    on_each(|path, storage| {
        let db = open(path, storage);
        let tree = db.tree("t").expect("room");
        let ends = AtomicBool::new(false);
        thread::scope(|scope| {
            for first in [0, 1000_u64] {
                let (db, tree, ends) = (&db, &tree, &ends);
                scope.spawn(move || {
                    while !ends.load(Ordering::Relaxed) {
                        for adds in [true, false] {
                            let mut batch = db.batch();
                            for n in first..first + 10 {
                                let key = n.to_be_bytes();
                                let change = match adds {
                                    true => batch.put(tree, key, "v"),
                                    false => batch.delete(tree, key),
                                };
                                change.expect("within limits");
                            }
                            batch.commit().expect("room");
                        }
                    }
                });
            }
            for _ in 0..2000 {
                let len = tree.len().expect("open");
                assert!(matches!(len, 0 | 10 | 20), "{storage:?}: {len}");
            }
            ends.store(true, Ordering::Relaxed);
        });
    });
}

#[test]
fn a_tree_with_the_page_of_another_begins_at_none() {
    on_each(|path, storage| {
        let db = open(path, storage);
        for round in 0..5 {
            let tree = db.tree("t").expect("room");
            assert_eq!(tree.len().expect("open"), 0, "round {round}");
            (0..round * 10_u32).for_each(|n| tree.put(n.to_be_bytes(), "v").expect("room"));
            assert_eq!(tree.len().expect("open"), u64::from(round) * 10);
            db.drop_tree("t").expect("room");
            assert!(matches!(tree.len(), Err(Error::NoTree)));
        }
    });
}
