//! The facade against a plain map: every answer, iteration from both ends, batches, limits.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use everleaf::{Db, Durability, Error, KEY_BYTES_MAX, Options, Pair, Range, Tree};
use everleaf_file::io::SimIo;
use proptest::prelude::*;

fn pool() -> (tempfile::TempDir, Db) {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path().join("p.ever")).unwrap();
    (dir, db)
}

fn keys(range: Range) -> Vec<Vec<u8>> {
    range.map(|pair| pair.unwrap().0.into()).collect()
}

fn filled(db: &Db, count: u32) -> (Tree, BTreeMap<Vec<u8>, Vec<u8>>) {
    let tree = db.tree("t").unwrap();
    let mut model = BTreeMap::new();
    for i in 0..count {
        let (key, value) = (format!("{:05}", i * 2).into_bytes(), i.to_le_bytes().to_vec());
        assert_eq!(tree.insert(&key, &value).unwrap(), None);
        model.insert(key, value);
    }
    (tree, model)
}

#[test]
fn handles_are_send_and_sync() {
    fn check<T: Send + Sync>() {}
    check::<Db>();
    check::<Tree>();
    check::<Range>();
}

#[test]
fn insert_returns_the_old_value_and_remove_the_last() {
    let (_dir, db) = pool();
    let tree = db.tree("t").unwrap();
    assert_eq!(tree.insert("k", "1").unwrap(), None);
    assert_eq!(tree.with(Durability::Sync).insert("k", "2").unwrap(), Some(b"1".into()));
    assert_eq!(tree.get("k").unwrap(), Some(b"2".into()));
    assert!(tree.contains("k").unwrap());
    assert_eq!(tree.remove("k").unwrap(), Some(b"2".into()));
    assert_eq!(tree.with(Durability::Sync).remove("k").unwrap(), None);
    assert!(!tree.contains("k").unwrap());
}

#[test]
fn the_empty_key_is_the_first_key() {
    let (_dir, db) = pool();
    let tree = db.tree("t").unwrap();
    tree.insert("", "empty").unwrap();
    tree.insert(b"\0", "zero").unwrap();
    assert_eq!(tree.first().unwrap(), Some(("".into(), "empty".into())));
    assert_eq!(tree.last().unwrap(), Some(([0].into(), "zero".into())));
    assert_eq!(keys(tree.iter()), [vec![], vec![0]]);
}

#[test]
fn both_ends_of_an_iterator_meet_without_loss_or_repeat() {
    let (_dir, db) = pool();
    let (tree, model) = filled(&db, 3000);
    // Each pattern says how many to take in turn from the front and from the back.
    for (front, back) in [(1, 1), (1, 7), (40, 3), (500, 1), (1, 500), (0, 1), (1, 0)] {
        let (mut low, mut high, mut range) = (Vec::new(), Vec::new(), tree.iter());
        loop {
            let before = low.len() + high.len();
            low.extend((0..front).map_while(|_| range.next()).map(Result::unwrap));
            high.extend((0..back).map_while(|_| range.next_back()).map(Result::unwrap));
            if low.len() + high.len() == before {
                break;
            }
        }
        assert!(range.next().is_none() && range.next_back().is_none());
        low.extend(high.into_iter().rev());
        let all: Vec<Pair> = model.iter().map(|(k, v)| (k[..].into(), v[..].into())).collect();
        assert!(low == all, "front {front}, back {back}");
    }
}

#[test]
fn prefixes_ranges_and_inverted_ranges() {
    let (_dir, db) = pool();
    let tree = db.tree("t").unwrap();
    for key in [&b"a"[..], b"a\xFF", b"a\xFF\xFF", b"b", b"\xFF", b"\xFF\xFF"] {
        tree.insert(key, "").unwrap();
    }
    assert_eq!(tree.prefix("a").count(), 3);
    assert_eq!(tree.prefix(b"a\xFF").count(), 2);
    assert_eq!(tree.prefix(b"\xFF").rev().count(), 2);
    assert_eq!(tree.prefix("").count(), 6);
    assert_eq!(tree.range("a".."b").count(), 3);
    assert_eq!(tree.range("a"..="b").count(), 4);
    assert_eq!(tree.range(.."b").count(), 3);
    assert_eq!(tree.range(&b"a"[..]..&b"b"[..]).count(), 3);
    assert_eq!(tree.range("b".to_owned()..).count(), 3);
    assert_eq!(tree.range(..).count(), 6);
    assert_eq!(tree.range((Bound::Excluded("a"), Bound::Excluded("b"))).count(), 2);
    let (low, high) = ("a", "b");
    assert_eq!(tree.range(high..low).count(), 0);
    assert_eq!(tree.range((Bound::Excluded("a"), Bound::Excluded("a"))).count(), 0);
    assert_eq!((&tree).into_iter().count(), 6);
}

