//! Strict trees of every kind: every crash of whole scripts in nodes of 4 and 8 slots, recovered by
//! opening the pool and the tree and reading everything, with that cut off too.

use std::ops::Bound::Unbounded;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use crate::common::script::{
    about_to_split, fill_and_drain, grown_and_drained, lose_root, random_drain, random_steps,
    write_back_headers,
};
use crate::common::{print, scale, sim};
use crate::tree::{HAPPENED, Happened, Kind, happened};
use everleaf_crash_check::{
    Coverage, CrashPoint, Explorer, MapWrite, Persistency, Recording, Script, SharedMedium, Trace,
};
use everleaf_pmem::{Dram, Medium, Sim};
use everleaf_tree::{
    CircTree, CircTreeBinary, CircTreeF, CircTreeLs, CircTreeSegment, CircTreeWalk, FastFair,
    FastFairBinary, FastFairF, FastFairS, FastFairWalk, FastLogging, Index, StringTree, leaks,
};

/// How scripts are crashed.
#[derive(Clone)]
struct Plan {
    explorer: Explorer,
    /// For trees that have been crashed and written to.
    second: Explorer,
    /// One of how many trees with splits to be completed, and of eight times as many others, is.
    second_of: u64,
    /// After how many steps each the cache writes headers back.
    write_back: usize,
}

/// A script on a new tree, recorded, with the height of the tree watched step by step.
fn record<T: Kind>(
    steps: &[MapWrite],
    slots: u32,
    write_back: usize,
) -> (Recording, Script, Happened) {
    HAPPENED.set(Happened::default());
    let sim = sim(slots, T::PAGES);
    let tree = T::Watched::make(SharedMedium::new(&sim)).expect("space");
    let trace = Trace::new(&sim);
    let script = Script::new(&[], steps.to_vec());
    let level_count =
        || T::Watched::check(&tree).expect("no damage after each step").nodes_by_level.len();
    let (mut height, mut model) = (level_count(), std::collections::BTreeSet::new());
    for (i, step) in steps.iter().enumerate() {
        let inner_splits = HAPPENED.get().splits[1];
        script.run_step(&trace, &tree, i).expect("a step");
        if (i + 1).is_multiple_of(write_back) {
            write_back_headers(&sim);
        }
        let now = level_count();
        happened(|h| {
            h.grown += u64::from(now > height);
            h.shrunk += u64::from(now < height);
            match *step {
                MapWrite::Insert(key, _) => h.updates += u64::from(!model.insert(key)),
                MapWrite::Remove(key) => {
                    h.emptied += u64::from(model.remove(&key) && model.is_empty());
                    h.made_room += h.splits[1] - inner_splits;
                }
            }
        });
        height = now;
    }
    (trace.finish(), script, HAPPENED.get())
}

/// An opened tree, and the entries found by reading all of it.
struct Recovered<T: Kind> {
    tree: T::Tree<SharedMedium<Sim>>,
    entries: Vec<(u64, u64)>,
}

fn recover<T: Kind>(sim: &Arc<Sim>) -> Result<Recovered<T>, String> {
    let tree = T::open(SharedMedium::new(sim)).map_err(|e| e.to_string())?;
    let entries = tree.range(Unbounded, Unbounded, usize::MAX).map_err(|e| e.to_string())?;
    Ok(Recovered { tree, entries })
}

/// Scripts with random steps.
const SEEDS: u64 = 200;

/// Keys that go to every part of the tree.
const PROBES: [u64; 6] = [0, 25, 55, (1 << 63) - 1, 1 << 63, u64::MAX];

/// Uses a recovered tree as any other.
fn carry_on<T: Kind>(found: &Recovered<T>, all: bool) -> Result<(), String> {
    let Recovered { tree, entries } = found;
    let mut model: std::collections::BTreeMap<u64, u64> = entries.iter().copied().collect();
    let same = |found: everleaf_pmem::Result<Option<u64>>, old: Option<u64>| match found {
        Ok(found) if found == old => Ok(()),
        other => Err(format!("going on: {other:?} instead of {old:?}")),
    };
    for key in PROBES {
        same(tree.insert(key, !key), model.insert(key, !key))?;
    }
    let keys: Vec<u64> = model.keys().copied().collect();
    for key in if all { keys } else { PROBES.to_vec() } {
        same(Index::remove(tree, key), model.remove(&key))?;
    }
    let found = tree.range(Unbounded, Unbounded, usize::MAX).map_err(|e| e.to_string())?;
    if found != model.into_iter().collect::<Vec<_>>() {
        return Err(format!("going on made {found:?}"));
    }
    T::check(tree).map(|_| ())
}

