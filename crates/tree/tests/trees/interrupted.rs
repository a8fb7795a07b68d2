//! Operations that end half-way, as a full pool or a crash between two steps ends them: what failed
//! has changed nothing, what succeeded is there, and a tree with missing entries serves all keys.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use everleaf_pmem::{Dram, Error, Geometry};
use everleaf_tree::blink::{Blink, Condition};
use everleaf_tree::slots::{Circular, Layout, Linear, Logged, Sentinel};
use everleaf_tree::slots::{Keys, OwnedOf, Strings, Words};
use everleaf_tree::{INDEX_ANCHOR, Leaks, leaks};
use rand::{Rng, RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::refusing::Refusing;

type Tree<L, K> = Blink<Refusing, (L, Sentinel, K)>;

/// All pairs, by scans in both directions.
fn content<L: Layout, K: Keys>(tree: &Tree<L, K>) -> Vec<(OwnedOf<K>, K::Value)>
where
    K::Value: PartialEq,
{
    let scan = |upwards: bool| {
        let (mut found, mut next) = (Vec::new(), Some(std::ops::Bound::Unbounded));
        while let Some(from) = next {
            let from = from.as_ref().map(std::borrow::Borrow::borrow);
            let chunk = if upwards { tree.chunk_up(from, 3) } else { tree.chunk_down(from, 3) };
            let chunk = chunk.expect("memory");
            found.extend(chunk.entries);
            next = chunk.next;
        }
        found
    };
    let (up, mut down) = (scan(true), scan(false));
    down.reverse();
    assert!(up == down, "{} pairs upwards, {} downwards", up.len(), down.len());
    up
}

/// Random operations of which many fail. Returns how many entries were missing at their most.
fn run<L: Layout, K: Keys>(
    seed: u64,
    key: impl Fn(&mut Xoshiro256PlusPlus) -> OwnedOf<K>,
    value: impl Fn(u64) -> (Box<K::Input>, K::Value),
) -> u64
where
    K::Key: Ord,
    K::Value: PartialEq + Clone + std::fmt::Debug,
{
    let inner = Dram::new(Geometry::new(8).expect("valid"), 4096).expect("memory");
    // The step after so many others is refused; 0: none.
    let left = Arc::new(AtomicU64::new(0));
    let steps = Arc::clone(&left);
    let medium = Refusing::new(inner, move || match steps.load(Ordering::Relaxed) {
        0 => Ok(()),
        left => {
            steps.store(left - 1, Ordering::Relaxed);
            if left == 1 { Err(Error::Full { bytes: 0 }) } else { Ok(()) }
        }
    });
    let pool = Arc::new(Tree::<L, K>::format_pool(medium).expect("formats"));
    let tree: Tree<L, K> = Blink::create(Arc::clone(&pool), INDEX_ANCHOR).expect("space");
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let (mut model, mut most) = (BTreeMap::<OwnedOf<K>, K::Value>::new(), 0);
    for i in 0..6_000u64 {
        let refused = if rng.random_bool(0.5) { rng.random_range(1..5) } else { 0 };
        left.store(refused, Ordering::Relaxed);
        let (key, growing) = (key(&mut rng), i / 1500 % 2 == 0);
        let borrowed = std::borrow::Borrow::borrow(&key);
        if rng.random_bool(if growing { 0.8 } else { 0.3 }) {
            let (input, value) = value(i);
            if let Ok(put) = tree.put(borrowed, &input, Condition::Always) {
                assert_eq!(put.old, model.insert(key, value), "seed {seed}, {i}");
            }
        } else if let Ok(put) = tree.remove(borrowed) {
            assert_eq!(put.old, model.remove::<K::Key>(borrowed), "seed {seed}, {i}");
        }
        if i % 100 == 0 {
            left.store(0, Ordering::Relaxed);
            let wanted: Vec<_> = model.iter().map(|(k, v)| (k.clone(), v.clone())).collect();
            assert!(content(&tree) == wanted, "seed {seed}, {i}");
            let report = tree.check().expect("memory");
            assert_eq!(report.damages, [], "seed {seed}, {i}");
            let lost = leaks(&pool, std::slice::from_ref(&report)).expect("memory");
            assert_eq!(lost, Leaks::default(), "seed {seed}, {i}");
            most = most.max(report.missing_entries);
        }
    }
    most
}

fn words_are_served<L: Layout>(seeds: u64) {
    let key = |rng: &mut Xoshiro256PlusPlus| rng.random_range(0..600u64) << 50;
    let most = (0..seeds).map(|seed| run::<L, Words>(seed, key, |i| (Box::new(i), i)));
    assert!(most.max() > Some(0), "{}", L::NAME);
}

#[test]
fn words_are_served_by_trees_with_missing_entries() {
    words_are_served::<Circular>(10);
    words_are_served::<Linear>(6);
    words_are_served::<Logged<Linear>>(4);
}

/// Strings whose nodes come to have long prefixes.
fn string(rng: &mut impl Rng) -> Vec<u8> {
    let alphabet = [0u8, 1, b'a', 255];
    let stem: &[u8] = [&b""[..], b"user/0000000000", b"a", b"\0\0"][rng.random_range(0..4)];
    let tail = (0..rng.random_range(0..6)).map(|_| alphabet[rng.random_range(0..4)]);
    stem.iter().copied().chain(tail).collect()
}

fn strings_are_served<L: Layout>(seeds: u64) {
    let value = |i: u64| {
        let value = vec![i as u8; i as usize % 30];
        (value.clone().into_boxed_slice(), value)
    };
    let most = (0..seeds).map(|seed| run::<L, Strings>(seed, string, value));
    assert!(most.max() > Some(0), "{}", L::NAME);
}

#[test]
fn strings_are_served_by_trees_with_missing_entries() {
    strings_are_served::<Circular>(10);
    strings_are_served::<Linear>(4);
}
