//! PACTree's data layer under every power cut: sound in its sound version, also with a second power cut in recovery, and
//! whether or not the inner nodes had learnt of new leaves; with the bugs of its source, what is lost.

use std::ops::Bound::Unbounded;

use everleaf_check::{Coverage, Durable, Explorer, Failure, Tested};
use everleaf_pmem::Geometry;
use everleaf_rivals::pactree::Pac;
use everleaf_rivals::{AsPublished, Chained, Only, Sound, Version};
use everleaf_tree::Index;

#[derive(Debug, Clone, Copy)]
enum Act {
    Put(u64),
    Remove(u64),
    /// Tells the inner nodes of the leaves that they do not know.
    Drain,
}
use Act::{Drain, Put, Remove};

type Tree<V> = Chained<Tested, Pac<V>>;

fn apply<V: Version>(tree: &mut Tree<V>, act: &Act) {
    match *act {
        Put(key) => {
            let old = tree.get(key).expect("it reads").unwrap_or(0);
            tree.insert(key, old + 100 + key).expect("room");
        }
        Remove(key) => {
            Index::remove(tree, key).expect("it removes");
        }
        Drain => {
            tree.drain().expect("it writes");
        }
    }
}

fn read<V: Version>(tree: &Tree<V>) -> Vec<(u64, u64)> {
    let mut all = tree.range(Unbounded, Unbounded, usize::MAX).expect("it reads");
    // What a search does not find is lost.
    all.retain(|(key, value)| tree.get(*key).expect("it reads") == Some(*value));
    // Whatever a crash has leaked is free again.
    let leaves = tree.rebuilt().leaves + tree.splits() - tree.unlinked();
    let counts = tree.pool().stats().expect("it reads");
    assert!(V::PUBLISHED || u64::from(counts.nodes) == leaves, "{counts:?}, {leaves} leaves");
    all
}

/// Leaves of 8 pairs, or 6 as published; all images of a crash, and with a depth of 2 of a crash in the recovery from it.
fn crash<V: Version>(acts: &[Act], depth: usize) -> Result<Coverage, Box<Failure>> {
    let geometry = Geometry::new(16).expect("a power of two");
    let open = |medium: Tested| Tree::<V>::on(medium).expect("it opens");
    Durable::new(geometry, 16, acts.to_vec(), open, apply::<V>, read::<V>)
        .explorer(Explorer::new().depth(depth))
        .check()
}

fn sound(what: &str, acts: &[Act]) -> Coverage {
    let seen = crash::<Sound>(acts, 2).unwrap_or_else(|failure| panic!("{what}: {failure}"));
    println!("{what}: {seen}");
    assert!(seen.is_exhaustive(), "{what}: {seen}");
    seen
}

/// Fills a leaf, splits it, and then the left one of both: once for a key of the right leaf, once for one of its own.
const SPLITS: [Act; 14] = [
    Put(80),
    Put(10),
    Put(70),
    Put(20),
    Put(60),
    Put(30),
    Put(50),
    Put(40),
    Put(90), // 10 20 30 40 | 50 60 70 80 90
    Put(4),
    Put(3),
    Put(2),
    Put(1),
    Put(5), // 1 2 3 4 5 | 10 20 30 40 | 50 60 70 80 90
];

#[test]
fn splits_survive_every_crash() {
    let seen = sound("splits", &SPLITS);
    assert!(seen.images > 300 && seen.nested > 100, "{seen}");
}

/// The same while no log is left behind, so that none is ended by a recovery after its split.
#[test]
fn splits_survive_if_the_inner_nodes_know_of_them() {
    let mut acts = SPLITS.to_vec();
    acts.insert(9, Drain);
    acts.push(Drain);
    sound("splits and drains", &acts);
}

#[test]
fn updates_and_removals_survive_every_crash() {
    let mut acts = SPLITS[..9].to_vec();
    // The leaf on the right goes while the log of its split is there, and its page is used again.
    acts.extend([80, 60, 90, 70, 50].map(Remove));
    acts.extend([Put(10), Put(55), Put(45), Put(47), Put(48), Put(49), Remove(10)]);
    let seen = sound("removals", &acts);
    assert!(seen.images > 300, "{seen}");
}

/// The keys that were found after the first crash that is refused, without another one in its recovery, with operation `at` of `SPLITS` in flight. All keys
/// of those before it were acknowledged.
fn refused<V: Version>(what: &str, at: usize, found: &[u64]) {
    let failure = crash::<V>(&SPLITS, 1).expect_err(what);
    println!("{what}: {failure}");
    let pairs: Vec<(u64, u64)> = found.iter().map(|key| (*key, key + 100)).collect();
    let expected =
        format!("with operation {at}, {:?}, in flight: found {pairs:?}, expected", SPLITS[at]);
    assert!(failure.message.starts_with(&expected), "{what}: {}", failure.message);
}

#[test]
fn bugs_of_the_source_lose_keys() {
    // The leftmost leaf is split once more, and the leaf of its first split is taken for one that was never linked.
    refused::<Only<'b'>>("b", 13, &[1, 2, 3, 4, 5, 10, 20, 30, 40]);
    // The new leaf, which has 10 20 30 40, is for no key.
    refused::<Only<'c'>>("c", 13, &[1, 2, 3, 4, 5, 50, 60, 70, 80, 90]);
    // Leaves of 6 pairs: the leftmost one is split by 60 and by 30.
    refused::<AsPublished>("all of them", 10, &[3, 4, 10, 20, 60, 70, 80, 90]);
}

#[test]
fn a_header_of_two_lines_loses_nothing() {
    let seen = crash::<Only<'a'>>(&SPLITS, 2).unwrap_or_else(|failure| panic!("{failure}"));
    println!("a: {seen}");
    assert!(seen.is_exhaustive() && seen.images > 300, "{seen}");
}
