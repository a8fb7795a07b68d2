//! Epochs that the program ends, and that change more than memory may hold: pages that they have changed leave memory, to
//! places of which nobody knows after a crash; and one epoch after the other, whatever their length, neither memory nor the
//! journal fills.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use everleaf::{Db, Options, Tree};
use everleaf_file::io::SimIo;
use everleaf_testing::{Rng, vecs};

const PATH: &str = "/pool/p.ever";
const MEMORY: u64 = 4 << 20;
/// Bytes that memory may take beyond: pages that were read by the last operations.
const SLACK: u64 = MEMORY / 20;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn open(io: &SimIo, background: bool) -> Db {
    let options = Options::new().manual_epochs(true).background(background).memory(MEMORY);
    let options = options.journal_bytes(4 << 20);
    options.open_on(Arc::new(io.clone()), PATH).expect("it opens")
}

fn key(i: u64) -> Vec<u8> {
    i.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes().to_vec()
}

/// One in so many is long enough for pages of its own.
fn value(i: u64) -> Vec<u8> {
    vec![i as u8; if i.is_multiple_of(400) { 30_000 } else { 100 + (i % 100) as usize }]
}

fn expect_holds(db: &Db, model: &Model) {
    let tree = db.tree("t").expect("there");
    assert!(tree.iter().map(|pair| vecs(pair.expect("sound"))).eq(model.clone()));
    assert!(db.check().expect("it can be read").is_empty());
}

fn expect_in_memory(db: &Db, what: &str) {
    let memory = db.stats().expect("open").memory;
    assert!(memory.bytes <= MEMORY + SLACK, "{what}: {memory:?}");
}

/// Changes as many pairs as take six times the memory, and forgets some.
fn change(tree: &Tree, model: &mut Model, round: u64) {
    for n in 0..150_000 {
        let i = (round * 50_000 + n) % 170_000;
        if n % 5 == 0 {
            tree.delete(key(i)).expect("there is room");
            model.remove(&key(i));
        } else {
            tree.put(key(i), value(i + round)).expect("there is room");
            model.insert(key(i), value(i + round));
        }
    }
}

/// Puts pairs, with values that are so many numbers further.
fn put_all(tree: &Tree, model: &mut Model, numbers: Range<u64>, further: u64) {
    for i in numbers {
        tree.put(key(i), value(i + further)).expect("there is room");
        model.insert(key(i), value(i + further));
    }
}

#[test]
fn an_epoch_larger_than_memory_is_kept_or_taken_back_as_a_whole() {
    is_kept_or_taken_back(false);
}

#[test]
fn so_is_one_beside_threads_of_the_pool() {
    is_kept_or_taken_back(true);
}

fn is_kept_or_taken_back(background: bool) {
    let io = SimIo::new(1);
    let mut db = open(&io, background);
    let mut model = Model::new();
    for round in 0..3 {
        let (tree, before) = (db.tree("t").expect("room"), db.epoch());
        let mut changed = model.clone();
        change(&tree, &mut changed, round);
        let what = format!("round {round}, {background}");
        expect_in_memory(&db, &what);
        assert_eq!(db.epoch(), before, "{what}: nothing has ended the epoch");
        assert!(db.stats().expect("open").memory.evictions > 1000, "{what}");
        expect_holds(&db, &changed);
        // A kill takes back all of the epoch, and so does a power cut.
        for disk in [io.kill(), io.power_cut(round)] {
            let crashed = open(&disk, false);
            expect_holds(&crashed, &model);
            crashed.abandon().expect("open");
        }
        if round == 1 {
            drop(tree);
            db.abandon().expect("open");
            db = open(&io, background);
            expect_holds(&db, &model);
            continue;
        }
        let epoch = db.end_epoch().expect("room");
        assert_eq!((epoch, db.epoch()), (before, before + 1), "{what}");
        model = changed;
        // A kill loses nothing of it, nor does a power cut once it is durable.
        expect_holds(&open(&io.kill(), false), &model);
        db.wait_durable(epoch).expect("no fault");
        expect_holds(&open(&io.power_cut(round), false), &model);
    }
    db.close().expect("no fault");
    expect_holds(&open(&io, background), &model);
}

