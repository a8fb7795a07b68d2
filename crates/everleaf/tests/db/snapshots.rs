//! Snapshots against maps that were copied at the same moment; beside writers; and at their bound.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, Ordering};

use everleaf::{Bytes, Cursor, Db, Error, Options, Pair, Snapshot, SnapshotTree, Swap, Tree};

use everleaf_testing::{count, seed_or, vecs};

use crate::cut::Rng;
use crate::pools::{dax, file, memory};

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

fn some_key(rng: &mut Rng) -> Vec<u8> {
    let n = rng.below(200);
    match rng.below(20) {
        0 => Vec::new(),
        1 => vec![b'x'; n as usize],
        2 => [&vec![b'p'; 700][..], &n.to_be_bytes()].concat(),
        3..10 => format!("a prefix of many keys/{n:04}").into_bytes(),
        _ => (n as u16).to_be_bytes().to_vec(),
    }
}

fn some_value(rng: &mut Rng) -> Vec<u8> {
    let longest = match rng.below(40) {
        0 => 100_000,
        1..4 => 6000,
        _ => 30,
    };
    let len = rng.below(longest) as usize;
    vec![rng.next() as u8; len]
}

/// One write that looks at what is there.
fn single(rng: &mut Rng, tree: &Tree, map: &mut Map) {
    let (key, value) = (some_key(rng), some_value(rng));
    match rng.below(7) {
        0 => assert_eq!(tree.pop_first().expect("memory").map(vecs), map.pop_first()),
        1 => assert_eq!(tree.pop_last().expect("memory").map(vecs), map.pop_last()),
        2 => {
            let is_new = tree.insert_new(&key, &value).expect("room");
            assert_eq!(is_new, !map.contains_key(&key));
            map.entry(key).or_insert(value);
        }
        3 => {
            let known = map.get(&key).cloned();
            // One that fails keeps nothing.
            let other = tree.compare_and_swap(&key, Some("another"), None);
            assert_eq!(other.expect("memory"), Swap::Found(known.clone().map(Bytes::from)));
            let new = rng.one_in(2).then_some(value);
            assert!(
                tree.compare_and_swap(&key, known.as_ref(), new.as_ref()).expect("room").is_done()
            );
            map.remove(&key);
            map.extend(new.map(|new| (key, new)));
        }
        4 => {
            let added = |old: Option<&[u8]>| [old.unwrap_or_default(), b"!"].concat();
            let updated = tree.update(&key, |old| Some(added(old))).expect("room");
            let new = added(map.get(&key).map(|old| &old[..]));
            assert_eq!(updated.as_ref(), Some(&new));
            map.insert(key, new);
        }
        5 => {
            let end = [&key[..], b"z"].concat();
            let gone: Vec<_> =
                map.range(key.clone()..end.clone()).map(|(k, _)| k.clone()).collect();
            assert_eq!(tree.remove_range(key..end).expect("memory"), gone.len() as u64);
            gone.iter().for_each(|key| drop(map.remove(key)));
        }
        _ => {
            assert_eq!(tree.replace(&key, &value).expect("room"), map.contains_key(&key));
            map.entry(key).and_modify(|old| *old = value);
        }
    }
}

/// One write of any kind, to the tree and to its map.
fn write(rng: &mut Rng, db: &Db, tree: &Tree, map: &mut Map) {
    let (key, value) = (some_key(rng), some_value(rng));
    match rng.below(10) {
        8 => single(rng, tree, map),
        0 => assert_eq!(
            tree.insert(&key, &value).expect("room").map(Bytes::into_vec),
            map.insert(key.clone(), value.clone())
        ),
        1 => assert_eq!(tree.remove(&key).expect("memory").map(Bytes::into_vec), map.remove(&key)),
        2 | 3 => {
            tree.delete(&key).expect("memory");
            map.remove(&key);
        }
        4 => {
            let mut batch = db.batch();
            for _ in 0..5 {
                let (key, value) = (some_key(rng), some_value(rng));
                batch.put(tree, &key, &value).expect("memory");
                map.insert(key, value);
            }
            batch.delete(tree, &key).expect("memory");
            map.remove(&key);
            batch.commit().expect("room");
        }
        5 => {
            tree.put_from(&key, &value[..], value.len() as u64).expect("room");
            map.insert(key, value);
        }
        _ => {
            tree.put(&key, &value).expect("room");
            map.insert(key, value);
        }
    }
}

