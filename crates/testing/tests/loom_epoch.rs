//! The epoch clock under loom: the code of `epoch.rs` itself, in every order of its threads and
//! with every value that loom's memory model lets a load return; and the same with one thing done
//! wrong, which loom must find.

#[path = "../../pmem/src/epoch.rs"]
#[allow(dead_code, reason = "not every operation is modelled")]
mod epoch;
#[path = "../../pmem/src/error.rs"]
#[allow(dead_code, reason = "not every error occurs")]
mod error;

/// Loom's primitives, of which the clock is made here.
mod sync {
    use loom::sync::RwLockWriteGuard;
    pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
    pub(crate) use loom::sync::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard};
    pub(crate) use loom::thread::yield_now;
    pub(crate) use loom::thread_local;
    use std::cell::Cell;
    use std::sync::{LockResult, PoisonError};
    use std::time::Duration;

    /// Loom switches at each access by itself.
    pub(crate) fn before_read() {}
    pub(crate) fn before_write() {}

    pub(crate) fn lock<T>(mutex: &Mutex<T>) -> LockResult<MutexGuard<'_, T>> {
        mutex.lock()
    }
    pub(crate) fn read_lock<T>(lock: &RwLock<T>) -> LockResult<RwLockReadGuard<'_, T>> {
        lock.read()
    }
    pub(crate) fn write_lock<T>(lock: &RwLock<T>) -> LockResult<RwLockWriteGuard<'_, T>> {
        lock.write()
    }
    pub(crate) fn wait<'m, T>(
        condvar: &Condvar,
        _: &'m Mutex<T>,
        guard: MutexGuard<'m, T>,
    ) -> LockResult<MutexGuard<'m, T>> {
        condvar.wait(guard)
    }
    /// Time does not pass here.
    pub(crate) fn wait_timeout<'m, T>(
        condvar: &Condvar,
        mutex: &'m Mutex<T>,
        guard: MutexGuard<'m, T>,
        _: Duration,
    ) -> MutexGuard<'m, T> {
        wait(condvar, mutex, guard).unwrap_or_else(PoisonError::into_inner)
    }

    thread_local! {
        static NUMBER: Cell<usize> = Cell::new(0);
    }
    /// The number of this thread; it is 0 until the test says otherwise.
    pub(crate) fn thread_number() -> usize {
        NUMBER.with(Cell::get)
    }
    pub(crate) fn be_thread(number: usize) {
        NUMBER.with(|n| n.set(number));
    }

    /// Runs a test in every order.
    pub(crate) fn model(test: impl Fn() + Send + Sync + 'static) {
        loom::model(test);
    }
}

use epoch::Epochs;
use error::Error;
use loom::sync::{Arc, Mutex};
use loom::thread;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use sync::{AtomicBool, AtomicU64, Ordering, be_thread, fence, model};

/// A slot keeps the items of even and of odd epochs.
type Clock = Epochs<[Vec<u64>; 2], 2>;

/// One step that leaves its epoch as its item; which epoch that was.
fn step(clock: &Clock) -> u64 {
    let (mut slot, epoch) = clock.enter().expect("no panic");
    slot[(epoch & 1) as usize].push(epoch);
    epoch
}

/// Closes the running epoch, and what its steps have left.
fn close(clock: &Clock) -> (u64, Vec<u64>) {
    let mut items = Vec::new();
    let take = |epoch: u64, _, mut slot: epoch::SlotGuard<'_, [Vec<u64>; 2]>| {
        items.append(&mut slot[(epoch & 1) as usize]);
    };
    let epoch = clock.close(take).expect("no panic");
    (epoch, items)
}

fn close_and_publish(clock: &Clock) -> (u64, Vec<u64>) {
    let closed = close(clock);
    clock.publish(closed.0);
    closed
}

/// Whether loom finds an order in which the model fails.
#[track_caller]
fn assert_found(what: &str, test: impl Fn() + Send + Sync + 'static) {
    let ran = catch_unwind(AssertUnwindSafe(|| model(test)));
    let panic = ran.expect_err("loom finds nothing wrong");
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or(panic.downcast_ref::<&str>().copied()).unwrap_or_default();
    assert!(text.contains(what), "another failure: {text}");
}

