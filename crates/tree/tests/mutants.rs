//! Every flush, fence and store of the circular layout, left out or swapped with the next, one at a
//! time: the crash checker notices, or there is a reason why nothing is lost.

mod common;

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::sync::Arc;

use common::change::{Change, Scene, State, beside, each_change, each_node, spaces};
use common::{END, Free, INNER, LAST, LEAF, LEFT, Node, RIGHT, invariants, key, recover, to};
use everleaf_check::{CrashPoint, Explorer, Fault, Mode, Mutate, Record, Shared, Trace, images};
use everleaf_pmem::sim::Event;
use everleaf_pmem::{Medium, Sim};
use everleaf_tree::node::{HIGH_RECORD_WORD, HIGH_WORD, RUN_WORD, SIBLING_WORD, Shape, Slot};

const SLOTS: u32 = 8;
/// Words of a page.
const PAGE: u32 = 8 + 2 * SLOTS;

/// What one call of the layout touches.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Touch {
    Run,
    Sibling,
    High,
    /// Another word of the header.
    Head,
    /// A word that only byte strings have.
    Unread,
    Ident,
    Payload,
    Header,
    Slots,
    /// The last line of slots before the commit.
    LastSlots,
    /// The new node of a split.
    NewNode,
}

impl fmt::Display for Touch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Touch::Run => write!(f, "base and count"),
            Touch::Sibling => write!(f, "sibling"),
            Touch::High => write!(f, "upper bound"),
            Touch::Head => write!(f, "the header"),
            Touch::Unread => write!(f, "the record of the upper bound"),
            Touch::Ident => write!(f, "an identity"),
            Touch::Payload => write!(f, "a payload"),
            Touch::Header => write!(f, "the header line"),
            Touch::Slots => write!(f, "a line of slots"),
            Touch::LastSlots => write!(f, "the last line of slots"),
            Touch::NewNode => write!(f, "the new node"),
        }
    }
}

/// A fault, by what it does to which calls: faults of one site are one line of the table.
type Site = (&'static str, &'static str, String);

fn of_word(word: u32) -> Touch {
    let at = word % PAGE;
    match (word / PAGE, at as usize) {
        (RIGHT, HIGH_RECORD_WORD) => Touch::Unread,
        (RIGHT, _) => Touch::NewNode,
        (_, RUN_WORD) => Touch::Run,
        (_, SIBLING_WORD) => Touch::Sibling,
        (_, HIGH_WORD) => Touch::High,
        (_, 0..8) => Touch::Head,
        _ if at.is_multiple_of(2) => Touch::Ident,
        _ => Touch::Payload,
    }
}

fn of_line(line: u32) -> Touch {
    match (line * 8 / PAGE, line * 8 % PAGE) {
        (RIGHT, _) => Touch::NewNode,
        (_, 0) => Touch::Header,
        _ => Touch::Slots,
    }
}

/// The line that was flushed before each fence.
fn fenced(events: &[Event]) -> Vec<Touch> {
    let (mut touches, mut last) = (Vec::new(), Touch::Header);
    for event in events {
        match event {
            Event::Flush { line, .. } => last = of_line(*line),
            Event::Fence { .. } => touches.push(last.clone()),
            _ => {}
        }
    }
    if let Some([before, Touch::Header]) = touches.last_chunk_mut()
        && *before == Touch::Slots
    {
        *before = Touch::LastSlots;
    }
    touches
}

