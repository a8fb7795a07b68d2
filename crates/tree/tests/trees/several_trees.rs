//! Several trees in one pool on strict memory: what a crash left of one must not hurt another that
//! is opened, and written to, before it.

use std::ops::Bound::Unbounded;
use std::sync::Arc;

use crate::common::sim;
use crate::tree::{Kind, images};
use everleaf_crash_check::{SharedMedium, Trace};
use everleaf_pmem::{Dram, PageNo, Sim};
use everleaf_pool::Pool;
use everleaf_tree::blink::Blink;
use everleaf_tree::{CircTree, FastFairS, FastLogging, INDEX_ANCHOR, Index, StringTree};

type Strict = SharedMedium<Sim>;

fn open<T: Kind>(pool: &Arc<Pool<Strict>>, anchor: PageNo) -> T::Tree<Strict> {
    let tree = Blink::<_, (T::L, T::P, T::K)>::open(Arc::clone(pool), anchor);
    T::wrap(tree.expect("opens"))
}

fn entries(tree: &impl Index) -> Vec<(u64, u64)> {
    tree.range(Unbounded, Unbounded, usize::MAX).expect("memory")
}

/// Crashes splits and merges of one tree at each store; then opens the other one first and has it
/// use up free pages.
fn one_tree_waits_for_another<T: Kind>() {
    let sim = sim(4, 512);
    let first = T::make(SharedMedium::new(&sim)).expect("space");
    let pool = Arc::clone(T::pool(&first));
    let anchor = Blink::<_, (T::L, T::P, T::K)>::new_anchor(&pool).expect("space");
    let second = open::<T>(&pool, anchor);
    for key in 0..24 {
        first.insert(key, key).expect("space");
        second.insert(100 * key, key).expect("space");
    }
    let (trace, mut states) = (Trace::new(&sim), vec![entries(&first)]);
    for key in 3..15 {
        first.remove(key).expect("memory");
        states.push(entries(&first));
    }
    for key in 24..30 {
        first.insert(key, key).expect("space");
        states.push(entries(&first));
    }
    for sim in images(&trace.finish()) {
        let pool = T::open_pool(SharedMedium::new(&sim)).expect("opens");
        let second = open::<T>(&pool, anchor);
        for key in 0..24 {
            second.insert(100 * key + 1, key).expect("space");
        }
        let first = open::<T>(&pool, INDEX_ANCHOR);
        assert!(states.contains(&entries(&first)), "{:?}", entries(&first));
        for key in 40..50 {
            first.insert(key, key).expect("space");
        }
        T::check(&first).expect("the tree that crashed is sound");
        T::check(&second).expect("the tree beside it is sound");
        assert_eq!(entries(&second).len(), 48);
    }
}

#[test]
fn a_tree_whose_merge_was_cut_off_waits_for_another() {
    one_tree_waits_for_another::<CircTree<Dram>>();
    one_tree_waits_for_another::<FastFairS<Dram>>();
    one_tree_waits_for_another::<FastLogging<Dram>>();
    one_tree_waits_for_another::<StringTree<Dram>>();
}
