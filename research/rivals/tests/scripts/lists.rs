//! The skip list and the uTree on one thread: a script, and every crash of it.

use std::sync::Arc;

use everleaf_crash_check::{Coverage, Explorer, Failure, Persistency, Tested};
use everleaf_pmem::{Geometry, Medium};
use everleaf_rivals::list::Above;
use everleaf_rivals::{List, Version};
use everleaf_tree::INDEX_ANCHOR;

pub use super::ops::{Insert, Op, Remove, Update};
use super::ops::{Script, Whole, pool, script, whole};

/// Pages of a pool.
pub const PAGES: u32 = 16;

/// Slots of a page.
const SLOTS: u32 = 8;

/// The shape of the pages.
pub fn geometry() -> Geometry {
    Geometry::new(SLOTS).expect("a power of two")
}

/// Opens a list, or makes it if there is none.
pub fn open<M: Medium, V: Version, A: Above>(medium: M) -> List<M, V, A> {
    let pool = pool(medium, List::<M, V, A>::format_pool, List::<M, V, A>::open_pool);
    let (list, opened) = List::open(Arc::clone(&pool), INDEX_ANCHOR).expect("opens");
    let pages = u64::from(pool.stats().expect("a map").nodes);
    assert!((opened.nodes.div_ceil(4)..=opened.nodes).contains(&pages), "{pages}: {opened:?}");
    list
}

/// A list and a script.
pub fn durable<V: Version, A: Above>(ops: &[Op]) -> Script<List<Tested, V, A>, Whole> {
    script((SLOTS, PAGES), ops, open::<Tested, V, A>, whole)
}

/// Runs the operations and crashes them and each recovery.
pub fn check<V: Version, A: Above>(
    mode: Persistency,
    ops: &[Op],
) -> Result<Coverage, Box<Failure>> {
    durable::<V, A>(ops).explorer(Explorer::new().depth(2).mode(mode)).check()
}

/// Each change, at both ends and in between, and cells that are used again.
pub const SCRIPT: [Op; 18] = [
    Insert(0),
    Insert(50),
    Insert(20),
    Insert(u64::MAX),
    Update(20),
    Insert(50),
    Remove(20),
    Remove(0),
    Insert(30),
    Insert(20),
    Remove(u64::MAX),
    Remove(50),
    Insert(60),
    Insert(70),
    Remove(30),
    Insert(10),
    Insert(40),
    Remove(60),
];

/// The first inserts of an empty list.
pub const FIRST: [Op; 2] = [Insert(7), Insert(3)];
