//! Sorted loads of a BD+Tree: how full they leave its leaves, what they refuse, and what a crash in one keeps.

use std::collections::BTreeMap;
use std::ops::Bound::Unbounded;
use std::sync::Arc;

use crate::bd::scripts::{fill, remove};
use crate::bd::{Bd, Found, carry_on, copy, recover, sim, stage};
use everleaf_crash_check::{Act, CrashPoint, Explorer, SharedMedium, Trace};
use everleaf_pmem::{Buffered, BufferedOptions, Dram, Error, Geometry, Sim};
use everleaf_tree::hybrid::Loaded;
use everleaf_tree::{BdTree, INDEX_ANCHOR, Index};

fn on_dram(slots: u32, pages: u32) -> BdTree<Dram> {
    let geometry = Geometry::new(slots).expect("a power of two");
    Bd::create(Dram::new(geometry, pages).expect("memory")).expect("space").0
}

/// Pairs that a leaf takes.
fn most(slots: u32) -> u64 {
    if slots == 64 { 60 } else { slots.into() }
}

#[test]
fn a_new_tree_has_as_few_leaves_as_there_can_be() {
    for slots in [4, 8, 16, 32, 64] {
        for (leaves, more) in [(1, 0), (3, 0), (3, 1), (200, 0), (200, most(slots) - 1)] {
            let tree = on_dram(slots, 1 << 10);
            let n = leaves * most(slots) + more;
            // The greatest key is one as any other.
            let pair = |i: u64| (u64::MAX - (n - 1 - i) * 3, i);
            let loaded = tree.load((0..n).map(pair)).expect("space");
            assert_eq!(loaded, Loaded { pairs: n, epoch: Some(tree.medium().clock()) });
            let report = tree.check().expect("memory");
            assert_eq!(report.damages, []);
            assert_eq!((report.entries, report.leaves), (n, leaves + u64::from(more > 0)));
            assert_eq!((report.missing_entries, report.leaked.len()), (0, 0));
            let all = tree.range(Unbounded, Unbounded, usize::MAX).expect("sound");
            assert!(all.into_iter().eq((0..n).map(pair)), "{slots} slots, {n} pairs");
        }
    }
}

#[test]
fn no_pair_is_nothing_and_zero_and_the_greatest_key_are_keys() {
    let tree = on_dram(4, 64);
    assert_eq!(tree.load([]).expect("nothing"), Loaded::default());
    let ends = [(0, 0), (u64::MAX, u64::MAX)];
    assert_eq!(tree.load(ends).expect("space").pairs, 2);
    assert_eq!(tree.range(Unbounded, Unbounded, 9).expect("sound"), ends);
}

#[test]
fn a_key_that_does_not_ascend_is_refused_and_the_pairs_before_it_are_there() {
    for (at, wrong) in [(1, 0), (3, 3), (4, 0), (7, 12), (8, 14), (9, 15)] {
        let tree = on_dram(4, 64);
        let pairs = (0..20).map(|i| if i == at { (wrong, 99) } else { (2 * i, i) });
        let refused = tree.load(pairs);
        let is_told = matches!(refused, Err(Error::NotAscending { position }) if position == at);
        assert!(is_told, "{refused:?}");
        let all = tree.range(Unbounded, Unbounded, usize::MAX).expect("sound");
        assert!(all.into_iter().eq((0..at).map(|i| (2 * i, i))), "pair {at}");
    }
}

#[test]
fn pairs_among_others_are_put_one_by_one_and_replace_what_is_there() {
    let tree = on_dram(8, 256);
    let mut model = BTreeMap::new();
    for key in (0..400).step_by(7) {
        tree.insert(key, 1).expect("space");
        model.insert(key, 1);
    }
    let mut load = |pairs: Vec<(u64, u64)>| {
        model.extend(pairs.iter().copied());
        assert_eq!(tree.load(pairs.iter().copied()).expect("space").pairs, pairs.len() as u64);
        let all = tree.range(Unbounded, Unbounded, usize::MAX).expect("sound");
        assert!(all.into_iter().eq(model.clone()));
        assert_eq!(tree.check().expect("memory").damages, []);
    };
    load((100..700).map(|key| (key, 2)).collect());
    load((0..30).map(|key| (key * 30, 3)).collect());
    load((900..1000).map(|key| (key, 4)).collect());
}

/// Keys of the last leaf that only older epochs show may lie behind what is loaded.
#[test]
fn what_a_crash_may_bring_back_stays_in_its_leaf() {
    let sim = stage(4, &fill([1, 2, 50]));
    let tree = Bd::open(SharedMedium::new(&sim)).expect("opens").0;
    Index::remove(&tree, 50).expect("sound");
    tree.load((3..30).map(|key| (key, key))).expect("space");
    assert_eq!(tree.check().expect("memory").damages, []);
    tree.medium().abandon();
    drop(tree);
    let found = recover(&copy(&sim)).expect("sound");
    assert!(found.entries.contains(&(50, 1050)), "{:?}", found.entries);
}

