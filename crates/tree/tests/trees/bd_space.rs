//! The cost of old versions (BD+Tree §4.1.7): of N keys, half are there; each epoch has M inserts and
//! removes of any of them. Just before an epoch ends, a key holds a slot for what it is now, and one
//! more for each of the two last epochs that found it there and changed it:
//! N (3/2 − ((N − 1) / N)^M) slots in all.

use crate::bd::Bd;
use everleaf_pmem::{BufferedOptions, Dram, Geometry};
use everleaf_tree::Index;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

const KEYS: u64 = 200_000;
const SEED: u64 = 4;

/// Runs epochs of `m` operations and compares instances at the end of each with the formula.
/// Epochs end by hand, or by the count of their operations.
fn instances_are_as_predicted(slots: u32, m: u64, counted: bool) {
    let geometry = Geometry::new(slots).expect("a power of two");
    let options =
        BufferedOptions { operations: counted.then_some(m), ..BufferedOptions::default() };
    let dram = Dram::new(geometry, 1 << 16).expect("memory");
    let tree = Bd::create_with(dram, &options).expect("space").0;
    let tick = || tree.medium().tick().expect("memory");
    for key in (0..KEYS).step_by(2) {
        tree.insert(key, key).expect("space");
    }
    (0..3).for_each(|_| tick());
    let n = KEYS as f64;
    let expected = n * (1.5 - (1.0 - 1.0 / n).powf(m as f64));
    let begun = tree.medium().clock();
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(SEED);
    for epoch in 1..=5 {
        for i in 0..m {
            let key = rng.random_range(0..KEYS);
            let done =
                if rng.random_bool(0.5) { tree.insert(key, i) } else { Index::remove(&tree, key) };
            done.expect("space");
        }
        let report = tree.check().expect("memory");
        assert_eq!(report.damages, []);
        assert_eq!(tree.medium().clock(), begun + epoch - 1, "an epoch of {m} operations");
        let off = report.instances as f64 / expected - 1.0;
        println!(
            "{slots} slots, M = {m}, epoch {epoch}: {} instances in {} leaves, expected {expected:.0}, {:+.2} %",
            report.instances,
            report.leaves,
            100.0 * off
        );
        // The first epoch has none before it that changed anything.
        assert!(epoch == 1 || off.abs() < 0.01, "seed {SEED}: {off}");
        if !counted {
            tick();
        }
    }
}

#[test]
fn instances_are_as_many_as_the_papers_model_says() {
    for m in [KEYS / 100, KEYS / 10, KEYS] {
        instances_are_as_predicted(32, m, false);
    }
    instances_are_as_predicted(32, KEYS / 10, true);
    instances_are_as_predicted(64, KEYS / 10, false);
}

/// Bytes of leaves for each pair that is left, when all but one of 28 keys are removed from leaves that a load has filled.
fn bytes_a_pair(slots: u32, merges: bool) -> f64 {
    const PAIRS: u64 = 28 * 4_000;
    let geometry = Geometry::new(slots).expect("a power of two");
    let dram = Dram::new(geometry, 1 << 15).expect("memory");
    let tree = Bd::create(dram).expect("space").0.merging(merges);
    tree.load((0..PAIRS).map(|key| (key, !key))).expect("space");
    for key in (0..PAIRS).filter(|key| key % 28 != 0) {
        assert_eq!(Index::remove(&tree, key).expect("sound"), Some(!key));
    }
    (0..3).for_each(|_| tree.medium().tick().expect("memory"));
    while tree.reclaim_empty().expect("sound") > 0 {}
    assert_eq!(tree.waiting_empty(), 0);
    let report = tree.check().expect("memory");
    assert_eq!((report.damages, report.entries), (vec![], PAIRS / 28));
    let pages = tree.pool().stats().expect("memory");
    println!("{slots} slots, merging {merges}: {} leaves, {pages:?}", report.leaves);
    (report.leaves * geometry.page_bytes() as u64) as f64 / report.entries as f64
}

#[test]
fn leaves_that_merge_hold_three_quarters_of_what_they_can() {
    for slots in [4, 8, 16, 32, 64] {
        let (alone, merged) = (bytes_a_pair(slots, false), bytes_a_pair(slots, true));
        println!("{slots} slots: {alone:.2} bytes a pair, merged {merged:.2}");
        let most = if slots == 64 { 45.0 } else { f64::from(slots - slots / 4) };
        let full = f64::from(64 + 16 * slots) / most;
        assert!(merged < 1.05 * full, "{slots} slots: {merged}, where {full} is best");
    }
}
