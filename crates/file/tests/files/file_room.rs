//! A disk that is full at any moment of a script with spills, ends of epochs, checkpoints and backups: an
//! error of that call, which changes nothing that was accepted before; writers are told, those that delete
//! go on; and once there is room everything goes on with what was accepted, with nothing opened again.

use crate::toy;
use std::path::{Path, PathBuf};

use everleaf_file::FileOptions;
use everleaf_file::io::{Fault, Io, SimIo};
use everleaf_pmem::{Error, Medium, Result};

use crate::toy::{Model, Rng, Toy, check, options, path, read_all};

/// Steps of the script.
const STEPS: u64 = 150;

/// How pools of a run are opened.
#[derive(Clone, Copy)]
struct Kind {
    spill_bytes: u64,
    /// It has room before it needs it.
    reserves: bool,
}

fn open(io: &SimIo, path: &Path, kind: Kind) -> Result<Toy> {
    let reserve_from = if kind.reserves { 0 } else { u32::MAX };
    let options = FileOptions { spill_bytes: kind.spill_bytes, reserve_from, ..options() };
    Toy::open_with(io, path, &options)
}

fn without_reserve(spill_bytes: u64) -> Kind {
    Kind { spill_bytes, reserves: false }
}

struct World {
    io: SimIo,
    toy: Toy,
    model: Model,
    rng: Rng,
    kind: Kind,
    /// Errors for want of room: of steps, ends of epochs, checkpoints and backups.
    refused: [u64; 4],
    what: String,
}

fn copy_at(n: u64) -> PathBuf {
    PathBuf::from(format!("/pool/copy{n}.ever"))
}

impl World {
    fn new(kind: Kind) -> Self {
        let io = SimIo::new(1);
        let toy = open(&io, &path(), kind).expect("room");
        toy.file.sync().expect("room");
        let (model, rng) = (Model::new(), Rng(7));
        let what = format!("spills of {} bytes", kind.spill_bytes);
        let mut world = Self { io, toy, model, rng, kind, refused: [0; 4], what };
        // The first step looks whether there is room, and the second one takes it.
        (0..2).for_each(|_| world.set().expect("room"));
        world
    }

    fn set(&mut self) -> Result<()> {
        let changes = self.model.transfer(&mut self.rng);
        let epoch = self.toy.set(&changes)?;
        self.model.set(epoch, &changes);
        Ok(())
    }

    /// One thing of the script. False if writes have stopped.
    fn step(&mut self, n: u64) -> bool {
        let (kind, result) = match n % 13 {
            3 | 8 => (1, self.toy.file.sync()),
            12 => (2, self.toy.checkpoint()),
            10 if n.is_multiple_of(3) => {
                (3, self.toy.file.backup(&self.io, &copy_at(n), &mut |_, _| ()).map(drop))
            }
            _ => (0, self.set()),
        };
        let Err(error) = result else { return true };
        let what = format!("{}, step {n}: {error}", self.what);
        self.refused[kind] += 1;
        if let Some(Error::Poisoned { cause }) = self.toy.file.poisoned() {
            // Its place is there since the pool was made.
            assert!(cause.to_string().starts_with("writing the superblock"), "{what}");
            return false;
        }
        let full = |source: &std::io::Error| source.kind() == std::io::ErrorKind::StorageFull;
        assert!(matches!(&error, Error::Io { source, .. } if full(source)), "{what}");
        assert_eq!(read_all(&self.toy).expect("sound"), self.model.now, "{what}");
        let copy = self.io.exists(&copy_at(n)).expect("no fault");
        assert!(kind != 3 || !copy, "{what}: half a copy");
        true
    }

    /// A crash now leaves the end of an epoch, and no acknowledged one is missing.
    fn crash(&self, seed: u64) {
        let (acknowledged, running) = (self.toy.file.durable_epoch(), self.toy.file.clock());
        for disk in [self.io.power_cut(seed), self.io.kill()] {
            disk.fail_at(u64::MAX, Fault::Full);
            disk.heal();
            let found = open(&disk, &path(), self.kind).expect("sound");
            check(&found, &self.model, acknowledged, running, &self.what);
        }
    }

    /// There is room again: everything goes on, and an open finds all of it.
    fn go_on(mut self) -> [u64; 4] {
        let what = self.what.clone();
        self.io.fail_at(u64::MAX, Fault::Full);
        self.io.heal();
        let before = self.refused;
        for n in 0..40 {
            assert!(self.step(STEPS + n), "{what}");
        }
        self.toy.file.sync().expect("room");
        self.crash(5);
        self.toy.checkpoint().expect("room");
        assert_eq!(self.refused, before, "{what}: there is room");
        let epoch = self.toy.file.durable_epoch();
        self.toy.close().expect("room");
        let toy = open(&self.io, &path(), self.kind).expect("sound");
        assert_eq!(read_all(&toy).expect("sound"), self.model.now, "{what}");
        assert!(toy.file.durable_epoch() >= epoch, "{what}");
        self.refused
    }
}

