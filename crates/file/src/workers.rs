//! Threads that all pools of a process share.
//!
//! A pool has [tasks](Task): one ends its epochs, one has memory ready, one writes checkpoints. A task
//! sleeps until somebody [wakes](Waker) it or its time has come. Then one of the threads here runs its
//! [job](Job), which says when it is to run next, if at all. So a pool that nobody uses costs no thread and
//! no wakeup, and thousands of pools have a few threads.
//!
//! A job may wait long, for a disk say. So a thread that takes a job leaves another one behind, which waits for
//! what is due next, and starts that one if need be. As long as the threads that are busy get on with
//! their jobs, there are about as many as there are processors; each 4 ms in which none of them
//! does, one more is started. Jobs that take long by nature are fewer than there are threads, so that
//! all others always find one.
//!
//! A job that panics is never run again, and no other task hears of it. A process that was forked has
//! none of these threads: the first pool that it opens itself starts its own.

use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use everleaf_pmem::error::{Error, Result};
use everleaf_pmem::fallible;
use everleaf_pmem::life::Life;
use everleaf_pmem::locks::{Condvar, Mutex, MutexGuard};
use everleaf_pmem::sync::lock_plain as lock;

/// The most threads that there ever are.
const THREADS_MOST: usize = 64;
/// The most of them that run [long](Length::Long) jobs.
const LONG_MOST: usize = 24;
/// How long a job that is due waits for a thread that is busy, before one more is started.
const PATIENCE: Duration = Duration::from_millis(4);
/// A thread that nobody has needed for so long ends.
const LINGER: Duration = Duration::from_secs(10);
/// No time is further ahead.
const AHEAD_MOST: Duration = Duration::from_secs(1 << 32);
/// Names this memory in errors.
const LIST: &str = "the list of tasks";

const _: () = assert!(LONG_MOST < THREADS_MOST, "long jobs would keep all others waiting");

thread_local! {
    /// The task whose job this thread runs.
    static RUNS: Cell<Option<u64>> = const { Cell::new(None) };
}

/// The job of a task.
pub trait Job: Send {
    /// Runs once. Says how long after that it is to run again, whoever wakes it; if not at all, it sleeps
    /// until somebody does.
    fn run(&mut self) -> Option<Duration>;
    /// Its run has panicked, and was the last one.
    fn broke(&mut self);
}

/// How long a job may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Length {
    /// About as long as a sync of the disk.
    Short,
    /// However long.
    Long,
}

/// When a task runs, and which of its times that is.
type Due = (Instant, u64);

/// The name that a task is known by.
struct Name {
    workers: &'static Workers,
    /// Its entry, which is another task's after it.
    at: usize,
    id: u64,
    /// It will run: a caller that wakes it need not ask for that again.
    planned: AtomicBool,
}

/// The state of a task.
struct Entry {
    name: Arc<Name>,
    length: Length,
    /// `None` while it runs.
    job: Option<Box<dyn Job>>,
    at: Option<Due>,
    /// Somebody woke it while it ran.
    wanted: Option<Instant>,
    is_over: bool,
}

#[derive(Default)]
struct Queue {
    entries: Vec<Option<Entry>>,
    vacant: Vec<usize>,
    /// Times of short and of long jobs, with their entries; those that the entry does not have any more are
    /// left over.
    due: [BinaryHeap<Reverse<(Due, usize)>>; 2],
    /// Numbers that were given to tasks and to times.
    last: u64,
    tasks: usize,
    threads: usize,
    busy: usize,
    busy_long: usize,
    /// A thread waits for the next time.
    watched: bool,
    /// Threads that wait for that to become their turn.
    spare: usize,
    /// When a job was last taken.
    taken: Option<Instant>,
}

type Locked = MutexGuard<'static, Queue>;

/// The threads, and what they have to do.
struct Workers {
    life: Life,
    processors: usize,
    queue: Mutex<Queue>,
    /// For the thread that waits for the next time, for those that wait for their turn, and for those that wait
    /// for the end of a run.
    watch: Condvar,
    turn: Condvar,
    ended: Condvar,
    /// Those of a process that was forked from this one.
    next: OnceLock<Box<Workers>>,
}

