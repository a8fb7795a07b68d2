//! Large values, and long keys, that stay in memory: they are what the tree holds, whoever writes meanwhile and
//! however little memory there is, and the disk is not asked for them twice.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use everleaf::{Bytes, Db, Options, Tree};
use everleaf_file::io::SimIo;
use everleaf_testing::{count, seed_or, vecs};

use crate::cut;
use crate::cut::disk::Disk;
use crate::cut::{Rng, inspect};

const KIB: usize = 1 << 10;

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

fn options(memory: u64) -> Options {
    Options::new().background(false).max_bytes(256 << 20).memory(memory)
}

fn on_disk(disk: &Disk, memory: u64) -> Db {
    options(memory).open_on(Arc::new(disk.clone()), cut::PATH).expect("opens")
}

/// A value that tells its key, its round, and whether it is whole.
fn value(key: u64, round: u64, len: usize) -> Vec<u8> {
    let head = [key, round].map(u64::to_le_bytes).concat();
    let mut bytes: Vec<u8> = Rng(key ^ round << 20 ^ (len as u64) << 44).bytes(len.max(16));
    bytes[..16].copy_from_slice(&head);
    bytes
}

/// The round of a value, which has to be whole and of this key.
fn round_of(key: u64, bytes: &[u8]) -> u64 {
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
    assert_eq!(word(0), key, "another key's value");
    assert!(bytes == value(key, word(8), bytes.len()), "key {key}: parts of two values");
    word(8)
}

#[test]
fn what_was_written_or_read_is_not_read_from_the_disk_again() {
    let long = |i: u64| [&[b'k'; 5000][..], &i.to_be_bytes()].concat();
    let (disk, pairs) = (Disk::new(SimIo::new(1)), 60_u64);
    let read = |disk: &Disk, tree: &Tree| {
        let before = disk.bytes_read();
        for i in 0..pairs {
            let get = tree.get(i.to_be_bytes()).expect("sound").expect("there");
            assert_eq!((round_of(i, &get), get.len()), (1, 300 * i as usize + 600));
            let mut part = [0; 100];
            assert_eq!(tree.read_at(i.to_be_bytes(), 400, &mut part).expect("sound"), Some(100));
            assert_eq!(part, get[400..500]);
            let short = tree.get(long(i)).expect("sound").expect("there");
            assert_eq!(round_of(i, &short), 2);
        }
        let (mut cursor, mut seen) = (tree.cursor(), 0);
        while cursor.next().expect("sound") {
            seen += usize::from(cursor.value().expect("sound").is_some());
        }
        while cursor.prev().expect("sound") {
            seen += usize::from(cursor.value().expect("sound").is_some());
        }
        assert_eq!(seen as u64, 4 * pairs);
        assert_eq!(tree.iter().map(|pair| drop(pair.expect("sound"))).count() as u64, 2 * pairs);
        disk.bytes_read() - before
    };
    let db = on_disk(&disk, 64 << 20);
    let tree = db.tree("t").expect("room");
    for i in 0..pairs {
        tree.put(i.to_be_bytes(), value(i, 1, 300 * i as usize + 600)).expect("room");
        tree.put(long(i), value(i, 2, 40)).expect("room");
    }
    assert_eq!(read(&disk, &tree), 0, "what was written is there");
    let memory = db.stats().expect("sound").memory;
    assert!(memory.value_bytes > 800 << 10 && memory.value_bytes < memory.bytes, "{memory:?}");
    assert_eq!((memory.value_misses, memory.value_evictions), (0, 0), "{memory:?}");
    inspect(&db, "as written");
    db.close().expect("no fault");
    let db = on_disk(&disk, 64 << 20);
    let tree = db.tree("t").expect("there");
    assert!(read(&disk, &tree) > 800 << 10, "it was closed");
    assert_eq!(read(&disk, &tree), 0, "what was read is there");
    // A value that replaces another one, or comes in pieces, is not read as one that was there.
    for i in 0..pairs {
        let new = value(i, 7, 2000);
        match i % 3 {
            0 => tree.put(i.to_be_bytes(), &new).expect("room"),
            1 => tree.put_from(i.to_be_bytes(), &new[..], 2000).expect("room"),
            _ => {
                assert!(tree.remove(i.to_be_bytes()).expect("no fault").is_some());
                tree.put_from(i.to_be_bytes(), &new[..], 2000).expect("room");
            }
        }
    }
    (0..pairs).for_each(|i| {
        let found = tree.get(i.to_be_bytes()).expect("sound").expect("there");
        assert_eq!((round_of(i, &found), found.len()), (7, 2000));
    });
    inspect(&db, "replaced");
}