/// What a fault hits, by the calls of a faultless run.
fn site(scene: &'static str, events: &[Event], fault: Fault) -> Site {
    let stores = events.iter().filter_map(|e| match e {
        Event::Store { word, .. } => Some(*word),
        _ => None,
    });
    let flushes = events.iter().filter_map(|e| match e {
        Event::Flush { line, .. } => Some(*line),
        _ => None,
    });
    let (stores, flushes): (Vec<u32>, Vec<u32>) = (stores.collect(), flushes.collect());
    let (what, hit) = match fault {
        Fault::DropFlush(k) => ("no flush of", of_line(flushes[k as usize]).to_string()),
        Fault::DropFence(k) => ("no fence after", fenced(events)[k as usize].to_string()),
        Fault::DropStore(k) => ("no store of", of_word(stores[k as usize]).to_string()),
        Fault::SwapStores(k) => {
            let [a, b] = [stores[k as usize], stores[k as usize + 1]];
            let lines = if a / 8 == b / 8 { "in one line" } else { "in two lines" };
            ("swapped", format!("{} and {}, {lines}", of_word(a), of_word(b)))
        }
    };
    (scene, what, hit)
}

fn leaf(base: usize, count: usize) -> Node {
    let slots =
        (0..count as u64).map(|i| Slot { ident: 101 + 2 * i, payload: 1001 + 2 * i }).collect();
    Node { shape: LEAF, low: 100, right: to(RIGHT, 200), base, slots, free: Free::Stale }
}

fn inner(base: usize, count: usize) -> Node {
    let slots = (0..count as u64).map(|i| Slot { ident: 500 + i, payload: 101 + 2 * i }).collect();
    Node { shape: INNER, ..Node { slots, ..leaf(base, 0) } }
}

fn slot(shape: Shape, key: u64) -> Slot {
    if shape.level == 0 {
        Slot { ident: key, payload: 900 + key }
    } else {
        Slot { ident: 600, payload: key }
    }
}

fn insert(node: &Node, pos: usize) -> Change {
    Change::Insert(pos, slot(node.shape, 100 + 2 * pos as u64))
}

fn scene(node: Node, change: Change) -> Scene {
    let fresh = (0..17).map(|i| {
        if node.shape.level == 0 {
            Slot { ident: 100 + i, payload: i }
        } else {
            Slot { ident: 700 + i, payload: 100 + i }
        }
    });
    let right = Node {
        low: node.right.high,
        right: END,
        base: 0,
        slots: vec![],
        free: Free::Clean,
        ..node.clone()
    };
    Scene {
        slots: SLOTS,
        fresh: fresh.collect(),
        others: vec![(RIGHT, right)],
        node,
        change,
        then: None,
    }
}

fn split(node: Node) -> Scene {
    let node = Node { right: to(LAST, 200), ..node };
    let mut scene = scene(node.clone(), Change::Split(3));
    // The new node's page was another node once, with slots that must not show.
    let keys = 120..120 + u64::from(SLOTS);
    let shape = if node.shape == LEAF { INNER } else { LEAF };
    let slots = keys.map(|key| Slot { ident: key, payload: key }).collect();
    let old = Node { shape, low: 90, right: to(9, 9), base: 3, slots, free: Free::Clean };
    scene.others[0].0 = LAST;
    scene.others.push((RIGHT, old));
    scene
}

fn merge(node: Node, last: bool) -> Scene {
    let end = if last { END } else { to(LAST, 300) };
    let more: Vec<Slot> = (0..4).map(|i| Slot { ident: 200 + i, payload: 200 + i }).collect();
    let mut scene = scene(node.clone(), Change::Merge(more.clone(), end));
    let right =
        Node { low: 200, right: end, slots: more, base: 2, free: Free::Clean, ..node.clone() };
    let beyond = Node { low: 300, right: END, slots: vec![], base: 0, free: Free::Clean, ..node };
    scene.others = vec![(RIGHT, right), (LAST, beyond)];
    scene
}

