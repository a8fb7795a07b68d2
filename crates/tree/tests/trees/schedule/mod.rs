//! Small trees under a few threads whose order a seed decides: each run's history must be
//! linearizable, and so must be what is recovered after each crash of it.

pub mod mutant;
pub mod text;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::Bound::{Included, Unbounded};
use std::sync::{Arc, Mutex};

use everleaf_crash_check::history::Outcomes;
use everleaf_crash_check::schedule::{Job, Policy, Ran, Scheduler, breathe};
use everleaf_crash_check::{Coverage, CrashPoint, Explorer, History, MapOp, SharedMedium, Trace};
use everleaf_pmem::{Geometry, Medium, Result, Sim};
use everleaf_tree::blink::{Blink, Reading};
use everleaf_tree::slots::Words;
use everleaf_tree::slots::{Layout, Probe};
use everleaf_tree::{INDEX_ANCHOR, Index, TreeReport};
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

const THREADS: usize = 3;
/// Pages that others have, so that a tree's nodes lie in two groups: a page of the second one is
/// freed under the latch of another map page than the first, which readers may be led to in error.
const TAKEN: u32 = 54;
/// Keys that operations name.
const KEYS: u64 = 24;
/// A kind of tree: how it is opened and looked at.
pub trait Kind {
    /// The tree. Threads share it.
    type Tree: Index + 'static;
    /// Whether what a read has answered survives a crash.
    const READS_ARE_DURABLE: bool = true;
    /// Slots of a page, and pages of the medium.
    const SHAPE: (u32, u32) = (4, 160);
    /// How many schedules of words take the time of one, and whether there are trees of so many
    /// levels that some grow.
    const COST: u64 = 1;
    const GROWS: bool = true;

    /// Opens the tree of a medium.
    fn open(sim: &Arc<Sim>) -> Result<Self::Tree>;
    /// Reports what is in the tree, and what is wrong with it or its pool.
    fn report(tree: &Self::Tree) -> Result<TreeReport>;
}

/// A kind of tree that is sound: schedules start from it, and it recovers what crashes leave.
pub trait Create: Kind {
    /// Makes an empty tree on an empty medium.
    fn create(sim: &Arc<Sim>) -> Result<Self::Tree>;
}

/// A tree of words with nodes of this layout and probe, as it comes.
impl<L: Layout, P: Probe> Kind for (L, P) {
    type Tree = Blink<SharedMedium<Sim>, (L, P, Words)>;

    fn open(sim: &Arc<Sim>) -> Result<Self::Tree> {
        open_on(SharedMedium::new(sim))
    }
    fn report(tree: &Self::Tree) -> Result<TreeReport> {
        report(tree)
    }
}

impl<L: Layout, P: Probe> Create for (L, P) {
    fn create(sim: &Arc<Sim>) -> Result<Self::Tree> {
        let pool = Self::Tree::format_pool(SharedMedium::new(sim))?;
        (0..TAKEN).try_for_each(|_| Self::Tree::new_anchor(&pool).map(drop))?;
        Blink::create(Arc::new(pool), INDEX_ANCHOR)
    }
}

/// The same tree, whose readers do not wait for writers. `READS`: whether what they answer is
/// expected to be durable, which it is not.
pub struct LockFree<K, const READS: bool = false>(std::marker::PhantomData<K>);

impl<L: Layout, P: Probe, const READS: bool> Kind for LockFree<(L, P), READS> {
    type Tree = Blink<SharedMedium<Sim>, (L, P, Words)>;
    const READS_ARE_DURABLE: bool = READS;

    fn open(sim: &Arc<Sim>) -> Result<Self::Tree> {
        open_on(SharedMedium::new(sim))?.reading(Reading::LockFree)
    }
    fn report(tree: &Self::Tree) -> Result<TreeReport> {
        report(tree)
    }
}

/// The same tree, whose readers latch the leaf.
pub struct Latched<K>(std::marker::PhantomData<K>);

