//! Transactions that read without a cut at first: what others change under them has them begin again, with one.

use std::collections::BTreeMap;

use everleaf::{Db, Error, Result, Transaction, TransactionOptions, Tree};
use everleaf_testing::Rng;

/// A pool with a tree of pairs in many leaves, each with its key as its value.
fn pool() -> (Db, Tree) {
    let db = Db::in_memory().expect("memory");
    let tree = db.tree("t").expect("room");
    for n in 0..5_000_u32 {
        tree.put(key(n), key(n)).expect("room");
    }
    (db, tree)
}

fn key(n: u32) -> [u8; 4] {
    n.to_be_bytes()
}

/// A key in another leaf each time.
fn far(n: u32) -> [u8; 4] {
    key(500 * n)
}

/// Runs a transaction, and says how often it ran, and what came of it.
fn ran<T>(db: &Db, mut run: impl FnMut(&Transaction, u32) -> Result<T>) -> (u32, Result<T>) {
    let mut attempts = 0;
    let done = db.transact(|tx| {
        attempts += 1;
        run(tx, attempts)
    });
    (attempts, done)
}

#[test]
fn nobody_keeps_anything_for_a_first_attempt_that_reads_keys() {
    let (db, tree) = pool();
    let (attempts, done) = ran(&db, |tx, _| {
        for n in 0..8 {
            assert_eq!(tx.get(&tree, far(n))?.as_deref(), Some(&far(n)[..]));
        }
        assert_eq!(tx.get(&tree, "none")?, None);
        tx.put(&tree, far(9), "new")?;
        tree.put(key(4_999), "other")?;
        Ok(db.stats()?.snapshot_values)
    });
    // The ninth key took a cut.
    assert_eq!((attempts, done.expect("nobody is in the way")), (1, 1));
    let (_, kept) = ran(&db, |tx, _| {
        tx.get(&tree, far(0))?;
        tree.put(key(4_999), "again")?;
        Ok(db.stats()?.snapshot_values)
    });
    assert_eq!(kept.expect("nobody is in the way"), 0);
    assert_eq!(tree.get(far(9)).expect("sound").as_deref(), Some(&b"new"[..]));
}

/// A step of the transaction after another thread has changed what it has read: each way is refused, and tried again.
type Way = fn(&Transaction, &Tree) -> Result<()>;

#[test]
fn whatever_comes_after_a_read_that_is_not_true_any_more_begins_again() {
    let ways: [(&str, Way); 7] = [
        ("a key", |tx, tree| tx.get(tree, far(1)).map(drop)),
        ("the same key", |tx, tree| tx.get(tree, far(0)).map(drop)),
        ("whether a key is there", |tx, tree| tx.contains(tree, far(1)).map(drop)),
        ("a range", |tx, tree| {
            tx.range(tree, far(2)..).take(3).try_for_each(|pair| pair.map(drop))
        }),
        ("a cursor", |tx, tree| tx.cursor(tree).first().map(drop)),
        ("a count", |tx, tree| tx.len(tree).map(drop)),
        ("a commit", |tx, tree| tx.put(tree, far(3), "new")),
    ];
    for (what, way) in ways {
        let (db, tree) = pool();
        let (attempts, done) = ran(&db, |tx, attempt| {
            let before = tx.get(&tree, far(0))?;
            if attempt == 1 {
                tree.put(far(0), "changed")?;
            }
            let was = way(tx, &tree);
            let is_refused = matches!(was, Err(Error::Conflict { .. }));
            assert_eq!(is_refused, attempt == 1 && what != "a commit", "{what}: {was:?}");
            // Also for who does not hear of it.
            Ok(before)
        });
        let before = done.unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!((attempts, before.as_deref()), (2, Some(&b"changed"[..])), "{what}");
        assert_eq!(db.stats().expect("open").snapshots, 0, "{what}");
    }
}

#[test]
fn a_tree_that_is_cleared_or_dropped_is_not_as_it_was_read() {
    for drops in [false, true] {
        let (db, tree) = pool();
        let other = db.tree("other").expect("room");
        other.put("a", "1").expect("room");
        let (attempts, done) = ran(&db, |tx, attempt| {
            let was = tx.get(&tree, far(0));
            if attempt == 1 && drops {
                db.drop_tree("t")?;
            } else if attempt == 1 {
                tree.clear()?;
            }
            tx.get(&other, "a")?;
            was
        });
        match done {
            Ok(found) => assert!(!drops && found.is_none()),
            Err(error) => assert!(drops && matches!(error, Error::NoTree), "{error}"),
        }
        assert_eq!(attempts, 2);
    }
}

#[test]
fn what_may_run_once_only_has_a_cut() {
    let (db, tree) = pool();
    let options = TransactionOptions::new().attempts(1);
    let read = db.transact_with(options, |tx| {
        let before = tx.get(&tree, far(0))?;
        tree.put(far(0), "changed")?;
        assert_eq!(tx.get(&tree, far(0))?, before);
        tx.get(&tree, far(1))
    });
    assert_eq!(read.expect("it only reads").as_deref(), Some(&far(1)[..]));
}

