use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use anyhow::{Context as _, bail};

use super::*;
use crate::store::{How, KNOWN, SyncMode, check, check_transactions, lacks, open_transactional};

/// Runs something with each store that is built in and has transactions, opened in an empty folder.
fn with_each(mode: SyncMode, run: impl Fn(&dyn Transactional)) {
    let is_one = |name| check_transactions(name).is_ok() && check(name, mode).is_ok();
    for known in KNOWN.iter().filter(|known| is_one(known.name) && lacks(known.name).is_none()) {
        println!("{}", known.name);
        let dir = tempfile::tempdir().expect("a folder");
        let how = How { dir: dir.path().into(), mode, ..How::default() };
        run(&*open_transactional(known.name, &how).expect("it opens"));
    }
}

fn session(store: &dyn Transactional) -> Box<dyn Session + '_> {
    store.session().expect("a session")
}

fn number(tx: &mut dyn Transaction, key: &[u8]) -> Result<Option<u32>> {
    let mut found = None;
    let is = tx.get(key, &mut |value| found = value.try_into().ok().map(u32::from_le_bytes))?;
    assert_eq!(is, found.is_some());
    Ok(found)
}

fn put(store: &dyn Transactional, key: &[u8], value: u32) {
    let mut body = |tx: &mut dyn Transaction| tx.put(key, &value.to_le_bytes());
    session(store).transact(Access::Write, &mut body).expect("no fault");
}

/// The number that transactions of both kinds see, which must be the same.
fn get(store: &dyn Transactional, key: &[u8]) -> Option<u32> {
    let [read, written] = [Access::Read, Access::Write].map(|access| {
        let mut found = None;
        let mut body = |tx: &mut dyn Transaction| {
            found = number(tx, key)?;
            Ok(())
        };
        session(store).transact(access, &mut body).expect("no fault");
        found
    });
    assert_eq!(read, written);
    read
}

#[test]
fn what_a_transaction_wrote_is_seen_by_itself_and_by_those_after_it() {
    for mode in [SyncMode::Buffered, SyncMode::SyncEach] {
        with_each(mode, |store| {
            let mut session = session(store);
            let mut body = |tx: &mut dyn Transaction| {
                assert_eq!(number(tx, b"one")?, None);
                tx.put(b"one", &1_u32.to_le_bytes())?;
                assert_eq!(number(tx, b"one")?, Some(1));
                tx.put(b"one", &2_u32.to_le_bytes())?;
                tx.put(b"two", &3_u32.to_le_bytes())
            };
            session.transact(Access::Write, &mut body).expect("no fault");
            assert_eq!((get(store, b"one"), get(store, b"two")), (Some(2), Some(3)));
            store.settle().expect("no fault");
            let mut found = Vec::new();
            store.scan_snapshot(&mut |key, _| found.push(key.to_vec())).expect("no fault");
            assert_eq!(found, [b"one", b"two"]);
        });
    }
}

#[test]
fn what_an_aborted_transaction_wrote_is_not_there() {
    with_each(SyncMode::Buffered, |store| {
        put(store, b"one", 1);
        let mut session = session(store);
        let mut times = 0;
        let mut body = |tx: &mut dyn Transaction| {
            times += 1;
            tx.put(b"one", &2_u32.to_le_bytes())?;
            tx.put(b"two", &3_u32.to_le_bytes())?;
            bail!("not today")
        };
        let error = session.transact(Access::Write, &mut body).expect_err("it was aborted");
        assert_eq!((error.to_string().as_str(), times), ("not today", 1));
        assert_eq!((get(store, b"one"), get(store, b"two")), (Some(1), None));
        // The session is of use again.
        let mut body = |tx: &mut dyn Transaction| tx.put(b"one", &4_u32.to_le_bytes());
        session.transact(Access::Write, &mut body).expect("no fault");
        assert_eq!(get(store, b"one"), Some(4));
    });
}

