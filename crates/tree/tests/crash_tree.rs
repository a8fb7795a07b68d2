//! The strict circular tree: every crash of whole scripts in nodes of 4 slots, recovered by opening
//! the pool and the tree and reading everything, with that cut off too.

mod common;

use std::cell::Cell;
use std::ops::Bound::Unbounded;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use common::script::{
    Recovered, about_to_split, check, fill_and_drain, grown_and_drained, lose_root, random_drain,
    random_steps, recover, write_back_headers,
};
use common::{print, scale, sim};
use everleaf_check::{CrashPoint, Explorer, Mode, Record, Script, Shared, Stats, Step, Trace};
use everleaf_pmem::{Geometry, Medium, Page, Sim};
use everleaf_tree::blink::Blink;
use everleaf_tree::keys::Words;
use everleaf_tree::node::{Bounds, Circular, Image, Layout, Probe, Run, Sentinel, Shape, Slot};
use everleaf_tree::{INDEX_ANCHOR, Index, leaks};

/// What has happened in a script: [splits, merges] of leaves and of inner nodes, [growths,
/// shrinkings] of the root, updates, and nodes seen wrapped around.
#[derive(Debug, Clone, Copy, Default)]
struct Happened {
    splits: [u64; 2],
    merges: [u64; 2],
    grown: u64,
    shrunk: u64,
    updates: u64,
    wrapped: u64,
    emptied: u64,
}

impl std::ops::AddAssign for Happened {
    fn add_assign(&mut self, other: Self) {
        for i in 0..2 {
            self.splits[i] += other.splits[i];
            self.merges[i] += other.merges[i];
        }
        self.grown += other.grown;
        self.shrunk += other.shrunk;
        self.updates += other.updates;
        self.wrapped += other.wrapped;
        self.emptied += other.emptied;
    }
}

thread_local!(static HAPPENED: Cell<Happened> = Cell::default());

fn happened(note: impl FnOnce(&mut Happened)) {
    let mut now = HAPPENED.get();
    note(&mut now);
    HAPPENED.set(now);
}

/// The circular layout, watched.
struct Watched;

fn watch_run(page: Page<'_>) {
    let run = Run::of(page);
    happened(|h| h.wrapped += u64::from(run.base + run.count > page.slots()));
}

impl Layout for Watched {
    const NAME: &'static str = Circular::NAME;
    const HASH: u64 = Circular::HASH;
    const LOCK_FREE: bool = Circular::LOCK_FREE;
    fn capacity<M: Medium>(slots: usize, shape: Shape) -> usize {
        Circular::capacity::<M>(slots, shape)
    }
    fn insert<M: Medium, P: Probe>(m: &M, page: Page<'_>, shape: Shape, pos: usize, slot: Slot) {
        Circular::insert::<M, P>(m, page, shape, pos, slot);
        watch_run(page);
    }
    fn remove<M: Medium, P: Probe>(m: &M, page: Page<'_>, shape: Shape, pos: usize) {
        Circular::remove::<M, P>(m, page, shape, pos);
    }
    fn absorb<M: Medium, P: Probe>(
        m: &M,
        page: Page<'_>,
        shape: Shape,
        slots: &[Slot],
        to: Bounds,
    ) {
        Circular::absorb::<M, P>(m, page, shape, slots, to);
        happened(|h| h.merges[usize::from(shape.level > 0)] += 1);
        watch_run(page);
    }
    fn trim<M: Medium, P: Probe>(m: &M, page: Page<'_>, shape: Shape, keep: usize, to: Bounds) {
        Circular::trim::<M, P>(m, page, shape, keep, to);
        happened(|h| h.splits[usize::from(shape.level > 0)] += 1);
    }
    fn build<M: Medium, P: Probe>(m: &M, page: Page<'_>, image: &Image<'_>) {
        Circular::build::<M, P>(m, page, image);
    }
    fn recover<M: Medium>(m: &M, page: Page<'_>, shape: Shape) -> everleaf_pmem::Result<()> {
        Circular::recover(m, page, shape)
    }
}

