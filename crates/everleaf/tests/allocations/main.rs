//! A lack of memory at every allocation: of a script of 200 operations, and of opening a pool.
//!
//! Each case is a process of its own, this program again, because std aborts where an allocation
//! fails that has no way to say so, and that is an outcome like others. It runs on a real file and
//! tells what returned; afterwards the pool is opened with all memory and must hold the end of an
//! epoch that is not before what was acknowledged.
//!
//! `EVERLEAF_SCALE` sets the number of cases of each kind (40), but for a short script, of which each
//! allocation is refused; `EVERLEAF_SEED` is where the random numbers start. A failure names the case:
//! `EVERLEAF_WORKER_*` of it replay the worker with `cargo test -p everleaf --features heavy --test allocations worker`.

mod failing;
mod script;
mod worker;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use failing::Fail;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use script::{Event, Known, Operation, SHORT, content, open, script};
use worker::{Job, Task, last_state};

/// No allocation of more bytes may end the process.
const ABORTS_MAX_BYTES: usize = 2048;
/// Calls in which one refused allocation may end the process: handles are made there.
const MAKES_HANDLES: [&str; 4] = ["open", "tree", "names", "check"];

const SIGABRT: i32 = 6;

#[test]
fn worker() {
    if let Some(job) = Job::from_environment() {
        worker::run(&job);
    }
}

