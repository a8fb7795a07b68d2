//! Pools whose checksums are right and whose contents contradict each other, one contradiction a
//! test: most once made the store hang, or do as it was told.

use std::path::Path;
use std::sync::mpsc;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use everleaf::{Bytes, Db, Error, Options};
use everleaf_file::io::SimIo;
use everleaf_fuzz::exercise::{TIME_MAX, exercise, memory_bound};
use everleaf_fuzz::format::{self, Facts, PLACED};
use everleaf_fuzz::parts::{POOL, Parts};
use everleaf_fuzz::script::{self, Model};
use peak_alloc::PeakAlloc;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// Memory is counted for the whole process, so one test at a time.
static ONE: Mutex<()> = Mutex::new(());

/// The anchor of the first tree (docs/FORMAT.md, a worked example).
const ANCHOR: usize = 3;

fn one() -> MutexGuard<'static, ()> {
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn key(i: u8) -> Vec<u8> {
    vec![8u8.wrapping_mul(i), i]
}

/// The value of a key: so long that a leaf has room for eight or nine.
fn value(i: u8) -> Vec<u8> {
    vec![i; 40]
}

/// A pool with the keys 0 … n - 1 in the tree `a`, closed or as a crash leaves it.
fn pool(n: u8, closed: bool) -> Parts {
    pool_of((0..n).map(|i| (key(i), value(i))), closed)
}

fn pool_of(pairs: impl Iterator<Item = (Vec<u8>, Vec<u8>)>, closed: bool) -> Parts {
    let disk = SimIo::new(1);
    let db = script::open(&disk, &script::options(512)).expect("new");
    let tree = db.tree("a").expect("new");
    pairs.for_each(|(key, value)| drop(tree.insert(key, value).expect("room")));
    if closed {
        drop(tree);
        db.close().expect("no fault");
        return Parts::take(&disk);
    }
    db.sync().expect("no fault");
    Parts::take(&disk.power_cut(0))
}

fn word(parts: &mut Parts, page: usize, word: usize) -> u64 {
    format::u64_at(parts.page_mut(page), 8 * word)
}

fn set(parts: &mut Parts, page: usize, word: usize, value: u64) {
    format::put(parts.page_mut(page), 8 * word, &value.to_le_bytes());
}

fn root(parts: &mut Parts) -> usize {
    word(parts, ANCHOR, 1) as usize
}

/// How many entries a node has.
fn count(parts: &mut Parts, node: usize) -> usize {
    word(parts, node, 0) as usize & 0xffff
}

/// The value at a position of a node, which has 4 or 8 bytes; of a child at a long separator, the first 8 of 12.
fn value_of(parts: &mut Parts, node: usize, position: usize) -> u64 {
    let (at, len, _) = format::value_at(parts.page_mut(node), position);
    format::u64_at(parts.page_mut(node), at) & u64::MAX >> (64 - 8 * len.min(8))
}

/// Gives the entry at a position another value of the same length.
fn set_value(parts: &mut Parts, node: usize, position: usize, value: u64) {
    let (at, len, _) = format::value_at(parts.page_mut(node), position);
    format::put(parts.page_mut(node), at, &value.to_le_bytes()[..len]);
}

/// The child at a position of an inner node.
fn child(parts: &mut Parts, node: usize, position: usize) -> usize {
    value_of(parts, node, position) as u32 as usize
}

/// Runs what may hang, with a time limit.
fn within_time<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, wait) = mpsc::channel();
    let thread = thread::spawn(move || done.send(run()));
    match wait.recv_timeout(3 * TIME_MAX) {
        Ok(value) => value,
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("no end after {:?}", 3 * TIME_MAX),
        Err(mpsc::RecvTimeoutError::Disconnected) => {
            std::panic::resume_unwind(thread.join().expect_err("it sent nothing"))
        }
    }
}

/// Puts the checksums right, opens for writing, runs; then uses everything.
fn with<T: Send + 'static>(mut parts: Parts, run: fn(&Db) -> T) -> T {
    within_time(move || {
        parts.seal(&[]);
        let db =
            script::open(&parts.disk(), &script::options(512)).expect("nothing looked at is bad");
        let value = run(&db);
        drop(db);
        exercise(&parts.disk(), true);
        value
    })
}

