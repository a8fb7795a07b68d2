//! Changes of one node, cut off at every store, and recovered.

use std::sync::Arc;

use everleaf_crash_check::{Coverage, CrashPoint, Explorer, Mutate, Mutation, SharedMedium, Trace};
use everleaf_pmem::{Counts, Medium, Page, Sim};
use everleaf_tree::node::{LOW_WORD, RUN_WORD, RightBounds, Run, Shape};
use everleaf_tree::slots::{Layout, Probe, Slot, SlotsImage, notes};

use super::{
    END, Free, INNER, LEAF, LEFT, Node, Nodes, RIGHT, carry_on, content, invariants, key, recover,
    scale, sim, to,
};

/// Slots with keys that leave room before, between and behind, and all within the bounds.
pub struct Space {
    pub name: &'static str,
    pub shape: Shape,
    pub low: u64,
    pub right: RightBounds,
    /// The `i`-th of `n` possible keys.
    pub key: fn(u64) -> u64,
}

/// Every kind of bounds that a node of words can have.
pub fn spaces() -> Vec<Space> {
    let middle = |i| 100 + i;
    vec![
        Space { name: "leaf", shape: LEAF, low: 100, right: to(RIGHT, 200), key: middle },
        Space { name: "leaf with key 0", shape: LEAF, low: 0, right: to(RIGHT, 200), key: |i| i },
        Space { name: "leaf with key MAX", shape: LEAF, low: 100, right: END, key: from_max },
        Space { name: "inner", shape: INNER, low: 100, right: to(RIGHT, 200), key: middle },
        Space { name: "leftmost inner", shape: INNER, low: 0, right: to(RIGHT, 200), key: |i| i },
        Space { name: "rightmost inner", shape: INNER, low: 100, right: END, key: from_max },
        Space { name: "root", shape: INNER, low: 0, right: END, key: |i| i },
    ]
}

/// The greatest 17 keys: the last one is MAX.
pub fn from_max(i: u64) -> u64 {
    u64::MAX - 16 + i
}

/// Values that could be mistaken for something else.
pub const VALUES: [fn(u64) -> u64; 4] = [|i| 1000 + i, |_| 7, |_| 0, |_| u64::MAX];

impl Space {
    /// Slot number `i` of 17.
    pub fn slot(&self, i: u64, value: fn(u64) -> u64) -> Slot {
        let key = (self.key)(i);
        if self.shape.level == 0 {
            Slot { ident: key, payload: value(i) }
        } else {
            Slot { ident: 500 + i, payload: key }
        }
    }
    /// `count` slots with the odd numbers.
    pub fn slots(&self, count: usize, value: fn(u64) -> u64) -> Vec<Slot> {
        (0..count as u64).map(|i| self.slot(2 * i + 1, value)).collect()
    }
    /// All 17 slots, for going on.
    pub fn all(&self) -> Vec<Slot> {
        (0..17).map(|i| self.slot(i, VALUES[0])).collect()
    }
    /// Patterns of values; inner nodes have none.
    pub fn values(&self) -> &'static [fn(u64) -> u64] {
        if self.shape.level == 0 { &VALUES } else { &VALUES[..1] }
    }
}

/// A change of the node.
#[derive(Debug, Clone)]
pub enum Change {
    Insert(usize, Slot),
    Remove(usize),
    Update(usize, u64),
    /// The right half goes to a new node.
    Split(usize),
    /// The right neighbour, which has these slots and bounds, becomes part of the node.
    Merge(Vec<Slot>, RightBounds),
    /// The left neighbour gives these slots, the first of which is the new lower bound.
    Take(Vec<Slot>),
}

/// The content of the node, and where it ends.
#[derive(Debug, Clone, PartialEq)]
pub struct State {
    pub slots: Vec<Slot>,
    pub right: RightBounds,
}

impl State {
    pub fn of(page: Page<'_>) -> Self {
        let right = RightBounds::of(page);
        Self { slots: content(page), right: if right.sibling == 0 { END } else { right } }
    }
}

impl Change {
    pub fn run<L: Layout, P: Probe, M: Medium>(&self, m: &M, page: Page<'_>, shape: Shape) {
        let _held = page.latch().lock();
        match *self {
            Change::Insert(pos, slot) => L::insert::<M, P>(m, page, shape, pos, slot),
            Change::Remove(pos) => L::remove::<M, P>(m, page, shape, pos),
            Change::Update(pos, value) => {
                notes::set_payload(m, &mut m.enter().expect("ok"), page, pos, value);
            }
            Change::Split(keep) => {
                let slots = content(page);
                let low = key(shape, slots[keep]);
                let image =
                    SlotsImage { shape, low, right: RightBounds::of(page), slots: &slots[keep..] };
                let new = m.page(RIGHT).expect("inside");
                L::build::<M, P>(m, new, &image);
                L::trim::<M, P>(m, page, shape, keep, to(RIGHT, low));
            }
            Change::Merge(ref slots, bounds) => L::absorb::<M, P>(m, page, shape, slots, bounds),
            Change::Take(ref slots) => {
                L::take_before::<M, P>(m, page, shape, slots, key(shape, slots[0]));
            }
        }
    }

