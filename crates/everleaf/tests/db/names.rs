//! Files that are not the pool's, under its name and under names that it is made by; and pools that are
//! moved and copied, which are one file.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use everleaf::{Db, Error, Options, Storage};
use everleaf_file::io::SimIo;
use tempfile::TempDir;

const MEDIA: [Storage; 2] = [Storage::File, Storage::EmulatedDax];

fn options(storage: Storage) -> Options {
    Options::new().storage(storage).max_bytes(4 << 20).background(false)
}

/// All files of a directory with their bytes.
fn contents(dir: &TempDir) -> Vec<(PathBuf, Vec<u8>)> {
    let entries = fs::read_dir(dir.path()).expect("readable").map(|entry| entry.expect("readable"));
    let mut files: Vec<_> =
        entries.map(|entry| (entry.path(), fs::read(entry.path()).expect("readable"))).collect();
    files.sort();
    files
}

fn dir() -> TempDir {
    tempfile::tempdir().expect("a directory")
}

/// A pool whose process was killed: its file as it was while it was open, with `n` synced pairs.
fn killed_pool(path: &Path, n: u32) {
    let elsewhere = dir();
    let open = elsewhere.path().join("pool");
    let db = options(Storage::File).open(&open).expect("it opens");
    put(&db, n);
    fs::copy(&open, path).expect("copied");
}

fn put(db: &Db, n: u32) {
    let tree = db.tree("t").expect("room");
    for i in 0..n {
        tree.insert(i.to_be_bytes(), [7; 20]).expect("room");
    }
    db.sync().expect("no fault");
}

