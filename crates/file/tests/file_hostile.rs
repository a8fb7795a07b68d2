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
fn a_journal_that_ends_within_its_header_is_damaged() {
    let disk = SimIo::new(1);
    let file = open(&disk).expect("new");
    store(&file, 0);
    drop(file);
    disk.truncate(Path::new("/pool/p.ever-j0"), 100);
    assert!(matches!(open(&disk), Err(Error::Corrupt { file: "journal 0", .. })));
}