/// A writer gives two keys the same number, a higher one each time.
#[test]
fn whoever_has_read_a_part_of_a_commit_ends_after_it() {
    let (db, tree) = pool();
    let number = |value: Option<everleaf::Bytes>| {
        u64::from_be_bytes(value.expect("a pair").try_into().expect("eight bytes"))
    };
    let write = |i: u64| {
        let mut batch = db.batch();
        (0..2).try_for_each(|n| batch.put(&tree, far(n), i.to_be_bytes())).expect("room");
        batch.commit().expect("room");
    };
    write(0);
    let is_done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let read = |n| number(db.transact(|tx| tx.get(&tree, far(n))).expect("it only reads"));
            let mut pairs = 0_u64;
            while !is_done.load(std::sync::atomic::Ordering::Relaxed) || pairs == 0 {
                let (first, second) = if pairs.is_multiple_of(2) { (0, 1) } else { (1, 0) };
                let before = read(first);
                let after = read(second);
                assert!(before <= after, "{before} had been read before {after}");
                pairs += 1;
            }
        });
        (1..20_000).for_each(write);
        is_done.store(true, std::sync::atomic::Ordering::Relaxed);
        reader.join().expect("no panic");
    });
}

/// Two keys of which the sum stays, in leaves of their own, and readers that find it so whatever they meet.
#[test]
fn readers_beside_commits_and_batches_see_all_of_each_or_nothing() {
    let (db, tree) = pool();
    for n in 0..2 {
        tree.put(far(n), 100_u64.to_le_bytes()).expect("room");
    }
    let number = |value: Option<everleaf::Bytes>| {
        u64::from_le_bytes(value.expect("a pair").try_into().expect("eight bytes"))
    };
    let is_done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut sums = 0_u64;
            while !is_done.load(std::sync::atomic::Ordering::Relaxed) || sums == 0 {
                let order = if sums.is_multiple_of(2) { [0, 1] } else { [1, 0] };
                let sum = db.transact(|tx| {
                    let mut sum = 0;
                    for n in order {
                        sum += number(tx.get(&tree, far(n))?);
                    }
                    Ok(sum)
                });
                assert_eq!(sum.expect("it is tried again"), 200);
                sums += 1;
            }
        });
        for i in 0..5_000_u64 {
            let (a, b) = (i % 201, 200 - i % 201);
            if i % 2 == 0 {
                let mut batch = db.batch();
                batch.put(&tree, far(0), a.to_le_bytes()).expect("room");
                batch.put(&tree, far(1), b.to_le_bytes()).expect("room");
                batch.commit().expect("room");
            } else {
                let moved = db.transact(|tx| {
                    tx.get(&tree, far(0))?;
                    tx.put(&tree, far(0), a.to_le_bytes())?;
                    tx.put(&tree, far(1), b.to_le_bytes())
                });
                moved.expect("room");
            }
        }
        is_done.store(true, std::sync::atomic::Ordering::Relaxed);
        reader.join().expect("no panic");
    });
}

#[test]
fn what_was_read_is_written_where_it_was_read() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("p");
    let mut db = Db::open(&path).expect("opens");
    let mut model = [BTreeMap::new(), BTreeMap::new()];
    let mut rng = Rng(7);
    for round in 0..1_500_u32 {
        let trees = ["a", "b"].map(|name| db.tree(name).expect("room"));
        // Lengths on both sides of what a leaf holds, and a reader notes; few keys, so that they are there, gone, and twice
        // in one transaction; some next to each other in one leaf.
        let picks: Vec<_> = (0..1 + rng.below(6))
            .map(|_| {
                let n = rng.below(60) as u32;
                let mut key = n.to_be_bytes().to_vec();
                key.resize(if n.is_multiple_of(7) { 200 } else { 4 }, n as u8);
                let len = [0, 8, 100, 900, 5_000, 70_000][rng.below(6) as usize];
                let value = (!rng.one_in(4)).then(|| vec![round as u8; len]);
                (rng.below(2) as usize, key, value, rng.one_in(3))
            })
            .collect();
        db.transact(|tx| {
            for (no, key, _, _) in picks.iter().filter(|(.., is_unread)| !is_unread) {
                let expected = model[*no].get(key).map(|value: &Vec<u8>| &value[..]);
                assert_eq!(tx.get(&trees[*no], key)?.as_deref(), expected, "round {round}");
            }
            for (no, key, value, _) in &picks {
                match value {
                    Some(value) => tx.put(&trees[*no], key, value)?,
                    None => tx.delete(&trees[*no], key)?,
                }
            }
            Ok::<_, Error>(())
        })
        .expect("nobody is in the way");
        for (no, key, value, _) in picks {
            match value {
                Some(value) => model[no].insert(key, value),
                None => model[no].remove(&key),
            };
        }
        if round % 300 == 299 {
            assert!(db.check().expect("sound").is_empty(), "round {round}");
            drop((trees, db));
            db = Db::open(&path).expect("opens");
            for (name, model) in ["a", "b"].iter().zip(&model) {
                let tree = db.tree(name).expect("room");
                let pairs =
                    tree.iter().map(|pair| pair.map(|(key, value)| (key.to_vec(), value.to_vec())));
                let pairs: BTreeMap<_, _> = pairs.collect::<Result<_>>().expect("sound");
                assert!(pairs == *model, "round {round}");
            }
        }
    }
}