fn pairs(db: &Db) -> usize {
    assert_eq!(db.check().expect("readable"), []);
    db.open_tree("t").expect("readable").map_or(0, |tree| tree.iter().count())
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

#[test]
fn making_a_pool_destroys_no_file_of_another_name() {
    for storage in MEDIA {
        for taken in ["-new", "-new1", "-j0", "-salvage"] {
            for what in [&b"a text of somebody's\n"[..], b"", &[0; 9000]] {
                let dir = dir();
                let path = dir.path().join("notes");
                fs::write(beside(&path, taken), what).expect("written");
                let before = contents(&dir);
                let db = options(storage).open(&path).expect("it gets along without that name");
                put(&db, 10);
                db.close().expect("no fault");
                let after = contents(&dir);
                assert!(before.iter().all(|file| after.contains(file)), "{storage:?} {taken}");
                assert_eq!(after.len(), 2, "a pool is one file");
                let db = options(storage).open(&path).expect("it was made");
                assert_eq!(pairs(&db), 10);
            }
        }
    }
}

#[test]
fn a_file_of_somebody_else_is_no_pool_and_is_not_touched() {
    // The last one begins as an image of a page does.
    for what in [&b"a text of somebody's\n"[..], b"", &[0; 9000], b"EVLI", &[0xff; 3 << 20]] {
        for storage in MEDIA {
            for read_only in [false, true] {
                let dir = dir();
                let path = dir.path().join("notes");
                fs::write(&path, what).expect("written");
                let before = contents(&dir);
                let opened = options(storage).read_only(read_only).open(&path).map(drop);
                let error = opened.expect_err("it is no pool");
                assert!(matches!(&error, Error::Foreign { path: named, .. } if *named == path));
                assert!(contents(&dir) == before, "{storage:?}: files have changed");
            }
        }
    }
}

#[test]
fn a_pool_of_that_name_is_not_touched_whether_it_is_open_or_closed() {
    for storage in MEDIA {
        for is_open in [true, false] {
            let dir = dir();
            let path = dir.path().join("store");
            let other = beside(&path, "-new");
            let db = options(storage).open(&other).expect("it opens");
            put(&db, 100);
            let open = is_open.then(|| db.clone());
            if !is_open {
                db.close().expect("no fault");
            }
            let new = options(Storage::File).open(&path).expect("it opens");
            put(&new, 10);
            new.close().expect("no fault");
            if let Some(db) = open {
                put(&db, 200);
                assert_eq!(pairs(&db), 200);
                db.close().expect("no fault");
            }
            let db = options(storage).open(&other).expect("as it was");
            assert_eq!(pairs(&db), if is_open { 200 } else { 100 });
        }
    }
}

#[test]
fn a_new_pool_is_private_whatever_lay_under_its_first_name() {
    use std::os::unix::fs::PermissionsExt;
    let dir = dir();
    let path = dir.path().join("notes");
    fs::write(beside(&path, "-new"), "x").expect("written");
    fs::set_permissions(beside(&path, "-new"), fs::Permissions::from_mode(0o666)).expect("set");
    Db::open(&path).expect("it opens").close().expect("no fault");
    let mode = fs::metadata(&path).expect("there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn a_pool_that_is_moved_or_copied_is_whole_whether_it_was_killed_or_closed() {
    for (moves, closed) in [(true, true), (true, false), (false, true), (false, false)] {
        let dir = dir();
        let (from, to) = (dir.path().join("p"), dir.path().join("q"));
        killed_pool(&from, 1000);
        if closed {
            Db::open(&from).expect("it recovers").close().expect("no fault");
        }
        let before = fs::read(&from).expect("there");
        if moves { fs::rename(&from, &to) } else { fs::copy(&from, &to).map(drop) }.expect("done");
        let db = options(Storage::File).open(&to).expect("all is there");
        assert_eq!(pairs(&db), 1000);
        put(&db, 1200);
        db.close().expect("no fault");
        if moves {
            // Nothing of it hinders a pool of the old name.
            put(&Db::open(&from).expect("a new one"), 1);
        } else {
            // Changes of the copy change the copy alone.
            assert!(fs::read(&from).expect("there") == before);
            assert_eq!(pairs(&Db::open(&from).expect("as it was")), 1000);
        }
        assert_eq!(pairs(&Db::open(&to).expect("as it was")), 1200);
    }
}

#[test]
fn a_killed_pool_that_was_moved_is_read_without_a_change() {
    let dir = dir();
    let (from, to) = (dir.path().join("p"), dir.path().join("q"));
    killed_pool(&from, 1000);
    fs::rename(&from, &to).expect("moved");
    let before = contents(&dir);
    for _ in 0..2 {
        let db = options(Storage::File).read_only(true).open(&to).expect("all is there");
        assert_eq!(pairs(&db), 1000);
        db.close().expect("no fault");
    }
    assert!(contents(&dir) == before, "files have changed");
}

#[test]
fn an_older_copy_in_place_of_a_newer_pool_is_the_older_pool() {
    for (old_closed, new_closed) in [(true, true), (true, false), (false, true), (false, false)] {
        let dir = dir();
        let (path, copy) = (dir.path().join("p"), dir.path().join("copy"));
        let db = options(Storage::File).open(&path).expect("it opens");
        put(&db, 10);
        if old_closed {
            db.clone().close().expect("no fault");
        }
        fs::copy(&path, &copy).expect("copied");
        drop(db);
        let db = options(Storage::File).open(&path).expect("it opens");
        put(&db, 1000);
        if new_closed {
            db.clone().close().expect("no fault");
        }
        // The newer one, in turn, as it is when its process is killed.
        let newer = dir.path().join("newer");
        fs::copy(&path, &newer).expect("copied");
        drop(db);
        fs::copy(&copy, &path).expect("the older one is put back");
        for n in [10, 20] {
            let db = options(Storage::File).open(&path).expect("the older pool");
            assert_eq!(pairs(&db), n);
            put(&db, 20);
            db.close().expect("no fault");
        }
        fs::copy(&newer, &path).expect("the newer one");
        assert_eq!(pairs(&Db::open(&path).expect("all is there")), 1000);
    }
}

#[test]
fn a_removed_pool_makes_room_for_a_new_one() {
    for storage in MEDIA {
        let dir = dir();
        let path = dir.path().join("p");
        for n in 1..4 {
            let db = options(storage).open(&path).expect("it opens");
            assert_eq!(pairs(&db), 0);
            put(&db, n);
            db.close().expect("no fault");
            fs::remove_file(&path).expect("there");
        }
    }
}

/// Makes a pool on a disk whose power goes, or whose process is killed, before each call in turn, and
/// the same again on what is left. It neither hinders the next maker nor piles up.
#[test]
fn killed_makers_leave_nothing_that_hinders_or_piles_up() {
    let left = |disk: &SimIo| {
        let new = (0..10).map(|n| match n {
            0 => "p-new".to_owned(),
            n => format!("p-new{n}"),
        });
        new.filter(|name| disk.peek(Path::new(name)).is_some()).collect::<Vec<_>>()
    };
    let open = |disk: &SimIo| options(Storage::File).open_on(Arc::new(disk.clone()), "p");
    // The disk as it is if the maker dies before that call; `None` if there are fewer.
    let cut = |disk: &SimIo, call: u64, seed: Option<u64>, what: &str| {
        disk.cut_at(disk.calls() + call, seed.map(|seed| seed * 1000 + call));
        open(disk).map(drop).unwrap_or_else(|e| panic!("{what}: {e}"));
        disk.take_cut()
    };
    let mut makers = 0;
    for seed in [None, Some(1), Some(2)] {
        for first in 0.. {
            let what = format!("seed {seed:?}, call {first}");
            let Some(once) = cut(&SimIo::new(1), first, seed, &what) else { break };
            for second in (0..).step_by(if first % 5 == 0 { 1 } else { 7 }) {
                let what = format!("{what} and call {second}");
                let Some(twice) = cut(&once.kill(), second, seed, &what) else { break };
                let db = open(&twice).unwrap_or_else(|e| panic!("{what}: {e}"));
                put(&db, 3);
                db.close().expect("no fault");
                assert_eq!(pairs(&open(&twice).expect("it was closed")), 3);
                let left = left(&twice);
                assert!(left.len() <= 2, "{what}: {left:?}");
                makers += 1;
            }
        }
    }
    assert!(makers > 500, "{makers}");
}
