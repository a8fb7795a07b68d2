//! NBTree under every power cut, where caches are lost: sound in its sound version, also with a second power cut in
//! recovery; with the bugs of its source, what is lost. Where caches survive: `eadr.rs`.

mod scripts {
    pub mod chained;
    pub mod nbtree;
}

use everleaf_crash_check::Persistency::X86;
use everleaf_crash_check::{Coverage, Explorer, Failure};
use everleaf_rivals::{AsPublished, Only, Sound};
use scripts::nbtree::{
    Act, Put, REMOVALS, Remove, SEVENS, SPLITS, TWO, ZERO, asked, crash, durable,
};

fn sound(what: &str, slots: u32, acts: &[Act]) -> Coverage {
    let seen = crash::<Sound>(X86, slots, acts).unwrap_or_else(|e| panic!("{what}: {e}"));
    println!("{what}: {seen}");
    assert!(seen.is_exhaustive() && seen.nested > 0, "{what}: {seen}");
    seen
}

#[test]
fn splits_survive_every_crash() {
    let seen = sound("splits of three pairs", 4, &SPLITS);
    assert!(seen.images > 7_000 && seen.nested > 4_900, "{seen}");
    let seen = sound("splits of seven pairs", 8, &SEVENS);
    assert!(seen.images > 18_000 && seen.nested > 12_000, "{seen}");
}

#[test]
fn updates_and_removals_survive_every_crash() {
    let seen = sound("removals", 4, &REMOVALS);
    assert!(seen.images > 1_800 && seen.nested > 1_100, "{seen}");
}

/// The leaf of the source that is filled, changed and split. While its copies are made there are too many images to
/// build all of them; every other crash point has all.
#[test]
fn leaves_of_31_pairs_survive_crashes() {
    let mut acts: Vec<Act> = (0..=31).map(|i| Put(i * 17 % 32)).collect();
    acts.splice(20..20, [Put(0), Remove(17), Put(17)]);
    acts.extend([Put(37), Put(100), Remove(3), Put(2)]);
    let explorer = Explorer::new().depth(2).samples(150);
    let seen = durable::<Sound>(32, &acts).explorer(explorer).then(1).check();
    let seen = seen.unwrap_or_else(|failure| panic!("{failure}"));
    println!("31 pairs: {seen}");
    assert_eq!(seen.exhaustive_points, seen.small_points, "{seen}");
    assert!(seen.small_points > 500 && seen.images > 900 && seen.nested > 500, "{seen}");
}

fn loses(what: &str, checked: Result<Coverage, Box<Failure>>, lost: &str) {
    let failure = checked.expect_err(what);
    println!("{what}: {failure}");
    let message = failure.message;
    assert!(message.contains(lost), "{what}: {message}");
}

/// The chain leads to two leaves that nobody has flushed: 40, 50 and 60 are lost with them.
#[test]
fn a_split_that_flushes_nothing_loses_the_leaf() {
    loses(
        "a",
        crash::<Only<'a'>>(X86, 4, &SPLITS),
        "operation 3, Put(70), in flight: found [], expected [(40, 140)",
    );
    assert!(crash::<Only<'a'>>(X86, 4, &SPLITS[..3]).is_ok_and(|seen| seen.is_exhaustive()));
}

/// The values of 40, 50 and 60 in the copies.
#[test]
fn marks_of_a_copy_are_left_in_values() {
    let marked = [40, 50, 60].map(|key: u64| (key, 3 << 62 | (100 + key)));
    loses(
        "b",
        crash::<Only<'b'>>(X86, 4, &SPLITS),
        &format!("found {marked:?}, expected [(40, 140)"),
    );
    assert!(crash::<Only<'b'>>(X86, 4, &SPLITS[..3]).is_ok_and(|seen| seen.is_exhaustive()));
}

#[test]
fn key_0_is_a_key_that_was_removed() {
    let found = "found [(10, 110)], expected [(0, 100), (10, 110)]";
    loses("c", asked::<Only<'c'>>(X86, &ZERO), found);
    assert!(asked::<Sound>(X86, &ZERO).is_ok_and(|seen| seen.is_exhaustive()));
}

#[test]
fn a_key_before_its_value_is_found_with_another() {
    let found = "found [(30, 0)], expected [] or [(30, 130)]";
    loses("d", crash::<Only<'d'>>(X86, 4, &TWO), found);
    let found = "found [(40, 0)], expected [] or [(40, 140)]";
    loses("all of them", crash::<AsPublished>(X86, 4, &SPLITS), found);
}