/// Counts over all images.
#[derive(Default)]
struct Seen {
    images: AtomicU64,
    with_leaks: AtomicU64,
    leaked_most: AtomicU64,
    missing: AtomicU64,
    /// Crashes of trees that go on after a crash.
    second: Mutex<Coverage>,
}

impl Seen {
    fn verify<T: Kind>(
        &self,
        plan: &Plan,
        script: &Script,
        recovered: &Recovered<T>,
        sim: &Sim,
        crash: &CrashPoint<'_>,
    ) -> Result<(), String> {
        script.admits(crash, &recovered.entries)?;
        let report = T::check(&recovered.tree)?;
        if report.entries != recovered.entries.len() as u64 {
            return Err(format!("{} entries counted", report.entries));
        }
        let missing = report.missing_entries > 0;
        self.missing.fetch_add(u64::from(missing), Ordering::Relaxed);
        let leaked =
            leaks(T::pool(&recovered.tree), &[report]).map_err(|e| e.to_string())?.nodes.len();
        self.with_leaks.fetch_add(u64::from(leaked > 0), Ordering::Relaxed);
        self.leaked_most.fetch_max(leaked as u64, Ordering::Relaxed);
        let image = self.images.fetch_add(1, Ordering::Relaxed);
        if image.is_multiple_of(plan.second_of * if missing { 1 } else { 8 }) {
            self.second_life(plan, recovered, sim, image)?;
        }
        carry_on(recovered, image.is_multiple_of(8))
    }

    /// Writes to a recovered tree, which completes what the crash left half done, and crashes that.
    fn second_life<T: Kind>(
        &self,
        plan: &Plan,
        first: &Recovered<T>,
        left: &Sim,
        seed: u64,
    ) -> Result<(), String> {
        let sim = Sim::from_image(left.geometry(), left.limit(), &left.image());
        let sim = Arc::new(sim.map_err(|e| e.to_string())?);
        let Recovered { tree, entries } = recover::<T>(&sim)?;
        if entries != first.entries {
            return Err("a second open finds something else".into());
        }
        let trace = Trace::new(&sim);
        let mut steps = random_steps(seed, 8, 60);
        steps.extend(random_drain(&steps, seed));
        let script = Script::new(&entries, steps.clone());
        for i in 0..steps.len() {
            script.run_step(&trace, &tree, i)?;
            if (i + 1).is_multiple_of(plan.write_back) {
                write_back_headers(&sim);
            }
        }
        let verify = |found: Recovered<T>, _: &Arc<Sim>, crash: &CrashPoint<'_>| {
            script.admits(crash, &found.entries)?;
            T::check(&found.tree)?;
            carry_on(&found, false)
        };
        let stats =
            plan.second.explore(&trace.finish(), recover, verify).map_err(|f| f.to_string())?;
        *self.second.lock().expect("no panic inside") += stats;
        Ok(())
    }
}

fn crash<T: Kind>(
    plan: &Plan,
    steps: &[MapWrite],
    slots: u32,
    seen: &Seen,
) -> (Coverage, Happened) {
    let (record, script, happened) = record::<T>(steps, slots, plan.write_back);
    let verify = |recovered: Recovered<T>, sim: &Arc<Sim>, crash: &CrashPoint<'_>| {
        seen.verify(plan, &script, &recovered, sim, crash)
    };
    match plan.explorer.explore(&record, recover, verify) {
        Ok(stats) => (stats, happened),
        Err(failure) => panic!("{failure}\n{}, {slots} slots, {steps:?}", T::name()),
    }
}

fn thorough() -> Plan {
    let explorer = Explorer::new().samples(512 * scale()).deep_samples(2 * scale());
    Plan { explorer, second: Explorer::new().samples(64).depth(2), second_of: 32, write_back: 4 }
}

/// For trees that leave more lines open at once than can be crashed in full: the counts of linear
/// nodes are never flushed, and recovery counts again; the log copies whole nodes.
fn sampling() -> Plan {
    let explorer = Explorer::new().exhaustive(128).samples(24 * scale()).deep_samples(1);
    let second = Explorer::new().exhaustive(32).samples(4).depth(1);
    Plan { explorer, second, second_of: 128, write_back: 1 }
}

/// A queue, which loses at one end what it wins at the other.
fn queue(n: u64, live: u64) -> Vec<MapWrite> {
    let steps = |i: u64| [Some(MapWrite::Insert(i, 7)), i.checked_sub(live).map(MapWrite::Remove)];
    (0..n).flat_map(steps).flatten().collect()
}

