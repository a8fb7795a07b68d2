//! Everything that a transaction reads and writes, against a map, and against a tree on which the same is done
//! without a transaction; and writes beside its own iterators.

use std::collections::BTreeMap;
use std::ops::Bound;

use everleaf::{Bytes, Db, Error, Pair, Transaction, Tree};
use everleaf_testing::vecs;

use crate::cut::Rng;
use crate::pools::{dax, file, memory};

type Map = BTreeMap<Vec<u8>, Vec<u8>>;
type Bounds = (Bound<Vec<u8>>, Bound<Vec<u8>>);

fn on_each(test: impl Fn(&Db)) {
    test(&file(512));
    test(&memory(512));
    let dir = tempfile::tempdir().expect("a directory");
    test(&dax(dir.path(), 256));
}

/// Few keys, so that they meet; the empty one, and ones that follow another at once.
fn some_key(rng: &mut Rng) -> Vec<u8> {
    match rng.below(12) {
        0 => Vec::new(),
        1 => vec![0; rng.below(4) as usize],
        2 => vec![0xFF; rng.below(4) as usize],
        3 => [&vec![b'p'; 700][..], &[rng.below(6) as u8]].concat(),
        _ => {
            vec![b'k', rng.below(12) as u8, rng.below(2) as u8][..1 + rng.below(3) as usize].into()
        }
    }
}

fn some_value(rng: &mut Rng) -> Vec<u8> {
    let longest = if rng.one_in(30) { 9000 } else { 20 };
    vec![rng.next() as u8; rng.below(longest) as usize]
}

fn some_bounds(rng: &mut Rng) -> Bounds {
    let mut bound = || {
        let key = some_key(rng);
        match rng.below(5) {
            0 => Bound::Unbounded,
            1 | 2 => Bound::Included(key),
            _ => Bound::Excluded(key),
        }
    };
    (bound(), bound())
}

/// The pairs of a map between two bounds, which may leave none.
fn between(map: &Map, bounds: &Bounds) -> Vec<Pair> {
    use std::ops::RangeBounds;
    let pairs = map.iter().filter(|(key, _)| RangeBounds::<Vec<u8>>::contains(bounds, *key));
    pairs.map(|(key, value)| (key[..].into(), value[..].into())).collect()
}

/// A transaction, a tree without one, and a map, to which the same happens.
struct Three<'t> {
    tx: &'t Transaction,
    tree: &'t Tree,
    plain: &'t Tree,
    map: &'t mut Map,
}

/// Asks the transaction and the plain tree the same; both have the answer that is expected.
macro_rules! both {
    ($three:ident . $name:ident ( $($arg:expr),* ), $wanted:expr) => {{
        let wanted = $wanted;
        let of_tree = $three.plain.$name($($arg),*).expect("sound");
        let of_tx = $three.tx.$name($three.tree, $($arg),*).expect("sound");
        assert!(of_tree == wanted, "{}: {of_tree:?} of the tree, not {wanted:?}", stringify!($name));
        assert!(of_tx == wanted, "{}: {of_tx:?}, not {wanted:?}", stringify!($name));
    }};
}

fn given((key, value): (Vec<u8>, Vec<u8>)) -> Pair {
    (key.into(), value.into())
}

fn owned(pair: Option<(&Vec<u8>, &Vec<u8>)>) -> Option<Pair> {
    pair.map(|(key, value)| (key[..].into(), value[..].into()))
}

