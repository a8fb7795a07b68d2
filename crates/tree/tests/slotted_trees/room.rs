//! Room for a pair in a full leaf is made by the emptier neighbour, else by the other one, else by a split.

use std::cell::Cell;
use std::ops::Bound::Unbounded;
use std::rc::Rc;
use std::sync::Arc;

use everleaf_file::io::SimIo;
use everleaf_pmem::Medium;
use everleaf_pool::Wants;
use everleaf_tree::blink::Condition;

use super::watched::{Tree, Watched, open, tidy, with_each_page};

const PAGE_BYTES: u32 = 4096;
const WANTS: Wants = Wants { pages: 50, extents: 0 };
const VALUE: [u8; 40] = [7; 40];
/// Pairs of these keys and values that a leaf holds, about.
const FULL: usize = 78;

/// Tags of notes: entries have come to the end of a node, from its right neighbour, or to the beginning.
const ADD_BACK: usize = 14;
const ADD_FRONT: usize = 15;

fn key(i: u32) -> Vec<u8> {
    i.to_be_bytes().to_vec()
}

fn put(tree: &Tree, key: &[u8]) {
    tree.set(key, &VALUE, Condition::Always).expect("room");
}

/// The keys of each leaf.
fn leaves(tree: &Tree) -> Vec<Vec<Vec<u8>>> {
    let (mut all, mut next) = (Vec::new(), Some(Unbounded));
    while let Some(from) = next {
        let chunk = tree.chunk_up(from.as_ref().map(Vec::as_slice), 10_000).expect("sound");
        all.push(chunk.entries.into_iter().map(|pair| pair.0).collect());
        next = chunk.next;
    }
    let report = tree.check().expect("readable");
    assert!(report.damages.is_empty(), "{:?}", report.damages);
    assert_eq!(all.len() as u64, report.nodes_by_level[0], "a chunk is a leaf");
    all
}

/// A tree of so many leaves, filled from the right to the left.
fn tree_of(n: usize) -> Tree {
    let tree = open(&SimIo::new(1), PAGE_BYTES);
    for i in (0..100_000).rev().step_by(100) {
        put(&tree, &key(i));
        if tree.check().expect("readable").nodes_by_level[0] == n as u64 {
            return tree;
        }
    }
    panic!("{n} leaves are many");
}

/// The maker of room, as the notes say.
#[derive(Debug, PartialEq)]
enum By {
    Left,
    Right,
    Split,
}

/// Leaves so many pairs in each leaf, but fills the one that is to ask; then says what made room for it.
/// `asks` may change it before.
fn ask(keeps: &[Option<usize>], asks: impl Fn(&Tree, &[Vec<u8>])) -> By {
    ask_with(keeps, asks, false)
}

/// As `ask`; the room may be [counted](everleaf_pool::Pool::is_counted) then.
fn ask_with(keeps: &[Option<usize>], asks: impl Fn(&Tree, &[Vec<u8>]), counted: bool) -> By {
    let tree = tree_of(keeps.len());
    let before = leaves(&tree);
    let full = keeps.iter().position(Option::is_none).expect("one asks");
    asks(&tree, &before[full]);
    let new = |i: usize| [&before[full][1 + i % 20][..], &[i as u8]].concat();
    let have = leaves(&tree)[full].len();
    (have..FULL - 12).for_each(|i| put(&tree, &new(i)));
    for (keys, keep) in before.iter().zip(keeps) {
        let gone = keep.map_or(0, |keep| keys.len().checked_sub(keep).expect("so many"));
        for key in &keys[keys.len() / 2 - gone / 2..][..gone] {
            assert!(tree.delete(key).expect("memory").epoch.is_some());
        }
    }
    assert_eq!(leaves(&tree).len(), keeps.len(), "nothing was merged");
    let promise = counted.then(|| tree.pool().promise_counted(WANTS).expect("room"));
    let notes = tree.pool().medium().notes();
    for i in FULL - 12..2 * FULL {
        put(&tree, &new(i));
        let now = tree.pool().medium().notes();
        let added = [ADD_BACK, ADD_FRONT].map(|tag| now[tag] - notes[tag]);
        let split = leaves(&tree).len() > keeps.len();
        match (added, split) {
            ([0, 0], false) => {}
            ([1, 0], false) => return By::Left,
            ([0, 1], false) => return By::Right,
            ([0, 0], true) => return By::Split,
            other => panic!("{other:?}"),
        }
    }
    drop(promise);
    panic!("it takes all");
}

fn nothing(_: &Tree, _: &[Vec<u8>]) {}

#[test]
fn the_only_neighbour_takes() {
    assert_eq!(ask(&[Some(25), None], nothing), By::Left);
    assert_eq!(ask(&[None, Some(25)], nothing), By::Right);
}

