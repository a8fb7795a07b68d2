//! Compactions of files whose journal has come to their end, beside writers, and of pools that are closed
//! meanwhile; how long files are after them and after a close, whatever is in them; and power cuts meanwhile.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use everleaf::{Compression, Db, Error, Options, Tree};
use everleaf_file::io::SimIo;
use everleaf_testing::Rng;

use crate::cut::disk::Disk;
use crate::cut::{Bytes, Content, Name, PATH, Trees, compare, inspect};

const LARGE: u32 = 150;

fn large(i: u32) -> Vec<u8> {
    Rng(i.into()).bytes(300_000)
}

fn key(i: u32) -> [u8; 4] {
    i.to_be_bytes()
}

/// A pool of 45 MB, of which 4.5 MB are alive, and whose journal has gone on at the end of the file.
fn a_long_pool(path: &Path) -> (Db, Tree) {
    let db = Options::new().background(false).open(path).expect("new");
    let tree = db.tree("t").expect("new");
    (0..LARGE).for_each(|i| tree.put(key(i), large(i)).expect("there is room"));
    db.checkpoint().expect("there is room");
    let mut rng = Rng(7);
    for i in 0..60_u32 {
        let fill = |j: u32| tree.put(key(1_000 + j), rng.bytes::<Vec<u8>>(400)).expect("room");
        (0..200).for_each(fill);
        db.sync().unwrap_or_else(|error| panic!("epoch {i}: {error}"));
    }
    let dead = (0..LARGE).filter(|i| i % 10 > 0);
    dead.for_each(|i| tree.delete(key(i)).expect("sound"));
    db.end_epoch().expect("there is room");
    (db, tree)
}

fn expect_all(tree: &Tree) {
    for i in 0..LARGE {
        let found = tree.get(key(i)).expect("sound");
        assert!(found == (i % 10 == 0).then(|| large(i).into()), "value {i}");
    }
}

#[test]
fn a_compaction_moves_the_journal_from_the_end_of_the_file() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("p.ever");
    let (db, tree) = a_long_pool(&path);
    let done = db.compact().expect("there is room");
    assert!(done.before_bytes > 45_000_000 && done.after_bytes < 10_000_000, "{done:?}");
    // The next changes are read from where the journal is now, after a kill at that moment.
    tree.put("after", "it").expect("there is room");
    db.sync().expect("there is room");
    let killed = dir.path().join("killed.ever");
    std::fs::copy(&path, &killed).expect("room");
    let copy = Db::open(&killed).expect("a pool");
    let found = copy.tree("t").expect("there");
    assert_eq!(found.get("after").expect("sound"), Some(b"it".into()));
    expect_all(&found);
    assert_eq!(copy.check().expect("readable"), []);
    expect_all(&tree);
    db.close().expect("there is room");
}

#[test]
fn a_compaction_beside_a_writer_moves_the_journal_too() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("p.ever");
    let (db, tree) = a_long_pool(&path);
    let stop = AtomicBool::new(false);
    let done = thread::scope(|threads| {
        let writer = threads.spawn(|| {
            for i in 0_u32.. {
                tree.put("busy", key(i)).expect("there is room");
                db.sync().expect("there is room");
                if stop.load(Ordering::Relaxed) {
                    return i;
                }
            }
            unreachable!("no end of numbers")
        });
        // The writer may have had no turn during one of them.
        let runs = [(); 3].map(|()| db.compact().expect("there is room"));
        stop.store(true, Ordering::Relaxed);
        (runs, writer.join().expect("no panic"))
    });
    let (runs, last) = done;
    // 9 MiB are in use. The writer has free extents made ready again whenever it finds them cut off, about 12.
    assert!(runs[2].after_bytes < 30_000_000, "{runs:?}");
    db.abandon().expect("open");
    let db = Db::open(&path).expect("a pool");
    let tree = db.tree("t").expect("there");
    assert_eq!(tree.get("busy").expect("sound"), Some(key(last).into()));
    expect_all(&tree);
    assert_eq!(db.check().expect("readable"), []);
}

