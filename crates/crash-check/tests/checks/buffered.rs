//! Buffered durability under the scheduler and the crash checker: what a medium that defers lines
//! says to be durable is there in every image, wherever its steps and commits were stopped.

use std::sync::{Arc, Mutex};

use everleaf_crash_check::schedule::{Job, Policy, Scheduler};
use everleaf_crash_check::{CrashPoint, Explorer, Mutate, Mutation, SharedMedium, Trace, mutants};
use everleaf_pmem::{
    Buffered, BufferedOptions, Counts, Geometry, Medium, PageNo, Result, SEQ_WORD, Sim,
};

/// Threads of a run: two that step and wait, one with batches.
const THREADS: u64 = 3;
const PAGES: PageNo = 3;

type Inner = Mutate<SharedMedium<Sim>>;

/// A step that ended: it left `value`, higher than the one before, in its page.
#[derive(Debug, Clone, Copy)]
struct Done {
    page: PageNo,
    value: u64,
    epoch: u64,
}

#[derive(Default)]
struct Log {
    done: Vec<Done>,
    /// Operations, with the epoch that they were told to be durable.
    told: Vec<(u64, u64)>,
}

/// A counter in each page, in one line with the epoch of its last change.
#[derive(Clone)]
struct Counters {
    medium: Arc<Buffered<Inner>>,
    log: Arc<Mutex<Log>>,
}

impl Counters {
    fn new(sim: &Arc<Sim>, fault: Option<Mutation>) -> Self {
        let inner = Mutate::new(SharedMedium::new(sim), fault);
        let medium = Buffered::new(inner, &BufferedOptions::default()).expect("valid");
        Self { medium: Arc::new(medium), log: Arc::default() }
    }

    fn add(&self, no: PageNo) -> Result<u64> {
        let page = self.medium.page(no)?;
        let _held = page.latch().lock();
        let mut op = self.medium.enter()?;
        let (value, epoch) = (page.body(0).load() + 1, self.medium.epoch(&op));
        assert!(page.body(1).load() <= epoch, "the page is of a later epoch");
        self.medium.store(page.body(1), epoch);
        self.medium.store(page.body(0), value);
        self.medium.defer(&mut op, page, 1);
        self.log.lock().expect("no panic inside").done.push(Done { page: no, value, epoch });
        Ok(epoch)
    }

    /// Operation `id`: `steps` and the wait until they are durable.
    fn durably(&self, trace: &Trace, id: u64, steps: impl FnOnce() -> Result<u64>) {
        trace.op(id, || {
            let epoch = steps().expect("open");
            self.medium.wait_durable(epoch).expect("open");
            self.log.lock().expect("no panic inside").told.push((id, epoch));
        });
    }

    fn batch(&self) -> Result<u64> {
        let _hold = self.medium.pin_epoch();
        let epochs = [self.add(1)?, self.add(2)?];
        assert_eq!(epochs[0], epochs[1], "a batch in two epochs");
        Ok(epochs[0])
    }

    /// Whether the image holds what its own word and the acknowledgements promise.
    fn verify(&self, image: &Arc<Sim>, crash: &CrashPoint<'_>) -> Result<(), String> {
        let page = |no| image.page(no).expect("inside");
        let durable = page(0).head(SEQ_WORD).load();
        let log = self.log.lock().expect("no panic inside");
        for done in log.done.iter().filter(|done| done.epoch <= durable) {
            if page(done.page).body(0).load() < done.value {
                return Err(format!("{done:?} is lost, and epoch {durable} durable"));
            }
        }
        if let Some((id, epoch)) =
            log.told.iter().find(|(id, e)| crash.responded().contains(id) && *e > durable)
        {
            return Err(format!("operation {id} of epoch {epoch} answered, {durable} is durable"));
        }
        match (1..PAGES).map(|no| page(no).body(1).load()).find(|epoch| *epoch > durable + 2) {
            Some(epoch) => Err(format!("a page of epoch {epoch}, and {durable} is durable")),
            None => Ok(()),
        }
    }
}

fn sim() -> Arc<Sim> {
    Arc::new(Sim::new(Geometry::new(4).expect("a power of two"), PAGES).expect("memory"))
}

#[test]
fn what_is_durable_survives_every_schedule_and_crash() {
    let mut scheduler = Scheduler::new(THREADS as usize);
    let mut runs_by_commits = [0; 7];
    for seed in 0..3000 {
        let sim = sim();
        let trace = Arc::new(Trace::new(&sim));
        let counters = Counters::new(&sim, None);
        let jobs = (0..THREADS).map(|thread| -> Job {
            let (counters, trace) = (counters.clone(), Arc::clone(&trace));
            Box::new(move || {
                for i in 0..2 {
                    counters.durably(&trace, 2 * thread + i, || match thread {
                        0 => counters.batch(),
                        _ => counters.add(thread as PageNo),
                    });
                }
            })
        });
        let policy = Policy { seed, horizon: 300, writes: 150, ..Policy::default() };
        let ran = scheduler.run(&policy, jobs.collect());
        ran.unwrap_or_else(|failed| panic!("{failed}"));
        let record = Arc::into_inner(trace).expect("the jobs have ended").finish();
        let checked = Explorer::new().check(&record, |image, crash| counters.verify(image, crash));
        checked.unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
        runs_by_commits[counters.medium.stats().commits as usize] += 1;
    }
    // Two at least, as a thread's second step waits for its first; less than one for each step.
    let [_, _, two, three, four, ..] = runs_by_commits;
    assert!(two > 100 && three > 100 && four > 100, "{runs_by_commits:?}");
}

/// Each flush and each fence of a commit is needed.
#[test]
fn every_flush_and_fence_of_a_commit_is_missed() {
    let run = |fault| -> (Counts, Result<(), String>) {
        let sim = sim();
        let trace = Trace::new(&sim);
        let counters = Counters::new(&sim, fault);
        for id in 0..3 {
            counters.durably(&trace, id, || counters.batch());
        }
        let counts = counters.medium.inner().counts();
        let checked = Explorer::new()
            .check(&trace.finish(), |image, crash| counters.verify(image, crash))
            .map_err(|failure| failure.to_string());
        (counts, checked.map(drop))
    };
    let (counts, sound) = run(None);
    assert_eq!(sound, Ok(()));
    assert_eq!((counts.flushes, counts.fences), (9, 6));
    let faults = Mutation::each(Counts { stores: 0, ..counts });
    let report = mutants(faults, |fault| run(Some(fault)).1);
    assert_eq!((report.killed.len(), &report.survivors[..]), (15, &[][..]), "{report}");
}
