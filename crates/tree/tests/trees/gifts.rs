//! FAIR's redistribution: a sparse leaf gets entries of its left neighbour, under crashes and beside readers.

use std::ops::Bound::Unbounded;
use std::sync::Arc;

use crate::common::{print, scale, sim};
use crate::tree::{HAPPENED, Happened, Kind, images};
use crate::turns::beside;
use everleaf_crash_check::{
    CrashPoint, Explorer, MapWrite, Persistency, Recording, Script, SharedMedium, Trace,
};
use everleaf_pmem::{Counted, Counts, Dram, Geometry, Medium, Sim};
use everleaf_tree::{
    CircTree, FastFair, FastFairBinary, FastFairF, FastFairS, FastLogging, Index, Reading,
    recover as walk_all,
};

/// Where the leaves of a tree of three begin: the first one, which gives; the second one, which gets; the third one.
const FIRST: u64 = 0;
const SECOND: u64 = 1 << 62;
const THIRD: u64 = 1 << 63;

/// With how many entries a leaf looks for some of its neighbour's: not each removal looks.
fn sparse(slots: u64) -> u64 {
    let every = slots / 32 + 1;
    slots / 4 / every * every
}

/// A tree of nodes of so many slots whose second leaf gets a share of the first one when its first key goes: that leaf
/// is full, this one has a key more than makes it sparse. The third one is full, too.
fn about_to_give<T: Kind, M: Medium>(m: M, slots: u64) -> T::Tree<M> {
    let tree = T::make(m).expect("space");
    let put = |key| assert_eq!(tree.insert(key, !key).expect("space"), None);
    let (full, half) = (slots - 1, (slots - 1) / 2);
    // In turn, so that no streak is to be cut off, and one more, which halves the leaf between them.
    for i in 0..full - half {
        put(SECOND + 10 * i);
        if i < half {
            put(FIRST + 10 * i);
        }
    }
    put(SECOND + 10 * (full - half));
    (half..full).for_each(|i| put(FIRST + 10 * i));
    (0..full).for_each(|i| put(THIRD + 10 * i));
    for i in (sparse(slots) + 1..full - half + 1).rev() {
        assert!(tree.remove(SECOND + 10 * i).expect("memory").is_some());
    }
    let report = T::check(&tree).expect("sound");
    assert_eq!(report.nodes_by_level, [3, 1]);
    tree
}

fn gifts() -> u64 {
    HAPPENED.get().gifts
}

fn entries<M: Medium, T: Kind>(tree: &T::Tree<M>) -> Vec<(u64, u64)> {
    tree.range(Unbounded, Unbounded, usize::MAX).expect("memory")
}

/// The removal that makes the second leaf sparse, and then one that does not.
fn steps() -> Vec<MapWrite> {
    vec![MapWrite::Remove(SECOND), MapWrite::Remove(SECOND + 10)]
}

/// [stores, flushed lines, fences] of a removal with its gift.
#[test]
fn a_gift_costs_the_lines_of_its_inserts_and_three_headers() {
    let cost = |slots: u64, key: u64| {
        let memory = Dram::new(Geometry::new(slots as u32).expect("valid"), 1 << 10);
        let tree = about_to_give::<FastFair<Dram>, _>(Counted::new(memory.expect("memory")), slots);
        let counts = || tree.pool().medium().counts();
        let before = counts();
        Index::remove(&tree, key).expect("memory");
        let Counts { stores, flushes, fences } = counts() - before;
        [stores, flushes, fences]
    };
    let golden =
        [(4, [14, 5, 5]), (8, [27, 6, 6]), (32, [342, 49, 49]), (256, [21_637, 2731, 2731])];
    for (slots, golden) in golden {
        let own = sparse(slots);
        let given = (slots - 1 - own) / 2;
        // The first of `own` + 1 entries goes; then each of those that come shifts all that are there by then.
        let shifts = own + (own..own + given).sum::<u64>();
        let lines = own / 4 + 1 + (own..own + given).map(|n| n / 4 + 1).sum::<u64>();
        // Slots, a voided one, counts; bounds and sibling; the separator.
        let stores = 2 * (shifts + given) + 2 + given + 1 + 3 + 1;
        assert_eq!(golden, [stores, lines + 3, lines + 3], "{slots} slots");
        assert_eq!(cost(slots, SECOND), golden, "{slots} slots");
    }
}

/// Records a removal with a gift, to be crashed everywhere inside of it.
fn recorded<T: Kind>(slots: u64) -> (Recording, Script) {
    let sim = sim(slots as u32, T::PAGES);
    let tree = about_to_give::<T, _>(SharedMedium::new(&sim), slots);
    let script = Script::new(&entries::<_, T>(&tree), steps());
    let trace = Trace::new(&sim);
    for i in 0..steps().len() {
        script.run_step(&trace, &tree, i).expect("a step");
    }
    (trace.finish(), script)
}

