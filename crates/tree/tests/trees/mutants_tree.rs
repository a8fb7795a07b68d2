//! Every flush, fence and store of operations that change several nodes, left out one at a time.
//! Kinds of calls that nobody notices anywhere have a reason why nothing is lost.

use std::collections::BTreeMap;
use std::ops::Bound::Unbounded;
use std::sync::Arc;

use crate::common::sim;
use crate::tree::Kind;
use everleaf_crash_check::{
    CrashPoint, Explorer, MapWrite, Mutate, Mutation, Script, SharedMedium, Trace,
};
use everleaf_pmem::sim::Event;
use everleaf_pmem::{Counts, Dram, Medium, Sim};
use everleaf_pool::kind;
use everleaf_tree::{CircTree, FastFairS, FastLogging, Index, StringTree};

/// Words of a page of 4 slots.
const PAGE: u32 = 16;

/// A tree, an operation on it, and what follows.
struct Scene {
    kind: &'static str,
    before: Vec<MapWrite>,
    steps: Vec<MapWrite>,
}

/// Opens what a crash left, reads it, and uses it.
fn recover<T: Kind>(sim: &Arc<Sim>) -> Result<Vec<(u64, u64)>, String> {
    let tree = T::open(SharedMedium::new(sim)).map_err(|e| e.to_string())?;
    let entries = tree.range(Unbounded, Unbounded, usize::MAX).map_err(|e| e.to_string())?;
    T::check(&tree)?;
    for i in 0..6 {
        tree.insert(i << 61 | 1, i).map_err(|e| e.to_string())?;
    }
    T::check(&tree).map(|_| entries)
}

/// The calls of an operation, and the owners of the pages.
struct Called {
    counts: Counts,
    events: Vec<Event>,
    owners: Vec<u8>,
}

impl Scene {
    /// A medium that holds the tree, and its entries.
    fn stage<T: Kind>(&self) -> (Arc<Sim>, Vec<(u64, u64)>) {
        let sim = sim(4, T::PAGES);
        let tree = T::make(SharedMedium::new(&sim)).expect("space");
        for step in &self.before {
            match *step {
                MapWrite::Insert(key, value) => tree.insert(key, value).expect("space"),
                MapWrite::Remove(key) => tree.remove(key).expect("memory"),
            };
        }
        let entries = tree.range(Unbounded, Unbounded, usize::MAX).expect("memory");
        let image = Sim::from_image(sim.geometry(), T::PAGES, &sim.image()).expect("memory");
        (Arc::new(image), entries)
    }

    /// Whether the operation changes a node under the log.
    fn is_logged<T: Kind>(&self) -> bool {
        let (sim, entries) = self.stage::<T>();
        let tree = T::open(SharedMedium::new(&sim)).expect("opens");
        let trace = Trace::new(&sim);
        Script::new(&entries, self.steps.clone()).run_step(&trace, &tree, 0).expect("works");
        let owners = T::pool(&tree).map_bytes().expect("memory");
        trace.finish().events.iter().any(|event| match event {
            Event::Flush { line, .. } => of_line(*line, &owners) == "the log",
            _ => false,
        })
    }

    /// Does the operation with a fault and what follows without, and crashes all of it.
    fn crash_with<T: Kind>(
        &self,
        fault: Option<Mutation>,
        explorer: &Explorer,
    ) -> Result<Called, String> {
        let (sim, entries) = self.stage::<T>();
        let tree = T::open(Mutate::new(SharedMedium::new(&sim), fault)).expect("opens");
        let pool = T::pool(&tree);
        let counts = || pool.medium().counts();
        assert_eq!(counts(), Counts::default(), "opening a sound tree stores nothing");
        let mut owners = pool.map_bytes().expect("memory");
        let script = Script::new(&entries, self.steps.clone());
        let trace = Trace::new(&sim);
        script.run_step(&trace, &tree, 0)?;
        let counts = counts();
        for (no, owner) in (0..).zip(pool.map_bytes().expect("memory")) {
            match owners.get_mut(no) {
                Some(known) if *known == kind::FREE => *known = owner,
                Some(_) => {}
                None => owners.push(owner),
            }
        }
        (1..self.steps.len()).try_for_each(|i| script.run_step(&trace, &tree, i))?;
        let record = trace.finish();
        let verify = |found: Vec<(u64, u64)>, _: &Arc<Sim>, crash: &CrashPoint<'_>| {
            script.admits(crash, &found)
        };
        let explored = explorer.explore(&record, recover::<T>, verify);
        let called = |_| Called { counts, events: record.events, owners };
        explored.map(called).map_err(|failure| failure.to_string())
    }
}

