//! Trees on the file medium under threads whose order a seed decides: writers, one that syncs, one
//! that reads, one that writes checkpoints. The disk's calls are points of the schedule, and the
//! power is cut before some of them. The history must have an order that each epoch cuts, and what is
//! recovered must be the end of an epoch, no older than what was acknowledged.

pub mod disk;
pub mod door;

use std::collections::HashMap;
use std::fmt::Write as _;
use std::marker::PhantomData;
use std::ops::Bound::Unbounded;
use std::path::Path;
use std::sync::{Arc, Mutex};

use everleaf_crash_check::history::Outcomes;
use everleaf_crash_check::schedule::{Job, Policy, Ran, Scheduler, breathe};
use everleaf_crash_check::trace::respond_mark;
use everleaf_crash_check::{Answer, Answers, MapOp, Recording};
use everleaf_file::io::{Io, SimIo};
use everleaf_file::{File, FileOptions};
use everleaf_pmem::sim::Event;
use everleaf_pmem::{Error, Result};
use everleaf_pool::{ExtentIo, Hooks, KeptExtents, Pool};
use everleaf_tree::blink::{Blink, Condition};
use everleaf_tree::node::NodeChecks;
use everleaf_tree::{NamedPages, compare, leaks};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use disk::{Cut, Disk, Run, Wrong};
use door::{Door, Map};

const PATH: &str = "/pool/p.ever";
const THREADS: usize = 5;
/// Keys that operations name.
const KEYS: u64 = 14;
/// Calls of one thread, at most.
const CALLS: u64 = 16;
const GROUNDS: u64 = 48;

type Verdict<T> = std::result::Result<T, String>;

/// The next request of a thread.
#[derive(Debug, Clone, Copy)]
enum Ask {
    One(MapOp),
    /// A write, and then that its epoch is durable.
    Durable(MapOp),
    /// Two writes in one epoch.
    Batch(MapOp, MapOp),
    /// All keys, upwards or downwards.
    Scan(bool),
    Sync,
    Checkpoint,
    /// All of the pool, held against what the tree names.
    Check,
}

/// A pool that is open, and its tree.
struct Open<M: Door, T> {
    pool: Arc<Pool<M>>,
    tree: T,
}

fn open<M: Door, T: Map<M>>(io: Arc<dyn Io>) -> Result<Open<M, T>> {
    let options = FileOptions {
        slots: T::SLOTS,
        layout_hash: <T::Kind as NodeChecks>::HASH,
        // Several groups of pages, so that extents have one.
        max_pages: 300.max(36 * T::SLOTS),
        journal_bytes: 32 << 10,
        // Long epochs are spilled, and short ones not.
        spill_bytes: 600,
        create: true,
        background: false,
        gap: everleaf_tree::page_use::<T::Kind>,
        ..FileOptions::default()
    };
    let medium = M::around(File::open(io, Path::new(PATH), &options)?);
    let hooks = Hooks {
        durable: |m: &M| m.file().durable_epoch(),
        extents: Some(ExtentIo {
            write: |m: &M, first, offset, bytes| m.file().extent_write(first, offset, bytes),
            read: |m: &M, first, offset, buf| m.file().extent_read(first, offset, buf),
            adopt: |m: &M, op, first, pages| m.adopt(op, first, pages),
            forget: |m: &M, op, first, pages| m.forget(op, first, pages),
            kept: Some(KeptExtents {
                lend: |m: &M, name| m.file().value_lend(name),
                prefetch: |_, _, _| {},
                ticket: |m: &M, name| m.file().value_ticket(name),
                copy: |m: &M, parts| m.file().value_copy(parts),
                keep: |m: &M, name, ticket, pair| m.file().value_keep(name, ticket, pair),
                forget: |m: &M, name| m.file().value_forget(name),
            }),
            most: everleaf_tree::most_in_record,
            release: |m: &M, first, pages| m.file().extent_release(first, pages),
            discard: |m: &M, first, pages| m.file().extent_discard(first, pages),
        }),
        ..Blink::<M, T::Kind>::hooks()
    };
    let fresh = medium.file().is_fresh();
    let pool = if fresh { Pool::format(medium, hooks) } else { Pool::open(medium, hooks) };
    let pool = Arc::new(pool?);
    Ok(Open { tree: T::open(&pool)?, pool })
}

