//! The smallest and the largest keys and values, and many trees: each survives a kill, a close and
//! a drop, and the pool is sound after each.
//!
//! `EVERLEAF_SCALE=release` adds a value of 4 GiB − 1.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use everleaf::{
    Bytes, Db, Durability, Error, KEY_BYTES_MAX, Options, TREE_NAME_BYTES_MAX, Tree,
    VALUE_BYTES_MAX,
};
use tempfile::TempDir;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Bytes that differ by place, so that swapped or shifted parts show.
fn bytes(len: usize, seed: u64) -> Vec<u8> {
    let mut bytes = vec![0; len];
    let mut x = seed;
    for chunk in bytes.chunks_mut(8) {
        x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let word = (x ^ (x >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9).to_le_bytes();
        chunk.copy_from_slice(&word[..chunk.len()]);
    }
    bytes
}

fn options(page_bytes: u32) -> Options {
    Options::new().page_bytes(page_bytes)
}

/// The pool as a kill right now would leave it. Sync first, and let nobody write meanwhile.
fn killed(path: &Path) -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    for file in std::fs::read_dir(path.parent().unwrap()).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), dir.path().join(file.file_name())).unwrap();
    }
    let copy = dir.path().join(path.file_name().unwrap());
    (dir, copy)
}

/// Holds tree `t` and the pool's own counts against the model, and checks every byte.
fn compare(db: &Db, model: &Model) {
    let tree = db.tree("t").unwrap();
    let mut pairs = tree.iter();
    for (key, value) in model {
        let (found_key, found_value) = pairs.next().expect("a pair is missing").unwrap();
        assert!(found_key == *key, "{} bytes of key, not {}", found_key.len(), key.len());
        assert!(found_value == *value, "{} bytes, not {}", found_value.len(), value.len());
        assert!(tree.get(key).unwrap().as_deref() == Some(&value[..]));
    }
    assert!(pairs.next().is_none());
    assert!(tree.iter().rev().map(|pair| pair.unwrap().0).eq(model.keys().rev().cloned()));
    assert_eq!(db.check().unwrap(), []);
    let counts = db.count().unwrap();
    let of_tree = counts.trees.iter().find(|tree| tree.name == "t").unwrap();
    assert_eq!(of_tree.entries, model.len() as u64);
    assert_eq!(of_tree.key_bytes, model.keys().map(|key| key.len() as u64).sum::<u64>());
    assert_eq!(of_tree.value_bytes, model.values().map(|value| value.len() as u64).sum::<u64>());
}

/// A pool whose tree `t` is as the model says.
struct Place {
    path: PathBuf,
    db: Option<Db>,
    options: Options,
    model: Model,
    _dir: TempDir,
}

impl Place {
    fn new(options: Options) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("p.ever");
        let db = Some(options.open(&path).unwrap());
        Place { path, db, options, model: Model::new(), _dir: dir }
    }

    fn tree(&self) -> Tree {
        self.db.as_ref().unwrap().tree("t").unwrap()
    }

    fn insert(&mut self, key: Vec<u8>, value: Vec<u8>) {
        let old = self.tree().insert(&key, &value).unwrap();
        assert!(old.map(Bytes::into_vec) == self.model.insert(key, value));
    }

    fn remove(&mut self, key: &[u8]) {
        assert!(self.tree().remove(key).unwrap().map(Bytes::into_vec) == self.model.remove(key));
    }

    /// Compares now, after a kill, after a close and after a drop.
    fn survives(&mut self) {
        let db = self.db.take().unwrap();
        compare(&db, &self.model);
        db.sync().unwrap();
        let (_dir, copy) = killed(&self.path);
        let after_kill = self.options.open(&copy).unwrap();
        compare(&after_kill, &self.model);
        after_kill.tree("t").unwrap().insert("after", "all").unwrap();
        after_kill.close().unwrap();
        assert_eq!(Db::open(&copy).unwrap().check().unwrap(), []);
        db.close().unwrap();
        let db = self.options.open(&self.path).unwrap();
        compare(&db, &self.model);
        drop(db);
        let db = self.options.open(&self.path).unwrap();
        compare(&db, &self.model);
        self.db = Some(db);
    }
}