#[test]
fn the_emptier_neighbour_takes() {
    assert_eq!(ask(&[Some(22), None, Some(36)], nothing), By::Left);
    assert_eq!(ask(&[Some(36), None, Some(22)], nothing), By::Right);
}

#[test]
fn the_other_neighbour_takes_what_the_emptier_one_cannot() {
    // A key that the leaf has in part is at the border.
    let long = |tree: &Tree, old: &Vec<u8>| {
        put(tree, &[&old[..], &[b'x'; 600]].concat());
        assert!(tree.delete(old).expect("memory").epoch.is_some());
    };
    let first = |tree: &Tree, keys: &[Vec<u8>]| long(tree, &keys[0]);
    let last = |tree: &Tree, keys: &[Vec<u8>]| long(tree, &keys[keys.len() - 1]);
    assert_eq!(ask(&[Some(22), None, Some(36)], first), By::Right);
    assert_eq!(ask(&[Some(36), None, Some(22)], last), By::Left);
    let both = |tree: &Tree, keys: &[Vec<u8>]| {
        first(tree, keys);
        last(tree, keys);
    };
    assert_eq!(ask(&[Some(22), None, Some(36)], both), By::Split);
}

#[test]
fn what_is_loaded_in_order_stays_where_it_is() {
    let tree = tree_of(2);
    let before = leaves(&tree);
    assert!(before[0].len() < FULL * 6 / 10, "it could take");
    tidy(&tree);
    let notes = tree.pool().medium().notes();
    for i in 100_000..100_000 + 2 * FULL as u32 {
        put(&tree, &key(i));
    }
    let (now, after) = (tree.pool().medium().notes(), leaves(&tree));
    assert_eq!([now[ADD_BACK], now[ADD_FRONT]], [notes[ADD_BACK], notes[ADD_FRONT]]);
    assert_eq!(after[0], before[0]);
    assert!(after[1].len() > FULL - 4 && after.len() == 4, "{:?}", after.len());
}

#[test]
fn counted_room_is_for_halves() {
    // Nobody has counted what a neighbour would want.
    assert_eq!(ask_with(&[Some(25), None], nothing, true), By::Split);
    assert_eq!(ask_with(&[None, Some(25)], nothing, true), By::Split);
    // Nor that a leaf stays full, and is split again by the next one that is not in a row.
    let tree = tree_of(2);
    let promise = tree.pool().promise_counted(WANTS).expect("room");
    for i in 100_000..100_000 + 2 * FULL as u32 {
        put(&tree, &key(i));
    }
    drop(promise);
    let sizes: Vec<_> = leaves(&tree).iter().map(Vec::len).collect();
    assert!(sizes[..sizes.len() - 1].iter().all(|n| *n < FULL * 6 / 10), "{sizes:?}");
}

fn added(m: &Watched) -> u64 {
    let notes = m.notes();
    notes[ADD_BACK] + notes[ADD_FRONT]
}

#[test]
fn a_leaf_that_has_room_meanwhile_gives_nothing() {
    let (mut meanwhile, mut evened) = (0, 0);
    for at in 0..24 {
        let tree = Arc::new(tree_of(2));
        let keys = leaves(&tree).swap_remove(0);
        let new = |i: u8| [&keys[1][..], &[i]].concat();
        (0..FULL - keys.len()).for_each(|i| put(&tree, &new(i as u8)));
        assert_eq!(added(tree.pool().medium()), 0);
        let (other, gone) = (Arc::clone(&tree), keys[2..6].to_vec());
        let (mut asked, mut met) = (0, Vec::new());
        let before = Rc::new(Cell::new(None));
        let seen = Rc::clone(&before);
        let act = move |m: &Watched, no| {
            let is_held = |no: &u32| m.file().page(*no).expect("met").latch().is_locked();
            if asked >= at && seen.get().is_none() && !met.iter().any(is_held) {
                seen.set(Some(added(m)));
                for key in &gone {
                    assert!(other.delete(key).expect("memory").epoch.is_some());
                }
            }
            asked += 1;
            met.push(no);
        };
        // More than there is room for, and less than the four that go.
        let big = [7; 180];
        let put = || tree.set(&new(200), &big, Condition::Always).expect("room");
        with_each_page(Box::new(act), put);
        if let Some(before) = before.get() {
            assert_eq!(added(tree.pool().medium()), before, "at page {at}");
            meanwhile += u64::from(before == 0);
        }
        evened += added(tree.pool().medium());
        leaves(&tree);
    }
    println!("{meanwhile} times in time, {evened} times too late");
    assert!(meanwhile > 4 && evened > 0);
}