fn is_corrupt<T: std::fmt::Debug>(result: &everleaf::Result<T>) -> bool {
    matches!(result, Err(Error::Corrupt { file: "data", .. }))
}

#[test]
fn a_name_of_a_record_that_is_the_leaf_itself() {
    let _one = one();
    // A long value is in a record, and so is a pair of a long key.
    let long = |i: u8| [&[b'k'; 90][..], &[i]].concat();
    let pairs = (0..4).flat_map(|i| [(key(i), vec![i; 100]), (long(i), vec![i])]);
    let mut parts = pool_of(pairs, true);
    let (leaf, page) = (root(&mut parts), parts.page_bytes);
    for position in 0..count(&mut parts, leaf) {
        let (_, _, is_record) = format::value_at(parts.page_mut(leaf), position);
        assert!(is_record && page == 512);
        set_value(&mut parts, leaf, position, (leaf as u64) << 16);
    }
    with(parts, |db| {
        let tree = db.tree("a").expect("its anchor is sound");
        let long = [&[b'k'; 90][..], &[1]].concat();
        assert!(is_corrupt(&tree.get(key(1))), "the value is in the record");
        assert!(is_corrupt(&tree.insert(key(1), b"")), "the record becomes free");
        assert!(is_corrupt(&tree.remove(key(1))));
        assert!(is_corrupt(&tree.insert(&long, b"")), "comparing keys reads the record");
        assert!(is_corrupt(&tree.remove(&long)));
    });
}

#[test]
fn a_map_that_calls_everything_free() {
    let _one = one();
    let mut parts = pool(30, true);
    let pages = parts.page_count();
    let map = parts.page_mut(0);
    map[64 + ANCHOR..64 + pages.min(448)].fill(0);
    with(parts, |db| {
        let tree = db.tree("a").expect("its anchor is sound");
        // Pages that are in use are left alone, so nothing is lost.
        for i in 0..60_u8 {
            tree.insert([0xf0, i], [i]).expect("there is room");
        }
        for i in 0..30 {
            assert_eq!(tree.get(key(i)).expect("whole"), Some(value(i).into()));
        }
        let pairs: Vec<_> = tree.iter().map(|pair| pair.expect("whole")).collect();
        assert_eq!(pairs.len(), 90);
        assert!(!db.check().expect("it can be read").is_empty());
    });
}

#[test]
fn a_parent_that_names_one_child_twice() {
    let _one = one();
    let mut parts = pool(30, true);
    let top = root(&mut parts);
    let leaf = child(&mut parts, top, 0);
    for position in 0..count(&mut parts, top) {
        set_value(&mut parts, top, position, leaf as u64);
    }
    set(&mut parts, leaf, 1, leaf as u64);
    with(parts, |db| {
        let tree = db.tree("a").expect("its anchor is sound");
        for i in 0..30 {
            let _ = tree.remove(key(i)); // and merges
        }
    });
}

/// Leaves a root its first entry alone, and gives it an upper bound.
fn end_at(parts: &mut Parts, top: usize, bound: [u8; 2]) {
    let (at, page_bytes) = (word(parts, top, 0) >> 16 & 0xffff, parts.page_bytes as u64);
    let place = word(parts, top, 8) & 0xffff;
    let (value_at, value_len, _) = format::value_at(parts.page_mut(top), 0);
    let first_bytes = (value_at + value_len) as u64 - place;
    let (start, dead) = (at - 2, page_bytes - at - first_bytes);
    set(parts, top, 0, 1 | start << 16 | dead << 32);
    set(parts, top, 2, 0xffff << 16 | start << 32 | 2 << 48);
    set(parts, top, 3, u64::from(u16::from_be_bytes(bound)) << 48);
    format::put(parts.page_mut(top), start as usize, &bound);
}

#[test]
fn a_parent_whose_sibling_is_the_leaf_that_splits() {
    let _one = one();
    let mut parts = pool(30, true);
    let top = root(&mut parts);
    // The root ends within its first leaf, and is followed by that.
    let leaf = child(&mut parts, top, 0);
    set(&mut parts, top, 1, leaf as u64);
    end_at(&mut parts, top, [8, 1]);
    with(parts, |db| {
        let tree = db.tree("a").expect("its anchor is sound");
        for i in 0..20 {
            let _ = tree.insert([0, 0, i], b"");
        }
    });
}

