//! Cursors against a map, with writes between their steps; beside other threads; over damage; and of
//! handles that are not valid any more.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use everleaf::{Bytes, Cursor, Db, Error, Keys, Options, Tree};
use everleaf_file::io::SimIo;
use everleaf_testing::vecs;

use crate::cut;
use crate::cut::Rng;
use crate::pools::{dax, file, memory};

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// Short keys, keys that share bytes, keys that no page holds, and now and then a very long one.
fn some_key(rng: &mut Rng) -> Vec<u8> {
    let n = rng.below(300);
    match rng.below(20) {
        0 => Vec::new(),
        1 => vec![b'x'; n as usize],
        2 => [&vec![b'p'; 700][..], &n.to_be_bytes()].concat(),
        3 if n < 20 => [&vec![b'q'; 65_000][..], &vec![7; 20 * n as usize]].concat(),
        4..10 => format!("a prefix of many keys/{n:04}").into_bytes(),
        _ => (n as u16).to_be_bytes().to_vec(),
    }
}

fn some_value(rng: &mut Rng) -> Vec<u8> {
    let longest = match rng.below(30) {
        0 => 200_000,
        1..4 => 6000,
        4..8 => 600,
        _ => 20,
    };
    let len = rng.below(longest) as usize;
    vec![rng.next() as u8; len]
}

/// Where a cursor is: what its documentation says of it.
#[derive(Debug, Clone, PartialEq)]
enum Place {
    New,
    Before(Vec<u8>),
    At(Vec<u8>),
    After(Vec<u8>),
}

impl Place {
    fn next(self, map: &Map) -> Self {
        let from = match &self {
            Place::New => Bound::Unbounded,
            Place::Before(key) => Bound::Included(key),
            Place::At(key) | Place::After(key) => Bound::Excluded(key),
        };
        match map.range((from.cloned(), Bound::Unbounded)).next() {
            Some((key, _)) => Place::At(key.clone()),
            None => match self {
                Place::At(key) => Place::After(key),
                place => place,
            },
        }
    }
    fn prev(self, map: &Map) -> Self {
        let to = match &self {
            Place::New => Bound::Unbounded,
            Place::After(key) => Bound::Included(key),
            Place::At(key) | Place::Before(key) => Bound::Excluded(key),
        };
        match map.range((Bound::Unbounded, to.cloned())).next_back() {
            Some((key, _)) => Place::At(key.clone()),
            None => match self {
                Place::At(key) => Place::Before(key),
                place => place,
            },
        }
    }
}

fn write(tree: &Tree, map: &mut Map, rng: &mut Rng) {
    let key = match rng.below(3) {
        0 => map.keys().nth(rng.below(1 + map.len() as u64) as usize).cloned(),
        _ => None,
    };
    let key = key.unwrap_or_else(|| some_key(rng));
    if rng.below(5) < 2 {
        assert_eq!(tree.remove(&key).expect("sound").map(Bytes::into_vec), map.remove(&key));
    } else {
        let value = some_value(rng);
        assert_eq!(
            tree.insert(&key, &value).expect("room").map(Bytes::into_vec),
            map.insert(key, value)
        );
    }
}

/// Moves a cursor, and its place in the map.
fn step(cursor: &mut Cursor, place: Place, map: &Map, rng: &mut Rng) -> (bool, Place) {
    match rng.below(40) {
        0 => (cursor.first().expect("sound"), Place::New.next(map)),
        1 => (cursor.last().expect("sound"), Place::New.prev(map)),
        2..4 => {
            let key = some_key(rng);
            (cursor.seek(&key).expect("sound"), Place::Before(key).next(map))
        }
        4..6 => {
            let key = some_key(rng);
            (cursor.seek_for_prev(&key).expect("sound"), Place::After(key).prev(map))
        }
        6..28 => (cursor.next().expect("sound"), place.next(map)),
        _ => (cursor.prev().expect("sound"), place.prev(map)),
    }
}

