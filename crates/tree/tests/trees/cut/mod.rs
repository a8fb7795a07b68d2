//! Trees on the file medium as the tests of power cuts and kills see them: one interface for words,
//! strings in records and slotted nodes, what random operations do, and what should be there at the end of
//! each epoch.
#![allow(dead_code, missing_docs, reason = "each test program uses its own part")]

pub use everleaf_testing::Rng;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use everleaf_file::File;
use everleaf_pmem::Result;
use everleaf_pool::Pool;
use everleaf_tree::blink::{Blink, Condition};
use everleaf_tree::node::{KeyOf, Kind, OwnedKeyOf, ValueOf};
use everleaf_tree::slots::{Circular, Sentinel};
use everleaf_tree::slots::{Strings, Words};
use everleaf_tree::slotted::Slotted;
use everleaf_tree::{CircTree, INDEX_ANCHOR, SlottedTree, StringTree, TreeReport, leaks};

pub type Bytes = Vec<u8>;
pub type Content = BTreeMap<Bytes, Bytes>;

/// So many bytes, one of each number.
pub fn bytes(rng: &mut Rng, n: usize) -> Bytes {
    (0..n).map(|_| rng.next() as u8).collect()
}

/// The old value, and the epoch in which the write landed.
pub type Wrote = (Option<Bytes>, Option<u64>);

/// A tree of any kind; keys and values are bytes, in the order of the keys.
pub trait Subject: Sized + Send + Sync {
    const NAME: &'static str;
    /// The smallest pages that the kind has.
    const SLOTS: u32;
    type Kind: Kind;
    fn open(pool: &Arc<Pool<File>>) -> Result<Self>;
    fn put(&self, key: &[u8], value: &[u8], condition: Condition) -> Result<Wrote>;
    fn remove(&self, key: &[u8]) -> Result<Wrote>;
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>>;
    fn all(&self, upwards: bool) -> Result<Vec<(Bytes, Bytes)>>;
    fn check(&self) -> Result<TreeReport>;
    fn random_key(rng: &mut Rng) -> Bytes;
    /// A value; of 100, about so many are large, if values can be.
    fn random_value(rng: &mut Rng, large: u64) -> Bytes;
}

fn word(bytes: &[u8]) -> u64 {
    u64::from_be_bytes(bytes.try_into().expect("eight bytes"))
}

fn all<K: Kind>(
    tree: &Blink<File, K>,
    upwards: bool,
    pair: impl Fn((OwnedKeyOf<K>, ValueOf<K>)) -> (Bytes, Bytes),
) -> Result<Vec<(Bytes, Bytes)>> {
    let (mut found, mut next) = (Vec::new(), Some(Bound::Unbounded));
    while let Some(from) = next {
        let from: Bound<&KeyOf<K>> = from.as_ref().map(std::borrow::Borrow::borrow);
        let chunk = if upwards { tree.chunk_up(from, 9)? } else { tree.chunk_down(from, 9)? };
        found.extend(chunk.entries.into_iter().map(&pair));
        next = chunk.next;
    }
    Ok(found)
}

impl Subject for CircTree<File> {
    const NAME: &'static str = "words";
    const SLOTS: u32 = 8;
    type Kind = (Circular, Sentinel, Words);
    fn open(pool: &Arc<Pool<File>>) -> Result<Self> {
        CircTree::open(Arc::clone(pool), INDEX_ANCHOR)
    }
    fn put(&self, key: &[u8], value: &[u8], condition: Condition) -> Result<Wrote> {
        let put = Blink::put(self, &word(key), &word(value), condition)?;
        Ok((put.old.map(|v| v.to_be_bytes().to_vec()), put.epoch))
    }
    fn remove(&self, key: &[u8]) -> Result<Wrote> {
        let put = Blink::remove(self, &word(key))?;
        Ok((put.old.map(|v| v.to_be_bytes().to_vec()), put.epoch))
    }
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>> {
        Ok(Blink::get(self, &word(key))?.map(|v| v.to_be_bytes().to_vec()))
    }
    fn all(&self, upwards: bool) -> Result<Vec<(Bytes, Bytes)>> {
        all(self, upwards, |(k, v)| (k.to_be_bytes().to_vec(), v.to_be_bytes().to_vec()))
    }
    fn check(&self) -> Result<TreeReport> {
        Blink::check(self)
    }
    fn random_key(rng: &mut Rng) -> Bytes {
        let key = match rng.below(16) {
            0 => 0,
            1 => u64::MAX,
            2 => (1 << 63) - rng.below(3),
            _ => rng.below(3000) * 0x0001_0101_0101_0101,
        };
        key.to_be_bytes().to_vec()
    }
    fn random_value(rng: &mut Rng, _: u64) -> Bytes {
        rng.next().to_be_bytes().to_vec()
    }
}

