//! Values that are read in part, and values that come from readers: against a map, at every edge, beside
//! other threads, and with readers and disks that fail.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use everleaf::{Bytes, Db, Error, KEY_BYTES_MAX, Options, Storage, Tree, VALUE_BYTES_MAX};
use everleaf_file::io::SimIo;
use everleaf_testing::vecs;

use crate::cut;
use crate::cut::disk::{Call, Disk, FAULTS};
use crate::cut::{Rng, inspect};
use crate::pools::dax;
use crate::readers::{Busy, End, Untouched, dribble};

const MIB: usize = 1 << 20;

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// Several groups of pages, of which one has pages of one kind only.
fn options(page_bytes: u32) -> Options {
    let max_bytes = if page_bytes > 4096 { 4 << 30 } else { 256 << 20 };
    Options::new().background(false).max_bytes(max_bytes).page_bytes(page_bytes)
}

fn on_disk(disk: &Disk, page_bytes: u32) -> Db {
    options(page_bytes).open_on(Arc::new(disk.clone()), cut::PATH).expect("opens")
}

fn file(page_bytes: u32) -> Db {
    on_disk(&Disk::new(SimIo::new(1)), page_bytes)
}

/// Bytes that differ by place and by value.
fn bytes(len: usize, seed: u64) -> Vec<u8> {
    Rng(seed ^ (len as u64) << 20).bytes(len)
}

fn put_from(tree: &Tree, key: &[u8], value: &[u8]) -> everleaf::Result<()> {
    tree.put_from(key, dribble(value, End::Fails), value.len() as u64)
}

/// The part of `value` that is in `len` bytes from `offset` on.
fn part_of(value: &[u8], offset: u64, len: usize) -> &[u8] {
    let from = offset.min(value.len() as u64) as usize;
    &value[from..value.len().min(from.saturating_add(len))]
}

fn expect_part(tree: &Tree, key: &[u8], value: &[u8], offset: u64, len: usize) {
    // A byte that is not written to stays as it is.
    let mut buf = vec![0xEE; len];
    let n = tree.read_at(key, offset, &mut buf).expect("sound").expect("it is there");
    let wanted = part_of(value, offset, len);
    assert!(n == wanted.len() && buf[..n] == *wanted, "{len} at {offset} of {}", value.len());
    assert!(buf[n..].iter().all(|byte| *byte == 0xEE), "{len} at {offset}, {n} bytes");
}

/// Lengths around those at which values go to records, to extents, and to another page of them.
fn lengths(page: usize) -> Vec<usize> {
    let edges = [0, 1, page / 8, page / 4, page - 200, page - 72, page, 2 * page, 7 * page];
    let around = |edge: usize| [edge.saturating_sub(1), edge, edge + 1];
    let mut lengths: Vec<_> = edges.into_iter().flat_map(around).collect();
    lengths.extend([page - 90, page - 80, page - 64, 40 * page + 3, MIB - 1, MIB, MIB + 1]);
    lengths.extend([2 * MIB - 10, 3 * MIB + 5]);
    lengths
}

/// Reads every part of short values, and of others parts that begin and end at edges or anywhere.
fn parts_everywhere(tree: &Tree, page: usize, key: &[u8], value: &[u8]) {
    let len = value.len();
    if len <= 70 {
        for offset in 0..=len + 2 {
            (0..=len + 3).for_each(|n| expect_part(tree, key, value, offset as u64, n));
        }
    }
    let mut rng = Rng(len as u64);
    let pages = [0, 1, 2, 7, len / page, len / page + 1].map(|n| n * page);
    let edges = pages.into_iter().chain([len, len / 2, MIB]).flat_map(|at| [at, at + 1, at + 2]);
    for offset in edges.map(|at| at.saturating_sub(1)) {
        for n in [0, 1, page - 1, page, page + 1, 3 * page] {
            expect_part(tree, key, value, offset as u64, n);
        }
    }
    for _ in 0..30 {
        let (offset, n) = (rng.below(len as u64 + 10), rng.below(len as u64 + 10) as usize);
        expect_part(tree, key, value, offset, n);
    }
    expect_part(tree, key, value, 0, len);
    expect_part(tree, key, value, u64::MAX, 10);
    expect_part(tree, key, value, 1 << 32, 10);
}

