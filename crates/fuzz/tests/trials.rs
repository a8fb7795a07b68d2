//! Many trials with pools that lie under right checksums (see [`everleaf_fuzz::hostile`]).
//!
//! | | |
//! |---|---|
//! | `EVERLEAF_SEED` | the seed of one trial, to be made alone |
//! | `EVERLEAF_TRIALS_GO_ON` | failures are listed, and the trials go on: with a seed, from that one |
//!
//! No trial may make the process hold more memory than the length of the file justifies, and no open may take a
//! second of the processor.

use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use everleaf_fuzz::exercise::TIME_MAX;
use everleaf_fuzz::hostile;
use everleaf_fuzz::mutate::Random;
use everleaf_fuzz::wear::{longest_open, take_disk_bytes};
use everleaf_testing::{at_seed, count, seed, size};
use peak_alloc::PeakAlloc;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// Bytes that a trial may hold beside the simulated disk: those of the promise.
const MEMORY_MAX: usize = (64 << 20) + 4 * FILE_MAX;
/// The simulated disk takes as many at least, since the file is on it several times.
const DISK_LEAST: usize = 6 * FILE_MAX;
/// No file here is longer.
const FILE_MAX: usize = 6 << 20;

/// The seed of the first trial.
const FIRST: u64 = 1 << 32;
/// The longest open, of a file of at most [`FILE_MAX`] bytes, where the code is optimized.
const OPEN_MAX: Duration = Duration::from_secs(if cfg!(debug_assertions) { 20 } else { 1 });

/// The input of a trial: a pool, how it is used, and some changes.
fn input(random: &mut Random) -> Vec<u8> {
    let n = 2 + 10 * (1 + random.below(4));
    (0..n).map(|_| random.draw() as u8).collect()
}

fn hex(input: &[u8]) -> String {
    input.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Ends the process if a trial takes too long: the last resort behind all counts.
fn watch(trial: Arc<AtomicU64>) {
    loop {
        let before = trial.load(Ordering::Relaxed);
        thread::sleep(TIME_MAX);
        if trial.load(Ordering::Relaxed) == before {
            eprintln!("run it again: EVERLEAF_SEED={before}; the trial has no end");
            std::process::exit(101);
        }
    }
}

#[test]
fn pools_that_lie_are_used_without_harm() {
    let goes_on = std::env::var_os("EVERLEAF_TRIALS_GO_ON").is_some();
    hostile::pools();
    let now = Arc::new(AtomicU64::new(0));
    let watched = Arc::clone(&now);
    thread::spawn(move || watch(watched));
    let (mut failed, mut most) = (0, 0);
    let begin = Instant::now();
    let first = seed().unwrap_or(FIRST);
    // A million before a release.
    let many = count(200, 20_000).max(size([0, 0, 1_000_000]));
    let trials = if seed().is_some() && !goes_on { 1 } else { many };
    for trial in first..first + trials {
        now.store(trial, Ordering::Relaxed);
        // Each trial from a number of its own, so that one can be done alone.
        let input = input(&mut Random(at_seed(trial)));
        ALLOCATOR.reset_peak_usage();
        let before = ALLOCATOR.current_usage();
        let result = panic::catch_unwind(AssertUnwindSafe(|| hostile::run(&input)));
        let held = ALLOCATOR.peak_usage().saturating_sub(before);
        most = held.max(most);
        let disk = DISK_LEAST.max(take_disk_bytes() as usize);
        if result.is_err() || held > MEMORY_MAX + disk {
            failed += 1;
            let what = format!("seed {trial}, {held} bytes, disk {disk}: {}", hex(&input));
            assert!(goes_on, "{what}");
            eprintln!("FAILED {what}");
        }
    }
    let rate = trials as f64 / begin.elapsed().as_secs_f64();
    let open = longest_open();
    println!(
        "{trials} trials from seed {first}, {rate:.0} a second; at most {most} bytes; opens of {open:?}"
    );
    assert_eq!(failed, 0);
    assert!(open < OPEN_MAX, "an open took {open:?}");
}
