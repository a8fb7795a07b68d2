//! Code of programs that the compiler must accept as it stands, without a type that is named or a copy that is made
//! for its sake. Code that it must refuse is in `crates/guide/tests/refused`.

use std::collections::BTreeMap;
use std::error::Error as StdError;
use std::ops::Bound::{Excluded, Included, Unbounded};
use std::sync::Arc;
use std::thread;

use everleaf::{
    Batch, Bytes, Cursor, Db, Durability, Error, Keys, Options, Pair, Range, Result, Snapshot,
    SnapshotTree, Swap, Transaction, Tree, between,
};

fn filled(keys: &[&str]) -> Result<(Db, Tree)> {
    let db = Db::in_memory()?;
    let tree = db.tree("t")?;
    for key in keys {
        tree.put(key, *key)?;
    }
    Ok((db, tree))
}

fn keys(range: Range) -> Vec<String> {
    range.map(|pair| String::from_utf8(pair.expect("sound").0.into()).expect("text")).collect()
}

#[test]
fn a_closure_of_a_transaction_needs_no_type() -> Result<()> {
    let (db, tree) = filled(&["a"])?;
    db.transact(|tx| {
        let value = tx.get(&tree, "a")?.unwrap_or_default();
        tx.put(&tree, "b", value)?;
        Ok(())
    })?;
    let sum: u64 = db.transact(|tx| Ok(tx.iter(&tree).count() as u64))?;
    assert_eq!(sum, 2);
    // The last call may be the answer, and a function may be the closure.
    db.transact(|tx| tx.delete(&tree, "b"))?;
    fn count(tx: &Transaction, tree: &Tree) -> Result<u64> {
        tx.len(tree)
    }
    assert_eq!(db.transact(|tx| count(tx, &tree))?, 1);
    Ok(())
}

#[test]
fn errors_of_everleaf_become_those_of_a_program()
-> std::result::Result<(), Box<dyn StdError + Send + Sync>> {
    #[derive(Debug)]
    enum Refused {
        Empty,
        Store(Error),
    }
    impl From<Error> for Refused {
        fn from(error: Error) -> Self {
            Refused::Store(error)
        }
    }
    fn take(db: &Db, tree: &Tree) -> std::result::Result<Bytes, Refused> {
        db.try_transact(|tx| {
            let (_, value) = tx.pop_first(tree)?.ok_or(Refused::Empty)?;
            Ok(value)
        })
    }
    let (db, tree) = filled(&["a"])?;
    assert!(matches!(take(&db, &tree), Ok(value) if value == b"a"));
    assert!(matches!(take(&db, &tree), Err(Refused::Empty)));
    db.clone().close()?;
    assert!(matches!(take(&db, &tree), Err(Refused::Store(Error::Closed))));
    Ok(())
}

#[test]
fn ranges_have_ends_of_whatever_is_a_byte_string() -> Result<()> {
    let (_db, tree) = filled(&["apple", "fig", "pear"])?;
    let (from, to) = (String::from("b"), String::from("pear"));
    assert_eq!(keys(tree.range(&from..)), ["fig", "pear"]);
    assert_eq!(keys(tree.range(&from..&to)), ["fig"]);
    assert_eq!(keys(tree.range(from.as_str()..=to.as_str())), ["fig", "pear"]);
    assert_eq!(keys(tree.range(from.clone()..to.clone())), ["fig"]);
    let (low, high) = (from.into_bytes(), to.into_bytes());
    assert_eq!(keys(tree.range(&low..&high)), ["fig"]);
    assert_eq!(keys(tree.range(&low[..]..&high[..])), ["fig"]);
    assert_eq!(keys(tree.range(low.clone()..)), ["fig", "pear"]);
    assert_eq!(keys(tree.range(..&7_u64.to_be_bytes())), [""; 0]);
    assert_eq!(keys(tree.range(..7_u64.to_be_bytes())), [""; 0]);
    assert_eq!(keys(tree.range(..)).len(), 3);
    assert_eq!(keys(tree.range((Excluded("apple"), Included("pear")))), ["fig", "pear"]);
    assert_eq!(keys(tree.range((Excluded(&low), Unbounded))), ["fig", "pear"]);
    assert_eq!(keys(tree.range((Unbounded, Included(high)))).len(), 3);
    // Rust has no range whose ends differ in their types, and arrays do in their lengths.
    assert_eq!(keys(tree.range(between(b"apple", b"pear"))), ["apple", "fig"]);
    assert_eq!(keys(tree.range(&b"apple"[..]..&b"pear"[..])), ["apple", "fig"]);
    assert_eq!(keys(tree.prefix(String::from("p"))), ["pear"]);
    assert_eq!(tree.remove_range(&low..)?, 2);
    Ok(())
}

