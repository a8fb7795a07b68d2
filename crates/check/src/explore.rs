//! Walks through a record, builds the legal crash images, and has each one recovered and checked.
//!
//! Legal sets only grow between rises of the floors, so the crash points are: just before each
//! fence, after each response, and at the end; and before an invocation if something was stored
//! since, because from there on the checker must forgive more.
//!
//! Images are told apart by their bytes *and* by the marks before the crash: an image without an
//! operation is right while that operation runs and wrong after it has answered.

use std::sync::Arc;

use everleaf_pmem::Sim;
use everleaf_pmem::sim::Event;

use crate::failure::{Crash, Failure, Stats};
use crate::images::{Mode, Unsettled, Walk};
use crate::picks::{Picks, product};
use crate::run::Run;
use crate::trace::{CrashPoint, Operations, Record};

/// Settings of an exploration.
///
/// ```
/// use everleaf_check::{Explorer, Trace};
/// use everleaf_pmem::{Geometry, Medium, Sim};
/// let sim = std::sync::Arc::new(Sim::new(Geometry::new(4).unwrap(), 1)?);
/// let trace = Trace::new(&sim);
/// trace.op(0, || {
///     let page = sim.page(0).unwrap();
///     sim.store(page.body(0), 7);
///     sim.flush(page, page.line_of(0)); // but no fence: acknowledged too early
/// });
/// let failure = Explorer::new()
///     .check(&trace.finish(), |sim, crash| {
///         let found = sim.page(0).unwrap().body(0).load();
///         let lost = crash.responded() == [0] && found != 7;
///         if lost { Err(format!("found {found}")) } else { Ok(()) }
///     })
///     .unwrap_err();
/// assert!(failure.to_string().contains("found 0"));
/// # Ok::<(), everleaf_pmem::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Explorer {
    pub(crate) mode: Mode,
    pub(crate) seed: u64,
    pub(crate) samples: usize,
    pub(crate) exhaustive: usize,
    pub(crate) page_exhaustive: usize,
    pub(crate) depth: usize,
    pub(crate) deep_samples: usize,
}

impl Default for Explorer {
    fn default() -> Self {
        let (samples, exhaustive) = (4096, 1 << 16);
        let (depth, deep_samples, page_exhaustive) = (3, 8, 0);
        Self { mode: Mode::X86, seed: 0, samples, exhaustive, page_exhaustive, depth, deep_samples }
    }
}

