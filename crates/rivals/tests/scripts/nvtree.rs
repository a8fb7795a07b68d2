//! NV-tree in small leaves: small scripts, and every crash of them.

use std::ops::Bound::Unbounded;
use std::sync::Arc;

use everleaf_check::{Coverage, Durable, Explorer, Failure, Persistency, Tested};
use everleaf_pmem::Geometry;
use everleaf_pool::Pool;
use everleaf_rivals::{NvTree, Version};
use everleaf_tree::{INDEX_ANCHOR, Index};

pub use super::ops::{Insert, Op, Remove, Update};
use super::ops::{apply, keys};

type Tree<V> = NvTree<Tested, V>;

fn open<V: Version>(medium: Tested) -> Tree<V> {
    let is_unmade = Pool::is_unmade(&medium).expect("two pages");
    let make = if is_unmade { Tree::<V>::format_pool } else { Tree::<V>::open_pool };
    let pool = Arc::new(make(medium).expect("a pool"));
    let (tree, opened) = Tree::<V>::open(Arc::clone(&pool), INDEX_ANCHOR).expect("opens");
    assert_eq!(u64::from(pool.stats().expect("a map").nodes), opened.leaves, "{opened:?}");
    tree
}

/// The tree and a script.
#[expect(clippy::type_complexity, reason = "closures have no names")]
pub fn durable<V: Version>(
    slots: u32,
    ops: &[Op],
) -> Durable<
    Op,
    impl Fn(Tested) -> Tree<V>,
    impl Fn(&mut Tree<V>, &Op),
    impl Fn(&Tree<V>) -> (Vec<Option<u64>>, Vec<(u64, u64)>),
> {
    let keys = keys(ops);
    let read = move |tree: &Tree<V>| {
        let found: Vec<_> = keys.iter().map(|key| tree.get(*key).expect("reads")).collect();
        let range = tree.range(Unbounded, Unbounded, 99).expect("reads");
        let mut back = tree.range_back(Unbounded, Unbounded, 99).expect("reads");
        back.reverse();
        assert_eq!(range, back);
        (found, range)
    };
    let geometry = Geometry::new(slots).expect("a power of two");
    let apply = |tree: &mut Tree<V>, op: &Op| {
        apply(tree, op);
    };
    Durable::new(geometry, 32, ops.to_vec(), open::<V>, apply, read)
}

/// Runs the operations and crashes them and each recovery.
pub fn check<V: Version>(
    mode: Persistency,
    slots: u32,
    ops: &[Op],
) -> Result<Coverage, Box<Failure>> {
    durable::<V>(slots, ops).explorer(Explorer::new().depth(2).mode(mode)).check()
}

/// Each change of one leaf.
pub const ONE_LEAF: [Op; 7] = [
    Insert(50),
    Insert(u64::MAX),
    Update(50),
    Remove(u64::MAX),
    Insert(0),
    Insert(u64::MAX),
    Remove(0),
];

/// Splits at either end and in between, a row that is full, leaves that become empty and go, and one in place of one.
pub const LEAVES: [Op; 24] = [
    Insert(10),
    Insert(20),
    Insert(30),
    Insert(40),
    Insert(50),
    Insert(60),
    Insert(5),
    Insert(0),
    Insert(70),
    Insert(15),
    Update(20),
    Update(20),
    Remove(30),
    Remove(40),
    Remove(50),
    Remove(60),
    Remove(70),
    Insert(35),
    Remove(0),
    Remove(5),
    Remove(10),
    Remove(15),
    Remove(20),
    Remove(35),
];

/// One insert more than a leaf of five entries has room for.
pub const SIX: [Op; 6] = [Insert(0), Insert(1), Insert(2), Insert(3), Insert(4), Insert(5)];
