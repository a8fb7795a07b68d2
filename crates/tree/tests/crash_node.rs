//! One circular node on strict memory: every operation on every node of 4 and of 8 slots, cut off
//! at every store, recovered, with the recovery cut off too.

mod common;

use common::change::{Change, Scene, VALUES, after, beside, each_change, each_node, spaces};
use common::{END, LAST, Node, RIGHT, print, to};
use everleaf_check::Stats;

fn every_change_of(slots: usize) -> Stats {
    let mut stats = Stats::default();
    for space in spaces() {
        for (base, count) in (0..slots).flat_map(|b| (0..=slots).map(move |n| (b, n))) {
            for (node, value) in each_node(&space, base, count) {
                let others = beside(&node);
                for change in each_change(&space, slots, count, value) {
                    stats += Scene {
                        slots: slots as u32,
                        node: node.clone(),
                        others: others.clone(),
                        change,
                        then: None,
                        fresh: space.all(),
                    }
                    .crash();
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
                    // The new node's page was another node once.
                    let old =
                        Node { slots: space.slots(slots, VALUES[0]), base: 1, ..after(&node) };
                    let others = vec![(LAST, after(&node)), (RIGHT, old)];
                    for keep in 1..count {
                        let change = Change::Split(keep);
                        stats += Scene {
                            slots: slots as u32,
                            node: node.clone(),
                            others: others.clone(),
                            change,
                            then: None,
                            fresh: space.all(),
                        }
                        .crash();
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
                    let mut others = vec![(RIGHT, other)];
                    if bounded {
                        others.push((LAST, last.clone()));
                    }
                    let change = Change::Merge(more, end);
                    stats += Scene {
                        slots: slots as u32,
                        node: node.clone(),
                        others: others.clone(),
                        change,
                        then: None,
                        fresh: space.all(),
                    }
                    .crash();
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
