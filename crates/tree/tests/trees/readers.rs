//! The three ways to read, beside writers: what each allows and what it rules out.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ops::Bound::{Excluded, Included, Unbounded};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use crate::common::{scale, sim};
use crate::hooked::{Call, Hooked};
use crate::tree::{Kind, is_unsupported};
use everleaf_crash_check::{Explorer, Recording, SharedMedium, Trace};
use everleaf_pmem::{Counted, Dram, Geometry, Latency};
use everleaf_tree::{
    CircTree, FastFair, FastFairBinary, FastFairF, FastFairS, FastLogging, Index, Reading,
    StringTree, named,
};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

const ALL: [Reading; 4] =
    [Reading::Optimistic, Reading::LockFree, Reading::Latched, Reading::Crabbing];

fn dram(slots: u32) -> Dram {
    Dram::new(Geometry::new(slots).expect("valid"), 1 << 14).expect("memory")
}

fn ordered(slots: u32) -> Counted<Dram> {
    Counted::new(dram(slots))
}

#[test]
fn lock_free_readers_need_linear_nodes_of_words_and_ordered_stores() {
    for name in named::NAMES {
        let linear = name.starts_with("Fast");
        for reading in ALL {
            let lock_free = reading == Reading::LockFree;
            let made = named::create(name, reading, ordered(4));
            assert_eq!(is_unsupported(made), lock_free && !linear, "{name} {reading:?}");
            let still = Latency::new(dram(4), Duration::ZERO, Duration::ZERO);
            let made = named::create(name, reading, still);
            assert_eq!(is_unsupported(made), lock_free && !linear, "{name} {reading:?}");
            let made = named::create(name, reading, SharedMedium::new(&sim(4, 64)));
            assert_eq!(is_unsupported(made), lock_free && !linear, "{name} {reading:?}");
            // Plain memory moves slots by vectors, in any order.
            let made = named::create(name, reading, dram(4));
            assert_eq!(is_unsupported(made), lock_free, "{name} {reading:?}");
        }
    }
    for reading in ALL {
        let made = <StringTree<Dram> as Kind>::make_by(ordered(8), reading);
        assert_eq!(is_unsupported(made), reading == Reading::LockFree, "{reading:?}");
    }
    assert!(is_unsupported(named::create("BTree", Reading::default(), dram(4))));
}

/// Of ten keys the first is never removed.
const STEP: u64 = 10;

/// A value that tells its key.
fn tagged(key: u64, i: u64) -> u64 {
    key << 32 | i
}

fn is_of(key: u64, value: u64) -> bool {
    value >> 32 == key
}

/// One scan between two keys that stay, in each direction: it rises or falls, holds all that stays,
/// and nothing under another key.
fn scan(tree: &impl Index, from: u64, keys: u64) {
    let to = (from + 12 * STEP).min(keys);
    let up = tree.range(Included(from), Excluded(to), usize::MAX).expect("memory");
    let mut down = tree.range_back(Included(from), Excluded(to), usize::MAX).expect("memory");
    down.reverse();
    for found in [up, down] {
        assert!(found.is_sorted_by(|a, b| a.0 < b.0), "out of order: {found:?}");
        assert!(found.iter().all(|&(key, value)| is_of(key, value)), "{found:?}");
        let stays = found.iter().map(|pair| pair.0).filter(|key| key % STEP == 0);
        let wanted = (from..to).step_by(STEP as usize);
        assert!(stays.eq(wanted), "from {from} to {to}: {found:?}");
    }
}

fn read(tree: &impl Index, rng: &mut Xoshiro256PlusPlus, keys: u64) {
    let key = rng.random_range(0..keys);
    match rng.random_range(0..8) {
        0 => scan(tree, key / STEP * STEP, keys),
        1 => {
            let first = tree.first().expect("memory").expect("a key that stays");
            assert!(first.0 == 0 && is_of(0, first.1), "{first:?}");
            let last = tree.last().expect("memory").expect("a key that stays");
            assert!(last.0 >= keys - STEP && is_of(last.0, last.1), "{last:?}");
        }
        _ => {
            let found = tree.get(key).expect("memory");
            assert!(found.is_some() || key % STEP != 0, "{key} is gone");
            assert!(found.is_none_or(|value| is_of(key, value)), "{key}: {found:?}");
        }
    }
}

fn write(tree: &impl Index, writer: u64, keys: u64, operations: u64) {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(writer);
    for i in 0..operations {
        // Both grow and shrink the same part for a while, so that leaves split and merge there.
        let part = i / 400 % 4 * (keys / 4);
        let key = part + rng.random_range(0..keys / 4);
        let growing = i / 200 % 2 == 0;
        if key.is_multiple_of(STEP) {
            let old = tree.update(key, tagged(key, i)).expect("memory");
            assert!(old.is_some_and(|old| is_of(key, old)), "{key}: {old:?}");
        } else if growing {
            tree.insert(key, tagged(key, i)).expect("space");
        } else {
            tree.remove(key).expect("memory");
        }
    }
}

