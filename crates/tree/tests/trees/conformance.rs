//! Trees of all kinds do what any ordered index must: in memory, by each way to read, on strict
//! memory with power cuts between and inside operations, and with threads on the same keys.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::ops::Bound::Unbounded;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::bd::Bd;
use crate::common::{scale, sim};
use crate::tree::{Kind, code};
use everleaf_crash_check::conformance::Suite;
use everleaf_crash_check::trace::{invoke_mark, respond_mark};
use everleaf_crash_check::{Persistency, Recording, SharedMedium, Trace, sample};
use everleaf_pmem::sim::Event;
use everleaf_pmem::{BufferedOptions, Counted, Dram, Geometry, Medium, Sim};
use everleaf_tree::{
    BdTree, CircTree, CircTreeBinary, CircTreeF, CircTreeLs, CircTreeSegment, FastFair,
    FastFairBinary, FastFairF, FastFairS, FastLogging, Index, Reading, StringTree,
};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

fn dram(slots: u32) -> Dram {
    Dram::new(Geometry::new(slots).expect("valid"), 1 << 16).expect("memory")
}

fn conforms<T: Kind, M: Medium>(medium: impl Fn() -> M, reading: Reading, keys: usize) {
    let make = || T::make_by(medium(), reading).expect("space");
    let suite = Suite { keys, ..Suite::default() };
    suite.run(make, |tree| tree).unwrap_or_else(|what| panic!("{} {reading:?}: {what}", T::name()));
}

#[test]
fn trees_in_memory_conform() {
    fn all_sizes<T: Kind>() {
        for slots in [4, 8, 32, 256] {
            conforms::<T, _>(|| dram(slots), Reading::Optimistic, 2000);
        }
    }
    fn some_sizes<T: Kind>() {
        for slots in [4, 32] {
            conforms::<T, _>(|| dram(slots), Reading::Optimistic, 1000);
        }
    }
    all_sizes::<CircTree<Dram>>();
    all_sizes::<FastFairS<Dram>>();
    some_sizes::<CircTreeBinary<Dram>>();
    some_sizes::<CircTreeSegment<Dram>>();
    some_sizes::<CircTreeLs<Dram>>();
    some_sizes::<CircTreeF<Dram>>();
    some_sizes::<FastFair<Dram>>();
    some_sizes::<FastFairBinary<Dram>>();
    some_sizes::<FastFairF<Dram>>();
    some_sizes::<FastLogging<Dram>>();
    some_sizes::<StringTree<Dram>>();
}

#[test]
fn each_way_to_read_conforms() {
    let ordered = |slots| move || Counted::new(dram(slots));
    for slots in [4, 32] {
        conforms::<FastFair<Dram>, _>(ordered(slots), Reading::LockFree, 1000);
        conforms::<FastFairS<Dram>, _>(ordered(slots), Reading::LockFree, 1000);
    }
    conforms::<FastFairBinary<Dram>, _>(ordered(4), Reading::LockFree, 1000);
    conforms::<FastFairF<Dram>, _>(ordered(4), Reading::LockFree, 1000);
    conforms::<FastLogging<Dram>, _>(ordered(4), Reading::LockFree, 1000);
    conforms::<FastFairS<Dram>, _>(ordered(4), Reading::Latched, 1000);
    conforms::<CircTree<Dram>, _>(|| dram(4), Reading::Latched, 1000);
    conforms::<StringTree<Dram>, _>(|| dram(8), Reading::Latched, 500);
    for slots in [4, 32] {
        conforms::<FastFair<Dram>, _>(|| dram(slots), Reading::Crabbing, 1000);
    }
    conforms::<CircTree<Dram>, _>(|| dram(4), Reading::Crabbing, 1000);
    conforms::<StringTree<Dram>, _>(|| dram(8), Reading::Crabbing, 500);
}

#[test]
fn words_and_strings_have_one_order() {
    let some = (0..100).chain((1 << 63) - 20..(1 << 63) + 20).chain(u64::MAX - 20..=u64::MAX);
    let words: Vec<u64> = some.collect();
    assert!(words.iter().map(|w| code::key(*w)).is_sorted_by(|a, b| a < b));
    assert!(words.iter().all(|w| code::word(&code::key(*w)).expect("a key") == *w));
    assert!(words.iter().all(|w| code::word_of_value(&code::value(*w)).expect("a value") == *w));
}

/// A tree on strict memory whose power can be cut at any time.
struct Machine<T: Kind> {
    trace: Trace,
    pages: u32,
    tree: T::Tree<SharedMedium<Sim>>,
}

