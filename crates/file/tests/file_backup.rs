//! Backups: each copy is exactly the end of the epoch that the backup says, whatever is written
//! meanwhile; and a backup that fails harms nobody.
//!
//! `EVERLEAF_SCALE` says how many runs (default 50), `EVERLEAF_SEED` replays one.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use everleaf_file::FileOptions;
use everleaf_file::io::{Fault, Io, SimIo};
use everleaf_pmem::{Error, PageNo, Result};
use everleaf_testing::{count, seed};

mod toy;
use toy::{Model, Rng, State, Toy, check, options, path, read_all};

const PAGE_BYTES: usize = 4096;
/// Pages of the longest value, and where the first one is.
const RUN: u32 = 100;
const FIRST: PageNo = 512;
const VALUES: u64 = 12;

/// The length of a value and the seed of its bytes, by its first page.
type Values = BTreeMap<PageNo, (usize, u64)>;

/// A pool of nodes and large values, and what it should hold at the end of each epoch.
struct World {
    toy: Rc<Toy>,
    model: Model,
    values: Values,
    ends: Vec<(u64, Values)>,
    rng: Rng,
}

fn pool(read_only: bool) -> FileOptions {
    let slots = 252;
    FileOptions { slots, max_pages: 4096, spare_extents: 1, read_only, ..options() }
}

fn copy_at(n: u64) -> PathBuf {
    PathBuf::from(format!("/pool/copy{n}.ever"))
}

fn pages_of(bytes: usize) -> u32 {
    bytes.div_ceil(PAGE_BYTES) as u32
}

fn bytes_of((bytes, seed): (usize, u64)) -> Vec<u8> {
    // Some have holes.
    if seed.is_multiple_of(3) { vec![0; bytes] } else { Rng(seed).bytes(bytes) }
}

impl World {
    fn new(io: &SimIo, seed: u64) -> Self {
        let spill_bytes = [options().spill_bytes, 1, 200][seed as usize % 3];
        let spilling = FileOptions { spill_bytes, ..pool(false) };
        let toy = Rc::new(Toy::open_with(io, &path(), &spilling).expect("new"));
        let ends = vec![(0, Values::new())];
        Self { toy, model: Model::new(), values: Values::new(), ends, rng: Rng(seed) }
    }

    fn note(&mut self, epoch: u64) {
        self.ends.push((epoch, self.values.clone()));
    }

    fn put_value(&mut self) -> Result<()> {
        let first = FIRST + RUN * self.rng.below(VALUES) as u32;
        if let Some((bytes, _)) = self.values.remove(&first) {
            let epoch = self.toy.forget(first, pages_of(bytes))?;
            self.note(epoch);
            self.toy.file.wait_durable(epoch)?;
            self.toy.file.extent_release(first, pages_of(bytes));
            return Ok(());
        }
        let value =
            (1 + self.rng.below(u64::from(RUN) * PAGE_BYTES as u64) as usize, self.rng.next());
        self.toy.file.extent_write(first, 0, &bytes_of(value))?;
        if self.rng.one_in(8) {
            self.toy.file.extent_discard(first, pages_of(value.0));
            return Ok(());
        }
        let epoch = self.toy.adopt(first, pages_of(value.0))?;
        self.values.insert(first, value);
        self.note(epoch);
        Ok(())
    }

    /// Does one thing or another.
    fn work(&mut self) -> Result<()> {
        match self.rng.below(20) {
            0 => self.toy.checkpoint(),
            1 => self.toy.file.compact(&mut |_| {}),
            2..5 => self.toy.file.sync(),
            5..12 => self.put_value(),
            _ => {
                let changes = self.model.transfer(&mut self.rng);
                let epoch = self.toy.set(&changes)?;
                self.model.set(epoch, &changes);
                Ok(())
            }
        }
    }

    fn at(&self, epoch: u64) -> (State, Values) {
        let values = self.ends.iter().rev().find(|(e, _)| *e <= epoch).expect("epoch 0");
        (self.model.at(epoch).1, values.1.clone())
    }
}

