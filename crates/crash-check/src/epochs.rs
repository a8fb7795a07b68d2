//! The contents that a map may have after a crash if its writes become durable by epochs (*buffered
//! durable linearizability*, Izraelevitz et al., DISC 2016; the cut at epochs is BD+Tree's, §3.1).
//!
//! ```text
//! clock     1      2      3      4 ✂        writes of epoch 4 and of 3, which has just ended,
//! durable   0      1      2      2          may be gone; D = 2 is what the image says itself
//! ```
//!
//! The image names the last durable epoch D. Then recovery finds *exactly* what the writes of
//! epochs ≤ D made: nothing of them is missing, and nothing of a later one shows. D itself must not
//! be less than what was acknowledged, nor more than two behind the clock.
//!
//! [`EpochScript`] judges scripts of one thread. For threads, [`Answers`] has the epoch of each write,
//! and asks besides that the crash-free history has an order that epochs cut: for each D there is a
//! moment by which all writes of epochs ≤ D have happened and no later one has (§3.4, properties 1
//! and 2).

use std::collections::BTreeMap;

use everleaf_pmem::Result;

use crate::history::{History, MapOp, OpInterval};
use crate::oracle::MapWrite;
use crate::trace::{CrashPoint, Recording, Trace};

/// The answer of a write: the key's old value, and the epoch that the write landed in.
pub type Written = (Option<u64>, u64);

/// A map whose writes become durable by epochs.
pub trait EpochMap {
    /// Does one step.
    ///
    /// # Errors
    /// Those of the map.
    fn write(&self, step: MapWrite) -> Result<Written>;

    /// Runs `steps` so that all writes in them land in one epoch.
    fn batch(&self, steps: &mut dyn FnMut());

    /// Ends the running epoch and makes it durable.
    ///
    /// # Errors
    /// Those of the map.
    fn tick(&self) -> Result<()>;

    /// Makes all durable that has been written.
    ///
    /// # Errors
    /// Those of the map.
    fn sync(&self) -> Result<()>;

    /// Gives back memory that no recoverable epoch needs; answers how much, in units of the map.
    ///
    /// # Errors
    /// Those of the map.
    fn reclaim(&self) -> Result<u64>;

    /// The running epoch.
    fn clock(&self) -> u64;

    /// The last epoch that is durable.
    fn durable(&self) -> u64;
}

/// One act of a script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Act {
    /// One write.
    Write(MapWrite),
    /// Writes that land in one epoch.
    Batch(Vec<MapWrite>),
    /// The running epoch ends and becomes durable.
    Tick,
    /// All that was written becomes durable.
    Sync,
    /// Memory is given back.
    Reclaim,
}

impl From<MapWrite> for Act {
    fn from(step: MapWrite) -> Self {
        Act::Write(step)
    }
}

/// The clock and the last durable epoch between two acts.
#[derive(Debug, Clone, Copy)]
struct Moment {
    clock: u64,
    durable: u64,
}

/// A script of one thread, as far as it was run: what the map held at the end of each epoch, and
/// what had been acknowledged after each act.
#[derive(Debug, Clone)]
pub struct EpochScript {
    now: BTreeMap<u64, u64>,
    /// Contents at the end of each epoch that changed something, and of the first.
    ends: BTreeMap<u64, Vec<(u64, u64)>>,
    /// Before act `i`; one more than acts.
    moments: Vec<Moment>,
    /// How much memory was given back.
    pub reclaimed: u64,
}

impl EpochScript {
    /// A script that starts from these entries, all of which are durable.
    pub fn new(start: &[(u64, u64)], map: &impl EpochMap) -> Self {
        let moment = Moment { clock: map.clock(), durable: map.durable() };
        Self {
            now: start.iter().copied().collect(),
            ends: BTreeMap::from([(moment.durable, start.to_vec())]),
            moments: vec![moment],
            reclaimed: 0,
        }
    }

    /// The map's contents now.
    pub fn contents(&self) -> Vec<(u64, u64)> {
        self.now.iter().map(|(k, v)| (*k, *v)).collect()
    }