impl<L: Layout, P: Probe> Kind for Latched<(L, P)> {
    type Tree = Blink<SharedMedium<Sim>, (L, P, Words)>;

    fn open(sim: &Arc<Sim>) -> Result<Self::Tree> {
        open_on(SharedMedium::new(sim))?.reading(Reading::Latched)
    }
    fn report(tree: &Self::Tree) -> Result<TreeReport> {
        report(tree)
    }
}

/// Opens a tree on any medium.
pub fn open_on<M: Medium, L: Layout, P: Probe>(m: M) -> Result<Blink<M, (L, P, Words)>> {
    Blink::open(Arc::new(Blink::<M, (L, P, Words)>::open_pool(m)?), INDEX_ANCHOR)
}

/// Reports what is in a tree, and what is wrong with it or its pool.
pub fn report<M: Medium, L: Layout, P: Probe>(
    tree: &Blink<M, (L, P, Words)>,
) -> Result<TreeReport> {
    let mut report = tree.check()?;
    report.damages.extend(tree.pool().check());
    Ok(report)
}

fn sound(report: Result<TreeReport>) -> Verdict<TreeReport> {
    let report = report.map_err(|e| e.to_string())?;
    if report.damages.is_empty() { Ok(report) } else { Err(format!("{:?}", report.damages)) }
}

fn all(index: &impl Index) -> Verdict<Vec<(u64, u64)>> {
    index.range(Unbounded, Unbounded, usize::MAX).map_err(|e| e.to_string())
}

fn medium<K: Kind>() -> Sim {
    let (slots, pages) = K::SHAPE;
    Sim::new(Geometry::new(slots).expect("a power of two"), pages).expect("memory")
}

type Verdict<T> = std::result::Result<T, String>;

/// Key number `i`: most lie in the left half of the tree.
fn key(i: u64) -> u64 {
    if i < KEYS * 2 / 3 { 10 * i } else { (1 << 63) + 10 * i }
}

/// A tree that schedules start from: filled and drained, more or less.
struct Ground {
    image: Vec<u64>,
    entries: Vec<(u64, u64)>,
    nodes_by_level: Vec<u64>,
}

impl Ground {
    fn new<K: Create>(seed: u64) -> Self {
        let sim = Arc::new(medium::<K>());
        let tree = K::create(&sim).expect("space");
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut keys: Vec<u64> = (0..KEYS).map(key).collect();
        keys.shuffle(&mut rng);
        let filled = rng.random_range(0..=keys.len());
        for (&key, value) in keys[..filled].iter().zip(1..) {
            tree.insert(key, value).expect("space");
        }
        keys[..filled].shuffle(&mut rng);
        for &key in &keys[..rng.random_range(0..=filled)] {
            tree.remove(key).expect("space");
        }
        let report = sound(K::report(&tree)).expect("a sound tree");
        let entries = all(&tree).expect("memory");
        Self { image: sim.image(), entries, nodes_by_level: report.nodes_by_level }
    }
}

/// The next request of a thread.
#[derive(Debug, Clone, Copy)]
enum Ask {
    One(MapOp),
    /// All keys between two key numbers, included.
    Scan(u64, u64),
    ScanBack(u64, u64),
}

/// Operations with their answers, and the number of the call in the trace.
type Answers = Vec<(u64, MapOp, Option<u64>)>;

impl Ask {
    fn run(self, id: u64, trace: &Trace, index: &impl Index) -> Verdict<Answers> {
        let failed = |e| format!("{self:?}: {e}");
        match self {
            Ask::One(op) => {
                let answer = trace.op(id, || op.run(index)).map_err(failed)?;
                Ok(vec![(id, op, answer)])
            }
            Ask::Scan(a, b) => {
                let range = || index.range(Included(key(a)), Included(key(b)), usize::MAX);
                let found = trace.op(id, range).map_err(failed)?;
                self.reads(id, a..=b, &found)
            }
            Ask::ScanBack(a, b) => {
                let range = || index.range_back(Included(key(a)), Included(key(b)), usize::MAX);
                let mut found = trace.op(id, range).map_err(failed)?;
                found.reverse();
                self.reads(id, a..=b, &found)
            }
        }
    }

