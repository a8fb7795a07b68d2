//! Eager recovery on strict media: after it no crash image has a leak or a missing entry, wherever
//! the crash came, recovery included; it changes no entry, and a second one stores nothing.

use std::cell::Cell;
use std::ops::Bound::Unbounded;
use std::sync::Arc;

use crate::common::script::{
    Recovered, about_to_split, check, fill_and_drain, grown_and_drained, lose_root, random_steps,
    recover, rng, write_back_headers,
};
use crate::common::{print, scale, sim};
use everleaf_crash_check::{
    Coverage, CrashPoint, Explorer, MapWrite, Persistency, Recording, Script, SharedMedium, Trace,
    sample,
};
use everleaf_pmem::sim::Event;
use everleaf_pmem::{Error, Medium, Sim};
use everleaf_pool::PageCounts as Pages;
use everleaf_tree::{
    CircTree, INDEX_ANCHOR, Index, Leaks, Recovery, TreeReport, format, leaks, open, reclaim,
};
use rand::RngExt;

/// Counts of what recoveries did, over all images.
#[derive(Debug, Clone, Copy, Default)]
struct Did {
    images: u64,
    with_leaks: u64,
    pages: u64,
    entries: u64,
    grown: u64,
    reopened: u64,
}

/// A tree after eager recovery, and what it held before.
struct Eager {
    recovered: Recovered,
    recovery: Recovery,
}

fn recover_all(sim: &Arc<Sim>) -> Result<Eager, String> {
    let recovered = recover(sim)?;
    let recovery = everleaf_tree::recover(&recovered.tree).map_err(|e| e.to_string())?;
    Ok(Eager { recovered, recovery })
}

/// Checks what holds after eager recovery.
fn is_whole(Recovered { tree, entries }: &Recovered) -> Result<(), String> {
    let report = check(tree)?;
    let found = tree.range(Unbounded, Unbounded, usize::MAX).map_err(|e| e.to_string())?;
    if found != *entries || report.entries != entries.len() as u64 {
        return Err(format!("recovery made {found:?} of {entries:?}"));
    }
    if report.missing_entries > 0 {
        return Err(format!("{} entries are still missing", report.missing_entries));
    }
    let nodes: u64 = report.nodes_by_level.iter().sum();
    let pages = tree.pool().stats().map_err(|e| e.to_string())?;
    let lost = leaks(tree.pool(), &[report]).map_err(|e| e.to_string())?;
    if !lost.is_empty() || u64::from(pages.nodes) != nodes {
        return Err(format!("{lost:?} of {pages:?} leaked, {nodes} nodes"));
    }
    Ok(())
}

/// Recovers again: nothing is left to be done.
fn is_idle(sim: &Arc<Sim>) -> Result<(), String> {
    sim.take_events();
    let again = recover_all(sim)?;
    let stores = sim.take_events().iter().any(|e| matches!(e, Event::Store { .. }));
    let walked = &again.recovery.walked;
    if stores || !again.recovery.returned.is_empty() || walked.entries_added > 0 {
        return Err(format!("a second recovery did {:?}", again.recovery));
    }
    Ok(())
}

fn record(steps: &[MapWrite], slots: u32) -> (Recording, Script) {
    let sim = sim(slots, 128);
    let pool = Arc::new(format(SharedMedium::new(&sim)).expect("formats"));
    let tree = CircTree::create(pool, INDEX_ANCHOR).expect("space");
    let trace = Trace::new(&sim);
    let script = Script::new(&[], steps.to_vec());
    for i in 0..steps.len() {
        script.run_step(&trace, &tree, i).expect("a step");
        if i % 4 == 3 {
            write_back_headers(&sim);
        }
    }
    (trace.finish(), script)
}

