//! Transactions that lock what they use: others wait for them, and nobody waits for ever.

use std::ops::ControlFlow;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use everleaf::{Db, Error, Isolation, Options, Transaction, TransactionOptions, Tree};

/// Longer than any test.
const LONG: Duration = Duration::from_secs(1000);
/// So that a writer that does not wait has written.
const A_WHILE: Duration = Duration::from_millis(30);
const SHORT: Duration = Duration::from_millis(20);

fn locking(lasts: Duration) -> TransactionOptions {
    TransactionOptions::new().pessimistic(lasts)
}

fn open() -> (Db, Tree) {
    let db = Options::new().in_memory().expect("opens");
    let tree = db.tree("t").expect("room");
    ["a", "b", "c", "x"].into_iter().for_each(|key| tree.put(key, "0").expect("room"));
    (db, tree)
}

type Write = fn(&Db, &Tree) -> everleaf::Result<()>;

/// All ways to write to "b".
const WRITES: [(&str, Write); 12] = [
    ("put", |_, tree| tree.put("b", "1")),
    ("delete", |_, tree| tree.delete("b")),
    ("insert", |_, tree| tree.insert("b", "1").map(drop)),
    ("remove", |_, tree| tree.remove("b").map(drop)),
    ("replace", |_, tree| tree.replace("b", "1").map(drop)),
    ("swap", |_, tree| tree.compare_and_swap("b", Some("0"), Some("1")).map(drop)),
    ("update", |_, tree| tree.update("b", |_| Some(b"1".to_vec())).map(drop)),
    ("put_from", |_, tree| tree.put_from("b", &mut &[1; 9000][..], 9000)),
    ("remove_range", |_, tree| tree.remove_range("b".."bb").map(drop)),
    ("batch", |db, tree| {
        let mut batch = db.batch();
        batch.put(tree, "a1", "1")?;
        batch.put(tree, "b", "1")?;
        batch.commit()
    }),
    ("commit", |db, tree| db.transact(|tx| tx.put(tree, "b", "1"))),
    ("locking commit", |db, tree| {
        db.transact_with(locking(LONG), |tx| tx.insert(tree, "b", "1").map(drop))
    }),
];

/// Commits a transaction beside a writer who must wait for that.
fn commit_before(tx: Transaction, tree: &Tree, name: &str, write: impl FnOnce() + Send) {
    let is_through = &AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(move || {
            write();
            assert!(is_through.load(Ordering::SeqCst), "{name} has not waited");
        });
        thread::sleep(A_WHILE);
        tx.put(tree, "c", "of the transaction").expect("memory");
        is_through.store(true, Ordering::SeqCst);
        tx.commit().unwrap_or_else(|error| panic!("{name}: {error}"));
    });
}

#[test]
fn whoever_writes_waits_for_a_lock() {
    for (name, write) in WRITES {
        let (db, tree) = open();
        let tx = db.begin_with(locking(LONG));
        assert!(tx.get(&tree, "b").expect("open").is_some());
        commit_before(tx, &tree, name, || {
            write(&db, &tree).expect("nobody is in its way for ever");
        });
        let now = tree.get("b").expect("open");
        assert_ne!(now.as_deref(), Some(&b"0"[..]), "{name}");
    }
}

#[test]
fn a_load_waits_for_the_locks_of_its_keys() {
    let (db, tree) = open();
    let loaded = db.tree("loaded").expect("room");
    let tx = db.begin_with(locking(LONG));
    assert_eq!(tx.range(&loaded, "d5".."d6").count(), 0);
    commit_before(tx, &tree, "a load", || {
        let pairs = (0..9000u32).map(|n| (format!("d{n:04}"), "1"));
        assert_eq!(loaded.load_sorted(pairs).expect("ascending"), 9000);
    });
}

