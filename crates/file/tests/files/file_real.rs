//! The file medium on real files, with threads.

use std::os::unix::fs::PermissionsExt;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use std::{fs, thread};

use everleaf_file::FileOptions;
use everleaf_file::io::RealIo;
use everleaf_pmem::{Error, Medium};

use crate::toy::{Toy, options};

fn big() -> FileOptions {
    FileOptions { slots: 16, max_pages: 4096, journal_bytes: 4 << 20, ..options() }
}

#[test]
fn a_closed_pool_is_one_file_that_opens_with_all_it_had() {
    let dir = tempfile::tempdir().expect("dir");
    let path = dir.path().join("p");
    let toy = Toy::open_with(&RealIo, &path, &big()).expect("new");
    assert!(toy.file.is_fresh());
    for i in 0..500 {
        toy.set(&[(i, 3, u64::from(i)), (i + 500, 3, 7)]).expect("set");
    }
    toy.close().expect("close");
    assert_eq!(fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o600);
    let names: Vec<_> = fs::read_dir(dir.path()).expect("dir").flatten().collect();
    assert_eq!(names.len(), 1, "one file: {names:?}");
    // The pages with their heads, and a few sectors for the table and the superblocks.
    let bytes = fs::metadata(&path).expect("there").len();
    assert!(bytes <= 1000 * (48 + 320) + 32 * 1024, "{bytes} bytes, none of them the journal's");
    let read_only = FileOptions { read_only: true, slots: 4, ..big() };
    let toy = Toy::open_with(&RealIo, &path, &read_only).expect("open");
    assert!(!toy.file.is_fresh() && toy.file.pending().is_none());
    assert_eq!((toy.get(499, 3).expect("get"), toy.get(999, 3).expect("get")), (499, 7));
    assert!(matches!(toy.set(&[(1, 1, 1)]), Err(Error::ReadOnly)));
}

#[test]
fn a_read_only_open_sees_the_journal_and_changes_nothing() {
    let dir = tempfile::tempdir().expect("dir");
    let path = dir.path().join("p");
    let toy = Toy::open_with(&RealIo, &path, &big()).expect("new");
    toy.set(&[(5, 1, 42)]).expect("set");
    toy.file.sync().expect("sync");
    toy.abandon();
    let all = || {
        let names = fs::read_dir(dir.path()).expect("dir").flatten().map(|entry| entry.path());
        names.map(|path| (fs::read(&path).expect("file"), path)).collect::<Vec<_>>()
    };
    let before = all();
    assert_eq!(before.len(), 1, "one file");
    let toy =
        Toy::open_with(&RealIo, &path, &FileOptions { read_only: true, ..big() }).expect("open");
    assert_eq!(toy.get(5, 1).expect("get"), 42);
    toy.close().expect("close");
    assert!(before == all());
}

#[test]
fn a_second_open_is_refused_and_readers_share() {
    let dir = tempfile::tempdir().expect("dir");
    let path = dir.path().join("p");
    let toy = Toy::open_with(&RealIo, &path, &big()).expect("new");
    let read_only = FileOptions { read_only: true, ..big() };
    for options in [&big(), &read_only] {
        assert!(matches!(Toy::open_with(&RealIo, &path, options), Err(Error::Locked { .. })));
    }
    toy.close().expect("close");
    let first = Toy::open_with(&RealIo, &path, &read_only).expect("reader");
    let second = Toy::open_with(&RealIo, &path, &read_only).expect("reader");
    assert!(matches!(Toy::open_with(&RealIo, &path, &big()), Err(Error::Locked { .. })));
    drop((first, second));
    Toy::open_with(&RealIo, &path, &big()).expect("writer");
}