fn copied_if_there_is_room(tree: &Tree, key: &[u8], value: &[u8]) {
    let len = value.len();
    for room in [len, len + 1, 3 * len] {
        let mut buf = vec![0xee; room];
        assert_eq!(tree.copy_value(key, &mut buf).expect("sound"), Some(len));
        assert!(buf[..len] == *value && buf[len..].iter().all(|byte| *byte == 0xee), "{len}");
    }
    for room in [0, len / 2, len.saturating_sub(1)].into_iter().filter(|room| *room < len) {
        assert_eq!(tree.copy_value(key, &mut vec![0; room]).expect("sound"), Some(len));
    }
    assert_eq!(tree.copy_value(b"not there", &mut [0; 9]).expect("sound"), None);
}

fn every_length(db: &Db, page: usize, reopen: impl FnOnce(Db) -> Db) {
    let tree = db.tree("t").expect("room");
    let mut map = Map::new();
    for (i, len) in lengths(page).into_iter().enumerate() {
        // A key in the leaf, one in a record, and one in extents before the value.
        for key_len in [1, 300, 70 * page].map(|len| len.min(KEY_BYTES_MAX)) {
            let mut key = vec![b'k'; key_len];
            key.extend(len.to_be_bytes());
            key.drain(..8.min(key_len - 1));
            let value = bytes(len, i as u64);
            put_from(&tree, &key, &value).expect("room");
            let tell = |found: &[u8]| found == value;
            assert_eq!(tree.get_with(&key, tell).expect("sound"), Some(true), "{len}");
            copied_if_there_is_room(&tree, &key, &value);
            parts_everywhere(&tree, page, &key, &value);
            map.insert(key, value);
        }
    }
    assert!(tree.iter().map(|pair| vecs(pair.expect("sound"))).eq(map.clone()));
    inspect(db, "as written");
    let db = reopen(db.clone());
    let tree = db.tree("t").expect("there");
    for (key, value) in &map {
        expect_part(&tree, key, value, value.len() as u64 / 2, page);
        assert!(tree.get(key).expect("sound").as_deref() == Some(&value[..]));
    }
    inspect(&db, "reopened");
}

#[test]
fn parts_of_values_of_all_lengths_on_a_file() {
    for page_bytes in [512, 4096] {
        let sim = SimIo::new(1);
        let open = || on_disk(&Disk::new(sim.clone()), page_bytes);
        every_length(&open(), page_bytes as usize, |db| {
            db.close().expect("no fault");
            open()
        });
    }
}

#[test]
fn parts_of_values_of_all_lengths_on_persistent_memory() {
    for page_bytes in [512, 2048] {
        let dir = tempfile::tempdir().expect("a directory");
        every_length(&dax(dir.path(), page_bytes), page_bytes as usize, |db| {
            db.close().expect("no fault");
            dax(dir.path(), page_bytes)
        });
    }
}

