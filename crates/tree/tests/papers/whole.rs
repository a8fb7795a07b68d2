//! Whole trees on strict memory: crashes of scripts, what they hold, and what they give back.

use std::collections::BTreeMap;
use std::ops::Bound::Unbounded;
use std::sync::Arc;

use crate::common::script::{fill_and_drain, random_steps};
use crate::common::sim;
use crate::tree::{HAPPENED, Happened, Kind, images};
use everleaf_crash_check::conformance::Suite;
use everleaf_crash_check::{
    CrashPoint, Explorer, MapWrite, Mutate, Mutation, Recording, Script, SharedMedium, Trace,
};
use everleaf_pmem::{Counted, Dram, Geometry, Medium, Sim};
use everleaf_tree::{
    CircTree, CircTreeWalk, FastFair, FastLogging, Index, Reading, leaks, recover as walk_all,
};

fn dram(slots: u32) -> Dram {
    Dram::new(Geometry::new(slots).expect("valid"), 1 << 12).expect("memory")
}

/// Memory whose stores keep their order: a reader that does not wait needs that.
fn memory() -> Sim {
    Sim::new(Geometry::new(4).expect("valid"), 1 << 12).expect("memory")
}

fn entries<T: Kind, M: Medium>(tree: &T::Tree<M>) -> Result<Vec<(u64, u64)>, String> {
    tree.range(Unbounded, Unbounded, usize::MAX).map_err(|e| e.to_string())
}

fn recorded<T: Kind>(steps: &[MapWrite], fault: Option<Mutation>) -> (Recording, Script) {
    let sim = sim(4, T::PAGES);
    let tree = T::make(Mutate::new(SharedMedium::new(&sim), fault)).expect("space");
    let trace = Trace::new(&sim);
    let script = Script::new(&[], steps.to_vec());
    (0..steps.len()).for_each(|i| script.run_step(&trace, &tree, i).expect("a step"));
    (trace.finish(), script)
}

/// Looks at some images of a script; each is completed by a walk, which also gives back what has leaked.
fn crashed<T: Kind>(steps: &[MapWrite], fault: Option<Mutation>) -> Result<u64, String> {
    let (record, script) = recorded::<T>(steps, fault);
    let open = |sim: &Arc<Sim>| {
        let tree = T::open(SharedMedium::new(sim)).map_err(|e| e.to_string())?;
        let found = entries::<T, _>(&tree)?;
        Ok((tree, found))
    };
    let verify = |(tree, found): (T::Tree<_>, Vec<_>), _: &Arc<Sim>, crash: &CrashPoint<'_>| {
        script.admits(crash, &found)?;
        T::check(&tree)?;
        walk_all(T::blink(&tree)).map_err(|e| e.to_string())?;
        let report = T::check(&tree)?;
        let missing = report.missing_entries;
        let leaked = leaks(T::pool(&tree), &[report]).map_err(|e| e.to_string())?.nodes.len();
        if missing > 0 || leaked > 0 || entries::<T, _>(&tree)? != found {
            return Err(format!("{missing} entries are missing after a walk, {leaked} leaked"));
        }
        Ok(())
    };
    let explorer = Explorer::new().exhaustive(8).samples(2).depth(1).deep_samples(1);
    explorer.explore(&record, open, verify).map(|stats| stats.images).map_err(|e| e.to_string())
}

/// `crash_tree.rs`, `crash_reclaim.rs`, `reclaim.rs`: a tree grows to three levels and is drained, cut off anywhere.
#[test]
fn crash_tree() {
    let steps = fill_and_drain(0..14, (0..14).rev());
    HAPPENED.set(Happened::default());
    recorded::<<CircTree<Dram> as Kind>::Watched>(&steps, None);
    let happened = HAPPENED.get();
    assert!(happened.splits[0] > 1 && happened.merges[0] > 1, "{happened:?}");
    for images in [
        crashed::<CircTree<Dram>>(&steps, None),
        crashed::<FastFair<Dram>>(&steps, None),
        crashed::<FastLogging<Dram>>(&steps, None),
    ] {
        let images = images.expect("sound");
        println!("{images} images");
        assert!(images > 100, "{images}");
    }
}

/// `mutants_tree.rs`: of a split, the flushes of the new node and of the link to it.
#[test]
fn mutants_tree() {
    let steps: Vec<_> = (0..5).map(|key| MapWrite::Insert(key * 5 % 7, key)).collect();
    let sim = sim(4, 64);
    let tree = CircTree::<Dram>::make(Counted::new(SharedMedium::new(&sim))).expect("space");
    let before = tree.pool().medium().counts().flushes;
    drop(tree);
    let refused = |i| crashed::<CircTree<Dram>>(&steps, Some(Mutation::DropFlush(i))).is_err();
    let noticed = (before..before + 20).filter(|i| refused(*i)).count();
    println!("{noticed} of 20 flushes");
    assert!(noticed >= 8, "{noticed}");
}