#[test]
fn keys_of_all_lengths() {
    let mut place = Place::new(options(512));
    let edges = [0, 1, 2, 7, 8, 9, 10, 11, 31, 32, 33, 111, 112, 113, 119, 120, 121, 127, 128, 129];
    let long = [255, 256, 257, 4095, 4096, 4097, 65_534, 65_535, KEY_BYTES_MAX];
    for len in edges.into_iter().chain(long) {
        place.insert(bytes(len, 1), bytes(len % 50, 2));
        place.insert(vec![0; len], vec![]);
        place.insert(vec![0xFF; len], b"x".to_vec());
    }
    place.survives();
    for len in edges.into_iter().chain(long) {
        place.insert(bytes(len, 1), bytes(200 - len % 50, 3));
        place.remove(&vec![0xFF; len]);
    }
    place.survives();
}

/// Nodes whose separators do not fit a page, and whose prefixes are nearly whole keys.
#[test]
fn long_keys_that_share_long_prefixes() {
    for page_bytes in [512, 2048] {
        let mut place = Place::new(options(page_bytes));
        let stem = bytes(KEY_BYTES_MAX, 7);
        let count = if page_bytes == 512 { 200 } else { 500 };
        let key = |i: usize| {
            let mut key = stem.clone();
            // Three groups that part in the middle, at the end, or by their lengths.
            match i % 3 {
                0 => key[30_000..30_002].copy_from_slice(&(i as u16).to_be_bytes()),
                1 => key[KEY_BYTES_MAX - 2..].copy_from_slice(&(i as u16).to_be_bytes()),
                _ => key.truncate(KEY_BYTES_MAX - i),
            }
            key
        };
        for i in 0..count {
            place.insert(key(i * 7919 % count), bytes(i % 300, i as u64));
        }
        place.survives();
        let levels = place.db.as_ref().unwrap().count().unwrap().trees[0].nodes_by_level.len();
        assert!(page_bytes > 512 || levels > 2, "{levels} levels");
        for i in (0..count).filter(|i| i % 5 > 0) {
            place.remove(&key(i));
        }
        place.survives();
        (0..count).for_each(|i| place.remove(&key(i)));
        place.survives();
    }
}

/// Where a value ends to fit its entry, a record its class and its page, and an extent its pages.
#[test]
fn values_around_every_edge() {
    for page_bytes in [512, 1024, 2048] {
        let mut place = Place::new(options(page_bytes));
        let (body, page) = (page_bytes as usize - 64, page_bytes as usize);
        let whole = page / 8;
        let cut = [whole - 1, whole, whole + 1, body / 4, 256, 257];
        for key_len in [1, 10].into_iter().chain(cut) {
            let records = (1..=16).map(|parts| (body / parts).saturating_sub(8 + key_len));
            let extents = [page, 2 * page, 3 * page, 40 * page];
            let extents = extents.into_iter().flat_map(|len| [len, len.saturating_sub(key_len)]);
            for len in records.chain(extents).chain([0, 1, whole]) {
                for len in [len.saturating_sub(1), len, len + 1] {
                    let mut key = bytes(key_len, page_bytes.into());
                    key.truncate(key_len.max(4) - 4);
                    key.extend((len as u32).to_be_bytes());
                    place.insert(key, bytes(len, len as u64));
                }
            }
        }
        place.survives();
        // Each pair takes the size of its neighbour.
        let keys: Vec<_> = place.model.keys().cloned().collect();
        let values: Vec<_> = place.model.values().cloned().collect();
        for (key, value) in keys.into_iter().zip(values.into_iter().skip(1)) {
            place.insert(key, value);
        }
        place.survives();
    }
}

#[test]
fn large_values() {
    let mut place = Place::new(Options::new());
    place.insert(b"1 MiB".to_vec(), bytes(1 << 20, 1));
    place.insert(b"64 MiB".to_vec(), bytes(64 << 20, 2));
    place.insert(bytes(KEY_BYTES_MAX, 3), bytes(1 << 20, 3));
    place.survives();
    place.insert(b"64 MiB".to_vec(), bytes((64 << 20) - 1, 4));
    place.insert(b"1 MiB".to_vec(), bytes((1 << 20) + 1, 5));
    place.survives();
    place.remove(b"64 MiB");
    place.insert(b"after".to_vec(), bytes(64 << 20, 6));
    place.survives();
}