fn calls_of_the_script(kind: Kind) -> u64 {
    let mut world = World::new(kind);
    let before = world.io.calls();
    (0..STEPS).for_each(|n| assert!(world.step(n), "nothing fails by itself"));
    assert_eq!(world.refused, [0; 4]);
    assert!(world.kind.spill_bytes > 1 || world.toy.file.stats().spills > 20);
    world.io.calls() - before
}

/// The disk is full from each call of the script on, for a while.
fn fill_at_each_call(kind: Kind, fault: Fault) -> [u64; 4] {
    let (calls, mut refused, mut ended) = (calls_of_the_script(kind), [0; 4], 0);
    for call in 0..calls {
        let mut world = World::new(kind);
        world.what = format!("{fault:?} at call {call}, {}", world.what);
        world.io.fail_at(world.io.calls() + call, fault);
        let goes_on = (0..STEPS).all(|n| {
            let before = world.refused;
            let goes_on = world.step(n);
            if world.refused != before && call % 4 == 0 {
                world.crash(n);
            }
            goes_on
        });
        if goes_on {
            world.go_on().iter().zip(&mut refused).for_each(|(n, all)| *all += n);
        } else {
            world.crash(call);
            ended += 1;
        }
    }
    let spills = kind.spill_bytes;
    println!("{fault:?}, spills of {spills} bytes: {calls} calls, {refused:?}, {ended} ended");
    assert!(ended < calls / 5);
    refused
}

#[test]
fn a_disk_that_is_full_under_long_epochs_is_no_end() {
    // The end of an epoch needs no zeros behind it, so it does not fail when that call does.
    let refused = fill_at_each_call(without_reserve(1), Fault::NoSpace);
    assert!([0, 2, 3].iter().all(|kind| refused[*kind] > 0), "{refused:?}");
    for spill_bytes in [1, 150] {
        let refused = fill_at_each_call(without_reserve(spill_bytes), Fault::Full);
        assert!(refused.iter().all(|n| *n > 100), "{refused:?}");
    }
}

/// A pool that has room before it needs it: what was accepted becomes durable, and is in a root, also on a disk
/// that is full. A program that only changes what is there can go on for ever, with checkpoints.
#[test]
fn a_pool_that_has_taken_room_goes_on_on_a_full_disk() {
    for spill_bytes in [150, u64::MAX] {
        let kind = Kind { spill_bytes, reserves: true };
        let refused = fill_at_each_call(kind, Fault::Full);
        assert_eq!(refused[..3], [0; 3], "only copies have no room");
        assert!(refused[3] > 100, "{refused:?}");

        let mut world = World::new(kind);
        let journal = world.toy.file.stats().journal_bytes_written;
        world.io.fail_at(world.io.calls(), Fault::Full);
        let mut refused = 0;
        for _ in 0..12 {
            for _ in 0..10_000 {
                if world.set().is_err() {
                    // A program that ends epochs writes checkpoints, too.
                    refused += 1;
                    world.toy.file.sync().expect("room was taken");
                    (0..2).for_each(|_| world.toy.checkpoint().expect("room was taken"));
                    world.set().expect("the journal is free");
                }
            }
            world.toy.file.sync().expect("room was taken");
        }
        assert!((1..400).contains(&refused), "{refused} times");
        let journal = world.toy.file.stats().journal_bytes_written - journal;
        assert!(journal > 4 << 20, "more than is left beside what is spare: {journal}");
        world.crash(9);
        world.go_on();
    }
}

#[test]
fn nor_under_epochs_that_are_not_spilled() {
    fill_at_each_call(without_reserve(u64::MAX), Fault::NoSpace);
    let refused = fill_at_each_call(without_reserve(u64::MAX), Fault::Full);
    assert!(refused.iter().all(|n| *n > 100), "{refused:?}");
}

