//! Transactions: what they see, what they leave, and what is in their way. `histories` looks at many at once.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use everleaf::{Bytes, Db, Durability, Error, Isolation, Options, TransactionOptions, Tree};
use everleaf_file::io::SimIo;
use everleaf_testing::vecs;

use crate::cut;
use crate::cut::Rng;
use crate::pools::{dax, file};

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// Runs a test on both media.
fn on_both(test: impl Fn(&Db)) {
    test(&file(512));
    let dir = tempfile::tempdir().expect("a directory");
    test(&dax(dir.path(), 256));
}

fn snapshot_isolation() -> TransactionOptions {
    TransactionOptions::new().isolation(Isolation::Snapshot)
}

/// The tree and the key that a refused commit names.
fn conflict(answer: everleaf::Result<()>) -> (String, Vec<u8>) {
    match answer {
        Err(Error::Conflict { tree, key, attempts: 1 }) => (tree.into(), key),
        other => panic!("{other:?} where a conflict should be"),
    }
}

#[test]
fn a_transaction_sees_its_own_writes_and_others_see_them_after_the_commit() {
    on_both(|db| {
        let (a, b) = (db.tree("a").expect("room"), db.tree("b").expect("room"));
        a.put("1", "one").expect("room");
        a.put("3", "three").expect("room");
        let tx = db.begin();
        tx.put(&a, "2", "two").expect("memory");
        tx.delete(&a, "3").expect("memory");
        tx.put(&b, "", "").expect("memory");
        assert_eq!(tx.insert(&a, "1", "uno").expect("sound"), Some(b"one".into()));
        assert_eq!(tx.remove(&a, "2").expect("sound"), Some(b"two".into()));
        assert_eq!(tx.remove(&a, "2").expect("sound"), None);
        tx.put(&a, "4", "four").expect("memory");
        assert_eq!(tx.get(&b, "").expect("sound"), Some("".into()));
        assert!(!tx.contains(&a, "3").expect("sound") && tx.contains(&a, "1").expect("sound"));
        let pairs: everleaf::Result<Vec<_>> = tx.iter(&a).collect();
        let expected = [("1", "uno"), ("4", "four")];
        let expected = expected.map(|(k, v)| (k.into(), v.into()));
        assert_eq!(pairs.expect("sound"), expected);
        assert_eq!(a.get("1").expect("sound"), Some(b"one".into()));
        assert_eq!(b.get("").expect("sound"), None);
        tx.commit().expect("nobody is in its way");
        assert_eq!(a.iter().collect::<everleaf::Result<Vec<_>>>().expect("sound"), expected);
        assert_eq!(b.get("").expect("sound"), Some("".into()));
    });
}

#[test]
fn a_transaction_that_is_dropped_or_fails_leaves_nothing() {
    on_both(|db| {
        let tree = db.tree("t").expect("room");
        let tx = db.begin();
        tx.put(&tree, "a", "1").expect("memory");
        tx.abort();
        let failed: Result<(), String> = db
            .try_transact(|tx| {
                tx.put(&tree, "a", "1")?;
                Err(Failed("no".into()))
            })
            .map_err(|Failed(why)| why);
        assert_eq!(failed, Err("no".to_owned()));
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            db.transact(|tx| -> everleaf::Result<()> {
                tx.get(&tree, "a")?;
                tx.put(&tree, "a", "1")?;
                panic!("in the midst of it");
            })
        }));
        assert!(panicked.is_err());
        assert_eq!(tree.iter().count(), 0);
        let stats = db.stats().expect("open");
        assert_eq!((stats.snapshots, stats.snapshot_bytes), (0, 0));
        tree.put("a", "2").expect("nothing is held");
    });
}

#[derive(Debug)]
struct Failed(String);

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Failed(error.to_string())
    }
}