#[test]
fn the_largest_value() {
    if everleaf_testing::size([0, 0, 1]) == 0 {
        println!("skipped: EVERLEAF_SCALE is not release");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("p.ever");
    let value = bytes(VALUE_BYTES_MAX, 9);
    let db = Db::open(&path).unwrap();
    db.with(Durability::Sync).tree("t").unwrap().insert("k", &value).unwrap();
    assert!(db.tree("t").unwrap().get("k").unwrap().as_deref() == Some(&value[..]));
    db.close().unwrap();
    let db = Db::open(&path).unwrap();
    assert!(db.tree("t").unwrap().get("k").unwrap().as_deref() == Some(&value[..]));
    assert_eq!(db.check().unwrap(), []);
    assert_eq!(db.count().unwrap().trees[0].value_bytes, VALUE_BYTES_MAX as u64);
    db.tree("t").unwrap().remove("k").unwrap();
    assert_eq!(db.check().unwrap(), []);
}

#[test]
fn what_is_too_long_is_refused_and_changes_nothing() {
    let mut place = Place::new(options(512));
    place.insert(b"k".to_vec(), b"v".to_vec());
    let (tree, key) = (place.tree(), vec![7; KEY_BYTES_MAX + 1]);
    // Never touched, so it takes no memory.
    let value = vec![0; VALUE_BYTES_MAX + 1];
    assert!(matches!(tree.insert(&key, "v"), Err(Error::KeyTooLong { .. })));
    assert!(matches!(tree.insert("k", &value), Err(Error::ValueTooLong { .. })));
    assert!(matches!(tree.remove(&key), Err(Error::KeyTooLong { .. })));
    assert_eq!(tree.get(&key).unwrap(), None);
    assert!(!tree.contains(&key).unwrap());
    let db = place.db.as_ref().unwrap();
    let mut batch = db.batch();
    assert!(matches!(batch.put(&tree, &key, "v"), Err(Error::KeyTooLong { .. })));
    assert!(matches!(batch.put(&tree, "k", &value), Err(Error::ValueTooLong { .. })));
    assert!(batch.is_empty());
    let name = "n".repeat(TREE_NAME_BYTES_MAX);
    db.tree(&name).unwrap();
    assert!(matches!(db.tree(&format!("{name}n")), Err(Error::TreeName { .. })));
    assert_eq!(db.tree_names().unwrap(), [&name[..], "t"]);
    drop((tree, batch));
    place.survives();
}

#[test]
fn many_trees() {
    const TREES: usize = 300;
    for page_bytes in [512, 2048] {
        let mut place = Place::new(options(page_bytes));
        place.insert(b"k".to_vec(), b"v".to_vec());
        let name = |i: usize| format!("{:03}{}", i, "n".repeat(i % 250));
        let fill = |db: &Db, round: usize| {
            let mut batch = db.batch();
            for i in 0..TREES {
                let tree = db.tree(&name(i)).unwrap();
                (0..i % 40).for_each(|j| drop(tree.insert(j.to_be_bytes(), bytes(j, 1)).unwrap()));
                batch.put(&tree, "round", round.to_be_bytes()).unwrap();
            }
            batch.commit().unwrap();
        };
        let look = |db: &Db, round: usize| {
            assert_eq!(db.tree_names().unwrap().len(), TREES + 1);
            for (i, tree) in db.count().unwrap().trees.iter().take(TREES).enumerate() {
                assert_eq!((&tree.name, tree.entries), (&name(i), (i % 40) as u64 + 1));
                let found = db.open_tree(&tree.name).unwrap().unwrap().get("round").unwrap();
                assert_eq!(found, Some(round.to_be_bytes().into()));
            }
        };
        for round in 0..3 {
            fill(place.db.as_ref().unwrap(), round);
            look(place.db.as_ref().unwrap(), round);
            place.survives();
            look(place.db.as_ref().unwrap(), round);
        }
    }
}

/// Trees until the pool is full: those that could not be made, or not be named, leave no page.
#[test]
fn a_full_pool_makes_no_tree_in_part() {
    let anchors = |db: &Db| {
        let pages = db.count().unwrap().pages;
        pages.into_iter().find(|count| count.kind == "anchor").unwrap().pages
    };
    // Pages that something else has: so that each page of a new tree is once the one that is missing.
    for others in 0..6u8 {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("full.ever");
        let open = || options(512).max_bytes(1 << 16).open(&path).unwrap();
        let db = open();
        let tree = db.tree("others").unwrap();
        (0..others).for_each(|i| drop(tree.insert([i], [i; 400]).unwrap()));
        // Names so long that the catalog needs pages, too.
        let made = (0..).take_while(|i| db.tree(&format!("{i:0>200}")).is_ok()).count();
        assert!(matches!(db.tree(&"x".repeat(200)), Err(Error::Full { .. })), "{others}");
        assert_eq!(db.check().unwrap(), [], "{others}, {made} trees");
        assert_eq!(anchors(&db), 2 + made as u64);
        drop((tree, db));
        let db = open();
        assert_eq!((db.check().unwrap(), anchors(&db)), (vec![], 2 + made as u64));
    }
}