#[test]
fn values_that_are_gone_take_no_memory() {
    let db = on_disk(&Disk::new(SimIo::new(1)), 64 << 20);
    let tree = db.tree("t").expect("room");
    let held = || db.stats().expect("sound").memory.value_bytes;
    (0..100_u64).for_each(|i| tree.put(i.to_be_bytes(), value(i, 1, 9000)).expect("room"));
    assert!(held() > 900_000, "{} bytes", held());
    // A replaced value goes as well as a removed one.
    (0..50_u64).for_each(|i| tree.put(i.to_be_bytes(), "short").expect("room"));
    (50..100_u64).for_each(|i| tree.delete(i.to_be_bytes()).expect("no fault"));
    assert!(held() < 100_000, "{} bytes of no values", held());
}

#[test]
fn a_value_that_is_too_long_for_memory_is_read_each_time() {
    let disk = Disk::new(SimIo::new(1));
    let db = on_disk(&disk, 1 << 20);
    let tree = db.tree("t").expect("room");
    for (len, stays) in [(64 * KIB, true), (64 * KIB + 1, false)] {
        tree.put("k", value(1, 1, len)).expect("room");
        // Until then the disk has not heard of it.
        db.sync().expect("no fault");
        let read = || {
            let before = disk.bytes_read();
            let found = tree.get("k").expect("sound").expect("there");
            assert_eq!(round_of(1, &found), 1);
            disk.bytes_read() - before
        };
        assert_eq!([read(), read()].map(|bytes| bytes == 0), [stays; 2], "{len}");
    }
}

/// One step on a tree and on its model.
fn step(tree: &Tree, map: &mut Map, rng: &mut Rng, round: u64) {
    let i = rng.below(60);
    let key_len = [8, 8, 300, 600, 5000][i as usize % 5];
    let key = [&vec![b'k'; key_len - 8][..], &i.to_be_bytes()].concat();
    let edges = [16, 400, 503, 504, 505, 1000, 3990, 4096, 4097, 9000, 70 * KIB];
    let new = value(i, round, rng.pick(&edges) + rng.below(3) as usize);
    let old = map.get(&key).cloned();
    match rng.below(12) {
        0..4 => {
            tree.put(&key, &new).expect("room");
            map.insert(key, new);
        }
        4 => {
            assert_eq!(tree.insert(&key, &new).expect("room").map(Bytes::into_vec), old);
            map.insert(key, new);
        }
        5 => {
            assert_eq!(tree.remove(&key).expect("no fault").map(Bytes::into_vec), old);
            map.remove(&key);
        }
        6 => {
            let expected = if rng.below(3) == 0 { Some(new.clone()) } else { old.clone() };
            let swapped = tree.compare_and_swap(&key, expected.as_deref(), Some(&new));
            if swapped.expect("room").is_done() {
                assert_eq!(expected, old);
                map.insert(key, new);
            } else {
                assert_ne!(expected, old);
            }
        }
        7 => assert_eq!(tree.pop_first().expect("no fault").map(vecs), map.pop_first()),
        8 => {
            let pairs = tree.range((Bound::Excluded(&key), Bound::Unbounded));
            let pairs = pairs.take(9).map(|pair| vecs(pair.expect("sound")));
            let range = map.range::<Vec<u8>, _>((Bound::Excluded(&key), Bound::Unbounded));
            assert!(pairs.eq(range.take(9).map(|(k, v)| (k.clone(), v.clone()))));
        }
        9 => {
            let mut cursor = tree.cursor();
            let mut is_there = cursor.seek_for_prev(&key).expect("sound");
            for (key, value) in map.range(..=key).rev().take(9) {
                assert!(is_there && cursor.key() == Some(key));
                if rng.below(3) > 0 {
                    assert!(cursor.value().expect("sound") == Some(value));
                }
                is_there = cursor.prev().expect("sound");
            }
        }
        _ => assert!(tree.get(&key).expect("sound").map(Bytes::into_vec) == old),
    }
}

