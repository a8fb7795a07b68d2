//! A pool that is closed without its tail: what was durable is there, the running epoch is not, whatever
//! of it had been written; and the pool can be opened at once.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use everleaf::{Db, Error, Options, Storage};
use everleaf_file::io::SimIo;
use everleaf_testing::vecs;

const PATH: &str = "/pool/p.ever";

fn manual() -> Options {
    // Epochs of more than 16 KiB are spilled.
    Options::new().background(false).pending_bytes(64 << 10).max_bytes(64 << 20)
}

fn open(io: &SimIo, options: &Options) -> Db {
    options.open_on(Arc::new(io.clone()), PATH).expect("it opens")
}

fn put(db: &Db, keys: std::ops::Range<u32>, value: &[u8]) {
    let tree = db.tree("t").expect("room");
    for key in keys {
        tree.put(key.to_be_bytes(), value).expect("room");
    }
}

fn pairs(db: &Db) -> Vec<(Vec<u8>, Vec<u8>)> {
    db.tree("t").expect("a tree").iter().map(|pair| vecs(pair.expect("sound"))).collect()
}

#[test]
fn what_was_synced_stays_and_nothing_of_the_epoch_after_it() {
    for large in [false, true] {
        let io = SimIo::new(1);
        let db = open(&io, &manual());
        put(&db, 0..3000, b"kept");
        db.sync().expect("no fault");
        let epoch = db.durable_epoch();
        let value = if large { vec![7; 20_000] } else { vec![7; 20] };
        put(&db, 1000..if large { 1300 } else { 9000 }, &value);
        assert_eq!(db.durable_epoch(), epoch, "a spill makes nothing durable");
        let (other, tree) = (db.clone(), db.tree("t").expect("a tree"));
        db.abandon().expect("open");
        assert!(matches!(tree.put("k", ""), Err(Error::Closed)));
        assert!(matches!(tree.get("k"), Err(Error::Closed)));
        assert!(matches!(other.sync(), Err(Error::Closed)));
        assert!(matches!(other.clone().close(), Err(Error::Closed)));
        assert!(matches!(other.abandon(), Err(Error::Closed)));
        // The handles live on, and the lock is free. Also a power cut brings nothing of it back.
        for io in [io.power_cut(3), io] {
            let db = open(&io, &manual());
            assert_eq!(db.durable_epoch(), epoch);
            let found = pairs(&db);
            assert!(found.len() == 3000 && found.iter().all(|(_, value)| value == b"kept"));
            assert!(db.check().expect("it can be read").is_empty());
            put(&db, 0..10, b"again");
            db.close().expect("no fault");
            let db = open(&io, &manual());
            assert_eq!(pairs(&db).len(), 3000);
            assert!(db.check().expect("it can be read").is_empty());
        }
    }
}

#[test]
fn it_does_not_wait_for_the_end_of_the_interval_nor_for_who_waits() {
    let io = SimIo::new(1);
    let options = Options::new().interval(Duration::from_secs(3600)).max_bytes(64 << 20);
    let db = open(&io, &options);
    put(&db, 0..10, b"kept");
    db.sync().expect("no fault");
    put(&db, 10..20, b"gone");
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let tree = db.tree("t").expect("a tree");
            (100_u32..).find_map(|i| tree.put(i.to_be_bytes(), "gone").err())
        });
        thread::sleep(Duration::from_millis(5));
        db.clone().abandon().expect("open");
        assert!(matches!(writer.join().expect("no panic"), Some(Error::Closed)));
    });
    let db = open(&io, &options);
    // The writer may have been so fast that the epoch was ended early.
    let found = pairs(&db);
    assert!(found.len() == 10 || found.len() >= 20, "{} pairs", found.len());
}

#[test]
fn a_closed_pool_was_closed_and_a_read_only_one_ends() {
    let io = SimIo::new(1);
    let db = open(&io, &manual());
    put(&db, 0..10, b"kept");
    let other = db.clone();
    db.close().expect("no fault");
    other.abandon().expect("it was closed, and well");
    let db = open(&io, &manual().read_only(true));
    assert_eq!(pairs(&db).len(), 10);
    db.abandon().expect("open");
    assert_eq!(pairs(&open(&io, &manual())).len(), 10);
}

#[test]
fn on_persistent_memory_everything_is_durable() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("p.ever");
    let options = Options::new().storage(Storage::EmulatedDax).max_bytes(4 << 20);
    let db = options.open(&path).expect("new");
    put(&db, 0..10, b"kept");
    db.abandon().expect("open");
    assert_eq!(pairs(&options.open(&path).expect("closed")).len(), 10);
}

/// The end of an epoch that is under way meets it, say between values that were written and its records.
#[test]
fn whoever_writes_meanwhile_is_told_that_the_pool_was_closed() {
    for round in 0..100 {
        let io = SimIo::new(1);
        let db =
            open(&io, &Options::new().interval(Duration::from_micros(100)).max_bytes(64 << 20));
        put(&db, 0..10, b"kept");
        db.sync().expect("no fault");
        thread::scope(|scope| {
            for thread in 0..4_u32 {
                let (db, tree) = (&db, db.tree("t").expect("a tree"));
                scope.spawn(move || {
                    let key = (100 + thread).to_be_bytes();
                    let change = |i: u32| match i % 4 {
                        0 => db.sync(),
                        _ => tree.put(key, vec![thread as u8; 5000 * (i as usize % 10)]),
                    };
                    let refused = (0..).find_map(|i| change(i).err()).expect("an end");
                    assert!(matches!(refused, Error::Closed), "{refused}");
                });
            }
            thread::sleep(Duration::from_micros(500 + 31 * round));
            db.clone().abandon().expect("open");
        });
        let again = open(&io, &manual());
        assert!(again.check().expect("it can be read").is_empty());
        assert!(pairs(&again).len() >= 10);
    }
}