#[test]
fn a_transaction_fails_if_what_it_read_has_changed() {
    on_both(|db| {
        let tree = db.tree("t").expect("room");
        for i in 0..200_u32 {
            tree.put(i.to_be_bytes(), [0; 8]).expect("room");
        }
        let key = |i: u32| i.to_be_bytes();
        // Each reads something, somebody writes, and it writes elsewhere.
        type Read = fn(&everleaf::Transaction, &Tree);
        let reads: [(&str, Read, u32, bool); 9] = [
            ("a key", |tx, t| drop(tx.get(t, 7_u32.to_be_bytes()).expect("sound")), 7, true),
            ("another", |tx, t| drop(tx.get(t, 7_u32.to_be_bytes()).expect("sound")), 8, false),
            (
                "absent",
                |tx, t| assert!(!tx.contains(t, 900_u32.to_be_bytes()).expect("k")),
                900,
                true,
            ),
            ("range", |tx, t| assert!(range(tx, t, 10, 20, true).count() < 20), 10, true),
            ("its end", |tx, t| assert!(range(tx, t, 10, 20, true).count() < 20), 20, false),
            ("before it", |tx, t| assert!(range(tx, t, 10, 20, true).count() < 20), 9, false),
            ("a phantom", |tx, t| assert!(range(tx, t, 300, 400, false).count() < 20), 350, true),
            ("not passed", |tx, t| drop(range(tx, t, 10, 20, true).nth(2)), 13, false),
            ("down", |tx, t| drop(range(tx, t, 10, 20, false).nth(2)), 17, true),
        ];
        for (what, read, written, conflicts) in reads {
            for delete in [false, true] {
                let tx = db.begin();
                read(&tx, &tree);
                tx.put(&tree, "elsewhere", what).expect("memory");
                if delete {
                    tree.delete(key(written)).expect("memory");
                } else {
                    tree.put(key(written), [1; 8]).expect("room");
                }
                // A delete of what is not there changes nothing.
                let conflicts = conflicts && (!delete || written < 300);
                let committed = tx.commit();
                match conflicts {
                    true => assert_eq!(conflict(committed), ("t".into(), key(written).into())),
                    false => committed.unwrap_or_else(|error| panic!("{what}: {error}")),
                }
                let is_there = tree.get("elsewhere").expect("sound");
                assert_eq!(is_there.as_deref() == Some(what.as_bytes()), !conflicts, "{what}");
                tree.delete("elsewhere").expect("memory");
                if written < 300 {
                    tree.put(key(written), [0; 8]).expect("room");
                } else {
                    tree.delete(key(written)).expect("memory");
                }
            }
        }
    });
}

fn range<'t>(
    tx: &'t everleaf::Transaction,
    tree: &Tree,
    from: u32,
    to: u32,
    up: bool,
) -> Box<dyn Iterator<Item = everleaf::Result<everleaf::Pair>> + 't> {
    let range = tx.range(tree, from.to_be_bytes()..to.to_be_bytes());
    if up { Box::new(range) } else { Box::new(range.rev()) }
}

/// Two of whom at most one may be away, and each looks whether the other is there.
#[test]
fn write_skew_is_refused_unless_one_asks_for_less() {
    on_both(|db| {
        let tree = db.tree("on duty").expect("room");
        for (options, skews) in [(TransactionOptions::new(), false), (snapshot_isolation(), true)] {
            tree.put("ada", "yes").expect("room");
            tree.put("bob", "yes").expect("room");
            let mut both = [("ada", "bob"), ("bob", "ada")].map(|(own, other)| {
                let tx = db.begin_with(options);
                assert!(tx.contains(&tree, other).expect("sound"));
                tx.delete(&tree, own).expect("memory");
                Some(tx)
            });
            both[0].take().expect("begun").commit().expect("the first one");
            let second = both[1].take().expect("begun").commit();
            assert_eq!(second.is_ok(), skews, "{second:?}");
            assert_eq!(tree.iter().count(), usize::from(!skews));
        }
        // One key that both write is one too many for either.
        for options in [TransactionOptions::new(), snapshot_isolation()] {
            tree.put("n", [1]).expect("room");
            let [first, second] = [(); 2].map(|()| db.begin_with(options));
            for tx in [&first, &second] {
                let n = tx.get(&tree, "n").expect("sound").expect("there")[0];
                tx.put(&tree, "n", [n + 1]).expect("memory");
            }
            second.commit().expect("the first one to commit");
            assert_eq!(conflict(first.commit()), ("on duty".into(), b"n".to_vec()));
            assert_eq!(tree.get("n").expect("sound"), Some(vec![2].into()));
        }
    });
}