    /// Runs acts one after the other. Act `i` of the whole script is operation `i` of the trace.
    ///
    /// # Errors
    /// An act that failed, answered something else than it should have, or left the clock more than
    /// two ahead of what is durable.
    pub fn run<'a>(
        &mut self,
        trace: &Trace,
        map: &impl EpochMap,
        acts: impl IntoIterator<Item = &'a Act>,
    ) -> std::result::Result<(), String> {
        acts.into_iter().try_for_each(|act| self.act(trace, map, act))
    }

    fn act(
        &mut self,
        trace: &Trace,
        map: &impl EpochMap,
        act: &Act,
    ) -> std::result::Result<(), String> {
        let number = self.moments.len() - 1;
        debug_assert!(!self.ends.is_empty(), "the end of the epoch before the script is known");
        let before = self.moments[number];
        let failed = |what: String| format!("act {number} {act:?}: {what}");
        trace.op(number as u64, || self.run_act(map, act)).map_err(failed)?;
        let now = Moment { clock: map.clock(), durable: map.durable() };
        let (ticks, acknowledged) = match act {
            Act::Tick => (1, before.clock),
            Act::Sync => (0, self.ends.keys().next_back().copied().unwrap_or_default()),
            _ => (0, before.durable),
        };
        let in_order = now.clock >= before.clock + ticks && now.durable >= acknowledged;
        let gap = now.clock.checked_sub(now.durable);
        if !in_order || !matches!(gap, Some(1 | 2)) {
            return Err(failed(format!("{before:?} became {now:?}, {acknowledged} acknowledged")));
        }
        self.moments.push(now);
        Ok(())
    }

    fn run_act(&mut self, map: &impl EpochMap, act: &Act) -> std::result::Result<(), String> {
        match act {
            Act::Write(step) => self.write(map, *step).map(drop),
            Act::Batch(steps) => {
                let mut epochs = Ok(Vec::new());
                map.batch(&mut || {
                    epochs = steps.iter().map(|step| self.write(map, *step)).collect();
                });
                let changes: Vec<u64> = epochs?.into_iter().flatten().collect();
                let same = changes.windows(2).all(|pair| pair[0] == pair[1]);
                if same { Ok(()) } else { Err(format!("one batch, epochs {changes:?}")) }
            }
            Act::Tick => map.tick().map_err(|e| e.to_string()),
            Act::Sync => map.sync().map_err(|e| e.to_string()),
            Act::Reclaim => {
                self.reclaimed += map.reclaim().map_err(|e| e.to_string())?;
                Ok(())
            }
        }
    }

    /// Does one step; answers its epoch if it changed anything.
    fn write(
        &mut self,
        map: &impl EpochMap,
        step: MapWrite,
    ) -> std::result::Result<Option<u64>, String> {
        let (old, epoch) = map.write(step).map_err(|e| format!("{step:?}: {e}"))?;
        let expected = match step {
            MapWrite::Insert(key, value) => self.now.insert(key, value),
            MapWrite::Remove(key) => self.now.remove(&key),
        };
        if old != expected {
            return Err(format!("{step:?}: {old:?} instead of {expected:?}"));
        }
        if matches!(step, MapWrite::Remove(_)) && old.is_none() {
            return Ok(None);
        }
        let last = self.ends.keys().next_back().copied().unwrap_or_default();
        if epoch < last || epoch != map.clock() {
            let clock = map.clock();
            return Err(format!("{step:?} in epoch {epoch} after {last}, at {clock}"));
        }
        self.ends.insert(epoch, self.contents());
        Ok(Some(epoch))
    }

    /// The map's contents at the end of an epoch, or none if the epoch ended before the script began.
    pub fn at_end_of(&self, epoch: u64) -> Option<&[(u64, u64)]> {
        self.ends.range(..=epoch).next_back().map(|(_, contents)| contents.as_slice())
    }

    /// Whether the entries, in order, are what a crash must leave, in an image that says that
    /// `durable` is the last durable epoch.
    ///
    /// # Errors
    /// A message that says what is wrong with the epoch, or what is missing and what is too much.
    pub fn admits(
        &self,
        crash: &CrashPoint<'_>,
        durable: u64,
        found: &[(u64, u64)],
    ) -> std::result::Result<(), String> {
        let (begun, done) = (crash.invoked().len(), crash.responded().len());
        let last = self.moments.len() - 1;
        debug_assert!(begun <= done + 1, "one thread has one act in flight");
        let (before, after) = (self.moments[done.min(last)], self.moments[begun.min(last)]);
        let floor = before.durable.max(before.clock.saturating_sub(2));
        if !(floor..after.clock).contains(&durable) {
            return Err(format!(
                "epoch {durable} is durable after {done} acts: {before:?}, then {after:?}"
            ));
        }
        let Some(expected) = self.at_end_of(durable) else {
            return Err(format!("epoch {durable} is older than the script"));
        };
        if expected == found {
            return Ok(());
        }
        let lost: Vec<_> = expected.iter().filter(|e| !found.contains(e)).take(8).collect();
        let extra: Vec<_> = found.iter().filter(|e| !expected.contains(e)).take(8).collect();
        Err(format!(
            "after {done} acts, {before:?}, the end of epoch {durable}: {} entries instead of {}; \
             missing {lost:?}, wrong {extra:?}",
            found.len(),
            expected.len(),
        ))
    }
}

/// The answer to a call of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    /// The number of the call in the trace.
    pub id: u64,
    /// The operation that was asked for.
    pub op: MapOp,
    /// The key's old value.
    pub old: Option<u64>,
    /// The epoch that the call landed in; of reads and of calls that changed nothing it does not
    /// matter.
    pub epoch: u64,
}