impl Three<'_> {
    fn read(&mut self, rng: &mut Rng) {
        let key = some_key(rng);
        let value = self.map.get(&key).cloned();
        match rng.below(13) {
            0 => both!(self.get(&key), value.map(Bytes::from)),
            1 => both!(self.contains(&key), value.is_some()),
            2 => both!(self.value_len(&key), value.map(|value| value.len() as u64)),
            3 => both!(self.get_with(&key, <[u8]>::to_vec), value),
            4 => {
                let mut found = vec![7; 3];
                both!(self.get_into(&key, &mut found), value.is_some());
                assert!(value.is_none_or(|value| value == found));
            }
            5 => {
                let (offset, mut buf) = (rng.below(30), [9; 8]);
                let part = value.map(|v| v.get(offset as usize..).unwrap_or_default().to_vec());
                both!(self.read_at(&key, offset, &mut buf), part.as_ref().map(|p| p.len().min(8)));
                if let Some(part) = part {
                    let bytes = part.len().min(8);
                    assert_eq!(buf[..bytes], part[..bytes]);
                }
                both!(self.read_at(&key, u64::MAX, &mut buf), self.map.get(&key).map(|_| 0));
            }
            6 => both!(self.first(), owned(self.map.first_key_value())),
            7 => both!(self.last(), owned(self.map.last_key_value())),
            8 => {
                let below = (Bound::Unbounded, Bound::Included(key.clone()));
                both!(self.floor(&key), between(self.map, &below).pop());
            }
            9 => {
                let above = (Bound::Included(key.clone()), Bound::Unbounded);
                both!(self.ceiling(&key), between(self.map, &above).into_iter().next());
            }
            10 => both!(self.len(), self.map.len() as u64),
            11 => both!(self.is_empty(), self.map.is_empty()),
            _ => self.iterate(rng),
        }
    }

    /// Takes some from either end.
    fn iterate(&mut self, rng: &mut Rng) {
        let bounds = some_bounds(rng);
        let (mut range, wanted) = match rng.below(3) {
            0 => {
                (self.tx.iter(self.tree), between(self.map, &(Bound::Unbounded, Bound::Unbounded)))
            }
            1 => {
                let prefix = some_key(rng);
                let mut wanted: Vec<_> = between(self.map, &(Bound::Unbounded, Bound::Unbounded));
                wanted.retain(|(key, _)| key.starts_with(&prefix));
                (self.tx.prefix(self.tree, prefix), wanted)
            }
            _ => (self.tx.range(self.tree, bounds.clone()), between(self.map, &bounds)),
        };
        let mut wanted = std::collections::VecDeque::from(wanted);
        for _ in 0..rng.below(20) {
            let (found, right) = match rng.one_in(2) {
                true => (range.next(), wanted.pop_front()),
                false => (range.next_back(), wanted.pop_back()),
            };
            assert_eq!(found.transpose().expect("sound"), right, "{bounds:?}");
        }
        let keys: everleaf::Result<Vec<_>> = range.keys().collect();
        assert!(keys.expect("sound").iter().eq(wanted.iter().map(|(key, _)| key)));
    }

    fn write(&mut self, rng: &mut Rng) {
        let (key, value) = (some_key(rng), some_value(rng));
        let old = self.map.get(&key).cloned();
        match rng.below(14) {
            0..3 => {
                both!(self.put(&key, &value), ());
                self.map.insert(key, value);
            }
            3 => {
                both!(self.delete(&key), ());
                self.map.remove(&key);
            }
            4 => {
                let before = self.map.insert(key.clone(), value.clone());
                both!(self.insert(&key, &value), before.map(Bytes::from));
            }
            5 => both!(self.remove(&key), self.map.remove(&key).map(Bytes::from)),
            6 => {
                both!(self.insert_new(&key, &value), old.is_none());
                self.map.entry(key).or_insert(value);
            }
            7 => {
                both!(self.replace(&key, &value), old.is_some());
                self.map.entry(key).and_modify(|old| *old = value);
            }
            8 => {
                let new = rng.one_in(2).then_some(value);
                let other = Some(b"another".to_vec());
                let found = everleaf::Swap::Found(old.clone().map(Bytes::from));
                both!(self.compare_and_swap(&key, other.as_ref(), new.as_ref()), found);
                let done = everleaf::Swap::Done;
                both!(self.compare_and_swap(&key, old.as_ref(), new.as_ref()), done);
                self.map.remove(&key);
                self.map.extend(new.map(|new| (key, new)));
            }
            9 => {
                let new = rng.below(3) > 0;
                let longer = |old: &[u8]| [old, b"!"].concat();
                let new = new.then(|| longer(old.as_deref().unwrap_or_default()));
                let change = |found: Option<&[u8]>| {
                    assert_eq!(found, old.as_deref());
                    new.clone()
                };
                both!(self.update(&key, change), new.clone());
                self.map.remove(&key);
                self.map.extend(new.map(|new| (key, new)));
            }
            10 => both!(self.pop_first(), self.map.pop_first().map(given)),
            11 => both!(self.pop_last(), self.map.pop_last().map(given)),
            12 if rng.one_in(8) => {
                both!(self.clear(), self.map.len() as u64);
                self.map.clear();
            }
            _ => {
                let bounds = some_bounds(rng);
                let gone = between(self.map, &bounds);
                both!(self.remove_range(bounds.clone()), gone.len() as u64);
                gone.iter().for_each(|(key, _)| drop(self.map.remove(&key[..])));
            }
        }
    }
}

