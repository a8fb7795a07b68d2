//! FPTree under every power cut: sound in its sound version, also with a second power cut in recovery; with the bugs
//! of its source, what is lost.

mod scripts {
    pub mod chained;
    pub mod fptree;
}

use everleaf_crash_check::{Coverage, Explorer, Persistency};
use everleaf_rivals::fptree::Fp;
use everleaf_rivals::{AsPublished, Only, Sound, Version};
use scripts::chained::script;
use scripts::fptree::{Act, Put, REMOVALS, Remove, SPLITS, UPDATES, crash, read};

fn sound(what: &str, acts: &[Act]) -> Coverage {
    let seen = crash::<Sound>(Persistency::X86, acts)
        .unwrap_or_else(|failure| panic!("{what}: {failure}"));
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
fn updates_and_removals_survive_every_crash() {
    sound("updates", &UPDATES);
    let seen = sound("removals", &REMOVALS);
    assert!(seen.images > 100, "{seen}");
}

/// A leaf of 56 pairs that is filled, changed and split. While its 16 lines are copied there are too many images to
/// build all of them; every other crash point has all.
#[test]
fn leaves_of_56_pairs_survive_crashes() {
    let mut acts: Vec<Act> = (0..56).map(|i| Put(i * 37 % 56)).collect();
    acts.splice(30..30, [Put(0), Remove(37)]);
    acts.extend([Put(37), Put(100), Remove(3), Put(2)]);
    let explorer = Explorer::new().depth(2).samples(150);
    let durable = script::<Fp<56, Sound>>(64, &acts, read).explorer(explorer).then(1);
    let seen = durable.check().unwrap_or_else(|failure| panic!("{failure}"));
    println!("56 pairs: {seen}");
    assert_eq!(seen.exhaustive_points, seen.small_points, "{seen}");
    assert!(seen.small_points > 800 && seen.images > 2_000 && seen.nested > 500, "{seen}");
}

/// The keys that were found after the first crash that is refused; all of those that were acknowledged are `SPLITS`'
/// first `acknowledged`.
fn refused<V: Version>(what: &str, acknowledged: usize, found: &[u64]) {
    let failure = crash::<V>(Persistency::X86, &SPLITS).expect_err(what);
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
    assert!(crash::<Only<'g'>>(Persistency::X86, &SPLITS).is_ok_and(|seen| seen.is_exhaustive()));
}
