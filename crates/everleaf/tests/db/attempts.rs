//! Work that others hinder again and again comes to an end: it gets through, or says how often it was tried.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use everleaf::{Db, Error, TransactionOptions, Tree};

use crate::pools::{dax, file};

/// Threads that write without pause.
const WRITERS: u64 = 3;
/// For this long something waits for them to write: less than they wait for others.
const WAIT: Duration = Duration::from_millis(10);

/// Runs a test on both media, with a tree.
fn on_both(test: impl Fn(&Db, &Tree)) {
    let dir = tempfile::tempdir().expect("a directory");
    for db in [file(512), dax(dir.path(), 256)] {
        test(&db, &db.tree("t").expect("room"));
        assert_eq!(db.check().expect("readable"), []);
    }
}

fn number(value: Option<&[u8]>) -> u64 {
    value.map_or(0, |value| u64::from_le_bytes(value.try_into().expect("eight bytes")))
}

/// The outcome of something that was tried in vain: what was in its way, and how often it was tried.
fn in_vain<T: std::fmt::Debug>(answer: everleaf::Result<T>) -> (String, Vec<u8>, u64) {
    match answer {
        Err(Error::Conflict { tree, key, attempts }) => (tree.into(), key, attempts),
        other => panic!("{other:?} where a conflict should be"),
    }
}

