//! The pages and notes that many changes at once ask for, counted.

use std::cell::Cell;
use std::rc::Rc;

use everleaf_file::io::SimIo;
use everleaf_tree::blink::{BatchChange, Condition};

use super::watched::{Tree, open, with_each_page};

/// Tags of the notes of an insert and of a whole node.
const INSERT: usize = 7;
const IMAGE: usize = 11;

fn key(n: u32) -> [u8; 4] {
    n.to_be_bytes()
}

fn filled(keys: impl IntoIterator<Item = u32>) -> Tree {
    let tree = open(&SimIo::new(1), 512);
    for n in keys {
        tree.set(&key(n), b"value", Condition::Always).expect("room");
    }
    tree
}

/// How often a batch asks for a page, to find its places and to make its changes; each puts `value` or removes.
fn pages(tree: &Tree, keys: &[u32], value: Option<&[u8]>) -> [u32; 2] {
    let keys: Vec<_> = keys.iter().map(|n| key(*n)).collect();
    let changes: Vec<_> = keys.iter().map(|key| BatchChange { key: &key[..], value }).collect();
    let mut places = vec![None; changes.len()];
    let count = Rc::new(Cell::new(0));
    let counting = || {
        let count = Rc::clone(&count);
        Box::new(move |_: &_, _| count.set(count.get() + 1))
    };
    with_each_page(counting(), || tree.touch(&changes, &[], &mut places)).expect("readable");
    let touched = count.take();
    with_each_page(counting(), || {
        let mut done = 0;
        while done < changes.len() {
            let some = tree.change_leaf(None, &changes[done..], &mut places[done..]);
            done += some.expect("room");
        }
    });
    [touched, count.take()]
}

/// Leaves of the tree, the first keys of which are known, for keys from 0 on.
fn leaves(tree: &Tree) -> u32 {
    tree.check().expect("readable").nodes_by_level[0] as u32
}

#[test]
fn changes_that_meet_in_a_leaf_descend_once() {
    let tree = filled((0..200).map(|n| 2 * n));
    assert!(leaves(&tree) > 5, "{} leaves", leaves(&tree));
    assert_eq!(pages(&tree, &[40, 42, 44, 46], Some(b"other")), [2, 1], "root, leaf; leaf");
    assert_eq!(pages(&tree, &[40, 42], Some(b"v")), [2, 1], "what is shorter");
    assert_eq!(pages(&tree, &[41], None), [2, 1], "a key that is not there");
}

#[test]
fn a_batch_asks_for_each_leaf_and_once_for_the_node_above_them() {
    let tree = filled((0..200).map(|n| 2 * n));
    let keys: Vec<_> = (0..200).map(|n| 2 * n).collect();
    let leaves = leaves(&tree);
    assert_eq!(pages(&tree, &keys, Some(b"other")), [1 + leaves, leaves]);
}

#[test]
fn pairs_that_ascend_behind_a_tree_are_noted_leaf_by_leaf() {
    let tree = filled(0..10);
    let before = tree.pool().medium().notes();
    pages(&tree, &(10..1000).collect::<Vec<_>>(), Some(b"value"));
    let notes = tree.pool().medium().notes();
    let more = |tag: usize| notes[tag] - before[tag];
    assert!(more(INSERT) < 200, "{} inserts of 990 pairs", more(INSERT));
    assert!(more(IMAGE) > 20, "{} whole nodes", more(IMAGE));
    assert_eq!(tree.check().expect("readable").entries, 1000);
}

#[test]
fn removals_of_a_batch_merge_the_leaves_that_they_leave() {
    let tree = filled(0..1000);
    let before = leaves(&tree);
    pages(&tree, &(100..1000).collect::<Vec<_>>(), None);
    assert!(leaves(&tree) <= before / 4, "{} of {before} leaves", leaves(&tree));
    let report = tree.check().expect("readable");
    assert_eq!((report.damages.len(), report.entries), (0, 100));
}