impl Queue {
    fn number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// Makes room for one more task: nothing else needs memory.
    fn reserve(&mut self) -> Result<()> {
        let tasks = self.entries.len() + 1;
        fallible::more(&mut self.entries, 1, LIST)?;
        fallible::more(&mut self.vacant, tasks, LIST)?;
        for due in &mut self.due {
            let more = (2 * tasks).saturating_sub(due.len());
            let bytes = more * size_of::<Reverse<(Due, usize)>>();
            due.try_reserve(more).map_err(|_| Error::NoMemory { what: LIST, bytes })?;
        }
        Ok(())
    }

    /// The entry of a task that is not over.
    fn entry(&mut self, name: &Name) -> Option<&mut Entry> {
        let entry = self.entries.get_mut(name.at)?.as_mut();
        entry.filter(|entry| entry.name.id == name.id && !entry.is_over)
    }

    /// Has a task run at a time, and not at the one that it had.
    fn plan(&mut self, at: usize, when: Instant) {
        let number = self.number();
        let Queue { entries, due, .. } = self;
        let is_one = |(when, at): (Due, usize), entries: &[Option<Entry>]| {
            entries[at].as_ref().is_some_and(|entry| entry.at == Some(when))
        };
        let Some(entry) = entries[at].as_mut() else { return };
        entry.at = Some((when, number));
        let due = &mut due[entry.length as usize];
        if due.len() == due.capacity() {
            // Each task has one time at most, and there is room for two.
            due.retain(|Reverse(one)| is_one(*one, entries));
        }
        debug_assert!(due.len() < due.capacity(), "room for a time");
        due.push(Reverse(((when, number), at)));
    }

    /// The next time at which there is something to do, and the task.
    fn next(&mut self) -> Option<(Instant, usize)> {
        let lengths = if self.busy_long < LONG_MOST { 2 } else { 1 };
        let Queue { entries, due, .. } = self;
        let mut first: Option<(Due, usize)> = None;
        for due in &mut due[..lengths] {
            while let Some(Reverse((when, at))) = due.peek() {
                if entries[*at].as_ref().is_none_or(|entry| entry.at != Some(*when)) {
                    due.pop();
                    continue;
                }
                first = first.map_or(Some((*when, *at)), |one| Some(one.min((*when, *at))));
                break;
            }
        }
        first.map(|((when, _), at)| (when, at))
    }

    /// Whether another thread than those that are busy waits for what comes.
    fn is_watched(&self) -> bool {
        self.watched || self.spare > 0
    }

    /// When a thread may take the job that is due next.
    fn patient(&self, when: Instant, processors: usize) -> Instant {
        let starts_one = !self.is_watched() && self.threads < THREADS_MOST;
        match self.taken {
            Some(taken) if starts_one && self.busy >= processors => when.max(taken + PATIENCE),
            _ => when,
        }
    }
}

impl Workers {
    fn new() -> Workers {
        Workers {
            life: Life::default(),
            processors: thread::available_parallelism().map_or(1, |n| n.get()),
            queue: Mutex::default(),
            watch: Condvar::new(),
            turn: Condvar::new(),
            ended: Condvar::new(),
            next: OnceLock::new(),
        }
    }

