//! Every flush and fence of FPTree's operations, left out one at a time: the crash checker notices, or
//! there is a reason why nothing is lost.

// Some of it only other tests use.
#[allow(dead_code)]
mod scripts {
    pub mod chained;
    pub mod fptree;
}

use everleaf_crash_check::{Explorer, Mutation};
use everleaf_rivals::Sound;
use scripts::fptree::{Act, REMOVALS, SPLITS, UPDATES, durable};

/// Why nobody misses a call of an operation that flushes so many lines.
fn reason(flushes: u64, what: &str, which: u64) -> Option<&'static str> {
    Some(match (flushes, what, which) {
        // A put flushes the pair, its fingerprint and the bitmap; a split does so with its pair in the end.
        (3, "flush", 1) | (12, "flush", 10) => "fingerprint and bitmap share a line, flushed next",
        (3, "fence", 0) | (12, "fence", 8) => "the fingerprint's fence is before the bitmap, too",
        (3, "fence", 1) | (12, "fence", 9) => {
            "the pair has its own fence, and the fingerprint is in the bitmap's line"
        }
        // A split: log, map, log, two lines of the copy, its bitmap, the old leaf's bitmap and its link, log, pair.
        (12, "flush" | "fence", 0) => {
            "a log of one leaf says nothing, and its line is flushed next"
        }
        (12, "fence", 2) => "the copy's fence is before any change of the old leaf, too",
        (12, "flush", 3) => "the copy's header has its new bitmap, and is flushed with it",
        (12, "fence", 3) => "the old leaf is still full, so recovery copies again",
        (12, "fence", 4) => {
            "a copy that shows all pairs has all, and recovery leaves the old leaf none"
        }
        (12, "flush", 6) | (12, "fence", 5) => "the old leaf's bitmap and its link are one word",
        (12, "fence", 7) => "the pair's fences are before the next change of a bitmap, too",
        // An unlinking: log, log, the link, map, log. Opening returns each page that is in no chain, so the log is
        // needed only where the page is freed before the link is durable, which the link's own fence prevents.
        (5, "flush" | "fence", 0) => "a log of one leaf says nothing, and its line is flushed next",
        (5, "flush" | "fence", 1) => {
            "the link is durable before the page is free, and a leak is found"
        }
        (5, "fence", 2) => "the log says that the link is to be changed",
        (5, "flush" | "fence", 3) => "a page that is not free and in no chain is returned at open",
        (5, "flush" | "fence", 4) => {
            "the log is about a leaf that is not linked; its line is flushed by the next log"
        }
        _ => return None,
    })
}

/// Exactly the calls that have a reason survive, in each operation.
fn each_is_needed_or_redundant(acts: &[Act], kinds: &[u64]) {
    let mutants = durable::<Sound>(acts).explorer(Explorer::new().depth(1)).write_backs().all;
    let in_ops = mutants.iter().map(|mutant| (mutant, mutant.of_op.expect("of an operation")));
    let mut flushes = vec![0; acts.len()];
    for (mutant, call) in in_ops.clone() {
        if matches!(mutant.fault, Mutation::DropFlush(_)) {
            flushes[call.op] = call.of;
        }
    }
    assert!(kinds.iter().all(|kind| flushes.contains(kind)), "{flushes:?}");
    for (mutant, call) in in_ops {
        let what = if matches!(mutant.fault, Mutation::DropFlush(_)) { "flush" } else { "fence" };
        let why = reason(flushes[call.op], what, call.nth);
        let is_missed = mutant.noticed.is_some();
        assert_eq!(is_missed, why.is_none(), "{what} {} of {}: {why:?}", call.nth, mutant.within);
    }
}

#[test]
fn each_flush_and_fence_of_a_put_is_needed_or_redundant() {
    each_is_needed_or_redundant(&UPDATES, &[3]);
}

#[test]
fn each_flush_and_fence_of_a_split_is_needed_or_redundant() {
    each_is_needed_or_redundant(&SPLITS, &[3, 12]);
}

#[test]
fn each_flush_and_fence_of_a_removal_is_needed_or_redundant() {
    each_is_needed_or_redundant(&REMOVALS, &[1, 3, 5]);
}
