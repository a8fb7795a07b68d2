//! A failure at every call to the disk, one a run: of a script of 200 operations on a Db with
//! everything in it, and of recovery after crashes in the same script. The error is typed and says
//! what was being done; writes stop, or go on if only a read has failed; reads answer; and nothing
//! acknowledged is lost, whether the pool is opened again at once, after a kill, or after power cuts.
//!
//! `EVERLEAF_SCALE` says how many scripts (default 2), `EVERLEAF_SEED` picks one.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use everleaf::{Error, Options};
use everleaf_file::io::{Fault, SimIo};
use everleaf_testing::{seed, times};

mod cut;
use cut::act::{Act, Done, Life, names_call, random_act};
use cut::disk::{Call, Disk, FAULTS};
use cut::{Model, Mood, Rng, compare, count, inspect, options, with_memory};

const OPERATIONS: usize = 200;
/// Operations before which the pool is closed, or the process killed, and the pool opened again.
const CLOSE_AT: usize = 70;
const KILL_AT: usize = 140;
/// Crashes of a script after which recovery is failed.
const CRASHES: u64 = 6;

struct Script {
    seed: u64,
    options: Options,
    acts: Vec<Act>,
    /// The kind of each call that is made if all goes well.
    calls: Vec<Call>,
    /// Which of them closes make.
    closes: Vec<Range<usize>>,
}

/// How a script ended.
enum Ended {
    /// It is through, and the pool closed.
    Well,
    /// An open or a close has failed.
    Between,
    /// Writes have stopped; the disk as a kill left it then.
    Stopped(SimIo),
    /// By the cut that was asked for; its disk.
    Cut(SimIo),
}

/// The consequence of a failure.
#[derive(Clone, Copy)]
enum Led {
    /// No operation failed: something was read that it could do without, or that is read once more.
    Nothing,
    /// An operation failed, and the next ones did not.
    OneFailed,
    /// An open or a close failed.
    Between,
    /// Writes have stopped.
    Stopped,
}

/// A disk, one process after the other, and what is known of them.
struct Run {
    options: Options,
    disk: Disk,
    model: Model,
    acknowledged: u64,
    running: u64,
    calls: Vec<Call>,
    closes: Vec<Range<usize>>,
    /// The call that is to fail.
    fault: Option<u64>,
    /// Failures that did not stop writes.
    failed: u64,
    what: String,
}

impl Run {
    fn new(seed: u64, options: &Options, fault: Option<(u64, Fault)>) -> Self {
        everleaf_testing::at_seed(seed);
        let sim = SimIo::new(seed);
        if let Some((call, fault)) = fault {
            sim.fail_at(call, fault);
        }
        Run {
            options: options.clone(),
            disk: Disk::new(sim),
            model: Model::default(),
            acknowledged: 0,
            running: 1,
            calls: Vec::new(),
            closes: Vec::new(),
            fault: fault.map(|(call, _)| call),
            failed: 0,
            what: format!("EVERLEAF_SEED={seed}, {fault:?}"),
        }
    }

    fn expect(&self, error: &Error) {
        let struck = self.fault.is_some_and(|call| call < self.disk.sim.calls());
        assert!(struck, "{}: {error}", self.what);
        names_call(error, &self.what);
    }

    /// The next process opens the pool and finds what it must.
    fn open(&mut self) -> Result<Life, Ended> {
        self.calls.append(&mut self.disk.take_record());
        self.disk = Disk::new(self.disk.sim.clone());
        self.disk.record();
        let life = Life::open(&self.disk, &self.options);
        if let Some(cut) = self.disk.sim.take_cut() {
            return Err(Ended::Cut(cut));
        }
        let life = life.map_err(|error| {
            self.expect(&error);
            Ended::Between
        })?;
        let (epoch, needed) = (life.db.durable_epoch(), self.model.last_change(self.acknowledged));
        let possible = needed..=self.running;
        assert!(possible.contains(&epoch), "{}: {epoch}, not {possible:?}", self.what);
        self.model.cut(epoch);
        (self.acknowledged, self.running) = (epoch, life.db.epoch());
        Ok(life)
    }

    fn close(&mut self, life: Life) -> Result<(), Ended> {
        (self.acknowledged, self.running) = (life.db.durable_epoch(), life.db.epoch());
        let calls = |run: &Self| run.calls.len() + run.disk.recorded();
        let begun = calls(self);
        let closed = life.close();
        self.closes.push(begun..calls(self));
        if let Some(cut) = self.disk.sim.take_cut() {
            return Err(Ended::Cut(cut));
        }
        closed.map_err(|error| {
            self.expect(&error);
            Ended::Between
        })?;
        self.acknowledged = self.running;
        Ok(())
    }

