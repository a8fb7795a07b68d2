//! The wB+-tree, cut off anywhere: every legal crash image of inserts, removes, updates and splits of leaves and
//! inner nodes, with nodes of four pairs.

use std::collections::BTreeSet;
use std::ops::Bound::Unbounded;
use std::sync::Arc;

use everleaf_check::{Coverage, Durable, Explorer, Failure, Tested};
use everleaf_pmem::Geometry;
use everleaf_pool::Pool;
use everleaf_rivals::{AsPublished, Only, Sound, Version, WbTree};
use everleaf_tree::{INDEX_ANCHOR, Index};

#[derive(Debug, Clone, Copy)]
enum Op {
    Insert(u64),
    Update(u64),
    Remove(u64),
}
use Op::{Insert, Remove, Update};

type Tree<V> = WbTree<Tested, V>;
/// What an entry is found to be: its value, none, or an error.
type Found = Result<Option<u64>, String>;

fn open<V: Version>(medium: Tested) -> Tree<V> {
    let is_unmade = Pool::is_unmade(&medium).expect("two pages");
    let make = if is_unmade { Tree::<V>::format_pool } else { Tree::<V>::open_pool };
    let pool = Arc::new(make(medium).expect("a pool"));
    let (tree, opened) = Tree::<V>::open(Arc::clone(&pool), INDEX_ANCHOR).expect("opens");
    let pages = u64::from(pool.stats().expect("a map").nodes);
    assert_eq!(pages, opened.nodes + 1, "the nodes and the log: {opened:?}");
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
fn check<V: Version>(ops: &[Op]) -> Result<Coverage, Box<Failure>> {
    let key = |op: &Op| match *op {
        Insert(key) | Update(key) | Remove(key) => key,
    };
    let keys: BTreeSet<u64> = ops.iter().map(key).collect();
    let read = |tree: &Tree<V>| {
        let text = |e: everleaf_pmem::Error| e.to_string();
        let found: Vec<(u64, Found)> =
            keys.iter().map(|key| (*key, tree.get(*key).map_err(text))).collect();
        let range = tree.range(Unbounded, Unbounded, 99).map_err(text);
        let back = tree.range_back(Unbounded, Unbounded, 99).map_err(text);
        (found, range, back)
    };
    let geometry = Geometry::new(8).expect("a power of two");
    Durable::new(geometry, 24, ops.to_vec(), open::<V>, apply::<V>, read)
        .explorer(Explorer::new().depth(2))
        .check()
}

fn passes<V: Version>(name: &str, ops: &[Op]) {
    let coverage = check::<V>(ops).unwrap_or_else(|failure| panic!("{name}: {failure}"));
    assert!(coverage.is_exhaustive() && coverage.nested > 0, "{name}: {coverage}");
    println!("{name}, {}: {coverage}", V::NAME);
}

/// Each change of one node, in all places, and pairs whose places are used again.
const ONE_NODE: [Op; 12] = [
    Insert(50),
    Insert(u64::MAX),
    Insert(0),
    Update(50),
    Insert(20),
    Remove(50),
    Insert(60),
    Insert(60),
    Remove(0),
    Remove(u64::MAX),
    Remove(20),
    Remove(60),
];

/// A root, and splits of leaves at either end and in between.
const LEAVES: [Op; 11] = [
    Insert(10),
    Insert(20),
    Insert(30),
    Insert(40),
    Insert(50),
    Insert(60),
    Insert(70),
    Insert(11),
    Insert(12),
    Remove(70),
    Insert(35),
];

/// Enough to split the root, which is an inner node by then.
fn inner() -> Vec<Op> {
    let far = (1..=13).map(|i| Insert(10 * i));
    far.chain([Remove(100), Insert(5), Update(130), Insert(101)]).collect()
}

#[test]
fn one_node_survives_in_both_versions() {
    passes::<Sound>("one node", &ONE_NODE);
    passes::<AsPublished>("one node", &ONE_NODE);
}

#[test]
fn splits_survive_mended() {
    passes::<Sound>("leaves", &LEAVES);
    passes::<Sound>("inner nodes", &inner());
}

/// What a bug of the source does to splits of leaves.
fn loses<V: Version>(bug: &str) {
    let failure = check::<V>(&LEAVES).expect_err("a bug of the source");
    println!("{bug}: {failure}");
    assert!(failure.message.contains("Insert(50), in flight"), "at the first split: {failure}");
}

#[test]
fn a_new_node_that_was_not_flushed_loses_its_pairs() {
    loses::<Only<'a'>>("a");
}

#[test]
fn a_log_that_was_not_flushed_takes_nothing_back() {
    loses::<Only<'b'>>("b");
}

#[test]
fn a_log_that_ends_before_the_parent_has_the_node_loses_its_pairs() {
    loses::<Only<'c'>>("c");
}
