//! Trees that are dropped, cleared and renamed: what handles, snapshots and transactions see of it, and that the
//! space comes back.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use everleaf::{Db, Error, Options, Result, Snapshot, Storage};

use crate::cut::{Rng, inspect};
use crate::pools::{STORAGES, on_each, options};

fn fill(db: &Db, name: &str, pairs: u32, value: &str) {
    let tree = db.tree(name).expect("room");
    for n in 0..pairs {
        tree.put(n.to_be_bytes(), value.repeat(1 + n as usize % 50)).expect("room");
    }
}

fn settle(db: &Db) {
    while db.stats().expect("open").dropped_trees > 0 {
        thread::sleep(Duration::from_millis(1));
    }
}

fn nodes(db: &Db) -> u64 {
    let counts = db.count().expect("readable");
    counts.pages.iter().find(|count| count.kind == "node").expect("counted").pages
}

/// How many pairs a tree has at a snapshot, all of which have this value.
fn pairs_at(snapshot: &Snapshot, name: &str, value: &str) -> Result<usize> {
    let tree = snapshot.tree(name)?.ok_or(Error::NoTree)?;
    let mut pairs = 0;
    for pair in tree.iter() {
        let (key, found) = pair?;
        assert_eq!(key, (pairs as u32).to_be_bytes());
        assert!(found.starts_with(value.as_bytes()));
        assert_eq!(tree.get(&key)?, Some(found));
        pairs += 1;
    }
    assert_eq!(tree.iter().rev().count(), pairs);
    assert_eq!(tree.get(u32::MAX.to_be_bytes())?, None);
    Ok(pairs)
}

#[test]
fn a_cleared_tree_is_empty_at_once_and_goes_on() {
    on_each(|path, storage| {
        let db = options(storage).open(path).expect("opens");
        let tree = db.tree("t").expect("room");
        let (mut cursor, mut range) = (tree.cursor(), tree.iter());
        let before = nodes(&db);
        for round in 0..3 {
            fill(&db, "t", 3000, "v");
            assert!(cursor.first().expect("open") && cursor.next().expect("open"));
            assert!(range.next().is_some());
            assert_eq!(tree.clear().expect("room"), 3000, "round {round}");
            assert_eq!((tree.len().expect("open"), tree.first().expect("open")), (0, None));
            assert_eq!(tree.get(5_u32.to_be_bytes()).expect("open"), None);
            assert!(!cursor.next().expect("open"));
            assert!(range.next().is_none());
            assert_eq!(tree.clear().expect("room"), 0);
            fill(&db, "t", 10, "w");
            assert_eq!(db.tree("t").expect("there").iter().count(), 10);
            assert_eq!(tree.clear().expect("room"), 10);
            range = tree.iter();
            settle(&db);
            assert_eq!(nodes(&db), before, "{storage:?}, round {round}");
            inspect(&db, "settled");
        }
        fill(&db, "t", 7, "x");
        db.close().expect("room");
        let db = options(storage).open(path).expect("opens");
        assert_eq!(db.tree("t").expect("there").len().expect("open"), 7);
    });
}