    pub fn model(&self, shape: Shape, State { slots, right }: &mut State) {
        match self {
            Change::Insert(pos, slot) => slots.insert(*pos, *slot),
            Change::Remove(pos) => drop(slots.remove(*pos)),
            Change::Update(pos, value) => slots[*pos].payload = *value,
            Change::Split(keep) => {
                *right = to(RIGHT, key(shape, slots[*keep]));
                slots.truncate(*keep);
            }
            Change::Merge(more, bounds) => {
                slots.extend(more);
                *right = *bounds;
            }
            Change::Take(more) => drop(slots.splice(..0, more.iter().copied())),
        }
    }
}

pub fn explorer() -> Explorer {
    Explorer::new().deep_samples(6 * scale())
}

/// A node, the nodes beside it, and what is done to it.
#[derive(Debug, Clone)]
pub struct Scene {
    pub slots: u32,
    pub node: Node,
    pub others: Vec<(u32, Node)>,
    pub change: Change,
    /// The change made to it next.
    pub then: Option<Change>,
    /// Slots for going on afterwards.
    pub fresh: Vec<Slot>,
}

impl Scene {
    /// The node's states before, between and after.
    pub fn states(&self) -> Vec<State> {
        let mut states = vec![State { slots: self.node.slots.clone(), right: self.node.right }];
        for change in std::iter::once(&self.change).chain(&self.then) {
            let mut next = states[states.len() - 1].clone();
            change.model(self.node.shape, &mut next);
            states.push(next);
        }
        states
    }

    /// A medium that holds the scene, before the change.
    pub fn stage<P: Probe>(&self) -> Arc<Sim> {
        let sim = sim(self.slots, 4);
        self.node.put::<_, P>(&*sim, LEFT);
        self.others.iter().for_each(|(no, other)| other.put::<_, P>(&*sim, *no));
        sim
    }

    /// Begins a record. Where the count is not flushed, an older one is what counts as persisted.
    pub fn trace<L: Nodes>(&self, sim: &Arc<Sim>) -> Trace {
        let run = sim.page(LEFT).expect("inside").head(RUN_WORD);
        let (now, count) = (run.load(), self.node.old_count(self.slots as usize));
        if L::CIRCULAR || now == (Run { base: 0, count }).word() {
            return Trace::new(sim);
        }
        sim.store(run, Run { base: 0, count }.word());
        let trace = Trace::new(sim);
        sim.store(run, now);
        trace
    }

    /// Counts the calls of the change.
    pub fn calls<L: Nodes, P: Probe>(&self) -> Counts {
        let sim = self.stage::<P>();
        let m = Mutate::new(SharedMedium::new(&sim), None);
        self.change.run::<L, P, _>(&m, m.page(LEFT).expect("inside"), self.node.shape);
        m.counts()
    }

    /// Crashes the change at every point.
    pub fn crash<L: Nodes, P: Probe>(&self, explorer: &Explorer) -> Coverage {
        match self.crash_with::<L, P>(explorer, None) {
            Ok((stats, _)) => stats,
            Err(failure) => panic!("{failure}\n{self:?}"),
        }
    }

    /// Crashes the change, done with a fault, at every point; answers also what it called.
    pub fn crash_with<L: Nodes, P: Probe>(
        &self,
        explorer: &Explorer,
        fault: Option<Mutation>,
    ) -> Result<(Coverage, Counts), String> {
        let (shape, states) = (self.node.shape, self.states());
        let sim = self.stage::<P>();
        let trace = self.trace::<L>(&sim);
        let m = Mutate::new(SharedMedium::new(&sim), fault);
        let page = m.page(LEFT).expect("inside");
        trace.op(0, || self.change.run::<L, P, _>(&m, page, shape));
        if State::of(page) != states[1] {
            return Err(format!("made {:?} without a crash", State::of(page)));
        }
        invariants::<P>(page, shape)?;
        if let Change::Split(keep) = self.change {
            right_half::<P>(&sim, &self.node, keep)?;
        }
        let counts = m.counts();
        if let Some(change) = &self.then {
            let page = sim.page(LEFT).expect("inside");
            trace.op(1, || change.run::<L, P, _>(&*sim, page, shape));
        }
        explorer
            .explore(
                &trace.finish(),
                |sim| recover::<L, P, _>(&**sim, LEFT),
                |(), sim, crash| self.verify::<L, P>(sim, &states, crash),
            )
            .map(|stats| (stats, counts))
            .map_err(|failure| failure.to_string())
    }

