//! Every flush and fence of the rivals' operations, left out one at a time, in small scripts: the crash checker notices,
//! or there is a reason why nothing is lost. FPTree is in `fptree_mutants.rs`, Montage in
//! `montage_crash.rs`.
//!
//! A survivor is a write-back that the source has although these scripts do without. To leave it out is no mend: the
//! reason may not hold in larger nodes.

// Some of it only other tests use.
#[allow(dead_code)]
mod scripts {
    pub mod chained;
    pub mod lbtree;
    pub mod lists;
    pub mod nbtree;
    pub mod nvtree;
    pub mod ops;
    pub mod pactree;
    pub mod wbtree;
    pub mod wort;
}

use everleaf_crash_check::{Explorer, Mutants, Mutation};
use everleaf_rivals::Sound;
use everleaf_rivals::list::Above;
use everleaf_rivals::skiplist::Towers;
use everleaf_rivals::utree::Entries;
use scripts::{lbtree, lists, nbtree, nvtree, pactree, wbtree, wort};

/// Flushes or fences that nobody misses somewhere: which of an operation that has so many, from 0.
struct Redundant {
    what: &'static str,
    calls: &'static [(u64, u64)],
    /// Why. Mostly for readers.
    why: &'static str,
}

const fn flush(calls: &'static [(u64, u64)], why: &'static str) -> Redundant {
    Redundant { what: "flush", calls, why }
}

const fn fence(calls: &'static [(u64, u64)], why: &'static str) -> Redundant {
    Redundant { what: "fence", calls, why }
}

fn shallow() -> Explorer {
    Explorer::new().depth(1)
}

/// Each survivor has a reason, and each reason has a survivor; so many are noticed.
fn explained<const N: usize>(
    name: &str,
    runs: [Mutants; N],
    noticed: [usize; N],
    redundant: &[Redundant],
) {
    let mut used = Vec::new();
    let mut killed = Vec::new();
    for mutants in &runs {
        for mutant in mutants.survivors() {
            let call = mutant.of_op.expect("of an operation");
            let is_flush = matches!(mutant.fault, Mutation::DropFlush(_));
            let what = if is_flush { "flush" } else { "fence" };
            let which = (call.nth, call.of);
            let reason = redundant.iter().find(|r| r.what == what && r.calls.contains(&which));
            let reason = reason.unwrap_or_else(|| {
                panic!("{name}: nobody misses {what} {which:?} of {}", mutant.within)
            });
            println!("{name}: {what} {which:?} of {}: {}", mutant.within, reason.why);
            used.push((what, which));
        }
        killed.push(mutants.all.len() - mutants.survivors().count());
    }
    for Redundant { what, calls, why } in redundant {
        let of_none = calls.iter().find(|call| !used.contains(&(*what, **call)));
        assert_eq!(of_none, None, "{name}: each such {what} is missed: {why}");
    }
    assert_eq!(killed, noticed, "{name}: how many are noticed in each script");
}

const MAP_FENCE: &str =
    "a page that nothing leads to: the fence of what is in it comes before the link, too";
const MAP_FREE: &str = "a page that nothing leads to is returned at open";
const TWO_PAGES: &str = "two pages in one line of the map, which is flushed for each";
const KIND: &str =
    "the header line of the page has only the pool's kind, which the tree does not read";
const NOTHING: &str = "nothing lies in this line of the new node";
const SAME: &str = "the line is as it was";

#[test]
fn lb_tree() {
    const AGAIN: &str = "the pair that goes to the left leaf has the same line flushed; until then the old leaf has all";
    let run = lbtree::durable::<Sound>(&lbtree::splits()).explorer(shallow()).write_backs();
    explained(
        "LB+-Tree",
        [run],
        [71],
        &[
            flush(&[(1, 8), (1, 9)], KIND),
            flush(&[(3, 9)], NOTHING),
            flush(&[(7, 9)], AGAIN),
            fence(&[(2, 4)], AGAIN),
            fence(&[(0, 3), (0, 4)], MAP_FENCE),
        ],
    );
}

#[test]
fn pactree() {
    let run = pactree::durable::<Sound>(&pactree::SPLITS).explorer(shallow()).write_backs();
    explained(
        "PACTree",
        [run],
        [82],
        &[
            flush(&[(2, 8), (2, 11)], KIND),
            flush(&[(6, 11)], NOTHING),
            fence(
                &[(0, 4), (0, 6)],
                "the fences of map and new leaf come before the log is needed, too",
            ),
            fence(&[(1, 4), (1, 6)], MAP_FENCE),
        ],
    );
}

#[test]
fn nb_tree() {
    const HEADER: &str = "the header line has the pool's kind, which nobody reads until the leaf is freed, and no key 0";
    let runs = [&nbtree::SPLITS[..], &nbtree::REMOVALS]
        .map(|acts| nbtree::durable::<Sound>(4, acts).explorer(shallow()).write_backs());
    // A split: the map twice, either copy, the link, the map, the pair. With one copy: the map, it, and so on.
    explained(
        "NBTree",
        runs,
        [55, 67],
        &[
            flush(&[(0, 9)], TWO_PAGES),
            flush(&[(2, 9), (4, 9), (1, 6)], HEADER),
            flush(&[(7, 9), (4, 6), (1, 2)], MAP_FREE),
            fence(&[(0, 5)], MAP_FENCE),
            fence(&[(3, 5), (1, 2)], MAP_FREE),
        ],
    );
}

