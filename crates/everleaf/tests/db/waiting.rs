//! Threads and futures that wait for an epoch: the end of the epoch wakes them, and so does what keeps it
//! from ending. A test that loses a wakeup hangs; [`within`] ends it.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, JoinHandle, Thread};
use std::time::Duration;

use everleaf::{Db, Durable, Error, Options, Result, Storage};
use everleaf_file::io::{Fault, SimIo};

const PATH: &str = "/pool/p.ever";
/// More than a loaded machine takes for anything here.
const LONG: Duration = Duration::from_secs(120);

fn open(io: &SimIo, options: &Options) -> Db {
    options.open_on(Arc::new(io.clone()), PATH).expect("it opens")
}

/// Epochs end when the test says so.
fn manual(io: &SimIo) -> Db {
    open(io, &Options::new().background(false))
}

fn ticking(io: &SimIo) -> Db {
    open(io, &Options::new().interval(Duration::from_millis(1)))
}

fn put(db: &Db, key: &str) -> u64 {
    db.tree("t").expect("room").put(key, "").expect("room");
    db.epoch()
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(answer) => return answer,
            Poll::Pending => thread::park(),
        }
    }
}

/// Returns what `body` returns, unless it hangs.
fn within<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, receiver) = mpsc::channel();
    let runs = thread::spawn(move || sender.send(body()));
    match receiver.recv_timeout(LONG) {
        Ok(answer) => answer,
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("it hangs"),
        Err(mpsc::RecvTimeoutError::Disconnected) => {
            std::panic::resume_unwind(runs.join().expect_err("it has sent nothing"))
        }
    }
}

