//! Pools in memory: they do what others do, meet a bound as a full disk, leave nothing but backups, and end with
//! their last handle.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use everleaf::{
    Bytes, Compression, Db, Durability, Error, KEY_BYTES_MAX, Options, Storage, TransactionOptions,
    Tree,
};
use everleaf_testing::{Rng, vecs};

const MIB: u64 = 1 << 20;

fn pairs(tree: &Tree) -> Vec<(Vec<u8>, Vec<u8>)> {
    tree.iter().map(|pair| vecs(pair.expect("sound"))).collect()
}

fn is_full(error: &Error) -> bool {
    let cause = if let Error::Poisoned { cause } = error { cause } else { error };
    matches!(cause, Error::Io { source, .. } if source.kind() == ErrorKind::StorageFull)
        && !matches!(error, Error::Poisoned { .. })
}

#[test]
fn all_that_a_pool_does_it_does_in_memory() {
    let db = Options::new().page_bytes(1024).compression(Compression::Lz4).in_memory();
    let db = db.expect("memory");
    assert_eq!((db.path(), db.tree_names().expect("open")), (None, Vec::new()));
    let tree = db.tree("t").expect("room");
    let keys = [&b""[..], b"\0", &[7; KEY_BYTES_MAX], &[0xff; KEY_BYTES_MAX]];
    for (n, key) in keys.into_iter().enumerate() {
        tree.put(key, vec![n as u8; n * 50_000]).expect("room");
        assert_eq!(tree.value_len(key).expect("open"), Some(n as u64 * 50_000));
    }
    let too_long = tree.put([7; KEY_BYTES_MAX + 1], "");
    assert!(matches!(too_long, Err(Error::KeyTooLong { .. })));
    assert!(pairs(&tree).into_iter().map(|(key, _)| key).eq(keys));

    let before = db.snapshot().expect("open");
    db.transact(|tx| {
        tx.delete(&tree, "")?;
        tx.put(&tree, "new", "1")
    })
    .expect("nobody is in the way");
    let mut batch = db.with(Durability::Sync).batch();
    batch.put(&tree, "new", "2").expect("memory");
    batch.put(&db.tree("u").expect("room"), "new", "3").expect("memory");
    let mark = db.epoch();
    batch.commit().expect("room");
    assert!(db.durable_epoch() >= mark, "its epoch has ended");
    assert!(before.of(&tree).expect("its own").contains("").expect("kept"));
    assert_eq!(before.tree_names().expect("kept"), ["t"]);
    let tx = db.begin_with(TransactionOptions::new());
    assert_eq!(tx.get(&tree, "new").expect("open"), Some(b"2".into()));
    tree.put("new", "4").expect("room");
    tx.put(&tree, "other", "").expect("memory");
    assert!(matches!(tx.commit(), Err(Error::Conflict { .. })));

    db.wait_durable(db.epoch()).expect("a thread ends it");
    db.checkpoint().expect("room");
    assert!(db.rename_tree("u", "v").expect("room") && db.drop_tree("v").expect("room"));
    tree.put("large", Rng(1).bytes::<Vec<u8>>(9 << 20)).expect("room");
    tree.delete("large").expect("room");
    let compaction = db.compact().expect("room");
    assert!(compaction.after_bytes < compaction.before_bytes, "{compaction:?}");
    let stats = db.stats().expect("open");
    assert_eq!(stats.file_bytes, compaction.after_bytes);
    assert_eq!(db.count().expect("readable").trees[0].entries, 4);
    assert_eq!(db.check().expect("readable"), []);
    assert_eq!(tree.clear().expect("room"), 4);
}

