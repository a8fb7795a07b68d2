//! A reader that does not wait (FAST+FAIR §5) beside each change of each linear node of 4 and of 8
//! slots. No threads: the reader asks of each slot that it meets whether its key is small enough, and
//! in answering the writer's next stores are made. So each state between two stores is read from its
//! start, and the writer goes on by any number of stores, twice, where the reader goes from one slot
//! to the next. Stores between two loads of one slot are not seen here.

use std::cell::Cell;

use crate::common::change::{Change, Scene, Space, each_change, each_node, spaces};
use crate::common::faults::{inner, insert, leaf, merge, scene, split};
use crate::common::{END, LEFT, Node, key};
use everleaf_pmem::sim::Event;
use everleaf_pmem::{Dram, Geometry, Medium, Page, Sim};
use everleaf_tree::node::RightBounds;
use everleaf_tree::slots::racing::Racing;
use everleaf_tree::slots::{Layout, Linear, Sentinel, Slot};

/// The stores of a change to its node, in order: word of the page, value.
fn stores(scene: &Scene) -> Vec<(usize, u64)> {
    let sim = scene.stage::<Sentinel>();
    sim.take_events();
    let page = sim.page(LEFT).expect("inside");
    scene.change.run::<Linear, Sentinel, _>(&*sim, page, scene.node.shape);
    let words = page.geometry().page_words();
    let of_node = |event| match event {
        Event::Store { word, value } => {
            (word as usize / words == LEFT as usize).then_some((word as usize % words, value))
        }
        _ => None,
    };
    sim.take_events().into_iter().filter_map(of_node).collect()
}

/// Each single change of each node of a space, with values that differ.
fn scenes(space: &Space, slots: usize) -> Vec<Scene> {
    let capacity = Linear::capacity::<Sim>(slots, space.shape);
    let mut scenes = Vec::new();
    for count in 0..=capacity {
        // Values come before what free slots hold: these are all of the first pattern.
        for (node, value) in each_node(space, 0, count).take(3) {
            for change in each_change(space, capacity, count, value) {
                let (slots, node) = (slots as u32, node.clone());
                let (others, fresh) = (vec![], vec![]);
                scenes.push(Scene { slots, node, others, change, then: None, fresh });
            }
        }
    }
    scenes
}

/// A node and the stores that its writer makes.
struct Race<'a> {
    scene: &'a Scene,
    memory: Dram,
    stores: Vec<(usize, u64)>,
    leftward: bool,
    /// The states that a reader may find: slots and upper bound before and after.
    states: Vec<(Vec<Slot>, Option<u64>)>,
    /// The lower bound before.
    low: u64,
}

/// When the writer goes on: it has made `from` stores when the reader begins, and has made `to` when
/// the reader asks about its `at`-th slot.
#[derive(Debug, Clone, Copy)]
struct Schedule {
    from: usize,
    leaps: [(usize, usize); 2],
}

impl<'a> Race<'a> {
    fn new(scene: &'a Scene) -> Self {
        let geometry = Geometry::new(scene.slots).expect("valid");
        let bound = |right: RightBounds| (right.sibling != 0).then_some(right.high);
        let states = scene.states().into_iter().map(|s| (s.slots, bound(s.right))).collect();
        Self {
            scene,
            memory: Dram::new(geometry, 4).expect("memory"),
            stores: stores(scene),
            leftward: matches!(scene.change, Change::Remove(_)),
            states,
            low: scene.node.low,
        }
    }

