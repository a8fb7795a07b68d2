//! Many pools in one process: what each costs in memory, on disk and in threads, and that none of them
//! waits for another. How long an open takes is in `times.rs`.
//!
//! There are 2,000 of them, and 15,000 before a release (`EVERLEAF_SCALE`). Each has a file open: where `ulimit -n` is
//! lower, they are fewer.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use everleaf::io::{RealIo, SimIo};
use everleaf::{Db, Options};
use everleaf_testing::size;
use tempfile::TempDir;

#[path = "../../file/tests/slow/mod.rs"]
mod slow;
use slow::Slow;

/// One test at a time: they count what the process has.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A directory in memory if there is one.
fn directory() -> TempDir {
    let shm = Path::new("/dev/shm");
    if shm.is_dir() { tempfile::tempdir_in(shm) } else { tempfile::tempdir() }.expect("a directory")
}

/// How many pools are opened.
fn pools() -> u64 {
    let limits = fs::read_to_string("/proc/self/limits").expect("Linux");
    let files = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
    let most = files.and_then(|line| line.split_whitespace().next()?.parse().ok());
    let most = most.unwrap_or(u64::MAX).saturating_sub(200);
    if most < 2000 {
        eprintln!("ulimit -n allows for {most} pools only");
    }
    size([2000, 2000, 15_000]).min(most)
}

/// The resources that the process takes.
#[derive(Debug)]
struct Taken {
    /// Bytes of memory, with what the system has to find it.
    resident: u64,
    /// Bytes of address space, and pieces of it.
    address: u64,
    pieces: usize,
    files: usize,
    threads: Vec<PathBuf>,
}

fn taken() -> Taken {
    let status = fs::read_to_string("/proc/self/status").expect("Linux");
    let kib = |name: &str| -> u64 {
        let line = status.lines().find(|line| line.starts_with(name)).expect("in the status");
        line.split_whitespace().nth(1).and_then(|n| n.parse().ok()).expect("a number")
    };
    let count = |path| fs::read_dir(path).expect("this process").count();
    let is_ours = |path: &PathBuf| {
        fs::read_to_string(path.join("comm")).is_ok_and(|name| name.trim() == "everleaf")
    };
    let threads = fs::read_dir("/proc/self/task").expect("this process");
    Taken {
        resident: 1024 * (kib("VmRSS:") + kib("VmPTE:")),
        address: 1024 * kib("VmSize:"),
        pieces: fs::read_to_string("/proc/self/maps").expect("this process").lines().count(),
        files: count("/proc/self/fd"),
        threads: threads.filter_map(|t| Some(t.ok()?.path())).filter(is_ours).collect(),
    }
}

/// How often the pools' threads have gone to sleep.
fn sleeps() -> u64 {
    let of = |thread: &PathBuf| -> Option<u64> {
        let status = fs::read_to_string(thread.join("status")).ok()?;
        let line = status.lines().find(|line| line.starts_with("voluntary_ctxt_switches"))?;
        line.split_whitespace().nth(1)?.parse().ok()
    };
    taken().threads.iter().filter_map(of).sum()
}

