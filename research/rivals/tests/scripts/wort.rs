//! WORT: small scripts, and every crash of them.

use std::sync::Arc;

use everleaf_crash_check::{Coverage, Explorer, Failure, Persistency, Tested};
use everleaf_rivals::{Version, Wort};
use everleaf_tree::INDEX_ANCHOR;

use super::ops::{Found, Script, damaged, pool, script};
pub use super::ops::{Insert, Op, Remove, Update};

type Tree<V> = Wort<Tested, V>;

fn open<V: Version>(medium: Tested) -> Tree<V> {
    let pool = pool(medium, Tree::<V>::format_pool, Tree::<V>::open_pool);
    let (tree, opened) = Tree::<V>::open(Arc::clone(&pool), INDEX_ANCHOR).expect("opens");
    let pages = u64::from(pool.stats().expect("a map").nodes);
    let least = opened.nodes + opened.leaves.div_ceil(8);
    assert!((least..=opened.nodes + opened.leaves).contains(&pages), "{pages}: {opened:?}");
    tree
}

/// The tree and a script.
pub fn durable<V: Version>(ops: &[Op]) -> Script<Tree<V>, Found> {
    script((8, 24), ops, open::<V>, |tree, keys| damaged(tree, keys, |key| format!("{key:#x}")))
}

/// Runs the operations and crashes them and each recovery.
pub fn check<V: Version>(mode: Persistency, ops: &[Op]) -> Result<Coverage, Box<Failure>> {
    durable::<V>(ops).explorer(Explorer::new().depth(2).mode(mode)).check()
}

/// Each case of an insert, with short prefixes and with prefixes that the header keeps in part.
pub const INSERTS: [Op; 9] = [
    Insert(0x1230 << 48),
    Insert(0x1234 << 48),
    Insert(0x1237 << 48),
    Insert(0x1500 << 48),
    Update(0x1234 << 48),
    Insert(0xabcd_ef01_2345_6780),
    Insert(0xabcd_ef01_2345_6781),
    Insert(0xabcd_ef01_9345_6781),
    Insert(0xabce << 48),
];

/// Removes from nodes that keep two children, and cells that are used again.
pub const REMOVES: [Op; 7] = [
    Insert(0x1230 << 48),
    Insert(0x1234 << 48),
    Insert(0x1237 << 48),
    Remove(0x1234 << 48),
    Insert(0x1238 << 48),
    Insert(0x1500 << 48),
    Remove(0x1230 << 48),
];

/// An insert parts the prefix of a node in which a remove has left one child.
pub const ONE_CHILD: [Op; 5] = [
    Insert(0x1230 << 48),
    Insert(0x1234 << 48),
    Remove(0x1234 << 48),
    Insert(0x1500 << 48),
    Insert(0x1234 << 48),
];

/// The same with a prefix of which the header has not all, and with nothing left below it.
pub const NO_CHILD: [Op; 8] = [
    Insert(0xabcd_ef01_2345_6780),
    Insert(0xabcd_ef01_2345_6781),
    Remove(0xabcd_ef01_2345_6781),
    Insert(0xabcd_ef01_9345_6781),
    Remove(0xabcd_ef01_2345_6780),
    Insert(0xabce << 48),
    Insert(0xabcd_ef01_2355_6781),
    Insert(0xabcd_ef01_2345_6781),
];
