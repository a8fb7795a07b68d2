//! NV-tree, cut off anywhere: every legal crash image of inserts, removes, updates and of leaves that are written
//! anew, with leaves of two and of five entries.

use std::collections::BTreeSet;
use std::ops::Bound::Unbounded;
use std::sync::Arc;

use everleaf_check::{Coverage, Durable, Explorer, Failure, Tested};
use everleaf_pmem::Geometry;
use everleaf_pool::Pool;
use everleaf_rivals::{NvTree, Only, Sound, Version};
use everleaf_tree::{INDEX_ANCHOR, Index};

#[derive(Debug, Clone, Copy)]
enum Op {
    Insert(u64),
    Update(u64),
    Remove(u64),
}
use Op::{Insert, Remove, Update};

type Tree<V> = NvTree<Tested, V>;

fn open<V: Version>(medium: Tested) -> Tree<V> {
    let is_unmade = Pool::is_unmade(&medium).expect("two pages");
    let make = if is_unmade { Tree::<V>::format_pool } else { Tree::<V>::open_pool };
    let pool = Arc::new(make(medium).expect("a pool"));
    let (tree, opened) = Tree::<V>::open(Arc::clone(&pool), INDEX_ANCHOR).expect("opens");
    assert_eq!(u64::from(pool.stats().expect("a map").nodes), opened.leaves, "{opened:?}");
    tree
}

fn apply<V: Version>(tree: &mut Tree<V>, op: &Op) {
    let done = match *op {
        Insert(key) => tree.insert(key, !key),
        Update(key) => tree.update(key, key),
        Remove(key) => tree.remove(key),
    };
    done.expect("no error");
}

/// Runs the operations and crashes them and each recovery.
fn check<V: Version>(slots: u32, ops: &[Op]) -> Result<Coverage, Box<Failure>> {
    let key = |op: &Op| match *op {
        Insert(key) | Update(key) | Remove(key) => key,
    };
    let keys: BTreeSet<u64> = ops.iter().map(key).collect();
    let read = |tree: &Tree<V>| {
        let found: Vec<_> = keys.iter().map(|key| tree.get(*key).expect("reads")).collect();
        let range = tree.range(Unbounded, Unbounded, 99).expect("reads");
        let mut back = tree.range_back(Unbounded, Unbounded, 99).expect("reads");
        back.reverse();
        assert_eq!(range, back);
        (found, range)
    };
    let geometry = Geometry::new(slots).expect("a power of two");
    Durable::new(geometry, 32, ops.to_vec(), open::<V>, apply::<V>, read)
        .explorer(Explorer::new().depth(2))
        .check()
}

fn passes<V: Version>(name: &str, slots: u32, ops: &[Op]) {
    let coverage = check::<V>(slots, ops).unwrap_or_else(|failure| panic!("{name}: {failure}"));
    assert!(coverage.is_exhaustive() && coverage.nested > 0, "{name}: {coverage}");
    println!("{name}, {}: {coverage}", V::NAME);
}

/// Each change of one leaf.
const ONE_LEAF: [Op; 7] = [
    Insert(50),
    Insert(u64::MAX),
    Update(50),
    Remove(u64::MAX),
    Insert(0),
    Insert(u64::MAX),
    Remove(0),
];

/// Splits at either end and in between, a row that is full, leaves that become empty and go, and one in place of one.
const LEAVES: [Op; 24] = [
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

#[test]
fn leaves_survive_mended() {
    passes::<Sound>("one leaf of five entries", 8, &ONE_LEAF);
    passes::<Sound>("leaves of two entries", 4, &LEAVES);
    passes::<Sound>("leaves of five entries", 8, &LEAVES);
}

#[test]
fn a_leftmost_split_that_was_not_flushed_loses_all_pairs_of_the_leaf() {
    let ops: Vec<Op> = (0..6).map(Insert).collect();
    let failure = check::<Only<'a'>>(8, &ops).expect_err("a bug of the source");
    println!("a: {failure}");
    assert!(
        failure
            .message
            .contains("Insert(5), in flight: found ([None, None, None, None, None, None]")
    );
    check::<Only<'a'>>(8, &ops[..5]).expect("no split");
    check::<Sound>(8, &ops).expect("mended");
}

/// A count that is durable before the entry.
#[test]
fn an_entry_without_a_fence_is_lost() {
    let failure = check::<Only<'b'>>(8, &ONE_LEAF).expect_err("a bug of the source");
    println!("b: {failure}");
    assert!(
        failure.message.contains("Insert(50), in flight: found ([Some(0), None, None]"),
        "{failure}"
    );
}
