//! Threads and power cuts at once on the file medium: small trees of words and of byte strings in
//! orders that a seed decides, with the power cut before calls of the disk, after acknowledgements
//! and at the end, and again in recoveries.
//!
//! `EVERLEAF_SCALE` sets the number of schedules of each kind of tree; a failure prints its seed,
//! and `EVERLEAF_SEED` runs that one alone.

use crate::file_schedule::disk::Wrong;
use crate::file_schedule::door::{Door, LateNotes, LateSteps, Map};
use crate::file_schedule::{Bench, Failure};
use crate::texts::Texts;
use everleaf_file::File;
use everleaf_testing::{seed, times};
use everleaf_tree::CircTree;
use everleaf_tree::slotted::Slotted;

/// Schedules of each kind of tree, unless the environment says otherwise.
const SCHEDULES: u64 = 3000;

fn every_schedule<T: Map<File>>(what: &str) {
    let mut bench = Bench::<File, T, T>::new(Wrong::Nothing);
    let n = times(SCHEDULES);
    let one = seed();
    let start = std::time::Instant::now();
    let seeds = one.map_or(0..n, |seed| seed..seed + 1);
    bench.run(seeds).unwrap_or_else(|failure| panic!("{what}, {}", failure.what));
    let happened = bench.happened;
    println!("{what}: {happened:?} in {:.1?}", start.elapsed());
    if one.is_none() && n >= SCHEDULES {
        assert!(happened.cuts >= 3 * n, "{happened:?}");
        let each = [
            happened.in_recovery,
            happened.took_back,
            happened.checkpoints,
            happened.split,
            happened.merged,
            happened.two_epochs,
            happened.more_epochs,
        ];
        assert!(each.iter().all(|met| *met > n / 100), "{happened:?}");
    }
}

#[test]
fn words_on_a_file() {
    every_schedule::<CircTree<File>>("words");
}

#[test]
fn byte_strings_on_a_file() {
    every_schedule::<Texts<File>>("byte strings");
}

#[test]
fn slotted_nodes_on_a_file() {
    every_schedule::<Texts<File, Slotted>>("slotted nodes");
}

/// The first of so many seeds that finds a bug out; its schedule alone does so again.
fn found<M: Door, T: Map<M>, R: Map<File>>(wrong: Wrong, what: &str, seeds: u64) -> Failure {
    let run = |seeds| Bench::<M, T, R>::new(wrong).run(seeds);
    let failure = run(0..seeds).expect_err(what);
    println!("{what}: {}", failure.what);
    let again = run(failure.seed..failure.seed + 1);
    assert_eq!(again.as_ref(), Err(&failure), "{what}: the seed does not replay");
    failure
}

fn found_on_disk(wrong: Wrong, seeds: u64) -> Failure {
    let what = format!("{wrong:?}");
    found::<File, Texts<File>, Texts<File>>(wrong, &what, seeds)
}

#[test]
fn a_block_that_is_not_synced_is_found() {
    let lost = found_on_disk(Wrong::BlockNotSynced, 500);
    assert!(lost.what.contains("is durable"), "{}", lost.what);
    found_on_disk(Wrong::SyncBeforeBlock, 500);
}

#[test]
fn a_large_value_that_is_not_synced_is_found() {
    found_on_disk(Wrong::SyncBeforeValues, 3000);
}

#[test]
fn a_checkpoint_that_does_not_wait_is_found() {
    found_on_disk(Wrong::CheckpointBeforeSync, 3000);
    found_on_disk(Wrong::ImagesNotSynced, 3000);
    found_on_disk(Wrong::SuperNotSynced, 3000);
}

#[test]
fn who_waits_for_the_clock_and_not_for_the_disk_is_found() {
    let lost = found_on_disk(Wrong::HastySync, 3000);
    assert!(lost.what.contains("is durable"), "{}", lost.what);
}

#[test]
fn a_step_that_is_noted_or_registered_late_is_found() {
    type Words<M> = CircTree<M>;
    let nothing = Wrong::Nothing;
    found::<LateNotes, Words<LateNotes>, Words<File>>(nothing, "noted late", 500);
    found::<LateSteps, Words<LateSteps>, Words<File>>(nothing, "registered late", 3000);
}
