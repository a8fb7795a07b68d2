use std::collections::BTreeMap;

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::*;

type ModelStore = BTreeMap<Vec<u8>, Vec<u8>>;

/// Random keys and values that a store takes: words, or byte strings of all lengths.
struct RandomSource {
    rng: Xoshiro256PlusPlus,
    words: bool,
    shortest: usize,
    shortest_value: usize,
}

impl RandomSource {
    fn key(&mut self) -> Vec<u8> {
        if self.words {
            // Few, so that keys come again, and far apart.
            return (self.rng.random_range(0..400u64) << 55).to_be_bytes().to_vec();
        }
        // The empty key is one of them where the store has it.
        let len = self.rng.random_range(self.shortest..self.shortest + 3);
        (0..len).map(|_| self.rng.random_range(0..20u8) * 12).collect()
    }

    fn value(&mut self) -> Vec<u8> {
        let len = if self.words { 8 } else { self.rng.random_range(self.shortest_value..1500) };
        (0..len).map(|_| self.rng.random()).collect()
    }
}

/// Pairs from a key on, descending.
fn expect_same_back(store: &dyn KvStore, model: &ModelStore, (from, limit): (&[u8], usize)) {
    let expected = model.range(..=from.to_vec()).rev().take(limit);
    let expected: Vec<_> = expected.map(|(key, value)| (key.clone(), value.clone())).collect();
    let mut found = Vec::new();
    let mut each = |key: &[u8], value: &[u8]| found.push((key.to_vec(), value.to_vec()));
    let count = store.scan_back(from, limit, &mut each).expect("no fault");
    assert!(found == expected, "{} pairs for {}", found.len(), expected.len());
    assert_eq!(count, found.len());
}

fn expect_same(name: &str, store: &dyn KvStore, model: &ModelStore, source: &mut RandomSource) {
    let first = if source.words { vec![0; 8] } else { vec![0; source.shortest] };
    let all: Vec<_> = model.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
    let (from, limit) = (source.key(), source.rng.random_range(0..20));
    if goes_back(name) {
        expect_same_back(store, model, (&from, limit));
        // No key is above, so that all are passed.
        expect_same_back(store, model, (&[255; 8], usize::MAX));
    }
    let some = model.range(from.clone()..).take(limit);
    let some: Vec<_> = some.map(|(key, value)| (key.clone(), value.clone())).collect();
    for (from, limit, expected) in [(&first, usize::MAX, &all), (&from, limit, &some)] {
        for by_cursor in [false, true] {
            let mut found = Vec::new();
            let mut each = |key: &[u8], value: &[u8]| found.push((key.to_vec(), value.to_vec()));
            let count = match by_cursor {
                true => store.scan_cursor(from, limit, &mut each),
                false => store.scan_range(from, limit, &mut each),
            };
            assert!(found == *expected, "{} pairs for {}", found.len(), expected.len());
            assert_eq!(count.expect("no fault"), found.len());
        }
    }
}

fn change(name: &str, store: &dyn KvStore, model: &mut ModelStore, source: &mut RandomSource) {
    match source.rng.random_range(0..11) {
        0 => {
            let pairs: Vec<_> = (0..source.rng.random_range(0..30))
                .map(|_| (source.key(), source.value()))
                .collect();
            store.put_all(&pairs).expect("no fault");
            model.extend(pairs);
        }
        1..5 => {
            let (key, value) = (source.key(), source.value());
            store.put(&key, &value).expect("no fault");
            model.insert(key, value);
        }
        5..8 => {
            let key = source.key();
            let was = store.remove(&key).expect("no fault");
            let expected = model.remove(&key).is_some();
            assert!(was == expected || (tells_nothing(name) && was), "{key:?}: {was}");
        }
        8 => {
            let (least, mut found) =
                (vec![0; if source.words { 8 } else { source.shortest }], None);
            let mut each = |key: &[u8], value: &[u8]| found = Some((key.to_vec(), value.to_vec()));
            let was = store.pop_first(&least, &mut each).expect("no fault");
            assert_eq!(found, model.pop_first());
            assert_eq!(was, found.is_some());
        }
        _ => {
            let key = source.key();
            let mut found = None;
            let is = store.get(&key, &mut |value| found = Some(value.to_vec())).expect("no fault");
            assert_eq!(found.as_ref(), model.get(&key));
            assert_eq!(is, found.is_some());
        }
    }
}