impl<T: Kind> Machine<T> {
    fn new(slots: u32, pages: u32) -> Self {
        let sim = sim(slots, pages);
        let trace = Trace::new(&sim);
        let tree = T::make(SharedMedium::new(&sim)).expect("space");
        Self { trace, pages, tree }
    }

    /// Cuts the power after as many events as `when` says, and opens what that may leave.
    fn cut(self, when: impl FnOnce(&Recording) -> usize, seed: u64) -> Self {
        drop(self.tree);
        let record = self.trace.finish();
        let image = sample(&record, when(&record), Persistency::X86, seed);
        let sim = Sim::from_image(record.geometry, self.pages, &image).expect("memory");
        let sim = Arc::new(sim);
        let trace = Trace::new(&sim);
        Self { trace, pages: self.pages, tree: T::open(SharedMedium::new(&sim)).expect("opens") }
    }
}

fn conforms_across_power_cuts<T: Kind>(slots: u32, keys: usize) {
    let machine = RefCell::new(None);
    let seed = AtomicU64::new(0);
    let make = || {
        let Machine { trace, pages, tree } = Machine::<T>::new(slots, 1 << 13);
        machine.replace(Some((trace, pages)));
        tree
    };
    let reboot = |tree| {
        let (trace, pages) = machine.take().expect("it was made");
        let seed = seed.fetch_add(1, Ordering::Relaxed);
        let Machine { trace, pages, tree } =
            Machine::<T> { trace, pages, tree }.cut(|record| record.events.len(), seed);
        machine.replace(Some((trace, pages)));
        tree
    };
    let suite = Suite { keys, ..Suite::default() };
    suite.run(make, reboot).unwrap_or_else(|what| panic!("{}: {what}", T::name()));
}

#[test]
fn trees_on_strict_memory_conform_across_power_cuts() {
    conforms_across_power_cuts::<CircTree<Dram>>(4, 500);
    conforms_across_power_cuts::<CircTree<Dram>>(32, 500);
    conforms_across_power_cuts::<FastFairS<Dram>>(4, 500);
    conforms_across_power_cuts::<FastFairS<Dram>>(32, 500);
    conforms_across_power_cuts::<FastFair<Dram>>(8, 200);
    conforms_across_power_cuts::<FastFairBinary<Dram>>(8, 200);
    conforms_across_power_cuts::<FastFairF<Dram>>(8, 200);
    conforms_across_power_cuts::<FastLogging<Dram>>(8, 200);
    conforms_across_power_cuts::<CircTreeBinary<Dram>>(8, 200);
    conforms_across_power_cuts::<CircTreeSegment<Dram>>(8, 200);
    conforms_across_power_cuts::<CircTreeLs<Dram>>(8, 200);
    conforms_across_power_cuts::<CircTreeF<Dram>>(8, 200);
    conforms_across_power_cuts::<StringTree<Dram>>(8, 200);
}

/// Operations with power cuts inside them, over and over on the same tree: what a crash leaves half
/// done meets the next crash.
fn cut_over_and_over<T: Kind>(seed: u64, slots: u32) -> u64 {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let (mut machine, mut model) = (Machine::<T>::new(slots, 1 << 10), BTreeMap::new());
    let mut cuts = 0;
    for id in 0..2000 {
        let growing = id / 250 % 2 == 0;
        let key = match rng.random_range(0..8) {
            0 => [0, u64::MAX, 1 << 63, (1 << 63) - 1][rng.random_range(0..4)],
            1 => (1 << 63) + rng.random_range(0..30),
            _ => rng.random_range(0..60),
        };
        let before = model.clone();
        let insert = rng.random_bool(if growing { 0.8 } else { 0.2 });
        let tree = &machine.tree;
        let answer =
            machine.trace.op(id, || if insert { tree.insert(key, id) } else { tree.remove(key) });
        let old = if insert { model.insert(key, id) } else { model.remove(&key) };
        assert_eq!(answer.expect("space"), old, "seed {seed}, operation {id}");
        if rng.random_bool(0.25) {
            machine = cut_inside(machine, id, &mut rng, before, &mut model);
            cuts += 1;
        }
    }
    let report = T::check(&machine.tree).expect("sound");
    assert_eq!(report.entries, model.len() as u64, "{}, seed {seed}", T::name());
    cuts
}