    /// Writes have stopped: they are refused, reads go on, and the end of the process leaves the disk
    /// as it is.
    fn stopped(&mut self, mut life: Life, error: &Error) {
        life.refuses_writes(&self.disk, &self.model, error, &self.what);
        compare(&life.db, &self.model.now, false, &self.what);
        let changes = self.disk.changes();
        let closed = life.close();
        assert!(matches!(closed, Err(Error::Poisoned { .. })), "{}: {closed:?}", self.what);
        assert_eq!(self.disk.changes(), changes, "{}: a stopped pool wrote", self.what);
    }

    fn act(&mut self, mut life: Life, act: &Act) -> Result<Life, Ended> {
        self.acknowledged = life.db.durable_epoch();
        let done = life.act(&mut self.model, act, &self.what);
        self.running = life.db.epoch() - u64::from(life.doomed);
        if let Some(cut) = self.disk.sim.take_cut() {
            life.die(&self.disk);
            return Err(Ended::Cut(cut));
        }
        // A commit that fails must not have been called durable.
        self.acknowledged = life.db.durable_epoch();
        match done {
            Done::Well | Done::Full => Ok(life),
            Done::Failed(error) => {
                self.expect(&error);
                self.failed += 1;
                Ok(life)
            }
            Done::Stopped(error) => {
                self.expect(&error);
                let killed = self.disk.sim.kill();
                self.stopped(life, &error);
                Err(Ended::Stopped(killed))
            }
        }
    }

    /// Runs a script; `next` says what is done.
    fn go(&mut self, mut next: impl FnMut(usize, &Model) -> Act) -> Result<(), Ended> {
        let mut life = self.open()?;
        for n in 0..OPERATIONS {
            if n == CLOSE_AT {
                self.close(life)?;
                life = self.open()?;
            } else if n == KILL_AT {
                self.acknowledged = life.db.durable_epoch();
                life.die(&self.disk);
                life = self.open()?;
            }
            let act = next(n, &self.model);
            // A tree may not be there because a call failed, or because of the kill.
            if act.trees().all(|name| self.model.now.contains_key(name)) {
                life = self.act(life, &act)?;
            }
        }
        self.close(life)?;
        self.calls.append(&mut self.disk.take_record());
        Ok(())
    }

    fn play(&mut self, script: &Script) -> Ended {
        self.go(|n, _| script.acts[n].clone()).err().unwrap_or(Ended::Well)
    }
}

/// Growth, large values, shrinkage, and growth again until there is no room.
fn mood(n: usize) -> Mood {
    let (growth, large) = [(97, 0), (90, 30), (15, 5), (97, 10)][n / 50 % 4];
    Mood { growth, large, largest: 20_000, longest: 10, syncs: 14 }
}

impl Script {
    fn new(seed: u64) -> Self {
        let mut rng = Rng(seed);
        let page_bytes = rng.pick(&[512, 1024]);
        // A group of nodes and records, and one of extents.
        let pages = rng.pick(&[500, 700]) * u64::from(page_bytes / 512);
        let options = options(page_bytes, pages * u64::from(page_bytes), 32 << 10);
        let options = with_memory(options, seed / 2);
        let mut acts = Vec::new();
        let mut run = Run::new(seed, &options, None);
        let made = run.go(|n, model| {
            let act = match n % 40 {
                _ if model.now.is_empty() => Act::Make("first".into()),
                30 => Act::Checkpoint,
                _ => random_act(&mut rng, mood(n), model),
            };
            acts.push(act.clone());
            act
        });
        assert!(made.is_ok(), "nothing fails by itself");
        let mut script = Script { seed, options, acts, calls: run.calls, closes: run.closes };
        let mut again = Run::new(seed, &script.options, None);
        assert!(matches!(again.play(&script), Ended::Well));
        assert_eq!(again.calls, script.calls, "EVERLEAF_SEED={seed}: it does not repeat");
        script.calls.shrink_to_fit();
        script
    }

    /// Everything that tests promise to try is in it.
    fn is_full(&self) -> bool {
        let batches = self.acts.iter().filter(|act| matches!(act, Act::Batch(..))).count();
        let steps = self.acts.iter().filter(|act| matches!(act, Act::Transaction(..))).count();
        let synced = self.acts.iter().filter(|act| act.is_commit()).count();
        let removed = |act: &&Act| matches!(act, Act::Change(c, _) if c.value.is_none());
        let made = self.acts.iter().filter(|act| matches!(act, Act::Make(_))).count();
        let large = |act: &&Act| matches!(act, Act::Change(c, _) if c.value.as_ref().is_some_and(|v| v.len() > 3000));
        batches > 3
            && steps > 1
            && synced > 5
            && made > 1
            && self.acts.iter().filter(removed).count() > 5
            && self.acts.iter().any(|act| large(&act))
    }