/// Keys come and go, with values of all lengths, by readers that do or do not get to their end.
fn as_a_map(db: &Db, seed: u64, steps: usize) {
    let (tree, mut map, mut rng) = (db.tree("t").expect("room"), Map::new(), Rng(seed));
    for step in 0..steps {
        let key = format!("key {}", rng.below(12)).into_bytes();
        let most = rng.pick(&[10, 600, 5000, 100_000, 3 << 20]);
        let value = bytes(rng.below(most) as usize, step as u64);
        let before = map.get(&key).cloned();
        match rng.below(8) {
            0 => {
                tree.delete(&key).expect("no fault");
                map.remove(&key);
            }
            1 => {
                tree.put(&key, &value).expect("room");
                map.insert(key.clone(), value);
            }
            2 | 3 => {
                let end = rng.pick(&[End::Ends, End::Fails, End::Lies, End::Storms]);
                let (len, more) = (value.len() as u64, 1 + rng.below(9_000_000));
                let failed = tree.put_from(&key, dribble(&value, end), len + more);
                match (end, failed.expect_err("it did not give so much")) {
                    (End::Ends, Error::ReaderEnded { bytes, bytes_expected }) => {
                        assert_eq!((bytes, bytes_expected), (len, len + more));
                    }
                    (End::Fails, Error::Reader { source }) => {
                        assert_eq!(source.to_string(), "the cable is cut");
                    }
                    (End::Lies, Error::Invalid { .. }) => {}
                    (End::Storms, Error::Reader { source }) => {
                        assert_eq!(source.kind(), std::io::ErrorKind::Interrupted);
                    }
                    (_, error) => panic!("{end:?}: {error}"),
                }
                assert!(
                    tree.get(&key).expect("sound").map(Bytes::into_vec) == before,
                    "it failed, and changed a value"
                );
            }
            _ => {
                // Bytes behind the value stay in the reader.
                let both = [&value[..], b"more"].concat();
                let mut reader = &both[..];
                tree.put_from(&key, &mut reader, value.len() as u64).expect("room");
                assert_eq!(reader, b"more");
                map.insert(key.clone(), value);
            }
        }
        if let Some(value) = map.get(&key) {
            expect_part(&tree, &key, value, rng.below(most), rng.below(most) as usize);
            assert_eq!(tree.value_len(&key).expect("sound"), Some(value.len() as u64));
        } else {
            assert_eq!(tree.read_at(&key, 0, &mut [0; 8]).expect("sound"), None);
        }
        if step % 20 == 0 {
            db.sync().expect("no fault");
            db.checkpoint().expect("no fault");
            assert!(tree.iter().map(|pair| vecs(pair.expect("sound"))).eq(map.clone()));
            inspect(db, "on the way");
        }
    }
}

#[test]
fn readers_and_parts_behave_as_a_map() {
    for seed in 0..3 {
        as_a_map(&file([512, 4096, 32_768][seed as usize]), seed, 120);
        let dir = tempfile::tempdir().expect("a directory");
        as_a_map(&dax(dir.path(), 1024), seed, 120);
    }
}

/// The space that a pool takes, in pages and in bytes of its file.
fn space(db: &Db) -> (Vec<(String, u64)>, u64, u64) {
    db.sync().expect("no fault");
    db.checkpoint().expect("no fault");
    let stats = db.stats().expect("sound");
    let pages = db.count().expect("sound").pages;
    let pages = pages.iter().map(|count| (count.kind.to_string(), count.pages)).collect();
    (pages, stats.live_bytes, stats.file_bytes)
}

/// The room of values that never came to be is there again, and neither numbers nor places run out.
fn nothing_is_left(db: &Db, is_file: bool) {
    let tree = db.tree("t").expect("room");
    let old = bytes(100_000, 1);
    tree.put("k", &old).expect("room");
    let before = space(db);
    let mut longest = 0;
    let half = bytes(5 * MIB + 333, 2);
    for round in 0..60 {
        let end = [End::Ends, End::Fails, End::Panics][round % 3];
        let reader = dribble(&half[..half.len() - round * 80_000], end);
        let write = || tree.put_from("k", reader, 10 << 20);
        match std::panic::catch_unwind(std::panic::AssertUnwindSafe(write)) {
            Ok(failed) => assert!(failed.is_err() && end != End::Panics),
            Err(_) => assert_eq!(end, End::Panics),
        }
        assert!(tree.get("k").expect("sound").as_deref() == Some(&old[..]));
        let now = space(db);
        assert_eq!((&now.0, now.1), (&before.0, before.1), "round {round}");
        longest = longest.max(now.2);
    }
    // One such value, the one before it that waits for the superblocks, and what gathers.
    assert!(!is_file || longest <= before.2 + (16 << 20), "{longest} of {}", before.2);
    inspect(db, "after all");
    tree.put_from("k", dribble(&half, End::Fails), half.len() as u64).expect("there is room");
    assert!(tree.get("k").expect("sound").as_deref() == Some(&half[..]));
}

