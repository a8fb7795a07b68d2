//! Every flush, fence and store of operations that change several nodes, left out one at a time.
//! Kinds of calls that nobody notices anywhere have a reason why nothing is lost.

mod common;

use std::collections::BTreeMap;
use std::ops::Bound::Unbounded;
use std::sync::Arc;

use common::sim;
use everleaf_check::{CrashPoint, Explorer, Fault, Mutate, Script, Shared, Step, Trace};
use everleaf_pmem::sim::Event;
use everleaf_pmem::{Counts, Medium, Sim};
use everleaf_tree::{CircTree, INDEX_ANCHOR, Index, TreeReport, format, open};

/// Words of a page of 4 slots.
const PAGE: u32 = 16;
const PAGES: u32 = 64;

/// A tree, an operation on it, and what follows.
struct Scene {
    kind: &'static str,
    before: Vec<Step>,
    steps: Vec<Step>,
}

fn check<M: Medium>(tree: &CircTree<M>) -> Result<TreeReport, String> {
    let mut report = tree.check().map_err(|e| e.to_string())?;
    report.damages.extend(tree.pool().check());
    if report.damages.is_empty() { Ok(report) } else { Err(format!("{:?}", report.damages)) }
}

/// Opens what a crash left, reads it, and uses it.
fn recover(sim: &Arc<Sim>) -> Result<Vec<(u64, u64)>, String> {
    let tree = open(Shared::new(sim))
        .and_then(|pool| CircTree::open(Arc::new(pool), INDEX_ANCHOR))
        .map_err(|e| e.to_string())?;
    let entries = tree.range(Unbounded, Unbounded, usize::MAX).map_err(|e| e.to_string())?;
    check(&tree)?;
    for i in 0..6 {
        tree.insert(i << 61 | 1, i).map_err(|e| e.to_string())?;
    }
    check(&tree).map(|_| entries)
}

impl Scene {
    /// A medium that holds the tree, and its entries.
    fn stage(&self) -> (Arc<Sim>, Vec<(u64, u64)>) {
        let sim = sim(4, PAGES);
        let pool = format(Shared::new(&sim)).expect("formats");
        let tree = CircTree::create(Arc::new(pool), INDEX_ANCHOR).expect("space");
        for step in &self.before {
            match *step {
                Step::Insert(key, value) => Index::insert(&tree, key, value).expect("space"),
                Step::Remove(key) => Index::remove(&tree, key).expect("memory"),
            };
        }
        let entries = tree.range(Unbounded, Unbounded, usize::MAX).expect("memory");
        let image = Sim::from_image(sim.geometry(), PAGES, &sim.image()).expect("memory");
        (Arc::new(image), entries)
    }

    /// Does the operation with a fault and what follows without, and crashes all of it. Answers
    /// what the operation called.
    fn crash_with(&self, fault: Option<Fault>) -> Result<(Counts, Vec<Event>), String> {
        let (sim, entries) = self.stage();
        let pool = Arc::new(open(Mutate::new(Shared::new(&sim), fault)).expect("opens"));
        let tree = CircTree::open(Arc::clone(&pool), INDEX_ANCHOR).expect("opens");
        assert_eq!(
            pool.medium().counts(),
            Counts::default(),
            "opening a sound tree stores nothing"
        );
        let script = Script::new(&entries, self.steps.clone());
        let trace = Trace::new(&sim);
        script.run_step(&trace, &tree, 0)?;
        let counts = pool.medium().counts();
        (1..self.steps.len()).try_for_each(|i| script.run_step(&trace, &tree, i))?;
        let record = trace.finish();
        let verify = |found: Vec<(u64, u64)>, _: &Arc<Sim>, crash: &CrashPoint<'_>| {
            script.admits(crash, &found)
        };
        let explored = Explorer::new().depth(1).explore(&record, recover, verify);
        explored.map(|_| (counts, record.events)).map_err(|failure| failure.to_string())
    }
}

/// Inserts and removes at each size of a tree, with splits and merges of all kinds among them, and
/// what makes the same nodes and pages change again.
fn scenes() -> Vec<Scene> {
    let insert = |keys: std::ops::Range<u64>| keys.map(|key| Step::Insert(10 * key, key));
    let mut scenes = Vec::new();
    for n in 3..24 {
        let mut steps = vec![Step::Insert(10 * n, 1), Step::Insert(10 * n + 1, 2), Step::Remove(0)];
        steps.extend((1..8).map(|i| Step::Insert(10 * n - i, i)));
        scenes.push(Scene { kind: "insert", before: insert(0..n).collect(), steps });
        let mut before: Vec<Step> = insert(0..23).collect();
        before.extend((0..n - 2).map(|key| Step::Remove(10 * key)));
        let mut steps = vec![Step::Remove(10 * (n - 2))];
        steps.extend((1..8).map(|i| Step::Insert(10 * n + i, i)));
        scenes.push(Scene { kind: "remove", before, steps });
    }
    scenes
}

/// An operation, a call that is left out, and what it is about.
type Site = (&'static str, &'static str, String);

fn of_line(line: u32) -> &'static str {
    match (line * 8 / PAGE, line * 8 % PAGE) {
        (0, _) => "the map",
        (1, _) => "the anchor",
        (_, 0) => "a header",
        _ => "slots",
    }
}

fn of_store(word: u32, value: u64) -> String {
    let what = match (word / PAGE, word % PAGE) {
        (1, 1) => "the root",
        (1, 2) if value == 0 => "the end of an announcement",
        (1, 2) => "an announcement",
        (2.., 0) => "base and count",
        (2.., 1) => "a sibling",
        (2.., 2) => "an upper bound",
        (2.., 3) => "a lower bound",
        (2.., 4) => "the record of an upper bound",
        (2.., 5) if value == 0 => "a kind, of a freed page",
        (2.., 5) => "a kind",
        _ => of_line(word / 8),
    };
    what.into()
}

fn site(kind: &'static str, events: &[Event], fault: Fault) -> Site {
    let (mut stores, mut flushes, mut fences) = (Vec::new(), Vec::new(), Vec::new());
    for event in events {
        match *event {
            Event::Store { word, value } => stores.push(of_store(word, value)),
            Event::Flush { line, .. } => flushes.push(of_line(line)),
            Event::Fence { .. } => fences.push(flushes.last().copied().unwrap_or("nothing")),
            Event::Mark { .. } => {}
        }
    }
    match fault {
        Fault::DropFlush(k) => (kind, "no flush of", flushes[k as usize].into()),
        Fault::DropFence(k) => (kind, "no fence after", fences[k as usize].into()),
        Fault::DropStore(k) => (kind, "no store of", stores[k as usize].clone()),
        Fault::SwapStores(_) => unreachable!("not tried here: the node's own mutants do"),
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

#[test]
fn every_kind_of_call_is_needed_somewhere() {
    let mut table: BTreeMap<Site, [u64; 2]> = BTreeMap::new();
    for scene in scenes() {
        let (counts, events) = scene.crash_with(None).expect("nothing is wrong without a fault");
        for fault in Fault::each(counts).filter(|f| !matches!(f, Fault::SwapStores(_))) {
            let noticed = scene.crash_with(Some(fault)).is_err();
            table.entry(site(scene.kind, &events, fault)).or_default()[usize::from(!noticed)] += 1;
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
    assert!(open.is_empty(), "nobody notices: {open:#?}");
}
