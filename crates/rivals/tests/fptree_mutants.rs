//! Every flush and fence of FPTree's operations, left out one at a time: the crash checker notices, or
//! there is a reason why nothing is lost.

mod scripts {
    pub mod fptree;
}

use std::sync::Arc;

use everleaf_check::{Explorer, Mutate, Mutation, Persistency, SharedMedium, Trace};
use everleaf_pmem::{Counts, Geometry, Sim};
use everleaf_rivals::Sound;
use scripts::fptree::{Act, REMOVALS, SPLITS, Tree, UPDATES, apply, crash, read};

/// What a run holds and has called before the first and after each operation.
type Steps = Vec<(Vec<(u64, u64)>, Counts)>;

fn sim() -> Arc<Sim> {
    Arc::new(Sim::new(Geometry::new(4).expect("a power of two"), 16).expect("memory"))
}

fn open(sim: &Arc<Sim>, fault: Option<Mutation>) -> Tree<Sound> {
    let medium = Arc::new(Mutate::new(SharedMedium::new(sim), fault));
    Tree::on(SharedMedium::new(&medium)).expect("it opens")
}

/// A run without a fault.
fn sound(acts: &[Act]) -> Steps {
    let medium = Arc::new(Mutate::new(SharedMedium::new(&sim()), None));
    let mut tree: Tree<Sound> = Tree::on(SharedMedium::new(&medium)).expect("it opens");
    let mut steps = vec![(read(&tree), medium.counts())];
    for act in acts {
        apply(&mut tree, act);
        steps.push((read(&tree), medium.counts()));
    }
    steps
}

/// A run with a fault, and every crash of it.
fn crash_with(acts: &[Act], steps: &Steps, fault: Mutation) -> Result<(), String> {
    let sim = sim();
    let trace = Trace::new(&sim);
    let mut tree = open(&sim, Some(fault));
    for (id, act) in (0..).zip(acts) {
        trace.op(id, || apply(&mut tree, act));
    }
    drop(tree);
    let recover = |sim: &Arc<Sim>| Ok(read(&open(sim, None)));
    let explored = Explorer::new().depth(1).explore(&trace.finish(), recover, |found, _, crash| {
        let (done, begun) = (crash.responded().len(), crash.invoked().len());
        if found == steps[done].0 || found == steps[begun].0 {
            return Ok(());
        }
        Err(format!("with {begun} begun and {done} done: found {found:?}"))
    });
    explored.map(drop).map_err(|failure| failure.message)
}

/// The flushes and fences that nobody misses: which operation, whether it is a flush, and which of its own from 0.
fn survivors(acts: &[Act]) -> Vec<(usize, &'static str, u64)> {
    let steps = sound(acts);
    crash::<Sound>(Persistency::X86, acts).expect("it is sound");
    let mut survived = Vec::new();
    for (i, pair) in steps.windows(2).enumerate() {
        let (from, to) = (pair[0].1, pair[1].1);
        let flushes =
            (from.flushes..to.flushes).map(|k| (Mutation::DropFlush(k), "flush", k - from.flushes));
        let fences =
            (from.fences..to.fences).map(|k| (Mutation::DropFence(k), "fence", k - from.fences));
        for (fault, what, which) in flushes.chain(fences) {
            if crash_with(acts, &steps, fault).is_ok() {
                survived.push((i, what, which));
            }
        }
    }
    survived
}

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
    let flushes: Vec<u64> =
        sound(acts).windows(2).map(|pair| pair[1].1.flushes - pair[0].1.flushes).collect();
    assert!(kinds.iter().all(|kind| flushes.contains(kind)), "{flushes:?}");
    let survived = survivors(acts);
    for (i, flushes) in flushes.into_iter().enumerate() {
        let calls = ["flush", "fence"].into_iter().flat_map(|what| (0..12).map(move |k| (what, k)));
        for (what, which) in calls {
            let (is_missed, why) =
                (!survived.contains(&(i, what, which)), reason(flushes, what, which));
            let operation = acts[i];
            assert_eq!(is_missed, why.is_none(), "{what} {which} of {operation:?}: {why:?}");
        }
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