impl Subject for StringTree<File> {
    const NAME: &'static str = "strings";
    const SLOTS: u32 = 8;
    type Kind = (Circular, Sentinel, Strings);
    fn open(pool: &Arc<Pool<File>>) -> Result<Self> {
        StringTree::open(Arc::clone(pool), INDEX_ANCHOR)
    }
    fn put(&self, key: &[u8], value: &[u8], condition: Condition) -> Result<Wrote> {
        Blink::put(self, key, value, condition).map(|put| (put.old, put.epoch))
    }
    fn remove(&self, key: &[u8]) -> Result<Wrote> {
        Blink::remove(self, key).map(|put| (put.old, put.epoch))
    }
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>> {
        Blink::get(self, key)
    }
    fn all(&self, upwards: bool) -> Result<Vec<(Bytes, Bytes)>> {
        all(self, upwards, |pair| pair)
    }
    fn check(&self) -> Result<TreeReport> {
        Blink::check(self)
    }
    /// Shared prefixes, keys that differ only in length or trailing zeros, keys that do not fit a
    /// small page.
    fn random_key(rng: &mut Rng) -> Bytes {
        let stem: &[u8] = [&b""[..], b"user/0000000000", b"a", b"\0\0", &[b'k'; 150]]
            [rng.below(20) as usize / 4 % 5];
        let tail = rng.below(if stem.len() > 100 { 3 } else { 6 });
        let mut key = stem.to_vec();
        key.extend((0..tail).map(|_| [0, 1, b'a', 255][rng.below(4) as usize]));
        key
    }
    /// Records of all classes and extents.
    fn random_value(rng: &mut Rng, large: u64) -> Bytes {
        let len = match rng.below(100) {
            n if n < large => 100 + rng.below(3000),
            n if n % 2 == 0 => rng.below(100),
            _ => rng.below(24),
        };
        bytes(rng, len as usize)
    }
}

impl Subject for SlottedTree<File> {
    const NAME: &'static str = "slotted";
    /// Pages of 512 bytes: four pairs of a hundred bytes each, or many short ones.
    const SLOTS: u32 = 28;
    type Kind = Slotted;
    fn open(pool: &Arc<Pool<File>>) -> Result<Self> {
        SlottedTree::open(Arc::clone(pool), INDEX_ANCHOR)
    }
    fn put(&self, key: &[u8], value: &[u8], condition: Condition) -> Result<Wrote> {
        Blink::put(self, key, value, condition).map(|put| (put.old, put.epoch))
    }
    fn remove(&self, key: &[u8]) -> Result<Wrote> {
        Blink::remove(self, key).map(|put| (put.old, put.epoch))
    }
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>> {
        Blink::get(self, key)
    }
    fn all(&self, upwards: bool) -> Result<Vec<(Bytes, Bytes)>> {
        all(self, upwards, |pair| pair)
    }
    fn check(&self) -> Result<TreeReport> {
        Blink::check(self)
    }
    fn random_key(rng: &mut Rng) -> Bytes {
        slotted_key(rng)
    }
    /// Each length around what an entry holds, and extents.
    fn random_value(rng: &mut Rng, large: u64) -> Bytes {
        let len = match rng.below(100) {
            n if n < large => 65 + rng.below(3000),
            n if n % 4 == 0 => 55 + rng.below(12),
            n if n % 2 == 0 => rng.below(65),
            _ => rng.below(16),
        };
        bytes(rng, len as usize)
    }
}

