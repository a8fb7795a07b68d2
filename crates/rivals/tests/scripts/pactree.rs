//! PACTree's data layer in leaves of 8 pairs: small scripts, and every crash of them.

use std::ops::Bound::Unbounded;

use everleaf_check::{Coverage, Durable, Explorer, Failure, Persistency, Tested};
use everleaf_pmem::Geometry;
use everleaf_rivals::pactree::Pac;
use everleaf_rivals::{Chained, Version};
use everleaf_tree::Index;

/// An operation of a script.
#[derive(Debug, Clone, Copy)]
pub enum Act {
    Put(u64),
    Remove(u64),
    /// Tells the inner nodes of the leaves that they do not know.
    Drain,
}
pub use Act::{Drain, Put, Remove};

type Tree<V> = Chained<Tested, Pac<V>>;

/// Does an operation; a value says how often its key was put.
fn apply<V: Version>(tree: &mut Tree<V>, act: &Act) {
    match *act {
        Put(key) => {
            let old = tree.get(key).expect("it reads").unwrap_or(0);
            tree.insert(key, old + 100 + key).expect("room");
        }
        Remove(key) => {
            Index::remove(tree, key).expect("it removes");
        }
        Drain => {
            tree.drain().expect("it writes");
        }
    }
}

/// All pairs that searches find.
fn read<V: Version>(tree: &Tree<V>) -> Vec<(u64, u64)> {
    let mut all = tree.range(Unbounded, Unbounded, usize::MAX).expect("it reads");
    // What a search does not find is lost.
    all.retain(|(key, value)| tree.get(*key).expect("it reads") == Some(*value));
    // Whatever a crash has leaked is free again.
    let leaves = tree.rebuilt().leaves + tree.splits() - tree.unlinked();
    let counts = tree.pool().stats().expect("it reads");
    assert!(V::PUBLISHED || u64::from(counts.nodes) == leaves, "{counts:?}, {leaves} leaves");
    all
}

/// Leaves of 8 pairs, or 6 as published, and a script.
#[expect(clippy::type_complexity, reason = "closures have no names")]
pub fn durable<V: Version>(
    acts: &[Act],
) -> Durable<
    Act,
    impl Fn(Tested) -> Tree<V>,
    impl Fn(&mut Tree<V>, &Act),
    impl Fn(&Tree<V>) -> Vec<(u64, u64)>,
> {
    let geometry = Geometry::new(16).expect("a power of two");
    let open = |medium: Tested| Tree::<V>::on(medium).expect("it opens");
    Durable::new(geometry, 16, acts.to_vec(), open, apply::<V>, read::<V>)
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
