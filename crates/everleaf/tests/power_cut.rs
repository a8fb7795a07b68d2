//! Power cuts and failing disks under a whole Db, at any call, also during commits, checkpoints, compactions,
//! closes and recovery: what comes back are all trees as they were at the end of one epoch, no
//! acknowledged epoch is missing, and nothing is damaged or leaks.
//!
//! `EVERLEAF_SCALE` says how many cuts (default 3,000), `EVERLEAF_SEED` replays one run.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use everleaf::{Error, Options};
use everleaf_file::io::SimIo;
use everleaf_testing::seed;

mod cut;
use cut::act::{Act, Done, Life, names_call, random_act};
use cut::disk::{Disk, FAULTS};
use cut::{Model, Mood, Rng, compare, count, inspect, options, with_memory};

/// The work that a process was doing when it ended, or when a call failed.
#[derive(Debug, Clone, Copy)]
enum Phase {
    Use,
    Commit,
    Checkpoint,
    Compaction,
    Close,
    Recovery,
}

type ByPhase = [u64; 6];

/// Counts of what the runs have done and met. Cuts, kills and faults are by phase.
#[derive(Debug, Default)]
struct Tally {
    cuts: ByPhase,
    kills: ByPhase,
    /// Of each kind, by phase.
    faults: [ByPhase; 3],
    /// The consequences of faults.
    failed: u64,
    stopped: u64,
    opens_failed: u64,
    acts: u64,
    full: u64,
    refused_batches: u64,
    closes: u64,
    looks: u64,
    drops: u64,
    renames: u64,
    /// Those whose steps look at what is there.
    transactions: u64,
    most_levels: u32,
    most_trees: usize,
}

impl Tally {
    fn add(&mut self, other: &Tally) {
        let add = |a: &mut ByPhase, b: &ByPhase| a.iter_mut().zip(b).for_each(|(a, b)| *a += b);
        add(&mut self.cuts, &other.cuts);
        add(&mut self.kills, &other.kills);
        self.faults.iter_mut().zip(&other.faults).for_each(|(a, b)| add(a, b));
        self.failed += other.failed;
        self.stopped += other.stopped;
        self.opens_failed += other.opens_failed;
        self.acts += other.acts;
        self.full += other.full;
        self.refused_batches += other.refused_batches;
        self.closes += other.closes;
        self.looks += other.looks;
        self.drops += other.drops;
        self.renames += other.renames;
        self.transactions += other.transactions;
        self.most_levels = self.most_levels.max(other.most_levels);
        self.most_trees = self.most_trees.max(other.most_trees);
    }

    fn ends(&self) -> u64 {
        self.cuts.iter().chain(&self.kills).sum()
    }
}

/// The state that the end of a process leaves: the disk, the last acknowledged epoch, the last one
/// that may be there.
struct End {
    disk: SimIo,
    acknowledged: u64,
    running: u64,
}

struct Run {
    rng: Rng,
    disk: Disk,
    model: Model,
    tally: Tally,
    seed: u64,
    mood: Mood,
    page_bytes: u32,
    max_bytes: u64,
    journal_bytes: u64,
    /// Whether the cut that was asked for leaves the power on.
    kill: bool,
    fault: usize,
}

impl Run {
    fn what(&self) -> String {
        format!("EVERLEAF_SEED={} (end {}, act {})", self.seed, self.tally.ends(), self.tally.acts)
    }

    fn options(&self) -> Options {
        let options = options(self.page_bytes, self.max_bytes, self.journal_bytes);
        let options = with_memory(options, self.seed);
        // In every second run all epochs are spilled but the shortest, in every fourth all.
        match self.seed / 4 % 4 {
            1 => options.pending_bytes(0),
            3 => options.pending_bytes(2000),
            _ => options,
        }
    }

    /// Ends the process within so many calls: mostly by a power cut, sometimes it is only killed, so
    /// that what it wrote can be read but is not durable.
    fn cut_within(&mut self, calls: u64) {
        self.kill = self.rng.one_in(4);
        let (calls, seed) = (self.rng.below(calls), self.rng.next());
        self.disk.sim.cut_at(self.disk.sim.calls() + calls, (!self.kill).then_some(seed));
    }

    fn take_cut(&mut self, phase: Phase) -> Option<SimIo> {
        let cut = self.disk.sim.take_cut()?;
        let count = if self.kill { &mut self.tally.kills } else { &mut self.tally.cuts };
        count[phase as usize] += 1;
        Some(cut)
    }

