//! PACTree: inner nodes that learn of new leaves later than everybody else.

use std::sync::Arc;

use everleaf_crash_check::SharedMedium;
use everleaf_pmem::{Dram, Geometry};
use everleaf_rivals::PacTree;
use everleaf_tree::Index;

type Tree = PacTree<SharedMedium<Dram>>;

fn memory() -> Arc<Dram> {
    Arc::new(Dram::new(Geometry::new(16).expect("a power of two"), 1 << 10).expect("memory"))
}

fn open(memory: &Arc<Dram>) -> Tree {
    Tree::on(SharedMedium::new(memory)).expect("it opens")
}

fn insert(tree: &Tree, keys: std::ops::Range<u64>) {
    keys.for_each(|key| assert_eq!(tree.insert(key, !key).expect("room"), None));
}

fn has(tree: &Tree, keys: u64) {
    (0..keys).for_each(|key| assert_eq!(tree.get(key).expect("it reads"), Some(!key)));
    assert_eq!(tree.get(keys).expect("it reads"), None);
}

/// Leaves of 8 pairs, and 4 logs.
#[test]
fn searches_find_leaves_that_the_inner_nodes_do_not_know() {
    let memory = memory();
    let tree = open(&memory);
    insert(&tree, 0..24);
    let splits = tree.splits();
    assert_eq!(splits, 4, "the right half of each split fills up");
    has(&tree, 24);
    assert_eq!((tree.drain().expect("memory"), tree.drain().expect("memory")), (splits, 0));
    has(&tree, 24);
}

#[test]
fn a_writer_without_a_log_tells_the_inner_nodes() {
    let memory = memory();
    let tree = open(&memory);
    insert(&tree, 0..200);
    has(&tree, 200);
    let left = tree.drain().expect("memory");
    assert!(tree.splits() > 40 && (1..=4).contains(&left), "{} of {}", left, tree.splits());
}

#[test]
fn an_open_ends_the_logs_that_are_left() {
    let memory = memory();
    let tree = open(&memory);
    insert(&tree, 0..24);
    drop(tree);
    let tree = open(&memory);
    assert_eq!((tree.rebuilt().finished, tree.rebuilt().leaves), (4, 5));
    assert_eq!((tree.rebuilt().returned, tree.drain().expect("memory")), (0, 0));
    has(&tree, 24);
    drop(tree);
    assert_eq!(open(&memory).rebuilt().finished, 0);
}

#[test]
fn the_thread_leaves_nothing_when_the_tree_is_closed() {
    let memory = memory();
    let tree = open(&memory).start().expect("a thread");
    insert(&tree, 0..1000);
    has(&tree, 1000);
    drop(tree);
    let tree = open(&memory);
    assert_eq!((tree.rebuilt().finished, tree.rebuilt().returned), (0, 0));
    has(&tree, 1000);
}