#[test]
fn trees_of_large_values_are_maps_however_little_memory_there_is() {
    for memory in [64 << 10, 256 << 10, 1 << 20, 64 << 20] {
        let seed = seed_or(memory);
        let (disk, mut map, mut rng) = (Disk::new(SimIo::new(1)), Map::new(), Rng(seed));
        let mut db = on_disk(&disk, memory);
        let mut tree = db.tree("t").expect("room");
        let mut snapshot: Option<(everleaf::Snapshot, Map)> = None;
        for round in 0..count(1_500, 20_000) {
            step(&tree, &mut map, &mut rng, round);
            if rng.below(10) == 0 {
                db.sync().expect("no fault");
            }
            if round % 150 == 0 {
                if let Some((at, then)) = snapshot.take() {
                    let pairs = at.tree("t").expect("sound").expect("there");
                    let found = pairs.iter().map(|pair| vecs(pair.expect("sound")));
                    assert!(found.eq(then), "seed {seed}: a snapshot");
                }
                snapshot = Some((db.snapshot().expect("room"), map.clone()));
                db.checkpoint().expect("no fault");
                let found = tree.iter().map(|pair| vecs(pair.expect("sound")));
                assert!(found.eq(map.clone()), "seed {seed}: round {round}");
                inspect(&db, "on the way");
            }
            if round % 500 == 499 {
                drop((snapshot.take(), tree));
                db.close().expect("no fault");
                db = on_disk(&disk, memory);
                tree = db.tree("t").expect("there");
            }
        }
        let stats = db.stats().expect("sound").memory;
        assert!(stats.value_bytes <= memory, "{stats:?}");
        println!("{memory} bytes: {stats:?}");
    }
}

#[test]
fn values_and_pages_share_the_memory() {
    let db = on_disk(&Disk::new(SimIo::new(1)), 4 << 20);
    let tree = db.tree("t").expect("room");
    for i in 0..8000_u64 {
        tree.put(i.to_be_bytes(), value(i, 0, 1000)).expect("room");
        if i % 50 == 0 {
            db.sync().expect("no fault");
            let memory = db.stats().expect("sound").memory;
            assert!(memory.bytes <= memory.most_bytes + (64 << 10), "{memory:?}");
        }
    }
    db.checkpoint().expect("no fault");
    // A few that are read again and again stay beside all others that are read once.
    for round in 0..8000_u64 {
        for i in [round % 8, round] {
            assert_eq!(round_of(i, &tree.get(i.to_be_bytes()).expect("sound").expect("there")), 0);
        }
    }
    let before = db.stats().expect("sound").memory;
    assert!(before.value_evictions > 3000 && before.value_bytes > 1 << 20, "{before:?}");
    (0..8_u64).for_each(|i| drop(tree.get(i.to_be_bytes()).expect("sound")));
    let misses = db.stats().expect("sound").memory.value_misses - before.value_misses;
    assert!(misses <= 2, "{misses} of 8 had left");
    assert!(before.bytes <= before.most_bytes, "{before:?}");
}

