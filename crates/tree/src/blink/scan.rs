//! Ordered scans, one leaf at a time, in both directions.
//!
//! Each leaf is read under its version, so what a chunk holds was in the leaf at one moment; a
//! scan over several leaves is not one moment (FAST+FAIR's *atomic per leaf*, errata F19). A scan
//! holds nothing between chunks: it goes on from a key, so it may be kept for as long as one likes.

use std::ops::Bound;

use everleaf_pmem::{Backoff, Medium, Result};

use super::Blink;
use super::descend::Spot;
use crate::keys::Keys;
use crate::node::{Layout, Probe, Run, Slot, sibling};

/// A chunk is cut off after so many bytes of values.
const CHUNK_BYTES: usize = 1 << 20;

/// What a descent looks for.
pub enum Seek<'k, K: Keys> {
    /// The leftmost node.
    Min,
    /// The rightmost node.
    Max,
    /// The node that covers the key.
    At(&'k K::Key),
    /// The node that covers the keys just below the key.
    Below(&'k K::Key),
}

impl<K: Keys> Clone for Seek<'_, K> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<K: Keys> Copy for Seek<'_, K> {}

/// Some entries in scan order, and where the scan goes on.
pub struct Chunk<K: Keys> {
    /// Keys and values; ascending, or descending in a reverse scan. May be empty though more
    /// follows.
    pub entries: Vec<(K::Owned, K::Value)>,
    /// Where the next chunk starts; `None` at the end of the tree.
    pub next: Option<Bound<K::Owned>>,
}

impl<M: Medium, L: Layout, P: Probe, K: Keys> Blink<M, L, P, K> {
    /// The entries of one leaf from `from` on, upwards; at most `limit`, and not many more after
    /// a mebibyte of values.
    ///
    /// # Errors
    /// I/O errors and Corrupt.
    pub fn chunk_up(&self, from: Bound<&K::Key>, limit: usize) -> Result<Chunk<K>> {
        let seek = match from {
            Bound::Unbounded => Seek::Min,
            Bound::Included(key) | Bound::Excluded(key) => Seek::At(key),
        };
        self.chunk(seek, |spot, run| {
            let first = self.position(spot, run, from)?;
            let entries = self.entries(spot, run, (first..run.count).take(limit.max(1)))?;
            let more = first + entries.len() < run.count;
            let next = match (entries.last(), more, sibling(spot.page)) {
                (Some((key, _)), true, _) => Some(Bound::Excluded(key.clone())),
                (_, _, Some(_)) => Some(Bound::Included(K::high(&self.pool, spot.page)?)),
                _ => None,
            };
            Ok(Chunk { entries, next })
        })
    }

    /// The entries of one leaf from `from` on, downwards; at most `limit`. `Included(k)` starts
    /// with k itself.
    ///
    /// # Errors
    /// I/O errors and Corrupt.
    pub fn chunk_down(&self, from: Bound<&K::Key>, limit: usize) -> Result<Chunk<K>> {
        let seek = match from {
            Bound::Unbounded => Seek::Max,
            Bound::Included(key) => Seek::At(key),
            Bound::Excluded(key) => Seek::Below(key),
        };
        self.chunk(seek, |spot, run| {
            let end = match from {
                Bound::Unbounded => run.count,
                Bound::Included(key) => {
                    K::rank::<M, P>(&self.pool, spot.page, spot.shape, run, key)?.le
                }
                Bound::Excluded(key) => {
                    K::rank::<M, P>(&self.pool, spot.page, spot.shape, run, key)?.lt()
                }
            };
            let entries = self.entries(spot, run, (0..end).rev().take(limit.max(1)))?;
            let next = match (entries.last(), entries.len() < end) {
                (Some((key, _)), true) => Some(Bound::Excluded(key.clone())),
                _ => K::low(&self.pool, spot.page)?.map(Bound::Excluded),
            };
            Ok(Chunk { entries, next })
        })
    }

    fn position(&self, spot: &Spot<'_>, run: Run, from: Bound<&K::Key>) -> Result<usize> {
        let rank = |key| K::rank::<M, P>(&self.pool, spot.page, spot.shape, run, key);
        Ok(match from {
            Bound::Unbounded => 0,
            Bound::Included(key) => rank(key)?.lt(),
            Bound::Excluded(key) => rank(key)?.le,
        })
    }

    fn entries(
        &self,
        spot: &Spot<'_>,
        run: Run,
        positions: impl Iterator<Item = usize>,
    ) -> Result<Vec<(K::Owned, K::Value)>> {
        let (mut entries, mut weight) = (Vec::new(), 0);
        for pos in positions {
            let slot = Slot::read(spot.page, run.slot(spot.page, pos));
            let value = K::value(&self.pool, slot)?;
            weight += K::weight(&value);
            entries.push((K::key(&self.pool, spot.shape, slot)?, value));
            if weight > CHUNK_BYTES {
                break;
            }
        }
        Ok(entries)
    }

    /// Reads a leaf until nothing changed meanwhile.
    fn chunk(
        &self,
        seek: Seek<'_, K>,
        read: impl Fn(&Spot<'_>, Run) -> Result<Chunk<K>>,
    ) -> Result<Chunk<K>> {
        let mut wait = Backoff::default();
        loop {
            let spot = self.leaf(seek)?;
            let mut run = Run::of(spot.page);
            run.count = run.count.min(spot.page.slots());
            let chunk = read(&spot, run);
            if spot.page.latch().validate(spot.version) {
                return chunk;
            }
            wait.pause();
        }
    }

    /// The smallest key and its value.
    ///
    /// # Errors
    /// I/O errors and Corrupt.
    pub fn first(&self) -> Result<Option<(K::Owned, K::Value)>> {
        let mut chunk = self.chunk_up(Bound::Unbounded, 1)?;
        loop {
            if let Some(entry) = chunk.entries.pop() {
                return Ok(Some(entry));
            }
            let Some(next) = chunk.next else { return Ok(None) };
            chunk = self.chunk_up(borrow(&next), 1)?;
        }
    }

    /// The greatest key and its value.
    ///
    /// # Errors
    /// I/O errors and Corrupt.
    pub fn last(&self) -> Result<Option<(K::Owned, K::Value)>> {
        let mut chunk = self.chunk_down(Bound::Unbounded, 1)?;
        loop {
            if let Some(entry) = chunk.entries.pop() {
                return Ok(Some(entry));
            }
            let Some(next) = chunk.next else { return Ok(None) };
            chunk = self.chunk_down(borrow(&next), 1)?;
        }
    }
}

/// A bound of a borrowed key.
pub(crate) fn borrow<Q: ?Sized, O: std::borrow::Borrow<Q>>(bound: &Bound<O>) -> Bound<&Q> {
    match bound {
        Bound::Included(key) => Bound::Included(key.borrow()),
        Bound::Excluded(key) => Bound::Excluded(key.borrow()),
        Bound::Unbounded => Bound::Unbounded,
    }
}