/// Runs something while other threads write without pause; `written` is how often they have.
fn beside_writers(write: impl Fn(u64) + Sync, run: impl FnOnce(&AtomicU64)) {
    let (stop, written) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        // Also if this panics: else the others would go on for ever.
        let _stop = scopeguard::guard((), |()| stop.store(true, Ordering::Relaxed));
        for own in 0..WRITERS {
            let (stop, written, write) = (&stop, &written, &write);
            scope.spawn(move || {
                for n in 1.. {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    write(n * WRITERS + own);
                    written.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        run(&written);
    });
}

/// Waits until all of a write has happened, as long as anybody writes.
fn until_somebody_writes(written: &AtomicU64) {
    let (first, began) = (written.load(Ordering::Relaxed), Instant::now());
    while written.load(Ordering::Relaxed) < first + 2 * WRITERS && began.elapsed() < WAIT {
        std::thread::yield_now();
    }
}

/// A transaction that reads what others write, and ends only after they have, gets through beside them.
fn gets_through(db: &Db, tree: &Tree, write: impl Fn(u64) + Sync) {
    let sums = db.tree("sums").expect("room");
    beside_writers(write, |written| {
        for i in 0..3_u64 {
            let summed = db.transact(|tx| {
                let mut sum = 0;
                for pair in tx.iter(tree) {
                    sum += number(Some(&pair?.1));
                }
                until_somebody_writes(written);
                tx.put(&sums, i.to_be_bytes(), sum.to_le_bytes())
            });
            summed.expect("the others wait");
        }
    });
}

#[test]
fn a_transaction_gets_through_beside_single_writes() {
    on_both(|db, tree| {
        gets_through(db, tree, |n| tree.put([n as u8 % 5], n.to_le_bytes()).expect("room"));
        gets_through(db, tree, |n| match n % 3 {
            0 => drop(tree.remove([n as u8 % 5]).expect("room")),
            _ => drop(tree.insert_new([n as u8 % 5], n.to_le_bytes()).expect("room")),
        });
    });
}

#[test]
fn a_transaction_gets_through_beside_batches_and_transactions() {
    on_both(|db, tree| {
        gets_through(db, tree, |n| {
            let mut batch = db.batch();
            for key in 0..3_u8 {
                batch.put(tree, [key], n.to_le_bytes()).expect("memory");
            }
            batch.commit().expect("room");
        });
        gets_through(db, tree, |n| {
            let tx = db.begin();
            tx.put(tree, "k", n.to_le_bytes()).expect("memory");
            tx.commit().expect("it has read nothing");
        });
    });
}

#[test]
fn a_transaction_gets_through_beside_clears_and_readers_of_values() {
    on_both(|db, tree| {
        gets_through(db, tree, |n| {
            tree.put("k", n.to_le_bytes()).expect("room");
            tree.clear().expect("room");
        });
        gets_through(db, tree, |n| {
            tree.put_from("k", &n.to_le_bytes()[..], 8).expect("room");
        });
        gets_through(db, tree, |n| {
            let pairs = (0..9_u8).map(|key| ([key], n.to_le_bytes()));
            tree.load_sorted(pairs).expect("they ascend");
        });
    });
}

#[test]
fn an_update_gets_through_beside_writers_of_its_key() {
    on_both(|_, tree| {
        beside_writers(
            |n| tree.put("k", n.to_le_bytes()).expect("room"),
            |written| {
                for _ in 0..3 {
                    let updated = tree.update("k", |old| {
                        until_somebody_writes(written);
                        Some((number(old) + 1).to_le_bytes().to_vec())
                    });
                    updated.expect("the others wait");
                }
            },
        );
    });
}

#[test]
fn an_update_of_a_key_inside_of_its_own_update_ends() {
    on_both(|_, tree| {
        let one_more = |old: Option<&[u8]>| Some((number(old) + 1).to_le_bytes().to_vec());
        let outer = tree.update("k", |_| {
            tree.update("k", one_more).expect("nobody is in its way");
            Some(b"the outer one".to_vec())
        });
        assert_eq!(in_vain(outer), ("t".into(), b"k".to_vec(), 100));
        assert_eq!(number(tree.get("k").expect("sound").as_deref()), 100);
        // Three of them: the one in the middle ends as well, each time.
        let outer = tree.update("k", |_| {
            let middle = tree.update("k", |_| {
                tree.update("k", one_more).expect("nobody is in its way");
                Some(b"the middle one".to_vec())
            });
            assert_eq!(in_vain(middle).2, 100);
            Some(b"the outer one".to_vec())
        });
        assert_eq!(in_vain(outer).2, 100);
        assert_eq!(number(tree.get("k").expect("sound").as_deref()), 100 + 100 * 100);
        tree.update("k", one_more).expect("nobody is in its way");
    });
}

#[test]
fn a_transaction_that_is_in_its_own_way_ends() {
    on_both(|db, tree| {
        let with = |attempts| TransactionOptions::new().attempts(attempts);
        for (attempts, expected) in [(0, 1), (1, 1), (7, 7), (9, 9), (100, 100)] {
            let mut runs = 0;
            let put = db.transact_with(with(attempts), |tx| {
                runs += 1;
                tx.get(tree, "k")?;
                tree.put("k", [runs as u8])?;
                tx.put(tree, "k", "the transaction's")
            });
            assert_eq!(in_vain(put), ("t".into(), b"k".to_vec(), expected));
            assert_eq!(runs, expected);
        }
        // By a transaction inside of it, which says the same of itself if it is in its own way.
        let mut inner = 0;
        let outer = db.transact_with(with(20), |tx| {
            tx.get(tree, "k")?;
            inner += u32::from(db.transact(|tx| tx.insert(tree, "k", [inner as u8])).is_ok());
            tx.put(tree, "k", "the outer one")
        });
        assert_eq!((in_vain(outer).2, inner), (20, 20));
        let mut inner = 0;
        let outer = tree.update("k", |_| {
            inner += 1;
            db.transact(|tx| tx.insert(tree, "k", [inner])).expect("nobody is in its way");
            Some(b"the update's".to_vec())
        });
        assert_eq!((in_vain(outer).2, inner), (100, 100));
    });
}

/// A transaction that has the right of way waits for a thread that waits for it.
#[test]
fn what_waits_for_its_own_writers_ends() {
    on_both(|db, tree| {
        let mut runs = 0_u64;
        let waits = db.transact(|tx| {
            runs += 1;
            tx.get(tree, "k")?;
            if runs <= 8 {
                return tree.put("k", runs.to_le_bytes()).and(tx.put(tree, "l", ""));
            }
            let write = || tree.put("other", runs.to_le_bytes());
            std::thread::scope(|scope| scope.spawn(write).join()).expect("no panic")?;
            tx.put(tree, "k", runs.to_le_bytes())
        });
        waits.expect("nobody is in its way");
        assert_eq!(number(tree.get("k").expect("sound").as_deref()), 9);
        assert_eq!(number(tree.get("other").expect("sound").as_deref()), 9);
    });
}

#[test]
fn a_panic_of_who_has_the_right_of_way_is_nothing_to_others() {
    on_both(|db, tree| {
        let mut runs = 0_u64;
        let panics = || {
            db.transact(|tx| {
                runs += 1;
                assert!(runs <= 8, "as planned");
                tx.get(tree, "k")?;
                tree.put("k", runs.to_le_bytes()).and(tx.put(tree, "l", ""))
            })
        };
        let ran = std::panic::catch_unwind(std::panic::AssertUnwindSafe(panics));
        assert!(ran.is_err());
        let write = || tree.put("k", "others").expect("room");
        std::thread::scope(|scope| scope.spawn(write).join()).expect("no panic");
        assert_eq!(tree.get("k").expect("sound").as_deref(), Some(&b"others"[..]));
        assert_eq!(tree.get("l").expect("sound"), None);
    });
}