#[test]
fn a_pool_can_be_closed_while_it_is_compacted_also_by_who_hears_of_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("p.ever");
    for abandons in [false, true] {
        let (db, _) = a_long_pool(&path);
        db.sync().expect("there is room");
        let other = db.clone();
        let mut closes = Some(other);
        let done = db.compact_with(|_| {
            let Some(db) = closes.take() else { return };
            let closed = if abandons { db.abandon() } else { db.close() };
            closed.expect("there is room");
        });
        assert!(matches!(done, Err(Error::Closed)), "{done:?}");
        let db = Options::new().create(false).open(&path).expect("released");
        expect_all(&db.tree("t").expect("there"));
        drop(db);
        std::fs::remove_file(&path).expect("it is there");
    }
}

/// Bytes that a pool takes at most if it holds next to nothing, whatever it once held.
const SHORT: u64 = 64 << 10;

/// How a pool comes to what it holds.
#[derive(Debug, Clone, Copy)]
struct Shape {
    pairs: u64,
    bytes: usize,
    /// One of so many pairs stays, or none does.
    stays: Option<u64>,
    trees: u64,
    page_bytes: u32,
    journal_bytes: u64,
    compression: Compression,
    snapshot: bool,
}

/// A pool of few pairs, by default options.
const PLAIN: Shape = Shape {
    pairs: 1,
    bytes: 8,
    stays: Some(1),
    trees: 1,
    page_bytes: 4096,
    journal_bytes: 256 << 20,
    compression: Compression::None,
    snapshot: false,
};

impl Shape {
    fn random(rng: &mut Rng) -> Self {
        let (pairs, bytes) = rng.pick(&[
            (0, 0),
            (1, 8),
            (1, 1000),
            (1, 1 << 20),
            (10, 8),
            (10, 100_000),
            (10, 1 << 20),
            (300, 1000),
            (3000, 8),
            (3000, 500),
            (3000, 1000),
            (20_000, 8),
            (20_000, 300),
        ]);
        Self {
            pairs,
            bytes,
            stays: rng.pick(&[Some(1), Some(1), Some(2), Some(10), None]),
            trees: rng.pick(&[1, 1, 5]),
            page_bytes: rng.pick(&[4096, 4096, 1024, 16384]),
            journal_bytes: rng.pick(&[256 << 20, 256 << 10]),
            compression: rng.pick(&[Compression::None, Compression::None, Compression::Lz4]),
            snapshot: rng.one_in(3),
        }
    }

    fn options(&self) -> Options {
        Options::new()
            .background(false)
            .page_bytes(self.page_bytes)
            .journal_bytes(self.journal_bytes)
            .compression(self.compression)
    }

    /// Puts the pairs and deletes those that do not stay; says what the trees hold.
    fn fill(&self, db: &Db) -> Trees {
        let value = |i: u64| match self.compression {
            Compression::None => Rng(i + 1).bytes::<Vec<u8>>(self.bytes),
            _ => vec![i as u8; self.bytes],
        };
        let of = |i: u64| format!("t{}", i % self.trees);
        let (mut handles, mut left) = (BTreeMap::new(), Trees::new());
        for name in (0..self.trees).map(of) {
            handles.insert(name.clone(), db.tree(&name).expect("room"));
            left.insert(Name::from(&name[..]), Content::new());
        }
        for i in 0..self.pairs {
            handles[&of(i)].put(small_key(i), value(i)).expect("room");
            if i % 5_000 == 4_999 || self.bytes > 50_000 {
                db.sync().expect("room");
            }
        }
        for i in 0..self.pairs {
            if self.stays.is_some_and(|n| i.is_multiple_of(n)) {
                let tree = left.get_mut(&of(i)[..]).expect("made above");
                tree.insert(Bytes::from(small_key(i)), value(i).into());
            } else {
                handles[&of(i)].delete(small_key(i)).expect("sound");
            }
        }
        left
    }
}

fn small_key(i: u64) -> [u8; 8] {
    i.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}

fn length(path: &Path) -> u64 {
    path.metadata().expect("there").len()
}

/// Steps that come between two compactions of a pool.
const STATES: [&str; 9] =
    ["filled", "again", "put", "deleted", "killed", "again", "closed", "again", "checkpoint"];