fn fixed_scripts() -> [(&'static str, Vec<MapWrite>); 7] {
    let n = 36;
    [
        ("a queue", queue(2 * n, 3 * n / 4)),
        ("ascending, drained from the front", fill_and_drain(0..n, 0..n)),
        ("ascending, drained from the back", fill_and_drain(0..n, (0..n).rev())),
        ("descending, drained from the front", fill_and_drain((0..n).rev(), 0..n)),
        ("descending, drained from the middle", {
            let mut order: Vec<u64> = (0..n).collect();
            order.sort_by_key(|key| key.abs_diff(n / 2));
            fill_and_drain((0..n).rev(), order.into_iter())
        }),
        ("random, few keys", random_steps(1, 160, 40)),
        ("random, many keys", random_steps(2, 160, 200)),
    ]
}

/// Counts what the scripts do whose every crash is looked at below.
#[test]
fn scripts_merge_with_both_neighbours_and_make_room() {
    let mut all = Happened::default();
    for (_, steps) in &fixed_scripts() {
        all += record::<CircTree<Dram>>(steps, 4, 4).2;
    }
    for seed in 0..SEEDS {
        let slots = if seed % 4 == 3 { 8 } else { 4 };
        all += record::<CircTree<Dram>>(&grown_and_drained(seed), slots, 4).2;
    }
    println!("{all:?}");
    assert!(all.of_empty.iter().all(|n| *n > 100) && all.merges[1] > 100, "{all:?}");
    assert!(all.made_room > 5, "{all:?}");
}

/// Crashes scripts of all kinds, and so many random ones.
fn crash_all<T: Kind>(plan: &Plan, seeds: u64) -> (u64, Happened) {
    let (seen, mut stats, mut all) = (Seen::default(), Coverage::default(), Happened::default());
    for (what, steps) in &fixed_scripts() {
        let (images, happened) = crash::<T>(plan, steps, 4, &seen);
        print(what, images);
        stats += images;
        all += happened;
    }
    for seed in 0..seeds * scale() as u64 {
        let slots = if seed % 4 == 3 { 8 } else { 4 };
        let (images, happened) = crash::<T>(plan, &grown_and_drained(seed), slots, &seen);
        stats += images;
        all += happened;
    }
    let name = T::name();
    print(&format!("{name}, all scripts"), stats);
    let second = *seen.second.lock().expect("no panic inside");
    print("crashed again after going on", second);
    println!(
        "{name}: {all:?}; {} images with leaked pages (at most {}), {} with splits to be completed",
        seen.with_leaks.load(Ordering::Relaxed),
        seen.leaked_most.load(Ordering::Relaxed),
        seen.missing.load(Ordering::Relaxed)
    );
    assert!(all.splits.iter().chain(&all.merges).all(|n| *n > 5), "{name}: {all:?}");
    assert!(all.grown > 5 && all.shrunk > 5 && all.updates > 5, "{name}: {all:?}");
    assert!(all.emptied >= 4 && second.images > 0, "{name}: {all:?}");
    (stats.images + second.images, all)
}

#[test]
fn every_crash_of_scripts_that_do_everything() {
    let (images, all) = crash_all::<CircTree<Dram>>(&thorough(), SEEDS);
    assert!(all.wrapped > 20, "{all:?}");
    assert!(images >= 1_000_000);
}

#[test]
fn every_crash_of_linear_nodes() {
    let (images, _) = crash_all::<FastFairS<Dram>>(&sampling(), 4);
    assert!(images >= 150_000, "{images}");
    let plan = Plan { explorer: sampling().explorer.depth(1), ..sampling() };
    crash_all::<FastFair<Dram>>(&plan, 0);
}

#[test]
fn every_crash_of_logged_splits() {
    crash_all::<FastLogging<Dram>>(&sampling(), 1);
}

#[test]
fn every_crash_of_byte_strings() {
    let explorer = sampling().explorer.exhaustive(16).samples(4 * scale()).depth(2);
    crash_all::<StringTree<Dram>>(&Plan { explorer, ..sampling() }, scale() as u64 - 1);
}

/// The probes are volatile, so a few crashes of each show that opening builds them.
#[test]
fn every_other_probe_survives_crashes() {
    let plan = Plan { explorer: sampling().explorer.depth(1), ..sampling() };
    crash_all::<FastFairBinary<Dram>>(&plan, 0);
    crash_all::<FastFairF<Dram>>(&plan, 0);
    crash_all::<CircTreeLs<Dram>>(&plan, 0);
    crash_all::<CircTreeSegment<Dram>>(&plan, 0);
    crash_all::<CircTreeBinary<Dram>>(&plan, 0);
    crash_all::<CircTreeF<Dram>>(&plan, 0);
    crash_all::<CircTreeWalk<Dram>>(&plan, 0);
    crash_all::<FastFairWalk<Dram>>(&plan, 0);
}

/// The operations of a batch are as those that are called one by one: a crash leaves what the first of them have done,
/// and all of those of the batches before.
#[test]
fn every_crash_of_batches() {
    let sim = sim(4, CircTree::<Dram>::PAGES);
    let tree = <CircTree<Dram> as Kind>::make(SharedMedium::new(&sim)).expect("space");
    let trace = Trace::new(&sim);
    let pairs: Vec<(u64, u64)> = (0..40).map(|i| (i * 29 % 37, i)).collect();
    let keys: Vec<u64> = (0..40).map(|i| i * 11 % 38).collect();
    let (mut model, mut old) = (std::collections::BTreeMap::new(), Vec::new());
    let mut states = vec![Vec::new()];
    let contents = |model: &std::collections::BTreeMap<u64, u64>| -> Vec<(u64, u64)> {
        model.iter().map(|(key, value)| (*key, *value)).collect()
    };
    for (key, value) in &pairs {
        old.push(model.insert(*key, *value));
        states.push(contents(&model));
    }
    for key in &keys {
        old.push(model.remove(key));
        states.push(contents(&model));
    }
    let mut found = Vec::new();
    tree.put_many(&pairs, &mut found).expect("space");
    tree.remove_many(&keys, &mut found).expect("space");
    assert_eq!(found, old);
    let verify = |found: Recovered<CircTree<Dram>>, _: &Arc<Sim>, _: &CrashPoint<'_>| {
        <CircTree<Dram> as Kind>::check(&found.tree)?;
        match states.contains(&found.entries) {
            true => carry_on(&found, false),
            false => Err(format!("{:?} is after no operation", found.entries)),
        }
    };
    let explored = thorough().explorer.explore(&trace.finish(), recover, verify);
    let stats = explored.unwrap_or_else(|failure| panic!("{failure}"));
    print("batches", stats);
    assert!(stats.images > 1000, "{stats}");
}

