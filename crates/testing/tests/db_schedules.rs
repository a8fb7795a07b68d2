//! Transactions and snapshots of a whole Db in orders that a seed decides: the histories of `everleaf`'s tests, of
//! few threads and few keys, with a switch at any access to shared memory, any lock, and any latch.
//!
//! `EVERLEAF_SCALE` sets the number of schedules of each kind; a failure prints its seed, and
//! `EVERLEAF_SEED` runs that one alone. They are here, and not in `everleaf`, since the points at which
//! threads switch would be in all that is built beside them.

#[path = "../../everleaf/tests/histories/mod.rs"]
#[allow(dead_code, unused_imports, reason = "these threads are not scheduled")]
mod histories;

use std::sync::{Arc, Mutex};
use std::time::Instant;

use everleaf::{Db, Isolation, Options};
use everleaf_crash_check::schedule::{Job, Policy, Ran, Scheduler};
use everleaf_file::io::SimIo;
use everleaf_pmem::schedule::set_number;
use everleaf_testing::{seed, times};
use histories::{History, Kind, Plan, Runner, left};

/// Schedules of each kind, unless the environment says otherwise.
const SCHEDULES: u64 = 20_000;
/// Transactions of one thread.
const TRANSACTIONS: u64 = 3;

/// The number of the thread that makes the pools; no scheduled thread has it.
const NUMBER: usize = 0;

/// One schedule: what its threads have seen, and how it ran.
fn schedule(scheduler: &mut Scheduler, plan: Plan, seed: u64) -> Result<(History, Ran), String> {
    // Whichever test runs first: this thread opens the pool, and what it does depends on its number, too.
    set_number(NUMBER);
    let options = Options::new().background(false).page_bytes(512);
    let db: Db = options.open_on(Arc::new(SimIo::new(seed)), "/p").expect("opens");
    let done = Arc::new(Mutex::new(Vec::new()));
    let job = |mut runner: Runner| -> Job {
        let done = Arc::clone(&done);
        Box::new(move || {
            let own = runner.run(TRANSACTIONS);
            drop(runner);
            done.lock().expect("nobody panics with it").extend(own);
        })
    };
    let jobs = Runner::all(&db, plan, seed).into_iter().map(job).collect();
    let policy = Policy { seed, preemptions: 6, horizon: 1000, writes: 300, ..Policy::default() };
    let ran = scheduler.run(&policy, jobs).map_err(|failed| failed.to_string())?;
    let done = std::mem::take(&mut *done.lock().expect("nobody panics with it"));
    let history = left(&db, done);
    let stats = db.stats().expect("open");
    if (stats.snapshots, stats.snapshot_bytes) != (0, 0) {
        return Err(format!("left are {} snapshots: {} B", stats.snapshots, stats.snapshot_bytes));
    }
    Ok((history, ran))
}

/// Runs all seeds; `judge` says what is wrong with a history.
fn every_schedule(plan: Plan, judge: impl Fn(&History) -> Vec<String>) {
    let n = times(SCHEDULES);
    let one = seed();
    let (start, mut scheduler) = (Instant::now(), Scheduler::new(plan.threads as usize));
    let (mut conflicts, mut longest) = (0, 0);
    for seed in one.map_or(0..n, |seed| seed..seed + 1) {
        everleaf_testing::at_seed(seed);
        let (history, ran) = schedule(&mut scheduler, plan, seed)
            .unwrap_or_else(|what| panic!("{plan:?}, EVERLEAF_SEED={seed}: {what}"));
        let wrong = judge(&history);
        assert!(wrong.is_empty(), "{plan:?}, EVERLEAF_SEED={seed}: {wrong:?}; {ran}");
        conflicts += history.conflicts;
        longest = longest.max(ran.steps);
    }
    let time = start.elapsed();
    println!("{plan:?}: {conflicts} conflicts, up to {longest} steps, in {time:.1?}");
    assert!(one.is_some() || conflicts > n / 10, "{conflicts}: nobody was in anybody's way");
}

/// As many lists as threads.
fn lists(isolation: Isolation, threads: u64) -> Plan {
    Plan { isolation, threads, keys: threads, kinds: &[Kind::Lists] }
}

#[test]
fn transactions_of_two_threads_are_serializable() {
    let plan = lists(Isolation::Serializable, 2);
    every_schedule(plan, |history| history.anomalies(Isolation::Serializable));
}

#[test]
fn transactions_of_three_threads_are_serializable() {
    let plan = lists(Isolation::Serializable, 3);
    every_schedule(plan, |history| history.anomalies(Isolation::Serializable));
}

#[test]
fn snapshot_isolation_allows_nothing_but_write_skew() {
    let plan = lists(Isolation::Snapshot, 3);
    every_schedule(plan, |history| history.anomalies(Isolation::Snapshot));
}

/// A fork takes two writers and two readers.
#[test]
fn no_reader_of_several_trees_sees_a_fork() {
    let (isolation, kinds) = (Isolation::Serializable, &[Kind::Forks]);
    let plan = Plan { isolation, threads: 4, keys: 1, kinds };
    every_schedule(plan, |history| history.anomalies(Isolation::Serializable));
}

#[test]
fn what_pops_and_removes_ranges_is_no_phantom() {
    let (isolation, kinds) = (Isolation::Serializable, &[Kind::Queue]);
    let plan = Plan { isolation, threads: 3, keys: 1, kinds };
    every_schedule(plan, |history| history.anomalies(Isolation::Serializable));
}

/// Write skew is what schedules find where it is allowed; and the same seed finds it again.
#[test]
fn a_write_skew_is_found_and_found_again() {
    let plan = lists(Isolation::Snapshot, 2);
    let mut scheduler = Scheduler::new(2);
    let mut skewed = |seed: &u64| {
        let (history, ran) = schedule(&mut scheduler, plan, *seed).expect("it runs");
        let skew = history.anomalies(Isolation::Serializable);
        (!skew.is_empty()).then_some((skew, ran))
    };
    let seed = (0..SCHEDULES).find(|seed| skewed(seed).is_some()).expect("one of them has it");
    println!("schedule {seed}");
    assert_eq!(skewed(&seed), skewed(&seed), "the seed does not replay");
}