    /// Ends the process right now.
    fn cut_now(&mut self, phase: Phase) -> SimIo {
        if self.rng.one_in(4) {
            self.tally.kills[phase as usize] += 1;
            self.disk.sim.kill()
        } else {
            self.tally.cuts[phase as usize] += 1;
            self.disk.sim.power_cut(self.rng.next())
        }
    }

    fn fail_within(&mut self, calls: u64) {
        self.fault = self.rng.below(3) as usize;
        // Fewer calls are syncs, or writes, than calls at all.
        let calls = calls >> self.fault;
        self.disk.fail_after(self.rng.below(calls), FAULTS[self.fault]);
    }

    /// A failure has a cause, which the disk knows of, and says what was being done.
    fn expect_fault(&mut self, error: &Error, phase: Phase) {
        let (what, struck) = (self.what(), self.disk.take_struck());
        assert!(struck.is_some(), "{what}: {error}");
        names_call(error, &what);
        self.tally.faults[self.fault][phase as usize] += 1;
    }

    /// Writes have stopped: they are refused, reads go on.
    fn stopped(&mut self, life: &mut Life, error: &Error) {
        let what = self.what();
        life.refuses_writes(&self.disk, &self.model, error, &what);
        compare(&life.db, &self.model.now, self.rng.one_in(2), &what);
        self.tally.stopped += 1;
    }

    fn random_act(&mut self, commits: &mut u64) -> Act {
        let half = self.journal_bytes / 2 / 4096;
        if self.rng.one_in(150) || *commits > half && self.rng.one_in(4) {
            *commits = 0;
            return if self.rng.one_in(3) { Act::Compact } else { Act::Checkpoint };
        }
        let act = random_act(&mut self.rng, self.mood, &self.model);
        *commits += u64::from(act.is_commit());
        act
    }

    fn change_mood(&mut self) {
        self.mood.growth = self.rng.pick(&[5, 60, 90, 97, 97]);
        self.mood.large = self.rng.pick(&[0, 0, 5, 30]);
        self.mood.syncs = self.rng.pick(&[2, 6, 20]);
        if self.max_bytes > 400_000 {
            self.mood.largest = self.rng.pick(&[1, 1, 40_000]);
            self.mood.longest = self.rng.pick(&[0, 0, 0, 4]);
        }
    }

    /// Puts so much into the pool that its trees get high.
    fn load(&mut self, life: &mut Life) {
        let what = format!("{}, loading", self.what());
        self.disk.sim.cut_at(u64::MAX, None);
        for _ in 0..1500 {
            let act = random_act(&mut self.rng, self.mood, &self.model);
            if !act.is_whole() {
                let done = life.act(&mut self.model, &act, &what);
                assert!(matches!(done, Done::Well | Done::Full), "{what}: {done:?}");
            }
        }
        let levels = count(&life.db, &self.model.now, &what);
        self.tally.most_levels = self.tally.most_levels.max(levels);
    }

    /// Uses the pool until the process ends.
    fn use_until_end(&mut self, mut life: Life) -> End {
        let calls = self.rng.pick(&[10, 60, 300]);
        self.cut_within(calls);
        if self.rng.one_in(5) {
            self.fail_within(calls);
        }
        if self.rng.one_in(4) {
            self.change_mood();
        }
        let acts = if self.rng.one_in(3) { self.rng.below(100) } else { u64::MAX };
        let mut commits = 0;
        for n in 0.. {
            let acknowledged = life.db.durable_epoch();
            if n == acts {
                let disk = self.cut_now(Phase::Use);
                return self.end(life, disk, acknowledged);
            }
            let act = self.random_act(&mut commits);
            let phase = match &act {
                Act::Checkpoint => Phase::Checkpoint,
                Act::Compact => Phase::Compaction,
                act if act.is_commit() => Phase::Commit,
                _ => Phase::Use,
            };
            self.tally.acts += 1;
            let what = self.what();
            let done = life.act(&mut self.model, &act, &what);
            let cut = self.take_cut(phase);
            match &done {
                Done::Well => {
                    self.tally.drops += u64::from(matches!(act, Act::Drop(_)));
                    self.tally.renames += u64::from(matches!(act, Act::Rename(..)));
                    self.tally.transactions += u64::from(matches!(act, Act::Transaction(..)));
                }
                Done::Full => {
                    self.tally.full += 1;
                    self.tally.refused_batches += u64::from(act.is_whole());
                }
                Done::Failed(error) => {
                    self.expect_fault(error, phase);
                    self.tally.failed += 1;
                }
                Done::Stopped(error) => {
                    // Not for want of room: such a batch is refused before its first change.
                    self.expect_fault(error, phase);
                    self.stopped(&mut life, error);
                    // A commit that fails must not have been called durable.
                    let acknowledged =
                        if cut.is_none() { life.db.durable_epoch() } else { acknowledged };
                    let disk = cut.unwrap_or_else(|| self.cut_now(phase));
                    return self.end(life, disk, acknowledged);
                }
            }
            if let Some(disk) = cut {
                return self.end(life, disk, acknowledged);
            }
        }
        unreachable!("the loop has no end")
    }

