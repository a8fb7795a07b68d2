//! Operations that `ci/instructions.sh` counts: each kind in a function of its own, which callgrind
//! knows by name. Everything that is not to be counted (what fills the trees, what chooses the keys)
//! stays outside of them. `cargo run --release -p everleaf --features heavy --example instructions` only
//! runs it.
//!
//! One thread, no background threads, keys from a fixed seed: two runs execute the same instructions.
//!
//! With an argument it only writes the keys to a file of that name, for the program in C that is counted beside it
//! (crates/capi/tests/instructions.c): all keys, and then some of those that are in the tree.

use std::error::Error;
use std::hint::black_box;
use std::io::{Write, stdout};
use std::ops::Bound;
use std::path::Path;

use everleaf::{Cursor, Db, Options, SnapshotTree, Transaction, Tree};
use everleaf_file::FileOptions;
use everleaf_pmem::{Dram, Geometry};
use everleaf_tree::{CircTree, FilePool, INDEX_ANCHOR, Index};
use rand::RngExt;
use rand::seq::SliceRandom;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;

/// Pairs in a tree before anything is counted: three levels.
const FILL: usize = 40_000;
/// Operations of each kind that are counted; `ci/instructions.sh` divides by it.
const OPERATIONS: usize = 10_000;
/// Pairs in a tree in memory, which has three levels, too: its nodes are twice as large.
const MANY: usize = 1_000_000;
/// Changes of a batch.
const BATCH: usize = 1000;
/// Pairs of a short range.
const SHORT: usize = 100;

type Result<T> = std::result::Result<T, Box<dyn Error>>;
type Words = CircTree<everleaf_file::File>;

/// Distinct keys in random order: first those that fill a tree, then those that are put.
struct Keys {
    all: Vec<u64>,
    rng: Xoshiro256PlusPlus,
}

impl Keys {
    fn new() -> Self {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(12);
        let all = (0..FILL + OPERATIONS).map(|i| ((i as u64) << 40) | (rng.random::<u64>() >> 24));
        let mut all: Vec<u64> = all.collect();
        all.shuffle(&mut rng);
        Self { all, rng }
    }
    /// Keys that are in the tree, each once.
    fn some(&mut self, n: usize) -> Vec<u64> {
        self.all.shuffle(&mut self.rng);
        self.all[..n].to_vec()
    }
}

// The Db: keys and values of eight bytes.

#[inline(never)]
fn db_put(tree: &Tree, keys: &[u64]) -> Result<()> {
    for key in keys {
        tree.put(key.to_be_bytes(), key.to_le_bytes())?;
    }
    Ok(())
}

#[inline(never)]
fn db_update(tree: &Tree, keys: &[u64]) -> Result<()> {
    for key in keys {
        tree.put(key.to_be_bytes(), (!key).to_le_bytes())?;
    }
    Ok(())
}

/// As an update, with a look at the old value.
#[inline(never)]
fn db_insert(tree: &Tree, keys: &[u64]) -> Result<()> {
    for key in keys {
        black_box(tree.insert(key.to_be_bytes(), key.to_be_bytes())?);
    }
    Ok(())
}

/// Keys in ascending order, into a tree that is empty. Not the same code as `db_put`, of which it would become a part.
#[inline(never)]
fn db_put_rising(tree: &Tree, keys: &[u64]) -> Result<()> {
    for key in keys {
        tree.put(key.to_be_bytes(), key.to_be_bytes())?;
    }
    Ok(())
}

/// The same keys by a load.
#[inline(never)]
fn db_load_sorted(tree: &Tree, keys: &[u64]) -> Result<u64> {
    Ok(tree.load_sorted(keys.iter().map(|key| (key.to_be_bytes(), key.to_be_bytes())))?)
}

/// As `db_put`, in batches.
#[inline(never)]
fn db_batch(db: &Db, tree: &Tree, keys: &[u64]) -> Result<()> {
    batches(db, tree, keys)
}

/// The same, with keys that ascend. It is not the same code, or there would be one function of the two.
#[inline(never)]
fn db_batch_rising(db: &Db, tree: &Tree, keys: &[u64]) -> Result<()> {
    batches(db, black_box(tree), keys)
}

fn batches(db: &Db, tree: &Tree, keys: &[u64]) -> Result<()> {
    for keys in keys.chunks(BATCH) {
        let mut batch = db.batch();
        for key in keys {
            batch.put(tree, key.to_be_bytes(), key.to_le_bytes())?;
        }
        batch.commit()?;
    }
    Ok(())
}