/// Cuts the power inside operation `id`, or right after it; `after` becomes what is found.
fn cut_inside<T: Kind>(
    machine: Machine<T>,
    id: u64,
    rng: &mut Xoshiro256PlusPlus,
    before: BTreeMap<u64, u64>,
    after: &mut BTreeMap<u64, u64>,
) -> Machine<T> {
    let (share, seed) = (rng.random_range(0.0..1.1), rng.random());
    let mut answered = false;
    let machine = machine.cut(
        |record| {
            let mark = |wanted| {
                let is = |e: &Event| matches!(e, Event::Mark { mark, .. } if *mark == wanted);
                record.events.iter().position(is).expect("a mark")
            };
            let (from, to) = (mark(invoke_mark(id)), mark(respond_mark(id)) + 1);
            let at = from + ((to - from) as f64 * share) as usize;
            answered = at >= to;
            at.min(to)
        },
        seed,
    );
    let found = machine.tree.range(Unbounded, Unbounded, usize::MAX).expect("memory");
    let found: BTreeMap<u64, u64> = found.into_iter().collect();
    assert!(found == *after || (!answered && found == before), "operation {id}: {found:?}");
    *after = found;
    machine
}

#[test]
fn trees_survive_cuts_over_and_over() {
    fn cut<T: Kind>(seeds: u64) -> u64 {
        let seeds = 0..seeds * scale() as u64;
        seeds.map(|seed| cut_over_and_over::<T>(seed, [4, 8][seed as usize % 2])).sum()
    }
    let cuts = cut::<CircTree<Dram>>(40);
    println!("{cuts} power cuts");
    assert!(cuts > 10_000);
    let cuts = [
        cut::<FastFairS<Dram>>(8),
        cut::<FastFair<Dram>>(2),
        cut::<FastLogging<Dram>>(4),
        cut::<StringTree<Dram>>(4),
    ];
    println!("{cuts:?} power cuts of other kinds");
    assert!(cuts.iter().all(|n| *n > 500));
}

/// One write of a key: the value that it found there and the value that it left.
struct Write {
    key: u64,
    old: Option<u64>,
    new: Option<u64>,
}

/// Threads insert, update and remove the same few keys, with values that are all different, while
/// the leaves around them split and merge. Each write answers what it replaced. So the writes of a
/// key must form one path from nothing to what is there in the end, in which each value appears
/// once; and what a reader gets must have been written.
fn hot_keys(tree: &impl Index, seed: u64) {
    const HOT: u64 = 6;
    let clock = AtomicU64::new(1);
    let work = &|thread: u64| {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed << 8 | thread);
        let (mut writes, mut reads) = (Vec::new(), Vec::new());
        for i in 0..20_000u64 {
            let key = rng.random_range(0..HOT) * 1000;
            // Cold keys beside the hot ones make their leaves split and merge.
            let cold = key + 1 + thread * 20 + rng.random_range(0..8);
            if i / 200 % 2 == 0 {
                tree.insert(cold, 0).expect("space");
            } else {
                tree.remove(cold).expect("memory");
            }
            let stamp = clock.fetch_add(1, Ordering::Relaxed);
            let (old, new) = match rng.random_range(0..4) {
                0 => (tree.remove(key).expect("memory"), None),
                1 => match tree.update(key, stamp).expect("memory") {
                    None => (None, None),
                    old => (old, Some(stamp)),
                },
                2 => (tree.insert(key, stamp).expect("space"), Some(stamp)),
                _ => {
                    reads.extend(tree.get(key).expect("memory").map(|value| (key, value)));
                    continue;
                }
            };
            writes.push(Write { key, old, new });
        }
        (writes, reads)
    };
    let (mut writes, mut reads) = (Vec::new(), Vec::new());
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|thread| scope.spawn(move || work(thread))).collect();
        for thread in threads {
            let (w, r) = thread.join().expect("no panic");
            writes.extend(w);
            reads.extend(r);
        }
    });
    for key in (0..HOT).map(|i| i * 1000) {
        one_path(&writes, key, tree.get(key).expect("memory"));
    }
    let written: HashMap<u64, u64> = writes.iter().filter_map(|w| Some((w.new?, w.key))).collect();
    assert!(reads.iter().all(|(key, value)| written.get(value) == Some(key)), "seed {seed}");
}

fn one_path(writes: &[Write], key: u64, last: Option<u64>) {
    // How often each value was left, less how often it was found; nothing is there at first.
    let mut balance: HashMap<Option<u64>, i64> = HashMap::from([(None, 1)]);
    for write in writes.iter().filter(|write| write.key == key && write.old != write.new) {
        *balance.entry(write.new).or_default() += 1;
        *balance.entry(write.old).or_default() -= 1;
    }
    *balance.entry(last).or_default() -= 1;
    balance.retain(|_, n| *n != 0);
    assert!(balance.is_empty(), "key {key}: {balance:?}");
}

