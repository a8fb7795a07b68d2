//! The corpus and the regressions of `fuzz/` again, and a bounded run of each target with inputs
//! changed at random: what a stable toolchain can do of fuzzing.
//!
//! | | |
//! |---|---|
//! | `EVERLEAF_SCALE` | how long each target runs; by itself, a fixed number of inputs |
//! | `EVERLEAF_SEED` | where the random numbers start (1) |
//! | `EVERLEAF_FUZZ_INPUT` | a file; the target that has its directory's name, or is in `EVERLEAF_FUZZ_TARGET`, runs it |
//!
//! Beside what each target asserts, no input may make the process hold more memory than the actual
//! size of its files allows, and none may take longer than [`TIME_MAX`].

use everleaf_testing::{seed_or, size};
use std::fs;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use everleaf_fuzz::exercise::{TIME_MAX, memory_bound};
use everleaf_fuzz::input::Input;
use everleaf_fuzz::mutate::{self, Random};
use everleaf_fuzz::parts::Parts;
use everleaf_fuzz::{TARGETS, Target, open_raw, script};
use peak_alloc::PeakAlloc;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// Inputs of each target in a run without a bound by time.
const INPUTS: [(&str, usize); 7] = [
    ("open_raw", 300),
    ("open_structured", 100),
    ("hostile", 100),
    ("journal", 100),
    ("operations", 60),
    ("crash", 100),
    ("node", 1000),
];
const INPUT_BYTES_MAX: usize = 64 << 10;
/// More than the files of any pool that an input of that size makes: a script of values writes ten
/// bytes for each of its own at worst, but for the fills.
const POOL_BYTES: usize = 1 << 20;

/// Memory is counted for the whole process, so one test at a time.
static ONE: Mutex<()> = Mutex::new(());

fn one() -> MutexGuard<'static, ()> {
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn directory(kind: &str, target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz").join(kind).join(target)
}

fn files(directory: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("readable").path()).collect();
    paths.sort();
    paths.into_iter().map(|path| (path.clone(), fs::read(path).expect("readable"))).collect()
}

/// The input that runs, and since when; told when it is the last.
type Watched = (Mutex<Option<(Instant, Vec<u8>)>>, Condvar);

/// Runs inputs of one target, and ends the process if one takes too long.
struct Runner {
    target: Target,
    now: Arc<Watched>,
}

impl Runner {
    fn new(target: Target) -> Self {
        let now = Arc::new((Mutex::new(None), Condvar::new()));
        let (watched, name) = (Arc::clone(&now), target.0);
        thread::spawn(move || watch(&watched, name));
        Self { target, now }
    }

    fn set(&self, input: Option<&[u8]>) {
        let (lock, _) = &*self.now;
        let mut now = lock.lock().expect("nothing panics with it");
        *now = input.map(|input| (Instant::now(), input.to_vec()));
    }

    fn run(&self, input: &[u8], origin: &str) {
        let (name, run) = self.target;
        self.set(Some(input));
        ALLOCATOR.reset_peak_usage();
        let before = ALLOCATOR.current_usage();
        let result = panic::catch_unwind(AssertUnwindSafe(|| run(input)));
        let held = ALLOCATOR.peak_usage().saturating_sub(before);
        self.set(None);
        if result.is_err() {
            panic!("{name}, {origin}: {}", keep(name, input));
        }
        let bound = memory_bound(POOL_BYTES.max(input.len()));
        assert!(held <= bound, "{name}, {origin}: {held} bytes; {}", keep(name, input));
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        // The watcher ends with the last other owner.
        self.now.1.notify_all();
    }
}

fn watch(now: &Arc<Watched>, name: &str) {
    let (lock, wake) = &**now;
    while Arc::strong_count(now) > 1 {
        let guard = lock.lock().expect("nothing panics with it");
        let (guard, _) =
            wake.wait_timeout(guard, Duration::from_secs(1)).expect("nothing panics with it");
        if let Some((since, input)) = &*guard
            && since.elapsed() > TIME_MAX
        {
            eprintln!("{name}: no end after {TIME_MAX:?}: {}", keep(name, input));
            std::process::exit(101);
        }
    }
}

