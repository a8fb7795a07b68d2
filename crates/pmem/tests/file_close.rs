//! Steps that meet the end of the handle: whole or not at all, and never lost once acknowledged.

mod toy;

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use everleaf_pmem::io::SimIo;
use everleaf_pmem::{Change, File, Medium, Options, Result};

use toy::{SET, Toy, options, path};

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
    toy.file.pace();
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
    let crowded = Options { max_pages: 8192, journal_bytes: 8 << 10, ..options() };
    for trial in 0..60 {
        let io = SimIo::new(trial);
        let toy = Arc::new(Toy::open_with(&io, &path(), &crowded).expect("new"));
        for _ in 0..4 {
            step(&toy, 0).expect("open");
            toy.file.sync().expect("sync");
        }
        assert!(toy.file.stats().back_pressure_us > 0, "steps are slowed down");
        let writer = Arc::clone(&toy);
        let steps =
            thread::spawn(move || (1..8000).take_while(|i| step(&writer, *i).is_ok()).count());
        thread::sleep(Duration::from_micros(1500 + 37 * trial));
        File::close(&toy.file).expect("close");
        let done = steps.join().expect("no panic") as u64;
        drop(toy);
        let toy = Toy::open_with(&io, &path(), &crowded).expect("reopens");
        let last = toy.latch(1).expect("sound").0.body(0).load();
        assert_eq!(last, done, "a step that returned is there, one that was refused is not");
        assert_eq!(toy.latch(2 + last as u32).expect("sound").0.body(0).load(), last);
    }
}
