//! Deferred lines and the epochs that they wait for.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use everleaf_pmem::sim::Event;
use everleaf_pmem::{
    Buffered, BufferedOptions, BufferedStats, Dram, Error, Geometry, Medium, Page, PageNo, Result,
    SEQ_WORD, Sim, Word,
};

const SLOTS: u32 = 8;
const PAGES: PageNo = 8;
/// Lines of a page, and words.
const LINES: u32 = 1 + SLOTS / 4;
const WORDS: u32 = 8 * LINES;

fn geometry() -> Geometry {
    Geometry::new(SLOTS).expect("a power of two")
}

fn on<M: Medium>(inner: M, interval: Duration) -> Buffered<M> {
    Buffered::new(inner, &BufferedOptions { interval, ..BufferedOptions::default() })
        .expect("valid")
}

fn sim() -> Buffered<Sim> {
    on(Sim::new(geometry(), PAGES).expect("memory"), Duration::from_millis(1))
}

fn dram(interval: Duration) -> Buffered<Dram> {
    on(Dram::new(geometry(), PAGES).expect("memory"), interval)
}

/// One step: stores to body word 0 of a page and defers its line.
fn set<M: Medium>(medium: &Buffered<M>, no: PageNo, value: u64) -> Result<u64> {
    medium.throttle(true)?;
    let page = medium.page(no)?;
    let _held = page.latch().lock();
    let mut op = medium.enter()?;
    medium.store(page.body(0), value);
    medium.defer(&mut op, page, 1);
    Ok(medium.epoch(&op))
}

/// The durable epoch that the medium says.
fn word<M: Medium>(medium: &M) -> u64 {
    medium.page(0).expect("inside").head(SEQ_WORD).load()
}

/// Runs `test` in a thread that is expected to panic.
fn panics(test: impl FnOnce() + Send) {
    assert!(thread::scope(|scope| scope.spawn(test).join()).is_err(), "it did not panic");
}

/// Returns what `test` returns; one that never ends fails.
fn ends<T: Send + 'static>(test: impl FnOnce() -> T + Send + 'static) -> T {
    let (tell, told) = mpsc::channel();
    thread::spawn(move || tell.send(test()));
    told.recv_timeout(Duration::from_secs(300)).expect("it hangs or panics")
}

/// Runs `wait` in a thread, which has most likely begun to wait when this returns.
fn waits<'scope, T: Send + 'scope>(
    scope: &'scope thread::Scope<'scope, '_>,
    wait: impl FnOnce() -> T + Send + 'scope,
) -> thread::ScopedJoinHandle<'scope, T> {
    let thread = scope.spawn(wait);
    thread::sleep(Duration::from_millis(50));
    thread
}

/// A medium that calls back at each flush and each fence.
struct Watched {
    inner: Sim,
    hook: Mutex<Option<Hook>>,
}

type Hook = Arc<dyn Fn(&str) + Send + Sync>;

impl Watched {
    fn call(&self, what: &str) {
        let hook = self.hook.lock().expect("no panic").clone();
        if let Some(hook) = hook {
            hook(what);
        }
    }
}

impl Medium for Watched {
    everleaf_pmem::pass_on!(inner: Sim);
    fn store(&self, word: Word<'_>, value: u64) {
        self.inner.store(word, value);
    }
    fn flush(&self, page: Page<'_>, line: usize) {
        self.inner.flush(page, line);
        self.call("flush");
    }
    fn fence(&self) {
        self.inner.fence();
        self.call("fence");
    }
}

fn watched() -> Arc<Buffered<Watched>> {
    let inner = Sim::new(geometry(), PAGES).expect("memory");
    Arc::new(on(Watched { inner, hook: Mutex::default() }, Duration::from_millis(1)))
}

impl Watched {
    /// Has `see` called with the medium itself until it is gone.
    fn watch(
        medium: &Arc<Buffered<Watched>>,
        see: impl Fn(&Buffered<Watched>, &str) + Send + Sync + 'static,
    ) {
        let weak = Arc::downgrade(medium);
        let hook = move |what: &str| {
            if let Some(medium) = weak.upgrade() {
                see(&medium, what);
            }
        };
        *medium.inner().hook.lock().expect("no panic") = Some(Arc::new(hook));
    }
}