impl<M: Door, T: Map<M>> Open<M, T> {
    fn file(&self) -> &File {
        self.pool.medium().file()
    }

    fn entries(&self) -> Verdict<Vec<(u64, u64)>> {
        self.tree.range(Unbounded, Unbounded, usize::MAX).map_err(|e| e.to_string())
    }

    fn drain(&self) -> Result<()> {
        self.pool.drain(|| true)
    }

    /// Looks at every byte; answers the number of leaves.
    fn inspect(&self, entries: usize) -> Verdict<u64> {
        let report = self.tree.check().map_err(|e| e.to_string())?;
        let damages: Vec<_> = report.damages.iter().map(|d| format!("{d:?}")).collect();
        let damages = [damages, self.pool.check().iter().map(|d| format!("{d:?}")).collect()];
        if damages.iter().any(|list| !list.is_empty()) {
            return Err(format!("{damages:?}"));
        }
        if report.entries != entries as u64 {
            return Err(format!("{} entries counted, {entries} found", report.entries));
        }
        let lost = leaks(&self.pool, std::slice::from_ref(&report)).map_err(|e| e.to_string())?;
        if lost == Default::default() {
            Ok(report.nodes_by_level[0])
        } else {
            Err(format!("{lost:?}"))
        }
    }
}

impl Ask {
    /// Does it as call `id`.
    fn run<M: Door, T: Map<M>>(
        self,
        id: u64,
        run: &Run,
        open: &Open<M, T>,
        answers: &Mutex<Answers>,
    ) -> Result<()> {
        let (mut found, mut acknowledged) = (Vec::new(), None);
        let file = open.file();
        match self {
            Ask::One(op) => found.push(run.op(id, || one(&open.tree, id, op))?),
            Ask::Durable(op) => {
                let answer = run.op(id, || one(&open.tree, id, op))?;
                found.push(answer);
                if answer.epoch > 0 {
                    run.acknowledged(id + CALLS / 2, || file.wait_durable(answer.epoch))?;
                    acknowledged = Some((id + CALLS / 2, answer.epoch));
                }
            }
            Ask::Batch(a, b) => {
                let _hold = file.pin_epoch();
                for (op, id) in [(a, id), (b, id + CALLS / 2)] {
                    found.push(run.op(id, || one(&open.tree, id, op))?);
                }
            }
            Ask::Scan(upwards) => {
                let entries = run.op(id, || match upwards {
                    true => open.tree.range(Unbounded, Unbounded, usize::MAX),
                    false => open.tree.range_back(Unbounded, Unbounded, usize::MAX),
                });
                let entries: HashMap<u64, u64> = entries?.into_iter().collect();
                let get = |key| (MapOp::Get(key), entries.get(&key).copied());
                let reads = (0..KEYS).map(get);
                found.extend(reads.map(|(op, old)| Answer { id, op, old, epoch: 0 }));
            }
            Ask::Sync => {
                let hasty = run.wrong() == Wrong::HastySync;
                let before = file.clock() - u64::from(hasty);
                run.acknowledged(id, || if hasty { Ok(()) } else { file.sync() })?;
                acknowledged = Some((id, before));
            }
            Ask::Checkpoint => {
                disk::checkpoint(|| open.drain().and_then(|()| file.checkpoint()))?;
            }
            Ask::Check => {
                let (mut damages, look) = open.pool.look()?;
                let report = open.tree.check()?;
                let has_node = |no| open.tree.has_node(no);
                let mut named = NamedPages::default();
                named.add(&report)?;
                damages.extend(look.anchors(|no| named.has_anchor(no))?);
                damages.extend(compare(&look, &named, has_node, true)?);
                damages.extend(report.damages);
                if !damages.is_empty() {
                    let what = format!("a check beside writers: {damages:?}");
                    return Err(Error::Invalid { what });
                }
            }
        }
        let mut answers = answers.lock().expect("no panic inside");
        answers.all.extend(found);
        answers.acknowledged.extend(acknowledged);
        Ok(())
    }
}

