//! PACTree's data layer in leaves of 8 pairs: small scripts, and every crash of them.

use everleaf_crash_check::{Coverage, Explorer, Failure, Persistency};
use everleaf_rivals::Version;
use everleaf_rivals::pactree::Pac;

pub use super::chained::{Act, Drain, Put, Remove};
use super::chained::{Script, found, leaves, script};

/// Leaves of 8 pairs, or 6 as published, and a script.
pub fn durable<V: Version>(acts: &[Act]) -> Script<Pac<V>> {
    script(16, acts, |tree| {
        let counts = tree.pool().stats().expect("it reads");
        assert!(V::PUBLISHED || u64::from(counts.nodes) == leaves(tree), "{counts:?}");
        found(tree)
    })
}

/// All images of a crash, and with a depth of 2 of a crash in the recovery from it.
pub fn crash<V: Version>(
    mode: Persistency,
    acts: &[Act],
    depth: usize,
) -> Result<Coverage, Box<Failure>> {
    durable::<V>(acts).explorer(Explorer::new().depth(depth).mode(mode)).check()
}

/// Fills a leaf, splits it, and then the left one of both: once for a key of the right leaf, once for one of its own.
pub const SPLITS: [Act; 14] = [
    Put(80),
    Put(10),
    Put(70),
    Put(20),
    Put(60),
    Put(30),
    Put(50),
    Put(40),
    Put(90), // 10 20 30 40 | 50 60 70 80 90
    Put(4),
    Put(3),
    Put(2),
    Put(1),
    Put(5), // 1 2 3 4 5 | 10 20 30 40 | 50 60 70 80 90
];

/// The same while no log is left behind, so that none is ended by a recovery after its split.
pub fn drained() -> Vec<Act> {
    let mut acts = SPLITS.to_vec();
    acts.insert(9, Drain);
    acts.push(Drain);
    acts
}

/// The leaf on the right goes while the log of its split is there, and its page is used again.
pub fn removals() -> Vec<Act> {
    let mut acts = SPLITS[..9].to_vec();
    acts.extend([80, 60, 90, 70, 50].map(Remove));
    acts.extend([Put(10), Put(55), Put(45), Put(47), Put(48), Put(49), Remove(10)]);
    acts
}
