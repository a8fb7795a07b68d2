//! Pools that are larger than the memory that they may take.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use everleaf::io::{Fault, SimIo};
use everleaf::{Bytes, Db, Error, Options, Tree};
use everleaf_testing::{Rng, seed_or, vecs};

use crate::cut::disk::{Call, Disk};

/// Bytes that pages may take in most tests: few enough that most of a pool of some MiB is not there.
const MEMORY: u64 = 1 << 20;

fn options() -> Options {
    Options::new().memory(MEMORY)
}

fn key(i: u64) -> [u8; 8] {
    i.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}

fn value(i: u64, round: u64) -> Vec<u8> {
    let bytes = (i ^ round << 32).to_le_bytes();
    bytes.into_iter().cycle().take(60 + (i % 80) as usize).collect()
}

/// Waits until pages have left memory, as they are written; says how many bytes are there then.
fn settled(db: &Db) -> u64 {
    for _ in 0..5_000 {
        db.checkpoint().expect("no fault");
        let memory = db.stats().expect("sound").memory;
        if memory.bytes <= memory.most_bytes {
            return memory.bytes;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    db.stats().expect("sound").memory.bytes
}

#[test]
fn a_pool_that_is_larger_than_its_memory_is_a_pool() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("p.ever");
    let db = options().open(&path).expect("new");
    let tree = db.tree("t").expect("new");
    const PAIRS: u64 = 60_000;
    for i in 0..PAIRS {
        tree.insert(key(i), value(i, 0)).expect("space");
    }
    for i in (0..PAIRS).step_by(3) {
        assert_eq!(tree.insert(key(i), value(i, 1)).expect("space"), Some(value(i, 0).into()));
    }
    for i in (0..PAIRS).step_by(7) {
        assert!(tree.remove(key(i)).expect("sound").is_some());
    }
    let expected =
        |i: u64| (!i.is_multiple_of(7)).then(|| value(i, u64::from(i.is_multiple_of(3))));
    let holds = |tree: &Tree| {
        let n = tree.iter().map(|pair| drop(pair.expect("sound"))).count() as u64;
        assert_eq!(n, PAIRS - PAIRS.div_ceil(7));
        (0..PAIRS).for_each(|i| {
            assert_eq!(tree.get(key(i)).expect("sound").map(Bytes::into_vec), expected(i), "{i}")
        });
    };
    holds(&tree);
    let bytes = settled(&db);
    let memory = db.stats().expect("sound").memory;
    println!("{memory:?}");
    assert!(bytes <= MEMORY && memory.most_bytes == MEMORY - MEMORY / 32, "{memory:?}");
    assert!(memory.evictions > 4000 && memory.misses > 4000 && memory.hits > 0, "{memory:?}");
    assert!(memory.write_backs > 1000 && memory.misses >= memory.evictions, "{memory:?}");
    assert_eq!(db.check().expect("read"), []);
    drop(tree);
    db.close().expect("no fault");
    // A reader has as little, and what was not read is not there.
    let db = options().read_only(true).open(&path).expect("sound");
    let tree = db.tree("t").expect("there");
    assert!(db.stats().expect("sound").memory.bytes <= MEMORY);
    holds(&tree);
    let memory = db.stats().expect("sound").memory;
    assert!(memory.bytes <= MEMORY && memory.evictions > 1000, "{memory:?}");
    assert_eq!((memory.write_backs, db.check().expect("read")), (0, vec![]));
}

#[test]
fn memory_does_not_grow_with_the_file() {
    let dir = tempfile::tempdir().expect("a directory");
    const MEMORY: u64 = 256 << 10;
    let db = Options::new().memory(MEMORY).open(dir.path().join("p.ever")).expect("new");
    let tree = db.tree("t").expect("new");
    // Frames of 64 bytes for all of its pages would be five times the memory, and entries of 16 more than it.
    const PAIRS: u64 = 200_000;
    let long = |i: u64| [value(i, 0), vec![i as u8; 300]].concat();
    let ordered = |i: u64| i.to_be_bytes();
    for from in (0..PAIRS).step_by(500) {
        let mut batch = db.batch();
        for i in from..from + 500 {
            batch.put(&tree, ordered(i), long(i)).expect("memory");
        }
        batch.commit().expect("space");
    }
    let mut rng = Rng(seed_or(1));
    for _ in 0..20_000 {
        let i = rng.below(PAIRS);
        assert_eq!(tree.get(ordered(i)).expect("sound"), Some(long(i).into()));
    }
    for _ in 0..2000 {
        let i = rng.below(PAIRS);
        tree.put(ordered(i), long(i)).expect("space");
    }
    let bytes = settled(&db);
    let stats = db.stats().expect("sound");
    assert!(bytes <= MEMORY, "{stats:?}");
    assert_eq!(db.check().expect("read"), []);
    assert_eq!(tree.len().expect("sound"), PAIRS);
    assert_eq!(tree.iter().map(|pair| drop(pair.expect("sound"))).count() as u64, PAIRS);
    db.close().expect("no fault");
}

/// All pages that a batch needs stay while it is committed, and then as many leave.
#[test]
fn batches_one_after_the_other_leave_no_pages_behind() {
    const MOST: u64 = 8 << 20;
    let dir = tempfile::tempdir().expect("a directory");
    let db = Options::new().memory(MOST).open(dir.path().join("p.ever")).expect("new");
    let tree = db.tree("t").expect("new");
    let mut peak = 0;
    for round in 0..300 {
        let mut batch = db.batch();
        for i in round * 400..(round + 1) * 400 {
            batch.put(&tree, key(i), [7; 300]).expect("no fault");
        }
        batch.commit().expect("no fault");
        peak = peak.max(db.stats().expect("sound").memory.bytes);
    }
    let stats = db.stats().expect("sound");
    println!("at most {peak} bytes, {stats:?}");
    assert!(stats.live_bytes > 4 * MOST, "{stats:?}");
    // Pages that wait for a checkpoint cannot leave, and the disk may be slow; all that came would be 40 MiB.
    assert!(peak < 2 * MOST, "{peak} bytes, {stats:?}");
}

#[test]
fn what_is_used_stays_in_memory() {
    let dir = tempfile::tempdir().expect("a directory");
    let db = options().open(dir.path().join("p.ever")).expect("new");
    let tree = db.tree("t").expect("new");
    for i in 0..60_000_u64 {
        tree.insert(i.to_be_bytes(), value(i, 0)).expect("space");
    }
    settled(&db);
    let misses = || db.stats().expect("sound").memory.misses;
    // Eight gets of near keys for each get anywhere.
    let mut rng = Rng(seed_or(7));
    let mut gets = |n| {
        for _ in 0..n {
            for near in 0..9 {
                let i = rng.below(if near < 8 { 2000 } else { 60_000 });
                assert!(tree.get(i.to_be_bytes()).expect("sound").is_some());
            }
        }
    };
    gets(2000);
    let before = misses();
    gets(4000);
    let missed = misses() - before;
    println!("{missed} pages were read for 4,000 gets anywhere and 32,000 near ones");
    assert!(missed < 7000, "{missed} pages were read; a page that is used should stay");
    assert!(missed > 1000, "{missed} pages were read: the pool was in memory");
}

/// One random operation on a tree and on a model of it.
#[test]
fn who_reads_a_leaf_that_is_not_in_memory_finds_the_nodes_above_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("p.ever");
    let db = Options::new().open(&path).expect("new");
    let tree = db.tree("t").expect("new");
    // Each digit eight times: what tells neighbours apart is long, so that a hundred leaves have an inner node.
    let key = |i: u64| format!("{i:08}").chars().flat_map(|digit| [digit; 8]).collect::<String>();
    const PAIRS: u64 = 300_000;
    let mut batch = db.batch();
    for i in 0..PAIRS {
        batch.put(&tree, key(i), [7; 100]).expect("room");
    }
    batch.commit().expect("space");
    drop(tree);
    db.close().expect("no fault");
    let db = Options::new().memory(2 * MEMORY).background(false).open(&path).expect("sound");
    let tree = db.tree("t").expect("there");
    let mut rng = Rng(seed_or(1));
    let mut get = |n| {
        let before = db.stats().expect("sound").memory.misses;
        for _ in 0..n {
            assert!(tree.contains(key(rng.below(PAIRS))).expect("sound"));
        }
        db.stats().expect("sound").memory.misses - before
    };
    get(10_000);
    let misses = get(20_000);
    println!("{misses} pages for 20,000 gets, {:?}", db.stats().expect("sound").memory);
    assert!(misses > 18_000, "nearly all leaves are on the disk: {misses} pages");
    assert!(misses < 22_000, "inner nodes are read again and again: {misses} pages");
}