#[test]
fn who_only_reads_or_only_writes_is_never_refused() {
    on_both(|db| {
        let tree = db.tree("t").expect("room");
        tree.put("a", "1").expect("room");
        let reader = db.begin();
        assert!(reader.contains(&tree, "a").expect("sound"));
        let writer = db.begin();
        writer.put(&tree, "a", "3").expect("memory");
        tree.put("a", "2").expect("room");
        assert_eq!(reader.get(&tree, "a").expect("sound"), Some(b"1".into()));
        writer.commit().expect("it has read nothing");
        assert_eq!(reader.get(&tree, "a").expect("sound"), Some(b"1".into()));
        reader.commit().expect("it has written nothing");
        assert_eq!(tree.get("a").expect("sound"), Some(b"3".into()));
        let other = file(512).tree("t").expect("room");
        assert!(matches!(db.begin().get(&other, "a"), Err(Error::OtherPool { .. })));
        assert!(matches!(db.begin().put(&other, "a", ""), Err(Error::OtherPool { .. })));
        let ranged = db.begin().iter(&other).next();
        assert!(matches!(ranged, Some(Err(Error::OtherPool { .. }))), "{ranged:?}");
        let long = vec![0; everleaf::KEY_BYTES_MAX + 1];
        assert!(matches!(db.begin().put(&tree, &long, ""), Err(Error::KeyTooLong { .. })));
    });
}

/// Transactions of all kinds of reads and writes against a map.
#[test]
fn transactions_do_what_a_map_does() {
    on_both(|db| {
        for seed in 0..3 {
            println!("seed {seed}");
            let mut rng = Rng(seed);
            let tree = db.tree(&format!("t{seed}")).expect("room");
            let mut map = Map::new();
            for _ in 0..150 {
                let mut own = map.clone();
                let tx = db.begin();
                for _ in 0..rng.below(25) {
                    one_step(&mut rng, &tx, &tree, &mut own);
                }
                if rng.below(3) > 0 {
                    tx.commit().expect("nobody is in its way");
                    map = own;
                }
                let found = tree
                    .iter()
                    .map(|pair| pair.map(vecs))
                    .collect::<everleaf::Result<Map>>()
                    .expect("sound");
                assert!(found == map);
            }
        }
        assert_eq!(db.check().expect("readable"), []);
    });
}

