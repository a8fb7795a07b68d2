//! The threads that all pools of a process share: nobody waits long because of others, and nobody for ever.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use everleaf_file::workers::{Job, Length, Task};

/// Runs a function.
struct Run<F>(F, Arc<AtomicBool>);

impl<F: FnMut() -> Option<Duration> + Send> Job for Run<F> {
    fn run(&mut self) -> Option<Duration> {
        (self.0)()
    }
    fn broke(&mut self) {
        self.1.store(true, Ordering::SeqCst);
    }
}

fn task(length: Length, run: impl FnMut() -> Option<Duration> + Send + 'static) -> Task {
    Task::new(length, Box::new(Run(run, Arc::default()))).expect("a thread and memory")
}

/// A task that counts its runs, and says how long after each it runs again.
fn counter(after: Option<Duration>) -> (Task, Arc<AtomicU64>) {
    let runs = Arc::new(AtomicU64::new(0));
    let counts = Arc::clone(&runs);
    let count = move || {
        counts.fetch_add(1, Ordering::SeqCst);
        after
    };
    (task(Length::Short, count), runs)
}

fn until(what: &str, is_true: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_true() {
        assert!(begun.elapsed() < Duration::from_secs(300), "{what}");
        std::thread::sleep(Duration::from_micros(200));
    }
}

#[test]
fn a_task_runs_when_it_is_woken_and_sleeps_otherwise() {
    let (task, runs) = counter(None);
    let (idle, never) = counter(None);
    for n in 1..=200 {
        match n % 3 {
            0 => task.waker().wake(),
            1 => task.waker().wake_in(Duration::ZERO),
            _ => task.waker().wake_in(Duration::from_micros(n * 10)),
        }
        until("it runs", || runs.load(Ordering::SeqCst) == n);
    }
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!((runs.load(Ordering::SeqCst), never.load(Ordering::SeqCst)), (200, 0));
    drop(idle);
}

#[test]
fn a_task_runs_again_after_the_time_that_it_says_and_sooner_if_it_is_woken() {
    let (task, runs) = counter(Some(Duration::from_millis(5)));
    let begun = Instant::now();
    task.waker().wake();
    until("it runs by itself", || runs.load(Ordering::SeqCst) >= 10);
    assert!(begun.elapsed() >= Duration::from_millis(40), "{:?}", begun.elapsed());
    drop(task);
    let (task, runs) = counter(Some(Duration::MAX));
    task.waker().wake_in(Duration::MAX);
    for n in 1..10 {
        task.waker().wake();
        until("it runs before its time", || runs.load(Ordering::SeqCst) == n);
    }
}

/// Each plans its next run while the other one's thread waits.
#[test]
fn two_tasks_that_run_by_themselves_do_not_forget_each_other() {
    let runs = [(); 2].map(|()| Arc::new(AtomicU64::new(0)));
    let begin = |runs: &Arc<AtomicU64>| {
        let counts = Arc::clone(runs);
        let task = task(Length::Short, move || {
            let n = counts.fetch_add(1, Ordering::SeqCst);
            std::thread::sleep(Duration::from_micros(n * 37 % 2000));
            Some(Duration::from_micros(n * 59 % 3000))
        });
        task.waker().wake();
        task
    };
    let tasks = runs.each_ref().map(begin);
    until("both go on", || runs.iter().all(|runs| runs.load(Ordering::SeqCst) > 300));
    drop(tasks);
}

#[test]
fn who_is_woken_while_it_runs_runs_again() {
    let (told, asked) = mpsc::channel::<()>();
    let runs = Arc::new(AtomicU64::new(0));
    let counts = Arc::clone(&runs);
    let task = task(Length::Short, move || {
        counts.fetch_add(1, Ordering::SeqCst);
        asked.recv().expect("sent");
        None
    });
    for n in 1..=50 {
        task.waker().wake_in(Duration::ZERO);
        until("it runs", || runs.load(Ordering::SeqCst) == 2 * n - 1);
        // As often as one likes: once.
        (0..n % 3 + 1).for_each(|_| task.waker().wake_in(Duration::ZERO));
        told.send(()).expect("it listens");
        until("it runs again", || runs.load(Ordering::SeqCst) == 2 * n);
        told.send(()).expect("it listens");
    }
}

