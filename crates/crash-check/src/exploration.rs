//! The running part of an exploration: media that are used again and again, the images seen, the
//! two closures.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use everleaf_pmem::Sim;
use everleaf_pmem::sim::Event;

use crate::failure::{Coverage, Crash, Failure};
use crate::images::{ImageWalk, Persistency, Unsettled};
use crate::picks::{ImagePicks, product};
use crate::settings::Explorer;
use crate::trace::{CrashPoint, Operations, Recording};

/// Keys are hashes already.
#[derive(Debug, Default)]
struct HashIsKey(u64);

impl Hasher for HashIsKey {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, _: &[u8]) {
        unreachable!("only whole numbers are hashed")
    }
    fn write_u128(&mut self, value: u128) {
        self.0 = value as u64;
    }
}

pub(crate) struct Exploration<'a, R, V> {
    explorer: &'a Explorer,
    record: &'a Recording,
    /// One medium for each depth: making one maps memory, which costs more than all the rest.
    sims: Vec<Arc<Sim>>,
    /// Images seen since the last mark, with how many more crashes in a row they were given.
    seen: HashMap<u128, usize, BuildHasherDefault<HashIsKey>>,
    pub stats: Coverage,
    /// Buffers of the size of an image.
    spare: Vec<Vec<u64>>,
    recover: R,
    verify: V,
}