#[test]
fn leaves_in_a_circle() {
    let _one = one();
    let mut parts = pool(60, true);
    let top = root(&mut parts);
    let (a, b) = (child(&mut parts, top, 0), child(&mut parts, top, 1));
    set(&mut parts, b, 1, a as u64);
    with(parts, |db| {
        let tree = db.tree("a").expect("its anchor is sound");
        for pairs in [tree.iter().take(1000).count(), tree.iter().rev().take(1000).count()] {
            assert!(pairs <= 61, "{pairs} pairs of 60, or an error");
        }
        assert!(!db.check().expect("it can be read").is_empty());
    });
}

#[test]
fn keys_that_fall_keep_no_iterator_going() {
    let _one = one();
    let mut parts = pool(60, true);
    let mut top = root(&mut parts);
    while word(&mut parts, top, 5) >> 8 & 0xff > 1 {
        top = child(&mut parts, top, 0);
    }
    let (a, b) = (child(&mut parts, top, 0), child(&mut parts, top, 1));
    // The second leaf is the first one again, and leads to itself.
    let first = parts.page_mut(a).to_vec();
    parts.page_mut(b).copy_from_slice(&first);
    with(parts, |db| {
        let tree = db.tree("a").expect("its anchor is sound");
        assert!(tree.iter().take(1000).count() <= 61);
        assert!(tree.iter().rev().take(1000).count() <= 61);
        assert!(!db.check().expect("it can be read").is_empty());
    });
}

/// The first leaves of the tree `a`, at least four.
fn leaves(parts: &mut Parts) -> Vec<usize> {
    let mut top = root(parts);
    while word(parts, top, 5) >> 8 & 0xff > 1 {
        top = child(parts, top, 0);
    }
    let leaves: Vec<usize> = (0..count(parts, top)).map(|at| child(parts, top, at)).collect();
    assert!(leaves.len() >= 4, "{leaves:?}");
    leaves
}

/// Gives the first pairs of an iterator, or its first errors; what is told of each may write.
fn some(
    pairs: impl Iterator<Item = everleaf::Result<everleaf::Pair>>,
    mut tell: impl FnMut(&[u8]),
) -> Vec<everleaf::Result<Bytes>> {
    let keys = pairs.map(|pair| pair.map(|(key, _)| key));
    keys.take(1000).inspect(|key| key.iter().for_each(|key| tell(key))).collect()
}

/// Keys that rise, or fall, and an error at the end.
fn expect_refused(keys: &[everleaf::Result<Bytes>], up: bool) {
    let (last, good) = keys.split_last().expect("an error");
    assert!(is_corrupt(last), "{} keys, {last:?}", good.len());
    let good: Vec<&Bytes> = good.iter().map(|key| key.as_ref().expect("one error")).collect();
    assert!(good.is_sorted_by(|a, b| if up { a < b } else { a > b }), "{good:x?}");
}

/// A pool whose third leaf leads back to the first one. The pair of key 0, with which that begins, is in the leaf, or in
/// a record if its value is long.
fn leading_back(first: usize) -> Parts {
    let value = |i: u8| if i == 0 { vec![7; first] } else { value(i) };
    let mut parts = pool_of((0..60).map(|i| (key(i), value(i))), true);
    let leaves = leaves(&mut parts);
    set(&mut parts, leaves[2], 1, leaves[0] as u64);
    parts
}

fn write_where_it_leads_back(db: &Db, first: usize) {
    let tree = db.tree("a").expect("its anchor is sound");
    // The first leaf changes each time that somebody comes by: the step behind is one by the key.
    let mut n = 0;
    let keys = some(tree.iter(), |key| {
        n += 1;
        if key == self::key(0) {
            tree.put(key, vec![n; first]).expect("its leaf is sound");
        }
    });
    expect_refused(&keys, true);
    // A reader at a moment steps by the key behind each pair that the tree no longer has.
    let before = db.snapshot().expect("open");
    tree.delete(key(1)).expect("its leaf is sound");
    let then = before.of(&tree).expect("of this pool");
    let keys = some(then.iter(), |_| ());
    // A sibling that does not go on where its leaf ends is not believed: a search finds the one that does.
    let keys: Vec<_> = keys.into_iter().map(|key| key.expect("each leaf is found")).collect();
    let mut all: Vec<_> = (0..60).map(key).collect();
    all.sort_unstable();
    assert_eq!(keys, all);
}