/// With caches that survive there is one image after each store: only the order counts.
fn crash_in_order<T: Kind>(seeds: u64) {
    let (seen, mut stats) = (Seen::default(), Coverage::default());
    for seed in 0..seeds * scale() as u64 {
        let explorer = thorough().explorer.mode(Persistency::Eadr).depth(2);
        stats +=
            crash::<T>(&Plan { explorer, ..sampling() }, &grown_and_drained(1000 + seed), 4, &seen)
                .0;
    }
    print(&format!("{}, caches that survive", T::name()), stats);
}

#[test]
fn every_crash_with_caches_that_survive() {
    crash_in_order::<CircTree<Dram>>(20);
    crash_in_order::<FastFairS<Dram>>(5);
    crash_in_order::<FastLogging<Dram>>(2);
    crash_in_order::<StringTree<Dram>>(1);
}

/// A crash between the split of the root and the new root leaves a root with a sibling. That
/// sibling may have to be split itself before anybody passes who would complete the root.
#[test]
fn a_root_that_was_split_by_a_crash_grows_when_its_sibling_is_split() {
    let (sim, key) = (0..100).find_map(about_to_split).expect("some seed");
    lose_root(&sim);
    let geometry = sim.geometry();
    let image = sim.image();
    let (done, wait) = mpsc::channel();
    std::thread::spawn(move || {
        let sim = Sim::from_image(geometry, 128, &image).expect("memory");
        type Tree = CircTree<Dram>;
        let Recovered { tree, mut entries } = recover::<Tree>(&Arc::new(sim)).expect("opens");
        assert!(<Tree as Kind>::check(&tree).expect("sound").missing_entries > 0);
        assert_eq!(Index::insert(&tree, key, 1).expect("room"), None);
        entries.push((key, 1));
        entries.sort_unstable();
        assert_eq!(tree.range(Unbounded, Unbounded, usize::MAX).expect("memory"), entries);
        // A writer in each part of the tree enters the rest.
        for &(key, value) in entries.iter().chain(&entries) {
            assert_eq!(Index::insert(&tree, key, value).expect("room"), Some(value));
        }
        assert_eq!(<Tree as Kind>::check(&tree).expect("sound").missing_entries, 0);
        done.send(()).expect("somebody waits");
    });
    wait.recv_timeout(Duration::from_secs(60)).expect("the tree works, and goes on working");
}
