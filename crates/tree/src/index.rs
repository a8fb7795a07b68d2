//! The interface that the papers measure: an ordered map from u64 to u64.
//!
//! Object-safe, for tools and benches; hot paths stay generic over the tree's type.

use std::ops::{Bound, RangeBounds};

use everleaf_pmem::{Medium, Result};

use crate::blink::{Blink, Chunk, Condition, borrow};
use crate::hybrid::Hybrid;
use crate::keys::Words;
use crate::node::{Layout, Probe};

/// An ordered map from u64 to u64. Every key and every value is allowed.
///
/// All operations may run in any number of threads. A `get` or a range sees a write from the
/// moment it is linked; when the write is durable depends on the medium.
pub trait Index: Send + Sync {
    /// The value of a key.
    ///
    /// # Errors
    /// I/O errors and Corrupt.
    fn get(&self, key: u64) -> Result<Option<u64>>;

    /// Stores a value and returns the old one.
    ///
    /// # Errors
    /// Full, I/O errors, Poisoned, Corrupt; nothing is stored then.
    fn insert(&self, key: u64, value: u64) -> Result<Option<u64>>;

    /// Stores a value if the key is there, and returns the old one.
    ///
    /// # Errors
    /// As [`insert`](Self::insert).
    fn update(&self, key: u64, value: u64) -> Result<Option<u64>>;

    /// Removes a key and returns its value.
    ///
    /// # Errors
    /// As [`insert`](Self::insert).
    fn remove(&self, key: u64) -> Result<Option<u64>>;

    /// The smallest key and its value.
    ///
    /// # Errors
    /// I/O errors and Corrupt.
    fn first(&self) -> Result<Option<(u64, u64)>>;

    /// The greatest key and its value.
    ///
    /// # Errors
    /// I/O errors and Corrupt.
    fn last(&self) -> Result<Option<(u64, u64)>>;

    /// Up to `limit` entries between two bounds, ascending. Atomic per leaf.
    ///
    /// # Errors
    /// I/O errors and Corrupt.
    fn range(&self, from: Bound<u64>, to: Bound<u64>, limit: usize) -> Result<Vec<(u64, u64)>>;

    /// Up to `limit` entries between two bounds, descending from `to`. Atomic per leaf.
    ///
    /// # Errors
    /// I/O errors and Corrupt.
    fn range_back(&self, from: Bound<u64>, to: Bound<u64>, limit: usize)
    -> Result<Vec<(u64, u64)>>;
}

/// Gathers chunks until a key fails `within` or `limit` entries are there.
fn gather(
    start: Bound<u64>,
    limit: usize,
    within: impl Fn(u64) -> bool,
    chunk: impl Fn(Bound<&u64>, usize) -> Result<Chunk<Words>>,
) -> Result<Vec<(u64, u64)>> {
    let mut out = Vec::new();
    let mut next = Some(start);
    while let Some(from) = next.take().filter(|_| out.len() < limit) {
        let part = chunk(borrow(&from), limit - out.len())?;
        for (key, value) in part.entries {
            if !within(key) {
                return Ok(out);
            }
            out.push((key, value));
        }
        next = part.next.filter(|bound| match bound {
            Bound::Included(key) => within(*key),
            _ => true,
        });
    }
    Ok(out)
}

impl<M: Medium, L: Layout, P: Probe> Index for Blink<M, L, P, Words> {
    fn get(&self, key: u64) -> Result<Option<u64>> {
        Blink::get(self, &key)
    }
    fn insert(&self, key: u64, value: u64) -> Result<Option<u64>> {
        self.put(&key, &value, Condition::Always).map(|put| put.old)
    }
    fn update(&self, key: u64, value: u64) -> Result<Option<u64>> {
        self.put(&key, &value, Condition::Present).map(|put| put.old)
    }
    fn remove(&self, key: u64) -> Result<Option<u64>> {
        Blink::remove(self, &key).map(|put| put.old)
    }
    fn first(&self) -> Result<Option<(u64, u64)>> {
        Blink::first(self)
    }
    fn last(&self) -> Result<Option<(u64, u64)>> {
        Blink::last(self)
    }
    fn range(&self, from: Bound<u64>, to: Bound<u64>, limit: usize) -> Result<Vec<(u64, u64)>> {
        let within = |key| (Bound::Unbounded, to).contains(&key);
        gather(from, limit, within, |at, limit| self.chunk_up(at, limit))
    }
    fn range_back(
        &self,
        from: Bound<u64>,
        to: Bound<u64>,
        limit: usize,
    ) -> Result<Vec<(u64, u64)>> {
        let within = |key| (from, Bound::Unbounded).contains(&key);
        gather(to, limit, within, |at, limit| self.chunk_down(at, limit))
    }
}

impl<M: Medium> Index for Hybrid<M> {
    fn get(&self, key: u64) -> Result<Option<u64>> {
        Hybrid::get(self, key)
    }
    fn insert(&self, key: u64, value: u64) -> Result<Option<u64>> {
        self.put(key, value, Condition::Always).map(|put| put.old)
    }
    fn update(&self, key: u64, value: u64) -> Result<Option<u64>> {
        self.put(key, value, Condition::Present).map(|put| put.old)
    }
    fn remove(&self, key: u64) -> Result<Option<u64>> {
        Hybrid::remove(self, key).map(|put| put.old)
    }
    fn first(&self) -> Result<Option<(u64, u64)>> {
        Hybrid::first(self)
    }
    fn last(&self) -> Result<Option<(u64, u64)>> {
        Hybrid::last(self)
    }
    fn range(&self, from: Bound<u64>, to: Bound<u64>, limit: usize) -> Result<Vec<(u64, u64)>> {
        Hybrid::range(self, from, to, limit)
    }
    fn range_back(
        &self,
        from: Bound<u64>,
        to: Bound<u64>,
        limit: usize,
    ) -> Result<Vec<(u64, u64)>> {
        Hybrid::range_back(self, from, to, limit)
    }
}
