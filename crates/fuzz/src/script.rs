//! Operations that an input chooses, on a pool and on its model.

use std::collections::BTreeMap;
use std::sync::Arc;

use everleaf::{Bytes, Db, Error, Options, Result, Tree};
use everleaf_file::io::SimIo;

use crate::input::Input;
use crate::parts::POOL;

/// The contents of trees, by name.
pub type Model = BTreeMap<String, BTreeMap<Vec<u8>, Vec<u8>>>;

/// The length that the data file may grow to.
pub const BYTES_MAX: u64 = 7 << 19;

/// Names of trees: short ones, and one that shares a prefix.
pub const TREES: [&str; 3] = ["a", "ab", "names of trees may be long, too"];

/// The settings of all pools here: no threads, so that everything repeats; small, so that an open
/// is fast.
pub fn options(page_bytes: u32) -> Options {
    let options = Options::new().background(false).page_bytes(page_bytes);
    options.journal_bytes(1 << 20).max_bytes(BYTES_MAX)
}

/// Opens the pool on a disk.
///
/// # Errors
/// As `Options::open_on`.
pub fn open(disk: &SimIo, options: &Options) -> Result<Db> {
    options.open_on(Arc::new(disk.clone()), POOL)
}

/// A key: of few different ones, so that some come again; of all lengths; many with long prefixes.
pub fn key(input: &mut Input<'_>) -> Vec<u8> {
    let (kind, n) = (input.u8(), input.u8());
    match kind % 8 {
        0 => vec![n; usize::from(kind / 8)],
        1 => format!("a common prefix of some length {n:03}").into_bytes(),
        2 => input.bytes(usize::from(n % 24)).to_vec(),
        3 => [&[b'x'; 300][..], &[n]].concat(),
        4 if kind == 4 => vec![n; 250 * usize::from(n)],
        _ => vec![n / 16, n % 16],
    }
}

/// A value, of all lengths; now and then one that needs extents.
pub fn value(input: &mut Input<'_>) -> Vec<u8> {
    let (kind, n) = (input.u8(), input.u8());
    match kind {
        0..=7 => vec![n; 100 * usize::from(n)],
        8..=31 => vec![n; usize::from(n)],
        32..=63 => Vec::new(),
        _ => vec![n; usize::from(kind % 16)],
    }
}

/// One change of a tree: the pool's, and the model's.
///
/// # Errors
/// The pool's; the model is as before then.
pub fn change(input: &mut Input<'_>, db: &Db, model: &mut Model, no: usize) -> Result<()> {
    let name = TREES[no % TREES.len()];
    let tree = db.tree(name)?;
    let entries = model.entry(name.to_owned()).or_default();
    if input.u8().is_multiple_of(4) {
        let key = key(input);
        assert_eq!(
            tree.remove(&key)?.map(Bytes::into_vec),
            entries.remove(&key),
            "what remove says of {key:x?}"
        );
    } else {
        let (key, value) = (key(input), value(input));
        let old = tree.insert(&key, &value)?;
        assert_eq!(old.map(Bytes::into_vec), entries.insert(key, value), "what insert says");
    }
    Ok(())
}

/// Removes every other pair of a tree, so that nodes merge.
///
/// # Errors
/// The pool's.
pub fn thin_out(db: &Db, model: &mut Model, no: usize) -> Result<()> {
    let name = TREES[no % TREES.len()];
    let tree = db.tree(name)?;
    let entries = model.entry(name.to_owned()).or_default();
    let keys: Vec<Vec<u8>> = entries.keys().step_by(2).cloned().collect();
    for key in keys {
        assert_eq!(tree.remove(&key)?.map(Bytes::into_vec), entries.remove(&key));
    }
    Ok(())
}

/// Fills a tree with small pairs from `first` on.
///
/// # Errors
/// The pool's.
pub fn fill(db: &Db, model: &mut Model, no: usize, first: u8, n: u8) -> Result<()> {
    let name = TREES[no % TREES.len()];
    let tree = db.tree(name)?;
    let entries = model.entry(name.to_owned()).or_default();
    for i in 0..n {
        let key = vec![first, i.wrapping_mul(37)];
        tree.insert(&key, [i])?;
        entries.insert(key, vec![i]);
    }
    Ok(())
}

/// A batch of up to eight changes in all trees.
///
/// # Errors
/// The pool's.
pub fn batch(input: &mut Input<'_>, db: &Db, model: &mut Model) -> Result<()> {
    let mut after = model.clone();
    let mut batch = db.batch();
    let trees = TREES.map(|name| db.tree(name));
    for (tree, name) in trees.into_iter().zip(TREES) {
        let tree = tree?;
        let entries = after.entry(name.to_owned()).or_default();
        for _ in 0..input.u8() % 3 {
            let key = key(input);
            if input.u8().is_multiple_of(3) {
                batch.delete(&tree, &key)?;
                entries.remove(&key);
            } else {
                let value = value(input);
                batch.put(&tree, &key, &value)?;
                entries.insert(key, value);
            }
        }
    }
    batch.commit()?;
    *model = after;
    Ok(())
}

/// Whether the pool is full, which ends a script: a batch that found out half-way has stopped all
/// writes.
///
/// # Panics
/// On another error: no fault was injected.
pub fn ended(done: Result<()>) -> bool {
    match done {
        Ok(()) => false,
        Err(Error::Full { .. }) => true,
        Err(error) => panic!("no fault was injected: {error}"),
    }
}

/// The contents of a pool. Trees that are empty are as good as none.
///
/// # Errors
/// The pool's.
pub fn contents(db: &Db) -> Result<Model> {
    let mut model = Model::new();
    for name in db.tree_names()? {
        let Some(tree) = db.open_tree(&name)? else { continue };
        model.insert(name, all(&tree)?);
    }
    Ok(without_empty(model))
}

fn all(tree: &Tree) -> Result<BTreeMap<Vec<u8>, Vec<u8>>> {
    tree.iter().map(|pair| pair.map(|(key, value)| (key.into(), value.into()))).collect()
}

/// The trees that hold something.
pub fn without_empty(mut model: Model) -> Model {
    model.retain(|_, entries| !entries.is_empty());
    model
}

/// Makes a small sound pool as the input says, and leaves it closed or as a crash would: a pool with
/// several trees, levels and records of all kinds, homes and journal.
///
/// # Panics
/// If the store does what it must not.
pub fn small_pool(input: &mut Input<'_>) -> SimIo {
    let disk = SimIo::new(1);
    let (shape, ops) = (input.u8(), input.u8() % 24);
    let options = options([512, 512, 1024, 4096][usize::from(shape % 4)]);
    let mut model = Model::new();
    let db = open(&disk, &options).expect("a new pool");
    let sound = "a sound pool";
    fill(&db, &mut model, 0, 1, 20 + shape / 4).expect(sound);
    db.sync().expect(sound);
    for no in 0..usize::from(ops) {
        let done = match input.u8() {
            0..=15 => db.checkpoint(),
            16..=39 => db.sync(),
            40..=47 => fill(&db, &mut model, no, 2, input.u8() % 64),
            48..=55 => thin_out(&db, &mut model, no),
            _ => change(input, &db, &mut model, no),
        };
        if ended(done) {
            break;
        }
    }
    if shape & 128 == 0 {
        db.sync().expect(sound);
        let left = disk.power_cut(0);
        drop(db);
        return left;
    }
    db.close().expect(sound);
    disk
}
