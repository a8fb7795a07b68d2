//! Random operations against `BTreeMap`, on small nodes, so that splits, merges and root changes
//! all happen. Seeds are printed; `EVERLEAF_SEED` replays one.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use everleaf_pmem::{Dram, Geometry, Medium};
use everleaf_tree::blink::{Blink, Condition};
use everleaf_tree::slots::Strings;
use everleaf_tree::slots::{
    Binary, Circular, Fingerprint, FingerprintInLeaves, Layout, Linear, Logged, Probe, Scan,
    Segment, Sentinel, SentinelWalk,
};
use everleaf_tree::{INDEX_ANCHOR, Index, StringTree, format};
use rand::{Rng, RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

fn seed() -> u64 {
    let seed = everleaf_testing::seed_or(20_261_120);
    println!("EVERLEAF_SEED={seed}");
    seed
}

fn dram(slots: u32, pages: u32) -> Dram {
    Dram::new(Geometry::new(slots).expect("valid"), pages).expect("memory")
}

/// Keys from a small set with the special ones in it.
fn word(rng: &mut impl Rng) -> u64 {
    match rng.random_range(0..10) {
        0 => 0,
        1 => u64::MAX,
        2 => (1 << 63) - rng.random_range(0..3),
        _ => rng.random_range(0..200) * 0x0101_0101_0101_0101 / 3,
    }
}

fn words_against_model<L: Layout, P: Probe>(slots: u32) {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed() + u64::from(slots));
    type Tree<L, P> = Blink<Dram, (L, P, everleaf_tree::slots::Words)>;
    let pool = Arc::new(Tree::<L, P>::format_pool(dram(slots, 4096)).expect("formats"));
    let tree = Tree::<L, P>::create(pool, INDEX_ANCHOR).expect("space");
    let mut model = BTreeMap::new();
    for step in 0..60_000 {
        let key = word(&mut rng);
        // Phases that mostly grow and mostly shrink, so that the tree gets empty again.
        let growing = step / 3000 % 2 == 0;
        match rng.random_range(0..10) {
            0..=3 if growing => {
                let value = rng.random_range(0..3);
                assert_eq!(tree.insert(key, value).expect("ok"), model.insert(key, value));
            }
            0..=4 => assert_eq!(Index::remove(&tree, key).expect("ok"), model.remove(&key)),
            5 => {
                let old = model.get(&key).copied();
                model.entry(key).and_modify(|v| *v = step);
                assert_eq!(tree.update(key, step).expect("ok"), old);
            }
            6 => {
                let (a, b) = (key, word(&mut rng));
                let want: Vec<_> = if a <= b {
                    model.range(a..b).map(|(k, v)| (*k, *v)).collect()
                } else {
                    vec![]
                };
                let got =
                    tree.range(Bound::Included(a), Bound::Excluded(b), usize::MAX).expect("ok");
                assert_eq!(got, want);
                let mut back = tree
                    .range_back(Bound::Included(a), Bound::Excluded(b), usize::MAX)
                    .expect("ok");
                back.reverse();
                assert_eq!(back, want);
            }
            7 => {
                assert_eq!(
                    Index::first(&tree).expect("ok"),
                    model.first_key_value().map(|(k, v)| (*k, *v))
                );
                assert_eq!(
                    Index::last(&tree).expect("ok"),
                    model.last_key_value().map(|(k, v)| (*k, *v))
                );
            }
            _ => assert_eq!(Index::get(&tree, key).expect("ok"), model.get(&key).copied()),
        }
    }
    let all = tree.range(Bound::Unbounded, Bound::Unbounded, usize::MAX).expect("ok");
    assert_eq!(all, model.into_iter().collect::<Vec<_>>());
}

#[test]
fn words_behave_like_btreemap_in_circular_nodes() {
    for slots in [4, 8, 32] {
        words_against_model::<Circular, Sentinel>(slots);
        words_against_model::<Circular, Fingerprint>(slots);
        words_against_model::<Circular, Binary>(slots);
        words_against_model::<Circular, Segment>(slots);
        words_against_model::<Circular, Scan>(slots);
        words_against_model::<Circular, SentinelWalk>(slots);
        words_against_model::<Circular, FingerprintInLeaves>(slots);
    }
}