fn look_up(tree: &Tree, map: &Map, key: &[u8]) {
    let mut value = vec![1, 2, 3];
    assert_eq!(tree.get_into(key, &mut value).expect("sound"), map.contains_key(key));
    assert_eq!(&value, map.get(key).unwrap_or(&Vec::new()));
    assert_eq!(tree.get_with(key, <[u8]>::to_vec).expect("sound").as_ref(), map.get(key));
    let len = map.get(key).map(|value| value.len() as u64);
    assert_eq!(tree.value_len(key).expect("sound"), len);
    let owned = |(key, value): (&Vec<u8>, &Vec<u8>)| (key[..].into(), value[..].into());
    let floor = map.range::<[u8], _>((Bound::Unbounded, Bound::Included(key))).next_back();
    assert_eq!(tree.floor(key).expect("sound"), floor.map(owned));
    let ceiling = map.range::<[u8], _>((Bound::Included(key), Bound::Unbounded)).next();
    assert_eq!(tree.ceiling(key).expect("sound"), ceiling.map(owned));
}

fn keys_of(keys: impl Iterator<Item = everleaf::Result<Bytes>>) -> Vec<Vec<u8>> {
    keys.map(|key| key.expect("sound").into()).collect()
}

fn as_a_map(db: &Db, seed: u64, steps: usize) {
    let tree = db.tree("t").expect("room");
    let (mut rng, mut map) = (Rng(seed), Map::new());
    let mut cursors: Vec<_> = (0..3).map(|_| (tree.cursor(), Place::New)).collect();
    for _ in 0..300 {
        write(&tree, &mut map, &mut rng);
    }
    for i in 0..steps {
        if rng.below(3) == 0 {
            write(&tree, &mut map, &mut rng);
        }
        let (cursor, place) = &mut cursors[i % 3];
        let (found, to) = step(cursor, place.clone(), &map, &mut rng);
        let key = match &to {
            Place::At(key) if found => Some(key.as_slice()),
            _ => None,
        };
        assert_eq!((found, cursor.key()), (key.is_some(), key), "step {i} from {place:?}");
        let value = key.map(|key| map[key].as_slice());
        assert!(cursor.value().expect("sound") == value, "step {i}: the value of {to:?}");
        *place = to;
        if i % 50 == 0 {
            look_up(&tree, &map, &some_key(&mut rng));
            let keys: Vec<_> = map.keys().cloned().collect();
            assert_eq!(keys_of(tree.keys()), keys);
            assert!(keys_of(tree.keys().rev()).iter().eq(keys.iter().rev()));
        }
    }
    let pairs: Vec<_> = tree.iter().map(|pair| vecs(pair.expect("sound"))).collect();
    assert!(pairs.into_iter().eq(map));
    assert_eq!(db.check().expect("readable"), []);
}

#[test]
fn cursors_on_a_file_go_as_in_a_map() {
    for (seed, page_bytes) in [(1, 512), (2, 512), (3, 4096), (4, 4096)] {
        as_a_map(&file(page_bytes), seed, 6000);
    }
}

#[test]
fn cursors_in_memory_go_as_in_a_map() {
    as_a_map(&memory(512), 7, 3000);
}

#[test]
fn cursors_on_persistent_memory_go_as_in_a_map() {
    for (seed, page_bytes) in [(5, 512), (6, 4096)] {
        let dir = tempfile::tempdir().expect("a directory");
        as_a_map(&dax(dir.path(), page_bytes), seed, 3000);
    }
}

/// Keys that stay, every other one, and keys that come and go between them.
fn beside_writers(db: &Db) {
    const KEYS: u32 = 3000;
    let tree = db.tree("t").expect("room");
    for key in (0..KEYS).step_by(2) {
        tree.put(key.to_be_bytes(), key.to_le_bytes()).expect("room");
    }
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for seed in 1..3 {
            let (tree, done) = (&tree, &done);
            scope.spawn(move || {
                let mut rng = Rng(seed);
                while !done.load(Ordering::Relaxed) {
                    let key = (rng.below(u64::from(KEYS) / 2) as u32 * 2 + 1).to_be_bytes();
                    match rng.below(3) {
                        0 => tree.delete(key).expect("sound"),
                        _ => tree.put(key, [seed as u8; 60]).expect("room"),
                    }
                }
            });
        }
        let mut cursor = tree.cursor();
        for pass in 0..40 {
            let mut met = BTreeSet::new();
            let mut last: Option<Vec<u8>> = None;
            let up = pass % 2 == 0;
            let mut found = if up { cursor.first() } else { cursor.last() }.expect("sound");
            while found {
                let key = cursor.key().expect("it is at a pair").to_vec();
                let is_further = last.as_ref().is_none_or(|last| (key > *last) == up);
                assert!(is_further && last.as_ref() != Some(&key), "{last:?}, then {key:?}");
                let number = u32::from_be_bytes(key.as_slice().try_into().expect("four bytes"));
                let value = cursor.value().expect("sound").expect("it is in the page");
                if number % 2 == 0 {
                    assert_eq!(value, number.to_le_bytes());
                    met.insert(number);
                } else {
                    assert!(value == [1; 60] || value == [2; 60]);
                }
                last = Some(key);
                found = if up { cursor.next() } else { cursor.prev() }.expect("sound");
            }
            assert!(met.into_iter().eq((0..KEYS).step_by(2)));
        }
        done.store(true, Ordering::Relaxed);
    });
    assert_eq!(db.check().expect("readable"), []);
}