#[test]
fn what_is_not_a_regular_file_is_refused_at_once() {
    let dir = tempfile::tempdir().expect("dir");
    let real = dir.path().join("real");
    Toy::open_with(&RealIo, &real, &big()).expect("new").close().expect("close");
    let link = dir.path().join("link");
    std::os::unix::fs::symlink(&real, &link).expect("symlink");
    let fifo = dir.path().join("fifo");
    let made = std::process::Command::new("mkfifo").arg(&fifo).status();
    let mut paths = vec![link, dir.path().to_owned()];
    if made.is_ok_and(|status| status.success()) {
        paths.push(fifo);
    }
    for path in paths {
        for read_only in [false, true] {
            let result = Toy::open_with(&RealIo, &path, &FileOptions { read_only, ..big() });
            assert!(matches!(result, Err(Error::Foreign { .. })), "{}", path.display());
        }
    }
    let missing = dir.path().join("missing");
    let result = Toy::open_with(&RealIo, &missing, &FileOptions { create: false, ..big() });
    assert!(matches!(result, Err(Error::Io { .. })));
}

#[test]
fn a_batch_lands_in_one_epoch_and_may_not_wait_for_itself() {
    let dir = tempfile::tempdir().expect("dir");
    let path = dir.path().join("p");
    let options = FileOptions { background: true, interval: Duration::from_micros(200), ..big() };
    let toy = Toy::open_with(&RealIo, &path, &options).expect("new");
    for _ in 0..20 {
        let hold = toy.file.pin_epoch();
        let first = toy.set(&[(1, 1, 1)]).expect("set");
        thread::sleep(Duration::from_millis(1));
        let last = toy.set(&[(2, 1, 1)]).expect("set");
        assert_eq!(first, last);
        assert!(matches!(toy.file.sync(), Err(Error::InsideBatch)));
        assert!(matches!(toy.file.checkpoint(), Err(Error::InsideBatch)));
        drop(hold);
        toy.file.wait_durable(last).expect("durable");
    }
    toy.close().expect("close");
    assert!(toy_refuses(&toy_open(&path)));
}

fn toy_open(path: &std::path::Path) -> Toy {
    Toy::open_with(&RealIo, path, &big()).expect("open")
}

fn toy_refuses(toy: &Toy) -> bool {
    toy.file.close().expect("close");
    toy.file.enter().is_err()
}

#[test]
fn large_values_are_durable_with_the_step_that_adopts_them() {
    let dir = tempfile::tempdir().expect("dir");
    let path = dir.path().join("p");
    let toy = Toy::open_with(&RealIo, &path, &big()).expect("new");
    let value: Vec<u8> = (0..1000).map(|i| i as u8).collect();
    toy.file.extent_write(100, 0, &value).expect("write");
    assert!(toy.file.extent_write(4095, 320, &value).is_err(), "behind the last page");
    assert!(toy.file.extent_write(200, 600, &value).is_err(), "within a page");
    toy.adopt(100, 4).expect("set");
    toy.set(&[(1, 0, 100)]).expect("set");
    assert!(toy.file.extent_write(1, 0, &value[..10]).is_err(), "that page is in memory");
    assert!(toy.file.extent_write(101, 0, &value[..10]).is_err(), "that page holds a value");
    toy.file.sync().expect("sync");
    toy.abandon();
    let toy = toy_open(&path);
    let mut back = vec![0; 300];
    toy.file.extent_read(100, 600, &mut back).expect("read");
    assert_eq!(back, value[600..900]);
    assert!(toy.file.extent_read(2000, 0, &mut back).is_err());
}

