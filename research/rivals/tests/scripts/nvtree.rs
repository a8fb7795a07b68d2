//! NV-tree in small leaves: small scripts, and every crash of them.

use std::sync::Arc;

use everleaf_crash_check::{Coverage, Explorer, Failure, Persistency, Tested};
use everleaf_rivals::{NvTree, Version};
use everleaf_tree::INDEX_ANCHOR;

pub use super::ops::{Insert, Op, Remove, Update};
use super::ops::{Script, Whole, pool, script, whole};

type Tree<V> = NvTree<Tested, V>;

fn open<V: Version>(medium: Tested) -> Tree<V> {
    let pool = pool(medium, Tree::<V>::format_pool, Tree::<V>::open_pool);
    let (tree, opened) = Tree::<V>::open(Arc::clone(&pool), INDEX_ANCHOR).expect("opens");
    assert_eq!(u64::from(pool.stats().expect("a map").nodes), opened.leaves, "{opened:?}");
    tree
}

/// The tree and a script.
pub fn durable<V: Version>(slots: u32, ops: &[Op]) -> Script<Tree<V>, Whole> {
    script((slots, 32), ops, open::<V>, whole)
}

/// Runs the operations and crashes them and each recovery.
pub fn check<V: Version>(
    mode: Persistency,
    slots: u32,
    ops: &[Op],
) -> Result<Coverage, Box<Failure>> {
    durable::<V>(slots, ops).explorer(Explorer::new().depth(2).mode(mode)).check()
}

/// Each change of one leaf.
pub const ONE_LEAF: [Op; 7] = [
    Insert(50),
    Insert(u64::MAX),
    Update(50),
    Remove(u64::MAX),
    Insert(0),
    Insert(u64::MAX),
    Remove(0),
];

/// Splits at either end and in between, a row that is full, leaves that become empty and go, and one in place of one.
pub const LEAVES: [Op; 24] = [
    Insert(10),
    Insert(20),
    Insert(30),
    Insert(40),
    Insert(50),
    Insert(60),
    Insert(5),
    Insert(0),
    Insert(70),
    Insert(15),
    Update(20),
    Update(20),
    Remove(30),
    Remove(40),
    Remove(50),
    Remove(60),
    Remove(70),
    Insert(35),
    Remove(0),
    Remove(5),
    Remove(10),
    Remove(15),
    Remove(20),
    Remove(35),
];

/// One insert more than a leaf of five entries has room for.
pub const SIX: [Op; 6] = [Insert(0), Insert(1), Insert(2), Insert(3), Insert(4), Insert(5)];