fn one<M: Door>(tree: &impl Map<M>, id: u64, op: MapOp) -> Result<Answer> {
    let put = match op {
        MapOp::Get(key) => {
            return Ok(Answer { id, op, old: tree.get(key)?, epoch: 0 });
        }
        MapOp::Insert(key, value) => tree.put(key, value, Condition::Always)?,
        MapOp::Update(key, value) => tree.put(key, value, Condition::Present)?,
        MapOp::Remove(key) => tree.take(key)?,
    };
    Ok(Answer { id, op, old: put.old, epoch: put.epoch.unwrap_or_default() })
}

/// The requests of each thread, and where it is preempted.
struct Plan {
    asks: Vec<Vec<Ask>>,
    horizons: (u64, u64),
    /// All pages are in memory before the threads run.
    warm: bool,
}

impl Plan {
    fn new(rng: &mut Xoshiro256PlusPlus) -> Self {
        let (hot, width) = (rng.random_range(0..KEYS), rng.random_range(1..=5));
        let removes = [1, 5, 8][rng.random_range(0..3)];
        let mut value = 1000;
        let mut write = |rng: &mut Xoshiro256PlusPlus| {
            let near = if rng.random_bool(0.15) { KEYS } else { width };
            let key = (hot + rng.random_range(0..near)) % KEYS;
            value += 1;
            match rng.random_range(0..12) {
                0 => MapOp::Update(key, value),
                n if n <= removes => MapOp::Remove(key),
                _ => MapOp::Insert(key, value),
            }
        };
        let mut asks = Vec::new();
        for _ in 0..2 {
            let mut own = Vec::new();
            for _ in 0..rng.random_range(2..=5) {
                own.push(match rng.random_range(0..10) {
                    0 => Ask::Batch(write(rng), write(rng)),
                    1 | 2 => Ask::Durable(write(rng)),
                    _ => Ask::One(write(rng)),
                });
            }
            asks.push(own);
        }
        asks.push(vec![Ask::Sync; rng.random_range(1..=3)]);
        if rng.random_bool(0.6) {
            asks.push(vec![Ask::Checkpoint; rng.random_range(1..=2)]);
        }
        if rng.random_bool(0.6) {
            let read = |_| match rng.random_range(0..6) {
                0 => Ask::Scan(true),
                1 => Ask::Scan(false),
                2 => Ask::Check,
                _ => Ask::One(MapOp::Get((hot + rng.random_range(0..width)) % KEYS)),
            };
            asks.push((0..3).map(read).collect());
        }
        let horizons = [(100, 40), (600, 150), (2500, 500)][rng.random_range(0..3)];
        Self { asks, horizons, warm: rng.random_bool(0.5) }
    }
}

/// Counts over all schedules together.
#[derive(Debug, Clone, Copy, Default)]
pub struct Happened {
    pub schedules: u64,
    /// Power cuts that were recovered from, and those of a recovery.
    pub cuts: u64,
    pub in_recovery: u64,
    /// Cuts that took writes back which had returned.
    pub took_back: u64,
    pub steps: u64,
    pub turns: u64,
    pub checkpoints: u64,
    pub commits: u64,
    /// Runs that ended with more leaves than they began with, or with fewer.
    pub split: u64,
    pub merged: u64,
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

/// A disk that schedules start from: all that it has is durable.
struct Ground {
    io: SimIo,
    entries: Vec<(u64, u64)>,
    leaves: u64,
}

impl Ground {
    /// Filled and drained; closed, or left with a journal.
    fn new<T: Map<File>>(seed: u64) -> Self {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let io = SimIo::new(seed);
        let open: Open<File, T> = open(Arc::new(io.clone())).expect("space");
        for value in 0..rng.random_range(0..3 * KEYS) {
            let key = rng.random_range(0..KEYS);
            match rng.random_bool(0.7) {
                true => drop(open.tree.put(key, value, Condition::Always).expect("space")),
                false => drop(open.tree.take(key).expect("space")),
            }
            if rng.random_bool(0.1) {
                open.file().checkpoint().expect("a disk");
            }
        }
        let entries = open.entries().expect("memory");
        let leaves = open.inspect(entries.len()).expect("a sound tree");
        match rng.random_bool(0.5) {
            true => open.file().close().expect("a disk"),
            false => open.file().sync().expect("a disk"),
        }
        open.file().abandon();
        Self { io: io.power_cut(seed), entries, leaves }
    }
}

/// A run that has ended.
struct Finished {
    record: Recording,
    cuts: Vec<Cut>,
    answers: Answers,
    ran: Ran,
}

/// Runs schedules of trees of type `T` on medium `M`; what crashes leave is recovered by `R`.
pub struct Bench<M, T, R> {
    scheduler: Scheduler,
    grounds: Vec<Ground>,
    wrong: Wrong,
    pub happened: Happened,
    _types: PhantomData<(M, T, R)>,
}

impl<M: Door, T: Map<M>, R: Map<File>> Bench<M, T, R> {
    pub fn new(wrong: Wrong) -> Self {
        let grounds = (0..GROUNDS).map(Ground::new::<R>).collect();
        let (scheduler, happened) = (Scheduler::new(THREADS), Happened::default());
        Self { scheduler, grounds, wrong, happened, _types: PhantomData }
    }