/// Stores whose removals do not say whether there was something.
fn tells_nothing(name: &str) -> bool {
    ["everleaf", "bf-tree", "fjall", "rocksdb"].contains(&name)
}

/// Stores without an empty key.
fn shortest_key(name: &str) -> usize {
    usize::from(["lmdb", "lmdb-writemap", "fjall", "bf-tree"].contains(&name))
}

/// Stores without an empty value, or without a pair of less than four bytes.
fn shortest_value(name: &str) -> usize {
    if name == "bf-tree" { 3 } else { 0 }
}

fn expect_agreement(name: &str, mode: SyncMode, operations: usize) {
    let dir = tempfile::tempdir().expect("a folder");
    let how = How { dir: dir.path().into(), mode, ..How::default() };
    let rng = Xoshiro256PlusPlus::seed_from_u64(11);
    let mut source = RandomSource {
        rng,
        words: has_words_only(name),
        shortest: shortest_key(name),
        shortest_value: shortest_value(name),
    };
    let mut model = ModelStore::new();
    for _life in 0..3 {
        let store = open(name, &how).expect("it opens");
        if is_volatile(name) {
            model.clear();
        }
        expect_same(name, &*store, &model, &mut source);
        for i in 0..operations {
            change(name, &*store, &mut model, &mut source);
            if i % 100 == 0 {
                expect_same(name, &*store, &model, &mut source);
            }
        }
        store.sync().expect("no fault");
        expect_same(name, &*store, &model, &mut source);
        store.close().expect("no fault");
    }
    assert!(model.len() > 100, "{} pairs", model.len());
}

#[test]
fn every_store_agrees_with_a_map_also_after_a_close() {
    for known in KNOWN.iter().filter(|known| lacks(known.name).is_none()) {
        println!("{}", known.name);
        expect_agreement(known.name, SyncMode::Buffered, 1000);
    }
}

#[test]
fn every_store_agrees_with_a_map_where_each_operation_is_synced() {
    for known in KNOWN.iter().filter(|known| lacks(known.name).is_none()) {
        if check(known.name, SyncMode::SyncEach).is_ok() {
            println!("{}", known.name);
            expect_agreement(known.name, SyncMode::SyncEach, 120);
        }
    }
}

#[test]
fn names_and_settings_are_told() {
    assert!(check("everleaf", SyncMode::SyncEach).is_ok());
    assert!(check("btreemap", SyncMode::SyncEach).is_err());
    assert!(check("dbm", SyncMode::Buffered).is_err() && lacks("dbm").is_none());
    for known in &KNOWN {
        let settings = settings(known.name, SyncMode::Buffered).expect("it is known");
        let version = version(known.package).unwrap_or_default();
        assert!(settings.contains(version) && settings.contains(known.buffered));
        assert_eq!(version.is_empty(), known.package.is_empty(), "{}", known.package);
        let told = transaction_settings(known.name).unwrap_or_default();
        assert_eq!(told.is_empty(), known.transactions.is_empty());
        assert!(
            told.is_empty() || told.starts_with(&settings) && told.ends_with(known.transactions)
        );
    }
}

#[test]
fn a_store_of_words_refuses_other_lengths() {
    let dir = tempfile::tempdir().expect("a folder");
    let how = How { dir: dir.path().into(), ..How::default() };
    let store = open("everleaf-index", &how).expect("it opens");
    assert!(store.put(b"short", &[0; 8]).is_err() && store.put(&[0; 8], b"").is_err());
    assert!(store.get(b"", &mut |_| ()).is_err());
}
