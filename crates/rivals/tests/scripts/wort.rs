//! WORT: small scripts, and every crash of them.

use std::ops::Bound::Unbounded;
use std::sync::Arc;

use everleaf_check::{Coverage, Durable, Explorer, Failure, Persistency, Tested};
use everleaf_pmem::Geometry;
use everleaf_pool::Pool;
use everleaf_rivals::{Version, Wort};
use everleaf_tree::{INDEX_ANCHOR, Index};

pub use super::ops::{Insert, Op, Remove, Update};
use super::ops::{apply, keys};

type Tree<V> = Wort<Tested, V>;
/// What an entry is found to be: its value, none, or an error.
type Found = Result<Option<u64>, String>;
type Pairs = Result<Vec<(u64, u64)>, String>;
/// What searches and both ways of ranges find.
type State = (Vec<(String, Found)>, Pairs, Pairs);

fn open<V: Version>(medium: Tested) -> Tree<V> {
    let is_unmade = Pool::is_unmade(&medium).expect("two pages");
    let make = if is_unmade { Tree::<V>::format_pool } else { Tree::<V>::open_pool };
    let pool = Arc::new(make(medium).expect("a pool"));
    let (tree, opened) = Tree::<V>::open(Arc::clone(&pool), INDEX_ANCHOR).expect("opens");
    let pages = u64::from(pool.stats().expect("a map").nodes);
    let least = opened.nodes + opened.leaves.div_ceil(8);
    assert!((least..=opened.nodes + opened.leaves).contains(&pages), "{pages}: {opened:?}");
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
        let found: Vec<(String, Found)> =
            keys.iter().map(|key| (format!("{key:#x}"), tree.get(*key).map_err(text))).collect();
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

/// Each case of an insert, with short prefixes and with prefixes that the header keeps in part.
pub const INSERTS: [Op; 9] = [
    Insert(0x1230 << 48),
    Insert(0x1234 << 48),
    Insert(0x1237 << 48),
    Insert(0x1500 << 48),
    Update(0x1234 << 48),
    Insert(0xabcd_ef01_2345_6780),
    Insert(0xabcd_ef01_2345_6781),
    Insert(0xabcd_ef01_9345_6781),
    Insert(0xabce << 48),
];

/// Removes from nodes that keep two children, and cells that are used again.
pub const REMOVES: [Op; 7] = [
    Insert(0x1230 << 48),
    Insert(0x1234 << 48),
    Insert(0x1237 << 48),
    Remove(0x1234 << 48),
    Insert(0x1238 << 48),
    Insert(0x1500 << 48),
    Remove(0x1230 << 48),
];

/// An insert parts the prefix of a node in which a remove has left one child.
pub const ONE_CHILD: [Op; 5] = [
    Insert(0x1230 << 48),
    Insert(0x1234 << 48),
    Remove(0x1234 << 48),
    Insert(0x1500 << 48),
    Insert(0x1234 << 48),
];

/// The same with a prefix of which the header has not all, and with nothing left below it.
pub const NO_CHILD: [Op; 8] = [
    Insert(0xabcd_ef01_2345_6780),
    Insert(0xabcd_ef01_2345_6781),
    Remove(0xabcd_ef01_2345_6781),
    Insert(0xabcd_ef01_9345_6781),
    Remove(0xabcd_ef01_2345_6780),
    Insert(0xabce << 48),
    Insert(0xabcd_ef01_2355_6781),
    Insert(0xabcd_ef01_2345_6781),
];