/// Several threads, each with keys of its own, beside snapshots, checkpoints and compactions.
#[test]
fn threads_write_a_pool_in_memory_as_they_do_maps() {
    let db = Options::new().memory(300 << 10).in_memory().expect("memory");
    let tree = db.tree("t").expect("room");
    let models = thread::scope(|scope| {
        let threads: Vec<_> = (0..3_u64)
            .map(|own| {
                let (db, tree) = (&db, &tree);
                scope.spawn(move || {
                    let (mut rng, mut model) = (Rng(own), BTreeMap::new());
                    for step in 0..4000 {
                        let key = format!("{own}/{}", rng.below(1500)).into_bytes();
                        let bytes = if rng.one_in(200) { 60_000 } else { rng.below(900) };
                        let value: Vec<u8> = rng.bytes(bytes as usize);
                        if rng.one_in(3) {
                            let old = tree.remove(&key).expect("open");
                            assert_eq!(old.map(Bytes::into_vec), model.remove(&key));
                        } else {
                            let old = tree.insert(&key, &value).expect("room");
                            assert_eq!(old.map(Bytes::into_vec), model.insert(key, value));
                        }
                        match (step + own * 700) % 2000 {
                            0 => db.checkpoint().expect("room"),
                            1 => drop(db.compact().expect("room")),
                            2 => {
                                let then = db.snapshot().expect("open").of(tree).expect("its own");
                                let of_own = then.prefix(format!("{own}/"));
                                assert!(
                                    of_own.map(|pair| vecs(pair.expect("kept"))).eq(model.clone())
                                );
                            }
                            _ => {}
                        }
                    }
                    model
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect::<Vec<_>>()
    });
    let model: BTreeMap<_, _> = models.into_iter().flatten().collect();
    assert!(pairs(&tree).into_iter().eq(model));
    assert_eq!(db.check().expect("readable"), []);
    let memory = db.stats().expect("open").memory;
    assert!(memory.evictions > 0, "{memory:?}");
}

#[test]
fn two_pools_in_memory_share_nothing_and_a_closed_one_is_gone() {
    let options = Options::new();
    let (a, b) = (options.in_memory().expect("memory"), Db::in_memory().expect("memory"));
    assert_ne!(a.stats().expect("open").uuid, b.stats().expect("open").uuid);
    let (of_a, of_b) = (a.tree("t").expect("room"), b.tree("t").expect("room"));
    of_a.put("k", "a").expect("room");
    assert_eq!(of_b.get("k").expect("open"), None);
    let mut batch = b.batch();
    assert!(matches!(batch.put(&of_a, "k", "b"), Err(Error::OtherPool { .. })));

    let (again, other) = (a.clone(), a.clone());
    a.close().expect("nothing to be written");
    assert!(matches!(of_a.get("k"), Err(Error::Closed)));
    assert!(matches!(of_a.put("k", ""), Err(Error::Closed)));
    assert!(matches!(again.stats(), Err(Error::Closed)));
    again.close().expect("as the first time");
    other.abandon().expect("the same");
    assert_eq!(options.in_memory().expect("memory").tree_names().expect("open"), [""; 0]);

    of_b.put("k", "b").expect("room");
    b.abandon().expect("open");
    drop((batch, of_b));
    let c = Db::in_memory().expect("memory");
    let of_c = c.tree("t").expect("room");
    drop(c);
    of_c.put("k", "c").expect("a tree keeps its pool");
    assert_eq!(of_c.get("k").expect("open"), Some(b"c".into()));
}

#[test]
fn a_backup_of_a_pool_in_memory_is_a_pool_on_disk() {
    let dir = tempfile::tempdir().expect("a directory");
    for background in [true, false] {
        let path = dir.path().join(format!("copy {background}"));
        let db = Options::new().background(background).in_memory().expect("memory");
        let tree = db.tree("t").expect("room");
        for n in 0..3000_u32 {
            tree.put(n.to_be_bytes(), vec![n as u8; n as usize % 1000]).expect("room");
            if n == 2000 {
                db.checkpoint().expect("room");
            }
        }
        db.end_epoch().expect("room");
        let epoch = db.backup(&path).expect("a disk");
        assert!(epoch <= db.durable_epoch());
        assert!(matches!(db.backup(&path), Err(Error::FileExists { .. })));
        tree.clear().expect("room");
        tree.put("later", "").expect("room");
        drop((tree, db));
        assert_eq!(fs::read_dir(dir.path()).expect("there").count(), 1 + usize::from(!background));
        let copy = Options::new().create(false).open(&path).expect("a pool");
        assert_eq!(copy.check().expect("readable"), []);
        let tree = copy.open_tree("t").expect("readable").expect("made");
        assert_eq!(tree.len().expect("open"), 3000);
        for (n, (key, value)) in (0..3000_u32).zip(pairs(&tree)) {
            assert_eq!((&key[..], value.len()), (&n.to_be_bytes()[..], n as usize % 1000));
        }
        tree.put("goes on", "").expect("room");
        copy.close().expect("room");
    }
}

/// Accepted pairs are there, and deletes make room. `len` is that of the values.
fn fill(options: &Options, len: u64, most: u64) {
    let db = options.in_memory().expect("memory");
    let tree = db.tree("t").expect("room");
    let value = |n: u64| vec![n as u8; (len + n % 7) as usize];
    let key = |n: u64| n.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes();
    for round in 0..2 {
        let (mut n, mut refused) = (0, None);
        while refused.is_none() {
            match tree.put(key(n), value(n)) {
                Ok(()) => n += 1,
                Err(error) => refused = Some(error),
            }
        }
        let error = refused.expect("the memory has an end");
        assert!(is_full(&error), "{len}, round {round}: {error}");
        let said = error.to_string();
        assert!(said.contains(&format!("{most} bytes at most")), "{said}");
        assert!(db.stats().expect("open").file_bytes <= most);
        let held = n * (len + 8);
        assert!(held > most / 4, "{len}, round {round}: {held} bytes of {most}");
        for n in 0..n {
            assert!(
                tree.get(key(n)).expect("sound") == Some(value(n).into()),
                "{len}, round {round}: {n}"
            );
        }
        assert_eq!(tree.get(key(n)).expect("sound"), None, "what was refused is not there");
        // One at a time while it is full; then there is room again.
        for n in 0..n {
            tree.delete(key(n)).unwrap_or_else(|e| panic!("{len}, round {round}: {n}: {e}"));
        }
        assert_eq!(tree.len().expect("open"), 0);
        db.sync().expect("room");
        assert_eq!(db.check().expect("readable"), []);
    }
    db.compact().expect("room");
    assert!(db.stats().expect("open").file_bytes < most / 2);
}

#[test]
fn a_pool_in_memory_that_is_full_refuses_what_is_added_and_loses_nothing() {
    fill(&Options::new().max_bytes(40 * MIB), 30_000, 40 * MIB);
    // As few as there can be.
    fill(&Options::new().max_bytes(0), 900, 32 * MIB);
    fill(&Options::new().max_bytes(0).memory(0), 3000, 32 * MIB);
}

#[test]
fn threads_that_fill_a_pool_in_memory_are_all_refused() {
    let db = Options::new().max_bytes(32 * MIB).in_memory().expect("memory");
    let tree = db.tree("t").expect("room");
    let accepted = AtomicU64::new(0);
    thread::scope(|scope| {
        for own in 0..3_u64 {
            let (db, tree, accepted) = (&db, &tree, &accepted);
            scope.spawn(move || {
                for n in 0.. {
                    let mut batch = db.batch();
                    batch.put(tree, format!("{own}/{n}/a"), [0; 500]).expect("memory");
                    batch.put(tree, format!("{own}/{n}/b"), [1; 500]).expect("memory");
                    match batch.commit() {
                        Ok(()) => accepted.fetch_add(2, Ordering::Relaxed),
                        Err(error) if is_full(&error) => break,
                        Err(error) => panic!("{error}"),
                    };
                }
            });
        }
    });
    assert_eq!(tree.len().expect("open"), accepted.load(Ordering::Relaxed));
    assert_eq!(db.check().expect("readable"), []);
    tree.clear().expect("room");
    tree.put("k", "v").expect("room again");
}

#[test]
fn settings_that_a_pool_in_memory_cannot_have_are_refused_by_name() {
    let refusals = [
        (Options::new().read_only(true), "read_only"),
        (Options::new().create(false), "create"),
        (Options::new().storage(Storage::Dax), "storage"),
        (Options::new().storage(Storage::EmulatedDax), "storage"),
        (Options::new().page_bytes(1000), "page_bytes"),
    ];
    for (options, name) in refusals {
        match options.in_memory() {
            Err(Error::InvalidOption { option, .. }) => assert_eq!(option, name),
            answer => panic!("{name}: {answer:?}"),
        }
    }
    for bytes in [0, 1, u64::MAX] {
        let options = Options::new().max_bytes(bytes).memory(bytes).journal_bytes(bytes);
        let db = options.pending_bytes(bytes).in_memory().expect("any number will do");
        db.tree("t").expect("room").put("k", "v").expect("room");
        db.sync().expect("room");
        db.checkpoint().expect("room");
    }
}
