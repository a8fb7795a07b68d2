//! FPTree in leaves of 4 pairs: small scripts, and every crash of them.

use std::ops::Bound::Unbounded;

use everleaf_check::{Coverage, Durable, Explorer, Failure, Persistency, Tested};
use everleaf_pmem::Geometry;
use everleaf_rivals::fptree::Fp;
use everleaf_rivals::{Chained, Version};
use everleaf_tree::Index;

/// An operation of a script.
#[derive(Debug, Clone, Copy)]
pub enum Act {
    Put(u64),
    Remove(u64),
}
pub use Act::{Put, Remove};

pub type Tree<V, const PAIRS: usize = 32> = Chained<Tested, Fp<PAIRS, V>>;

/// Does an operation; a value says how often its key was put.
pub fn apply<V: Version, const PAIRS: usize>(tree: &mut Tree<V, PAIRS>, act: &Act) {
    match *act {
        Put(key) => {
            let old = tree.get(key).expect("it reads").unwrap_or(0);
            tree.insert(key, old + 100 + key).expect("room");
        }
        Remove(key) => {
            Index::remove(tree, key).expect("it removes");
        }
    };
}

/// All pairs of a tree that is whole.
pub fn read<V: Version, const PAIRS: usize>(tree: &Tree<V, PAIRS>) -> Vec<(u64, u64)> {
    let all = tree.range(Unbounded, Unbounded, usize::MAX).expect("it reads");
    assert!(all.iter().all(|(key, value)| tree.get(*key).expect("it reads") == Some(*value)));
    // Whatever a crash has leaked is free again.
    let leaves = tree.rebuilt().leaves + tree.splits() - tree.unlinked();
    let counts = tree.pool().stats().expect("it reads");
    assert_eq!((u64::from(counts.nodes), counts.anchors), (leaves, 2));
    all
}

/// Leaves of 4 pairs, and a script.
#[expect(clippy::type_complexity, reason = "closures have no names")]
pub fn durable<V: Version>(
    acts: &[Act],
) -> Durable<
    Act,
    impl Fn(Tested) -> Tree<V>,
    impl Fn(&mut Tree<V>, &Act),
    impl Fn(&Tree<V>) -> Vec<(u64, u64)>,
> {
    let geometry = Geometry::new(4).expect("a power of two");
    let open = |medium: Tested| Tree::<V>::on(medium).expect("it opens");
    Durable::new(geometry, 16, acts.to_vec(), open, apply::<V, 32>, read::<V, 32>)
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
