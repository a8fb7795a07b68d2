//! The Db on persistent memory, emulated by an ordinary file: what returned survives the end of the
//! process, at any moment; a batch is whole; what leaked comes back.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use everleaf::{Bytes, Db, Error, Options, Storage};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

fn options() -> Options {
    Options::new().storage(Storage::EmulatedDax).max_bytes(64 << 20).page_bytes(512)
}

fn open(path: &Path) -> Db {
    options().open(path).expect("opens")
}

fn sound(db: &Db) {
    assert_eq!(db.check().expect("readable"), []);
}

#[test]
fn what_returned_is_there_after_a_reopen() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("pool");
    let large = vec![7; 300_000];
    {
        let db = open(&path);
        let tree = db.tree("t").expect("room");
        for i in 0..5000u32 {
            tree.insert(i.to_be_bytes(), i.to_string()).expect("room");
        }
        tree.insert("large", &large).expect("room");
        tree.insert("", "the empty key").expect("room");
        for i in (0..5000u32).step_by(3) {
            tree.remove(i.to_be_bytes()).expect("there");
        }
        sound(&db);
        assert_eq!((db.epoch(), db.durable_epoch()), (0, 0), "there are no epochs");
    }
    let db = options().read_only(true).open(&path).expect("opens");
    let tree = db.open_tree("t").expect("readable").expect("there");
    for i in 0..5000u32 {
        let want = (i % 3 != 0).then(|| i.to_string().into_bytes());
        assert_eq!(tree.get(i.to_be_bytes()).expect("readable").map(Bytes::into_vec), want);
    }
    assert_eq!(tree.get("large").expect("readable").as_deref(), Some(&large[..]));
    assert_eq!(tree.get("").expect("readable").as_deref(), Some(&b"the empty key"[..]));
    assert!(matches!(tree.insert("k", "v"), Err(Error::ReadOnly)));
    assert_eq!(db.tree_names().expect("readable"), ["t"]);
    sound(&db);
}

#[test]
fn a_pool_stays_on_what_it_was_made_for() {
    let dir = tempfile::tempdir().expect("a directory");
    let (dax, file) = (dir.path().join("dax"), dir.path().join("file"));
    drop(open(&dax));
    drop(Db::open(&file).expect("opens"));
    assert!(matches!(Db::open(&dax), Err(Error::Foreign { .. })));
    assert!(matches!(options().open(&file), Err(Error::Foreign { .. })));
    let unsized_pool = Options::new().storage(Storage::EmulatedDax);
    let missing = dir.path().join("new");
    assert!(matches!(unsized_pool.open(&missing), Err(Error::InvalidOption { .. })));
    let refused = options().storage(Storage::Dax).open(&missing);
    assert!(matches!(refused, Err(Error::NotDax { .. }) | Ok(_)), "{refused:?}");
}

#[test]
fn a_full_pool_says_so_loses_nothing_and_can_be_enlarged() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("pool");
    let small = options().max_bytes(200_000);
    let (mut n, value) = (0u32, [1; 200]);
    {
        let db = small.open(&path).expect("opens");
        let tree = db.tree("t").expect("room");
        let error = loop {
            match tree.insert(n.to_be_bytes(), value) {
                Ok(old) => assert_eq!(old, None),
                Err(error) => break error,
            }
            n += 1;
        };
        assert!(matches!(error, Error::Full { .. }), "{error}");
        let mut batch = db.batch();
        for i in 0..2000u32 {
            batch.put(&tree, (1_000_000 + i).to_be_bytes(), value).expect("within limits");
        }
        assert!(batch.commit().is_err(), "there is no room");
        assert_eq!(tree.range(..).count(), n as usize, "the batch has left nothing");
        sound(&db);
    }
    let db = options().open(&path).expect("opens, larger");
    let tree = db.tree("t").expect("there");
    tree.insert(n.to_be_bytes(), value).expect("room now");
    assert_eq!(tree.range(..).count(), n as usize + 1);
    sound(&db);
}

/// Overwrites bytes of the data file, counted from the first page.
fn overwrite(path: &Path, at: u64, bytes: &[u8]) {
    use std::os::unix::fs::FileExt;
    const FIRST_PAGE: u64 = 8192 + (4 << 20);
    let file = std::fs::OpenOptions::new().write(true).open(path).expect("opens");
    file.write_all_at(bytes, FIRST_PAGE + at).expect("writes");
}

