//! Every published defect of BD+Tree (B1 – B20 of docs/PAPERS.md), and the test that shows that it
//! is not here. Those that lie in the tree's own code are put back, one at a time, to show that the
//! checker finds them.
//!
//! | id | shown by |
//! |---|---|
//! | B1 – B7, B12 – B17 | put back below |
//! | B8 | a name that is wrong in print; `bd_crash.rs` changes leaves of each age of a leaf |
//! | B9, B10 | `loom_epoch.rs` of everleaf-testing: a step registers by a mutex, and cannot forget to leave |
//! | B11 | `b11_an_epoch_that_is_told_before_it_is_durable_is_noticed`; `bd_mutants.rs` |
//! | B18 | `bd_crash.rs`: splits, cut off anywhere |
//! | B19 | documented at `Hybrid::range`; nobody claims more |
//! | B20 | nothing is tried again because an epoch has ended: `conformance.rs` with epochs of 1 µs |
//! | problems 1, 2 | `problem_1_…` and `problem_2_…` here, and of the sound tree in `bd_schedules.rs` |

#[path = "trees/bd/mod.rs"]
mod bd;

use std::sync::{Mutex, MutexGuard, PoisonError};

use bd::schedule::{Bench, Cast};
use bd::scripts::{Scene, insert, random, remove, scenes};
use bd::{Bd, copy, explore, run, stage};
use everleaf_crash_check::schedule::{Policy, Scheduler};
use everleaf_crash_check::{Act, Explorer, Mutation, Persistency, SharedMedium};
use everleaf_tree::Index;
use everleaf_tree::bug::{Bug, put_back};

/// A bug that is there until this is dropped. It is there for the whole process, so one test at a
/// time has one.
struct Put<'a> {
    _alone: MutexGuard<'a, ()>,
}

impl Put<'_> {
    fn back(bug: Option<Bug>) -> Self {
        static ONE: Mutex<()> = Mutex::new(());
        let _alone = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        put_back(bug);
        Self { _alone }
    }
}

impl Drop for Put<'_> {
    fn drop(&mut self) {
        put_back(None);
    }
}

/// Runs and crashes scenes until one is refused.
fn refused(
    mode: Persistency,
    bug: Option<Bug>,
    slots: u32,
    scenes: impl IntoIterator<Item = Scene>,
) -> Option<String> {
    let explorer =
        Explorer::new().mode(mode).depth(2).exhaustive(512).page_exhaustive(256).samples(64);
    for Scene { what, before, acts } in scenes {
        let sound = {
            let _none = Put::back(None);
            stage(slots, &before)
        };
        let _put = Put::back(bug);
        let explored = run(&sound, &acts, None).and_then(|ran| explore(&ran, &explorer, 4));
        if let Err(why) = explored {
            return Some(format!("{what}: {why}"));
        }
    }
    None
}

/// Scenes and then random scripts, in leaves of 4 and of 8 slots: why one is refused.
fn first_refused(mode: Persistency, bug: Bug) -> Option<String> {
    let random = (0..8).map(|seed| {
        let keys = 6 + seed;
        Scene { what: "random", before: random(!seed, 20, keys), acts: random(seed, 24, keys) }
    });
    refused(mode, Some(bug), 4, scenes(4))
        .or_else(|| refused(mode, Some(bug), 8, scenes(8)))
        .or_else(|| refused(mode, Some(bug), 4, random))
}

fn finds(mode: Persistency, bug: Bug) {
    let found = first_refused(mode, bug);
    println!("{bug:?}: {}", found.unwrap_or_else(|| panic!("nobody notices {bug:?}")));
}

fn crash_finds(bug: Bug) {
    finds(Persistency::X86, bug);
}

/// The first of so many seeds whose schedule is refused for this reason; it alone does so again.
fn schedule_finds(bug: Bug, cast: Cast, seeds: u64, why: &str) {
    let mut bench = {
        let _none = Put::back(None);
        Bench::new(cast).without_crashes()
    };
    let _put = Put::back(Some(bug));
    let mut from = 0;
    let found = loop {
        let failure = bench.run(from..seeds).expect_err("nobody notices");
        if failure.what.contains(why) {
            break failure;
        }
        from = failure.seed + 1;
    };
    println!("{bug:?}, {cast:?}: {}", found.what);
    assert_eq!(bench.run(found.seed..found.seed + 1).as_ref(), Err(&found), "no replay");
}

#[test]
fn b1_bits_of_old_slots_at_positions_of_the_new_leaf_are_noticed() {
    crash_finds(Bug::B1);
}

