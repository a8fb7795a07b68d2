//! Steps that meet the end of the handle: whole or not at all, and never lost once acknowledged.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use everleaf_file::io::SimIo;
use everleaf_file::{File, FileOptions};
use everleaf_pmem::{Change, Error, Medium, Result};

use crate::toy::{SET, Toy, options, path};

#[test]
fn a_checkpoint_after_a_panicked_step_keeps_what_was_acknowledged() {
    let io = SimIo::new(1);
    let toy = Toy::open(&io).expect("new");
    let sets: Vec<_> = (1..20).map(|no| (no, 0, 7)).collect();
    toy.set(&sets).expect("set");
    toy.file.sync().expect("sync");
    thread::scope(|scope| {
        let panicked = scope.spawn(|| {
            let _op = toy.file.enter().expect("open");
            panic!("half-way through a step");
        });
        assert!(panicked.join().is_err());
    });
    assert!(toy.file.checkpoint().is_err(), "a torn step must not go home");
    toy.abandon();
    let toy = Toy::open(&io).expect("reopens");
    for no in 1..20 {
        assert_eq!(toy.latch(no).expect("sound").0.body(0).load(), 7, "page {no}");
    }
}

/// A step over two pages: the first holds the number of the last step.
fn step(toy: &Toy, i: u64) -> Result<()> {
    toy.file.throttle(true)?;
    let (a, _a) = toy.latch(1)?;
    let (b, _b) = toy.latch(2 + i as u32)?;
    let mut op = toy.file.enter()?;
    let mut bytes = [0; 10];
    bytes[2..].copy_from_slice(&i.to_le_bytes());
    for page in [a, b] {
        toy.file.store(page.body(0), i);
        toy.file.note(&mut op, page, Change { tag: SET, bytes: &bytes });
    }
    Ok(())
}

#[test]
fn a_close_in_the_middle_of_steps_under_back_pressure_tears_none() {
    let interval = Duration::from_millis(1);
    let crowded =
        FileOptions { max_pages: 8192, pending_bytes: 0, background: true, interval, ..options() };
    let mut waits = 0;
    for trial in 0..60 {
        let io = SimIo::new(trial);
        let toy = Arc::new(Toy::open_with(&io, &path(), &crowded).expect("new"));
        let writer = Arc::clone(&toy);
        let steps =
            thread::spawn(move || (1..8000).take_while(|i| step(&writer, *i).is_ok()).count());
        thread::sleep(Duration::from_micros(1500 + 37 * trial));
        File::close(&toy.file).expect("close");
        let done = steps.join().expect("no panic") as u64;
        waits += toy.file.stats().waits;
        drop(toy);
        let toy = Toy::open_with(&io, &path(), &crowded).expect("reopens");
        let last = toy.latch(1).expect("sound").0.body(0).load();
        assert_eq!(last, done, "a step that returned is there, one that was refused is not");
        assert_eq!(toy.latch(2 + last as u32).expect("sound").0.body(0).load(), last);
    }
    assert!(waits > 0, "no step ever waited");
}

/// Opens the pool anew and reads word 0 of page 1.
fn reopened(io: &SimIo) -> u64 {
    Toy::open(io).expect("reopens").get(1, 0).expect("sound")
}

#[test]
fn a_batch_that_panics_never_becomes_durable() {
    let io = SimIo::new(1);
    let toy = Toy::open(&io).expect("new");
    toy.set(&[(1, 0, 7)]).expect("set");
    toy.file.sync().expect("sync");
    thread::scope(|scope| {
        let panicked = scope.spawn(|| {
            let _hold = toy.file.pin_epoch();
            toy.set(&[(1, 0, 8)]).expect("set");
            panic!("between the steps of a batch");
        });
        assert!(panicked.join().is_err());
    });
    for refused in [toy.file.checkpoint(), toy.file.sync(), toy.file.close()] {
        assert!(matches!(refused, Err(Error::Poisoned { .. })), "{refused:?}");
    }
    drop(toy);
    assert_eq!(reopened(&io), 7);
}

