//! How long readers take beside writers. Bounds of times hold for what the machine gives: they are wide,
//! and what was seen is printed.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use everleaf::{Db, Tree};
use tempfile::TempDir;

fn open() -> (TempDir, Db, Tree) {
    let dir = tempfile::tempdir().expect("a directory");
    let db = Db::open(dir.path().join("p")).expect("new");
    let tree = db.tree("t").expect("new");
    (dir, db, tree)
}

/// How long `what` takes, the best of some runs.
fn best_of(runs: usize, what: impl Fn()) -> Duration {
    let one = |_| {
        let start = Instant::now();
        what();
        start.elapsed()
    };
    (0..runs).map(one).min().expect("at least one run")
}

/// Lets `work` run in `threads` threads, each with its number, until `meanwhile` has returned.
fn beside<T>(threads: u64, work: impl Fn(u64) + Sync, meanwhile: impl FnOnce() -> T) -> T {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let _stop = scopeguard::guard((), |()| stop.store(true, Ordering::Relaxed));
        for me in 0..threads {
            let (work, stop) = (&work, &stop);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    work(me);
                }
            });
        }
        meanwhile()
    })
}

#[test]
fn a_get_of_64_mib_takes_no_longer_beside_a_writer_of_its_neighbour() {
    let (_dir, _db, tree) = open();
    let large: Vec<u8> = (0..64 << 20).map(|i: u32| (i ^ i >> 9) as u8).collect();
    tree.put("large", &large).expect("room");
    let get = || assert!(tree.get("large").expect("sound").is_some_and(|value| value == large));
    let alone = best_of(5, get);
    let write = |_| {
        tree.put("larger", "v").expect("room");
        thread::sleep(Duration::from_micros(200));
    };
    let busy = beside(1, write, || best_of(5, get));
    println!("64 MiB alone {alone:?}, beside a writer {busy:?}");
    assert!(busy <= 2 * alone + Duration::from_millis(20), "{busy:?} for {alone:?}");
}

#[test]
fn scans_beside_four_writers_come_back_soon() {
    const KEYS: u64 = 20_000;
    let (_dir, _db, tree) = open();
    let key = |n: u64| format!("{:08}", n % KEYS);
    for n in 0..KEYS {
        tree.put(key(n), [0; 100]).expect("room");
    }
    let write = |me: u64| {
        for n in 0..64 {
            // All four write to the leaves that are scanned.
            tree.put(key(7919 * (4 * n + me)), [me as u8; 100]).expect("room");
            tree.put(key(n), [me as u8; 100]).expect("room");
        }
    };
    let mut times = beside(4, write, || {
        let scan = |n: u64| {
            let start = Instant::now();
            let pairs = tree.range(key(37 * n % (KEYS - 200))..).take(100);
            let pairs: Vec<_> = pairs.map(|pair| pair.expect("sound")).collect();
            let time = start.elapsed();
            assert_eq!(pairs.len(), 100);
            time
        };
        (0..2_000).map(scan).collect::<Vec<_>>()
    });
    times.sort_unstable();
    let (worst, p99) = (times[times.len() - 1], times[times.len() * 99 / 100]);
    println!("scans of 100 beside 4 writers: p99 {p99:?}, worst {worst:?}");
    // Six threads on two processors: the worst is mostly the scheduler's.
    assert!(p99 <= Duration::from_millis(20), "p99 {p99:?}, worst {worst:?}");
    assert!(worst <= Duration::from_millis(500), "worst {worst:?}");
}
