//! Epochs that the program alone ends: nothing else does, what has ended is the system's, and what it has not ended is
//! nobody's.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use everleaf_file::FileOptions;
use everleaf_file::io::SimIo;
use everleaf_pmem::Medium;

use crate::toy::{Toy, options, path};

fn manual() -> FileOptions {
    FileOptions { manual_epochs: true, ..options() }
}

fn open(io: &SimIo) -> Toy {
    Toy::open_with(io, &path(), &manual()).expect("it opens")
}

#[test]
fn a_checkpoint_a_compaction_and_a_backup_go_by_the_last_end() {
    let io = SimIo::new(1);
    let toy = open(&io);
    for round in 1..=20 {
        toy.set(&[(1, 0, round), (2, 0, round)]).expect("set");
        assert_eq!(toy.file.end_epoch().expect("no fault"), round);
        toy.set(&[(1, 0, 1000 + round), (3, 0, 1000 + round)]).expect("set");
        toy.checkpoint().expect("no fault");
        toy.file.compact(&mut |_| ()).expect("no fault");
        toy.checkpoint().expect("no fault");
        let copy = path().with_file_name(format!("copy{round}"));
        let copied = toy.file.backup(&io, &copy, &mut |_, _| ()).expect("no fault");
        assert_eq!((copied, toy.file.clock()), (round, round + 1), "nothing has ended an epoch");
        let reopened = Toy::open_with(&io, &copy, &manual()).expect("a pool");
        for found in [open(&io.kill()), open(&io.power_cut(round)), reopened] {
            assert_eq!(found.file.durable_epoch(), round);
            let words = [1, 2, 3].map(|no| found.get(no, 0).expect("sound"));
            // The third page was changed last in the epoch before.
            assert_eq!(words, [round, round, if round > 1 { 999 + round } else { 0 }]);
        }
    }
    toy.file.abandon_and_release().expect("open");
    assert_eq!(open(&io).get(3, 0).expect("sound"), 1019);
}

/// An epoch in which nothing changed has no block. A root may know of it all the same, by the counts of pairs: after a crash
/// no other epoch may have its number.
#[test]
fn an_epoch_without_changes_is_not_another_one_after_a_crash() {
    let io = SimIo::new(1);
    let toy = open(&io);
    let count = |toy: &Toy, value| {
        let more =
            |file: &everleaf_file::File, op: &mut everleaf_file::FileOp<'_>| file.count(op, 7, 1);
        toy.step(&[(1, 0, value)], 0, more).expect("a step")
    };
    count(&toy, 1);
    toy.file.sync().expect("no fault");
    count(&toy, 2);
    // The root's journal begins before this epoch, whose page it does not name.
    toy.checkpoint().expect("no fault");
    toy.file.sync().expect("no fault");
    assert_eq!(toy.file.end_epoch().expect("no fault"), 3);
    assert_eq!(toy.file.durable_epoch(), 3, "it has nothing to keep");
    count(&toy, 3);
    toy.checkpoint().expect("no fault");
    let toy = open(&io.power_cut(1));
    assert_eq!(toy.file.counted(7).expect("no fault"), Some(2));
    count(&toy, 4);
    toy.file.sync().expect("no fault");
    assert_eq!(toy.file.counted(7).expect("no fault"), Some(3));
    let cut = open(&io.power_cut(1));
    assert_eq!(cut.file.counted(7).expect("no fault"), Some(2));
}

#[test]
fn an_end_without_a_wait_becomes_durable_by_itself_if_there_are_tasks() {
    let io = SimIo::new(1);
    let options = FileOptions { background: true, ..manual() };
    let toy = Toy::open_with(&io, &path(), &options).expect("it opens");
    for i in 1..=50 {
        toy.set(&[(1, 0, i)]).expect("set");
        let epoch = toy.file.end_epoch().expect("no fault");
        assert_eq!(open(&io.kill()).get(1, 0).expect("sound"), i);
        while toy.file.durable_epoch() < epoch {
            thread::sleep(Duration::from_micros(100));
        }
        assert_eq!(open(&io.power_cut(i)).get(1, 0).expect("sound"), i);
        assert_eq!(toy.file.clock(), epoch + 1, "who makes it durable ends no other one");
    }
}

