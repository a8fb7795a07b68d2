//! How full inserts in some order leave the leaves, wherever in the key space they are.

use std::sync::Arc;

use everleaf_pmem::{Buffered, BufferedOptions, Dram, Geometry};
use everleaf_tree::hybrid::Hybrid;
use everleaf_tree::{
    BdTree, CircTree, CircTreeF, CircTreeLs, FastFair, FastFairS, FastLogging, INDEX_ANCHOR, Index,
    StringTree, TreeReport,
};

use crate::common::scale;
use crate::tree::Kind;

const KEYS: u64 = 100_000;

fn memory(slots: u32) -> Dram {
    let pages = 1 << if scale() > 1 { 19 } else { 16 };
    Dram::new(Geometry::new(slots).expect("valid"), pages).expect("memory")
}

/// The report on a tree of such nodes after these keys.
fn report<T: Kind>(slots: u32, keys: impl Iterator<Item = u64>) -> TreeReport {
    let tree = T::make(memory(slots)).expect("space");
    keys.for_each(|key| assert_eq!(tree.insert(key, !key).expect("space"), None));
    T::check(&tree).expect("sound")
}

/// How full the leaves of BD+Tree are.
fn fill_of_bd(keys: impl Iterator<Item = u64>) -> f64 {
    let medium = Buffered::new(memory(32), &BufferedOptions::default()).expect("valid options");
    let pool = Arc::new(Hybrid::format_pool(medium).expect("room"));
    let tree: BdTree<Dram> = Hybrid::create(pool, INDEX_ANCHOR).expect("room");
    for (i, key) in (0..).zip(keys) {
        assert_eq!(tree.insert(key, !key).expect("room"), None);
        if i % 1000 == 999 {
            tree.medium().tick().expect("no fault");
        }
    }
    let report = tree.check().expect("a map");
    assert!(report.damages.is_empty(), "{:?}", report.damages);
    report.entries as f64 / (report.leaves * 32) as f64
}

/// Keys of four streaks in turn.
fn interleaved(n: u64) -> impl Iterator<Item = u64> {
    (0..n).map(|i| ((i % 4) << 61) + 7 * (i / 4))
}

/// Keys in no order, all different.
fn scattered(n: u64) -> impl Iterator<Item = u64> {
    let mixed = |i: u64| {
        let z = i.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(12345);
        let z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    };
    (0..n).map(mixed)
}

/// The fills that streaks leave: of each order of keys.
fn streaks(
    n: u64,
    fill: impl Fn(&mut dyn Iterator<Item = u64>) -> f64,
) -> Vec<(&'static str, f64)> {
    let within_others =
        (0..1000).map(|i| i << 50).chain((0..n).map(|i| (300 << 50) + 1 + 3 * i)).chain([1 << 62]);
    let orders: [(&str, Box<dyn Iterator<Item = u64>>); 6] = [
        ("ids from 0", Box::new(0..n)),
        ("ids from the middle of the lower half", Box::new((0..n).map(|i| (1 << 62) + 5 * i))),
        ("ids from 2^63", Box::new((0..n).map(|i| (1 << 63) + i))),
        ("among others", Box::new(within_others)),
        ("four in turn", Box::new(interleaved(n))),
        ("descending", Box::new((0..n).rev())),
    ];
    orders.into_iter().map(|(order, mut keys)| (order, fill(&mut keys))).collect()
}

fn streaks_fill<T: Kind>(slots: u32, least: f64) {
    for (order, fill) in
        streaks(KEYS * scale().min(10) as u64, |keys| report::<T>(slots, keys).fill)
    {
        println!("{}, {slots} slots, {order}: {fill:.4}", T::name());
        // A leaf that a run down splits keeps one entry on its left side.
        let least = if order == "descending" { 0.9 } else { least };
        assert!(fill >= least, "{}, {slots} slots, {order}: {fill}", T::name());
    }
}

#[test]
fn streaks_leave_circular_leaves_full() {
    streaks_fill::<CircTree<Dram>>(32, 0.95);
    streaks_fill::<CircTreeLs<Dram>>(32, 0.95);
    streaks_fill::<CircTreeF<Dram>>(32, 0.95);
    streaks_fill::<CircTree<Dram>>(256, 0.95);
    streaks_fill::<CircTree<Dram>>(16, 0.95);
}

#[test]
fn streaks_leave_linear_leaves_full_but_for_the_slot_that_ends_them() {
    streaks_fill::<FastFair<Dram>>(32, 0.93);
    streaks_fill::<FastFairS<Dram>>(32, 0.93);
    streaks_fill::<FastLogging<Dram>>(32, 0.93);
    streaks_fill::<FastFair<Dram>>(256, 0.93);
}

#[test]
fn streaks_leave_leaves_of_bd_full() {
    for (order, fill) in streaks(KEYS * scale().min(10) as u64, |keys| fill_of_bd(keys)) {
        println!("BD+Tree, {order}: {fill:.4}");
        assert!(fill >= 0.95, "{order}: {fill}");
    }
}

/// The numbers of nodes are those of trees that always halve.
#[test]
fn keys_in_no_order_are_halved() {
    let nodes = |report: TreeReport| report.nodes_by_level;
    assert_eq!(nodes(report::<CircTree<Dram>>(32, scattered(KEYS))), [4468, 203, 8, 1]);
    assert_eq!(nodes(report::<FastFair<Dram>>(32, scattered(KEYS))), [4646, 230, 9, 1]);
    assert_eq!(nodes(report::<CircTree<Dram>>(256, scattered(KEYS))), [531, 4, 1]);
    assert_eq!(nodes(report::<FastFair<Dram>>(256, scattered(KEYS))), [531, 4, 1]);
    assert_eq!(fill_of_bd(scattered(KEYS)), KEYS as f64 / (4461.0 * 32.0));
}

/// A leaf of byte strings that is split takes its last entry along.
#[test]
fn streaks_of_byte_strings_leave_full_leaves() {
    let fill = report::<StringTree<Dram>>(32, 0..20_000).fill;
    assert!(fill >= 0.9, "{fill}");
}
