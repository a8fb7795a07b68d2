//! Operations of scripts on trees that are durable when an operation returns.

use std::collections::BTreeSet;

use everleaf_tree::Index;

/// An operation of a script.
#[derive(Debug, Clone, Copy)]
pub enum Op {
    Insert(u64),
    Update(u64),
    Remove(u64),
}
pub use Op::{Insert, Remove, Update};

/// Does an operation.
pub fn apply(tree: &impl Index, op: &Op) -> Option<u64> {
    let done = match *op {
        Insert(key) => tree.insert(key, !key),
        Update(key) => tree.update(key, key),
        Remove(key) => tree.remove(key),
    };
    done.expect("no error")
}

/// The keys that a script is about.
pub fn keys(ops: &[Op]) -> BTreeSet<u64> {
    let key = |op: &Op| match *op {
        Insert(key) | Update(key) | Remove(key) => key,
    };
    ops.iter().map(key).collect()
}