#[test]
fn keys_and_values_are_whatever_is_a_byte_string() -> Result<()> {
    let (_db, tree) = filled(&[])?;
    let (text, bytes, number) = (String::from("k"), vec![7_u8], 300_u32);
    tree.put(&text, &bytes)?;
    tree.put(text.clone(), bytes.clone())?;
    tree.put(&bytes[..], &text)?;
    tree.put(number.to_be_bytes(), b"array")?;
    tree.put(
        [number.to_be_bytes(), number.to_be_bytes()].concat(),
        Box::<[u8]>::from(&b"box"[..]),
    )?;
    tree.put(Arc::<[u8]>::from(&b"arc"[..]), std::borrow::Cow::Borrowed(&b"cow"[..]))?;
    assert_eq!(tree.get(&text)?.as_deref(), Some(&[7][..]));
    assert_eq!(tree.get(number.to_be_bytes())?, Some(b"array".into()));
    assert_eq!(tree.len()?, 5);
    Ok(())
}

#[test]
fn a_transaction_writes_while_it_iterates() -> Result<()> {
    let (db, tree) = filled(&["a/1", "a/2", "b/1"])?;
    db.transact(|tx| {
        for pair in tx.prefix(&tree, "a/") {
            let (key, value) = pair?;
            tx.delete(&tree, &key)?;
            tx.put(&tree, [b"c/", &key[..]].concat(), value)?;
        }
        let mut cursor = tx.cursor(&tree);
        let mut more = cursor.first()?;
        while more {
            if let Some(key) = cursor.key() {
                tx.put(&tree, key, "seen")?;
            }
            more = cursor.next()?;
        }
        Ok(())
    })?;
    assert_eq!(keys(tree.iter()), ["b/1", "c/a/1", "c/a/2"]);
    assert!(tree.iter().all(|pair| pair.is_ok_and(|(_, value)| value == b"seen")));
    Ok(())
}

#[test]
fn a_transaction_has_what_a_tree_has() -> Result<()> {
    let (db, tree) = filled(&["a", "b", "c", "d"])?;
    let tx = db.begin();
    let key = |pair: Option<Pair>| pair.map(|(key, _)| key).unwrap_or_default();
    assert_eq!((key(tx.first(&tree)?), key(tx.last(&tree)?)), (b"a".into(), b"d".into()));
    assert_eq!(
        (key(tx.floor(&tree, "bb")?), key(tx.ceiling(&tree, "bb")?)),
        (b"b".into(), b"c".into())
    );
    assert_eq!(
        (tx.len(&tree)?, tx.is_empty(&tree)?, tx.value_len(&tree, "a")?),
        (4, false, Some(1))
    );
    assert_eq!(tx.get_with(&tree, "a", |value| value.len())?, Some(1));
    let mut value = Vec::new();
    assert!(tx.get_into(&tree, "a", &mut value)? && tx.contains(&tree, "a")?);
    assert_eq!(tx.prefix(&tree, "").rev().count(), 4);
    assert_eq!(tx.range(&tree, "b"..).keys().next().transpose()?, Some(b"b".into()));
    assert_eq!((key(tx.pop_first(&tree)?), key(tx.pop_last(&tree)?)), (b"a".into(), b"d".into()));
    assert!(tx.insert_new(&tree, "e", "1")? && tx.replace(&tree, "e", "2")?);
    tx.update(&tree, "e", |old| old.map(|old| [old, b"3"].concat()))?;
    assert!(tx.compare_and_swap(&tree, "f", None, Some("4"))?.is_done());
    assert_eq!(tx.remove_range(&tree, "b"..="c")?, 2);
    tx.commit()?;
    assert_eq!(keys(tree.iter()), ["e", "f"]);
    assert_eq!(tree.get("e")?, Some(b"23".into()));
    Ok(())
}

#[test]
fn what_is_not_there_needs_no_type() -> Result<()> {
    let (db, tree) = filled(&[])?;
    assert_eq!(tree.compare_and_swap("k", None, Some("v"))?, Swap::Done);
    assert_eq!(tree.compare_and_swap("k", Some("v"), None)?, Swap::Done);
    assert_eq!(tree.compare_and_swap("k", None, Some(&b"w".to_vec()))?, Swap::Done);
    let mut batch = db.batch();
    batch.put(&tree, "a", "1")?;
    batch.delete(&tree, "k")?;
    batch.commit()?;
    assert_eq!(tree.get_many(["a", "k"])?, [Some(b"1".into()), None]);
    assert_eq!(tree.get_many(vec![String::from("a")])?.len(), 1);
    Ok(())
}

