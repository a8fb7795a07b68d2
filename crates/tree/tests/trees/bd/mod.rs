//! BD+Trees on simulated memory: as maps with epochs, scripts for them, and what is asked of what a
//! crash leaves.
#![allow(dead_code, reason = "each test program uses its own part")]

pub mod schedule;
pub mod scripts;

use std::collections::BTreeMap;
use std::ops::Bound::Unbounded;
use std::sync::Arc;

use everleaf_crash_check::{
    Act, Coverage, CrashPoint, EpochMap, EpochScript, Explorer, MapWrite, Mutate, Mutation,
    Recording, SharedMedium, Trace, Written,
};
use everleaf_pmem::SEQ_WORD;
use everleaf_pmem::{Buffered, BufferedOptions, Counts, Geometry, Medium, PageNo, Result, Sim};
use everleaf_tree::blink::Condition;
use everleaf_tree::hybrid::{HybridReport, Rebuild};
use everleaf_tree::{BdTree, INDEX_ANCHOR, Index};

/// Pages that a test of a few dozen keys needs.
pub const PAGES: PageNo = 32;

/// A tree on a medium, as a map with epochs. Its epochs end when a test says so.
pub struct Bd<M: Medium>(pub BdTree<M>);

impl<M: Medium> Bd<M> {
    /// An empty tree on an empty medium, durable.
    pub fn create(medium: M) -> Result<Self> {
        Self::create_with(medium, &BufferedOptions::default())
    }

    /// As [`create`](Self::create), on a medium with options.
    pub fn create_with(medium: M, options: &BufferedOptions) -> Result<Self> {
        let pool = BdTree::format_pool(Buffered::new(medium, options)?)?;
        let tree = BdTree::create(Arc::new(pool), INDEX_ANCHOR)?;
        tree.sync()?;
        Ok(Self(tree))
    }

    /// Opens what a crash has left on a medium.
    pub fn open(medium: M) -> Result<Self> {
        Self::open_with(medium, &BufferedOptions::default())
    }

    /// As [`open`](Self::open), with options.
    pub fn open_with(medium: M, options: &BufferedOptions) -> Result<Self> {
        let pool = Arc::new(BdTree::open_pool(Buffered::new(medium, options)?)?);
        let how = Rebuild { threads: 1, ..Rebuild::default() };
        Ok(Self(BdTree::open(pool, INDEX_ANCHOR, &how)?.0))
    }

    /// All entries.
    pub fn entries(&self) -> std::result::Result<Vec<(u64, u64)>, String> {
        self.0.range(Unbounded, Unbounded, usize::MAX).map_err(|e| e.to_string())
    }

    /// Reports what the tree holds, if nothing is wrong with it.
    pub fn report(&self) -> std::result::Result<HybridReport, String> {
        let report = self.0.check().map_err(|e| e.to_string())?;
        let (tree, pool) = (&report.damages, self.0.pool().check());
        if tree.is_empty() && pool.is_empty() {
            Ok(report)
        } else {
            Err(format!("{tree:?} {pool:?}"))
        }
    }
}

/// Runs a step on a tree.
pub fn write<M: Medium>(tree: &BdTree<M>, step: MapWrite) -> Result<Written> {
    let put = match step {
        MapWrite::Insert(key, value) => tree.put(key, value, Condition::Always)?,
        MapWrite::Remove(key) => tree.remove(key)?,
    };
    Ok((put.old, put.epoch.unwrap_or_default()))
}

impl<M: Medium> EpochMap for Bd<M> {
    fn write(&self, step: MapWrite) -> Result<Written> {
        write(&self.0, step)
    }
    fn batch(&self, steps: &mut dyn FnMut()) {
        let _hold = self.0.medium().pin_epoch();
        steps();
    }
    fn tick(&self) -> Result<()> {
        self.0.medium().tick()
    }
    fn sync(&self) -> Result<()> {
        self.0.sync()
    }
    fn reclaim(&self) -> Result<u64> {
        self.0.reclaim_empty()
    }
    fn clock(&self) -> u64 {
        self.0.medium().clock()
    }
    fn durable(&self) -> u64 {
        self.0.medium().persisted_epoch()
    }
}

pub fn sim(slots: u32) -> Arc<Sim> {
    Arc::new(Sim::new(Geometry::new(slots).expect("a power of two"), PAGES).expect("memory"))
}

/// A medium with the same bytes, as after a reboot.
pub fn copy(sim: &Sim) -> Arc<Sim> {
    let copy = Sim::from_image(sim.geometry(), sim.limit(), &sim.image());
    Arc::new(copy.expect("memory"))
}

/// The state found after a crash.
pub struct Found {
    pub tree: Bd<SharedMedium<Sim>>,
    /// The last durable epoch that the image names.
    pub durable: u64,
    pub entries: Vec<(u64, u64)>,
}

