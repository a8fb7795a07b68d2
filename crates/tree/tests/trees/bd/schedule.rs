//! BD+Trees under threads whose order a seed decides: writers, one that ends epochs, one that reads,
//! one that frees leaves. The history must have an order that each epoch cuts, and what is recovered
//! after each crash must be the end of the epoch that the image names.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::ops::Bound::Included;
use std::sync::{Arc, Mutex};

use everleaf_crash_check::history::Outcomes;
use everleaf_crash_check::schedule::{Job, Policy, Ran, Scheduler, breathe};
use everleaf_crash_check::{
    Answer, Answers, Coverage, CrashPoint, EpochMap, Explorer, MapOp, Recording, SharedMedium,
    Trace,
};
use everleaf_pmem::{Error, Medium, Result, Sim};
use everleaf_tree::blink::Condition;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::scripts::random;
use super::{Bd, Found, PAGES, recover, stage};

type Tree = Bd<SharedMedium<Sim>>;
type Verdict<T> = std::result::Result<T, String>;

const THREADS: usize = 5;
/// Keys that operations name.
const KEYS: u64 = 12;
/// Calls of one thread, at most; numbers of calls of the main thread begin behind all others.
const CALLS: u64 = 16;

/// The next request of a thread.
#[derive(Debug, Clone, Copy)]
enum Ask {
    One(MapOp),
    /// All keys between two, included.
    Scan(u64, u64),
    ScanBack(u64, u64),
    Tick,
    Reclaim,
    /// Two writes in one epoch.
    Batch(MapOp, MapOp),
}

impl Ask {
    /// Does it as call `id`.
    fn run(self, id: u64, trace: &Trace, tree: &Tree, answers: &Mutex<Answers>) -> Result<()> {
        let mut found = Vec::new();
        let mut acknowledged = None;
        match self {
            Ask::One(op) => found.push(trace.op(id, || one(tree, id, op))?),
            Ask::Scan(a, b) | Ask::ScanBack(a, b) => {
                let back = matches!(self, Ask::ScanBack(..));
                let range = || match back {
                    true => tree.0.range_back(Included(a), Included(b), usize::MAX),
                    false => tree.0.range(Included(a), Included(b), usize::MAX),
                };
                let mut entries = trace.op(id, range)?;
                if back {
                    entries.reverse();
                }
                let within = entries.iter().all(|(key, _)| (a..=b).contains(key));
                if !within || !entries.is_sorted_by(|a, b| a.0 < b.0) {
                    return Err(Error::Invalid { what: format!("{entries:?}") });
                }
                let entries: HashMap<u64, u64> = entries.into_iter().collect();
                let get = |key| (MapOp::Get(key), entries.get(&key).copied());
                let reads = (a..=b).map(get);
                found.extend(reads.map(|(op, old)| Answer { id, op, old, epoch: 0 }));
            }
            Ask::Tick => {
                let before = tree.clock();
                trace.op(id, || tree.tick())?;
                acknowledged = Some((id, before));
            }
            Ask::Reclaim => drop(trace.op(id, || tree.reclaim())?),
            Ask::Batch(a, b) => {
                let _hold = tree.0.medium().pin_epoch();
                for (op, id) in [(a, id), (b, id + CALLS / 2)] {
                    found.push(trace.op(id, || one(tree, id, op))?);
                }
            }
        }
        let mut answers = answers.lock().expect("no panic inside");
        answers.all.extend(found);
        answers.acknowledged.extend(acknowledged);
        Ok(())
    }
}

fn one(tree: &Tree, id: u64, op: MapOp) -> Result<Answer> {
    let put = match op {
        MapOp::Get(key) => {
            let old = tree.0.get(key)?;
            return Ok(Answer { id, op, old, epoch: 0 });
        }
        MapOp::Insert(key, value) => tree.0.put(key, value, Condition::Always)?,
        MapOp::Update(key, value) => tree.0.put(key, value, Condition::Present)?,
        MapOp::Remove(key) => tree.0.remove(key)?,
    };
    Ok(Answer { id, op, old: put.old, epoch: put.epoch.unwrap_or_default() })
}

