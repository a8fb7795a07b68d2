//! A tree of byte strings as a map of small numbers, so that it can be judged as one: each number
//! stands for a key, or for a value, of any length.
#![allow(dead_code, reason = "each test program uses its own part")]

use std::ops::Bound;

use everleaf_pmem::{Error, Medium, Result};
use everleaf_tree::blink::{Condition, Put};
use everleaf_tree::{Index, StringTree, TreeReport};

/// A tree of byte strings.
pub struct Texts<M: Medium>(pub StringTree<M>);

/// The key of a number; keys are in order as their numbers are. Lengths differ, prefixes are shared,
/// and some do not fit a small page.
pub fn key(number: u64) -> Vec<u8> {
    let filler = [0, 3, 17, 0, 60][(number / 10 + number % 10) as usize % 5];
    let mut key = b"key/".to_vec();
    key.extend(number.to_be_bytes());
    key.resize(key.len() + filler, b'.');
    key
}

fn key_number(key: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(key.get(4..12)?.try_into().ok()?))
}

/// The value of a number: of all lengths, from a word to more than some pages have.
pub fn value(number: u64) -> Vec<u8> {
    let filler = [0, 21, 5, 400, 0, 90, 1300][number as usize % 7];
    let mut value = number.to_be_bytes().to_vec();
    value.extend((0..filler).map(|i| (number as usize * 31 + i) as u8));
    value
}

/// The number of a value, if it is whole.
fn value_number(bytes: &[u8]) -> Result<u64> {
    let number = bytes.get(..8).map(|b| u64::from_be_bytes(b.try_into().expect("eight bytes")));
    match number {
        Some(number) if value(number) == bytes => Ok(number),
        _ => Err(Error::Invalid { what: format!("nobody wrote these {} bytes", bytes.len()) }),
    }
}

fn pair((found, bytes): (Vec<u8>, Vec<u8>)) -> Result<(u64, u64)> {
    match key_number(&found) {
        Some(number) if key(number) == found => Ok((number, value_number(&bytes)?)),
        _ => Err(Error::Invalid { what: format!("nobody wrote the key {found:?}") }),
    }
}

impl<M: Medium> Texts<M> {
    /// Sets a key's value; answers the old one and the epoch, if anything changed.
    pub fn put(&self, number: u64, to: u64, condition: Condition) -> Result<Put<u64>> {
        old(self.0.put(&key(number), &value(to), condition)?)
    }

    /// Removes a key; as [`put`](Self::put).
    pub fn take(&self, number: u64) -> Result<Put<u64>> {
        old(self.0.remove(&key(number))?)
    }

    /// What the tree says of itself.
    pub fn check(&self) -> Result<TreeReport> {
        self.0.check()
    }
}

fn old(put: Put<Vec<u8>>) -> Result<Put<u64>> {
    Ok(Put { old: put.old.map(|bytes| value_number(&bytes)).transpose()?, epoch: put.epoch })
}

/// Pairs from chunk to chunk.
macro_rules! gather {
    ($tree:expr, $chunk:ident, $from:expr, $within:expr, $limit:expr) => {{
        let mut from: Bound<Vec<u8>> = $from.map(key);
        let mut found = Vec::new();
        loop {
            let at = from.as_ref().map(Vec::as_slice);
            let chunk = $tree.$chunk(at, 5)?;
            for entry in chunk.entries {
                let entry = pair(entry)?;
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

impl<M: Medium> Index for Texts<M> {
    fn get(&self, number: u64) -> Result<Option<u64>> {
        self.0.get(&key(number))?.map(|bytes| value_number(&bytes)).transpose()
    }
    fn insert(&self, number: u64, to: u64) -> Result<Option<u64>> {
        self.put(number, to, Condition::Always).map(|put| put.old)
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