#[test]
fn nv_tree() {
    const ZERO: &str =
        "an entry of zeros removes key 0, which is not in the leaf, or is what it is to remove";
    let runs = [(8, &nvtree::ONE_LEAF[..]), (4, &nvtree::LEAVES)]
        .map(|(slots, ops)| nvtree::durable::<Sound>(slots, ops).explorer(shallow()).write_backs());
    explained(
        "NV-tree",
        runs,
        [27, 130],
        &[
            flush(
                &[(0, 3)],
                "the old value is removed by an entry that the new value stands behind",
            ),
            flush(&[(1, 3)], "what lies in the second line of the entry is the value 0"),
            flush(&[(3, 6)], NOTHING),
            flush(&[(0, 2)], ZERO),
            flush(&[(0, 8)], TWO_PAGES),
            flush(&[(1, 5)], "the page was used before, with the same count and link"),
            flush(&[(5, 6), (7, 8), (4, 5)], MAP_FREE),
            fence(&[(0, 2)], ZERO),
            fence(&[(0, 4)], MAP_FENCE),
            fence(&[(3, 4)], MAP_FREE),
        ],
    );
}

#[test]
fn wb_tree() {
    const LOST: &str = "the slot array is one word in these nodes, so it is the old one or the new one; at worst a place \
                        stays taken. Where the next insert takes a place that it should not, this is noticed";
    const LOG: &str = "the log restores the node until its parent has the new one";
    const ENDED: &str = "recovery sees that the parent has the new node, and only ends the log";
    let runs = [&wbtree::ONE_NODE[..], &wbtree::LEAVES]
        .map(|ops| wbtree::durable::<Sound>(ops).explorer(shallow()).write_backs());
    explained(
        "wB+-tree",
        runs,
        [49, 94],
        &[
            flush(&[(0, 4), (0, 3), (14, 23), (10, 19), (15, 19)], LOST),
            fence(&[(0, 3), (1, 3), (9, 15), (6, 12), (10, 12)], LOST),
            flush(&[(0, 1)], SAME),
            fence(&[(0, 1)], SAME),
            // The first split makes a root.
            flush(&[(2, 23)], "a root of one child has no pair"),
            fence(&[(2, 15)], "the fence of the log comes before any change, too"),
            // A split: the log, the log's mark, the new node, the old one, the parent, the end of the log.
            flush(
                &[(5, 23), (1, 19)],
                "the line is flushed again with the word that makes the log count",
            ),
            flush(&[(7, 23), (3, 19)], "recovery reads no pairs of the log: a split changes none"),
            flush(&[(2, 19)], "the log has the same slot array from the split before"),
            fence(&[(1, 12)], "the log has the same slot array from the split before"),
            fence(&[(0, 15), (3, 15), (0, 12)], MAP_FENCE),
            fence(
                &[(5, 15), (2, 12)],
                "the fence of the new node comes before any change of the old one, too",
            ),
            fence(&[(6, 15), (7, 15), (3, 12), (4, 12)], LOG),
            flush(&[(18, 23), (14, 19)], ENDED),
            fence(&[(11, 15), (8, 12)], ENDED),
        ],
    );
}

#[test]
fn wort_tree() {
    let runs = [&wort::INSERTS[..], &wort::ONE_CHILD]
        .map(|ops| wort::durable::<Sound>(ops).explorer(shallow()).write_backs());
    explained(
        "WORT",
        runs,
        [54, 25],
        &[
            flush(&[(3, 6), (3, 7), (2, 7)], NOTHING),
            flush(&[(1, 7)], "the header of the new node is 0, as in a fresh page"),
            flush(&[(6, 7)], "who walks sees by the depth that a header is old"),
            fence(&[(0, 3)], MAP_FENCE),
        ],
    );
}

fn list<A: Above>(name: &str) {
    const EITHER: &str = "a mark and an unlinking each remove the node";
    let run = lists::durable::<Sound, A>(&lists::SCRIPT).explorer(shallow()).write_backs();
    explained(
        name,
        [run],
        [37],
        &[
            flush(
                &[(0, 2), (1, 2)],
                "a node and the link to it lie in one line; or: a mark and an unlinking each remove the node",
            ),
            flush(&[(0, 1)], SAME),
            fence(&[(0, 1)], SAME),
            fence(&[(0, 2)], "the same; or: the cell is that of a removed node until it is filled"),
            fence(&[(1, 2)], EITHER),
            fence(&[(0, 3)], MAP_FENCE),
        ],
    );
}

#[test]
fn skip_list() {
    list::<Towers>("skip list");
}

#[test]
fn utree() {
    list::<Entries>("uTree");
}