/// The requests made before the threads run, and those of each thread.
struct Plan {
    before: Vec<Ask>,
    asks: Vec<Vec<Ask>>,
    horizons: (u64, u64),
}

/// The threads that a schedule should show: all kinds of them, or those of one problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cast {
    /// Writers, ends of epochs, a reader, frees.
    All,
    /// Two writers of one key and an end of the epoch between them (problem 1).
    SameKey,
    /// One that reads a key, beside those that give it new versions and split its leaf.
    OneReader,
    /// Two writers of different keys, one that reads both, and an end of the epoch (problem 2).
    TwoKeys,
}

impl Plan {
    fn new(rng: &mut Xoshiro256PlusPlus, cast: Cast) -> Self {
        match cast {
            Cast::All => Self::all(rng),
            Cast::SameKey => {
                let key = rng.random_range(0..KEYS);
                let insert = |value| vec![Ask::One(MapOp::Insert(key, value))];
                let asks = vec![insert(101), insert(102), vec![Ask::Tick]];
                Self { before: Vec::new(), asks, horizons: (60, 12) }
            }
            Cast::OneReader => {
                let key = rng.random_range(0..KEYS);
                let insert = |key, value| Ask::One(MapOp::Insert(key % KEYS, value));
                let asks = vec![
                    (0..2).map(|i| insert(key, 101 + i)).collect(),
                    (1..3).map(|i| insert(key + i, 103 + i)).collect(),
                    vec![Ask::Tick],
                    vec![Ask::One(MapOp::Get(key)); 2],
                ];
                Self { before: vec![insert(key, 100), Ask::Tick], asks, horizons: (250, 40) }
            }
            Cast::TwoKeys => {
                let (a, b) = (rng.random_range(0..KEYS / 2), rng.random_range(KEYS / 2..KEYS));
                let insert = |key| vec![Ask::One(MapOp::Insert(key, 100 + key))];
                let reads = [a, b].map(|key| Ask::One(MapOp::Get(key))).to_vec();
                let asks = vec![insert(a), insert(b), vec![Ask::Tick], reads];
                Self { before: Vec::new(), asks, horizons: (120, 20) }
            }
        }
    }

    fn all(rng: &mut Xoshiro256PlusPlus) -> Self {
        let (hot, width) = (rng.random_range(0..KEYS), rng.random_range(1..=4));
        let removes = [1, 5, 8][rng.random_range(0..3)];
        let mut value = 100;
        let mut write = |rng: &mut Xoshiro256PlusPlus| {
            let near = if rng.random_bool(0.1) { KEYS } else { width };
            let key = (hot + rng.random_range(0..near)) % KEYS;
            value += 1;
            match rng.random_range(0..12) {
                0 => MapOp::Update(key, value),
                n if n <= removes => MapOp::Remove(key),
                _ => MapOp::Insert(key, value),
            }
        };
        let drained = rng.random_bool(0.2);
        let before = if drained {
            // Leaves that are about to be freed.
            let removes = (0..6).map(|i| Ask::One(MapOp::Remove((hot + i) % KEYS)));
            removes.chain([Ask::Tick, Ask::Tick]).collect()
        } else {
            let acts = rng.random_range(0..8);
            let any = |_| if rng.random_bool(0.3) { Ask::Tick } else { Ask::One(write(rng)) };
            (0..acts).map(any).collect()
        };
        let mut asks = Vec::new();
        for _ in 0..2 {
            let mut own = Vec::new();
            for _ in 0..rng.random_range(1..=4) {
                own.push(match rng.random_range(0..10) {
                    0 => Ask::Batch(write(rng), write(rng)),
                    _ => Ask::One(write(rng)),
                });
            }
            asks.push(own);
        }
        asks.push(vec![Ask::Tick; rng.random_range(1..=3)]);
        if rng.random_bool(0.6) {
            let read = |_| match rng.random_range(0..6) {
                0 => Ask::Scan(hot.min(KEYS - 2), KEYS - 1),
                1 => Ask::ScanBack(0, hot),
                2 => Ask::Scan(0, KEYS - 1),
                _ => Ask::One(MapOp::Get((hot + rng.random_range(0..width)) % KEYS)),
            };
            asks.push((0..4).map(read).collect());
        }
        if drained || rng.random_bool(0.3) {
            asks.push(vec![Ask::Reclaim; 2]);
        }
        let horizons = [(60, 20), (300, 60), (1000, 150)][rng.random_range(0..3)];
        Self { before, asks, horizons }
    }
}

