//! Montage's B+-tree, cut off anywhere: what the last durable epoch left is there, and nothing else.

mod scripts {
    pub mod montage;
}

use everleaf_check::Act::{self, Tick};
use everleaf_check::Persistency::X86;
use everleaf_rivals::{AsPublished, Only, Sound};
use everleaf_testing::Rng;
use scripts::montage::{check, insert, remove, script, synced};

#[test]
fn a_crash_goes_back_to_the_last_durable_epoch() {
    let coverage =
        check::<Sound>(X86, &script(), false, 2).unwrap_or_else(|failure| panic!("{failure}"));
    assert!(coverage.is_exhaustive() && coverage.nested > 0, "{coverage}");
    println!("sound: {coverage}");
    let coverage =
        check::<Only<'a'>>(X86, &script(), false, 2).unwrap_or_else(|failure| panic!("{failure}"));
    println!("a: {coverage}");
}

/// Two keys in many epochs, so that cells are used again while anti-payloads wait.
#[test]
fn random_scripts_go_back_to_the_last_durable_epoch() {
    let mut images = 0;
    for seed in 1..=if cfg!(feature = "heavy") { 60 } else { 3 } {
        let mut rng = Rng(seed);
        let act = |i| match rng.below(6) {
            0 | 1 => insert(rng.below(2), i),
            2 => remove(rng.below(2)),
            _ => Tick,
        };
        let acts: Vec<Act> = (0..40).map(act).collect();
        let coverage = check::<Sound>(X86, &acts, false, 1);
        images += coverage.unwrap_or_else(|failure| panic!("seed {seed}: {failure}")).images;
    }
    println!("random scripts: {images} images");
}

#[test]
fn a_clock_that_is_not_flushed_loses_what_was_synced() {
    for check in [check::<Only<'b'>>, check::<AsPublished>] {
        let failure = check(X86, &synced(), true, 2).expect_err("a bug of the source");
        println!("b: {failure}");
        let is_lost = failure.message.contains("after 2 acts")
            && failure.message.contains("missing [(5, 1)]");
        assert!(is_lost, "{failure}");
    }
    check::<Sound>(X86, &synced(), true, 2).expect("mended");
}
