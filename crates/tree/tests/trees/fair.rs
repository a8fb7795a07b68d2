//! FAIR's lazy completion: what a crash leaves between the steps of a split serves all reads as it
//! is, the next writer to pass completes it, and opening does none of that work.

use std::collections::BTreeMap;
use std::ops::Bound::Unbounded;
use std::sync::Arc;

use crate::common::sim;
use crate::tree::{Kind, images};
use everleaf_crash_check::{Recording, SharedMedium, Trace};
use everleaf_pmem::{Counted, Counts, Dram, Medium, Sim};
use everleaf_pool::kind;
use everleaf_tree::{CircTree, FastFair, FastFairS, FastLogging, Index, StringTree};

/// Keys in no order, all different.
fn key(i: u64) -> u64 {
    i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 16
}

type Model = BTreeMap<u64, u64>;

/// A tree of so many keys, and an operation on it.
fn recorded<T: Kind>(
    keys: u64,
    pages: u32,
    operation: impl Fn(&T::Tree<SharedMedium<Sim>>),
) -> Recording {
    let sim = sim(4, pages);
    let tree = T::make(SharedMedium::new(&sim)).expect("space");
    for i in 0..keys {
        tree.insert(key(i), i).expect("space");
    }
    let trace = Trace::new(&sim);
    operation(&tree);
    trace.finish()
}

fn model(keys: u64) -> Model {
    (0..keys).map(|i| (key(i), i)).collect()
}

/// Reads everything in every way.
fn reads<T: Kind, M: Medium>(tree: &T::Tree<M>, model: &Model) {
    for (key, value) in model {
        assert_eq!(tree.get(*key).expect("memory"), Some(*value));
        assert_eq!(tree.get(key ^ 1).expect("memory"), model.get(&(key ^ 1)).copied());
    }
    let pairs: Vec<_> = model.iter().map(|(k, v)| (*k, *v)).collect();
    assert_eq!(tree.range(Unbounded, Unbounded, usize::MAX).expect("memory"), pairs);
    let mut back = tree.range_back(Unbounded, Unbounded, usize::MAX).expect("memory");
    back.reverse();
    assert_eq!(back, pairs);
}

/// How much is incomplete: nodes that no parent knows, and more than one node on the top level.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
struct Incomplete {
    entries: u64,
    roots: u64,
}

fn incomplete<T: Kind, M: Medium>(tree: &T::Tree<M>) -> Incomplete {
    let report = T::check(tree).expect("sound");
    let roots = report.nodes_by_level.last().expect("a root") - 1;
    Incomplete { entries: report.missing_entries, roots }
}

/// Crashes an insert that splits at each of its stores, and looks at the states between the steps
/// of the split: they serve reads, and writing to each key once completes them.
fn splits_are_completed_by_writers<T: Kind>() {
    let mut met = Incomplete::default();
    for keys in 4..40 {
        let record = recorded::<T>(keys, T::PAGES, |tree| {
            tree.insert(key(keys), keys).expect("space");
        });
        let (before, after) = (model(keys), model(keys + 1));
        for sim in images(&record) {
            let tree = T::open(SharedMedium::new(&sim)).expect("opens");
            let found = incomplete::<T, _>(&tree);
            if found == Incomplete::default() {
                continue;
            }
            met.entries += found.entries;
            met.roots += found.roots;
            // Reading completes nothing.
            let done = tree.get(key(keys)).expect("memory").is_some();
            let mut model = if done { after.clone() } else { before.clone() };
            reads::<T, _>(&tree, &model);
            assert_eq!(incomplete::<T, _>(&tree), found);
            // Nor does opening again.
            drop(tree);
            let tree = T::open(SharedMedium::new(&sim)).expect("opens");
            assert_eq!(incomplete::<T, _>(&tree), found);
            for (key, value) in &mut model {
                *value += 1000;
                assert_eq!(tree.insert(*key, *value).expect("space"), Some(*value - 1000));
            }
            assert_eq!(incomplete::<T, _>(&tree), Incomplete::default(), "{keys} keys");
            reads::<T, _>(&tree, &model);
        }
    }
    println!("{}: met {met:?}", T::name());
    assert!(met.entries > 20 && met.roots > 2, "{met:?}");
}

#[test]
fn writers_complete_splits_of_circular_nodes() {
    splits_are_completed_by_writers::<CircTree<Dram>>();
    splits_are_completed_by_writers::<StringTree<Dram>>();
}

#[test]
fn writers_complete_splits_of_linear_nodes() {
    splits_are_completed_by_writers::<FastFair<Dram>>();
    splits_are_completed_by_writers::<FastLogging<Dram>>();
}

/// The cost of an open: calls at the door, and pages looked at that are not the map's.
fn open_costs<T: Kind>(sim: &Arc<Sim>) -> (Counts, usize) {
    let tree = T::open(Counted::new(SharedMedium::new(sim))).expect("opens");
    let pool = T::pool(&tree);
    let counts = pool.medium().counts();
    let ready = |no: &u32| sim.page(*no).expect("inside").latch().is_ready();
    let touched: Vec<u32> = (0..sim.limit()).filter(ready).collect();
    let owners = pool.map_bytes().expect("memory");
    let of_trees = |no: &&u32| !matches!(owners.get(**no as usize), None | Some(&kind::MAP));
    (counts, touched.iter().filter(of_trees).count())
}

/// The dearest open after any crash of an insert that splits and a remove that merges, in a tree of
/// so many keys.
fn dearest_open<T: Kind>(keys: u64, pages: u32) -> (Counts, usize) {
    let record = recorded::<T>(keys, pages, |tree| {
        for i in keys..keys + 4 {
            tree.insert(key(i), i).expect("space");
        }
        // Neighbours, so that their leaves merge.
        let first = tree.range(Unbounded, Unbounded, 12).expect("memory");
        for (key, _) in first {
            tree.remove(key).expect("memory");
        }
    });
    let mut dearest = (Counts::default(), 0);
    let start = Sim::from_image(record.geometry, record.limit, &record.initial);
    let (counts, touched) = open_costs::<T>(&Arc::new(start.expect("memory")));
    assert_eq!(counts, Counts::default(), "opening a sound tree stores nothing");
    assert!(touched <= 2, "opening a sound tree reads its anchor and its log: {touched} pages");
    for sim in images(&record) {
        let (counts, touched) = open_costs::<T>(&sim);
        dearest.0.stores = dearest.0.stores.max(counts.stores);
        dearest.0.flushes = dearest.0.flushes.max(counts.flushes);
        dearest.0.fences = dearest.0.fences.max(counts.fences);
        dearest.1 = dearest.1.max(touched);
    }
    dearest
}

/// Opening after a crash costs what one operation does, whatever the tree holds: the log is copied
/// back and a merge is completed on the way to its parent.
fn opening_is_instant<T: Kind>() {
    let (small, large) = (dearest_open::<T>(60, 512), dearest_open::<T>(1500, 8192));
    println!("{}: at most {small:?}, of 25 times the keys {large:?}", T::name());
    for (counts, touched) in [small, large] {
        assert!(counts.stores > 0, "a merge is completed at open");
        assert!(counts.stores <= 40 && counts.flushes <= 20, "{counts:?}");
        assert!(touched <= 40, "{touched} pages");
    }
}

#[test]
fn opening_does_no_work_for_each_node() {
    opening_is_instant::<CircTree<Dram>>();
    opening_is_instant::<FastFairS<Dram>>();
    opening_is_instant::<FastLogging<Dram>>();
    opening_is_instant::<StringTree<Dram>>();
}
