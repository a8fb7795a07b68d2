//! LB+-Tree under every power cut: sound in the order of its source's text, also with a second power cut in recovery;
//! with the stores of the header in the other order, a key is lost.

mod scripts {
    pub mod chained;
    pub mod lbtree;
}

use everleaf_crash_check::{Coverage, Persistency};
use everleaf_rivals::{AsPublished, Sound};
use scripts::lbtree::{Act, crash, removals, splits};

fn sound(what: &str, acts: &[Act]) -> Coverage {
    let seen = crash::<Sound>(Persistency::X86, acts)
        .unwrap_or_else(|failure| panic!("{what}: {failure}"));
    println!("{what}: {seen}");
    assert!(seen.is_exhaustive(), "{what}: {seen}");
    seen
}

#[test]
fn splits_survive_every_crash() {
    let seen = sound("splits", &splits());
    assert!(seen.images > 100, "{seen}");
}

#[test]
fn updates_and_removals_survive_every_crash() {
    let seen = sound("removals", &removals());
    assert!(seen.images > 100, "{seen}");
}

#[test]
fn the_other_order_of_the_header_loses_a_key() {
    let failure =
        crash::<AsPublished>(Persistency::X86, &splits()).expect_err("word 0 before word 1");
    println!("{failure}");
    // The fourth key takes a slot behind line 0, and the three of line 0 go with it: 120 has its fingerprint in word 1.
    let found = "with operation 3, Put(110), in flight: found [(110, 210), (130, 230), (140, 240)], expected";
    assert!(failure.message.starts_with(found), "{}", failure.message);
}