    /// Those of this process.
    fn here() -> &'static Workers {
        static FIRST: OnceLock<Workers> = OnceLock::new();
        let mut workers = FIRST.get_or_init(Workers::new);
        while workers.life.is_forked() {
            workers = workers.next.get_or_init(|| Box::new(Workers::new()));
        }
        workers
    }

    fn start(&'static self) -> std::io::Result<()> {
        let thread = thread::Builder::new().name("everleaf".into());
        thread.spawn(|| self.work()).map(drop)
    }

    /// A thread's life.
    fn work(&'static self) {
        let mut queue = lock(&self.queue);
        loop {
            let (waited, taken) = self.wait_for_job(queue);
            queue = waited;
            match taken {
                Some(at) => queue = self.run(queue, at),
                None => break,
            }
        }
        queue.threads -= 1;
    }

    /// Waits until a job is due that this thread is to run; none if the thread is to end.
    fn wait_for_job(&self, mut queue: Locked) -> (Locked, Option<usize>) {
        loop {
            let next = queue.next();
            let next = next.map(|(when, at)| (queue.patient(when, self.processors), at));
            let now = Instant::now();
            if let Some((_, at)) = next.filter(|(when, _)| *when <= now) {
                queue.taken = Some(now);
                return (queue, Some(at));
            }
            let watches = !queue.watched;
            let ends_after = if queue.tasks == 0 || !watches && queue.spare > 0 {
                Some(LINGER)
            } else if watches {
                next.map(|(when, _)| when - now)
            } else {
                None
            };
            let condvar = if watches { &self.watch } else { &self.turn };
            if watches {
                queue.watched = true;
            } else {
                queue.spare += 1;
            }
            let is_late;
            (queue, is_late) = wait(condvar, queue, ends_after);
            if watches {
                queue.watched = false;
            } else {
                queue.spare -= 1;
            }
            if is_late && (queue.tasks == 0 || !watches && queue.spare > 0) {
                return (queue, None);
            }
        }
    }

    /// Runs the job of a task that is due.
    fn run(&'static self, mut queue: Locked, at: usize) -> Locked {
        let Some((id, long, mut job)) = queue.entries[at].as_mut().and_then(|entry| {
            entry.at = None;
            // The run sees what was done before somebody woke it.
            entry.name.planned.swap(false, Ordering::AcqRel);
            Some((entry.name.id, entry.length == Length::Long, entry.job.take()?))
        }) else {
            debug_assert!(false, "a job that runs is due");
            return queue;
        };
        queue.busy += 1;
        queue.busy_long += usize::from(long);
        let starts_one = !queue.is_watched() && queue.threads < THREADS_MOST;
        if starts_one {
            queue.threads += 1;
        } else if !queue.watched && queue.next().is_some() {
            self.turn.notify_one();
        }
        drop(queue);
        if starts_one && self.start().is_err() {
            // It is tried again with the next job.
            lock(&self.queue).threads -= 1;
        }
        RUNS.set(Some(id));
        let ran = catch_unwind(AssertUnwindSafe(|| job.run()));
        if ran.is_err() {
            let _ = catch_unwind(AssertUnwindSafe(|| job.broke()));
        }
        RUNS.set(None);
        let mut queue = lock(&self.queue);
        queue.busy -= 1;
        queue.busy_long -= usize::from(long);
        let Some(entry) = queue.entries[at].as_mut() else {
            debug_assert!(false, "a task that runs is not removed");
            return queue;
        };
        debug_assert!(entry.name.id == id);
        entry.job = Some(job);
        entry.is_over |= ran.is_err();
        let wanted = entry.wanted.take();
        if entry.is_over {
            self.ended.notify_all();
            return queue;
        }
        let again = ran.ok().flatten().map(from_now);
        if let Some(when) = again.into_iter().chain(wanted).min() {
            entry.name.planned.swap(true, Ordering::AcqRel);
            queue.plan(at, when);
            // Another thread may wait for a later time by now, and this one would wait for its turn.
            if queue.watched && queue.next().is_some_and(|(first, _)| first >= when) {
                self.watch.notify_one();
            }
        }
        queue
    }

    /// Wakes a task at a time, or before.
    fn wake(&self, name: &Name, when: Instant) {
        let mut queue = lock(&self.queue);
        let Some(entry) = queue.entry(name) else { return };
        if entry.job.is_none() {
            entry.wanted = Some(entry.wanted.map_or(when, |wanted| wanted.min(when)));
            return;
        }
        if entry.at.is_some_and(|(planned, _)| planned <= when) {
            return;
        }
        queue.plan(name.at, when);
        if queue.next().is_none_or(|(first, _)| first < when) {
            return;
        }
        // Under the lock: a thread that was woken is none that waits.
        if queue.watched {
            self.watch.notify_one();
        } else if queue.spare > 0 {
            self.turn.notify_one();
        }
    }

    fn add(&'static self, length: Length, job: Box<dyn Job>) -> Result<Task> {
        let mut queue = lock(&self.queue);
        queue.reserve()?;
        if queue.threads == 0 {
            self.start().map_err(|e| Error::io("starting a thread", e))?;
            queue.threads = 1;
        }
        let at = queue.vacant.pop().unwrap_or(queue.entries.len());
        let (id, planned) = (queue.number(), AtomicBool::new(false));
        let name = Arc::new(Name { workers: self, at, id, planned });
        let waker = Waker(Arc::clone(&name));
        let job = Some(job);
        let entry = Entry { name, length, job, at: None, wanted: None, is_over: false };
        match queue.entries.get_mut(at) {
            Some(vacant) => *vacant = Some(entry),
            None => queue.entries.push(Some(entry)),
        }
        queue.tasks += 1;
        Ok(Task { waker })
    }

    /// Ends a task. It does not run any more when this returns.
    fn remove(&self, name: &Name) {
        debug_assert!(RUNS.get() != Some(name.id), "a job that waits for its own end");
        let mut queue = lock(&self.queue);
        loop {
            let Some(entry) = queue.entries[name.at].as_mut() else { return };
            debug_assert!(entry.name.id == name.id, "a task is removed once");
            entry.is_over = true;
            entry.at = None;
            if entry.job.is_some() {
                break;
            }
            queue = self.ended.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        let entry = queue.entries[name.at].take();
        queue.vacant.push(name.at);
        queue.tasks -= 1;
        if queue.tasks == 0 {
            self.watch.notify_all();
            self.turn.notify_all();
        }
        drop(queue);
        drop(entry);
    }
}

