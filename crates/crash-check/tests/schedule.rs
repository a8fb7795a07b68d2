//! The scheduler: the same seed gives the same run, what can go wrong goes wrong within few seeds,
//! and each thread's fences are its own.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use everleaf_crash_check::schedule::{Failed, Job, Policy, Ran, Scheduler};
use everleaf_crash_check::{Explorer, History, MapOp, Trace, linearizable};
use everleaf_pmem::{Backoff, Geometry, Medium, Page, Seen, Sim};

const THREADS: usize = 3;

fn sim() -> Arc<Sim> {
    Arc::new(Sim::new(Geometry::new(4).expect("a power of two"), 2).expect("memory"))
}

fn policy(seed: u64) -> Policy {
    Policy { seed, horizon: 60, writes: 20, ..Policy::default() }
}

/// A register of two words that are always equal, under the latch of its page.
#[derive(Clone)]
struct Register {
    sim: Arc<Sim>,
    flushes: bool,
    validates: bool,
}

impl Register {
    fn page(&self) -> Page<'_> {
        self.sim.page(0).expect("inside")
    }
    fn set(&self, value: u64) -> u64 {
        let page = self.page();
        let mut held = page.latch().lock();
        let old = page.body(0).load();
        self.sim.store(page.body(0), value);
        self.sim.store(page.body(1), value);
        if self.flushes {
            self.sim.flush(page, 1);
            self.sim.fence();
        }
        held.set_ready();
        drop(held);
        // Too late for threads that have read the value.
        self.sim.flush(page, 1);
        self.sim.fence();
        old
    }
    fn get(&self) -> [u64; 2] {
        let (page, mut wait) = (self.page(), Backoff::default());
        loop {
            let Seen::Ready(version) = page.latch().read_version() else { return [0; 2] };
            let pair = [page.body(0).load(), page.body(1).load()];
            if !self.validates || page.latch().validate(version) {
                return pair;
            }
            wait.pause();
        }
    }

    /// One thread sets the register twice, two read it; the history is checked with each crash.
    fn run(&self, scheduler: &mut Scheduler, seed: u64) -> Result<Ran, String> {
        let trace = Arc::new(Trace::new(&self.sim));
        let answers = Arc::new(Mutex::new(Vec::new()));
        let jobs = (0..THREADS as u64).map(|thread| -> Job {
            let (register, trace, answers) =
                (self.clone(), Arc::clone(&trace), Arc::clone(&answers));
            Box::new(move || {
                for i in 0..2 {
                    let id = 2 * thread + i;
                    let (op, pair) = match thread {
                        0 => (MapOp::Insert(0, i + 1), trace.op(id, || [register.set(i + 1); 2])),
                        _ => (MapOp::Get(0), trace.op(id, || register.get())),
                    };
                    assert_eq!(pair[0], pair[1], "a torn pair");
                    let answer = Some(pair[0]).filter(|value| *value > 0);
                    answers.lock().expect("no panic inside").push((id, op, answer));
                }
            })
        });
        let ran = scheduler.run(&policy(seed), jobs.collect()).map_err(|f| f.to_string())?;
        let record = Arc::into_inner(trace).expect("the jobs have ended").finish();
        let answers = std::mem::take(&mut *answers.lock().expect("no panic inside"));
        let history = History::new(&[], &record, answers);
        linearizable(&history, None)?;
        let verify = |sim: &Arc<Sim>, crash: &everleaf_crash_check::CrashPoint<'_>| {
            let found = sim.page(0).expect("inside").body(1).load();
            let entries: Vec<_> = (found > 0).then_some((0, found)).into_iter().collect();
            linearizable(&history.cut(crash.event()), Some(&entries))
        };
        Explorer::new().check(&record, verify).map_err(|failure| failure.to_string())?;
        Ok(ran)
    }
}

fn first_failure(flushes: bool, validates: bool, seeds: u64) -> Option<(u64, String)> {
    let mut scheduler = Scheduler::new(THREADS);
    (0..seeds).find_map(|seed| {
        let register = Register { sim: sim(), flushes, validates };
        register.run(&mut scheduler, seed).err().map(|what| (seed, what))
    })
}

#[test]
fn a_register_with_all_its_parts_never_fails() {
    assert_eq!(first_failure(true, true, 3000), None);
}

#[test]
fn a_reader_that_does_not_validate_is_found() {
    let (seed, what) = first_failure(true, false, 3000).expect("torn pairs are seen");
    assert!(what.contains("a torn pair"), "seed {seed}: {what}");
}