/// A tree at a moment has the pairs of a map, in whichever way one asks.
fn expect_map(rng: &mut Rng, tree: &SnapshotTree, map: &Map, what: &str) {
    let pairs: Vec<_> = tree.iter().map(|pair| vecs(pair.expect("sound"))).collect();
    let of_map: Vec<_> = map.iter().map(|(k, v)| (k.clone(), v.clone())).collect();
    assert!(pairs == of_map, "{what}: upwards");
    let mut down: Vec<_> = tree.iter().rev().map(|pair| vecs(pair.expect("sound"))).collect();
    down.reverse();
    assert!(down == of_map, "{what}: downwards");
    let keys: Vec<_> = tree.keys().map(|key| key.expect("sound")).collect();
    assert!(keys.iter().eq(map.keys()), "{what}: keys");
    let owned =
        |pair: Option<(&Vec<u8>, &Vec<u8>)>| pair.map(|(k, v)| (k[..].into(), v[..].into()));
    assert!(tree.first().expect("sound") == owned(map.first_key_value()), "{what}: first");
    assert!(tree.last().expect("sound") == owned(map.last_key_value()), "{what}: last");
    for _ in 0..40 {
        let (key, other) = (some_key(rng), some_key(rng));
        let value = map.get(&key);
        let found = tree.get(&key).expect("sound");
        assert!(found.as_deref() == value.map(Vec::as_slice), "{what}: get {key:?}");
        assert_eq!(tree.contains(&key).expect("sound"), value.is_some(), "{what}: {key:?}");
        let len = value.map(|value| value.len() as u64);
        assert_eq!(tree.value_len(&key).expect("sound"), len, "{what}: {key:?}");
        assert!(tree.get_with(&key, <[u8]>::to_vec).expect("sound").as_ref() == value, "{what}");
        let (mut buf, from) = ([1; 10], rng.below(40));
        let read = tree.read_at(&key, from, &mut buf).expect("sound");
        let part = value.map(|value| value.get(from as usize..).unwrap_or_default());
        assert_eq!(read, part.map(|part| part.len().min(10)), "{what}: a part of {key:?}");
        if let Some((bytes, part)) = read.zip(part) {
            assert_eq!(buf[..bytes], part[..bytes], "{what}: a part of {key:?}");
        }
        let below = map.range::<[u8], _>((Bound::Unbounded, Bound::Included(&key[..])));
        assert!(tree.floor(&key).expect("sound") == owned(below.last()), "{what}: floor {key:?}");
        let above = map.range::<[u8], _>((Bound::Included(&key[..]), Bound::Unbounded));
        assert!(tree.ceiling(&key).expect("sound") == owned(above.clone().next()), "{what}");
        let (low, high) = if key < other { (&key, &other) } else { (&other, &key) };
        let mut both = tree.range(low.clone()..high.clone());
        let mut of_map = map.range(low.clone()..high.clone()).map(|(k, v)| (k.clone(), v.clone()));
        for _ in 0..20 {
            let (found, right) = match rng.one_in(2) {
                true => (both.next(), of_map.next()),
                false => (both.next_back(), of_map.next_back()),
            };
            assert!(
                found.map(|pair| vecs(pair.expect("sound"))) == right,
                "{what}: {low:?}..{high:?}"
            );
        }
    }
    walk(rng, tree, map, what);
}

/// A cursor goes up and down as in the map.
fn walk(rng: &mut Rng, tree: &SnapshotTree, map: &Map, what: &str) {
    let mut cursor = tree.cursor();
    let key = some_key(rng);
    let mut at = map.range::<[u8], _>((Bound::Included(&key[..]), Bound::Unbounded)).next();
    assert_eq!(cursor.seek(&key).expect("sound"), at.is_some(), "{what}: seek {key:?}");
    while let Some((key, value)) = at {
        let pair = cursor.pair().expect("sound");
        assert!(pair == Some((&key[..], &value[..])), "{what}: at {key:?}");
        let up = rng.below(5) > 0;
        at = match up {
            true => map.range::<Vec<u8>, _>((Bound::Excluded(key), Bound::Unbounded)).next(),
            false => map.range::<Vec<u8>, _>(..key).next_back(),
        };
        let moved = if up { cursor.next() } else { cursor.prev() };
        assert_eq!(moved.expect("sound"), at.is_some(), "{what}: beside {key:?}");
    }
}

