//! Threads of which one runs at a time, and a seed that says which: the same seed gives the same
//! run. Control changes hands just before accesses to shared memory
//! ([`everleaf_pmem::schedule`]), so a run shows the interleavings of single accesses; what
//! processors reorder beyond that is for loom.
//!
//! A schedule has a few *preemptions* at random accesses, as most bugs take only one or two in the
//! right places (Burckhardt et al., ASPLOS 2010); here any other thread goes on, without their
//! priorities. A thread that waits for another gives way too, and so does one that ends.
//!
//! ```
//! use std::sync::Arc;
//! use everleaf_crash_check::schedule::{Job, Policy, Scheduler};
//! use everleaf_pmem::{Geometry, Medium, Sim};
//!
//! let mut scheduler = Scheduler::new(2);
//! let lost = (0..100).find(|&seed| {
//!     let sim = Arc::new(Sim::new(Geometry::new(4).unwrap(), 1).unwrap());
//!     let count = |sim: Arc<Sim>| -> Job {
//!         Box::new(move || {
//!             let word = sim.page(0).unwrap().body(0);
//!             sim.store(word, word.load() + 1); // not one access, but two
//!         })
//!     };
//!     let jobs = vec![count(Arc::clone(&sim)), count(Arc::clone(&sim))];
//!     scheduler.run(&Policy { seed, horizon: 4, ..Policy::default() }, jobs).unwrap();
//!     sim.page(0).unwrap().body(0).load() == 1
//! });
//! assert!(lost.is_some());
//! ```

use std::cell::RefCell;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;

use everleaf_pmem::schedule::{Point, set_hook, set_number};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::exploration::panic_text;

/// The work of one thread of a run. When the run ends, the job has dropped everything that it owned.
pub type Job = Box<dyn FnOnce() + Send>;

/// How a run is scheduled.
#[derive(Debug, Clone, Copy)]
pub struct Policy {
    /// Decides everything random.
    pub seed: u64,
    /// How often, at most, a thread is stopped though it could go on. Each run picks a number from 0 to
    /// this.
    pub preemptions: u32,
    /// Preemptions come before this access; best is about as many as a run has.
    pub horizon: u64,
    /// Half of the preemptions come before this access of those that are no reads, which are few.
    pub writes: u64,
    /// A run with more accesses than this makes no progress.
    pub bound: u64,
}

impl Default for Policy {
    /// Seed 0, up to 4 preemptions among the first 1,000 accesses and 200 of them that are no
    /// reads; at most 200,000 accesses.
    fn default() -> Self {
        Self { seed: 0, preemptions: 4, horizon: 1000, writes: 200, bound: 200_000 }
    }
}

/// The course of a run: the threads took turns as `turns` says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ran {
    /// Accesses of all threads together, and turns of loops that wait.
    pub steps: u64,
    /// (step, thread): from this step on that thread ran.
    pub turns: Vec<(u64, usize)>,
}

impl fmt::Display for Ran {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 40;
        write!(f, "{} steps; from step on, thread:", self.steps)?;
        let mut shown = self.turns.iter().take(SHOWN);
        shown.try_for_each(|(step, thread)| write!(f, " {step}:{thread}"))?;
        if self.turns.len() > SHOWN { write!(f, " … ({})", self.turns.len()) } else { Ok(()) }
    }
}

/// A run that made no progress or in which a thread panicked. The same policy and jobs give it
/// again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failed {
    /// The seed of the policy.
    pub seed: u64,
    /// A message that says what went wrong.
    pub what: String,
    /// The run until then.
    pub ran: Ran,
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (schedule's seed {}; {})", self.what, self.seed, self.ran)
    }
}

impl std::error::Error for Failed {}

/// Threads that run one schedule after the other.
#[derive(Debug)]
pub struct Scheduler {
    baton: Arc<Baton>,
    threads: Vec<JoinHandle<()>>,
}

