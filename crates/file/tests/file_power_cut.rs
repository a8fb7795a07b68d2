//! Power cuts, kills and faults at any call, also during recovery, checkpoint and close: what comes
//! back is the end of an epoch, and no acknowledged epoch is missing.
//!
//! `EVERLEAF_SCALE` says how many cuts and kills (default 20,000; pages of 512 bytes and of 4 KiB, their
//! headers inside, and spilled epochs, get a quarter as many each), `EVERLEAF_SEED` replays one run.

use everleaf_testing::{count, seed};
use std::ops::AddAssign;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use everleaf_file::io::{Fault, SimIo, Weather};
use everleaf_pmem::{Error, Medium, Result};

mod toy;
use toy::{
    MANUAL, Model, Rng, SPILLED, Toy, WHOLE, check, is_manual, poisoned_refuses_to_write, read_all,
};

#[derive(Debug, Clone, Copy, Default)]
struct Tally {
    /// Power cuts and kills.
    cuts: u64,
    kills: u64,
    in_recovery: u64,
    in_checkpoint: u64,
    in_compaction: u64,
    in_close: u64,
    faults: u64,
    failed_opens: u64,
    poisoned: u64,
    /// Ends within an epoch of which a part had been written, and how many such parts there were.
    in_spilled: u64,
    spills: u64,
    evictions: u64,
    /// Kills behind the end of an epoch that no sync had kept yet, and checkpoints within an epoch.
    kept_by_system: u64,
    within: u64,
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.cuts += other.cuts;
        self.kills += other.kills;
        self.in_recovery += other.in_recovery;
        self.in_checkpoint += other.in_checkpoint;
        self.in_compaction += other.in_compaction;
        self.in_close += other.in_close;
        self.faults += other.faults;
        self.failed_opens += other.failed_opens;
        self.poisoned += other.poisoned;
        self.in_spilled += other.in_spilled;
        self.spills += other.spills;
        self.evictions += other.evictions;
        self.kept_by_system += other.kept_by_system;
        self.within += other.within;
    }
}

/// The epochs that a disk is left with: the one acknowledged, the one acknowledged if the power is cut, and the one that ran.
#[derive(Clone, Copy)]
struct Bounds {
    acknowledged: u64,
    durable: u64,
    running: u64,
}

impl Bounds {
    fn of(toy: &Toy) -> Self {
        let durable = toy.file.durable_epoch();
        Self { acknowledged: durable, durable, running: toy.file.clock() }
    }
}

struct Run {
    seed: u64,
    rng: Rng,
    io: SimIo,
    model: Model,
    /// Of so many attempts to read or write one is short; the same for a whole run.
    short: u32,
    /// Of so many calls one fails, while there is a storm; 0: never.
    storm: u32,
    /// The process is killed, and the system goes on.
    is_killed: bool,
    tally: Tally,
}

impl Run {
    fn new(seed: u64) -> Self {
        let mut rng = Rng(seed);
        let short = [0, 2, 5][rng.below(3) as usize];
        let storm = [0, 0, 8, 40, 200][rng.below(5) as usize];
        let (io, model, tally) = (SimIo::new(seed), Model::new(), Tally::default());
        Self { seed, rng, io, model, short, storm, is_killed: false, tally }
    }

    fn what(&self) -> String {
        format!("EVERLEAF_SEED={} cut {}", self.seed, self.tally.cuts)
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.rng.below(n) == 0
    }

    fn calm(&self) {
        self.io.set_weather(Weather { short: self.short, ..Weather::default() });
    }

    fn blow(&self) {
        let (short, storm) = (self.short, self.storm);
        self.io.set_weather(Weather { short, storm, faults: &Fault::ALL, ..Weather::default() });
    }

    /// Plans the end of the process within so many calls: mostly a power cut; sometimes it is only
    /// killed, so that what it wrote can be read but is not durable.
    fn plan_cut(&mut self, reach: u64) {
        let (calls, seed) = (self.rng.below(reach), self.rng.next());
        let seed = (!self.one_in(4)).then_some(seed);
        self.is_killed = seed.is_none();
        self.io.cut_at(self.io.calls() + calls, seed);
    }

