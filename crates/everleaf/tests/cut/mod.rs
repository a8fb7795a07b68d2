//! A model of a Db for tests of power cuts and failing disks: what all its trees should hold at the end
//! of each epoch, what random operations do, and what must be so after each open.
#![allow(dead_code, missing_docs, reason = "each test program uses its own part")]

pub use everleaf_testing::Rng;
use std::collections::BTreeMap;
use std::io::{self, Read};
use std::ops::Bound;
use std::sync::Arc;

use everleaf::{Db, Error, Options, Pair, Result};

pub mod act;
pub mod disk;
pub mod draft;

pub const PATH: &str = "/pool/p.ever";

/// Shared, because models are cloned.
pub type Bytes = Arc<[u8]>;
pub type Name = Arc<str>;
pub type Content = BTreeMap<Bytes, Bytes>;
pub type Trees = BTreeMap<Name, Content>;

/// A reader that gives little at a time.
struct Short<'v>(&'v [u8]);

impl Read for Short<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let most = buf.len().min(777);
        self.0.read(&mut buf[..most])
    }
}

#[derive(Debug, Clone)]
enum Undo {
    Make(Name),
    Set(Name, Bytes, Option<Bytes>),
    /// Of a tree that was empty by then.
    Drop(Name),
    Rename(Name, Name),
}

/// The content of all trees, and how to get back to the end of each epoch since the last open.
#[derive(Debug, Clone, Default)]
pub struct Model {
    pub now: Trees,
    base_epoch: u64,
    log: Vec<(u64, Undo)>,
}

impl Model {
    fn did(&mut self, epoch: u64, undo: Undo) {
        assert!(self.log.last().is_none_or(|(last, _)| *last <= epoch), "epochs go back");
        self.log.push((epoch, undo));
    }

    pub fn make(&mut self, epoch: u64, tree: &Name) {
        if !self.now.contains_key(tree) {
            self.now.insert(tree.clone(), Content::new());
            self.did(epoch, Undo::Make(tree.clone()));
        }
    }

    /// The tree loses all but its first pairs.
    pub fn keep_first(&mut self, epoch: u64, tree: &Name, pairs: usize) {
        let lost: Vec<_> = self.now[tree].keys().skip(pairs).cloned().collect();
        lost.iter().for_each(|key| self.set(epoch, tree, key, None));
    }

    pub fn drop_tree(&mut self, epoch: u64, tree: &Name) {
        self.keep_first(epoch, tree, 0);
        self.now.remove(tree);
        self.did(epoch, Undo::Drop(tree.clone()));
    }

    pub fn rename(&mut self, epoch: u64, from: &Name, to: &Name) {
        let content = self.now.remove(from).expect("a tree that is there");
        self.now.insert(to.clone(), content);
        self.did(epoch, Undo::Rename(from.clone(), to.clone()));
    }

    pub fn get(&self, tree: &Name, key: &Bytes) -> Option<&Bytes> {
        self.now.get(tree)?.get(key)
    }

    pub fn set(&mut self, epoch: u64, tree: &Name, key: &Bytes, value: Option<&Bytes>) {
        let old = put(&mut self.now, tree, key, value);
        if old.is_some() || value.is_some() {
            self.did(epoch, Undo::Set(tree.clone(), key.clone(), old));
        }
    }

    /// The last epoch up to `epoch` in which something happened.
    pub fn last_change(&self, epoch: u64) -> u64 {
        let before = self.log.partition_point(|(e, _)| *e <= epoch);
        self.log[..before].last().map_or(self.base_epoch, |(e, _)| *e)
    }

    /// Forgets what a crash has taken back: all after `epoch`.
    pub fn cut(&mut self, epoch: u64) {
        self.base_epoch = self.last_change(epoch);
        while let Some((_, undo)) = self.log.pop_if(|(e, _)| *e > epoch) {
            match undo {
                Undo::Make(tree) => drop(self.now.remove(&tree)),
                Undo::Drop(tree) => drop(self.now.insert(tree, Content::new())),
                Undo::Rename(from, to) => {
                    let content = self.now.remove(&to).expect("it was renamed");
                    self.now.insert(from, content);
                }
                Undo::Set(tree, key, old) => drop(put(&mut self.now, &tree, &key, old.as_ref())),
            }
        }
        self.log.clear();
    }

