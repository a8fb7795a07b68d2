//! Leaks change nothing about what a commit validates: reads are noted when they happen.

use std::mem::forget;

use everleaf::{Db, Error, Transaction, Tree};

use crate::pools::{dax, file};

/// Reads something of a tree that key 5 is a part of, and leaks what it has read it with.
type Leak = fn(&Transaction, &Tree);

const LEAKS: [(&str, Leak); 14] = [
    ("a range", |tx, tree| {
        let mut range = tx.range(tree, [3]..[9]);
        assert_eq!(range.by_ref().take(3).count(), 3);
        forget(range);
    }),
    ("a range downwards", |tx, tree| {
        let mut range = tx.range(tree, [3]..[9]);
        while range.next_back().expect("more").expect("sound").0 != [5] {}
        forget(range);
    }),
    ("a range from both ends", |tx, tree| {
        let mut range = tx.range(tree, [4]..[9]);
        assert!(range.next_back().is_some() && range.next().is_some() && range.next().is_some());
        forget(range);
    }),
    ("a range in a box", |tx, tree| {
        let range: &mut dyn Iterator<Item = _> = Box::leak(Box::new(tx.range(tree, ..).skip(4)));
        assert!(range.next().is_some_and(|pair: everleaf::Result<_>| pair.is_ok()));
        assert!(range.next().is_some());
    }),
    ("a range that has ended", |tx, tree| {
        let mut range = tx.range(tree, [5]..);
        assert_eq!(range.by_ref().count(), 15);
        forget(range);
    }),
    ("a prefix", |tx, tree| {
        let mut range = tx.prefix(tree, [5]);
        assert!(range.next().is_some());
        forget(range);
    }),
    ("a prefix downwards", |tx, tree| {
        let mut range = tx.prefix(tree, []).rev();
        assert!(range.nth(14).is_some());
        forget(range);
    }),
    ("keys", |tx, tree| {
        let mut keys = tx.keys(tree);
        assert!(keys.nth(5).is_some());
        forget(keys);
    }),
    ("keys downwards, half of them as pairs", |tx, tree| {
        let mut range = tx.iter(tree);
        assert!(range.nth(3).is_some());
        let mut keys = range.keys();
        assert!(keys.nth(1).is_some());
        Box::leak(Box::new(keys));
    }),
    ("a cursor", |tx, tree| {
        let mut cursor = tx.cursor(tree);
        assert!(cursor.seek([4]).expect("sound") && cursor.next().expect("sound"));
        forget(cursor);
    }),
    ("a cursor downwards", |tx, tree| {
        let mut cursor = tx.cursor(tree);
        assert!(cursor.seek_for_prev([6]).expect("sound") && cursor.prev().expect("sound"));
        Box::leak(Box::new(cursor));
    }),
    ("a value that is lent, in a panic", |tx, tree| {
        let lent = std::panic::AssertUnwindSafe(|| tx.get_with(tree, [5], |_| panic!("leaked")));
        assert!(std::panic::catch_unwind(lent).is_err());
    }),
    ("a value in memory of its own", |tx, tree| forget(tx.get(tree, [5]).expect("sound"))),
    ("an iterator in another one", |tx, tree| {
        let mut all = tx.range(tree, ..[7]).chain(tx.range(tree, [9]..)).peekable();
        assert!(all.nth(5).is_some());
        forget(all);
    }),
];

fn tree_of_20(db: &Db) -> Tree {
    let tree = db.tree("on duty").expect("room");
    (0..20_u8).for_each(|key| tree.put([key], [0]).expect("room"));
    tree
}

fn on_both(test: impl Fn(&Db)) {
    test(&file(512));
    let dir = tempfile::tempdir().expect("a directory");
    test(&dax(dir.path(), 256));
}