#[test]
fn what_is_poisoned_in_a_batch_does_not_become_durable() {
    let io = SimIo::new(1);
    let toy = Toy::open(&io).expect("new");
    let file = &toy.file;
    thread::scope(|scope| {
        let hold = file.pin_epoch();
        let epoch = toy.set(&[(1, 0, 7)]).expect("set");
        let leader = scope.spawn(move || file.wait_durable(epoch));
        thread::sleep(Duration::from_millis(50)); // it waits for the batch
        file.poison(&Error::ReadOnly);
        drop(hold);
        let led = leader.join().expect("no panic");
        assert!(matches!(led, Err(Error::Poisoned { .. })), "{led:?}");
    });
    assert_eq!(toy.file.durable_epoch(), 0);
    drop(toy);
    assert_eq!(reopened(&io), 0);
}

#[test]
fn a_close_or_abandon_inside_a_batch_does_not_wait_for_it() {
    let ticking = FileOptions { background: true, interval: Duration::from_millis(1), ..options() };
    for abandons in [false, true] {
        let io = SimIo::new(1);
        let toy = Toy::open_with(&io, &path(), &ticking).expect("new");
        let hold = toy.file.pin_epoch();
        toy.set(&[(1, 0, 7)]).expect("set");
        thread::sleep(Duration::from_millis(20)); // the ticker waits for the batch
        let refused = toy.file.close();
        assert!(matches!(refused, Err(Error::InsideBatch)), "{refused:?}");
        if abandons {
            toy.file.abandon();
        }
        drop(hold);
        for _ in 0..2 {
            assert_eq!(toy.file.close().is_ok(), !abandons, "whether all is durable");
        }
        drop(toy);
        assert_eq!(reopened(&io), if abandons { 0 } else { 7 });
    }
}

/// Work in the midst of something that must be whole, such as the end of an epoch, meets the end of its file.
#[test]
fn work_that_an_abandoned_file_refuses_is_no_failure_of_it() {
    let io = SimIo::new(1);
    let toy = Toy::open(&io).expect("new");
    toy.set(&[(1, 0, 7)]).expect("set");
    toy.file.abandon();
    let refused = toy.set(&[(1, 0, 8)]).expect_err("it has ended");
    toy.file.poison(&refused);
    assert!(toy.file.poisoned().is_none(), "{refused:?}");
    for refused in [toy.file.sync(), toy.set(&[(1, 0, 9)]).map(drop)] {
        assert!(matches!(refused, Err(Error::Closed)), "{refused:?}");
    }
    drop(toy);
    assert_eq!(reopened(&io), 0);
}

/// Before its end, a refusal may leave half of something in an epoch that becomes durable.
#[test]
fn a_refusal_in_a_file_that_goes_on_stops_its_writes() {
    let io = SimIo::new(1);
    let toy = Toy::open(&io).expect("new");
    toy.set(&[(1, 0, 7)]).expect("set");
    toy.file.poison(&Error::Closed);
    assert!(matches!(toy.file.sync(), Err(Error::Poisoned { .. })));
    toy.file.abandon();
    assert!(matches!(toy.file.sync(), Err(Error::Poisoned { .. })), "the first cause stays");
    drop(toy);
    assert_eq!(reopened(&io), 0);
}

#[test]
fn a_drop_during_a_batch_of_another_file_makes_all_durable() {
    let [io, other] = [SimIo::new(1), SimIo::new(2)];
    let other = Toy::open(&other).expect("new");
    let toy = Toy::open(&io).expect("new");
    toy.set(&[(1, 0, 7)]).expect("set");
    let hold = other.file.pin_epoch();
    drop(toy);
    drop(hold);
    assert_eq!(reopened(&io), 7);
}

/// A root that such a checkpoint wrote would name pages without what the journal says of them, and no journal.
#[test]
fn no_checkpoint_while_pages_wait_for_recovery() {
    let io = SimIo::new(1);
    let toy = Toy::open(&io).expect("new");
    toy.set(&[(1, 0, 7)]).expect("set");
    toy.file.sync().expect("no fault");
    let toy = Toy::open(&io.kill()).expect("a pool");
    assert!(matches!(toy.file.checkpoint(), Err(Error::Unrecovered { .. })));
    assert_eq!(toy.get(1, 0).expect("sound"), 7);
    toy.checkpoint().expect("all pages are as the journal says");
}
