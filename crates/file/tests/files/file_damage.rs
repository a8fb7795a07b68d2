//! Damaged, foreign and misplaced files are told apart, by typed errors that name the place.

use crate::raw;
use crate::toy;
use everleaf_file::FileOptions;
use everleaf_file::io::SimIo;
use everleaf_file::salvage::{DamagedFile, DamagedFileOptions};
use everleaf_pmem::{Error, Medium, Result};

use crate::raw::{Live, Raw};
use crate::toy::{PAGES, State, Toy, options, path, read_all};

/// A pool with `epochs` durable epochs in its journal, then killed.
fn killed(epochs: u64) -> SimIo {
    killed_of(epochs, 4)
}

fn killed_of(epochs: u64, slots: u32) -> SimIo {
    let io = SimIo::new(3);
    let toy = Toy::open_of(&io, slots).expect("new");
    for i in 1..=epochs {
        toy.set(&[(1, 0, i), (2, 0, i)]).expect("set");
        toy.file.sync().expect("sync");
    }
    toy.abandon();
    io
}

fn closed() -> SimIo {
    closed_of(4)
}

fn closed_of(slots: u32) -> SimIo {
    let io = killed_of(3, slots);
    Toy::open(&io).expect("open").close().expect("close");
    io
}

fn flip(io: &SimIo, at: u64, bits: u8) {
    let byte = io.peek(&path()).expect("there")[at as usize];
    io.poke(&path(), at, &[byte ^ bits]);
}

fn open_error(io: &SimIo) -> Error {
    match Toy::open(io) {
        Ok(_) => panic!("opened"),
        Err(e) => e,
    }
}

/// The byte that an error names.
fn place(error: &Error, what: &str) -> u64 {
    match error {
        Error::Corrupt { file: "data", offset, .. } => *offset,
        other => panic!("{what}: {other}"),
    }
}

/// The state in which pages 1 and 2 have that value.
fn state(value: u64) -> State {
    let mut state = State::default();
    (state[1][0], state[2][0]) = (value, value);
    state
}

#[test]
fn a_torn_tail_is_cut_and_appending_goes_on() {
    let io = killed(3);
    let blocks = Raw::of(&io).blocks(Raw::of(&io).newest());
    assert_eq!(blocks.len(), 3);
    for at in blocks[2].bytes.clone() {
        let io = io.kill();
        flip(&io, at, 1 << (at % 8));
        let toy = Toy::open(&io).expect("a torn tail is no damage");
        assert_eq!((toy.get(1, 0).expect("get"), toy.file.durable_epoch()), (2, 2), "byte {at}");
        toy.set(&[(1, 0, 9)]).expect("set");
        toy.file.sync().expect("sync");
        toy.abandon();
        let toy = Toy::open(&io).expect("open");
        assert_eq!((toy.get(1, 0).expect("get"), toy.get(2, 0).expect("get")), (9, 2));
    }
}

#[test]
fn damage_before_the_tail_is_reported_with_its_place() {
    let io = killed(3);
    let block = Raw::of(&io).blocks(Raw::of(&io).newest())[1].bytes.clone();
    for at in block.clone() {
        let (io, byte) = (io.kill(), at - block.start);
        flip(&io, at, 1 << (at % 8));
        assert_eq!(place(&open_error(&io), "a block"), block.start, "byte {byte}");
    }
}

/// Where damage at a byte of a closed pool is told.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Told {
    /// By the open, which names that byte.
    Open(u64),
    /// By reads of these pages.
    Read(Option<u32>, u64),
}

fn told(raw: &Raw, at: u64) -> Option<Told> {
    let images = raw.images(raw.newest());
    let (live, placed) = images.iter().find(|(_, placed)| placed.range().contains(&at))?;
    Some(match live {
        Live::Root => Told::Open(placed.place),
        Live::Leaf(_) => Told::Read(None, placed.place),
        Live::Page(no) => Told::Read(Some(*no), placed.place),
    })
}