#[test]
fn a_reader_that_fails_leaves_nothing_on_a_file() {
    let options = options(4096).max_bytes(48 << 20);
    let db = options.open_on(Arc::new(SimIo::new(1)), cut::PATH).expect("opens");
    nothing_is_left(&db, true);
}

#[test]
fn a_reader_that_fails_leaves_nothing_on_persistent_memory() {
    let dir = tempfile::tempdir().expect("a directory");
    let options = Options::new().storage(Storage::EmulatedDax).max_bytes(24 << 20);
    nothing_is_left(&options.open(dir.path().join("pool")).expect("opens"), false);
}

fn refusals(db: &Db) {
    let tree = db.tree("t").expect("room");
    tree.put("k", "v").expect("room");
    let long = vec![0; KEY_BYTES_MAX + 1];
    let put = |key: &[u8], len: u64| tree.put_from(key, Untouched, len).expect_err("refused");
    assert!(matches!(put(&long, 5), Error::KeyTooLong { .. }));
    assert!(matches!(put(b"k", VALUE_BYTES_MAX as u64 + 1), Error::ValueTooLong { .. }));
    assert!(matches!(put(b"k", u64::MAX), Error::ValueTooLong { .. }));
    assert!(matches!(put(b"k", 1 << 31), Error::Full { .. }), "there is no room for it");
    tree.put_from("k", Untouched, 0).expect("nothing is to be read");
    assert_eq!(tree.get("k").expect("sound"), Some("".into()));
    assert_eq!(tree.read_at(&long, 0, &mut [0; 5]).expect("no key is so long"), None);
    assert_eq!(tree.read_at("k", 0, &mut []).expect("sound"), Some(0));
    assert!(db.drop_tree("t").expect("no fault"));
    assert!(matches!(put(b"k", 5), Error::NoTree));
    assert!(matches!(tree.read_at("k", 0, &mut [0; 5]), Err(Error::NoTree)));
    let tree = db.tree("t").expect("room");
    tree.put("k", vec![7; 100_000]).expect("room");
    db.clone().close().expect("no fault");
    for len in [0, 5, 1 << 20] {
        assert!(matches!(tree.put_from("k", Untouched, len), Err(Error::Closed)));
    }
    assert!(matches!(tree.read_at("k", 0, &mut [0; 5]), Err(Error::Closed)));
}

fn refusals_read_only(db: &Db) {
    let tree = db.open_tree("t").expect("sound").expect("there");
    for len in [0, 5, 1 << 20] {
        assert!(matches!(tree.put_from("k", Untouched, len), Err(Error::ReadOnly)));
    }
    let mut buf = [0; 5];
    assert_eq!(tree.read_at("k", 99_997, &mut buf).expect("sound"), Some(3));
    assert_eq!(buf, [7, 7, 7, 0, 0]);
}

#[test]
fn what_is_refused_is_refused_before_the_reader_is_asked() {
    let sim = SimIo::new(1);
    let open = |options: Options| options.open_on(Arc::new(sim.clone()), cut::PATH).expect("opens");
    refusals(&open(options(1024)));
    refusals_read_only(&open(options(1024).create(false).read_only(true)));
    let dir = tempfile::tempdir().expect("a directory");
    refusals(&dax(dir.path(), 1024));
    let options = Options::new().storage(Storage::EmulatedDax).create(false).read_only(true);
    refusals_read_only(&options.open(dir.path().join("pool")).expect("opens"));
}