impl Explorer {
    /// x86, seed 0, crash points of up to 2^16 images in full and 4096 samples of larger ones,
    /// depth 3.
    pub fn new() -> Self {
        Self::default()
    }
    /// What survives a power cut besides what was flushed and fenced.
    pub fn mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }
    /// The seed of sampling.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }
    /// Images of a crash point that has too many for all to be built.
    pub fn samples(mut self, samples: usize) -> Self {
        self.samples = samples;
        self
    }
    /// The largest number of images of one crash point that are all built.
    pub fn exhaustive(mut self, images: usize) -> Self {
        self.exhaustive = images;
        self
    }
    /// At crash points that have too many images for all to be built: the largest number of images
    /// of one page that are all built, twice, with the lines of all other pages at their floors
    /// and with all that was stored to them; samples come besides. 0, the default, for none. For
    /// structures whose pages are recovered each by itself, that is nearly as good as all.
    pub fn page_exhaustive(mut self, images: usize) -> Self {
        self.page_exhaustive = images;
        self
    }
    /// How many crashes in a row: 1 is the workload only, 2 also crashes each recovery at each of
    /// its crash points, 3 and more also crash those, with so many images at each point as `deep_samples` says.
    pub fn depth(mut self, depth: usize) -> Self {
        self.depth = depth;
        self
    }
    /// Images of each crash point at depth 3 and below.
    pub fn deep_samples(mut self, samples: usize) -> Self {
        self.deep_samples = samples;
        self
    }

    /// Recovers each legal crash image of the record by `recover`, and has `verify` look at the
    /// outcome. What `recover` stores is itself crashed, to the chosen depth; `verify` may go on
    /// to use what was recovered, and is not. A panic in either counts as a refusal.
    ///
    /// # Errors
    /// The first image that was refused.
    pub fn explore<T>(
        &self,
        record: &Record,
        recover: impl FnMut(&Arc<Sim>) -> Result<T, String>,
        verify: impl FnMut(T, &Arc<Sim>, &CrashPoint<'_>) -> Result<(), String>,
    ) -> Result<Stats, Box<Failure>> {
        let mut run = Run::new(self, record, recover, verify)?;
        let walk = Walk::new(self.mode, record.initial.clone());
        let mut level = Level::new(1, walk, record.initial.clone());
        level.workload(&mut run, record)?;
        run.stats.tally();
        Ok(run.stats)
    }

    /// As [`Explorer::explore`] for things that need no recovery: crashes the workload only.
    ///
    /// # Errors
    /// The first image that was refused.
    pub fn check(
        &self,
        record: &Record,
        mut check: impl FnMut(&Arc<Sim>, &CrashPoint<'_>) -> Result<(), String>,
    ) -> Result<Stats, Box<Failure>> {
        let shallow = self.clone().depth(1);
        shallow.explore(record, |_| Ok(()), |(), sim, crash| check(sim, crash))
    }

    /// Runs one image again: that of a [`Failure`], by its `crashes`.
    ///
    /// # Errors
    /// The failure, if it still happens.
    ///
    /// # Panics
    /// If the crashes are not those of this record.
    pub fn replay<T>(
        &self,
        record: &Record,
        crashes: &[Crash],
        recover: impl FnMut(&Arc<Sim>) -> Result<T, String>,
        verify: impl FnMut(T, &Arc<Sim>, &CrashPoint<'_>) -> Result<(), String>,
    ) -> Result<(), Box<Failure>> {
        let shallow = self.clone().depth(1);
        let mut run = Run::new(&shallow, record, recover, verify)?;
        let (first, mut rest) = crashes.split_first().expect("at least one crash");
        let mut operations = Operations::default();
        for event in &record.events[..first.event] {
            if let Event::Mark { mark, .. } = event {
                operations.see(*mark);
            }
        }
        let point = CrashPoint::new(&record.events, first.event, &operations);
        let walk = Walk::new(self.mode, record.initial.clone());
        let mut image = walk.image_of(&record.events, first);
        while let Some((crash, deeper)) = rest.split_first() {
            let events = run.events_of_recovery(&image);
            image = Walk::new(self.mode, image).image_of(&events, crash);
            rest = deeper;
        }
        run.once(&image, &point).map_err(|mut failure| {
            failure.crashes = crashes.to_vec();
            failure
        })
    }
}

/// One record being walked: the workload's at depth 1, that of a recovery below.
#[derive(Debug)]
pub(crate) struct Level {
    depth: usize,
    walk: Walk,
    /// The image that this depth's medium was last given.
    pub words: Vec<u64>,
    /// Lines where `words` may differ from the walk's floors.
    stale: Vec<u32>,
}

impl Level {
    /// `words` are the image that the record starts from, as in the walk.
    pub fn new(depth: usize, walk: Walk, words: Vec<u64>) -> Self {
        Self { depth, walk, words, stale: Vec::new() }
    }

    /// The buffers, to be used again.
    pub fn into_buffers(self) -> [Vec<u64>; 2] {
        [self.walk.into_base(), self.words]
    }

    fn workload<T, R, V>(&mut self, run: &mut Run<'_, R, V>, record: &Record) -> Outcome
    where
        R: FnMut(&Arc<Sim>) -> Result<T, String>,
        V: FnMut(T, &Arc<Sim>, &CrashPoint<'_>) -> Result<(), String>,
    {
        let mut operations = Operations::default();
        let events = &record.events;
        self.crash(run, events, 0, &CrashPoint::new(events, 0, &operations))?;
        let mut new_stores = false;
        for (at, &event) in events.iter().enumerate() {
            let mark = if let Event::Mark { mark, .. } = event { Some(mark) } else { None };
            let invokes = mark.is_some_and(|mark| mark.is_multiple_of(2));
            if new_stores && (invokes || matches!(event, Event::Fence { .. })) {
                self.crash(run, events, at, &CrashPoint::new(events, at, &operations))?;
                new_stores = false;
            }
            self.walk.step(event);
            new_stores |= matches!(event, Event::Store { .. });
            if let Some(mark) = mark {
                operations.see(mark);
                run.forget_images();
            }
            let stored = self.walk.mode() == Mode::Eadr && matches!(event, Event::Store { .. });
            if stored || (mark.is_some() && !invokes) {
                self.crash(run, events, at + 1, &CrashPoint::new(events, at + 1, &operations))?;
                new_stores = false;
            }
        }
        let end = CrashPoint::new(events, events.len(), &operations);
        self.crash(run, events, events.len(), &end)
    }

    /// Crashes a recovery: as a workload without operations, after the workload's own crash.
    pub fn recovery<T, R, V>(
        &mut self,
        run: &mut Run<'_, R, V>,
        events: &[Event],
        outer: &CrashPoint<'_>,
    ) -> Outcome
    where
        R: FnMut(&Arc<Sim>) -> Result<T, String>,
        V: FnMut(T, &Arc<Sim>, &CrashPoint<'_>) -> Result<(), String>,
    {
        let mut new_stores = false;
        for (at, &event) in events.iter().enumerate() {
            if new_stores && matches!(event, Event::Fence { .. }) {
                self.crash(run, events, at, outer)?;
                new_stores = false;
            }
            self.walk.step(event);
            if matches!(event, Event::Store { .. }) {
                new_stores = true;
                if self.walk.mode() == Mode::Eadr {
                    self.crash(run, events, at + 1, outer)?;
                }
            }
        }
        self.crash(run, events, events.len(), outer)
    }

    /// All images, or samples of them, of one crash point.
    fn crash<T, R, V>(
        &mut self,
        run: &mut Run<'_, R, V>,
        events: &[Event],
        at: usize,
        outer: &CrashPoint<'_>,
    ) -> Outcome
    where
        R: FnMut(&Arc<Sim>) -> Result<T, String>,
        V: FnMut(T, &Arc<Sim>, &CrashPoint<'_>) -> Result<(), String>,
    {
        let lines = self.walk.unsettled();
        let sizes: Vec<usize> = lines.iter().map(|line| line.contents.len()).collect();
        let numbers: Vec<u32> = lines.iter().map(|line| line.line).collect();
        let mut plan = run.plan(self.depth, &sizes, &numbers, at, self.walk.base_hash());
        self.stale.extend(self.walk.take_risen());
        let mut applied = vec![usize::MAX; lines.len()];
        let mut picks = Vec::with_capacity(lines.len());
        while plan.next(&sizes, &mut picks) {
            let chosen = lines.iter().zip(&picks).map(|(line, &which)| line.contents[which].delta);
            let hash = chosen.fold(self.walk.base_hash(), u128::wrapping_add);
            if !run.is_new(hash, self.depth) {
                continue;
            }
            let changes = self.changes(&lines, &picks, &mut applied);
            run.image(self, hash, changes, outer).map_err(|mut failure| {
                let choices = lines.iter().zip(&picks).map(|(l, &which)| l.choice(which));
                failure.crashes.insert(0, Crash::new(events, at, choices.collect()));
                failure
            })?;
        }
        self.stale.extend(lines.iter().map(|line| line.line));
        Ok(())
    }

    /// Brings `words` to the picked image and says which words that changes.
    fn changes(
        &mut self,
        lines: &[Unsettled],
        picks: &[usize],
        applied: &mut [usize],
    ) -> Vec<(u32, u64)> {
        let mut changes = Vec::new();
        let words = &mut self.words;
        let mut set = |line: u32, new: &[u64]| {
            let at = line as usize * new.len();
            for (i, &value) in new.iter().enumerate() {
                if words[at + i] != value {
                    words[at + i] = value;
                    changes.push(((at + i) as u32, value));
                }
            }
        };
        for line in self.stale.drain(..) {
            set(line, self.walk.line_base(line));
        }
        for ((line, &which), applied) in lines.iter().zip(picks).zip(applied) {
            if *applied != which {
                set(line.line, &line.contents[which].words);
                *applied = which;
            }
        }
        changes
    }

    pub fn depth(&self) -> usize {
        self.depth
    }
}

/// The first failure ends the exploration.
pub(crate) type Outcome = Result<(), Box<Failure>>;

impl Explorer {
    /// How a crash point's images are walked, and whether that is all of them. `pages` are the pages
    /// of the lines, in order.
    pub(crate) fn picks(
        &self,
        depth: usize,
        sizes: &[usize],
        pages: &[u32],
        seed: u64,
    ) -> (Picks, bool) {
        let deep = depth > 2;
        let limit = if deep { self.deep_samples } else { self.exhaustive };
        if product(sizes, limit).is_some() {
            return (Picks::all(), true);
        }
        let samples = if deep { self.deep_samples } else { self.samples };
        let sampled = Picks::sampled(sizes, samples, seed);
        if deep || self.page_exhaustive == 0 {
            return (sampled, false);
        }
        let (mut ranges, mut start) = (Vec::new(), 0);
        for page in pages.chunk_by(|a, b| a == b) {
            let lines = start..start + page.len();
            start = lines.end;
            if product(&sizes[lines.clone()], self.page_exhaustive).is_some() {
                ranges.push(lines);
            }
        }
        (Picks::by_page(ranges, sampled), false)
    }
}