#[test]
fn a_transaction_does_all_that_a_tree_does() {
    on_each(|db| {
        for seed in 0..2 {
            println!("seed {seed}");
            let mut rng = Rng(seed);
            let (tree, plain) = (db.tree("t").expect("room"), db.tree("plain").expect("room"));
            tree.clear().expect("room");
            let mut map = Map::new();
            for _ in 0..120 {
                let tx = db.begin();
                plain.clear().expect("room");
                map.iter().for_each(|(key, value)| plain.put(key, value).expect("room"));
                let mut own = map.clone();
                let mut three = Three { tx: &tx, tree: &tree, plain: &plain, map: &mut own };
                for _ in 0..rng.below(40) {
                    if rng.one_in(2) { three.write(&mut rng) } else { three.read(&mut rng) }
                }
                if rng.below(4) > 0 {
                    tx.commit().expect("nobody is in its way");
                    map = own;
                }
                let found = tree
                    .iter()
                    .map(|pair| pair.map(vecs))
                    .collect::<everleaf::Result<Map>>()
                    .expect("sound");
                assert!(found == map);
            }
        }
        assert_eq!(db.check().expect("readable"), []);
    });
}

/// Where a cursor is: at a pair, or before a key.
enum Place {
    At(Vec<u8>),
    Before(Vec<u8>),
    New,
}

/// Moves a cursor that is somewhere: what it says, between which bounds it looks, and whether from below.
fn go(
    cursor: &mut everleaf::TransactionCursor<'_>,
    rng: &mut Rng,
    place: &Place,
) -> (everleaf::Result<bool>, Bounds, bool) {
    let (key, all) = (some_key(rng), || Bound::Unbounded);
    match rng.below(8) {
        0 => (cursor.first(), (all(), all()), true),
        1 => (cursor.last(), (all(), all()), false),
        2 => (cursor.seek(&key), (Bound::Included(key), all()), true),
        3 => (cursor.seek_for_prev(&key), (all(), Bound::Included(key)), false),
        4 | 5 => {
            let from = match place {
                Place::At(key) => Bound::Excluded(key.clone()),
                Place::Before(key) => Bound::Included(key.clone()),
                Place::New => all(),
            };
            (cursor.next(), (from, all()), true)
        }
        _ => {
            let to = match place {
                Place::At(key) | Place::Before(key) => Bound::Excluded(key.clone()),
                Place::New => all(),
            };
            (cursor.prev(), (all(), to), false)
        }
    }
}

