//! Batches beside one another and beside readers, and in pools that become full.

use std::collections::BTreeMap;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use everleaf::{Db, Error, Options, Storage};
use everleaf_testing::{Rng, seed_or, times, vecs};

fn pool(options: &Options) -> (tempfile::TempDir, Db) {
    let dir = tempfile::tempdir().unwrap();
    let db = options.open(dir.path().join("p.ever")).unwrap();
    (dir, db)
}

#[test]
fn two_batches_at_once_leave_one_after_the_other() {
    const ROUNDS: u32 = 20_000;
    let (_dir, db) = pool(&Options::new());
    let tree = db.tree("t").unwrap();
    let (start, mixed) = (Barrier::new(2), AtomicU32::new(0));
    let write = |own: u8| {
        for _ in 0..ROUNDS {
            let mut batch = db.batch();
            for key in 0..8u8 {
                batch.put(&tree, [key], [own]).unwrap();
            }
            start.wait();
            batch.commit().unwrap();
            if start.wait().is_leader() {
                let found: Vec<u8> = tree.iter().map(|pair| pair.unwrap().1[0]).collect();
                let is_mixed = found != [0; 8] && found != [1; 8];
                mixed.fetch_add(u32::from(is_mixed), Ordering::Relaxed);
            }
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| write(0));
        scope.spawn(|| write(1));
    });
    assert_eq!(mixed.into_inner(), 0, "of {ROUNDS} rounds");
}

#[test]
fn a_full_pool_names_its_limit_in_bytes() {
    let (_dir, db) = pool(&Options::new().max_bytes(1 << 20));
    let tree = db.tree("t").unwrap();
    let full = (0u32..).find_map(|i| tree.insert(i.to_be_bytes(), [7; 500]).err()).unwrap();
    assert!(matches!(full, Error::Full { bytes: 0x10_0000 }), "{full}");
    assert_eq!(full.to_string(), "the pool is full: its limit is 1,048,576 bytes");
}

/// Fills a pool with pairs of its own key and length, down to `left` free pages or so.
fn filled(db: &Db, pairs: u32) -> everleaf::Tree {
    let tree = db.tree("t").unwrap();
    for i in 0..pairs {
        if tree.insert(i.wrapping_mul(0x9e37_79b9).to_be_bytes(), [7; 60]).is_err() {
            break;
        }
    }
    tree
}

/// At each level to which a small pool is filled: a batch happens as a whole, or is refused and
/// nothing has happened. A reader looks all the while; the pool goes on in either case.
fn a_batch_in_a_pool_that_becomes_full(options: &Options, most_pairs: usize) -> (u32, u32) {
    let (mut whole, mut refused) = (0, 0);
    let dir = tempfile::tempdir().unwrap();
    for pairs in (0..most_pairs as u32).step_by(most_pairs / 87) {
        let db = options.open(dir.path().join(format!("{pairs}"))).unwrap();
        let tree = filled(&db, pairs);
        let other = db.tree("u").ok();
        let before = tree.iter().count();
        let mut batch = db.batch();
        let keys: Vec<_> = (0..40u32).map(|i| [b"new", &i.to_be_bytes()[..]].concat()).collect();
        for (i, key) in keys.iter().enumerate() {
            let value = vec![1; if i == 20 { 6000 } else { 90 * (i % 4) }];
            batch.put(other.as_ref().filter(|_| i % 3 == 0).unwrap_or(&tree), key, value).unwrap();
            if i % 5 == 0 {
                batch.delete(&tree, (i as u32).wrapping_mul(0x9e37_79b9).to_be_bytes()).unwrap();
            }
        }
        let over = std::sync::atomic::AtomicBool::new(false);
        let (committed, seen) = std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let mut seen = false;
                while !over.load(Ordering::Relaxed) {
                    seen |= keys.iter().any(|key| tree.contains(key).unwrap());
                }
                seen
            });
            let committed = batch.commit();
            over.store(true, Ordering::Relaxed);
            (committed, reader.join().unwrap())
        });
        let found = |key: &Vec<u8>| {
            tree.contains(key).unwrap() || other.as_ref().is_some_and(|o| o.contains(key).unwrap())
        };
        match committed {
            Ok(()) => {
                whole += 1;
                assert!(keys.iter().all(found), "{pairs} pairs before");
            }
            Err(error) => {
                refused += 1;
                assert!(matches!(error, Error::Full { .. }), "{pairs} pairs before: {error}");
                assert!(!seen && !keys.iter().any(found), "{pairs} pairs before: a part was seen");
                assert_eq!(tree.iter().count(), before);
            }
        }
        // The pool goes on: what is there can be removed, and what fits be written.
        let first = tree.first().unwrap();
        if let Some((key, _)) = first {
            tree.remove(&key).unwrap();
            tree.insert(&key, [7; 60]).unwrap();
        }
        assert_eq!(db.check().unwrap(), [], "{pairs} pairs before");
        db.close().unwrap();
    }
    (whole, refused)
}