fn against_maps(db: &Db, seed: u64, rounds: u64) {
    println!("seed {seed}");
    let mut rng = Rng(seed);
    let trees = ["a", "b"].map(|name| db.tree(name).expect("room"));
    let mut maps = [Map::new(), Map::new()];
    let mut open: VecDeque<(Snapshot, [Map; 2])> = VecDeque::new();
    for round in 0..rounds {
        for _ in 0..rng.below(60) {
            let which = rng.below(2) as usize;
            write(&mut rng, db, &trees[which], &mut maps[which]);
        }
        if rng.below(3) > 0 && open.len() < 6 {
            open.push_back((db.snapshot().expect("open"), maps.clone()));
        }
        for (n, (snapshot, maps)) in open.iter().enumerate() {
            let which = rng.below(2) as usize;
            let tree = snapshot.of(&trees[which]).expect("of this pool");
            expect_map(&mut rng, &tree, &maps[which], &format!("round {round}, snapshot {n}"));
        }
        if rng.one_in(2) && !open.is_empty() {
            drop(open.remove(rng.below(open.len() as u64) as usize));
        }
    }
    drop(open);
    for (tree, map) in trees.iter().zip(&maps) {
        let snapshot = db.snapshot().expect("open");
        expect_map(&mut rng, &snapshot.of(tree).expect("of this pool"), map, "at the end");
    }
    assert_eq!(db.check().expect("readable"), []);
}

#[test]
fn a_snapshot_stays_as_the_trees_were() {
    for (page_bytes, seed) in [(512, 1), (1024, 2), (4096, 3)] {
        against_maps(&file(page_bytes), seed, 40);
    }
}

#[test]
fn a_snapshot_of_a_pool_in_memory_stays_as_the_trees_were() {
    against_maps(&memory(1024), 6, 30);
}

#[test]
fn a_snapshot_of_persistent_memory_stays_as_the_trees_were() {
    for (page_bytes, seed) in [(256, 4), (1024, 5)] {
        let dir = tempfile::tempdir().expect("a directory");
        against_maps(&dax(dir.path(), page_bytes), seed, 30);
    }
}

/// A cursor that stays open, and where it is among the pairs of its moment: at one of them, or in front of it.
struct Walker {
    cursor: Cursor,
    place: Option<(usize, bool)>,
}

impl Walker {
    fn go(&mut self, rng: &mut Rng, pairs: &[(Vec<u8>, Vec<u8>)], key: &[u8], what: &str) {
        let (cursor, end) = (&mut self.cursor, pairs.len());
        let above = match self.place {
            None => 0,
            Some((at, is_there)) => at + usize::from(is_there),
        };
        let below = self.place.map_or(end, |(at, _)| at).checked_sub(1);
        let (found, to, up) = match rng.below(30) {
            0 => (cursor.first(), Some(0), true),
            1 => (cursor.last(), end.checked_sub(1), false),
            2 => {
                let at = pairs.partition_point(|(k, _)| k[..] < *key);
                (cursor.seek(key), Some(at), true)
            }
            3 => {
                let behind = pairs.partition_point(|(k, _)| k[..] <= *key);
                (cursor.seek_for_prev(key), behind.checked_sub(1), false)
            }
            4..20 => (cursor.next(), Some(above), true),
            _ => (cursor.prev(), below, false),
        };
        let pair = to.and_then(|at| pairs.get(at));
        let found =
            found.unwrap_or_else(|error| panic!("{what}: {error} {:?}, up {up}", self.place));
        assert_eq!(found, pair.is_some(), "{what}: {:?}, up {up}", self.place);
        assert_eq!(cursor.key(), pair.map(|(k, _)| &k[..]), "{what}: {:?}, up {up}", self.place);
        if rng.below(4) > 0 {
            let value = cursor.value().expect("sound");
            assert!(value == pair.map(|(_, v)| &v[..]), "{what}: {:?}, up {up}", self.place);
        }
        self.place = match (pair, to) {
            (Some(_), Some(at)) => Some((at, true)),
            // A new cursor of an empty tree knows no place.
            _ if pairs.is_empty() => None,
            _ => Some((if up { end } else { 0 }, false)),
        };
    }
}