fn read_value(toy: &Toy, first: PageNo, bytes: usize) -> Vec<u8> {
    let mut found = vec![0; bytes];
    toy.file.extent_read(first, 0, &mut found).expect("a sound value");
    found
}

/// Whether a pool holds that.
fn holds(toy: &Toy, (state, values): &(State, Values), what: &str) {
    assert_eq!(read_all(toy).expect("sound"), *state, "{what}");
    for (first, value) in values {
        assert!(read_value(toy, *first, value.0) == bytes_of(*value), "{what}: value {first}");
    }
}

/// Opens a copy, first to read and then to write, and sees whether it is the end of that epoch.
fn is_copy(io: &SimIo, at: &Path, world: &World, epoch: u64, what: &str) {
    let wanted = world.at(epoch);
    for read_only in [true, false] {
        let copy =
            Toy::open_with(io, at, &pool(read_only)).unwrap_or_else(|e| panic!("{what}: {e}"));
        assert!(copy.file.durable_epoch() <= epoch, "{what}");
        holds(&copy, &wanted, what);
        if !read_only {
            copy.set(&[(1, 0, 77)]).expect("a pool of its own");
            copy.close().expect("a pool of its own");
            assert_eq!(
                Toy::open_with(io, at, &pool(true)).expect("closed").get(1, 0).expect("sound"),
                77
            );
        }
    }
}

/// Makes a backup, and now and then does something between two of its calls.
fn back_up(io: &SimIo, world: &mut World, at: &Path, one_in: u64) -> Result<u64> {
    let toy = Rc::clone(&world.toy);
    let mut last = 0;
    toy.file.backup(io, at, &mut |done, all| {
        assert!(last <= done && done <= all, "{done} bytes of {all} after {last}");
        last = done;
        while one_in > 0 && !world.rng.one_in(one_in) {
            world.work().expect("no fault");
        }
    })
}

fn run(seed: u64) {
    everleaf_testing::at_seed(seed);
    let io = SimIo::new(seed);
    let mut world = World::new(&io, seed);
    for n in 0..3 {
        for _ in 0..world.rng.below(60) {
            world.work().expect("no fault");
        }
        let what = format!("EVERLEAF_SEED={seed}, backup {n}");
        let one_in = 1 + world.rng.below(4);
        let epoch = back_up(&io, &mut world, &copy_at(n), one_in).expect("no fault");
        // It is durable.
        is_copy(&io.power_cut(seed), &copy_at(n), &world, epoch, &what);
        is_copy(&io, &copy_at(n), &world, epoch, &what);
    }
    // And the pool itself is what it should be, after a power cut.
    world.toy.file.sync().expect("no fault");
    let epoch = world.toy.file.durable_epoch();
    let cut = io.power_cut(seed);
    let toy = Toy::open_with(&cut, &path(), &pool(false)).expect("reopens");
    holds(&toy, &world.at(epoch), &format!("EVERLEAF_SEED={seed}, the pool"));
}

#[test]
fn a_copy_is_the_end_of_an_epoch_whatever_is_written_meanwhile() {
    if let Some(seed) = seed() {
        return run(seed);
    }
    (1..=count(50, 1_500)).for_each(run);
}

/// A pool with values in several extents and a journal, and everything in it durable.
fn settled(seed: u64) -> (SimIo, World) {
    let io = SimIo::new(seed);
    let mut world = World::new(&io, 5);
    (0..40).for_each(|_| world.work().expect("no fault"));
    world.toy.file.sync().expect("no fault");
    (io, world)
}

/// Opens the pool after a backup that failed, works on, and opens it again.
fn goes_on(io: &SimIo, world: &mut World, what: &str) {
    for _ in 0..10 {
        world.work().unwrap_or_else(|e| panic!("{what}: {e}"));
    }
    world.toy.file.sync().unwrap_or_else(|e| panic!("{what}: {e}"));
    let epoch = world.toy.file.durable_epoch();
    world.toy.file.abandon();
    let cut = io.power_cut(3);
    let toy = Toy::open_with(&cut, &path(), &pool(false)).unwrap_or_else(|e| panic!("{what}: {e}"));
    holds(&toy, &world.at(epoch), what);
}