/// So an end finds little to write.
#[test]
fn a_task_spills_what_is_noted_of_an_epoch_that_goes_on() {
    let io = SimIo::new(1);
    let options = FileOptions { background: true, spill_bytes: 300, ..manual() };
    let toy = Toy::open_with(&io, &path(), &options).expect("it opens");
    for round in 1..=20 {
        let spills = toy.file.stats().spills;
        // More than is to be held, and less than the writer would write itself.
        for i in 0..30 {
            toy.set(&[(1, 0, i)]).expect("set");
        }
        let begun = Instant::now();
        while toy.file.stats().spills == spills {
            assert!(begun.elapsed() < Duration::from_secs(60), "nobody spills");
            thread::sleep(Duration::from_micros(100));
        }
        let before = open(&io.kill()).get(1, 0).expect("sound");
        assert_eq!((toy.file.clock(), before), (round, toy.file.durable_epoch() * 1000));
        toy.set(&[(1, 0, round * 1000)]).expect("set");
        let epoch = toy.file.end_epoch().expect("no fault");
        toy.file.wait_durable(epoch).expect("no fault");
    }
}

/// The bytes of an ended epoch are not the running one's, be it durable or not.
#[test]
fn the_bytes_of_an_epoch_are_those_that_it_has_changed() {
    let io = SimIo::new(1);
    let toy = open(&io);
    toy.file.end_epoch().expect("no fault");
    assert_eq!(toy.file.epoch_bytes(), 0);
    for round in 0..3 {
        toy.file.extent_write(10 + 8 * round, 0, &[7; 700]).expect("room");
        toy.adopt(10 + 8 * round, 6).expect("a step");
        let bytes = toy.file.epoch_bytes();
        assert!((700..2_000).contains(&bytes), "round {round}: {bytes}");
        toy.file.end_epoch().expect("no fault");
        assert_eq!(toy.file.epoch_bytes(), 0, "round {round}");
    }
    for i in 0..4_000 {
        toy.set(&[(1, 0, i)]).expect("set");
    }
    let bytes = toy.file.epoch_bytes();
    assert!((60_000..90_000).contains(&bytes), "{bytes} bytes in records of 21");
}

#[test]
fn who_waits_for_what_runs_may_give_up() {
    let io = SimIo::new(1);
    let toy = open(&io);
    toy.set(&[(1, 0, 7)]).expect("set");
    let soon = || Some(Instant::now() + Duration::from_millis(1));
    assert!(!toy.file.await_durable(1, soon()).expect("no fault"));
    assert_eq!(toy.file.end_epoch().expect("no fault"), 1);
    assert_eq!(toy.file.durable_epoch(), 0, "nobody has asked the disk");
    // A caller that has to wait for it asks.
    assert!(toy.file.await_durable(1, None).expect("no fault"));
    assert_eq!((toy.file.durable_epoch(), toy.file.clock()), (1, 2));
    assert!(toy.file.await_durable(1, soon()).expect("no fault"));
}

/// Ends by several threads beside waits: each epoch has one number, and is durable after those before it.
#[test]
fn ends_and_waits_of_many_threads_end_no_epoch_twice() {
    for background in [false, true] {
        let io = SimIo::new(1);
        let options = FileOptions { background, ..manual() };
        let toy = Arc::new(Toy::open_with(&io, &path(), &options).expect("it opens"));
        let ends = |no: u32| {
            let toy = Arc::clone(&toy);
            move || -> Vec<u64> {
                let end = |i| {
                    toy.set(&[(no, 0, i)]).expect("set");
                    let epoch = toy.file.end_epoch().expect("no fault");
                    if i % 3 == 0 {
                        toy.file.wait_durable(epoch).expect("no fault");
                        assert!(toy.file.durable_epoch() >= epoch);
                    }
                    epoch
                };
                (1..=200).map(end).collect()
            }
        };
        let threads: Vec<_> = (0..4).map(|no| thread::spawn(ends(no))).collect();
        let ended = threads.into_iter().flat_map(|thread| thread.join().expect("no panic"));
        let mut ended: Vec<u64> = ended.collect();
        ended.sort_unstable();
        assert!(ended.iter().copied().eq(1..=800), "background {background}: {ended:?}");
        assert_eq!(toy.file.clock(), 801);
        let found = open(&io.kill());
        assert_eq!([0, 1, 2, 3].map(|no| found.get(no, 0).expect("sound")), [200; 4]);
    }
}
