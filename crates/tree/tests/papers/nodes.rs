//! One node: crashes of its changes, readers' order of stores, faults, published bugs, and what it costs.

use crate::common::change::{Change, Scene, explorer, spaces};
use crate::common::faults::{gift, inner, insert, leaf, merge, scene, split};
use crate::common::{Free, LEFT, Node, Nodes, invariants, print};
use everleaf_crash_check::{Coverage, Explorer, Mutation};
use everleaf_pmem::sim::Event;
use everleaf_pmem::{Dram, Geometry, Medium, Sim};
use everleaf_tree::slots::racing::Racing;
use everleaf_tree::slots::{
    Circular, Fingerprint, Layout, Linear, Probe, Scan, Segment, Sentinel, SentinelWalk, Walk,
};

fn inserting(node: Node, pos: usize) -> Scene {
    let change = insert(&node, pos);
    scene(node, change)
}

/// A change of each kind, of leaves and of inner nodes.
fn changes() -> Vec<Scene> {
    vec![
        inserting(leaf(0, 6), 3),
        inserting(leaf(0, 6), 5),
        inserting(inner(0, 6), 2),
        scene(leaf(0, 7), Change::Remove(4)),
        scene(leaf(0, 7), Change::Remove(0)),
        scene(inner(0, 7), Change::Remove(2)),
        scene(leaf(0, 4), Change::Update(1, 99)),
        split(leaf(0, 7)),
        merge(leaf(0, 3), false),
        merge(inner(0, 3), true),
    ]
}

fn crashes_of<L: Nodes, P: Probe>() -> Coverage {
    let few = Explorer::new().deep_samples(2);
    let mut all = Coverage::default();
    changes().iter().for_each(|scene| all += scene.crash::<L, P>(&few));
    all
}

/// `crash_node.rs` has every node of 4 and of 8 slots.
#[test]
fn crash_node() {
    let mut all = crashes_of::<Circular, Sentinel>();
    all += crashes_of::<Circular, Segment>();
    all += crashes_of::<Linear, Scan>();
    all += crashes_of::<Linear, Fingerprint>();
    all += crashes_of::<Circular, SentinelWalk>();
    all += crashes_of::<Linear, SentinelWalk>();
    print("changes of one node", all);
    assert!(all.images > 300 && all.nested > 300, "{all}");
}

/// `gifts.rs` and `crash_node.rs`: a leaf that gets entries of its left neighbour (E16).
#[test]
fn gifts() {
    let stats = gift(leaf(0, 2)).crash::<Linear, Scan>(&explorer());
    assert!(stats.images > 50, "{stats}");
}

/// `mutants.rs` leaves out each call of each change: here those of one insert and one remove.
#[test]
fn mutants() {
    fn noticed<L: Nodes, P: Probe>(scene: &Scene) -> [u64; 2] {
        scene.crash::<L, P>(&explorer());
        let mut found = [0; 2];
        for fault in Mutation::each(scene.calls::<L, P>()) {
            let is_noticed = scene.crash_with::<L, P>(&explorer(), Some(fault)).is_err();
            found[usize::from(is_noticed)] += 1;
        }
        found
    }
    for scene in [inserting(leaf(0, 6), 3), scene(leaf(0, 7), Change::Remove(3))] {
        let [circular, linear] =
            [noticed::<Circular, Sentinel>(&scene), noticed::<Linear, Scan>(&scene)];
        println!("{circular:?} of circular nodes, {linear:?} of linear ones: unnoticed, noticed");
        assert!(circular[1] >= 10 && linear[1] >= 10, "{circular:?} {linear:?}");
    }
}

/// `published_bugs.rs` puts F3, F7, F8 and F9 back. F8 is a line of a remove that is not flushed.
#[test]
fn published_bugs() {
    let scene = scene(leaf(0, 6), Change::Remove(1));
    scene.crash::<Linear, Scan>(&explorer());
    let late = Some(Mutation::DropFlush(0));
    println!("{}", scene.crash_with::<Linear, Scan>(&explorer(), late).expect_err("F8"));
}

/// `racing.rs` reads at each state between two stores: the order within a slot is what its readers need.
#[test]
fn racing() {
    let scene = inserting(leaf(0, 5), 1);
    let (before, after) = (&scene.states()[0].slots, &scene.states()[1].slots);
    let geometry = Geometry::new(scene.slots).expect("valid");
    let sim = scene.stage::<Scan>();
    sim.take_events();
    let page = sim.page(LEFT).expect("inside");
    scene.change.run::<Linear, Scan, _>(&*sim, page, scene.node.shape);
    let events = sim.take_events();
    let memory = Dram::new(geometry, 4).expect("memory");
    scene.node.put::<_, Scan>(&memory, LEFT);
    let page = memory.page(LEFT).expect("inside");
    let mut states = [0; 2];
    for event in events {
        let Event::Store { word, value } = event else { continue };
        memory.store(page.word(word as usize % geometry.page_words()), value);
        let found = Racing::new(page, scene.node.shape, false).slots().expect("in order");
        assert!(found == *before || found == *after, "{found:?}");
        states[usize::from(found == *after)] += 1;
    }
    assert!(states[0] > 5 && states[1] > 0, "{states:?}");
}

/// `counts.rs`, item 1 of the acceptance table: lines of one insert.
#[test]
fn counts() {
    for pos in 0..=6 {
        let linear = inserting(leaf(0, 6), pos).calls::<Linear, Scan>();
        assert_eq!(linear.flushes, (6 / 4 - pos / 4 + 1) as u64, "at {pos}");
        let circular = inserting(leaf(0, 6), pos).calls::<Circular, Sentinel>();
        assert!(circular.stores <= linear.stores + 1, "at {pos}: {circular:?}, {linear:?}");
    }
}

/// `model.rs` and the probes: each ranks each key of each kind of bounds as a walk does.
#[test]
fn probes() {
    for space in spaces() {
        let node = Node {
            shape: space.shape,
            low: space.low,
            right: space.right,
            base: 0,
            slots: space.slots(7.min(Linear::capacity::<Sim>(8, space.shape)), |i| i),
            free: Free::Stale,
        };
        let then = scene(node.clone(), Change::Remove(3));
        let scene = Scene { fresh: vec![], others: vec![], ..then };
        let sim = scene.stage::<Sentinel>();
        let page = sim.page(LEFT).expect("inside");
        invariants::<Sentinel>(page, space.shape).expect("as a walk");
        invariants::<Scan>(page, space.shape).expect("as a walk");
        invariants::<Segment>(page, space.shape).expect("as a walk");
        // Its sentinels are in another order.
        let sim = scene.stage::<SentinelWalk>();
        let page = sim.page(LEFT).expect("inside");
        invariants::<SentinelWalk>(page, space.shape).expect("as a walk");
        invariants::<Walk>(page, space.shape).expect("in inner nodes, too");
    }
}
