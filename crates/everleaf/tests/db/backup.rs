//! Backups and compactions beside writers: each copy is the end of one epoch, and nothing is lost.
//!
//! `EVERLEAF_SCALE` sets how many backups are made beside the writers (20).

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use everleaf::{Db, Error, Options, Storage, Tree};
use everleaf_testing::{Rng, vecs};

const WRITERS: u64 = 3;
const COUNT: &str = "count";

type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

/// The change of a writer's batch number `n`: it sets or deletes one key.
fn change(own: u64, n: u64) -> (String, Option<Vec<u8>>) {
    let mut rng = Rng(own << 40 | n);
    let key = format!("{:03}", rng.below(60));
    let bytes = match rng.below(10) {
        0 => return (key, None),
        1 => 20_000 + rng.below(100_000),
        2 => rng.below(9_000),
        _ => rng.below(200),
    };
    (key, Some(rng.bytes(bytes as usize)))
}

/// The content of a writer's tree after so many batches.
fn after(own: u64, batches: u64) -> Pairs {
    let mut pairs = Pairs::new();
    for n in 1..=batches {
        match change(own, n) {
            (key, Some(value)) => pairs.insert(key.into(), value),
            (key, None) => pairs.remove(key.as_bytes()),
        };
        pairs.insert(COUNT.into(), n.to_le_bytes().to_vec());
    }
    pairs
}

fn write(db: &Db, tree: &Tree, own: u64, n: u64) -> everleaf::Result<()> {
    let mut batch = db.batch();
    match change(own, n) {
        (key, Some(value)) => batch.put(tree, key, value)?,
        (key, None) => batch.delete(tree, key)?,
    };
    batch.put(tree, COUNT, n.to_le_bytes())?;
    batch.commit()
}

/// Between which epochs each batch of a writer was made.
type Times = Mutex<Vec<(u64, u64)>>;

/// Whether a pool is the end of an epoch: each writer's tree as it was after some batch, and that
/// one of those that can have been the last.
fn is_end_of(path: &Path, epoch: u64, times: &[Times]) {
    for read_only in [true, false] {
        let copy = Options::new().create(false).read_only(read_only).open(path).expect("a copy");
        assert_eq!(copy.check().expect("sound"), []);
        for (own, times) in times.iter().enumerate() {
            let tree = copy.open_tree(&format!("w{own}")).expect("sound").expect("its tree");
            let count = tree
                .get(COUNT)
                .expect("sound")
                .map_or(0, |bytes| u64::from_le_bytes(bytes.try_into().expect("a number")));
            let found: Pairs = tree
                .iter()
                .map(|pair| pair.map(vecs))
                .collect::<everleaf::Result<_>>()
                .expect("sound");
            assert!(found == after(own as u64, count), "writer {own} after {count} batches");
            let times = times.lock().expect("no panic");
            // One that runs is not in the list yet.
            let can = times.iter().filter(|(from, _)| *from <= epoch).count() as u64 + 1;
            let must = times.iter().filter(|(_, to)| *to <= epoch).count() as u64;
            assert!((must..=can).contains(&count), "{count} of {must} to {can} at {epoch}");
        }
    }
}

#[test]
fn backups_beside_writers_and_compactions_are_the_end_of_an_epoch() {
    let dir = tempfile::tempdir().expect("a directory");
    let at = |name: &str| dir.path().join(name);
    // A small journal, for many checkpoints.
    let options = Options::new().interval(Duration::from_millis(2)).journal_bytes(4 << 20);
    let db = options.open(at("p.ever")).expect("new");
    let trees: Vec<_> = (0..WRITERS).map(|own| db.tree(&format!("w{own}")).expect("new")).collect();
    let times: Vec<Times> = trees.iter().map(|_| Times::default()).collect();
    let (stop, mut copies) = (AtomicBool::new(false), Vec::new());
    std::thread::scope(|scope| {
        for ((own, tree), times) in (0..).zip(&trees).zip(&times) {
            let (db, stop) = (&db, &stop);
            scope.spawn(move || {
                for n in 1.. {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    let from = db.epoch();
                    write(db, tree, own, n).expect("there is room");
                    times.lock().expect("no panic").push((from, db.epoch()));
                    std::thread::sleep(Duration::from_millis(1));
                }
            });
        }
        let compacting = scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                db.compact().expect("there is room");
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        for n in 0..everleaf_testing::times(20) {
            let copy = at(&format!("copy{n}.ever"));
            let before = db.epoch();
            let epoch = db.backup(&copy).expect("there is room");
            assert!(epoch >= before, "{epoch} is before {before}, when it was called");
            copies.push((copy, epoch));
        }
        stop.store(true, Ordering::Relaxed);
        compacting.join().expect("no panic");
    });
    copies.iter().for_each(|(copy, epoch)| is_end_of(copy, *epoch, &times));
    db.close().expect("there is room");
    is_end_of(&at("p.ever"), u64::MAX, &times);
}