    /// Goes on with the disk after the planned cut, if it has come.
    fn was_cut(&mut self) -> bool {
        let Some(cut) = self.io.take_cut() else { return false };
        self.leave(cut);
        true
    }

    fn leave(&mut self, cut: SimIo) {
        self.tally.faults += self.io.faults();
        self.tally.cuts += 1;
        self.io = cut;
        if self.one_in(8) {
            // Also what a killed process wrote, and of a cut the cut.
            self.io = self.io.power_cut(self.rng.next());
            self.is_killed = false;
            self.tally.cuts += 1;
        }
    }

    /// The end of a process that met an error: it goes away, or is killed, or the power is cut.
    fn end_after_fault(&mut self, toy: Toy) -> Bounds {
        let bounds = Bounds::of(&toy);
        self.calm();
        toy.abandon();
        match self.rng.below(3) {
            0 => self.tally.kills += 1,
            _ => {
                let cut = self.io.power_cut(self.rng.next());
                self.leave(cut);
            }
        }
        bounds
    }

    /// An error is what it may be; reads go on, with what the steps have done.
    fn survives(&mut self, toy: &Toy, error: &Error) {
        let what = self.what();
        assert!(self.storm > 0, "{what}: {error} without a fault");
        self.calm();
        if let Some(stopped) = toy.file.poisoned() {
            self.tally.poisoned += 1;
            // A spill may have failed, and then a page have been one that cannot be read.
            let error = if matches!(error, Error::Io { .. }) { &stopped } else { error };
            poisoned_refuses_to_write(toy, error, &self.io);
        } else {
            // A page could not be read.
            assert!(matches!(error, Error::Io { .. }), "{what}: {error}");
        }
        let found = read_all(toy).or_else(|e| {
            assert!(matches!(e, Error::Io { .. }), "{what}: {e}");
            self.io.heal();
            read_all(toy)
        });
        let found = found.unwrap_or_else(|e| panic!("{what}: {e}"));
        assert_eq!(found, self.model.now, "{what}: reads after {error}");
    }

    fn set(&mut self, toy: &Toy) -> Result<()> {
        let changes = self.model.transfer(&mut self.rng);
        let epoch = toy.set(&changes)?;
        self.model.set(epoch, &changes);
        Ok(())
    }

    /// Ends an epoch: where the program does that, mostly without a wait for the disk; then it says which one.
    fn end_epoch(&mut self, toy: &Toy) -> Result<Option<u64>> {
        if !is_manual(self.seed) || self.one_in(4) {
            return toy.file.tick().map(|()| None);
        }
        let runs = toy.file.clock();
        let epoch = toy.file.end_epoch()?;
        assert_eq!(epoch, runs, "{}", self.what());
        Ok(Some(epoch))
    }