    /// A random key that is there.
    pub fn some_key(&self, rng: &mut Rng, tree: &Name) -> Option<Bytes> {
        let content = self.now.get(tree).filter(|content| !content.is_empty())?;
        let from = random_key(rng, 0);
        let mut behind = content.range::<[u8], _>((Bound::Included(&from[..]), Bound::Unbounded));
        behind.next().or_else(|| content.iter().next()).map(|(key, _)| key.clone())
    }

    /// A random tree; the first one more often, so that one is high.
    pub fn some_tree(&self, rng: &mut Rng) -> Option<Name> {
        let n = if rng.one_in(2) { self.now.len() as u64 } else { 1 };
        self.now.keys().nth(rng.below(n.max(1)) as usize).cloned()
    }
}

fn put(trees: &mut Trees, tree: &Name, key: &Bytes, value: Option<&Bytes>) -> Option<Bytes> {
    let content = trees.get_mut(tree).expect("a tree that is there");
    match value {
        Some(value) => content.insert(key.clone(), value.clone()),
        None => content.remove(key),
    }
}

/// The names that trees may have: short, nested, the longest.
pub fn random_name(rng: &mut Rng) -> Name {
    match rng.below(7) {
        0 => "a".into(),
        1 => "orders".into(),
        2 => "orders/by day".into(),
        3 => "ü".into(),
        4 => "n".repeat(255).into(),
        5 => "\0".into(),
        _ => format!("{:0>40}", rng.below(20)).into(),
    }
}

/// Shared prefixes, keys that differ only in length or trailing zeros, keys that do not fit a small
/// page, the empty key; of 1000, about so many are as long as a key can be.
pub fn random_key(rng: &mut Rng, longest: u64) -> Bytes {
    if rng.below(1000) < longest {
        let mut key = vec![rng.below(3) as u8; everleaf::KEY_BYTES_MAX];
        *key.last_mut().expect("it is long") = rng.below(3) as u8;
        return key.into();
    }
    // The last ones are about as long as a small node keeps whole, and tie for longer than a page.
    let around = &[b'e'; 66][..56 + rng.below(11) as usize];
    let stems = [&b""[..], b"user/0000000000", b"a", b"\0\0", &[b'k'; 150], around, &[b't'; 1500]];
    let stem =
        stems[[0, 1, 2, 3, 4, 5, 5, 0, 1, 2, 3, 4, 0, 1, 2, 3, 5, 0, 1, 6][rng.below(20) as usize]];
    let tail = rng.below(if stem.len() > 50 { 3 } else { 6 });
    let mut key = stem.to_vec();
    key.extend((0..tail).map(|_| rng.pick(&[0, 1, b'a', 255])));
    key.into()
}

/// The bias of random operations.
#[derive(Debug, Clone, Copy)]
pub struct Mood {
    /// Of 100 changes of a key, how many set it.
    pub growth: u64,
    /// Of 100 values, how many are large.
    pub large: u64,
    /// Bytes of the largest value.
    pub largest: u64,
    /// Of 1000 keys, how many are as long as can be.
    pub longest: u64,
    /// Of 100 operations, how many end an epoch.
    pub syncs: u64,
}

/// Records of all classes, and extents.
pub fn random_value(rng: &mut Rng, mood: Mood) -> Bytes {
    let most = rng.pick(&[300, 3000, mood.largest]);
    let len = match rng.below(100) {
        n if n < mood.large => 60 + rng.below(most),
        n if n < 55 => rng.below(24),
        n if n < 65 => 0,
        _ => rng.below(100),
    };
    rng.bytes(len as usize)
}

/// Settings under which a pool's every call repeats.
pub fn options(page_bytes: u32, max_bytes: u64, journal_bytes: u64) -> Options {
    Options::new()
        .background(false)
        .page_bytes(page_bytes)
        .max_bytes(max_bytes)
        .journal_bytes(journal_bytes)
}