/// A change of many keys that lie side by side, or here and there: so leaves have none, few and very many changes, merge
/// until one has all that others had, and split.
fn burst(rng: &mut Rng, tree: &Tree, map: &mut Map, key: &dyn Fn(u64) -> Vec<u8>) {
    let (first, n) = (rng.below(3000), rng.pick(&[1, 10, 100, 1500]));
    let step = rng.pick(&[1, 1, 7]);
    match rng.below(4) {
        0 => {
            let (low, high) = (key(first), key(first + n));
            tree.remove_range(low.clone()..high.clone()).expect("room");
            let gone: Vec<_> = map.range(low..high).map(|(k, _)| k.clone()).collect();
            gone.iter().for_each(|key| drop(map.remove(key)));
        }
        1 => (0..n).map(|i| key(first + step * i)).for_each(|key| {
            tree.delete(&key).expect("room");
            map.remove(&key);
        }),
        _ => {
            let len = rng.pick(&[0, 5, 16, 16, 300, if n < 200 { 1500 } else { 16 }]);
            let value = vec![rng.next() as u8; len];
            (0..n).map(|i| key(first + step * i)).for_each(|key| {
                tree.put(&key, &value).expect("room");
                map.insert(key, value.clone());
            });
        }
    }
}

/// Cursors of several moments stay open while others write, and go as in maps of these moments.
fn walkers_against_maps(db: &Db, (seed, rounds): (u64, u64), key: &dyn Fn(u64) -> Vec<u8>) {
    let mut rng = Rng(seed);
    let (tree, mut map) = (db.tree("t").expect("room"), Map::new());
    let mut open: VecDeque<(Vec<_>, Vec<Walker>)> = VecDeque::new();
    for round in 0..rounds {
        let what = format!("seed {seed}, round {round}");
        for _ in 0..rng.below(5) {
            burst(&mut rng, &tree, &mut map, key);
        }
        if rng.one_in(30) {
            tree.clear().expect("room");
            map.clear();
        }
        if rng.one_in(2) && open.len() < 4 {
            let then = db.snapshot().and_then(|snapshot| snapshot.of(&tree)).expect("open");
            let new = || Walker { cursor: then.cursor(), place: None };
            open.push_back((map.clone().into_iter().collect(), vec![new(), new()]));
        }
        for (pairs, walkers) in &mut open {
            for walker in walkers {
                for _ in 0..rng.pick(&[1, 20, 400]) {
                    let near = key(rng.below(4600));
                    walker.go(&mut rng, pairs, &near, &what);
                    if rng.one_in(200) {
                        burst(&mut rng, &tree, &mut map, key);
                    }
                }
            }
        }
        if rng.one_in(3) {
            open.pop_front();
        }
    }
}

#[test]
fn cursors_that_stay_open_in_a_snapshot_go_as_in_its_map() {
    let seed = seed_or(1);
    println!("EVERLEAF_SEED={seed}");
    let short = |i: u64| i.to_be_bytes()[6..].to_vec();
    // With so long a beginning that a leaf does not keep all of a key.
    let long = |i: u64| [&[b'k'; 900][..], &i.to_be_bytes()].concat();
    // Some that a leaf does not keep whole, among others.
    let both = |i: u64| format!("k{i:06}{}", "x".repeat(if i % 50 == 7 { 900 } else { 0 }));
    let both = |i: u64| both(i).into_bytes();
    let dir = tempfile::tempdir().expect("a directory");
    for seed in seed..seed + count(1, 60) {
        walkers_against_maps(&file(4096), (seed, 25), &short);
        walkers_against_maps(&file(512), (seed, 25), &both);
        walkers_against_maps(&file(1024), (seed, 8), &long);
    }
    // Enters a leaf downwards at a key that the leaf does not keep whole.
    walkers_against_maps(&file(512), (9, 16), &both);
    walkers_against_maps(&dax(dir.path(), 1024), (seed, 8), &short);
}