/// A step beside two closings: each epoch's items are those of its steps.
fn cut(step: impl Fn(&Clock) -> u64 + Send + Sync + Copy + 'static) {
    let clock = Arc::new(Clock::new(0).expect("memory"));
    let stepper = Arc::clone(&clock);
    let steps = thread::spawn(move || {
        be_thread(1);
        step(&stepper)
    });
    let first = close_and_publish(&clock);
    let epoch = steps.join().expect("no panic");
    let second = close_and_publish(&clock);
    for (closed, items) in [first, second] {
        let expected: &[u64] = if closed == epoch { &[epoch] } else { &[] };
        assert_eq!(items, expected, "items of epoch {closed}");
    }
}

#[test]
fn a_step_is_in_the_epoch_that_takes_its_items() {
    model(|| cut(step));
}

/// The clock must be read with the slot in hand (docs/PAPERS.md, B10).
#[test]
fn a_clock_that_is_read_before_the_slot_is_locked_is_caught() {
    assert_found("items of epoch", || {
        cut(|clock| {
            let epoch = clock.now();
            let (mut slot, _) = clock.enter().expect("no panic");
            slot[(epoch & 1) as usize].push(epoch);
            epoch
        });
    });
}

/// Two threads of one slot and one of another, all at once.
#[test]
fn steps_that_share_a_slot_are_all_taken() {
    model(|| {
        let clock = Arc::new(Clock::new(0).expect("memory"));
        let run = |number| {
            let clock = Arc::clone(&clock);
            thread::spawn(move || {
                be_thread(number);
                step(&clock)
            })
        };
        let steps = [run(0), run(2)];
        let (_, mut items) = close_and_publish(&clock);
        let mut epochs = steps.map(|s| s.join().expect("no panic"));
        items.extend(close_and_publish(&clock).1);
        epochs.sort_unstable();
        assert_eq!(items, epochs);
    });
}

/// Paper §3.4, problem 1: a page changed in epoch e after it was changed in e + 1.
#[test]
fn epochs_of_a_page_never_go_down() {
    model(|| {
        let clock = Arc::new(Clock::new(0).expect("memory"));
        // The page's latch, and the epoch of its last change.
        let page = Arc::new(Mutex::new(0));
        let run = |number| {
            let (clock, page) = (Arc::clone(&clock), Arc::clone(&page));
            move || {
                be_thread(number);
                let mut last = page.lock().expect("no panic");
                let (_slot, epoch) = clock.enter().expect("no panic");
                assert!(*last <= epoch, "changed in {epoch} after {}", *last);
                *last = epoch;
            }
        };
        let other = thread::spawn(run(1));
        let closer = Arc::clone(&clock);
        let closes = thread::spawn(move || close(&closer).0);
        run(0)();
        other.join().expect("no panic");
        assert_eq!(closes.join().expect("no panic"), 1);
    });
}

/// The latch comes before the slot: a step that enters first may find a page of the next epoch.
#[test]
fn a_step_that_enters_before_it_latches_is_caught() {
    assert_found("changed in", || {
        let clock = Arc::new(Clock::new(0).expect("memory"));
        let page = Arc::new(Mutex::new(0));
        let change = |page: &Mutex<u64>, epoch: u64| {
            let mut last = page.lock().expect("no panic");
            assert!(*last <= epoch, "changed in {epoch} after {}", *last);
            *last = epoch;
        };
        let (early, its_page) = (Arc::clone(&clock), Arc::clone(&page));
        let enters = thread::spawn(move || {
            be_thread(1);
            let (_slot, epoch) = early.enter().expect("no panic");
            change(&its_page, epoch);
        });
        let closer = Arc::clone(&clock);
        let closes = thread::spawn(move || close(&closer).0);
        let (_slot, epoch) = clock.enter().expect("no panic");
        change(&page, epoch);
        drop(_slot);
        enters.join().expect("no panic");
        closes.join().expect("no panic");
    });
}

/// Paper §3.4, problem 2: a thread that sees a store of epoch e + 1 is in e + 1 with its next step, also
/// without a latch in common.
#[test]
fn who_has_seen_an_epoch_is_not_in_an_earlier_one() {
    model(|| {
        let clock = Arc::new(Clock::new(0).expect("memory"));
        let word = Arc::new(AtomicU64::new(0));
        let (writer, its_word) = (Arc::clone(&clock), Arc::clone(&word));
        let writes = thread::spawn(move || {
            be_thread(1);
            let (_slot, epoch) = writer.enter().expect("no panic");
            its_word.store(epoch, Ordering::Release);
        });
        let closer = Arc::clone(&clock);
        let closes = thread::spawn(move || close(&closer).0);
        let seen = word.load(Ordering::Acquire);
        assert!(step(&clock) >= seen);
        writes.join().expect("no panic");
        closes.join().expect("no panic");
    });
}