    /// A scan reads each key of its range once, at some moment while it runs.
    fn reads(
        self,
        id: u64,
        keys: std::ops::RangeInclusive<u64>,
        found: &[(u64, u64)],
    ) -> Verdict<Answers> {
        let entries: BTreeMap<u64, u64> = found.iter().copied().collect();
        let within = |entry: &(u64, u64)| keys.clone().any(|i| key(i) == entry.0);
        if !found.is_sorted_by(|a, b| a.0 < b.0) || !found.iter().all(within) {
            return Err(format!("{self:?} found {found:?}"));
        }
        let get = |i| (id, MapOp::Get(key(i)), entries.get(&key(i)).copied());
        Ok(keys.map(get).collect())
    }
}

/// The requests of the threads of one schedule, and before which access, of all and of those that are no
/// reads, they are preempted.
struct Plan {
    asks: Vec<Vec<Ask>>,
    horizons: (u64, u64),
    /// All pages have been touched since the open.
    warm: bool,
}

/// Within the first operation.
const EARLY: (u64, u64) = (40, 20);
/// Anywhere in most runs, and anywhere in long ones.
const LATER: [(u64, u64); 2] = [(400, 100), (1200, 300)];

impl Plan {
    fn new(rng: &mut Xoshiro256PlusPlus) -> Self {
        let warm = rng.random_bool(0.5);
        match rng.random_range(0..5) {
            0 => Self { asks: reuse(rng), horizons: EARLY, warm: true },
            1 => Self { asks: neighbours(rng), horizons: EARLY, warm },
            n => Self { asks: neighbours(rng), horizons: LATER[n % 2], warm },
        }
    }
}

/// Threads that do anything, mostly to a few neighbouring keys.
fn neighbours(rng: &mut Xoshiro256PlusPlus) -> Vec<Vec<Ask>> {
    let threads = rng.random_range(2..=THREADS);
    let (hot, width) = (rng.random_range(0..KEYS), rng.random_range(1..=5));
    let inserts = [1, 7, 12][rng.random_range(0..3)];
    // In every other schedule the last thread only reads; now and then the first does a lot.
    let writers = threads - usize::from(rng.random_bool(0.5));
    let long = rng.random_bool(0.2);
    (0..threads)
        .map(|thread| {
            let ops = if long && thread == 0 { 10 } else { rng.random_range(2..=4) };
            let ask = |i: usize| {
                let any = rng.random_bool(0.1);
                let near = if any { KEYS } else { width };
                let number = (hot + rng.random_range(0..near)) % KEYS;
                let (key, value) = (key(number), value(thread, i));
                match rng.random_range(0..if thread < writers { 20 } else { 5 }) {
                    0 => Ask::Scan(number, (number + width).min(KEYS - 1)),
                    1 => Ask::ScanBack(number, (number + width).min(KEYS - 1)),
                    2..5 => Ask::One(MapOp::Get(key)),
                    5..7 => Ask::One(MapOp::Update(key, value)),
                    // The rest goes to inserts and removes, in the schedule's proportion.
                    n if n < 7 + inserts => Ask::One(MapOp::Insert(key, value)),
                    _ => Ask::One(MapOp::Remove(key)),
                }
            };
            (0..ops).map(ask).collect()
        })
        .collect()
}

/// A reader on its way to a leaf, while a writer removes all keys beside the one sought, so that the
/// leaf is merged and its page freed, and then fills leaves further right, which take free pages.
fn reuse(rng: &mut Xoshiro256PlusPlus) -> Vec<Vec<Ask>> {
    let hot = rng.random_range(0..KEYS / 2);
    let sought = hot + rng.random_range(0..6);
    let removes = (hot..hot + 6).filter(|&i| i != sought).map(|i| MapOp::Remove(key(i)));
    // Enough to take the pages that the ground left free, too: its nodes merge as soon as they fit.
    let inserts = (KEYS / 2 + 6..KEYS + 12).map(|i| MapOp::Insert(key(i), value(0, i as usize)));
    let read = if rng.random_bool(0.5) {
        Ask::One(MapOp::Get(key(sought)))
    } else {
        Ask::Scan(hot, hot + 5)
    };
    vec![removes.chain(inserts).map(Ask::One).collect(), vec![read]]
}