fn busy_readers(db: &Db) {
    let tree = db.tree("t").expect("room");
    tree.put("k", "old").expect("room");
    let mut turns = 0;
    let act = |left: usize| {
        turns += 1;
        assert_eq!(tree.get("k").expect("sound"), Some(b"old".into()), "{left} bytes to go");
        tree.put(left.to_be_bytes(), "a key beside it").expect("room");
        let (mut batch, other) = (db.batch(), db.tree("other").expect("room"));
        batch.put(&tree, "a", [1; 2000]).expect("memory");
        batch.put(&other, "b", [2; 20_000]).expect("memory");
        batch.commit().expect("room");
        tree.put_from("nested", &[3; 50_000][..], 50_000).expect("room");
        db.sync().expect("no fault");
        db.checkpoint().expect("no fault");
        if db.stats().expect("sound").live_bytes > 0 {
            db.compact().expect("no fault");
        }
        if left < 500_000 {
            db.drop_tree("other").expect("no fault");
        }
        inspect(db, "while a value comes");
    };
    tree.put_from("k", Busy { left: 3 * MIB, act }, 3 << 20).expect("room");
    assert!(turns > 10 && tree.get("k").expect("sound") == Some(vec![b'x'; 3 * MIB].into()));
    assert_eq!(tree.get("nested").expect("sound"), Some(vec![3; 50_000].into()));
    // The tree goes, and then the pool, while a value comes.
    let dropped = tree.put_from(
        "k",
        Busy { left: 3 * MIB, act: |_| assert!(db.drop_tree("t").is_ok()) },
        3 << 20,
    );
    assert!(matches!(dropped, Err(Error::NoTree)), "{dropped:?}");
    let tree = db.tree("t").expect("room");
    tree.put("k", "old").expect("room");
    let act = |left| {
        if left < 2 * MIB {
            db.clone().close().expect("no fault");
        }
    };
    let closed = tree.put_from("k", Busy { left: 3 * MIB, act }, 3 << 20);
    assert!(matches!(closed, Err(Error::Closed)), "{closed:?}");
}

#[test]
fn a_reader_may_use_the_pool_that_it_writes_to() {
    let sim = SimIo::new(1);
    let open = || on_disk(&Disk::new(sim.clone()), 4096);
    busy_readers(&open());
    let db = open();
    assert_eq!(db.tree("t").expect("there").get("k").expect("sound"), Some(b"old".into()));
    inspect(&db, "after a close while a value came");
    let dir = tempfile::tempdir().expect("a directory");
    busy_readers(&dax(dir.path(), 2048));
    let db = dax(dir.path(), 2048);
    assert_eq!(db.tree("t").expect("there").get("k").expect("sound"), Some(b"old".into()));
    inspect(&db, "after a close while a value came");
}

/// Values of one byte each, whose length follows from it: a part that is of two of them shows.
fn length_of(byte: u8) -> usize {
    [20, 600, 5000, 90_000, 1_100_000][usize::from(byte) % 5] + usize::from(byte) * 13
}