type WatchedTree = Blink<Shared<Sim>, Watched, Sentinel, Words>;

/// A script on a new tree, recorded, with the height of the tree watched step by step.
fn record(steps: &[Step], slots: u32) -> (Record, Script, Happened) {
    HAPPENED.set(Happened::default());
    let sim = sim(slots, 128);
    let pool = Arc::new(WatchedTree::format_pool(Shared::new(&sim)).expect("formats"));
    let tree = WatchedTree::create(pool, INDEX_ANCHOR).expect("space");
    let trace = Trace::new(&sim);
    let script = Script::new(&[], steps.to_vec());
    let (mut height, mut model) = (2, std::collections::BTreeSet::new());
    for (i, step) in steps.iter().enumerate() {
        script.run_step(&trace, &tree, i).expect("a step");
        if i % 4 == 3 {
            write_back_headers(&sim);
        }
        let report = tree.check().expect("memory");
        assert_eq!(report.damages, [], "after step {i}");
        let now = report.nodes_by_level.len();
        happened(|h| {
            h.grown += u64::from(now > height);
            h.shrunk += u64::from(now < height);
            match *step {
                Step::Insert(key, _) => h.updates += u64::from(!model.insert(key)),
                Step::Remove(key) => {
                    h.emptied += u64::from(model.remove(&key) && model.is_empty());
                }
            }
        });
        height = now;
    }
    (trace.finish(), script, HAPPENED.get())
}

/// Scripts with random steps.
const SEEDS: u64 = 200;

/// Keys that go to every part of the tree.
const PROBES: [u64; 6] = [0, 25, 55, (1 << 63) - 1, 1 << 63, u64::MAX];

/// Uses a recovered tree as any other.
fn carry_on(Recovered { tree, entries }: &Recovered, all: bool) -> Result<(), String> {
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
    check(tree).map(|_| ())
}

/// What is counted over all images.
#[derive(Default)]
struct Seen {
    images: AtomicU64,
    with_leaks: AtomicU64,
    leaked_most: AtomicU64,
    missing: AtomicU64,
    /// Crashes of trees that go on after a crash.
    second: Mutex<Stats>,
}

impl Seen {
    fn verify(
        &self,
        script: &Script,
        recovered: &Recovered,
        sim: &Sim,
        crash: &CrashPoint<'_>,
    ) -> Result<(), String> {
        script.admits(crash, &recovered.entries)?;
        let report = check(&recovered.tree)?;
        if report.entries != recovered.entries.len() as u64 {
            return Err(format!("{} entries counted", report.entries));
        }
        let missing = report.missing_entries > 0;
        self.missing.fetch_add(u64::from(missing), Ordering::Relaxed);
        let leaked =
            leaks(recovered.tree.pool(), &[report]).map_err(|e| e.to_string())?.nodes.len();
        self.with_leaks.fetch_add(u64::from(leaked > 0), Ordering::Relaxed);
        self.leaked_most.fetch_max(leaked as u64, Ordering::Relaxed);
        let image = self.images.fetch_add(1, Ordering::Relaxed);
        if image.is_multiple_of(if missing { 32 } else { 256 }) {
            self.second_life(recovered, sim.geometry(), &sim.image(), image)?;
        }
        carry_on(recovered, image.is_multiple_of(8))
    }

    /// Writes to a recovered tree, which completes what the crash left half done, and crashes that.
    fn second_life(
        &self,
        first: &Recovered,
        geometry: Geometry,
        image: &[u64],
        seed: u64,
    ) -> Result<(), String> {
        let sim = Arc::new(Sim::from_image(geometry, 128, image).map_err(|e| e.to_string())?);
        let Recovered { tree, entries } = recover(&sim)?;
        if entries != first.entries {
            return Err("a second open finds something else".into());
        }
        let trace = Trace::new(&sim);
        let mut steps = random_steps(seed, 8, 60);
        steps.extend(random_drain(&steps, seed));
        let script = Script::new(&entries, steps);
        script.run(&trace, &tree)?;
        let verify = |found: Recovered, _: &Arc<Sim>, crash: &CrashPoint<'_>| {
            script.admits(crash, &found.entries)?;
            check(&found.tree)?;
            carry_on(&found, false)
        };
        let explorer = Explorer::new().samples(64).depth(2);
        let stats =
            explorer.explore(&trace.finish(), recover, verify).map_err(|f| f.to_string())?;
        *self.second.lock().expect("no panic inside") += stats;
        Ok(())
    }
}