    fn end(&mut self, life: Life, disk: SimIo, acknowledged: u64) -> End {
        // An epoch that the program has not ended is never there.
        let running = life.db.epoch() - 1;
        life.die(&self.disk);
        End { disk, acknowledged, running }
    }

    /// Closes the pool, which a cut may interrupt, or a failure.
    fn close(&mut self, life: Life) -> End {
        match self.rng.below(4) {
            0 => self.cut_within(30),
            1 => self.fail_within(30),
            _ => {}
        }
        let (acknowledged, running) = (life.db.durable_epoch(), life.db.epoch());
        let closed = life.close();
        let cut = self.take_cut(Phase::Close);
        if let Err(error) = &closed {
            self.expect_fault(error, Phase::Close);
        }
        let whole = cut.is_none() && closed.is_ok();
        self.tally.closes += u64::from(whole);
        let disk = cut.unwrap_or_else(|| match self.rng.below(4) {
            0 => self.cut_now(Phase::Close),
            _ => self.disk.sim.kill(),
        });
        End { disk, acknowledged: if whole { running } else { acknowledged }, running }
    }

    /// Opens the pool without writing, as a tool would after a crash; answers the epoch.
    fn look(&mut self, acknowledged: u64) -> Option<u64> {
        self.disk.sim.peek(cut::PATH.as_ref())?;
        let what = format!("{}, read-only", self.what());
        let disk = Disk::new(self.disk.sim.clone());
        let life = Life::open(&disk, &self.options().read_only(true));
        let life = life.unwrap_or_else(|e| panic!("{what}: {e}"));
        let epoch = life.db.durable_epoch();
        let mut model = self.model.clone();
        model.cut(epoch);
        compare(&life.db, &model.now, self.rng.one_in(2), &what);
        inspect(&life.db, &what);
        assert!(epoch >= self.model.last_change(acknowledged), "{what}: epoch {epoch}");
        drop(life);
        assert_eq!(disk.changes(), 0, "{what}: wrote");
        self.tally.looks += 1;
        Some(epoch)
    }

    /// Opens the pool; the power may be cut while it does, and while it is looked through, and calls
    /// may fail, again and again.
    fn recover(&mut self, mut end: End) -> Life {
        loop {
            self.disk = Disk::new(end.disk.clone());
            let seen = if self.rng.one_in(8) { self.look(end.acknowledged) } else { None };
            match self.rng.below(8) {
                0..3 => self.cut_within(80),
                3 => self.fail_within(80),
                _ => {}
            }
            let what = self.what();
            let mut life = match Life::open(&self.disk, &self.options()) {
                Ok(life) => life,
                Err(error) => {
                    end.disk = self.open_failed(&error);
                    continue;
                }
            };
            let epoch = life.db.durable_epoch();
            let (needed, running) = (self.model.last_change(end.acknowledged), end.running);
            assert!(epoch >= needed, "{what}: {needed} was acknowledged, {epoch} recovered");
            assert!(epoch <= running, "{what}: {epoch} recovered, {running} was running");
            assert!(seen.is_none_or(|seen| seen == epoch), "{what}: {seen:?} and {epoch}");
            let mut cut = self.take_cut(Phase::Recovery);
            if cut.is_none() {
                // The epoch that an open has found and called durable stays; the open's own epochs come after it.
                self.model.cut(epoch);
                end.acknowledged = epoch;
                let stopped = self.look_through(&mut life, &what);
                end.running = life.db.epoch();
                cut = self.take_cut(Phase::Recovery);
                if stopped && cut.is_none() {
                    cut = Some(self.cut_now(Phase::Recovery));
                }
            }
            let Some(cut) = cut else { return life };
            life.die(&self.disk);
            end.disk = cut;
        }
    }

    /// The disk after an open that failed, for the next one.
    fn open_failed(&mut self, error: &Error) -> SimIo {
        self.tally.opens_failed += 1;
        let cut = self.take_cut(Phase::Recovery);
        self.expect_fault(error, Phase::Recovery);
        cut.unwrap_or_else(|| match self.rng.below(2) {
            0 => self.cut_now(Phase::Recovery),
            _ => self.disk.sim.kill(),
        })
    }

