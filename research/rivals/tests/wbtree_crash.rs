//! The wB+-tree, cut off anywhere: every legal crash image of inserts, removes, updates and splits of leaves and
//! inner nodes, with nodes of four pairs.

mod scripts {
    pub mod ops;
    pub mod wbtree;
}

use everleaf_crash_check::Persistency::X86;
use everleaf_rivals::{AsPublished, Only, Sound, Version};
use scripts::wbtree::{LEAVES, ONE_NODE, Op, check, inner};

fn passes<V: Version>(name: &str, ops: &[Op]) {
    let coverage = check::<V>(X86, ops).unwrap_or_else(|failure| panic!("{name}: {failure}"));
    assert!(coverage.is_exhaustive() && coverage.nested > 0, "{name}: {coverage}");
    println!("{name}, {}: {coverage}", V::NAME);
}

#[test]
fn one_node_survives_in_both_versions() {
    passes::<Sound>("one node", &ONE_NODE);
    passes::<AsPublished>("one node", &ONE_NODE);
}

#[test]
fn splits_survive_mended() {
    passes::<Sound>("leaves", &LEAVES);
    passes::<Sound>("inner nodes", &inner());
}

/// Shows what a bug of the source does to splits of leaves.
fn loses<V: Version>(bug: &str) {
    let failure = check::<V>(X86, &LEAVES).expect_err("a bug of the source");
    println!("{bug}: {failure}");
    assert!(failure.message.contains("Insert(50), in flight"), "at the first split: {failure}");
}

#[test]
fn a_new_node_that_was_not_flushed_loses_its_pairs() {
    loses::<Only<'a'>>("a");
}

#[test]
fn a_log_that_was_not_flushed_takes_nothing_back() {
    loses::<Only<'b'>>("b");
}

#[test]
fn a_log_that_ends_before_the_parent_has_the_node_loses_its_pairs() {
    loses::<Only<'c'>>("c");
}