/// Writers that come by complete what is left; then nothing is missing, and all of it is there.
fn completed<T: Kind>(tree: &T::Tree<SharedMedium<Sim>>) -> Result<(), String> {
    let pairs = entries::<_, T>(tree);
    for (key, value) in &pairs {
        if tree.insert(*key, *value).map_err(|e| e.to_string())? != Some(*value) {
            return Err(format!("{key:#x} has another value"));
        }
    }
    let report = T::check(tree)?;
    if report.missing_entries != 0 || entries::<_, T>(tree) != pairs {
        return Err(format!("{} entries are missing still", report.missing_entries));
    }
    Ok(())
}

/// Splits the third leaf, and with it the parent where the second one begins, before anybody completes anything; then
/// takes everything out.
fn parent_split<T: Kind>(tree: &T::Tree<SharedMedium<Sim>>, slots: u64) -> Result<(), String> {
    for i in 0..slots * slots {
        tree.insert(THIRD + 10 * i + 5, i).map_err(|e| e.to_string())?;
    }
    T::check(tree)?;
    // Writers come by everywhere before anything merges.
    completed::<T>(tree)?;
    for (key, value) in entries::<_, T>(tree) {
        if Index::remove(tree, key).map_err(|e| e.to_string())? != Some(value) {
            return Err(format!("{key:#x} has another value"));
        }
        T::check(tree)?;
    }
    Ok(())
}

fn crashed<T: Kind>(slots: u64, explorer: &Explorer) {
    HAPPENED.set(Happened::default());
    let (record, script) = recorded::<T::Watched>(slots);
    assert_eq!(gifts(), 1, "{}", T::name());
    // Of trees with a late separator, and of others.
    let mut turns = [0_u64; 2];
    let recover = |sim: &Arc<Sim>| {
        let tree = T::open(SharedMedium::new(sim)).map_err(|e| e.to_string())?;
        let found = entries::<_, T>(&tree);
        Ok((tree, found))
    };
    let verify = |(tree, found): (T::Tree<_>, Vec<_>), _: &Arc<Sim>, crash: &CrashPoint<'_>| {
        script.admits(crash, &found)?;
        let mut down = tree.range_back(Unbounded, Unbounded, usize::MAX).expect("memory");
        down.reverse();
        if down != found {
            return Err(format!("{down:?} from the end"));
        }
        let report = T::check(&tree)?;
        if report.entries != found.len() as u64 {
            return Err(format!("{} entries counted", report.entries));
        }
        let turn = &mut turns[usize::from(report.missing_entries == 0)];
        *turn += 1;
        match *turn % 3 {
            0 => completed::<T>(&tree),
            1 => parent_split::<T>(&tree, slots),
            _ => {
                walk_all(T::blink(&tree)).map_err(|e| e.to_string())?;
                match T::check(&tree)?.missing_entries {
                    0 => Ok(()),
                    n => Err(format!("{n} entries are missing after a walk")),
                }
            }
        }
    };
    match explorer.explore(&record, recover, verify) {
        Ok(stats) => print(&format!("{}, {slots} slots", T::name()), stats),
        Err(failure) => panic!("{failure}\n{}, {slots} slots", T::name()),
    }
    assert!(turns[0] > 2, "{turns:?} separators are late, or not");
}

#[test]
fn every_crash_of_a_gift_of_small_leaves() {
    let explorer = Explorer::new().samples(256 * scale()).deep_samples(2 * scale());
    crashed::<FastFair<Dram>>(4, &explorer);
    crashed::<FastFairS<Dram>>(8, &explorer);
    crashed::<FastLogging<Dram>>(4, &explorer);
}

#[test]
fn crashes_of_a_gift_of_leaves_of_half_a_kib() {
    let explorer = Explorer::new().exhaustive(64).samples(4 * scale()).deep_samples(1).depth(1);
    crashed::<FastFair<Dram>>(32, &explorer);
    crashed::<FastFairS<Dram>>(8, &explorer.clone().mode(Persistency::Eadr));
}

/// Each state between two stores, if all caches were written back: it serves all reads; the next writer between the two
/// bounds renews the separator, and nobody else does.
#[test]
fn a_writer_that_comes_by_renews_the_separator() {
    type T = FastFair<Dram>;
    let (record, _) = recorded::<T>(8);
    let mut late = 0;
    for sim in images(&record) {
        let tree = <T as Kind>::open(SharedMedium::new(&sim)).expect("opens");
        let missing = || <T as Kind>::check(&tree).expect("sound").missing_entries;
        if missing() == 0 {
            continue;
        }
        late += 1;
        let pairs = entries::<_, T>(&tree);
        assert!(pairs.iter().all(|(k, v)| Index::get(&tree, *k).expect("memory") == Some(*v)));
        tree.insert(FIRST, 1).expect("space");
        tree.insert(SECOND + 30, 1).expect("space");
        tree.insert(THIRD, 1).expect("space");
        assert_eq!(missing(), 1, "nobody has come by");
        // The greatest key that was given, and the parent names it afterwards.
        tree.insert(FIRST + 60, 1).expect("space");
        assert_eq!(missing(), 0);
    }
    assert!(late >= 1);
}

