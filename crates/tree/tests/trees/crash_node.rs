//! One node on strict memory: every operation on every node of 4 and of 8 slots, for each layout and
//! probe, cut off at every store, recovered, with the recovery cut off too.

use crate::common::change::{
    Change, Scene, VALUES, after, beside, each_change, each_node, explorer, spaces,
};
use crate::common::{END, LAST, Node, Nodes, RIGHT, print, to};
use everleaf_crash_check::{Coverage, Explorer};
use everleaf_pmem::Sim;
use everleaf_tree::slots::{
    Binary, Circular, Fingerprint, Linear, Probe, Scan, Segment, Sentinel, SentinelWalk, Slot,
};

/// Recovery does not know the probe, so crashes inside of recovery are explored with one of them.
fn shallow() -> Explorer {
    explorer().depth(1)
}

/// How many slots of a node of words can be live.
fn capacity<L: Nodes>(slots: usize) -> usize {
    L::capacity::<Sim>(slots, crate::common::LEAF)
}

/// Each base and count.
fn runs<L: Nodes>(slots: usize) -> impl Iterator<Item = (usize, usize)> {
    L::bases(slots).flat_map(move |base| (0..=capacity::<L>(slots)).map(move |n| (base, n)))
}

fn every_change_of<L: Nodes, P: Probe>(slots: usize, explorer: &Explorer) -> Coverage {
    let mut stats = Coverage::default();
    for space in spaces() {
        for (base, count) in runs::<L>(slots) {
            for (node, value) in each_node(&space, base, count) {
                let others = beside(&node);
                for change in each_change(&space, capacity::<L>(slots), count, value) {
                    stats += Scene {
                        slots: slots as u32,
                        node: node.clone(),
                        others: others.clone(),
                        change,
                        then: None,
                        fresh: space.all(),
                    }
                    .crash::<L, P>(explorer);
                }
            }
        }
    }
    stats
}

/// Splits at each place, and what goes on in the left half afterwards.
fn every_split_of<L: Nodes, P: Probe>(slots: usize, explorer: &Explorer) -> Coverage {
    let mut stats = Coverage::default();
    for mut space in spaces() {
        if space.right.sibling != 0 {
            space.right.sibling = LAST;
        }
        for (base, count) in runs::<L>(slots).filter(|(_, count)| *count >= 2) {
            for (node, _) in each_node(&space, base, count) {
                // The new node's page was another node once.
                let old = Node { slots: space.slots(slots, VALUES[0]), base: 1, ..after(&node) };
                let others = vec![(LAST, after(&node)), (RIGHT, old)];
                for keep in 1..count {
                    stats += Scene {
                        slots: slots as u32,
                        node: node.clone(),
                        others: others.clone(),
                        change: Change::Split(keep),
                        then: None,
                        fresh: space.all(),
                    }
                    .crash::<L, P>(explorer);
                }
            }
        }
    }
    stats
}

/// Merges of each two nodes that fit into one.
fn every_merge_of<L: Nodes, P: Probe>(slots: usize, explorer: &Explorer) -> Coverage {
    let mut stats = Coverage::default();
    for space in spaces() {
        let bounded = space.right.sibling != 0;
        if space.shape.level == 0 && space.low == 0 && !bounded {
            continue;
        }
        let end = if bounded { to(LAST, space.right.high) } else { END };
        let last = Node { low: end.high, ..after(&each_node(&space, 0, 0).next().expect("one").0) };
        for (base, left) in runs::<L>(slots) {
            for right in 0..=capacity::<L>(slots) - left {
                for (mut node, value) in each_node(&space, base, left) {
                    node.right = to(RIGHT, (space.key)(2 * left as u64));
                    let more = (0..right as u64).map(|i| space.slot(2 * (left as u64 + i), value));
                    let (low, more) = (node.right.high, more.collect::<Vec<_>>());
                    let base = usize::from(L::CIRCULAR);
                    let other = Node { low, right: end, slots: more.clone(), base, ..node };
                    let mut others = vec![(RIGHT, other)];
                    if bounded {
                        others.push((LAST, last.clone()));
                    }
                    stats += Scene {
                        slots: slots as u32,
                        node: node.clone(),
                        others,
                        change: Change::Merge(more, end),
                        then: None,
                        fresh: space.all(),
                    }
                    .crash::<L, P>(explorer);
                }
            }
        }
    }
    stats
}

/// Gifts of one to three entries to each leaf that has room for them and something to its left.
fn every_gift_to<L: Nodes, P: Probe>(slots: usize, explorer: &Explorer) -> Coverage {
    let mut stats = Coverage::default();
    for space in spaces().iter().filter(|space| space.shape.level == 0 && space.low > 0) {
        for (base, count) in runs::<L>(slots) {
            for (node, value) in each_node(space, base, count) {
                for n in 1..=(capacity::<L>(slots) - count).min(3) as u64 {
                    let more = (0..n).map(|i| Slot { ident: 90 + i, payload: value(i) });
                    stats += Scene {
                        slots: slots as u32,
                        node: node.clone(),
                        others: beside(&node),
                        change: Change::Take(more.collect()),
                        then: None,
                        fresh: space.all(),
                    }
                    .crash::<L, P>(explorer);
                }
            }
        }
    }
    stats
}

fn everything_of<L: Nodes, P: Probe>(slots: usize, explorer: &Explorer) {
    let probe = std::any::type_name::<P>().rsplit("::").next().expect("a name");
    let what = format!("{} nodes of {slots} slots, {probe}", L::NAME);
    print(&format!("{what}: changes"), every_change_of::<L, P>(slots, explorer));
    print(&format!("{what}: splits"), every_split_of::<L, P>(slots, explorer));
    print(&format!("{what}: merges"), every_merge_of::<L, P>(slots, explorer));
    if L::LOCK_FREE {
        print(&format!("{what}: gifts"), every_gift_to::<L, P>(slots, explorer));
    }
}

#[test]
fn everything_in_every_circular_node_of_4_slots() {
    everything_of::<Circular, Sentinel>(4, &explorer());
    everything_of::<Circular, Fingerprint>(4, &shallow());
    everything_of::<Circular, Binary>(4, &shallow());
    everything_of::<Circular, Scan>(4, &shallow());
    everything_of::<Circular, Segment>(4, &shallow());
    everything_of::<Circular, SentinelWalk>(4, &shallow());
}

#[test]
fn everything_in_every_linear_node_of_4_slots() {
    everything_of::<Linear, Sentinel>(4, &explorer());
    everything_of::<Linear, Fingerprint>(4, &shallow());
    everything_of::<Linear, Binary>(4, &shallow());
    everything_of::<Linear, Scan>(4, &shallow());
    everything_of::<Linear, SentinelWalk>(4, &shallow());
}

#[test]
fn everything_in_every_circular_node_of_8_slots() {
    everything_of::<Circular, Sentinel>(8, &explorer());
}

#[test]
fn everything_in_every_circular_node_of_8_slots_with_fingerprints() {
    everything_of::<Circular, Fingerprint>(8, &shallow());
}

#[test]
fn everything_in_every_node_of_8_slots_with_sentinels_that_are_walked() {
    everything_of::<Circular, SentinelWalk>(8, &shallow());
    everything_of::<Linear, SentinelWalk>(8, &shallow());
}

#[test]
fn everything_in_every_linear_node_of_8_slots() {
    everything_of::<Linear, Sentinel>(8, &explorer());
    everything_of::<Linear, Fingerprint>(8, &shallow());
}