fn until(what: &str, is_true: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_true() {
        assert!(begun.elapsed() < Duration::from_secs(300), "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The most bytes that a pool has on the disk.
fn most_on_disk(dir: &Path) -> u64 {
    let files = fs::read_dir(dir).expect("a directory").map(|file| file.expect("a file"));
    files.map(|file| 512 * file.metadata().expect("there").blocks()).max().expect("some")
}

fn durable(dbs: &[Db]) {
    let marks: Vec<_> = dbs.iter().map(Db::epoch).collect();
    for (db, mark) in dbs.iter().zip(marks) {
        until("an epoch ends by itself", || db.durable_epoch() >= mark);
    }
}

fn key(i: u64) -> String {
    format!("key {i}")
}

/// Reads what pool `i` must hold, and lists what is damaged.
fn held(path: &Path, i: u64) -> Vec<everleaf::Damage> {
    let db = Db::open(path).expect("it opens");
    let tree = db.open_tree("t").expect("sound").expect("durable");
    assert_eq!(tree.get(key(i)).expect("sound").as_deref(), Some(&b"value"[..]), "pool {i}");
    db.check().expect("readable")
}

#[test]
fn thousands_of_open_pools_take_little_of_everything() {
    let _alone = alone();
    let (n, dir) = (pools(), directory());
    let path = |i: u64| dir.path().join(format!("{i}.ever"));
    drop(Db::open(path(n)).expect("the first one, which makes the threads"));
    let before = taken();
    let open = |i| Db::open(path(i)).unwrap_or_else(|e| panic!("pool {i}: {e}; see ulimit -n"));
    let dbs: Vec<_> = (0..n).map(open).collect();
    durable(&dbs);
    let (empty, on_disk) = (taken(), most_on_disk(dir.path()));
    let each = |now: u64, before: u64| now.saturating_sub(before) / n;
    let resident = each(empty.resident, before.resident);
    eprintln!("open: {resident} bytes resident, {on_disk} on disk");
    assert!(resident <= 512 << 10, "{resident} bytes are resident for each pool");
    assert!(on_disk <= 256 << 10, "{on_disk} bytes");

    for (i, db) in (0..).zip(&dbs) {
        db.tree("t").expect("room").put(key(i), "value").expect("room");
    }
    durable(&dbs);
    let (used, on_disk) = (taken(), most_on_disk(dir.path()));
    let resident = each(used.resident, before.resident);
    let address = each(used.address, before.address);
    let (files, pieces) = (used.files - before.files, used.pieces - before.pieces);
    eprintln!("used: {resident} bytes resident, {on_disk} on disk, {} threads", used.threads.len());
    eprintln!("{files} files, {pieces} mappings, {} GiB of addresses each", address >> 30);
    assert!(resident <= 512 << 10, "{resident} bytes are resident for each pool");
    assert!(on_disk <= 256 << 10, "{on_disk} bytes");
    assert!(used.threads.len() <= 64, "{} threads", used.threads.len());
    assert!(files as u64 <= n && pieces as u64 <= 4 * n + 100, "{files} files, {pieces} mappings");
    assert!(used.address < 1 << 47, "{} bytes of addresses", used.address);

    until("nobody is woken any more", || {
        let asleep = sleeps();
        std::thread::sleep(Duration::from_millis(500));
        sleeps() - asleep <= 8
    });

    // A kill would leave such copies now.
    let copies = directory();
    let sample = |i: &u64| i.is_multiple_of((n / 20).max(1));
    for i in (0..n).filter(sample) {
        let copy = copies.path().join(format!("{i}.ever"));
        fs::copy(path(i), &copy).expect("room");
        assert_eq!(held(&copy, i), [], "what a kill leaves of pool {i}");
    }
    for db in dbs {
        db.close().expect("no fault");
    }
    for i in (0..n).filter(sample) {
        assert_eq!(held(&path(i), i), [], "pool {i}");
    }
}

#[test]
fn pools_that_write_all_the_time_have_few_threads() {
    let _alone = alone();
    let dir = directory();
    let open = |i| Db::open(dir.path().join(format!("{i}.ever"))).expect("it opens");
    let dbs: Vec<_> = (0..100).map(open).collect();
    let trees: Vec<_> = dbs.iter().map(|db| db.tree("t").expect("room")).collect();
    let before: Vec<_> = dbs.iter().map(Db::durable_epoch).collect();
    let keys = AtomicU64::new(0);
    until("each pool ends epoch after epoch", || {
        let key = keys.fetch_add(1, Relaxed).to_string();
        trees.iter().for_each(|tree| tree.put(&key, "value").expect("room"));
        dbs.iter().zip(&before).all(|(db, before)| db.durable_epoch() >= before + 5)
    });
    let threads = taken().threads.len();
    assert!((1..=64).contains(&threads), "{threads} threads");
}

/// Some pools are on disks that do not answer; epochs of the others end all the same.
#[test]
fn a_pool_whose_disk_does_not_answer_keeps_no_other_from_its_epochs() {
    let _alone = alone();
    let slow: Vec<_> = (0..12).map(|i| Slow::new(Arc::new(SimIo::new(i)))).collect();
    let open_slow = |slow: &Slow| Options::new().open_on(Arc::new(slow.clone()), "/p.ever");
    let stuck: Vec<_> = slow.iter().map(|slow| open_slow(slow).expect("it opens")).collect();
    let dir = directory();
    let open = |i| {
        let path = dir.path().join(format!("{i}.ever"));
        Options::new().open_on(Arc::new(RealIo), path).expect("it opens")
    };
    let free: Vec<_> = (0..20).map(open).collect();
    let trees: Vec<_> = stuck.iter().map(|db| db.tree("t").expect("room")).collect();
    let others: Vec<_> = free.iter().map(|db| db.tree("t").expect("room")).collect();
    durable(&stuck);
    slow.iter().for_each(Slow::hold);
    trees.iter().for_each(|tree| tree.put("k", "v").expect("room"));
    let marks: Vec<_> = stuck.iter().map(Db::epoch).collect();
    for _ in 0..100 {
        others.iter().for_each(|tree| tree.put("k", "v").expect("room"));
        durable(&free);
        // Nor does anybody who only asks for figures wait.
        for (db, mark) in stuck.iter().zip(&marks) {
            let stats = db.stats().expect("open");
            assert!(stats.durable_epoch < *mark && stats.file_bytes > 0, "{stats:?}");
        }
    }
    let is_stuck = |(db, mark): (&Db, &u64)| db.durable_epoch() < *mark;
    assert!(stuck.iter().zip(&marks).all(is_stuck), "the slow disks have answered");
    slow.iter().for_each(Slow::release);
    for (db, mark) in stuck.iter().zip(marks) {
        until("the disk answers at last", || db.durable_epoch() >= mark);
    }
}
