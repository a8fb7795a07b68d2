//! BD+Tree beside a map, across epochs and ends of the process.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Included, Unbounded};
use std::sync::Arc;

use everleaf_pmem::{Buffered, BufferedOptions, Counted, Dram, Geometry, Medium, Sim};
use everleaf_tree::hybrid::{Hybrid, Rebuild};
use everleaf_tree::{BdTree, INDEX_ANCHOR, Index};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

fn buffered<M: Medium>(medium: M) -> Buffered<M> {
    Buffered::new(medium, &BufferedOptions::default()).expect("valid options")
}

fn geometry(slots: u32) -> Geometry {
    Geometry::new(slots).expect("a power of two")
}

fn create<M: Medium>(medium: M) -> BdTree<M> {
    let pool = Hybrid::format_pool(buffered(medium)).expect("room");
    Hybrid::create(Arc::new(pool), INDEX_ANCHOR).expect("room")
}

fn reopen(image: &[u64], slots: u32, pages: u32) -> BdTree<Sim> {
    let sim = Sim::from_image(geometry(slots), pages, image).expect("memory");
    let pool = Hybrid::open_pool(buffered(sim)).expect("a pool");
    let (tree, _) =
        Hybrid::open(Arc::new(pool), INDEX_ANCHOR, &Rebuild::default()).expect("a sound tree");
    tree
}

fn entries(tree: &impl Index) -> Vec<(u64, u64)> {
    tree.range(Unbounded, Unbounded, usize::MAX).expect("no fault")
}

#[test]
fn random_operations_over_many_epochs_answer_as_a_map_does() {
    for slots in [4, 8, 32, 64] {
        let seed = 7 + u64::from(slots);
        println!("{slots} slots, seed {seed}");
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let tree = create(Dram::new(geometry(slots), 4000).expect("memory"));
        let mut map = BTreeMap::new();
        for i in 0..60_000u64 {
            let key = rng.random_range(0..2000u64).wrapping_mul(0x0040_0000_0000_0001);
            match rng.random_range(0..10) {
                0..5 => assert_eq!(tree.insert(key, i).expect("room"), map.insert(key, i)),
                5..8 => assert_eq!(Index::remove(&tree, key).expect("no fault"), map.remove(&key)),
                8 => assert_eq!(tree.get(key).expect("no fault"), map.get(&key).copied()),
                _ => {
                    let (a, b) = (key, rng.random::<u64>());
                    let (from, to) = (Included(a.min(b)), Excluded(a.max(b).max(1)));
                    if a != b {
                        let want: Vec<_> = map.range((from, to)).map(|(k, v)| (*k, *v)).collect();
                        let up = tree.range(from, to, 50).expect("no fault");
                        assert_eq!(up, want[..want.len().min(50)]);
                        let down = tree.range_back(from, to, 50).expect("no fault");
                        assert_eq!(down, want.iter().rev().take(50).copied().collect::<Vec<_>>());
                    }
                }
            }
            if i % 500 == 499 {
                tree.medium().tick().expect("no fault");
                tree.reclaim_empty().expect("no fault");
            }
        }
        assert_eq!(entries(&tree), map.into_iter().collect::<Vec<_>>());
        let report = tree.check().expect("a map");
        assert!(report.damages.is_empty(), "{:?}", report.damages);
        assert_eq!((report.missing_entries, report.leaked.len()), (0, 0));
    }
}

#[test]
fn a_reopened_tree_is_at_the_end_of_the_last_durable_epoch() {
    let tree = create(Sim::new(geometry(8), 400).expect("memory"));
    let mut at_tick = Vec::new();
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(3);
    for round in 0..30u64 {
        for _ in 0..40 {
            let key = rng.random_range(0..150);
            if rng.random() {
                tree.insert(key, round).expect("room");
            } else {
                Index::remove(&tree, key).expect("no fault");
            }
        }
        if round % 5 != 4 {
            tree.medium().tick().expect("no fault");
            at_tick = entries(&tree);
        }
        // All that has been stored is there, also what belongs to the running epoch.
        let again = reopen(&tree.medium().inner().image(), 8, 400);
        assert_eq!(entries(&again), at_tick, "round {round}");
        let report = again.check().expect("a map");
        assert!(report.damages.is_empty(), "{:?}", report.damages);
        assert!(report.leaked.is_empty());
    }
}