#[test]
fn other_keys_and_reads_wait_for_nothing() {
    let (db, tree) = open();
    let tx = db.begin_with(locking(LONG));
    for pair in tx.range(&tree, "b"..) {
        if &pair.expect("open").0[..] == b"c" {
            break;
        }
    }
    thread::scope(|scope| {
        let others = scope.spawn(|| {
            tree.put("a", "1")?;
            // Behind what the range has come to.
            tree.put("x", "1")?;
            assert_eq!(tree.iter().count(), 4);
            assert_eq!(db.snapshot()?.of(&tree)?.iter().count(), 4);
            // It does not know its key before it looks.
            assert!(tree.pop_last()?.is_some_and(|pair| &pair.0[..] == b"x"));
            db.tree("other")?.put("b", "1")?;
            // One that locks nothing, and writes elsewhere.
            db.transact(|tx| {
                tx.get(&tree, "b")?;
                tx.put(&tree, "a", "2")
            })
        });
        others.join().expect("no panic").expect("open");
    });
    tx.put(&tree, "b", "1").expect("memory");
    tx.commit().expect("of its range nothing has changed");
}

#[test]
fn a_range_is_locked_as_far_as_it_has_come_also_where_there_is_no_key() {
    let (db, tree) = open();
    let tx = db.begin_with(locking(LONG));
    assert_eq!(tx.range(&tree, "b1".."b9").count(), 0);
    commit_before(tx, &tree, "a phantom", || tree.put("b5", "a phantom").expect("room"));
}

/// Two that want each other's: one is told at once, and the other one goes on.
#[test]
fn of_two_that_wait_for_each_other_one_ends() {
    let (db, tree) = open();
    let both = Barrier::new(2);
    let in_turn = |first: &str, second: &str| {
        let tx = db.begin_with(locking(LONG));
        tx.get(&tree, first).expect("free");
        both.wait();
        let got = tx.get(&tree, second).map(drop);
        match &got {
            Err(Error::Deadlock { tree, key }) => {
                assert_eq!((&**tree, &key[..]), ("t", second.as_bytes()));
            }
            Err(error) => panic!("{error}"),
            Ok(()) => {}
        }
        got.is_err()
    };
    thread::scope(|scope| {
        let other = scope.spawn(|| in_turn("b", "a"));
        let own = in_turn("a", "b");
        assert_ne!(own, other.join().expect("no panic"), "one of them, and not both");
    });
}