/// Opens and reads a pool with damage that is to be told so.
fn judge(io: &SimIo, told: Option<Told>, sound: &State, what: &str) {
    let toy = match (Toy::open(io), told) {
        (Err(error), Some(Told::Open(at))) => return assert_eq!(place(&error, what), at, "{what}"),
        (Ok(toy), None | Some(Told::Read(..))) => toy,
        (opened, told) => panic!("{what}: {told:?}, {:?}", opened.map(drop)),
    };
    for (no, words) in (0..PAGES as u32).zip(sound) {
        let found: Result<Vec<u64>> = (0..words.len() as u16).map(|j| toy.get(no, j)).collect();
        match (found, told) {
            (Err(error), Some(Told::Read(page, at))) if page.is_none_or(|page| page == no) => {
                assert_eq!(place(&error, what), at, "{what}, page {no}");
            }
            (found, _) => assert_eq!(found.expect(what), words, "{what}, page {no}"),
        }
    }
}

/// Each byte of a closed pool: in what is alive damage is told, with the image's place, by whoever needs
/// it and by nobody else; elsewhere it does no harm, also in either superblock.
fn each_byte_is_covered(slots: u32) {
    let io = closed_of(slots);
    let raw = Raw::of(&io);
    let (mut alive, mut dead) = (0, 0);
    for at in 0..raw.0.len() as u64 {
        let told = told(&raw, at);
        if told.is_some() {
            alive += 1
        } else {
            dead += 1
        }
        flip(&io, at, 1 << (at % 8));
        judge(&io, told, &state(3), &format!("byte {at}, {slots} slots"));
        io.poke(&path(), at, &raw.0[at as usize..][..1]);
    }
    assert!(alive > 8192 + PAGES as u64 * 64 && dead > 8192, "{alive} alive, {dead} dead");
    judge(&io, None, &state(3), "repaired");
}

#[test]
fn each_byte_of_a_closed_pool_is_covered() {
    each_byte_is_covered(4);
}

#[test]
fn each_byte_of_a_closed_pool_of_whole_pages_is_covered() {
    each_byte_is_covered(28);
}

#[test]
fn a_file_cut_at_any_length_is_told_or_has_everything() {
    let io = closed();
    let raw = Raw::of(&io);
    let end = raw.images(raw.newest()).iter().map(|(_, placed)| placed.range().end).max();
    let end = end.expect("there are images");
    for len in 0..raw.0.len() as u64 {
        let io = io.kill();
        io.truncate(&path(), len);
        match Toy::open(&io) {
            Ok(toy) => {
                let found = read_all(&toy);
                match found {
                    Ok(found) => assert!(found == state(3) && len >= end, "{len} bytes"),
                    Err(error) => assert!(place(&error, "a read") < end && len < end, "{error}"),
                }
            }
            Err(Error::Foreign { .. }) => assert!(len < 4096, "{len} bytes"),
            Err(Error::Corrupt { .. }) => assert!((4096..end).contains(&len), "{len} bytes"),
            Err(other) => panic!("{len} bytes: {other}"),
        }
    }
}

#[test]
fn a_killed_pool_cut_at_any_length_is_told_or_ends_with_a_whole_epoch() {
    let io = killed(3);
    let raw = Raw::of(&io);
    let blocks = raw.blocks(raw.newest());
    let near = |at: u64| at.saturating_sub(70)..at + 70;
    let near_blocks = blocks.iter().flat_map(|b| near(b.bytes.start).chain(near(b.bytes.end)));
    let lengths = (0..raw.0.len() as u64).step_by(997).chain(near(4096)).chain(near_blocks);
    for len in lengths {
        let io = io.kill();
        io.truncate(&path(), len);
        match Toy::open(&io) {
            Ok(toy) => {
                // Blocks that the last superblock does not know of may have been a torn tail.
                let whole = blocks.iter().filter(|block| block.bytes.end <= len).count() as u64;
                assert_eq!(read_all(&toy).expect("sound"), state(whole), "{len} bytes");
                assert!(len >= 4096);
            }
            Err(Error::Foreign { .. } | Error::Corrupt { .. }) => {
                assert!(len < 4096, "{len} bytes");
            }
            Err(other) => panic!("{len} bytes: {other}"),
        }
    }
}

#[test]
fn an_image_in_the_place_of_another_is_noticed() {
    let io = closed();
    let raw = Raw::of(&io);
    let [one, two] = [1, 2].map(|no| raw.page(no));
    let image = &raw.0[one.place as usize..][..one.bytes as usize];
    io.poke(&path(), two.place, image);
    let toy = Toy::open(&io).expect("open");
    assert_eq!(place(&toy.get(2, 0).expect_err("it is page 1"), "page 2"), two.place);
    assert_eq!(toy.get(1, 0).expect("the image of page 1"), 3);
}

