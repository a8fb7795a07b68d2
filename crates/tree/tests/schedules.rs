//! Threads and power cuts at once: random operations on small trees in orders that a seed decides,
//! each run crashed at its fences and responses, with linearizability as the judge.
//!
//! `EVERLEAF_SCHEDULES` is the number of schedules of each kind of tree; a failure prints its seed,
//! and `EVERLEAF_SCHEDULES_SEED` runs that one alone.

mod schedule;

use everleaf_tree::node::{Binary, Circular, Fingerprint, Linear, Scan, Sentinel};
use schedule::mutant::{
    FULLY, LATE_FLUSH, NO_FENCE, NO_FLUSH, NOT_THE_LEAF, NOT_THE_PARENT_AGAIN, Reader, Sound,
    TwoStepUpdate, UnsafeUpdate,
};
use schedule::{Bench, Create, Failure, Kind, Overrated, Reads};

fn env(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

/// Schedules of each kind of tree, unless the environment says otherwise.
const SCHEDULES: u64 = 12_000;

fn every_schedule<K: Create>(what: &str) {
    let mut bench = Bench::<K>::new();
    let n = env("EVERLEAF_SCHEDULES").unwrap_or(SCHEDULES);
    let seeds = env("EVERLEAF_SCHEDULES_SEED").map_or(0..n, |seed| seed..seed + 1);
    let all = seeds.end - seeds.start == n && n >= SCHEDULES;
    let start = std::time::Instant::now();
    bench.run(seeds).unwrap_or_else(|failure| panic!("{what}, {}", failure.what));
    let happened = bench.happened;
    println!("{what}: {happened:?} in {:.1?}", start.elapsed());
    if all {
        assert!(happened.crash_points >= 50_000, "{happened:?}");
        let each = [happened.split, happened.merged, happened.grown, happened.shrunk];
        assert!(each.iter().all(|n| *n > 20), "{happened:?}");
    }
}

#[test]
fn circular_trees_with_sentinels() {
    every_schedule::<(Circular, Sentinel)>("circular, sentinels");
}

#[test]
fn circular_trees_with_binary_search() {
    every_schedule::<(Circular, Binary)>("circular, binary search");
}

#[test]
fn linear_trees() {
    every_schedule::<(Linear, Scan)>("linear");
}

#[test]
fn linear_trees_with_fingerprints_and_leaf_latches() {
    every_schedule::<Reads<Linear, Fingerprint, false>>("linear, fingerprints, leaf latches");
}

#[test]
fn linear_trees_with_readers_that_do_not_wait() {
    every_schedule::<Reads<Linear, Sentinel, true>>("linear, sentinels, lock-free");
}

/// The anomaly that lock-free reading has a name for, *unflushed read* (errata F16): what a reader
/// was told can be lost in a crash. The other ways to read do not have it.
#[test]
fn what_a_lock_free_reader_has_seen_can_be_lost() {
    let lost = found_among::<Overrated<Linear, Scan>, (Linear, Scan)>("unflushed read", 20_000);
    assert!(lost.what.contains("not one of"), "{}", lost.what);
}

/// The first of so many seeds that finds a mutant out; its schedule alone does so again.
fn found<K: Kind>(what: &str, seeds: u64) -> Failure {
    found_among::<K, Sound>(what, seeds)
}

fn found_among<K: Kind, R: Create>(what: &str, seeds: u64) -> Failure {
    let run = |seeds| Bench::<K, R>::new().run(seeds);
    let failure = run(0..seeds).expect_err(what);
    println!("{what}: {}", failure.what);
    let again = run(failure.seed..failure.seed + 1);
    assert_eq!(again.as_ref(), Err(&failure), "{what}: the seed does not replay");
    failure
}

fn passes<K: Kind>(threads: usize, seeds: u64) {
    let ran = Bench::<K, Sound>::new().threads(threads).run(0..seeds);
    ran.unwrap_or_else(|failure| panic!("{}", failure.what));
}

#[test]
fn a_flush_or_a_fence_left_out_is_found() {
    let lost = found::<UnsafeUpdate<NO_FLUSH>>("no flush", 500);
    assert!(lost.what.contains("not one of"), "{}", lost.what);
    let lost = found::<UnsafeUpdate<NO_FENCE>>("no fence", 500);
    assert!(lost.what.contains("not one of"), "{}", lost.what);
}

/// The writer itself is durable when it answers, so only who reads in between can tell.
#[test]
fn a_flush_after_the_unlock_is_found_by_what_others_have_read() {
    let lost = found::<UnsafeUpdate<LATE_FLUSH>>("late flush", 5000);
    assert!(lost.what.contains("not one of"), "{}", lost.what);
    passes::<UnsafeUpdate<LATE_FLUSH>>(1, 2000);
    passes::<UnsafeUpdate<LATE_FLUSH, false>>(3, 5000);
}

#[test]
fn an_update_in_two_steps_is_found() {
    found::<TwoStepUpdate>("two steps", 5000);
    passes::<TwoStepUpdate>(1, 2000);
}

#[test]
fn a_reader_that_validates_too_little_is_found() {
    passes::<Reader<FULLY>>(3, 5000);
    let torn = found::<Reader<NOT_THE_LEAF>>("no look back at the leaf", 20_000);
    assert!(torn.what.contains("no order explains"), "{}", torn.what);
    let torn = found::<Reader<NOT_THE_PARENT_AGAIN>>("no look back at the parent", 20_000);
    assert!(torn.what.contains("no order explains"), "{}", torn.what);
}