/// How a case ended.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    /// No call failed.
    Unnoticed,
    /// The kind of the first error.
    Failed(&'static str),
    /// The process aborted: in what, and for how many bytes.
    Aborted(&'static str, usize),
}

struct Case {
    outcome: Outcome,
    /// Allocations that were counted.
    counted: u64,
}

/// A directory in memory if there is one.
fn directory() -> tempfile::TempDir {
    let shm = Path::new("/dev/shm");
    if shm.is_dir() { tempfile::tempdir_in(shm) } else { tempfile::tempdir() }.expect("a directory")
}

fn seed() -> u64 {
    everleaf_testing::seed_or(1)
}

/// How many cases of each kind: before a release more than there are.
fn cases() -> u64 {
    everleaf_testing::count(40, 400)
}

/// All of `0..count`, or some of them, with both ends.
fn indexes(seed: u64, count: u64, random: &mut Xoshiro256PlusPlus) -> Vec<u64> {
    match cases() {
        n if n < count && seed != SHORT => {
            let mut some: Vec<_> = (0..n).map(|_| random.random_range(0..count)).collect();
            some.extend([0, count - 1]);
            some
        }
        _ => (0..count).collect(),
    }
}

/// Runs a job in a process of its own and holds what it left against what it told.
fn run(job: &Job, operations: &[Operation]) -> Case {
    let _ = std::fs::remove_file(&job.log);
    let program = std::env::current_exe().expect("this program");
    let output = Command::new(program)
        .args(["worker", "--exact", "--test-threads=1", "--nocapture"])
        .envs(job.environment())
        .stdout(Stdio::null())
        .output()
        .expect("this program runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    let log = std::fs::read_to_string(&job.log).expect("the worker's log");
    let events: Vec<_> = log.lines().filter_map(Event::from_line).collect();
    let mut known = match job.task {
        Task::Script => Known::nothing(),
        Task::Open => {
            let model = last_state(operations);
            Known { model: model.clone(), ends: vec![model] }
        }
    };
    events.iter().for_each(|event| known.learn(operations, event));
    let aborted = output.status.signal() == Some(SIGABRT);
    assert!(aborted || output.status.success(), "{job:?}: {}\n{errors}", output.status);
    let (doing, commits) = under_way(job.task, &events, operations);
    if aborted && commits {
        known.ends.push(known.model.clone());
    }
    let db = open(&job.pool, job.seed).unwrap_or_else(|error| panic!("{job:?}: {error}"));
    let held = content(&db).unwrap_or_else(|error| panic!("{job:?}: {error}"));
    assert!(known.which(&held).is_some(), "{job:?}: lost, or no end of an epoch\n{log}");
    assert_eq!(db.check().expect("there is memory"), [], "{job:?}");
    let counted = events.iter().find_map(|event| match event {
        Event::Counted(all, _) => Some(*all),
        _ => None,
    });
    let first_error = events.iter().find_map(|event| match event {
        Event::Failed(_, kind) => Some(Outcome::Failed(kind)),
        _ => None,
    });
    let outcome = match aborted {
        true => Outcome::Aborted(doing, aborted_bytes(&errors)),
        false => first_error.unwrap_or(Outcome::Unnoticed),
    };
    Case { outcome, counted: counted.unwrap_or(0) }
}

/// The operation of a process that tells no more, and whether it may have ended an epoch.
fn under_way(task: Task, events: &[Event], operations: &[Operation]) -> (&'static str, bool) {
    if task == Task::Open {
        return ("open", false);
    }
    let is_reopen = |i: &usize| matches!(operations.get(*i), Some(Operation::Reopen));
    let (mut next, mut opens, mut made) = (0, true, Vec::new());
    for event in events {
        match event {
            Event::Holds(_) => (opens, made) = (false, Vec::new()),
            Event::Made(tree) => made.push(*tree),
            Event::Did(i) | Event::Failed(i, _) if *i < operations.len() => {
                (next, opens) = (i + 1, is_reopen(i));
            }
            _ => {}
        }
    }
    match operations.get(next) {
        _ if opens => ("open", false),
        Some(operation) if operation.trees().any(|tree| !made.contains(&tree)) => ("tree", false),
        Some(operation) => (operation.kind(), operation.commits()),
        None => ("close", true),
    }
}

/// The size of the allocation that std names before it aborts.
fn aborted_bytes(errors: &str) -> usize {
    let bytes =
        errors.split("memory allocation of ").nth(1).and_then(|rest| rest.split(' ').next());
    bytes.and_then(|bytes| bytes.parse().ok()).unwrap_or_else(|| panic!("another abort: {errors}"))
}

/// Runs many jobs, on all processors, and tells how they ended.
fn run_all(
    jobs: &[(Task, u64, Fail)],
    operations: &[Operation],
    prepare: &(impl Fn(&Path) + Sync),
) -> BTreeMap<Outcome, usize> {
    let (next, outcomes) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let dir = directory();
                while let Some(&(task, seed, fail)) = jobs.get(next.fetch_add(1, Ordering::Relaxed))
                {
                    let pool = dir.path().join("pool");
                    std::fs::create_dir(&pool).expect("a directory");
                    prepare(&pool);
                    let log = dir.path().join("log");
                    let job = Job { task, seed, fail, pool: pool.join("p.ever"), log };
                    let outcome = run(&job, operations).outcome;
                    std::fs::remove_dir_all(&pool).expect("it was made above");
                    *outcomes.lock().expect("no panic").entry(outcome).or_insert(0) += 1;
                }
            });
        }
    });
    outcomes.into_inner().expect("no panic")
}

/// One run without failures: how many allocations it counts.
fn count(task: Task, seed: u64, operations: &[Operation], prepare: &impl Fn(&Path)) -> u64 {
    let dir = directory();
    prepare(dir.path());
    let (pool, log) = (dir.path().join("p.ever"), dir.path().join("log"));
    let job = Job { task, seed, fail: Fail::None, pool, log };
    let Case { outcome, counted } = run(&job, operations);
    assert_eq!(outcome, Outcome::Unnoticed);
    counted
}

fn report(what: &str, outcomes: &BTreeMap<Outcome, usize>) {
    let mut text = format!("{what}:");
    for (outcome, n) in outcomes {
        let _ = match outcome {
            Outcome::Unnoticed => write!(text, " {n} unnoticed,"),
            Outcome::Failed(kind) => write!(text, " {n} {kind},"),
            Outcome::Aborted(kind, bytes) => {
                write!(text, "\n  {n} aborted in {kind}: {bytes} bytes")
            }
        };
    }
    println!("{text}");
    for outcome in outcomes.keys() {
        if let Outcome::Aborted(_, bytes) = outcome {
            assert!(*bytes <= ABORTS_MAX_BYTES, "{what}: {bytes} bytes ended the process");
        }
    }
}