/// Two writers and three readers of a few hundred keys. Writers give way in the midst of their
/// stores, so that readers meet nodes in every state.
fn readers_beside_writers<T: Kind>(reading: Reading, slots: u32, operations: u64) {
    let calls = AtomicU64::new(0);
    let medium = Hooked::new(dram(slots), move |_| {
        if calls.fetch_add(1, Ordering::Relaxed).is_multiple_of(97) {
            std::thread::yield_now();
        }
    });
    let keys = if slots < 8 { 400 } else { 1600 };
    let tree = T::make_by(medium, reading).expect("space");
    for key in (0..keys).step_by(STEP as usize) {
        tree.insert(key, tagged(key, 0)).expect("space");
    }
    let (tree, writing) = (&tree, &AtomicU64::new(2));
    let reads: u64 = std::thread::scope(|scope| {
        for writer in 0..2 {
            scope.spawn(move || {
                write(tree, writer, keys, operations * scale() as u64);
                writing.fetch_sub(1, Ordering::Release);
            });
        }
        let reader = |seed: u64| {
            let mut rng = Xoshiro256PlusPlus::seed_from_u64(100 + seed);
            let mut reads = 0;
            while writing.load(Ordering::Acquire) > 0 {
                read(tree, &mut rng, keys);
                reads += 1;
            }
            reads
        };
        let readers: Vec<_> = (0..3).map(|seed| scope.spawn(move || reader(seed))).collect();
        readers.into_iter().map(|reader| reader.join().expect("it reads")).sum()
    });
    println!("{} {reading:?}, {slots} slots: {reads} reads", T::name());
    T::check(tree).expect("sound");
}

/// Runs something that must end.
fn ends(what: impl FnOnce() + Send + 'static) {
    let (done, wait) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        what();
        done.send(()).expect("somebody waits");
    });
    if wait.recv_timeout(Duration::from_secs(300)) == Err(mpsc::RecvTimeoutError::Timeout) {
        panic!("it hangs");
    }
    thread.join().expect("no panic");
}

#[test]
fn lock_free_readers_beside_writers() {
    ends(|| {
        for slots in [4, 32] {
            readers_beside_writers::<FastFair<Dram>>(Reading::LockFree, slots, 6000);
            readers_beside_writers::<FastFairS<Dram>>(Reading::LockFree, slots, 6000);
        }
        readers_beside_writers::<FastFairBinary<Dram>>(Reading::LockFree, 4, 3000);
        readers_beside_writers::<FastFairF<Dram>>(Reading::LockFree, 4, 3000);
        readers_beside_writers::<FastLogging<Dram>>(Reading::LockFree, 4, 3000);
    });
}

#[test]
fn waiting_readers_beside_writers() {
    ends(|| {
        for reading in [Reading::Optimistic, Reading::Latched, Reading::Crabbing] {
            readers_beside_writers::<FastFairS<Dram>>(reading, 4, 3000);
            readers_beside_writers::<CircTree<Dram>>(reading, 4, 3000);
            readers_beside_writers::<StringTree<Dram>>(reading, 8, 3000);
        }
    });
}

/// A leaf is one moment in all ways to read: who sees the later of two changes sees the earlier
/// one, too, on whichever side of it in the leaf.
fn a_leaf_is_one_moment<T: Kind>(reading: Reading) {
    let calls = AtomicU64::new(0);
    let medium = Hooked::new(dram(32), move |_| {
        if calls.fetch_add(1, Ordering::Relaxed).is_multiple_of(7) {
            std::thread::yield_now();
        }
    });
    let tree = T::make_by(medium, reading).expect("space");
    for key in 1..=20 {
        tree.insert(10 * key, 0).expect("space");
    }
    let (tree, reading) = (&tree, &AtomicBool::new(true));
    let (mut seen, mut scans) = (BTreeSet::new(), 0);
    std::thread::scope(|scope| {
        scopeguard::defer! { reading.store(false, Ordering::Release) }
        scope.spawn(move || {
            for i in (0..).take_while(|_| reading.load(Ordering::Acquire)) {
                let (earlier, later) = if i % 2 == 0 { (55, 155) } else { (155, 55) };
                tree.insert(earlier, i).expect("space");
                tree.insert(later, i).expect("space");
                tree.remove(later).expect("memory");
                tree.remove(earlier).expect("memory");
                std::thread::yield_now();
            }
        });
        // Until scans have met the leaf with neither key, with one and with both.
        while scans < 4000 * scale() || seen.len() < 3 {
            scans += 1;
            let up = tree.range(Unbounded, Included(300), usize::MAX).expect("memory");
            let mut down = tree.range_back(Included(0), Included(300), 30).expect("memory");
            down.reverse();
            for found in [up, down] {
                assert_eq!(found.iter().filter(|pair| pair.0 % 10 == 0).count(), 20, "{found:?}");
                let both: Vec<_> = found.iter().filter(|pair| pair.0 % 10 == 5).collect();
                match both[..] {
                    // Values say whose turn it was, hence which of the two is the earlier one.
                    [&(key, i)] => {
                        assert_eq!(key, if i % 2 == 0 { 55 } else { 155 }, "torn: {found:?}");
                    }
                    [a, b] => assert_eq!(a.1, b.1, "torn: {found:?}"),
                    _ => {}
                }
                seen.insert(both.len());
            }
        }
    });
}

