//! Damaged, foreign and misplaced files are told apart, by typed errors.

use std::path::Path;

use everleaf_file::FIRST_PAGE_OFFSET;
use everleaf_file::FileOptions;
use everleaf_file::io::SimIo;
use everleaf_file::salvage::{DamagedFile, DamagedFileOptions};
use everleaf_pmem::{Error, Medium};

mod toy;
use toy::{Toy, journal_path, options, path};

const PAGE_BYTES: u64 = 128;

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

fn flip(io: &SimIo, path: &Path, at: u64, bits: u8) {
    let byte = io.peek(path).expect("there")[at as usize];
    io.poke(path, at, &[byte ^ bits]);
}

fn open_error(io: &SimIo) -> Error {
    match Toy::open(io) {
        Ok(_) => panic!("opened"),
        Err(e) => e,
    }
}

#[test]
fn a_torn_tail_is_cut_and_appending_goes_on() {
    let io = killed(3);
    flip(&io, &journal_path(0), 4096 + 2 * 4096 + 50, 4);
    let toy = Toy::open(&io).expect("a torn tail is no damage");
    assert_eq!((toy.get(1, 0).expect("get"), toy.file.durable_epoch()), (2, 2));
    toy.set(&[(1, 0, 9)]).expect("set");
    toy.file.sync().expect("sync");
    toy.abandon();
    let toy = Toy::open(&io).expect("open");
    assert_eq!((toy.get(1, 0).expect("get"), toy.get(2, 0).expect("get")), (9, 2));
}

#[test]
fn damage_before_the_tail_is_reported_with_its_place() {
    for byte in [0, 4, 8, 16, 24, 32, 36, 41, 60] {
        let io = killed(3);
        flip(&io, &journal_path(0), 4096 + 4096 + byte, 1);
        match open_error(&io) {
            Error::Corrupt { file: "journal 0", offset: 8192, .. } => {}
            other => panic!("byte {byte}: {other}"),
        }
    }
}

#[test]
fn a_damaged_journal_header_or_a_missing_journal_is_reported() {
    let io = killed(3);
    flip(&io, &journal_path(0), 33, 1);
    assert!(matches!(open_error(&io), Error::Corrupt { file: "journal 0", offset: 0, .. }));
    let io = killed(3);
    io.truncate(&journal_path(0), 0);
    assert!(matches!(open_error(&io), Error::Corrupt { .. }));
}

#[test]
fn each_bit_of_a_page_is_covered() {
    each_bit_is_covered(4);
    each_bit_is_covered(28);
}

fn each_bit_is_covered(slots: u32) {
    let (io, page_bytes) = (closed_of(slots), 64 + 16 * u64::from(slots));
    let at = FIRST_PAGE_OFFSET + page_bytes;
    for byte in 0..page_bytes {
        let bit = 1 << (byte % 8);
        flip(&io, &path(), at + byte, bit);
        let toy = Toy::open(&io).expect("the superblock is good");
        match toy.get(1, 0) {
            Err(Error::Corrupt { file: "data", offset, .. }) => assert_eq!(offset, at),
            other => panic!("byte {byte}: {other:?}"),
        }
        assert_eq!(toy.get(2, 0).expect("another page"), 3);
        drop(toy);
        flip(&io, &path(), at + byte, bit);
    }
    assert_eq!(Toy::open(&io).expect("repaired").get(1, 0).expect("get"), 3);
}

#[test]
fn a_page_in_the_wrong_place_is_noticed() {
    let io = closed();
    let data = io.peek(&path()).expect("there");
    let page = &data[(FIRST_PAGE_OFFSET + PAGE_BYTES) as usize..][..PAGE_BYTES as usize];
    io.poke(&path(), FIRST_PAGE_OFFSET + 2 * PAGE_BYTES, page);
    let toy = Toy::open(&io).expect("open");
    assert!(matches!(toy.get(2, 0), Err(Error::Corrupt { .. })));
}

#[test]
fn one_damaged_superblock_is_survived_and_two_are_reported() {
    for (a, b) in [(true, false), (false, true), (true, true)] {
        let io = SimIo::new(1);
        Toy::open(&io).expect("new").close().expect("close");
        for (copy, damaged) in [a, b].into_iter().enumerate() {
            if damaged {
                flip(&io, &path(), copy as u64 * 4096 + 100, 1);
            }
        }
        match Toy::open(&io) {
            Ok(_) => assert!(!(a && b)),
            Err(e) => assert!(a && b && matches!(e, Error::Corrupt { offset: 0, .. }), "{e}"),
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
        assert_eq!(found(&io), slots as usize, "by the checksums of pages");
        let pages = 6 * (64 + 16 * slots as usize);
        io.poke(&path(), FIRST_PAGE_OFFSET, &vec![0xee; pages]);
        assert_eq!(found(&io), slots as usize, "by the double-write area");
    }
}

#[test]
fn a_file_cut_within_its_pages_is_reported() {
    let io = closed();
    io.truncate(&path(), FIRST_PAGE_OFFSET + 2 * PAGE_BYTES);
    assert!(matches!(open_error(&io), Error::Corrupt { file: "data", .. }));
}

#[test]
fn foreign_files_are_refused() {
    for bytes in [&b"#!/bin/sh\necho hello\n"[..], &[0; 9000]] {
        let io = SimIo::new(1);
        io.poke(&path(), 0, bytes);
        assert!(matches!(open_error(&io), Error::Foreign { .. }));
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
    for _ in 0..3_000 {
        let io = if rng.below(2) == 0 { killed(4) } else { closed() };
        let file = [path(), journal_path(0)][rng.below(2) as usize].clone();
        let end = if file == path() { 8192 } else { 6 * 4096 };
        for _ in 0..=rng.below(4) {
            let at = rng.below(end);
            let byte = rng.next().to_le_bytes();
            io.poke(&file, at, &byte[..1 + rng.below(8) as usize]);
        }
        if let Ok(toy) = Toy::open(&io) {
            let _ = toy::read_all(&toy);
            let _ = toy.close();
        }
    }
}
