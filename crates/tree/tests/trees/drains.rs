//! Trees that lose their pairs give their nodes back, in whatever order these go: at every point
//! there are at most 2 + pairs / (0.4 × slots) leaves, and as many nodes above for the nodes below.

use std::borrow::Borrow;
use std::sync::Arc;

use crate::common::script::rng;
use everleaf_pmem::{Dram, Geometry};
use everleaf_tree::blink::{Blink, Condition};
use everleaf_tree::slots::{Keys, OwnedOf, ValueWrites};
use everleaf_tree::slots::{Layout, Probe};
use everleaf_tree::{CircTree, FastFair, INDEX_ANCHOR, StringTree};
use rand::seq::SliceRandom;

#[derive(Debug, Clone, Copy)]
enum Write {
    Put(u64),
    Remove(u64),
}
use Write::{Put, Remove};

/// A function that makes the i-th key, and the value of all.
type Like<'v, K> = (fn(u64) -> OwnedOf<K>, &'v <K as ValueWrites>::Input);

fn mixed(i: u64) -> u64 {
    i.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// A queue: pairs come at one end and go at the other.
fn fifo(live: u64, ops: u64) -> Vec<Write> {
    (0..ops).flat_map(|i| [Some(Put(i)), i.checked_sub(live).map(Remove)]).flatten().collect()
}

/// Pairs of random keys, which go in the order in which they came.
fn expiring(live: u64, ops: u64) -> Vec<Write> {
    let key = |write| match write {
        Put(i) => Put(mixed(i)),
        Remove(i) => Remove(mixed(i)),
    };
    fifo(live, ops).into_iter().map(key).collect()
}

/// Sweeps over ascending keys, each of which removes those whose time has come: every eighth of what
/// there was, at random.
fn swept(live: u64) -> Vec<Write> {
    let sweep = |turn: u64| (0..live).filter(move |i| mixed(*i) >> 61 == turn).map(Remove);
    (0..live).map(Put).chain((0..8).flat_map(sweep)).collect()
}

/// Keys that come in one order and go in another.
fn drain(come: impl Iterator<Item = u64>, go: impl Iterator<Item = u64>) -> Vec<Write> {
    come.map(Put).chain(go.map(Remove)).collect()
}

fn shuffled(n: u64, seed: u64) -> Vec<u64> {
    let mut keys: Vec<u64> = (0..n).collect();
    keys.shuffle(&mut rng(seed));
    keys
}

/// Runs writes and looks at the nodes after each few. Answers the most nodes that there were for one
/// that may be, over all levels, and the nodes at the end.
fn run<L: Layout, P: Probe, K: Keys>(
    slots: u32,
    every: usize,
    writes: &[Write],
    (key, value): Like<'_, K>,
) -> (f64, Vec<u64>) {
    let dram = Dram::new(Geometry::new(slots).expect("valid"), 1 << 16).expect("memory");
    let pool = Arc::new(Blink::<Dram, (L, P, K)>::format_pool(dram).expect("formats"));
    let tree = Blink::<Dram, (L, P, K)>::create(pool, INDEX_ANCHOR).expect("space");
    let (mut live, mut worst, mut nodes) = (0_u64, 0.0_f64, Vec::new());
    for (i, write) in writes.iter().enumerate() {
        match *write {
            Put(k) => {
                tree.put(key(k).borrow(), value, Condition::Absent).expect("space");
                live += 1;
            }
            Remove(k) => {
                assert!(tree.remove(key(k).borrow()).expect("memory").epoch.is_some(), "{write:?}");
                live -= 1;
            }
        }
        if i % every == 0 || i + 1 == writes.len() {
            let report = tree.check().expect("memory");
            assert_eq!((report.damages.as_slice(), report.entries), (&[][..], live));
            nodes = report.nodes_by_level;
            let mut below = live as f64;
            for n in &nodes {
                worst = worst.max(*n as f64 / (2.0 + below / (0.4 * f64::from(slots))));
                below = *n as f64;
            }
        }
    }
    (worst, nodes)
}

/// Small nodes are looked at after each write, large ones now and then.
fn everywhere<L: Layout, P: Probe, K: Keys>(
    what: &str,
    workloads: fn(u64) -> Vec<Vec<Write>>,
    _: fn(Blink<Dram, (L, P, K)>),
    like: Like<'_, K>,
) {
    for (slots, n, every) in [(16, 400, 1), (256, 20_000, 499)] {
        for (i, writes) in workloads(n).iter().enumerate() {
            let (worst, nodes) = run::<L, P, K>(slots, every, writes, like);
            println!("{what} {i}, {slots} slots: {worst:.3} of the most; at the end {nodes:?}");
            assert!(worst <= 1.0, "{what} {i}, {slots} slots: {worst} of the most");
        }
    }
}

fn in_each_tree(workloads: fn(u64) -> Vec<Vec<Write>>) {
    /// Keys with a prefix, and of several lengths.
    fn string(i: u64) -> Vec<u8> {
        format!("key {i:020}{}", &"xxxxxxx"[(i % 7) as usize..]).into_bytes()
    }
    everywhere("circular", workloads, |_: CircTree<_>| {}, (|i| i, &7));
    everywhere("linear", workloads, |_: FastFair<_>| {}, (|i| i, &7));
    everywhere("strings", workloads, |_: StringTree<_>| {}, (string, &b"7"[..]));
}

#[test]
fn a_queue_gives_its_leaves_back() {
    in_each_tree(|n| vec![fifo(n / 4, 4 * n)]);
}

#[test]
fn pairs_that_expire_give_their_leaves_back() {
    in_each_tree(|n| vec![expiring(n / 2, 4 * n), swept(n)]);
}

#[test]
fn a_drain_from_one_end_gives_its_leaves_back() {
    in_each_tree(|n| {
        let random = || shuffled(n, 1).into_iter();
        vec![drain(0..n, 0..n), drain(0..n, (0..n).rev()), drain(random(), 0..n)]
    });
}

#[test]
fn a_random_drain_gives_its_leaves_back() {
    in_each_tree(|n| {
        let random = |seed| shuffled(n, seed).into_iter();
        vec![drain(0..n, random(2)), drain((0..n).rev(), random(3)), drain(random(4), random(5))]
    });
}