fn step(rng: &mut Rng, tree: &Tree, model: &mut BTreeMap<Vec<u8>, Vec<u8>>) {
    let key = key(rng.below(40_000)).to_vec();
    match rng.below(10) {
        0..4 => {
            // Leaf, record, and pages of its own.
            let len = [8, 90, 300, 700, 3000, 9000][rng.below(6) as usize];
            let value = vec![rng.below(256) as u8; len];
            let before = tree.insert(&key, &value).expect("space");
            assert_eq!(before.map(Bytes::into_vec), model.insert(key, value));
        }
        4..6 => {
            assert_eq!(tree.remove(&key).expect("sound").map(Bytes::into_vec), model.remove(&key))
        }
        6..9 => assert_eq!(
            tree.get(&key).expect("sound").as_deref(),
            model.get(&key).map(Vec::as_slice)
        ),
        _ => {
            let range = (Bound::Included(key.clone()), Bound::Unbounded);
            let found = tree.range(key..).take(30).map(|pair| vecs(pair.expect("sound")));
            let wanted = model.range::<Vec<u8>, _>(range).take(30);
            assert!(found.eq(wanted.map(|(k, v)| (k.clone(), v.clone()))));
        }
    }
}

#[test]
fn a_small_memory_changes_no_answer() {
    let seed = seed_or(11);
    println!("EVERLEAF_SEED={seed}");
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("p.ever");
    let mut rng = Rng(seed);
    let mut model = BTreeMap::new();
    for round in 0..4 {
        let memory = [512 << 10, 1 << 20][round % 2];
        let db = Options::new().memory(memory).open(&path).expect("sound");
        let tree = db.tree("t").expect("sound");
        for i in (0..20_000).filter(|_| round == 0) {
            tree.insert(key(i), value(i, 0)).expect("space");
            model.insert(key(i).to_vec(), value(i, 0));
        }
        for i in 0..12_000 {
            step(&mut rng, &tree, &mut model);
            if i % 3000 == 2999 {
                db.checkpoint().expect("no fault");
            }
        }
        assert!(tree.iter().map(|pair| vecs(pair.expect("sound"))).eq(model.clone()));
        assert_eq!(db.check().expect("read"), []);
        let evictions = db.stats().expect("sound").memory.evictions;
        assert!(evictions > 500, "{evictions} evictions");
        drop(tree);
        match round {
            // As a kill leaves it, but for the end of the epoch.
            1 => drop(db),
            _ => db.close().expect("no fault"),
        }
    }
}