#[test]
fn a_snapshot_knows_what_was_dropped_cleared_and_renamed() {
    on_each(|path, storage| {
        let db = options(storage).open(path).expect("opens");
        for name in ["dropped", "cleared", "renamed", "stays"] {
            fill(&db, name, 500, "v");
        }
        let cleared = db.tree("cleared").expect("there");
        let old = db.snapshot().expect("open");
        let handle = old.of(&db.tree("dropped").expect("there")).expect("its own");
        let mut cursor = old.of(&cleared).expect("its own").cursor();
        assert!(cursor.seek(100_u32.to_be_bytes()).expect("open"));
        cleared.delete(7_u32.to_be_bytes()).expect("room");
        cleared.put(8_u32.to_be_bytes(), "changed before").expect("room");
        assert!(db.drop_tree("dropped").expect("room"));
        assert_eq!(cleared.clear().expect("room"), 499);
        assert!(db.rename_tree("renamed", "other").expect("room"));
        fill(&db, "dropped", 3, "w");
        fill(&db, "cleared", 4, "w");
        fill(&db, "new", 5, "w");
        let middle = db.snapshot().expect("open");
        assert_eq!(cleared.clear().expect("room"), 4);
        assert!(db.drop_tree("dropped").expect("room"));
        let young = db.snapshot().expect("open");
        for _ in 0..2 {
            for name in ["dropped", "cleared", "renamed", "stays"] {
                assert_eq!(pairs_at(&old, name, "v").expect("kept"), 500, "{storage:?}: {name}");
            }
            assert!(old.tree("other").expect("open").is_none());
            assert!(old.tree("new").expect("open").is_none());
            assert_eq!(handle.iter().count(), 500);
            assert_eq!(pairs_at(&middle, "dropped", "w").expect("kept"), 3);
            assert_eq!(pairs_at(&middle, "cleared", "w").expect("kept"), 4);
            assert_eq!(pairs_at(&middle, "other", "v").expect("kept"), 500);
            assert_eq!(pairs_at(&middle, "new", "w").expect("kept"), 5);
            assert!(young.tree("dropped").expect("open").is_none());
            assert_eq!(pairs_at(&young, "cleared", "").expect("kept"), 0);
            // Much is written, and some of it where something was.
            for n in 0..2000_u32 {
                cleared.put(n.to_be_bytes(), "later").expect("room");
            }
        }
        assert!(cursor.next().expect("kept"));
        assert_eq!(cursor.key(), Some(&101_u32.to_be_bytes()[..]));
        assert!(cursor.prev().expect("kept") && cursor.prev().expect("kept"));
        assert_eq!(cursor.key(), Some(&99_u32.to_be_bytes()[..]));
        assert_eq!(db.stats().expect("open").dropped_trees, 4, "snapshots need them");
        inspect(&db, "with snapshots");
        drop((old, handle, cursor));
        thread::sleep(Duration::from_millis(if storage == Storage::File { 150 } else { 0 }));
        assert_eq!(pairs_at(&middle, "cleared", "w").expect("kept"), 4);
        drop((middle, young));
        settle(&db);
        inspect(&db, "settled");
    });
}

#[test]
fn a_snapshot_names_the_trees_that_there_were() {
    // The first and the last names that there can be, and the longest one.
    let names = ["\0", "\0\0", "a", "ab", "b", "\u{10ffff}", &"\u{10ffff}".repeat(63)];
    on_each(|path, storage| {
        let db = options(storage).open(path).expect("opens");
        let (mut rng, mut model, mut held) = (Rng(7), BTreeSet::new(), VecDeque::new());
        let (mut drops, mut renames) = (0, 0);
        for step in 0..400 {
            let mut one = || names[rng.below(names.len() as u64) as usize];
            let (name, other) = (one(), one());
            match step % 4 {
                0 | 1 => {
                    db.tree(name).expect("room").put("k", "v").expect("room");
                    model.insert(name);
                }
                2 => {
                    drops += u32::from(model.contains(name));
                    assert_eq!(db.drop_tree(name).expect("room"), model.remove(name));
                }
                _ if model.contains(other) => {}
                _ => {
                    let there = model.remove(name);
                    renames += u32::from(there);
                    assert_eq!(db.rename_tree(name, other).expect("room"), there);
                    model.extend(there.then_some(other));
                }
            }
            if let Some(tree) = db.open_tree(name).expect("readable") {
                tree.clear().expect("room");
            }
            if step % 3 == 0 {
                held.push_back((db.snapshot().expect("open"), model.clone()));
            }
            for (snapshot, then) in &held {
                let found = snapshot.tree_names().expect("kept");
                assert!(found.iter().eq(then), "{storage:?}, step {step}: {found:?}, {then:?}");
                for name in names {
                    let is_there = snapshot.tree(name).expect("kept").is_some();
                    assert_eq!(is_there, then.contains(name), "{storage:?}, step {step}: {name:?}");
                }
            }
            if held.len() > 8 {
                held.remove(step % held.len());
            }
        }
        assert!(drops > 20 && renames > 20, "{drops} drops, {renames} renames");
        let (snapshot, _) = held.pop_back().expect("some");
        db.close().expect("room");
        assert!(matches!(snapshot.tree_names(), Err(Error::Closed)));
    });
    let given_up = options(Storage::File).snapshot_memory(0);
    let dir = tempfile::tempdir().expect("a directory");
    let db = given_up.open(dir.path().join("p")).expect("opens");
    let snapshot = db.snapshot().expect("open");
    db.tree("t").expect("room");
    assert!(matches!(snapshot.tree_names(), Err(Error::SnapshotTooOld { .. })));
}

