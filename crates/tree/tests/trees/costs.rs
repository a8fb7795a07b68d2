//! The stores, flushes and fences of each tree on strict media, for nodes of 512 bytes and of 4 KiB: a
//! table that every change of a protocol has to change, too.

use std::borrow::Borrow;
use std::sync::Arc;

use everleaf_pmem::{Counted, Counts, Dram, Geometry};
use everleaf_tree::blink::{Blink, Condition};
use everleaf_tree::slots::{Keys, OwnedOf};
use everleaf_tree::slots::{Layout, Probe};
use everleaf_tree::{
    CircTree, CircTreeBinary, CircTreeF, CircTreeLs, CircTreeSegment, FastFair, FastFairBinary,
    FastFairF, FastFairS, FastLogging, INDEX_ANCHOR, StringTree,
};

type Memory = Counted<Dram>;

/// [stores, flushed lines, fences].
type Cost = [u64; 3];

/// The costs of the operations that are measured.
#[derive(Debug, PartialEq, Eq)]
struct Costs {
    /// Into a half full leaf, behind a bit more than a quarter of its keys.
    insert: Cost,
    /// Of the same key.
    update: Cost,
    /// Of the same key.
    remove: Cost,
    /// An insert that splits a full leaf: the new node with its page, the parent's entry and the
    /// insert itself.
    split: Cost,
    /// A remove that merges the two leaves: the announcement, the left node, the parent's entry, the
    /// free page and the remove itself.
    merge: Cost,
}

/// Measures a tree. `key` makes the i-th key, and keeps their order.
fn costs<L: Layout, P: Probe, K: Keys>(
    _: fn(Blink<Memory, (L, P, K)>),
    slots: u32,
    key: impl Fn(u64) -> OwnedOf<K>,
    value: &K::Input,
) -> Costs {
    let memory = Dram::new(Geometry::new(slots).expect("valid"), 1 << 12).expect("memory");
    let pool = Blink::<Memory, (L, P, K)>::format_pool(Counted::new(memory)).expect("formats");
    let pool = Arc::new(pool);
    let tree = Blink::<Memory, (L, P, K)>::create(Arc::clone(&pool), INDEX_ANCHOR).expect("space");
    let cost = |work: &dyn Fn()| {
        let before = pool.medium().counts();
        work();
        let Counts { stores, flushes, fences } = pool.medium().counts() - before;
        [stores, flushes, fences]
    };
    let put = |i: u64| {
        tree.put(key(i).borrow(), value, Condition::Always).expect("space");
    };
    let remove = |i: u64| {
        tree.remove(key(i).borrow()).expect("memory");
    };
    let leaves = || tree.check().expect("memory").nodes_by_level[0];
    let (half, odd) = (u64::from(slots) / 2, u64::from(slots) / 4 + 1);
    (0..half).for_each(|i| put(2 * i));
    let [insert, update, remove_one] =
        [cost(&|| put(odd)), cost(&|| put(odd)), cost(&|| remove(odd))];
    // Odd keys, until the leaf is full; the next one splits it.
    let before = leaves();
    let mut odds = (1..).step_by(2);
    let split = loop {
        let i = odds.next().expect("endless");
        let split = cost(&|| put(i));
        if leaves() > before {
            break split;
        }
    };
    let mut all = 0..2 * half;
    let merge = loop {
        let i = all.next().expect("the leaves merge before all keys are gone");
        let merge = cost(&|| remove(i));
        if leaves() == before {
            break merge;
        }
    };
    Costs { insert, update, remove: remove_one, split, merge }
}

/// The costs of each alias of `named.rs`, but for the volatile ones, which are two of these types:
/// what a probe does is no store of a medium.
fn all(slots: u32) -> [(&'static str, Costs); 11] {
    let word = |i| i;
    let string = |i: u64| i.to_be_bytes().to_vec();
    [
        ("circular", costs(|_: CircTree<_>| {}, slots, word, &7)),
        ("circular", costs(|_: CircTreeBinary<_>| {}, slots, word, &7)),
        ("circular", costs(|_: CircTreeSegment<_>| {}, slots, word, &7)),
        ("circular", costs(|_: CircTreeLs<_>| {}, slots, word, &7)),
        ("circular", costs(|_: CircTreeF<_>| {}, slots, word, &7)),
        ("linear", costs(|_: FastFair<_>| {}, slots, word, &7)),
        ("linear", costs(|_: FastFairBinary<_>| {}, slots, word, &7)),
        ("linear", costs(|_: FastFairS<_>| {}, slots, word, &7)),
        ("linear", costs(|_: FastFairF<_>| {}, slots, word, &7)),
        ("logged", costs(|_: FastLogging<_>| {}, slots, word, &7)),
        ("strings", costs(|_: StringTree<_>| {}, slots, string, &b"7"[..])),
    ]
}

#[rustfmt::skip]
const HALF_A_KIB: [(&str, Costs); 4] = [
    ("circular", Costs { insert: [13, 4, 4], update: [1, 1, 1], remove: [12, 4, 4], split: [66, 15, 7], merge: [47, 13, 9] }),
    ("linear", Costs { insert: [25, 4, 4], update: [1, 1, 1], remove: [24, 4, 4], split: [66, 13, 5], merge: [71, 14, 9] }),
    ("logged", Costs { insert: [25, 4, 4], update: [1, 1, 1], remove: [24, 4, 4], split: [138, 24, 8], merge: [71, 14, 9] }),
    ("strings", Costs { insert: [24, 8, 8], update: [6, 4, 4], remove: [13, 5, 5], split: [209, 59, 19], merge: [151, 32, 15] }),
];

#[rustfmt::skip]
const FOUR_KIB: [(&str, Costs); 4] = [
    ("circular", Costs { insert: [69, 11, 11], update: [1, 1, 1], remove: [68, 11, 11], split: [402, 71, 7], merge: [271, 41, 9] }),
    ("linear", Costs { insert: [193, 25, 25], update: [1, 1, 1], remove: [192, 25, 25], split: [402, 69, 5], merge: [487, 70, 29] }),
    ("logged", Costs { insert: [193, 25, 25], update: [1, 1, 1], remove: [192, 25, 25], split: [922, 136, 8], merge: [487, 70, 29] }),
    ("strings", Costs { insert: [80, 15, 15], update: [6, 4, 4], remove: [69, 12, 12], split: [1329, 339, 19], merge: [1015, 144, 15] }),
];

#[test]
fn every_tree_costs_what_the_table_says() {
    for (slots, table) in [(32, HALF_A_KIB), (256, FOUR_KIB)] {
        for (name, costs) in all(slots) {
            let (_, expected) = table.iter().find(|(of, _)| *of == name).expect("it is there");
            assert_eq!(costs, *expected, "{name}, {slots} slots");
        }
    }
}

/// FAIR saves a copy of the node, and the anchor twice.
#[test]
fn a_logged_split_flushes_a_node_and_two_lines_more() {
    for (table, lines) in [(HALF_A_KIB, 9), (FOUR_KIB, 65)] {
        let split = |name| table.iter().find(|(of, _)| *of == name).expect("it is there").1.split;
        assert_eq!(split("logged")[1], split("linear")[1] + lines + 2);
        assert_eq!(split("logged")[2], split("linear")[2] + 3);
    }
}