    /// Plays it with a failure, and opens what that leaves in several ways. Says how many opens.
    fn fail(&self, call: u64, fault: Fault, met: &[AtomicU64; 4]) -> u64 {
        let mut run = Run::new(self.seed, &self.options, Some((call, fault)));
        let ended = run.play(self);
        let led_to = match &ended {
            Ended::Well if run.failed == 0 => Led::Nothing,
            Ended::Well => Led::OneFailed,
            Ended::Between => Led::Between,
            _ => Led::Stopped,
        };
        met[led_to as usize].fetch_add(1, Ordering::Relaxed);
        let silent = matches!(led_to, Led::Nothing) && self.calls[call as usize] != Call::Read;
        // A block that has no room with zeros behind it is written once more without them.
        let again =
            fault == Fault::NoSpace && run.calls.get(call as usize) == Some(&Call::Write) && {
                let mut others = run.calls.clone();
                others.remove(call as usize);
                others == self.calls
            };
        let more = run.calls.len() as i64 - self.calls.len() as i64;
        let is_told = !silent || again || fault == Fault::NoSpace && self.closes_longer(&run, call);
        assert!(is_told, "{}: it is not told; {more} calls more", run.what);
        let cuts = if matches!(ended, Ended::Well) { 1 } else { 3 };
        let mut disks = Vec::new();
        if let Ended::Stopped(killed) = ended {
            disks.push((killed, "after a kill"));
        }
        disks.extend((1..=cuts).map(|seed| (run.disk.sim.power_cut(seed), "after a power cut")));
        // The disk itself goes on, so it comes last.
        disks.push((run.disk.sim.clone(), "at once"));
        let opens = disks.len() as u64;
        for (sim, how) in disks {
            found(sim, &run, &format!("{}, {how}", run.what));
        }
        opens
    }

    /// Whether the call was a write of a close, which finds no room to make the file short. It leaves the file as long
    /// as it is, or writes its first root once more without that. Then the roots behind that one may make the file
    /// short after all: two at most, of which none takes more calls than the whole close that met no failure.
    fn closes_longer(&self, run: &Run, call: u64) -> bool {
        let at = call as usize;
        let closes = run.closes.iter().zip(&self.closes);
        let found = closes.into_iter().find(|(met, _)| met.contains(&at));
        found.is_some_and(|(met, whole)| {
            let most = 3 * whole.len();
            self.calls.starts_with(&run.calls[..=at])
                && self.calls[at] == Call::Write
                && met.end - at <= most
        })
    }

    /// Fails each call of an open after a crash, and of bringing its pages up to date. Says how many
    /// times.
    fn fail_recovery(&self, crash: u64) -> u64 {
        let mut run = Run::new(self.seed, &self.options, None);
        let call = self.calls.len() as u64 * (2 * crash + 1) / (2 * CRASHES);
        run.disk.sim.cut_at(call, (!crash.is_multiple_of(3)).then_some(crash));
        let Ended::Cut(crashed) = run.play(self) else { unreachable!("the script gets there") };
        let calls = {
            let disk = Disk::new(crashed.kill());
            disk.record();
            let life = Life::open(&disk, &self.options).expect("no call fails");
            life.db.checkpoint().expect("no call fails");
            life.die(&disk);
            disk.take_record()
        };
        let mut tries = 0;
        for (i, call) in calls.iter().enumerate() {
            for fault in FAULTS.into_iter().filter(|fault| call.takes(*fault)) {
                run.what = format!(
                    "EVERLEAF_SEED={}, crash {crash}, {fault:?} at call {i} of recovery",
                    self.seed
                );
                run.disk = Disk::new(crashed.kill());
                run.fail_one_recovery(i as u64, fault);
                tries += 1;
            }
        }
        tries
    }
}

impl Run {
    /// Opens the pool while one call fails, and once more, with and without a power cut.
    fn fail_one_recovery(&self, call: u64, fault: Fault) {
        let sim = &self.disk.sim;
        let mut after = Run { model: self.model.clone(), ..Run::new(0, &self.options, None) };
        (after.acknowledged, after.running) = (self.acknowledged, self.running);
        (after.disk, after.what) = (Disk::new(sim.clone()), self.what.clone());
        after.fault = Some(sim.calls() + call);
        sim.fail_at(sim.calls() + call, fault);
        let mut killed = None;
        if let Ok(life) = after.open() {
            match after.act(life, &Act::Checkpoint) {
                // Not even now may what was found be lost.
                Ok(life) => {
                    compare(&life.db, &after.model.now, false, &after.what);
                    inspect(&life.db, &after.what);
                    life.die(&after.disk);
                }
                Err(Ended::Stopped(disk)) => killed = Some(disk),
                Err(_) => unreachable!("no cut was asked for"),
            }
        }
        let disks = killed.into_iter().chain([sim.power_cut(call), sim.clone()]);
        for (disk, how) in disks.zip(["first", "second", "third"]) {
            found(disk, &after, &format!("{}, {how} open after it", after.what));
        }
    }
}