#[test]
fn what_is_dropped_goes_in_pieces_and_each_open_goes_on() {
    on_each(|path, storage| {
        let (pairs, mut unfinished) = (20_000, 0);
        for round in 0..4 {
            let db = options(storage).open(path).expect("opens");
            fill(&db, "stays", 50, "v");
            fill(&db, "goes", pairs, "v");
            db.sync().expect("room");
            // As long as it is there nothing goes.
            let held = (round < 2).then(|| db.snapshot().expect("open"));
            assert!(db.drop_tree("goes").expect("room"));
            db.sync().expect("room");
            thread::sleep(Duration::from_millis(round));
            let left = db.stats().expect("open").dropped_trees;
            drop(held);
            if round % 2 == 0 { db.abandon() } else { db.close() }.expect("room");
            let reader = options(storage).read_only(true).open(path);
            // Persistent memory that was not closed is recovered by a writer first.
            if let Ok(reader) = reader {
                assert_eq!(reader.tree_names().expect("readable"), ["stays"]);
                inspect(&reader, "read-only");
            }
            let db = options(storage).open(path).expect("opens");
            assert_eq!(db.tree_names().expect("readable"), ["stays"], "round {round}");
            assert!(db.open_tree("goes").expect("readable").is_none());
            unfinished += left;
            inspect(&db, "under way");
            settle(&db);
            inspect(&db, "settled");
            assert!(nodes(&db) < 30, "{} nodes are left", nodes(&db));
        }
        assert!(unfinished > 0, "{storage:?}: each drop was done before the end of the pool");
    });
}

#[test]
fn who_finds_no_room_takes_that_of_dropped_trees() {
    for storage in STORAGES {
        let dir = tempfile::tempdir().expect("a directory");
        let options = Options::new().storage(storage).max_bytes(8 << 20).page_bytes(1024);
        let db = options.open(dir.path().join("pool")).expect("opens");
        for round in 0..6 {
            let tree = db.tree("t").expect("room");
            let mut pairs = 0_u32;
            while tree.put(pairs.to_be_bytes(), [7; 100]).is_ok() {
                pairs += 1;
            }
            assert!(pairs > 20_000, "{storage:?}, round {round}: {pairs}");
            match round % 2 {
                0 => assert!(db.drop_tree("t").expect("a drop needs no room")),
                _ => assert_eq!(tree.clear().expect("a clear needs no room"), pairs.into()),
            }
        }
    }
}

/// So does a value that comes from a reader.
#[test]
fn a_value_from_a_reader_takes_the_room_of_dropped_trees_too() {
    for bytes in [200_usize, 1_000] {
        let dir = tempfile::tempdir().expect("a directory");
        let options = Options::new().background(false).max_bytes(4 << 20);
        let db = options.open(dir.path().join("p.ever")).expect("opens");
        let tree = db.tree("t").expect("room");
        let other = db.tree("other").expect("room");
        let mut n = 0_u32;
        while tree.put(n.to_be_bytes(), vec![7; bytes]).is_ok() {
            n += 1;
        }
        let snapshot = db.snapshot().expect("open");
        drop(tree);
        assert!(db.drop_tree("t").expect("a drop needs no room"));
        drop(snapshot);
        for n in 0..3_u32 {
            other.put_from(n.to_be_bytes(), &vec![8; bytes][..], bytes as u64).expect("room");
        }
        assert_eq!(other.get(2_u32.to_be_bytes()).expect("there"), Some(vec![8; bytes].into()));
    }
}

