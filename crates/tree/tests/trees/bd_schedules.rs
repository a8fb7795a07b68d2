//! Threads, ends of epochs and power cuts at once on BD+Trees, in orders that a seed decides.
//!
//! `EVERLEAF_SCALE` sets the number of schedules; a failure prints its seed, and
//! `EVERLEAF_SEED` runs that one alone.

use everleaf_testing::{seed, times};
use std::time::Instant;

use crate::bd::schedule::{Bench, Cast, Happened};

/// Schedules of a cast, unless the environment says otherwise. None if it says one seed.
fn every_schedule(cast: Cast, schedules: u64) -> Option<Happened> {
    run_every(Bench::new(cast), cast, schedules)
}

fn run_every(mut bench: Bench, cast: Cast, schedules: u64) -> Option<Happened> {
    let n = times(schedules);
    let one = seed();
    let seeds = one.map_or(0..n, |seed| seed..seed + 1);
    let start = Instant::now();
    bench.run(seeds.clone()).unwrap_or_else(|failure| panic!("{cast:?}, {}", failure.what));
    println!("{cast:?}, seeds {seeds:?}: {:?} in {:.1?}", bench.happened, start.elapsed());
    (one.is_none() && n >= schedules).then_some(bench.happened)
}

#[test]
fn histories_have_an_order_that_epochs_cut_and_crashes_leave_the_end_of_one() {
    if let Some(happened) = every_schedule(Cast::All, 5000) {
        assert!(happened.split > 300 && happened.freed > 20, "{happened:?}");
        assert!(happened.two_epochs > 1000 && happened.more_epochs > 500, "{happened:?}");
        assert!(happened.stats.crash_points > 50_000, "{happened:?}");
    }
}

/// As the first test, with leaves that merge.
#[test]
fn merges_beside_writers_readers_and_ends_of_epochs_lose_nothing() {
    if let Some(happened) = run_every(Bench::new(Cast::All).merging(), Cast::All, 3000) {
        assert!(happened.split > 150 && happened.freed > 60, "{happened:?}");
        assert!(happened.two_epochs > 500 && happened.more_epochs > 250, "{happened:?}");
    }
}

/// §3.4, problem 1: a store of epoch e − 1 overwrites one of epoch e.
#[test]
fn problem_1_no_store_overwrites_one_of_a_later_epoch() {
    if let Some(happened) = every_schedule(Cast::SameKey, 2000) {
        assert!(happened.two_epochs > 200, "{happened:?}");
    }
}

/// §3.4, problem 2: a store of epoch e is seen before one of epoch e − 1.
#[test]
fn problem_2_no_store_is_seen_before_one_of_an_earlier_epoch() {
    if let Some(happened) = every_schedule(Cast::TwoKeys, 2000) {
        assert!(happened.two_epochs > 200, "{happened:?}");
    }
}

/// docs/PAPERS.md, B13: a key that updates and splits move is there at each moment.
#[test]
fn a_reader_finds_a_key_wherever_it_moves() {
    if let Some(happened) = every_schedule(Cast::OneReader, 2000) {
        assert!(happened.split > 200, "{happened:?}");
    }
}