#[test]
fn a_failing_call_harms_neither_the_pool_nor_a_name() {
    let (io, mut world) = settled(1);
    let before = io.calls();
    back_up(&io, &mut world, &copy_at(0), 0).expect("no fault");
    let calls = io.calls() - before;
    assert!(calls > 10, "a backup of {calls} calls");
    for fault in Fault::ALL {
        let mut struck = 0;
        for call in 0..calls {
            let what = format!("{fault:?} at call {call}");
            let (io, mut world) = settled(1);
            io.fail_at(io.calls() + call, fault);
            let copied = back_up(&io, &mut world, &copy_at(0), 0);
            struck += u64::from(copied.is_err());
            assert!(world.toy.file.poisoned().is_none(), "{what}");
            io.fail_at(u64::MAX, fault);
            io.heal();
            let epoch = world.toy.file.durable_epoch();
            match copied {
                Ok(copied) => assert_eq!(copied, epoch, "{what}"),
                Err(Error::Io { .. }) => {}
                Err(error) => panic!("{what}: {error}"),
            }
            if io.exists(&copy_at(0)).expect("no fault") {
                is_copy(&io, &copy_at(0), &world, epoch, &what);
            } else {
                assert!(copied.is_err(), "{what}");
                let epoch = back_up(&io, &mut world, &copy_at(0), 0).expect("a second try");
                is_copy(&io, &copy_at(0), &world, epoch, &what);
            }
            goes_on(&io, &mut world, &what);
        }
        assert!(struck > 0, "{fault:?} fits no call");
    }
}

#[test]
fn a_power_cut_leaves_a_whole_copy_or_none() {
    let (io, mut world) = settled(1);
    let before = io.calls();
    back_up(&io, &mut world, &copy_at(0), 0).expect("no fault");
    let (mut whole, mut none) = (0, 0);
    for call in 0..=io.calls() - before {
        for seed in [None, Some(1), Some(2), Some(3)] {
            let what = format!("cut {seed:?} before call {call}");
            let (io, mut world) = settled(1);
            io.cut_at(io.calls() + call, seed);
            let epoch = back_up(&io, &mut world, &copy_at(0), 0).expect("no fault");
            world.toy.file.sync().expect("no fault");
            // Unless the backup makes no such call.
            let Some(cut) = io.take_cut() else { continue };
            if cut.exists(&copy_at(0)).expect("no fault") {
                is_copy(&cut, &copy_at(0), &world, epoch, &what);
                whole += 1;
            } else {
                none += 1;
            }
            let toy = Toy::open_with(&cut, &path(), &pool(false)).expect("reopens");
            holds(&toy, &world.at(epoch), &what);
            if !cut.exists(&copy_at(0)).expect("no fault") {
                toy.file.backup(&cut, &copy_at(0), &mut |_, _| {}).expect("another try");
                is_copy(&cut, &copy_at(0), &world, epoch, &what);
            }
        }
    }
    assert!(whole > 0 && none > 20, "{whole} whole copies, {none} times none");
}

#[test]
fn a_read_only_open_copies_a_killed_pool_and_a_closed_one() {
    for closes in [false, true] {
        for seed in 0..20 {
            let (io, mut world) = settled(seed);
            (0..seed).for_each(|_| world.work().expect("no fault"));
            if closes {
                world.toy.file.close().expect("no fault");
            }
            let epoch = if closes { u64::MAX } else { world.toy.file.durable_epoch() };
            let disk = if closes { io } else { io.power_cut(seed) };
            let before = disk.peek(&path());
            let toy = Toy::open_with(&disk, &path(), &pool(true)).expect("reopens");
            let copied = toy.file.backup(&disk, &copy_at(0), &mut |_, _| {}).expect("no fault");
            assert!(before == disk.peek(&path()), "the pool has changed");
            assert_eq!(copied, toy.file.durable_epoch());
            assert!(closes || world.model.at(epoch) == world.model.at(copied));
            drop(toy);
            is_copy(&disk, &copy_at(0), &world, copied, &format!("seed {seed}, closed: {closes}"));
        }
    }
}