/// Batches move what is in accounts: each snapshot sees the same sum, while leaves split and merge.
#[test]
fn a_snapshot_sees_all_of_a_batch_or_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    for db in [Options::new().page_bytes(512).open(dir.path().join("p")).expect("opens"), {
        dax(dir.path(), 256)
    }] {
        let trees = ["a", "b"].map(|name| db.tree(name).expect("room"));
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for own in 0..2_u64 {
                let (db, trees, stop) = (&db, &trees, &stop);
                scope.spawn(move || {
                    let mut rng = Rng(own);
                    while !stop.load(Ordering::Relaxed) {
                        // The same key is in both trees or in neither.
                        let key = format!("{own}/{:04}", rng.below(400));
                        let mut batch = db.batch();
                        for tree in trees {
                            if rng.0 & 4 == 0 {
                                batch.put(tree, &key, vec![rng.0 as u8; 20]).expect("memory");
                            } else {
                                batch.delete(tree, &key).expect("memory");
                            }
                        }
                        batch.commit().expect("room");
                    }
                });
            }
            // Also if this panics: else the others would go on for ever.
            let _stop = scopeguard::guard((), |()| stop.store(true, Ordering::Relaxed));
            for round in 0..60 {
                let snapshot = db.snapshot().expect("open");
                let [mut a, b] = trees.each_ref().map(|tree| snapshot.of(tree).expect("its own"));
                let mut pairs = Vec::new();
                for pair in b.iter().rev() {
                    pairs.push(vecs(pair.expect("sound")));
                }
                pairs.reverse();
                let found: Vec<_> = a.iter().map(|pair| vecs(pair.expect("sound"))).collect();
                assert!(found == pairs, "round {round}: {} and {}", found.len(), pairs.len());
                a = snapshot.tree("a").expect("open").expect("there");
                assert!(a.iter().map(|pair| vecs(pair.expect("sound"))).eq(pairs), "round {round}");
            }
        });
    }
}

/// A cursor reads a large value when it is asked for it, which may be after the pair has another one, or is gone.
#[test]
fn a_cursor_of_a_snapshot_reads_a_large_value_that_is_gone() {
    let dir = tempfile::tempdir().expect("a directory");
    for db in [file(512), dax(dir.path(), 256)] {
        let tree = db.tree("t").expect("room");
        for key in ["a", "b"] {
            tree.put(key, [1; 50_000]).expect("room");
        }
        let seen = db.snapshot().expect("open").of(&tree).expect("its own");
        let mut cursor = seen.cursor();
        for key in ["a", "b"] {
            assert!(cursor.seek(key).expect("sound"));
            if key == "a" { tree.put(key, [2; 50_000]) } else { tree.delete(key) }.expect("room");
            let pair = cursor.pair().expect("kept");
            assert!(pair == Some((key.as_bytes(), &[1; 50_000][..])), "{key}");
        }
    }
}

#[test]
fn the_oldest_snapshot_is_given_up_when_memory_is_used_up() {
    let dir = tempfile::tempdir().expect("a directory");
    let options = Options::new().snapshot_memory(100_000);
    let db = options.open(dir.path().join("p")).expect("opens");
    let tree = db.tree("t").expect("room");
    for i in 0..2000_u32 {
        tree.put(i.to_be_bytes(), [1; 100]).expect("room");
    }
    tree.put("large", vec![1; 50_000]).expect("room");
    let old = db.snapshot().expect("open");
    let seen = old.of(&tree).expect("its own");
    for i in 0..100_u32 {
        tree.put(i.to_be_bytes(), [2; 100]).expect("room");
    }
    let young = db.snapshot().expect("open");
    tree.delete("large").expect("room");
    assert_eq!(seen.get(0_u32.to_be_bytes()).expect("kept"), Some(vec![1; 100].into()));
    assert!(matches!(seen.get("large"), Err(Error::SnapshotTooOld { bytes_max: 100_000 })));
    for i in 0..340_u32 {
        tree.put(i.to_be_bytes(), [3; 100]).expect("writers go on");
    }
    let mut cursor = seen.cursor();
    let errors = [
        seen.get(1999_u32.to_be_bytes()).map(drop),
        seen.iter().next().expect("an error").map(drop),
        cursor.first().map(drop),
    ];
    for error in errors {
        assert!(matches!(error, Err(Error::SnapshotTooOld { .. })), "{error:?}");
    }
    let seen = young.of(&tree).expect("its own");
    assert_eq!(seen.get(0_u32.to_be_bytes()).expect("kept"), Some(vec![2; 100].into()));
    assert_eq!(seen.get(300_u32.to_be_bytes()).expect("kept"), Some(vec![1; 100].into()));
}