/// Takes a pool through all [states](STATES), and compacts it twice in each. Says how much shorter it got.
fn compact_always(shape: Shape, path: &Path) -> u64 {
    let mut db = shape.options().open(path).expect("new");
    let mut trees = shape.fill(&db);
    let name = Name::from("t0");
    let mut gained = 0;
    for state in STATES {
        let what = format!("{shape:?}, {state}");
        let snapshot = shape.snapshot.then(|| db.snapshot().expect("memory"));
        let tree = db.tree("t0").expect("room");
        let content = trees.get_mut(&name).expect("made by the fill");
        match state {
            "put" | "killed" | "checkpoint" => {
                tree.put("k", state).expect("room");
                content.insert(b"k"[..].into(), state.as_bytes().into());
            }
            "deleted" => {
                tree.delete("k").expect("sound");
                content.remove(&b"k"[..]);
            }
            _ => {}
        }
        drop((tree, snapshot));
        db.sync().expect("room");
        match state {
            "checkpoint" => db.checkpoint().expect("room"),
            "killed" => {
                db.abandon().expect("open");
                db = shape.options().open(path).expect("sound");
            }
            "closed" => {
                let before = length(path);
                db.close().expect("room");
                assert!(
                    length(path) <= before,
                    "{what}: the close made {} of {before}",
                    length(path)
                );
                db = shape.options().open(path).expect("sound");
            }
            _ => {}
        }
        for run in 0..2 {
            let before = length(path);
            let done = db.compact().expect("room");
            let told = (done.before_bytes, done.after_bytes);
            assert_eq!((before, length(path)), told, "{what}, {run}");
            assert!(done.after_bytes <= before, "{what}, {run}: {done:?}");
            gained += before - done.after_bytes;
        }
        compare(&db, &trees, gained.is_multiple_of(2), &what);
        inspect(&db, &what);
    }
    db.close().expect("room");
    let held: usize = trees.values().flatten().map(|(key, value)| key.len() + value.len()).sum();
    assert!(held > 8 << 10 || length(path) <= SHORT, "{shape:?}: {}", length(path));
    gained
}

/// A compaction makes no file longer and changes nothing, whatever the pool holds, and however it came to it.
#[test]
fn a_compaction_never_makes_a_file_longer() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("p.ever");
    let mut rng = Rng(everleaf_testing::seed_or(1));
    let n = everleaf_testing::times(40);
    let few = [0, 1, 10, 1000].map(|pairs| Shape { pairs, ..PLAIN });
    let emptied = [20_000, 100_000].map(|pairs| Shape { pairs, stays: None, ..PLAIN });
    let many = Shape { pairs: 100_000, ..PLAIN };
    let fixed = few.into_iter().chain(emptied).chain([many]);
    let shapes: Vec<_> = fixed.chain((0..n).map(|_| Shape::random(&mut rng))).collect();
    let mut gained = 0;
    for shape in shapes {
        gained += compact_always(shape, &path);
        std::fs::remove_file(&path).expect("there");
    }
    assert!(gained > 100 << 20, "hardly anything was there to gain: {gained}");
}

/// Nor does a close right behind it, though a pool of some size keeps room for deletes then.
#[test]
fn a_close_behind_a_compaction_makes_no_file_longer() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut kept = 0;
    for pairs in (33_000..36_000_u32).step_by(250) {
        let path = dir.path().join("p.ever");
        let db = Options::new().open(&path).expect("new");
        let value = [7; 1000];
        let all = (0..pairs).map(|i| Ok::<_, Error>((key(i), value)));
        db.tree("t").expect("new").load_sorted(all).expect("room");
        db.close().expect("room");
        for run in 0..3 {
            let before = length(&path);
            let db = Options::new().open(&path).expect("sound");
            db.compact().expect("room");
            let compacted = length(&path);
            db.close().expect("room");
            let after = length(&path);
            assert!(after <= before, "{pairs}, {run}: {after} of {before}");
            kept += u32::from(after > compacted);
        }
        // A write since the compaction is reason enough.
        let db = Options::new().open(&path).expect("sound");
        db.compact().expect("room");
        db.tree("t").expect("there").put("k", value).expect("room");
        db.close().expect("room");
        std::fs::remove_file(&path).expect("there");
    }
    assert!(kept > 0, "no close kept any room");
}

