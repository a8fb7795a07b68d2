//! Epochs that outgrow memory: what is spilled of them is no part of the pool until they end, for whoever
//! looks: a crash, a backup, a checkpoint; and steps of many threads stay whole.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use everleaf_file::FileOptions;
use everleaf_file::io::{Access, Fault, Io, IoFile, SimIo};
use everleaf_pmem::{Error, Medium};

use crate::toy::{Model, Rng, Toy, options, path, read_all};

fn spilling(spill_bytes: u64) -> FileOptions {
    FileOptions { spill_bytes, ..options() }
}

fn open(io: &SimIo, spill_bytes: u64) -> Toy {
    Toy::open_with(io, &path(), &spilling(spill_bytes)).expect("it opens")
}

#[test]
fn what_is_spilled_is_in_the_journal_and_not_durable() {
    let io = SimIo::new(1);
    let toy = open(&io, 64 << 10);
    toy.file.sync().expect("no fault");
    let before = toy.file.stats();
    for i in 1..=40_000 {
        toy.set(&[(1, 0, i), (2, 0, i)]).expect("set");
    }
    let (stats, noted) = (toy.file.stats(), 40_000 * 2 * 21);
    assert_eq!(stats.durable_epoch, before.durable_epoch);
    assert_eq!(stats.commits, before.commits);
    // Not more often than it must, and nearly all of it.
    let written = stats.journal_bytes_written - before.journal_bytes_written;
    assert!(stats.spills * (64 << 10) <= noted && written > noted - (80 << 10), "{stats:?}");
    assert!(stats.pending_bytes > noted - (16 << 10), "{stats:?}");
    // The kill of a process, a power cut, and a bad piece: the same.
    for (n, disk) in [io.kill(), io.power_cut(5)].into_iter().enumerate() {
        let toy = open(&disk, 64 << 10);
        assert_eq!((toy.get(1, 0), toy.get(2, 0)).0.expect("sound"), 0, "{n}");
        assert_eq!(toy.file.durable_epoch(), before.durable_epoch);
    }
    toy.file.sync().expect("no fault");
    let disk = io.power_cut(7);
    let toy = open(&disk, 64 << 10);
    assert_eq!([1, 2].map(|no| toy.get(no, 0).expect("sound")), [40_000; 2]);
}

/// Else a long epoch would take twice the room of its records.
#[test]
fn what_is_in_the_journal_asks_for_no_room_beside() {
    let io = SimIo::new(1);
    let options = FileOptions { reserve_from: 1, ..spilling(64 << 10) };
    let toy = Toy::open_with(&io, &path(), &options).expect("it opens");
    for i in 1..=400_000 {
        toy.set(&[(1, 0, i), (2, 0, i)]).expect("set");
    }
    let stats = toy.file.stats();
    assert!(stats.pending_bytes > 16 << 20, "{stats:?}");
    // The spare ones, and those that get their blocks at a time.
    assert!((8 << 20..=14 << 20).contains(&stats.free_bytes), "{stats:?}");
    toy.file.sync().expect("no fault");
}

#[test]
fn an_epoch_of_which_all_was_spilled_ends_with_a_block_of_its_own() {
    let io = SimIo::new(1);
    let toy = open(&io, 1);
    for i in 1..=100 {
        toy.set(&[(1, 0, i)]).expect("set");
        toy.set(&[(2, 0, i)]).expect("set");
        let before = toy.file.stats();
        // As a writer does that meets a full pool and then changes nothing.
        drop(toy.file.enter().expect("open"));
        toy.file.throttle(true).expect("room");
        let spilled = toy.file.stats();
        assert_eq!(spilled.spills, before.spills + 1);
        assert_eq!(open(&io.kill(), 1).get(2, 0).expect("sound"), i - 1);
        toy.file.sync().expect("no fault");
        let ended = toy.file.stats();
        assert_eq!(ended.journal_bytes_written, spilled.journal_bytes_written + 4096);
        let found = open(&io.power_cut(i), 1);
        assert_eq!([1, 2].map(|no| found.get(no, 0).expect("sound")), [i; 2]);
        assert_eq!(found.file.durable_epoch(), ended.durable_epoch);
    }
    let journal = toy.file.stats().journal_file_bytes;
    assert!(journal <= 4 << 20, "{journal} bytes: such a block follows the one before it");
}

