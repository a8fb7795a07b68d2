//! WORT: what any index must do, and what each change costs.

mod tally;

use std::collections::BTreeSet;
use std::ops::Bound::Unbounded;
use std::sync::Arc;

use everleaf_crash_check::conformance::Suite;
use everleaf_pmem::{Dram, Geometry, Medium};
use everleaf_pool::kind;
use everleaf_rivals::{AsPublished, Sound, Version, Wort};
use everleaf_testing::Rng;
use everleaf_tree::{INDEX_ANCHOR, Index};
use tally::{Cost, Tally};

fn made<M: Medium, V: Version>(medium: M) -> Wort<M, V> {
    let pool = Wort::<M, V>::format_pool(medium).expect("formats");
    Wort::create(Arc::new(pool), INDEX_ANCHOR).expect("an empty pool")
}

fn conforms<V: Version>() {
    let suite = Suite { keys: 300, threads: 3, ..Suite::default() };
    let make = || {
        let medium = Dram::new(Geometry::new(8).expect("a power of two"), 1 << 14);
        made::<_, V>(medium.expect("memory"))
    };
    let reboot = |tree: Wort<Dram, V>| {
        let pool = Arc::clone(tree.pool());
        let before = tree.range(Unbounded, Unbounded, usize::MAX).expect("reads").len() as u64;
        drop(tree);
        let (tree, opened) = Wort::open(pool, INDEX_ANCHOR).expect("opens");
        assert_eq!(opened.leaves, before);
        tree
    };
    suite.run(make, reboot).expect("conforms");
}

#[test]
fn conforms_as_published() {
    conforms::<AsPublished>();
}

#[test]
fn conforms_mended() {
    conforms::<Sound>();
}

#[test]
fn each_change_costs_what_the_source_flushes() {
    let tree = made::<_, AsPublished>(Tally::new(8, 1 << 10));
    let m = tree.pool().medium();
    let insert = |key: u64| m.of(|| assert_eq!(tree.insert(key, !key).expect("space"), None));
    let cost = |lines, fences| Cost { lines, fences };
    assert_eq!(insert(0x1230 << 48), cost(2, 2), "no child");
    assert_eq!(insert(0x1234 << 48), cost(5, 2), "a leaf in the way");
    assert_eq!(insert(0x1237 << 48), cost(2, 2), "no child");
    assert_eq!(insert(0x1500 << 48), cost(6, 2), "a prefix of three nibbles");
    // A prefix of 15 nibbles, of which the header keeps 6, and a split behind those.
    assert_eq!(insert(0xabcd_ef01_2345_6780), cost(6, 2), "the prefix of one nibble above");
    assert_eq!(insert(0xabcd_ef01_2345_6781), cost(5, 2));
    assert_eq!(insert(0xabcd_ef01_9345_6781), cost(6, 2));
    assert_eq!(m.of(|| drop(tree.update(0x1234 << 48, 1))), cost(1, 1));
    assert_eq!(m.of(|| drop(tree.insert(0x1234 << 48, 2))), cost(1, 1), "the key is there");
    assert_eq!(m.of(|| drop(tree.remove(0x1234 << 48))), cost(1, 1));
    assert_eq!(m.of(|| drop(tree.remove(0x1234 << 48))), cost(0, 0), "nothing is there");
    assert_eq!(insert(0x1234 << 48), cost(2, 2), "in the cell that is free");
    // One page of leaves and five nodes, and the pool's own first page and anchor.
    let stats = tree.pool().stats().expect("a map");
    assert_eq!(stats.nodes, 6);
}

/// Nodes of a trie of nibbles in which no node has one child: each is what two neighbours share.
fn nodes(keys: &BTreeSet<u64>) -> u64 {
    let shared = |a: u64, b: u64| {
        let nibbles = (a ^ b).leading_zeros() / 4;
        (nibbles, u128::from(a) >> (64 - 4 * nibbles))
    };
    let next = keys.iter().skip(1);
    keys.iter().zip(next).map(|(a, b)| shared(*a, *b)).collect::<BTreeSet<_>>().len() as u64
}

/// Inserts that found no child, a leaf, and a prefix.
fn cases(n: u64) -> ([u64; 3], u64) {
    let tree = made::<_, AsPublished>(Tally::new(8, (n as u32).max(1 << 10)));
    let of_format = tree.pool().medium().structure().lines;
    let (mut rng, mut cases, mut keys) = (Rng(1), [0; 3], BTreeSet::new());
    while (keys.len() as u64) < n {
        let key = rng.next();
        if !keys.insert(key) {
            continue;
        }
        let cost =
            tree.pool().medium().of(|| assert_eq!(tree.insert(key, key).expect("space"), None));
        assert_eq!(cost.fences, 2);
        cases[[2, 5, 6].iter().position(|lines| *lines == cost.lines).expect("a case")] += 1;
    }
    assert_eq!(nodes(&keys), cases[1] + cases[2], "each of the two makes a node");
    let found = tree.range(Unbounded, Unbounded, usize::MAX).expect("reads");
    assert!(found.iter().map(|entry| entry.0).eq(keys.iter().copied()));
    let leaf_pages = n.div_ceil(8);
    let pages = tree.pool().map_bytes().expect("a map");
    let pages = pages.iter().filter(|owner| **owner == kind::NODE).count() as u64;
    assert_eq!(pages, leaf_pages + cases[1] + cases[2]);
    let allocator = tree.pool().medium().allocator();
    assert!(allocator.lines >= pages && allocator.fences >= pages, "a line for each page");
    let lines = tree.pool().medium().structure().lines - of_format;
    assert_eq!(2 * cases[0] + 5 * cases[1] + 6 * cases[2], lines);
    println!("{n} keys: {cases:?}, {} lines an insert", lines as f64 / n as f64);
    (cases, lines)
}

#[test]
fn uniform_inserts_make_the_nodes_of_a_trie() {
    let (cases, _) = cases(if cfg!(debug_assertions) { 4_000 } else { 40_000 });
    assert!(cases.iter().all(|case| *case > 0), "{cases:?}");
}

/// Against a simulation of the same cases with keys of another generator.
#[cfg(feature = "heavy")]
#[test]
fn a_million_uniform_inserts_cost_what_the_simulation_says() {
    let (cases, lines) = cases(1_000_000);
    for (found, simulated) in cases.into_iter().zip([653_651.0, 337_435.0, 8_914.0]) {
        assert!((found as f64 / simulated - 1.0).abs() < 0.005, "{found} and {simulated}");
    }
    assert!((lines as f64 / 1e6 / 3.048 - 1.0).abs() < 0.005, "{lines} lines");
    let nodes = cases[1] + cases[2];
    assert!((nodes as f64 / 346_349.0 - 1.0).abs() < 0.005, "{nodes} nodes");
}
