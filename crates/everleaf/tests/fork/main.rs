//! A forked process has copies of its parent's handles: they do nothing and say so.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use everleaf::{Db, Error, Options, Result, Storage, Transaction, TransactionOptions, Tree};
use tempfile::TempDir;

mod child;
use child::in_a_fork;

const MEDIA: [Storage; 2] = [Storage::File, Storage::EmulatedDax];

fn options(storage: Storage) -> Options {
    Options::new().storage(storage).max_bytes(16 << 20)
}

fn open(dir: &TempDir, storage: Storage) -> Db {
    options(storage).open(dir.path().join("pool")).expect("it opens")
}

fn forked<T>(what: &str, answer: Result<T>) {
    match answer {
        Err(Error::Forked) => {}
        Err(error) => panic!("{what}: {error}"),
        Ok(_) => panic!("{what}: done"),
    }
}

fn locking() -> TransactionOptions {
    TransactionOptions::new().pessimistic(Duration::from_secs(1))
}

/// Calls everything; each call answers that it is another process's.
fn call_all(db: &Db, tree: &Tree) {
    forked("insert", tree.insert("k", "child"));
    forked("remove", tree.remove("k"));
    forked("put", tree.put("k", "child"));
    forked("delete", tree.delete("k"));
    forked("drop_tree", db.drop_tree("t"));
    forked("rename_tree", db.rename_tree("t", "u"));
    forked("get", tree.get("k"));
    forked("contains", tree.contains("k"));
    forked("first", tree.first());
    forked("last", tree.last());
    forked("iter", tree.iter().next().expect("an answer"));
    forked("rev", tree.range("a".."z").next_back().expect("an answer"));
    for n in 1..3 {
        let mut batch = db.batch();
        (0..n).for_each(|i| batch.put(tree, format!("k{i}"), "child").expect("within limits"));
        forked("batch", batch.commit());
    }
    let tx = db.begin_with(locking());
    forked("a transaction's get", tx.get(tree, "k"));
    forked("a transaction's put", tx.put(tree, "k", "child"));
    drop(tx);
    forked("tree", db.tree("new"));
    forked("tree", db.tree("t"));
    forked("open_tree", db.open_tree("t"));
    forked("tree_names", db.tree_names());
    forked("sync", db.sync());
    forked("wait_durable", db.wait_durable(0));
    forked("checkpoint", db.checkpoint());
    forked("stats", db.stats());
    forked("count", db.count());
    forked("check", db.check());
    forked("close", db.clone().close());
    let _ = (db.epoch(), db.durable_epoch(), format!("{db:?}"));
}

fn holds_only_the_parents(path: &Path, storage: Storage, pairs: u64) {
    let db = options(storage).open(path).expect("its lock was given back, and nothing else");
    assert_eq!(db.check().expect("readable"), []);
    let tree = db.open_tree("t").expect("readable").expect("made");
    let found = tree.iter().filter(|pair| pair.as_ref().expect("readable").1 != b"parent");
    assert_eq!((found.count(), tree.iter().count() as u64), (0, pairs));
    assert_eq!(db.tree_names().expect("readable"), ["t"]);
    db.close().expect("no fault");
}

#[test]
fn every_call_in_a_forked_child_is_refused_and_a_drop_does_nothing() {
    for storage in MEDIA {
        for reads_only in [false, true] {
            let dir = tempfile::tempdir().expect("a directory");
            let path = dir.path().join("pool");
            if reads_only {
                let db = open(&dir, storage);
                db.tree("t").expect("room").insert("k", "parent").expect("room");
                db.close().expect("no fault");
            }
            let db = options(storage).read_only(reads_only).open(&path).expect("it opens");
            let tree = db.tree("t").expect("room");
            if !reads_only {
                tree.insert("k", "parent").expect("room");
            }
            let mut batch = db.batch();
            batch.put(&tree, "k", "child").expect("within limits");
            let range = tree.iter();
            // The child drops a handle of each kind.
            for last in 0..3 {
                let mut handles = Some((db.clone(), tree.clone(), tree.iter(), db.batch(), last));
                in_a_fork(|| {
                    call_all(&db, &tree);
                    drop(handles.take());
                });
            }
            // All of them at once: the pool's own drop runs in the child.
            let mut all = Some((db, tree, batch, range));
            in_a_fork(|| drop(all.take()));
            let (db, tree, batch, range) = all.expect("the parent's own");
            assert_eq!(tree.get("k").expect("open"), Some(b"parent".into()));
            // The child has not given back the parent's lock.
            assert!(matches!(options(storage).open(&path), Err(Error::Locked { .. })));
            drop((batch, range));
            drop(tree);
            db.close().expect("no fault");
            holds_only_the_parents(&path, storage, 1);
        }
    }
}

/// How many files in memory this process has open. One test here makes some.
fn files_in_memory() -> usize {
    let open = std::fs::read_dir("/proc/self/fd").expect("Linux");
    let names = open.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    names.filter(|name| name.to_string_lossy().starts_with("/memfd:everleaf")).count()
}