fn hot_keys_of<T: Kind>(reading: Reading, seeds: std::ops::Range<u64>) {
    for seed in seeds {
        let tree = T::make_by(Counted::new(dram(4)), reading).expect("space");
        hot_keys(&tree, seed);
        T::check(&tree).expect("sound");
    }
}

#[test]
fn writes_of_hot_keys_form_one_path() {
    for seed in 0..6 {
        let tree = <CircTree<Dram> as Kind>::make(dram(4)).expect("space");
        hot_keys(&tree, seed);
        <CircTree<Dram> as Kind>::check(&tree).expect("sound");
    }
    hot_keys_of::<FastFairS<Dram>>(Reading::Optimistic, 0..2);
    hot_keys_of::<FastFairS<Dram>>(Reading::LockFree, 0..2);
    hot_keys_of::<FastFairS<Dram>>(Reading::Latched, 0..1);
    hot_keys_of::<FastFair<Dram>>(Reading::LockFree, 0..2);
    hot_keys_of::<FastFair<Dram>>(Reading::Crabbing, 0..2);
    hot_keys_of::<FastFairBinary<Dram>>(Reading::LockFree, 0..1);
    hot_keys_of::<FastFairF<Dram>>(Reading::LockFree, 0..1);
    hot_keys_of::<FastLogging<Dram>>(Reading::LockFree, 0..1);
    hot_keys_of::<CircTreeBinary<Dram>>(Reading::Optimistic, 0..1);
    hot_keys_of::<CircTreeSegment<Dram>>(Reading::Optimistic, 0..1);
    hot_keys_of::<CircTreeLs<Dram>>(Reading::Optimistic, 0..1);
    hot_keys_of::<CircTreeF<Dram>>(Reading::Latched, 0..1);
    hot_keys_of::<StringTree<Dram>>(Reading::Latched, 0..1);
    hot_keys_of::<StringTree<Dram>>(Reading::Crabbing, 0..4);
    hot_keys_of::<StringTree<Dram>>(Reading::Optimistic, 0..1);
}

/// The medium of a BD+Tree is the one inside: epochs end every so often, beside the operations.
fn bd_tree_conforms<M: Medium>(medium: impl Fn() -> M, epochs: &BufferedOptions, keys: usize) {
    let make = || {
        let tree = Bd::create_with(medium(), epochs).expect("space").0;
        tree.medium().start().expect("a thread");
        tree
    };
    let suite = Suite { keys, ..Suite::default() };
    let ran = suite.run(make, |tree| tree);
    ran.unwrap_or_else(|what| panic!("BD+Tree, {epochs:?}: {what}"));
}

#[test]
fn bd_tree_conforms_whenever_its_epochs_end() {
    let timed = |micros| BufferedOptions {
        interval: Duration::from_micros(micros),
        ..BufferedOptions::default()
    };
    let counted =
        |most| BufferedOptions { interval: Duration::from_secs(10), operations: Some(most) };
    for slots in [4, 8, 16, 32, 64] {
        bd_tree_conforms(|| dram(slots), &timed(1000), 2000);
        bd_tree_conforms(|| dram(slots), &timed(1), 1000);
        bd_tree_conforms(|| dram(slots), &counted(7), 1000);
    }
    for slots in [4, 64] {
        let sim = || SharedMedium::new(&sim(slots, 1 << 12));
        bd_tree_conforms(sim, &timed(1), 200);
        bd_tree_conforms(sim, &counted(1), 200);
    }
}

/// Synced changes are there after a power cut; others may go, and are not asked for.
#[test]
fn bd_tree_conforms_across_power_cuts() {
    let buffered = |slots: u32| {
        let trace = RefCell::new(None);
        let seed = AtomicU64::new(0);
        let start = |sim: Arc<Sim>| {
            trace.replace(Some(Trace::new(&sim)));
            sim
        };
        let make = || Bd::create(SharedMedium::new(&start(sim(slots, 1 << 12)))).expect("space").0;
        let reboot = |tree: BdTree<SharedMedium<Sim>>| {
            tree.sync().expect("sound");
            tree.medium().abandon();
            drop(tree);
            let record = trace.take().expect("it was made").finish();
            let seed = seed.fetch_add(1, Ordering::Relaxed);
            let image = sample(&record, record.events.len(), Persistency::X86, seed);
            let sim = Sim::from_image(record.geometry, record.limit, &image).expect("memory");
            Bd::open(SharedMedium::new(&start(Arc::new(sim)))).expect("opens").0
        };
        let suite = Suite { keys: 300, ..Suite::default() };
        suite.run(make, reboot).unwrap_or_else(|what| panic!("BD+Tree, {slots} slots: {what}"));
    };
    [4, 8, 16, 32, 64].into_iter().for_each(buffered);
}