    /// Runs the schedules of some seeds, up to the first that goes wrong.
    pub fn run(&mut self, seeds: std::ops::Range<u64>) -> std::result::Result<(), Failure> {
        seeds.into_iter().try_for_each(|seed| self.schedule(seed))
    }

    fn schedule(&mut self, seed: u64) -> std::result::Result<(), Failure> {
        everleaf_testing::at_seed(seed);
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let ground = rng.random_range(0..self.grounds.len());
        let plan = Plan::new(&mut rng);
        let failure = |what: String| {
            let mut what = format!("seed {seed}: {what}\n  warm: {}", plan.warm);
            for (thread, asks) in plan.asks.iter().enumerate() {
                write!(what, "\n  thread {thread}: {asks:?}").expect("a string");
            }
            Failure { seed, what }
        };
        let finished = self.finish(seed, ground, &plan).map_err(failure)?;
        let judged = self.judge(seed, &finished);
        judged.map_err(|what| failure(format!("{what}\n  {}", finished.ran)))
    }

    /// Runs the threads to their ends, and judges what they were answered.
    fn finish(&mut self, seed: u64, ground: usize, plan: &Plan) -> Verdict<Finished> {
        let error = |e: everleaf_pmem::Error| e.to_string();
        let ground = &self.grounds[ground];
        let run = Run::new(ground.io.power_cut(seed), self.wrong, seed);
        let open: Arc<Open<M, T>> = Arc::new(open(Arc::new(Disk(run.clone()))).map_err(error)?);
        if plan.warm {
            open.drain().map_err(error)?;
            open.entries()?;
        }
        run.arm();
        let answers = Answers { initial: ground.entries.clone(), ..Answers::default() };
        let answers = Arc::new(Mutex::new(answers));
        let trouble = Arc::new(Mutex::new(None));
        let jobs = plan.asks.iter().cloned().zip(0..).map(|(asks, thread)| -> Job {
            let (open, run) = (Arc::clone(&open), Arc::clone(&run));
            let (answers, trouble) = (Arc::clone(&answers), Arc::clone(&trouble));
            Box::new(move || {
                for (ask, i) in asks.into_iter().zip(0..) {
                    breathe();
                    if let Err(error) = ask.run(CALLS * thread + i, &run, &open, &answers) {
                        let mut trouble = trouble.lock().expect("no panic inside");
                        trouble.get_or_insert_with(|| format!("{ask:?}: {error}"));
                    }
                }
            })
        });
        let (horizon, writes) = plan.horizons;
        let policy = Policy { seed, horizon, writes, ..Policy::default() };
        let ran = self.scheduler.run(&policy, jobs.collect()).map_err(|f| f.to_string());
        let (events, cuts) = run.finish();
        let entries = open.entries();
        let leaves = entries.as_ref().map(|entries| open.inspect(entries.len()));
        let stats = open.file().stats();
        open.file().abandon();
        if let Some(what) = trouble.lock().expect("no panic inside").take() {
            return Err(what);
        }
        let (ran, entries, leaves) = (ran?, entries.clone()?, leaves.map_err(Clone::clone)??);
        let (geometry, limit) = (open.pool.geometry(), open.pool.medium().limit());
        let record = Recording { geometry, limit, initial: Vec::new(), events };
        let answers = std::mem::take(&mut *answers.lock().expect("no panic inside"));
        answers.linearizable(&record)?;
        let admitted = answers.whole(&record).outcomes()?.admit(&entries);
        admitted.map_err(|what| format!("in the end, {what}"))?;
        let happened = &mut self.happened;
        happened.schedules += 1;
        happened.steps += ran.steps;
        happened.turns += ran.turns.len() as u64;
        happened.checkpoints += stats.checkpoints;
        happened.commits += stats.commits;
        happened.split += u64::from(leaves > ground.leaves);
        happened.merged += u64::from(leaves < ground.leaves);
        happened.see_epochs(&answers);
        Ok(Finished { record, cuts, answers, ran })
    }