impl Answer {
    fn changed(&self) -> bool {
        match self.op {
            MapOp::Get(_) => false,
            MapOp::Insert(..) => true,
            MapOp::Update(..) | MapOp::Remove(_) => self.old.is_some(),
        }
    }
}

/// The calls of threads on a map, each with its epoch.
#[derive(Debug, Clone, Default)]
pub struct Answers {
    /// The map before, all of it durable.
    pub initial: Vec<(u64, u64)>,
    /// The calls, in any order. All have returned.
    pub all: Vec<Answer>,
    /// Numbers of the calls in the trace whose return acknowledged an epoch, and which.
    pub acknowledged: Vec<(u64, u64)>,
}

impl Answers {
    /// The history of the calls that pass.
    fn history(&self, record: &Recording, pass: impl Fn(&Answer) -> bool) -> History {
        let calls = self.all.iter().filter(|answer| pass(answer));
        History::new(&self.initial, record, calls.map(|a| (a.id, a.op, a.old)))
    }

    /// All calls.
    pub fn whole(&self, record: &Recording) -> History {
        self.history(record, |_| true)
    }

    /// The writes of epochs up to `durable`: what a crash must leave is one of its
    /// [outcomes](History::outcomes). A write that had not returned at the crash is judged like any
    /// other: its epoch is known from how the run went on.
    pub fn until(&self, record: &Recording, durable: u64) -> History {
        self.history(record, |answer| answer.changed() && answer.epoch <= durable)
    }

    /// The least epoch that may be the last durable one after a crash before which these calls had
    /// returned.
    pub fn floor(&self, responded: &[u64]) -> u64 {
        let writes = self.all.iter().filter(|answer| answer.changed());
        let two_behind = writes.map(|answer| (answer.id, answer.epoch.saturating_sub(2)));
        let bounds = two_behind.chain(self.acknowledged.iter().copied());
        let due = bounds.filter(|(id, _)| responded.contains(id));
        due.map(|(_, epoch)| epoch).max().unwrap_or(0)
    }

    /// Whether the calls, without a crash, have an order that explains the answers and that each
    /// epoch cuts: there is a moment by which its writes and all earlier ones have happened, and no
    /// later one.
    ///
    /// # Errors
    /// The key that no order explains, or the epoch that cuts none.
    pub fn linearizable(&self, record: &Recording) -> std::result::Result<(), String> {
        self.whole(record).outcomes()?;
        let writes = || self.all.iter().filter(|answer| answer.changed());
        let mut epochs: Vec<u64> = writes().map(|answer| answer.epoch).collect();
        epochs.sort_unstable();
        epochs.dedup();
        epochs.pop();
        epochs.into_iter().try_for_each(|epoch| self.cut_by(record, epoch))
    }

    fn cut_by(&self, record: &Recording, epoch: u64) -> std::result::Result<(), String> {
        let [early, late, reads] = [
            self.history(record, |a| a.changed() && a.epoch <= epoch),
            self.history(record, |a| a.changed() && a.epoch > epoch),
            self.history(record, |a| !a.changed()),
        ];
        let ended = |call: &OpInterval| call.response.map_or(usize::MAX, |r| r.0);
        let from = early.calls.iter().map(|call| call.invoked).max().unwrap_or(0);
        let to = late.calls.iter().map(ended).min().unwrap_or(usize::MAX);
        let all = [&early, &late, &reads].into_iter().flat_map(|history| &history.calls);
        let mut moments: Vec<usize> =
            all.flat_map(|call| [call.invoked, ended(call)]).filter(|at| *at >= from).collect();
        moments.sort_unstable();
        moments.dedup();
        // Moments lie between events: after event `i` is 2i + 1.
        let cut_at = |moment: usize| {
            let before = early.calls.iter().map(|call| squeeze(call, 0, 2 * moment + 1));
            let after = late.calls.iter().map(|call| squeeze(call, 2 * moment + 1, usize::MAX));
            let any = reads.calls.iter().map(|call| squeeze(call, 0, usize::MAX));
            let calls = before.chain(after).chain(any).collect();
            History { initial: early.initial.clone(), calls }.outcomes().map(drop)
        };
        let mut refused = None;
        for moment in moments.into_iter().take_while(|at| *at < to) {
            match cut_at(moment) {
                Ok(()) => return Ok(()),
                Err(what) => refused = Some(what),
            }
        }
        let why = refused.unwrap_or_else(|| {
            format!("one of its writes began at {from}, a later one had returned at {to}")
        });
        Err(format!("no moment is the end of epoch {epoch}: {why}"))
    }
}

/// A call that happens between two moments, in halves of events.
fn squeeze(call: &OpInterval, from: usize, to: usize) -> OpInterval {
    let response = call.response.map(|(at, answer)| ((2 * at).min(to), answer));
    OpInterval { op: call.op, invoked: (2 * call.invoked).max(from), response }
}