#[test]
fn a_pool_in_memory_is_that_of_its_process_and_goes_with_its_last_handle() {
    let db = Db::in_memory().expect("memory");
    let tree = db.tree("t").expect("room");
    tree.insert("k", "parent").expect("room");
    for last in 0..2 {
        let mut handles = Some((db.clone(), tree.clone(), tree.iter(), last));
        in_a_fork(|| {
            call_all(&db, &tree);
            forked("backup", db.backup("/nowhere/at/all"));
            drop(handles.take());
            let own = Db::in_memory().expect("memory");
            own.tree("t").expect("room").insert("k", "child").expect("room");
            own.close().expect("open");
        });
    }
    let mut all = Some((db, tree));
    in_a_fork(|| drop(all.take()));
    let (db, tree) = all.expect("the parent's own");
    assert_eq!(tree.get("k").expect("open"), Some(b"parent".into()));
    let other = Db::in_memory().expect("memory");
    assert_eq!(files_in_memory(), 2);
    db.close().expect("open");
    assert!(matches!(tree.get("k"), Err(Error::Closed)));
    drop(tree);
    assert_eq!(files_in_memory(), 1);
    drop(other);
    assert_eq!(files_in_memory(), 0);
}

#[test]
fn a_child_that_was_forked_amid_writes_is_refused_at_once() {
    for storage in MEDIA {
        let dir = tempfile::tempdir().expect("a directory");
        let db = open(&dir, storage);
        let tree = db.tree("t").expect("room");
        let (stop, written) = (AtomicBool::new(false), AtomicU64::new(0));
        thread::scope(|scope| {
            for part in 0..2u64 {
                let (db, tree, stop, written) = (&db, &tree, &stop, &written);
                scope.spawn(move || {
                    let mut last = 0;
                    for n in 0.. {
                        if stop.load(Ordering::Relaxed) {
                            break;
                        }
                        let key = |n: u64| ((part << 32) + n % 5000).to_be_bytes();
                        let put = |tx: &Transaction| tx.put(tree, key(n), "parent");
                        db.transact_with(locking(), put).expect("room");
                        if n % 50 == 0 {
                            let mut batch = db.batch();
                            batch.put(tree, key(n), "parent").expect("within limits");
                            batch.put(tree, key(n / 2), "parent").expect("within limits");
                            batch.commit().expect("room");
                            db.sync().expect("no fault");
                        }
                        last = n;
                    }
                    written.fetch_add((last + 1).min(5000), Ordering::Relaxed);
                });
            }
            let end = scopeguard::guard((), |()| stop.store(true, Ordering::Relaxed));
            for _ in 0..30 {
                in_a_fork(|| call_all(&db, &tree));
            }
            drop(end);
        });
        drop(tree);
        db.close().expect("no fault");
        holds_only_the_parents(&dir.path().join("pool"), storage, written.into_inner());
    }
}

#[test]
fn a_forked_child_may_open_pools_of_its_own_and_so_may_its_children() {
    for storage in MEDIA {
        let dir = tempfile::tempdir().expect("a directory");
        let db = open(&dir, storage);
        let parents = db.tree("t").expect("room");
        parents.insert("k", "parent").expect("room");
        in_a_fork(|| {
            let own = options(storage).open(dir.path().join("own")).expect("it opens");
            let tree = own.tree("t").expect("room");
            tree.insert("k", "child").expect("room");
            // The threads that would do so are the parent's: it gets some of its own.
            let mark = own.epoch();
            while own.durable_epoch() < mark {
                thread::sleep(std::time::Duration::from_millis(1));
            }
            forked("the parent's", parents.get("k"));
            in_a_fork(|| {
                forked("the parent's", tree.get("k"));
                forked("the grandparent's", parents.get("k"));
            });
            assert_eq!(tree.get("k").expect("open"), Some(b"child".into()));
            drop(tree);
            own.close().expect("no fault");
        });
        let own = options(storage).open(dir.path().join("own")).expect("the child has closed it");
        assert_eq!(own.tree("t").expect("made").get("k").expect("open"), Some(b"child".into()));
    }
}

/// Each thread is new to the account that builds with assertions keep of the order of locks. A fork may come while it is in
/// the hands of one.
#[test]
fn a_forked_child_opens_a_pool_though_other_threads_lock_meanwhile() {
    let dir = tempfile::tempdir().expect("a directory");
    let db = open(&dir, Storage::File);
    let tree = db.tree("t").expect("room");
    let stop = AtomicBool::new(false);
    let write = || {
        let put = |tx: &Transaction| tx.put(&tree, "k", "parent");
        db.transact_with(locking(), put).expect("room");
        let mut batch = db.batch();
        batch.put(&tree, "k", "parent").expect("within limits");
        batch.put(&tree, "l", "parent").expect("within limits");
        batch.commit().expect("room");
    };
    thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(write))));
            }
        });
        let _end = scopeguard::guard((), |()| stop.store(true, Ordering::Relaxed));
        for n in 0..100 {
            let path = dir.path().join(format!("own{n}"));
            in_a_fork(|| {
                let own = options(Storage::File).open(&path).expect("it opens");
                own.tree("t").expect("room").insert("k", "child").expect("room");
                own.close().expect("no fault");
            });
        }
    });
}