#[test]
fn a_compaction_makes_the_file_shorter_and_keeps_what_is_alive() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("p.ever");
    let db = Options::new().background(false).open(&path).expect("new");
    let tree = db.tree("t").expect("new");
    let value = |i: u32| Rng(i.into()).bytes::<Vec<u8>>(300_000);
    (0..100_u32).for_each(|i| tree.put(i.to_be_bytes(), value(i)).expect("there is room"));
    db.end_epoch().expect("there is room");
    let before = db.compact().expect("there is room").after_bytes;
    assert!(before > 30_000_000, "{before} bytes");
    (0..100_u32).filter(|i| i % 10 > 0).for_each(|i| tree.delete(i.to_be_bytes()).expect("sound"));
    db.end_epoch().expect("there is room");
    let mut heard = Vec::new();
    let done = db.compact_with(|bytes| heard.push(bytes)).expect("there is room");
    assert_eq!(heard.last(), Some(&done.after_bytes));
    assert_eq!(done.after_bytes, std::fs::metadata(&path).expect("it is there").len());
    assert!(done.after_bytes < 10_000_000, "{done:?}");
    let stats = db.stats().expect("sound");
    assert_eq!(stats.file_bytes, done.after_bytes);
    assert!((3_000_000..4_000_000).contains(&stats.live_bytes), "{stats:?}");
    assert!(stats.live_bytes + stats.free_bytes <= stats.file_bytes + (1 << 20), "{stats:?}");
    for i in 0..100_u32 {
        let found = tree.get(i.to_be_bytes()).expect("sound");
        assert!(found == (i % 10 == 0).then(|| value(i).into()), "value {i}");
    }
}

#[test]
fn what_cannot_be_copied_or_compacted_is_said() {
    let dir = tempfile::tempdir().expect("a directory");
    let at = |name: &str| dir.path().join(name);
    let dax = Options::new().storage(Storage::EmulatedDax).max_bytes(4 << 20);
    let dax = dax.open(at("dax")).expect("new");
    assert!(matches!(dax.compact(), Err(Error::Unsupported { .. })));
    assert!(matches!(dax.backup(at("copy")), Err(Error::Unsupported { .. })));
    let db = Db::open(at("p.ever")).expect("new");
    db.tree("t").expect("new").put("k", "v").expect("there is room");
    db.backup(at("copy")).expect("there is room");
    for taken in ["copy", "p.ever"] {
        let refused = db.backup(at(taken));
        assert!(matches!(refused, Err(Error::FileExists { .. })), "{refused:?}");
    }
    let refused = db.backup(at("no such directory/copy"));
    assert!(matches!(refused, Err(Error::Io { .. })), "{refused:?}");
    // Nothing is wrong with it.
    db.tree("t").expect("there").put("k", "w").expect("there is room");
    let other = db.clone();
    db.close().expect("there is room");
    assert!(matches!(other.compact(), Err(Error::Closed)));
    assert!(matches!(other.backup(at("late")), Err(Error::Closed)));
    let reader = Options::new().read_only(true).open(at("p.ever")).expect("closed");
    assert!(matches!(reader.compact(), Err(Error::ReadOnly)));
    reader.backup(at("second")).expect("a reader copies");
    let copy = Db::open(at("second")).expect("a copy");
    assert_eq!(copy.tree("t").expect("there").get("k").expect("sound"), Some(b"w".into()));
}