#[test]
fn a_circle_of_three_is_found() {
    let (db, tree) = open();
    let (all, ended) = (Barrier::new(3), AtomicU32::new(0));
    thread::scope(|scope| {
        for (first, second) in [("a", "b"), ("b", "c"), ("c", "a")] {
            let (db, tree, all, ended) = (&db, &tree, &all, &ended);
            scope.spawn(move || {
                let tx = db.begin_with(locking(LONG));
                tx.get(tree, first).expect("free");
                all.wait();
                if tx.get(tree, second).is_err() {
                    ended.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
    });
    assert_eq!(ended.into_inner(), 1);
}

fn add_one(tx: &Transaction, tree: &Tree, key: &str) -> everleaf::Result<()> {
    let old = tx.get(tree, key)?.expect("there");
    let old: u64 = std::str::from_utf8(&old).expect("text").parse().expect("a number");
    tx.put(tree, key, (old + 1).to_string())
}

/// Puts from a thread of its own, which waits for others' locks.
fn put_beside(tree: &Tree, key: &str, value: &str) {
    thread::scope(|scope| {
        scope.spawn(|| tree.put(key, value).expect("room"));
    });
}

/// Transactions that use keys in any order, so that many meet in deadlocks: all get through in the end.
#[test]
fn deadlocks_are_tried_again() {
    const ROUNDS: usize = 60;
    let (db, tree) = open();
    let keys = ["a", "b", "c"];
    thread::scope(|scope| {
        for turn in 0..3_usize {
            let (db, tree) = (&db, &tree);
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    let options = locking(LONG).attempts(u32::MAX);
                    let at = |n: usize| keys[(turn + n + round) % 3];
                    db.transact_with(options, |tx| {
                        (0..3).try_for_each(|n| add_one(tx, tree, at(n)))
                    })
                    .expect("it gets through");
                }
            });
        }
    });
    for key in keys {
        let sum = tree.get(key).expect("open").expect("there");
        assert_eq!(&sum[..], (3 * ROUNDS).to_string().as_bytes());
    }
}

#[test]
fn a_deadlock_at_each_attempt_is_said_in_the_end() {
    let (db, tree) = open();
    let outer = db.begin_with(locking(LONG));
    outer.get(&tree, "a").expect("free");
    let mut runs = 0;
    // This thread would wait for itself.
    let inner = db.transact_with(locking(LONG).attempts(3), |tx| {
        runs += 1;
        add_one(tx, &tree, "b")?;
        add_one(tx, &tree, "a")
    });
    assert!(matches!(inner, Err(Error::Deadlock { .. })), "{inner:?}");
    assert_eq!(runs, 3);
    let inner = db.begin_with(locking(LONG));
    inner.get(&tree, "b").expect("free");
    assert!(matches!(inner.get(&tree, "a"), Err(Error::Deadlock { .. })));
    // It has no locks any more, and its own thread is in nobody's way.
    put_beside(&tree, "b", "1");
    drop(inner);
    tree.put("a", "1").expect("its own");
    outer.put(&tree, "c", "1").expect("memory");
    assert!(matches!(outer.commit(), Err(Error::Conflict { .. })), "it has read what changed");
}

/// The second attempt has locked what the first one has read: so a third one is seldom needed, whatever others write.
#[test]
fn a_long_transaction_gets_through_beside_a_writer_without_pause() {
    const KEYS: u32 = 500;
    let (db, tree) = open();
    (0..KEYS).for_each(|n| tree.put(n.to_be_bytes(), [1]).expect("room"));
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            for n in (0..KEYS).cycle() {
                tree.put(n.to_be_bytes(), [1]).expect("room");
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
            }
        });
        for _ in 0..3 {
            let summed = db.transact_with(locking(LONG).attempts(5), |tx| {
                let mut sum = 0;
                for n in 0..KEYS {
                    sum += tx.get(&tree, n.to_be_bytes())?.map_or(0, |value| u32::from(value[0]));
                }
                tx.put(&tree, "sum", sum.to_be_bytes())?;
                Ok(sum)
            });
            if !matches!(summed, Ok(KEYS)) {
                is_over.store(true, Ordering::Relaxed);
                panic!("{summed:?}");
            }
        }
        is_over.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_lock_that_is_never_given_back_ends() {
    let (db, tree) = open();
    let leak = || {
        let tx = db.begin_with(locking(SHORT));
        tx.get(&tree, "b").expect("open");
        std::mem::forget(tx);
    };
    leak();
    put_beside(&tree, "b", "1");
    leak();
    // One that locks meets what has ended before a writer forgets it.
    thread::scope(|scope| {
        scope.spawn(|| {
            db.transact_with(locking(LONG), |tx| add_one(tx, &tree, "b")).expect("it is over");
        });
    });
    put_beside(&tree, "c", "1");
    assert!(!tree.may_wait(), "later writers look for it still");
    assert_eq!(tree.get("b").expect("open").as_deref(), Some(&b"2"[..]));
}

/// Its own locks have ended when it comes back, and a writer has looked meanwhile.
#[test]
fn one_that_waits_for_longer_than_its_own_locks_last_goes_on() {
    let (db, tree) = open();
    let long = db.begin_with(locking(LONG));
    long.get(&tree, "a").expect("free");
    thread::scope(|scope| {
        let waits = scope.spawn(|| {
            db.transact_with(locking(SHORT), |tx| {
                add_one(tx, &tree, "b")?;
                add_one(tx, &tree, "a")
            })
        });
        thread::sleep(A_WHILE + SHORT);
        put_beside(&tree, "c", "1");
        long.abort();
        waits.join().expect("no panic").expect("nobody is in its way");
    });
    assert_eq!(tree.get("a").expect("open").as_deref(), Some(&b"1"[..]));
}

