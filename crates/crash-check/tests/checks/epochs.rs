//! A map of one's own under the oracle of epochs: each epoch has a line of its own out of four,
//! with all of the map in it, and a word says which epoch is durable.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::Arc;

use everleaf_crash_check::{
    Act, Answer, Answers, Coverage, CrashPoint, EpochMap, EpochScript, Explorer, MapOp, MapWrite,
    Mutate, Mutation, Recording, SharedMedium, Trace, Written, mutants,
};
use everleaf_pmem::{Counts, Geometry, Medium, Page, Result, Sim};

/// Keys are 0..8; a value of 0 is none.
const KEYS: u64 = 8;

/// The mistake that the map makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bug {
    None,
    /// The word is stored with the line's flush still under way.
    NoFence,
    /// Epochs share one line, so that the next one overwrites what is durable.
    OneLine,
    /// A write lands in the running epoch and says that it is in the one before.
    OldEpoch,
    /// The end of an epoch is told and not made durable.
    NoTick,
    /// A batch does not keep the clock still.
    NoHold,
}

struct Lines<M> {
    medium: M,
    bug: Bug,
    clock: Cell<u64>,
    durable: Cell<u64>,
}

impl<M: Medium> Lines<M> {
    fn open(medium: M, bug: Bug) -> Self {
        let durable = medium.page(0).unwrap().head(0).load();
        let map = Self { medium, bug, clock: Cell::new(durable + 1), durable: Cell::new(durable) };
        map.begin();
        map
    }
    fn page(&self) -> Page<'_> {
        self.medium.page(0).unwrap()
    }
    fn line(&self, epoch: u64) -> usize {
        let lines = if self.bug == Bug::OneLine { 1 } else { 4 };
        8 * (epoch % lines) as usize
    }
    fn value(&self, epoch: u64, key: u64) -> u64 {
        self.page().body(self.line(epoch) + key as usize).load()
    }
    fn set(&self, key: u64, value: u64) {
        let at = self.line(self.clock.get()) + key as usize;
        self.medium.store(self.page().body(at), value);
    }
    /// The running epoch begins with what the one before held.
    fn begin(&self) {
        (0..KEYS).for_each(|key| self.set(key, self.value(self.clock.get() - 1, key)));
    }
    fn entries(&self) -> Vec<(u64, u64)> {
        let value = |key| self.value(self.clock.get(), key);
        (0..KEYS).map(|key| (key, value(key))).filter(|(_, value)| *value != 0).collect()
    }
}

impl<M: Medium> EpochMap for Lines<M> {
    fn write(&self, step: MapWrite) -> Result<Written> {
        let (key, value) = match step {
            MapWrite::Insert(key, value) => (key, value),
            MapWrite::Remove(key) => (key, 0),
        };
        let epoch = self.clock.get();
        let old = Some(self.value(epoch, key)).filter(|value| *value != 0);
        self.set(key, value);
        Ok((old, epoch - u64::from(self.bug == Bug::OldEpoch)))
    }
    fn batch(&self, steps: &mut dyn FnMut()) {
        steps();
    }
    fn tick(&self) -> Result<()> {
        let (page, epoch) = (self.page(), self.clock.get());
        if self.bug != Bug::NoTick {
            self.medium.flush(page, page.line_of(self.line(epoch)));
            if self.bug != Bug::NoFence {
                self.medium.fence();
            }
            self.medium.store(page.head(0), epoch);
            self.medium.flush(page, 0);
            self.medium.fence();
        }
        self.durable.set(epoch);
        self.clock.set(epoch + 1);
        self.begin();
        Ok(())
    }
    fn sync(&self) -> Result<()> {
        self.tick()
    }
    fn reclaim(&self) -> Result<u64> {
        Ok(0)
    }
    fn clock(&self) -> u64 {
        self.clock.get()
    }
    fn durable(&self) -> u64 {
        self.durable.get()
    }
}

/// A map whose clock goes on in the middle of a batch.
struct Restless<M>(Lines<M>);

impl<M: Medium> EpochMap for Restless<M> {
    fn write(&self, step: MapWrite) -> Result<Written> {
        if step == MapWrite::Remove(7) && self.0.bug == Bug::NoHold {
            self.0.tick()?;
        }
        self.0.write(step)
    }
    fn batch(&self, steps: &mut dyn FnMut()) {
        steps();
    }
    fn tick(&self) -> Result<()> {
        self.0.tick()
    }
    fn sync(&self) -> Result<()> {
        self.0.sync()
    }
    fn reclaim(&self) -> Result<u64> {
        self.0.reclaim()
    }
    fn clock(&self) -> u64 {
        self.0.clock()
    }
    fn durable(&self) -> u64 {
        self.0.durable()
    }
}

