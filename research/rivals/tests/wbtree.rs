//! The wB+-tree: what any index must do, and what each change costs.

mod tally;

use std::ops::Bound::Unbounded;
use std::sync::Arc;

use everleaf_crash_check::conformance::Suite;
use everleaf_pmem::{Dram, Geometry, Medium};
use everleaf_rivals::{AsPublished, Sound, Version, WbTree};
use everleaf_testing::Rng;
use everleaf_tree::{INDEX_ANCHOR, Index};
use tally::{Cost, Tally};

fn made<M: Medium, V: Version>(medium: M) -> WbTree<M, V> {
    let pool = WbTree::<M, V>::format_pool(medium).expect("formats");
    WbTree::create(Arc::new(pool), INDEX_ANCHOR).expect("an empty pool")
}

fn conforms<V: Version>(slots: u32) {
    let suite = Suite { keys: 400, threads: 3, ..Suite::default() };
    let make = || {
        let medium = Dram::new(Geometry::new(slots).expect("a power of two"), 1 << 13);
        made::<_, V>(medium.expect("memory"))
    };
    let reboot = |tree: WbTree<Dram, V>| {
        let pool = Arc::clone(tree.pool());
        let before = tree.range(Unbounded, Unbounded, usize::MAX).expect("reads").len() as u64;
        drop(tree);
        let (tree, opened) = WbTree::open(pool, INDEX_ANCHOR).expect("opens");
        assert_eq!((opened.keys, opened.undone, opened.returned), (before, false, 0));
        tree
    };
    suite.run(make, reboot).unwrap_or_else(|what| panic!("{slots} slots: {what}"));
}

#[test]
fn conforms_as_published() {
    conforms::<AsPublished>(8);
    conforms::<AsPublished>(64);
}

#[test]
fn conforms_mended() {
    conforms::<Sound>(8);
    conforms::<Sound>(16);
    conforms::<Sound>(64);
}

fn cost(lines: u64, fences: u64) -> Cost {
    Cost { lines, fences }
}

#[test]
fn each_change_costs_what_the_paper_says() {
    let tree = made::<_, Sound>(Tally::new(64, 1 << 12));
    let m = tree.pool().medium();
    let insert = |key: u64| m.of(|| assert_eq!(tree.insert(key, 1).expect("space"), None));
    // A node has 60 pairs.
    for key in 0..60 {
        assert_eq!(insert(key * 7 % 61), cost(4, 3));
    }
    for key in 0..60 {
        let key = key * 7 % 61;
        assert_eq!(m.of(|| drop(tree.update(key, 2))), cost(1, 1));
        assert_eq!(m.of(|| drop(tree.insert(key, 3))), cost(1, 1), "the key is there");
    }
    // A root, a split with its insert into the parent, and the insert.
    let split = cost(17 + 1 + 17 + 2 + 4 + 1, 1 + 1 + 1 + 1 + 3 + 1);
    let whole = cost(3 + split.lines + 4, 2 + split.fences + 3);
    assert_eq!(insert(100), whole);
    assert_eq!(m.of(|| drop(tree.remove(100))), cost(3, 3));
    assert_eq!(m.of(|| drop(tree.remove(100))), cost(0, 0), "nothing is there");
    assert_eq!(insert(100), cost(4, 3));
    // Splits of leaves alone, and never a cost in between.
    let (mut splits, mut key) = (0, 1000);
    while splits < 20 {
        let found = insert(key);
        if found == cost(4 + split.lines, 3 + split.fences) {
            splits += 1;
        } else {
            assert_eq!(found, cost(4, 3), "key {key}");
        }
        key += 1;
    }
    assert_eq!(key - 1000, 20 * 30, "half of a leaf each");
}

/// In the derived source a split does not flush the new node, nor the log's name.
#[test]
fn the_source_saves_what_it_must_not() {
    let tree = made::<_, AsPublished>(Tally::new(64, 1 << 12));
    let m = tree.pool().medium();
    let insert = |key: u64| m.of(|| assert_eq!(tree.insert(key, 1).expect("space"), None));
    (0..60).for_each(|key| assert_eq!(insert(key), cost(4, 3)));
    assert_eq!(insert(100), cost(3 + 17 + 1 + 2 + 1 + 4 + 4, 2 + 1 + 1 + 1 + 1 + 3 + 3));
}

/// How full leaves are, and what an insert costs on the average.
#[test]
fn uniform_inserts_split_as_often_as_leaves_of_sixty_must() {
    let n = if cfg!(feature = "heavy") { 1_000_000 } else { 20_000 };
    let tree = made::<_, Sound>(Tally::new(64, 1 << 17));
    let m = tree.pool().medium();
    let (mut rng, before) = (Rng(1), m.structure());
    (0..n).for_each(|_| assert_eq!(tree.insert(rng.next(), 1).expect("space"), None));
    let after = m.structure();
    let lines = (after.lines - before.lines) as f64 / f64::from(n);
    let fences = (after.fences - before.fences) as f64 / f64::from(n);
    let nodes = tree.pool().stats().expect("a map").nodes - 1;
    let fill = f64::from(n) / (60.0 * f64::from(nodes));
    assert!(m.allocator().lines >= u64::from(nodes), "a line for each page");
    println!("{n} keys: {lines:.3} lines, {fences:.3} fences an insert, {nodes} nodes, {fill:.3}");
    // Random splits leave nodes ln 2 full.
    assert!((0.66..0.72).contains(&fill), "{fill}");
    let splits = f64::from(nodes) / f64::from(n);
    assert!((lines - (4.0 + 42.0 * splits)).abs() < 0.01, "{lines} lines");
}
