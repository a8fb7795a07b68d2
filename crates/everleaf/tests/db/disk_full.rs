//! A disk that runs full under checkpoints, and under journals as they grow. The disk is a small
//! tmpfs; where it cannot be mounted the tests say so and pass.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Instant;

use everleaf::{Bytes, Db, Error, Options, Tree};
use everleaf_testing::Rng;
use tempfile::TempDir;

/// A small file system in memory, until the end of the test.
struct Disk(TempDir);

impl Disk {
    fn mount(kib: u64) -> Option<Disk> {
        let dir = tempfile::tempdir().expect("a directory");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={kib}k"), "tmpfs"]).arg(dir.path());
        if mount.stderr(Stdio::null()).status().is_ok_and(|status| status.success()) {
            return Some(Disk(dir));
        }
        println!("skipped: a tmpfs cannot be mounted here");
        None
    }

    fn grow(&self, kib: u64) {
        let size = format!("remount,size={kib}k");
        let mount = Command::new("mount").args(["-o", &size]).arg(self.0.path()).status();
        assert!(mount.expect("as before").success());
    }

    fn pool(&self) -> PathBuf {
        self.0.path().join("p")
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

type Model = BTreeMap<String, String>;

fn open(path: &Path, read_only: bool) -> everleaf::Result<Db> {
    let options = Options::new().journal_bytes(512 << 10).page_bytes(512).max_bytes(256 << 20);
    options.read_only(read_only).open(path)
}

/// Writes until it fails. Returns the pairs that were synced, those that were not, and the failure.
fn fill(path: &Path, large: bool) -> (Model, Model, Error) {
    let (mut synced, mut pending) = (Model::new(), Model::new());
    let write = |synced: &mut Model, pending: &mut Model| -> everleaf::Result<()> {
        let db = open(path, false)?;
        let tree = db.tree("t")?;
        for i in 0u64.. {
            let key = format!("{:016x}", i.wrapping_mul(0x9E37_79B9_7F4A_7C15));
            let length = if large { 40_000 + i % 7_000 } else { i % 300 };
            let value = format!("{i}.{}", "x".repeat(length as usize));
            pending.insert(key.clone(), value.clone());
            tree.insert(key, value)?;
            if i % 50 == 0 {
                db.sync()?;
                synced.append(pending);
            }
        }
        Ok(())
    };
    let error = write(&mut synced, &mut pending).expect_err("the disk has an end");
    (synced, pending, error)
}

/// All that was synced is there, and nothing but what was written. Returns it.
fn verify(db: &Db, synced: &Model, pending: &Model) -> Model {
    assert_eq!(db.check().expect("readable"), []);
    let text = |bytes: everleaf::Bytes| String::from_utf8(bytes.into()).expect("as written");
    let Some(tree) = db.open_tree("t").expect("readable") else {
        assert!(synced.is_empty());
        return Model::new();
    };
    let pairs = tree.iter().map(|pair| pair.map(|(key, value)| (text(key), text(value))));
    let found: Model = pairs.collect::<Result<_, _>>().expect("readable");
    assert!(synced.iter().all(|(key, value)| found.get(key) == Some(value)), "something is lost");
    let written = |key: &String| synced.get(key).or(pending.get(key));
    assert!(found.iter().all(|(key, value)| written(key) == Some(value)), "something is new");
    found
}

#[test]
fn a_disk_that_is_full_loses_nothing_and_serves_again_when_it_has_space() {
    let mut causes = BTreeMap::<String, u32>::new();
    for round in 0..12 {
        let (kib, large) = (700 + 613 * round, round % 3 == 2);
        let Some(disk) = Disk::mount(kib) else { return };
        let (synced, pending, error) = fill(&disk.pool(), large);
        let said = error.to_string();
        assert!(said.contains("No space left"), "{kib} KiB: {said}");
        let cause = said.strip_prefix("writes have stopped after an earlier failure: ");
        let cause = cause.unwrap_or(&said).split(": ").next().unwrap_or_default();
        *causes.entry(cause.to_owned()).or_default() += 1;

        let is_made = disk.pool().exists();
        assert!(is_made || synced.is_empty());
        if is_made {
            // A pool that is only read needs no space.
            let found = verify(&open(&disk.pool(), true).expect("a pool"), &synced, &pending);
            disk.grow(4 * kib + 8192);
            let db = open(&disk.pool(), false).expect("a pool");
            assert!(verify(&db, &synced, &pending) == found);
            db.tree("t").expect("space").insert("more", "v").expect("space");
            db.checkpoint().expect("space");
            db.tree("t").expect("there").remove("more").expect("space");
            db.close().expect("space");
            let db = open(&disk.pool(), true).expect("a pool");
            assert!(verify(&db, &synced, &pending) == found);
        }
    }
    eprintln!("what the full disk stopped: {causes:?}");
}

/// Writes from several threads until each is refused: pairs that were accepted, and why they stopped.
fn fill_from_threads(db: &Db, large: bool) -> (Model, Vec<Error>) {
    let tree = db.tree("t").expect("space");
    let work = |thread: u64| {
        let tree = tree.clone();
        move || {
            let mut model = Model::new();
            for i in 0_u64.. {
                let key = format!("{:08x}/{thread}", i.wrapping_mul(0x9E37_79B9));
                let length = if large && i % 20 == 0 { 30_000 } else { i % 300 };
                let value = format!("{i}.{}", "x".repeat(length as usize));
                if let Err(error) = tree.put(&key, &value) {
                    return (model, error);
                }
                model.insert(key, value);
            }
            unreachable!("the disk has an end")
        }
    };
    let threads: Vec<_> = (0..3).map(|i| thread::spawn(work(i))).collect();
    let (mut model, mut errors) = (Model::new(), Vec::new());
    for thread in threads {
        let (mut pairs, error) = thread.join().expect("no panic");
        model.append(&mut pairs);
        errors.push(error);
    }
    (model, errors)
}

/// With threads that end epochs and write checkpoints: additions are refused, deletes are not, nobody
/// waits for ever, and the same open goes on when there is space.
#[test]
fn an_open_pool_goes_on_when_its_disk_has_space_again() {
    for round in 0..6 {
        let (kib, large) = (1500 + 1700 * round, round % 2 == 1);
        let Some(disk) = Disk::mount(kib) else { return };
        let options = Options::new().journal_bytes(2 << 20).max_bytes(256 << 20);
        let db = options.open(disk.pool()).expect("space");
        let (mut model, errors) = fill_from_threads(&db, large);
        let what = format!("{kib} KiB, {errors:?}");
        assert!(errors.iter().all(|e| matches!(e, Error::Io { .. })), "{what}");
        let tree = db.tree("t").expect("there");
        let begun = Instant::now();
        let gone: Vec<_> = model.keys().step_by(3).cloned().collect();
        for key in &gone {
            tree.delete(key).expect("a delete adds nothing");
            model.remove(key);
        }
        let (deletes, made_room) = (begun.elapsed(), db.checkpoint().is_ok());
        let (synced, put) = (db.sync(), tree.put("more", "v"));
        println!(
            "{kib} KiB: {} deletes in {deletes:?}, a checkpoint {made_room}, a sync {}, a put {}",
            gone.len(),
            synced.is_ok(),
            put.is_ok()
        );
        disk.grow(4 * kib + 16_384);
        db.sync().expect("space");
        tree.put("more", "v").expect("space");
        tree.delete("more").expect("space");
        db.checkpoint().expect("space");
        let found = verify(&db, &model, &Model::new());
        assert_eq!(found.len(), model.len(), "{what}");
        drop(tree);
        db.close().expect("space");
        let db = options.open(disk.pool()).expect("a pool");
        assert!(verify(&db, &model, &Model::new()) == model, "{what}");
    }
}

#[test]
fn a_large_value_that_finds_no_room_keeps_no_epoch_from_ending() {
    let mut refused = 0;
    for round in 0..12 {
        let Some(disk) = Disk::mount(4000 + 97 * round) else { return };
        let db = Options::new().background(false).open(disk.pool()).expect("space");
        let tree = db.tree("t").expect("space");
        let value = |i: u32| vec![i as u8; 500_000 + i as usize];
        let (mut n, mut error) = (0_u32, None);
        // No room for the last of a value whose call has returned stops writes.
        while error.is_none() && db.sync().is_ok() {
            error = tree.put(n.to_be_bytes(), value(n)).err();
            n += u32::from(error.is_none());
        }
        let Some(error) = error else { continue };
        refused += 1;
        assert!(matches!(error, Error::Io { .. }) && n > 4, "{n} values: {error}");
        db.sync().expect("nothing has changed since");
        assert!(!tree.contains(n.to_be_bytes()).expect("sound"));
        let again = tree.put(n.to_be_bytes(), value(n));
        assert!(matches!(again, Err(Error::Io { .. })), "{again:?}");
        db.sync().expect("nothing has changed since");
        (0..n).for_each(|i| {
            assert!(tree.get(i.to_be_bytes()).expect("sound") == Some(value(i).into()))
        });
        assert_eq!(db.check().expect("readable"), []);
    }
    assert!(refused > 2, "the disk was full within a value {refused} times");
}

/// Puts pairs with values of `length` bytes until that is refused. Says how many there are, and the error.
fn put_until_refused(tree: &Tree, length: usize) -> (u64, Error) {
    for i in 0_u64.. {
        if let Err(error) = tree.put(i.to_be_bytes(), value(i, length)) {
            return (i, error);
        }
    }
    unreachable!("the disk has an end")
}

fn value(i: u64, length: usize) -> Vec<u8> {
    let mut rng = Rng(i);
    let words = (0..length.div_ceil(8)).flat_map(|_| rng.next().to_le_bytes());
    words.take(length).collect()
}

/// The keys of a range are there, with their values, and no others.
fn expect_pairs(tree: &Tree, mut keys: Range<u64>, length: usize) {
    for pair in tree.iter() {
        let (key, found) = pair.expect("sound");
        let i = keys.next().expect("no more than were put");
        assert!(key == i.to_be_bytes() && found == value(i, length), "pair {i}");
    }
    assert!(keys.is_empty(), "{keys:?} are missing");
}

/// On a disk without a free block additions are refused, and what was accepted before becomes durable;
/// deletes are not refused, and make room: also in a pool that was closed and finds the disk full.
#[test]
fn deletes_make_room_on_a_disk_without_a_free_block() {
    for length in [100, 20_000] {
        // The pairs that are left take more than the 32 MiB from which on a closed pool keeps some room.
        let Some(disk) = Disk::mount(64 << 10) else { return };
        let db = Options::new().open(disk.pool()).expect("space");
        let tree = db.tree("t").expect("space");
        let (n, error) = put_until_refused(&tree, length);
        assert!(error.to_string().contains("No space left"), "{error}");
        db.sync().expect("room was taken before");
        for i in 0..n / 2 {
            tree.delete(i.to_be_bytes()).expect("a delete adds nothing");
        }
        db.sync().expect("room was taken before");
        db.checkpoint().expect("room was taken before");
        let end = n + n / 4;
        for i in n..end {
            tree.put(i.to_be_bytes(), value(i, length)).expect("deletes have made room");
        }
        db.sync().expect("deletes have made room");
        let copy = tempfile::tempdir().expect("a directory");
        std::fs::copy(disk.pool(), copy.path().join("p")).expect("a copy");
        let killed = Options::new().open(copy.path().join("p")).expect("sound");
        expect_pairs(&killed.tree("t").expect("there"), n / 2..end, length);
        drop(tree);
        db.close().expect("deletes have made room");

        let rest = std::fs::write(disk.0.path().join("rest"), vec![1; 64 << 20]);
        assert_eq!(rest.expect_err("the rest").kind(), std::io::ErrorKind::StorageFull);
        let db = Options::new().open(disk.pool()).expect("a pool");
        let tree = db.tree("t").expect("there");
        for i in n / 2..n {
            tree.delete(i.to_be_bytes()).expect("a delete adds nothing");
        }
        db.checkpoint().expect("a closed pool keeps some room");
        for i in end..end + n / 8 {
            tree.put(i.to_be_bytes(), value(i, length)).expect("deletes have made room");
        }
        db.sync().expect("deletes have made room");
        expect_pairs(&tree, n..end + n / 8, length);
        assert_eq!(db.check().expect("readable"), []);
        drop(tree);
        db.close().expect("deletes have made room");
    }
}

/// Pairs that are deleted here and there empty no page and no extent: cleaning has to gather what is left.
#[test]
fn deletes_here_and_there_make_room_on_a_disk_without_a_free_block() {
    let Some(disk) = Disk::mount(44 << 10) else { return };
    let db = Options::new().open(disk.pool()).expect("space");
    let tree = db.tree("t").expect("space");
    let key = |i: u64| i.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes();
    let (mut n, mut refused) = (0_u64, 0);
    // A further attempt finds what a checkpoint has freed meanwhile.
    while refused < 20 {
        match tree.put(key(n), value(n, 100)) {
            Ok(()) => n += 1,
            Err(_) => refused += 1,
        }
    }
    for i in (0..n).filter(|i| i % 4 != 0) {
        tree.delete(key(i)).expect("a delete adds nothing");
    }
    db.sync().expect("room was taken before");
    db.checkpoint().expect("room was taken before");
    for i in n..n + n / 20 {
        tree.put(key(i), value(i, 100)).expect("deletes have made room");
    }
    db.sync().expect("deletes have made room");
    for i in 0..n + n / 20 {
        let expected = (i >= n || i % 4 == 0).then(|| value(i, 100));
        assert!(tree.get(key(i)).expect("sound").map(Bytes::into_vec) == expected, "pair {i}");
    }
    drop(tree);
    db.close().expect("deletes have made room");
}

/// A batch whose large value has no room is refused before its first change: writes go on.
#[test]
fn a_batch_with_a_large_value_is_refused_before_its_first_change() {
    let Some(disk) = Disk::mount(48 << 10) else { return };
    let db = Options::new().open(disk.pool()).expect("space");
    let tree = db.tree("t").expect("space");
    let add = |i: u64| {
        let mut batch = db.batch();
        batch.put(&tree, (2 * i).to_be_bytes(), "small")?;
        batch.put(&tree, (2 * i + 1).to_be_bytes(), value(i, 3 << 20))?;
        batch.commit()
    };
    let refused = (0..).find_map(|i| add(i).err().map(|error| (i, error)));
    let (n, error) = refused.expect("the disk has an end");
    assert!(matches!(error, Error::Io { .. }) && n > 5, "after {n} batches: {error}");
    assert!(!tree.contains((2 * n).to_be_bytes()).expect("sound"), "half a batch");
    // Each delete makes room for another value, with a checkpoint and without.
    for i in 0..n {
        tree.delete((2 * i + 1).to_be_bytes()).expect("writes go on");
        if i % 2 == 0 {
            db.checkpoint().expect("room was taken before");
        }
        add(n + i).unwrap_or_else(|error| panic!("after {i} of {n} deletes: {error}"));
    }
    db.sync().expect("room");
    for i in 0..2 * n {
        let expected = (i >= n).then(|| value(i, 3 << 20));
        assert!(
            tree.get((2 * i + 1).to_be_bytes()).expect("sound").map(Bytes::into_vec) == expected,
            "pair {i}"
        );
    }
    // And for small ones.
    let small = |i: u64| tree.put((1 << 40 | i).to_be_bytes(), value(i, 2000));
    let refused = (0..).find(|i| small(*i).is_err()).expect("the disk has an end");
    tree.delete((2 * n + 1).to_be_bytes()).expect("writes go on");
    for i in refused..refused + 500 {
        small(i).unwrap_or_else(|error| panic!("after {} puts: {error}", i - refused));
    }
    drop(tree);
    db.close().expect("room");
}

/// Where what adds something is refused, pairs can go: also all of a tree, whose empty successor has no room.
#[test]
fn a_tree_is_cleared_on_a_full_disk() {
    for round in 0..8 {
        let kib = 900 + 500 * round;
        let Some(disk) = Disk::mount(kib) else { return };
        let db = Options::new().background(round % 2 == 0).open(disk.pool()).expect("space");
        let tree = db.tree("t").expect("space");
        let (mut n, mut refused) = (0_u64, 0);
        while refused < 3 {
            match tree.put(n.to_be_bytes(), value(n, 300)).and_then(|()| db.sync()) {
                Ok(()) => n += 1,
                Err(error) => {
                    assert!(error.to_string().contains("No space left"), "{error}");
                    refused += 1;
                }
            }
        }
        let there = tree.len().expect("sound");
        assert!(there >= n, "{there} of {n}");
        assert_eq!(tree.clear().expect("removals add nothing"), there, "{kib} KiB");
        assert!(tree.is_empty().expect("sound"));
        disk.grow(2 * kib);
        drop(tree);
        db.close().expect("there is room");
        let db = Db::open(disk.pool()).expect("a pool");
        assert!(db.tree("t").expect("room").is_empty().expect("sound"), "{kib} KiB");
        assert_eq!(db.check().expect("readable"), []);
    }
}