    fn page(&self) -> Page<'_> {
        self.memory.page(LEFT).expect("inside")
    }

    /// The writer goes on until it has made `to` stores.
    fn go_on(&self, made: &Cell<usize>, to: usize) {
        for &(word, value) in self.stores.get(made.get()..to).unwrap_or_default() {
            self.memory.store(self.page().word(word), value);
        }
        made.set(made.get().max(to));
    }

    /// The node as it was, and then after `made` stores.
    fn begin(&self, made: usize) -> (Racing<'_>, Cell<usize>) {
        self.scene.node.put::<_, Sentinel>(&self.memory, LEFT);
        let done = Cell::new(0);
        self.go_on(&done, made);
        (Racing::new(self.page(), self.scene.node.shape, self.leftward), done)
    }

    /// Looks for the greatest key up to `wanted`; answers how many slots it was asked about.
    fn look(&self, wanted: u64, schedule: Schedule) -> Result<usize, String> {
        let (reader, made) = self.begin(schedule.from);
        let asked = Cell::new(0);
        let found = reader.last_below(|key| {
            for (_, to) in schedule.leaps.iter().filter(|(at, _)| *at == asked.get()) {
                self.go_on(&made, *to);
            }
            asked.set(asked.get() + 1);
            key <= wanted
        });
        let covers = |high: Option<u64>| high.is_none_or(|high| wanted < high);
        let shape = self.scene.node.shape;
        let best = |slots: &[Slot]| slots.iter().rfind(|s| key(shape, **s) <= wanted).copied();
        // Below the lower bound before there is only the state after.
        let states = &self.states[usize::from(wanted < self.low)..];
        let mut legal = states.iter().filter(|(_, high)| covers(*high)).map(|(s, _)| best(s));
        // A reader whose key is outside of the bounds that it read goes on instead of looking here.
        let is_here = reader.limits.low <= wanted && covers(reader.limits.high);
        if !is_here || legal.any(|slot| slot == found) {
            return Ok(asked.get());
        }
        Err(format!("{found:?} for {wanted} by {schedule:?} in {:?}", self.scene))
    }

    /// Each way to go on twice, for each key at and around those of the node.
    fn look_always(&self) -> Result<u64, String> {
        let (mut looks, shape, all) = (0, self.scene.node.shape, self.stores.len());
        let keys = self.states.iter().flat_map(|(slots, _)| slots.iter().map(|s| key(shape, *s)));
        let mut keys: Vec<u64> =
            keys.flat_map(|k| [k.saturating_sub(1), k, k.saturating_add(1)]).collect();
        keys.sort_unstable();
        keys.dedup();
        for wanted in keys {
            for from in 0..=all {
                let still = Schedule { from, leaps: [(usize::MAX, 0); 2] };
                let asked = self.look(wanted, still)?;
                // A leap may show the reader more slots than it would have met.
                for (first, second) in
                    (0..=asked).flat_map(|a| (a + 1..=asked + 1).map(move |b| (a, b)))
                {
                    for (to, end) in (from + 1..=all).flat_map(|t| (t..=all).map(move |e| (t, e))) {
                        let leaps = [(first, to), (second, end)];
                        self.look(wanted, Schedule { from, leaps })?;
                        looks += 1;
                    }
                }
            }
        }
        Ok(looks)
    }

    /// A walk over all slots, at each state between two stores.
    fn walk_always(&self) -> Result<(), String> {
        for from in 0..=self.stores.len() {
            let found = self.begin(from).0.slots().map_err(|e| e.to_string())?;
            if !self.states.iter().any(|(slots, _)| *slots == found) {
                return Err(format!("{found:?} after {from} stores in {:?}", self.scene));
            }
        }
        Ok(())
    }

    fn run(&self) -> Result<u64, String> {
        self.walk_always()?;
        self.look_always()
    }
}

#[test]
fn each_change_of_each_linear_node_can_be_read_beside() {
    for slots in [4, 8] {
        let mut looks = 0;
        for scene in spaces().iter().flat_map(|space| scenes(space, slots)) {
            looks += Race::new(&scene).run().expect("what was there before or after");
        }
        println!("{slots} slots: {looks} races");
    }
}

#[test]
fn splits_and_merges_can_be_read_beside() {
    let last = |node: Node| Node { right: END, ..node };
    let scenes = [
        split(leaf(0, 7)),
        split(inner(0, 7)),
        scene(last(leaf(0, 7)), Change::Split(3)),
        merge(leaf(0, 3), false),
        merge(leaf(0, 3), true),
        merge(leaf(0, 0), false),
        merge(leaf(0, 0), true),
        merge(inner(0, 3), false),
    ];
    for scene in &scenes {
        Race::new(scene).run().expect("what was there before or after");
    }
}

#[test]
fn gifts_can_be_read_beside() {
    for (count, gift) in (0..5).flat_map(|count| (1..3).map(move |gift| (count, gift))) {
        let more = (0..gift).map(|i| Slot { ident: 80 + i, payload: 980 + i }).collect();
        let scene = scene(leaf(0, count), Change::Take(more));
        let looks = Race::new(&scene).run().expect("what was there before or after");
        println!("{gift} for {count}: {looks} races");
    }
}

/// A reader that goes the wrong way misses keys.
#[test]
fn readers_must_know_where_the_writer_moves() {
    for change in [insert(&leaf(0, 5), 1), Change::Remove(1)] {
        let scene = scene(leaf(0, 5), change);
        let race = Race::new(&scene);
        race.run().expect("the right way");
        let wrong = Race { leftward: !race.leftward, ..race };
        println!("{}", wrong.run().expect_err("the wrong way"));
    }
}

/// The order of the two stores of a slot, and of the slots, is what readers rely on.
#[test]
fn readers_notice_stores_in_another_order() {
    for change in [insert(&leaf(0, 5), 1), Change::Remove(1)] {
        let scene = scene(leaf(0, 5), change);
        // The count, which comes last, is for writers, and for readers that go to the left.
        let of_slots = Race::new(&scene).stores.len() - 2;
        for at in 0..of_slots {
            let mut race = Race::new(&scene);
            race.stores.swap(at, at + 1);
            race.run().expect_err("a slot that readers cannot use");
        }
    }
}