    fn verify<L: Nodes, P: Probe>(
        &self,
        sim: &Arc<Sim>,
        states: &[State],
        crash: &CrashPoint<'_>,
    ) -> Result<(), String> {
        let (shape, page) = (self.node.shape, sim.page(LEFT).expect("inside"));
        let found = State::of(page);
        let legal = &states[crash.responded().len()..=crash.invoked().len()];
        if !legal.contains(&found) {
            return Err(format!("{found:?} instead of {legal:?}"));
        }
        settled::<L, P>(sim, shape)?;
        match self.change {
            Change::Split(keep) if found == states[1] => {
                recover::<L, P, _>(&**sim, RIGHT)?;
                right_half::<P>(sim, &self.node, keep)?;
            }
            // Cut off, and done again: what the first attempt left must not show.
            Change::Merge(..) | Change::Take(_) if found == states[0] => {
                let mut again = self.change.clone();
                if let Change::Take(slots) = &mut again {
                    // A smaller one shows what is left behind it.
                    slots.truncate(1);
                }
                let mut after = states[0].clone();
                again.model(shape, &mut after);
                again.run::<L, P, _>(&**sim, page, shape);
                invariants::<P>(page, shape)?;
                if State::of(page) != after {
                    return Err(format!("a second attempt made {:?}", State::of(page)));
                }
            }
            _ => {}
        }
        let end = RightBounds::of(page);
        let inside = |slot: &&Slot| end.sibling == 0 || key(shape, **slot) < end.high;
        let fresh: Vec<Slot> = self.fresh.iter().filter(inside).copied().collect();
        carry_on::<L, P, _>(&**sim, LEFT, shape, &fresh)
    }
}

/// The right node of a split is complete before the left one names it.
fn right_half<P: Probe>(sim: &Arc<Sim>, left: &Node, keep: usize) -> Result<(), String> {
    let page = sim.page(RIGHT).expect("inside");
    invariants::<P>(page, left.shape)?;
    let expected = State { slots: left.slots[keep..].to_vec(), right: left.right };
    let (found, low) = (State::of(page), page.head(LOW_WORD).load());
    let is_node = Shape::of(page) == Some(left.shape);
    if is_node && found == expected && low == key(left.shape, left.slots[keep]) {
        return Ok(());
    }
    Err(format!("the right half is {found:?} from {low}, not {expected:?}"))
}

/// The node is as it should be, and recovering it again stores nothing.
pub fn settled<L: Layout, P: Probe>(sim: &Arc<Sim>, shape: Shape) -> Result<(), String> {
    let page = sim.page(LEFT).expect("inside");
    invariants::<P>(page, shape)?;
    sim.take_events();
    recover::<L, P, _>(&**sim, LEFT)?;
    if sim.take_events().is_empty() { Ok(()) } else { Err("recovery is not idempotent".into()) }
}

/// Each node of a space with `count` slots, by its values and by what its free slots hold.
pub fn each_node(
    space: &Space,
    base: usize,
    count: usize,
) -> impl Iterator<Item = (Node, fn(u64) -> u64)> {
    let (shape, low, right) = (space.shape, space.low, space.right);
    let values = space.values().iter().map(move |&value| (space.slots(count, value), value));
    values.flat_map(move |(slots, value)| {
        [Free::Clean, Free::Stale, Free::Voided]
            .map(|free| (Node { shape, low, right, base, slots: slots.clone(), free }, value))
    })
}

/// An empty node to the right of another.
pub fn after(node: &Node) -> Node {
    Node { low: node.right.high, right: END, base: 0, slots: vec![], free: Free::Clean, ..*node }
}

/// The empty node to the right of another, if it has one.
pub fn beside(node: &Node) -> Vec<(u32, Node)> {
    if node.right.sibling == 0 { vec![] } else { vec![(RIGHT, after(node))] }
}

/// Each single change of a node of `count` slots, of which there may be `capacity`.
pub fn each_change(
    space: &Space,
    capacity: usize,
    count: usize,
    value: fn(u64) -> u64,
) -> Vec<Change> {
    let mut changes: Vec<Change> = (0..count).map(Change::Remove).collect();
    if count < capacity {
        changes
            .extend((0..=count).map(|pos| Change::Insert(pos, space.slot(2 * pos as u64, value))));
    }
    if space.shape.level == 0 {
        changes.extend((0..count).flat_map(|p| [0, u64::MAX, 9].map(|v| Change::Update(p, v))));
    }
    changes
}