    /// Whether each cut leaves the end of an epoch, and all that was acknowledged before it.
    fn judge(&mut self, seed: u64, finished: &Finished) -> Verdict<()> {
        let Finished { record, cuts, answers, .. } = finished;
        let mut outcomes: HashMap<u64, Verdict<Outcomes>> = HashMap::new();
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(!seed);
        for cut in cuts {
            let mut disk = cut.io.clone();
            let mut in_recovery = 0;
            loop {
                if in_recovery < 2 && rng.random_bool(0.3) {
                    disk.cut_at(disk.calls() + rng.random_range(0..12), Some(rng.random()));
                }
                self.recover(&disk, cut, record, answers, &mut outcomes).map_err(|what| {
                    let (at, calls) = (cut.at, cut.call);
                    let within = format!("{in_recovery} more in recovery");
                    format!("power cut after {at} marks and {calls} calls, {within}: {what}")
                })?;
                let Some(next) = disk.take_cut() else { break };
                self.happened.in_recovery += 1;
                (disk, in_recovery) = (next, in_recovery + 1);
            }
            self.happened.cuts += 1;
        }
        Ok(())
    }

    fn recover(
        &mut self,
        disk: &SimIo,
        cut: &Cut,
        record: &Recording,
        answers: &Answers,
        outcomes: &mut HashMap<u64, Verdict<Outcomes>>,
    ) -> Verdict<()> {
        let open: Open<File, R> = open(Arc::new(disk.clone())).map_err(|e| e.to_string())?;
        let durable = open.file().durable_epoch();
        let responded: Vec<u64> = (0..CALLS * THREADS as u64)
            .filter(|id| has_mark(&record.events[..cut.at], respond_mark(*id)))
            .collect();
        // An epoch in which nothing was written leaves no trace.
        let floor = answers.floor(&responded);
        let epochs = || answers.all.iter().map(|a| a.epoch);
        if let Some(missing) = epochs().find(|epoch| (durable + 1..=floor).contains(epoch)) {
            return Err(format!("{durable} is durable; {floor} was, with writes of {missing}"));
        }
        let entries = open.entries()?;
        open.inspect(entries.len())?;
        open.file().abandon();
        let until = || answers.until(record, durable).outcomes();
        let outcomes = outcomes.entry(durable).or_insert_with(until);
        let admitted = outcomes.as_ref().map_err(Clone::clone)?.admit(&entries);
        admitted.map_err(|what| format!("epoch {durable}: {what}"))?;
        let back = |a: &Answer| a.epoch > durable && responded.contains(&a.id);
        self.happened.took_back += u64::from(answers.all.iter().any(back));
        Ok(())
    }
}

fn has_mark(events: &[Event], wanted: u64) -> bool {
    events.iter().any(|event| matches!(event, Event::Mark { mark, .. } if *mark == wanted))
}

impl Happened {
    fn see_epochs(&mut self, answers: &Answers) {
        let mut epochs: Vec<u64> = answers.all.iter().map(|a| a.epoch).filter(|e| *e > 0).collect();
        epochs.sort_unstable();
        epochs.dedup();
        self.two_epochs += u64::from(epochs.len() == 2);
        self.more_epochs += u64::from(epochs.len() > 2);
    }
}
