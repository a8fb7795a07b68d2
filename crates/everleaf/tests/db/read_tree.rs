//! One model of reads for a tree, for a tree at the moment of a snapshot, and for a tree as a transaction sees it, all by
//! the trait.

use std::collections::BTreeMap;
use std::ops::Bound;

use everleaf::{Bytes, Db, Error, Pair, ReadCursor, ReadTree, Result, Transaction, Tree};
use everleaf_testing::Rng;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Few keys of few lengths, some of them long.
fn key(rng: &mut Rng) -> Vec<u8> {
    let len = if rng.one_in(20) { 700 } else { rng.below(4) };
    (0..len).map(|_| [0, b'a', b'b', 0xFF][rng.below(4) as usize]).collect()
}

/// Values with and without a place of their own in the file.
fn value(rng: &mut Rng) -> Vec<u8> {
    let len = if rng.one_in(10) { 3000 + rng.below(3000) } else { rng.below(40) };
    vec![rng.below(256) as u8; len as usize]
}

fn pair((key, value): (&Vec<u8>, &Vec<u8>)) -> Pair {
    (key[..].into(), value[..].into())
}

/// All reads of one key are those of the model.
fn reads_a_key(tree: &impl ReadTree, model: &Model, rng: &mut Rng) -> Result<()> {
    let (key, other) = (key(rng), key(rng));
    let wanted = model.get(&key);
    assert_eq!(tree.get(&key)?.as_deref(), wanted.map(Vec::as_slice));
    let many = [wanted, model.get(&other)].map(|value| value.cloned().map(Bytes::from));
    assert_eq!(tree.get_many([&key, &other])?, many);
    assert_eq!(tree.get_with(&key, <[u8]>::to_vec)?.as_ref(), wanted);
    let mut value = vec![7; 5];
    assert_eq!(tree.get_into(&key, &mut value)?, wanted.is_some());
    assert_eq!(value, wanted.cloned().unwrap_or_default());
    assert_eq!(tree.contains(&key)?, wanted.is_some());
    assert_eq!(tree.value_len(&key)?, wanted.map(|value| value.len() as u64));
    for offset in [0, 1, 3500, 6000, u64::MAX] {
        let mut part = [0; 50];
        let read = tree.read_at(&key, offset, &mut part)?;
        let rest =
            wanted.map(|value| value.get(offset.min(1 << 20) as usize..).unwrap_or_default());
        assert_eq!(read, rest.map(|rest| rest.len().min(50)), "from {offset}");
        assert!(rest.is_none_or(|rest| rest.starts_with(&part[..read.unwrap_or(0)])));
    }
    let floor = model.range(..=key.clone()).next_back().map(pair);
    let ceiling = model.range(key.clone()..).next().map(pair);
    assert_eq!((tree.floor(&key)?, tree.ceiling(&key)?), (floor, ceiling));
    Ok(())
}

/// All iterators, from both ends.
fn iterates(tree: &impl ReadTree, model: &Model, rng: &mut Rng) -> Result<()> {
    let (low, high) = (key(rng), key(rng));
    let bounds = match rng.below(4) {
        0 => (Bound::Excluded(low), Bound::Included(high)),
        1 => (Bound::Unbounded, Bound::Excluded(high)),
        2 => (Bound::Included(low), Bound::Unbounded),
        _ => (Bound::Included(low), Bound::Excluded(high)),
    };
    let is_in = |key: &[u8]| {
        let above = match &bounds.0 {
            Bound::Unbounded => true,
            Bound::Included(low) => key >= &low[..],
            Bound::Excluded(low) => key > &low[..],
        };
        above
            && match &bounds.1 {
                Bound::Unbounded => true,
                Bound::Included(high) => key <= &high[..],
                Bound::Excluded(high) => key < &high[..],
            }
    };
    let mut wanted: Vec<Pair> = model.iter().filter(|(key, _)| is_in(key)).map(pair).collect();
    let range = || tree.range(bounds.clone());
    assert_eq!(range().collect::<Result<Vec<_>>>()?, wanted);
    let keys = keys_of(tree, range());
    assert!(keys.map(|key| key.expect("sound")).eq(wanted.iter().map(|(key, _)| key.clone())));
    wanted.reverse();
    assert_eq!(range().rev().collect::<Result<Vec<_>>>()?, wanted);
    // From both ends in turn they meet.
    let mut from_both = range();
    let mut left: std::collections::VecDeque<_> = wanted.into_iter().rev().collect();
    loop {
        let front = rng.one_in(2);
        let next = if front { from_both.next() } else { from_both.next_back() };
        let want = if front { left.pop_front() } else { left.pop_back() };
        assert_eq!(next.transpose()?, want);
        if want.is_none() {
            break;
        }
    }
    let prefix = key(rng);
    let with_it = model.iter().filter(|(key, _)| key.starts_with(&prefix)).map(pair);
    assert_eq!(tree.prefix(&prefix).collect::<Result<Vec<_>>>()?, with_it.collect::<Vec<_>>());
    Ok(())
}

/// The keys of what a range has left.
fn keys_of<T: ReadTree>(_: &T, range: T::Range) -> T::Keys {
    range.into()
}