/// Crashes a script, and the eager recovery of each image.
fn crash(explorer: &Explorer, steps: &[MapWrite], slots: u32, did: &Cell<Did>) -> Coverage {
    let (record, script) = record(steps, slots);
    let verify = |found: Eager, sim: &Arc<Sim>, crash: &CrashPoint<'_>| {
        let Eager { recovered, recovery } = found;
        script.admits(crash, &recovered.entries)?;
        is_whole(&recovered)?;
        drop(recovered);
        is_idle(sim)?;
        let mut now = did.get();
        now.images += 1;
        now.with_leaks += u64::from(!recovery.returned.is_empty());
        now.pages += recovery.returned.nodes.len() as u64;
        now.entries += recovery.walked.entries_added;
        now.grown += recovery.walked.levels_grown;
        if now.images.is_multiple_of(128) {
            now.reopened += 1;
            let image = Sim::from_image(sim.geometry(), sim.limit(), &sim.image());
            is_idle(&Arc::new(image.map_err(|e| e.to_string())?))?;
        }
        did.set(now);
        Ok(())
    };
    match explorer.explore(&record, recover_all, verify) {
        Ok(stats) => stats,
        Err(failure) => panic!("{failure}\n{slots} slots, {steps:?}"),
    }
}

#[test]
fn no_crash_leaves_a_leak_or_a_missing_entry() {
    let did = Cell::new(Did::default());
    let n = 36;
    let scripts = [
        ("ascending, drained from the front", fill_and_drain(0..n, 0..n)),
        ("descending, drained from the back", fill_and_drain((0..n).rev(), (0..n).rev())),
        ("random, few keys", random_steps(1, 160, 40)),
        ("random, many keys", random_steps(2, 160, 200)),
    ];
    let explorer = Explorer::new().samples(128 * scale()).exhaustive(256).deep_samples(2 * scale());
    let mut stats = Coverage::default();
    for (what, steps) in &scripts {
        let images = crash(&explorer, steps, 4, &did);
        print(what, images);
        stats += images;
    }
    for seed in 0..40 * scale() as u64 {
        let slots = if seed % 4 == 3 { 8 } else { 4 };
        stats += crash(&explorer, &grown_and_drained(2000 + seed), slots, &did);
    }
    print("all scripts", stats);
    for seed in 0..10 * scale() as u64 {
        let survives = explorer.clone().mode(Persistency::Eadr).depth(2);
        stats += crash(&survives, &grown_and_drained(3000 + seed), 4, &did);
    }
    print("and with caches that survive", stats);
    let did = did.get();
    println!("{did:?}");
    assert!(stats.nested > 10_000, "{stats}");
    assert!(did.with_leaks > 1000 && did.pages >= did.with_leaks, "{did:?}");
    assert!(did.entries > 100 && did.grown > 10 && did.reopened > 100, "{did:?}");
}

/// Lives that all end in a crash, each recovered lazily: leaks add up. Answers the last image.
fn many_lives(seed: u64) -> Arc<Sim> {
    let mut rng = rng(seed);
    let mut now = sim(4, 128);
    let pool = format(SharedMedium::new(&now)).expect("formats");
    drop(CircTree::create(Arc::new(pool), INDEX_ANCHOR).expect("space"));
    for life in 0..40 {
        let Recovered { tree, entries } = recover(&now).expect("opens");
        let trace = Trace::new(&now);
        let script = Script::new(&entries, random_steps(1000 * seed + life, 40, 60));
        script.run(&trace, &tree).expect("room");
        drop(tree);
        let record = trace.finish();
        let at = rng.random_range(0..=record.events.len());
        let image = sample(&record, at, Persistency::X86, rng.random());
        now = Arc::new(Sim::from_image(now.geometry(), now.limit(), &image).expect("memory"));
    }
    now
}

/// Inserts until the pool is full; answers who has its pages then.
fn fill(tree: &CircTree<SharedMedium<Sim>>) -> Pages {
    for key in 0.. {
        match Index::insert(tree, key << 20, key) {
            Ok(_) => {}
            Err(Error::Full { .. }) => break,
            Err(error) => panic!("{error}"),
        }
    }
    let (pages, report) = (tree.pool().stats().expect("memory"), check(tree).expect("sound"));
    assert_eq!(u64::from(pages.nodes), report.nodes_by_level.iter().sum::<u64>());
    pages
}