/// Keys for pages of 512 bytes: empty ones, keys that differ in trailing zeros or in length, prefixes that
/// tie for a whole page and for thousands of bytes, and lengths around those that an entry and a fence
/// keep whole.
pub fn slotted_key(rng: &mut Rng) -> Bytes {
    const ENDS: [u8; 4] = [0, 1, b'a', 255];
    let (stem, most) = match rng.below(40) {
        0..8 => (vec![], 5),
        8..16 => (b"user/0000000000".to_vec(), 5),
        16..22 => (b"a".to_vec(), 5),
        22..25 => (vec![0; 3], 4),
        25..31 => (vec![b'e'; 56 + rng.below(10) as usize], 3),
        31..34 => (vec![b'k'; 150], 4),
        34..36 => (vec![b't'; 600], 3),
        36 => (vec![b't'; 3000], 3),
        // Ascending, as time does: nodes that are filled at their ends.
        _ => (format!("log/{:04}", rng.below(1000)).into_bytes(), 0),
    };
    let mut key = stem;
    key.extend((0..rng.below(most + 1)).map(|_| ENDS[rng.below(4) as usize]));
    key
}

/// The content that a tree should have at the end of each epoch since the last open.
#[derive(Debug, Default)]
pub struct Model {
    base: Content,
    base_epoch: u64,
    log: Vec<(u64, Bytes, Option<Bytes>)>,
    pub now: Content,
}

impl Model {
    pub fn set(&mut self, epoch: u64, key: &[u8], value: Option<&[u8]>) {
        assert!(self.log.last().is_none_or(|(last, ..)| *last <= epoch), "epochs go back");
        self.log.push((epoch, key.to_vec(), value.map(<[u8]>::to_vec)));
        apply(&mut self.now, key, value);
    }

    /// The last epoch up to `epoch` in which something happened.
    pub fn last_change(&self, epoch: u64) -> u64 {
        let before = self.log.partition_point(|(e, ..)| *e <= epoch);
        self.log[..before].last().map_or(self.base_epoch, |(e, ..)| *e)
    }

    pub fn at(&self, epoch: u64) -> Content {
        let mut content = self.base.clone();
        for (_, key, value) in self.log.iter().take_while(|(e, ..)| *e <= epoch) {
            apply(&mut content, key, value.as_deref());
        }
        content
    }

    /// Forgets what a crash has taken back.
    pub fn cut(&mut self, epoch: u64) {
        self.base = self.at(epoch);
        (self.base_epoch, self.now) = (self.last_change(epoch), self.base.clone());
        self.log.clear();
    }
}

fn apply(content: &mut Content, key: &[u8], value: Option<&[u8]>) {
    match value {
        Some(value) => content.insert(key.to_vec(), value.to_vec()),
        None => content.remove(key),
    };
}

/// Holds the tree against what it should hold.
pub fn compare<T: Subject>(tree: &T, wanted: &Content, what: &str) {
    for upwards in [true, false] {
        let mut found = tree.all(upwards).unwrap_or_else(|e| panic!("{what}: {e}"));
        if !upwards {
            found.reverse();
        }
        if !found.iter().map(|(k, v)| (k, v)).eq(wanted) {
            let found: Content = found.into_iter().collect();
            let (lost, extra) = (difference(wanted, &found), difference(&found, wanted));
            panic!("{what}: upwards {upwards}: lost {lost}, instead {extra}");
        }
    }
}

/// How many pairs of `a` are not in `b`, with the first keys and the lengths of their values.
fn difference(a: &Content, b: &Content) -> String {
    let only: Vec<_> = a.iter().filter(|p| b.get(p.0) != Some(p.1)).collect();
    let some: Vec<_> = only.iter().take(5).map(|(k, v)| (k, v.len())).collect();
    format!("{} of {}: {some:?}", only.len(), a.len())
}

/// Looks at every byte of a pool that has one tree: nothing is damaged and nothing leaks.
pub fn inspect<T: Subject>(pool: &Pool<File>, tree: &T, entries: usize, what: &str) -> TreeReport {
    let damages = pool.check();
    assert!(damages.is_empty(), "{what}: {damages:?}");
    let report = tree.check().unwrap_or_else(|e| panic!("{what}: {e}"));
    assert!(report.damages.is_empty(), "{what}: {:?}", report.damages);
    assert_eq!(report.entries, entries as u64, "{what}");
    let lost = leaks(pool, std::slice::from_ref(&report)).unwrap_or_else(|e| panic!("{what}: {e}"));
    assert_eq!(lost, Default::default(), "{what}");
    report
}