#[test]
fn a_hold_keeps_its_steps_in_one_epoch() {
    model(|| {
        let clock = Arc::new(Clock::new(0).expect("memory"));
        let closer = Arc::clone(&clock);
        let closes = thread::spawn(move || {
            be_thread(1);
            close_and_publish(&closer)
        });
        let hold = clock.pin_epoch();
        let epochs = [step(&clock), step(&clock)];
        drop(hold);
        let (closed, items) = closes.join().expect("no panic");
        assert_eq!(epochs[0], epochs[1]);
        assert_eq!(items.len(), if epochs[0] == closed { 2 } else { 0 }, "whole or not at all");
    });
}

#[test]
fn a_batch_that_panics_is_in_no_epoch_that_ends() {
    model(|| {
        let clock = Arc::new(Clock::new(0).expect("memory"));
        let try_close = |clock: &Clock| {
            let mut items = Vec::new();
            let closed = clock.close(|epoch, _, mut slot| {
                items.append(&mut slot[(epoch & 1) as usize]);
            });
            closed.map(|epoch| (epoch, items))
        };
        let closer = Arc::clone(&clock);
        let closes = thread::spawn(move || {
            be_thread(1);
            let closed = try_close(&closer);
            closed.inspect(|(epoch, _)| closer.publish(*epoch))
        });
        let batch = catch_unwind(AssertUnwindSafe(|| {
            let _hold = clock.pin_epoch();
            step(&clock);
            resume_unwind(Box::new("between two steps"));
        }));
        batch.expect_err("it panicked");
        if let Ok((_, items)) = closes.join().expect("no panic") {
            assert_eq!(items, [0; 0], "half of a batch");
        }
        assert_eq!(try_close(&clock), Err(epoch::EpochTorn));
    });
}

/// Steps that no hold keeps together may fall apart.
#[test]
fn a_batch_without_a_hold_is_caught() {
    assert_found("two epochs", || {
        let clock = Arc::new(Clock::new(0).expect("memory"));
        let closer = Arc::clone(&clock);
        let closes = thread::spawn(move || {
            be_thread(1);
            close(&closer).0
        });
        let epochs = [step(&clock), step(&clock)];
        assert_eq!(epochs[0], epochs[1], "two epochs");
        closes.join().expect("no panic");
    });
}

/// A medium that has persisted all epochs up to this one.
#[derive(Default)]
struct Persisted(AtomicU64);

/// A thread waits for its own step, beside another that does, by commits that do `persist`.
fn wait_for_own_step(commit: impl Fn(&Clock, &Persisted) + Send + Sync + Copy + 'static) {
    let clock = Arc::new(Clock::new(0).expect("memory"));
    let persisted = Arc::new(Persisted::default());
    let run = |number| {
        let (clock, persisted) = (Arc::clone(&clock), Arc::clone(&persisted));
        move || {
            be_thread(number);
            let epoch = step(&clock);
            let led = || {
                commit(&clock, &persisted);
                Ok(())
            };
            clock.wait_durable(epoch, || Ok(()), led).expect("nothing fails");
            assert!(persisted.0.load(Ordering::Relaxed) >= epoch, "told before it was durable");
        }
    };
    let other = thread::spawn(run(1));
    run(0)();
    other.join().expect("no panic");
}

#[test]
fn nobody_waits_for_ever_or_is_told_too_early() {
    model(|| {
        wait_for_own_step(|clock, persisted| {
            let (epoch, _) = close(clock);
            persisted.0.store(epoch, Ordering::Relaxed);
            clock.publish(epoch);
        });
    });
}

/// The medium first, then those who wait (docs/PAPERS.md, B11).
#[test]
fn an_epoch_that_is_published_before_it_is_durable_is_caught() {
    assert_found("told before it was durable", || {
        wait_for_own_step(|clock, persisted| {
            let (epoch, _) = close(clock);
            clock.publish(epoch);
            persisted.0.store(epoch, Ordering::Relaxed);
        });
    });
}

