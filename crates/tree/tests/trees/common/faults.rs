//! Faults of one change of a node and of its recovery: where each hits, and whether it is noticed.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::sync::Arc;

use everleaf_crash_check::{
    CrashPoint, Explorer, Mutate, Mutation, Persistency, Recording, SharedMedium, Trace, images,
};
use everleaf_pmem::sim::Event;
use everleaf_pmem::{Geometry, Medium, Sim};
use everleaf_tree::node::{HIGH_RECORD_WORD, HIGH_WORD, RUN_WORD, SIBLING_WORD, Shape};
use everleaf_tree::slots::{Probe, Slot};

use super::change::{Change, Scene, State, explorer};
use super::{END, Free, INNER, LAST, LEAF, LEFT, Node, Nodes, RIGHT, invariants, key, recover, to};

/// Slots of the nodes here.
const SLOTS: u32 = 8;
/// Words of a page.
const PAGE: u32 = 8 + 2 * SLOTS;

/// The part that one call of the layout touches.
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
pub type Site = (&'static str, &'static str, String);

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

/// The site that a fault hits, by the calls of a faultless run.
fn site(scene: &'static str, events: &[Event], fault: Mutation) -> Site {
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
        Mutation::DropFlush(k) => ("no flush of", of_line(flushes[k as usize]).to_string()),
        Mutation::DropFence(k) => ("no fence after", fenced(events)[k as usize].to_string()),
        Mutation::DropStore(k) => ("no store of", of_word(stores[k as usize]).to_string()),
        Mutation::SwapStores(k) => {
            let [a, b] = [stores[k as usize], stores[k as usize + 1]];
            let lines = if a / 8 == b / 8 { "in one line" } else { "in two lines" };
            ("swapped", format!("{} and {}, {lines}", of_word(a), of_word(b)))
        }
    };
    (scene, what, hit)
}

pub fn leaf(base: usize, count: usize) -> Node {
    let slots =
        (0..count as u64).map(|i| Slot { ident: 101 + 2 * i, payload: 1001 + 2 * i }).collect();
    Node { shape: LEAF, low: 100, right: to(RIGHT, 200), base, slots, free: Free::Stale }
}

pub fn inner(base: usize, count: usize) -> Node {
    let slots = (0..count as u64).map(|i| Slot { ident: 500 + i, payload: 101 + 2 * i }).collect();
    Node { shape: INNER, ..Node { slots, ..leaf(base, 0) } }
}

pub fn slot(shape: Shape, key: u64) -> Slot {
    if shape.level == 0 {
        Slot { ident: key, payload: 900 + key }
    } else {
        Slot { ident: 600, payload: key }
    }
}

pub fn insert(node: &Node, pos: usize) -> Change {
    Change::Insert(pos, slot(node.shape, 100 + 2 * pos as u64))
}