#[test]
fn a_batch_that_keeps_the_epoch_is_spilled_by_its_own_thread() {
    let io = SimIo::new(1);
    let toy = open(&io, 1000);
    {
        let _pin = toy.file.pin_epoch();
        for i in 1..=1000 {
            toy.set(&[(1, 0, i)]).expect("set");
        }
        assert!(toy.file.stats().spills > 10);
        assert!(matches!(toy.file.sync(), Err(Error::InsideBatch)));
        assert_eq!(open(&io.kill(), 1000).get(1, 0).expect("sound"), 0);
    }
    toy.file.sync().expect("no fault");
    assert_eq!(open(&io.kill(), 1000).get(1, 0).expect("sound"), 1000);
}

#[test]
fn a_batch_is_spilled_while_others_wait_for_its_end() {
    let io = SimIo::new(1);
    let toy = open(&io, 500);
    for round in 1..50 {
        let syncing = AtomicBool::new(false);
        thread::scope(|scope| {
            let pin = toy.file.pin_epoch();
            toy.set(&[(1, 0, 2 * round)]).expect("set");
            scope.spawn(|| {
                syncing.store(true, Ordering::Release);
                toy.file.sync().expect("no fault");
            });
            while !syncing.load(Ordering::Acquire) {
                thread::yield_now();
            }
            // The other one may hold the commit by now, and waits for this thread.
            for i in 0..50 {
                toy.set(&[(2, 0, i), (3, 0, i)]).expect("set");
            }
            toy.set(&[(1, 0, 2 * round + 1)]).expect("set");
            drop(pin);
        });
        let found = open(&io.kill(), 500).get(1, 0).expect("sound");
        assert!(found % 2 == 1 && found >= 2 * round - 1, "round {round}: {found}");
    }
}

/// A batch goes on beside an epoch that has ended and found no room: what it notes comes behind that.
#[test]
fn nothing_is_spilled_before_an_epoch_that_found_no_room() {
    let io = SimIo::new(1);
    let toy = open(&io, 150);
    toy.set(&[(1, 0, 1)]).expect("set");
    toy.file.sync().expect("no fault");
    io.fail_at(io.calls(), Fault::Full);
    let batch = |values: Range<u64>| {
        let _pin = toy.file.pin_epoch();
        for i in values {
            toy.set(&[(1, 0, i), (2, 0, i)]).expect("a batch is not refused");
        }
    };
    batch(0..200_000);
    toy.file.sync().expect_err("more than the journal has of the disk");
    batch(0..1_000);
    assert_eq!(open(&io.kill(), 150).get(1, 0).expect("sound"), 1);
    io.heal();
    toy.file.sync().expect("there is room again");
    assert_eq!(open(&io.power_cut(3), 150).get(2, 0).expect("sound"), 999);
}

#[test]
fn a_torn_batch_that_was_spilled_is_gone() {
    let io = SimIo::new(1);
    let toy = open(&io, 1);
    toy.set(&[(1, 0, 7)]).expect("set");
    toy.file.sync().expect("no fault");
    thread::scope(|scope| {
        let panicked = scope.spawn(|| {
            let _pin = toy.file.pin_epoch();
            toy.set(&[(1, 0, 8)]).expect("set");
            toy.set(&[(1, 0, 9)]).expect("set");
            toy.set(&[(1, 0, 10)]).expect("set");
            panic!("half-way through a batch");
        });
        assert!(panicked.join().is_err());
    });
    assert_eq!(toy.file.stats().spills, 1);
    assert!(toy.file.sync().is_err());
    drop(toy);
    assert_eq!(open(&io, 1).get(1, 0).expect("sound"), 7);
}

/// A root that is written while an epoch is spilled does not take its beginning away.
#[test]
fn a_checkpoint_ends_the_epoch_and_keeps_all_of_it() {
    for after in [0, 1, 50] {
        let io = SimIo::new(1);
        let toy = open(&io, 1);
        for i in 1..=100 {
            toy.set(&[(1, 0, i), (2, 1, i)]).expect("set");
        }
        let running = toy.file.clock();
        toy.checkpoint().expect("no fault");
        assert!(toy.file.durable_epoch() >= running);
        for i in 1..=after {
            toy.set(&[(1, 0, 100 + i), (2, 1, 100 + i)]).expect("set");
        }
        for disk in [io.kill(), io.power_cut(after)] {
            let found = open(&disk, 1);
            assert_eq!(
                (found.get(1, 0).expect("sound"), found.get(2, 1).expect("sound")),
                (100, 100)
            );
        }
        toy.file.sync().expect("no fault");
        assert_eq!(open(&io.power_cut(3), 1).get(2, 1).expect("sound"), 100 + after);
    }
}