fn one_step(rng: &mut Rng, tx: &everleaf::Transaction, tree: &Tree, map: &mut Map) {
    let key = |rng: &mut Rng| vec![b'k'; rng.below(40) as usize];
    let (a, b) = (key(rng), key(rng));
    match rng.below(6) {
        0 => {
            assert_eq!(tx.get(tree, &a).expect("sound").map(Bytes::into_vec), map.get(&a).cloned())
        }
        1 => assert_eq!(tx.remove(tree, &a).expect("sound").map(Bytes::into_vec), map.remove(&a)),
        2 => {
            let (low, high) = (a.clone().min(b.clone()), a.max(b));
            let limit = rng.below(20) as usize;
            let bounds = (Bound::Excluded(low), Bound::Included(high));
            let is_void = matches!(&bounds, (Bound::Excluded(l), Bound::Included(h)) if l >= h);
            let of_map: Vec<_> = match is_void {
                true => Vec::new(),
                false => map.range(bounds.clone()).map(|(k, v)| (k.clone(), v.clone())).collect(),
            };
            let up = rng.one_in(2);
            let pairs = tx.range(tree, bounds).map(|pair| pair.map(vecs));
            let found: everleaf::Result<Vec<_>> =
                if up { pairs.take(limit).collect() } else { pairs.rev().take(limit).collect() };
            let right: Vec<_> = match up {
                true => of_map.into_iter().take(limit).collect(),
                false => of_map.into_iter().rev().take(limit).collect(),
            };
            assert_eq!(found.expect("sound"), right);
        }
        3 => {
            tx.delete(tree, &a).expect("memory");
            map.remove(&a);
        }
        _ => {
            let value = vec![rng.next() as u8; rng.below(200) as usize];
            assert_eq!(
                tx.insert(tree, &a, &value).expect("sound").map(Bytes::into_vec),
                map.insert(a, value)
            );
        }
    }
}

/// Four threads move amounts between accounts; the sum is exact at every moment.
#[test]
fn a_bank_loses_and_makes_no_money() {
    let dir = tempfile::tempdir().expect("a directory");
    let db = Options::new().open(dir.path().join("p")).expect("opens");
    let tree = db.tree("accounts").expect("room");
    const ACCOUNTS: u64 = 20;
    for i in 0..ACCOUNTS {
        tree.put(i.to_be_bytes(), 1000_i64.to_be_bytes()).expect("room");
    }
    let amount = |bytes: Option<Bytes>| {
        i64::from_be_bytes(bytes.expect("there").try_into().expect("an amount"))
    };
    let (stop, done) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for own in 0..4 {
            let (db, tree, stop, done) = (&db, &tree, &stop, &done);
            scope.spawn(move || {
                let mut rng = Rng(own);
                while !stop.load(Ordering::Relaxed) {
                    let (from, to) = (rng.below(ACCOUNTS), rng.below(ACCOUNTS));
                    let n = rng.below(10) as i64;
                    let moved = db.transact(|tx| {
                        let a = amount(tx.get(tree, from.to_be_bytes())?) - n;
                        tx.put(tree, from.to_be_bytes(), a.to_be_bytes())?;
                        let b = amount(tx.get(tree, to.to_be_bytes())?) + n;
                        tx.put(tree, to.to_be_bytes(), b.to_be_bytes())
                    });
                    match moved {
                        Ok(()) => drop(done.fetch_add(1, Ordering::Relaxed)),
                        Err(Error::Conflict { .. }) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
            });
        }
        // Also if this panics: else the others would go on for ever.
        let _stop = scopeguard::guard((), |()| stop.store(true, Ordering::Relaxed));
        let whole = 1000 * ACCOUNTS as i64;
        // Until the threads have got on, too.
        let is_over = |round| round >= 200 && done.load(Ordering::Relaxed) >= 2_000;
        for round in (0..).take_while(|round| !is_over(*round)) {
            let sum: i64 = if round % 2 == 0 {
                let snapshot = db.snapshot().expect("open").of(&tree).expect("its own");
                snapshot.iter().map(|pair| amount(pair.ok().map(|(_, v)| v))).sum()
            } else {
                let tx = db.begin();
                tx.iter(&tree).map(|pair| amount(pair.ok().map(|(_, v)| v))).sum()
            };
            assert_eq!(sum, whole, "round {round}");
        }
    });
    println!("{done:?} transfers");
    let stats = db.stats().expect("open");
    assert_eq!((stats.snapshots, stats.snapshot_values, stats.snapshot_bytes), (0, 0, 0));
    assert!(stats.transactions >= done.load(Ordering::Relaxed), "{stats:?}");
}

