//! Scripts of steps on a tree, and what is read of it after a crash.

use std::ops::Bound::Unbounded;
use std::sync::Arc;

use everleaf_crash_check::{MapWrite, SharedMedium};
use everleaf_pmem::{Medium, Sim};
use everleaf_pool::{Pool, anchor};
use everleaf_tree::slots::Slot;
use everleaf_tree::{CircTree, INDEX_ANCHOR, Index, TreeReport, format, open};
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::{content, sim};

/// Freed pages are never flushed, so each one doubles the images of all that follows. Now and then
/// the cache writes their headers back of its own accord.
pub fn write_back_headers(sim: &Sim) {
    for no in 0..sim.limit() {
        sim.flush(sim.page(no).expect("inside"), 0);
    }
    sim.fence();
}

/// An opened tree, and the entries found by reading all of it.
pub struct Recovered {
    pub tree: CircTree<SharedMedium<Sim>>,
    pub entries: Vec<(u64, u64)>,
}

pub fn recover(sim: &Arc<Sim>) -> Result<Recovered, String> {
    let pool = open(SharedMedium::new(sim)).map_err(|e| e.to_string())?;
    let tree = CircTree::open(Arc::new(pool), INDEX_ANCHOR).map_err(|e| e.to_string())?;
    let entries = tree.range(Unbounded, Unbounded, usize::MAX).map_err(|e| e.to_string())?;
    Ok(Recovered { tree, entries })
}

pub fn check(tree: &CircTree<SharedMedium<Sim>>) -> Result<TreeReport, String> {
    let report = tree.check().map_err(|e| e.to_string())?;
    if report.damages.is_empty() {
        let damages = tree.pool().check();
        if damages.is_empty() { Ok(report) } else { Err(format!("{damages:?}")) }
    } else {
        Err(format!("{:?}", report.damages))
    }
}

pub fn rng(seed: u64) -> Xoshiro256PlusPlus {
    Xoshiro256PlusPlus::seed_from_u64(seed)
}

/// Keys in the left part of the tree, in the right part, and at all ends.
pub fn any_key(rng: &mut Xoshiro256PlusPlus, keys: u64) -> u64 {
    match rng.random_range(0..8) {
        0 => [0, u64::MAX, 1 << 63, (1 << 63) - 1][rng.random_range(0..4)],
        1 => (1 << 63) + rng.random_range(0..keys),
        _ => rng.random_range(0..keys),
    }
}

/// Grows and shrinks a tree at random.
pub fn random_steps(seed: u64, n: usize, keys: u64) -> Vec<MapWrite> {
    let mut rng = rng(seed);
    let step = |i: usize| {
        let key = any_key(&mut rng, keys);
        let growing = i < n / 2;
        if rng.random_bool(if growing { 0.85 } else { 0.15 }) {
            MapWrite::Insert(key, [0, u64::MAX, i as u64][i % 3])
        } else {
            MapWrite::Remove(key)
        }
    };
    (0..n).map(step).collect()
}

/// Removes all keys that steps insert, in any order.
pub fn random_drain(steps: &[MapWrite], seed: u64) -> Vec<MapWrite> {
    let inserted = |step: &MapWrite| match *step {
        MapWrite::Insert(key, _) => Some(key),
        MapWrite::Remove(_) => None,
    };
    let mut keys: Vec<u64> = steps.iter().filter_map(inserted).collect();
    keys.sort_unstable();
    keys.dedup();
    keys.shuffle(&mut rng(seed));
    keys.into_iter().map(MapWrite::Remove).collect()
}

/// Grows a tree and empties it, twice, over few keys and over many.
pub fn grown_and_drained(seed: u64) -> Vec<MapWrite> {
    let mut steps = Vec::new();
    for (i, keys) in [40, 300].into_iter().enumerate() {
        let grow = random_steps(4 * seed + 2 * i as u64 + 100, 70, keys);
        let drain = random_drain(&grow, 4 * seed + 2 * i as u64 + 101);
        steps.extend(grow.into_iter().chain(drain));
    }
    steps
}

pub fn fill_and_drain(
    keys: impl Iterator<Item = u64> + Clone,
    drain: impl Iterator<Item = u64>,
) -> Vec<MapWrite> {
    keys.map(|key| MapWrite::Insert(key, 7)).chain(drain.map(MapWrite::Remove)).collect()
}

/// The slots of a node, in order.
pub fn slots_of(pool: &Pool<SharedMedium<Sim>>, no: u64) -> Vec<Slot> {
    content(pool.page(no as u32).expect("inside"))
}

/// A tree of three levels on whose second level the second node is full and has a full leaf, and a
/// key for that leaf; or none if the seed does not come by such a tree.
pub fn about_to_split(seed: u64) -> Option<(Arc<Sim>, u64)> {
    let sim = sim(4, 128);
    let pool = Arc::new(format(SharedMedium::new(&sim)).expect("formats"));
    let tree = CircTree::create(Arc::clone(&pool), INDEX_ANCHOR).expect("space");
    let mut rng = rng(seed);
    loop {
        let key = 10 * rng.random_range(0..1000);
        Index::insert(&tree, key, key).expect("room");
        let root = pool.anchor(INDEX_ANCHOR).expect("an anchor");
        match tree.check().expect("memory").nodes_by_level.len() {
            2 => continue,
            3 => {}
            _ => return None,
        }
        let root = slots_of(&pool, u64::from(root));
        let second = slots_of(&pool, root[1].ident);
        let leaf = second.iter().map(|s| slots_of(&pool, s.ident)).find(|leaf| leaf.len() == 4);
        if let (4, Some(leaf)) = (second.len(), leaf) {
            return Some((sim, leaf[0].ident + 1));
        }
    }
}

/// Takes the root away from such a tree, as a crash between the split of a root and the new root
/// does: the first node of the second level is the root, and has a sibling.
pub fn lose_root(sim: &Arc<Sim>) {
    let pool = open(SharedMedium::new(sim)).expect("opens");
    let root = pool.anchor(INDEX_ANCHOR).expect("an anchor");
    let first = slots_of(&pool, u64::from(root))[0].ident as u32;
    let (anchor, _held) = pool.latch(INDEX_ANCHOR).expect("an anchor");
    anchor::set_root(pool.medium(), &mut (), anchor, first);
}
