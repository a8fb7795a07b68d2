//! A tree of byte strings as a map of small numbers, so that it can be judged as one: each number
//! stands for a key, or for a value, of any length.
#![allow(dead_code, reason = "each test program uses its own part")]

use std::ops::Bound;

use everleaf_pmem::{Error, Medium, Result};
use everleaf_tree::blink::{Blink, Condition, Put};
use everleaf_tree::slots::Strings;
use everleaf_tree::slots::{Circular, Sentinel};
use everleaf_tree::slotted::Slotted;
use everleaf_tree::{Index, Kind, TreeReport};

/// Trees of byte strings in records.
pub type Records = (Circular, Sentinel, Strings);

/// A kind of tree from byte strings to byte strings, and how long those are that stand for numbers.
pub trait TextKind: Kind<Key = [u8], Input = [u8], Value = Vec<u8>> + 'static {
    /// Slots of a page that holds few pairs.
    const SLOTS: u32;
    /// Bytes that the key of a number has behind the number.
    fn key_filler(number: u64) -> usize;
    /// Bytes that the value of a number has behind the number.
    fn value_filler(number: u64) -> usize;
}

impl TextKind for Records {
    const SLOTS: u32 = 8;
    /// Some do not fit a small page.
    fn key_filler(number: u64) -> usize {
        [0, 3, 17, 0, 60][(number / 10 + number % 10) as usize % 5]
    }
    /// From a word to more than some pages have.
    fn value_filler(number: u64) -> usize {
        [0, 21, 5, 400, 0, 90, 1300][number as usize % 7]
    }
}

impl TextKind for Slotted {
    /// Pages of 512 bytes.
    const SLOTS: u32 = 28;
    /// Four pairs fill a leaf; one key is cut, so that leaves around it do not even out.
    fn key_filler(number: u64) -> usize {
        [40, 52, 30, 0, 45, 52, 38, 51, 5, 44, 52, 48, 100, 30][number as usize % 14]
    }
    /// Mostly as much as an entry holds; some are in records, and some in extents.
    fn value_filler(number: u64) -> usize {
        [56, 40, 56, 0, 51, 20, 56, 57, 45, 400, 56, 33, 1300][number as usize % 13]
    }
}

/// A tree of byte strings.
pub struct Texts<M: Medium, K: TextKind = Records>(pub Blink<M, K>);

/// The key of a number; keys are in order as their numbers are. Lengths differ, and prefixes are shared.
pub fn key<K: TextKind>(number: u64) -> Vec<u8> {
    let mut key = b"key/".to_vec();
    key.extend(number.to_be_bytes());
    key.resize(key.len() + K::key_filler(number), b'.');
    key
}

fn key_number(key: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(key.get(4..12)?.try_into().ok()?))
}

/// The value of a number: of all lengths.
pub fn value<K: TextKind>(number: u64) -> Vec<u8> {
    let filler = K::value_filler(number);
    let mut value = number.to_be_bytes().to_vec();
    value.extend((0..filler).map(|i| (number as usize).wrapping_mul(31).wrapping_add(i) as u8));
    value
}

/// The number of a value, if it is whole.
fn value_number<K: TextKind>(bytes: &[u8]) -> Result<u64> {
    let number = bytes.get(..8).map(|b| u64::from_be_bytes(b.try_into().expect("eight bytes")));
    match number {
        Some(number) if value::<K>(number) == bytes => Ok(number),
        _ => Err(Error::Invalid { what: format!("nobody wrote these {} bytes", bytes.len()) }),
    }
}

fn pair<K: TextKind>((found, bytes): (Vec<u8>, Vec<u8>)) -> Result<(u64, u64)> {
    match key_number(&found) {
        Some(number) if key::<K>(number) == found => Ok((number, value_number::<K>(&bytes)?)),
        _ => Err(Error::Invalid { what: format!("nobody wrote the key {found:?}") }),
    }
}

impl<M: Medium, K: TextKind> Texts<M, K> {
    /// Sets a key's value; answers the old one and the epoch, if anything changed.
    pub fn put(&self, number: u64, to: u64, condition: Condition) -> Result<Put<u64>> {
        old::<K>(self.0.put(&key::<K>(number), &value::<K>(to), condition)?)
    }

    /// Removes a key; as [`put`](Self::put).
    pub fn take(&self, number: u64) -> Result<Put<u64>> {
        old::<K>(self.0.remove(&key::<K>(number))?)
    }

    /// The tree's report on itself.
    pub fn check(&self) -> Result<TreeReport> {
        self.0.check()
    }
}

fn old<K: TextKind>(put: Put<Vec<u8>>) -> Result<Put<u64>> {
    Ok(Put { old: put.old.map(|bytes| value_number::<K>(&bytes)).transpose()?, epoch: put.epoch })
}

/// Pairs from chunk to chunk.
macro_rules! gather {
    ($tree:expr, $chunk:ident, $from:expr, $within:expr, $limit:expr) => {{
        let mut from: Bound<Vec<u8>> = $from.map(key::<K>);
        let mut found = Vec::new();
        loop {
            let at = from.as_ref().map(Vec::as_slice);
            let chunk = $tree.$chunk(at, 5)?;
            for entry in chunk.entries {
                let entry = pair::<K>(entry)?;
                if found.len() == $limit || !$within(entry.0) {
                    return Ok(found);
                }
                found.push(entry);
            }
            match chunk.next {
                Some(next) => from = next,
                None => return Ok(found),
            }
        }
    }};
}

impl<M: Medium, K: TextKind> Index for Texts<M, K> {
    fn get(&self, number: u64) -> Result<Option<u64>> {
        self.0.get(&key::<K>(number))?.map(|bytes| value_number::<K>(&bytes)).transpose()
    }
    fn insert(&self, number: u64, to: u64) -> Result<Option<u64>> {
        self.put(number, to, Condition::Always).map(|put| put.old)
    }
    fn add(&self, number: u64, to: u64) -> Result<Option<u64>> {
        self.put(number, to, Condition::Absent).map(|put| put.old)
    }
    fn update(&self, number: u64, to: u64) -> Result<Option<u64>> {
        self.put(number, to, Condition::Present).map(|put| put.old)
    }
    fn remove(&self, number: u64) -> Result<Option<u64>> {
        self.take(number).map(|put| put.old)
    }
    fn first(&self) -> Result<Option<(u64, u64)>> {
        Ok(self.range(Bound::Unbounded, Bound::Unbounded, 1)?.pop())
    }
    fn last(&self) -> Result<Option<(u64, u64)>> {
        Ok(self.range_back(Bound::Unbounded, Bound::Unbounded, 1)?.pop())
    }
    fn range(&self, from: Bound<u64>, to: Bound<u64>, limit: usize) -> Result<Vec<(u64, u64)>> {
        let within = |number| std::ops::RangeBounds::contains(&(Bound::Unbounded, to), &number);
        gather!(self.0, chunk_up, from, within, limit)
    }
    fn range_back(
        &self,
        from: Bound<u64>,
        to: Bound<u64>,
        limit: usize,
    ) -> Result<Vec<(u64, u64)>> {
        let within = |number| std::ops::RangeBounds::contains(&(from, Bound::Unbounded), &number);
        gather!(self.0, chunk_down, to, within, limit)
    }
}