fn parts_beside_writers(db: &Db, seconds: f64) {
    let tree = db.tree("t").expect("room");
    let done = AtomicBool::new(false);
    tree.put("k", vec![0; length_of(0)]).expect("room");
    thread::scope(|scope| {
        for seed in 0..2 {
            let (tree, done) = (&tree, &done);
            scope.spawn(move || {
                let (mut rng, mut buf) = (Rng(seed), vec![0; 200_000]);
                let mut seen = 0_u32;
                while !done.load(Ordering::Relaxed) {
                    let most = rng.pick(&[100, 8000, 100_000, 1_100_000]);
                    let (offset, len) = (rng.below(most), rng.below(200_000) as usize);
                    let found = tree.read_at("k", offset, &mut buf[..len]).expect("sound");
                    let n = found.unwrap_or(0);
                    let Some(&byte) = buf[..n].first() else { continue };
                    seen += 1;
                    assert!(buf[..n].iter().all(|b| *b == byte), "bytes of two values");
                    let wanted = length_of(byte).saturating_sub(offset as usize).min(len);
                    assert_eq!(n, wanted, "{len} bytes from {offset} on, of value {byte}");
                }
                assert!(seen > 0, "nothing was there to be read");
            });
        }
        scope.spawn(|| {
            // Also if it panics: the readers would go on for ever.
            let _done = scopeguard::guard((), |()| done.store(true, Ordering::Relaxed));
            let (mut rng, start) = (Rng(9), std::time::Instant::now());
            while start.elapsed().as_secs_f64() < seconds {
                let byte = rng.below(200) as u8;
                let value = vec![byte; length_of(byte)];
                match rng.below(6) {
                    0 => {
                        tree.delete("k").expect("no fault");
                        // For those who look for it.
                        thread::yield_now();
                    }
                    1 | 2 => put_from(&tree, b"k", &value).expect("room"),
                    _ => tree.put("k", &value).expect("room"),
                }
                if rng.one_in(20) {
                    db.sync().expect("no fault");
                    db.checkpoint().expect("no fault");
                }
            }
        });
    });
    inspect(db, "after all");
}

#[test]
fn a_part_is_of_one_value_whoever_writes_meanwhile() {
    parts_beside_writers(&file(4096), 2.0);
    let dir = tempfile::tempdir().expect("a directory");
    parts_beside_writers(&dax(dir.path(), 2048), 2.0);
    let db = Options::new().max_bytes(1 << 30).open(dir.path().join("real")).expect("opens");
    parts_beside_writers(&db, 2.0);
}

/// A thread stops in the read of a part; meanwhile the value is freed, and its room asked for.
#[test]
fn a_part_that_is_being_read_is_not_written_over() {
    let sim = SimIo::new(1);
    let value = bytes(400_000, 1);
    let first = on_disk(&Disk::new(sim.clone()), 4096);
    first.tree("t").expect("room").put("k", &value).expect("room");
    first.close().expect("no fault");
    let disk = Disk::new(sim);
    let db = on_disk(&disk, 4096);
    let tree = db.tree("t").expect("there");
    expect_part(&tree, b"k", &value, 0, 10);
    thread::scope(|scope| {
        let (stopped, go_on) = disk.pause_after(0);
        let reading = scope.spawn(|| expect_part(&tree, b"k", &value, 200_000, 100_000));
        stopped.recv().expect("it reads from the disk");
        tree.delete("k").expect("no fault");
        for i in 0..20_u8 {
            db.sync().expect("no fault");
            db.checkpoint().expect("no fault");
            put_from(&tree, &[i], &bytes(400_000, 2)).expect("room");
        }
        drop(go_on);
        reading.join().expect("the bytes that were the value");
    });
    assert_eq!(tree.read_at("k", 0, &mut [0]).expect("sound"), None);
    inspect(&db, "after all");
}