#[test]
fn threads_share_a_small_memory() {
    let dir = tempfile::tempdir().expect("a directory");
    let db = options().open(dir.path().join("p.ever")).expect("new");
    let tree = db.tree("t").expect("new");
    const THREADS: u64 = 4;
    let seed = seed_or(5);
    println!("EVERLEAF_SEED={seed}");
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..THREADS)
            .map(|t| {
                let tree = &tree;
                scope.spawn(move || {
                    let mut rng = Rng(seed + t);
                    let mut mine = BTreeMap::new();
                    for round in 0..12_000 {
                        let i = rng.below(8000) * THREADS + t;
                        if rng.below(4) == 0 {
                            let before = tree.remove(key(i)).expect("sound");
                            assert_eq!(before.map(Bytes::into_vec), mine.remove(&i));
                        } else {
                            let value = value(i, round);
                            let before = tree.insert(key(i), &value).expect("space");
                            assert_eq!(before.map(Bytes::into_vec), mine.insert(i, value));
                        }
                        let i = rng.below(8000) * THREADS + t;
                        let found = tree.get(key(i)).expect("sound");
                        assert_eq!(found.as_deref(), mine.get(&i).map(Vec::as_slice));
                    }
                    mine
                })
            })
            .collect();
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let mut last = Vec::new();
                for pair in tree.iter() {
                    let (key, _) = pair.expect("sound");
                    assert!(*key > *last, "keys rise");
                    last = key.into();
                }
            }
        });
        let maps: Vec<_> = writers.into_iter().map(|writer| writer.join().expect("done")).collect();
        is_over.store(true, Ordering::Relaxed);
        for (i, value) in maps.iter().flatten() {
            assert_eq!(tree.get(key(*i)).expect("sound").as_deref(), Some(&value[..]));
        }
        let n = maps.iter().map(BTreeMap::len).sum::<usize>();
        assert_eq!(tree.iter().count(), n);
    });
    assert!(settled(&db) <= MEMORY);
    let memory = db.stats().expect("sound").memory;
    println!("{memory:?}");
    assert!(memory.evictions > 300, "{memory:?}");
    assert_eq!(db.check().expect("read"), []);
    drop(tree);
    db.close().expect("no fault");
}