/// It is held together with the cache, which may let it go, and with its record, which may become another's.
#[test]
fn what_a_reader_is_shown_stays_whatever_becomes_of_its_pair() {
    let db = on_disk(&Disk::new(SimIo::new(1)), 512 << 10);
    let tree = db.tree("t").expect("room");
    let put = |key: u64, round, len| tree.put(key.to_be_bytes(), value(key, round, len));
    // Records are used again, and others push the value out of memory.
    let churn = |round| {
        assert!(tree.delete(7_u64.to_be_bytes()).is_ok());
        for key in 8..300 {
            put(key, round, 5000).expect("room");
            if key % 20 == 0 {
                db.sync().expect("no fault");
            }
        }
        db.checkpoint().expect("no fault");
        put(7, round, 3000).expect("room");
    };
    for (round, len) in [(1, 600), (2, 3000), (3, 20_000)] {
        put(7, round, len).expect("room");
        let shown = tree.get_with(7_u64.to_be_bytes(), |shown| {
            churn(round + 10);
            (round_of(7, shown), shown.len())
        });
        assert_eq!(shown.expect("sound"), Some((round, len)));
        put(7, round, len).expect("room");
        let mut cursor = tree.cursor();
        assert!(cursor.seek(7_u64.to_be_bytes()).expect("sound"));
        assert!(cursor.next().and_then(|_| cursor.prev()).expect("sound"), "by a copy of the leaf");
        assert!(cursor.value().expect("sound").is_some());
        churn(round + 20);
        let (key, shown) = cursor.pair().expect("sound").expect("it has it");
        assert_eq!((key, round_of(7, shown), shown.len()), (&7_u64.to_be_bytes()[..], round, len));
        assert_eq!(
            tree.get(7_u64.to_be_bytes()).expect("sound"),
            Some(value(7, round + 20, 3000).into())
        );
    }
    let memory = db.stats().expect("sound").memory;
    assert!(memory.value_evictions > 0, "{memory:?}");
}

/// Writers replace, remove and come back; readers see whole values of their keys, and never an older round than
/// they have seen. Names of records and pages are used again and again, and memory holds a part of it.
#[test]
fn readers_never_see_a_value_of_before() {
    const KEYS: u64 = 40;
    for memory in [128 << 10, 1 << 20, 64 << 20] {
        let db = Options::new().memory(memory).max_bytes(1 << 30);
        let db = db.open_on(Arc::new(SimIo::new(1)), cut::PATH).expect("opens");
        let (tree, stop) = (db.tree("t").expect("room"), AtomicBool::new(false));
        // A reader may rely on these: for each key a round whose write has returned.
        let done: Vec<_> = (0..KEYS).map(|_| AtomicU64::new(0)).collect();
        let key = |i: u64| match i % 4 {
            0 => [&[b'l'; 900][..], &i.to_be_bytes()].concat(),
            _ => i.to_be_bytes().to_vec(),
        };
        let rounds = count(400, 6_000);
        thread::scope(|s| {
            for reader in 0..2 {
                let (tree, stop, done) = (&tree, &stop, &done);
                s.spawn(move || {
                    let mut rng = Rng(reader + 1);
                    while !stop.load(Ordering::Relaxed) {
                        let i = rng.below(KEYS);
                        let least = done[i as usize].load(Ordering::SeqCst);
                        if let Some(found) = tree.get(key(i)).expect("sound") {
                            assert!(round_of(i, &found) >= least, "key {i}: before {least}");
                        }
                        let mut cursor = tree.cursor();
                        let mut is_there = cursor.seek(key(i)).expect("sound");
                        for _ in 0..6 {
                            if !is_there {
                                break;
                            }
                            let at = cursor.key().expect("at a pair");
                            let tail: [u8; 8] = at[at.len() - 8..].try_into().expect("8 bytes");
                            let i = u64::from_be_bytes(tail);
                            if let Some(found) = cursor.value().expect("sound") {
                                round_of(i, found);
                            }
                            is_there = cursor.next().expect("sound");
                        }
                    }
                });
            }
            let writers: Vec<_> = (0..2_u64)
                .map(|writer| {
                    let (tree, done) = (&tree, &done);
                    s.spawn(move || {
                        let mut rng = Rng(writer + 77);
                        for round in 1..=rounds {
                            let i = 2 * rng.below(KEYS / 2) + writer;
                            let len = rng.pick(&[100, 600, 1000, 4000, 20_000]);
                            match rng.below(6) {
                                0 => drop(tree.remove(key(i)).expect("room")),
                                1 => {
                                    let new = value(i, round, len);
                                    let bytes = new.len() as u64;
                                    tree.put_from(key(i), &new[..], bytes).expect("room");
                                }
                                _ => tree.put(key(i), value(i, round, len)).expect("room"),
                            }
                            done[i as usize].store(round, Ordering::SeqCst);
                        }
                    })
                })
                .collect();
            let ended = writers.into_iter().map(|writer| writer.join()).collect::<Vec<_>>();
            stop.store(true, Ordering::Relaxed);
            ended.into_iter().for_each(|result| result.expect("a writer"));
        });
        inspect(&db, "after all");
    }
}