#[test]
fn words_behave_like_btreemap_in_linear_nodes() {
    for slots in [4, 8, 32] {
        words_against_model::<Linear, Sentinel>(slots);
        words_against_model::<Linear, Fingerprint>(slots);
        words_against_model::<Linear, Binary>(slots);
        words_against_model::<Linear, Segment>(slots);
        words_against_model::<Linear, Scan>(slots);
        words_against_model::<Linear, SentinelWalk>(slots);
        words_against_model::<Linear, FingerprintInLeaves>(slots);
        words_against_model::<Logged<Linear>, Scan>(slots);
    }
}

/// Batches of all lengths, of few keys, so that some come twice in one, and of many, so that leaves split meanwhile.
fn batches_against_model<L: Layout, P: Probe>(slots: u32) {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed() ^ u64::from(slots));
    type Tree<L, P> = Blink<Dram, (L, P, everleaf_tree::slots::Words)>;
    let pool = Arc::new(Tree::<L, P>::format_pool(dram(slots, 4096)).expect("formats"));
    let tree = Tree::<L, P>::create(pool, INDEX_ANCHOR).expect("space");
    let mut model = BTreeMap::new();
    for step in 0..3000 {
        let growing = step / 300 % 2 == 0;
        let n = [0, 1, 15, 16, 17, 40][rng.random_range(0..6)];
        let mut keys: Vec<u64> = (0..n).map(|_| word(&mut rng)).collect();
        if step % 3 == 0 {
            keys.sort_unstable();
        }
        // Items that the lists had before stay.
        let mut found = vec![Some(1)];
        let want: Vec<Option<u64>> = if rng.random_range(0..4) == 0 {
            tree.get_many(&keys, &mut found).expect("sound");
            keys.iter().map(|key| model.get(key).copied()).collect()
        } else if growing == (rng.random_range(0..4) > 0) {
            let pairs: Vec<(u64, u64)> = keys.into_iter().zip(step * 100..).collect();
            tree.put_many(&pairs, &mut found).expect("space");
            pairs.into_iter().map(|(key, value)| model.insert(key, value)).collect()
        } else {
            tree.remove_many(&keys, &mut found).expect("sound");
            keys.iter().map(|key| model.remove(key)).collect()
        };
        assert_eq!(found, [Some(1)].into_iter().chain(want).collect::<Vec<_>>(), "step {step}");
        if step % 100 == 99 {
            let all = tree.range(Bound::Unbounded, Bound::Unbounded, usize::MAX).expect("ok");
            assert_eq!(all, model.iter().map(|(k, v)| (*k, *v)).collect::<Vec<_>>());
            assert!(tree.check().expect("reads").damages.is_empty());
        }
    }
}

#[test]
fn batches_of_words_behave_like_btreemap() {
    for slots in [4, 8, 32, 256] {
        batches_against_model::<Circular, Sentinel>(slots);
        batches_against_model::<Linear, Sentinel>(slots);
        batches_against_model::<Circular, Binary>(slots);
        batches_against_model::<Linear, Fingerprint>(slots);
    }
}

/// Strings that share prefixes, differ only in length or in trailing zeros, and are empty.
fn string(rng: &mut impl Rng) -> Vec<u8> {
    let alphabet = [0u8, 1, b'a', 255];
    let stem: &[u8] = [&b""[..], b"user/0000000000", b"a", b"\0\0"][rng.random_range(0..4)];
    let tail = rng.random_range(0..5);
    let mut s = stem.to_vec();
    s.extend((0..tail).map(|_| alphabet[rng.random_range(0..4)]));
    s
}