#[test]
fn a_batch_that_does_not_fit_is_refused_before_its_first_change() {
    let (whole, refused) = a_batch_in_a_pool_that_becomes_full(
        // One group of pages for nodes and records, and a small one for extents.
        &Options::new().page_bytes(512).max_bytes(250_000).background(false),
        3000,
    );
    assert!(whole > 20 && refused > 20, "{whole} happened, {refused} were refused");
}

#[test]
fn a_batch_that_does_not_fit_persistent_memory_is_refused_before_its_first_change() {
    let options = Options::new().page_bytes(256).max_bytes(200_000);
    let (whole, refused) =
        a_batch_in_a_pool_that_becomes_full(&options.storage(everleaf::Storage::EmulatedDax), 2000);
    assert!(whole > 20 && refused > 20, "{whole} happened, {refused} were refused");
}

/// A damaged page that a later change of a batch needs is met before the first one.
#[test]
fn a_batch_that_meets_a_damaged_page_is_refused_before_its_first_change() {
    use std::os::unix::fs::FileExt;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("p.ever");
    {
        let db = Db::open(&path).unwrap();
        let (good, bad) = (db.tree("good").unwrap(), db.tree("bad").unwrap());
        good.insert("k", "old").unwrap();
        (0..100u32).for_each(|i| drop(bad.insert(i.to_be_bytes(), [0xA5; 400]).unwrap()));
        db.close().unwrap();
    }
    let bytes = std::fs::read(&path).unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    for at in (0..bytes.len() - 400).filter(|at| bytes[*at..*at + 400] == [0xA5; 400]) {
        file.write_all_at(&[0], at as u64 + 7).unwrap();
    }
    let db = Db::open(&path).unwrap();
    let (good, bad) = (db.tree("good").unwrap(), db.tree("bad").unwrap());
    let mut batch = db.batch();
    batch.put(&good, "k", "new").unwrap();
    batch.delete(&bad, 50u32.to_be_bytes()).unwrap();
    assert!(matches!(batch.commit(), Err(Error::Corrupt { .. })));
    assert_eq!(good.get("k").unwrap(), Some(b"old".into()));
    good.insert("k", "later").unwrap();
    db.sync().unwrap();
}

/// Writers of single pairs take what they get of a small pool, and give it back; batches beside them
/// happen or are refused, and never stop the pool.
#[test]
fn batches_beside_writers_of_a_full_pool_never_stop_it() {
    let (_dir, db) = pool(&Options::new().page_bytes(512).max_bytes(300_000));
    let tree = db.tree("t").unwrap();
    let over = std::sync::atomic::AtomicBool::new(false);
    let (mut whole, mut refused) = (0, 0);
    std::thread::scope(|scope| {
        for own in 0..3u32 {
            let (tree, over) = (&tree, &over);
            scope.spawn(move || {
                for i in 0u32.. {
                    if over.load(Ordering::Relaxed) {
                        break;
                    }
                    let key = ((i.wrapping_mul(0x9e37_79b9) % 2000) << 2 | own).to_be_bytes();
                    match tree.insert(key, vec![1; 30 + i as usize % 100]) {
                        Ok(_) => {}
                        Err(Error::Full { .. }) if i % 8 != 0 => {}
                        Err(Error::Full { .. }) => {
                            (0..200).for_each(|k| {
                                drop(tree.remove((k << 2 | own).to_be_bytes()).unwrap())
                            });
                        }
                        Err(error) => panic!("{error}"),
                    }
                }
            });
        }
        for round in 0..1500u32 {
            let mut batch = db.batch();
            for i in 0..30u32 {
                let key =
                    ((round.wrapping_mul(77).wrapping_add(i * 61) % 2000) << 2 | 3).to_be_bytes();
                let value = vec![2; 40 * (i as usize % 5)];
                if round % 3 == 0 {
                    batch.delete(&tree, key)
                } else {
                    batch.put(&tree, key, value)
                }
                .unwrap();
            }
            match batch.commit() {
                Ok(()) => whole += 1,
                Err(Error::Full { .. }) => {
                    refused += 1;
                    // Room for some of those that follow, whatever the writers do.
                    let keys = if refused % 16 == 0 { 0..6000u32 } else { 0..0 };
                    keys.for_each(|k| {
                        tree.remove((((k / 3) << 2) | (k % 3)).to_be_bytes()).unwrap();
                    });
                }
                Err(error) => {
                    over.store(true, Ordering::Relaxed);
                    panic!("{error}");
                }
            }
        }
        over.store(true, Ordering::Relaxed);
    });
    assert!(whole > 0 && refused > 0, "{whole} happened, {refused} were refused");
    assert_eq!(db.check().unwrap(), []);
}

