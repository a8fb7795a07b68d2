//! Damage that something on the disk proves is told, and does not pass for a commit that was cut off.

use std::path::Path;

use everleaf_file::FIRST_PAGE_OFFSET;
use everleaf_file::io::{Fault, Io, SimIo};
use everleaf_pmem::Error;

mod toy;
use toy::{Model, Rng, Toy, journal_path, path, read_all};

const PAGE_BYTES: u64 = 128;
const BLOCK: u64 = 4096;

fn bytes(io: &SimIo, path: &Path, at: u64, n: usize) -> Vec<u8> {
    let all = io.peek(path).unwrap_or_default();
    all.get(at as usize..at as usize + n).map_or_else(Vec::new, <[u8]>::to_vec)
}

fn flip(io: &SimIo, path: &Path, at: u64) {
    io.poke(path, at, &[bytes(io, path, at, 1)[0] ^ 1]);
}

fn u64_at(io: &SimIo, path: &Path, at: u64) -> u64 {
    let bytes = bytes(io, path, at, 8);
    bytes.try_into().map_or(0, u64::from_le_bytes)
}

fn has_block(io: &SimIo, journal: &Path, at: u64) -> bool {
    bytes(io, journal, at, 4) == *b"EBLK"
}

fn set(toy: &Toy, no: u32, value: u64) {
    toy.set(&[(no, 0, value)]).expect("set");
    toy.file.sync().expect("sync");
}

/// The copy of the superblock with the higher counter.
fn newest_super(io: &SimIo) -> u64 {
    if u64_at(io, &path(), 64) > u64_at(io, &path(), 4096 + 64) { 0 } else { 4096 }
}

fn open_error(io: &SimIo) -> Error {
    match Toy::open(io) {
        Ok(toy) => panic!("opened, epoch {}", toy.file.durable_epoch()),
        Err(e) => e,
    }
}

/// A pool that was closed, then written and killed, and whose newest superblock is damaged.
fn written_after_a_close() -> SimIo {
    let io = SimIo::new(1);
    Toy::open(&io).expect("new").close().expect("close");
    let toy = Toy::open(&io).expect("open");
    set(&toy, 1, 7);
    toy.abandon();
    flip(&io, &path(), newest_super(&io) + 100);
    io
}

#[test]
fn a_damaged_superblock_does_not_hide_what_was_written_since() {
    let io = written_after_a_close();
    // The other copy says that the pool was closed.
    assert_eq!(Toy::open(&io).expect("the journal is whole").get(1, 0).expect("get"), 7);
}

#[test]
fn a_damaged_superblock_and_a_damaged_journal_header_are_reported() {
    let io = written_after_a_close();
    flip(&io, &journal_path(0), 20);
    assert!(matches!(open_error(&io), Error::Corrupt { .. }));
}

#[test]
fn a_closed_pool_needs_one_copy_of_its_superblock() {
    for copy in [0, 4096] {
        let io = SimIo::new(1);
        let toy = Toy::open(&io).expect("new");
        set(&toy, 1, 7);
        toy.close().expect("close");
        flip(&io, &path(), copy + 60);
        assert_eq!(Toy::open(&io).expect("one is good").get(1, 0).expect("get"), 7);
    }
}

#[test]
fn an_old_image_does_not_replace_a_damaged_page() {
    let io = SimIo::new(1);
    let toy = Toy::open(&io).expect("new");
    for value in [4, 5] {
        set(&toy, 1, value);
        toy.checkpoint().expect("checkpoint");
    }
    toy.close().expect("close");
    // Each of these opens writes one batch, to the same half; the other has page 1 with a 5.
    for (page, value) in [(1, 6), (2, 1)] {
        let toy = Toy::open(&io).expect("open");
        set(&toy, page, value);
        toy.checkpoint().expect("checkpoint");
        toy.close().expect("close");
    }
    let toy = Toy::open(&io).expect("open");
    set(&toy, 3, 1);
    toy.abandon();
    let home = FIRST_PAGE_OFFSET + PAGE_BYTES;
    flip(&io, &path(), home + 70);
    let toy = Toy::open(&io).expect("open");
    match toy.get(1, 0) {
        Err(Error::Corrupt { file: "data", offset, .. }) => assert_eq!(offset, home),
        other => panic!("{other:?}"),
    }
    assert_eq!(toy.get(3, 0).expect("another page"), 1);
}