/// The same with pages that leave memory all the time, if the seed is odd.
pub fn with_memory(options: Options, seed: u64) -> Options {
    if seed.is_multiple_of(2) { options } else { options.memory(1).evict_small_pages() }
}

/// Reads, and once more if a call fails: a disk that fails does so once.
pub fn again<T>(mut read: impl FnMut() -> Result<T>) -> Result<T> {
    match read() {
        Err(Error::Io { .. }) => read(),
        done => done,
    }
}

/// Holds all trees against what they should hold.
pub fn compare(db: &Db, wanted: &Trees, backwards: bool, what: &str) {
    let names = again(|| db.tree_names()).unwrap_or_else(|e| panic!("{what}: {e}"));
    assert!(
        names.iter().map(|name| &name[..]).eq(wanted.keys().map(|n| &n[..])),
        "{what}: {names:?}"
    );
    for (name, content) in wanted {
        let tree = again(|| db.open_tree(name)).unwrap_or_else(|e| panic!("{what}: {e}"));
        let tree = tree.unwrap_or_else(|| panic!("{what}: {name:?} was there a moment ago"));
        let all = || -> Result<Vec<Pair>> {
            if backwards { tree.iter().rev().collect() } else { tree.iter().collect() }
        };
        let mut pairs = again(all).unwrap_or_else(|e| panic!("{what}: {name:?}: {e}"));
        if backwards {
            pairs.reverse();
        }
        let len = again(|| tree.len()).unwrap_or_else(|e| panic!("{what}: {name:?}: {e}"));
        assert_eq!(len, pairs.len() as u64, "{what}: the count of {name:?}");
        let found = pairs.iter().map(|(key, value)| (&key[..], &value[..]));
        if !found.eq(content.iter().map(|(key, value)| (&key[..], &value[..]))) {
            let found = pairs.into_iter().map(|(k, v)| (k[..].into(), v[..].into())).collect();
            let (lost, extra) = (difference(content, &found), difference(&found, content));
            panic!("{what}: {name:?}: lost {lost}, instead {extra}");
        }
    }
}

/// How many pairs of `a` are not in `b`, with the first keys and the lengths of their values.
fn difference(a: &Content, b: &Content) -> String {
    let only: Vec<_> = a.iter().filter(|p| b.get(p.0) != Some(p.1)).collect();
    let some: Vec<_> = only.iter().take(5).map(|(k, v)| (k, v.len())).collect();
    format!("{} of {}: {some:?}", only.len(), a.len())
}

/// Every byte of the pool is sound and nothing leaks.
pub fn inspect(db: &Db, what: &str) {
    let damages = db.check().unwrap_or_else(|e| panic!("{what}: {e}"));
    assert!(damages.is_empty(), "{what}: {damages:?}");
}

/// The pool's own counts are those of the model. Returns the most levels of a tree.
pub fn count(db: &Db, wanted: &Trees, what: &str) -> u32 {
    let counts = db.count().unwrap_or_else(|e| panic!("{what}: {e}"));
    let stats = db.stats().unwrap_or_else(|e| panic!("{what}: {e}"));
    let found = counts.trees.iter().map(|t| (&t.name[..], t.entries, t.key_bytes, t.value_bytes));
    let bytes = |content: &Content| {
        let keys: usize = content.keys().map(|key| key.len()).sum();
        let values: usize = content.values().map(|value| value.len()).sum();
        (content.len() as u64, keys as u64, values as u64)
    };
    let wanted = wanted.iter().map(|(name, content)| (name, bytes(content)));
    let wanted = wanted.map(|(name, (entries, keys, values))| (&name[..], entries, keys, values));
    assert!(found.eq(wanted), "{what}: {:?}", counts.trees);
    assert_eq!((stats.epoch, stats.durable_epoch), (db.epoch(), db.durable_epoch()), "{what}");
    counts.trees.iter().map(|tree| tree.depth).max().unwrap_or(0)
}
