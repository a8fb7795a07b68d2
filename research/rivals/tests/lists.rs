//! The skip list and the uTree: what any index must do, and what each change costs.

mod tally;

use std::ops::Bound::Unbounded;
use std::sync::Arc;

use everleaf_crash_check::conformance::Suite;
use everleaf_pmem::{Dram, Geometry, Medium};
use everleaf_rivals::list::Above;
use everleaf_rivals::skiplist::Towers;
use everleaf_rivals::utree::Entries;
use everleaf_rivals::{AsPublished, List, Sound, Version};
use everleaf_testing::Rng;
use everleaf_tree::{INDEX_ANCHOR, Index};
use tally::{Cost, Tally};

fn made<M: Medium, V: Version, A: Above>(medium: M) -> List<M, V, A> {
    let pool = List::<M, V, A>::format_pool(medium).expect("formats");
    List::create(Arc::new(pool), INDEX_ANCHOR).expect("an empty pool")
}

fn conforms<V: Version, A: Above>(slots: u32, threads: usize) {
    let suite = Suite { keys: 300, threads, ..Suite::default() };
    let make = || {
        let medium = Dram::new(Geometry::new(slots).expect("a power of two"), 1 << 11);
        made::<_, V, A>(medium.expect("memory"))
    };
    let reboot = |list: List<Dram, V, A>| {
        let pool = Arc::clone(list.pool());
        let before = list.range(Unbounded, Unbounded, usize::MAX).expect("reads").len() as u64;
        drop(list);
        let (list, opened) = List::open(pool, INDEX_ANCHOR).expect("opens");
        assert_eq!((opened.nodes, opened.dropped), (before, 0));
        list
    };
    suite.run(make, reboot).expect("conforms");
}

/// By one thread, the uTree: with more, its removes lose inserts.
#[test]
fn conform_as_published() {
    conforms::<AsPublished, Towers>(8, 3);
    conforms::<AsPublished, Entries>(8, 1);
}

#[test]
fn conform_mended() {
    for slots in [4, 32] {
        conforms::<Sound, Towers>(slots, 3);
        conforms::<Sound, Entries>(slots, 3);
    }
}

fn costs<V: Version, A: Above>() {
    let list = made::<_, V, A>(Tally::new(8, 1 << 10));
    let m = list.pool().medium();
    let cost = |lines, fences| Cost { lines, fences };
    let mut rng = Rng(1);
    let keys: Vec<u64> = (0..1000).map(|_| rng.next()).collect();
    let has = |bug| A::BUGS.contains(bug) && V::has(bug);
    for (i, key) in keys.iter().enumerate() {
        let expected = if i == 0 && has('b') { cost(0, 0) } else { cost(2, 2) };
        assert_eq!(m.of(|| assert_eq!(list.insert(*key, 1).expect("space"), None)), expected);
    }
    let removed = if has('c') { cost(1, 1) } else { cost(2, 2) };
    let update = |key: u64| m.of(|| assert_eq!(list.update(key, 2).expect("no error"), Some(1)));
    let insert = |key: u64| m.of(|| assert_eq!(list.insert(key, 3).expect("no error"), Some(2)));
    let remove = |key: u64| m.of(|| assert_eq!(list.remove(key).expect("no error"), Some(3)));
    for key in keys {
        assert_eq!([update(key), insert(key), remove(key)], [cost(1, 1), cost(1, 1), removed]);
        assert_eq!(m.of(|| assert_eq!(list.remove(key).expect("no error"), None)), cost(0, 0));
    }
    assert_eq!(list.first().expect("reads"), None);
    // Four nodes in each of the pages.
    let stats = list.pool().stats().expect("a map");
    assert_eq!(stats.nodes, 250);
    assert!(m.allocator().lines >= 250);
    // Nodes that were removed are used again.
    (0..990).for_each(|key| assert_eq!(list.insert(key, key).expect("space"), None));
    assert_eq!(list.pool().stats().expect("a map").nodes, 250);
}

#[test]
fn each_change_costs_two_lines_or_one() {
    costs::<AsPublished, Towers>();
    costs::<Sound, Towers>();
    costs::<AsPublished, Entries>();
    costs::<Sound, Entries>();
}
