//! PACTree's data layer under every power cut: sound in its sound version, also with a second power cut in recovery, and
//! whether or not the inner nodes had learnt of new leaves; with the bugs of its source, what is lost.

mod scripts {
    pub mod chained;
    pub mod pactree;
}

use everleaf_crash_check::{Coverage, Failure, Persistency};
use everleaf_rivals::{AsPublished, Only, Sound, Version};
use scripts::pactree::{Act, SPLITS, drained, removals};

fn crash<V: Version>(acts: &[Act], depth: usize) -> Result<Coverage, Box<Failure>> {
    scripts::pactree::crash::<V>(Persistency::X86, acts, depth)
}

fn sound(what: &str, acts: &[Act]) -> Coverage {
    let seen = crash::<Sound>(acts, 2).unwrap_or_else(|failure| panic!("{what}: {failure}"));
    println!("{what}: {seen}");
    assert!(seen.is_exhaustive(), "{what}: {seen}");
    seen
}

#[test]
fn splits_survive_every_crash() {
    let seen = sound("splits", &SPLITS);
    assert!(seen.images > 300 && seen.nested > 100, "{seen}");
}

#[test]
fn splits_survive_if_the_inner_nodes_know_of_them() {
    sound("splits and drains", &drained());
}

#[test]
fn updates_and_removals_survive_every_crash() {
    let seen = sound("removals", &removals());
    assert!(seen.images > 300, "{seen}");
}

/// The keys that were found after the first crash that is refused, without another one in its recovery, with operation
/// `at` of `SPLITS` in flight. All keys of those before it were acknowledged.
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