/// The events of one commit, threads left out, lines as (page, line).
#[derive(Debug, PartialEq, Eq)]
enum Persist {
    Flush(u32, u32),
    Fence,
    Word(u64),
}

fn commit_events(events: &[Event]) -> Vec<Persist> {
    let persist = |event: &Event| match *event {
        Event::Flush { line, .. } => Persist::Flush(line / LINES, line % LINES),
        Event::Fence { .. } => Persist::Fence,
        Event::Store { word, value } => {
            assert_eq!(word, SEQ_WORD as u32, "stored in page {}", word / WORDS);
            Persist::Word(value)
        }
        Event::Mark { .. } => unreachable!("nobody marks"),
    };
    events.iter().map(persist).collect()
}

#[test]
fn a_commit_persists_the_lines_then_the_word_and_then_tells() {
    let medium = watched();
    let told = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&told);
    Watched::watch(&medium, move |medium, what| {
        if what == "fence" {
            seen.lock().expect("no panic").push(medium.persisted_epoch());
        }
    });
    for epoch in 1..=3 {
        for no in [5, 3, 4] {
            assert_eq!(set(&medium, no, epoch).expect("open"), epoch);
        }
        let events = medium.inner().inner.take_events();
        assert!(events.iter().all(|e| matches!(e, Event::Store { .. })), "{events:?}");
        medium.tick().expect("open");
        use Persist::{Fence, Flush, Word};
        let expected =
            [Flush(5, 1), Flush(3, 1), Flush(4, 1), Fence, Word(epoch), Flush(0, 0), Fence];
        assert_eq!(commit_events(&medium.inner().inner.take_events()), expected);
        let mut told = told.lock().expect("no panic");
        assert_eq!(*told, [epoch - 1, epoch - 1], "durable before the last fence");
        told.clear();
        assert_eq!((medium.persisted_epoch(), word(&*medium)), (epoch, epoch));
    }
}

#[test]
fn steps_beside_a_commit_are_in_the_next_epoch_and_are_not_mixed_in() {
    let medium = watched();
    let busy = AtomicBool::new(false);
    Watched::watch(&medium, move |medium, _| {
        // A step while the commit writes lines back: its slot is free, its lines stay behind.
        if !busy.swap(true, Ordering::SeqCst) {
            assert_eq!(set(medium, 7, 70).expect("open"), medium.persisted_epoch() + 2);
        }
    });
    set(&medium, 1, 10).expect("open");
    set(&medium, 2, 20).expect("open");
    medium.inner().inner.take_events();
    for expected in [vec![(1, 1), (2, 1), (0, 0)], vec![(7, 1), (0, 0)], vec![(0, 0)]] {
        medium.tick().expect("open");
        let events = medium.inner().inner.take_events();
        let flushed = events.iter().filter_map(|e| match *e {
            Event::Flush { line, .. } => Some((line / LINES, line % LINES)),
            _ => None,
        });
        assert_eq!(flushed.collect::<Vec<_>>(), expected);
    }
    assert_eq!(medium.stats(), BufferedStats { commits: 3, lines_deferred: 3 });
}

#[test]
fn what_is_flushed_by_hand_is_flushed_at_once() {
    let medium = sim();
    let page = medium.page(1).expect("inside");
    let op = medium.enter().expect("open");
    medium.flush(page, 2);
    medium.fence();
    drop(op);
    let events = commit_events(&medium.inner().take_events());
    assert_eq!(events, [Persist::Flush(1, 2), Persist::Fence]);
}

#[test]
fn a_hold_is_one_epoch_across_ticks() {
    let medium = dram(Duration::from_micros(1));
    medium.start().expect("starts");
    for _ in 0..20 {
        let hold = medium.pin_epoch();
        let epoch = set(&medium, 1, 1).expect("open");
        thread::sleep(Duration::from_millis(1));
        assert_eq!(set(&medium, 2, 2).expect("open"), epoch);
        assert!(medium.persisted_epoch() < epoch);
        drop(hold);
        medium.wait_durable(epoch).expect("open");
        assert!(medium.clock() > epoch);
    }
}