#[test]
fn a_batch_may_be_larger_than_memory() {
    let dir = tempfile::tempdir().expect("a directory");
    let db = Options::new().memory(512 << 10).open(dir.path().join("p.ever")).expect("new");
    let tree = db.tree("t").expect("new");
    for round in 0..3 {
        let mut batch = db.batch();
        (0..10_000).for_each(|i| batch.put(&tree, key(i), value(i, round)).expect("memory"));
        batch.commit().expect("space");
        for i in 0..10_000 {
            assert_eq!(tree.get(key(i)).expect("sound"), Some(value(i, round).into()));
        }
    }
    assert!(settled(&db) <= 512 << 10, "{:?}", db.stats().expect("sound").memory);
}

#[test]
fn a_page_that_cannot_be_read_again_is_an_error_of_that_call() {
    let (disk, path) = (SimIo::new(1), "/pool/p.ever");
    let options = options().background(false);
    let db = options.open_on(Arc::new(disk.clone()), path).expect("new");
    let tree = db.tree("t").expect("new");
    const PAIRS: u64 = 30_000;
    for i in 0..PAIRS {
        tree.insert(key(i), value(i, 0)).expect("space");
        if i % 100 == 0 {
            db.sync().expect("no fault");
        }
    }
    assert!(settled(&db) <= MEMORY);
    let mut failed = 0;
    for i in 0..600 {
        // The next call to the disk fails, if one is made.
        let calls = disk.calls();
        disk.fail_at(calls, Fault::Io);
        let done = match i % 3 {
            0 => {
                tree.get(key(i * 40)).map(|found| assert_eq!(found, Some(value(i * 40, 0).into())))
            }
            1 => tree.range(key(i * 40)..).next().expect("a pair").map(drop),
            _ => tree.insert(key(i * 40), value(i * 40, 0)).map(drop),
        };
        assert_eq!(done.is_err(), disk.calls() > calls, "{i}: {done:?}");
        if let Err(error) = done {
            assert!(matches!(error, Error::Io { .. }), "{i}: {error}");
            failed += 1;
        }
        disk.fail_at(u64::MAX, Fault::Io);
        // The very next call gets what is there, and writes go on.
        assert_eq!(tree.get(key(i * 40)).expect("no fault"), Some(value(i * 40, 0).into()));
        tree.insert(key(PAIRS + i), value(i, 1)).expect("no fault");
        if i % 50 == 0 {
            db.sync().expect("no fault");
        }
    }
    assert!(failed > 300, "{failed} calls failed");
    db.sync().expect("no fault");
    settled(&db);
    for i in 0..PAIRS {
        assert_eq!(tree.get(key(i)).expect("no fault"), Some(value(i, 0).into()));
    }
    assert_eq!(db.check().expect("read"), []);
    drop(tree);
    db.close().expect("no fault");
}

