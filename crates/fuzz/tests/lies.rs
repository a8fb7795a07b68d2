//! Pools that lie under right checksums and are written to, one lie a test: each once made the store panic,
//! hang, take a gigabyte, or lose epochs without a word.

use std::path::Path;
use std::sync::mpsc;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use everleaf::{Error, Options, Result};
use everleaf_file::io::SimIo;
use everleaf_fuzz::exercise::TIME_MAX;
use everleaf_fuzz::format::{self, EXTENT, Facts, PLACED};
use everleaf_fuzz::parts::{Block, POOL, Parts};
use everleaf_fuzz::script;
use everleaf_fuzz::wear::{Use, wear};
use peak_alloc::PeakAlloc;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// Memory is counted for the whole process, so one test at a time.
static ONE: Mutex<()> = Mutex::new(());

fn one() -> MutexGuard<'static, ()> {
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn options() -> Options {
    script::options(512).max_bytes(1 << 28)
}

/// A pool of two trees with large values, one of which was dropped while a snapshot needed it.
fn pool() -> SimIo {
    let disk = SimIo::new(1);
    let db = script::open(&disk, &options()).expect("new");
    let tree = db.tree("a").expect("new");
    for i in 0..60_u8 {
        tree.put([i, 1], [i; 30]).expect("room");
    }
    tree.put(b"large", vec![1; 9000]).expect("room");
    let going = db.tree("going").expect("new");
    for i in 0..60_u8 {
        going.put([i, 2], [i; 30]).expect("room");
    }
    let _held = db.snapshot().expect("open");
    db.drop_tree("going").expect("it is there");
    db.sync().and_then(|()| db.checkpoint()).expect("no fault");
    assert_eq!(db.stats().expect("open").dropped_trees, 1);
    disk.power_cut(0)
}

/// Runs what may hang, with a time limit.
fn within_time<T: Send + 'static>(what: &str, run: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, wait) = mpsc::channel();
    let thread = thread::spawn(move || done.send(run()));
    match wait.recv_timeout(3 * TIME_MAX) {
        Ok(value) => value,
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("{what}: no end"),
        Err(mpsc::RecvTimeoutError::Disconnected) => {
            let panicked = thread.join().expect_err("it sent nothing");
            eprintln!("{what}");
            std::panic::resume_unwind(panicked)
        }
    }
}

/// Bytes that are held at most while a pool is opened and used; and how the open went.
fn held(disk: &SimIo) -> (usize, Result<()>) {
    let disk = disk.clone();
    within_time("an open", move || {
        ALLOCATOR.reset_peak_usage();
        let before = ALLOCATOR.current_usage();
        let opened = script::open(&disk, &Options::new().background(false).create(false));
        let went = opened.and_then(|db| {
            let read = script::contents(&db).map(drop);
            read.and(db.checkpoint())
        });
        (ALLOCATOR.peak_usage() - before, went)
    })
}

/// Bytes of memory that an open may hold for a file of that length.
fn memory_max(disk: &SimIo) -> usize {
    (64 << 20) + 4 * disk.peek(Path::new(POOL)).expect("there").len()
}

fn expect_refused(disk: &SimIo, what: &str) {
    let (held, went) = held(disk);
    assert!(matches!(went, Err(Error::Corrupt { .. })), "{what}: {went:?}");
    assert!(held <= memory_max(disk), "{what}: {held} bytes");
}

#[test]
fn a_table_that_names_extents_behind_the_file() {
    let _one = one();
    let sound = Parts::take(&pool());
    for no in 0..sound.table.len() / PLACED {
        let place = format::u64_at(&sound.table, no * PLACED);
        if place == 0 {
            continue;
        }
        for extents in [1, 4096, 1 << 30] {
            let mut parts = sound.clone();
            let far = place + extents * EXTENT as u64;
            format::put(&mut parts.table, no * PLACED, &far.to_le_bytes());
            parts.seal(&[]);
            let disk = parts.disk();
            within_time(&format!("page {no}, {extents} extents behind"), move || {
                wear(&disk, &Use::of(64));
            });
        }
    }
}

#[test]
fn an_image_where_the_root_says_that_nothing_is_alive() {
    let _one = one();
    let mut parts = Parts::take(&pool());
    let leaves = parts.table.len() / format::LEAF;
    // The live bytes of the first extents.
    for extent in 0..3 {
        parts.root_edits.push((24 + leaves * PLACED + 4 * extent, vec![0; 4]));
    }
    parts.seal(&[]);
    expect_refused(&parts.disk(), "nothing is alive");
}

#[test]
fn an_anchor_that_names_another_node() {
    let _one = one();
    let mut sound = Parts::take(&pool());
    let kind = |parts: &mut Parts, no: usize| format::u32_at(parts.page_mut(no), 40) & 0xff;
    let pages = sound.page_count();
    let anchors: Vec<usize> = (2..pages).filter(|no| kind(&mut sound, *no) == 4).collect();
    let nodes: Vec<usize> = (2..pages).filter(|no| kind(&mut sound, *no) == 1).collect();
    assert!(anchors.len() >= 2 && nodes.len() >= 8, "{anchors:?}, {nodes:?}");
    for &anchor in &anchors {
        for &node in &nodes {
            let mut parts = sound.clone();
            format::put(parts.page_mut(anchor), 8, &(node as u64).to_le_bytes());
            parts.seal(&[]);
            let disk = parts.disk();
            within_time(&format!("anchor {anchor}, node {node}"), move || {
                wear(&disk, &Use::of(0));
            });
        }
    }
}