#[test]
fn a_batch_applies_in_order_and_only_when_committed() {
    let (_dir, db) = pool();
    let (one, two) = (db.tree("one").unwrap(), db.tree("two").unwrap());
    let mut batch = db.with(Durability::Sync).batch();
    batch.put(&one, "k", "1").unwrap();
    batch.put(&two, "k", "2").unwrap();
    batch.delete(&one, "k").unwrap();
    batch.put(&one, "l", "3").unwrap();
    assert_eq!(batch.len(), 4);
    assert!(!two.contains("k").unwrap());
    batch.commit().unwrap();
    assert_eq!(keys(one.iter()), [b"l".to_vec()]);
    assert_eq!(two.get("k").unwrap(), Some(b"2".into()));
    let (_other_dir, other) = pool();
    let mut batch = other.batch();
    assert!(matches!(batch.put(&one, "k", "1"), Err(Error::OtherPool { .. })));
    assert!(batch.is_empty());
}

#[test]
fn a_queue_of_a_thousand_pairs_keeps_a_dozen_leaves() {
    let (_dir, db) = pool();
    let tree = db.tree("queue").unwrap();
    let name = |i: u32| i.to_be_bytes();
    for i in 0..100_000_u32 {
        tree.insert(name(i), "a job").unwrap();
        if let Some(done) = i.checked_sub(1000) {
            assert_eq!(tree.first().unwrap().unwrap().0, name(done));
            tree.remove(name(done)).unwrap();
        }
        if i % 10_000 == 9_999 {
            let (stats, counts) = (db.stats().unwrap(), db.count().unwrap());
            let queue = counts.trees.iter().find(|tree| tree.name == "queue").unwrap();
            let slots = stats.node_bytes / 16;
            let most = 2 + queue.entries * 10 / (4 * u64::from(slots));
            assert_eq!(queue.entries, 1000);
            assert!(queue.nodes_by_level[0] <= most, "{:?}, {most}", queue.nodes_by_level);
        }
    }
}

#[test]
fn keys_over_the_limit_are_refused_and_nothing_changes() {
    let (_dir, db) = pool();
    let tree = db.tree("t").unwrap();
    let (longest, too_long) = (vec![7; KEY_BYTES_MAX], vec![7; KEY_BYTES_MAX + 1]);
    tree.insert(&longest, "v").unwrap();
    assert!(matches!(tree.insert(&too_long, "v"), Err(Error::KeyTooLong { .. })));
    assert!(matches!(tree.remove(&too_long), Err(Error::KeyTooLong { .. })));
    assert!(matches!(db.batch().put(&tree, &too_long, "v"), Err(Error::KeyTooLong { .. })));
    assert_eq!(tree.get(&too_long).unwrap(), None);
    assert_eq!(keys(tree.iter()), [longest]);
    assert!(matches!(db.tree(""), Err(Error::TreeName { .. })));
    assert_eq!(db.tree_names().unwrap(), ["t"]);
}

#[test]
fn what_was_closed_or_dropped_is_there_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("p.ever");
    let db = Db::open(&path).unwrap();
    db.tree("b").unwrap().insert("k", vec![1; 100_000]).unwrap();
    db.tree("a").unwrap().insert("k", "").unwrap();
    db.close().unwrap();
    let db = Db::open(&path).unwrap();
    assert_eq!(db.tree_names().unwrap(), ["a", "b"]);
    assert_eq!(db.tree("b").unwrap().get("k").unwrap(), Some(vec![1; 100_000].into()));
    db.tree("a").unwrap().remove("k").unwrap();
    drop(db);
    let db = Options::new().read_only(true).open(&path).unwrap();
    let tree = db.open_tree("a").unwrap().unwrap();
    assert_eq!(tree.first().unwrap(), None);
    assert!(matches!(tree.insert("k", "v"), Err(Error::ReadOnly)));
    assert!(matches!(db.tree("new"), Err(Error::ReadOnly)));
    assert!(db.open_tree("new").unwrap().is_none());
    assert!(db.check().unwrap().is_empty());
}

#[test]
fn a_second_writer_is_locked_out_and_a_missing_pool_is_not_made_when_not_asked() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("p.ever");
    assert!(matches!(Options::new().create(false).open(&path), Err(Error::Io { .. })));
    assert!(matches!(Options::new().read_only(true).open(&path), Err(Error::Io { .. })));
    assert!(!path.exists());
    let db = Db::open(&path).unwrap();
    let error = Db::open(&path).unwrap_err();
    assert!(matches!(error, Error::Locked { is_here: Some(true), .. }));
    assert!(error.to_string().ends_with("p.ever is open in this process already"), "{error}");
    drop(db);
    Db::open(&path).unwrap();
}

