//! BD+Tree: crashes, a fault, a published bug's scene, lines, and old versions.

use crate::bd::scripts::{Scene, fill, insert, scenes};
use crate::bd::{Bd, explore, run, stage};
use everleaf_crash_check::{Act, Coverage, Explorer, Mutation};
use everleaf_pmem::{Counted, Dram, Geometry};
use everleaf_tree::Index;

fn explorer() -> Explorer {
    Explorer::new().exhaustive(16).page_exhaustive(8).samples(4).depth(2).deep_samples(1)
}

/// `bd_crash.rs`: each thing that happens to a leaf of four slots, cut off anywhere.
#[test]
fn bd_crash() {
    let mut all = Coverage::default();
    for Scene { what, before, acts } in scenes(4) {
        let stats =
            run(&stage(4, &before), &acts, None).and_then(|ran| explore(&ran, &explorer(), 8));
        all += stats.unwrap_or_else(|why| panic!("{what}: {why}"));
    }
    println!("{all}");
    assert!(all.images > 500, "{all}");
}

/// `bd_mutants.rs`, and B11 of `bd_bugs.rs`: an epoch that is told before its word is durable.
#[test]
fn bd_bugs() {
    let acts = [insert(1, 1), Act::Tick, insert(1, 2)];
    let sound = run(&stage(4, &[]), &acts, None).expect("sound");
    explore(&sound, &Explorer::new(), 1).expect("sound");
    let last = Mutation::DropFence(sound.counts.fences - 1);
    let told = run(&stage(4, &[]), &acts, Some(last)).expect("nothing shows before a crash");
    let why = explore(&told, &Explorer::new(), 1).expect_err("B11");
    assert!(why.contains("is durable after"), "{why}");
}

/// B3: the left leaf of a split is flushed before its slots are used again.
#[test]
fn bd_mutants() {
    let before = fill(0..4);
    let acts = [insert(4, 1), insert(5, 1), insert(0, 2), Act::Tick];
    let sound = run(&stage(4, &before), &acts, None).expect("sound");
    let own = sound.opening.flushes..sound.counts.flushes;
    let thorough = Explorer::new().exhaustive(256).page_exhaustive(64).samples(32).depth(1);
    let is_noticed = |k: &u64| {
        let ran = run(&stage(4, &before), &acts, Some(Mutation::DropFlush(*k)));
        ran.and_then(|ran| explore(&ran, &thorough, 8)).is_err()
    };
    let noticed = own.clone().filter(is_noticed).count();
    println!("{noticed} of {} flushes", own.end - own.start);
    assert!(noticed >= 3, "{noticed}");
}

/// `hybrid.rs`, item 5 of the acceptance table: an insert flushes nothing, and an epoch its lines once.
#[test]
fn hybrid() {
    let memory = Dram::new(Geometry::new(32).expect("valid"), 100).expect("memory");
    let tree = Bd::create(Counted::new(memory)).expect("space").0;
    let flushes = || tree.medium().inner().counts().flushes;
    let before = flushes();
    (0..32).for_each(|i| assert_eq!(tree.insert(i * 5 % 32, i).expect("room"), None));
    assert_eq!(flushes(), before);
    tree.medium().tick().expect("no fault");
    assert_eq!(flushes() - before, 1 + 8 + 1, "line 0, the slots, and the epoch's word");
}

/// `bd_space.rs`: a key holds a slot for each of the last epochs that changed it.
#[test]
fn bd_space() {
    let memory = Dram::new(Geometry::new(32).expect("valid"), 1000).expect("memory");
    let tree = Bd::create(memory).expect("space").0;
    let mut instances = Vec::new();
    for epoch in 0..5 {
        for key in 0..500 {
            tree.insert(key, epoch).expect("room");
        }
        instances.push(tree.check().expect("memory").instances);
        tree.medium().tick().expect("no fault");
    }
    println!("{instances:?}");
    assert_eq!(instances[3..], [1500, 1500], "now, and the ends of two epochs");
}
