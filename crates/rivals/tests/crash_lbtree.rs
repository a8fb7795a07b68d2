//! LB+-Tree under every power cut: sound in the order of its source's text, also with a second power cut in recovery;
//! with the stores of the header in the other order, a key is lost.

use std::ops::Bound::Unbounded;

use everleaf_check::{Coverage, Durable, Explorer, Failure, Tested};
use everleaf_pmem::Geometry;
use everleaf_rivals::lbtree::Lb;
use everleaf_rivals::{AsPublished, Chained, Sound, Version};
use everleaf_tree::Index;

#[derive(Debug, Clone, Copy)]
enum Act {
    Put(u64),
    Remove(u64),
}
use Act::{Put, Remove};

/// The source's leaves of 14 pairs, all images of a crash and of a crash in the recovery from it.
fn crash<V: Version>(acts: &[Act]) -> Result<Coverage, Box<Failure>> {
    type Tree<V> = Chained<Tested, Lb<V>>;
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
        let mut all = tree.range(Unbounded, Unbounded, usize::MAX).expect("it reads");
        // What a search does not find is lost.
        all.retain(|(key, value)| tree.get(*key).expect("it reads") == Some(*value));
        // Whatever a crash has leaked is free again.
        let leaves = tree.rebuilt().leaves + tree.splits() - tree.unlinked();
        let counts = tree.pool().stats().expect("it reads");
        assert_eq!((u64::from(counts.nodes), counts.anchors), (leaves, 1));
        all
    };
    let explorer = Explorer::new().depth(2);
    let geometry = Geometry::new(16).expect("a power of two");
    let open = |medium: Tested| Tree::<V>::on(medium).expect("it opens");
    Durable::new(geometry, 16, acts.to_vec(), open, apply, read).explorer(explorer).check()
}

fn sound(what: &str, acts: &[Act]) -> Coverage {
    let seen = crash::<Sound>(acts).unwrap_or_else(|failure| panic!("{what}: {failure}"));
    println!("{what}: {seen}");
    assert!(seen.is_exhaustive(), "{what}: {seen}");
    seen
}

/// Fills a leaf, and splits it twice: once for a key of the right leaf, and the left one for a key of its own.
fn splits() -> Vec<Act> {
    let mut acts: Vec<Act> = (1..=14).rev().map(|key| Put(10 * key)).collect();
    acts.push(Put(135));
    acts.extend((1..=8).map(|key| Put(10 * key + 5)));
    acts
}

#[test]
fn splits_survive_every_crash() {
    let seen = sound("splits", &splits());
    assert!(seen.images > 100, "{seen}");
}

#[test]
fn updates_and_removals_survive_every_crash() {
    let mut acts = splits();
    acts.extend([Put(10), Put(140), Remove(15), Put(12), Put(13)]);
    // The leaves behind the first one go.
    acts.extend((5..=14).flat_map(|key| [Remove(10 * key), Remove(10 * key + 5)]));
    acts.push(Put(100));
    let seen = sound("removals", &acts);
    assert!(seen.images > 100, "{seen}");
}

#[test]
fn the_other_order_of_the_header_loses_a_key() {
    let failure = crash::<AsPublished>(&splits()).expect_err("word 0 before word 1");
    println!("{failure}");
    // The fourth key takes a slot behind line 0, and the three of line 0 go with it: 120 has its fingerprint in word 1.
    let found = "with operation 3, Put(110), in flight: found [(110, 210), (130, 230), (140, 240)], expected";
    assert!(failure.message.starts_with(found), "{}", failure.message);
}