/// Removes the keys of a tree in no order: now and then a leaf becomes sparse beside a full one. All that is there is
/// found at any time. Answers the gifts.
fn thinned<T: Kind>() -> u64 {
    HAPPENED.set(Happened::default());
    let memory = Dram::new(Geometry::new(8).expect("valid"), 4000).expect("memory");
    let tree = T::Watched::make(memory).expect("space");
    (0..2003).for_each(|key| assert_eq!(tree.insert(key, !key).expect("space"), None));
    let mut there = vec![true; 2003];
    for i in 0..2003 {
        let key = i * 1237 % 2003;
        assert_eq!(tree.remove(key).expect("memory"), Some(!key));
        there[key as usize] = false;
        if i % 32 == 0 {
            for (key, is_there) in (0..).zip(&there) {
                let value = tree.get(key).expect("memory");
                assert_eq!(value, is_there.then_some(!key), "{key} after {i}");
            }
            assert_eq!(T::Watched::check(&tree).expect("sound").missing_entries, 0);
        }
    }
    gifts()
}

/// With each aid of a search that linear nodes have.
#[test]
fn all_keys_are_found_while_leaves_give() {
    let gifts = [
        thinned::<FastFair<Dram>>(),
        thinned::<FastFairS<Dram>>(),
        thinned::<FastFairF<Dram>>(),
        thinned::<FastFairBinary<Dram>>(),
    ];
    println!("{gifts:?} gifts");
    assert!(gifts.iter().all(|n| *n > 20), "{gifts:?}");
    assert_eq!(thinned::<CircTree<Dram>>(), 0, "circular leaves do not give");
}

// A reader that does not wait, stopped in one place, beside the removal with its gift, stopped in two.

/// The search that the reader makes.
#[derive(Debug, Clone, Copy)]
enum Look {
    Key(u64),
    Up,
    Down,
}

/// The removal with its gift, and a reader beside it. Answers the accesses of both.
fn gift_beside_reader(look: Look, stops: [usize; 3]) -> (usize, usize) {
    let sim = Sim::new(Geometry::new(4).expect("valid"), 100).expect("memory");
    let tree = about_to_give::<FastFair<Dram>, _>(sim, 4);
    let tree = tree.reading(Reading::LockFree).expect("linear nodes");
    let before = entries::<_, FastFair<Dram>>(&tree);
    let after: Vec<_> = before.iter().copied().filter(|(key, _)| *key != SECOND).collect();
    let read = || {
        let found = match look {
            Look::Key(key) => {
                let value = Index::get(&tree, key).expect("no damage");
                assert_eq!(value, Some(!key), "{key:#x}, {stops:?}");
                return;
            }
            Look::Up => tree.range(Unbounded, Unbounded, usize::MAX).expect("no damage"),
            Look::Down => {
                let down = tree.range_back(Unbounded, Unbounded, usize::MAX);
                let mut down = down.expect("no damage");
                down.reverse();
                down
            }
        };
        assert!(found == before || found == after, "{look:?}, {stops:?}: {found:x?}");
    };
    let write = || assert_eq!(Index::remove(&tree, SECOND).expect("memory"), Some(!SECOND));
    beside(stops, write, read)
}

/// Answers how many runs there were.
fn stop_everywhere(look: Look, step: usize) -> u64 {
    let (writes, reads) = gift_beside_reader(look, [usize::MAX; 3]);
    let mut runs = 0;
    for first in 1..writes {
        for second in first + 1..(first + 8).min(writes) {
            for read in (1..reads + 20).step_by(step) {
                gift_beside_reader(look, [first, second, read]);
                runs += 1;
            }
        }
    }
    println!(
        "{look:?}: {runs} runs, {writes} accesses of the writer that are no reads, {reads} reads"
    );
    runs
}

#[test]
fn a_reader_beside_a_gift_finds_its_keys() {
    // A key that stays, one that is given, and one in the leaf that gets it.
    let mut runs = 0;
    for key in [FIRST + 10, FIRST + 20, SECOND + 10] {
        runs += stop_everywhere(Look::Key(key), 1);
    }
    runs += stop_everywhere(Look::Up, 5) + stop_everywhere(Look::Down, 5);
    assert!(runs > 10_000, "{runs}");
}

/// In memory alone, too.
#[test]
fn leaves_in_memory_give_as_well() {
    HAPPENED.set(Happened::default());
    let memory = || Dram::new(Geometry::new(8).expect("valid"), 200).expect("memory");
    let tree = about_to_give::<<FastFair<Dram> as Kind>::Watched, _>(memory(), 8);
    let mut pairs = entries::<_, <FastFair<Dram> as Kind>::Watched>(&tree);
    assert!(Index::remove(&tree, SECOND).expect("memory").is_some());
    pairs.retain(|(key, _)| *key != SECOND);
    assert_eq!(gifts(), 1);
    assert_eq!(entries::<_, <FastFair<Dram> as Kind>::Watched>(&tree), pairs);
    let report = <<FastFair<Dram> as Kind>::Watched as Kind>::check(&tree).expect("sound");
    assert_eq!((report.entries, report.missing_entries), (pairs.len() as u64, 0));
    assert_eq!(report.nodes_by_level, [3, 1]);
}
