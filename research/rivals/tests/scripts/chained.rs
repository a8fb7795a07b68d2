//! Scripts of trees of leaves below inner nodes in DRAM.

// Each test uses a part of it.
#![allow(dead_code)]

use std::ops::Bound::Unbounded;

use everleaf_crash_check::{Durable, Tested};
use everleaf_pmem::Geometry;
use everleaf_rivals::Chained;
use everleaf_rivals::leaf::Leaf;
use everleaf_tree::Index;

/// An operation of a script.
#[derive(Debug, Clone, Copy)]
pub enum Act {
    Put(u64),
    Remove(u64),
    /// Tells the inner nodes of the leaves that they do not know, if they learn of them later.
    Drain,
}
pub use Act::{Drain, Put, Remove};

pub type Tree<L> = Chained<Tested, L>;
pub type Pairs = Vec<(u64, u64)>;
/// A tree and a script.
pub type Script<L> =
    Durable<Act, fn(Tested) -> Tree<L>, fn(&mut Tree<L>, &Act), fn(&Tree<L>) -> Pairs>;

/// Does an operation; a value says how often its key was put.
fn apply<L: Leaf>(tree: &mut Tree<L>, act: &Act) {
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

/// All pairs of the tree that searches find, too.
pub fn found<L: Leaf>(tree: &Tree<L>) -> Pairs {
    let mut all = tree.range(Unbounded, Unbounded, usize::MAX).expect("it reads");
    // A pair that a search does not find is lost.
    all.retain(|(key, value)| tree.get(*key).expect("it reads") == Some(*value));
    all
}

/// The leaves that the tree should have. The pool has no other nodes: whatever a crash has leaked is free again.
pub fn leaves<L: Leaf>(tree: &Tree<L>) -> u64 {
    tree.rebuilt().leaves + tree.splits() - tree.unlinked()
}

/// A tree in pages of so many slots, of which `read` says what it holds, and a script.
pub fn script<L: Leaf>(slots: u32, acts: &[Act], read: fn(&Tree<L>) -> Pairs) -> Script<L> {
    let geometry = Geometry::new(slots).expect("a power of two");
    let open = |medium| Tree::<L>::on(medium).expect("it opens");
    Durable::new(geometry, 16, acts.to_vec(), open, apply::<L>, read)
}