fn script() -> Vec<Act> {
    let insert = |key, value| Act::Write(MapWrite::Insert(key, value));
    vec![
        insert(1, 10),
        Act::Tick,
        insert(1, 11),
        insert(1, 12),
        insert(2, 20),
        insert(7, 70),
        Act::Tick,
        Act::Write(MapWrite::Remove(1)),
        Act::Batch(vec![MapWrite::Insert(3, 30), MapWrite::Remove(7), MapWrite::Remove(5)]),
        Act::Sync,
        insert(1, 13),
        Act::Reclaim,
        Act::Tick,
        Act::Tick,
        insert(2, 21),
    ]
}

fn sim() -> Arc<Sim> {
    Arc::new(Sim::new(Geometry::new(16).unwrap(), 1).unwrap())
}

/// Runs the script with a bug or a fault, and crashes it.
fn crash(bug: Bug, fault: Option<Mutation>) -> std::result::Result<(Coverage, Counts), String> {
    let sim = sim();
    let medium = Arc::new(Mutate::new(SharedMedium::new(&sim), fault));
    let map = Restless(Lines::open(SharedMedium::new(&medium), bug));
    let trace = Trace::new(&sim);
    let mut epochs = EpochScript::new(&[], &map);
    epochs.run(&trace, &map, &script())?;
    let recover = |sim: &Arc<Sim>| {
        let map = Lines::open(SharedMedium::new(sim), bug);
        Ok((map.durable(), map.entries()))
    };
    let verify =
        |(durable, found): (u64, Vec<(u64, u64)>), _: &Arc<Sim>, crash: &CrashPoint<'_>| {
            epochs.admits(crash, durable, &found)
        };
    let stats = Explorer::new().explore(&trace.finish(), recover, verify);
    stats.map(|stats| (stats, medium.counts())).map_err(|failure| failure.to_string())
}

#[test]
fn a_map_that_is_durable_by_epochs_passes() {
    let (stats, _) = crash(Bug::None, None).unwrap_or_else(|what| panic!("{what}"));
    println!("{stats}");
    assert!(stats.images > 100 && stats.nested > 0);
}

#[test]
fn each_bug_is_refused_for_what_it_is() {
    let refused = |bug, why: &str| {
        let what = crash(bug, None).expect_err("a bug");
        println!("{bug:?}: {what}");
        assert!(what.contains(why), "{bug:?}: {what}");
    };
    refused(Bug::NoFence, "missing");
    refused(Bug::OneLine, "wrong");
    refused(Bug::OldEpoch, "in epoch 0 after 0, at 1");
    refused(Bug::NoTick, "is durable after");
    refused(Bug::NoHold, "one batch");
}

/// A map that drops a flush or a fence is found out, also at the last word, since ticks return.
#[test]
fn each_call_counts() {
    let (_, calls) = crash(Bug::None, None).expect("sound");
    let faults = Mutation::each(calls).filter(|f| !matches!(f, Mutation::SwapStores(_)));
    let report = mutants(faults, |fault| crash(Bug::None, Some(fault)).map(drop));
    println!("{report}");
    // Stores that store what is there: lines that are copied, and the removal of an absent key.
    let lost = |fault: &&Mutation| !matches!(fault, Mutation::DropStore(_));
    assert_eq!(report.survivors.iter().filter(lost).count(), 0, "{report}");
    assert!(report.killed.len() > 30, "{report}");
}

/// Calls of threads, in the order of a trace in which each has its two marks.
fn history(calls: &[(usize, usize, MapOp, Option<u64>, u64)]) -> (Recording, Answers) {
    let trace = Trace::new(&sim());
    let mut marks = BTreeMap::new();
    for (id, &(from, to, ..)) in (0..).zip(calls) {
        marks.insert(from, everleaf_crash_check::trace::invoke_mark(id));
        marks.insert(to, everleaf_crash_check::trace::respond_mark(id));
    }
    assert_eq!(marks.len(), 2 * calls.len(), "one thing at a time");
    marks.values().for_each(|mark| trace.sim().mark(*mark));
    let answer = |(id, &(_, _, op, old, epoch))| Answer { id, op, old, epoch };
    let all = (0..).zip(calls).map(answer).collect();
    (trace.finish(), Answers { all, ..Answers::default() })
}