/// A value that is written once.
fn value(thread: usize, i: usize) -> u64 {
    (1000 * (thread + 1) + i) as u64
}

/// Counts over all schedules together.
#[derive(Debug, Clone, Copy, Default)]
pub struct Happened {
    pub schedules: u64,
    pub stats: Coverage,
    pub steps: u64,
    pub turns: u64,
    /// Runs that ended with more leaves than they began with, or with fewer.
    pub split: u64,
    pub merged: u64,
    /// Runs that ended with more levels, or with fewer.
    pub grown: u64,
    pub shrunk: u64,
}

impl Happened {
    fn see(&mut self, ran: &Ran, stats: Coverage, before: &[u64], after: &[u64]) {
        self.schedules += 1;
        self.stats += stats;
        self.steps += ran.steps;
        self.turns += ran.turns.len() as u64;
        self.split += u64::from(after[0] > before[0]);
        self.merged += u64::from(after[0] < before[0]);
        self.grown += u64::from(after.len() > before.len());
        self.shrunk += u64::from(after.len() < before.len());
    }
}

/// A seed whose schedule went wrong.
#[derive(Debug, PartialEq, Eq)]
pub struct Failure {
    pub seed: u64,
    pub what: String,
}

/// Runs schedules of trees of kind `K`; trees of kind `R` recover what crashes leave.
pub struct Bench<K, R = K> {
    scheduler: Scheduler,
    grounds: Vec<Ground>,
    sim: Arc<Sim>,
    threads: usize,
    pub happened: Happened,
    _kinds: std::marker::PhantomData<(K, R)>,
}

/// A run that has ended.
struct Finished<T> {
    tree: Arc<T>,
    record: everleaf_crash_check::Recording,
    history: History,
    ran: Ran,
}

impl<K: Kind, R: Create> Bench<K, R> {
    pub fn new() -> Self {
        let grounds: Vec<Ground> = (0..256).map(Ground::new::<R>).collect();
        let sim = Arc::new(medium::<R>());
        Self {
            scheduler: Scheduler::new(THREADS),
            grounds,
            sim,
            threads: THREADS,
            happened: Happened::default(),
            _kinds: std::marker::PhantomData,
        }
    }

    /// Only this many threads at most.
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    /// Runs the schedules of some seeds, up to the first that goes wrong.
    pub fn run(
        &mut self,
        seeds: impl IntoIterator<Item = u64>,
    ) -> std::result::Result<(), Failure> {
        seeds.into_iter().try_for_each(|seed| self.schedule(seed))
    }

    /// Runs the schedule of one seed, the same each time, and crashes it.
    pub fn schedule(&mut self, seed: u64) -> std::result::Result<(), Failure> {
        everleaf_testing::at_seed(seed);
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let ground = rng.random_range(0..self.grounds.len());
        let mut plan = Plan::new(&mut rng);
        plan.asks.truncate(self.threads);
        let failure = |ran: Option<&Ran>, what: String| {
            let mut what = format!("seed {seed}: {what}");
            if let Some(ran) = ran {
                write!(what, "\n  {ran}").expect("a string");
            }
            for (thread, asks) in plan.asks.iter().enumerate() {
                write!(what, "\n  thread {thread}: {asks:?}").expect("a string");
            }
            Failure { seed, what }
        };
        let finished = self.finish(seed, ground, &plan).map_err(|what| failure(None, what))?;
        self.judge(seed, ground, &finished).map_err(|what| failure(Some(&finished.ran), what))
    }