/// Counts how often it is woken.
#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Count {
    fn woken(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

fn poll(future: &mut Durable, count: &Arc<Count>) -> Poll<Result<()>> {
    let waker = Waker::from(Arc::clone(count));
    Pin::new(future).poll(&mut Context::from_waker(&waker))
}

/// Threads that wait, every other one as a future, each for its epoch; with what they were answered.
fn waiters(db: &Db, epochs: &[u64]) -> Vec<JoinHandle<Result<()>>> {
    let begun = Arc::new(AtomicUsize::new(0));
    let all = epochs
        .iter()
        .enumerate()
        .map(|(i, &epoch)| {
            let (db, begun) = (db.clone(), Arc::clone(&begun));
            let waits = move || {
                begun.fetch_add(1, Ordering::SeqCst);
                if i % 2 == 0 { db.wait_durable(epoch) } else { block_on(db.durable(epoch)) }
            };
            thread::Builder::new().stack_size(256 << 10).spawn(waits).expect("a thread")
        })
        .collect();
    while begun.load(Ordering::SeqCst) < epochs.len() {
        thread::yield_now();
    }
    // Most of them wait by then.
    thread::sleep(Duration::from_millis(20));
    all
}

fn answers(waiters: Vec<JoinHandle<Result<()>>>) -> Vec<Result<()>> {
    within(|| waiters.into_iter().map(|waiter| waiter.join().expect("no panic")).collect())
}

#[test]
fn who_waits_ends_no_epoch_and_is_woken_by_its_end() {
    let io = SimIo::new(1);
    let db = manual(&io);
    let mark = put(&db, "k");
    let woken = Arc::new(Count::default());
    let (mut now, mut next) = (db.durable(mark), db.durable(mark + 1));
    assert!(poll(&mut now, &woken).is_pending() && poll(&mut next, &woken).is_pending());
    let threads = waiters(&db, &[mark, mark, mark + 1, mark + 1]);
    assert!(db.durable_epoch() < mark && threads.iter().all(|waiter| !waiter.is_finished()));
    db.sync().expect("no fault");
    assert_eq!((db.durable_epoch(), woken.woken()), (mark, 1), "one of the two");
    assert!(matches!(poll(&mut now, &woken), Poll::Ready(Ok(()))));
    assert!(matches!(poll(&mut now, &woken), Poll::Ready(Ok(()))), "again");
    assert!(poll(&mut next, &woken).is_pending());
    assert!(threads[2..].iter().all(|waiter| !waiter.is_finished()));
    put(&db, "l");
    db.sync().expect("no fault");
    assert!(answers(threads).iter().all(Result::is_ok));
    assert!(matches!(poll(&mut next, &woken), Poll::Ready(Ok(()))));
    assert_eq!(woken.woken(), 2);
    // A durable epoch needs no wait, and stays durable.
    db.wait_durable(0).expect("durable");
    let other = db.clone();
    db.close().expect("no fault");
    other.wait_durable(mark).expect("durable");
    block_on(other.durable(mark)).expect("durable");
}

/// In a pool without threads a waiter makes an ended epoch durable, also if it ended meanwhile.
#[test]
fn who_waits_where_there_are_no_threads_makes_durable_what_has_ended() {
    let io = SimIo::new(4);
    let db = manual(&io);
    let epoch = put(&db, "a");
    let waits = {
        let db = db.clone();
        thread::spawn(move || within(move || db.wait_durable(epoch)))
    };
    let count: Arc<Count> = Arc::default();
    let mut future = db.durable(epoch);
    assert!(poll(&mut future, &count).is_pending());
    thread::sleep(Duration::from_millis(20));
    assert_eq!(db.end_epoch().expect("room"), epoch);
    waits.join().expect("no panic").expect("no fault");
    assert!(count.woken() > 0);
    assert!(matches!(poll(&mut future, &count), Poll::Ready(Ok(()))));
    // The future alone, with nobody else to end it.
    let (epoch, before) = (put(&db, "b"), count.woken());
    let mut future = db.durable(epoch);
    assert!(poll(&mut future, &count).is_pending());
    db.end_epoch().expect("room");
    assert!(count.woken() > before);
    assert!(matches!(poll(&mut future, &count), Poll::Ready(Ok(()))));
}

#[test]
fn epochs_in_which_nothing_is_written_end_while_somebody_waits() {
    let io = SimIo::new(2);
    let db = ticking(&io);
    for ahead in [0, 1, 5] {
        let mark = db.epoch() + ahead;
        let waits = db.clone();
        within(move || waits.wait_durable(mark)).expect("no fault");
        assert!(db.durable_epoch() >= mark);
        let mark = db.epoch() + ahead;
        let waits = db.durable(mark);
        within(move || block_on(waits)).expect("no fault");
        assert!(db.durable_epoch() >= mark);
    }
}

#[test]
fn a_thousand_waiters_are_woken_each_by_its_epoch() {
    let io = SimIo::new(3);
    let db = manual(&io);
    let first = put(&db, "k");
    let epochs: Vec<_> = (0..1000).map(|i| first + i % 10).collect();
    // Half of them at least wait in threads of their own, the rest by wakers of this one.
    let threads = waiters(&db, &epochs[..200]);
    let mut futures: Vec<_> = epochs[200..].iter().map(|&epoch| db.durable(epoch)).collect();
    let wakers: Vec<_> = futures.iter().map(|_| Arc::new(Count::default())).collect();
    for (future, woken) in futures.iter_mut().zip(&wakers) {
        // With another waker before: the last one counts.
        let other = Arc::new(Count::default());
        assert!(poll(future, &other).is_pending() && poll(future, woken).is_pending());
        assert_eq!(Arc::strong_count(&other), 1, "the first one is forgotten");
    }
    for n in 0..10 {
        db.sync().expect("no fault");
        let durable = db.durable_epoch();
        assert_eq!(durable, first + n);
        for ((future, woken), epoch) in futures.iter_mut().zip(&wakers).zip(&epochs[200..]) {
            assert_eq!(woken.woken(), usize::from(*epoch <= durable), "epoch {epoch} of {durable}");
            assert_eq!(poll(future, woken).is_ready(), *epoch <= durable);
        }
    }
    assert!(answers(threads).iter().all(Result::is_ok));
}

#[test]
fn what_is_dropped_is_forgotten_and_its_place_used_again() {
    let io = SimIo::new(4);
    let db = manual(&io);
    let mark = put(&db, "k");
    let woken = Arc::new(Count::default());
    for _ in 0..3 {
        let mut futures: Vec<_> = (0..100).map(|_| db.durable(mark)).collect();
        assert!(futures.iter_mut().all(|future| poll(future, &woken).is_pending()));
        assert_eq!(Arc::strong_count(&woken), 101);
        futures.truncate(50);
        assert_eq!(Arc::strong_count(&woken), 51);
        let mut others: Vec<_> = (0..80).map(|_| db.durable(mark)).collect();
        assert!(others.iter_mut().all(|future| poll(future, &woken).is_pending()));
        assert_eq!(Arc::strong_count(&woken), 131);
        drop((futures, others));
        assert_eq!(Arc::strong_count(&woken), 1);
    }
    db.sync().expect("no fault");
    assert_eq!(woken.woken(), 0);
}

/// How the wait of others ends.
type End = fn(Db, &SimIo);

#[test]
fn a_close_a_crash_and_a_failed_disk_end_every_wait() {
    let close: End = |db, _| db.close().expect("no fault");
    let abandon: End = |db, _| db.abandon().expect("open");
    let poison: End = |db, io| {
        io.fail_at(io.calls(), Fault::Io);
        assert!(matches!(db.sync(), Err(Error::Poisoned { .. })));
    };
    for (end, keeps) in [(close, true), (abandon, false), (poison, false)] {
        let io = SimIo::new(5);
        let db = manual(&io);
        let mark = put(&db, "k");
        // The epoch after the running one never comes.
        let epochs: Vec<_> = (0..1000).map(|i| mark + i % 2 + 1000 * (i / 500)).collect();
        let threads = waiters(&db, &epochs[..100]);
        let woken = Arc::new(Count::default());
        let mut futures: Vec<_> = epochs.iter().map(|&epoch| db.durable(epoch)).collect();
        assert!(futures.iter_mut().all(|future| poll(future, &woken).is_pending()));
        let other = db.clone();
        end(db, &io);
        assert_eq!(woken.woken(), 1000);
        let mut told = answers(threads);
        told.extend(futures.into_iter().map(block_on));
        let waited = epochs[..100].iter().chain(&epochs);
        for (epoch, answer) in waited.zip(told) {
            match answer {
                Ok(()) => assert!(keeps && *epoch == mark),
                Err(Error::Poisoned { .. }) => assert!(other.sync().is_err() && !keeps),
                Err(Error::Closed) => assert!(!keeps || *epoch > mark),
                Err(error) => panic!("{error}"),
            }
        }
        let is_closed = matches!(other.wait_durable(mark + 1), Err(Error::Closed));
        assert_eq!(is_closed, !matches!(other.sync(), Err(Error::Poisoned { .. })));
        drop(other);
    }
}

#[test]
fn a_future_does_not_keep_the_pool_open() {
    let io = SimIo::new(6);
    let db = manual(&io);
    let mark = put(&db, "k");
    let woken = Arc::new(Count::default());
    let (mut now, mut later) = (db.durable(mark), db.durable(mark + 7));
    assert!(poll(&mut now, &woken).is_pending() && poll(&mut later, &woken).is_pending());
    drop(db);
    assert_eq!(woken.woken(), 2);
    assert!(matches!(poll(&mut now, &woken), Poll::Ready(Ok(()))));
    assert!(matches!(poll(&mut later, &woken), Poll::Ready(Err(Error::Closed))));
    assert_eq!(manual(&io).durable_epoch(), mark);
}

/// Threads that write and wait, others that sync and let futures go, and epochs of a millisecond: each
/// wakeup that is lost would end in a wait for ever.
#[test]
fn no_wakeup_is_lost_between_writers_ticks_and_syncs() {
    within(|| {
        let io = SimIo::new(7);
        let db = ticking(&io);
        let stop = AtomicBool::new(false);
        thread::scope(|s| {
            let writers: Vec<_> = (0..6)
                .map(|n| {
                    let db = &db;
                    s.spawn(move || {
                        for i in 0..400 {
                            let mark = put(db, &format!("{n}/{i}"));
                            match i % 3 {
                                0 => db.wait_durable(mark).expect("no fault"),
                                1 => block_on(db.durable(mark)).expect("no fault"),
                                _ => drop(poll(&mut db.durable(mark), &Arc::default())),
                            }
                            assert!(i % 3 == 2 || db.durable_epoch() >= mark);
                        }
                    })
                })
                .collect();
            s.spawn(|| {
                while !stop.load(Ordering::SeqCst) {
                    db.sync().expect("no fault");
                    thread::sleep(Duration::from_micros(300));
                }
            });
            let ended: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
            stop.store(true, Ordering::SeqCst);
            assert!(ended.iter().all(Result::is_ok));
        });
    });
}

/// A waker that owns another future, and one that panics, are no affair of the pool.
#[test]
fn wakers_may_drop_futures_and_panic() {
    struct Owns(Mutex<Option<Durable>>);
    impl Wake for Owns {
        fn wake(self: Arc<Self>) {
            drop(self.0.lock().expect("no panic").take());
        }
    }
    struct Panics;
    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            panic!("a waker that panics");
        }
    }
    within(|| {
        let db = manual(&SimIo::new(8));
        let mark = put(&db, "k");
        let woken = Arc::new(Count::default());
        let owner = || {
            let mut owned = db.durable(mark);
            assert!(poll(&mut owned, &woken).is_pending());
            Waker::from(Arc::new(Owns(Mutex::new(Some(owned)))))
        };
        let mut polled = db.durable(mark);
        // The first waker is dropped when the second one takes its place, and its future with it.
        for _ in 0..2 {
            let waker = owner();
            let mut context = Context::from_waker(&waker);
            assert!(Pin::new(&mut polled).poll(&mut context).is_pending());
        }
        let panics = Waker::from(Arc::new(Panics));
        let mut other = db.durable(mark);
        assert!(Pin::new(&mut other).poll(&mut Context::from_waker(&panics)).is_pending());
        let mut last = db.durable(mark);
        assert!(poll(&mut last, &woken).is_pending());
        catch_unwind(AssertUnwindSafe(|| db.sync())).expect("no panic").expect("no fault");
        assert!(woken.woken() >= 1 && poll(&mut last, &woken).is_ready());
        put(&db, "l");
        db.close().expect("not poisoned");
    });
}

#[test]
fn nobody_waits_on_persistent_memory_or_in_a_pool_that_is_only_read() {
    let dir = tempfile::tempdir().expect("a directory");
    let options = Options::new().storage(Storage::EmulatedDax).max_bytes(16 << 20);
    let db = options.open(dir.path().join("dax")).expect("it opens");
    put(&db, "k");
    db.wait_durable(db.epoch()).expect("durable");
    db.wait_durable(u64::MAX).expect("durable");
    block_on(db.durable(7)).expect("durable");
    let io = SimIo::new(9);
    let db = manual(&io);
    let mark = put(&db, "k");
    db.close().expect("no fault");
    let db = open(&io, &Options::new().read_only(true));
    db.wait_durable(mark).expect("durable");
    assert!(matches!(db.wait_durable(mark + 1), Err(Error::ReadOnly)));
    assert!(matches!(block_on(db.durable(mark + 1)), Err(Error::ReadOnly)));
}