#[inline(never)]
fn db_get(tree: &Tree, keys: &[u64]) -> Result<()> {
    for key in keys {
        black_box(tree.get(key.to_be_bytes())?);
    }
    Ok(())
}

#[inline(never)]
fn db_scan_100(tree: &Tree, from: &[u64]) -> Result<usize> {
    let mut n = 0;
    for key in from {
        for pair in tree.range(key.to_be_bytes()..).take(SHORT) {
            black_box(pair?);
            n += 1;
        }
    }
    Ok(n)
}

#[inline(never)]
fn db_scan_all(tree: &Tree, n: usize) -> Result<usize> {
    let mut seen = 0;
    for pair in tree.iter().take(n) {
        black_box(pair?);
        seen += 1;
    }
    Ok(seen)
}

/// Short ranges of pairs of 16 + 100 bytes.
#[inline(never)]
fn db_scan_long(tree: &Tree, from: &[u64]) -> Result<usize> {
    let mut n = 0;
    for key in from {
        for pair in tree.range(long_key(*key)..).take(SHORT) {
            n += black_box(pair?).0.len() / 16;
        }
    }
    Ok(n)
}

/// The same, all of whose pairs are kept until the next one.
#[inline(never)]
fn db_scan_kept(tree: &Tree, from: &[u64]) -> Result<usize> {
    let mut n = 0;
    for key in from {
        let pairs: everleaf::Result<Vec<_>> = tree.range(long_key(*key)..).take(SHORT).collect();
        n += black_box(pairs?).len();
    }
    Ok(n)
}

/// Short ranges of URLs.
#[inline(never)]
fn db_scan_urls(tree: &Tree, from: &[u64]) -> Result<usize> {
    let mut n = 0;
    for key in from {
        for pair in tree.range(url(*key)..).take(SHORT) {
            n += black_box(pair?).1.len() / 8;
        }
    }
    Ok(n)
}

#[inline(never)]
fn db_get_with(tree: &Tree, keys: &[u64]) -> Result<()> {
    for key in keys {
        tree.get_with(key.to_be_bytes(), |value| {
            black_box(value);
        })?;
    }
    Ok(())
}

#[inline(never)]
fn db_get_long(tree: &Tree, keys: &[u64]) -> Result<()> {
    for key in keys {
        black_box(tree.get(long_key(*key))?);
    }
    Ok(())
}

fn long_key(key: u64) -> [u8; 16] {
    (u128::from(key) << 64).to_be_bytes()
}

fn url(key: u64) -> String {
    format!("https://www.example.com/{:03x}/articles/{key:016x}.html", key >> 52)
}

/// Pairs that are not as short as the others.
fn long(db: &Db, keys: &mut Keys) -> Result<()> {
    let (tree, urls) = (db.tree("long")?, db.tree("urls")?);
    for key in &keys.all {
        tree.put(long_key(*key), [7; 100])?;
        urls.put(url(*key), key.to_le_bytes())?;
    }
    db.sync()?;
    let from = middle(keys);
    assert_eq!(db_scan_long(&tree, &from)?, OPERATIONS);
    assert_eq!(db_scan_kept(&tree, &from)?, OPERATIONS);
    assert_eq!(db_scan_urls(&urls, &from)?, OPERATIONS);
    db_get_long(&tree, &keys.some(OPERATIONS))
}

/// Looks at the pair of a cursor; returns whether there is one.
fn look(cursor: &mut Cursor) -> Result<bool> {
    Ok(black_box(cursor.pair()?).is_some())
}

#[inline(never)]
fn db_cursor_100(tree: &Tree, from: &[u64]) -> Result<usize> {
    let mut n = 0;
    for key in from {
        let mut cursor = tree.cursor();
        cursor.seek(key.to_be_bytes())?;
        for _ in 0..SHORT {
            n += usize::from(look(&mut cursor)?);
            cursor.next()?;
        }
    }
    Ok(n)
}

#[inline(never)]
fn db_cursor_all(tree: &Tree, n: usize) -> Result<usize> {
    let (mut cursor, mut seen) = (tree.cursor(), 0);
    while seen < n && cursor.next()? && look(&mut cursor)? {
        seen += 1;
    }
    Ok(seen)
}

/// As `db_cursor_all`, at a cut since which nothing has changed.
#[inline(never)]
fn db_past_none(tree: &SnapshotTree) -> Result<usize> {
    walk(tree)
}

