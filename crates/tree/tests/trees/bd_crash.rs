//! BD+Trees: every crash of scripts over several epochs, recovered by opening pool and tree, with
//! that cut off too. The state found must be the end of just the epoch that the image names
//! as durable; and it is used further, and crashed again.
//!
//! `EVERLEAF_SCALE` multiplies random scripts and samples.

use std::sync::Arc;
use std::time::Instant;

use crate::bd::scripts::{Scene, fill, merging, random, remove, scenes};
use crate::bd::{Bd, Found, Setting, carry_on, copy, explore, recover, run, run_with, sim, stage};
use everleaf_crash_check::{Act, Coverage, CrashPoint, Explorer, Persistency, SharedMedium, Trace};
use everleaf_pmem::{BufferedOptions, Sim};
use everleaf_pool::Pool;

fn scale() -> usize {
    everleaf_testing::times(1) as usize
}

/// How scenes are crashed.
struct Plan {
    explorer: Explorer,
    /// One of how many images is used further.
    further: u64,
}

impl Plan {
    /// Runs a scene and crashes it.
    fn crash(&self, scene: &Scene, slots: u32) -> Coverage {
        self.crash_with(scene, slots, &Setting::default()).0
    }

    /// As [`crash`](Self::crash), with a setting. Also how many pages were given back.
    fn crash_with(&self, scene: &Scene, slots: u32, setting: &Setting) -> (Coverage, u64) {
        let Scene { what, before, acts } = scene;
        let ran = run_with(&stage(slots, before), acts, None, setting);
        let stats = ran.and_then(|ran| {
            Ok((explore(&ran, &self.explorer, self.further)?, ran.epochs.reclaimed))
        });
        stats.unwrap_or_else(|why| panic!("{what}, {slots} slots: {why}\n{before:?}\n{acts:?}"))
    }

    /// Crashes random scripts of `acts` acts, with about `keys` keys in leaves of `slots` slots.
    fn crash_random(
        &self,
        slots: u32,
        acts: usize,
        keys: u64,
        seeds: std::ops::Range<u64>,
    ) -> Coverage {
        let (start, mut all) = (Instant::now(), Coverage::default());
        for seed in seeds.clone() {
            let keys = 2 + keys / 2 + seed % keys;
            let before = random(seed + (1 << 32), 20, keys);
            all += self
                .crash(&Scene { what: "random", before, acts: random(seed, acts, keys) }, slots);
        }
        println!(
            "{slots} slots, random scripts of {acts} acts, seeds {seeds:?}: {all} in {:.1?}",
            start.elapsed()
        );
        all
    }
}

fn seeds(n: u64) -> std::ops::Range<u64> {
    0..n * scale() as u64
}

/// Everything that is affordable in full, recoveries too.
fn thorough() -> Explorer {
    Explorer::new().exhaustive(1 << 13).page_exhaustive(1 << 10).samples(512 * scale())
}

fn sampling(samples: usize) -> Explorer {
    let samples = samples * scale();
    Explorer::new().exhaustive(256).page_exhaustive(64).samples(samples).deep_samples(2)
}

#[test]
fn every_crash_of_each_thing_that_happens_to_a_leaf() {
    let plan = Plan { explorer: thorough(), further: 8 };
    let mut all = Coverage::default();
    for slots in [4, 8] {
        for scene in scenes(slots.into()) {
            let stats = plan.crash(&scene, slots);
            println!("{slots} slots, {}: {stats}", scene.what);
            all += stats;
        }
    }
    println!("all scenes: {all}");
    assert!(all.images > 90_000 && all.nested > 70_000, "{all}");
}

#[test]
fn every_crash_of_random_scripts() {
    let plan = Plan { explorer: sampling(64), further: 16 };
    let mut all = plan.crash_random(4, 24, 10, seeds(8));
    all += plan.crash_random(8, 24, 20, seeds(20));
    println!("random scripts: {all}");
    assert!(all.images > 500_000 && all.nested > 400_000, "{all}");
}

#[test]
fn crashes_of_larger_trees() {
    let plan = Plan { explorer: sampling(16).depth(2), further: 16 };
    let mut all = plan.crash_random(16, 100, 60, seeds(1));
    all += plan.crash_random(32, 150, 120, seeds(1));
    all += plan.crash_random(64, 250, 250, seeds(1));
    println!("larger trees: {all}");
    assert!(all.images > 50_000, "{all}");
}

/// Trees whose sparse leaves merge.
fn merging_tree() -> Setting {
    Setting { merges: true, ..Setting::default() }
}

#[test]
fn every_crash_of_leaves_that_merge() {
    let wide = Explorer::new().exhaustive(1 << 9).page_exhaustive(1 << 7).samples(128 * scale());
    let mut all = Coverage::default();
    for (slots, explorer) in [(4, thorough()), (8, wide)] {
        let plan = Plan { explorer, further: 8 };
        for scene in merging(slots.into()) {
            let (stats, freed) = plan.crash_with(&scene, slots, &merging_tree());
            println!("{slots} slots, {}: {stats}, {freed} pages", scene.what);
            assert!(freed > 0, "{slots} slots, {}: nothing was merged", scene.what);
            all += stats;
        }
    }
    println!("all scenes: {all}");
    assert!(all.images > 90_000 && all.nested > 80_000, "{all}");
}

