//! Files that are not the pool's, under names that it needs; and pools that are moved and copied.

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

/// A pool whose process was killed: files as they were while it was open, with `n` synced pairs.
fn killed_pool(path: &Path, n: u32) {
    let elsewhere = dir();
    let open = elsewhere.path().join("pool");
    let db = options(Storage::File).open(&open).expect("it opens");
    put(&db, n);
    for suffix in ["", "-j0", "-j1"] {
        fs::copy(beside(&open, suffix), beside(path, suffix)).expect("copied");
    }
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
    db.find_tree("t").expect("readable").map_or(0, |tree| tree.iter().count())
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Whether the pool was refused because of that file.
fn names(error: &Error, path: &Path) -> bool {
    let (Error::InTheWay { path: named, .. } | Error::Missing { path: named }) = error else {
        return false;
    };
    named == path && error.to_string().contains(&path.display().to_string())
}

#[test]
fn making_a_pool_destroys_no_file_of_another_name() {
    for storage in MEDIA {
        for taken in ["-new", "-j0", "-j1", "-j0-new", "-new1"] {
            for what in [&b"a text of somebody's\n"[..], b"", &[0; 9000]] {
                let dir = dir();
                let path = dir.path().join("notes");
                fs::write(beside(&path, taken), what).expect("written");
                let before = contents(&dir);
                let opened = options(storage).open(&path);
                let needs_it = storage == Storage::File && ["-j0", "-j1"].contains(&taken);
                match opened {
                    Ok(db) => {
                        assert!(!needs_it, "{taken} {what:?}");
                        put(&db, 10);
                        db.close().expect("no fault");
                    }
                    Err(error) => {
                        assert!(needs_it && names(&error, &beside(&path, taken)), "{error}");
                        assert!(!path.exists());
                    }
                }
                let after = contents(&dir);
                assert!(before.iter().all(|file| after.contains(file)), "{storage:?} {taken}");
                if !needs_it {
                    let db = options(storage).open(&path).expect("it was made");
                    assert_eq!(pairs(&db), 10);
                }
            }
        }
    }
}

#[test]
fn a_pool_of_that_name_is_not_touched_whether_it_is_open_or_closed() {
    for storage in MEDIA {
        for (taken, is_open) in [("-new", true), ("-new", false), ("-j0", true), ("-j0", false)] {
            let dir = dir();
            let path = dir.path().join("store");
            let other = beside(&path, taken);
            let db = options(storage).open(&other).expect("it opens");
            put(&db, 100);
            let open = is_open.then(|| db.clone());
            if !is_open {
                db.close().expect("no fault");
            }
            match options(Storage::File).open(&path) {
                Ok(db) => {
                    assert_eq!(taken, "-new");
                    put(&db, 10);
                    db.close().expect("no fault");
                }
                Err(error) => assert!(taken == "-j0" && names(&error, &other), "{error}"),
            }
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
    for suffix in ["", "-j0", "-j1"] {
        let mode = fs::metadata(beside(&path, suffix)).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{suffix}");
    }
}

#[test]
fn a_killed_pool_is_moved_and_copied_with_its_files() {
    for moves in [true, false] {
        let dir = dir();
        let (from, to) = (dir.path().join("p"), dir.path().join("q"));
        killed_pool(&from, 1000);
        for suffix in ["", "-j0", "-j1"] {
            let (from, to) = (beside(&from, suffix), beside(&to, suffix));
            if moves { fs::rename(from, to) } else { fs::copy(from, to).map(drop) }.expect("done");
        }
        let db = options(Storage::File).open(&to).expect("all is there");
        assert_eq!(pairs(&db), 1000);
        db.close().expect("no fault");
        if moves {
            // Nothing of it hinders a pool of the old name.
            put(&Db::open(&from).expect("a new one"), 1);
        }
    }
}

#[test]
fn a_killed_pool_that_was_moved_names_the_journal_it_misses_and_nobody_cuts_that() {
    for missing in [&["-j0"][..], &["-j1"], &["-j0", "-j1"]] {
        let dir = dir();
        let (from, to) = (dir.path().join("p"), dir.path().join("q"));
        killed_pool(&from, 1000);
        for suffix in ["", "-j0", "-j1"].iter().filter(|suffix| !missing.contains(suffix)) {
            fs::rename(beside(&from, suffix), beside(&to, suffix)).expect("moved");
        }
        let before = contents(&dir);
        for read_only in [true, false] {
            let refused = options(Storage::File).read_only(read_only).open(&to).map(drop);
            let error = refused.expect_err("it misses a journal");
            assert!(names(&error, &beside(&to, missing[0])), "{error}");
        }
        let error = Db::open(&from).map(drop).expect_err("it would cut a journal of q");
        assert!(names(&error, &beside(&from, missing[0])), "{error}");
        assert!(contents(&dir) == before, "files have changed");
        for suffix in missing {
            fs::rename(beside(&from, suffix), beside(&to, suffix)).expect("moved");
        }
        assert_eq!(pairs(&Db::open(&to).expect("all is there again")), 1000);
    }
}

#[test]
fn a_closed_pool_that_was_copied_alone_leaves_other_journals_as_they_are() {
    let dir = dir();
    let (closed, killed) = (dir.path().join("closed"), dir.path().join("killed"));
    let db = options(Storage::File).open(&closed).expect("it opens");
    put(&db, 10);
    db.close().expect("no fault");
    killed_pool(&killed, 1000);
    for at in ["-j0", "-j1"] {
        let copy = dir.path().join(format!("copy{at}"));
        fs::copy(&closed, &copy).expect("copied");
        fs::copy(beside(&killed, at), beside(&copy, at)).expect("copied");
        let before = contents(&dir);
        for read_only in [true, false] {
            let refused = options(Storage::File).read_only(read_only).open(&copy).map(drop);
            let error = refused.expect_err("a journal of another pool");
            assert!(names(&error, &beside(&copy, at)), "{error}");
        }
        assert!(contents(&dir) == before, "files have changed");
        fs::remove_file(beside(&copy, at)).expect("there");
        assert_eq!(pairs(&Db::open(&copy).expect("closed pools need no journal")), 10);
    }
    // Beside those of a closed pool it finds none that anybody needs.
    let copy = dir.path().join("last");
    fs::copy(&closed, &copy).expect("copied");
    Db::open(dir.path().join("x")).expect("it opens").close().expect("no fault");
    for at in ["-j0", "-j1"] {
        fs::rename(beside(&dir.path().join("x"), at), beside(&copy, at)).expect("moved");
    }
    let db = Db::open(&copy).expect("it makes journals of its own");
    put(&db, 20);
    db.close().expect("no fault");
    assert_eq!(pairs(&Db::open(&copy).expect("closed")), 20);
}

#[test]
fn an_older_copy_of_the_data_file_does_not_cut_the_journals_of_what_came_after() {
    let dir = dir();
    let (path, copy) = (dir.path().join("p"), dir.path().join("copy"));
    let db = options(Storage::File).open(&path).expect("it opens");
    put(&db, 10);
    db.close().expect("no fault");
    fs::copy(&path, &copy).expect("copied");
    let db = options(Storage::File).open(&path).expect("it opens");
    put(&db, 1000);
    // Killed, and the copy put back in place of the newer data file.
    let elsewhere = self::dir();
    let killed = elsewhere.path().join("p");
    for suffix in ["-j0", "-j1"] {
        fs::copy(beside(&path, suffix), beside(&killed, suffix)).expect("copied");
    }
    fs::copy(&copy, &killed).expect("copied");
    let before = contents(&elsewhere);
    let error = Db::open(&killed).map(drop).expect_err("its journal goes on elsewhere");
    assert!(names(&error, &beside(&killed, "-j0")), "{error}");
    assert!(contents(&elsewhere) == before, "files have changed");
    fs::copy(&path, &killed).expect("the newer one");
    assert_eq!(pairs(&Db::open(&killed).expect("all is there")), 1000);
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
        let own = ["p", "p-j0", "p-j1"];
        let new = own.iter().flat_map(|name| (0..10).map(move |n| (name, n)));
        let new = new.map(|(name, n)| match n {
            0 => format!("{name}-new"),
            n => format!("{name}-new{n}"),
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