/// An operation that has no room is refused, and leaves a pool that goes on.
#[test]
fn a_full_pool_goes_on_after_drops_clears_and_renames_without_room() {
    on_each(|path, storage| {
        let mut full = [0; 3];
        for seed in 0..60 {
            let _ = std::fs::remove_file(path);
            let mut random = everleaf_testing::Rng(seed + 1);
            let db = options(storage).page_bytes(512).max_bytes(200_000).open(path).expect("opens");
            let names: Vec<String> = (0..8).map(|n| "n".repeat(1 + n * 5)).collect();
            let trees: Vec<_> = names.iter().map(|name| db.tree(name).expect("room")).collect();
            // Full for values of each length, so that hardly a place for a record is left.
            for len in [200, 60, 20, 8, 0] {
                let mut refused = 0;
                while refused < 5 {
                    let put = trees[random.below(8) as usize]
                        .put(random.next().to_be_bytes(), vec![7; len]);
                    refused += u32::from(matches!(put, Err(Error::Full { .. })));
                }
            }
            for _ in 0..30 {
                let tree = db.tree(&names[random.below(8) as usize]);
                let Ok(tree) =
                    tree.inspect_err(|e| assert!(matches!(e, Error::Full { .. }), "{e}"))
                else {
                    continue;
                };
                let kind = random.below(3) as usize;
                let done = match kind {
                    0 => tree.clear().map(drop),
                    1 => db.drop_tree(tree.name()).map(drop),
                    _ => db.rename_tree(tree.name(), "another").map(drop),
                };
                match done {
                    Ok(()) | Err(Error::TreeExists { .. }) => {}
                    Err(Error::Full { .. }) => full[kind] += 1,
                    Err(error) => panic!("{storage:?}, seed {seed}: {error}"),
                }
                if let Ok(tree) = db.tree(&names[random.below(8) as usize])
                    && let Err(error) = tree.pop_first()
                {
                    panic!("{storage:?}, seed {seed}: {error}");
                }
            }
            assert_eq!(db.check().expect("readable"), []);
            db.close().expect("room");
        }
        println!("{storage:?}: {full:?} without room");
    });
}

#[test]
fn a_transaction_that_has_read_what_was_cleared_or_dropped_does_not_happen() {
    on_each(|path, storage| {
        let db = options(storage).open(path).expect("opens");
        for clears in [true, false] {
            db.tree("t").and_then(|tree| tree.clear()).expect("room");
            fill(&db, "t", 100, "v");
            let (tree, other) = (db.tree("t").expect("there"), db.tree("other").expect("room"));
            let tx = db.begin();
            assert!(tx.get(&tree, 5_u32.to_be_bytes()).expect("open").is_some());
            let ranged = db.begin();
            assert_eq!(ranged.range(&tree, ..).count(), 100);
            let blind = db.begin();
            blind.put(&tree, "blind", "v").expect("within limits");
            if clears { tree.clear().map(drop) } else { db.drop_tree("t").map(drop) }
                .expect("room");
            // It still sees what there was.
            assert!(tx.get(&tree, 6_u32.to_be_bytes()).expect("kept").is_some());
            for tx in [tx, ranged] {
                tx.put(&other, "k", "v").expect("within limits");
                assert!(matches!(tx.commit(), Err(Error::Conflict { .. })), "clears: {clears}");
            }
            match blind.commit() {
                Ok(()) => assert!(clears && tree.len().expect("open") == 1),
                Err(error) => assert!(!clears && matches!(error, Error::NoTree), "{error}"),
            }
            assert_eq!(other.len().expect("open"), 0);
        }
    });
}

#[test]
fn readers_of_a_tree_that_is_cleared_again_and_again_see_its_pairs_or_none() {
    on_each(|path, storage| {
        let db = options(storage).open(path).expect("opens");
        let (tree, foreign) = (db.tree("t").expect("room"), db.tree("foreign").expect("room"));
        let ends = AtomicBool::new(false);
        thread::scope(|scope| {
            let _ends = scopeguard::guard((), |()| ends.store(true, Ordering::Relaxed));
            for thread in 0..2_u32 {
                let (tree, ends, db) = (&tree, &ends, &db);
                scope.spawn(move || {
                    let mut cursor = tree.cursor();
                    while !ends.load(Ordering::Relaxed) {
                        for pair in tree.iter() {
                            assert_eq!(pair.expect("readable").1, b"own");
                        }
                        if let Some(value) = tree.get(9_u32.to_be_bytes()).expect("readable") {
                            assert_eq!(value, b"own");
                        }
                        let mut there = cursor.last().expect("readable");
                        while there {
                            assert_eq!(cursor.value().expect("readable"), Some(&b"own"[..]));
                            there = cursor.prev().expect("readable");
                        }
                        if thread == 0 {
                            let seen = db.snapshot().and_then(|s| s.of(tree)).expect("open");
                            let count = seen.iter().count();
                            assert!(count <= 400);
                            assert_eq!(seen.iter().rev().count(), count);
                        }
                    }
                });
            }
            for round in 0..100_u32 {
                for n in 0..400_u32 {
                    tree.put(n.to_be_bytes(), "own").expect("room");
                    foreign.put((round * 400 + n).to_be_bytes(), "another's").expect("room");
                }
                assert_eq!(tree.clear().expect("room"), 400);
            }
        });
        settle(&db);
        inspect(&db, "settled");
    });
}

