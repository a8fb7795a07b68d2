//! Callers that wait because of bytes that are not durable, and callers that never do; and checkpoints
//! that callers share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use everleaf_file::FileOptions;
use everleaf_file::io::SimIo;
use everleaf_pmem::{Error, Medium, Result};

mod slow;
mod toy;
use slow::Slow;
use toy::{Toy, options, path};

/// Bytes of the records of one step of these tests, about.
const STEP_BYTES: u64 = 1000;

/// One step over fifty pages.
fn step(toy: &Toy, n: u64) -> Result<u64> {
    let changes: Vec<_> = (1..51).map(|no| (no, 0, n)).collect();
    toy.set(&changes)
}

fn pending(bytes: u64) -> FileOptions {
    FileOptions { pending_bytes: bytes, background: true, journal_bytes: 256 << 20, ..options() }
}

fn on_slow_disk(options: &FileOptions) -> (Slow, Toy) {
    let slow = Slow::new(Arc::new(SimIo::new(1)));
    slow.set_slow(false);
    let toy = Toy::open_with(&slow, &path(), options).expect("new");
    step(&toy, 0).expect("it is open");
    toy.file.sync().expect("the disk works");
    slow.set_slow(true);
    (slow, toy)
}

#[test]
fn without_background_no_step_ever_waits() {
    let toy = Toy::open_with(&SimIo::new(1), &path(), &options()).expect("new");
    // Past all that one slot ever held before writers were slowed down.
    (0..32 << 20 >> 10).try_for_each(|n| step(&toy, n).map(drop)).expect("it is open");
    let stats = toy.file.stats();
    assert!(stats.pending_peak > 24 << 20, "{stats:?}");
    assert_eq!((stats.waits, stats.commits), (0, 0), "{stats:?}");
}

#[test]
fn what_waits_for_a_disk_that_stands_still_is_bounded_and_goes_on_after_it() {
    let (slow, toy) = on_slow_disk(&pending(256 << 10));
    assert!(!toy.file.may_wait());
    slow.hold();
    let (stop, done) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    done.fetch_add(1, Ordering::Relaxed);
                    step(&toy, 1).expect("the disk works");
                }
            });
        }
        // All wait.
        while toy.file.stats().waits < 8 {
            thread::sleep(Duration::from_millis(1));
        }
        assert!(toy.file.may_wait());
        slow.release();
        let before = done.load(Ordering::Relaxed);
        while (done.load(Ordering::Relaxed) - before) * STEP_BYTES <= 1 << 20 {
            thread::sleep(Duration::from_millis(1));
        }
        stop.store(true, Ordering::Relaxed);
    });
    let stats = toy.file.stats();
    // The bytes that eight slots have not told, and a step of each.
    let slack = 8 * (8 << 10) + 16 * STEP_BYTES;
    assert!(stats.pending_peak <= (256 << 10) + slack, "{stats:?}");
    toy.file.sync().expect("the disk works");
    assert_eq!(toy.file.stats().pending_bytes, 0);
}

#[test]
fn who_waits_is_let_go_by_a_close_and_by_a_failure() {
    for closes in [true, false] {
        let (slow, toy) = on_slow_disk(&pending(64 << 10));
        slow.hold();
        thread::scope(|scope| {
            let write = || (0..).find_map(|n| step(&toy, n).err()).expect("it ends");
            let writers: Vec<_> = (0..4).map(|_| scope.spawn(write)).collect();
            while toy.file.stats().waits < 4 {
                thread::sleep(Duration::from_millis(1));
            }
            match closes {
                true => {
                    scope.spawn(|| {
                        thread::sleep(Duration::from_millis(20));
                        slow.release();
                    });
                    toy.file.close().expect("the disk works");
                }
                false => toy.file.poison(&Error::ReadOnly),
            }
            for writer in writers {
                let error = writer.join().expect("no panic");
                match closes {
                    true => assert!(matches!(error, Error::Closed), "{error}"),
                    false => assert!(matches!(error, Error::Poisoned { .. }), "{error}"),
                }
            }
            slow.release();
        });
    }
}

#[test]
fn a_full_journal_is_waited_for_only_while_somebody_keeps_it() {
    let journal_bytes = 1 << 20;
    let small = FileOptions { journal_bytes, ..pending(128 << 10) };
    let toy = Toy::open_with(&SimIo::new(1), &path(), &small).expect("new");
    let fill = || (0..3 * journal_bytes / STEP_BYTES).try_for_each(|n| step(&toy, n).map(drop));
    fill().expect("nobody waits");
    let grown = toy.file.stats().journal_replay_bytes;
    assert!(grown > 2 * journal_bytes, "{grown} bytes");
    // From here on it is: the writer waits until it is free.
    toy.file.set_kept(true);
    let begun = AtomicBool::new(false);
    thread::scope(|scope| {
        let writer = scope.spawn(|| fill().inspect(|()| assert!(begun.load(Ordering::SeqCst))));
        thread::sleep(Duration::from_millis(50));
        begun.store(true, Ordering::SeqCst);
        while !writer.is_finished() {
            if toy.file.checkpoint_due() {
                toy.file.checkpoint().expect("the disk works");
            }
            thread::sleep(Duration::from_millis(1));
        }
        writer.join().expect("no panic").expect("the disk works");
    });
    // And who waits when the keeper goes, goes on.
    thread::scope(|scope| {
        let writer = scope.spawn(fill);
        thread::sleep(Duration::from_millis(20));
        toy.file.set_kept(false);
        writer.join().expect("no panic").expect("the disk works");
    });
}

#[test]
fn two_hundred_callers_of_checkpoint_share_two_runs() {
    let (slow, toy) = on_slow_disk(&FileOptions { background: false, ..pending(8 << 20) });
    let (calls, runs) = (200, toy.file.stats().checkpoints);
    let called = AtomicU64::new(0);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        // So that there is always something to write.
        let writer = scope.spawn(|| {
            for n in 0.. {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                step(&toy, n).expect("the disk works");
            }
        });
        // One runs already, until all have called: they share the next.
        slow.hold();
        let first = scope.spawn(|| toy.file.checkpoint());
        let callers: Vec<_> = (0..calls)
            .map(|_| {
                scope.spawn(|| {
                    called.fetch_add(1, Ordering::Relaxed);
                    toy.file.checkpoint()
                })
            })
            .collect();
        while called.load(Ordering::Relaxed) < calls {
            thread::sleep(Duration::from_millis(1));
        }
        slow.release();
        for caller in callers.into_iter().chain([first]) {
            caller.join().expect("no panic").expect("the disk works");
        }
        stop.store(true, Ordering::Relaxed);
        writer.join().expect("no panic");
    });
    let runs = toy.file.stats().checkpoints - runs;
    // A few may have counted their call and not made it.
    assert!((2..=20).contains(&runs), "{runs} runs for {calls} callers");
}

#[test]
fn a_checkpoint_that_returned_has_written_what_came_before_it() {
    let (_slow, toy) = on_slow_disk(&FileOptions { background: false, ..pending(8 << 20) });
    thread::scope(|scope| {
        for me in 1..5_u32 {
            let toy = &toy;
            scope.spawn(move || {
                for n in 1..20 {
                    toy.set(&[(me, 0, n)]).expect("it is open");
                    toy.file.checkpoint().expect("the disk works");
                    let page = toy.file.page(me).expect("inside");
                    assert_eq!(page.mark(1).load(Ordering::Relaxed), 0, "page {me} is dirty");
                }
            });
        }
    });
}
