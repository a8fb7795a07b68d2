//! Options with any value: the open says what does not do, and what it takes does in all that follows.

use std::sync::Arc;
use std::time::Duration;

use everleaf::io::SimIo;
use everleaf::{Bytes, Compression, Db, Durability, Error, Options, Storage};

/// Sets one option to one value.
type Setting = (&'static str, fn(Options) -> Options);

/// The extremes of every option, and some values beside them.
const SETTINGS: &[Setting] = &[
    ("interval 0", |o| o.interval(Duration::ZERO)),
    ("interval 1 ns", |o| o.interval(Duration::from_nanos(1))),
    ("interval u32::MAX s", |o| o.interval(Duration::from_secs(u32::MAX.into()))),
    ("interval MAX", |o| o.interval(Duration::MAX)),
    ("journal_bytes 0", |o| o.journal_bytes(0)),
    ("journal_bytes 1", |o| o.journal_bytes(1)),
    ("journal_bytes 2^63", |o| o.journal_bytes(1 << 63)),
    ("journal_bytes MAX", |o| o.journal_bytes(u64::MAX)),
    ("pending_bytes 0", |o| o.pending_bytes(0)),
    ("pending_bytes 1", |o| o.pending_bytes(1)),
    ("pending_bytes MAX", |o| o.pending_bytes(u64::MAX)),
    ("max_bytes 0", |o| o.max_bytes(0)),
    ("max_bytes 1", |o| o.max_bytes(1)),
    ("max_bytes MAX", |o| o.max_bytes(u64::MAX)),
    ("page_bytes 512", |o| o.page_bytes(512)),
    ("page_bytes 32768", |o| o.page_bytes(32_768)),
    ("memory 0", |o| o.memory(0)),
    ("memory 1", |o| o.memory(1)),
    ("memory 2^63", |o| o.memory(1 << 63)),
    ("memory MAX", |o| o.memory(u64::MAX)),
    ("snapshot_memory 0", |o| o.snapshot_memory(0)),
    ("snapshot_memory 1", |o| o.snapshot_memory(1)),
    ("snapshot_memory MAX", |o| o.snapshot_memory(u64::MAX)),
    ("transaction_memory 0", |o| o.transaction_memory(0)),
    ("transaction_memory 1", |o| o.transaction_memory(1)),
    ("transaction_memory MAX", |o| o.transaction_memory(u64::MAX)),
    ("durability Sync", |o| o.durability(Durability::Sync)),
    ("background false", |o| o.background(false)),
    ("compression", |o| o.compression(Compression::Lz4)),
    ("small pages leave", Options::evict_small_pages),
];

const KEYS: u32 = 300;

/// Whether an error is what an option has a call say.
fn is_told(error: &Error) -> bool {
    matches!(error, Error::Full { .. } | Error::EpochTooLarge { .. } | Error::SnapshotTooOld { .. })
}

/// The result of a call that worked, or nothing if it is an option that had it fail.
fn told<T>(done: everleaf::Result<T>, name: &str) -> Option<T> {
    match done {
        Ok(done) => Some(done),
        Err(e) if is_told(&e) => None,
        Err(e) => panic!("{name}: {e}"),
    }
}

/// Does a bit of all that a pool does; says what the keys must have.
fn exercise(db: &Db, name: &str) -> Vec<Option<Vec<u8>>> {
    let mut there = vec![None; KEYS as usize];
    let Some(tree) = told(db.tree("t"), name) else { return there };
    let snapshot = db.snapshot().expect("open");
    for round in 0..2_u8 {
        for i in 0..KEYS {
            let bytes = if i % 97 == 0 { 70_000 } else { 40 + i as usize % 60 };
            let value = vec![round.wrapping_add(i as u8); bytes];
            match told(tree.put(i.to_be_bytes(), &value), name) {
                Some(()) => there[i as usize] = Some(value),
                None => db.sync().expect("no fault"),
            }
        }
        db.sync().expect("no fault");
    }
    told(snapshot.of(&tree).and_then(|tree| tree.get(0_u32.to_be_bytes())), name);
    drop(snapshot);
    let mut batch = db.batch();
    batch.delete(&tree, 1_u32.to_be_bytes()).expect("a short key");
    batch.put(&tree, 2_u32.to_be_bytes(), "batch").expect("a short pair");
    if told(batch.commit(), name).is_some() {
        (there[1], there[2]) = (None, Some(b"batch".to_vec()));
    }
    db.checkpoint().unwrap_or_else(|e| panic!("{name}: {e}"));
    db.compact().unwrap_or_else(|e| panic!("{name}: {e}"));
    there
}

fn holds(db: &Db, there: &[Option<Vec<u8>>], name: &str) {
    let Some(tree) = db.open_tree("t").expect("it can be read") else {
        assert!(there.iter().all(Option::is_none), "{name}: the tree is gone");
        return;
    };
    for (i, value) in (0_u32..).zip(there) {
        assert_eq!(
            &tree.get(i.to_be_bytes()).expect("it can be read").map(Bytes::into_vec),
            value,
            "{name}: {i}"
        );
    }
    assert_eq!(db.check().expect("it can be read"), [], "{name}");
}

/// Opens a pool with these settings and another time with others, and does a bit of all with it.
fn try_out(settings: &[&Setting]) {
    let name = settings.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    let options = settings.iter().fold(Options::new(), |options, (_, set)| set(options));
    let (io, path) = (SimIo::new(1), "/p.ever");
    let open = |options: &Options| options.open_on(Arc::new(io.clone()), path);
    let db = open(&options).unwrap_or_else(|e| panic!("{name}: {e}"));
    let there = exercise(&db, &name);
    holds(&db, &there, &name);
    db.close().unwrap_or_else(|e| panic!("{name}: {e}"));
    let db = open(&options).unwrap_or_else(|e| panic!("{name}: {e}"));
    holds(&db, &there, &name);
    drop(db);
    holds(&open(&Options::new()).expect("a sound pool"), &there, &name);
}

#[test]
fn each_extreme_of_each_option_does() {
    SETTINGS.iter().for_each(|setting| try_out(&[setting]));
}

#[test]
fn extremes_do_in_pairs() {
    for (i, a) in SETTINGS.iter().enumerate() {
        for b in &SETTINGS[i + 1..] {
            if a.0.split(' ').next() != b.0.split(' ').next() {
                try_out(&[a, b]);
            }
        }
    }
}

/// A thread of the background that panics ends nobody's wait: so an epoch that ends by itself is waited for.
#[test]
fn an_epoch_ends_by_itself_whatever_the_bounds_are() {
    let dir = tempfile::tempdir().expect("a directory");
    for (name, set) in SETTINGS {
        let options = set(Options::new());
        let is_manual = *name == "background false";
        if is_manual || ["interval u32::MAX s", "interval MAX"].contains(name) {
            continue;
        }
        let path = dir.path().join(name.replace(' ', "_"));
        let db = options.open(&path).unwrap_or_else(|e| panic!("{name}: {e}"));
        let tree = db.tree("t").expect("room");
        // So many bytes that the disk's speed is measured, from which the bound is computed.
        let value = vec![7; 4000];
        for i in 0..200_u32 {
            match tree.put(i.to_be_bytes(), &value) {
                Ok(()) => {}
                Err(Error::Full { .. }) => break,
                Err(e) => panic!("{name}: {e}"),
            }
        }
        db.wait_durable(db.epoch()).unwrap_or_else(|e| panic!("{name}: {e}"));
        db.close().unwrap_or_else(|e| panic!("{name}: {e}"));
    }
}

#[test]
fn an_interval_without_end_is_a_day_and_nobody_waits_for_it() {
    let dir = tempfile::tempdir().expect("a directory");
    for pending in [8 << 20, u64::MAX] {
        let path = dir.path().join(pending.to_string());
        let options = Options::new().interval(Duration::MAX).pending_bytes(pending);
        let db = options.open(&path).expect("a day");
        let tree = db.tree("t").expect("room");
        // A commit of so much measures the disk.
        let value = vec![7; 1000];
        for i in 0..2000_u32 {
            tree.put(i.to_be_bytes(), &value).expect("room");
        }
        db.sync().expect("no fault");
        tree.put("more", "").expect("room");
        db.sync().expect("the thread that ends epochs lives");
        db.close().expect("no fault");
    }
}

#[test]
fn pages_of_a_size_that_cannot_be_are_refused_by_name() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("p.ever");
    for storage in [Storage::File, Storage::EmulatedDax] {
        for bytes in [0, 1, 3, 64, 511, 513, 4095, 65_536, 1 << 31, u32::MAX] {
            let options = Options::new().storage(storage).max_bytes(1 << 20).page_bytes(bytes);
            match options.open(&path).map(drop) {
                Err(Error::InvalidOption { option: "page_bytes", what }) => {
                    let says = |part: &str| what.contains(part);
                    assert!(says(&bytes.to_string()) && says(" to "), "{what}");
                }
                other => panic!("{storage:?}, {bytes}: {other:?}"),
            }
            assert!(!path.exists(), "{storage:?}, {bytes}");
        }
    }
}

/// Persistent memory takes its blocks at once: those that there are not are refused before any is taken.
#[test]
fn a_pool_on_persistent_memory_that_no_device_holds_is_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("p.ever");
    let dax = |bytes| Options::new().storage(Storage::EmulatedDax).max_bytes(bytes);
    for bytes in [32 << 40, u64::MAX] {
        let refused = dax(bytes).open(&path).map(drop);
        assert!(matches!(refused, Err(Error::Io { .. })), "{bytes}: {refused:?}");
        assert!(!path.exists(), "{bytes}");
    }
    for bytes in [0, 1, 1 << 20] {
        for (name, set) in SETTINGS.iter().filter(|(name, _)| !name.starts_with("max_bytes")) {
            if name.starts_with("page_bytes") {
                continue;
            }
            let path = dir.path().join(format!("{bytes} {name}"));
            let db = set(dax(bytes)).open(&path).unwrap_or_else(|e| panic!("{name}: {e}"));
            told(db.tree("t").and_then(|tree| tree.put("k", "v")), name);
            db.close().unwrap_or_else(|e| panic!("{name}: {e}"));
        }
    }
}