/// `fair.rs`, `interrupted.rs`: what a crash leaves of a split serves reads, and the next writer completes it.
#[test]
fn fair() {
    let (record, _) = recorded::<FastFair<Dram>>(
        &(0..20).map(|key| MapWrite::Insert(key * 7 % 20, key)).collect::<Vec<_>>(),
        None,
    );
    let mut late = 0;
    for sim in images(&record) {
        type T = FastFair<Dram>;
        let Ok(tree) = <T as Kind>::open(SharedMedium::new(&sim)) else { continue };
        let missing = || <T as Kind>::check(&tree).expect("sound").missing_entries;
        if missing() == 0 {
            continue;
        }
        late += 1;
        let pairs = entries::<T, _>(&tree).expect("memory");
        for (key, value) in &pairs {
            assert_eq!(Index::get(&tree, *key).expect("memory"), Some(*value));
        }
        for (key, value) in &pairs {
            assert_eq!(tree.insert(*key, *value).expect("space"), Some(*value));
        }
        assert_eq!((missing(), entries::<T, _>(&tree).expect("memory")), (0, pairs));
    }
    assert!(late > 3, "{late}");
}

/// `model.rs`, `conformance.rs`, `readers.rs`: what any ordered index must do, by each way to read.
#[test]
fn conformance() {
    fn conforms<T: Kind>(reading: Reading) {
        let suite = Suite { keys: 120, ..Suite::default() };
        let make = || T::make_by(memory(), reading).expect("space");
        suite.run(make, |tree| tree).unwrap_or_else(|what| panic!("{}: {what}", T::name()));
    }
    conforms::<CircTree<Dram>>(Reading::Optimistic);
    conforms::<FastFair<Dram>>(Reading::LockFree);
    conforms::<FastFair<Dram>>(Reading::Latched);
}

#[test]
fn model() {
    against_map::<CircTree<Dram>>();
    against_map::<CircTreeWalk<Dram>>();
}

fn against_map<T: Kind>() {
    let (tree, mut model) = (T::make(dram(8)).expect("space"), BTreeMap::new());
    for step in random_steps(1, 2000, 100) {
        match step {
            MapWrite::Insert(key, value) => {
                assert_eq!(tree.insert(key, value).expect("space"), model.insert(key, value));
            }
            MapWrite::Remove(key) => {
                assert_eq!(Index::remove(&tree, key).expect("memory"), model.remove(&key));
            }
        }
    }
    let pairs: Vec<_> = model.into_iter().collect();
    assert_eq!(entries::<T, _>(&tree).expect("memory"), pairs);
}

/// `readers.rs`: a reader that does not wait beside a writer finds what stays.
#[test]
fn readers() {
    let tree = FastFair::<Dram>::make_by(memory(), Reading::LockFree).expect("linear nodes");
    (0..200).for_each(|key| assert_eq!(tree.insert(2 * key, key).expect("space"), None));
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for key in (0..2000).map(|i| i * 37 % 200) {
                tree.insert(2 * key + 1, key).expect("space");
                Index::remove(&tree, 2 * (key * 7 % 200) + 1).expect("memory");
            }
        });
        let mut reads = 0;
        while !writer.is_finished() || reads < 200 {
            let key = reads * 11 % 200;
            assert_eq!(Index::get(&tree, 2 * key).expect("memory"), Some(key));
            reads += 1;
        }
    });
}

/// `drains.rs`, `fills.rs`: keys in a row leave leaves full, and those that go give leaves back.
#[test]
fn drains() {
    let tree = CircTree::<Dram>::make(dram(32)).expect("space");
    (0..3200).for_each(|key| assert_eq!(tree.insert(key, key).expect("space"), None));
    let report = tree.check().expect("memory");
    assert!(report.fill > 0.95, "{}", report.fill);
    (0..3200).filter(|key| key % 32 != 0).for_each(|key| {
        assert_eq!(Index::remove(&tree, key).expect("memory"), Some(key));
    });
    let report = tree.check().expect("memory");
    assert!(report.nodes_by_level[0] <= 2 + 100 / 12, "{:?}", report.nodes_by_level);
}

/// `costs.rs`: an update is one store and one line; an insert at the end of a linear leaf is a line.
#[test]
fn costs() {
    let tree = FastFair::<Dram>::make(Counted::new(dram(32))).expect("space");
    (0..10).for_each(|key| assert_eq!(tree.insert(key, key).expect("space"), None));
    let cost = |key| {
        let before = tree.pool().medium().counts();
        tree.insert(key, 7).expect("space");
        let after = tree.pool().medium().counts() - before;
        [after.flushes, after.fences]
    };
    assert_eq!([cost(3), cost(10)], [[1, 1]; 2]);
}