/// More of them than there are processors wait; more long ones than may run at a time.
#[test]
fn who_waits_keeps_no_other_from_running() {
    let (held, open) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let blocked = |length| {
        let (held, open) = (Arc::clone(&held), Arc::clone(&open));
        let wait = move || {
            held.fetch_add(1, Ordering::SeqCst);
            until("it is let go", || open.load(Ordering::SeqCst));
            None
        };
        task(length, wait)
    };
    let mut tasks: Vec<_> = (0..24).map(|_| blocked(Length::Short)).collect();
    tasks.extend((0..80).map(|_| blocked(Length::Long)));
    let (free, runs) = counter(None);
    tasks.iter().for_each(|task| task.waker().wake());
    for n in 1..=200 {
        free.waker().wake_in(Duration::ZERO);
        until("it runs beside those that wait", || runs.load(Ordering::SeqCst) == n);
    }
    let held_before = held.load(Ordering::SeqCst);
    assert!((24 + 16..24 + 80).contains(&held_before), "{held_before} run");
    open.store(true, Ordering::SeqCst);
    until("all have run", || held.load(Ordering::SeqCst) == 104);
}

#[test]
fn a_job_that_panics_is_the_last_of_its_task_and_of_no_other() {
    let broke = Arc::<AtomicBool>::default();
    let (other, runs) = counter(None);
    let job = Run(|| panic!("a job of a test"), Arc::clone(&broke));
    let broken = Task::new(Length::Short, Box::new(job)).expect("a thread and memory");
    broken.waker().wake();
    until("it is told", || broke.load(Ordering::SeqCst));
    broken.waker().wake();
    for n in 1..10 {
        other.waker().wake();
        until("the other one runs", || runs.load(Ordering::SeqCst) == n);
    }
    drop(broken);
}

#[test]
fn a_task_that_has_ended_does_not_run_and_is_not_under_way() {
    for round in 0..300_u64 {
        let (runs, under_way) = (Arc::new(AtomicU64::new(0)), Arc::new(Mutex::new(())));
        let (counts, works) = (Arc::clone(&runs), Arc::clone(&under_way));
        let task = task(Length::Long, move || {
            let _one = works.lock().expect("no panic");
            counts.fetch_add(1, Ordering::SeqCst);
            std::thread::sleep(Duration::from_micros(50));
            Some(Duration::ZERO)
        });
        let waker = task.waker().clone();
        waker.wake();
        std::thread::sleep(Duration::from_micros(7 * (round % 50)));
        drop(task);
        assert!(under_way.try_lock().is_ok());
        let before = runs.load(Ordering::SeqCst);
        // Its place may be another task's by now.
        let (other, others) = counter(None);
        waker.wake();
        waker.wake_in(Duration::ZERO);
        std::thread::sleep(Duration::from_micros(100));
        assert_eq!((runs.load(Ordering::SeqCst), others.load(Ordering::SeqCst)), (before, 0));
        drop(other);
    }
}

/// Threads here whose names begin so.
fn threads() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").expect("this process");
    let is_one = |task: &std::fs::DirEntry| {
        let name = std::fs::read_to_string(task.path().join("comm"));
        name.is_ok_and(|name| name.trim() == "everleaf")
    };
    tasks.filter_map(Result::ok).filter(is_one).count()
}

#[test]
fn many_tasks_have_few_threads() {
    let tasks: Vec<_> = (0..3000).map(|_| counter(Some(Duration::from_millis(10)))).collect();
    tasks.iter().for_each(|(task, _)| task.waker().wake());
    for (_, runs) in &tasks {
        until("all run", || runs.load(Ordering::SeqCst) >= 5);
    }
    // Other tests run beside this one, and some have jobs that wait.
    let threads = threads();
    eprintln!("{threads} threads");
    assert!((1..=64).contains(&threads), "{threads}");
}