#[test]
fn b2_an_old_version_that_is_sought_where_it_was_is_noticed() {
    crash_finds(Bug::B2);
}

#[test]
fn b3_a_left_leaf_that_is_not_flushed_at_its_split_is_noticed() {
    crash_finds(Bug::B3);
}

#[test]
fn b4_a_new_leaf_whose_lines_count_as_tracked_is_noticed() {
    crash_finds(Bug::B4);
}

#[test]
fn b5_an_update_in_place_that_is_not_tracked_is_noticed() {
    crash_finds(Bug::B5);
}

#[test]
fn b6_a_split_between_two_versions_of_a_key_is_noticed() {
    crash_finds(Bug::B6);
}

#[test]
fn b7_an_epoch_that_is_stored_before_its_bitmaps_is_noticed() {
    crash_finds(Bug::B7);
}

/// The last fence of an epoch's end: the word may still be on its way when it is told.
#[test]
fn b11_an_epoch_that_is_told_before_it_is_durable_is_noticed() {
    let _none = Put::back(None);
    let (sim, acts) = (stage(4, &[]), [insert(1, 1), Act::Tick, insert(1, 2)]);
    let sound = run(&sim, &acts, None).expect("sound");
    explore(&sound, &Explorer::new(), 1).expect("sound");
    let sim = stage(4, &[]);
    let last = Mutation::DropFence(sound.counts.fences - 1);
    let told = run(&sim, &acts, Some(last)).expect("nothing shows before a crash");
    let why = explore(&told, &Explorer::new(), 1).expect_err("B11");
    assert!(why.contains("is durable after"), "{why}");
}

#[test]
fn b12_a_leaf_that_stays_latched_is_noticed() {
    let sim = {
        let _none = Put::back(None);
        stage(4, &[insert(1, 1)])
    };
    let run = |bug| {
        let _put = Put::back(bug);
        let tree = Bd::open(SharedMedium::new(&copy(&sim))).expect("opens");
        let job = move || {
            assert_eq!(Index::remove(&tree.0, 1).expect("sound"), Some(1));
            assert_eq!(tree.0.get(1).expect("sound"), None);
        };
        Scheduler::new(1).run(&Policy::default(), vec![Box::new(job)])
    };
    let stuck = run(Some(Bug::B12)).expect_err("B12");
    assert!(stuck.what.contains("no progress"), "{stuck}");
    run(None).expect("sound");
}

#[test]
fn b13_absent_without_a_look_back_is_noticed() {
    schedule_finds(Bug::B13, Cast::OneReader, 50_000, "no order explains the answers");
}

#[test]
fn b14_a_flag_of_deleted_leaves_is_noticed() {
    crash_finds(Bug::B14);
}

#[test]
fn b15_a_leaf_that_is_freed_before_it_is_unlinked_is_noticed() {
    crash_finds(Bug::B15);
}

#[test]
fn b16_a_writer_that_does_not_look_again_is_noticed() {
    schedule_finds(Bug::B16, Cast::All, 50_000, "no order explains the answers");
}

#[test]
fn b17_leaves_of_lost_epochs_that_stay_as_they_are_are_noticed() {
    crash_finds(Bug::B17);
}

/// §3.4: registered before the latch, a store of epoch e − 1 overwrites one of epoch e.
#[test]
fn problem_1_a_step_that_enters_before_it_latches_overwrites_a_later_epoch() {
    schedule_finds(Bug::EnterFirst, Cast::SameKey, 5000, "no moment is the end of epoch");
}

/// §3.4: registered before the latch, a store of epoch e is seen before one of epoch e − 1.
#[test]
fn problem_2_a_step_that_enters_before_it_latches_is_seen_too_late() {
    schedule_finds(Bug::EnterFirst, Cast::TwoKeys, 20_000, "no moment is the end of epoch");
}

#[test]
fn scenes_pass_without_a_bug() {
    assert_eq!(refused(Persistency::X86, None, 4, scenes(4)), None);
    let removed = [Scene { what: "removed", before: vec![insert(1, 1)], acts: vec![remove(1)] }];
    assert_eq!(refused(Persistency::X86, None, 4, removed), None);
}

/// Where caches survive a power cut, a line that was not flushed in time is no bug any more.
#[test]
fn caches_that_survive_mend_what_was_not_flushed() {
    for bug in [Bug::B1, Bug::B2, Bug::B6, Bug::B7, Bug::B14, Bug::B17] {
        finds(Persistency::Eadr, bug);
    }
    for bug in [Bug::B3, Bug::B4, Bug::B5, Bug::B15] {
        assert_eq!(first_refused(Persistency::Eadr, bug), None, "{bug:?}");
    }
}