/// Stops threads, also if what they wait for panics.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A file system that takes its time to make a file.
#[derive(Debug)]
struct Late {
    sim: SimIo,
}

impl Io for Late {
    fn open(&self, path: &Path, access: Access) -> io::Result<Box<dyn IoFile>> {
        thread::sleep(Duration::from_micros(500));
        self.sim.open(path, access)
    }

    forward!(sim: exists rename rename_new remove sync_dir entropy);
}

/// Backups, checkpoints and ends of epochs by one thread while another one writes, and most moments are
/// within a spilled epoch.
#[test]
fn a_backup_within_a_spilled_epoch_has_nothing_of_it() {
    let io = SimIo::new(1);
    let toy = open(&io, 1);
    let (model, stop) = (Mutex::new(Model::new()), AtomicBool::new(false));
    let within = AtomicU64::new(0);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut rng = Rng(5);
            while !stop.load(Ordering::Relaxed) {
                let mut model = model.lock().expect("no panic");
                let changes = model.transfer(&mut rng);
                let epoch = toy.set(&changes).expect("set");
                model.set(epoch, &changes);
                drop(model);
                thread::sleep(Duration::from_micros(20));
            }
        });
        let _stop = Stop(&stop);
        for n in 0..100 {
            let copy = PathBuf::from(format!("/pool/copy{n}.ever"));
            let spills = toy.file.stats().spills;
            let mut is_within = false;
            let mut progress = |done: u64, _: u64| {
                is_within |= done == 0 && toy.file.stats().spills > spills;
            };
            let late = Late { sim: io.clone() };
            let epoch = toy.file.backup(&late, &copy, &mut progress).expect("no fault");
            within.fetch_add(u64::from(is_within), Ordering::Relaxed);
            if n % 5 == 0 {
                toy.checkpoint().expect("no fault");
            }
            let found = Toy::open_with(&io, &copy, &spilling(1)).expect("a sound copy");
            assert!(found.file.durable_epoch() <= epoch);
            let state = read_all(&found).expect("sound");
            assert_eq!(
                state,
                model.lock().expect("no panic").at(epoch).1,
                "copy {n}, epoch {epoch}"
            );
            found.set(&[(1, 0, 5)]).expect("it goes on");
            found.close().expect("no fault");
        }
    });
    assert!(within.into_inner() > 20, "no copy was made of a spilled epoch");
}

/// Threads that move amounts between pages, with ends of epochs by one of them: a kill at any time finds
/// no half of a step, and no step without those of its thread before it.
#[test]
fn steps_of_many_threads_stay_whole() {
    const THREADS: u32 = 4;
    let io = SimIo::new(1);
    let toy = open(&io, 300);
    let stop = AtomicBool::new(false);
    let synced: [AtomicU64; THREADS as usize] = Default::default();
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (toy, stop, synced) = (&toy, &stop, &synced[thread as usize]);
            scope.spawn(move || {
                let mut done = 0;
                while !stop.load(Ordering::Relaxed) {
                    done += 1;
                    thread::sleep(Duration::from_micros(20));
                    // Two pages of all threads, one of its own between them.
                    let word = thread as u16;
                    let changes = [(0, word, done), (1 + thread, 7, done), (5, word, done)];
                    toy.set(&changes).expect("set");
                    if done % 97 == 0 {
                        toy.file.sync().expect("no fault");
                        synced.store(done, Ordering::SeqCst);
                    }
                }
            });
        }
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                toy.checkpoint().expect("no fault");
            }
        });
        let _stop = Stop(&stop);
        // More of them on a busy machine, where epochs are short.
        let goes_on = |n: &u64| *n < 200 || *n < 20_000 && toy.file.stats().spills <= 100;
        for n in (0..).take_while(goes_on) {
            let least = synced.each_ref().map(|synced| synced.load(Ordering::SeqCst));
            let disk = if n % 3 == 0 { io.kill() } else { io.power_cut(n) };
            let found = open(&disk, 300);
            for thread in 0..THREADS {
                let word = thread as u16;
                let of = |no, j| found.get(no, j).expect("sound");
                let all = [of(0, word), of(1 + thread, 7), of(5, word)];
                assert!(all == [all[0]; 3], "cut {n}: {all:?}");
                assert!(all[0] >= least[thread as usize], "cut {n}: {all:?} of {least:?}");
            }
            thread::sleep(Duration::from_micros(300));
        }
    });
    assert!(toy.file.stats().spills > 100, "{:?}", toy.file.stats());
}