#[test]
fn the_durable_epoch_reaches_a_mark_without_further_writes() {
    let (_dir, db) = pool();
    db.tree("t").unwrap().insert("k", "v").unwrap();
    let mark = db.epoch();
    let start = std::time::Instant::now();
    while db.durable_epoch() < mark {
        assert!(start.elapsed().as_secs() < 300, "the clock stands still");
        std::thread::yield_now();
    }
    db.tree("t").unwrap().insert("k", "w").unwrap();
    let mark = db.epoch();
    db.sync().unwrap();
    assert!(db.durable_epoch() >= mark);
}

/// At most so many letters, from a to the last one.
fn text(last: u8, most: usize) -> impl Strategy<Value = String> {
    let letters = proptest::collection::vec(b'a'..=last, 0..=most);
    letters.prop_map(|letters| letters.into_iter().map(char::from).collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn ranges_give_what_a_map_gives(
        pairs in proptest::collection::btree_map(text(b'c', 4), text(b'z', 3), 0..120),
        from in text(b'c', 4), to in text(b'c', 4), turns in proptest::collection::vec(any::<bool>(), 130),
    ) {
        let (_dir, db) = pool();
        let tree = db.tree("t").unwrap();
        for (key, value) in &pairs {
            tree.insert(key, value).unwrap();
        }
        let wanted: Vec<_> = pairs.keys().filter(|key| **key >= from && **key < to).collect();
        let (mut low, mut high) = (Vec::new(), Vec::new());
        let mut range = tree.range(from.as_str()..to.as_str());
        for forward in turns {
            match forward {
                true => low.extend(range.next()),
                false => high.extend(range.next_back()),
            }
        }
        low.extend(high.into_iter().rev());
        let got: Vec<_> = low.into_iter().map(|pair| String::from_utf8(pair.unwrap().0.into()).unwrap()).collect();
        prop_assert_eq!(got.iter().collect::<Vec<_>>(), wanted);
    }
}

#[test]
fn without_threads_the_caller_decides_what_is_durable_and_when() {
    let (disk, options) = (SimIo::new(1), Options::new().background(false));
    let files = |name: &str| disk.peek(name.as_ref()).map_or(0, |bytes| bytes.len());
    let db = options.open_on(Arc::new(disk.clone()), "p").unwrap();
    let tree = db.tree("t").unwrap();
    for i in 0..500_u32 {
        tree.insert(i.to_le_bytes(), [7; 100]).unwrap();
    }
    assert_eq!((db.durable_epoch(), files("p")), (0, 8192), "nobody has asked for it");
    db.sync().unwrap();
    let journal_bytes = db.stats().unwrap().journal_bytes;
    assert!(journal_bytes > 50_000 && files("p") as u64 >= journal_bytes);
    let calls = disk.calls();
    tree.insert("later", "").unwrap();
    assert_eq!(disk.calls(), calls, "a write in memory");
    let cut = disk.power_cut(3);
    db.checkpoint().unwrap();
    assert_eq!((db.epoch(), db.durable_epoch()), (2, 1), "it has ended no epoch");
    db.sync().unwrap();
    db.checkpoint().unwrap();
    assert!(db.stats().unwrap().journal_bytes < 10_000);
    drop(db);
    let db = options.open_on(Arc::new(cut), "p").unwrap();
    assert_eq!(db.tree("t").unwrap().iter().count(), 500);
    db.checkpoint().unwrap();
    db.close().unwrap();
    let dax = Options::new().storage(everleaf::Storage::EmulatedDax);
    assert!(matches!(dax.open_on(Arc::new(disk), "d"), Err(Error::InvalidOption { .. })));
}

#[test]
fn an_insert_from_the_destructor_of_a_thread_local_is_one_like_any_other() {
    struct Last(everleaf::Tree);
    impl Drop for Last {
        fn drop(&mut self) {
            self.0.insert("last", "words").expect("room");
        }
    }
    thread_local! {
        static LAST: std::cell::RefCell<Option<Last>> = const { std::cell::RefCell::new(None) };
    }
    let dir = tempfile::tempdir().expect("a directory");
    let db = Db::open(dir.path().join("pool")).expect("it opens");
    let tree = db.tree("t").expect("room");
    let theirs = tree.clone();
    let thread = std::thread::spawn(move || {
        // Registered first, so it goes after what the insert registers.
        LAST.with(|last| *last.borrow_mut() = Some(Last(theirs.clone())));
        theirs.insert("first", "words").expect("room");
    });
    thread.join().expect("no panic");
    assert_eq!(tree.get("last").expect("readable"), Some(b"words".into()));
}