/// Bytes from the middle of a value cost an image or two.
#[test]
fn a_part_reads_the_images_in_which_it_is() {
    const LEN: usize = 64 * MIB;
    for page_bytes in [4096_u32, 32_768] {
        let page = page_bytes as usize;
        let sim = SimIo::new(1);
        let open = |disk: &Disk| on_disk(disk, page_bytes);
        let value = bytes(LEN, 1);
        let db = open(&Disk::new(sim.clone()));
        put_from(&db.tree("t").expect("room"), b"k", &value).expect("room");
        db.close().expect("no fault");
        let disk = Disk::new(sim);
        let db = open(&disk);
        let tree = db.tree("t").expect("there");
        expect_part(&tree, b"k", &value, 0, 1);
        let mut rng = Rng(7);
        for round in 0..40 {
            let offset = match round {
                0 => 31 * page - 50,
                1 => LEN - 100,
                _ => rng.below(LEN as u64 - 100) as usize,
            };
            // The leaf of the page table for these pages comes into memory once.
            expect_part(&tree, b"k", &value, offset as u64, 1);
            disk.record();
            let before = disk.bytes_read();
            expect_part(&tree, b"k", &value, offset as u64, 100);
            let (calls, bytes) = (disk.take_record(), disk.bytes_read() - before);
            assert!(calls.len() <= 2 && calls.iter().all(|call| *call == Call::Read), "{calls:?}");
            assert!(bytes <= 2 * (page + 64) as u64, "{bytes} bytes for 100 at {offset}");
        }
        let before = disk.bytes_read();
        expect_part(&tree, b"k", &value, 1_000_000, MIB);
        let bytes = disk.bytes_read() - before;
        assert!(bytes <= 3 * MIB as u64 / 2, "{bytes} bytes for 1 MiB");
        // Only the length of the value is looked at.
        disk.record();
        expect_part(&tree, b"k", &value, LEN as u64, 100);
        expect_part(&tree, b"k", &value, 5, 0);
        assert_eq!(disk.take_record(), []);
    }
}

/// Each call to the disk of a value that comes in three pieces fails once.
#[test]
fn a_disk_that_fails_under_a_value_that_comes_leaves_the_old_one() {
    let (old, value) = (bytes(50_000, 1), bytes(5 * MIB / 2, 2));
    for fault in FAULTS {
        let (mut poisoned, mut went_on) = (0, 0);
        for others in 0.. {
            let disk = Disk::new(SimIo::new(others));
            let db = on_disk(&disk, 4096);
            let tree = db.tree("t").expect("room");
            tree.put("k", &old).expect("room");
            db.sync().expect("no fault");
            let before = space(&db);
            disk.fail_after(others, fault);
            let stored = put_from(&tree, b"k", &value);
            // A stored value that has no room to become durable stays until there is some.
            let now = if stored.is_ok() { &value } else { &old };
            let put = stored.and_then(|()| db.sync());
            if disk.take_struck().is_none() {
                put.expect("nothing failed");
                break;
            }
            let Err(error) = put else {
                // A block that has no room with zeros behind it is written once more without them.
                assert!(
                    fault == everleaf_file::io::Fault::NoSpace,
                    "{fault:?} after {others}: it is not told"
                );
                drop((tree, db));
                disk.die();
                let db = on_disk(&Disk::new(disk.sim.power_cut(others)), 4096);
                let found = db.tree("t").expect("there").get("k").expect("sound");
                assert!(found == Some(value.clone().into()), "{fault:?} after {others}");
                continue;
            };
            cut::act::names_call(&error, &format!("{fault:?} after {others}"));
            match tree.put("other", "v").and_then(|()| db.sync()) {
                Err(Error::Poisoned { .. }) => poisoned += 1,
                Ok(()) => {
                    went_on += 1;
                    tree.delete("other").expect("no fault");
                    assert!(tree.get("k").expect("sound").as_deref() == Some(&now[..]));
                    if *now == old {
                        let now = space(&db);
                        assert_eq!(
                            (now.0, now.1),
                            (before.0, before.1),
                            "{fault:?} after {others}"
                        );
                    }
                }
                Err(error) => panic!("{error}"),
            }
            drop((tree, db));
            disk.die();
            let db = on_disk(&Disk::new(disk.sim.kill()), 4096);
            let found = db.tree("t").expect("there").get("k").expect("sound").expect("there");
            assert!(found == old || found == value, "{} bytes", found.len());
            inspect(&db, "reopened");
        }
        println!("{fault:?}: {poisoned} times writes stopped, {went_on} times they went on");
        let goes_on = format!("{fault:?}") == "NoSpace";
        assert!((poisoned > 0) != goes_on && (went_on > 0) == goes_on);
    }
}