/// A file that looks as if its pool, or its first tree, was never made is not taken for a new one
/// where data may be: nothing would be left of it.
#[test]
fn a_pool_that_was_wiped_in_part_is_damaged_and_not_new() {
    const PAGE: u64 = 64 + 16 * 32;
    let dir = tempfile::tempdir().expect("a directory");
    for (name, at, len) in [("two pages", 0, 2 * PAGE), ("the root", PAGE + 8, 8)] {
        let path = dir.path().join(name);
        {
            let db = open(&path);
            let tree = db.tree("t").expect("room");
            (0..500u32).for_each(|i| {
                tree.insert(i.to_be_bytes(), b"value").expect("room");
            });
        }
        let before = std::fs::read(&path).expect("readable");
        overwrite(&path, at, &vec![0; len as usize]);
        for read_only in [true, false] {
            let error = options().read_only(read_only).open(&path).err();
            let refused = matches!(error, Some(Error::Foreign { .. } | Error::Corrupt { .. }));
            assert!(refused, "{name}: {error:?}");
        }
        let start = (8192 + (4 << 20) + at + len) as usize;
        let after = std::fs::read(&path).expect("readable");
        assert!(before[start..] == after[start..], "{name}: nothing else has changed");
    }
}

/// The environment variable that makes this test program the one that is killed.
const CHILD: &str = "EVERLEAF_DAX_CHILD";

/// How many single keys stay, so that no number of steps fills the pool.
const KEPT: u64 = 1000;

/// Writes single keys and batches, says after each on stdout that it has returned, and is killed.
#[test]
fn child() {
    let Ok(path) = std::env::var(CHILD) else { return };
    let (path, seed) = path.rsplit_once('#').expect("path and seed");
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed.parse().expect("a seed"));
    let db = open(Path::new(path));
    let (singles, batches) = (db.tree("singles").expect("room"), db.tree("batches").expect("room"));
    let first: u64 = singles.last().expect("readable").map_or(0, |(key, _)| number(&key) + 1);
    // The process before this one was to remove these when it was killed.
    for old in first.saturating_sub(KEPT + 2)..first.saturating_sub(KEPT) {
        singles.remove(old.to_be_bytes()).expect("readable");
    }
    for i in first.. {
        singles.insert(i.to_be_bytes(), vec![i as u8; rng.random_range(0..300)]).expect("room");
        let mut batch = db.batch();
        for j in 0..4u64 {
            // The same four keys again and again, all with one value.
            batch.put(&batches, j.to_be_bytes(), i.to_be_bytes()).expect("within limits");
        }
        batch.commit().expect("room");
        if let Some(old) = i.checked_sub(KEPT) {
            singles.remove(old.to_be_bytes()).expect("readable");
        }
        println!("{i}");
    }
}

fn number(key: &[u8]) -> u64 {
    u64::from_be_bytes(key.try_into().expect("8 bytes"))
}

/// Expects all that must be there when `done` was said last.
fn verify(db: &Db, done: Option<u64>) {
    sound(db);
    let (singles, batches) = (db.tree("singles").expect("room"), db.tree("batches").expect("room"));
    let found: BTreeMap<u64, Vec<u8>> = singles
        .range(..)
        .map(|pair| pair.expect("readable"))
        .map(|(key, value)| (number(&key), value.into()))
        .collect();
    let values: Vec<u64> =
        batches.range(..).map(|pair| number(&pair.expect("readable").1)).collect();
    assert!(values.windows(2).all(|pair| pair[0] == pair[1]), "a batch is whole: {values:?}");
    assert!(values.len() == 4 || values.is_empty() && done.is_none());
    if let Some(done) = done {
        assert!(values[0] == done || values[0] == done + 1);
        // One step more may have begun, and its remove may have happened.
        let first = (done + 1).saturating_sub(KEPT);
        assert!(
            (first + 1..=done)
                .all(|i| found.get(&i).is_some_and(|v| v.iter().all(|b| *b == i as u8)))
        );
        assert!(found.keys().all(|i| (first..=done + 1).contains(i)), "removed keys stay away");
    }
}

#[test]
fn a_killed_process_loses_nothing_that_returned() {
    let runs = everleaf_testing::count(12, 60);
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("pool");
    let mut done = None;
    for seed in 0..runs {
        let mut child = Command::new(std::env::current_exe().expect("a path"))
            .args(["--exact", "child", "--nocapture"])
            .env(CHILD, format!("{}#{seed}", path.display()))
            .stdout(Stdio::piped())
            .spawn()
            .expect("starts");
        std::thread::sleep(std::time::Duration::from_millis(30 + 37 * (seed % 7)));
        child.kill().expect("runs");
        let out = child.wait_with_output().expect("ends");
        let said = String::from_utf8_lossy(&out.stdout);
        // The last line may be cut.
        let whole = said.rsplit_once('\n').map_or("", |(whole, _)| whole);
        done = whole.lines().filter_map(|line| line.parse().ok()).next_back().or(done);
        if path.exists() {
            // Before anybody has recovered: what leaked is no damage. Readers cannot undo a batch.
            match options().read_only(true).open(&path) {
                Ok(db) => sound(&db),
                Err(error) => assert!(matches!(error, Error::Unrecovered { .. }), "{error}"),
            }
            verify(&open(&path), done);
        }
    }
    println!("{runs} kills, {done:?} steps");
    assert!(done.is_some_and(|done| done > 10), "{done:?}");
}