/// A check of a pool that is larger than its memory leaves that memory alone: each page is read once, and what
/// was in memory is there afterwards.
#[test]
fn a_check_leaves_in_memory_what_is_there() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("p.ever");
    let db = Options::new().open(&path).expect("new");
    let tree = db.tree("t").expect("new");
    (0..30_000).for_each(|i| tree.put(key(i), value(i, 0)).expect("space"));
    drop(tree);
    db.close().expect("no fault");
    let db = options().read_only(true).open(&path).expect("sound");
    let tree = db.tree("t").expect("there");
    let memory = || db.stats().expect("sound").memory;
    let get_some = || {
        (0..100).for_each(|i| {
            assert_eq!(tree.get(key(i)).expect("sound"), Some(value(i, 0).into()), "{i}");
        });
    };
    get_some();
    let before = memory();
    let pages = db.count().expect("sound").pages;
    let nodes = pages.iter().find(|pages| pages.kind == "node").expect("listed").pages;
    let counted = memory();
    assert!(nodes * 4096 > 2 * MEMORY, "{pages:?}");
    for _ in 0..2 {
        let before = memory();
        assert_eq!(db.check().expect("read"), []);
        let (read, after) = (memory().misses - before.misses, memory());
        assert!(read <= nodes + 20, "{read} pages of {nodes}");
        assert_eq!(after.evictions, before.evictions);
        assert!(after.bytes <= before.bytes + (64 << 10), "{before:?}, {after:?}");
    }
    assert_eq!(counted.evictions, before.evictions);
    let before = memory().misses;
    get_some();
    assert_eq!(memory().misses, before, "all of it is in memory still");
}

/// A check of a pool that was not closed sees what the journal has, also where it may not write.
#[test]
fn a_check_sees_changes_that_only_the_journal_has() {
    let (disk, path) = (SimIo::new(1), "/pool/p.ever");
    let on = |disk, options: Options| options.open_on(Arc::new(disk), path).expect("sound");
    const PAIRS: u64 = 10_000;
    let db = on(disk.clone(), Options::new().background(false));
    for (n, name) in ["a", "b"].into_iter().enumerate() {
        let tree = db.tree(name).expect("new");
        (0..PAIRS).for_each(|i| tree.put(key(i), value(i, 0)).expect("space"));
        db.checkpoint().expect("no fault");
        // Some pages change, and some do not; some are new.
        (0..100).for_each(|i| tree.put(key(PAIRS + i), value(i, n as u64)).expect("space"));
        (0..50).for_each(|i| assert!(tree.remove(key(i)).expect("sound").is_some()));
    }
    db.sync().expect("no fault");
    for read_only in [true, false] {
        let db = on(disk.power_cut(1), options().background(false).read_only(read_only));
        assert_eq!(db.check().expect("read"), []);
        let entries: Vec<_> = db.count().expect("sound").trees.iter().map(|t| t.entries).collect();
        assert_eq!(entries, [PAIRS + 50; 2]);
        let memory = db.stats().expect("sound").memory;
        assert!(memory.bytes > 256 << 10 && memory.misses > 500, "{memory:?}");
    }
}

/// A page that a checkpoint has copied, and that the table does not know of yet, stays in memory: its old image is all
/// that could be read again.
#[test]
fn a_page_that_is_being_written_stays_in_memory() {
    let disk = Disk::new(SimIo::new(1));
    let db = options().background(false).open_on(Arc::new(disk.clone()), "/p.ever").expect("new");
    let tree = db.tree("t").expect("new");
    const PAIRS: u64 = 20_000;
    for i in 0..PAIRS {
        tree.put(key(i), value(i, 0)).expect("space");
        if i.is_multiple_of(100) {
            db.sync().expect("no fault");
        }
    }
    assert!(settled(&db) <= MEMORY);
    let (mut evicted, mut round) = (0, 0);
    // The checkpoint stops in each of its writes.
    loop {
        let (others, changed) = (round, |i: u64| i.is_multiple_of(331));
        round += 1;
        for i in (0..PAIRS).filter(|i| changed(*i)) {
            tree.put(key(i), value(i, round)).expect("space");
        }
        let (stopped, go_on) = disk.pause_at(Call::Write, others);
        let stops = std::thread::scope(|threads| {
            threads.spawn(|| {
                db.checkpoint().expect("no fault");
                disk.pause_no_more();
            });
            // Nobody stops if there are fewer writes.
            let stops = stopped.recv().is_ok();
            let before = db.stats().expect("sound").memory.evictions;
            for i in 0..PAIRS {
                let wanted = value(i, if changed(i) { round } else { 0 });
                assert_eq!(
                    tree.get(key(i)).expect("sound"),
                    Some(wanted.into()),
                    "{i}, write {others}"
                );
            }
            evicted += db.stats().expect("sound").memory.evictions - before;
            drop(go_on);
            stops
        });
        if !stops {
            break;
        }
    }
    assert!(round > 3 && evicted > 1000, "{round} rounds, {evicted} pages left memory");
}