#[test]
fn a_copy_of_a_closed_or_killed_pool_is_a_pool_beside_it() {
    let dir = tempfile::tempdir().expect("dir");
    for closes in [true, false] {
        let [path, copy] = ["p", "copy"].map(|name| dir.path().join(format!("{name}{closes}")));
        let toy = Toy::open_with(&RealIo, &path, &big()).expect("new");
        toy.set(&[(1, 0, 1), (2, 0, 1)]).expect("set");
        toy.checkpoint().expect("checkpoint");
        toy.set(&[(1, 0, 2), (3, 0, 2)]).expect("set");
        toy.file.sync().expect("sync");
        if closes {
            toy.close().expect("close")
        } else {
            toy.abandon()
        }
        fs::copy(&path, &copy).expect("copy");
        // Both at once: they are two files, and neither knows of the other.
        let both = [&path, &copy].map(|path| toy_open(path));
        for (toy, value) in both.iter().zip([10, 20]) {
            let found = [1, 2, 3].map(|no| toy.get(no, 0).expect("get"));
            assert_eq!(found, [2, 1, 2], "closed: {closes}");
            toy.set(&[(2, 0, value)]).expect("set");
            toy.checkpoint().expect("checkpoint");
            toy.set(&[(3, 0, value)]).expect("set");
            toy.file.sync().expect("sync");
        }
        both.into_iter().for_each(Toy::abandon);
        for (path, value) in [(&path, 10), (&copy, 20)] {
            let toy = toy_open(path);
            assert_eq!([2, 3].map(|no| toy.get(no, 0).expect("get")), [value; 2]);
        }
    }
}

/// Threads commit in groups while another one makes checkpoints; then the process dies.
#[test]
fn threads_checkpoints_and_a_kill() {
    const THREADS: u32 = 8;
    let dir = tempfile::tempdir().expect("dir");
    let path = dir.path().join("p");
    let options = FileOptions { background: true, journal_bytes: 1 << 20, ..big() };
    let toy = Toy::open_with(&RealIo, &path, &options).expect("new");
    let (begin, begun) = (Barrier::new(THREADS as usize), Instant::now());
    // On a slow disk as long as it takes; what the disk does not do at all the assertion below tells.
    let goes_on = || {
        let stats = toy.file.stats();
        let is_enough = stats.checkpoints > 0 && stats.commits > 10;
        begun.elapsed() < Duration::from_secs(if is_enough { 2 } else { 120 })
    };
    let writer = |t: u32| {
        begin.wait();
        let (mut i, mut durable) = (0, 0);
        while goes_on() {
            for _ in 0..50 {
                i += 1;
                let pages = (i as u32 % 20) * 2 * THREADS + 2 * t;
                toy.set(&[(pages, 1, i), (pages + 1, 1, i)]).expect("set");
                toy.set(&[(3000 + t, 0, i)]).expect("set");
            }
            if t.is_multiple_of(2) {
                toy.file.sync().expect("sync");
                durable = i;
            }
        }
        durable
    };
    let (writer, is_over) = (&writer, AtomicBool::new(false));
    let acknowledged: Vec<u64> = thread::scope(|scope| {
        let maintenance = scope.spawn(|| {
            while !is_over.load(Ordering::Acquire) {
                if toy.file.checkpoint_due() {
                    match toy.file.checkpoint() {
                        // Refused after the end.
                        Ok(()) | Err(Error::Closed | Error::Unrecovered { .. }) => {}
                        Err(e) => panic!("{e}"),
                    }
                }
                thread::sleep(Duration::from_millis(1));
            }
        });
        let threads: Vec<_> = (0..THREADS).map(|t| scope.spawn(move || writer(t))).collect();
        let durable = threads.into_iter().map(|t| t.join().expect("no panic")).collect();
        toy.file.abandon();
        is_over.store(true, Ordering::Release);
        maintenance.join().expect("no panic");
        durable
    });
    let stats = toy.file.stats();
    assert!(stats.checkpoints > 0 && stats.commits > 10, "{stats:?}");
    drop(toy);
    let toy = toy_open(&path);
    for (t, &durable) in (0..THREADS).zip(&acknowledged) {
        let last = toy.get(3000 + t, 0).expect("get");
        assert!(last >= durable, "thread {t}: {durable} was durable, {last} is here");
        for k in 0..20 {
            let pages = k * 2 * THREADS + 2 * t;
            let pair = (toy.get(pages, 1).expect("get"), toy.get(pages + 1, 1).expect("get"));
            assert!(pair.0 == pair.1 && pair.0 <= last + 1, "a torn step: {pair:?}");
        }
    }
    toy.close().expect("close");
}