/// One of each way through the layout, where the shift crosses a line wherever it can.
fn scenes() -> Vec<(&'static str, Scene)> {
    let at = |node: Node, pos| {
        let change = insert(&node, pos);
        scene(node, change)
    };
    vec![
        ("insert, shifting left", at(leaf(3, 7), 3)),
        ("insert, shifting right", at(leaf(0, 7), 4)),
        ("insert, shifting left over the end", at(leaf(1, 6), 2)),
        ("insert at an end", at(leaf(2, 3), 3)),
        ("insert into an empty leaf", at(leaf(2, 0), 0)),
        ("insert, inner, shifting left", at(inner(3, 7), 3)),
        ("insert, inner, shifting right", at(inner(0, 6), 3)),
        ("insert in the middle, shifting right", at(leaf(1, 6), 3)),
        ("insert, inner, beside voided slots", at(Node { free: Free::Voided, ..inner(3, 7) }, 3)),
        ("remove, shifting left", scene(leaf(6, 8), Change::Remove(4))),
        ("remove, shifting right", scene(leaf(2, 8), Change::Remove(3))),
        ("remove at an end", scene(leaf(2, 4), Change::Remove(3))),
        ("remove of the only one", scene(leaf(2, 1), Change::Remove(0))),
        ("remove, inner, shifting left", scene(inner(6, 8), Change::Remove(4))),
        ("remove, inner, shifting right", scene(inner(2, 8), Change::Remove(3))),
        ("update", scene(leaf(2, 4), Change::Update(1, 99))),
        ("split", split(leaf(5, 8))),
        ("split, inner", split(inner(5, 8))),
        ("merge", merge(leaf(2, 3), false)),
        ("merge with the last", merge(leaf(2, 3), true)),
        ("merge, inner", merge(inner(2, 3), false)),
        (
            "merge, inner, over voided slots",
            merge(Node { free: Free::Voided, ..inner(2, 3) }, false),
        ),
    ]
}

/// Which faults of which sites were noticed, and which were not.
#[derive(Default)]
struct Table(BTreeMap<Site, [u64; 2]>);

impl Table {
    fn add(&mut self, site: Site, noticed: bool) {
        self.0.entry(site).or_default()[usize::from(!noticed)] += 1;
    }

    /// Prints all sites; answers those that nobody notices and that have no reason.
    fn close(&self, recovers: bool) -> Vec<&Site> {
        let mut open = Vec::new();
        for (site @ (scene, what, hit), [killed, survived]) in &self.0 {
            print!("{scene}: {what} {hit}: {killed} of {} killed", killed + survived);
            match (survived, reason(site, recovers, *killed > 0)) {
                (0, _) => println!(),
                (_, Some(reason)) => println!("; else {reason}"),
                (_, None) => {
                    println!("; else it is not noticed");
                    open.push(site);
                }
            }
        }
        let [killed, survived] = self.0.values().fold([0, 0], |[a, b], [c, d]| [a + c, b + d]);
        println!("{killed} killed, {survived} redundant, {} sites", self.0.len());
        open
    }
}

/// Why nothing is lost by a fault of this site. `elsewhere`: it is noticed in other states.
fn reason((scene, what, hit): &Site, recovers: bool, elsewhere: bool) -> Option<&'static str> {
    let (is_split, is_merge) = (scene.starts_with("split"), scene.starts_with("merge"));
    let one_slot = matches!(*scene, "insert into an empty leaf" | "remove of the only one");
    let write_back = *what == "no flush of" || *what == "no fence after";
    let swapped = *what == "swapped";
    let inner_shift =
        matches!(*scene, "insert, inner, shifting left" | "insert, inner, shifting right");
    Some(match hit.as_str() {
        "the header line" if write_back && one_slot => {
            "nothing shifts in a node of one slot, so the slots say what the run is, until the next \
             change flushes the header"
        }
        "the header line" if write_back && recovers && elsewhere && (is_split || is_merge) => {
            "only the upper bound was set right, and the next recovery does that again"
        }
        "the last line of slots" if *what == "no fence after" && !is_merge => {
            "a count ahead of its slots reads as the opposite change cut off, and ends the same"
        }
        _ if recovers && elsewhere => "the crash came later: what is stored is there already",
        "the record of the upper bound" if is_split => "nodes of words do not have it",
        _ if swapped && is_split && hit.contains("new node") => "nobody reaches the node yet",
        "upper bound" if *scene == "merge with the last" => "the last node has no upper bound",
        "sibling and base and count, in one line"
        | "upper bound and sibling, in one line"
        | "sibling and upper bound, in one line"
        | "upper bound and base and count, in one line"
            if swapped =>
        {
            "recovery takes the upper bound from the sibling and the count from the slots"
        }
        _ if swapped && is_merge && !hit.contains("base") => "void until the bounds widen",
        "a payload and an identity, in one line" if inner_shift && elsewhere => {
            "the free slot's payload lies outside the bounds here; beside voided slots it is noticed"
        }
        _ => return None,
    })
}