#[test]
fn every_crash_of_random_scripts_with_leaves_that_merge() {
    let plan = Plan { explorer: sampling(16).depth(1), further: 16 };
    let (mut all, mut pages) = (Coverage::default(), 0);
    for seed in seeds(16) {
        let (slots, keys) = if seed % 4 == 3 { (8, 24) } else { (4, 16) };
        // Leaves that are sparse already.
        let before = [fill(0..keys), (0..keys).filter(|key| key % 4 > 1).map(remove).collect()];
        let merge = |i: u64| vec![remove(4 * i), Act::Tick, Act::Tick, Act::Reclaim];
        let script = random(!seed, 24, keys);
        let parts = (0..).zip(script.chunks(6));
        let acts = parts.flat_map(|(i, part)| [part.to_vec(), merge(i)].concat()).collect();
        let scene = Scene { what: "random", before: before.concat(), acts };
        let (stats, freed) = plan.crash_with(&scene, slots, &merging_tree());
        all += stats;
        pages += freed;
    }
    println!("random scripts: {all}, {pages} pages");
    assert!(all.images > 10_000 && pages > 8, "{all}, {pages} pages");
}

/// Epochs that a count ends, before an operation and beside those that the script ends.
#[test]
fn every_crash_with_epochs_of_a_number_of_operations() {
    let mut all = Coverage::default();
    for (most, slots) in [(1, 4), (2, 4), (5, 8)] {
        let options = BufferedOptions { operations: Some(most), ..BufferedOptions::default() };
        let setting = Setting { options, merges: false };
        for seed in seeds(4) {
            let acts = random(seed, 24, 10);
            let ran = run_with(&stage(slots, &random(!seed, 20, 10)), &acts, None, &setting);
            let stats = ran.and_then(|ran| explore(&ran, &sampling(64), 16));
            all += stats.unwrap_or_else(|why| panic!("{most}, seed {seed}: {why}\n{acts:?}"));
        }
    }
    println!("epochs of a number of operations: {all}");
    assert!(all.images > 30_000, "{all}");
}

/// Caches that survive leave one image after each store: only their order counts.
#[test]
fn crashes_with_caches_that_survive() {
    let plan = Plan { explorer: thorough().mode(Persistency::Eadr).depth(2), further: 8 };
    let mut all = plan.crash_random(4, 60, 12, seeds(10));
    all += plan.crash_random(8, 60, 24, seeds(10));
    assert!(all.images > 10_000, "{all}");
}

/// A tree that a crash has left writes in epochs whose numbers were used before: what is left of
/// those must not come back.
#[test]
fn crashes_after_crashes() {
    let first = sampling(8).depth(1);
    let second = sampling(4).exhaustive(32).depth(2);
    let (mut outer, mut inner) = (Coverage::default(), Coverage::default());
    for seed in seeds(24) {
        let slots = if seed % 3 == 2 { 8 } else { 4 };
        let keys = 5 + seed % 8;
        let ran = run(&stage(slots, &random(!seed, 20, keys)), &random(seed, 20, keys), None);
        let ran = ran.unwrap_or_else(|why| panic!("seed {seed}: {why}"));
        let mut images = 0;
        let verify = |found: Found, sim: &Arc<Sim>, crash: &CrashPoint<'_>| {
            ran.epochs.admits(crash, found.durable, &found.entries)?;
            images += 1;
            if images % 512 != 0 {
                return Ok(());
            }
            // The medium as the recovery has left it, and its lines as the cache may leave them.
            let again = run(&copy(sim), &random(seed ^ images, 12, keys), None)?;
            inner += explore(&again, &second, 16)?;
            carry_on(&found)
        };
        let stats = first.explore(&ran.record, recover, verify);
        outer += stats.unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
    }
    println!("{outer}; after recovery: {inner}");
    assert!(inner.images > 20_000, "{inner}");
}

/// From nothing at all: the making of a pool and of a tree in it, cut off anywhere.
#[test]
fn every_crash_of_the_making_of_a_tree() {
    let making = sim(4);
    let trace = Trace::new(&making);
    trace.op(0, || Bd::create(SharedMedium::new(&making)).map(drop)).expect("space");
    let again = |sim: &Arc<Sim>| {
        let unmade = Pool::is_unmade(&SharedMedium::new(sim)).map_err(|e| e.to_string())?;
        let made = if unmade { Bd::create } else { Bd::open };
        made(SharedMedium::new(sim)).map(drop).map_err(|e| e.to_string())
    };
    let verify = |(), sim: &Arc<Sim>, _: &CrashPoint<'_>| {
        // In a medium whose frames are fresh: this one has had its tree opened.
        let found = recover(&copy(sim))?;
        if found.entries.is_empty() { carry_on(&found) } else { Err("out of nowhere".into()) }
    };
    let explorer = thorough().depth(2);
    let stats = explorer.explore(&trace.finish(), again, verify);
    let stats = stats.unwrap_or_else(|failure| panic!("{failure}"));
    println!("{stats}");
    assert!(stats.images > 30, "{stats}");
}
