//! A pool that is closed while another thread does what must be whole, stopped at each of its reads.

use std::fs::OpenOptions;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use everleaf::{Db, Error, Options, Result, Storage};
use everleaf_file::io::SimIo;

use crate::cut::act::Life;
use crate::cut::disk::Disk;
use crate::cut::{inspect, options};

fn settings() -> Options {
    options(512, 2 << 20, 64 << 10)
}

fn open(sim: &SimIo) -> (Disk, Db) {
    let disk = Disk::new(sim.clone());
    let db = Life::open(&disk, &settings()).expect("it opens").db;
    (disk, db)
}

/// A disk with a closed pool of trees of several levels, many free pages, and nothing in memory.
fn pool() -> SimIo {
    let (disk, db) = open(&SimIo::new(1));
    let trees = ["a", "b"].map(|name| db.tree(name).expect("room"));
    // A catalog of several levels, whose nodes have to be read, as have those of the page table.
    (0..600).for_each(|i| drop(db.tree(&format!("other {i:0>50}")).expect("room")));
    for tree in &trees {
        (0..200u32).for_each(|i| drop(tree.insert(i.to_be_bytes(), [7; 50]).expect("room")));
        (9..190u32).for_each(|i| drop(tree.remove(i.to_be_bytes()).expect("it is there")));
    }
    db.close().expect("no call fails");
    drop(trees);
    disk.sim.kill()
}

/// Closes a pool while `work` stands still at each of its reads in turn. `check` sees the pool after
/// each.
fn close_within(work: impl Fn(&Db) -> Result<()> + Sync, check: impl Fn(&Db, bool, &str)) {
    let sim = pool();
    for reads in 0.. {
        let what = format!("at read {reads}");
        let (disk, db) = open(&sim.kill());
        let (stopped, go_on) = disk.pause_after(reads);
        let (done, closed) = std::thread::scope(|scope| {
            let worker = scope.spawn(|| work(&db));
            let mut is_stopped = false;
            while !is_stopped && !worker.is_finished() {
                is_stopped = stopped.recv_timeout(Duration::from_millis(1)).is_ok();
            }
            if !is_stopped {
                disk.pause_no_more();
                return (worker.join().expect("no panic"), None);
            }
            let closer = scope.spawn(|| db.clone().close());
            // The worker holds latches, so nothing tells how far the close has got. If it needs more
            // time than this, it comes after the worker, which is as good.
            std::thread::sleep(Duration::from_millis(5));
            drop(go_on);
            (worker.join().expect("no panic"), Some(closer.join().expect("no panic")))
        });
        let is_stopped = closed.is_some();
        if let Some(closed) = closed {
            closed.unwrap_or_else(|e| panic!("{what}: {e}"));
        }
        drop(db);
        let (_disk, db) = open(&disk.sim);
        inspect(&db, &what);
        check(&db, done.is_ok(), &what);
        if !is_stopped {
            assert!(reads > 2 && done.is_ok(), "{what}: the pool was in memory");
            return;
        }
    }
}

#[test]
fn a_tree_that_is_made_during_a_close_is_whole_or_leaves_nothing() {
    close_within(
        |db| db.tree("new").map(drop),
        |db, made, what| {
            let found = db.open_tree("new").unwrap_or_else(|e| panic!("{what}: {e}"));
            assert_eq!(found.is_some(), made, "{what}");
        },
    );
}

#[test]
fn a_batch_that_is_committed_during_a_close_is_whole() {
    let names = ["a", "b"];
    close_within(
        |db| {
            let mut batch = db.batch();
            for name in names {
                let tree = db.open_tree(name)?.expect("it is there");
                (0..9u32).try_for_each(|i| batch.put(&tree, [i as u8; 20], [1; 70]))?;
            }
            batch.commit()
        },
        |db, done, what| {
            for name in names {
                let tree = db.open_tree(name).unwrap_or_else(|e| panic!("{what}: {e}"));
                let tree = tree.expect("it is there");
                let found = (0..9).filter(|i| tree.contains([*i; 20]).expect("it reads"));
                assert_eq!(found.count(), if done { 9 } else { 0 }, "{what}: {name}");
            }
        },
    );
}

#[test]
fn a_closed_pool_says_so_to_batches_whatever_they_begin_with() {
    let (_disk, db) = open(&pool());
    let tree = db.open_tree("a").expect("it reads").expect("it is there");
    db.clone().close().expect("no call fails");
    for _ in 0..2 {
        let mut batch = db.batch();
        batch.delete(&tree, "a key that is not there").expect("within limits");
        batch.put(&tree, "k", "v").expect("within limits");
        let refused = batch.commit();
        assert!(matches!(refused, Err(Error::Closed)), "{refused:?}");
    }
    let refused = tree.insert("k", "v");
    assert!(matches!(refused, Err(Error::Closed)), "{refused:?}");
}

fn is_closed<T>(answer: Result<T>) -> bool {
    matches!(answer, Err(Error::Closed))
}