/// The events of a faultless change.
fn events_of(scene: &Scene) -> Vec<Event> {
    record(scene).events.into_iter().filter(|e| !matches!(e, Event::Mark { .. })).collect()
}

fn record(scene: &Scene) -> Record {
    let sim = scene.stage();
    let trace = Trace::new(&sim);
    let page = sim.page(LEFT).expect("inside");
    trace.op(0, || scene.change.run(&*sim, page, scene.node.shape));
    trace.finish()
}

/// Changes that may come next: one of each direction, and at each end.
fn followers(shape: Shape, low: u64, after: &State) -> Vec<Change> {
    let n = after.slots.len();
    let mut next = Vec::new();
    if n > 0 {
        next.extend([0, n / 4, n / 2, n - 1].map(Change::Remove));
    }
    let free = |pos: usize| {
        let at = if pos == 0 { low } else { key(shape, after.slots[pos - 1]) + 1 };
        let taken = after.slots.get(pos).is_some_and(|s| key(shape, *s) == at);
        (!taken).then_some(Change::Insert(pos, slot(shape, at)))
    };
    if n < SLOTS as usize {
        next.extend([0, n / 4, n / 2, n * 3 / 4, n].into_iter().filter_map(free));
    }
    next
}

#[test]
fn every_flush_fence_and_store_of_a_change_is_needed() {
    let mut table = Table::default();
    for (name, scene) in scenes() {
        let then = followers(scene.node.shape, scene.node.low, &scene.states()[1]);
        let then = std::iter::once(None).chain(then.into_iter().map(Some));
        let scenes: Vec<Scene> = then.map(|then| Scene { then, ..scene.clone() }).collect();
        for scene in &scenes {
            scene.crash_with(None).expect("nothing is wrong without a fault");
        }
        let calls = scene.crash_with(None).expect("nothing is wrong without a fault").1;
        let events = events_of(&scene);
        for fault in Fault::each(calls) {
            let noticed = scenes.iter().any(|scene| scene.crash_with(Some(fault)).is_err());
            table.add(site(name, &events, fault), noticed);
        }
    }
    let open = table.close(false);
    assert!(open.is_empty(), "nobody notices: {open:#?}");
}

/// All images that a crash of a scene may leave and whose recovery stores something.
fn crashed(scene: &Scene) -> HashSet<Vec<u64>> {
    let record = record(scene);
    let fences = record.events.iter().enumerate().filter(|(_, e)| matches!(e, Event::Fence { .. }));
    fences.flat_map(|(at, _)| images(&record, at, Mode::X86)).collect()
}

/// A recovery of one image, with a fault.
struct Repair<'a> {
    scene: &'a Scene,
    image: &'a [u64],
    /// What it must lead to.
    state: State,
}

