//! Epochs that the program ends, and that change more than memory may hold: a write that would is refused
//! and changes nothing, until the epoch has ended or is abandoned; and one epoch after the other, whatever
//! their length, memory does not fill.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread;

use everleaf::{Db, Durability, Error, Options, Tree};
use everleaf_file::io::SimIo;
use everleaf_testing::vecs;

const PATH: &str = "/pool/p.ever";
const MEMORY: u64 = 4 << 20;
/// What memory may take beyond: pages that were read by the last operations.
const SLACK: u64 = MEMORY / 20;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn open(io: &SimIo) -> Db {
    let options = Options::new().background(false).memory(MEMORY);
    options.open_on(Arc::new(io.clone()), PATH).expect("it opens")
}

fn key(i: u64) -> Vec<u8> {
    i.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes().to_vec()
}

fn value(i: u64) -> Vec<u8> {
    vec![i as u8; 100 + (i % 100) as usize]
}

/// Writes pairs from `from` on until one is refused; says which.
fn fill(tree: &Tree, from: u64) -> (u64, Error) {
    let refused = |i| tree.put(key(i), value(i)).err().map(|error| (i, error));
    (from..from + 1_000_000).find_map(refused).expect("memory has an end")
}

fn is_refusal(error: &Error) -> bool {
    matches!(error, Error::EpochTooLarge { bytes, bytes_max }
        if bytes > bytes_max && *bytes_max <= MEMORY && *bytes_max > MEMORY / 2)
}

fn expect_holds(db: &Db, model: &Model) {
    let tree = db.tree("t").expect("there");
    assert!(tree.iter().map(|pair| vecs(pair.expect("sound"))).eq(model.clone()));
    assert!(db.check().expect("it can be read").is_empty());
}

#[test]
fn an_epoch_beyond_memory_is_refused_and_ends_as_it_was() {
    let io = SimIo::new(1);
    let db = open(&io);
    let tree = db.tree("t").expect("room");
    db.sync().expect("no fault");
    let (mut next, mut model) = (0, Model::new());
    for round in 0..6 {
        let durable = db.durable_epoch();
        let (refused, error) = fill(&tree, next);
        assert!(is_refusal(&error), "{error}");
        assert!(error.to_string().contains("end it, or abandon it"), "{error}");
        assert!(refused > next + 500, "round {round}: {refused}");
        // Whatever writes is refused and changes nothing; who reads goes on.
        let (there, mut batch) = (key(next), db.batch());
        batch.put(&tree, "a", "b").expect("memory");
        batch.delete(&tree, &there).expect("memory");
        let errors = [
            batch.commit().expect_err("too much"),
            tree.with(Durability::Sync).put(&there, "other").expect_err("too much"),
            tree.remove(&there).expect_err("too much"),
            tree.delete(&there).expect_err("too much"),
            tree.put_from("large", &[7; 50_000][..], 50_000).expect_err("too much"),
            db.tree("another").map(drop).expect_err("too much"),
            db.rename_tree("t", "u").expect_err("too much"),
        ];
        errors.iter().for_each(|error| assert!(is_refusal(error), "{error}"));
        assert_eq!(tree.get(&there).expect("sound"), Some(value(next).into()));
        for absent in [key(refused), b"a".to_vec(), b"large".to_vec()] {
            assert_eq!(tree.get(absent).expect("sound"), None);
        }
        assert!(db.open_tree("another").expect("sound").is_none());
        assert_eq!(db.durable_epoch(), durable, "nothing has ended the epoch");
        let memory = db.stats().expect("open").memory;
        assert!(memory.bytes <= MEMORY + SLACK, "round {round}: {memory:?}");
        // A crash now takes all of it.
        let crashed = open(&io.power_cut(round));
        expect_holds(&crashed, &model);
        crashed.abandon().expect("open");
        db.sync().expect("no fault");
        (next..refused).for_each(|i| drop(model.insert(key(i), value(i))));
        expect_holds(&open(&io.power_cut(round)), &model);
        next = refused;
    }
    fill(&tree, next);
    db.abandon().expect("open");
    let db = open(&io);
    expect_holds(&db, &model);
    let tree = db.tree("t").expect("there");
    tree.put("more", "v").expect("room");
    tree.delete("more").expect("room");
    db.close().expect("no fault");
    expect_holds(&open(&io), &model);
}

#[test]
fn epochs_that_fit_do_not_fill_memory_one_after_the_other() {
    let io = SimIo::new(1);
    let db = open(&io);
    let tree = db.tree("t").expect("room");
    let mut model = Model::new();
    for i in 0..60_000 {
        tree.put(key(i), value(i)).expect("each epoch is short");
        model.insert(key(i), value(i));
        if i % 300 == 0 {
            db.sync().expect("no fault");
            let memory = db.stats().expect("open").memory;
            assert!(memory.bytes <= MEMORY + SLACK, "{i}: {memory:?}");
        }
    }
    db.sync().expect("no fault");
    assert!(db.stats().expect("open").memory.evictions > 1000);
    expect_holds(&db, &model);
}

#[test]
fn threads_that_end_the_epoch_when_they_are_refused_go_on() {
    const THREADS: u64 = 4;
    const EACH: u64 = 15_000;
    let io = SimIo::new(1);
    let db = open(&io);
    let tree = db.tree("t").expect("room");
    let refused: u64 = thread::scope(|scope| {
        let work = |thread: u64| {
            let (db, tree) = (&db, &tree);
            move || {
                let mut refused = 0;
                for i in thread * EACH..(thread + 1) * EACH {
                    while let Err(error) = tree.put(key(i), value(i)) {
                        assert!(is_refusal(&error), "{error}");
                        refused += 1;
                        db.sync().expect("no fault");
                    }
                }
                refused
            }
        };
        let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(work(thread))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
    });
    println!("{refused} refusals");
    assert!(refused > 0);
    let model = (0..THREADS * EACH).map(|i| (key(i), value(i))).collect();
    db.sync().expect("no fault");
    expect_holds(&db, &model);
    expect_holds(&open(&io.power_cut(1)), &model);
}