#[test]
fn no_way_to_read_tears_a_leaf() {
    ends(|| {
        a_leaf_is_one_moment::<FastFair<Dram>>(Reading::LockFree);
        a_leaf_is_one_moment::<FastFairS<Dram>>(Reading::Optimistic);
        a_leaf_is_one_moment::<FastFairS<Dram>>(Reading::Latched);
    });
}

/// Stops whoever makes the `left`th call of a kind from now on, until told to go on.
struct Armed {
    call: Call,
    left: usize,
    arrived: mpsc::Sender<()>,
    go: mpsc::Receiver<()>,
}

#[derive(Default)]
struct Gate {
    armed: Mutex<Option<Armed>>,
}

impl Gate {
    fn pass(&self, call: Call) {
        let mut armed = self.armed.lock().expect("no panic inside");
        let Some(gate) = armed.as_mut().filter(|gate| gate.call == call) else { return };
        gate.left -= 1;
        if gate.left == 0
            && let Some(gate) = armed.take()
        {
            drop(armed);
            gate.arrived.send(()).expect("the test waits");
            gate.go.recv().expect("the test says when");
        }
    }
    /// Hears when somebody has been stopped, and lets them go on.
    fn arm(&self, call: Call, left: usize) -> (mpsc::Receiver<()>, mpsc::Sender<()>) {
        let (arrived, wait) = mpsc::channel();
        let (say, go) = mpsc::channel();
        *self.armed.lock().expect("no panic inside") = Some(Armed { call, left, arrived, go });
        (wait, say)
    }
}

/// Whether some crash that may follow what is recorded loses a key.
fn can_be_lost<T: Kind>(record: &Recording, key: u64) -> bool {
    let lost = RefCell::new(false);
    let recover = |sim: &Arc<everleaf_pmem::Sim>| {
        let tree = T::open(SharedMedium::new(sim)).map_err(|e| e.to_string())?;
        tree.get(key).map_err(|e| e.to_string())
    };
    // Everything that is recorded has happened: only the last crash point counts.
    let verify = |found: Option<u64>, _: &Arc<_>, crash: &everleaf_crash_check::CrashPoint<'_>| {
        if crash.event() == record.events.len() && found.is_none() {
            *lost.borrow_mut() = true;
        }
        Ok(())
    };
    Explorer::new().depth(1).explore(record, recover, verify).expect("nothing is refused");
    lost.into_inner()
}

/// A writer is stopped when it has stored a key and not yet flushed it. What does a reader do?
fn read_what_is_not_flushed<T: Kind>(reading: Reading) {
    const KEY: u64 = 35;
    let (sim, gate) = (sim(8, 64), Arc::new(Gate::default()));
    let medium = {
        let gate = Arc::clone(&gate);
        Hooked::new(SharedMedium::new(&sim), move |call| gate.pass(call))
    };
    let tree = &T::make_by(medium, reading).expect("space");
    for key in 1..=3 {
        tree.insert(10 * key, key).expect("space");
    }
    let trace = Trace::new(&sim);
    // The key comes last in its leaf: its slot's line is the first to be flushed.
    let (arrived, go_on) = gate.arm(Call::Flush, 1);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| tree.insert(KEY, 7).expect("space"));
        arrived.recv().expect("the writer comes to its flush");
        let (answer, answers) = mpsc::channel();
        let reader = scope.spawn(move || answer.send(tree.get(KEY).expect("memory")));
        let record = if reading == Reading::LockFree {
            let found = answers.recv().expect("the reader does not wait for the writer");
            assert_eq!(found, Some(7), "the store is there to be seen");
            let record = trace.finish();
            assert!(can_be_lost::<T>(&record, KEY), "an unflushed read");
            go_on.send(()).expect("the writer waits");
            record
        } else {
            let waits = answers.recv_timeout(Duration::from_millis(200));
            assert_eq!(waits, Err(mpsc::RecvTimeoutError::Timeout), "{reading:?}");
            go_on.send(()).expect("the writer waits");
            assert_eq!(answers.recv(), Ok(Some(7)), "{reading:?}");
            let record = trace.finish();
            assert!(!can_be_lost::<T>(&record, KEY), "{reading:?}: read, and lost");
            record
        };
        assert!(!record.events.is_empty());
        assert_eq!(writer.join().expect("no panic"), None);
        reader.join().expect("no panic").expect("the test waits");
    });
    T::check(tree).expect("sound");
}

