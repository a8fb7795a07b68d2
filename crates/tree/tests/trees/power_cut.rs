//! Power cuts of whole trees on the file medium, at any call, also during recovery and close, and
//! calls that fail: what comes back is the tree as it was at the end of an epoch, no acknowledged
//! epoch is missing, and nothing is damaged or leaks.
//!
//! `EVERLEAF_SCALE` says how many cuts (default 2,000), `EVERLEAF_SEED` replays one run.

use everleaf_testing::{count, seed};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use everleaf_file::File;
use everleaf_file::FileOptions;
use everleaf_file::io::{Fault, SimIo};
use everleaf_pmem::{Error, Result};
use everleaf_tree::blink::Condition;
use everleaf_tree::{CircTree, FilePool, SlottedTree, StringTree};

use crate::cut::{Model, Rng, Subject, compare, inspect};

const PATH: &str = "/pool/p.ever";

/// Counts of what all runs of the test have done and met.
#[derive(Debug, Default)]
struct Tally {
    cuts: u64,
    operations: u64,
    full: u64,
    closes: u64,
    checkpoints: u64,
    /// Failed calls that stopped writes, failed one operation, failed an open or a close.
    stopped: u64,
    failed: u64,
    between: u64,
    missing_entries: u64,
    most_levels: usize,
    most_pages: u32,
}

impl Tally {
    fn add(&mut self, other: &Tally) {
        self.cuts += other.cuts;
        self.operations += other.operations;
        self.full += other.full;
        self.closes += other.closes;
        self.checkpoints += other.checkpoints;
        self.stopped += other.stopped;
        self.failed += other.failed;
        self.between += other.between;
        self.missing_entries += other.missing_entries;
        self.most_levels = self.most_levels.max(other.most_levels);
        self.most_pages = self.most_pages.max(other.most_pages);
    }
}

struct Open<T> {
    file: FilePool,
    tree: T,
}

impl<T> Open<T> {
    fn medium(&self) -> &File {
        self.file.pool().medium()
    }

    /// As a kill does.
    fn abandon(self) {
        self.medium().abandon();
    }
}

struct Run {
    rng: Rng,
    io: SimIo,
    model: Model,
    tally: Tally,
    options: FileOptions,
    seed: u64,
    /// Of 100 operations, how many insert or update; the other ones remove.
    growth: u64,
    /// Of 100 values, how many are large.
    large: u64,
    kind: &'static str,
    /// The call that is to fail.
    fault: Option<u64>,
}

impl Run {
    fn what(&self) -> String {
        format!("EVERLEAF_SEED={} ({}, cut {})", self.seed, self.kind, self.tally.cuts)
    }

    /// How the process ends: mostly by a power cut, sometimes it is only killed, so that what it
    /// wrote can be read but is not durable.
    fn end(&mut self) -> Option<u64> {
        let seed = self.rng.next();
        (self.rng.below(4) != 0).then_some(seed)
    }

    fn cut_within(&mut self, calls: u64) {
        let (calls, end) = (self.rng.below(calls), self.end());
        self.io.cut_at(self.io.calls() + calls, end);
    }

    /// Lets one of the next calls fail.
    fn fail_within(&mut self, calls: u64) {
        let call = self.io.calls() + self.rng.below(calls);
        let faults = [Fault::Io, Fault::NoSpace, Fault::LostSync];
        self.io.fail_at(call, faults[self.rng.below(3) as usize]);
        self.fault = Some(call);
    }

    fn fail_no_more(&mut self) {
        self.io.fail_at(u64::MAX, Fault::Io);
        self.fault = None;
    }

    /// The error was one that had to be expected.
    fn expect(&mut self, error: &Error) {
        let struck = self.fault.take().is_some_and(|call| call < self.io.calls());
        assert!(struck, "{}: {error}", self.what());
        let cause = if let Error::Poisoned { cause } = error { cause } else { error };
        assert!(matches!(cause, Error::Io { .. }), "{}: {error}", self.what());
    }