/// Opens a pool without failures: it holds what it must.
fn look(disk: &Disk, run: &Run, what: &str) -> (Life, Model) {
    let life = Life::open(disk, &run.options).unwrap_or_else(|e| panic!("{what}: {e}"));
    let epoch = life.db.durable_epoch();
    let possible = run.model.last_change(run.acknowledged)..=run.running;
    assert!(possible.contains(&epoch), "{what}: {epoch}, not {possible:?}");
    let mut model = run.model.clone();
    model.cut(epoch);
    compare(&life.db, &model.now, epoch.is_multiple_of(2), what);
    inspect(&life.db, what);
    (life, model)
}

/// The pool holds what it must, and can be used; what it then acknowledges survives another power
/// cut, and a close. So nothing that a failed sync left in memory only was taken for durable.
fn found(sim: SimIo, run: &Run, what: &str) {
    let disk = Disk::new(sim);
    let (mut life, mut model) = look(&disk, run, what);
    count(&life.db, &model.now, what);
    let mut rng = Rng(run.acknowledged);
    for n in 0..12 {
        let act = match n {
            4 => Act::Sync,
            8 => Act::Checkpoint,
            _ => random_act(&mut rng, mood(n), &model),
        };
        match life.act(&mut model, &act, what) {
            Done::Well | Done::Full => {}
            done => panic!("{what}: {done:?}"),
        }
    }
    let stopped = life.doomed;
    let mut next = Run { model, what: what.to_owned(), ..Run::new(0, &run.options, None) };
    next.acknowledged = life.db.durable_epoch();
    next.running = life.db.epoch() - u64::from(stopped);
    let cut = Disk::new(disk.sim.power_cut(run.running));
    look(&cut, &next, &format!("{what}, and cut")).0.die(&cut);
    assert_eq!(life.close().is_err(), stopped, "{what}");
    if !stopped {
        next.acknowledged = next.running;
    }
    look(&disk, &next, &format!("{what}, and closed")).0.die(&disk);
}

/// Does `work` for each number below `n`, on all cores.
fn spread(n: usize, work: impl Fn(usize) + Sync) {
    let next = AtomicUsize::new(0);
    let run = || {
        loop {
            let i = next.fetch_add(1, Ordering::Relaxed);
            if i >= n {
                return;
            }
            work(i);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(run);
        }
    });
}

fn scripts() -> Vec<Script> {
    if let Some(seed) = seed() {
        return vec![Script::new(seed)];
    }
    let wanted = times(2) as usize;
    (1..).map(Script::new).filter(Script::is_full).take(wanted).collect()
}

#[test]
fn a_failure_at_each_call_of_a_script_loses_nothing_acknowledged() {
    for script in scripts() {
        let takes = |call: u64, fault| script.calls[call as usize].takes(fault);
        let calls = script.calls.len() as u64;
        let all = (0..calls).flat_map(|call| FAULTS.map(|fault| (call, fault)));
        let faults: Vec<_> = all.filter(|(call, fault)| takes(*call, *fault)).collect();
        let (opens, met) = (AtomicU64::new(0), Default::default());
        spread(faults.len(), |i| {
            let (call, fault) = faults[i];
            opens.fetch_add(script.fail(call, fault, &met), Ordering::Relaxed);
        });
        let (opens, runs) = (opens.into_inner(), faults.len());
        println!("script {}: {calls} calls, {runs} runs, {opens} opens after them", script.seed);
        let [nothing, one, between, stopped] = met.map(AtomicU64::into_inner);
        println!("{stopped} stopped writes, {between} failed an open or a close,");
        println!("{one} failed one operation, {nothing} reads failed none");
        assert!(calls > 200 && opens > 2 * runs as u64, "the script is too short");
    }
}

#[test]
fn a_failure_at_each_call_of_recovery_loses_nothing_acknowledged() {
    for script in scripts() {
        let tries = AtomicU64::new(0);
        spread(CRASHES as usize, |crash| {
            tries.fetch_add(script.fail_recovery(crash as u64), Ordering::Relaxed);
        });
        let tries = tries.into_inner();
        println!("script {}: {CRASHES} crashes, {tries} failures in recovery", script.seed);
        assert!(tries > 20 * CRASHES, "recovery is too short");
    }
}