/// Nothing rests on a lock: one that ended too early costs a conflict.
#[test]
fn a_lock_that_ends_too_early_loses_nothing() {
    let (db, tree) = open();
    let mut runs = 0;
    let done = db.transact_with(locking(Duration::ZERO), |tx| {
        runs += 1;
        let old = tx.get(&tree, "b")?;
        if runs == 1 {
            put_beside(&tree, "b", "5");
        }
        assert_eq!(old.as_deref(), Some(if runs == 1 { &b"0"[..] } else { b"5" }));
        add_one(tx, &tree, "b")
    });
    done.expect("at the second attempt");
    assert_eq!((runs, tree.get("b").expect("open").as_deref()), (2, Some(&b"6"[..])));
}

#[test]
fn at_snapshot_isolation_only_writes_lock() {
    let (db, tree) = open();
    let tx = db.begin_with(locking(LONG).isolation(Isolation::Snapshot));
    tx.get(&tree, "a").expect("open");
    put_beside(&tree, "a", "1");
    tx.put(&tree, "b", "1").expect("memory");
    let (say, said) = channel();
    thread::scope(|scope| {
        scope.spawn(|| {
            tree.put("b", "2").expect("room");
            let _ = say.send(());
        });
        thread::sleep(A_WHILE);
        assert!(said.try_recv().is_err(), "it has not waited");
        tx.commit().expect("nobody has written b");
    });
    assert_eq!(tree.get("b").expect("open").as_deref(), Some(&b"2"[..]));
}

/// An end in any way gives the locks back.
#[test]
fn locks_end_with_their_transaction() {
    let (db, tree) = open();
    let begin = || {
        let tx = db.begin_with(locking(LONG));
        tx.put(&tree, "b", "2").expect("memory");
        tx
    };
    begin().abort();
    put_beside(&tree, "b", "1");
    drop(begin());
    put_beside(&tree, "b", "1");
    begin().commit().expect("free");
    put_beside(&tree, "b", "1");
    let run = || {
        db.try_transact_with(locking(LONG), |tx| {
            tx.put(&tree, "b", "2").expect("memory");
            Err::<(), _>(Error::NotEmpty)
        })
    };
    run().expect_err("its own error");
    put_beside(&tree, "b", "1");
    let panics = std::panic::AssertUnwindSafe(|| {
        let _ = db.transact_with(locking(LONG), |tx| {
            tx.put(&tree, "b", "2").expect("memory");
            let stop: ControlFlow<()> = ControlFlow::Break(());
            assert!(stop.is_continue(), "on purpose");
            Ok(())
        });
    });
    std::panic::catch_unwind(panics).expect_err("on purpose");
    put_beside(&tree, "b", "1");
    db.clone().close().expect("closes");
    drop(db.begin_with(locking(LONG)));
}

#[test]
fn locks_count_as_memory_of_their_transaction() {
    let db = Options::new().transaction_memory(64 << 10).in_memory().expect("opens");
    let tree = db.tree("t").expect("room");
    let reads = |tx: &Transaction| (0..).find(|n: &u32| tx.get(&tree, n.to_be_bytes()).is_err());
    let free = reads(&db.begin()).expect("a bound");
    let tx = db.begin_with(locking(LONG));
    let locked = reads(&tx).expect("a bound");
    assert!(matches!(tx.get(&tree, "one more"), Err(Error::TransactionTooLarge { .. })));
    assert!((free / 3..=2 * free / 3).contains(&locked), "{locked} of {free}");
    assert!(db.stats().expect("open").transaction_bytes > 32 << 10);
    drop(tx);
    // A range is one lock, of which now more is kept and now less.
    (0..200u32).for_each(|n| tree.put([7; 40].map(|b| b + n as u8), "v").expect("room"));
    let tx = db.begin_with(locking(LONG));
    assert_eq!(tx.iter(&tree).count(), 200);
    assert_eq!(tx.iter(&tree).rev().count(), 200);
    assert!(db.stats().expect("open").transaction_bytes < 4 << 10);
    drop(tx);
    assert_eq!(db.stats().expect("open").transaction_bytes, 0);
}
