//! The lines that a get loads, of persistent memory and of DRAM.
#![cfg(feature = "lines-read")]

use std::sync::Arc;

use everleaf_pmem::lines_read::record;
use everleaf_pmem::page_span::{PageSpan, SpanCounts};
use everleaf_pmem::{Dram, Geometry};
use everleaf_rivals::{LbTree, NbTree, Sound, Wort};
use everleaf_tree::named::create;
use everleaf_tree::{INDEX_ANCHOR, Index, Reading};

fn memory(slots: u32) -> (Dram, PageSpan) {
    let geometry = Geometry::new(slots).expect("a power of two");
    let medium = Dram::new(geometry, 1 << 10).expect("memory");
    let span = PageSpan::of(&medium).expect("it has pages");
    (medium, span)
}

/// Counts the loads of a get of a key that is there.
fn get(tree: &dyn Index, span: &PageSpan, key: u64) -> SpanCounts {
    let (found, read) = record(|| tree.get(key).expect("memory"));
    assert_eq!(found, Some(!key));
    span.counts(&read)
}

#[test]
fn wort_loads_two_lines_more_for_each_node_on_the_way() {
    let (medium, span) = memory(8);
    let pool = Wort::<_, Sound>::format_pool(medium).expect("formats");
    let tree = Wort::<_, Sound>::create(Arc::new(pool), INDEX_ANCHOR).expect("an empty pool");
    // Each further key leaves the first one a nibble later, so that its leaf is a node deeper.
    let keys = [0x1111, 0x2111, 0x1211, 0x1121].map(|key: u64| key << 48);
    for (depth, key) in (0..).zip(keys) {
        assert_eq!(tree.insert(key, !key).expect("space"), None);
        let lines = get(&tree, &span, keys[0]);
        // The anchor's line and the leaf's; of each node its header and a line of children.
        assert_eq!((lines.inside, lines.outside), (2 + 2 * depth, 0), "{depth} nodes");
    }
}

#[test]
fn lb_tree_loads_a_header_line_and_a_line_of_pairs_of_its_leaf() {
    let (medium, span) = memory(16);
    let tree = LbTree::<_, Sound>::on(medium).expect("a pool");
    let keys = 1..=10u64;
    for key in keys.clone() {
        assert_eq!(tree.insert(key, !key).expect("space"), None);
    }
    for key in keys {
        let lines = get(&tree, &span, key);
        // The last two keys are in the header's own line. Inner nodes are in DRAM.
        assert_eq!(lines.inside, if key > 8 { 1 } else { 2 }, "key {key}");
        assert!(lines.outside > 0, "inner nodes");
    }
}

#[test]
fn nb_tree_loads_the_line_of_the_pair_and_inserts_without_a_load() {
    let (medium, span) = memory(32);
    let tree = NbTree::<_, Sound>::on(medium).expect("a pool");
    for key in 1..=31u64 {
        let (old, read) = record(|| tree.insert(key, !key).expect("space"));
        assert_eq!((old, span.counts(&read).inside), (None, 0), "insert of {key}");
    }
    for key in 1..=31u64 {
        assert_eq!(get(&tree, &span, key).inside, 1, "key {key}");
    }
}

#[test]
fn circ_tree_loads_the_header_of_a_leaf_and_the_lines_of_its_search() {
    let (medium, span) = memory(32);
    let tree = create("CircTree", Reading::Optimistic, medium).expect("a pool").index;
    for key in 1..=32u64 {
        assert_eq!(tree.insert(key, !key).expect("space"), None);
        let lines = get(&*tree, &span, key);
        // Root and leaf: a header and a line of slots each, and the sentinels of each in DRAM.
        assert_eq!((lines.inside, lines.outside), (4, 2), "key {key}");
    }
}

/// Algorithm 1 of Sentinel Array in a leaf of 4 KB: the sentinels up to the first greater one, and a line of slots.
#[test]
fn sentinels_as_printed_are_read_up_to_the_first_greater_one() {
    let (medium, span) = memory(256);
    let tree = create("FastFairWalk", Reading::Optimistic, medium).expect("a pool").index;
    // In no order: a streak would be cut off.
    let keys = 240u64;
    for i in 0..keys {
        let key = i * 7 % keys;
        assert_eq!(tree.insert(key, !key).expect("space"), None);
    }
    for key in 0..keys {
        let lines = get(&*tree, &span, key);
        let walked = (key / 4 + 2).min(keys / 4);
        // Root and leaf: a header and a line of slots each.
        assert_eq!((lines.inside, lines.outside), (4, walked.div_ceil(8)), "key {key}");
    }
}