/// The same, since which one key of a hundred has.
#[inline(never)]
fn db_past_some(tree: &SnapshotTree) -> Result<usize> {
    walk(black_box(tree))
}

/// The same, since which all keys have.
#[inline(never)]
fn db_past_all(tree: &SnapshotTree) -> Result<usize> {
    walk(black_box(black_box(tree)))
}

#[inline(always)]
fn walk(tree: &SnapshotTree) -> Result<usize> {
    let (mut cursor, mut seen) = (tree.cursor(), 0);
    while seen < OPERATIONS && cursor.next()? && look(&mut cursor)? {
        seen += 1;
    }
    Ok(seen)
}

fn past(db: &Db, tree: &Tree, keys: &[u64]) -> Result<()> {
    let then = db.snapshot()?.of(tree)?;
    assert_eq!(db_past_none(&then)?, OPERATIONS);
    for key in keys.iter().step_by(100) {
        tree.put(key.to_be_bytes(), key.to_be_bytes())?;
    }
    // The first one who looks sorts what was kept.
    then.contains([])?;
    assert_eq!(db_past_some(&then)?, OPERATIONS);
    for key in keys {
        tree.put(key.to_be_bytes(), key.to_be_bytes())?;
    }
    // The first one who looks sorts what was kept.
    then.contains([])?;
    assert_eq!(db_past_all(&then)?, OPERATIONS);
    Ok(())
}

/// Overwrites pairs of 16 and 100 bytes, with a snapshot that is taken anew after so many.
#[inline(never)]
fn db_put_kept(db: &Db, tree: &Tree, keys: &[u64]) -> Result<()> {
    let mut then = db.snapshot()?;
    for keys in keys.chunks(BATCH) {
        for key in keys {
            tree.put(u128::from(*key).to_be_bytes(), [2; 100])?;
        }
        then = db.snapshot()?;
    }
    drop(then);
    Ok(())
}

/// The same without a snapshot.
#[inline(never)]
fn db_put_100(tree: &Tree, keys: &[u64]) -> Result<()> {
    for key in keys {
        tree.put(u128::from(*key).to_be_bytes(), [3; 100])?;
    }
    Ok(())
}

fn kept(db: &Db, keys: &[u64]) -> Result<()> {
    let tree = db.tree("kept")?;
    for key in keys {
        tree.put(u128::from(*key).to_be_bytes(), [1; 100])?;
    }
    db.sync()?;
    db_put_kept(db, &tree, &keys[..OPERATIONS])?;
    db.sync()?;
    db_put_100(&tree, &keys[..OPERATIONS])
}

#[inline(never)]
fn db_delete(tree: &Tree, keys: &[u64]) -> Result<()> {
    for key in keys {
        tree.delete(key.to_be_bytes())?;
    }
    Ok(())
}

#[inline(never)]
fn db_remove(tree: &Tree, keys: &[u64]) -> Result<()> {
    for key in keys {
        black_box(tree.remove(key.to_be_bytes())?);
    }
    Ok(())
}

// The parts of a transaction that reads two keys and changes one.

#[inline(never)]
fn db_tx_begin(db: &Db) -> Transaction {
    db.begin()
}

/// The first read, which also makes the moment at which the transaction reads.
#[inline(never)]
fn db_tx_first_get(tx: &Transaction, tree: &Tree, key: u64) -> Result<()> {
    black_box(tx.get(tree, key.to_be_bytes())?);
    Ok(())
}

/// Not the same code as the first one, either.
#[inline(never)]
fn db_tx_get(tx: &Transaction, tree: &Tree, key: u64) -> Result<bool> {
    Ok(black_box(tx.get(tree, key.to_be_bytes())?).is_some())
}

#[inline(never)]
fn db_tx_put(tx: &Transaction, tree: &Tree, key: u64) -> Result<()> {
    Ok(tx.put(tree, key.to_be_bytes(), key.to_be_bytes())?)
}

#[inline(never)]
fn db_tx_commit(tx: Transaction) -> Result<()> {
    Ok(tx.commit()?)
}

/// A transfer between two accounts.
#[inline(never)]
fn db_tx_ledger(db: &Db, tree: &Tree, accounts: [u64; 2]) -> Result<()> {
    Ok(db.transact(|tx| {
        for key in accounts {
            black_box(tx.get(tree, key.to_be_bytes())?);
        }
        accounts.iter().try_for_each(|key| tx.put(tree, key.to_be_bytes(), key.to_be_bytes()))
    })?)
}

