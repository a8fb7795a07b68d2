//! Pools with changed or missing bytes: a typed end, no panic, nothing written by those who read,
//! and nothing read that was never written.
//!
//! `EVERLEAF_DAMAGES` sets how many changed pools are tried (40), `EVERLEAF_SEED` where the random
//! numbers start.

mod common;

use everleaf_testing::setting;
use std::fs;

use common::{Place, contents};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// Where the first page is in the data file (docs/FORMAT.md).
const PAGES_AT: usize = 4_202_496;

fn sound_pool() -> Place {
    let place = Place::new();
    let input: String = (0..2000).map(|i| format!("{i:05}\t{}\n", "v".repeat(i % 90))).collect();
    place.run_with("load", ["t"], input.as_bytes()).ended(0);
    place
}

/// Runs all that read, then those that write; returns the exit code of `check`. What `scan` prints
/// before it meets damage, if it does, must be the start of `truth`.
fn try_all(place: &Place, what: &str, truth: &[u8]) -> i32 {
    let before = contents(place.dir.path());
    let mut code_of_check = None;
    let readers: [(&str, &[&str]); 4] =
        [("check", &[]), ("stat", &[]), ("get", &["t", "01000"]), ("scan", &["t"])];
    for (command, args) in readers {
        let ran = place.run(command, args);
        assert!(matches!(ran.code, Some(0 | 1 | 3 | 4)), "{what}, {command}: {ran}");
        assert!(!ran.err.contains("panicked"), "{what}, {command}: {ran}");
        assert_eq!(contents(place.dir.path()), before, "{what}: {command} wrote");
        code_of_check = code_of_check.or(ran.code);
        if command == "scan" {
            assert!(truth.starts_with(&ran.out), "{what}: scan prints what was never written");
            assert!(ran.code != Some(0) || ran.out == truth, "{what}: scan ends early in silence");
        }
    }
    for (command, args) in [("put", &["t", "01000", "x"][..]), ("del", &["t", "01001"])] {
        let ran = place.run(command, args);
        assert!(matches!(ran.code, Some(0 | 1 | 3 | 4)), "{what}, {command}: {ran}");
        assert!(!ran.err.contains("panicked"), "{what}, {command}: {ran}");
    }
    code_of_check.expect("check ran")
}

#[test]
fn truncated_pools_end_with_an_exit_code() {
    let place = sound_pool();
    let sound = fs::read(&place.pool).unwrap();
    let truth = place.run("scan", ["t"]).out;
    for length in [1, 7, 16, 100, 511, 512, 4095, 4096, sound.len() / 2, sound.len() - 1] {
        let place = Place::new();
        fs::write(&place.pool, &sound[..length.min(sound.len())]).unwrap();
        let code = try_all(&place, &format!("the first {length} bytes"), &truth);
        assert_eq!(code, 3, "the first {length} bytes");
    }
}

#[test]
fn changed_bytes_end_with_an_exit_code() {
    let (damages, seed) = (setting("EVERLEAF_DAMAGES", 40), setting("EVERLEAF_SEED", 1));
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let place = sound_pool();
    let sound = fs::read(&place.pool).unwrap();
    let truth = place.run("scan", ["t"]).out;
    for _ in 0..damages {
        let place = Place::new();
        let mut bytes = sound.clone();
        // Mostly within the pages; the rest is superblocks and room for double writes.
        let from = if random.random_range(0..4) > 0 { PAGES_AT } else { 0 };
        let at = random.random_range(from..bytes.len());
        let length = [1, 8, 64, 4096][random.random_range(0..4)].min(bytes.len() - at);
        bytes[at..at + length].iter_mut().for_each(|byte| *byte ^= random.random_range(1..=255));
        fs::write(&place.pool, &bytes).unwrap();
        let code = try_all(&place, &format!("seed {seed}, {length} bytes from {at}"), &truth);
        println!("{length} bytes from {at}: check ends with {code}");
    }
}

#[test]
fn each_damage_is_one_line_with_one_offset() {
    let place = sound_pool();
    let mut bytes = fs::read(&place.pool).unwrap();
    for page in [5, 9, 12] {
        bytes[PAGES_AT + page * 4096 + 700] ^= 0x40;
    }
    bytes[8192..PAGES_AT].fill(0);
    fs::write(&place.pool, &bytes).unwrap();
    let ran = place.run("check", [""; 0]).ended(3);
    let lines: Vec<_> = ran.text().lines().collect();
    assert!(lines.len() >= 3, "{ran}");
    let distinct: std::collections::BTreeSet<_> = lines.iter().collect();
    assert_eq!(distinct.len(), lines.len(), "{ran}");
    assert!(lines.iter().all(|line| line.matches("at byte").count() == 1), "{ran}");
}