#[test]
fn a_name_that_is_taken_is_refused_and_nothing_is_touched() {
    let (io, mut world) = settled(1);
    io.poke(&copy_at(0), 0, b"somebody else's");
    for at in [copy_at(0), path()] {
        let before = io.peek(&at);
        let refused = back_up(&io, &mut world, &at, 0);
        assert!(
            matches!(&refused, Err(Error::FileExists { path, .. }) if *path == at),
            "{refused:?}"
        );
        assert!(before == io.peek(&at), "{} has changed", at.display());
    }
    // One that gets the name while the copy is made keeps it.
    let toy = Rc::clone(&world.toy);
    let refused = toy.file.backup(&io, &copy_at(1), &mut |_, _| io.poke(&copy_at(1), 0, b"faster"));
    assert!(matches!(refused, Err(Error::FileExists { .. })), "{refused:?}");
    assert_eq!(io.peek(&copy_at(1)).as_deref(), Some(&b"faster"[..]));
    assert!(io.peek(Path::new("/pool/copy1.ever-new")).is_none());
    goes_on(&io, &mut world, "after a refusal");
}

/// How long the file is when all values are gone.
fn bytes_when_empty(world: &mut World) -> u64 {
    for (first, (bytes, _)) in std::mem::take(&mut world.values) {
        let epoch = world.toy.forget(first, pages_of(bytes)).expect("no fault");
        world.note(epoch);
        world.toy.file.sync().expect("no fault");
        world.toy.file.extent_release(first, pages_of(bytes));
    }
    (0..3).for_each(|_| world.toy.file.compact(&mut |_| {}).expect("no fault"));
    world.toy.file.stats().data_bytes
}

#[test]
fn a_backup_that_is_cut_off_leaves_nothing_held_and_no_file() {
    let (io, mut world) = settled(1);
    let toy = Rc::clone(&world.toy);
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        toy.file.backup(&io, &copy_at(0), &mut |done, _| assert!(done == 0, "cut off"))
    }));
    assert!(panicked.is_err());
    assert!(!io.exists(&copy_at(0)).expect("no fault"));
    assert!(io.peek(Path::new("/pool/copy0.ever-new")).is_none());
    // As much is free as in a pool of which no backup was ever begun.
    let [held, never] = [&mut world, &mut settled(1).1].map(bytes_when_empty);
    assert_eq!(held, never);
    goes_on(&io, &mut world, "after a panic");
}

#[test]
fn a_close_ends_a_backup() {
    let (io, world) = settled(1);
    let toy = Rc::clone(&world.toy);
    let copied = toy.file.backup(&io, &copy_at(0), &mut |_, _| {
        toy.file.close().expect("no fault");
    });
    assert!(matches!(copied, Err(Error::Closed)), "{copied:?}");
    assert!(!io.exists(&copy_at(0)).expect("no fault"));
    let again = toy.file.backup(&io, &copy_at(0), &mut |_, _| {});
    assert!(matches!(again, Err(Error::Closed)), "{again:?}");
    drop((toy, world.toy));
    let toy = Toy::open_with(&io, &path(), &pool(false)).expect("reopens");
    check(&toy, &world.model, 1, u64::MAX, "after a close");
}

#[test]
fn what_was_changed_before_the_call_is_in_the_copy() {
    let io = SimIo::new(1);
    let toy = Toy::open(&io).expect("new");
    for i in 1..=5 {
        let epoch = toy.set(&[(1, 0, i)]).expect("set");
        let at = copy_at(i);
        let copied = toy.file.backup(&io, &at, &mut |_, _| {}).expect("no fault");
        assert!(copied >= epoch, "a copy of epoch {copied} lacks {epoch}");
        let copy = Toy::open_with(&io, &at, &options()).expect("a pool");
        assert_eq!(copy.get(1, 0).expect("sound"), i);
        copy.close().expect("no fault");
    }
}