    /// Compares a pool just opened with the model and checks it, in any order with the upkeep. Says
    /// whether a failure has stopped it: what an open goes on with, dropped trees say, leaves its failure to
    /// the next write.
    fn look_through(&mut self, life: &mut Life, what: &str) -> bool {
        if self.disk.is_failing() || self.rng.one_in(4) {
            let done = life.act(&mut self.model, &Act::Checkpoint, what);
            match &done {
                Done::Failed(error) => {
                    self.expect_fault(error, Phase::Checkpoint);
                    self.tally.failed += 1;
                }
                Done::Stopped(error) => {
                    self.expect_fault(error, Phase::Checkpoint);
                    self.stopped(life, error);
                    return true;
                }
                Done::Well | Done::Full => {}
            }
            self.disk.take_struck();
        }
        if self.rng.one_in(6) {
            // Into use as it is: the next comparison covers it.
            return false;
        }
        compare(&life.db, &self.model.now, self.rng.one_in(2), what);
        inspect(&life.db, what);
        if self.rng.one_in(3) {
            let levels = count(&life.db, &self.model.now, what);
            self.tally.most_levels = self.tally.most_levels.max(levels);
            self.tally.most_trees = self.tally.most_trees.max(self.model.now.len());
        }
        false
    }

    fn go(seed: u64, generations: u64) -> Tally {
        everleaf_testing::at_seed(seed);
        let mut rng = Rng(seed);
        let mood = Mood { growth: 97, large: 0, largest: 1, longest: 0, syncs: 6 };
        let disk = SimIo::new(rng.next());
        let mut run = Run {
            page_bytes: rng.pick(&[512, 1024]),
            max_bytes: rng.pick(&[60 << 10, 300 << 10, 1500 << 10]),
            journal_bytes: rng.pick(&[16 << 10, 64 << 10, 128 << 10]),
            disk: Disk::new(disk.clone()),
            model: Model::default(),
            tally: Tally::default(),
            kill: false,
            fault: 0,
            rng,
            seed,
            mood,
        };
        let mut life = run.recover(End { disk, acknowledged: 0, running: 1 });
        if run.max_bytes > 400_000 && run.rng.one_in(2) {
            run.load(&mut life);
        }
        for _ in 0..generations {
            if run.rng.one_in(8) {
                let end = run.close(life);
                life = run.recover(end);
            }
            if run.rng.one_in(40) {
                // From the next open on there is more room.
                run.max_bytes = (run.max_bytes + (run.max_bytes >> 1)).min(3 << 20);
            }
            let end = run.use_until_end(life);
            life = run.recover(end);
        }
        life.die(&run.disk);
        run.tally
    }
}

/// Runs seeds on all cores until `wanted` processes have ended.
fn run_all(wanted: u64) -> Tally {
    let (tally, ends, seeds) = (Mutex::new(Tally::default()), AtomicU64::new(0), AtomicU64::new(1));
    let work = || {
        while ends.load(Ordering::Relaxed) < wanted {
            let done = Run::go(seeds.fetch_add(1, Ordering::Relaxed), 24);
            ends.fetch_add(done.ends(), Ordering::Relaxed);
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
fn a_power_cut_leaves_all_trees_at_the_end_of_one_epoch() {
    if let Some(seed) = seed() {
        println!("{:?}", Run::go(seed, 24));
        return;
    }
    let start = Instant::now();
    let tally = run_all(everleaf_testing::count(3_000, 40_000));
    let (ends, seconds) = (tally.ends(), start.elapsed().as_secs_f64());
    println!("{ends} cuts, {:.0} a second; {tally:?}", ends as f64 / seconds);
    // Enough runs meet everything, whatever the seeds.
    if ends >= 2_000 {
        let all = tally.cuts.iter().chain(&tally.kills);
        assert!(all.into_iter().all(|n| *n > 0), "{tally:?}");
        assert!(tally.faults.iter().all(|by| by.iter().sum::<u64>() > 0), "{tally:?}");
        assert!(tally.most_levels > 2 && tally.most_trees > 4, "{tally:?}");
        let named = [tally.drops, tally.renames, tally.transactions];
        assert!(named.iter().all(|n| *n > 0), "{tally:?}");
        let rare = [tally.full, tally.refused_batches, tally.closes, tally.failed, tally.stopped];
        assert!(rare.into_iter().chain([tally.opens_failed]).all(|n| n > 0), "{tally:?}");
    }
}