/// A medium whose epochs have so many operations, and no time.
fn counted(most: u64) -> Buffered<Dram> {
    let options = BufferedOptions { operations: Some(most), ..BufferedOptions::default() };
    Buffered::new(Dram::new(geometry(), PAGES).expect("memory"), &options).expect("valid")
}

#[test]
fn an_epoch_ends_before_the_operation_that_it_has_no_room_for() {
    for most in [1, 2, 3, 10] {
        let medium = counted(most);
        for i in 0..5 * most {
            let epoch = 1 + i / most;
            assert_eq!(set(&medium, 1, i).expect("open"), epoch, "operation {i} of {most}");
            assert_eq!(medium.persisted_epoch(), epoch - 1, "nobody ends it before");
        }
        // An end by hand begins the count anew.
        medium.sync().expect("open");
        let clock = medium.clock();
        for _ in 0..most {
            assert_eq!(set(&medium, 2, 0).expect("open"), clock);
        }
        assert_eq!(set(&medium, 2, 0).expect("open"), clock + 1);
    }
    let never = counted(u64::MAX);
    for i in 0..1000 {
        assert_eq!(set(&never, 1, i).expect("open"), 1);
    }
}

#[test]
fn a_batch_is_one_epoch_whatever_the_count_and_the_next_operation_ends_it() {
    let medium = counted(4);
    (0..3).for_each(|i| assert_eq!(set(&medium, 1, i).expect("open"), 1));
    let hold = medium.pin_epoch();
    (0..9).for_each(|i| assert_eq!(set(&medium, 1, i).expect("open"), 1));
    drop(hold);
    assert_eq!(set(&medium, 1, 0).expect("open"), 2);
    (0..3).for_each(|i| assert_eq!(set(&medium, 1, i).expect("open"), 2));
    // A batch does not begin in an epoch that is full.
    let hold = medium.pin_epoch();
    (0..5).for_each(|i| assert_eq!(set(&medium, 1, i).expect("open"), 3));
    drop(hold);
    assert_eq!(set(&medium, 1, 0).expect("open"), 4);
}

#[test]
fn epochs_of_several_threads_have_two_operations_of_each_thread_more_at_most() {
    const THREADS: u64 = 4;
    for most in [1, 5, 50] {
        let medium = counted(most);
        let epochs = Mutex::new(std::collections::BTreeMap::<u64, u64>::new());
        thread::scope(|scope| {
            for no in 1..=THREADS {
                let (medium, epochs) = (&medium, &epochs);
                scope.spawn(move || {
                    for i in 0..2000 {
                        let epoch = set(medium, no as PageNo, i).expect("open");
                        *epochs.lock().expect("no panic").entry(epoch).or_default() += 1;
                    }
                });
            }
        });
        let epochs = epochs.into_inner().expect("no panic");
        let (&largest, all) = (epochs.values().max().expect("some"), epochs.values().sum::<u64>());
        assert!(largest <= most + 2 * THREADS, "{largest} operations in an epoch of {most}");
        assert_eq!(all, 2000 * THREADS);
        // Nobody ends an epoch for the count of the one before.
        let fewest = most.saturating_sub(2 * THREADS).max(1);
        assert!(medium.clock() <= 2 + all / fewest, "{} epochs of {most}", medium.clock());
    }
}

#[test]
fn an_operation_is_told_that_the_epoch_before_could_not_end() {
    let medium = counted(1);
    set(&medium, 1, 1).expect("open");
    medium.poison(&Error::Closed);
    let refused = medium.throttle(true);
    assert!(matches!(refused, Err(Error::Poisoned { .. })), "{refused:?}");
    let options = BufferedOptions { operations: Some(0), ..BufferedOptions::default() };
    let dram = Dram::new(geometry(), PAGES).expect("memory");
    let refused = Buffered::new(dram, &options);
    assert!(matches!(refused, Err(Error::InvalidOption { option: "operations", .. })));
}

#[test]
fn waiting_inside_a_hold_is_refused_and_harmless() {
    let medium = sim();
    let hold = medium.pin_epoch();
    let epoch = set(&medium, 1, 1).expect("open");
    for refused in [medium.wait_durable(epoch), medium.sync(), medium.tick()] {
        assert!(matches!(refused, Err(Error::InsideBatch)), "{refused:?}");
    }
    medium.wait_durable(epoch - 1).expect("it is durable");
    drop(hold);
    medium.sync().expect("open");
    assert_eq!(medium.persisted_epoch(), epoch);
}