pub fn scene(node: Node, change: Change) -> Scene {
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

pub fn split(node: Node) -> Scene {
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

pub fn merge(node: Node, last: bool) -> Scene {
    let end = if last { END } else { to(LAST, 300) };
    let more: Vec<Slot> = (0..4).map(|i| Slot { ident: 200 + i, payload: 200 + i }).collect();
    let mut scene = scene(node.clone(), Change::Merge(more.clone(), end));
    let right =
        Node { low: 200, right: end, slots: more, base: 2, free: Free::Clean, ..node.clone() };
    let beyond = Node { low: 300, right: END, slots: vec![], base: 0, free: Free::Clean, ..node };
    scene.others = vec![(RIGHT, right), (LAST, beyond)];
    scene
}

/// A leaf with `count` entries gets three of its left neighbour.
pub fn gift(node: Node) -> Scene {
    let more = (0..3).map(|i| Slot { ident: 80 + i, payload: 980 + i }).collect();
    scene(node, Change::Take(more))
}

/// Which faults of which sites were noticed, and which were not.
#[derive(Default)]
pub struct Table(BTreeMap<Site, [u64; 2]>);

impl Table {
    fn add(&mut self, site: Site, noticed: bool) {
        self.0.entry(site).or_default()[usize::from(!noticed)] += 1;
    }

    /// Prints all sites. Each is noticed, or `reason` says why nothing is lost; it is told whether
    /// the site's fault is noticed in other states.
    ///
    /// # Panics
    /// If a site has neither.
    pub fn close(&self, reason: impl Fn(&Site, bool) -> Option<&'static str>) {
        let mut open = Vec::new();
        for (site @ (scene, what, hit), [killed, survived]) in &self.0 {
            print!("{scene}: {what} {hit}: {killed} of {} killed", killed + survived);
            match (survived, reason(site, *killed > 0)) {
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
        assert!(open.is_empty(), "nobody notices: {open:#?}");
    }
}

/// The events of a faultless change, without what came before it.
fn events_of<L: Nodes, P: Probe>(scene: &Scene) -> Vec<Event> {
    let is_mark = |e: &Event| matches!(e, Event::Mark { .. });
    let events = record::<L, P>(scene).events.into_iter();
    events.skip_while(|e| !is_mark(e)).filter(|e| !is_mark(e)).collect()
}

fn record<L: Nodes, P: Probe>(scene: &Scene) -> Recording {
    let sim = scene.stage::<P>();
    let trace = scene.trace::<L>(&sim);
    let page = sim.page(LEFT).expect("inside");
    trace.op(0, || scene.change.run::<L, P, _>(&*sim, page, scene.node.shape));
    trace.finish()
}

/// Changes that may come next: one of each direction, and at each end.
fn followers<L: Nodes>(shape: Shape, low: u64, after: &State) -> Vec<Change> {
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
    if n < L::capacity::<Sim>(SLOTS as usize, shape) {
        next.extend([0, n / 4, n / 2, n * 3 / 4, n].into_iter().filter_map(free));
    }
    next
}

/// Does each change with each fault, alone and with another change behind it.
pub fn faults_of_changes<L: Nodes, P: Probe>(scenes: Vec<(&'static str, Scene)>) -> Table {
    let mut table = Table::default();
    for (name, scene) in scenes {
        let low = match &scene.change {
            Change::Take(slots) => key(scene.node.shape, slots[0]),
            _ => scene.node.low,
        };
        let then = followers::<L>(scene.node.shape, low, &scene.states()[1]);
        let then = std::iter::once(None).chain(then.into_iter().map(Some));
        let scenes: Vec<Scene> = then.map(|then| Scene { then, ..scene.clone() }).collect();
        for scene in &scenes {
            scene.crash::<L, P>(&explorer());
        }
        let events = events_of::<L, P>(&scene);
        for fault in Mutation::each(scene.calls::<L, P>()) {
            let is_noticed =
                |scene: &Scene| scene.crash_with::<L, P>(&explorer(), Some(fault)).is_err();
            table.add(site(name, &events, fault), scenes.iter().any(is_noticed));
        }
    }
    table
}

/// All images that a crash of a scene may leave and whose recovery stores something.
fn crashed<L: Nodes, P: Probe>(scene: &Scene) -> HashSet<Vec<u64>> {
    let record = record::<L, P>(scene);
    let fences = record.events.iter().enumerate().filter(|(_, e)| matches!(e, Event::Fence { .. }));
    fences.flat_map(|(at, _)| images(&record, at, Persistency::X86)).collect()
}

/// A recovery of one image, with a fault.
struct Repair<'a> {
    scene: &'a Scene,
    image: &'a [u64],
    /// The state that it must lead to.
    state: State,
}

impl Repair<'_> {
    fn sim(&self) -> Arc<Sim> {
        let geometry = Geometry::new(self.scene.slots).expect("valid");
        Arc::new(Sim::from_image(geometry, 4, self.image).expect("memory"))
    }

    /// Recovers with a fault, changes the node, and crashes all of it.
    fn crash_with<L: Nodes, P: Probe>(&self, fault: Mutation, then: &Change) -> Result<(), String> {
        let (shape, sim) = (self.scene.node.shape, self.sim());
        let trace = Trace::new(&sim);
        let page = sim.page(LEFT).expect("inside");
        let m = Mutate::new(SharedMedium::new(&sim), Some(fault));
        trace.op(0, || recover::<L, P, _>(&m, LEFT))?;
        invariants::<P>(page, shape)?;
        if State::of(page) != self.state {
            return Err(format!("recovered {:?}", State::of(page)));
        }
        trace.op(1, || then.run::<L, P, _>(&*sim, page, shape));
        let mut states = vec![self.state.clone(); 3];
        then.model(shape, &mut states[2]);
        let verify = |(), sim: &Arc<Sim>, crash: &CrashPoint<'_>| {
            let page = sim.page(LEFT).expect("inside");
            invariants::<P>(page, shape)?;
            let legal = &states[crash.responded().len()..=crash.invoked().len()];
            let found = State::of(page);
            if legal.contains(&found) { Ok(()) } else { Err(format!("{found:?}, not {legal:?}")) }
        };
        Explorer::new()
            .depth(1)
            .explore(&trace.finish(), |sim| recover::<L, P, _>(&**sim, LEFT), verify)
            .map(|_| ())
            .map_err(|failure| failure.to_string())
    }

    /// Adds all faults of the recovery.
    fn mutate<L: Nodes, P: Probe>(&mut self, table: &mut Table, name: &'static str) {
        let (sim, shape) = (self.sim(), self.scene.node.shape);
        let m = Mutate::new(SharedMedium::new(&sim), None);
        recover::<L, P, _>(&m, LEFT).expect("nothing is wrong without a fault");
        self.state = State::of(sim.page(LEFT).expect("inside"));
        let (events, calls) = (sim.take_events(), m.counts());
        let then = followers::<L>(shape, self.scene.node.low, &self.state);
        for fault in Mutation::each(calls) {
            let noticed = then.iter().any(|then| self.crash_with::<L, P>(fault, then).is_err());
            table.add(site(name, &events, fault), noticed);
        }
    }
}

/// Recovers each image that a crash of each scene may leave, with each fault.
pub fn faults_of_recovery<L: Nodes, P: Probe>(scenes: Vec<(&'static str, Scene)>) -> Table {
    let mut table = Table::default();
    for (name, scene) in scenes {
        for image in crashed::<L, P>(&scene) {
            let state = State { slots: vec![], right: END };
            Repair { scene: &scene, image: &image, state }.mutate::<L, P>(&mut table, name);
        }
    }
    table
}
