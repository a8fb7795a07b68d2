//! Transactions in pools that are nearly full: each happens as a whole, or is refused, and then another one
//! may have been first.
//!
//! `EVERLEAF_SCALE` sets how many there are (60,000), `EVERLEAF_SEED` the random numbers.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use everleaf::{Db, Error, Options, Tree};
use everleaf_testing::{Rng, seed_or, times};

const COUNTERS: usize = 4;

/// The answers to commits, counted.
#[derive(Default)]
struct Told {
    whole: [AtomicU64; COUNTERS],
    conflicts: AtomicU64,
    refused: AtomicU64,
}

fn count_of(tree: &Tree, i: usize) -> u64 {
    let found = tree.get([i as u8]).expect("sound");
    found.map_or(0, |bytes| u64::from_le_bytes(bytes.try_into().expect("a count")))
}

/// Raises a counter by one, and changes some pairs beside it.
fn raise(db: &Db, tree: &Tree, told: &Told, rng: &mut Rng) {
    let i = rng.below(COUNTERS as u64) as usize;
    let tx = db.begin();
    let found = tx.get(tree, [i as u8]).expect("sound");
    let count = found.map_or(0, |bytes| u64::from_le_bytes(bytes.try_into().expect("a count")));
    tx.put(tree, [i as u8], (count + 1).to_le_bytes()).expect("memory");
    for _ in 0..rng.below(6) {
        let key = [0xff, rng.below(200) as u8];
        match rng.below(4) {
            0 => tx.delete(tree, key).expect("memory"),
            _ => tx.put(tree, key, vec![7; rng.below(600) as usize]).expect("memory"),
        }
    }
    match tx.commit() {
        Ok(()) => &told.whole[i],
        Err(Error::Conflict { .. }) => &told.conflicts,
        Err(Error::Full { .. }) => &told.refused,
        Err(error) => panic!("{error}"),
    }
    .fetch_add(1, Ordering::Relaxed);
}

/// Fills the pool with a tree and drops that, so that the room of the next transaction is that of a dropped
/// tree.
fn fill_and_drop(db: &Db, rng: &mut Rng) {
    match db.tree("filler") {
        Ok(tree) => while tree.put(rng.next().to_le_bytes(), [3; 300]).is_ok() {},
        Err(Error::Full { .. }) => return,
        Err(error) => panic!("{error}"),
    }
    match db.drop_tree("filler") {
        Ok(_) | Err(Error::Full { .. }) => {}
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_transaction_that_waits_for_room_loses_nobodys_write() {
    let seed = seed_or(1);
    let n = times(60_000);
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("p.ever");
    let options = Options::new().page_bytes(512).max_bytes(400_000);
    let db = options.clone().open(&path).expect("room");
    let tree = db.tree("t").expect("room");
    let (told, ended) = (Told::default(), AtomicBool::new(false));
    thread::scope(|scope| {
        let filler = scope.spawn(|| {
            let mut rng = Rng(seed);
            while !ended.load(Ordering::Relaxed) {
                fill_and_drop(&db, &mut rng);
            }
        });
        let writers = [1, 2, 3].map(|writer| {
            let (db, tree, told) = (&db, &tree, &told);
            scope.spawn(move || {
                let mut rng = Rng(seed << 8 | writer);
                (0..n / 3).for_each(|_| raise(db, tree, told, &mut rng));
            })
        });
        let results = writers.map(|writer| writer.join());
        ended.store(true, Ordering::Relaxed);
        results.into_iter().for_each(|result| result.expect("no writer panics"));
        filler.join().expect("the filler does not panic");
    });
    let whole = |i: usize| told.whole[i].load(Ordering::Relaxed);
    let (conflicts, refused) = (told.conflicts.into_inner(), told.refused.into_inner());
    println!("EVERLEAF_SEED={seed}: {conflicts} conflicts, {refused} refused");
    for i in 0..COUNTERS {
        assert_eq!(count_of(&tree, i), whole(i), "EVERLEAF_SEED={seed}: counter {i}");
    }
    assert!((0..COUNTERS).all(|i| whole(i) > 0));
    assert!(n < 10_000 || refused > 0 && conflicts > 0, "{refused} refused, {conflicts} conflicts");
    assert_eq!(db.check().expect("sound"), []);
    drop(tree);
    db.close().expect("sound");
    let db = options.open(&path).expect("sound");
    let tree = db.open_tree("t").expect("sound").expect("it is there");
    assert!((0..COUNTERS).all(|i| count_of(&tree, i) == whole(i)), "EVERLEAF_SEED={seed}");
}

/// The only write of a transaction finds no room at first, and then that of a dropped tree. A snapshot keeps what it
/// replaces, and what the failed attempt kept is no other's change.
#[test]
fn a_transaction_that_finds_room_later_does_not_meet_itself() {
    let mut done = 0;
    for long in (0..40).map(|round| vec![1; 200 + 50 * round]) {
        let dir = tempfile::tempdir().expect("a directory");
        let options = Options::new().page_bytes(512).max_bytes(200_000).background(false);
        let db = options.open(dir.path().join("p.ever")).expect("room");
        let [tree, filler, dropped] = ["t", "filler", "dropped"].map(|t| db.tree(t).expect("room"));
        for i in 0..100 {
            tree.put([i], [i; 20]).expect("room");
            dropped.put([i], [i; 100]).expect("room");
        }
        // It stays while somebody could read it, and for a while after that.
        let before = db.snapshot().expect("memory");
        assert!(db.drop_tree("dropped").expect("it is there"));
        let snapshot = db.snapshot().expect("memory");
        while filler.put(filler.len().expect("open").to_le_bytes(), [3; 300]).is_ok() {}
        let tx = db.begin();
        assert_eq!(tx.get(&tree, [7]).expect("sound").as_deref(), Some(&[7; 20][..]));
        tx.put(&tree, [7], &long).expect("memory");
        drop(before);
        match tx.commit() {
            Ok(()) => done += 1,
            Err(Error::Full { .. }) => continue,
            Err(error) => panic!("nobody else has changed what it reads: {error}"),
        }
        assert_eq!(tree.get([7]).expect("sound").as_deref(), Some(&long[..]));
        let then = snapshot.tree("t").expect("open").expect("it was there");
        assert_eq!(then.get([7]).expect("sound").as_deref(), Some(&[7; 20][..]));
    }
    assert!(done > 0, "the dropped tree had no room");
}