/// Inserts and removes at each size of a tree, with splits and merges of all kinds among them, and
/// what makes the same nodes and pages change again.
fn scenes(sizes: impl Iterator<Item = u64>) -> Vec<Scene> {
    let insert = |keys: std::ops::Range<u64>| keys.map(|key| MapWrite::Insert(10 * key, key));
    let mut scenes = Vec::new();
    for n in sizes {
        let mut steps =
            vec![MapWrite::Insert(10 * n, 1), MapWrite::Insert(10 * n + 1, 2), MapWrite::Remove(0)];
        steps.extend((1..8).map(|i| MapWrite::Insert(10 * n - i, i)));
        scenes.push(Scene { kind: "insert", before: insert(0..n).collect(), steps });
        let mut before: Vec<MapWrite> = insert(0..23).collect();
        before.extend((0..n - 2).map(|key| MapWrite::Remove(10 * key)));
        let mut steps = vec![MapWrite::Remove(10 * (n - 2))];
        steps.extend((1..8).map(|i| MapWrite::Insert(10 * n + i, i)));
        scenes.push(Scene { kind: "remove", before, steps });
    }
    scenes
}

/// An operation, a call that is left out, and what it is about.
type Site = (&'static str, &'static str, String);

fn of_line(line: u32, owners: &[u8]) -> &'static str {
    let (no, line) = (line * 8 / PAGE, line * 8 % PAGE);
    match (owners.get(no as usize).copied().unwrap_or_default(), line) {
        (kind::MAP, _) => "the map",
        (kind::ANCHOR, _) => "the anchor",
        (kind::LOG, _) => "the log",
        (kind::RECORD, 0) => "which records are used",
        (kind::RECORD, _) => "a record",
        (_, 0) => "a header",
        _ => "slots",
    }
}

fn of_store(word: u32, value: u64, owners: &[u8]) -> String {
    let owner = owners.get((word / PAGE) as usize).copied().unwrap_or_default();
    let what = match (owner, word % PAGE) {
        (kind::ANCHOR, 1) => "the root",
        (kind::ANCHOR, 2) if value == 0 => "the end of an announcement",
        (kind::ANCHOR, 2) => "an announcement",
        (kind::ANCHOR, 4) if value == 0 => "the end of a logged change",
        (kind::ANCHOR, 4) => "the start of a logged change",
        (kind::NODE, 0) => "base and count",
        (kind::NODE, 1) => "a sibling",
        (kind::NODE, 2) => "an upper bound",
        (kind::NODE, 3) => "a lower bound",
        (kind::NODE, 4) => "the record of an upper bound",
        (kind::NODE | kind::RECORD, 5) if value == 0 => "a kind, of a freed page",
        (kind::NODE, 5) => "a kind",
        _ => of_line(word / 8, owners),
    };
    what.into()
}

fn site(kind: &'static str, called: &Called, fault: Mutation) -> Site {
    let (mut stores, mut flushes, mut fences) = (Vec::new(), Vec::new(), Vec::new());
    for event in &called.events {
        match *event {
            Event::Store { word, value } => stores.push(of_store(word, value, &called.owners)),
            Event::Flush { line, .. } => flushes.push(of_line(line, &called.owners)),
            Event::Fence { .. } => fences.push(flushes.last().copied().unwrap_or("nothing")),
            Event::Mark { .. } => {}
        }
    }
    match fault {
        Mutation::DropFlush(k) => (kind, "no flush of", flushes[k as usize].into()),
        Mutation::DropFence(k) => (kind, "no fence after", fences[k as usize].into()),
        Mutation::DropStore(k) => (kind, "no store of", stores[k as usize].clone()),
        Mutation::SwapStores(_) => unreachable!("not tried here: the node's own mutants do"),
    }
}

/// Why nothing is lost by any fault of a site.
fn reason((kind, what, hit): &Site) -> Option<&'static str> {
    Some(match (*kind, *what, hit.as_str()) {
        ("insert", _, "the anchor" | "the root") => {
            "the old root and its sibling are a tree, and the next writer to pass grows the root"
        }
        ("insert", "no fence after", "the map") => {
            "the new node's fence covers it, and comes before the node is linked"
        }
        (_, _, "the record of an upper bound") => "nodes of words do not have it",
        ("remove", _, "the map") => "a page that leaks, which strict media allow",
        ("remove", _, "a kind, of a freed page") => "the map says whose page it is",
        // Of a leaf: the slots say the same until it changes again, which the node's own mutants
        // do. Of a merge: if the parent's removal reaches memory first, the parent lacks an entry.
        ("remove", "no fence after", "a header") => {
            "what it orders is told by the slots, or completed as an unfinished split is"
        }
        _ => return None,
    })
}