#[test]
fn a_sorted_load_takes_what_iterators_give() -> Result<()> {
    let (db, from) = filled(&["a", "b"])?;
    let map = BTreeMap::from([("x", vec![1_u8]), ("y", vec![2])]);
    assert_eq!(db.tree("other tree")?.load_sorted(from.iter())?, 2);
    assert_eq!(db.tree("snapshot")?.load_sorted(&db.snapshot()?.of(&from)?)?, 2);
    assert_eq!(db.tree("map")?.load_sorted(&map)?, 2);
    assert_eq!(db.tree("owned map")?.load_sorted(map)?, 2);
    assert_eq!(db.tree("pairs")?.load_sorted([("a", "1"), ("b", "2")])?, 2);
    assert_eq!(db.tree("numbers")?.load_sorted((0..9_u32).map(|n| (n.to_be_bytes(), "v")))?, 9);
    Ok(())
}

#[test]
fn what_a_pool_says_of_itself_is_there() -> Result<()> {
    let (db, tree) = filled(&["a", "ab", "b"])?;
    let snapshot = db.snapshot()?;
    assert_eq!((snapshot.of(&tree)?.len()?, snapshot.tree_names()?.len()), (3, 1));
    assert_eq!(tree.prefix("a").keys().count(), 2);
    assert_eq!(db.path(), None);
    let db = Options::new().durability(Durability::Sync).in_memory()?;
    db.tree("t")?.put("k", "v")?;
    assert!(db.durable_epoch() > 0);
    Ok(())
}

/// A program's own type keeps them, without a lifetime, and other threads get them.
#[test]
fn handles_have_no_lifetime_and_go_to_other_threads() -> Result<()> {
    struct Shop {
        db: Db,
        stock: Tree,
        then: Snapshot,
        at: SnapshotTree,
        range: Range,
        keys: Keys,
        cursor: Cursor,
        batch: Batch,
        tx: Transaction,
    }
    fn open() -> Result<Shop> {
        let (db, stock) = filled(&["a", "b"])?;
        let then = db.snapshot()?;
        let at = then.of(&stock)?;
        let (range, keys, cursor) = (at.iter(), stock.keys(), stock.cursor());
        let (batch, tx) = (db.batch(), db.begin());
        Ok(Shop { db, stock, then, at, range, keys, cursor, batch, tx })
    }
    let mut shop = open()?;
    let other = thread::spawn(move || -> Result<u64> {
        assert!(shop.cursor.first()? && shop.keys.next().is_some());
        shop.batch.put(&shop.stock, "c", "v")?;
        shop.batch.commit()?;
        shop.tx.put(&shop.stock, "d", "v")?;
        shop.tx.commit()?;
        let before =
            shop.range.count() as u64 + shop.at.len()? + shop.then.tree_names()?.len() as u64;
        drop(shop.db);
        Ok(before * 100 + shop.stock.len()?)
    });
    assert_eq!(other.join().expect("no panic")?, 504);
    let (_db, tree) = filled(&[])?;
    thread::scope(|scope| {
        for n in 0..2_u8 {
            let tree = &tree;
            scope.spawn(move || tree.put([n], "v").expect("room"));
        }
    });
    assert_eq!(tree.len()?, 2);
    Ok(())
}

/// Calls through it only compile if a type cannot be shared between threads: else there would be two answers.
trait UnlessShared<Answer> {
    fn is_not_shared() {}
}

struct Shared;

impl<T> UnlessShared<()> for T {}
impl<T: Sync> UnlessShared<Shared> for T {}

#[test]
fn a_transaction_is_for_one_thread_at_a_time() {
    fn is_sent<T: Send>() {}
    is_sent::<Transaction>();
    <Transaction as UnlessShared<_>>::is_not_shared();
}

#[test]
fn a_wait_for_the_disk_is_a_future_of_its_own() -> Result<()> {
    fn is_sent<F: Future<Output = Result<()>> + Send + 'static>(_: F) {}
    let (db, tree) = filled(&[])?;
    is_sent(db.durable(db.epoch()));
    is_sent(async move {
        tree.put("k", "v")?;
        db.durable(db.epoch()).await
    });
    Ok(())
}

#[test]
fn borrowed_pairs_are_read_without_a_copy() -> Result<()> {
    let (_db, tree) = filled(&["a", "b"])?;
    let mut lengths = 0;
    for pair in &tree {
        lengths += pair?.1.len();
    }
    let mut cursor = tree.cursor();
    let mut more = cursor.seek("a")?;
    while more {
        let Some((key, value)) = cursor.pair()? else { break };
        lengths += key.len() + value.len();
        more = cursor.next()?;
    }
    assert_eq!(lengths, 6);
    let pairs: BTreeMap<_, _> = tree.iter().collect::<Result<_>>()?;
    assert_eq!(pairs.len(), 2);
    let last = tree.iter().next_back().transpose()?.map(|(key, _)| key);
    assert_eq!(last.as_deref(), Some(&b"b"[..]));
    Ok(())
}