#[test]
fn what_many_crashes_leaked_is_used_again() {
    let fresh = sim(4, 128);
    let pool = Arc::new(format(SharedMedium::new(&fresh)).expect("formats"));
    let all = fill(&CircTree::create(pool, INDEX_ANCHOR).expect("space"));
    assert_eq!(all.free, 0);
    let mut most = 0;
    for seed in 0..12 {
        let sim = many_lives(seed);
        let Eager { recovered, recovery } = recover_all(&sim).expect("recovers");
        most = most.max(recovery.returned.nodes.len());
        is_whole(&recovered).expect("sound");
        is_idle(&sim).expect("nothing is left to be done");
        assert_eq!(fill(&recovered.tree), all, "seed {seed}");
    }
    assert!(most >= 4, "{most} at most");
}

#[test]
fn a_root_that_a_crash_kept_from_growing_grows() {
    let mut entered = 0;
    for seed in 0..40 {
        let Some((sim, _)) = about_to_split(seed) else { continue };
        lose_root(&sim);
        let image = Sim::from_image(sim.geometry(), sim.limit(), &sim.image()).expect("memory");
        let sim = Arc::new(image);
        let before = check(&recover(&sim).expect("opens").tree).expect("sound");
        let Eager { recovered, recovery } = recover_all(&sim).expect("recovers");
        is_whole(&recovered).expect("sound");
        let after = check(&recovered.tree).expect("sound");
        // The old root is the one page that nobody names.
        assert_eq!(recovery.returned.nodes.len(), 1, "seed {seed}");
        assert_eq!(recovery.walked.levels_grown, 1);
        assert_eq!(recovery.walked.entries_added, before.missing_entries);
        assert_eq!(recovery.walked.nodes_by_level, after.nodes_by_level);
        entered += recovery.walked.entries_added;
    }
    assert!(entered > 0);
}

/// Makes a second tree, which nobody names until the end, and crashes that.
#[test]
fn a_tree_that_a_crash_kept_from_being_named_is_given_back() {
    let sim = sim(4, 64);
    let pool = Arc::new(format(SharedMedium::new(&sim)).expect("formats"));
    let first = CircTree::create(Arc::clone(&pool), INDEX_ANCHOR).expect("space");
    for key in 0..20 {
        Index::insert(&first, key, key).expect("space");
    }
    let trace = Trace::new(&sim);
    trace.op(0, || drop(CircTree::create_new(pool).expect("space")));
    let anchors = Cell::new(0);
    let give_back = |sim: &Arc<Sim>| -> Result<(TreeReport, Leaks), String> {
        let pool = Arc::new(open(SharedMedium::new(sim)).map_err(|e| e.to_string())?);
        let tree = CircTree::open(Arc::clone(&pool), INDEX_ANCHOR).map_err(|e| e.to_string())?;
        let report = check(&tree)?;
        let found = reclaim(&pool, std::slice::from_ref(&report)).map_err(|e| e.to_string())?;
        Ok((report, found))
    };
    let verify = |(report, found): (TreeReport, Leaks), sim: &Arc<Sim>, _: &CrashPoint<'_>| {
        anchors.set(anchors.get() + found.anchors.len());
        let pool = open(SharedMedium::new(sim)).map_err(|e| e.to_string())?;
        let pages = pool.stats().map_err(|e| e.to_string())?;
        let is_clean = leaks(&pool, &[report]).map_err(|e| e.to_string())?.is_empty();
        if !is_clean || pages.anchors != 1 || !pool.check().is_empty() {
            return Err(format!("{pages:?} after giving back {found:?}"));
        }
        Ok(())
    };
    let stats = Explorer::new().explore(&trace.finish(), give_back, verify).expect("all go back");
    print("a second tree", stats);
    assert!(anchors.get() > 10 && stats.nested > 100, "{stats}");
}
