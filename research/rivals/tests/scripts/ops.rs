//! Operations of scripts on trees that are durable when an operation returns.

// Each test uses a part of it.
#![allow(dead_code)]

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::ops::Bound::Unbounded;
use std::sync::Arc;

use everleaf_crash_check::{Durable, Tested};
use everleaf_pmem::{Geometry, Medium, Result};
use everleaf_pool::Pool;
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

/// A tree and a script.
pub type Script<T, S> = Durable<Op, fn(Tested) -> T, fn(&mut T, &Op), Box<dyn Fn(&T) -> S>>;

/// A tree in so many pages of so many slots, of which `read` says what it holds of the script's keys.
pub fn script<T: Index + 'static, S: PartialEq + Debug + 'static>(
    (slots, pages): (u32, u32),
    ops: &[Op],
    open: fn(Tested) -> T,
    read: fn(&T, &BTreeSet<u64>) -> S,
) -> Script<T, S> {
    let geometry = Geometry::new(slots).expect("a power of two");
    let keys = keys(ops);
    let apply = |tree: &mut T, op: &Op| {
        apply(tree, op);
    };
    Durable::new(
        geometry,
        pages,
        ops.to_vec(),
        open,
        apply,
        Box::new(move |tree| read(tree, &keys)),
    )
}

/// The pool of a medium, made if there is none.
pub fn pool<M: Medium>(
    medium: M,
    format: fn(M) -> Result<Pool<M>>,
    open: fn(M) -> Result<Pool<M>>,
) -> Arc<Pool<M>> {
    let is_unmade = Pool::is_unmade(&medium).expect("two pages");
    Arc::new(if is_unmade { format } else { open }(medium).expect("a pool"))
}

/// The values of keys, and all pairs.
pub type Whole = (Vec<Option<u64>>, Vec<(u64, u64)>);

/// Reads a tree that gives the same pairs from both ends.
pub fn whole(tree: &impl Index, keys: &BTreeSet<u64>) -> Whole {
    let found = keys.iter().map(|key| tree.get(*key).expect("reads")).collect();
    let range = tree.range(Unbounded, Unbounded, 99).expect("reads");
    let mut back = tree.range_back(Unbounded, Unbounded, 99).expect("reads");
    back.reverse();
    assert_eq!(range, back);
    (found, range)
}

type Pairs = std::result::Result<Vec<(u64, u64)>, String>;
/// The findings of searches and of both ways of ranges in a tree that may be damaged: a value, none, or an error.
pub type Found = (Vec<(String, std::result::Result<Option<u64>, String>)>, Pairs, Pairs);

/// Reads a tree that may be damaged; messages have the keys by `name`.
pub fn damaged(tree: &impl Index, keys: &BTreeSet<u64>, name: fn(u64) -> String) -> Found {
    let text = |e: everleaf_pmem::Error| e.to_string();
    let found = keys.iter().map(|key| (name(*key), tree.get(*key).map_err(text))).collect();
    let range = tree.range(Unbounded, Unbounded, 99).map_err(text);
    let back = tree.range_back(Unbounded, Unbounded, 99).map_err(text);
    (found, range, back)
}