    /// Uses the pool until the power is cut, or a call fails.
    fn use_until_end(&mut self, toy: Toy) -> Bounds {
        self.plan_cut(60);
        self.blow();
        let ticks = 2 + self.rng.below(12);
        let is_manual = is_manual(self.seed);
        let (mut spilled, mut ended) = ((0, 0), 0);
        loop {
            let durable = toy.file.durable_epoch();
            let mut acknowledged = durable;
            let runs = toy.file.clock();
            let (mut checkpoint, mut compaction, mut ends) = (false, false, ended);
            let spills = toy.file.stats().spills;
            if spilled.0 < spills {
                self.tally.spills += spills - spilled.0;
                spilled = (spills, toy.file.clock());
            }
            let result = match self.rng.below(100) {
                0 if self.one_in(2) => {
                    compaction = true;
                    toy.drain().and_then(|()| toy.file.compact(&mut |_| ()))
                }
                0 => {
                    checkpoint = true;
                    toy.checkpoint()
                }
                n if n <= ticks => {
                    // All of the epoch may have been spilled by then, or not.
                    if self.one_in(2) {
                        drop(toy.file.enter());
                        let _ = toy.file.throttle(true);
                    }
                    let ended = self.end_epoch(&toy);
                    ended.map(|epoch| ends = epoch.unwrap_or(ends))
                }
                n if n <= 2 * ticks && toy.file.checkpoint_due() => {
                    checkpoint = true;
                    toy.checkpoint()
                }
                _ => self.set(&toy),
            };
            if is_manual && (checkpoint || compaction) {
                self.tally.within += u64::from(result.is_ok() && self.model.at(runs).0 == runs);
                assert_eq!(toy.file.clock(), runs, "{}: it has ended an epoch", self.what());
            }
            if self.was_cut() {
                self.tally.in_checkpoint += u64::from(checkpoint);
                self.tally.in_compaction += u64::from(compaction);
                self.tally.in_spilled += u64::from(spilled.1 == durable + 1);
                // An epoch that has not ended is never there.
                let running = toy.file.clock() - u64::from(is_manual);
                if self.is_killed && acknowledged < ended {
                    self.tally.kept_by_system += 1;
                    acknowledged = ended;
                }
                self.tally.evictions += toy.file.stats().evictions;
                toy.abandon();
                return Bounds { acknowledged, durable, running };
            }
            ended = ends;
            if let Err(error) = result {
                self.survives(&toy, &error);
                // A page that could not be read is no reason to stop.
                if toy.file.poisoned().is_some() || self.one_in(2) {
                    return self.end_after_fault(toy);
                }
                self.blow();
            }
        }
    }

    /// Closes the pool, which a cut or a fault may interrupt.
    fn close(&mut self, toy: Toy) -> Bounds {
        self.plan_cut(30);
        self.blow();
        let before = Bounds::of(&toy);
        let result = toy.drain().and_then(|()| toy.file.close());
        if self.was_cut() {
            self.tally.in_close += 1;
            return before;
        }
        match result {
            Ok(()) => {
                let epoch = before.running;
                Bounds { acknowledged: epoch, durable: epoch, running: epoch }
            }
            Err(error) => {
                assert!(self.storm > 0, "{}: {error} without a fault", self.what());
                self.end_after_fault(toy)
            }
        }
    }

    /// Opens the pool; the power may be cut while it does, or calls fail, again and again.
    fn recover(&mut self, mut bounds: Bounds) -> Toy {
        let mut failed = 0;
        loop {
            let reach = if self.one_in(3) { 80 } else { 10_000 };
            self.plan_cut(reach);
            if failed < 4 {
                self.blow();
            } else {
                self.calm();
                self.io.heal();
            }
            let toy = match Toy::open_for(&self.io, self.seed) {
                Ok(toy) => toy,
                Err(error) => {
                    let what = self.what();
                    assert!(self.storm > 0 && failed < 4, "{what}: {error} without a fault");
                    assert!(matches!(error, Error::Io { .. }), "{what}: {error}");
                    self.tally.failed_opens += 1;
                    failed += 1;
                    bounds.acknowledged = bounds.durable;
                    if self.was_cut() {
                        self.tally.in_recovery += 1;
                    } else if self.one_in(2) {
                        let cut = self.io.power_cut(self.rng.next());
                        self.leave(cut);
                    }
                    continue;
                }
            };
            let result = self.recovered(toy, bounds);
            match result {
                Some(toy) => return toy,
                // Nobody has asked the disk to keep what the system has kept so far.
                None => (failed, bounds.acknowledged) = (0, bounds.durable),
            }
        }
    }