/// Two transactions that each read what the other writes: without the reads of the leaked ones both would commit.
#[test]
fn write_skew_is_found_whatever_is_leaked() {
    on_both(|db| {
        let (tree, other) = (tree_of_20(db), db.tree("other").expect("room"));
        for (what, leak) in LEAKS {
            other.put("a", "1").expect("room");
            let (first, second) = (db.begin(), db.begin());
            leak(&first, &tree);
            assert!(second.contains(&other, "a").expect("sound"));
            first.delete(&other, "a").expect("memory");
            second.put(&tree, [5], [1]).expect("memory");
            second.commit().expect("the first one to commit");
            match first.commit() {
                Err(Error::Conflict { tree, key, .. }) => {
                    assert_eq!((&tree[..], &key[..]), ("on duty", &[5][..]), "{what}");
                }
                committed => panic!("{what}: {committed:?}"),
            }
            assert!(other.contains("a").expect("sound"), "{what}");
        }
    });
}

/// And what it has not passed counts as little as before.
#[test]
fn what_a_leaked_iterator_has_not_passed_is_not_read() {
    on_both(|db| {
        let (tree, other) = (tree_of_20(db), db.tree("other").expect("room"));
        for down in [false, true] {
            for passed in [4_u8, 10, 15] {
                let tx = db.begin();
                let mut range = tx.iter(&tree);
                for _ in 0..5 {
                    assert!(if down { range.next_back() } else { range.next() }.is_some());
                }
                forget(range);
                tx.put(&other, "k", [passed]).expect("memory");
                tree.put([passed], [passed]).expect("room");
                let is_read = if down { passed >= 15 } else { passed < 5 };
                assert_eq!(tx.commit().is_err(), is_read, "{passed}, down: {down}");
            }
        }
    });
}

/// A snapshot, its trees, ranges and cursors, and a whole transaction that are leaked, also in another thread: others
/// go on and are validated, and what is kept for the leaked ones stays within its bound.
#[test]
fn whoever_is_leaked_others_are_validated_as_ever() {
    let dir = tempfile::tempdir().expect("a directory");
    let options = everleaf::Options::new().snapshot_memory(1 << 20);
    let db = options.open(dir.path().join("p")).expect("opens");
    let (tree, other) = (tree_of_20(&db), db.tree("other").expect("room"));
    let leak = |db: &Db, tree: &Tree| {
        let snapshot = db.snapshot().expect("open");
        let tree_then = snapshot.of(tree).expect("its own");
        let (mut range, mut cursor) = (tree_then.range([2]..), tree_then.cursor());
        assert!(range.next().is_some() && cursor.first().expect("sound"));
        forget((snapshot, tree_then, range));
        Box::leak(Box::new(cursor));
        let tx = Box::leak(Box::new(db.begin()));
        assert!(tx.contains(tree, [1]).expect("sound"));
        tx.put(tree, [1], "never").expect("memory");
        forget(tx.range(tree, ..).skip(1));
        forget(db.batch());
    };
    for _ in 0..20 {
        leak(&db, &tree);
        std::thread::scope(|scope| scope.spawn(|| leak(&db, &tree)).join().expect("no panic"));
        let skew = [("a", "b"), ("b", "a")].map(|(own, read)| {
            let tx = db.begin();
            assert!(!tx.contains(&other, read).expect("sound"));
            tx.put(&other, own, "1").expect("memory");
            tx
        });
        let [first, second] = skew.map(Transaction::commit);
        first.expect("the first one to commit");
        assert!(matches!(second, Err(Error::Conflict { .. })), "{second:?}");
        other.clear().expect("room");
        for key in 0..1000_u32 {
            tree.put(key.to_be_bytes(), [1; 100]).expect("room");
        }
        let stats = db.stats().expect("open");
        assert!(stats.snapshot_bytes <= 1 << 20, "{stats:?}");
    }
    assert_eq!(tree.get([1]).expect("sound"), Some(vec![0].into()));
    assert!(db.stats().expect("open").snapshots_given_up > 0);
    assert_eq!(db.check().expect("readable"), []);
}