fn crash(explorer: &Explorer, steps: &[Step], slots: u32, seen: &Seen) -> (Stats, Happened) {
    let (record, script, happened) = record(steps, slots);
    let verify = |recovered: Recovered, sim: &Arc<Sim>, crash: &CrashPoint<'_>| {
        seen.verify(&script, &recovered, sim, crash)
    };
    match explorer.explore(&record, recover, verify) {
        Ok(stats) => (stats, happened),
        Err(failure) => panic!("{failure}\n{slots} slots, {steps:?}"),
    }
}

fn explorer() -> Explorer {
    Explorer::new().samples(512 * scale()).deep_samples(2 * scale())
}

#[test]
fn every_crash_of_scripts_that_do_everything() {
    let seen = Seen::default();
    let n = 36;
    let scripts = [
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
    ];
    let (mut stats, mut all) = (Stats::default(), Happened::default());
    for (what, steps) in &scripts {
        let (images, happened) = crash(&explorer(), steps, 4, &seen);
        print(what, images);
        stats += images;
        all += happened;
    }
    for seed in 0..SEEDS * scale() as u64 {
        let slots = if seed % 4 == 3 { 8 } else { 4 };
        let (images, happened) = crash(&explorer(), &grown_and_drained(seed), slots, &seen);
        stats += images;
        all += happened;
    }
    print("all scripts", stats);
    let second = *seen.second.lock().expect("no panic inside");
    print("crashed again after going on", second);
    println!(
        "{all:?}; {} images with leaked pages (at most {}), {} with splits to be completed",
        seen.with_leaks.load(Ordering::Relaxed),
        seen.leaked_most.load(Ordering::Relaxed),
        seen.missing.load(Ordering::Relaxed)
    );
    assert!(all.splits.iter().chain(&all.merges).all(|n| *n > 10), "{all:?}");
    assert!(all.grown > 5 && all.shrunk > 5 && all.updates > 5 && all.wrapped > 20, "{all:?}");
    assert!(all.emptied >= 4, "{all:?}");
    assert!(stats.images + second.images >= 1_000_000);
}

/// With caches that survive there is one image after each store: only the order counts.
#[test]
fn every_crash_with_caches_that_survive() {
    let (seen, mut stats) = (Seen::default(), Stats::default());
    for seed in 0..20 * scale() as u64 {
        let explorer = explorer().mode(Mode::Eadr).depth(2);
        stats += crash(&explorer, &grown_and_drained(1000 + seed), 4, &seen).0;
    }
    print("caches that survive", stats);
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
        let Recovered { tree, mut entries } = recover(&Arc::new(sim)).expect("opens");
        assert!(check(&tree).expect("sound").missing_entries > 0);
        assert_eq!(Index::insert(&tree, key, 1).expect("room"), None);
        entries.push((key, 1));
        entries.sort_unstable();
        assert_eq!(tree.range(Unbounded, Unbounded, usize::MAX).expect("memory"), entries);
        // Whoever writes in each part of the tree enters the rest.
        for &(key, value) in entries.iter().chain(&entries) {
            assert_eq!(Index::insert(&tree, key, value).expect("room"), Some(value));
        }
        assert_eq!(check(&tree).expect("sound").missing_entries, 0);
        done.send(()).expect("somebody waits");
    });
    wait.recv_timeout(Duration::from_secs(60)).expect("the tree works, and goes on working");
}