impl Scheduler {
    /// Starts `threads` threads, which wait for jobs.
    pub fn new(threads: usize) -> Self {
        let seats = (0..=threads).map(|_| Condvar::new()).collect();
        let baton = Arc::new(Baton { seats, state: Mutex::new(State::idle(threads)) });
        let serve = |me| {
            let baton = Arc::clone(&baton);
            std::thread::spawn(move || serve(me, &baton))
        };
        let threads = (0..threads).map(serve).collect();
        Self { baton, threads }
    }

    /// Runs the jobs to their ends; job i on thread i.
    ///
    /// # Errors
    /// A job that panicked, or a run that passed the policy's bound. All jobs have ended.
    ///
    /// # Panics
    /// If there are more jobs than threads, or none.
    pub fn run(&mut self, policy: &Policy, jobs: Vec<Job>) -> Result<Ran, Failed> {
        let main = self.threads.len();
        assert!((1..=main).contains(&jobs.len()), "{} jobs, {main} threads", jobs.len());
        let baton = &self.baton;
        let mut state = baton.lock();
        state.begin(policy, jobs);
        let first = state.any(None);
        state = baton.pass(state, first);
        state = baton.wait(state, main);
        let ran = Ran { steps: state.steps, turns: std::mem::take(&mut state.turns) };
        match state.trouble.take() {
            Some(what) => Err(Failed { seed: policy.seed, what, ran }),
            None => Ok(ran),
        }
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        self.baton.lock().over = true;
        self.baton.seats.iter().for_each(Condvar::notify_all);
        for thread in self.threads.drain(..) {
            // Panics of jobs are caught; there is nothing else to report.
            let _ = thread.join();
        }
    }
}

/// The right to run. The last seat is that of the thread that asked for the run.
#[derive(Debug)]
struct Baton {
    seats: Box<[Condvar]>,
    state: Mutex<State>,
}

struct State {
    /// The seat whose thread runs.
    turn: usize,
    jobs: Vec<Option<Job>>,
    /// Threads whose jobs have not ended.
    live: Vec<usize>,
    rng: Xoshiro256PlusPlus,
    /// The preemptions to come, by step and by write, the next one last.
    by_step: Vec<u64>,
    by_write: Vec<u64>,
    bound: u64,
    steps: u64,
    writes: u64,
    turns: Vec<(u64, usize)>,
    trouble: Option<String>,
    /// The run is given up: threads unwind at their next step.
    stopped: bool,
    over: bool,
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "thread {} of {:?} at step {}", self.turn, self.live, self.steps)
    }
}

impl State {
    fn idle(threads: usize) -> Self {
        Self {
            turn: threads,
            jobs: Vec::new(),
            live: Vec::new(),
            rng: Xoshiro256PlusPlus::seed_from_u64(0),
            by_step: Vec::new(),
            by_write: Vec::new(),
            bound: 0,
            steps: 0,
            writes: 0,
            turns: Vec::new(),
            trouble: None,
            stopped: false,
            over: false,
        }
    }

    fn begin(&mut self, policy: &Policy, jobs: Vec<Job>) {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(policy.seed);
        let (mut by_step, mut by_write) = (Vec::new(), Vec::new());
        for _ in 0..rng.random_range(0..=policy.preemptions) {
            let (list, horizon) = match rng.random_bool(0.5) {
                true => (&mut by_step, policy.horizon),
                false => (&mut by_write, policy.writes),
            };
            list.push(rng.random_range(1..=horizon.max(1)));
        }
        by_step.sort_unstable_by(|a, b| b.cmp(a));
        by_write.sort_unstable_by(|a, b| b.cmp(a));
        *self = Self {
            live: (0..jobs.len()).collect(),
            jobs: jobs.into_iter().map(Some).collect(),
            rng,
            by_step,
            by_write,
            bound: policy.bound,
            ..Self::idle(self.turn)
        };
    }

    /// A thread whose job has not ended, other than `me` if there is another.
    fn any(&mut self, me: Option<usize>) -> usize {
        let mut others = self.live.clone();
        others.retain(|&thread| Some(thread) != me);
        if others.is_empty() {
            self.live[0]
        } else {
            others[self.rng.random_range(0..others.len())]
        }
    }

