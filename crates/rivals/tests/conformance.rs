//! Every rival, in both versions, does what any ordered index must.

use std::sync::Arc;

use everleaf_check::SharedMedium;
use everleaf_check::conformance::Suite;
use everleaf_pmem::{Dram, Geometry, Medium};
use everleaf_rivals::leaf::Leaf;
use everleaf_rivals::{AsPublished, Chained, FpTree, FpTree56, LbTree, Sound};

/// Volatile memory that a tree is closed on and opened again.
fn conforms<L: Leaf>(slots: u32, keys: usize) {
    let geometry = Geometry::new(slots).expect("a power of two");
    let make = || {
        let memory = Arc::new(Dram::new(geometry, 1 << 13).expect("memory"));
        Chained::<SharedMedium<Dram>, L>::on(SharedMedium::new(&memory)).expect("space")
    };
    let suite = Suite { keys, ..Suite::default() };
    suite
        .run(make, |tree| tree)
        .unwrap_or_else(|what| panic!("{}, {slots} slots: {what}", L::NAME));
}

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