impl<'a, T, R, V> Exploration<'a, R, V>
where
    R: FnMut(&Arc<Sim>) -> Result<T, String>,
    V: FnMut(T, &Arc<Sim>, &CrashPoint<'_>) -> Result<(), String>,
{
    pub fn new(
        explorer: &'a Explorer,
        record: &'a Recording,
        recover: R,
        verify: V,
    ) -> Result<Self, Box<Failure>> {
        let words = record.limit as usize * record.geometry.page_words();
        assert_eq!(record.initial.len(), words, "a recording starts from all words of its medium");
        let (seen, stats) = (HashMap::default(), Coverage::default());
        let (sims, spare) = (vec![], vec![]);
        let mut run = Self { explorer, record, sims, seen, stats, spare, recover, verify };
        run.ready(1, &record.initial);
        Ok(run)
    }

    /// Gives the medium of a depth this image.
    fn ready(&mut self, depth: usize, image: &[u64]) {
        let fresh = || {
            let sim = Sim::from_image(self.record.geometry, self.record.limit, image);
            Arc::new(sim.expect("memory for a small medium"))
        };
        if self.sims.len() < depth {
            self.sims.push(fresh());
        } else if let Some(sim) = Arc::get_mut(&mut self.sims[depth - 1]) {
            sim.reset(image);
        } else {
            self.sims[depth - 1] = fresh();
        }
    }

    fn copy(&mut self, image: &[u64]) -> Vec<u64> {
        let mut words = self.spare.pop().unwrap_or_default();
        words.clear();
        words.extend_from_slice(image);
        words
    }

    /// How to walk a crash point's images.
    pub fn plan(
        &mut self,
        depth: usize,
        sizes: &[usize],
        lines: &[u32],
        at: usize,
        base: u128,
    ) -> ImagePicks {
        let seed = self.explorer.seed ^ (base as u64).wrapping_add(at as u64);
        let per_page = self.record.lines_per_page();
        let pages: Vec<u32> = lines.iter().map(|line| line / per_page).collect();
        let (picks, all) = self.explorer.picks(depth, sizes, &pages, seed);
        self.stats.crash_points += 1;
        self.stats.small_points += u64::from(product(sizes, 1 << 16).is_some());
        self.stats.exhaustive_points += u64::from(all);
        debug_assert!(self.stats.exhaustive_points <= self.stats.crash_points);
        picks
    }

    /// Marks make the checker ask something else, so that old images must be looked at again.
    pub fn forget_images(&mut self) {
        self.seen.clear();
    }

    /// Whether an image has not been given this many crashes yet.
    pub fn is_new(&mut self, hash: u128, depth: usize) -> bool {
        let left = 1 + self.explorer.depth.saturating_sub(depth);
        let given = self.seen.entry(hash).or_insert(0);
        if *given >= left {
            self.stats.deduplicated += 1;
            return false;
        }
        *given = left;
        true
    }

    /// Recovers and checks the image that `level.words` holds, and crashes that recovery.
    pub fn image(
        &mut self,
        level: &CrashLevel,
        hash: u128,
        changes: Vec<(u32, u64)>,
        outer: &CrashPoint<'_>,
    ) -> Outcome {
        let depth = level.depth();
        match Arc::get_mut(&mut self.sims[depth - 1]) {
            Some(sim) => sim.rewind(changes),
            None => self.ready(depth, &level.words),
        }
        self.stats.images += 1;
        self.stats.nested += u64::from(depth > 1);
        let events = self.on_medium(depth, outer)?;
        let stores = events.iter().any(|event| matches!(event, Event::Store { .. }));
        if depth < self.explorer.depth && stores {
            let [base, words] = [self.copy(&level.words), self.copy(&level.words)];
            let walk = ImageWalk::with_hash(self.explorer.mode, base, hash);
            self.ready(depth + 1, &level.words);
            let mut nested = CrashLevel::new(depth + 1, walk, words);
            nested.recovery(self, &events, outer)?;
            self.spare.extend(nested.into_buffers());
        }
        Ok(())
    }

    /// Recovers and verifies on the medium of a depth; answers what recovery did.
    fn on_medium(
        &mut self,
        depth: usize,
        crash: &CrashPoint<'_>,
    ) -> Result<Vec<Event>, Box<Failure>> {
        debug_assert!(depth <= self.explorer.depth.max(1), "{depth} crashes in a row");
        let sim = &self.sims[depth - 1];
        let mut events = Vec::new();
        let (recover, verify) = (&mut self.recover, &mut self.verify);
        let answer = catch_unwind(AssertUnwindSafe(|| {
            let recovered = recover(sim).map_err(|what| format!("recovery failed: {what}"))?;
            events = sim.take_events();
            verify(recovered, sim, crash)
        }));
        let message = match answer {
            Ok(Ok(())) => return Ok(events),
            Ok(Err(what)) => what,
            Err(panic) => format!("panic: {}", panic_text(panic.as_ref())),
        };
        Err(Box::new(Failure {
            seed: self.explorer.seed,
            message,
            crashes: Vec::new(),
            responded: crash.responded().to_vec(),
            in_flight: crash.in_flight(),
            lines_per_page: self.record.lines_per_page(),
            stats: self.stats,
        }))
    }

    /// One image, for replays.
    pub fn once(&mut self, image: &[u64], crash: &CrashPoint<'_>) -> Outcome {
        self.ready(1, image);
        self.on_medium(1, crash).map(|_| ())
    }

    /// The events of recovery on an image, for replays. A recovery that fails is reported in the end.
    pub fn events_of_recovery(&mut self, image: &[u64]) -> Vec<Event> {
        self.ready(1, image);
        let sim = &self.sims[0];
        let recover = &mut self.recover;
        let _ = catch_unwind(AssertUnwindSafe(|| recover(sim).map(drop)));
        sim.take_events()
    }
}

/// One record being walked: the workload's at depth 1, that of a recovery below.
#[derive(Debug)]
pub(crate) struct CrashLevel {
    depth: usize,
    walk: ImageWalk,
    /// The image that this depth's medium was last given.
    pub words: Vec<u64>,
    /// Lines where `words` may differ from the walk's floors.
    stale: Vec<u32>,
}

impl CrashLevel {
    /// `words` are the image that the record starts from, as in the walk.
    pub fn new(depth: usize, walk: ImageWalk, words: Vec<u64>) -> Self {
        Self { depth, walk, words, stale: Vec::new() }
    }

    /// The buffers, to be used again.
    pub fn into_buffers(self) -> [Vec<u64>; 2] {
        [self.walk.into_base(), self.words]
    }

    /// Crashes the workload at each of its crash points.
    pub fn workload<T, R, V>(
        &mut self,
        run: &mut Exploration<'_, R, V>,
        record: &Recording,
    ) -> Outcome
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
            let stored =
                self.walk.mode() == Persistency::Eadr && matches!(event, Event::Store { .. });
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
        run: &mut Exploration<'_, R, V>,
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
                if self.walk.mode() == Persistency::Eadr {
                    self.crash(run, events, at + 1, outer)?;
                }
            }
        }
        self.crash(run, events, events.len(), outer)
    }

    /// All images, or samples of them, of one crash point.
    fn crash<T, R, V>(
        &mut self,
        run: &mut Exploration<'_, R, V>,
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
        debug_assert!(
            lines.iter().all(|line| line.contents.len() > 1),
            "these lines have a choice"
        );
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
        debug_assert_eq!(lines.len(), picks.len(), "a pick for each line");
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

pub(crate) fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("of an unknown kind")
}
