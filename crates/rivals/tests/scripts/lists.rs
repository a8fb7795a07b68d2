//! The skip list and the uTree on one thread: a script, and every crash of it.

use std::ops::Bound::Unbounded;
use std::sync::Arc;

use everleaf_check::{Coverage, Durable, Explorer, Failure, Persistency, Tested};
use everleaf_pmem::{Geometry, Medium};
use everleaf_pool::Pool;
use everleaf_rivals::list::Above;
use everleaf_rivals::{List, Version};
use everleaf_tree::{INDEX_ANCHOR, Index};

use super::ops::keys;
pub use super::ops::{Insert, Op, Remove, Update, apply};

/// Pages of a pool.
pub const PAGES: u32 = 16;

/// Nodes of 8 slots.
pub fn geometry() -> Geometry {
    Geometry::new(8).expect("a power of two")
}

/// Opens a list, or makes it if there is none.
pub fn open<M: Medium, V: Version, A: Above>(medium: M) -> List<M, V, A> {
    let is_unmade = Pool::is_unmade(&medium).expect("two pages");
    let make = if is_unmade { List::<M, V, A>::format_pool } else { List::<M, V, A>::open_pool };
    let pool = Arc::new(make(medium).expect("a pool"));
    let (list, opened) = List::open(Arc::clone(&pool), INDEX_ANCHOR).expect("opens");
    let pages = u64::from(pool.stats().expect("a map").nodes);
    assert!((opened.nodes.div_ceil(4)..=opened.nodes).contains(&pages), "{pages}: {opened:?}");
    list
}

/// A list and a script.
#[expect(clippy::type_complexity, reason = "closures have no names")]
pub fn durable<V: Version, A: Above>(
    ops: &[Op],
) -> Durable<
    Op,
    impl Fn(Tested) -> List<Tested, V, A>,
    impl Fn(&mut List<Tested, V, A>, &Op),
    impl Fn(&List<Tested, V, A>) -> (Vec<Option<u64>>, Vec<(u64, u64)>),
> {
    let keys = keys(ops);
    let read = move |list: &List<Tested, V, A>| {
        let found: Vec<_> = keys.iter().map(|key| list.get(*key).expect("reads")).collect();
        let range = list.range(Unbounded, Unbounded, 99).expect("reads");
        let mut back = list.range_back(Unbounded, Unbounded, 99).expect("reads");
        back.reverse();
        assert_eq!(range, back);
        (found, range)
    };
    let apply = |list: &mut List<Tested, V, A>, op: &Op| {
        apply(list, op);
    };
    Durable::new(geometry(), PAGES, ops.to_vec(), open::<Tested, V, A>, apply, read)
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