    /// One random operation; what it answers must be what the model knows. Returns its epoch.
    ///
    /// # Errors
    /// That of a call which failed; then nothing was stored.
    fn operate<T: Subject>(&mut self, tree: &T) -> Result<Option<u64>> {
        self.tally.operations += 1;
        let key = T::random_key(&mut self.rng);
        let old = self.model.now.get(&key).cloned();
        let put = self.rng.below(100) < self.growth;
        let (answer, value, done) = if put {
            let value = T::random_value(&mut self.rng, self.large);
            let condition =
                [Condition::Always, Condition::Always, Condition::Present, Condition::Absent];
            let condition = condition[self.rng.below(4) as usize];
            let done = condition == Condition::Always
                || (condition == Condition::Present) == old.is_some();
            (tree.put(&key, &value, condition), Some(value), done)
        } else {
            (tree.remove(&key), None, old.is_some())
        };
        let (found, epoch) = match answer {
            Ok(wrote) => wrote,
            // Then nothing was stored, which the next comparison sees.
            Err(Error::Full { .. }) if put => {
                self.tally.full += 1;
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        assert_eq!(found, old, "{}: the old value", self.what());
        assert_eq!(epoch.is_some(), done, "{}", self.what());
        if let Some(epoch) = epoch {
            self.model.set(epoch, &key, value.as_deref());
        }
        Ok(epoch)
    }

    fn batch<T: Subject>(&mut self, open: &Open<T>) -> Result<()> {
        let _hold = open.medium().pin_epoch();
        let mut epochs: Vec<u64> = Vec::new();
        for _ in 0..2 + self.rng.below(7) {
            // The part that was done of it must never be durable.
            epochs.extend(self.operate(&open.tree).inspect_err(|e| open.medium().poison(e))?);
        }
        assert!(epochs.windows(2).all(|e| e[0] == e[1]), "{}: {epochs:?}", self.what());
        Ok(())
    }

    /// One thing that a process does with its pool.
    fn act<T: Subject>(&mut self, open: &Open<T>, ticks: u64) -> Result<()> {
        let file = open.medium();
        match self.rng.below(100) {
            0 => self.checkpoint(open)?,
            n if n <= ticks => file.tick()?,
            n if n <= 2 * ticks && file.checkpoint_due() => self.checkpoint(open)?,
            n if n <= 2 * ticks + 4 => self.batch(open)?,
            99 => {
                let key = T::random_key(&mut self.rng);
                let (found, wanted) = (open.tree.get(&key)?, self.model.now.get(&key));
                assert_eq!(found.as_ref(), wanted, "{}", self.what());
            }
            98 => file.sync()?,
            _ => drop(self.operate(&open.tree)?),
        }
        Ok(())
    }

    fn checkpoint<T>(&mut self, open: &Open<T>) -> Result<()> {
        self.tally.checkpoints += 1;
        open.file.drain()?;
        open.medium().checkpoint()
    }

    /// Uses the pool until the process ends. Returns the disk that it leaves, and the acknowledged
    /// and the running epoch.
    fn use_until_cut<T: Subject>(&mut self, open: &Open<T>) -> (SimIo, u64, u64) {
        let calls = [10, 60, 300][self.rng.below(3) as usize];
        self.cut_within(calls);
        if self.rng.below(5) == 0 {
            self.fail_within(calls);
        }
        let ticks = 1 + self.rng.below(12);
        let steps = if self.rng.below(3) == 0 { self.rng.below(100) } else { u64::MAX };
        if self.rng.below(4) == 0 {
            self.growth = [5, 60, 90, 97, 97][self.rng.below(5) as usize];
            self.large = [0, 0, 5, 30][self.rng.below(4) as usize];
        }
        let mut step = 0;
        loop {
            let acknowledged = open.medium().durable_epoch();
            let mut running = open.medium().clock();
            let mut cut =
                if step == steps { Some(self.io.power_cut(self.rng.next())) } else { None };
            if cut.is_none() {
                let done = self.act(open, ticks);
                cut = self.io.take_cut();
                let stopped = done.is_err_and(|error| self.failed(open, &error));
                // A batch that has failed stops writes in the epoch that must not be there.
                let is_void = stopped && open.medium().clock() == running;
                running = if is_void { running - 1 } else { open.medium().clock() };
                if stopped && cut.is_none() {
                    cut = Some(self.io.power_cut(self.rng.next()));
                }
            }
            if let Some(cut) = cut {
                self.tally.cuts += 1;
                return (cut, acknowledged, running);
            }
            step += 1;
        }
    }

    /// A call has failed: writes have stopped, then this is so, or go on. Reads do in either case.
    fn failed<T: Subject>(&mut self, open: &Open<T>, error: &Error) -> bool {
        self.expect(error);
        let stopped = open.medium().poisoned().is_some();
        if stopped {
            self.tally.stopped += 1;
            let refused = [open.medium().sync(), open.medium().checkpoint()];
            let all = refused.iter().all(|r| matches!(r, Err(Error::Poisoned { .. })));
            assert!(all, "{}: {refused:?}", self.what());
        } else {
            self.tally.failed += 1;
        }
        compare(&open.tree, &self.model.now, &self.what());
        stopped
    }

    /// Closes the pool, which a cut may interrupt, and opens it again.
    fn close<T: Subject>(&mut self, mut open: Open<T>) -> Open<T> {
        match self.rng.below(4) {
            0 | 1 => self.cut_within(30),
            2 => self.fail_within(30),
            _ => {}
        }
        let (durable, running) = (open.medium().durable_epoch(), open.medium().clock());
        let closed = open.file.close();
        // A close ends its epoch, and one more for what it does itself.
        let running = running.max(open.medium().clock() - 1);
        let mut cut = self.io.take_cut();
        if let Err(error) = &closed {
            self.expect(error);
            self.tally.between += 1;
            cut = cut.or_else(|| Some(self.io.power_cut(self.rng.next())));
        }
        drop(open);
        match cut {
            None => {
                self.tally.closes += 1;
                self.recover(running, running)
            }
            Some(cut) => {
                self.io = cut;
                self.tally.cuts += 1;
                self.recover(durable, running)
            }
        }
    }

    fn open_once<T: Subject>(&self) -> Result<Open<T>> {
        let io = Arc::new(self.io.clone());
        let file = FilePool::open_for::<T::Kind>(io, Path::new(PATH), &self.options)?;
        let tree = T::open(file.pool())?;
        Ok(Open { file, tree })
    }

    /// Opens the pool without writing, as a tool would after a crash; answers the epoch.
    fn look<T: Subject>(&mut self, acknowledged: u64) -> Option<u64> {
        self.io.peek(Path::new(PATH))?;
        let what = format!("{}, read-only", self.what());
        let files = |io: &SimIo| io.peek(Path::new(PATH));
        let before = files(&self.io);
        let options = FileOptions { read_only: true, create: false, ..self.options.clone() };
        let io = Arc::new(self.io.clone());
        let file = FilePool::open_for::<T::Kind>(io, Path::new(PATH), &options);
        let file = file.unwrap_or_else(|e| panic!("{what}: {e}"));
        let epoch = file.pool().medium().durable_epoch();
        if !file.is_blank()
            && file.pool().anchor(everleaf_tree::INDEX_ANCHOR).expect("it reads") != 0
        {
            let tree = T::open(file.pool()).unwrap_or_else(|e| panic!("{what}: {e}"));
            let wanted = self.model.at(epoch);
            compare(&tree, &wanted, &what);
            inspect(file.pool(), &tree, wanted.len(), &what);
        }
        assert!(epoch >= self.model.last_change(acknowledged), "{what}: epoch {epoch}");
        drop(file);
        assert!(files(&self.io) == before, "{what}: wrote");
        Some(epoch)
    }

    /// Opens the pool; the power may be cut while it does, and while it is looked through, again
    /// and again.
    fn recover<T: Subject>(&mut self, mut acknowledged: u64, mut running: u64) -> Open<T> {
        loop {
            self.fail_no_more();
            let seen = if self.rng.below(6) == 0 { self.look::<T>(acknowledged) } else { None };
            match self.rng.below(9) {
                0..3 => self.cut_within(80),
                3 => self.fail_within(80),
                _ => {}
            }
            let what = self.what();
            let open = match self.open_once::<T>() {
                Ok(open) => open,
                Err(error) => {
                    self.expect(&error);
                    self.tally.between += 1;
                    if let Some(cut) = self.io.take_cut() {
                        self.tally.cuts += 1;
                        self.io = cut;
                    } else if self.rng.below(2) == 0 {
                        self.io = self.io.power_cut(self.rng.next());
                        self.tally.cuts += 1;
                    }
                    continue;
                }
            };
            self.fail_no_more();
            let epoch = open.medium().durable_epoch();
            let needed = self.model.last_change(acknowledged);
            assert!(epoch >= needed, "{what}: {needed} was acknowledged, {epoch} recovered");
            assert!(epoch <= running, "{what}: {epoch} recovered, {running} was running");
            assert!(seen.is_none_or(|seen| seen == epoch), "{what}: {seen:?} and {epoch}");
            let mut cut = self.io.take_cut();
            if cut.is_none() {
                // The epoch that an open has found and called durable stays; the open's own epochs come after it.
                self.model.cut(epoch);
                acknowledged = epoch;
                self.look_through(&open, &what);
                running = open.medium().clock();
                cut = self.io.take_cut();
            }
            let Some(cut) = cut else { return open };
            open.abandon();
            self.io = cut;
            self.tally.cuts += 1;
        }
    }

    /// Compares a pool just opened with the model and checks it, in any order with the upkeep.
    fn look_through<T: Subject>(&mut self, open: &Open<T>, what: &str) {
        let drain_first = self.rng.below(2) == 0;
        if drain_first {
            open.file.drain().unwrap_or_else(|e| panic!("{what}: {e}"));
        }
        if self.rng.below(6) == 0 {
            // Into use as it is: the next comparison covers it.
            return;
        }
        compare(&open.tree, &self.model.now, what);
        let entries = self.model.now.len();
        let report = inspect(open.file.pool(), &open.tree, entries, what);
        self.tally.missing_entries += report.missing_entries;
        self.tally.most_levels = self.tally.most_levels.max(report.nodes_by_level.len());
        let stats = open.file.pool().stats().expect("the map was read");
        self.tally.most_pages = self.tally.most_pages.max(self.options.max_pages - stats.free);
        if self.rng.below(3) == 0 {
            self.checkpoint(open).unwrap_or_else(|e| panic!("{what}: {e}"));
        }
    }

    fn go<T: Subject>(seed: u64, generations: u64) -> Tally {
        let mut rng = Rng(seed);
        let options = FileOptions {
            slots: T::SLOTS,
            max_pages: [140, 260, 2000][rng.below(3) as usize],
            journal_bytes: [32 << 10, 96 << 10][rng.below(2) as usize],
            spill_bytes: [2 << 20, 1000, 1][seed as usize % 3],
            create: true,
            background: false,
            ..FileOptions::default()
        };
        let (io, model, kind) = (SimIo::new(seed), Model::default(), T::NAME);
        let (tally, fault) = (Tally::default(), None);
        let mut run =
            Run { rng, io, model, tally, options, seed, growth: 97, large: 0, kind, fault };
        let mut open = run.recover::<T>(0, 1);
        for _ in 0..generations {
            if run.rng.below(8) == 0 {
                open = run.close(open);
            }
            let (cut, acknowledged, running) = run.use_until_cut(&open);
            open.abandon();
            run.io = cut;
            open = run.recover(acknowledged, running);
        }
        open.abandon();
        run.tally
    }
}

fn run(seed: u64) -> Tally {
    everleaf_testing::at_seed(seed);
    match seed % 4 {
        0 => Run::go::<CircTree<File>>(seed, 24),
        1 => Run::go::<StringTree<File>>(seed, 24),
        _ => Run::go::<SlottedTree<File>>(seed, 24),
    }
}

/// Runs seeds on all cores until there were so many cuts.
fn run_all(wanted: u64) -> Tally {
    let (tally, cuts, seeds) = (Mutex::new(Tally::default()), AtomicU64::new(0), AtomicU64::new(1));
    let work = || {
        while cuts.load(Ordering::Relaxed) < wanted {
            let done = run(seeds.fetch_add(1, Ordering::Relaxed));
            cuts.fetch_add(done.cuts, Ordering::Relaxed);
            tally.lock().expect("no panic").add(&done);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    tally.into_inner().expect("no panic")
}

#[test]
fn a_power_cut_leaves_a_whole_tree_at_the_end_of_an_epoch() {
    if let Some(seed) = seed() {
        println!("{:?}", run(seed));
        return;
    }
    let start = Instant::now();
    let tally = run_all(count(2_000, 40_000));
    let rate = tally.cuts as f64 / start.elapsed().as_secs_f64();
    println!("{} cuts, {rate:.0} a second; {tally:?}", tally.cuts);
    assert!(tally.most_levels > 3 && tally.closes > 0 && tally.checkpoints > 0, "{tally:?}");
    assert!(tally.stopped > 0 && tally.failed > 0 && tally.between > 0, "{tally:?}");
}
