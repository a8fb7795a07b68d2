//! Every flush, fence and store of the layouts, left out or swapped with the next, one at a time: the
//! crash checker notices, or there is a reason why nothing is lost.

use crate::common::change::{Change, Scene, beside, each_change, each_node, explorer, spaces};
use crate::common::faults::{
    Site, faults_of_changes, faults_of_recovery, gift, inner, insert, leaf, merge, scene, split,
};
use crate::common::{Free, Node, Nodes};
use everleaf_crash_check::Mutation;
use everleaf_tree::slots::{Circular, Linear, Sentinel};

/// One of each way through the circular layout, where the shift crosses a line wherever it can.
fn circular() -> Vec<(&'static str, Scene)> {
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

/// Why nothing is lost by a fault of this site. `elsewhere`: it is noticed in other states.
fn reason<L: Nodes>(
    (scene, what, hit): &Site,
    recovers: bool,
    elsewhere: bool,
) -> Option<&'static str> {
    let (is_split, is_merge) = (scene.starts_with("split"), scene.starts_with("merge"));
    let is_gift = scene.starts_with("gift");
    let one_slot = matches!(*scene, "insert into an empty leaf" | "remove of the only one");
    let write_back = *what == "no flush of" || *what == "no fence after";
    let swapped = *what == "swapped";
    let inner_shift = matches!(
        *scene,
        "insert, inner" | "insert, inner, shifting left" | "insert, inner, shifting right"
    );
    // Elsewhere a repair of the header line also commits the count.
    let only_bound = elsewhere || !L::CIRCULAR;
    Some(match hit.as_str() {
        "the header line" if write_back && one_slot => {
            "nothing shifts in a node of one slot, so the slots say what the run is, until the next \
             change flushes the header"
        }
        "the header line" if write_back && recovers && only_bound && (is_split || is_merge) => {
            "only the upper bound was set right, and the next recovery does that again"
        }
        "base and count and an identity, in two lines" if swapped && recovers && !L::CIRCULAR => {
            "recovery does not read the count that it stores"
        }
        _ if is_gift && !recovers && (swapped || *scene == "gift to an empty leaf") => {
            "what is given is void until the lower bound goes down, and the count is counted anew"
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

#[test]
fn every_flush_fence_and_store_of_a_circular_change_is_needed() {
    faults_of_changes::<Circular, Sentinel>(circular())
        .close(|site, elsewhere| reason::<Circular>(site, false, elsewhere));
}

#[test]
fn every_flush_fence_and_store_of_circular_recovery_is_needed() {
    faults_of_recovery::<Circular, Sentinel>(circular())
        .close(|site, elsewhere| reason::<Circular>(site, true, elsewhere));
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
                        let calls = scene.calls::<Circular, Sentinel>();
                        let fault = Mutation::DropFence(calls.fences - 2);
                        let noticed =
                            scene.crash_with::<Circular, Sentinel>(&explorer(), Some(fault));
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

/// One of each way through the linear layout, where the shift crosses a line wherever it can.
fn linear() -> Vec<(&'static str, Scene)> {
    let at = |node: Node, pos| {
        let change = insert(&node, pos);
        scene(node, change)
    };
    let voided = |node: Node| Node { free: Free::Voided, ..node };
    vec![
        ("insert at the front", at(leaf(0, 6), 0)),
        ("insert in the middle", at(leaf(0, 6), 3)),
        ("insert at the end", at(leaf(0, 3), 3)),
        ("insert at the end, into a new line", at(leaf(0, 4), 4)),
        ("insert into an empty leaf", at(leaf(0, 0), 0)),
        ("insert, inner", at(inner(0, 6), 1)),
        ("insert, inner, beside voided slots", at(voided(inner(0, 6)), 1)),
        ("remove at the front", scene(leaf(0, 7), Change::Remove(0))),
        ("remove in the middle", scene(leaf(0, 7), Change::Remove(2))),
        ("remove at the end", scene(leaf(0, 4), Change::Remove(3))),
        ("remove of the only one", scene(leaf(0, 1), Change::Remove(0))),
        ("remove, inner", scene(inner(0, 7), Change::Remove(1))),
        ("update", scene(leaf(0, 4), Change::Update(1, 99))),
        ("split", split(leaf(0, 7))),
        ("split, inner", split(inner(0, 7))),
        ("merge", merge(leaf(0, 3), false)),
        ("merge with the last", merge(leaf(0, 3), true)),
        ("merge, inner", merge(inner(0, 3), false)),
        ("merge, inner, over voided slots", merge(voided(inner(0, 3)), false)),
        ("gift", gift(leaf(0, 3))),
        ("gift, beside voided slots", gift(voided(leaf(0, 3)))),
        ("gift to an empty leaf", gift(leaf(0, 0))),
    ]
}

#[test]
fn every_flush_fence_and_store_of_a_linear_change_is_needed() {
    faults_of_changes::<Linear, Sentinel>(linear())
        .close(|site, elsewhere| reason::<Linear>(site, false, elsewhere));
}

#[test]
fn every_flush_fence_and_store_of_linear_recovery_is_needed() {
    faults_of_recovery::<Linear, Sentinel>(linear())
        .close(|site, elsewhere| reason::<Linear>(site, true, elsewhere));
}
