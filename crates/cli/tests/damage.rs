//! Pools with changed or missing bytes: a typed end, no panic, nothing written by commands that read,
//! and nothing read that was never written.
//!
//! `EVERLEAF_SCALE` sets how many changed pools are tried (40), `EVERLEAF_SEED` where the random
//! numbers start.

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::ops::Range;

use common::{Place, contents};
use everleaf_testing::{count, images, seed_or};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

fn sound_pool() -> Place {
    let place = Place::new();
    let input: String = (0..2000).map(|i| format!("{i:05}\t{}\n", "v".repeat(i % 90))).collect();
    place.run_with("load", ["t"], input.as_bytes()).ended(0);
    place
}

/// Runs all commands that read, then those that write; returns the exit code of `check`. The output of
/// `scan` before it meets damage, if it does, must be the start of `truth`.
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
    // Behind the last image is nothing that anybody needs.
    let end = images::live(&sound).iter().map(|image| image.end).max().unwrap();
    assert!(end > 100_000 && end <= sound.len(), "{end} of {} bytes", sound.len());
    let short = [1, 7, 16, 100, 511, 512, 4095, 4096, 8191, 8192];
    for length in short.into_iter().chain([end / 2, end - 1, end, sound.len() - 1]) {
        let place = Place::new();
        fs::write(&place.pool, &sound[..length]).unwrap();
        let code = try_all(&place, &format!("the first {length} bytes"), &truth);
        assert_eq!(code, if length < end { 3 } else { 0 }, "the first {length} bytes");
    }
}

#[test]
fn changed_bytes_end_with_an_exit_code() {
    let (damages, seed) = (count(40, 400), seed_or(1));
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let place = sound_pool();
    let sound = fs::read(&place.pool).unwrap();
    let truth = place.run("scan", ["t"]).out;
    let live = images::live(&sound);
    for _ in 0..damages {
        let place = Place::new();
        let mut bytes = sound.clone();
        // Mostly within what is needed; the rest is superblocks, journal and what is free.
        let image = live[random.random_range(0..live.len())].clone();
        let from = if random.random_range(0..4) > 0 { image } else { 0..bytes.len() };
        let at = random.random_range(from);
        let length = [1, 8, 64, 4096][random.random_range(0..4)].min(bytes.len() - at);
        bytes[at..at + length].iter_mut().for_each(|byte| *byte ^= random.random_range(1..=255));
        fs::write(&place.pool, &bytes).unwrap();
        let code = try_all(&place, &format!("seed {seed}, {length} bytes from {at}"), &truth);
        println!("{length} bytes from {at}: check ends with {code}");
        let hits = |image: &Range<usize>| image.start < at + length && at < image.end;
        assert!(code == 3 || !live.iter().any(hits), "seed {seed}, {length} bytes from {at}");
    }
}

#[test]
fn each_damage_is_one_line_with_one_offset() {
    let place = sound_pool();
    let mut bytes = fs::read(&place.pool).unwrap();
    // Leaves of the tree: the catalog is before them, and pages that each open reads.
    let is_node = |page: &images::Image| page.kind == 1 && bytes[page.payload().start + 40] == 1;
    let nodes: Vec<_> = images::newest(&bytes).into_iter().filter(is_node).collect();
    let step = nodes.len() / 5;
    assert!(step > 1, "{} nodes", nodes.len());
    let hit: BTreeSet<_> = nodes.iter().skip(2).step_by(step).map(|it| it.bytes.start).collect();
    hit.iter().for_each(|at| bytes[at + 60] ^= 0x40);
    fs::write(&place.pool, &bytes).unwrap();
    let ran = place.run("check", [""; 0]).ended(3);
    let lines: Vec<_> = ran.text().lines().collect();
    assert!(hit.len() >= 3 && lines.len() >= hit.len(), "{ran}");
    let distinct: BTreeSet<_> = lines.iter().collect();
    assert_eq!(distinct.len(), lines.len(), "{ran}");
    assert!(lines.iter().all(|line| line.matches("at byte").count() == 1), "{ran}");
    let is_told = |at: &usize| lines.iter().any(|line| line.contains(&at.to_string()));
    assert!(hit.iter().all(is_told), "{hit:?}: {ran}");
}