    /// The thread that goes on after this step of thread `me`.
    fn next(&mut self, me: usize, point: Point) -> usize {
        self.steps += 1;
        if self.steps > self.bound && !self.stopped {
            self.stopped = true;
            self.trouble.get_or_insert(format!("no progress in {} steps", self.bound));
        }
        let mut gives_way = point == Point::Pause;
        self.writes += u64::from(point == Point::Write);
        while self.by_step.pop_if(|step| *step <= self.steps).is_some() {
            gives_way = true;
        }
        while self.by_write.pop_if(|write| *write <= self.writes).is_some() {
            gives_way = true;
        }
        if gives_way && !self.stopped { self.any(Some(me)) } else { me }
    }
}

/// The payload of the panic that ends a job of a run that is given up.
struct Stopped;

impl Baton {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics with this lock")
    }

    /// Gives the baton to a seat.
    fn pass<'b>(&'b self, mut state: MutexGuard<'b, State>, to: usize) -> MutexGuard<'b, State> {
        let step = state.steps;
        debug_assert!(
            to + 1 == self.seats.len() || state.live.contains(&to),
            "the baton goes to a thread that has a job, or back"
        );
        state.turn = to;
        if to + 1 < self.seats.len() {
            state.turns.push((step, to));
        }
        self.seats[to].notify_one();
        state
    }

    /// Waits for the baton.
    fn wait<'b>(&'b self, state: MutexGuard<'b, State>, me: usize) -> MutexGuard<'b, State> {
        let waiting = |state: &mut State| state.turn != me && !state.over;
        self.seats[me].wait_while(state, waiting).expect("nothing panics with this lock")
    }

    /// One step of the thread that runs: it goes on at once, or when the baton comes back.
    fn step(&self, me: usize, point: Point) {
        let mut state = self.lock();
        debug_assert_eq!(state.turn, me, "one thread runs at a time");
        let next = state.next(me, point);
        if next != me {
            state = self.pass(state, next);
            state = self.wait(state, me);
        }
        let stopped = state.stopped;
        drop(state);
        if stopped && !std::thread::panicking() {
            resume_unwind(Box::new(Stopped));
        }
    }

    /// The next job of a thread, or none when all is over.
    fn job(&self, me: usize) -> Option<Job> {
        let mut state = self.wait(self.lock(), me);
        if state.over { None } else { state.jobs[me].take() }
    }

    /// A job has ended.
    fn end(&self, me: usize, trouble: Option<String>) {
        let mut state = self.lock();
        if let Some(what) = trouble {
            state.trouble.get_or_insert(what);
        }
        state.live.retain(|&thread| thread != me);
        let to = if state.live.is_empty() { self.seats.len() - 1 } else { state.any(None) };
        drop(self.pass(state, to));
    }
}

thread_local!(static SEAT: RefCell<Option<(Arc<Baton>, usize)>> = const { RefCell::new(None) });

fn hook(point: Point) {
    let seat = SEAT.with_borrow(|seat| seat.as_ref().map(|(baton, me)| (Arc::clone(baton), *me)));
    if let Some((baton, me)) = seat {
        baton.step(me, point);
    }
}

/// A point at which a test itself lets others run, for example between two operations. It does
/// nothing on threads without a scheduler.
pub fn breathe() {
    hook(Point::Read);
}

/// Like [`breathe`], but counted as a write: for calls that schedules should tell apart from reads,
/// such as those to a disk.
pub fn before_write() {
    hook(Point::Write);
}

/// Scheduled threads are numbered by their seats, from here on: above all others.
const FIRST_NUMBER: usize = 1 << 20;

/// The life of a thread: one job after the other.
fn serve(me: usize, baton: &Arc<Baton>) {
    SEAT.set(Some((Arc::clone(baton), me)));
    set_number(FIRST_NUMBER + me);
    set_hook(Some(hook));
    while let Some(job) = baton.job(me) {
        let trouble = match catch_unwind(AssertUnwindSafe(job)) {
            Err(panic) if !panic.is::<Stopped>() => {
                Some(format!("thread {me} panicked: {}", panic_text(panic.as_ref())))
            }
            _ => None,
        };
        baton.end(me, trouble);
    }
    set_hook(None);
}