#[test]
fn a_close_gives_the_lock_back_whatever_handles_live_on() {
    for storage in [Storage::File, Storage::EmulatedDax] {
        for reads_only in [false, true] {
            let dir = tempfile::tempdir().expect("a directory");
            let path = dir.path().join("pool");
            let options = Options::new().storage(storage).max_bytes(16 << 20);
            let db = options.open(&path).expect("it opens");
            let tree = db.tree("t").expect("room");
            (0..100u32).for_each(|n| drop(tree.insert(n.to_be_bytes(), [7; 50]).expect("room")));
            tree.insert("large", vec![7; 100_000]).expect("room");
            drop(tree);
            db.close().expect("no fault");

            let db = options.clone().read_only(reads_only).open(&path).expect("it opens");
            let tree = db.tree("t").expect("there");
            let (mut range, mut begun) = (tree.iter(), tree.iter());
            assert!(begun.next().expect("not empty").is_ok());
            let mut batch = db.batch();
            batch.put(&tree, "k", "v").expect("within limits");
            let clone = db.clone();
            db.close().expect("no fault");
            // In this process; the lock would keep it out like any other.
            let next = options.open(&path).expect("it was closed");
            next.tree("t").expect("there").insert(7u32.to_be_bytes(), "new").expect("room");
            assert!(is_closed(tree.get(0u32.to_be_bytes())) && is_closed(tree.get("large")));
            assert!(is_closed(tree.contains("k")) && is_closed(tree.first()));
            assert!(is_closed(range.next().expect("an answer")) && begun.count() > 0);
            assert!(is_closed(batch.commit()) && is_closed(tree.insert("k", "v")));
            assert!(is_closed(tree.put("k", "v")) && is_closed(tree.delete("k")));
            assert!(is_closed(clone.drop_tree("t")) && is_closed(clone.rename_tree("t", "u")));
            assert!(is_closed(tree.remove("k")) && is_closed(clone.tree("new")));
            assert!(is_closed(clone.sync()) && is_closed(clone.checkpoint()));
            assert!(is_closed(clone.stats()) && is_closed(clone.count()));
            assert!(is_closed(clone.check()));
            assert!(is_closed(clone.tree_names()) && is_closed(clone.open_tree("t")));
            drop((tree, range));
            clone.close().expect("as the first one");
            // The lock that the old handles let go is not the new one's.
            assert!(matches!(options.open(&path), Err(Error::Locked { .. })));
            let found = next.tree("t").expect("there").get(7u32.to_be_bytes()).expect("open");
            assert_eq!(found, Some(b"new".into()));
            assert_eq!(next.check().expect("readable"), []);
        }
    }
}

#[test]
fn a_pool_that_is_poisoned_reads_on_and_has_what_was_durable() {
    for storage in [Storage::File, Storage::EmulatedDax] {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("pool");
        let options = Options::new().storage(storage).max_bytes(16 << 20);
        let db = options.clone().background(false).open(&path).expect("it opens");
        let tree = db.tree("t").expect("room");
        tree.put("kept", "1").expect("room");
        db.sync().expect("no fault");
        tree.put("at risk", "2").expect("room");
        let mut batch = db.batch();
        batch.put(&tree, "late", "3").expect("within limits");
        db.expect_open().expect("it is open");
        db.poison("for a test");
        db.expect_open().expect("it is open still");
        let is_poisoned = |answer: Result<()>| match answer {
            Err(Error::Poisoned { cause }) => matches!(*cause, Error::Interrupted { .. }),
            _ => false,
        };
        assert!(is_poisoned(tree.put("late", "3")) && is_poisoned(batch.commit()));
        assert!(is_poisoned(db.drop_tree("t").map(drop)) && is_poisoned(tree.delete("kept")));
        assert_eq!(tree.get("at risk").expect("readable"), Some(b"2".into()));
        // On persistent memory a write is durable when it returns.
        assert_eq!(is_poisoned(db.sync()), storage == Storage::File);
        assert_eq!(is_poisoned(db.clone().close()), storage == Storage::File);
        assert!(is_closed(db.expect_open()));
        // It is the past that it would stop.
        db.poison("for a test");
        let db = options.open(&path).expect("it was closed");
        let tree = db.tree("t").expect("there");
        assert!(tree.contains("kept").expect("readable"));
        assert_eq!(tree.contains("at risk").expect("readable"), storage == Storage::EmulatedDax);
        tree.put("late", "3").expect("a new open writes");
        assert_eq!(db.check().expect("readable"), []);
    }
}

#[test]
fn a_pool_can_be_opened_after_its_close_while_another_thread_starts_processes() {
    for storage in [Storage::File, Storage::EmulatedDax] {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("pool");
        let options = Options::new().storage(storage).max_bytes(1 << 20).background(false);
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            let started = scope.spawn(|| {
                let mut started = 0;
                while !stop.load(Ordering::Relaxed) {
                    Command::new("/bin/true").status().expect("it runs");
                    started += 1;
                }
                started
            });
            let end = scopeguard::guard((), |()| stop.store(true, Ordering::Relaxed));
            for n in 0..300u32 {
                let db = options.open(&path).unwrap_or_else(|e| panic!("open {n}: {e}"));
                let tree = db.tree("t").expect("room");
                // Half of them are dropped, which closes them, too.
                if n % 2 == 0 {
                    db.close().expect("no fault");
                }
                drop(tree);
            }
            drop(end);
            assert!(started.join().expect("no panic") > 0);
        });
    }
}

#[test]
fn a_pool_whose_file_another_program_cuts_off_says_so_before_it_ends() {
    for closes in [false, true] {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("pool");
        let db = Options::new().background(false).open(&path).expect("new");
        let tree = db.tree("t").expect("room");
        (0..2000u32).for_each(|i| tree.put(i.to_be_bytes(), [7; 100]).expect("room"));
        db.checkpoint().expect("no fault");
        tree.put("later", "1").expect("room");
        let file = OpenOptions::new().write(true).open(&path).expect("there");
        file.set_len(100_000).expect("shorter");
        let done = if closes { db.clone().close() } else { db.checkpoint() };
        let is_told = matches!(done, Err(Error::Corrupt { offset: 100_000, .. }));
        assert!(is_told, "closed: {closes}: {done:?}");
        let refused = tree.put("later", "2");
        assert!(matches!(refused, Err(Error::Poisoned { .. } | Error::Closed)), "{refused:?}");
        assert_eq!(file.metadata().expect("there").len(), 100_000, "no more was written");
        assert!(db.close().is_err(), "what is gone is not durable");
    }
}
