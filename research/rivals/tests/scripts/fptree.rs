//! FPTree in leaves of 4 pairs: small scripts, and every crash of them.

use std::ops::Bound::Unbounded;

use everleaf_crash_check::{Coverage, Explorer, Failure, Persistency};
use everleaf_rivals::Version;
use everleaf_rivals::fptree::Fp;
use everleaf_tree::Index;

pub use super::chained::{Act, Put, Remove};
use super::chained::{Pairs, Script, Tree, found, leaves, script};

/// All pairs of a tree that is whole.
pub fn read<V: Version, const PAIRS: usize>(tree: &Tree<Fp<PAIRS, V>>) -> Pairs {
    let all = tree.range(Unbounded, Unbounded, usize::MAX).expect("it reads");
    assert_eq!(found(tree), all);
    let counts = tree.pool().stats().expect("it reads");
    assert_eq!((u64::from(counts.nodes), counts.anchors), (leaves(tree), 2));
    all
}

/// Leaves of 4 pairs, and a script.
pub fn durable<V: Version>(acts: &[Act]) -> Script<Fp<32, V>> {
    script(4, acts, read)
}

/// All images of a crash and of a crash in the recovery from it.
pub fn crash<V: Version>(mode: Persistency, acts: &[Act]) -> Result<Coverage, Box<Failure>> {
    durable::<V>(acts).explorer(Explorer::new().depth(2).mode(mode)).check()
}

/// A split in the middle of the chain, then one of its last leaf.
pub const SPLITS: [Act; 11] = [
    Put(60),
    Put(20),
    Put(80),
    Put(40),
    Put(70), // 20 40 | 60 70 80
    Put(30),
    Put(10), // 10 20 30 40 | 60 70 80
    Put(25), // 10 20 25 | 30 40 | 60 70 80
    Put(90),
    Put(65),
    Put(85),
];

/// Updates that fill a leaf, and one of a leaf that is full.
pub const UPDATES: [Act; 8] = [Put(1), Put(2), Put(1), Put(3), Put(4), Put(2), Put(4), Put(1)];

/// Removals that empty a leaf in the middle, and others.
pub const REMOVALS: [Act; 13] = [
    Put(1),
    Put(2),
    Put(3),
    Put(4),
    Put(5),
    Put(6),
    Put(7),
    Remove(3),
    Remove(4), // the leaf in the middle goes
    Remove(1),
    Remove(2), // the first leaf stays
    Put(4),
    Remove(7),
];