fn strings_against_model(slots: u32) {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed() ^ u64::from(slots));
    let pool = Arc::new(format(dram(slots, 20_000)).expect("formats"));
    let tree: StringTree<Dram> = StringTree::create(pool, INDEX_ANCHOR).expect("space");
    let mut model: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
    for step in 0..60_000u32 {
        let key = string(&mut rng);
        let growing = step / 4000 % 2 == 0;
        match rng.random_range(0..10) {
            0..=4 if growing => {
                let value = vec![step as u8; rng.random_range(0..20)];
                let put = tree.put(&key, &value, Condition::Always).expect("ok");
                assert_eq!(put.old, model.insert(key, value));
            }
            0..=5 => assert_eq!(tree.remove(&key).expect("ok").old, model.remove(&key)),
            6 => {
                let chunk = tree.chunk_up(Bound::Excluded(&key[..]), 3).expect("ok");
                let want: Vec<_> = model
                    .range::<[u8], _>((Bound::Excluded(&key[..]), Bound::Unbounded))
                    .take(chunk.entries.len())
                    .map(|(k, v)| (k.clone(), v.clone()))
                    .collect();
                assert_eq!(chunk.entries, want);
            }
            7 => {
                let chunk = tree.chunk_down(Bound::Excluded(&key[..]), 3).expect("ok");
                let want: Vec<_> = model
                    .range::<[u8], _>((Bound::Unbounded, Bound::Excluded(&key[..])))
                    .rev()
                    .take(chunk.entries.len())
                    .map(|(k, v)| (k.clone(), v.clone()))
                    .collect();
                assert_eq!(chunk.entries, want);
            }
            _ => assert_eq!(tree.get(&key).expect("ok"), model.get(&key).cloned()),
        }
    }
    let (mut all, mut from) = (Vec::new(), Some(Bound::Unbounded));
    while let Some(bound) = from {
        let chunk = tree.chunk_up(bound.as_ref().map(|k: &Vec<u8>| &k[..]), 7).expect("ok");
        all.extend(chunk.entries);
        from = chunk.next;
    }
    assert_eq!(all, model.into_iter().collect::<Vec<_>>());
}

#[test]
fn strings_behave_like_btreemap() {
    strings_against_model(8);
    strings_against_model(32);
}

#[test]
fn an_emptied_tree_gives_its_pages_back() {
    let pool = Arc::new(format(dram(8, 4096)).expect("formats"));
    let words =
        everleaf_tree::CircTree::<Dram>::create(Arc::clone(&pool), INDEX_ANCHOR).expect("space");
    let at_start = pool.stats().expect("ok");
    for round in 0..3 {
        for i in 0..3000u64 {
            words.insert(i.wrapping_mul(0x9e37_79b9_7f4a_7c15), round).expect("space");
        }
        for i in 0..3000u64 {
            assert_eq!(
                Index::remove(&words, i.wrapping_mul(0x9e37_79b9_7f4a_7c15)).expect("ok"),
                Some(round)
            );
        }
    }
    let left = pool.stats().expect("ok").nodes;
    assert!(left <= at_start.nodes + 60, "{left} nodes hold nothing");
    let _: Option<StringTree<Dram>> = None;
    let _ = Strings;
}

#[test]
fn threads_on_disjoint_keys_lose_nothing() {
    let pool = Arc::new(format(dram(8, 100_000)).expect("formats"));
    let tree = everleaf_tree::CircTree::<Dram>::create(pool, INDEX_ANCHOR).expect("space");
    let tree = &tree;
    std::thread::scope(|scope| {
        for t in 0..4u64 {
            scope.spawn(move || {
                let mut rng = Xoshiro256PlusPlus::seed_from_u64(t);
                let mut model = BTreeMap::new();
                for i in 0..40_000u64 {
                    let key = rng.random_range(0..5000u64) * 4 + t;
                    if (i / 5000) % 2 == 0 || rng.random_bool(0.3) {
                        assert_eq!(tree.insert(key, i).expect("ok"), model.insert(key, i));
                    } else {
                        assert_eq!(Index::remove(tree, key).expect("ok"), model.remove(&key));
                    }
                    let probe = rng.random_range(0..5000u64) * 4 + t;
                    assert_eq!(Index::get(tree, probe).expect("ok"), model.get(&probe).copied());
                    if i % 1000 == 0 {
                        let all =
                            tree.range(Bound::Unbounded, Bound::Unbounded, usize::MAX).expect("ok");
                        assert!(all.is_sorted_by(|a, b| a.0 < b.0));
                    }
                }
            });
        }
    });
    let _ = tree.pool().medium().geometry();
}