#[test]
fn a_second_batch_of_a_thread_panics_also_on_another_medium() {
    let (one, other) = (sim(), sim());
    for second in [&one, &other] {
        panics(|| {
            let _hold = one.pin_epoch();
            let _second = second.pin_epoch();
        });
    }
    let _hold = other.pin_epoch();
    assert!(matches!(one.sync(), Err(Error::InsideBatch)), "two threads could wait in a circle");
}

#[test]
fn a_batch_that_panics_never_becomes_durable() {
    let medium = sim();
    panics(|| {
        let _hold = medium.pin_epoch();
        set(&medium, 1, 1).expect("open");
        panic!("between the steps of a batch");
    });
    for refused in [medium.sync(), set(&medium, 2, 2).map(drop)] {
        assert!(matches!(refused, Err(Error::Poisoned { .. })), "{refused:?}");
    }
    assert_eq!((medium.persisted_epoch(), word(&medium)), (0, 0));
}

#[test]
fn a_batch_that_a_panic_runs_in_a_destructor_is_whole() {
    struct AtEnd<'m>(&'m Buffered<Sim>);
    impl Drop for AtEnd<'_> {
        fn drop(&mut self) {
            let _hold = self.0.pin_epoch();
            set(self.0, 1, 1).expect("open");
        }
    }
    let medium = sim();
    panics(|| {
        let _at_end = AtEnd(&medium);
        panic!("outside of any step or batch");
    });
    medium.sync().expect("nothing was cut off");
    assert_eq!(medium.persisted_epoch(), 1);
}

#[test]
fn a_panicked_step_ends_all_epochs() {
    // The closer finds it, or the next step of the thread's slot.
    for finds_by_step in [false, true] {
        let medium = sim();
        set(&medium, 1, 1).expect("open");
        medium.sync().expect("open");
        panics(|| {
            let page = medium.page(1).expect("inside");
            let mut op = medium.enter().expect("open");
            medium.store(page.body(0), 2);
            medium.defer(&mut op, page, 1);
            if finds_by_step {
                drop(op);
                let _op = medium.enter().expect("open");
                panic!("in the second step");
            }
            panic!("half-way through a step");
        });
        for refused in [medium.sync(), set(&medium, 2, 2).map(drop)] {
            assert!(matches!(refused, Err(Error::Poisoned { .. })), "{refused:?}");
        }
        assert!(medium.poisoned().is_some());
        assert!(matches!(medium.wait_durable(2), Err(Error::Poisoned { .. })));
        medium.wait_durable(1).expect("it was durable before");
        assert!(matches!(medium.close(), Err(Error::Poisoned { .. })));
        assert_eq!((medium.persisted_epoch(), word(&medium)), (1, 1));
    }
}

#[test]
fn a_commit_that_panics_is_the_last_one_and_nobody_waits_for_it() {
    let medium = watched();
    set(&medium, 1, 1).expect("open");
    Watched::watch(&medium, |_, what| assert_ne!(what, "fence", "the medium breaks"));
    panics(|| medium.sync().expect("it panics"));
    *medium.inner().hook.lock().expect("no panic") = None;
    let refused = medium.sync();
    assert!(matches!(refused, Err(Error::Poisoned { .. })), "{refused:?}");
    assert_eq!((medium.persisted_epoch(), word(&*medium)), (0, 0));
}

#[test]
fn poison_from_above_stops_writes_and_keeps_its_cause() {
    let medium = sim();
    let epoch = set(&medium, 1, 1).expect("open");
    medium.poison(&Error::Full { bytes: 7 });
    medium.poison(&Error::ReadOnly);
    match medium.wait_durable(epoch) {
        Err(Error::Poisoned { cause }) => assert!(matches!(*cause, Error::Full { bytes: 7 })),
        other => panic!("{other:?}"),
    }
    drop(set(&medium, 1, 2).expect_err("refused"));
    assert_eq!(medium.page(1).expect("inside").body(0).load(), 1, "nothing was changed");
}

