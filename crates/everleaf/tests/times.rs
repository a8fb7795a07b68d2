//! How long things take: opens of many pools, a check of many trees, readers beside writers, epochs beside
//! disks that do not answer. The bounds are wide, what was seen is printed, and nothing else may run beside
//! these tests: `ci/heavy.txt` runs them alone.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use everleaf::{Db, Options, Tree};
use tempfile::TempDir;

/// One test at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

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
    let _alone = alone();
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
    let _alone = alone();
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

/// By a ratio within one run: four times the trees may not take much more than four times as long.
#[test]
fn a_check_of_many_trees_is_linear_in_them() {
    let _alone = alone();
    let dir = tempfile::tempdir().expect("a directory");
    let time_of = |trees: usize| {
        let db = Options::new().open(dir.path().join(trees.to_string())).expect("new");
        for i in 0..trees {
            db.tree(&format!("{i:06}")).expect("room").put("k", "v").expect("room");
        }
        let check = || {
            let start = Instant::now();
            assert_eq!(db.check().expect("readable"), []);
            start.elapsed()
        };
        (0..3).map(|_| check()).min().expect("some")
    };
    let (few, many) = (time_of(2_000), time_of(8_000));
    // By the square it would be sixteen times as long; a busy machine doubles four.
    assert!(many < 12 * few, "2,000 trees: {few:?}, 8,000 trees: {many:?}");
}

#[test]
fn an_open_of_a_new_pool_takes_a_few_milliseconds() {
    let _alone = alone();
    // In memory if there is a file system there: the disk's part is not ours.
    let shm = Path::new("/dev/shm");
    let dir = if shm.is_dir() { tempfile::tempdir_in(shm) } else { tempfile::tempdir() };
    let dir = dir.expect("a directory");
    let mut times = Vec::new();
    let open = |i: u32| {
        let begun = Instant::now();
        let db = Db::open(dir.path().join(format!("{i}.ever"))).expect("room");
        times.push(begun.elapsed());
        db
    };
    let dbs: Vec<_> = (0..500).map(open).collect();
    times.sort_unstable();
    let median = times[times.len() / 2];
    println!("{} pools opened in {median:?} each, {:?} at most", dbs.len(), times[times.len() - 1]);
    assert!(median < Duration::from_millis(5), "{median:?}");
}