#[test]
fn a_blank_home_is_no_empty_page() {
    let io = SimIo::new(1);
    let toy = Toy::open(&io).expect("new");
    set(&toy, 1, 7);
    toy.close().expect("close");
    let home = FIRST_PAGE_OFFSET + PAGE_BYTES;
    io.poke(&path(), home, &[0; PAGE_BYTES as usize]);
    let toy = Toy::open(&io).expect("open");
    assert!(matches!(toy.get(1, 0), Err(Error::Corrupt { offset, .. }) if offset == home));
    assert_eq!(toy.get(2, 0).expect("another page"), 0);
}

/// A pool with one checkpoint, and then a block for each of the pages 1, 2 and 3.
fn three_blocks() -> (SimIo, std::path::PathBuf) {
    let io = SimIo::new(1);
    let toy = Toy::open(&io).expect("new");
    set(&toy, 5, 1);
    toy.checkpoint().expect("checkpoint");
    for no in 1..=3 {
        set(&toy, no, 7);
    }
    toy.abandon();
    (io, journal_path(1))
}

#[test]
fn the_head_of_a_torn_block_proves_that_the_one_before_was_durable() {
    let (io, journal) = three_blocks();
    assert!(has_block(&io, &journal, 3 * BLOCK));
    flip(&io, &journal, 3 * BLOCK + 45);
    assert_eq!(Toy::open(&io).expect("a torn tail").get(3, 0).expect("get"), 0);
    let (io, journal) = three_blocks();
    flip(&io, &journal, 2 * BLOCK + 45);
    flip(&io, &journal, 3 * BLOCK + 45);
    assert!(matches!(open_error(&io), Error::Corrupt { file: "journal 1", offset: 8192, .. }));
}

#[test]
fn a_later_block_in_the_place_of_the_first_is_noticed() {
    let (io, journal) = three_blocks();
    let last = bytes(&io, &journal, 3 * BLOCK, BLOCK as usize);
    io.poke(&journal, BLOCK, &last);
    assert!(matches!(open_error(&io), Error::Corrupt { file: "journal 1", offset: 4096, .. }));
}

#[test]
fn each_block_is_missed_at_each_moment_of_a_checkpoint() {
    let (mut told, mut both, mut empty, mut call) = (0, 0, 0, 0);
    loop {
        let (io, mut model, mut rng) = (SimIo::new(1), Model::new(), Rng(3));
        let toy = Toy::open(&io).expect("new");
        let mut step = |toy: &Toy| {
            let changes = model.transfer(&mut rng);
            let epoch = toy.set(&changes).expect("set");
            model.set(epoch, &changes);
        };
        for _ in 0..3 {
            step(&toy);
            toy.file.sync().expect("sync");
        }
        // The checkpoint commits this one itself, to the other journal.
        step(&toy);
        io.cut_at(io.calls() + call, None);
        toy.checkpoint().expect("no fault");
        let Some(killed) = io.take_cut() else { break };
        toy.abandon();
        call += 1;
        let begun = has_block(&killed, &journal_path(1), BLOCK);
        both += usize::from(begun);
        empty += usize::from(!begun && u64_at(&killed, &journal_path(1), 32) == 2);
        for (journal, at) in [(0, BLOCK), (0, 2 * BLOCK), (0, 3 * BLOCK), (1, BLOCK)] {
            // A copy, as an open may change it.
            let io = killed.kill();
            if !has_block(&io, &journal_path(journal), at) {
                continue;
            }
            let what = format!("call {call}, journal {journal} at {at}");
            flip(&io, &journal_path(journal), at + 50);
            match Toy::open(&io) {
                Ok(toy) => {
                    let epoch = toy.file.durable_epoch();
                    let found = read_all(&toy).unwrap_or_else(|e| panic!("{what}: {e}"));
                    assert_eq!(found, model.at(epoch).1, "{what}: epoch {epoch}");
                    // Only the last of all may pass for torn.
                    let last = if begun { (1, BLOCK) } else { (0, 3 * BLOCK) };
                    let superseded = u64_at(&io, &path(), newest_super(&io) + 80) == 2;
                    assert!((journal, at) == last || superseded, "{what}: nobody said so");
                }
                Err(Error::Corrupt { .. }) => told += 1,
                Err(error) => panic!("{what}: {error}"),
            }
        }
    }
    assert!(told > 30 && both > 3 && empty > 0, "{told} told, {both} with both, {empty} without");
}

