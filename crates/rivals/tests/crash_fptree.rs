//! FPTree under every power cut: sound in its sound version, also with a second power cut in recovery; with the bugs
//! of its source, what is lost.

use std::ops::Bound::Unbounded;

use everleaf_check::{Coverage, Durable, Explorer, Failure, Tested};
use everleaf_pmem::Geometry;
use everleaf_rivals::fptree::Fp;
use everleaf_rivals::{AsPublished, Chained, Only, Sound, Version};
use everleaf_tree::Index;

#[derive(Debug, Clone, Copy)]
enum Act {
    Put(u64),
    Remove(u64),
}
use Act::{Put, Remove};

/// Leaves of 4 pairs, all images of a crash and of a crash in the recovery from it.
fn crash<V: Version>(acts: &[Act]) -> Result<Coverage, Box<Failure>> {
    type Tree<V> = Chained<Tested, Fp<32, V>>;
    let apply = |tree: &mut Tree<V>, act: &Act| {
        match *act {
            Put(key) => {
                let old = tree.get(key).expect("it reads").unwrap_or(0);
                tree.insert(key, old + 100 + key).expect("room");
            }
            Remove(key) => {
                Index::remove(tree, key).expect("it removes");
            }
        };
    };
    let read = |tree: &Tree<V>| {
        let all = tree.range(Unbounded, Unbounded, usize::MAX).expect("it reads");
        assert!(all.iter().all(|(key, value)| tree.get(*key).expect("it reads") == Some(*value)));
        // Whatever a crash has leaked is free again.
        let leaves = tree.rebuilt().leaves + tree.splits() - tree.unlinked();
        let counts = tree.pool().stats().expect("it reads");
        assert_eq!((u64::from(counts.nodes), counts.anchors), (leaves, 2));
        all
    };
    let explorer = Explorer::new().depth(2);
    let geometry = Geometry::new(4).expect("a power of two");
    let open = |medium: Tested| Tree::<V>::on(medium).expect("it opens");
    Durable::new(geometry, 16, acts.to_vec(), open, apply, read).explorer(explorer).check()
}

fn sound(what: &str, acts: &[Act]) -> Coverage {
    let seen = crash::<Sound>(acts).unwrap_or_else(|failure| panic!("{what}: {failure}"));
    println!("{what}: {seen}");
    assert!(seen.is_exhaustive(), "{what}: {seen}");
    seen
}

/// A split in the middle of the chain, then one of its last leaf.
const SPLITS: [Act; 11] = [
    Put(60),
    Put(20),
    Put(80),
    Put(40),
    Put(70), // 20 40 | 60 70 80
    Put(30),
    Put(10), // 10 20 30 40 | 60 70 80
    Put(25), // 10 20 25 | 30 40 | 60 70 80
    Put(90),
    Put(65),
    Put(85),
];

#[test]
fn splits_survive_every_crash() {
    let seen = sound("splits", &SPLITS);
    assert!(seen.images > 300 && seen.nested > 100, "{seen}");
}

#[test]
fn updates_and_removals_survive_every_crash() {
    sound("updates", &[Put(1), Put(2), Put(1), Put(3), Put(4), Put(2), Put(4), Put(1)]);
    let seen = sound(
        "removals",
        &[
            Put(1),
            Put(2),
            Put(3),
            Put(4),
            Put(5),
            Put(6),
            Put(7),
            Remove(3),
            Remove(4), // the leaf in the middle goes
            Remove(1),
            Remove(2), // the first leaf stays
            Put(4),
            Remove(7),
        ],
    );
    assert!(seen.images > 100, "{seen}");
}

/// The keys that were found after the first crash that is refused; all of those that were acknowledged are `SPLITS`'
/// first `acknowledged`.
fn refused<V: Version>(what: &str, acknowledged: usize, found: &[u64]) {
    let failure = crash::<V>(&SPLITS).expect_err(what);
    let pairs: Vec<(u64, u64)> = found.iter().map(|key| (*key, key + 100)).collect();
    let expected = format!("with operation {acknowledged}, ");
    println!("{what}: {failure}");
    assert!(failure.message.starts_with(&expected), "{what}: {}", failure.message);
    assert!(failure.message.contains(&format!("found {pairs:?}, expected")), "{}", failure.message);
}

#[test]
fn each_bug_of_the_source_loses_keys() {
    // The log does not know of the new leaf, which has the upper half: 60 and 80 are lost.
    refused::<Only<'a'>>("a", 4, &[20, 40]);
    // The chain ends with the new leaf: 60, 70 and 80 are lost.
    refused::<Only<'b'>>("b", 7, &[10, 20, 30, 40]);
    // The lower half, 20 and 40, is lost.
    refused::<Only<'c'>>("c", 4, &[60, 80]);
    // Recovery takes the neighbour, 60 70 80 in the first three slots, for the new leaf, and leaves 40 of four keys.
    refused::<AsPublished>("all of them", 7, &[40, 60, 70, 80]);
}

#[test]
fn two_flushes_of_a_line_lose_nothing() {
    assert!(crash::<Only<'g'>>(&SPLITS).is_ok_and(|seen| seen.is_exhaustive()));
}
