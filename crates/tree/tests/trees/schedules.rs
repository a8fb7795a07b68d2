//! Threads and power cuts at once: random operations on small trees in orders that a seed decides,
//! each run crashed at its fences and responses, with linearizability as the judge.
//!
//! `EVERLEAF_SCALE` sets the number of schedules of each kind of tree; a failure prints its seed,
//! and `EVERLEAF_SEED` runs that one alone.

use crate::schedule::mutant::{
    FULLY, LATE_FLUSH, NO_FENCE, NO_FLUSH, NOT_THE_LEAF, NOT_THE_PARENT_AGAIN, Reader, Sound,
    TwoStepUpdate, UnsafeUpdate,
};
use crate::schedule::text::Text;
use crate::schedule::{Bench, Create, Failure, Kind, Latched, LockFree};
use everleaf_testing::{seed, times};
use everleaf_tree::slots::{
    Binary, Circular, Fingerprint, Linear, Logged, Scan, Segment, Sentinel,
};

/// Schedules of each kind of tree, unless the environment says otherwise.
const SCHEDULES: u64 = 5000;

fn every_schedule<K: Kind, R: Create>(what: &str) {
    let mut bench = Bench::<K, R>::new();
    let n = times(SCHEDULES) / K::COST;
    let seeds = seed().map_or(0..n, |seed| seed..seed + 1);
    let all = seeds.end - seeds.start == n && n >= SCHEDULES / K::COST;
    let start = std::time::Instant::now();
    bench.run(seeds).unwrap_or_else(|failure| panic!("{what}, {}", failure.what));
    let happened = bench.happened;
    println!("{what}: {}", happened.stats);
    println!("{what}: {happened:?} in {:.1?}", start.elapsed());
    if all {
        assert!(happened.stats.crash_points >= 50_000 / K::COST, "{happened:?}");
        let each = [happened.split, happened.merged, happened.grown, happened.shrunk];
        let each = if K::GROWS { &each[..] } else { &each[..2] };
        assert!(each.iter().all(|n| *n > 10), "{happened:?}");
    }
}

/// One test for each kind of tree, and the kind that recovers what its crashes leave.
macro_rules! every_schedule_of {
    ($($name:ident: $kind:ty, $sound:ty;)*) => {
        $(#[test]
        fn $name() {
            every_schedule::<$kind, $sound>(stringify!($name));
        })*
    };
}

every_schedule_of! {
    circ_tree: (Circular, Sentinel), (Circular, Sentinel);
    circ_tree_binary: (Circular, Binary), (Circular, Binary);
    circ_tree_segment: (Circular, Segment), (Circular, Segment);
    circ_tree_ls: (Circular, Scan), (Circular, Scan);
    circ_tree_f: (Circular, Fingerprint), (Circular, Fingerprint);
    circ_tree_latched: Latched<(Circular, Sentinel)>, (Circular, Sentinel);
    fast_fair: (Linear, Scan), (Linear, Scan);
    fast_fair_s: (Linear, Sentinel), (Linear, Sentinel);
    fast_fair_f: (Linear, Fingerprint), (Linear, Fingerprint);
    fast_fair_lock_free: LockFree<(Linear, Scan)>, (Linear, Scan);
    fast_fair_s_lock_free: LockFree<(Linear, Sentinel)>, (Linear, Sentinel);
    fast_fair_f_lock_free: LockFree<(Linear, Fingerprint)>, (Linear, Fingerprint);
    fast_fair_latched: Latched<(Linear, Scan)>, (Linear, Scan);
    byte_strings: Text, Text;
    fast_logging: (Logged<Linear>, Scan), (Logged<Linear>, Scan);
}

/// The first of so many seeds that finds a mutant out; its schedule alone does so again.
fn found<K: Kind, R: Create>(what: &str, seeds: u64) -> Failure {
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
    let lost = found::<UnsafeUpdate<NO_FLUSH>, Sound>("no flush", 500);
    assert!(lost.what.contains("not one of"), "{}", lost.what);
    let lost = found::<UnsafeUpdate<NO_FENCE>, Sound>("no fence", 500);
    assert!(lost.what.contains("not one of"), "{}", lost.what);
}

/// The writer itself is durable when it answers, so only who reads in between can tell.
#[test]
fn a_flush_after_the_unlock_is_found_by_what_others_have_read() {
    let lost = found::<UnsafeUpdate<LATE_FLUSH>, Sound>("late flush", 5000);
    assert!(lost.what.contains("not one of"), "{}", lost.what);
    passes::<UnsafeUpdate<LATE_FLUSH>>(1, 2000);
    passes::<UnsafeUpdate<LATE_FLUSH, false>>(3, 5000);
}

#[test]
fn an_update_in_two_steps_is_found() {
    found::<TwoStepUpdate, Sound>("two steps", 5000);
    passes::<TwoStepUpdate>(1, 2000);
}

#[test]
fn a_reader_that_validates_too_little_is_found() {
    passes::<Reader<FULLY>>(3, 5000);
    let torn = found::<Reader<NOT_THE_LEAF>, Sound>("no look back at the leaf", 20_000);
    assert!(torn.what.contains("no order explains"), "{}", torn.what);
    let torn = found::<Reader<NOT_THE_PARENT_AGAIN>, Sound>("no look back at the parent", 20_000);
    assert!(torn.what.contains("no order explains"), "{}", torn.what);
}

/// The unflushed read of lock-free readers (docs/PAPERS.md, F16): why their reads are judged more
/// mildly.
#[test]
fn what_lock_free_readers_have_read_can_be_lost() {
    type FastFair = (Linear, Scan);
    let lost = found::<LockFree<FastFair, true>, FastFair>("unflushed read", 5000);
    assert!(lost.what.contains("not one of"), "{}", lost.what);
}
