//! Bytes that reads give stay as they are: behind the cursor, the leaf, the tree and the Db, and in other threads.

use std::thread;

use everleaf::{Bytes, Db, Options, Pair, ReadTree, Swap, Tree};

/// Lengths of keys and values: in place, in a room that pairs share, of an allocation of their own, and of large values.
const PAIRS: [(usize, usize); 8] =
    [(4, 8), (30, 30), (31, 31), (16, 100), (90, 8), (300, 500), (700, 1016), (20, 40_000)];
/// So many pairs.
const COUNT: u32 = 200;

fn key(n: u32, bytes: usize) -> Vec<u8> {
    let mut key = n.to_be_bytes().to_vec();
    key.resize(bytes, 5);
    key
}

fn value(n: u32, bytes: usize) -> Vec<u8> {
    vec![n as u8; bytes]
}

fn open(bytes: (usize, usize)) -> (Db, Tree) {
    let db = Options::new().in_memory().expect("memory");
    let tree = db.tree("t").expect("room");
    (0..COUNT).for_each(|n| tree.put(key(n, bytes.0), value(n, bytes.1)).expect("room"));
    (db, tree)
}

fn all(tree: &impl ReadTree) -> Vec<Pair> {
    let up: Vec<_> = tree.iter().map(|pair| pair.expect("sound")).collect();
    let mut down: Vec<_> = tree.iter().rev().map(|pair| pair.expect("sound")).collect();
    down.reverse();
    assert_eq!(up, down);
    let keys: Vec<_> = tree.keys().map(|key| key.expect("sound")).collect();
    assert!(keys.iter().eq(up.iter().map(|(key, _)| key)));
    up
}

#[track_caller]
fn expect_first_values(pairs: &[Pair], bytes: (usize, usize)) {
    assert_eq!(pairs.len(), COUNT as usize);
    for (n, (found_key, found)) in (0..).zip(pairs) {
        assert!(*found_key == key(n, bytes.0) && *found == value(n, bytes.1), "{bytes:?}: {n}");
    }
}

#[test]
fn pairs_outlive_the_iterator_later_writes_of_their_leaf_the_tree_and_the_db() {
    for bytes in PAIRS {
        let (db, tree) = open(bytes);
        let mut pairs = all(&tree);
        // One pair at a time, whose leaf changes before the next one.
        for n in 0..COUNT {
            let mut range = tree.range(key(n, bytes.0)..);
            pairs.push(range.next().expect("there").expect("sound"));
            tree.put(key(n, bytes.0), value(n + 1, bytes.1)).expect("room");
            let other = range.next();
            assert_eq!(other.is_some(), n + 1 < COUNT);
        }
        let ends = [tree.first(), tree.last(), tree.floor("\u{7f}"), tree.ceiling("")];
        let ends = ends.map(|pair| pair.expect("sound").expect("there"));
        let got = tree.get(key(5, bytes.0)).expect("sound").expect("there");
        let many = tree.get_many([key(5, bytes.0), key(6, bytes.0)]).expect("sound");
        let replaced = tree.insert(key(5, bytes.0), "new").expect("room").expect("there");
        let swap = tree.compare_and_swap(key(6, bytes.0), None, Some("new")).expect("room");
        let removed = tree.remove(key(6, bytes.0)).expect("room").expect("there");
        let popped = tree.pop_first().expect("sound").expect("there");
        tree.clear().expect("room");
        (0..COUNT).for_each(|n| tree.put(key(n, bytes.0), [9; 40]).expect("room"));
        assert!(db.drop_tree("t").expect("writable"));
        drop(tree);
        db.close().expect("no fault");
        assert!(got == value(6, bytes.1) && replaced == got && removed == value(7, bytes.1));
        assert_eq!(swap, Swap::Found(Some(removed.clone())));
        assert_eq!(many, [Some(got), Some(removed)]);
        let again = pairs.split_off(COUNT as usize);
        expect_first_values(&pairs, bytes);
        expect_first_values(&again, bytes);
        let (first, last) = ((key(0, bytes.0), value(1, bytes.1)), key(COUNT - 1, bytes.0));
        let [low, high, floor, ceiling] = &ends;
        assert!(popped.0 == first.0 && popped.1 == first.1);
        assert!(*low == popped && *ceiling == popped && high.0 == last && floor == high);
    }
}

#[test]
fn pairs_of_a_moment_and_of_a_transaction_stay_too() {
    for bytes in PAIRS {
        let (db, tree) = open(bytes);
        let snapshot = db.snapshot().expect("open");
        // Some keys have another value than at the moment, and some are the transaction's own.
        (0..COUNT).step_by(3).for_each(|n| tree.put(key(n, bytes.0), "later").expect("room"));
        let of_moment = all(&snapshot.of(&tree).expect("its own"));
        (0..COUNT).step_by(3).for_each(|n| {
            tree.put(key(n, bytes.0), value(n, bytes.1)).expect("room");
        });
        let tx = db.begin();
        for n in (0..COUNT).step_by(2) {
            tx.put(&tree, key(n, bytes.0), value(n, bytes.1)).expect("room");
        }
        let of_transaction = all(&tx.of(&tree).expect("its own"));
        drop((tx, snapshot));
        db.close().expect("no fault");
        expect_first_values(&of_moment, bytes);
        expect_first_values(&of_transaction, bytes);
    }
}

#[test]
fn pairs_go_to_other_threads_while_the_iterator_goes_on() {
    for bytes in PAIRS {
        let (_db, tree) = open(bytes);
        thread::scope(|scope| {
            let (give, given) = std::sync::mpsc::sync_channel::<Pair>(7);
            let reader = scope.spawn(move || {
                let kept: Vec<_> = given.into_iter().collect();
                expect_first_values(&kept, bytes);
                kept.into_iter().step_by(9).collect::<Vec<_>>()
            });
            for pair in &tree {
                give.send(pair.expect("sound")).expect("it listens");
            }
            drop(give);
            let few = reader.join().expect("no panic");
            assert!((0..).step_by(9).zip(&few).all(|(n, pair)| pair.1 == value(n, bytes.1)));
        });
    }
}

#[test]
fn what_is_read_is_a_key_and_a_value_again() {
    for bytes in PAIRS {
        let (db, tree) = open(bytes);
        let other = db.tree("other").expect("room");
        let pairs: Vec<Pair> = tree.iter().collect::<Result<_, _>>().expect("sound");
        for (key, value) in &pairs[..50] {
            other.put(key, value).expect("room");
        }
        let mut batch = db.batch();
        for (key, value) in pairs[50..100].iter().cloned() {
            batch.put(&other, key, value).expect("memory");
        }
        batch.commit().expect("room");
        other.load_sorted(&pairs[100..150]).expect("room");
        other.load_sorted(tree.range(&pairs[150].0..)).expect("room");
        expect_first_values(&all(&other), bytes);
        let (from, to) = (pairs[10].0.clone(), pairs[20].0.clone());
        assert_eq!(other.range(&from..&to).count(), 10);
        assert_eq!(other.range(from..=to).count(), 11);
        assert_eq!(
            other.prefix(&pairs[7].0).next().transpose().expect("sound"),
            Some(pairs[7].clone())
        );
        let removed = pairs.iter().filter(|(key, _)| other.contains(key).expect("sound"));
        assert_eq!(removed.map(|(key, _)| other.delete(key).expect("room")).count(), pairs.len());
        assert_eq!(other.first().expect("sound"), None);
    }
    let none: Bytes = everleaf::Bytes::default();
    assert!(none.is_empty() && none.into_vec().is_empty());
}
