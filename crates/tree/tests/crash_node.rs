//! One circular node on strict memory: every operation on every node of 4 and of 8 slots, cut off
//! at every store, recovered, with the recovery cut off too.

mod common;

use std::sync::Arc;

use common::{
    END, Free, INNER, LAST, LEAF, LEFT, Node, RIGHT, carry_on, content, invariants, key, print,
    recover, scale, sim, to,
};
use everleaf_check::{CrashPoint, Explorer, Stats, Trace};
use everleaf_pmem::{Medium, Page, Sim};
use everleaf_tree::node::{
    Bounds, Circular, Image, LOW_WORD, Layout, Sentinel, Shape, Slot, change,
};

/// Slots with keys that leave room before, between and behind, and all within the bounds.
struct Space {
    name: &'static str,
    shape: Shape,
    low: u64,
    right: Bounds,
    /// The `i`-th of `n` possible keys.
    key: fn(u64) -> u64,
}

/// Every kind of bounds that a node of words can have.
fn spaces() -> Vec<Space> {
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
fn from_max(i: u64) -> u64 {
    u64::MAX - 16 + i
}

/// Values that could be mistaken for something else.
const VALUES: [fn(u64) -> u64; 4] = [|i| 1000 + i, |_| 7, |_| 0, |_| u64::MAX];

impl Space {
    /// Slot number `i` of 17.
    fn slot(&self, i: u64, value: fn(u64) -> u64) -> Slot {
        let key = (self.key)(i);
        if self.shape.level == 0 {
            Slot { ident: key, payload: value(i) }
        } else {
            Slot { ident: 500 + i, payload: key }
        }
    }
    /// `count` slots with the odd numbers.
    fn slots(&self, count: usize, value: fn(u64) -> u64) -> Vec<Slot> {
        (0..count as u64).map(|i| self.slot(2 * i + 1, value)).collect()
    }
    /// All 17 slots, for going on.
    fn all(&self) -> Vec<Slot> {
        (0..17).map(|i| self.slot(i, VALUES[0])).collect()
    }
    /// Patterns of values; inner nodes have none.
    fn values(&self) -> &'static [fn(u64) -> u64] {
        if self.shape.level == 0 { &VALUES } else { &VALUES[..1] }
    }
}

/// What is done to the node.
#[derive(Debug, Clone)]
enum Change {
    Insert(usize, Slot),
    Remove(usize),
    Update(usize, u64),
    /// The right half goes to a new node.
    Split(usize),
    /// The right neighbour, which has these slots and bounds, becomes part of the node.
    Merge(Vec<Slot>, Bounds),
}

/// What the node holds, and where it ends.
#[derive(Debug, Clone, PartialEq)]
struct State {
    slots: Vec<Slot>,
    right: Bounds,
}

impl State {
    fn of(page: Page<'_>) -> Self {
        let right = Bounds::of(page);
        Self { slots: content(page), right: if right.sibling == 0 { END } else { right } }
    }
}

impl Change {
    fn run<M: Medium>(&self, m: &M, page: Page<'_>, shape: Shape) {
        match *self {
            Change::Insert(pos, slot) => {
                Circular::insert::<M, Sentinel>(m, page, shape, pos, slot);
            }
            Change::Remove(pos) => Circular::remove::<M, Sentinel>(m, page, shape, pos),
            Change::Update(pos, value) => {
                change::set_payload(m, &mut m.enter().expect("ok"), page, pos, value);
            }
            Change::Split(keep) => {
                let slots = content(page);
                let low = key(shape, slots[keep]);
                let image = Image { shape, low, right: Bounds::of(page), slots: &slots[keep..] };
                let new = m.page(RIGHT).expect("inside");
                Circular::build::<M, Sentinel>(m, new, &image);
                Circular::trim::<M, Sentinel>(m, page, shape, keep, to(RIGHT, low));
            }
            Change::Merge(ref slots, bounds) => {
                Circular::absorb::<M, Sentinel>(m, page, shape, slots, bounds);
            }
        }
    }

