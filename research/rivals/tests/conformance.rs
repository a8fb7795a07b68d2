//! Every rival, in both versions, does what any ordered index must.

use std::cell::RefCell;
use std::sync::Arc;

use everleaf_crash_check::SharedMedium;
use everleaf_crash_check::conformance::Suite;
use everleaf_pmem::{Dram, Geometry, Medium};
use everleaf_rivals::leaf::Leaf;
use everleaf_rivals::{
    AsPublished, Chained, FpTree, FpTree56, LbTree, NbTree, Only, PacTree, Sound,
};

/// Volatile memory that a tree is closed on and opened again, and what is done to a tree that was opened.
fn conforms_if<L: Leaf>(slots: u32, keys: usize, opened: impl Fn(Tree<L>) -> Tree<L>) {
    let geometry = Geometry::new(slots).expect("a power of two");
    let memory = || Arc::new(Dram::new(geometry, 1 << 13).expect("memory"));
    let on = |memory: &Arc<Dram>| Tree::<L>::on(SharedMedium::new(memory)).expect("space");
    let last = RefCell::new(memory());
    let make = || {
        *last.borrow_mut() = memory();
        opened(on(&last.borrow()))
    };
    let reboot = |tree: Tree<L>| {
        drop(tree);
        opened(on(&last.borrow()))
    };
    let suite = Suite { keys, ..Suite::default() };
    suite.run(make, reboot).unwrap_or_else(|what| panic!("{}, {slots} slots: {what}", L::NAME));
}

fn conforms<L: Leaf>(slots: u32, keys: usize) {
    conforms_if::<L>(slots, keys, |tree| tree);
}

type Tree<L> = Chained<SharedMedium<Dram>, L>;

/// The leaf of a type of tree.
trait Of {
    type Leaf: Leaf;
}
impl<M: Medium, L: Leaf> Of for Chained<M, L> {
    type Leaf = L;
}

#[test]
fn fptree_conforms() {
    for slots in [4, 32] {
        conforms::<<FpTree<Dram, Sound> as Of>::Leaf>(slots, 400);
        conforms::<<FpTree<Dram, AsPublished> as Of>::Leaf>(slots, 400);
    }
    conforms::<<FpTree56<Dram, Sound> as Of>::Leaf>(64, 600);
    conforms::<<FpTree56<Dram, AsPublished> as Of>::Leaf>(64, 600);
}

#[test]
fn lbtree_conforms() {
    conforms::<<LbTree<Dram, Sound> as Of>::Leaf>(16, 500);
    conforms::<<LbTree<Dram, AsPublished> as Of>::Leaf>(16, 500);
}

/// Of the source's bugs, `b` and `c` show without a crash (`nbtree.rs`).
#[test]
fn nbtree_conforms() {
    for slots in [4, 32] {
        conforms::<<NbTree<Dram, Sound> as Of>::Leaf>(slots, 500);
        conforms::<<NbTree<Dram, Only<'a'>> as Of>::Leaf>(slots, 500);
        conforms::<<NbTree<Dram, Only<'d'>> as Of>::Leaf>(slots, 500);
    }
}

/// With the thread that tells the inner nodes of new leaves, and without one.
#[test]
fn pactree_conforms() {
    type Late = <PacTree<Dram, Sound> as Of>::Leaf;
    for slots in [16, 128] {
        conforms::<Late>(slots, 600);
        conforms_if::<Late>(slots, 600, |tree| tree.start().expect("a thread"));
    }
    // Only 'a' of the source's bugs shows without a crash: as other bytes.
    conforms::<<PacTree<Dram, Only<'a'>> as Of>::Leaf>(128, 600);
}
