//! NV-tree, cut off anywhere: every legal crash image of inserts, removes, updates and of leaves that are written
//! anew, with leaves of two and of five entries.

mod scripts {
    pub mod nvtree;
    pub mod ops;
}

use everleaf_crash_check::Persistency::X86;
use everleaf_rivals::{Only, Sound, Version};
use scripts::nvtree::{LEAVES, ONE_LEAF, Op, SIX, check};

fn passes<V: Version>(name: &str, slots: u32, ops: &[Op]) {
    let coverage =
        check::<V>(X86, slots, ops).unwrap_or_else(|failure| panic!("{name}: {failure}"));
    assert!(coverage.is_exhaustive() && coverage.nested > 0, "{name}: {coverage}");
    println!("{name}, {}: {coverage}", V::NAME);
}

#[test]
fn leaves_survive_mended() {
    passes::<Sound>("one leaf of five entries", 8, &ONE_LEAF);
    passes::<Sound>("leaves of two entries", 4, &LEAVES);
    passes::<Sound>("leaves of five entries", 8, &LEAVES);
}

#[test]
fn a_leftmost_split_that_was_not_flushed_loses_all_pairs_of_the_leaf() {
    let failure = check::<Only<'a'>>(X86, 8, &SIX).expect_err("a bug of the source");
    println!("a: {failure}");
    assert!(
        failure
            .message
            .contains("Insert(5), in flight: found ([None, None, None, None, None, None]")
    );
    check::<Only<'a'>>(X86, 8, &SIX[..5]).expect("no split");
    check::<Sound>(X86, 8, &SIX).expect("mended");
}

/// A count that is durable before the entry.
#[test]
fn an_entry_without_a_fence_is_lost() {
    let failure = check::<Only<'b'>>(X86, 8, &ONE_LEAF).expect_err("a bug of the source");
    println!("b: {failure}");
    assert!(
        failure.message.contains("Insert(50), in flight: found ([Some(0), None, None]"),
        "{failure}"
    );
}