    /// The medium, as a power cut at rest has left it.
    fn reset(&mut self, ground: usize) {
        let image = &self.grounds[ground].image;
        match Arc::get_mut(&mut self.sim) {
            Some(sim) => sim.reset(image),
            // A run that failed may still hold it.
            None => {
                let fresh = Sim::from_image(self.sim.geometry(), self.sim.limit(), image);
                self.sim = Arc::new(fresh.expect("memory"));
            }
        }
    }

    /// Runs the threads to their ends.
    fn finish(&mut self, seed: u64, ground: usize, plan: &Plan) -> Verdict<Finished<K::Tree>> {
        self.reset(ground);
        let tree = Arc::new(K::open(&self.sim).map_err(|e| e.to_string())?);
        if plan.warm {
            all(&*tree)?;
        }
        let trace = Arc::new(Trace::new(&self.sim));
        let answers = Arc::new(Mutex::new(Ok(Answers::new())));
        let jobs = plan.asks.iter().cloned().enumerate().map(|(thread, asks)| -> Job {
            let (tree, trace) = (Arc::clone(&tree), Arc::clone(&trace));
            let all = Arc::clone(&answers);
            Box::new(move || {
                for (i, ask) in asks.into_iter().enumerate() {
                    breathe();
                    let found = ask.run((32 * thread + i) as u64, &trace, &*tree);
                    let mut all = all.lock().expect("no panic inside");
                    match (&mut *all, found) {
                        (Ok(all), Ok(found)) => all.extend(found),
                        (Ok(_), Err(what)) => *all = Err(what),
                        (Err(_), _) => {}
                    }
                }
            })
        });
        let (horizon, writes) = plan.horizons;
        let policy = Policy { seed, horizon, writes, ..Policy::default() };
        let ran = self.scheduler.run(&policy, jobs.collect()).map_err(|f| f.to_string())?;
        let record = Arc::into_inner(trace).expect("the jobs have ended").finish();
        let answers = Arc::into_inner(answers).expect("the jobs have ended");
        let answers = answers.into_inner().expect("no panic inside")?;
        let history = History::new(&self.grounds[ground].entries, &record, answers);
        Ok(Finished { tree, record, history, ran })
    }

    /// Whether the history has an order, without a crash and with each.
    fn judge(&mut self, seed: u64, ground: usize, finished: &Finished<K::Tree>) -> Verdict<()> {
        let Finished { tree, record, history, ran } = finished;
        history.outcomes()?.admit(&all(&**tree)?).map_err(|what| format!("in the end, {what}"))?;
        let after = sound(K::report(tree))?.nodes_by_level;
        let mut outcomes: Option<(usize, Verdict<Outcomes>)> = None;
        let recover = |sim: &Arc<Sim>| {
            let tree = R::open(sim).map_err(|e| e.to_string())?;
            let entries = all(&tree)?;
            let report = sound(R::report(&tree))?;
            if report.entries == entries.len() as u64 {
                Ok(entries)
            } else {
                Err(format!("{} entries counted, {} found", report.entries, entries.len()))
            }
        };
        let verify = |entries: Vec<(u64, u64)>, _: &Arc<Sim>, crash: &CrashPoint<'_>| {
            let at = crash.event();
            if outcomes.as_ref().is_none_or(|(known, _)| *known != at) {
                let cut = history.cut(at);
                let cut = if K::READS_ARE_DURABLE { cut } else { cut.without_reads() };
                outcomes = Some((at, cut.outcomes()));
            }
            match &outcomes {
                Some((_, Ok(outcomes))) => outcomes.admit(&entries),
                Some((_, Err(what))) => Err(what.clone()),
                None => unreachable!("just made"),
            }
        };
        let explorer = Explorer::new().depth(1).seed(seed).exhaustive(8).samples(8);
        let stats = explorer.explore(record, recover, verify).map_err(|f| f.to_string())?;
        self.happened.see(ran, stats, &self.grounds[ground].nodes_by_level, &after);
        Ok(())
    }
}