#[test]
fn an_image_of_another_time_is_noticed() {
    // Two pools that differ in one word, and in nothing else: the same uuid, places and numbers.
    let [(old, _), (new, io)] = [7, 8].map(|value| {
        let io = SimIo::new(1);
        let toy = Toy::open(&io).expect("new");
        toy.set(&[(1, 0, value)]).expect("set");
        toy.close().expect("close");
        (Raw::of(&io), io)
    });
    let (was, is) = (old.page(1), new.page(1));
    assert_eq!((was.place, was.bytes), (is.place, is.bytes));
    io.poke(&path(), is.place, &old.0[is.place as usize..][..is.bytes as usize]);
    let toy = Toy::open(&io).expect("open");
    match toy.get(1, 0) {
        Err(Error::Corrupt { offset, what, .. }) => {
            assert!(offset == is.place && what.contains("another time"), "{what}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn one_damaged_superblock_is_survived_and_two_are_reported() {
    for (a, b) in [(true, false), (false, true), (true, true)] {
        for io in [closed(), killed(3)] {
            for (copy, damaged) in [a, b].into_iter().enumerate() {
                if damaged {
                    flip(&io, copy as u64 * 4096 + 100, 1);
                }
            }
            match Toy::open(&io) {
                Ok(toy) => {
                    assert!(!(a && b));
                    assert_eq!(read_all(&toy).expect("nothing is missing"), state(3));
                    // And the next one that is written mends it.
                    toy.set(&[(1, 0, 3)]).expect("set");
                    toy.checkpoint().expect("checkpoint");
                    assert!(Raw::of(&io).supers().iter().all(Option::is_some));
                }
                Err(e) => assert!(a && b && matches!(e, Error::Corrupt { offset: 0, .. }), "{e}"),
            }
        }
    }
}

#[test]
fn the_size_of_pages_is_found_without_a_superblock() {
    for slots in [4, 16, 28, 252, 2044] {
        let found = |io: &SimIo| {
            let options = DamagedFileOptions { layout_hash: 0, whole: |_| false, slots: 8 };
            DamagedFile::open(io, &path(), &options).expect("not foreign").geometry().slots()
        };
        let io = closed_of(slots);
        assert_eq!(found(&io), slots as usize);
        io.poke(&path(), 0, &[0; 8192]);
        assert_eq!(found(&io), slots as usize, "by the images of pages");
    }
}

#[test]
fn foreign_files_are_refused_and_left_as_they_are() {
    let mut older = Raw::of(&closed()).0;
    for copy in [0, 4096] {
        older[copy + 8] = 2;
        let crc = crc32c::crc32c(&older[copy..copy + 4092]);
        older[copy + 4092..copy + 4096].copy_from_slice(&crc.to_le_bytes());
    }
    for bytes in [&b"#!/bin/sh\necho hello\n"[..], &[0; 9000], &older] {
        let io = SimIo::new(1);
        io.poke(&path(), 0, bytes);
        assert!(matches!(open_error(&io), Error::Foreign { .. }));
        assert!(io.peek(&path()).is_some_and(|now| now == bytes), "it was changed");
    }
    let io = SimIo::new(1);
    io.truncate(&path(), 0);
    assert!(matches!(open_error(&io), Error::Foreign { .. }));
    let other = FileOptions { layout_hash: 5, ..options() };
    assert!(matches!(Toy::open_with(&closed(), &path(), &other), Err(Error::Foreign { .. })));
}

#[test]
fn random_damage_never_panics() {
    let mut rng = toy::Rng(5);
    let pools = [killed(4), closed()];
    for _ in 0..3_000 {
        let io = pools[rng.below(2) as usize].kill();
        // The front of the file, or where the journal is.
        let start = [0, raw::EXTENT][rng.below(2) as usize];
        for _ in 0..=rng.below(4) {
            let at = start + rng.below(6 * 4096);
            let byte = rng.next().to_le_bytes();
            io.poke(&path(), at, &byte[..1 + rng.below(8) as usize]);
        }
        if let Ok(toy) = Toy::open(&io) {
            let _ = read_all(&toy);
            let _ = toy.close();
        }
    }
}