/// The cursor of a transaction that writes beside it, and a map.
#[test]
fn a_cursor_of_a_transaction_goes_as_in_a_map() {
    on_each(|db| {
        for seed in 0..60 {
            let mut rng = Rng(seed);
            let tree = db.tree(&format!("t{seed}")).expect("room");
            let mut map = Map::new();
            for _ in 0..rng.below(30) {
                let (key, value) = (some_key(&mut rng), some_value(&mut rng));
                tree.put(&key, &value).expect("room");
                map.insert(key, value);
            }
            let tx = db.begin();
            let mut cursor = tx.cursor(&tree);
            // Its moment is that of the first read.
            assert_eq!(tx.is_empty(&tree).expect("sound"), map.is_empty());
            let mut place = Place::New;
            for _ in 0..60 {
                if rng.one_in(3) {
                    let (key, value) = (some_key(&mut rng), some_value(&mut rng));
                    if rng.one_in(2) {
                        tx.put(&tree, &key, &value).expect("memory");
                        map.insert(key, value);
                    } else {
                        tx.delete(&tree, &key).expect("memory");
                        map.remove(&key);
                    }
                }
                // Others do not matter.
                tree.put(some_key(&mut rng), "of another").expect("room");
                let (found, bounds, up) = go(&mut cursor, &mut rng, &place);
                let mut pairs = between(&map, &bounds);
                let right = if up { pairs.into_iter().next() } else { pairs.pop() };
                assert_eq!(found.expect("sound"), right.is_some(), "seed {seed}: {bounds:?}");
                assert_eq!(cursor.key(), right.as_ref().map(|(key, _)| &key[..]), "seed {seed}");
                let value = right.as_ref().map(|(_, value)| &value[..]);
                assert_eq!(cursor.value().expect("sound"), value, "seed {seed}");
                let pair = right.as_ref().map(|(key, value)| (&key[..], &value[..]));
                assert_eq!(cursor.pair().expect("sound"), pair, "seed {seed}");
                place = match (right, bounds) {
                    (Some((key, _)), _) => Place::At(key.into()),
                    (None, (Bound::Excluded(key), _)) => Place::Before([&key[..], &[0]].concat()),
                    (None, (Bound::Included(key), _)) => Place::Before(key),
                    (None, (_, Bound::Included(key))) => Place::Before([&key[..], &[0]].concat()),
                    (None, (_, Bound::Excluded(key))) => Place::Before(key),
                    (None, _) => Place::Before(Vec::new()),
                };
            }
        }
    });
}

/// A transaction that has read in any of these ways fails to commit if others have changed what it read, and only then.
#[test]
fn each_way_to_read_is_validated_and_nothing_beside_it() {
    type Read = fn(&Transaction, &Tree);
    // Keys are 10, 20 … 90. Each way reads the keys of the first list; those of the second one, `no`, are beside them.
    let reads: [(&str, Read, &[u8], &[u8]); 20] = [
        ("get", |tx, t| drop(tx.get(t, [20])), &[20], &[10, 21, 30]),
        ("get_into", |tx, t| drop(tx.get_into(t, [20], &mut Vec::new())), &[20], &[21]),
        ("get_with", |tx, t| drop(tx.get_with(t, [20], <[u8]>::len)), &[20], &[21]),
        ("read_at", |tx, t| drop(tx.read_at(t, [20], 0, &mut [0])), &[20], &[21]),
        ("value_len", |tx, t| drop(tx.value_len(t, [25])), &[25], &[20, 30]),
        ("first", |tx, t| drop(tx.first(t)), &[5, 10], &[11, 20]),
        ("last", |tx, t| drop(tx.last(t)), &[90, 95], &[89, 80]),
        ("floor", |tx, t| drop(tx.floor(t, [25])), &[20, 22, 25], &[19, 26]),
        ("ceiling", |tx, t| drop(tx.ceiling(t, [25])), &[25, 27, 30], &[24, 31]),
        ("len", |tx, t| drop(tx.len(t)), &[1, 50, 99], &[]),
        ("is_empty", |tx, t| drop(tx.is_empty(t)), &[1, 10], &[11]),
        ("pop_first", |tx, t| drop(tx.pop_first(t)), &[1, 10], &[11, 20]),
        ("pop_last", |tx, t| drop(tx.pop_last(t)), &[90, 99], &[89]),
        ("remove_range", |tx, t| drop(tx.remove_range(t, [30]..[50])), &[30, 35, 49], &[29, 50]),
        ("clear", |tx, t| drop(tx.clear(t)), &[1, 50, 99], &[]),
        ("insert_new", |tx, t| drop(tx.insert_new(t, [25], "")), &[25], &[20, 30]),
        ("replace", |tx, t| drop(tx.replace(t, [25], "")), &[25], &[20]),
        ("update", |tx, t| drop(tx.update(t, [20], |_| None)), &[20], &[10]),
        (
            "compare_and_swap",
            |tx, t| drop(tx.compare_and_swap(t, [20], Some("no"), None)),
            &[20],
            &[10, 30],
        ),
        (
            "a cursor that turns round",
            |tx, t| {
                let mut cursor = tx.cursor(t);
                assert!(cursor.seek([42]).expect("sound") && cursor.prev().expect("sound"));
                assert!(cursor.prev().expect("sound") && cursor.next().expect("sound"));
            },
            &[30, 35, 40, 45, 50],
            &[29, 51],
        ),
    ];
    on_each(|db| {
        let (tree, other) = (db.tree("t").expect("room"), db.tree("other").expect("room"));
        for (what, read, yes, no) in reads {
            let keys = yes.iter().map(|key| (*key, true)).chain(no.iter().map(|key| (*key, false)));
            for (key, conflicts) in keys {
                tree.clear().expect("room");
                (1..10).for_each(|n| tree.put([10 * n], "before").expect("room"));
                let tx = db.begin();
                read(&tx, &tree);
                tx.put(&other, "k", what).expect("memory");
                tree.put([key], "after").expect("room");
                match tx.commit() {
                    Err(Error::Conflict { tree, key: found, .. }) if conflicts => {
                        assert_eq!((&tree[..], &found[..]), ("t", &[key][..]), "{what}");
                    }
                    Ok(()) if !conflicts => {}
                    committed => panic!("{what}, {key}: {committed:?}"),
                }
            }
        }
    });
}

