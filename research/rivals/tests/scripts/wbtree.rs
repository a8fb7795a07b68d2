//! The wB+-tree in nodes of four pairs: small scripts, and every crash of them.

use std::sync::Arc;

use everleaf_crash_check::{Coverage, Explorer, Failure, Persistency, Tested};
use everleaf_rivals::{Version, WbTree};
use everleaf_tree::INDEX_ANCHOR;

use super::ops::{Found, Script, damaged, pool, script};
pub use super::ops::{Insert, Op, Remove, Update};

type Tree<V> = WbTree<Tested, V>;

fn open<V: Version>(medium: Tested) -> Tree<V> {
    let pool = pool(medium, Tree::<V>::format_pool, Tree::<V>::open_pool);
    let (tree, opened) = Tree::<V>::open(Arc::clone(&pool), INDEX_ANCHOR).expect("opens");
    let pages = u64::from(pool.stats().expect("a map").nodes);
    assert_eq!(pages, opened.nodes + 1, "the nodes and the log: {opened:?}");
    tree
}

/// The tree and a script.
pub fn durable<V: Version>(ops: &[Op]) -> Script<Tree<V>, Found> {
    script((8, 24), ops, open::<V>, |tree, keys| damaged(tree, keys, |key| key.to_string()))
}

/// Runs the operations and crashes them and each recovery.
pub fn check<V: Version>(mode: Persistency, ops: &[Op]) -> Result<Coverage, Box<Failure>> {
    durable::<V>(ops).explorer(Explorer::new().depth(2).mode(mode)).check()
}

/// Each change of one node, in all places, and pairs whose places are used again.
pub const ONE_NODE: [Op; 12] = [
    Insert(50),
    Insert(u64::MAX),
    Insert(0),
    Update(50),
    Insert(20),
    Remove(50),
    Insert(60),
    Insert(60),
    Remove(0),
    Remove(u64::MAX),
    Remove(20),
    Remove(60),
];

/// A root, and splits of leaves at either end and in between.
pub const LEAVES: [Op; 11] = [
    Insert(10),
    Insert(20),
    Insert(30),
    Insert(40),
    Insert(50),
    Insert(60),
    Insert(70),
    Insert(11),
    Insert(12),
    Remove(70),
    Insert(35),
];

/// Enough to split the root, which is an inner node by then.
pub fn inner() -> Vec<Op> {
    let far = (1..=13).map(|i| Insert(10 * i));
    far.chain([Remove(100), Insert(5), Update(130), Insert(101)]).collect()
}
