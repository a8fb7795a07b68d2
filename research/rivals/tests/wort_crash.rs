//! WORT, cut off anywhere: every legal crash image of each case of an insert, of updates and of removes.

mod scripts {
    pub mod ops;
    pub mod wort;
}

use everleaf_crash_check::Persistency::X86;
use everleaf_rivals::{AsPublished, Sound, Version};
use scripts::wort::{INSERTS, NO_CHILD, ONE_CHILD, Op, REMOVES, check};

fn passes<V: Version>(name: &str, ops: &[Op]) {
    let coverage = check::<V>(X86, ops).unwrap_or_else(|failure| panic!("{name}: {failure}"));
    assert!(coverage.is_exhaustive(), "{name}: {coverage}");
    println!("{name}, {}: {coverage}", V::NAME);
}

#[test]
fn inserts_and_updates_survive_in_both_versions() {
    passes::<Sound>("inserts", &INSERTS);
    passes::<AsPublished>("inserts", &INSERTS);
}

#[test]
fn removes_that_leave_two_children_survive_in_both_versions() {
    passes::<Sound>("removes", &REMOVES);
    passes::<AsPublished>("removes", &REMOVES);
}

#[test]
fn a_node_with_one_child_or_none_survives_mended() {
    passes::<Sound>("one child", &ONE_CHILD);
    passes::<Sound>("no child", &NO_CHILD);
}

/// The key that is left in the node was answered long ago; after the crash nobody can read it.
#[test]
fn recovery_prefix_loses_what_is_below_a_node_with_one_child() {
    let failure = check::<AsPublished>(X86, &ONE_CHILD).expect_err("a bug of the source");
    println!("{failure}");
    let lost = r#"("0x1230000000000000", Err("#;
    assert!(failure.message.contains(lost), "{failure}");
    assert!(failure.message.contains("recovery_prefix"), "{failure}");
    assert!(failure.message.contains("Insert(1513209474796486656), in flight"), "{failure}");
}
