//! LB+-Tree in the leaves of its source: small scripts, and every crash of them.

use std::ops::Bound::Unbounded;

use everleaf_check::{Coverage, Durable, Explorer, Failure, Persistency, Tested};
use everleaf_pmem::Geometry;
use everleaf_rivals::lbtree::Lb;
use everleaf_rivals::{Chained, Version};
use everleaf_tree::Index;

/// An operation of a script.
#[derive(Debug, Clone, Copy)]
pub enum Act {
    Put(u64),
    Remove(u64),
}
pub use Act::{Put, Remove};

type Tree<V> = Chained<Tested, Lb<V>>;

/// The source's leaves of 14 pairs, and a script.
#[expect(clippy::type_complexity, reason = "closures have no names")]
pub fn durable<V: Version>(
    acts: &[Act],
) -> Durable<
    Act,
    impl Fn(Tested) -> Tree<V>,
    impl Fn(&mut Tree<V>, &Act),
    impl Fn(&Tree<V>) -> Vec<(u64, u64)>,
> {
    let apply = |tree: &mut Tree<V>, act: &Act| {
        match *act {
            Put(key) => {
                let old = tree.get(key).expect("it reads").unwrap_or(0);
                tree.insert(key, old + 100 + key).expect("room");
            }
            Remove(key) => {
                Index::remove(tree, key).expect("it removes");
            }
        };
    };
    let read = |tree: &Tree<V>| {
        let mut all = tree.range(Unbounded, Unbounded, usize::MAX).expect("it reads");
        // What a search does not find is lost.
        all.retain(|(key, value)| tree.get(*key).expect("it reads") == Some(*value));
        // Whatever a crash has leaked is free again.
        let leaves = tree.rebuilt().leaves + tree.splits() - tree.unlinked();
        let counts = tree.pool().stats().expect("it reads");
        assert_eq!((u64::from(counts.nodes), counts.anchors), (leaves, 1));
        all
    };
    let geometry = Geometry::new(16).expect("a power of two");
    let open = |medium: Tested| Tree::<V>::on(medium).expect("it opens");
    Durable::new(geometry, 16, acts.to_vec(), open, apply, read)
}

/// All images of a crash and of a crash in the recovery from it.
pub fn crash<V: Version>(mode: Persistency, acts: &[Act]) -> Result<Coverage, Box<Failure>> {
    durable::<V>(acts).explorer(Explorer::new().depth(2).mode(mode)).check()
}

/// Fills a leaf, and splits it twice: once for a key of the right leaf, and the left one for a key of its own.
pub fn splits() -> Vec<Act> {
    let mut acts: Vec<Act> = (1..=14).rev().map(|key| Put(10 * key)).collect();
    acts.push(Put(135));
    // The left leaf has room for seven more.
    acts.extend((0..=8).rev().map(|key| Put(10 * key + 5)));
    acts
}

/// The same, then updates, and removals that empty all leaves but the first.
pub fn removals() -> Vec<Act> {
    let mut acts = splits();
    acts.extend([Put(10), Put(140), Remove(15), Put(12), Put(13)]);
    // The leaves behind the first one go.
    acts.extend((4..=14).flat_map(|key| [Remove(10 * key), Remove(10 * key + 5)]));
    acts.push(Put(100));
    acts
}