#[test]
fn a_flush_after_the_latch_is_found_by_who_has_read_before_it() {
    let (seed, what) = first_failure(false, true, 3000).expect("an answer is lost");
    assert!(what.contains("not one of"), "seed {seed}: {what}");
    // Without reads there is nothing to lose: each write is durable when it answers.
    let mut scheduler = Scheduler::new(1);
    let register = Register { sim: sim(), flushes: false, validates: true };
    let trace = Arc::new(Trace::new(&register.sim));
    let (writer, writes) = (register.clone(), Arc::clone(&trace));
    let job: Job = Box::new(move || {
        writes.op(0, || writer.set(1));
    });
    scheduler.run(&policy(0), vec![job]).expect("it ends");
    let record = Arc::into_inner(trace).expect("the job has ended").finish();
    let durable = |sim: &Arc<Sim>, crash: &everleaf_crash_check::CrashPoint<'_>| {
        let found = sim.page(0).expect("inside").body(1).load();
        if crash.responded().is_empty() || found == 1 { Ok(()) } else { Err("lost".into()) }
    };
    Explorer::new().check(&record, durable).expect("nothing is lost");
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let mut scheduler = Scheduler::new(THREADS);
    let mut runs = std::collections::HashSet::new();
    for seed in 0..200 {
        let [a, b] = [(); 2].map(|()| {
            let register = Register { sim: sim(), flushes: true, validates: true };
            let ran = register.run(&mut scheduler, seed);
            (ran.expect("nothing is wrong with it"), register.sim.image())
        });
        assert_eq!(a, b, "seed {seed}");
        runs.insert(a.0.turns);
    }
    assert!(runs.len() > 60, "{} different runs", runs.len());
    let [a, b] = [(); 2].map(|()| first_failure(true, false, 3000));
    assert_eq!(a, b, "a failure replays");
}

/// A flush is completed by its own thread's fence only, whichever thread fences in between.
#[test]
fn another_threads_fence_completes_nothing() {
    let mut scheduler = Scheduler::new(2);
    let mut lost = [0; 2];
    for seed in 0..500 {
        for own in [false, true] {
            let sim = sim();
            let trace = Arc::new(Trace::new(&sim));
            let (writer, writes) = (Arc::clone(&sim), Arc::clone(&trace));
            let flusher: Job = Box::new(move || {
                let page = writer.page(0).expect("inside");
                writes.op(0, || {
                    writer.store(page.body(0), 1);
                    writer.flush(page, 1);
                    if own {
                        writer.fence();
                    }
                });
            });
            let fencer: Job = Box::new(move || (0..3).for_each(|_| sim.fence()));
            scheduler.run(&policy(seed), vec![flusher, fencer]).expect("they end");
            let record = Arc::into_inner(trace).expect("the jobs have ended").finish();
            let durable = |sim: &Arc<Sim>, crash: &everleaf_crash_check::CrashPoint<'_>| {
                let found = sim.page(0).expect("inside").body(0).load();
                if crash.responded() == [0] && found == 0 { Err("lost".into()) } else { Ok(()) }
            };
            lost[usize::from(own)] += u64::from(Explorer::new().check(&record, durable).is_err());
        }
    }
    assert_eq!(lost, [500, 0]);
}

fn failure(jobs: Vec<Job>) -> Failed {
    let mut scheduler = Scheduler::new(jobs.len());
    let policy = Policy { bound: 5000, ..policy(7) };
    let failed = scheduler.run(&policy, jobs).expect_err("they cannot end well");
    // The threads are as good as new.
    let after = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&after);
    let job: Job = Box::new(move || {
        count.fetch_add(1, Ordering::Relaxed);
    });
    scheduler.run(&policy, vec![job]).expect("nothing can go wrong");
    assert_eq!(after.load(Ordering::Relaxed), 1);
    failed
}

#[test]
fn two_threads_that_wait_for_each_other_are_reported() {
    let sim = sim();
    let job = |first: u32| -> Job {
        let sim = Arc::clone(&sim);
        Box::new(move || {
            let latch = |no| sim.page(no).expect("inside").latch();
            let _first = latch(first).lock();
            let mut wait = Backoff::default();
            while !latch(1 - first).is_locked() {
                wait.pause();
            }
            let _second = latch(1 - first).lock();
        })
    };
    let failed = failure(vec![job(0), job(1)]);
    assert_eq!((failed.what.as_str(), failed.seed), ("no progress in 5000 steps", 7));
    assert!(failed.ran.turns.len() > 2 && failed.to_string().contains("seed 7"), "{failed}");
    let latches = [0, 1].map(|no| sim.page(no).expect("inside").latch().is_locked());
    assert_eq!(latches, [false; 2], "what the threads held has been dropped");
}

#[test]
fn a_panic_is_reported_and_the_others_go_on() {
    let sim = sim();
    let ended = Arc::new(AtomicU64::new(0));
    let job = |panics: bool| -> Job {
        let (sim, ended) = (Arc::clone(&sim), Arc::clone(&ended));
        Box::new(move || {
            let page = sim.page(0).expect("inside");
            let _held = page.latch().lock();
            assert!(!panics, "as it should");
            ended.fetch_add(1, Ordering::Relaxed);
        })
    };
    let failed = failure(vec![job(false), job(true), job(false)]);
    assert_eq!(failed.what, "thread 1 panicked: as it should");
    assert_eq!(ended.load(Ordering::Relaxed), 2);
}
