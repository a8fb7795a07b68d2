//! NBTree in leaves of 3 and of 7 pairs: small scripts, and every crash of them.

// Each test uses a part of it.
#![allow(dead_code)]

use everleaf_crash_check::{Coverage, Explorer, Failure, Persistency};
use everleaf_rivals::Version;
use everleaf_rivals::nbtree::Nb;

pub use super::chained::{Act, Put, Remove};
use super::chained::{Script, found, leaves, script};

/// Leaves of a pair less than `slots`, and a script.
pub fn durable<V: Version>(slots: u32, acts: &[Act]) -> Script<Nb<V>> {
    script(slots, acts, |tree| {
        let counts = tree.pool().stats().expect("it reads");
        let is_whole = (u64::from(counts.nodes), counts.anchors) == (leaves(tree), 1);
        assert!(V::PUBLISHED || is_whole, "{counts:?}, {} leaves", leaves(tree));
        found(tree)
    })
}

/// All images of a crash and of a crash in the recovery from it.
pub fn crash<V: Version>(
    mode: Persistency,
    slots: u32,
    acts: &[Act],
) -> Result<Coverage, Box<Failure>> {
    durable::<V>(slots, acts).explorer(Explorer::new().depth(2).mode(mode)).check()
}

/// As [`crash`] in leaves of three pairs, where the tree has what searches find, whether ranges have it or not.
pub fn asked<V: Version>(mode: Persistency, acts: &[Act]) -> Result<Coverage, Box<Failure>> {
    let script: Script<Nb<V>> = script(4, acts, |tree| {
        let ask = |key| tree.get(key).expect("it reads").map(|value| (key, value));
        (0..100).filter_map(ask).collect()
    });
    script.explorer(Explorer::new().depth(2).mode(mode)).check()
}

/// Splits of the first leaf, of the last one and of one in between, with leaves of three pairs.
pub const SPLITS: [Act; 14] = [
    Put(40),
    Put(60),
    Put(50),
    Put(70), // 40 | 50 60 70
    Put(0),
    Put(55), // 0 40 | 50 55 | 60 70
    Put(57),
    Put(40),
    Put(52), // 0 40 | 50 52 | 55 57 | 60 70
    Put(30),
    Put(20),
    Put(0),
    Put(25), // 0 20 25 | 30 40 | 50 52 | 55 57 | 60 70
    Put(80),
];

/// Removals that use up the places of a leaf, leave it with one pair or none, and take leaves out of the chain.
pub const REMOVALS: [Act; 24] = [
    Put(1),
    Put(2),
    Put(3),
    Put(0),
    Put(4), // 0 1 | 2 3 4
    Remove(2),
    Remove(4),
    Put(5), // 0 1 | 3 5
    Put(4),
    Remove(0),
    Put(0),
    Remove(1),
    Put(1),
    Remove(1),
    Put(1), // the first leaf in one copy
    Remove(1),
    Remove(0),
    Put(1),
    Remove(3),
    Remove(5),
    Remove(4), // the last leaf goes
    Put(9),
    Remove(9),
    Remove(1),
];

/// A leaf of seven pairs: changed, split, and its halves split again.
pub const SEVENS: [Act; 15] = [
    Put(10),
    Put(70),
    Put(20),
    Put(60),
    Put(30),
    Put(50),
    Put(40),
    Put(30),
    Put(80), // 10 20 30 | 40 50 60 70 80
    Remove(50),
    Put(90),
    Put(0),
    Put(55),
    Remove(40),
    Put(57), // 0 10 20 30 | 55 57 60 70 80 90
];

/// Two inserts.
pub const TWO: [Act; 2] = [Put(30), Put(10)];

/// Key 0 and another.
pub const ZERO: [Act; 2] = [Put(10), Put(0)];
