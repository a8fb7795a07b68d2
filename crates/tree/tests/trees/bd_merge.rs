//! Leaves of a BD+Tree that merge: only if the tree is told so, with either neighbour, beside everything else.

use std::collections::BTreeMap;
use std::ops::Bound::Unbounded;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::bd::Bd;
use everleaf_pmem::{Dram, Geometry};
use everleaf_tree::{BdTree, Index};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// A tree of full leaves with these keys.
fn loaded(slots: u32, keys: u64, merges: bool) -> BdTree<Dram> {
    let geometry = Geometry::new(slots).expect("a power of two");
    let dram = Dram::new(geometry, 1 << 12).expect("memory");
    let tree = Bd::create(dram).expect("space").0.merging(merges);
    tree.load((0..keys).map(|key| (key, key))).expect("space");
    (0..3).for_each(|_| tree.medium().tick().expect("memory"));
    tree
}

fn remove(tree: &BdTree<Dram>, keys: impl IntoIterator<Item = u64>) {
    for key in keys {
        Index::remove(tree, key).expect("sound");
    }
}

fn leaves(tree: &BdTree<Dram>) -> u64 {
    let report = tree.check().expect("memory");
    assert_eq!(report.damages, []);
    report.leaves
}

#[test]
fn leaves_keep_their_pages_unless_the_tree_is_told_to_merge() {
    let tree = loaded(8, 32, false);
    remove(&tree, (0..32).filter(|key| key % 8 != 0));
    (0..3).for_each(|_| tree.medium().tick().expect("memory"));
    assert_eq!(
        (tree.waiting_empty(), tree.reclaim_empty().expect("sound"), leaves(&tree)),
        (0, 0, 4)
    );
}

#[test]
fn a_leaf_merges_with_either_neighbour_and_waits_for_old_versions() {
    for (kept, merged) in [([0, 1, 8, 9], "left"), ([8, 9, 16, 17], "right")] {
        let tree = loaded(8, 32, true);
        // The second leaf shrinks last.
        let sparse = (0..8).chain(16..24).chain(8..16).filter(|key| !kept.contains(key));
        let others = |key: &u64| merged == "left" && *key >= 16 || merged == "right" && *key < 8;
        remove(&tree, sparse.filter(|key| !others(key)));
        assert_eq!(tree.reclaim_empty().expect("sound"), 0, "a crash may bring its keys back");
        (0..2).for_each(|_| tree.medium().tick().expect("memory"));
        assert_eq!((tree.reclaim_empty().expect("sound"), leaves(&tree)), (1, 3), "{merged}");
        assert!(kept.iter().all(|key| tree.get(*key).expect("sound") == Some(*key)));
    }
}

#[test]
fn leaves_beside_full_ones_stay() {
    let tree = loaded(8, 24, true);
    remove(&tree, 9..16);
    (0..3).for_each(|_| tree.medium().tick().expect("memory"));
    assert_eq!(
        (tree.reclaim_empty().expect("sound"), tree.waiting_empty(), leaves(&tree)),
        (0, 0, 3)
    );
    // One that is emptied goes, whatever stands beside it, and so does what an emptied first leaf leaves to its neighbour.
    remove(&tree, [8]);
    (0..3).for_each(|_| tree.medium().tick().expect("memory"));
    assert_eq!((tree.reclaim_empty().expect("sound"), leaves(&tree)), (1, 2));
    remove(&tree, (0..8).chain(18..24));
    (0..3).for_each(|_| tree.medium().tick().expect("memory"));
    assert_eq!((tree.reclaim_empty().expect("sound"), leaves(&tree)), (1, 1));
    assert_eq!(tree.first().expect("sound"), Some((16, 16)));
}

#[test]
fn random_operations_with_merges_answer_as_a_map_does() {
    for (seed, slots) in [(1, 4), (2, 8), (3, 32), (4, 64)] {
        let tree = loaded(slots, 600, true);
        let mut model: BTreeMap<u64, u64> = (0..600).map(|key| (key, key)).collect();
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut freed = 0;
        for i in 0..30_000 {
            let key = rng.random_range(0..600);
            // It shrinks and grows in turn.
            if rng.random_bool(if i / 3000 % 2 == 0 { 0.8 } else { 0.3 }) {
                assert_eq!(Index::remove(&tree, key).expect("sound"), model.remove(&key), "{seed}");
            } else {
                assert_eq!(tree.insert(key, i).expect("space"), model.insert(key, i), "{seed}");
            }
            if i % 40 == 0 {
                tree.medium().tick().expect("memory");
                freed += tree.reclaim_empty().expect("sound");
            }
            if i % 1000 == 0 {
                let all = tree.range(Unbounded, Unbounded, usize::MAX).expect("sound");
                assert!(all.into_iter().eq(model.clone()), "seed {seed}, operation {i}");
                leaves(&tree);
            }
        }
        assert!(freed > 20, "seed {seed}: {freed} pages");
    }
}

#[test]
fn merges_run_beside_writers_and_readers() {
    let tree = loaded(8, 4000, true);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..2)
            .map(|t| {
                let tree = &tree;
                scope.spawn(move || {
                    for round in 0..3 {
                        remove(tree, (0..4000).filter(|key| key % 2 == t && key % 16 > 1));
                        for key in
                            (0..4000).filter(|key| key % 2 == t && (key % 16 > 1) && round < 2)
                        {
                            tree.insert(key, key).expect("space");
                        }
                    }
                })
            })
            .collect();
        scope.spawn(|| {
            while !done.load(Ordering::Acquire) {
                tree.medium().tick().expect("memory");
                tree.reclaim_empty().expect("sound");
            }
        });
        scope.spawn(|| {
            while !done.load(Ordering::Acquire) {
                let all = tree.range(Unbounded, Unbounded, usize::MAX).expect("sound");
                let stay = all.iter().filter(|(key, _)| key % 16 <= 1).count();
                assert_eq!(stay, 500, "keys that nobody removes");
                assert!(all.is_sorted_by(|a, b| a.0 < b.0));
            }
        });
        let ended: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
        done.store(true, Ordering::Release);
        assert!(ended.iter().all(Result::is_ok));
    });
    (0..3).for_each(|_| tree.medium().tick().expect("memory"));
    while tree.reclaim_empty().expect("sound") > 0 {}
    let report = tree.check().expect("memory");
    assert_eq!((report.damages, report.entries), (vec![], 500));
    assert!(report.leaves < 120, "{} leaves", report.leaves);
}