/// Two transactions each read `reads` and then add one to `writes`, the second while the first is between the
/// two. Returns how often the first was run, and whether the second ended meanwhile.
fn race(store: &dyn Transactional, reads: &[u8], writes: [&[u8]; 2]) -> (u32, bool) {
    let runs = AtomicU32::new(0);
    let add = |tx: &mut dyn Transaction, key| {
        let value = number(tx, key)?.context("no number")? + 1;
        tx.put(key, &value.to_le_bytes())
    };
    let mut has_ended = false;
    std::thread::scope(|scope| {
        let mut first = |tx: &mut dyn Transaction| {
            number(tx, reads)?;
            if runs.fetch_add(1, Ordering::Relaxed) == 0 {
                let (ended, end) = mpsc::channel();
                scope.spawn(move || {
                    let mut second = |tx: &mut dyn Transaction| {
                        number(tx, reads)?;
                        add(tx, writes[1])
                    };
                    session(store).transact(Access::Write, &mut second).expect("no fault");
                    // Nobody listens if the first has gone on.
                    let _ = ended.send(());
                });
                has_ended = end.recv_timeout(Duration::from_millis(300)).is_ok();
            }
            add(tx, writes[0])
        };
        session(store).transact(Access::Write, &mut first).expect("no fault");
    });
    (runs.into_inner(), has_ended)
}

#[test]
fn of_two_that_conflict_one_waits_or_is_run_again() {
    with_each(SyncMode::Buffered, |store| {
        put(store, b"one", 0);
        let (runs, has_ended) = race(store, b"one", [b"one", b"one"]);
        assert_eq!(get(store, b"one"), Some(2), "an update is lost");
        assert!(runs == 2 || !has_ended, "neither waits, and neither is run again");
    });
}

#[test]
fn what_was_only_read_is_looked_at_again() {
    with_each(SyncMode::Buffered, |store| {
        put(store, b"one", 0);
        put(store, b"two", 0);
        // The first reads what the second writes, and writes another.
        let (runs, has_ended) = race(store, b"two", [b"one", b"two"]);
        assert_eq!((get(store, b"one"), get(store, b"two")), (Some(1), Some(1)));
        assert!(runs == 2 || !has_ended, "neither waits, and neither is run again");
    });
}

#[test]
fn a_snapshot_of_transfers_has_all_of_the_money() {
    with_each(SyncMode::Buffered, |store| {
        for account in 0..10_u8 {
            put(store, &[account], 100);
        }
        let transfers = |first: u32| {
            let mut session = session(store);
            for i in 0..100 {
                let [from, to] = [first + i, first + i * 3 + 1].map(|n| [(n % 10) as u8]);
                let mut body = |tx: &mut dyn Transaction| {
                    let left = number(tx, &from)?.context("no account")? - 1;
                    let more = number(tx, &to)?.context("no account")? + 1;
                    tx.put(&from, &left.to_le_bytes())?;
                    // One that pays itself has what it had.
                    tx.put(&to, &(more - u32::from(from == to)).to_le_bytes())
                };
                session.transact(Access::Write, &mut body).expect("no fault");
            }
        };
        let sum = || {
            let mut sum = 0;
            let mut each = |_: &[u8], value: &[u8]| {
                sum += u32::from_le_bytes(value.try_into().expect("a number"));
            };
            store.scan_snapshot(&mut each).expect("no fault");
            sum
        };
        std::thread::scope(|scope| {
            let threads = [scope.spawn(|| transfers(0)), scope.spawn(|| transfers(5))];
            while threads.iter().any(|thread| !thread.is_finished()) {
                assert_eq!(sum(), 1000);
            }
        });
        assert_eq!(sum(), 1000);
    });
}

#[test]
fn one_that_only_reads_sees_one_moment_and_writes_nothing() {
    with_each(SyncMode::Buffered, |store| {
        put(store, b"one", 1);
        let mut runs = 0;
        let mut body = |tx: &mut dyn Transaction| {
            runs += 1;
            let before = number(tx, b"one")?;
            if runs == 1 {
                std::thread::scope(|scope| scope.spawn(|| put(store, b"one", 2)).join())
                    .expect("no panic");
            }
            assert_eq!(number(tx, b"one")?, before);
            Ok(())
        };
        session(store).transact(Access::Read, &mut body).expect("no fault");
        assert_eq!(get(store, b"one"), Some(2));
    });
}

#[test]
fn stores_without_transactions_are_refused() {
    let how = How::default();
    for name in ["btreemap", "everleaf-index", "dbm"] {
        assert!(check_transactions(name).is_err() && open_transactional(name, &how).is_err());
    }
}