    fn model(&self, shape: Shape, State { slots, right }: &mut State) {
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
        }
    }
}

fn explorer() -> Explorer {
    Explorer::new().deep_samples(6 * scale())
}

/// Crashes a change of a node, with `others` beside it.
fn crash(
    slots: u32,
    node: &Node,
    others: &[(u32, &Node)],
    change: &Change,
    fresh: &[Slot],
) -> Stats {
    let shape = node.shape;
    let sim = sim(slots, 4);
    node.put(&*sim, LEFT);
    others.iter().for_each(|(no, other)| other.put(&*sim, *no));
    let trace = Trace::new(&sim);
    let mut states = vec![State { slots: node.slots.clone(), right: node.right }; 2];
    change.model(shape, &mut states[1]);
    let page = sim.page(LEFT).expect("inside");
    trace.op(0, || change.run(&*sim, page, shape));
    assert_eq!(State::of(page), states[1]);
    let verify = |(), sim: &Arc<Sim>, crash: &CrashPoint<'_>| {
        let page = sim.page(LEFT).expect("inside");
        let found = State::of(page);
        let legal = &states[crash.responded().len()..=crash.invoked().len()];
        if !legal.contains(&found) {
            return Err(format!("{found:?} instead of {legal:?}"));
        }
        settled(sim, shape)?;
        match change {
            Change::Split(keep) if found == states[1] => right_half(sim, node, *keep)?,
            // Cut off, and done again: what the first attempt left must not show.
            Change::Merge(..) if found == states[0] => {
                change.run(&**sim, page, shape);
                invariants(page, shape)?;
                if State::of(page) != states[1] {
                    return Err(format!("a second merge made {:?}", State::of(page)));
                }
            }
            _ => {}
        }
        let end = Bounds::of(page);
        let inside = |slot: &&Slot| end.sibling == 0 || key(shape, **slot) < end.high;
        let fresh: Vec<Slot> = fresh.iter().filter(inside).copied().collect();
        carry_on(&**sim, LEFT, shape, &fresh)
    };
    let found = explorer().explore(&trace.finish(), |sim| recover(&**sim, LEFT, shape), verify);
    found.unwrap_or_else(|failure| panic!("{failure}\n{node:?}\n{others:?}\n{change:?}"))
}

/// The right node of a split is complete before the left one names it.
fn right_half(sim: &Arc<Sim>, left: &Node, keep: usize) -> Result<(), String> {
    recover(&**sim, RIGHT, left.shape)?;
    let page = sim.page(RIGHT).expect("inside");
    invariants(page, left.shape)?;
    let expected = State { slots: left.slots[keep..].to_vec(), right: left.right };
    let (found, low) = (State::of(page), page.head(LOW_WORD).load());
    if found == expected && low == key(left.shape, left.slots[keep]) {
        return Ok(());
    }
    Err(format!("the right half is {found:?} from {low}, not {expected:?}"))
}

/// The node is as it should be, and recovering it again stores nothing.
fn settled(sim: &Arc<Sim>, shape: Shape) -> Result<(), String> {
    let page = sim.page(LEFT).expect("inside");
    invariants(page, shape)?;
    sim.take_events();
    recover(&**sim, LEFT, shape)?;
    if sim.take_events().is_empty() { Ok(()) } else { Err("recovery is not idempotent".into()) }
}

/// Each single change of a node of `count` slots.
fn each_change(space: &Space, slots: usize, count: usize, value: fn(u64) -> u64) -> Vec<Change> {
    let mut changes: Vec<Change> = (0..count).map(Change::Remove).collect();
    if count < slots {
        changes
            .extend((0..=count).map(|pos| Change::Insert(pos, space.slot(2 * pos as u64, value))));
    }
    if space.shape.level == 0 {
        changes.extend((0..count).flat_map(|p| [0, u64::MAX, 9].map(|v| Change::Update(p, v))));
    }
    changes
}