/// The volatile control (FAST+FAIR §6.7): as in Lehman and Yao's tree (§4) nodes stay when their keys go.
#[test]
fn who_latches_every_node_on_the_way_never_merges() {
    let nodes = |reading| {
        let tree = <FastFair<Dram> as Kind>::make_by(dram(4), reading).expect("space");
        let index: &dyn Index = &tree;
        let count = || {
            <FastFair<Dram> as Kind>::check(&tree).expect("sound");
            tree.pool().stats().expect("sound").nodes
        };
        for key in 0..500 {
            assert_eq!(index.insert(key, !key).expect("space"), None);
        }
        let full = count();
        for key in 0..500 {
            assert_eq!(index.remove(key).expect("room"), Some(!key));
        }
        let empty = count();
        assert_eq!(index.get(77).expect("sound"), None);
        for key in 0..500 {
            assert_eq!(index.insert(key, key).expect("space"), None);
        }
        [full, empty, count()]
    };
    let [full, empty, again] = nodes(Reading::Crabbing);
    assert!(full > 100 && empty == full && again == full, "{full} {empty} {again}");
    assert!(nodes(Reading::Optimistic)[1] < 10, "others do");
}

/// *Unflushed read* (docs/PAPERS.md, F16).
#[test]
fn only_lock_free_readers_see_what_a_crash_takes_back() {
    for reading in ALL {
        read_what_is_not_flushed::<FastFair<Dram>>(reading);
    }
    for reading in [Reading::Optimistic, Reading::Latched, Reading::Crabbing] {
        read_what_is_not_flushed::<CircTree<Dram>>(reading);
    }
}

/// Stops a writer at a store of splits (or merges) and reads all that is there before and after.
/// False if the writer has no such store.
fn read_beside_store(merges: bool, nth: usize) -> bool {
    let gate = Arc::new(Gate::default());
    let medium = {
        let gate = Arc::clone(&gate);
        Hooked::new(dram(4), move |call| gate.pass(call))
    };
    let tree = &<FastFair<Dram> as Kind>::make_by(medium, Reading::LockFree).expect("space");
    for key in 0..12 {
        tree.insert(10 * key, key).expect("space");
    }
    let leaves = |key: u64| merges && (2..9).contains(&key);
    let write = move || {
        if merges {
            (2..9).for_each(|key| drop(Index::remove(tree, 10 * key)));
        } else {
            (41..44).for_each(|key| drop(tree.insert(key, 0)));
        }
    };
    let (arrived, go_on) = gate.arm(Call::Store, nth);
    std::thread::scope(|scope| {
        let writer = scope.spawn(write);
        while !writer.is_finished() {
            let Ok(()) = arrived.recv_timeout(Duration::from_millis(1)) else { continue };
            for key in (0..12).filter(|key| !leaves(*key)) {
                assert_eq!(Index::get(tree, 10 * key).expect("memory"), Some(key), "store {nth}");
            }
            let up = tree.range(Unbounded, Unbounded, usize::MAX).expect("memory");
            let mut down = tree.range_back(Unbounded, Unbounded, usize::MAX).expect("memory");
            down.reverse();
            for found in [up, down] {
                assert!(found.is_sorted_by(|a, b| a.0 < b.0), "store {nth}: {found:?}");
                let mut stays = (0..12).filter(|key| !leaves(*key));
                let all = stays.all(|key| found.contains(&(10 * key, key)));
                assert!(all, "store {nth}: {found:?}");
            }
            go_on.send(()).expect("the writer waits");
            return true;
        }
        false
    })
}

/// Readers that do not wait pass a writer that is stopped at any store of a split or a merge.
#[test]
fn lock_free_readers_pass_a_writer_stopped_anywhere() {
    ends(|| {
        for merges in [false, true] {
            let stops = (1..).take_while(|nth| read_beside_store(merges, *nth)).count();
            println!("{stops} stops, merges: {merges}");
            assert!(stops > 10, "{stops}");
        }
    });
}