#[test]
fn keys_that_stay_are_met_once_beside_writers() {
    beside_writers(&file(512));
    beside_writers(&file(4096));
    let dir = tempfile::tempdir().expect("a directory");
    beside_writers(&dax(dir.path(), 4096));
}

#[test]
fn a_cursor_goes_on_from_where_a_removed_pair_was() {
    let db = file(512);
    let tree = db.tree("t").expect("room");
    for key in 0..100u8 {
        tree.put([key], [key]).expect("room");
    }
    let mut cursor = tree.cursor();
    assert!(cursor.seek([50]).expect("sound"));
    for key in 40..60 {
        tree.delete([key]).expect("sound");
    }
    assert_eq!(cursor.key(), Some(&[50][..]));
    assert_eq!(cursor.value().expect("sound"), Some(&[50][..]));
    assert!(cursor.next().expect("sound"));
    assert_eq!(cursor.key(), Some(&[60][..]));
    assert!(cursor.prev().expect("sound"));
    assert_eq!(cursor.key(), Some(&[39][..]));
    // Behind the end, and what comes there.
    assert!(cursor.last().expect("sound") && !cursor.next().expect("sound"));
    assert_eq!(cursor.key(), None);
    assert_eq!(cursor.value().expect("sound"), None);
    tree.put([200], "new").expect("room");
    assert!(cursor.next().expect("sound"));
    assert_eq!(cursor.key(), Some(&[200][..]));
}

#[test]
fn a_large_value_that_was_removed_is_none_and_a_new_one_is_given() {
    let db = file(4096);
    let tree = db.tree("t").expect("room");
    tree.put("k", vec![1; 100_000]).expect("room");
    let mut cursor = tree.cursor();
    assert!(cursor.first().expect("sound"));
    tree.put("k", vec![2; 50_000]).expect("room");
    assert_eq!(cursor.value().expect("sound"), Some(&vec![2; 50_000][..]));
    assert!(cursor.first().expect("sound"));
    tree.delete("k").expect("sound");
    assert_eq!(cursor.value().expect("sound"), None);
    assert_eq!(cursor.key(), Some(&b"k"[..]));
}

#[test]
fn cursors_of_closed_and_dropped_trees_have_no_pair() {
    let dir = tempfile::tempdir().expect("a directory");
    for pool in 0..4 {
        let closes = pool % 2 == 1;
        let db = match pool {
            0 | 1 => file(512),
            _ => dax(dir.path(), 512),
        };
        let tree = db.tree("t").expect("room");
        tree.put("a", "1").expect("room");
        tree.put("b", vec![2; 100_000]).expect("room");
        let mut cursor = tree.cursor();
        assert!(cursor.last().expect("sound"));
        let mut range = tree.iter();
        assert!(range.next().is_some());
        if closes {
            db.close().expect("no fault");
        } else {
            assert!(db.drop_tree("t").expect("room"));
        }
        let refused = |result: &everleaf::Result<bool>| match result {
            Err(Error::Closed) => closes,
            Err(Error::NoTree) => !closes,
            _ => false,
        };
        assert!(refused(&cursor.value().map(|value| value.is_some())));
        assert!(refused(&cursor.next()) && refused(&cursor.prev()));
        assert!(refused(&cursor.seek("a")) && refused(&cursor.first()));
        assert_eq!(cursor.key(), None);
        assert!(refused(&tree.get_into("a", &mut Vec::new())));
        assert!(refused(&tree.get_with("a", |_| true).map(|found| found.is_some())));
        assert!(refused(&tree.value_len("a").map(|len| len.is_some())));
        assert!(refused(&range.next().expect("an error").map(|_| true)));
        assert!(range.next().is_none());
    }
}