/// A pool that holds little is short whenever it is closed, also if it held much, and stays so.
#[test]
fn a_pool_with_little_in_it_is_short_when_it_is_closed() {
    let dir = tempfile::tempdir().expect("a directory");
    for (pairs, bytes) in [(0, 0), (1, 8), (20, 1000), (20_000, 8), (200_000, 30), (20_000, 700)] {
        let path = dir.path().join(format!("{pairs}-{bytes}"));
        let stays = (pairs <= 20).then_some(1);
        let shape = Shape { pairs, bytes, stays, ..PLAIN };
        let db = Options::new().open(&path).expect("new");
        let trees = shape.fill(&db);
        db.close().expect("room");
        for round in 0..4_u64 {
            assert!(length(&path) <= SHORT, "{pairs} of {bytes}, {round}: {}", length(&path));
            let db = Options::new().open(&path).expect("sound");
            compare(&db, &trees, false, "as it was closed");
            let tree = db.tree("t0").expect("there");
            tree.put(b"more", round.to_be_bytes()).expect("room");
            db.sync().expect("room");
            tree.delete(b"more").expect("sound");
            inspect(&db, "in use");
            db.close().expect("room");
        }
    }
}

/// A pool that held much and is emptied is short while it is open, too, once it was compacted, though it knows of each
/// page how often that was changed.
#[test]
fn a_pool_that_was_emptied_is_short_while_it_is_open() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("p.ever");
    // The first one needs more pages than a million pairs of 16 bytes do.
    let pairs = Shape { pairs: 24_000, bytes: 700, stays: None, ..PLAIN };
    let values = Shape { pairs: 100, bytes: 1 << 20, stays: None, ..PLAIN };
    for shape in [pairs, values] {
        let db = Options::new().open(&path).expect("new");
        let mut trees = shape.fill(&db);
        for round in 0..3_u8 {
            let done = db.compact().expect("room");
            assert!(done.after_bytes <= SHORT, "{shape:?}, {round}: {done:?}");
            compare(&db, &trees, false, "as it was compacted");
            db.tree("t0").expect("there").put([round], "more").expect("room");
            let content = trees.get_mut("t0").expect("there");
            content.insert([round][..].into(), b"more"[..].into());
            db.sync().expect("room");
        }
        // The pool reads again what it knows of free pages, and numbers their changes on.
        db.abandon().expect("open");
        let db = Options::new().open(&path).expect("sound");
        compare(&db, &trees, false, "after a kill");
        inspect(&db, "after a kill");
        drop(shape.fill(&db));
        db.sync().expect("room");
        db.abandon().expect("open");
        let db = Options::new().open(&path).expect("sound");
        compare(&db, &trees, false, "filled and emptied again");
        inspect(&db, "filled and emptied again");
        drop(db);
        std::fs::remove_file(&path).expect("there");
    }
}

/// Pages that were free when the pool was closed are used again by the next opens, which count their changes anew.
#[test]
fn pages_that_a_close_forgot_are_used_again() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("p.ever");
    let shape = Shape { pairs: 20_000, bytes: 100, stays: None, ..PLAIN };
    for round in 0..3 {
        let db = shape.options().open(&path).expect("sound");
        drop(shape.fill(&db));
        db.close().expect("room");
        let db = shape.options().open(&path).expect("sound");
        // The next changes are in the journal alone, and are read from there.
        let kept = Shape { stays: Some(3), ..shape };
        let trees = kept.fill(&db);
        db.sync().expect("room");
        db.abandon().expect("open");
        let db = shape.options().open(&path).expect("sound");
        let what = format!("round {round}");
        compare(&db, &trees, false, &what);
        inspect(&db, &what);
        db.tree("t0").expect("there").clear().expect("room");
        db.close().expect("room");
    }
}