fn transact(db: &Db, tree: &Tree, keys: &[u64]) -> Result<()> {
    let others = keys.iter().rev();
    for (key, other) in keys.iter().zip(others.clone()) {
        db_tx_ledger(db, tree, [*key, *other])?;
    }
    for (key, other) in keys.iter().zip(others) {
        let tx = db_tx_begin(db);
        db_tx_first_get(&tx, tree, *key)?;
        assert!(db_tx_get(&tx, tree, *other)?);
        db_tx_put(&tx, tree, *key)?;
        db_tx_commit(tx)?;
    }
    Ok(())
}

fn db(path: &Path) -> Result<()> {
    let db = Options::new().background(false).open(path)?;
    let tree = db.tree("t")?;
    let mut keys = Keys::new();
    for key in &keys.all[..FILL] {
        tree.insert(key.to_be_bytes(), key.to_le_bytes())?;
    }
    db.sync()?;
    db_put(&tree, &keys.all[FILL..])?;
    db.sync()?;
    db_update(&tree, &keys.some(OPERATIONS))?;
    db.sync()?;
    db_insert(&tree, &keys.some(OPERATIONS))?;
    db.sync()?;
    db_get(&tree, &keys.some(OPERATIONS))?;
    db_get_with(&tree, &keys.some(OPERATIONS))?;
    let from = middle(&mut keys);
    assert_eq!(db_scan_100(&tree, &from)?, OPERATIONS);
    assert_eq!(db_scan_all(&tree, OPERATIONS)?, OPERATIONS);
    assert_eq!(db_cursor_100(&tree, &from)?, OPERATIONS);
    assert_eq!(db_cursor_all(&tree, OPERATIONS)?, OPERATIONS);
    transact(&db, &tree, &keys.some(OPERATIONS))?;
    db.sync()?;
    let going = keys.some(2 * OPERATIONS);
    db_remove(&tree, &going[..OPERATIONS])?;
    db.sync()?;
    db_delete(&tree, &going[OPERATIONS..])?;
    db.sync()?;
    let mut rising = keys.some(OPERATIONS);
    rising.sort_unstable();
    db_put_rising(&db.tree("put")?, &rising)?;
    db.sync()?;
    assert_eq!(db_load_sorted(&db.tree("loaded")?, &rising)?, OPERATIONS as u64);
    db.sync()?;
    db_batch_rising(&db, &db.tree("batches")?, &rising)?;
    db.sync()?;
    let tree = db.tree("b")?;
    for key in &keys.all[..FILL] {
        tree.insert(key.to_be_bytes(), key.to_le_bytes())?;
    }
    db.sync()?;
    db_batch(&db, &tree, &keys.all[FILL..])?;
    past(&db, &tree, &keys.all)?;
    kept(&db, &keys.all)?;
    long(&db, &mut keys)?;
    db.close()?;
    Ok(())
}

// The tree of words.

#[inline(never)]
fn words_put(tree: &Words, keys: &[u64]) -> Result<()> {
    for key in keys {
        black_box(Index::insert(tree, *key, *key)?);
    }
    Ok(())
}

#[inline(never)]
fn words_update(tree: &Words, keys: &[u64]) -> Result<()> {
    for key in keys {
        black_box(Index::insert(tree, *key, !*key)?);
    }
    Ok(())
}

#[inline(never)]
fn words_get(tree: &Words, keys: &[u64]) -> Result<()> {
    for key in keys {
        black_box(Index::get(tree, *key)?);
    }
    Ok(())
}

#[inline(never)]
fn words_scan_100(tree: &Words, from: &[u64]) -> Result<usize> {
    let mut n = 0;
    for key in from {
        n += black_box(Index::range(tree, Bound::Included(*key), Bound::Unbounded, SHORT)?).len();
    }
    Ok(n)
}

#[inline(never)]
fn words_scan_all(tree: &Words, n: usize) -> Result<usize> {
    Ok(black_box(Index::range(tree, Bound::Unbounded, Bound::Unbounded, n)?).len())
}

#[inline(never)]
fn words_remove(tree: &Words, keys: &[u64]) -> Result<()> {
    for key in keys {
        black_box(Index::remove(tree, *key)?);
    }
    Ok(())
}