    /// Checks what an open found. `None` if the power was cut meanwhile.
    fn recovered(&mut self, toy: Toy, bounds: Bounds) -> Option<Toy> {
        if self.one_in(2) {
            // Pages are read in the storm.
            if let Err(error) = read_all(&toy) {
                assert!(matches!(error, Error::Io { .. }), "{}: {error}", self.what());
            }
        }
        self.calm();
        if read_all(&toy).is_err() {
            self.io.heal();
        }
        let epoch = check(&toy, &self.model, bounds.acknowledged, bounds.running, &self.what());
        if self.was_cut() {
            self.tally.in_recovery += 1;
            toy.abandon();
            return None;
        }
        self.io.cut_at(u64::MAX, None);
        self.model.cut(epoch);
        Some(toy)
    }

    /// One run: a pool's life, of so many cuts at least.
    fn go(seed: u64, cuts: u64) -> Tally {
        everleaf_testing::at_seed(seed);
        let mut run = Run::new(seed);
        let mut toy = run.recover(Bounds { acknowledged: 0, durable: 0, running: 1 });
        while run.tally.cuts < cuts {
            let bounds = if run.one_in(8) { run.close(toy) } else { run.use_until_end(toy) };
            toy = run.recover(bounds);
        }
        run.tally.faults += run.io.faults();
        run.tally
    }
}

#[test]
fn a_power_cut_or_a_fault_leaves_the_end_of_an_epoch() {
    if let Some(seed) = seed() {
        println!("{:?}", Run::go(seed, CUTS));
        return;
    }
    runs(0, count(20_000, 1_000_000));
}

#[test]
fn a_power_cut_or_a_fault_leaves_the_end_of_an_epoch_on_whole_pages() {
    if seed().is_some() {
        return;
    }
    let wanted = count(20_000, 1_000_000);
    for before in WHOLE {
        runs(before, wanted / 4);
    }
}

#[test]
fn a_power_cut_or_a_fault_leaves_the_end_of_an_epoch_that_was_spilled() {
    if seed().is_some() {
        return;
    }
    let wanted = count(20_000, 1_000_000);
    for before in SPILLED {
        let Tally { cuts, in_spilled, spills, .. } = runs(before, wanted / 4);
        assert!(in_spilled > cuts / 5 && spills > cuts, "{in_spilled} and {spills} of {cuts}");
    }
}

#[test]
fn a_power_cut_or_a_fault_leaves_the_end_of_an_epoch_that_the_program_has_ended() {
    if seed().is_some() {
        return;
    }
    let wanted = count(20_000, 1_000_000);
    for before in MANUAL {
        let Tally { cuts, kept_by_system, within, evictions, .. } = runs(before, wanted / 4);
        // One in fifty on average.
        assert!(kept_by_system > cuts / 80 && within > cuts / 50, "{kept_by_system}, {within}");
        assert!(evictions > cuts / 10, "{evictions}");
    }
}

const CUTS: u64 = 24;

/// Runs of the seeds behind `before`, until there were so many cuts.
fn runs(before: u64, wanted: u64) -> Tally {
    let start = Instant::now();
    let (seeds, total) = (AtomicU64::new(before + 1), Mutex::new(Tally::default()));
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while total.lock().expect("no run has failed").cuts < wanted {
                    let tally = Run::go(seeds.fetch_add(1, Ordering::Relaxed), CUTS);
                    *total.lock().expect("no run has failed") += tally;
                }
            });
        }
    });
    let total = *total.lock().expect("no run has failed");
    let rate = total.cuts as f64 / start.elapsed().as_secs_f64();
    println!("{} cuts, {rate:.0} a second: {total:?}", total.cuts);
    if wanted >= 5_000 {
        // Each kind of end came, and not just once or twice.
        let Tally {
            kills,
            in_recovery,
            in_checkpoint,
            in_compaction,
            in_close,
            failed_opens,
            poisoned,
            ..
        } = total;
        let counts =
            [kills, in_recovery, in_checkpoint, in_compaction, in_close, failed_opens, poisoned];
        let least = if wanted >= 20_000 { 50 } else { 10 };
        assert!(counts.iter().all(|n| *n >= least), "{total:?}");
        assert!(total.evictions > total.cuts / 10, "{total:?}");
    }
    total
}