/// A cursor goes about.
fn goes(tree: &impl ReadTree, model: &Model, rng: &mut Rng) -> Result<()> {
    let mut cursor = tree.cursor();
    assert_eq!(cursor.key(), None);
    let mut at: Option<Vec<u8>> = None;
    for _ in 0..20 {
        let place = key(rng);
        let wanted = match (rng.below(6), &at) {
            (0, _) => (cursor.first()?, model.iter().next()),
            (1, _) => (cursor.last()?, model.iter().next_back()),
            (2, Some(at)) => {
                let behind = (Bound::Excluded(at.clone()), Bound::Unbounded);
                (cursor.next()?, model.range(behind).next())
            }
            (3, Some(at)) => (cursor.prev()?, model.range(..at.clone()).next_back()),
            (4, _) => (cursor.seek(&place)?, model.range(place..).next()),
            (_, _) => (cursor.seek_for_prev(&place)?, model.range(..=place).next_back()),
        };
        let (found, wanted) = wanted;
        assert_eq!(found, wanted.is_some());
        assert_eq!(cursor.key(), wanted.map(|(key, _)| &key[..]));
        assert_eq!(cursor.value()?, wanted.map(|(_, value)| &value[..]));
        let both = cursor.pair()?.map(|(key, value)| (key.into(), value.into()));
        assert_eq!(both, wanted.map(pair));
        at = wanted.map(|(key, _)| key.clone());
    }
    Ok(())
}

/// All that a type reads is the model.
fn is(tree: &impl ReadTree, model: &Model, rng: &mut Rng) -> Result<()> {
    assert_eq!(tree.name(), "t");
    assert_eq!(tree.len()?, model.len() as u64);
    assert_eq!(tree.is_empty()?, model.is_empty());
    assert_eq!(tree.first()?, model.iter().next().map(pair));
    assert_eq!(tree.last()?, model.iter().next_back().map(pair));
    assert!(tree.iter().map(|pair| pair.expect("sound")).eq(model.iter().map(pair)));
    assert!(tree.keys().map(|key| key.expect("sound")).eq(model.keys().cloned()));
    for _ in 0..10 {
        reads_a_key(tree, model, rng)?;
        iterates(tree, model, rng)?;
        goes(tree, model, rng)?;
    }
    Ok(())
}

fn write(tree: &Tree, model: &mut Model, rng: &mut Rng) -> Result<()> {
    for _ in 0..rng.below(60) {
        let key = key(rng);
        if rng.one_in(3) {
            assert_eq!(tree.remove(&key)?.map(Bytes::into_vec), model.remove(&key));
        } else {
            let value = value(rng);
            tree.put(&key, &value)?;
            model.insert(key, value);
        }
    }
    Ok(())
}

fn write_in(tx: &Transaction, tree: &Tree, model: &mut Model, rng: &mut Rng) -> Result<()> {
    for _ in 0..rng.below(30) {
        let key = key(rng);
        if rng.one_in(2) {
            tx.delete(tree, &key)?;
            model.remove(&key);
        } else {
            let value = value(rng);
            tx.put(tree, &key, &value)?;
            model.insert(key, value);
        }
    }
    Ok(())
}

#[test]
fn trees_snapshots_and_transactions_read_as_one_model_by_the_trait() -> Result<()> {
    for seed in 0..12 {
        let mut rng = Rng(seed);
        let db = Db::in_memory()?;
        let (tree, mut now) = (db.tree("t")?, Model::new());
        is(&tree, &now, &mut rng)?;
        write(&tree, &mut now, &mut rng)?;
        let (snapshot, before) = (db.snapshot()?, now.clone());
        write(&tree, &mut now, &mut rng)?;
        let tx = db.begin();
        // Its moment is that of its first read.
        let (view, mut seen) = (tx.of(&tree)?, now.clone());
        assert_eq!(view.len()?, seen.len() as u64);
        write(&tree, &mut now, &mut rng)?;
        write_in(&tx, &tree, &mut seen, &mut rng)?;
        is(&tree, &now, &mut rng)?;
        is(&snapshot.of(&tree)?, &before, &mut rng)?;
        is(&snapshot.tree("t")?.expect("it was there"), &before, &mut rng)?;
        is(&view, &seen, &mut rng)?;
        // It sees what the transaction writes later, too, and so do the transaction's own methods.
        write_in(&tx, &tree, &mut seen, &mut rng)?;
        is(&view, &seen, &mut rng)?;
        for _ in 0..20 {
            let key = key(&mut rng);
            assert_eq!(tx.get(&tree, &key)?.as_deref(), seen.get(&key).map(Vec::as_slice));
            assert_eq!(tx.contains(&tree, &key)?, seen.contains_key(&key));
            let above = tx.range(&tree, &key..).next().transpose()?;
            assert_eq!(above, seen.range(key..).next().map(pair));
        }
    }
    Ok(())
}

#[test]
fn what_a_view_has_read_is_what_the_transaction_has_read() -> Result<()> {
    fn read(tree: &impl ReadTree) -> Result<bool> {
        tree.contains("a")
    }
    let db = Db::in_memory()?;
    let tree = db.tree("t")?;
    let tx = db.begin();
    assert!(!read(&tx.of(&tree)?)?);
    tree.put("a", "1")?;
    tx.put(&tree, "b", "2")?;
    let refused = tx.commit();
    assert!(matches!(&refused, Err(Error::Conflict { key, .. }) if key == b"a"), "{refused:?}");
    Ok(())
}

#[test]
fn a_tree_of_another_pool_is_refused() -> Result<()> {
    let (db, other) = (Db::in_memory()?, Db::in_memory()?);
    let tree = other.tree("other")?;
    let is_refused = |error: Error| matches!(&error, Error::OtherPool { name } if name == "other");
    assert!(db.begin().of(&tree).is_err_and(is_refused));
    assert!(db.begin().get(&tree, "k").is_err_and(is_refused));
    assert!(db.begin().put(&tree, "k", "v").is_err_and(is_refused));
    assert!(db.batch().put(&tree, "k", "v").is_err_and(is_refused));
    assert!(db.snapshot()?.of(&tree).is_err_and(is_refused));
    Ok(())
}