/// Opens what a crash has left, and reads all of it.
pub fn recover(sim: &Arc<Sim>) -> std::result::Result<Found, String> {
    let durable = sim.page(0).expect("inside").head(SEQ_WORD).load();
    let tree = Bd::open(SharedMedium::new(sim)).map_err(|e| e.to_string())?;
    let entries = tree.entries()?;
    let report = tree.report()?;
    if report.entries != entries.len() as u64 || !report.leaked.is_empty() {
        return Err(format!("{entries:?}, but {report:?}"));
    }
    Ok(Found { tree, durable, entries })
}

/// Keys in each part of a tree.
const PROBES: [u64; 5] = [0, 25, 55, 1 << 63, u64::MAX];

/// Uses a recovered tree as any other, over a few epochs.
pub fn carry_on(found: &Found) -> std::result::Result<(), String> {
    let Found { tree, durable, entries } = found;
    let mut model: BTreeMap<u64, u64> = entries.iter().copied().collect();
    let clock = tree.clock();
    if clock != durable + 1 {
        return Err(format!("epoch {durable} is durable, and the clock shows {clock}"));
    }
    let keys: Vec<u64> = model.keys().copied().take(4).chain(PROBES).collect();
    for round in 0..3 {
        for &key in &keys {
            let value = (!key).wrapping_sub(round);
            let put = tree.0.put(key, value, Condition::Always).map_err(|e| e.to_string())?;
            if put.old != model.insert(key, value) || put.epoch != Some(clock + round) {
                return Err(format!("going on: {put:?} for {key}"));
            }
        }
        tree.tick().map_err(|e| e.to_string())?;
        tree.reclaim().map_err(|e| e.to_string())?;
    }
    for &key in &keys {
        let old = Index::remove(&tree.0, key).map_err(|e| e.to_string())?;
        if old != model.remove(&key) {
            return Err(format!("going on: {old:?} was removed of {key}"));
        }
    }
    let now = tree.entries()?;
    if !now.iter().copied().eq(model) {
        return Err(format!("going on made {now:?}"));
    }
    tree.report().map(drop)
}

/// How the tree of a script is opened.
#[derive(Clone, Default)]
pub struct Setting {
    pub options: BufferedOptions,
    /// Whether its sparse leaves merge.
    pub merges: bool,
}

/// A script that was run and recorded.
pub struct Ran {
    pub record: Recording,
    pub epochs: EpochScript,
    /// Calls of the medium at the open, and until the end.
    pub opening: Counts,
    pub counts: Counts,
    /// Whose the pages are.
    pub owners: Vec<u8>,
}

/// Runs acts on the tree of a medium, with a fault.
pub fn run(
    sim: &Arc<Sim>,
    acts: &[Act],
    fault: Option<Mutation>,
) -> std::result::Result<Ran, String> {
    run_with(sim, acts, fault, &Setting::default())
}

/// As [`run`], with a setting.
pub fn run_with(
    sim: &Arc<Sim>,
    acts: &[Act],
    fault: Option<Mutation>,
    setting: &Setting,
) -> std::result::Result<Ran, String> {
    let medium = Arc::new(Mutate::new(SharedMedium::new(sim), fault));
    let tree = Bd::open_with(SharedMedium::new(&medium), &setting.options);
    let tree = Bd(tree.map_err(|e| e.to_string())?.0.merging(setting.merges));
    let opening = medium.counts();
    let mut epochs = EpochScript::new(&tree.entries()?, &tree);
    let trace = Trace::new(sim);
    epochs.run(&trace, &tree, acts)?;
    // Before the medium goes: that makes all durable.
    let (record, counts) = (trace.finish(), medium.counts());
    let owners = tree.0.pool().map_bytes().map_err(|e| e.to_string())?;
    Ok(Ran { record, epochs, opening, counts, owners })
}

/// A tree that has done `acts`, at rest.
pub fn stage(slots: u32, acts: &[Act]) -> Arc<Sim> {
    let sim = sim(slots);
    let tree = Bd::create(SharedMedium::new(&sim)).expect("space");
    let trace = Trace::new(&sim);
    let mut epochs = EpochScript::new(&[], &tree);
    epochs.run(&trace, &tree, acts).unwrap_or_else(|what| panic!("{what}"));
    tree.sync().expect("sound");
    drop(tree);
    copy(&sim)
}

/// Crashes a recorded script at all its points; one image of so many is used further.
pub fn explore(
    ran: &Ran,
    explorer: &Explorer,
    further: u64,
) -> std::result::Result<Coverage, String> {
    let mut images = 0;
    let verify = |found: Found, _: &Arc<Sim>, crash: &CrashPoint<'_>| {
        ran.epochs.admits(crash, found.durable, &found.entries)?;
        images += 1;
        if images % further == 0 { carry_on(&found) } else { Ok(()) }
    };
    explorer.explore(&ran.record, recover, verify).map_err(|failure| failure.to_string())
}