#[test]
fn an_old_handle_does_not_clear_the_tree_that_has_its_place_now() {
    on_each(|path, storage| {
        let db = options(storage).open(path).expect("opens");
        fill(&db, "t", 100, "v");
        let old = db.tree("t").expect("there");
        assert!(db.drop_tree("t").expect("writable"));
        settle(&db);
        let names: Vec<_> = (0..20).map(|n| format!("new {n}")).collect();
        names.iter().for_each(|name| fill(&db, name, 30, "w"));
        assert!(matches!(old.clear(), Err(Error::NoTree)));
        settle(&db);
        for name in &names {
            let tree = db.tree(name).expect("there");
            assert_eq!((tree.iter().count(), tree.len().expect("open")), (30, 30), "{name}");
            tree.put("k", "v").expect("room");
        }
        inspect(&db, "settled");
    });
}

#[test]
fn a_tree_that_is_made_beside_a_rename_to_its_name_is_not_lost() {
    const ROUNDS: usize = 3000;
    on_each(|path, storage| {
        let db = options(storage).open(path).expect("opens");
        for round in 0..ROUNDS {
            db.tree("from").and_then(|tree| tree.put("moved", "")).expect("room");
            let renamed = thread::scope(|scope| {
                let make = || db.tree("to").and_then(|tree| tree.put("made", "")).expect("room");
                scope.spawn(make);
                db.rename_tree("from", "to")
            });
            let keys = db.tree("to").expect("there").keys().collect::<Result<Vec<_>>>();
            match renamed {
                Ok(_) => assert_eq!(keys.expect("open"), [b"made".to_vec(), b"moved".into()]),
                Err(Error::TreeExists { .. }) => assert_eq!(keys.expect("open"), [b"made"]),
                Err(error) => panic!("{error}, round {round}"),
            }
            assert!(db.drop_tree("to").expect("writable"));
            if round % 100 == 0 {
                settle(&db);
            }
        }
        settle(&db);
        inspect(&db, "settled");
    });
}

#[test]
fn who_reads_large_values_of_a_snapshot_while_the_tree_is_dropped_sees_each_once() {
    const PAIRS: usize = 20;
    on_each(|path, storage| {
        let db = options(storage).open(path).expect("opens");
        for round in 0..150 {
            let tree = db.tree("t").expect("room");
            for n in 0..PAIRS as u8 {
                tree.put([n], vec![n; 5000]).expect("room");
            }
            let snapshot = db.snapshot().expect("open");
            let seen = snapshot.of(&tree).expect("of this pool");
            let start = Barrier::new(3);
            thread::scope(|scope| {
                for up in [true, false] {
                    let (seen, start) = (&seen, &start);
                    scope.spawn(move || {
                        start.wait();
                        for _ in 0..20 {
                            let pairs = seen.iter().map(|pair| pair.expect("readable"));
                            let pairs = if up { pairs.count() } else { seen.iter().rev().count() };
                            assert_eq!(pairs, PAIRS, "round {round}");
                        }
                    });
                }
                start.wait();
                (0..round % 50).for_each(|_| thread::yield_now());
                assert!(db.drop_tree("t").expect("writable"));
            });
        }
    });
}

#[test]
fn a_cursor_at_a_large_value_of_a_tree_that_is_cleared_has_it_or_has_none() {
    on_each(|path, storage| {
        let db = options(storage).open(path).expect("opens");
        let (tree, ends) = (db.tree("t").expect("room"), AtomicBool::new(false));
        thread::scope(|scope| {
            let _ends = scopeguard::guard((), |()| ends.store(true, Ordering::Relaxed));
            scope.spawn(|| {
                let mut cursor = tree.cursor();
                while !ends.load(Ordering::Relaxed) {
                    if cursor.first().expect("readable") {
                        let value = cursor.value().expect("readable");
                        assert!(value.is_none_or(|value| value.len() == 5000));
                    }
                }
            });
            for _ in 0..3000 {
                tree.put("k", [1; 5000]).expect("room");
                assert_eq!(tree.clear().expect("room"), 1);
            }
        });
    });
}