#[test]
fn what_is_poisoned_in_a_batch_does_not_become_durable() {
    let medium = &sim();
    thread::scope(|scope| {
        let hold = medium.pin_epoch();
        let epoch = set(medium, 1, 1).expect("open");
        let leader = waits(scope, move || medium.wait_durable(epoch));
        medium.poison(&Error::Full { bytes: 7 });
        drop(hold);
        let led = leader.join().expect("no panic");
        assert!(matches!(led, Err(Error::Poisoned { .. })), "{led:?}");
    });
    assert_eq!((medium.persisted_epoch(), word(medium)), (0, 0));
}

#[test]
fn what_is_poisoned_in_a_step_does_not_become_durable() {
    let medium = sim();
    thread::scope(|scope| {
        let page = medium.page(1).expect("inside");
        let _latched = page.latch().lock();
        let mut op = medium.enter().expect("open");
        medium.store(page.body(0), 1);
        medium.defer(&mut op, page, 1);
        let epoch = medium.epoch(&op);
        let leader = scope.spawn(|| medium.wait_durable(1));
        while medium.clock() == epoch {
            thread::yield_now(); // until the leader has cut the epoch
        }
        medium.poison(&Error::Full { bytes: 7 });
        drop(op);
        let led = leader.join().expect("no panic");
        assert!(matches!(led, Err(Error::Poisoned { .. })), "{led:?}");
    });
    assert_eq!((medium.persisted_epoch(), word(&medium)), (0, 0));
}

#[test]
fn an_idle_ticker_does_not_advance() {
    let medium = sim();
    medium.start().expect("starts");
    medium.start().expect("runs already");
    let epoch = set(&medium, 1, 1).expect("open");
    let began = Instant::now();
    while medium.persisted_epoch() < epoch {
        assert!(began.elapsed() < Duration::from_secs(300), "the ticker does nothing");
        thread::sleep(Duration::from_millis(1));
    }
    medium.inner().take_events();
    thread::sleep(Duration::from_millis(30));
    assert_eq!((medium.clock(), medium.persisted_epoch()), (epoch + 1, epoch));
    assert_eq!((medium.inner().take_events(), medium.stats().commits), (vec![], 1));
    // An epoch that is asked for ends all the same.
    medium.tick().expect("open");
    assert_eq!(medium.persisted_epoch(), epoch + 1);
}

#[test]
fn an_interval_of_a_microsecond_advances() {
    let medium = dram(Duration::from_micros(1));
    medium.start().expect("starts");
    let began = Instant::now();
    let mut steps = 0;
    while medium.persisted_epoch() < 100 {
        let epoch = set(&medium, 1, steps).expect("open");
        assert!(medium.persisted_epoch() + 2 >= epoch, "more than two epochs behind");
        assert!(began.elapsed() < Duration::from_secs(300), "{steps} steps, epoch {epoch}");
        steps += 1;
    }
    medium.close().expect("open");
    assert_eq!(word(&medium), medium.persisted_epoch());
}

#[test]
fn who_waits_is_told_after_its_epoch_is_durable() {
    let medium = dram(Duration::from_millis(1));
    thread::scope(|scope| {
        for no in 1..=4 {
            let medium = &medium;
            scope.spawn(move || {
                for i in 0..200 {
                    let epoch = set(medium, no, i).expect("open");
                    medium.wait_durable(epoch).expect("open");
                    assert!(word(medium) >= epoch && medium.persisted_epoch() >= epoch);
                }
            });
        }
    });
    let stats = medium.stats();
    assert!(stats.lines_deferred == 800 && (200..=800).contains(&stats.commits), "{stats:?}");
}

#[test]
fn a_new_open_finds_the_durable_epoch_and_goes_on_behind_it() {
    let medium = sim();
    for value in 1..=3 {
        set(&medium, 1, value).expect("open");
        medium.sync().expect("open");
    }
    set(&medium, 1, 4).expect("open");
    medium.abandon();
    assert_eq!(medium.persisted_epoch(), 3, "nobody ends the fourth any more");
    assert!(medium.wait_durable(4).is_err() && medium.sync().is_err() && medium.start().is_err());
    let image = medium.inner().image();
    drop(medium);
    let again = Sim::from_image(geometry(), PAGES, &image).expect("memory");
    let again = on(again, Duration::from_millis(1));
    assert_eq!((again.recovered_epoch(), again.persisted_epoch(), again.clock()), (3, 3, 4));
    again.wait_durable(3).expect("it is");
    assert_eq!(set(&again, 1, 5).expect("open"), 4);
    again.tick().expect("open");
    assert_eq!((again.recovered_epoch(), word(&again)), (3, 4));
}

