//! Files whose bytes are consistent and wrong: what their numbers ask for is not done.

use std::path::Path;
use std::sync::Arc;

use everleaf_file::io::SimIo;
use everleaf_file::{File, FileOptions};
use everleaf_pmem::{Change, Error, Medium};

const POOL: &str = "/pool/p.ever";

fn options() -> FileOptions {
    FileOptions {
        slots: 4,
        max_pages: 1 << 20,
        create: true,
        background: false,
        ..FileOptions::default()
    }
}

fn open(disk: &SimIo) -> Result<File, Error> {
    File::open(Arc::new(disk.clone()), Path::new(POOL), &options())
}

/// Stores to page `no` and makes it durable.
fn store(file: &File, no: u32) {
    let page = file.page(no).expect("in the pool");
    let mut held = page.latch().lock();
    if !held.is_ready() {
        file.fetch(page, &mut |_, _| Ok(())).expect("sound");
        held.set_ready();
    }
    let mut op = file.enter().expect("writable");
    file.store(page.head(0), 7);
    file.note(&mut op, page, Change { tag: 1, bytes: &[] });
    drop(op);
    drop(held);
    file.sync().expect("no fault");
}

#[test]
fn an_older_superblock_does_not_hide_the_journal() {
    let disk = SimIo::new(1);
    let file = open(&disk).expect("new");
    store(&file, 0);
    file.close().expect("no fault");
    drop(file);
    let file = open(&disk).expect("closed");
    store(&file, 0);
    drop(file);
    // The newer copy says that the pool is open, the older one that it was closed.
    for copy in 0..2 {
        let disk = disk.power_cut(0);
        let at = copy * 4096 + 4000;
        disk.poke(Path::new(POOL), at, &[1]);
        let file = open(&disk).expect("one copy and the journal are sound");
        assert_eq!(file.pending(), Some(0), "the journal counts");
    }
}

#[test]
fn a_journal_that_is_cut_off_before_what_was_durable_is_damaged() {
    let disk = SimIo::new(1);
    let file = open(&disk).expect("new");
    store(&file, 0);
    file.abandon();
    drop(file);
    // The next open says in the superblock that this block was durable.
    let file = open(&disk).expect("killed");
    store(&file, 1);
    file.abandon();
    drop(file);
    for len in [8192, 100 << 10, 1 << 20, (1 << 20) + 30] {
        let disk = disk.power_cut(0);
        disk.truncate(Path::new(POOL), len);
        match open(&disk) {
            Err(Error::Corrupt { offset, .. }) => assert_eq!(offset, 1 << 20, "{len} bytes"),
            other => panic!("{len} bytes: {other:?}"),
        }
    }
}

/// A pool's superblock with words changed, in both copies, and made to look whole.
fn with_words(disk: &SimIo, words: &[(usize, u64)]) -> SimIo {
    let disk = disk.power_cut(0);
    for copy in 0..2 {
        let mut bytes = disk.peek(Path::new(POOL)).expect("there")[copy * 4096..][..4096].to_vec();
        for (at, word) in words {
            bytes[*at..at + 8].copy_from_slice(&word.to_le_bytes());
        }
        let crc = crc32c::crc32c(&bytes[..4092]);
        bytes[4092..].copy_from_slice(&crc.to_le_bytes());
        disk.poke(Path::new(POOL), copy as u64 * 4096, &bytes);
    }
    disk
}

#[test]
fn no_number_in_a_superblock_is_believed() {
    let disk = SimIo::new(1);
    let file = open(&disk).expect("new");
    store(&file, 0);
    file.close().expect("no fault");
    let closed = disk.power_cut(0);
    let file = open(&disk).expect("closed");
    store(&file, 0);
    file.abandon();
    let numbers = [0, 1, 16, 4096, 8192, 1 << 20, 3 << 20, 1 << 40, 1 << 52, 1 << 63, u64::MAX];
    let mut refused = 0;
    for disk in [closed, disk] {
        for (at, word) in (40..136).step_by(8).flat_map(|at| numbers.map(|word| (at, word))) {
            match open(&with_words(&disk, &[(at, word)])) {
                Ok(file) => {
                    let page = file.page(0).expect("in the pool");
                    let mut held = page.latch().lock();
                    if file.fetch(page, &mut |_, _| Ok(())).is_ok() {
                        held.set_ready();
                    }
                    drop(held);
                    // Nothing of it is written over what is there by a close that fails or not.
                    let _ = file.close();
                }
                Err(
                    Error::Corrupt { .. } | Error::Foreign { .. } | Error::InvalidOption { .. },
                ) => {
                    refused += 1;
                }
                Err(other) => panic!("word {word:#x} at {at}: {other}"),
            }
        }
    }
    assert!(refused > 100, "{refused} were refused");
}

/// The fields of a superblock about the journal: its place, its number, its link and next extent, its floor.
const OF_JOURNAL: [usize; 4] = [96, 104, 112, 120];

#[test]
fn a_journal_that_cannot_be_is_refused_or_written_where_one_may_be() {
    let disk = SimIo::new(1);
    let file = open(&disk).expect("new");
    store(&file, 0);
    file.abandon();
    let numbers = [0, 1, 3 << 12, 1 << 20, 2 << 20, 1 << 32, 2 << 32, 1 << 40, u64::MAX];
    let (mut refused, mut written) = (0, 0);
    for (a, b) in OF_JOURNAL.into_iter().flat_map(|a| OF_JOURNAL.map(|b| (a, b))) {
        for words in numbers.into_iter().flat_map(|m| numbers.map(|n| [(a, m), (b, n)])) {
            let disk = with_words(&disk, &words);
            let before = disk.peek(Path::new(POOL)).expect("there");
            match open(&disk) {
                Ok(file) => {
                    written += 1;
                    store(&file, 0);
                    let _ = file.close();
                }
                Err(Error::Corrupt { .. }) => {
                    refused += 1;
                    assert!(disk.peek(Path::new(POOL)).expect("there") == before, "{words:?}");
                }
                Err(other) => panic!("{words:?}: {other}"),
            }
            for copy in 0..2 {
                let bytes = disk.peek(Path::new(POOL)).expect("there");
                assert_eq!(&bytes[copy * 4096..][..8], b"EVERLEAF", "{words:?}");
            }
            open(&disk).map(drop).unwrap_or_else(|error| {
                assert!(matches!(error, Error::Corrupt { .. }), "{words:?}: {error}");
            });
        }
    }
    assert!(refused > 500 && written > 10, "{refused} refused, {written} written");
}