#[test]
fn a_journal_that_a_failed_open_made_has_a_durable_name() {
    let mut failed = 0;
    for (call, fault) in (0..30).flat_map(|call| [(call, Fault::Io), (call, Fault::LostSync)]) {
        let io = SimIo::new(1);
        let toy = Toy::open(&io).expect("new");
        set(&toy, 1, 7);
        toy.close().expect("close");
        // The data file was copied alone.
        for journal in (0..2).map(journal_path) {
            io.remove(&journal).expect("no fault");
        }
        io.sync_dir(&path()).expect("no fault");
        io.fail_at(io.calls() + call, fault);
        failed += usize::from(Toy::open(&io).map(Toy::abandon).is_err());
        io.fail_at(u64::MAX, fault);
        let toy = Toy::open(&io).expect("open");
        set(&toy, 1, 8);
        toy.abandon();
        for seed in 0..20 {
            let toy = Toy::open(&io.power_cut(seed)).expect("nothing is missing");
            assert_eq!(toy.get(1, 0).expect("get"), 8);
        }
    }
    assert!(failed >= 8, "{failed} opens failed");
}

/// A closed pool in which page 1 holds 7, and the bytes of its data file.
fn closed_with_copy() -> (SimIo, Vec<u8>) {
    let io = SimIo::new(1);
    let toy = Toy::open(&io).expect("new");
    set(&toy, 1, 7);
    toy.close().expect("close");
    let copy = io.peek(&path()).expect("there");
    (io, copy)
}

#[test]
fn a_header_that_was_cut_off_is_no_sign_of_a_later_open() {
    let (io, _) = closed_with_copy();
    let later = io.power_cut(0);
    let toy = Toy::open(&later).expect("open");
    set(&toy, 1, 8);
    toy.abandon();
    let header = bytes(&later, &journal_path(0), 0, BLOCK as usize);
    for len in [52, 512, 3584, 4095] {
        // As a power cut leaves it before the header's sync, with one copy of the superblock torn.
        let io = io.power_cut(0);
        io.poke(&journal_path(0), 0, &header[..len]);
        flip(&io, &path(), 100);
        let toy = Toy::open(&io).unwrap_or_else(|e| panic!("{len} bytes: {e}"));
        set(&toy, 2, 9);
        toy.abandon();
        let toy = Toy::open(&io).unwrap_or_else(|e| panic!("{len} bytes: {e}"));
        assert_eq!([1, 2].map(|no| toy.get(no, 0).expect("get")), [7, 9], "{len} bytes");
    }
}

#[test]
fn a_copy_of_a_closed_pool_leaves_the_journals_of_a_later_history_as_they_are() {
    let (io, copy) = closed_with_copy();
    let toy = Toy::open(&io).expect("open");
    set(&toy, 1, 8);
    toy.checkpoint().expect("checkpoint");
    set(&toy, 3, 8);
    toy.abandon();
    io.truncate(&path(), copy.len() as u64);
    io.poke(&path(), 0, &copy);
    let journals = || [0, 1].map(|i| io.peek(&journal_path(i)).expect("there"));
    let before = journals();
    match Toy::open(&io).map(drop) {
        Err(Error::InTheWay { path, .. }) => assert_eq!(path, journal_path(0)),
        other => panic!("{other:?}"),
    }
    assert!(before == journals(), "they hold what was acknowledged");
}

#[test]
fn a_closed_pool_goes_on_without_the_journals_of_an_earlier_history() {
    // As a crash leaves them before the close has cut them.
    let io = SimIo::new(1);
    let toy = Toy::open(&io).expect("new");
    set(&toy, 1, 3);
    toy.checkpoint().expect("checkpoint");
    set(&toy, 1, 7);
    let journals = [0, 1].map(|i| io.peek(&journal_path(i)).expect("there"));
    toy.close().expect("close");
    for (i, bytes) in journals.iter().enumerate() {
        io.poke(&journal_path(i), 0, bytes);
    }
    for seed in 0..20 {
        for call in 0..40 {
            let disk = io.power_cut(0);
            let toy = Toy::open(&disk).expect("the copy was closed");
            disk.cut_at(disk.calls() + call, Some(seed));
            set(&toy, 2, 9);
            toy.abandon();
            let cut = disk.take_cut();
            let what = format!("seed {seed}, call {call}");
            let toy = Toy::open(cut.as_ref().unwrap_or(&disk)).expect(&what);
            let found = [1, 2, 3].map(|no| toy.get(no, 0).expect("get"));
            assert!(found == [7, 9, 0] || cut.is_some() && found == [7, 0, 0], "{what}: {found:?}");
        }
    }
}