#[test]
fn a_full_pool_can_be_emptied_by_deleting_and_serves_again() {
    for length in [10, 200, 5000] {
        let (_dir, db) = pool(&Options::new().page_bytes(512).max_bytes(1 << 20));
        let tree = db.tree("t").unwrap();
        let fill = || -> Vec<[u8; 4]> {
            // Freed space is given out again when the freeing is durable.
            db.sync().unwrap();
            let keys = (0u32..).map(|i| i.wrapping_mul(0x9e37_79b9).to_be_bytes());
            keys.take_while(|key| tree.insert(key, vec![7; length]).is_ok()).collect()
        };
        let mut counts = Vec::new();
        for _ in 0..3 {
            let keys = fill();
            assert!(matches!(
                tree.insert("more", vec![7; length]),
                Err(Error::Full { .. }) | Ok(_)
            ));
            for key in &keys {
                assert!(tree.remove(key).unwrap().is_some());
            }
            tree.remove("more").unwrap();
            assert_eq!((tree.iter().count(), db.check().unwrap()), (0, vec![]));
            counts.push(keys.len());
        }
        assert!(counts.iter().all(|n| n * 10 >= counts[0] * 9), "{length} bytes: {counts:?}");
    }
}

/// Keys that differ in their first bytes, behind them, in length alone, or not at all.
fn any_key(rng: &mut Rng) -> Vec<u8> {
    let stem: &[u8] = rng.pick(&[&b""[..], b"a", b"12345678", b"a common beginning "]);
    let end = (0..rng.below(4)).map(|_| [0, 1, b'a', 255][rng.below(4) as usize]);
    stem.iter().copied().chain(end).collect()
}

/// Lengths that stay in a leaf, and such that have a page, or pages, of their own.
fn any_value(rng: &mut Rng) -> Vec<u8> {
    let len = [0, 8, 100, 600, 9_000][rng.below(5) as usize];
    vec![rng.next() as u8; len]
}

#[test]
fn of_several_changes_of_a_key_the_last_one_counts() {
    let seed = seed_or(1);
    let mut rng = Rng(seed);
    let (_dir, db) = pool(&Options::new().page_bytes(512));
    let (_dir_dax, dax) = pool(&Options::new().storage(Storage::EmulatedDax).max_bytes(64 << 20));
    for db in [db, dax] {
        let trees: Vec<_> = (0..12).map(|n| db.tree(&format!("{n}")).unwrap()).collect();
        let mut models = vec![BTreeMap::new(); trees.len()];
        for round in 0..times(60) {
            let (mut batch, some) = (db.batch(), 1 + rng.below(trees.len() as u64));
            let snapshot = rng.one_in(3).then(|| (db.snapshot().unwrap(), models.clone()));
            for _ in 0..rng.below(200) {
                let (n, key) = (rng.below(some) as usize, any_key(&mut rng));
                if rng.one_in(3) {
                    batch.delete(&trees[n], &key).unwrap();
                    models[n].remove(&key);
                } else {
                    let value = any_value(&mut rng);
                    batch.put(&trees[n], &key, &value).unwrap();
                    models[n].insert(key, value);
                }
            }
            batch.commit().unwrap();
            for (tree, model) in trees.iter().zip(&models) {
                let found: BTreeMap<_, _> = tree.iter().map(|pair| vecs(pair.unwrap())).collect();
                assert!(found == *model, "EVERLEAF_SEED={seed}, round {round}, {}", tree.name());
                assert_eq!(tree.len().unwrap(), model.len() as u64);
            }
            let Some((snapshot, before)) = snapshot else { continue };
            for (tree, model) in trees.iter().zip(before) {
                let then = snapshot.of(tree).unwrap();
                let found: BTreeMap<_, _> = then.iter().map(|pair| vecs(pair.unwrap())).collect();
                assert!(found == model, "EVERLEAF_SEED={seed}, round {round}: a snapshot");
            }
        }
        assert_eq!(db.check().unwrap(), []);
    }
}

/// A batch beside writers of the same leaves: its places are stale when it comes to them.
#[test]
fn a_batch_beside_writers_of_its_leaves_makes_all_its_changes() {
    let (_dir, db) = pool(&Options::new().page_bytes(512));
    let tree = db.tree("t").unwrap();
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in (0_u32..).take_while(|_| !ended.load(Ordering::Relaxed)) {
                let key = (n.wrapping_mul(0x9e37_79b9) % 4000, 1_u32);
                tree.put([key.0.to_be_bytes(), key.1.to_be_bytes()].concat(), [1; 20]).unwrap();
                tree.delete([key.0.to_be_bytes(), key.1.to_be_bytes()].concat()).unwrap();
            }
        });
        for round in 0..20_u8 {
            let mut batch = db.batch();
            for n in 0..4000_u32 {
                let key = [n.to_be_bytes(), [0; 4]].concat();
                match (n + u32::from(round)).is_multiple_of(3) {
                    true => batch.delete(&tree, key),
                    false => batch.put(&tree, key, [round; 20]),
                }
                .unwrap();
            }
            batch.commit().unwrap();
            for n in 0..4000_u32 {
                let gone = (n + u32::from(round)).is_multiple_of(3);
                let value = tree.get([n.to_be_bytes(), [0; 4]].concat()).unwrap();
                assert_eq!(value, (!gone).then(|| vec![round; 20].into()), "{n} in round {round}");
            }
        }
        ended.store(true, Ordering::Relaxed);
    });
    assert_eq!(db.check().unwrap(), []);
}
