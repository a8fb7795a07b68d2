//! Montage's B+-tree, cut off anywhere: what the last durable epoch left is there, and nothing else.

mod scripts {
    pub mod montage;
}

use everleaf_crash_check::Act::{self, Tick};
use everleaf_crash_check::Mutation::{self, DropFence, DropFlush};
use everleaf_crash_check::Persistency::X86;
use everleaf_pmem::sim::Event;
use everleaf_rivals::{AsPublished, Only, Sound};
use everleaf_testing::Rng;
use scripts::montage::{check, check_with, insert, remove, script, synced};

#[test]
fn a_crash_goes_back_to_the_last_durable_epoch() {
    let coverage =
        check::<Sound>(X86, &script(), false, 2).unwrap_or_else(|failure| panic!("{failure}"));
    assert!(coverage.is_exhaustive() && coverage.nested > 0, "{coverage}");
    println!("sound: {coverage}");
    let coverage =
        check::<Only<'a'>>(X86, &script(), false, 2).unwrap_or_else(|failure| panic!("{failure}"));
    println!("a: {coverage}");
}

/// Two keys in many epochs, so that cells are used again while anti-payloads wait.
#[test]
fn random_scripts_go_back_to_the_last_durable_epoch() {
    let mut images = 0;
    for seed in 1..=if cfg!(feature = "heavy") { 60 } else { 3 } {
        let mut rng = Rng(seed);
        let act = |i| match rng.below(6) {
            0 | 1 => insert(rng.below(2), i),
            2 => remove(rng.below(2)),
            _ => Tick,
        };
        let acts: Vec<Act> = (0..40).map(act).collect();
        let coverage = check::<Sound>(X86, &acts, false, 1);
        images += coverage.unwrap_or_else(|failure| panic!("seed {seed}: {failure}")).images;
    }
    println!("random scripts: {images} images");
}

#[test]
fn a_clock_that_is_not_flushed_loses_what_was_synced() {
    for check in [check::<Only<'b'>>, check::<AsPublished>] {
        let failure = check(X86, &synced(), true, 2).expect_err("a bug of the source");
        println!("b: {failure}");
        let is_lost = failure.message.contains("after 2 acts")
            && failure.message.contains("missing [(5, 1)]");
        assert!(is_lost, "{failure}");
    }
    check::<Sound>(X86, &synced(), true, 2).expect("mended");
}

/// The purpose of a flush of a script, and of the flushes before a fence.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Of {
    /// A page more; its fence, too, is the allocator's.
    Map,
    /// Cells that have become none in this epoch, and nothing else.
    None,
    /// The clock, or payloads.
    Needed,
    /// No flush since the last fence: an epoch that has written nothing.
    Nothing,
}

/// Each flush and fence of a script, and whether the checker notices that it is left out.
fn write_backs(acts: &[Act]) -> Vec<(Mutation, Of, bool)> {
    const MAP_LINE: u32 = 1;
    /// Word of a payload that says what it is, 0 for none.
    const TYPE_WORD: u32 = 3;
    let (record, before, sound) = check_with::<Sound>(X86, acts, false, 1, None);
    sound.unwrap_or_else(|failure| panic!("{failure}"));
    let (mut calls, mut stores, mut last) = (Vec::new(), Vec::new(), Of::Nothing);
    let (mut flushes, mut fences) = (before.flushes, before.fences);
    for event in record.events {
        match event {
            Event::Store { word, value } => stores.push((word / 8, word % 8, value)),
            Event::Flush { line, .. } => {
                let is_none =
                    |(_, word, value): &(u32, u32, u64)| (*word, *value) == (TYPE_WORD, 0);
                let of_none = stores.iter().filter(|store| store.0 == line).all(is_none);
                stores.retain(|store| store.0 != line);
                let of = if line == MAP_LINE {
                    Of::Map
                } else if of_none {
                    Of::None
                } else {
                    Of::Needed
                };
                // An epoch ends with one fence for all its lines.
                last = if last == Of::Needed { last } else { of };
                calls.push((DropFlush(flushes), of));
                flushes += 1;
            }
            Event::Fence { .. } => {
                calls.push((DropFence(fences), std::mem::replace(&mut last, Of::Nothing)));
                fences += 1;
            }
            Event::Mark { .. } => {}
        }
    }
    let noticed = |fault| check_with::<Sound>(X86, acts, false, 1, Some(fault)).2.is_err();
    calls.into_iter().map(|(fault, of)| (fault, of, noticed(fault))).collect()
}

#[test]
fn each_flush_and_fence_is_needed_or_redundant() {
    for (fault, of, is_noticed) in write_backs(&script()) {
        println!("{fault}: {of:?}, {is_noticed}");
        match of {
            Of::Needed => assert!(is_noticed, "nobody misses {fault}"),
            Of::Nothing => assert!(!is_noticed, "{fault}"),
            Of::Map | Of::None => {}
        }
    }
}

/// An anti-payload's cell is used again: the payload that it cancelled must durably be none by then.
#[test]
fn a_cancelled_payload_must_be_flushed_as_none() {
    let mut acts = vec![insert(5, 1), Tick, Tick, remove(5), Tick, Tick, Tick, insert(7, 1)];
    acts.extend([Tick, Tick, Tick, Tick]);
    acts.extend((8..=11).map(|key| insert(key, 1)).chain([Tick, Tick, Tick]));
    let calls = write_backs(&acts);
    let of_none = calls.iter().filter(|(_, of, _)| *of == Of::None).count();
    assert_eq!(of_none, 1, "the payload of 5: {calls:?}");
    let is_flush = |fault: &Mutation| matches!(fault, DropFlush(_));
    let survived = calls.iter().find(|(fault, _, is_noticed)| is_flush(fault) && !is_noticed);
    assert_eq!(survived, None, "every flush is needed");
}