/// Pairs are removed, changed and put while an iterator of the same transaction is under way.
#[test]
fn a_transaction_writes_while_it_iterates() {
    on_each(|db| {
        let tree = db.tree("t").expect("room");
        (0..100_u8).for_each(|n| tree.put([b'k', n], [n]).expect("room"));
        db.transact(|tx| {
            for pair in tx.prefix(&tree, "k") {
                let (key, value) = pair?;
                let n = key[1];
                match n % 4 {
                    0 => tx.delete(&tree, key)?,
                    1 => tx.put(&tree, key, [0])?,
                    // Ahead of it, where it is met.
                    2 if n < 98 => tx.put(&tree, [b'k', n + 1], [251])?,
                    3 if n < 99 => assert_eq!(value, [251]),
                    _ => assert_eq!(value, [n]),
                }
            }
            // Behind one that goes down.
            for key in tx.keys(&tree).rev() {
                tx.put(&tree, [b"z", &key?[..]].concat(), "")?;
            }
            Ok(())
        })
        .expect("nobody is in its way");
        let kept: Vec<_> = tree.prefix("k").map(|pair| vecs(pair.expect("sound"))).collect();
        let values = (0..100_u8).filter(|n| n % 4 != 0).map(|n| match n % 4 {
            1 => (vec![b'k', n], vec![0]),
            3 if n < 99 => (vec![b'k', n], vec![251]),
            _ => (vec![b'k', n], vec![n]),
        });
        assert_eq!(kept, values.collect::<Vec<_>>());
        assert_eq!(tree.prefix("zk").count(), kept.len());
        // The writer is in the way of its own update only as the last word of it.
        let tx = db.begin();
        let set = tx.update(&tree, "u", |_| {
            tx.put(&tree, "u", "within").expect("memory");
            Some(b"returned".to_vec())
        });
        assert_eq!(set.expect("sound").as_deref(), Some(&b"returned"[..]));
        assert_eq!(tx.get(&tree, "u").expect("sound").as_deref(), Some(&b"returned"[..]));
    });
}