/// Each node of a space with `count` slots, by its values and by what its free slots hold.
fn each_node(
    space: &Space,
    base: usize,
    count: usize,
) -> impl Iterator<Item = (Node, fn(u64) -> u64)> {
    let (shape, low, right) = (space.shape, space.low, space.right);
    let values = space.values().iter().map(move |&value| (space.slots(count, value), value));
    values.flat_map(move |(slots, value)| {
        [Free::Clean, Free::Stale]
            .map(|free| (Node { shape, low, right, base, slots: slots.clone(), free }, value))
    })
}

/// An empty node to the right of another.
fn after(node: &Node) -> Node {
    Node { low: node.right.high, right: END, base: 0, slots: vec![], free: Free::Clean, ..*node }
}

fn every_change_of(slots: usize) -> Stats {
    let mut stats = Stats::default();
    for space in spaces() {
        for (base, count) in (0..slots).flat_map(|b| (0..=slots).map(move |n| (b, n))) {
            for (node, value) in each_node(&space, base, count) {
                let right = after(&node);
                let others = [(RIGHT, &right)];
                let others = if node.right.sibling == 0 { &[][..] } else { &others };
                for change in each_change(&space, slots, count, value) {
                    stats += crash(slots as u32, &node, others, &change, &space.all());
                }
            }
        }
        println!("{slots} slots, {}: {stats}", space.name);
    }
    stats
}

#[test]
fn every_change_of_every_node_of_4_slots() {
    print("changes of 4 slots", every_change_of(4));
}

#[test]
fn every_change_of_every_node_of_8_slots() {
    print("changes of 8 slots", every_change_of(8));
}

/// Splits at each place, and what goes on in the left half afterwards.
fn every_split_of(slots: usize) -> Stats {
    let mut stats = Stats::default();
    for mut space in spaces() {
        if space.right.sibling != 0 {
            space.right.sibling = LAST;
        }
        for base in 0..slots {
            for count in 2..=slots {
                for (node, _) in each_node(&space, base, count) {
                    let last = after(&node);
                    // The new node's page was another node once.
                    let old =
                        Node { slots: space.slots(slots, VALUES[0]), base: 1, ..after(&node) };
                    let others = [(LAST, &last), (RIGHT, &old)];
                    for keep in 1..count {
                        let change = Change::Split(keep);
                        stats += crash(slots as u32, &node, &others, &change, &space.all());
                    }
                }
            }
        }
    }
    stats
}

/// Merges of each two nodes that fit into one.
fn every_merge_of(slots: usize) -> Stats {
    let mut stats = Stats::default();
    for space in spaces() {
        let bounded = space.right.sibling != 0;
        if space.shape.level == 0 && space.low == 0 && !bounded {
            continue;
        }
        let end = if bounded { to(LAST, space.right.high) } else { END };
        let last = Node { low: end.high, ..after(&each_node(&space, 0, 0).next().expect("one").0) };
        for (base, left) in (0..slots).flat_map(|b| (0..=slots).map(move |n| (b, n))) {
            for right in 0..=slots - left {
                for (mut node, value) in each_node(&space, base, left) {
                    node.right = to(RIGHT, (space.key)(2 * left as u64));
                    let more = (0..right as u64).map(|i| space.slot(2 * (left as u64 + i), value));
                    let (low, more) = (node.right.high, more.collect::<Vec<_>>());
                    let other = Node { low, right: end, slots: more.clone(), base: 1, ..node };
                    let all = [(RIGHT, &other), (LAST, &last)];
                    let others = if bounded { &all[..] } else { &all[..1] };
                    let change = Change::Merge(more, end);
                    stats += crash(slots as u32, &node, others, &change, &space.all());
                }
            }
        }
    }
    stats
}

#[test]
fn every_split_and_merge_of_nodes_of_4_slots() {
    print("splits of 4 slots", every_split_of(4));
    print("merges of 4 slots", every_merge_of(4));
}

#[test]
fn every_split_and_merge_of_nodes_of_8_slots() {
    print("splits of 8 slots", every_split_of(8));
    print("merges of 8 slots", every_merge_of(8));
}