fn from_now(after: Duration) -> Instant {
    Instant::now() + after.min(AHEAD_MOST)
}

/// Waits to be notified, or so long; says whether it was not notified.
fn wait(condvar: &Condvar, queue: Locked, most: Option<Duration>) -> (Locked, bool) {
    match most {
        None => (condvar.wait(queue).unwrap_or_else(PoisonError::into_inner), false),
        Some(most) => {
            let (queue, waited) =
                condvar.wait_timeout(queue, most).unwrap_or_else(PoisonError::into_inner);
            (queue, waited.timed_out())
        }
    }
}

/// Wakes a task. The work that it was woken for is done in a run that begins after that.
#[derive(Clone)]
pub struct Waker(Arc<Name>);

impl Waker {
    /// Has the task run after so long, or at the time that it has already, however late that is.
    #[inline]
    pub fn wake_in(&self, after: Duration) {
        // A swap in any case: it hands what was done before to the run that begins.
        if !self.0.planned.swap(true, Ordering::AcqRel) {
            self.plan(after);
        }
    }

    /// Has the task run after so long, or earlier if it has an earlier time.
    pub fn wake_before(&self, after: Duration) {
        self.0.planned.swap(true, Ordering::AcqRel);
        self.plan(after);
    }

    /// Has the task run now.
    pub fn wake(&self) {
        self.wake_before(Duration::ZERO);
    }

    #[cold]
    fn plan(&self, after: Duration) {
        // The locks of a process that this one was forked from may be nobody's.
        if !self.0.workers.life.is_forked() {
            self.0.workers.wake(&self.0, from_now(after));
        }
    }
}

impl fmt::Debug for Waker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waker").field("id", &self.0.id).finish_non_exhaustive()
    }
}

/// Something that the threads of the process do now and then. It ends when this is dropped.
#[derive(Debug)]
pub struct Task {
    waker: Waker,
}

impl Task {
    /// A task that sleeps.
    ///
    /// # Errors
    /// [`Error::NoMemory`]; [`Error::Io`] if there is no thread yet and none can be started.
    pub fn new(length: Length, job: Box<dyn Job>) -> Result<Task> {
        Workers::here().add(length, job)
    }

    /// Its waker.
    pub fn waker(&self) -> &Waker {
        &self.waker
    }
}

impl Drop for Task {
    /// Waits for a run that is under way; in a process that was forked, for nothing.
    fn drop(&mut self) {
        let name = &self.waker.0;
        if !name.workers.life.is_forked() {
            name.workers.remove(name);
        }
    }
}