/// Refuses, in a script or in an open, one allocation, two in a row, or all from one on.
fn each_index(what: &str, task: Task, seed: u64, prepare: &(impl Fn(&Path) + Sync)) {
    let operations = script(seed);
    // A map with hashes of its own may grow once more or less, so that one allocation may be more.
    let mut counts = [0; 2].map(|_| count(task, seed, &operations, prepare));
    for _ in 0..8 {
        if counts[0] != counts[1] {
            counts = [counts[1], count(task, seed, &operations, prepare)];
        }
    }
    let all = counts[0];
    assert_eq!(all, counts[1], "indexes must mean the same twice");
    assert!(all > 0);
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    for how in ["one", "two in a row", "all from one on"] {
        let fail = |n| match how {
            "one" => Fail::Only(n),
            "two in a row" => Fail::Two(n),
            _ => Fail::From(n),
        };
        let indexes = indexes(seed, all, &mut random);
        let jobs: Vec<_> = indexes.iter().map(|n| (task, seed, fail(*n))).collect();
        let outcomes = run_all(&jobs, &operations, prepare);
        report(&format!("{what}, seed {seed}: {how} of {all} allocations refused"), &outcomes);
        let ended = outcomes.keys().find(|outcome| match outcome {
            Outcome::Aborted(kind, _) => !MAKES_HANDLES.contains(kind),
            _ => false,
        });
        assert!(how.starts_with("all") || ended.is_none(), "{ended:?} needs no handle");
        // A run that goes on without memory mostly ends where a script opens its pool again.
        let noticed = outcomes.contains_key(&Outcome::Failed("NoMemory"));
        assert!(how != "two in a row" || noticed, "{outcomes:?}");
    }
}

#[test]
fn a_script_loses_nothing_wherever_memory_ends() {
    let seed = seed();
    println!("EVERLEAF_SEED={seed}");
    for seed in [seed, seed + 1, SHORT] {
        each_index("script", Task::Script, seed, &|_: &Path| ());
    }
}

#[test]
fn no_large_allocation_ends_the_process() {
    let seed = seed();
    for seed in [seed, seed + 1] {
        let sizes = (8..18).map(|log| 1 << log).filter(|bytes| *bytes >= ABORTS_MAX_BYTES);
        let jobs: Vec<_> = sizes.map(|bytes| (Task::Script, seed, Fail::Above(bytes))).collect();
        let outcomes = run_all(&jobs, &script(seed), &|_: &Path| ());
        report(&format!("script, seed {seed}: all above 2 to 128 KiB refused"), &outcomes);
        assert!(!outcomes.keys().any(|o| matches!(o, Outcome::Aborted(..))), "{outcomes:?}");
    }
}

/// Makes a pool that holds the last state of a script, closed or cut off with all of it in the
/// journal.
fn make(path: &Path, seed: u64, clean: bool) {
    let db = open(path, seed).expect("a new pool");
    let trees = script::TREES.map(|name| db.tree(name).expect("space"));
    for operation in script(seed) {
        for change in operation.changes() {
            let tree = &trees[change.tree];
            match &change.value {
                Some(value) => tree.insert(&change.key, value).map(drop).expect("space"),
                None => tree.remove(&change.key).map(drop).expect("space"),
            }
        }
        if operation.commits() {
            db.sync().expect("space");
        }
    }
    db.sync().expect("space");
    if clean {
        db.close().expect("space");
    } else {
        // As if the process were killed: its copies are what is opened.
        std::mem::forget((db, trees));
    }
}

fn copy(from: &Path, to: &Path) {
    for file in std::fs::read_dir(from).expect("the pool's files") {
        let file = file.expect("a file");
        std::fs::copy(file.path(), to.join(file.file_name())).expect("space");
    }
}

#[test]
fn an_open_loses_nothing_wherever_memory_ends() {
    let seed = seed();
    for (what, clean) in [("open, clean", true), ("open, all in the journal", false)] {
        let made = directory();
        make(&made.path().join("p.ever"), seed, clean);
        let from: PathBuf = made.path().to_owned();
        each_index(what, Task::Open, seed, &move |to: &Path| copy(&from, to));
    }
}