/// An epoch that was spilled in part can be abandoned on a full disk, goes on in memory for deletes, or
/// ends when there is room.
#[test]
fn an_epoch_that_met_a_full_disk_can_be_abandoned_or_ended() {
    for ends in [false, true] {
        let mut world = World::new(without_reserve(150));
        (0..20).for_each(|_| world.set().expect("room"));
        world.toy.file.sync().expect("room");
        let (durable, kept) = (world.toy.file.durable_epoch(), world.model.now);
        (0..30).for_each(|_| world.set().expect("room"));
        world.io.fail_at(world.io.calls(), Fault::Full);
        // The call that fails is one for which there would be some room.
        let mut refused = |_| (0..5000).find_map(|_| world.set().err());
        let refused = (0..2).filter_map(&mut refused).last().expect("the disk is full");
        assert!(refused.to_string().starts_with("writing the journal"), "{refused}");
        assert_eq!(world.toy.file.durable_epoch(), durable);
        assert_eq!(world.toy.file.clock(), durable + 1, "the epoch goes on");
        let again = world.set().expect_err("the disk is full");
        assert_eq!(again.to_string(), refused.to_string());
        for i in 0..500 {
            world.toy.file.throttle(false).expect("it adds nothing");
            let (page, held) = world.toy.latch(1).expect("sound");
            let mut op = world.toy.file.enter().expect("open");
            let mut bytes = [0; 10];
            bytes[2..].copy_from_slice(&u64::to_le_bytes(i));
            world.toy.file.store(page.body_word(0), i);
            let change = everleaf_pmem::Change { tag: toy::SET, bytes: &bytes };
            world.toy.file.note(&mut op, page, change);
            let epoch = world.toy.file.epoch(&op);
            drop((op, held));
            world.model.set(epoch, &[(1, 0, i)]);
        }
        assert!(world.toy.file.poisoned().is_none());
        world.crash(3);
        if ends {
            world.toy.file.sync().expect_err("the disk is full");
            world.go_on();
        } else {
            world.toy.file.abandon_and_release().expect("open");
            world.io.heal();
            let toy = open(&world.io, &path(), without_reserve(150)).expect("sound");
            assert_eq!(toy.file.durable_epoch(), durable);
            assert_eq!(read_all(&toy).expect("sound"), kept);
        }
    }
}

/// Blocks of an epoch that were written before the disk was full are not written again, and the next one goes
/// where the chain says.
#[test]
fn an_epoch_of_several_blocks_goes_on_where_it_stopped() {
    let mut failed = 0;
    for call in 0..12 {
        let mut world = World::new(without_reserve(u64::MAX));
        world.what = format!("call {call}");
        for _ in 0..80_000 {
            world.set().expect("room");
        }
        world.io.fail_at(world.io.calls() + call, Fault::Full);
        let ended = world.toy.file.sync();
        if world.toy.file.poisoned().is_some() {
            continue;
        }
        failed += u64::from(ended.is_err());
        world.crash(call);
        world.set().err();
        world.io.fail_at(u64::MAX, Fault::Full);
        world.io.heal();
        let epoch = world.toy.file.clock();
        world.toy.file.sync().expect("room");
        world.toy.file.wait_durable(epoch).expect("room");
        world.crash(call);
        world.go_on();
    }
    assert!(failed > 2, "{failed} ends of epochs met a full disk");
}

/// A batch that began when there was room is not refused half-way, and the next one is.
#[test]
fn a_batch_is_refused_before_its_first_change() {
    let mut world = World::new(without_reserve(100));
    world.io.fail_at(world.io.calls(), Fault::Full);
    world.toy.file.throttle(true).expect("nobody has met the end of the disk");
    {
        let World { toy, model, rng, .. } = &mut world;
        let _pin = toy.file.pin_epoch();
        for _ in 0..200 {
            let changes = model.transfer(rng);
            model.set(toy.set(&changes).expect("within a batch"), &changes);
        }
    }
    assert!(world.toy.file.throttle(true).is_err());
    world.go_on();
}

/// The bytes of a large value that could not be written do not count as waiting for the disk: writers would wait for them.
#[test]
fn a_large_value_that_finds_no_room_leaves_nothing_that_waits() {
    let io = SimIo::new(3);
    let options = FileOptions { slots: 252, max_pages: 4096, reserve_from: u32::MAX, ..options() };
    let toy = Toy::open_with(&io, &path(), &options).expect("room");
    toy.file.sync().expect("room");
    io.fail_at(io.calls(), Fault::Full);
    for n in 0..4 {
        let written = toy.file.extent_write(512, 0, &vec![1; 3 << 20]);
        assert!(matches!(written, Err(Error::Io { .. })), "{n}: {written:?}");
        toy.file.extent_discard(512, 768);
        assert!(toy.file.stats().pending_bytes >= 3 << 20);
        let _ = toy.file.tick();
        assert_eq!(toy.file.stats().pending_bytes, 0, "{n}");
    }
    io.heal();
    toy.file.extent_write(512, 0, &vec![1; 3 << 20]).expect("room again");
    toy.adopt(512, 768).expect("room again");
    toy.file.tick().expect("room again");
    toy.close().expect("room again");
}