/// Counts over all schedules together.
#[derive(Debug, Clone, Copy, Default)]
pub struct Happened {
    pub schedules: u64,
    pub stats: Coverage,
    pub turns: u64,
    /// Runs that ended with more leaves than they began with, or with fewer.
    pub split: u64,
    pub freed: u64,
    /// Runs whose writes landed in two epochs, or in more.
    pub two_epochs: u64,
    pub more_epochs: u64,
}

/// A seed whose schedule went wrong.
#[derive(Debug, PartialEq, Eq)]
pub struct Failure {
    pub seed: u64,
    pub what: String,
}

/// A run that has ended.
struct Finished {
    tree: Arc<Tree>,
    record: Recording,
    answers: Answers,
    ran: Ran,
    leaves_before: u64,
}

/// Runs schedules of one cast.
pub struct Bench {
    scheduler: Scheduler,
    grounds: Vec<Arc<Sim>>,
    cast: Cast,
    crashes: bool,
    merges: bool,
    pub happened: Happened,
}

impl Bench {
    pub fn new(cast: Cast) -> Self {
        let script = |seed| random(seed, 40, KEYS);
        let grounds = (0..64).map(|seed| stage(4, &script(seed))).collect();
        let (scheduler, happened) = (Scheduler::new(THREADS), Happened::default());
        Self { scheduler, grounds, cast, crashes: true, merges: false, happened }
    }

    /// On trees that merge sparse leaves.
    pub fn merging(mut self) -> Self {
        self.merges = true;
        self
    }

    /// Without crashes: only histories are judged.
    pub fn without_crashes(mut self) -> Self {
        self.crashes = false;
        self
    }

    /// Runs the schedules of some seeds, up to the first that goes wrong.
    pub fn run(&mut self, seeds: std::ops::Range<u64>) -> std::result::Result<(), Failure> {
        seeds.into_iter().try_for_each(|seed| self.schedule(seed))
    }

    fn schedule(&mut self, seed: u64) -> std::result::Result<(), Failure> {
        everleaf_testing::at_seed(seed);
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let ground = Arc::clone(&self.grounds[rng.random_range(0..self.grounds.len())]);
        let plan = Plan::new(&mut rng, self.cast);
        let failure = |what: String| {
            let mut what = format!("seed {seed}: {what}\n  before: {:?}", plan.before);
            for (thread, asks) in plan.asks.iter().enumerate() {
                write!(what, "\n  thread {thread}: {asks:?}").expect("a string");
            }
            Failure { seed, what }
        };
        let finished = self.finish(seed, &ground, &plan).map_err(failure)?;
        self.judge(seed, &finished).map_err(|what| failure(format!("{what}\n  {}", finished.ran)))
    }