#[test]
fn who_waits_for_an_epoch_that_another_ends_closes_none() {
    model(|| {
        let clock = Arc::new(Clock::new(0).expect("memory"));
        let wait = |clock: Arc<Clock>| {
            move || {
                let commit = || {
                    close_and_publish(&clock);
                    Ok(())
                };
                clock.wait_durable(1, || Ok(()), commit).expect("nothing fails");
                assert!(clock.durable() >= 1);
            }
        };
        let other = thread::spawn(wait(Arc::clone(&clock)));
        wait(Arc::clone(&clock))();
        other.join().expect("no panic");
        assert_eq!(clock.now(), 2);
    });
}

/// A commit that fails is told to its leader, and those who wait look again and lead themselves or
/// learn why they should not.
#[test]
fn nobody_waits_for_a_commit_that_failed() {
    model(|| {
        let clock = Arc::new(Clock::new(0).expect("memory"));
        let failed = Arc::new(AtomicBool::new(false));
        let error = || Error::ReadOnly;
        let wait = |clock: Arc<Clock>, failed: Arc<AtomicBool>| {
            move || {
                let check = || if failed.load(Ordering::SeqCst) { Err(error()) } else { Ok(()) };
                let commit = || {
                    failed.store(true, Ordering::SeqCst);
                    clock.wake();
                    Err(error())
                };
                let result = clock.wait_durable(1, check, commit);
                assert!(matches!(result, Err(Error::ReadOnly)));
            }
        };
        let other = thread::spawn(wait(Arc::clone(&clock), Arc::clone(&failed)));
        wait(Arc::clone(&clock), Arc::clone(&failed))();
        other.join().expect("no panic");
    });
}

/// A waiter that ends nothing is woken by the end of the epoch, and by a failure that makes waiting useless.
#[test]
fn who_ends_no_epoch_is_woken_by_its_end_and_by_a_failure() {
    for fails in [false, true] {
        model(move || {
            let clock = Arc::new(Clock::new(0).expect("memory"));
            let failed = Arc::new(AtomicBool::new(false));
            let (waits, sees) = (Arc::clone(&clock), Arc::clone(&failed));
            let waiter = thread::spawn(move || {
                waits.await_durable(1, None, || match sees.load(Ordering::SeqCst) {
                    true => Err(Error::ReadOnly),
                    false => Ok(true),
                })
            });
            if fails {
                failed.store(true, Ordering::SeqCst);
                clock.wake();
            } else {
                let commit = || {
                    close_and_publish(&clock);
                    Ok(())
                };
                clock.wait_durable(1, || Ok(()), commit).expect("nothing fails");
            }
            let waited = waiter.join().expect("no panic");
            match waited {
                Ok(kept) => assert!(kept && !fails && clock.durable() == 1),
                Err(error) => assert!(fails && matches!(error, Error::ReadOnly)),
            }
        });
    }
}

/// Epochs that the program ends and a task syncs, as `ended.rs` and `commit.rs` of everleaf-file have it: a disk
/// that has the epochs up to `synced`.
struct Ends {
    clock: Clock,
    commit: Mutex<Ended>,
    synced: AtomicU64,
    /// A fault: an end says that the last one is durable, and then syncs it.
    tells_first: bool,
}

/// An epoch that is written and not synced, as the holder of the commit sees it.
#[derive(Default)]
struct Ended(Option<u64>);

impl Ends {
    fn new(tells_first: bool) -> Arc<Self> {
        let (clock, commit) = (Clock::new(0).expect("memory"), Mutex::default());
        Arc::new(Self { clock, commit, synced: AtomicU64::new(0), tells_first })
    }

    /// Syncs the epoch that has ended, if there is one.
    fn keep_last(&self, ended: &mut Ended) -> bool {
        let Some(epoch) = ended.0.take() else { return false };
        if self.tells_first {
            self.clock.publish(epoch);
            self.synced.store(epoch, Ordering::Relaxed);
        } else {
            self.synced.store(epoch, Ordering::Relaxed);
            self.clock.publish(epoch);
        }
        true
    }

    /// Closes and writes the running epoch. The clock refuses that before the last one is published.
    fn end_running(&self, ended: &mut Ended) -> u64 {
        let (epoch, _) = close(&self.clock);
        ended.0 = Some(epoch);
        epoch
    }