#[test]
fn a_snapshot_of_a_closed_pool_or_for_another_pool_is_refused() {
    let (db, other) = (file(4096), file(4096));
    let tree = db.tree("t").expect("room");
    tree.put("a", "1").expect("room");
    let snapshot = db.snapshot().expect("open");
    let foreign = other.tree("t").expect("room");
    assert!(matches!(snapshot.of(&foreign), Err(Error::OtherPool { .. })));
    assert!(snapshot.tree("none").expect("open").is_none());
    let seen = snapshot.clone().of(&tree).expect("its own");
    tree.put("b", "kept").expect("room");
    db.clone().close().expect("room");
    for key in ["a", "b", "none"] {
        assert!(matches!(seen.get(key), Err(Error::Closed)), "{key}");
        assert!(matches!(seen.contains(key), Err(Error::Closed)), "{key}");
    }
    assert!(matches!(seen.iter().next(), Some(Err(Error::Closed))));
    assert!(matches!(db.snapshot(), Err(Error::Closed)));
}

/// A value that was too large to be kept is an error of its own reads alone: walks give it in its place and go on.
#[test]
fn a_value_that_was_too_large_to_be_kept_is_an_error_in_its_place() {
    let dir = tempfile::tempdir().expect("a directory");
    let options = Options::new().snapshot_memory(64 << 10).background(false);
    let db = options.open(dir.path().join("p.ever")).expect("new");
    let tree = db.tree("t").expect("new");
    for key in ["a", "b", "c", "d"] {
        tree.put(key, if key == "b" { vec![1; 40_000] } else { vec![2; 10] }).expect("room");
    }
    let (snapshot, tx) = (db.snapshot().expect("open"), db.begin());
    assert!(tx.of(&tree).and_then(|reads| reads.contains("a")).expect("there"));
    tree.put("b", "new").expect("room");
    tree.delete("c").expect("there");
    let is_too_old = |error: &Error| matches!(error, Error::SnapshotTooOld { .. });
    let then = snapshot.of(&tree).expect("of this pool");
    for key in ["a", "c", "d"] {
        assert_eq!(then.get(key).expect("kept"), Some(vec![2; 10].into()), "{key}");
    }
    assert!(then.get("b").is_err_and(|error| is_too_old(&error)));
    let seen = |pairs: Vec<everleaf::Result<Pair>>| -> String {
        let name = |pair: &everleaf::Result<Pair>| match pair {
            Ok((key, _)) => char::from(key[0]),
            Err(error) if is_too_old(error) => '!',
            Err(error) => panic!("{error}"),
        };
        pairs.iter().map(name).collect()
    };
    assert_eq!(seen(then.iter().collect()), "a!cd");
    assert_eq!(seen(then.iter().rev().collect()), "dc!a");
    assert_eq!(seen(then.range("b"..="c").collect()), "!c");
    // It is no part of these.
    assert_eq!(seen(then.range("a"..="a").collect()), "a");
    assert_eq!(seen(then.range("a".."b").collect()), "a");
    assert_eq!(seen(then.range("c"..).rev().collect()), "dc");
    let reads = tx.of(&tree).expect("of this pool");
    assert_eq!(seen(reads.iter().collect()), "a!cd");
    assert_eq!(seen(reads.iter().rev().collect()), "dc!a");
    macro_rules! passes {
        ($cursor:expr) => {{
            let mut cursor = $cursor;
            assert!(cursor.first().expect("kept"));
            assert!(cursor.next().is_err_and(|error| is_too_old(&error)));
            assert_eq!(cursor.key(), None);
            assert_eq!(cursor.value().expect("none"), None);
            assert!(cursor.next().expect("kept"));
            assert_eq!(cursor.pair().expect("kept"), Some((&b"c"[..], &[2; 10][..])));
            assert!(cursor.prev().is_err_and(|error| is_too_old(&error)));
            assert_eq!(cursor.key(), None);
            assert_eq!(cursor.pair().expect("none"), None);
            assert!(cursor.prev().expect("kept"));
            assert_eq!(cursor.pair().expect("kept"), Some((&b"a"[..], &[2; 10][..])));
            assert!(cursor.seek("b").is_err_and(|error| is_too_old(&error)));
            assert!(cursor.next().expect("kept"));
            assert_eq!(cursor.key(), Some(&b"c"[..]));
            assert!(cursor.seek_for_prev("bb").is_err_and(|error| is_too_old(&error)));
            assert!(cursor.prev().expect("kept"));
            assert_eq!(cursor.key(), Some(&b"a"[..]));
            // From there it goes back, or finds what it could not read again.
            assert!(cursor.seek("b").is_err_and(|error| is_too_old(&error)));
            match cursor.prev() {
                Ok(found) => assert!(found && cursor.key() == Some(b"a")),
                Err(error) => assert!(is_too_old(&error)),
            }
        }};
    }
    passes!(then.cursor());
    passes!(tx.cursor(&tree));
    let then = snapshot.of(&tree).expect("alive");
    assert_eq!(then.get("d").expect("kept"), Some(vec![2; 10].into()));
}

