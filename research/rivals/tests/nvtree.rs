//! NV-tree: what any index must do, and what each change costs.

mod tally;

use std::ops::Bound::Unbounded;
use std::sync::Arc;

use everleaf_crash_check::conformance::Suite;
use everleaf_pmem::{Dram, Geometry, Medium};
use everleaf_rivals::{AsPublished, NvTree, Only, Sound, Version};
use everleaf_testing::Rng;
use everleaf_tree::{INDEX_ANCHOR, Index};
use tally::{Cost, Tally};

fn made<M: Medium, V: Version>(medium: M) -> NvTree<M, V> {
    let pool = NvTree::<M, V>::format_pool(medium).expect("formats");
    NvTree::create(Arc::new(pool), INDEX_ANCHOR).expect("an empty pool")
}

fn conforms<V: Version>(slots: u32) {
    let suite = Suite { keys: 400, threads: 3, ..Suite::default() };
    let make = || {
        let medium = Dram::new(Geometry::new(slots).expect("a power of two"), 1 << 13);
        made::<_, V>(medium.expect("memory"))
    };
    let reboot = |tree: NvTree<Dram, V>| {
        let pool = Arc::clone(tree.pool());
        let before = tree.range(Unbounded, Unbounded, usize::MAX).expect("reads").len() as u64;
        drop(tree);
        let (tree, opened) = NvTree::open(pool, INDEX_ANCHOR).expect("opens");
        assert_eq!((opened.keys, opened.returned), (before, opened.dropped));
        tree
    };
    suite.run(make, reboot).unwrap_or_else(|what| panic!("{slots} slots: {what}"));
}

#[test]
fn conforms_mended_and_without_fences() {
    for slots in [4, 8, 64] {
        conforms::<Sound>(slots);
    }
    conforms::<Only<'b'>>(8);
}

/// Without a crash: the pair whose insert splits the leftmost leaf.
#[test]
fn a_split_of_the_leftmost_leaf_loses_the_pair_that_it_is_for() {
    let lost = |tree: &dyn Index| {
        let insert = |key: u64| tree.insert(key, !key).expect("space").is_none();
        assert!((0..22).all(insert));
        tree.get(21).expect("reads").is_none()
    };
    let medium = || Dram::new(Geometry::new(32).expect("a power of two"), 64).expect("memory");
    assert!(lost(&made::<_, AsPublished>(medium())));
    assert!(!lost(&made::<_, Sound>(medium())));
}

fn cost(lines: u64, fences: u64) -> Cost {
    Cost { lines, fences }
}

/// Lines of entries of three words from one on, and of the count.
fn lines(first: u64, entries: u64) -> u64 {
    (3 * (first + entries) - 1) / 8 - 3 * first / 8 + 1 + 1
}

#[test]
fn each_change_costs_what_the_source_says() {
    for slots in [32, 64, 128, 256] {
        let tree = made::<_, Sound>(Tally::new(slots, 1 << 8));
        let m = tree.pool().medium();
        let insert = |key: u64| m.of(|| assert_eq!(tree.insert(key, 1).expect("space"), None));
        let capacity = u64::from(slots) * 2 / 3;
        for i in 0..capacity {
            assert_eq!(insert(i * 7 % 997), cost(lines(i, 1), 2));
        }
        // Two new leaves of all their lines, with the pair, and the anchor.
        let leaf = u64::from(slots) / 4 + 1;
        assert_eq!(insert(1000), cost(2 * leaf + 1, 2), "a split of {slots} slots");
        let left = capacity.div_ceil(2);
        let lowest = tree.first().expect("reads").expect("a pair").0;
        assert_eq!(m.of(|| drop(tree.update(lowest, 2))), cost(lines(left, 2), 2));
        assert_eq!(m.of(|| drop(tree.insert(lowest, 3))), cost(lines(left + 2, 2), 2));
        assert_eq!(m.of(|| drop(tree.remove(lowest))), cost(lines(left + 4, 1), 2));
        assert_eq!(m.of(|| drop(tree.remove(lowest))), cost(0, 0), "nothing is there");
        // Updates alone fill a leaf, which is then written anew as one.
        let second = tree.first().expect("reads").expect("a pair").0;
        let mut entries = left + 5;
        while entries + 2 <= capacity {
            assert_eq!(m.of(|| drop(tree.update(second, 2))), cost(lines(entries, 2), 2));
            entries += 2;
        }
        // Half of a leaf and less is alive.
        assert_eq!(m.of(|| drop(tree.update(second, 9))), cost(leaf + 1, 2));
        assert_eq!(tree.get(second).expect("reads"), Some(9));
    }
}

#[test]
fn without_fences_the_source_saves_one_of_two() {
    let tree = made::<_, Only<'b'>>(Tally::new(32, 1 << 8));
    let m = tree.pool().medium();
    for i in 0..21 {
        assert_eq!(m.of(|| drop(tree.insert(i, 1))), cost(lines(i, 1), 1));
    }
    assert_eq!(m.of(|| drop(tree.insert(21, 1))), cost(2 * 9 + 1, 1));
}

/// How full leaves are, and what an insert costs on the average.
#[test]
fn uniform_inserts_split_as_often_as_the_model() {
    let n = if cfg!(feature = "heavy") { 1_000_000 } else { 20_000 };
    for (slots, expected) in [(32, 3.336), (64, 3.343), (128, 3.331), (256, 3.326)] {
        let tree = made::<_, Sound>(Tally::new(slots, 1 << 17));
        let m = tree.pool().medium();
        let (mut rng, before) = (Rng(1), m.structure());
        (0..n).for_each(|_| assert_eq!(tree.insert(rng.next(), 1).expect("space"), None));
        let after = m.structure();
        let lines = (after.lines - before.lines) as f64 / f64::from(n);
        let fences = (after.fences - before.fences) as f64 / f64::from(n);
        let leaves = tree.pool().stats().expect("a map").nodes;
        let fill = f64::from(n) / f64::from(slots * 2 / 3) / f64::from(leaves);
        let splits = f64::from(leaves) / f64::from(n);
        let rebuilds = tree.rebuilds();
        println!(
            "{slots} slots: {lines:.3} lines, {fences:.3} fences an insert, {splits:.5} splits, {fill:.3} full, {rebuilds} rebuilds"
        );
        assert!(m.allocator().lines >= u64::from(leaves), "a line for each page");
        assert!((0.66..0.72).contains(&fill), "{fill}");
        assert!((fences - 2.0).abs() < 0.001, "a split is in place of an append");
        // A split is in place of an append, and appends are of places behind the half that a split has made.
        let leaf = f64::from(slots / 4 + 1);
        let append = (lines - splits * (2.0 * leaf + 1.0)) / (1.0 - splits);
        assert!((2.19..2.27).contains(&append), "{append} lines for an entry and the count");
        let tolerance = if cfg!(feature = "heavy") { 0.01 } else { 0.04 };
        assert!((lines / expected - 1.0).abs() < tolerance, "{lines}, expected {expected}");
    }
}
