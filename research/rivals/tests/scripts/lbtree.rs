//! LB+-Tree in the leaves of its source: small scripts, and every crash of them.

use everleaf_crash_check::{Coverage, Explorer, Failure, Persistency};
use everleaf_rivals::Version;
use everleaf_rivals::lbtree::Lb;

pub use super::chained::{Act, Put, Remove};
use super::chained::{Script, found, leaves, script};

/// The source's leaves of 14 pairs, and a script.
pub fn durable<V: Version>(acts: &[Act]) -> Script<Lb<V>> {
    script(16, acts, |tree| {
        let counts = tree.pool().stats().expect("it reads");
        assert_eq!((u64::from(counts.nodes), counts.anchors), (leaves(tree), 1));
        found(tree)
    })
}

/// All images of a crash and of a crash in the recovery from it.
pub fn crash<V: Version>(mode: Persistency, acts: &[Act]) -> Result<Coverage, Box<Failure>> {
    durable::<V>(acts).explorer(Explorer::new().depth(2).mode(mode)).check()
}

/// Fills a leaf, and splits it twice: once for a key of the right leaf, and the left one for a key of its own.
pub fn splits() -> Vec<Act> {
    let mut acts: Vec<Act> = (1..=14).rev().map(|key| Put(10 * key)).collect();
    acts.push(Put(135));
    // The left leaf has room for seven more.
    acts.extend((0..=8).rev().map(|key| Put(10 * key + 5)));
    acts
}

/// The same, then updates, and removals that empty all leaves but the first.
pub fn removals() -> Vec<Act> {
    let mut acts = splits();
    acts.extend([Put(10), Put(140), Remove(15), Put(12), Put(13)]);
    // The leaves behind the first one go.
    acts.extend((4..=14).flat_map(|key| [Remove(10 * key), Remove(10 * key + 5)]));
    acts.push(Put(100));
    acts
}