#[test]
fn a_full_pool_ends_a_load_and_keeps_its_pairs() {
    let tree = on_dram(4, 32);
    let refused = tree.load((0..1000).map(|key| (key, key)));
    assert!(matches!(refused, Err(Error::Full { .. })), "{refused:?}");
    let report = tree.check().expect("memory");
    assert_eq!(report.damages, []);
    let all = tree.range(Unbounded, Unbounded, usize::MAX).expect("sound");
    assert!(all.len() as u64 == report.entries && report.entries == 4 * report.leaves);
    assert!(all.into_iter().eq((0..report.entries).map(|key| (key, key))));
}

/// Loads pairs into what `before` has left, with an end of the epoch before each of `ticks`, and crashes all of it.
fn crash_loads(slots: u32, before: &[Act], n: u64, ticks: &[u64]) -> u64 {
    let sim = stage(slots, before);
    let tree = Bd::open(SharedMedium::new(&sim)).expect("opens");
    let durable = tree.0.medium().persisted_epoch();
    let mut ends = BTreeMap::from([(durable, tree.entries().expect("sound"))]);
    let trace = Trace::new(&sim);
    let pairs = (0..n).map(|i| {
        if ticks.contains(&i) {
            // No latch is held while pairs are asked for.
            ends.insert(tree.0.medium().clock(), tree.entries().expect("sound"));
            tree.0.medium().tick().expect("sound");
        }
        (1 << 20 | i, i)
    });
    let loaded = trace.op(0, || tree.0.load(pairs)).expect("space");
    assert_eq!((loaded.pairs, loaded.epoch), (n, Some(tree.0.medium().clock())));
    ends.insert(tree.0.medium().clock(), tree.entries().expect("sound"));
    trace.op(1, || tree.0.sync()).expect("sound");
    let (record, mut images) = (trace.finish(), 0);
    let verify = |found: Found, _: &Arc<Sim>, crash: &CrashPoint<'_>| {
        let (_, expected) = ends.range(..=found.durable).next_back().expect("the first end");
        if *expected != found.entries {
            return Err(format!("the end of epoch {} is {:?}", found.durable, found.entries));
        }
        if crash.responded().len() == 2
            && found.entries.len() as u64 != n + ends[&durable].len() as u64
        {
            return Err("a sync did not keep the load".into());
        }
        images += 1;
        if images % 16 == 0 { carry_on(&found) } else { Ok(()) }
    };
    let explorer = Explorer::new().exhaustive(1 << 10).page_exhaustive(1 << 8).samples(128);
    let stats = explorer.explore(&record, recover, verify).unwrap_or_else(|f| panic!("{f}"));
    println!("{slots} slots, {n} pairs, epochs end at {ticks:?}: {stats}");
    stats.images
}

#[test]
fn every_crash_of_a_load_keeps_the_pairs_of_the_durable_epoch() {
    let mut images = 0;
    for slots in [4, 8] {
        let most = u64::from(slots);
        let drained = [fill(0..most + 2), (0..most + 2).map(remove).collect()].concat();
        for before in [vec![], fill(0..2), fill(0..most), drained] {
            images += crash_loads(slots, &before, 3 * most + 1, &[]);
            images += crash_loads(slots, &before, 3 * most + 1, &[1, most, 2 * most + 2]);
            images += crash_loads(slots, &before, 4 * most, &[most + 1, most + 2, most + 3]);
        }
    }
    assert!(images > 10_000, "{images}");
}

/// In a batch all pairs are of one epoch; and by a count of operations, epochs end between leaves.
#[test]
fn a_load_is_of_the_epochs_that_its_caller_says() {
    let sim = sim(8);
    let tree = Bd::create(SharedMedium::new(&sim)).expect("space").0;
    let hold = tree.medium().pin_epoch();
    let loaded = tree.load((0..100).map(|key| (key, key))).expect("space");
    assert_eq!(loaded.epoch, Some(tree.medium().clock()));
    drop(hold);
    let options = BufferedOptions { operations: Some(3), ..BufferedOptions::default() };
    let dram = Dram::new(Geometry::new(8).expect("a power of two"), 64).expect("memory");
    let pool = BdTree::format_pool(Buffered::new(dram, &options).expect("valid")).expect("space");
    let tree = BdTree::create(Arc::new(pool), INDEX_ANCHOR).expect("space");
    let before = tree.medium().clock();
    tree.load((0..8 * 7).map(|key| (key, key))).expect("space");
    assert_eq!(tree.medium().clock(), before + 2, "three epochs of three leaves at most");
}

#[test]
fn loads_run_beside_writers() {
    let tree = on_dram(8, 1 << 12);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for i in 0..3000 {
                tree.insert(u64::MAX - i * 5, i).expect("space");
                if i % 50 == 0 {
                    tree.medium().tick().expect("memory");
                }
            }
        });
        scope.spawn(|| tree.load((0..5000).map(|i| (i << 40, i))).expect("space"));
        scope.spawn(|| tree.load((0..5000).map(|i| (i << 40 | 1, i))).expect("space"));
    });
    let report = tree.check().expect("memory");
    assert_eq!((report.damages, report.entries), (vec![], 13_000));
}
