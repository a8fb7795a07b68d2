//! NBTree without a crash: its source's bugs that need none, a model, and how full leaves are.

use std::collections::BTreeMap;
use std::ops::Bound::Unbounded;

use everleaf_pmem::{Dram, Geometry};
use everleaf_rivals::{AsPublished, NbTree, Only, Sound, Version};
use everleaf_testing::Rng;
use everleaf_tree::Index;

fn made<V: Version>(slots: u32, pages: u32) -> NbTree<Dram, V> {
    let geometry = Geometry::new(slots).expect("a power of two");
    NbTree::on(Dram::new(geometry, pages).expect("memory")).expect("space")
}

/// The value of the first key after 32 inserts from 1 on.
fn first_of_32<V: Version>(value: u64) -> Option<u64> {
    let tree = made::<V>(32, 64);
    (1..=32).for_each(|key| assert_eq!(tree.insert(key, value).expect("room"), None));
    assert_eq!(tree.splits(), 1);
    tree.get(1).expect("it reads")
}

#[test]
fn a_split_marks_values_as_published() {
    assert_eq!(first_of_32::<Only<'b'>>(7), Some(3 << 62 | 7));
    assert_eq!(first_of_32::<AsPublished>(7), Some(3 << 62 | 7));
    for value in [0, 7, u64::MAX] {
        assert_eq!(first_of_32::<Sound>(value), Some(value));
    }
}

#[test]
fn key_0_is_dropped_by_a_split_and_stays_when_it_is_removed_as_published() {
    fn after<V: Version>() -> [Option<u64>; 3] {
        let tree = made::<V>(32, 64);
        (0..31).for_each(|key| assert_eq!(tree.insert(key, key + 1).expect("room"), None));
        let before = tree.get(0).expect("it reads");
        (31..40).for_each(|key| assert_eq!(tree.insert(key, key + 1).expect("room"), None));
        assert_eq!(tree.splits(), 1);
        let split = tree.get(0).expect("it reads");
        tree.insert(0, 9).expect("room");
        tree.remove(0).expect("it removes");
        [before, split, tree.get(0).expect("it reads")]
    }
    assert_eq!(after::<Only<'c'>>(), [Some(1), None, Some(9)]);
    assert_eq!(after::<AsPublished>(), [Some(1), None, Some(9)]);
    assert_eq!(after::<Sound>(), [Some(1), Some(1), None]);
}

/// Any keys and any values against a model, opened anew again and again.
#[test]
fn a_model_agrees() {
    for slots in [4, 8, 32] {
        let (mut tree, mut model, mut rng) =
            (made::<Sound>(slots, 1 << 12), BTreeMap::new(), Rng(slots.into()));
        for turn in 0..20_000 {
            let of = rng.next();
            let key = match of % 8 {
                0 => 0,
                1 => u64::MAX,
                2 => u64::MAX - of / 8 % 50,
                _ => of / 8 % 300,
            };
            let value = [0, u64::MAX, of, 1 << 62][(of >> 20) as usize % 4];
            let expected = model.get(&key).copied();
            let old = match of >> 40 & 3 {
                0 => {
                    model.remove(&key);
                    tree.remove(key)
                }
                1 => {
                    model.entry(key).and_modify(|old| *old = value);
                    tree.update(key, value)
                }
                _ => {
                    model.insert(key, value);
                    tree.insert(key, value)
                }
            };
            assert_eq!(old.expect("room"), expected, "{slots} slots, turn {turn}, key {key}");
            if turn % 500 == 0 {
                let all: Vec<_> = model.iter().map(|(key, value)| (*key, *value)).collect();
                let mut back = tree.range_back(Unbounded, Unbounded, usize::MAX).expect("it reads");
                back.reverse();
                assert_eq!(tree.range(Unbounded, Unbounded, usize::MAX).expect("it reads"), all);
                assert_eq!(back, all);
                let pool = std::sync::Arc::clone(tree.pool());
                drop(tree);
                tree = NbTree::open(pool, everleaf_pool::CATALOG_ANCHOR).expect("it opens");
            }
        }
        assert!(tree.rebuilt().leaves > 4, "{:?}", tree.rebuilt());
    }
}

/// Leaves are copied when their places were used, however few pairs they have, and are never merged: what that makes of
/// a tree that takes out as many keys as it takes in.
#[test]
fn leaves_that_are_inserted_into_and_removed_from_have_few_pairs() {
    const KEYS: u64 = 10_000;
    let tree = made::<Sound>(32, 1 << 14);
    let mut rng = Rng(1);
    let mut keys: Vec<u64> = (0..KEYS).map(|_| rng.next()).collect();
    keys.iter().for_each(|key| assert_eq!(tree.insert(*key, 1).expect("room"), None));
    let pairs = |tree: &NbTree<Dram, Sound>| {
        KEYS as f64 / f64::from(tree.pool().stats().expect("a map").nodes)
    };
    let grown = pairs(&tree);
    for turn in 1..=20 * KEYS {
        let (at, key) = (rng.next() % KEYS, rng.next());
        let old = std::mem::replace(&mut keys[at as usize], key);
        assert_eq!(tree.remove(old).expect("it removes"), Some(1));
        assert_eq!(tree.insert(key, 1).expect("room"), None);
        if turn % (4 * KEYS) == 0 {
            println!("{grown:.2} pairs a leaf, then {:.2}", pairs(&tree));
        }
    }
    let mixed = pairs(&tree);
    assert!((20.0..23.0).contains(&grown), "{grown}");
    assert!(mixed > 3.0, "{mixed}");
}