#[test]
fn epochs_cut_an_order_or_not() {
    let (old, new) = (MapOp::Insert(1, 10), MapOp::Insert(2, 20));
    // Two writes overlap and land in epochs 4 and 5; readers see either first.
    let one = |first: MapOp, a, second: MapOp, b| {
        let calls = [(0, 8, old, None, 4), (1, 9, new, None, 5)];
        let reads = [(2, 3, first, a, 0), (4, 5, second, b, 0)];
        let (record, answers) = history(&[&calls[..], &reads].concat());
        answers.linearizable(&record)
    };
    let (x, y) = (MapOp::Get(1), MapOp::Get(2));
    assert_eq!(one(x, Some(10), y, None), Ok(()));
    assert_eq!(one(x, None, y, None), Ok(()));
    assert_eq!(one(y, Some(20), x, Some(10)), Ok(()));
    // Problem 2 of the paper: the later epoch is seen before the earlier.
    let problem_2 = one(y, Some(20), x, None).expect_err("seen too early");
    assert!(problem_2.contains("no moment is the end of epoch 4"), "{problem_2}");
}

#[test]
fn an_older_epoch_may_not_overwrite_a_newer_one() {
    // Problem 1 of the paper, on one key; and the same with the epochs the right way round.
    let run = |a, b| {
        let calls =
            [(0, 8, MapOp::Insert(1, 10), None, a), (1, 9, MapOp::Insert(1, 20), Some(10), b)];
        let (record, answers) = history(&calls);
        answers.linearizable(&record)
    };
    assert_eq!((run(4, 5), run(5, 5)), (Ok(()), Ok(())));
    assert!(run(5, 4).is_err());
}

#[test]
fn a_crash_leaves_the_writes_of_whole_epochs() {
    let calls = [
        (0, 2, MapOp::Insert(1, 10), None, 4),
        (1, 7, MapOp::Insert(2, 20), None, 4),
        (3, 6, MapOp::Insert(1, 11), Some(10), 5),
        (4, 5, MapOp::Remove(3), None, 9),
    ];
    let (record, mut answers) = history(&calls);
    assert_eq!(answers.linearizable(&record), Ok(()));
    let admits = |durable, found: &[(u64, u64)]| {
        answers.until(&record, durable).outcomes().expect("an order").admit(found).is_ok()
    };
    assert!(admits(3, &[]) && !admits(3, &[(1, 10)]));
    assert!(admits(4, &[(1, 10), (2, 20)]) && !admits(4, &[(1, 10)]));
    assert!(admits(5, &[(1, 11), (2, 20)]) && !admits(5, &[(1, 10), (2, 20)]));
    let floors = [&[][..], &[0], &[0, 3], &[0, 3, 2]].map(|responded| answers.floor(responded));
    assert_eq!(floors, [0, 2, 2, 3]);
    answers.acknowledged.push((3, 4));
    assert_eq!(answers.floor(&[0, 3]), 4);
}

/// The explorer builds more images of one page in full than samples of it.
#[test]
fn pages_are_crashed_one_at_a_time_where_all_are_too_many() {
    let sim = Arc::new(Sim::new(Geometry::new(16).unwrap(), 3).unwrap());
    let trace = Trace::new(&sim);
    for no in 0..3 {
        let page = sim.page(no).unwrap();
        (0..32).for_each(|word| sim.store(page.body(word), 1));
    }
    let record = trace.finish();
    let seen = RefCell::new([0u64; 3]);
    let check = |sim: &Arc<Sim>, _: &CrashPoint<'_>| {
        for (no, seen) in (0..).zip(seen.borrow_mut().iter_mut()) {
            let page = sim.page(no).unwrap();
            // Each line holds 0 to 8 words: nine contents.
            let line = |l: usize| (8 * l..8 * l + 8).filter(|w| page.body(*w).load() == 1).count();
            *seen += u64::from([0, 1, 2, 3].map(line) == [3, 4, 5, 6]);
        }
        Ok(())
    };
    let explorer = Explorer::new().samples(10).page_exhaustive(9_usize.pow(4));
    let stats = explorer.check(&record, check).expect("nothing to refuse");
    assert!(stats.images > 6 * 9_u64.pow(4) - 100, "{stats}");
    assert!(seen.borrow().iter().all(|n| *n >= 2), "{seen:?}");
}