#[test]
fn cursors_are_send_and_sync_and_tell_where_they_are() {
    fn check<T: Send + Sync>() {}
    check::<Cursor>();
    check::<Keys>();
    let db = file(512);
    let tree = db.tree("t").expect("room");
    tree.put("a", "1").expect("room");
    let mut cursor = tree.cursor();
    cursor.first().expect("sound");
    assert_eq!(format!("{cursor:?}"), r#"Cursor { tree: "t", key: Some([97]), .. }"#);
}

/// A pool in which a page of records is damaged.
fn damaged(pairs: u16, key: impl Fn(u16) -> Vec<u8>) -> Db {
    let sim = SimIo::new(3);
    let open = || {
        let options = Options::new().background(false).max_bytes(64 << 20).page_bytes(4096);
        options.open_on(Arc::new(sim.clone()), cut::PATH).expect("opens")
    };
    let first = open();
    let tree = first.tree("t").expect("room");
    for i in 0..pairs {
        tree.put(key(i), format!("the value of {i:05}")).expect("room");
    }
    first.close().expect("no fault");
    let path = Path::new(cut::PATH);
    let file = sim.peek(path).expect("there");
    let at = file.windows(18).rposition(|bytes| bytes == b"the value of 00100").expect("there");
    sim.poke(path, at as u64, &[0; 8]);
    open()
}

/// Keys of which the leaf keeps a part, on a disk where a page of their records is damaged: a cursor is
/// told of each of them once, also if it turns round, and finds all others.
#[test]
fn a_cursor_goes_past_pairs_that_cannot_be_read() {
    const PAIRS: u16 = 200;
    let key = |i: u16| [&vec![b'k'; 1000][..], &i.to_be_bytes()].concat();
    let db = damaged(PAIRS, key);
    let tree = db.tree("t").expect("sound");
    let told = |result: everleaf::Result<bool>, cursor: &Cursor| match result {
        Ok(true) => Some(Some(cursor.key().expect("it is at a pair").to_vec())),
        Ok(false) => None,
        Err(Error::Corrupt { .. }) => {
            assert_eq!(cursor.key(), None);
            Some(None)
        }
        Err(error) => panic!("{error}"),
    };
    let mut cursor = tree.cursor();
    let mut up = Vec::new();
    while let Some(found) = {
        let result = cursor.next();
        told(result, &cursor)
    } {
        up.push(found);
    }
    assert_eq!(up.len(), usize::from(PAIRS));
    assert!((0..).zip(&up).all(|(i, found)| found.as_ref().is_none_or(|found| *found == key(i))));
    let lost = up.iter().filter(|found| found.is_none()).count();
    assert!((1..20).contains(&lost), "{lost}");
    let mut down = Vec::new();
    while let Some(found) = {
        let result = cursor.prev();
        told(result, &cursor)
    } {
        down.push(found);
    }
    down.reverse();
    assert_eq!(down, up);
    // The leaf changes while the cursor is among them.
    cursor.first().expect("sound");
    let mut again = vec![Some(key(0))];
    for i in 0.. {
        tree.put(key(PAIRS + 1 + i % 3), [i as u8]).expect("room");
        let result = cursor.next();
        match told(result, &cursor) {
            Some(found) if found.as_ref().is_none_or(|found| *found < key(PAIRS)) => {
                again.push(found)
            }
            _ => break,
        }
    }
    assert_eq!(again, up);
    let keys = tree.keys().take(usize::from(PAIRS)).map(|key| key.ok().map(Bytes::into_vec));
    assert!(keys.eq(up.iter().cloned()));
    // A range meets what cannot be read only if it may be inside.
    let first = up.iter().position(Option::is_none).expect("one is lost") as u16;
    let before = tree.range(key(0)..key(first - 1));
    assert_eq!(before.filter(Result::is_err).count(), 0);
}