    fn end_epoch(&self) -> u64 {
        let mut ended = self.commit.lock().expect("no panic");
        let kept = self.keep_last(&mut ended);
        let epoch = self.end_running(&mut ended);
        drop(ended);
        if kept {
            self.clock.wake();
        }
        epoch
    }

    /// Waits as a task does, or any other waiter.
    fn wait_durable(&self, epoch: u64) {
        let commit = || {
            let mut ended = self.commit.lock().expect("no panic");
            if self.clock.durable() < epoch && !self.keep_last(&mut ended) {
                self.end_running(&mut ended);
                self.keep_last(&mut ended);
            }
            Ok(())
        };
        self.clock.wait_durable(epoch, || Ok(()), commit).expect("nothing fails");
        self.expect_synced(epoch);
    }

    fn expect_synced(&self, epoch: u64) {
        let synced = self.synced.load(Ordering::Relaxed);
        assert!(synced >= epoch, "told before it was durable");
    }
}

/// A program ends two epochs beside a task that syncs them.
fn two_ends_beside_a_task() {
    let ends = Ends::new(false);
    let tasks = Arc::clone(&ends);
    let task = thread::spawn(move || {
        be_thread(1);
        tasks.wait_durable(tasks.clock.now() - 1);
    });
    assert_eq!([ends.end_epoch(), ends.end_epoch()], [1, 2]);
    let durable = ends.clock.durable();
    task.join().expect("no panic");
    ends.wait_durable(2);
    assert!(durable >= 1, "the second end waits for the first");
    assert_eq!(ends.clock.now(), 3, "who waits for an ended epoch ends none");
}

/// A program ends two epochs, and somebody waits for the first one, without ending any.
fn two_ends_beside_a_waiter(tells_first: bool) {
    let ends = Ends::new(tells_first);
    let waits = Arc::clone(&ends);
    let waiter = thread::spawn(move || {
        be_thread(1);
        let kept = waits.clock.await_durable(1, None, || Ok(true));
        assert!(kept.expect("nothing fails"));
        waits.expect_synced(1);
    });
    ends.end_epoch();
    ends.end_epoch();
    waiter.join().expect("no panic");
}

#[test]
fn ended_epochs_are_synced_in_order_and_told_after_it() {
    model(two_ends_beside_a_task);
    model(|| two_ends_beside_a_waiter(false));
}

#[test]
fn an_end_that_is_told_before_it_is_synced_is_caught() {
    assert_found("told before it was durable", || two_ends_beside_a_waiter(true));
}

/// A step that never leaves its slot keeps the epoch from ending (docs/PAPERS.md, B9).
#[test]
fn a_slot_that_is_never_left_is_caught() {
    assert_found("deadlock", || {
        // Values that loom's panic unwinds past must not be its own: it is past counting by then.
        let clock = ManuallyDrop::new(Arc::new(Clock::new(0).expect("memory")));
        let stays = Arc::clone(&clock);
        let steps = thread::spawn(move || {
            be_thread(1);
            std::mem::forget(stays.enter());
        });
        let steps = ManuallyDrop::new(steps);
        close(&clock);
        ManuallyDrop::into_inner(steps).join().expect("no panic");
        drop(ManuallyDrop::into_inner(clock));
    });
}

/// The papers' way to register: announce the epoch that was read, then read the clock again; the
/// closer sets the clock and then looks for announcements. Each stores and then loads the other's
/// word, so a full fence has to stand between (docs/PAPERS.md, B9, B10), or both may miss each
/// other. The clock itself does this once for each slot, when it is first used.
fn announce(fenced: bool) {
    let full_fence = move || {
        if fenced {
            fence(Ordering::SeqCst);
        }
    };
    let words = Arc::new((AtomicU64::new(1), AtomicU64::new(0)));
    let stepper = Arc::clone(&words);
    let steps = thread::spawn(move || {
        let (clock, announced) = &*stepper;
        announced.store(1, Ordering::Relaxed);
        full_fence();
        clock.load(Ordering::Relaxed) == 1
    });
    let (clock, announced) = &*words;
    clock.store(2, Ordering::Relaxed);
    full_fence();
    let closer_sees = announced.load(Ordering::Relaxed) == 1;
    let in_epoch_1 = steps.join().expect("no panic");
    assert!(closer_sees || !in_epoch_1, "both miss each other");
}

#[test]
fn an_announcement_needs_a_full_fence() {
    model(|| announce(true));
    assert_found("both miss each other", || announce(false));
}
