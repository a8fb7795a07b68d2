//! Compactions of files whose journal has come to their end, beside writers, and of pools that are closed
//! meanwhile.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use everleaf::{Db, Error, Options, Tree};
use everleaf_testing::Rng;

const LARGE: u32 = 150;

fn large(i: u32) -> Vec<u8> {
    Rng(i.into()).bytes(300_000)
}

fn key(i: u32) -> [u8; 4] {
    i.to_be_bytes()
}

/// A pool of 45 MB, of which 4.5 MB are alive, and whose journal has gone on at the end of the file.
fn a_long_pool(path: &Path) -> (Db, Tree) {
    let db = Options::new().background(false).open(path).expect("new");
    let tree = db.tree("t").expect("new");
    (0..LARGE).for_each(|i| tree.put(key(i), large(i)).expect("there is room"));
    db.checkpoint().expect("there is room");
    let mut rng = Rng(7);
    for i in 0..60_u32 {
        let fill = |j: u32| tree.put(key(1_000 + j), rng.bytes::<Vec<u8>>(400)).expect("room");
        (0..200).for_each(fill);
        db.sync().unwrap_or_else(|error| panic!("epoch {i}: {error}"));
    }
    let dead = (0..LARGE).filter(|i| i % 10 > 0);
    dead.for_each(|i| tree.delete(key(i)).expect("sound"));
    (db, tree)
}

fn expect_all(tree: &Tree) {
    for i in 0..LARGE {
        let found = tree.get(key(i)).expect("sound");
        assert!(found == (i % 10 == 0).then(|| large(i)), "value {i}");
    }
}

#[test]
fn a_compaction_moves_the_journal_from_the_end_of_the_file() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("p.ever");
    let (db, tree) = a_long_pool(&path);
    let done = db.compact().expect("there is room");
    assert!(done.before_bytes > 45_000_000 && done.after_bytes < 10_000_000, "{done:?}");
    // What follows is read from where the journal is now, after a kill at that moment.
    tree.put("after", "it").expect("there is room");
    db.sync().expect("there is room");
    let killed = dir.path().join("killed.ever");
    std::fs::copy(&path, &killed).expect("room");
    let copy = Db::open(&killed).expect("a pool");
    let found = copy.tree("t").expect("there");
    assert_eq!(found.get("after").expect("sound"), Some(b"it".to_vec()));
    expect_all(&found);
    assert_eq!(copy.check().expect("readable"), []);
    expect_all(&tree);
    db.close().expect("there is room");
}

#[test]
fn a_compaction_beside_a_writer_moves_the_journal_too() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("p.ever");
    let (db, tree) = a_long_pool(&path);
    let stop = AtomicBool::new(false);
    let done = thread::scope(|threads| {
        let writer = threads.spawn(|| {
            for i in 0_u32.. {
                tree.put("busy", key(i)).expect("there is room");
                db.sync().expect("there is room");
                if stop.load(Ordering::Relaxed) {
                    return i;
                }
            }
            unreachable!("no end of numbers")
        });
        // The writer may have had no turn during one of them.
        let runs = [(); 3].map(|()| db.compact().expect("there is room"));
        stop.store(true, Ordering::Relaxed);
        (runs, writer.join().expect("no panic"))
    });
    let (runs, last) = done;
    // 9 MiB are in use. The writer has free extents made ready again whenever it finds them cut off, about 12.
    assert!(runs[2].after_bytes < 30_000_000, "{runs:?}");
    db.abandon().expect("open");
    let db = Db::open(&path).expect("a pool");
    let tree = db.tree("t").expect("there");
    assert_eq!(tree.get("busy").expect("sound"), Some(key(last).to_vec()));
    expect_all(&tree);
    assert_eq!(db.check().expect("readable"), []);
}

#[test]
fn a_pool_can_be_closed_while_it_is_compacted_also_by_who_hears_of_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("p.ever");
    for abandons in [false, true] {
        let (db, _) = a_long_pool(&path);
        db.sync().expect("there is room");
        let other = db.clone();
        let mut closes = Some(other);
        let done = db.compact_with(|_| {
            let Some(db) = closes.take() else { return };
            let closed = if abandons { db.abandon() } else { db.close() };
            closed.expect("there is room");
        });
        assert!(matches!(done, Err(Error::Closed)), "{done:?}");
        let db = Options::new().create(false).open(&path).expect("released");
        expect_all(&db.tree("t").expect("there"));
        drop(db);
        std::fs::remove_file(&path).expect("it is there");
    }
}
