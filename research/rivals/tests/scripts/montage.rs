//! Montage's B+-tree: scripts of some epochs, and every crash of them.

use std::collections::BTreeMap;
use std::ops::Bound::Unbounded;
use std::sync::Arc;

use everleaf_crash_check::{
    Act, Coverage, EpochMap, EpochScript, Explorer, Failure, MapWrite, Mutate, Mutation,
    Persistency, Recording, SharedMedium, Trace, Written,
};
use everleaf_pmem::{
    Buffered, BufferedOptions, Counts, Geometry, Medium, PageNo, Result, SEQ_WORD, Sim,
};
use everleaf_pool::Pool;
use everleaf_rivals::{Montage, Version};
use everleaf_tree::Index;
use everleaf_tree::blink::Condition;

const PAGES: PageNo = 24;

struct Map<M: Medium, V: Version>(Montage<M, V>);

impl<M: Medium, V: Version> Map<M, V> {
    fn open(medium: M) -> Self {
        let is_unmade = Pool::is_unmade(&medium).expect("two pages");
        let medium = Buffered::new(medium, &BufferedOptions::default()).expect("a clock");
        let make =
            if is_unmade { Montage::<M, V>::format_pool } else { Montage::<M, V>::open_pool };
        Self(Montage::open(Arc::new(make(medium).expect("a pool"))).expect("opens").0)
    }

    fn entries(&self) -> Vec<(u64, u64)> {
        self.0.range(Unbounded, Unbounded, usize::MAX).expect("reads")
    }
}

impl<M: Medium, V: Version> EpochMap for Map<M, V> {
    fn write(&self, step: MapWrite) -> Result<Written> {
        match step {
            MapWrite::Insert(key, value) => self.0.put(key, value, Condition::Always),
            MapWrite::Remove(key) => self.0.take_out(key),
        }
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
        Ok(0)
    }
    fn clock(&self) -> u64 {
        self.0.medium().clock()
    }
    fn durable(&self) -> u64 {
        self.0.medium().persisted_epoch()
    }
}

/// Crashes a script. The recovered state is judged by the clock of the image, or, if `synced`, by whether the last act,
/// a sync, has answered.
pub fn check<V: Version>(
    mode: Persistency,
    acts: &[Act],
    synced: bool,
    depth: usize,
) -> std::result::Result<Coverage, Box<Failure>> {
    check_with::<V>(mode, acts, synced, depth, None).2
}

/// The same with a flush or a fence left out. Answers also what was recorded, and the calls of the open, which is not.
pub fn check_with<V: Version>(
    mode: Persistency,
    acts: &[Act],
    synced: bool,
    depth: usize,
    fault: Option<Mutation>,
) -> (Recording, Counts, std::result::Result<Coverage, Box<Failure>>) {
    let sim = Arc::new(Sim::new(Geometry::new(8).expect("a power of two"), PAGES).expect("memory"));
    let medium = Arc::new(Mutate::new(SharedMedium::new(&sim), fault));
    let map = Map::<_, V>::open(SharedMedium::new(&medium));
    let before = medium.counts();
    let mut epochs = EpochScript::new(&[], &map);
    let trace = Trace::new(&sim);
    epochs.run(&trace, &map, acts).unwrap_or_else(|what| panic!("{what}"));
    // Before the map goes, which makes all durable.
    let record = trace.finish();
    let recover = |sim: &Arc<Sim>| {
        let durable = sim.page(0).expect("inside").head(SEQ_WORD).load();
        Ok((Map::<_, V>::open(SharedMedium::new(sim)), durable))
    };
    let explorer = Explorer::new().depth(depth).mode(mode);
    let explored = explorer.explore(&record, recover, |(map, durable), _, crash| {
        if synced && crash.responded().len() < acts.len() {
            return Ok(());
        }
        epochs.admits(crash, durable, &map.entries())?;
        carry_on(&map)
    });
    (record, before, explored)
}

/// A recovered tree goes on for some epochs, and what is used again is not confused with what was there.
fn carry_on<M: Medium, V: Version>(map: &Map<M, V>) -> std::result::Result<(), String> {
    let mut model: BTreeMap<u64, u64> = map.entries().into_iter().collect();
    for round in 0..4 {
        for key in [1, 5, 77] {
            let old = map.0.insert(key, round).map_err(|e| e.to_string())?;
            if old != model.insert(key, round) {
                return Err(format!("going on: {old:?} for {key}"));
            }
        }
        let old = map.0.remove(5).map_err(|e| e.to_string())?;
        if old != model.remove(&5) {
            return Err(format!("going on: {old:?} was removed"));
        }
        map.tick().map_err(|e| e.to_string())?;
    }
    let now = map.entries();
    if now.iter().copied().eq(model) { Ok(()) } else { Err(format!("going on made {now:?}")) }
}

/// A put.
pub fn insert(key: u64, value: u64) -> Act {
    Act::Write(MapWrite::Insert(key, value))
}

/// A removal.
pub fn remove(key: u64) -> Act {
    Act::Write(MapWrite::Remove(key))
}

use Act::{Sync, Tick};

/// Payloads in place and out of place, and anti-payloads, until their cells are used again.
pub fn script() -> Vec<Act> {
    vec![
        insert(0, 1),
        insert(5, 1),
        insert(5, 2),
        Tick,
        insert(5, 3),
        remove(0),
        insert(u64::MAX, 9),
        remove(u64::MAX),
        Tick,
        remove(5),
        insert(0, 4),
        Tick,
        insert(7, 5),
        Tick,
        insert(8, 6),
        insert(7, 7),
        Tick,
        remove(7),
        insert(5, 8),
        Tick,
        insert(9, 1),
        Tick,
        Tick,
        insert(10, 1),
        insert(11, 1),
        remove(10),
        Sync,
    ]
}

/// The smallest script: what a sync has answered for.
pub fn synced() -> [Act; 2] {
    [insert(5, 1), Sync]
}