    /// Runs the threads to their ends.
    fn finish(&mut self, seed: u64, ground: &Sim, plan: &Plan) -> Verdict<Finished> {
        let error = |e: everleaf_pmem::Error| e.to_string();
        let sim = Sim::from_image(ground.geometry(), PAGES, &ground.image()).map_err(error)?;
        let sim = Arc::new(sim);
        let tree = Tree::open(SharedMedium::new(&sim)).map_err(error)?.0.merging(self.merges);
        let tree = Arc::new(Bd(tree));
        let trace = Arc::new(Trace::new(&sim));
        let answers = Answers { initial: tree.entries()?, ..Answers::default() };
        let answers = Arc::new(Mutex::new(answers));
        for (i, ask) in (0..).zip(&plan.before) {
            ask.run(CALLS * THREADS as u64 + i, &trace, &tree, &answers).map_err(error)?;
        }
        let leaves_before = tree.report()?.leaves;
        let trouble = Arc::new(Mutex::new(None));
        let jobs = plan.asks.iter().cloned().zip(0..).map(|(asks, thread)| -> Job {
            let (tree, trace) = (Arc::clone(&tree), Arc::clone(&trace));
            let (answers, trouble) = (Arc::clone(&answers), Arc::clone(&trouble));
            Box::new(move || {
                for (ask, i) in asks.into_iter().zip(0..) {
                    breathe();
                    if let Err(error) = ask.run(CALLS * thread + i, &trace, &tree, &answers) {
                        *trouble.lock().expect("no panic inside") =
                            Some(format!("{ask:?}: {error}"));
                    }
                }
            })
        });
        let (horizon, writes) = plan.horizons;
        let policy = Policy { seed, horizon, writes, ..Policy::default() };
        let ran = self.scheduler.run(&policy, jobs.collect()).map_err(|f| f.to_string())?;
        if let Some(what) = trouble.lock().expect("no panic inside").take() {
            return Err(what);
        }
        let record = Arc::into_inner(trace).expect("the jobs have ended").finish();
        let answers = Arc::into_inner(answers).expect("the jobs have ended");
        let answers = answers.into_inner().expect("no panic inside");
        Ok(Finished { tree, record, answers, ran, leaves_before })
    }

    /// Whether the history has an order that epochs cut, without a crash and with each.
    fn judge(&mut self, seed: u64, finished: &Finished) -> Verdict<()> {
        let Finished { tree, record, answers, ran, leaves_before } = finished;
        answers.linearizable(record)?;
        let admitted = answers.whole(record).outcomes()?.admit(&tree.entries()?);
        admitted.map_err(|what| format!("in the end, {what}"))?;
        let leaves = tree.report()?.leaves;
        let mut outcomes: HashMap<u64, Verdict<Outcomes>> = HashMap::new();
        let verify = |found: Found, _: &Arc<Sim>, crash: &CrashPoint<'_>| {
            let floor = answers.floor(crash.responded());
            if found.durable < floor {
                return Err(format!("epoch {} is durable, and not {floor}", found.durable));
            }
            let until = |_: &u64| answers.until(record, found.durable).outcomes();
            let outcomes = outcomes.entry(found.durable).or_insert_with_key(until);
            outcomes.as_ref().map_err(Clone::clone)?.admit(&found.entries)
        };
        let explorer = Explorer::new().depth(1).seed(seed).exhaustive(4).samples(4);
        let stats = match self.crashes {
            true => explorer.explore(record, recover, verify).map_err(|f| f.to_string())?,
            false => Coverage::default(),
        };
        let happened = &mut self.happened;
        happened.schedules += 1;
        happened.stats += stats;
        happened.turns += ran.turns.len() as u64;
        happened.split += u64::from(leaves > *leaves_before);
        happened.freed += u64::from(leaves < *leaves_before);
        let mut epochs: Vec<u64> = answers.all.iter().map(|a| a.epoch).filter(|e| *e > 0).collect();
        epochs.sort_unstable();
        epochs.dedup();
        happened.two_epochs += u64::from(epochs.len() == 2);
        happened.more_epochs += u64::from(epochs.len() > 2);
        Ok(())
    }
}