#[test]
fn a_sibling_that_leads_back_keeps_nobody_going_who_writes() {
    let _one = one();
    with(leading_back(40), |db| write_where_it_leads_back(db, 40));
    with(leading_back(400), |db| write_where_it_leads_back(db, 400));
}

#[test]
fn long_keys_that_fall_are_damage() {
    let _one = one();
    // Of such a key the leaf knows what all of them begin with; the rest is in its record.
    let long = |i: u8| ([&[b'x'; 100][..], &[i]].concat(), value(i));
    let mut parts = pool_of((0..60).map(long), true);
    let leaf = leaves(&mut parts)[1];
    let last = count(&mut parts, leaf) - 1;
    assert!(format::value_at(parts.page_mut(leaf), last).2 && last >= 3, "{last}");
    // The second pair and the last one change places.
    let (one, other) = (value_of(&mut parts, leaf, 1), value_of(&mut parts, leaf, last));
    set_value(&mut parts, leaf, 1, other);
    set_value(&mut parts, leaf, last, one);
    with(parts, |db| {
        let tree = db.tree("a").expect("its anchor is sound");
        expect_refused(&some(tree.iter(), |_| ()), true);
        expect_refused(&some(tree.iter().rev(), |_| ()), false);
        let up = some(tree.iter(), |key| drop(tree.put(key, [1; 40])));
        assert!(up.len() < 1000, "{} pairs of 60", up.len());
        let down = some(tree.iter().rev(), |key| drop(tree.put(key, [2; 40])));
        assert!(down.len() < 1000, "{} pairs of 60", down.len());
    });
}

#[test]
fn a_long_key_that_begins_a_leaf_below_the_one_before_is_damage() {
    let _one = one();
    let long = |i: u8| ([&[b'x'; 100][..], &[i]].concat(), value(i));
    let mut parts = pool_of((0..60).map(long), true);
    let leaves = leaves(&mut parts);
    assert!(format::value_at(parts.page_mut(leaves[1]), 0).2, "its first pair is in a record");
    // The second leaf begins with the record of the first one's first pair.
    let first = value_of(&mut parts, leaves[0], 0);
    set_value(&mut parts, leaves[1], 0, first);
    with(parts, |db| {
        let tree = db.tree("a").expect("its anchor is sound");
        expect_refused(&some(tree.iter(), |_| ()), true);
    });
}

#[test]
fn a_root_on_the_highest_level() {
    let _one = one();
    let mut parts = pool(30, true);
    let top = root(&mut parts);
    let kind = word(&mut parts, top, 5);
    set(&mut parts, top, 5, kind | 0xff00);
    with(parts, |db| {
        let tree = db.tree("a").expect("its anchor is sound");
        assert!(is_corrupt(&tree.get(key(1))));
        assert!(is_corrupt(&tree.insert(key(1), b"")));
    });
}

#[test]
fn a_merge_that_an_anchor_announces_although_there_is_a_journal() {
    let _one = one();
    let mut parts = pool(60, true);
    let top = root(&mut parts);
    let (left, right) = (child(&mut parts, top, 0) as u64, child(&mut parts, top, 2) as u64);
    set(&mut parts, ANCHOR, 2, left | right << 32);
    with(parts, |db| {
        assert!(is_corrupt(&db.tree("a").map(drop)));
        assert!(!db.check().expect("it can be read").is_empty());
    });
}

#[test]
fn a_name_for_the_catalog() {
    let _one = one();
    let mut parts = pool(4, true);
    // The catalog's only entry: a name of one byte, and the anchor's page.
    assert_eq!(value_of(&mut parts, 2, 0), ANCHOR as u64);
    set_value(&mut parts, 2, 0, 1);
    with(parts, |db| assert!(is_corrupt(&db.tree("a").map(drop))));
}

