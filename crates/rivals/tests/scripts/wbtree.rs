//! The wB+-tree in nodes of four pairs: small scripts, and every crash of them.

use std::ops::Bound::Unbounded;
use std::sync::Arc;

use everleaf_check::{Coverage, Durable, Explorer, Failure, Persistency, Tested};
use everleaf_pmem::Geometry;
use everleaf_pool::Pool;
use everleaf_rivals::{Version, WbTree};
use everleaf_tree::{INDEX_ANCHOR, Index};

pub use super::ops::{Insert, Op, Remove, Update};
use super::ops::{apply, keys};

type Tree<V> = WbTree<Tested, V>;
/// What an entry is found to be: its value, none, or an error.
type Found = Result<Option<u64>, String>;
type Pairs = Result<Vec<(u64, u64)>, String>;
/// What searches and both ways of ranges find.
type State = (Vec<(u64, Found)>, Pairs, Pairs);

fn open<V: Version>(medium: Tested) -> Tree<V> {
    let is_unmade = Pool::is_unmade(&medium).expect("two pages");
    let make = if is_unmade { Tree::<V>::format_pool } else { Tree::<V>::open_pool };
    let pool = Arc::new(make(medium).expect("a pool"));
    let (tree, opened) = Tree::<V>::open(Arc::clone(&pool), INDEX_ANCHOR).expect("opens");
    let pages = u64::from(pool.stats().expect("a map").nodes);
    assert_eq!(pages, opened.nodes + 1, "the nodes and the log: {opened:?}");
    tree
}

/// The tree and a script.
#[expect(clippy::type_complexity, reason = "closures have no names")]
pub fn durable<V: Version>(
    ops: &[Op],
) -> Durable<Op, impl Fn(Tested) -> Tree<V>, impl Fn(&mut Tree<V>, &Op), impl Fn(&Tree<V>) -> State>
{
    let keys = keys(ops);
    let read = move |tree: &Tree<V>| {
        let text = |e: everleaf_pmem::Error| e.to_string();
        let found: Vec<(u64, Found)> =
            keys.iter().map(|key| (*key, tree.get(*key).map_err(text))).collect();
        let range = tree.range(Unbounded, Unbounded, 99).map_err(text);
        let back = tree.range_back(Unbounded, Unbounded, 99).map_err(text);
        (found, range, back)
    };
    let geometry = Geometry::new(8).expect("a power of two");
    let apply = |tree: &mut Tree<V>, op: &Op| {
        apply(tree, op);
    };
    Durable::new(geometry, 24, ops.to_vec(), open::<V>, apply, read)
}

/// Runs the operations and crashes them and each recovery.
pub fn check<V: Version>(mode: Persistency, ops: &[Op]) -> Result<Coverage, Box<Failure>> {
    durable::<V>(ops).explorer(Explorer::new().depth(2).mode(mode)).check()
}

/// Each change of one node, in all places, and pairs whose places are used again.
pub const ONE_NODE: [Op; 12] = [
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
pub const LEAVES: [Op; 11] = [
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
pub fn inner() -> Vec<Op> {
    let far = (1..=13).map(|i| Insert(10 * i));
    far.chain([Remove(100), Insert(5), Update(130), Insert(101)]).collect()
}