/// Writes an input that failed to a file and says how to run it again.
fn keep(name: &str, input: &[u8]) -> String {
    let hash = input.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
    });
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("fuzz").join(name);
    let path = directory.join(format!("{hash:016x}"));
    fs::create_dir_all(&directory).and_then(|()| fs::write(&path, input)).expect("room");
    format!(
        "run it again: EVERLEAF_FUZZ_INPUT={} cargo test --release -p everleaf-fuzz --test replay \
         one_input -- --nocapture",
        path.display()
    )
}

#[test]
fn corpus_and_regressions_hold() {
    let _one = one();
    for target in TARGETS {
        let runner = Runner::new(target);
        let mut ran = 0;
        for kind in ["regressions", "corpus"] {
            for (path, input) in files(&directory(kind, target.0)) {
                runner.run(&input, &path.display().to_string());
                ran += 1;
            }
        }
        println!("{}: {ran} files", target.0);
        assert!(ran > 0, "no files for {}", target.0);
    }
}

#[test]
fn changed_inputs_hold() {
    let _one = one();
    let (seed, seconds) = (seed_or(1), size([0, 20, 900]));
    let only = std::env::var("EVERLEAF_FUZZ_TARGET").ok();
    for target in TARGETS {
        if only.as_ref().is_some_and(|only| only != target.0) {
            continue;
        }
        let runner = Runner::new(target);
        let kinds = ["regressions", "corpus"].map(|kind| files(&directory(kind, target.0)));
        let corpus: Vec<Vec<u8>> = kinds.into_iter().flatten().map(|(_, bytes)| bytes).collect();
        let mut random = Random(seed);
        let (begin, mut ran) = (Instant::now(), 0);
        let most = INPUTS.iter().find(|(name, _)| *name == target.0).expect("in the table").1;
        while match seconds {
            0 => ran < most,
            seconds => begin.elapsed() < Duration::from_secs(seconds),
        } {
            let input = mutate::next(&mut random, &corpus, INPUT_BYTES_MAX);
            runner.run(&input, &format!("seed {seed}, input {ran}"));
            ran += 1;
        }
        let rate = ran as f64 / begin.elapsed().as_secs_f64();
        println!("{}: {ran} inputs from seed {seed}, {rate:.0} a second", target.0);
    }
}

#[test]
fn one_input() {
    let Some(path) = std::env::var_os("EVERLEAF_FUZZ_INPUT").map(PathBuf::from) else { return };
    let _one = one();
    let parent = path.parent().and_then(Path::file_name).unwrap_or_default();
    let name = std::env::var("EVERLEAF_FUZZ_TARGET")
        .unwrap_or_else(|_| parent.to_string_lossy().into_owned());
    let target = TARGETS.into_iter().find(|(target, _)| *target == name).expect("a target");
    Runner::new(target).run(&fs::read(&path).expect("the input"), &path.display().to_string());
}

/// Pools as inputs of `open_raw`: all of the file comes back. With `EVERLEAF_FUZZ_SEEDS`, a directory,
/// they are written there.
#[test]
fn pools_are_inputs() {
    let _one = one();
    let mut random = Random(7);
    for no in 0..8 {
        let script: Vec<u8> = (0..60).map(|_| random.draw() as u8).collect();
        let pool = Parts::take(&script::small_pool(&mut Input::new(&script)));
        let input = open_raw::encode(&pool);
        let again = Parts::take(&open_raw::disk(&input));
        assert!(pool.file == again.file, "pool {no}");
        assert_eq!(pool.pages, again.pages);
        assert_eq!(pool.blocks.len(), again.blocks.len());
        Runner::new(TARGETS[0]).run(&input, &format!("pool {no}"));
        if let Some(seeds) = std::env::var_os("EVERLEAF_FUZZ_SEEDS") {
            fs::write(Path::new(&seeds).join(format!("pool-{no}")), &input).expect("room");
        }
    }
}