fn words(path: &Path) -> Result<()> {
    let options =
        FileOptions { slots: 128, create: true, background: false, ..FileOptions::default() };
    let mut pool = FilePool::open(path, &options)?;
    let shared = pool.pool().clone();
    let tree = {
        let _hold = shared.medium().pin_epoch();
        Words::open(shared.clone(), INDEX_ANCHOR)?
    };
    let sync = || shared.medium().sync();
    let mut keys = Keys::new();
    for key in &keys.all[..FILL] {
        Index::insert(&tree, *key, *key)?;
    }
    sync()?;
    words_put(&tree, &keys.all[FILL..])?;
    sync()?;
    words_update(&tree, &keys.some(OPERATIONS))?;
    sync()?;
    words_get(&tree, &keys.some(OPERATIONS))?;
    let from = middle(&mut keys);
    assert_eq!(words_scan_100(&tree, &from)?, OPERATIONS);
    assert_eq!(words_scan_all(&tree, OPERATIONS)?, OPERATIONS);
    words_remove(&tree, &keys.some(OPERATIONS))?;
    sync()?;
    pool.close()?;
    Ok(())
}

// The tree of words in memory.

#[inline(never)]
fn circ_get(tree: &CircTree<Dram>, keys: &[u64]) -> Result<()> {
    for key in keys {
        black_box(Index::get(tree, *key)?);
    }
    Ok(())
}

/// The same, 16 keys at a time.
#[inline(never)]
fn circ_get_many(tree: &CircTree<Dram>, keys: &[u64]) -> Result<()> {
    let mut values = Vec::with_capacity(16);
    for keys in keys.chunks(16) {
        values.clear();
        Index::get_many(tree, keys, &mut values)?;
        black_box(&values);
    }
    Ok(())
}

#[inline(never)]
fn circ_put(tree: &CircTree<Dram>, keys: &[u64]) -> Result<()> {
    for key in keys {
        black_box(Index::insert(tree, *key, *key)?);
    }
    Ok(())
}

/// The same, 16 pairs at a time.
#[inline(never)]
fn circ_put_many(tree: &CircTree<Dram>, pairs: &[(u64, u64)]) -> Result<()> {
    let mut old = Vec::with_capacity(16);
    for pairs in pairs.chunks(16) {
        old.clear();
        Index::put_many(tree, pairs, &mut old)?;
        black_box(&old);
    }
    Ok(())
}

#[inline(never)]
fn circ_remove(tree: &CircTree<Dram>, keys: &[u64]) -> Result<()> {
    for key in keys {
        black_box(Index::remove(tree, *key)?);
    }
    Ok(())
}

fn circ() -> Result<()> {
    let geometry = Geometry::new(256).ok_or("no power of two")?;
    let pool = everleaf_tree::format(Dram::new(geometry, 1 << 14)?)?;
    let tree = CircTree::create(pool.into(), INDEX_ANCHOR)?;
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(12);
    let mut keys: Vec<u64> = (0..MANY + OPERATIONS).map(|_| rng.random()).collect();
    for key in &keys[..MANY] {
        Index::insert(&tree, *key, *key)?;
    }
    circ_put(&tree, &keys[MANY..])?;
    keys.shuffle(&mut rng);
    circ_get(&tree, &keys[..OPERATIONS])?;
    circ_get_many(&tree, &keys[..OPERATIONS])?;
    let pairs: Vec<(u64, u64)> = (0..OPERATIONS).map(|_| rng.random()).collect();
    circ_put_many(&tree, &pairs)?;
    circ_remove(&tree, &keys[..OPERATIONS])
}

/// Keys behind which there are enough others for a short range.
fn middle(keys: &mut Keys) -> Vec<u64> {
    let end = ((FILL + OPERATIONS - SHORT) as u64) << 40;
    let all = keys.some(FILL);
    all.into_iter().filter(|key| *key < end).take(OPERATIONS / SHORT).collect()
}

/// Writes the keys for the program in C.
fn write_keys(path: &Path) -> Result<()> {
    let mut keys = Keys::new();
    let all = keys.all.clone();
    let bytes = all.into_iter().chain(keys.some(OPERATIONS)).flat_map(u64::to_be_bytes);
    Ok(std::fs::write(path, bytes.collect::<Vec<u8>>())?)
}

fn main() -> Result<()> {
    if let Some(path) = std::env::args_os().nth(1) {
        return write_keys(Path::new(&path));
    }
    let dir = tempfile::tempdir()?;
    db(&dir.path().join("db"))?;
    circ()?;
    words(&dir.path().join("words"))?;
    writeln!(stdout(), "operations {OPERATIONS}")?;
    Ok(())
}