/// Fills a pool, or has an old one changed, up to where a compaction is due; says what it holds.
fn prepare(disk: &Disk, shape: Shape) -> (Db, Trees) {
    let db = shape.options().open_on(Arc::new(disk.clone()), PATH).expect("opens");
    let trees = shape.fill(&db);
    db.sync().expect("room");
    (db, trees)
}

/// The power is cut at each call of a compaction, of another one that has nothing to do, and of a close. The pool
/// that comes back is all there, and can be written to, compacted and closed.
#[test]
fn a_power_cut_at_any_call_of_a_compaction_loses_nothing() {
    let small = Shape { pairs: 60, ..PLAIN };
    let emptied = Shape { pairs: 3000, bytes: 300, stays: Some(50), ..PLAIN };
    let large = Shape { pairs: 8, bytes: 300_000, stays: Some(3), ..PLAIN };
    let mut cuts = 0;
    // Its table has several leaves.
    let many = Shape { page_bytes: 1024, ..emptied };
    let shapes = [
        (small, true),
        (small, false),
        (emptied, false),
        (many, true),
        (many, false),
        (large, true),
    ];
    for (shape, is_new) in shapes {
        let mut first = SimIo::new(7);
        if !is_new {
            let disk = Disk::new(first.clone());
            let (db, _) = prepare(&disk, Shape { pairs: 500, ..shape });
            db.close().expect("room");
            first = first.kill();
        }
        let run = |at: u64, seed: Option<u64>| {
            let disk = Disk::new(first.kill());
            let (db, mut trees) = prepare(&disk, shape);
            if !is_new {
                trees = all_of(&db);
            }
            let begun = disk.sim.calls();
            disk.sim.cut_at(begun + at, seed);
            db.compact().expect("room");
            db.compact().expect("room");
            db.close().expect("room");
            (disk.sim.calls() - begun, disk.sim.take_cut(), trees)
        };
        let (calls, ..) = run(0, None);
        assert!(calls > 10, "{shape:?}: {calls} calls");
        for at in 0..calls {
            for seed in 0..2 {
                let what = format!("{shape:?}: call {at} of {calls}, seed {seed}");
                let (_, cut, trees) = run(at, Some(1 + seed));
                let Some(cut) = cut else { continue };
                cuts += 1;
                expect_usable(cut, shape, trees, &what);
            }
        }
    }
    assert!(cuts > 300, "{cuts} cuts");
}

/// All that a pool holds.
fn all_of(db: &Db) -> Trees {
    let names = db.tree_names().expect("sound");
    let content = |name: &str| {
        let tree = db.tree(name).expect("there");
        tree.iter().map(|pair| pair.map(|(k, v)| (k[..].into(), v[..].into()))).collect()
    };
    let all = names.iter().map(|name| (Name::from(&name[..]), content(name)));
    all.map(|(name, content): (_, everleaf::Result<Content>)| (name, content.expect("sound")))
        .collect()
}

/// The pool that a power cut has left holds everything, and goes on.
fn expect_usable(cut: SimIo, shape: Shape, mut trees: Trees, what: &str) {
    let open = |io: &SimIo| {
        let disk = Arc::new(Disk::new(io.clone()));
        shape.options().open_on(disk, PATH).unwrap_or_else(|error| panic!("{what}: {error}"))
    };
    let db = open(&cut);
    compare(&db, &trees, false, what);
    inspect(&db, what);
    let tree = db.tree("t0").expect("there");
    for i in 0..200 {
        tree.put(small_key(10_000 + i), "after").expect("room");
        let content = trees.get_mut("t0").expect("there");
        content.insert(Bytes::from(small_key(10_000 + i)), b"after"[..].into());
    }
    db.sync().expect("room");
    let killed = cut.kill();
    db.compact().unwrap_or_else(|error| panic!("{what}: {error}"));
    db.close().unwrap_or_else(|error| panic!("{what}: {error}"));
    for (io, when) in [(killed, "killed"), (cut.kill(), "closed")] {
        let what = format!("{what}, then {when}");
        let db = open(&io);
        compare(&db, &trees, true, &what);
        inspect(&db, &what);
    }
}