/// The pages that each epoch changes keep of the journal what the last epochs have added, and no more.
#[test]
fn checkpoints_within_epochs_free_the_journal_of_those_before() {
    let io = SimIo::new(1);
    let db = open(&io, false);
    let tree = db.tree("t").expect("room");
    let (mut model, mut rng) = (Model::new(), Rng(1));
    for round in 0..60_u64 {
        for half in 0..2 {
            for _ in 0..1_000 {
                let i = rng.below(3_000);
                tree.put(key(i), value(i + round)).expect("room");
                model.insert(key(i), value(i + round));
            }
            if half == 0 {
                let durable = db.durable_epoch();
                db.checkpoint().expect("no fault");
                assert_eq!(db.durable_epoch(), durable.max(db.epoch() - 1), "none was ended");
            }
        }
        db.end_epoch().expect("room");
        let stats = db.stats().expect("open");
        // An epoch notes less than half of this.
        assert!(stats.journal_bytes < 2 << 20, "round {round}: {stats:?}");
        expect_in_memory(&db, "short epochs");
    }
    let crashed = open(&io.kill(), false);
    expect_holds(&crashed, &model);
}

#[test]
fn epochs_that_fit_do_not_fill_memory_one_after_the_other() {
    for background in [false, true] {
        let io = SimIo::new(1);
        let db = open(&io, background);
        let tree = db.tree("t").expect("room");
        let mut model = Model::new();
        for from in (0..60_000).step_by(300) {
            put_all(&tree, &mut model, from..from + 300, 0);
            db.end_epoch().expect("no fault");
            expect_in_memory(&db, &from.to_string());
        }
        let last = db.end_epoch().expect("no fault");
        db.wait_durable(last).expect("no fault");
        assert!(db.stats().expect("open").memory.evictions > 1000);
        expect_holds(&db, &model);
        expect_holds(&open(&io.power_cut(1), false), &model);
    }
}

/// Pages that wait for recovery do not keep an epoch from being larger than memory.
#[test]
fn an_epoch_behind_a_crash_is_larger_than_memory_too() {
    for background in [false, true] {
        let io = SimIo::new(1);
        let db = open(&io, background);
        let tree = db.tree("t").expect("room");
        let mut model = Model::new();
        change(&tree, &mut model, 0);
        db.checkpoint().expect("no fault");
        put_all(&tree, &mut model, 0..2_000, 7);
        db.sync().expect("no fault");
        let db = open(&io.power_cut(1), background);
        let tree = db.tree("t").expect("there");
        // Before all pages have come that the journal says something of.
        put_all(&tree, &mut model, 1_000_000..1_060_000, 0);
        expect_holds(&db, &model);
        expect_in_memory(&db, "behind a crash");
    }
}

#[test]
fn threads_write_more_than_memory_holds_beside_ends_of_epochs() {
    const THREADS: u64 = 4;
    const EACH: u64 = 15_000;
    for background in [false, true] {
        let io = SimIo::new(1);
        let db = open(&io, background);
        let tree = db.tree("t").expect("room");
        thread::scope(|scope| {
            for thread in 0..THREADS {
                let (db, tree) = (&db, &tree);
                scope.spawn(move || {
                    for i in thread * EACH..(thread + 1) * EACH {
                        tree.put(key(i), value(i)).expect("room");
                        if i % 4_000 == 1 {
                            db.end_epoch().expect("no fault");
                        }
                    }
                });
            }
        });
        let model = (0..THREADS * EACH).map(|i| (key(i), value(i))).collect();
        expect_in_memory(&db, "threads");
        db.end_epoch().expect("no fault");
        expect_holds(&db, &model);
        expect_holds(&open(&io.kill(), false), &model);
    }
}

/// A checkpoint frees nothing of what the open epoch has in the journal: it is not written again and again for that.
#[test]
fn beside_a_long_epoch_that_rests_the_pool_rests() {
    let io = SimIo::new(2);
    let options = Options::new().manual_epochs(true).journal_bytes(1 << 20);
    let db = options.open_on(Arc::new(io.clone()), PATH).expect("it opens");
    let tree = db.tree("t").expect("room");
    for i in 0..30_000 {
        tree.put(key(i), [7; 100]).expect("room");
    }
    let (mut calls, mut still) = (io.calls(), 0);
    for _ in 0..600 {
        thread::sleep(Duration::from_millis(20));
        let now = io.calls();
        still = if now == calls { still + 1 } else { 0 };
        calls = now;
        if still == 10 {
            break;
        }
    }
    assert_eq!(still, 10, "after 12 s it writes still: {calls} calls");
    db.end_epoch().expect("room");
    assert_eq!(tree.len().expect("open"), 30_000);
    db.close().expect("no fault");
}