#[test]
fn a_split_flushes_and_nothing_else_does() {
    let tree = create(Counted::new(Dram::new(geometry(32), 100).expect("memory")));
    let counts = |tree: &BdTree<Counted<Dram>>| tree.medium().inner().counts();
    let before = counts(&tree);
    // In no order: a streak would be cut at its end.
    for key in 0..32 {
        tree.insert(key * 5 % 32, key).expect("room");
    }
    for key in 0..32 {
        tree.insert(key, key + 1).expect("room");
    }
    assert_eq!((counts(&tree) - before).flushes, 0, "in place, in the same epoch");
    tree.medium().tick().expect("no fault");
    // Line 0 and the 8 lines of slots, and the epoch's word.
    assert_eq!((counts(&tree) - before).flushes, 9 + 1);
    assert_eq!((counts(&tree) - before).fences, 2);
    let before = counts(&tree);
    tree.insert(99, 99).expect("room");
    // The map's byte; half of the slots (4 lines) and the header; the old header.
    assert_eq!(((counts(&tree) - before).flushes, (counts(&tree) - before).fences), (7, 3));
    let before = counts(&tree);
    tree.medium().tick().expect("no fault");
    // The new entry's line and its header; the old header, which the step touched first.
    assert_eq!((counts(&tree) - before).flushes, 3 + 1);
}

#[test]
fn a_full_pool_refuses_new_keys_takes_updates_and_gives_room_back() {
    let tree = create(Dram::new(geometry(4), 24).expect("memory"));
    let full = (0..).find(|key| tree.insert(*key, *key).is_err()).expect("it ends");
    assert!(full > 20, "{full} keys in 22 leaves");
    // Ascending keys leave the last leaf full, and updates need a slot, too.
    let full = full - 2;
    for key in full..full + 2 {
        Index::remove(&tree, key).expect("no room is needed");
    }
    for round in 0..20 {
        for key in 0..full {
            assert!(tree.insert(key, round).expect("ends of epochs make room").is_some());
        }
    }
    let refused = (full..).find(|key| tree.insert(*key, 19).is_err()).expect("it ends");
    assert!(refused <= full + 4);
    assert_eq!(entries(&tree), (0..refused).map(|key| (key, 19)).collect::<Vec<_>>());
    for key in 0..refused {
        Index::remove(&tree, key).expect("no room is needed");
    }
    for key in 0..full {
        tree.insert(!key, key).expect("the leaves are free again");
    }
    let report = tree.check().expect("a map");
    assert!(report.damages.is_empty() && report.leaked.is_empty(), "{report:?}");
    assert_eq!(report.entries, full);
}

#[test]
fn leaves_that_are_emptied_again_and_again_are_listed_once() {
    let tree = create(Dram::new(geometry(4), 100).expect("memory"));
    for key in 0..40 {
        tree.insert(key, 0).expect("room");
    }
    for _ in 0..100 {
        for key in 0..40 {
            Index::remove(&tree, key).expect("no fault");
        }
        for key in 0..40 {
            tree.insert(key, 0).expect("room");
        }
    }
    let leaves = tree.check().expect("a map").leaves;
    assert!(tree.waiting_empty() as u64 <= leaves, "{} of {leaves}", tree.waiting_empty());
    assert_eq!(tree.reclaim_empty().expect("no fault"), 0, "they are in use");
    assert_eq!(tree.waiting_empty(), 0);
}

#[test]
fn a_key_has_three_instances_at_most_and_one_when_it_is_left_alone() {
    let tree = create(Dram::new(geometry(4), 10).expect("memory"));
    let instances = |tree: &BdTree<Dram>| tree.check().expect("a map").instances;
    for epoch in 1..20u64 {
        for value in 0..5 {
            tree.insert(0, value).expect("room");
        }
        assert_eq!(instances(&tree), epoch.min(3), "in epoch {epoch}");
        tree.medium().tick().expect("no fault");
    }
    for left in [2, 1, 1] {
        assert_eq!(instances(&tree), left);
        tree.medium().tick().expect("no fault");
    }
    assert_eq!(tree.check().expect("a map").leaves, 1, "no split was needed");
}