/// The log is FAST+Logging's, whose splits are FAIR's inside and need none.
fn reason_beside_log(site: &Site) -> Option<&'static str> {
    Some(match (site.0, site.1, site.2.as_str()) {
        (_, "no store of", "the start of a logged change") => {
            "words need no log: it is kept to show what it costs"
        }
        ("insert", "no fence after", "a header") => {
            "what the log no longer undoes the node's own recovery finishes"
        }
        _ => return reason(site),
    })
}

fn reason_of_strings(site: &Site) -> Option<&'static str> {
    Some(match (site.0, site.1, site.2.as_str()) {
        ("insert", "no fence after", "a header") => {
            "the slots say that an insert was written; a split's slots are voided and fenced after it"
        }
        ("insert", "no fence after", "a record") => {
            "the fence of its bit covers it, and comes before the record is named"
        }
        ("remove", _, "which records are used") => "a record that leaks, which strict media allow",
        _ => return reason(site),
    })
}

/// Which faults are tried on which operations.
struct Trial {
    scenes: Vec<Scene>,
    explorer: Explorer,
    stores: bool,
}

impl Trial {
    /// Leaves out each call of all operations. A kind of call must be noticed somewhere, or have
    /// its reason.
    fn every_kind_of_call<T: Kind>(&self, reason: impl Fn(&Site) -> Option<&'static str>) {
        let tried = |fault: &Mutation| match fault {
            Mutation::DropStore(_) => self.stores,
            Mutation::SwapStores(_) => false,
            _ => true,
        };
        let mut table: BTreeMap<Site, [u64; 2]> = BTreeMap::new();
        for scene in &self.scenes {
            let crash = |fault| scene.crash_with::<T>(fault, &self.explorer);
            let called = crash(None).expect("right without a fault");
            for fault in Mutation::each(called.counts).filter(tried) {
                let noticed = crash(Some(fault)).is_err();
                let site = site(scene.kind, &called, fault);
                table.entry(site).or_default()[usize::from(!noticed)] += 1;
            }
        }
        let mut open = Vec::new();
        for (site, [killed, survived]) in &table {
            let (kind, what, hit) = site;
            let reason = if *killed == 0 { reason(site) } else { None };
            let because = reason.map_or(String::new(), |reason| format!("; {reason}"));
            println!("{kind}: {what} {hit}: {killed} of {} killed{because}", killed + survived);
            if *killed == 0 && reason.is_none() {
                open.push(site);
            }
        }
        assert!(open.is_empty(), "{}: nobody notices: {open:#?}", T::name());
    }
}

/// Inserts and removes that change a node under the log, with one step behind each.
fn logged_scenes<T: Kind>(each: usize) -> Vec<Scene> {
    let (mut kept, mut inserts, mut removes) = (Vec::new(), 0, 0);
    for mut scene in scenes(6..20) {
        let count = if scene.kind == "insert" { &mut inserts } else { &mut removes };
        scene.steps.truncate(2);
        if *count < each && scene.is_logged::<T>() {
            *count += 1;
            kept.push(scene);
        }
    }
    assert!(inserts == each && removes <= each, "{inserts} inserts, {removes} removes");
    kept
}

#[test]
fn circular_nodes_need_every_kind_of_call() {
    let explorer = Explorer::new().depth(1);
    Trial { scenes: scenes(3..24), explorer, stores: true }
        .every_kind_of_call::<CircTree<Dram>>(reason);
}

fn sampling() -> Explorer {
    Explorer::new().depth(1).exhaustive(64).samples(24)
}

#[test]
fn linear_nodes_need_every_kind_of_call() {
    let scenes = scenes((5..24).step_by(4));
    Trial { scenes, explorer: sampling(), stores: true }
        .every_kind_of_call::<FastFairS<Dram>>(reason);
}

#[test]
fn logged_splits_need_every_kind_of_call() {
    let scenes = logged_scenes::<FastLogging<Dram>>(2);
    Trial { scenes, explorer: sampling(), stores: true }
        .every_kind_of_call::<FastLogging<Dram>>(reason_beside_log);
}

#[test]
fn byte_strings_need_every_flush_and_fence() {
    let scenes = logged_scenes::<StringTree<Dram>>(2);
    Trial { scenes, explorer: sampling().exhaustive(16).samples(8), stores: false }
        .every_kind_of_call::<StringTree<Dram>>(reason_of_strings);
}