#[test]
fn an_image_that_is_longer_than_what_it_is_of() {
    let _one = one();
    for kind in [4, 3, 1] {
        let mut parts = Parts::take(&pool());
        // With a gap of 4 GiB.
        parts.head_edits.push((kind, 0, 21, vec![1]));
        parts.head_edits.push((kind, 0, 28, u32::MAX.to_le_bytes().to_vec()));
        parts.seal(&[]);
        expect_refused(&parts.disk(), &format!("an image of kind {kind}"));
    }
}

#[test]
fn a_journal_that_begins_far_behind_the_file() {
    let _one = one();
    for place in [1_u64 << 38, 1 << 41, (1 << 50) + 4096, (1 << 52) - 4096] {
        let mut parts = Parts::take(&pool());
        for copy in 0..2 {
            format::put(&mut parts.supers, copy * 4096 + 96, &place.to_le_bytes());
        }
        parts.seal(&[]);
        expect_refused(&parts.disk(), &format!("a journal at byte {place}"));
    }
}

/// A pool whose journal has these records, in one epoch, and one more epoch behind it.
fn with_journal(records: &[u8]) -> SimIo {
    let disk = SimIo::new(1);
    let db = script::open(&disk, &options()).expect("new");
    db.tree("a").and_then(|tree| tree.put(b"key", b"value")).expect("room");
    db.sync().expect("no fault");
    let mut parts = Parts::take(&disk.power_cut(0));
    let first = Facts { link: 0, ..format::facts(&parts.blocks[0].bytes) };
    let last = format::facts(&parts.blocks.last().expect("an epoch").bytes);
    let mut facts = Facts { epoch: last.epoch, ..first };
    let bytes = format::block(&parts.uuid(), &facts, records);
    let place = parts.blocks[0].place + bytes.len();
    facts.link = format::u32_at(&bytes, 4);
    facts =
        Facts { number: facts.number + 1, epoch: facts.epoch + 1, place: place as u64, ..facts };
    let more = format::block(&parts.uuid(), &facts, &format::record(18, 2, 1, &[]));
    parts.blocks.truncate(1);
    parts.blocks[0].bytes = bytes;
    parts.blocks.push(Block { place, bytes: more });
    parts.disk()
}

#[test]
fn a_journal_that_frees_more_pages_than_there_are() {
    let _one = one();
    let free = |first: u32, pages: u32| format::record(255, first, pages, &[]);
    expect_refused(&with_journal(&free(1, 1 << 27)), "all pages at once");
    let many: Vec<u8> = (0..60_000).flat_map(|i| free(1 + 448 * (i % 9000), 447)).collect();
    expect_refused(&with_journal(&many), "the same pages again and again");
}

#[test]
fn a_journal_that_adopts_values_far_from_each_other() {
    let _one = one();
    let placed = [&8192_u64.to_le_bytes()[..], &100_u32.to_le_bytes(), &[0; 4]].concat();
    let far: Vec<u8> =
        (0..20_000).flat_map(|i| format::record(254, 1 + 512 * i, 1, &placed)).collect();
    expect_refused(&with_journal(&far), "a leaf of the table for each");
}

#[test]
fn a_journal_that_changes_a_page_far_behind_all_others() {
    let _one = one();
    // The table would have an entry for each leaf before it.
    expect_refused(&with_journal(&format::record(18, 1 << 28, 1, &[])), "page 268,435,456");
}

/// Pools that were killed, four synced epochs after an open, or after a checkpoint.
fn killed(first: u8, checkpoint: bool) -> (SimIo, Parts) {
    let disk = SimIo::new(u64::from(first));
    let db = script::open(&disk, &options()).expect("new");
    let tree = db.tree("a").expect("new");
    tree.put(b"before", [first]).expect("room");
    db.sync().expect("no fault");
    if checkpoint {
        db.sync().and_then(|()| db.checkpoint()).expect("no fault");
    }
    for i in 0..4_u8 {
        tree.put([first, i], [i; 40]).expect("room");
        db.sync().expect("no fault");
    }
    let disk = disk.power_cut(0);
    let parts = Parts::take(&disk);
    (disk, parts)
}

#[test]
fn a_journal_of_another_pool_is_damage() {
    let _one = one();
    for (checkpoint, other_too) in [(false, false), (false, true), (true, false), (true, true)] {
        let (disk, parts) = killed(1, checkpoint);
        let (_, other) = killed(2, other_too);
        let extent = |parts: &Parts| parts.blocks[0].place / EXTENT * EXTENT;
        let (to, from) = (extent(&parts), extent(&other));
        let mut bytes = other.file[from..].to_vec();
        bytes.resize(EXTENT, 0);
        disk.poke(Path::new(POOL), to as u64, &bytes);
        for read_only in [true, false] {
            let opened = script::open(&disk, &options().create(false).read_only(read_only));
            let opened = opened.map(drop);
            let Err(Error::Corrupt { file, what, .. }) = &opened else {
                panic!("checkpoint {checkpoint}, {other_too}: {opened:?}");
            };
            assert_eq!(*file, "data", "{what}");
        }
    }
}

#[test]
fn a_journal_without_its_last_block_is_torn() {
    let _one = one();
    let (disk, parts) = killed(1, true);
    let last = parts.blocks.last().expect("four epochs");
    disk.poke(Path::new(POOL), last.place as u64, &vec![0; last.bytes.len()]);
    let db = script::open(&disk, &options().create(false)).expect("torn");
    let tree = db.open_tree("a").expect("whole").expect("there");
    assert_eq!(tree.len().expect("whole"), 4);
}