#[test]
fn a_transaction_can_be_durable_when_it_returns() {
    let io = Arc::new(SimIo::new(3));
    let options = Options::new().background(false);
    let db = options.open_on(io.clone(), cut::PATH).expect("opens");
    let tree = db.tree("t").expect("room");
    let synced = db.with(Durability::Sync);
    synced
        .transact(|tx| {
            tx.get(&tree, "a")?;
            tx.put(&tree, "a", "1")?;
            tx.put(&tree, "b", "2")
        })
        .expect("alone");
    db.transact(|tx| tx.put(&tree, "c", "3")).expect("alone");
    drop((tree, synced));
    db.abandon().expect("nothing failed");
    let db = options.open_on(io, cut::PATH).expect("opens");
    assert_eq!(db.tree("t").expect("there").iter().count(), 2);
}

#[test]
fn a_transaction_that_memory_cannot_follow_is_refused() {
    let options = Options::new().background(false).snapshot_memory(10_000);
    let db = options.open_on(Arc::new(SimIo::new(1)), cut::PATH).expect("opens");
    let tree = db.tree("t").expect("room");
    let tx = db.begin();
    tx.get(&tree, "a").expect("sound");
    tx.put(&tree, "a", "1").expect("memory");
    for i in 0..1000_u32 {
        tree.put(i.to_be_bytes(), [0; 100]).expect("writers go on");
    }
    assert!(matches!(tx.get(&tree, "b"), Err(Error::SnapshotTooOld { .. })));
    assert!(matches!(tx.commit(), Err(Error::SnapshotTooOld { .. })));
    assert_eq!(tree.get("a").expect("sound"), None);
}

#[test]
fn a_range_whose_removals_have_no_room_stays_whole() {
    let (mut removed, mut refused) = (0, 0);
    for seed in 0..80 {
        let mut rng = Rng(seed);
        let db = Options::new().transaction_memory(0).in_memory().expect("memory");
        let tree = db.tree("t").expect("room");
        let longest = [2, 8, 20, 200, 5000][rng.below(5) as usize];
        let key = |rng: &mut Rng| (0..rng.below(longest)).map(|_| rng.next() as u8).collect();
        for _ in 0..rng.below([1200, 12][usize::from(longest > 200)]) {
            let key: Vec<u8> = key(&mut rng);
            tree.put(key, "there").expect("room");
        }
        let options = if rng.one_in(2) { snapshot_isolation() } else { TransactionOptions::new() };
        let tx = db.begin_with(options);
        for _ in 0..rng.below(500) {
            let key: Vec<u8> = key(&mut rng);
            // Some of these are refused.
            let _ = match rng.below(3) {
                0 => tx.put(&tree, key, "own"),
                1 => tx.delete(&tree, key),
                _ => tx.get(&tree, key).map(drop),
            };
        }
        let Ok(pairs) = tx.iter(&tree).collect::<everleaf::Result<Vec<_>>>() else { continue };
        match tx.clear(&tree) {
            Ok(count) => {
                removed += 1;
                assert_eq!(count, pairs.len() as u64, "seed {seed}");
                assert!(tx.iter(&tree).next().is_none(), "seed {seed}");
            }
            Err(error) => {
                refused += 1;
                assert!(matches!(error, Error::TransactionTooLarge { .. }), "seed {seed}: {error}");
                let left: Vec<_> = tx.iter(&tree).map(|pair| pair.expect("read before")).collect();
                assert_eq!(left.len(), pairs.len(), "seed {seed}");
                assert!(left == pairs, "seed {seed}");
            }
        }
    }
    assert!(removed > 10 && refused > 10, "{removed} and {refused}");
    let (db, other) = (Db::in_memory().expect("memory"), Db::in_memory().expect("memory"));
    let theirs = other.tree("t").expect("room");
    let nothing = db.begin().remove_range(&theirs, "b".."a");
    assert!(matches!(nothing, Err(Error::OtherPool { .. })), "{nothing:?}");
}