#[test]
fn a_close_makes_all_durable_and_refuses_what_comes_after() {
    let medium = dram(Duration::from_secs(10));
    medium.start().expect("starts");
    let epoch = set(&medium, 1, 1).expect("open");
    medium.close().expect("open");
    assert_eq!(word(&medium), epoch);
    medium.close().expect("once more is nothing");
    let refused = set(&medium, 1, 2);
    assert!(matches!(refused, Err(Error::Closed)), "{refused:?}");
}

#[test]
fn a_close_inside_a_batch_is_refused_and_changes_nothing() {
    for ticker in [false, true] {
        ends(move || {
            let medium = sim();
            if ticker {
                medium.start().expect("starts");
            }
            let hold = medium.pin_epoch();
            let epoch = set(&medium, 1, 1).expect("open");
            thread::sleep(Duration::from_millis(20)); // the ticker waits for the batch
            let refused = medium.close();
            assert!(matches!(refused, Err(Error::InsideBatch)), "{refused:?}");
            assert_eq!(set(&medium, 2, 2).expect("still open"), epoch);
            drop(hold);
            medium.close().expect("no batch runs");
            assert!(word(&medium) >= epoch);
        });
    }
}

#[test]
fn an_abandon_inside_a_batch_does_not_wait_and_nothing_becomes_durable() {
    ends(|| {
        let medium = sim();
        medium.start().expect("starts");
        let hold = medium.pin_epoch();
        set(&medium, 1, 1).expect("open");
        thread::sleep(Duration::from_millis(20)); // the ticker waits for the batch
        medium.abandon();
        drop(hold);
        medium.abandon(); // now it waits for the ticker
        assert_eq!((medium.persisted_epoch(), word(&medium)), (0, 0));
    });
}

#[test]
fn each_close_that_says_ok_has_made_all_durable() {
    let medium = &sim();
    thread::scope(|scope| {
        let hold = medium.pin_epoch();
        let epoch = set(medium, 1, 1).expect("open");
        let close = move || {
            medium.close().expect("no fault");
            assert_eq!(word(medium), epoch);
        };
        let closes = [waits(scope, close), waits(scope, close)];
        drop(hold);
        for close in closes {
            close.join().expect("durable");
        }
    });
}

#[test]
fn a_close_that_failed_fails_again() {
    let medium = sim();
    set(&medium, 1, 1).expect("open");
    medium.poison(&Error::Full { bytes: 7 });
    for closed in [medium.close(), medium.close()] {
        assert!(matches!(closed, Err(Error::Poisoned { .. })), "{closed:?}");
    }
    let medium = sim();
    set(&medium, 1, 1).expect("open");
    medium.abandon();
    assert!(matches!(medium.close(), Err(Error::Closed)), "nothing was made durable");
}

#[test]
fn the_last_epoch_that_an_open_accepts_is_the_last_one_that_is_written() {
    const END: u64 = 1 << 62;
    let image = |durable| {
        let inner = Sim::new(geometry(), PAGES).expect("memory");
        inner.store(inner.page(0).expect("inside").head(SEQ_WORD), durable);
        inner
    };
    let refused = Buffered::new(image(END), &BufferedOptions::default());
    assert!(matches!(refused, Err(Error::Corrupt { .. })), "{refused:?}");
    let medium = on(image(END - 2), Duration::from_millis(1));
    assert_eq!(set(&medium, 1, 1).expect("open"), END - 1);
    medium.tick().expect("the last epoch");
    assert_eq!(word(&medium), END - 1);
    set(&medium, 1, 2).expect("nobody has looked");
    assert!(medium.tick().is_err(), "the next open would refuse it");
    assert_eq!((medium.persisted_epoch(), word(&medium)), (END - 1, END - 1));
}