impl Repair<'_> {
    fn sim(&self) -> Arc<Sim> {
        let geometry = self.scene.stage().geometry();
        Arc::new(Sim::from_image(geometry, 4, self.image).expect("memory"))
    }

    /// Recovers with a fault, changes the node, and crashes all of it.
    fn crash_with(&self, fault: Fault, then: &Change) -> Result<(), String> {
        let (shape, sim) = (self.scene.node.shape, self.sim());
        let trace = Trace::new(&sim);
        let page = sim.page(LEFT).expect("inside");
        trace.op(0, || recover(&Mutate::new(Shared::new(&sim), Some(fault)), LEFT, shape))?;
        invariants(page, shape)?;
        if State::of(page) != self.state {
            return Err(format!("recovered {:?}", State::of(page)));
        }
        trace.op(1, || then.run(&*sim, page, shape));
        let mut states = vec![self.state.clone(); 3];
        then.model(shape, &mut states[2]);
        let verify = |(), sim: &Arc<Sim>, crash: &CrashPoint<'_>| {
            let page = sim.page(LEFT).expect("inside");
            invariants(page, shape)?;
            let legal = &states[crash.responded().len()..=crash.invoked().len()];
            let found = State::of(page);
            if legal.contains(&found) { Ok(()) } else { Err(format!("{found:?}, not {legal:?}")) }
        };
        let explorer = Explorer::new().depth(1);
        let explored =
            explorer.explore(&trace.finish(), |sim| recover(&**sim, LEFT, shape), verify);
        explored.map(|_| ()).map_err(|failure| failure.to_string())
    }
}

/// Adds all faults of the recovery of one image.
fn mutate_repair(table: &mut Table, name: &'static str, scene: &Scene, image: &[u64]) {
    let mut repair = Repair { scene, image, state: State { slots: vec![], right: END } };
    let (sim, shape) = (repair.sim(), scene.node.shape);
    let m = Mutate::new(Shared::new(&sim), None);
    recover(&m, LEFT, shape).expect("nothing is wrong without a fault");
    repair.state = State::of(sim.page(LEFT).expect("inside"));
    let (events, calls) = (sim.take_events(), m.counts());
    let then = followers(shape, scene.node.low, &repair.state);
    for fault in Fault::each(calls) {
        let noticed = then.iter().any(|then| repair.crash_with(fault, then).is_err());
        table.add(site(name, &events, fault), noticed);
    }
}

#[test]
fn every_flush_fence_and_store_of_recovery_is_needed() {
    let mut table = Table::default();
    for (name, scene) in scenes() {
        for image in crashed(&scene) {
            mutate_repair(&mut table, name, &scene, &image);
        }
    }
    let open = table.close(true);
    assert!(open.is_empty(), "nobody notices: {open:#?}");
}

/// The fence between the slots and the header, which commits, is only needed by an insert that
/// shifts right from the very middle of a node: else a count that reaches memory ahead of its slots
/// reads as the opposite change cut off, and recovery of that ends in the same state.
#[test]
fn the_fence_before_the_commit_is_only_needed_by_inserts_in_the_very_middle() {
    let (mut tried, mut needed) = (0, 0);
    for slots in [4, 8] {
        for space in spaces() {
            for (base, count) in (0..slots).flat_map(|b| (0..=slots).map(move |n| (b, n))) {
                for (node, value) in each_node(&space, base, count) {
                    for change in each_change(&space, slots, count, value) {
                        let middle = match change {
                            Change::Insert(pos, _) => 2 * pos == count,
                            Change::Remove(_) => false,
                            _ => continue,
                        };
                        let (slots, others) = (slots as u32, beside(&node));
                        let node = node.clone();
                        let scene =
                            Scene { slots, node, others, change, then: None, fresh: vec![] };
                        let calls = scene.calls();
                        let noticed = scene.crash_with(Some(Fault::DropFence(calls.fences - 2)));
                        assert!(middle || noticed.is_ok(), "{scene:?}: {noticed:?}");
                        needed += u64::from(noticed.is_err());
                        tried += 1;
                    }
                }
            }
        }
    }
    println!("the fence before the commit is needed by {needed} of {tried} changes");
    assert!(needed > 0);
}
