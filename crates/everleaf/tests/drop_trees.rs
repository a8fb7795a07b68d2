//! Trees that are dropped and renamed, beside threads that use them: nothing leaks, old handles refuse,
//! and nobody reads or writes what has become another tree's.

use everleaf_testing::{count, seed_or};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use everleaf::{Db, Error, Options, Storage};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

const STORAGES: [Storage; 2] = [Storage::File, Storage::EmulatedDax];

fn open(path: &Path, storage: Storage) -> Db {
    let page_bytes = if storage == Storage::File { 512 } else { 256 };
    let options = Options::new().storage(storage).max_bytes(64 << 20).page_bytes(page_bytes);
    options.open(path).expect("opens")
}

/// Waits until the pages of dropped trees are free.
fn settle(db: &Db) {
    while db.stats().expect("open").dropped_trees > 0 {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

/// Pages by kind, when nothing of a dropped tree is left. Record pages stay with the threads that filled them, and
/// map pages for ever.
fn pages(db: &Db) -> [u64; 4] {
    settle(db);
    let counts = db.count().expect("readable");
    ["node", "anchor", "extent", "record"]
        .map(|kind| counts.pages.iter().find(|count| count.kind == kind).expect("counted").pages)
}

fn on_each(test: impl Fn(&Path, Storage)) {
    for storage in STORAGES {
        let dir = tempfile::tempdir().expect("a directory");
        test(&dir.path().join("pool"), storage);
    }
}

#[test]
fn a_dropped_tree_gives_all_its_pages_back() {
    on_each(|path, storage| {
        let db = open(path, storage);
        db.tree("other").expect("room").insert("k", "v").expect("room");
        let (before, mut records) = (pages(&db), 0);
        for round in 0..3u32 {
            let tree = db.tree("t").expect("room");
            for i in 0..3000u32 {
                let mut key = (i.wrapping_mul(2_654_435_761)).to_be_bytes().to_vec();
                // Separators in records of their own, some in extents.
                key.resize([4, 60, 3000][i as usize % 3], b'k');
                tree.insert(&key, vec![7; i as usize % 400]).expect("room");
            }
            tree.insert("large", vec![1; 100_000]).expect("room");
            assert!(pages(&db)[0] > before[0] + 200 && pages(&db)[2] > before[2] + 100);
            assert!(db.drop_tree("t").expect("writable"), "round {round}");
            assert!(!db.drop_tree("t").expect("writable"));
            assert_eq!(db.tree_names().expect("readable"), ["other"]);
            let after = pages(&db);
            assert_eq!(after[..3], before[..3], "{storage:?}, round {round}");
            // Threads keep some, and who takes trees to pieces is one more.
            assert!(round == 0 || after[3] <= records + 2, "{} record pages, {records}", after[3]);
            records = if round == 0 { after[3] } else { records };
            assert_eq!(db.check().expect("readable"), []);
        }
        db.close().expect("no fault");
        let db = open(path, storage);
        assert_eq!(db.tree_names().expect("readable"), ["other"]);
        assert_eq!(db.check().expect("readable"), []);
    });
}

#[test]
fn handles_of_a_dropped_tree_refuse_also_when_its_name_is_used_again() {
    on_each(|path, storage| {
        let db = open(path, storage);
        let (old, other) = (db.tree("t").expect("room"), db.tree("other").expect("room"));
        old.insert("k", "v").expect("room");
        let mut batch = db.batch();
        batch.put(&other, "of a batch", "v").expect("within limits");
        batch.put(&old, "k", "w").expect("within limits");
        let mut range = old.iter();
        assert!(db.drop_tree("t").expect("writable"));
        for again in [false, true] {
            if again {
                db.tree("t").expect("room").insert("new", "v").expect("room");
            }
            assert!(matches!(old.get("k"), Err(Error::NoTree)));
            assert!(matches!(old.contains("k"), Err(Error::NoTree)));
            assert!(matches!(old.first(), Err(Error::NoTree)));
            assert!(matches!(old.insert("k", "v"), Err(Error::NoTree)));
            assert!(matches!(old.remove("k"), Err(Error::NoTree)));
        }
        assert!(matches!(range.next(), Some(Err(Error::NoTree))));
        assert!(matches!(batch.commit(), Err(Error::NoTree)));
        assert_eq!(
            other.get("of a batch").expect("readable"),
            None,
            "nothing of the batch is there"
        );
        assert_eq!(db.tree("t").expect("there").iter().count(), 1);
        assert_eq!(db.check().expect("readable"), []);
    });
}

#[test]
fn a_renamed_tree_keeps_what_it_holds_and_its_handles() {
    on_each(|path, storage| {
        let db = open(path, storage);
        let tree = db.tree("from").expect("room");
        tree.insert("k", "v").expect("room");
        db.tree("taken").expect("room");
        assert!(matches!(db.rename_tree("from", "taken"), Err(Error::TreeExists { .. })));
        assert!(matches!(db.rename_tree("from", "from"), Err(Error::TreeExists { .. })));
        assert!(matches!(db.rename_tree("from", ""), Err(Error::TreeName { .. })));
        assert!(!db.rename_tree("none", "to").expect("writable"));
        assert!(db.rename_tree("from", "to").expect("writable"));
        tree.insert("l", "w").expect("room");
        assert!(db.open_tree("from").expect("readable").is_none());
        let new = db.open_tree("to").expect("readable").expect("there");
        assert_eq!(new.iter().count(), 2);
        assert_eq!(db.check().expect("readable"), []);
        assert!(db.drop_tree("to").expect("writable"));
        assert!(matches!(tree.get("k"), Err(Error::NoTree)));
        drop((tree, new));
        db.close().expect("no fault");
        let reader = Options::new().storage(storage).read_only(true).max_bytes(64 << 20);
        let db = reader.open(path).expect("opens");
        assert_eq!(db.tree_names().expect("readable"), ["taken"]);
        assert!(matches!(db.drop_tree("taken"), Err(Error::ReadOnly)));
        assert!(matches!(db.rename_tree("taken", "t"), Err(Error::ReadOnly)));
    });
}

/// Each tree holds pairs whose values tell the tree: a thread that gets a foreign one has read a page in
/// its next life.
#[test]
fn threads_that_use_a_tree_while_it_is_dropped_get_its_own_pairs_or_an_error() {
    on_each(|path, storage| {
        let db = open(path, storage);
        let before = pages(&db);
        let (stop, round) = (AtomicBool::new(false), AtomicU64::new(0));
        let counts = [const { AtomicU64::new(0) }; 2];
        std::thread::scope(|scope| {
            let _stops = scopeguard::guard((), |()| stop.store(true, Ordering::Relaxed));
            for thread in 0..4u64 {
                let (db, stop, round, counts) = (db.clone(), &stop, &round, &counts);
                scope.spawn(move || {
                    for i in 0.. {
                        if stop.load(Ordering::Relaxed) {
                            return;
                        }
                        let number = round.load(Ordering::Relaxed);
                        let name = format!("t{number}");
                        let Ok(Some(tree)) = db.open_tree(&name) else { continue };
                        let key = (i * 7919 + thread) % 500;
                        let done = if thread % 2 == 0 {
                            tree.insert(format!("{key:04}"), &name).map(|_| ())
                        } else if i % 2 == 0 {
                            tree.get(format!("{key:04}")).map(|value| {
                                assert!(value.is_none_or(|value| value == name.as_bytes()));
                            })
                        } else {
                            tree.iter().take(50).try_for_each(|pair| {
                                pair.map(|(_, value)| assert_eq!(value, name.as_bytes()))
                            })
                        };
                        match done {
                            Ok(()) => counts[0].fetch_add(1, Ordering::Relaxed),
                            Err(Error::NoTree) => counts[1].fetch_add(1, Ordering::Relaxed),
                            Err(error) => panic!("{error}"),
                        };
                    }
                });
            }
            for number in 0..60u64 {
                db.tree(&format!("t{number}")).expect("room");
                round.store(number, Ordering::Relaxed);
                std::thread::sleep(std::time::Duration::from_millis(3));
                assert!(db.drop_tree(&format!("t{number}")).expect("writable"));
            }
        });
        let [done, refused] = counts.map(AtomicU64::into_inner);
        println!("{storage:?}: {done} operations, {refused} refused");
        assert!(done > 100 && refused > 0);
        assert_eq!(db.tree_names().expect("readable"), [""; 0]);
        assert_eq!(db.check().expect("readable"), []);
        assert_eq!(pages(&db)[..3], before[..3]);
    });
}

/// The environment variable that makes this test program the one that is killed.
const CHILD: &str = "EVERLEAF_DROP_CHILD";

const PAIRS: usize = 60;

/// Fills a tree, renames it, drops the one before the last, for ever.
#[test]
fn child() {
    let Ok(path) = std::env::var(CHILD) else { return };
    let (storage, path) = path.split_once('#').expect("storage and path");
    let db = open(path.as_ref(), STORAGES[usize::from(storage == "dax")]);
    let first = db.tree_names().expect("readable").into_iter().filter_map(|name| number(&name));
    for i in first.max().map_or(0, |last| last + 1).. {
        db.drop_tree("new").expect("writable");
        let tree = db.tree("new").expect("room");
        let mut batch = db.batch();
        for key in 0..PAIRS {
            batch.put(&tree, format!("{key:03}"), i.to_string()).expect("within limits");
        }
        batch.commit().expect("room");
        assert!(db.rename_tree("new", &format!("y{i:09}")).expect("writable"));
        if i > 1 {
            // A kill may have come before an earlier one was dropped.
            for name in db.tree_names().expect("readable") {
                if number(&name).is_some_and(|n| n < i - 1) {
                    assert!(db.drop_tree(&name).expect("writable"));
                }
            }
        }
        db.sync().expect("no fault");
    }
}

fn number(name: &str) -> Option<u64> {
    name.strip_prefix('y')?.parse().ok()
}

#[test]
fn a_kill_leaves_a_tree_whole_under_one_name_or_not_at_all() {
    let (kills, seed) = (count(20, 500), seed_or(1));
    on_each(|path, storage| {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let (mut last, mut unfinished) = (0, 0);
        for kill in 0..kills {
            let kind = if storage == Storage::File { "file" } else { "dax" };
            let mut child = Command::new(std::env::current_exe().expect("this program"))
                .args(["child", "--exact"])
                .env(CHILD, format!("{kind}#{}", path.display()))
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .expect("starts");
            std::thread::sleep(std::time::Duration::from_micros(random.random_range(0..60_000)));
            child.kill().expect("it is there");
            let ended = child.wait().expect("it ends");
            assert!(ended.code().is_none(), "seed {seed}, kill {kill}: the child has failed");
            if !path.exists() {
                continue;
            }
            let db = open(path, storage);
            let what = format!("seed {seed}, kill {kill}, {storage:?}");
            unfinished += u32::from(db.stats().expect("open").dropped_trees > 0);
            assert_eq!(db.check().expect("readable"), [], "{what}");
            let mut numbers = Vec::new();
            for name in db.tree_names().expect("readable") {
                let tree = db.open_tree(&name).expect("readable").expect("named");
                let pairs: Vec<_> = tree.iter().collect::<everleaf::Result<_>>().expect("readable");
                let Some(n) = number(&name) else {
                    assert!(name == "new" && pairs.len() <= PAIRS, "{what}: {name}");
                    continue;
                };
                let of_it = pairs.iter().all(|(_, value)| *value == n.to_string().as_bytes());
                assert!(of_it, "{what}: {name} has pairs of another");
                numbers.push((n, pairs.len()));
            }
            numbers.sort_unstable();
            let newest = numbers.last().map_or(0, |n| n.0);
            // A tree is there with all that it held, or not at all.
            let whole = numbers.iter().all(|n| n.1 == PAIRS);
            assert!(newest >= last && whole, "{what}: {numbers:?}, {last} before");
            last = newest;
            if kill % 4 == 0 {
                settle(&db);
                assert_eq!(db.check().expect("readable"), [], "{what}, when all is gone");
            }
        }
        println!("{kills} kills, {last} trees, {unfinished} met one that was not gone yet");
    });
}