/// The same where the range had the pair's leaf before the value went.
#[test]
fn a_range_goes_on_behind_a_value_that_was_not_kept() {
    let dir = tempfile::tempdir().expect("a directory");
    let options = Options::new().snapshot_memory(64 << 10).background(false);
    for up in [true, false] {
        let db = options.open(dir.path().join(format!("{up}.ever"))).expect("new");
        let tree = db.tree("t").expect("new");
        for key in ["a", "b", "c", "d"] {
            let value = if matches!(key, "b" | "c") { vec![1; 40_000] } else { vec![2; 10] };
            tree.put(key, value).expect("room");
        }
        let (snapshot, tx) = (db.snapshot().expect("open"), db.begin());
        assert!(tx.contains(&tree, "a").expect("there"));
        let then = snapshot.of(&tree).expect("of this pool");
        let mut ranges: [Box<dyn Iterator<Item = everleaf::Result<Pair>>>; 2] =
            [Box::new(then.iter()), Box::new(tx.iter(&tree))];
        if !up {
            ranges = [Box::new(then.iter().rev()), Box::new(tx.iter(&tree).rev())];
        }
        for range in &mut ranges {
            assert!(range.next().is_some_and(|pair| pair.is_ok()));
        }
        let gone = if up { "b" } else { "c" };
        tree.put(gone, "new").expect("room");
        for mut range in ranges {
            let refused = range.next().expect("an error in its place");
            assert!(matches!(refused, Err(Error::SnapshotTooOld { .. })), "{refused:?}");
            let keys: Vec<_> = range.map(|pair| pair.expect("kept").0).collect();
            assert_eq!(keys, if up { [b"c", b"d"] } else { [b"b", b"a"] });
        }
    }
}

/// A thread lends the memory of its last cursor to the next one, which may be of another pool.
#[test]
fn a_cursor_knows_nothing_of_the_pool_that_its_memory_served_before() {
    let key = |n: u32| n.to_be_bytes();
    let fill = |db: &Db, pairs: u32| {
        let tree = db.tree("t").expect("room");
        (0..pairs).for_each(|n| tree.put(key(n), [7; 40]).expect("room"));
        db.snapshot().expect("open").of(&tree).expect("of this pool")
    };
    let dir = tempfile::tempdir().expect("a directory");
    let large = memory(512);
    let small = Options::new().page_bytes(512).journal_bytes(16 << 10).max_bytes(120 << 10);
    let small = small.open(dir.path().join("pool")).expect("opens");
    let (all, few) = (fill(&large, 3000), fill(&small, 100));
    for n in 0..100 {
        let mut cursor = all.cursor();
        assert!(cursor.last().expect("whole") && !cursor.next().expect("whole"));
        drop(cursor);
        let mut cursor = few.cursor();
        assert!(cursor.seek(key(n)).expect("whole"));
        assert_eq!(cursor.key(), Some(&key(n)[..]));
    }
}