/// Bytes held at most while a pool is opened as usual, read and checked.
fn held(disk: &SimIo) -> usize {
    ALLOCATOR.reset_peak_usage();
    let before = ALLOCATOR.current_usage();
    let options = Options::new().background(false).create(false);
    if let Ok(db) = script::open(disk, &options) {
        let _ = script::contents(&db);
        let _ = db.check();
    }
    ALLOCATOR.peak_usage() - before
}

/// A pool of the largest pages with one large value, whose record is changed.
fn large_value(change: fn(&mut [u8])) -> SimIo {
    let disk = SimIo::new(1);
    let options = Options::new().background(false).page_bytes(32_768);
    let db = script::open(&disk, &options).expect("new");
    db.tree("a").and_then(|tree| tree.insert(b"key", vec![7; 40_000])).expect("room");
    db.close().expect("no fault");
    let mut parts = Parts::take(&disk);
    let head = [&(3_u32 | 3 << 30).to_le_bytes()[..], &40_000_u32.to_le_bytes()].concat();
    let at = parts.pages.windows(8).position(|bytes| bytes == head).expect("there");
    let (no, at) = (at / parts.page_bytes, at % parts.page_bytes);
    let page = parts.page_mut(no);
    change(&mut page[at..]);
    parts.disk()
}

#[test]
fn a_list_of_extents_as_long_as_a_group() {
    let _one = one();
    let disk = large_value(|record| {
        format::put(record, 0, &(3_u32 | 7 << 29).to_le_bytes());
        format::put(record, 12, &(32_702_u32 * (32_768 / 8)).to_le_bytes());
        format::put(record, 20, &32_702_u32.to_le_bytes());
    });
    let held = held(&disk);
    assert!(held <= memory_bound(0), "{held} bytes for a list that is not there");
}

#[test]
fn one_extent_again_and_again() {
    let _one = one();
    let disk = large_value(|record| {
        // Its first page, which is full.
        let (first, times) = (format::u32_at(record, 16), 1900_u32);
        // The key is not kept, so that the list has room.
        format::put(record, 0, &(3_u32 | 1 << 31).to_le_bytes());
        format::put(record, 4, &(times * 32_768 - 3).to_le_bytes());
        format::put(record, 12, &times.to_le_bytes());
        for i in 0..times as usize {
            format::put(record, 16 + 8 * i, &first.to_le_bytes());
            format::put(record, 20 + 8 * i, &1_u32.to_le_bytes());
        }
    });
    let held = held(&disk);
    assert!(held <= 16 << 20, "{held} bytes for a value of 40,000");
}

#[test]
fn a_journal_that_names_the_last_page() {
    let _one = one();
    let mut parts = pool(4, false);
    let last = format::record(18, 1 << 30, 1, &[]);
    let facts = Facts { link: 0, ..format::facts(&parts.blocks[0].bytes) };
    parts.blocks.truncate(1);
    parts.blocks[0].bytes = format::block(&parts.uuid(), &facts, &last);
    let held = held(&parts.disk());
    assert!(held <= memory_bound(0), "{held} bytes for one change");
}

#[test]
fn a_table_with_an_image_behind_the_pool() {
    let _one = one();
    for place in [1_u64 << 30, (1 << 52) - 4096, u64::MAX - 4095] {
        let disk = SimIo::new(1);
        let db = script::open(&disk, &script::options(512)).expect("new");
        let mut model = Model::new();
        script::fill(&db, &mut model, 0, 1, 30).expect("room");
        db.close().expect("no fault");
        let mut parts = Parts::take(&disk);
        let last = parts.page_count() - 1;
        format::put(&mut parts.table, last * PLACED, &place.to_le_bytes());
        parts.seal(&[]);
        let disk = parts.disk();
        let before = disk.peek(Path::new(POOL)).expect("there").len();
        let opened = script::open(&disk, &script::options(512).max_bytes(1 << 40));
        let read = opened.and_then(|db| {
            let found = script::contents(&db);
            assert!(found.is_err() || !db.check().expect("it can be read").is_empty());
            found
        });
        if let Err(error) = read {
            assert!(matches!(error, Error::Corrupt { .. }), "{error:?}");
        }
        let len = disk.peek(Path::new(POOL)).expect("there").len();
        assert!(len < before + (5 << 20), "the open has made the file {len} bytes long");
    }
}
