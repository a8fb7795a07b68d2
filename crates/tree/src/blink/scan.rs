//! Ordered scans, one leaf at a time, in both directions.
//!
//! What a chunk holds was in the leaf at one moment; a scan over several leaves is not one moment
//! (FAST+FAIR's *atomic per leaf*, errata F19). A scan holds nothing between chunks: it goes on from
//! a key, so it may be kept for as long as one likes.

use std::borrow::Borrow;
use std::ops::{Bound, RangeBounds};

use everleaf_pmem::{LINE_BYTES, Medium, Result, room};

use super::descend::Spot;
use super::{Blink, damaged};
use crate::keys::Keys;
use crate::node::racing::Racing;
use crate::node::{Layout, Probe, Run, Slot, sibling};

/// What memory here is for.
const ENTRIES: &str = "the entries of a leaf";

/// A chunk is cut off after so many bytes of values.
const CHUNK_BYTES: usize = 1 << 20;

/// How many entries before its own a record is asked for.
const RECORDS_AHEAD: usize = 3;

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
        let settled = |spot: &Spot<'_>, run: Run| {
            // The scan goes on there: its lines come while this leaf is read.
            if let (true, Some(Ok(next))) =
                (limit > run.count, sibling(spot.page).map(|no| self.medium().page(no)))
            {
                next.prefetch_whole((next.slots() * P::AID_BYTES).div_ceil(LINE_BYTES));
            }
            let first = self.position(spot, run, from)?;
            let entries = self.entries(spot, run, (first..run.count).take(limit.max(1)))?;
            let more = first + entries.len() < run.count;
            let next = match (entries.last(), more, sibling(spot.page)) {
                (Some((key, _)), true, _) => Some(Bound::Excluded(K::own(key.borrow())?)),
                (_, _, Some(_)) => Some(Bound::Included(K::high(&self.pool, spot.page)?)),
                _ => None,
            };
            let onwards = |key: &K::Key| (from, Bound::Unbounded).contains(key);
            Self::gets_on(spot, Chunk { entries, next }, from, onwards)
        };
        let wanted = |key: &K::Key| (from, Bound::Unbounded).contains(key);
        self.read_leaf(seek, settled, |leaf| self.chunk_beside_writer(leaf, true, limit, wanted))
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
        let settled = |spot: &Spot<'_>, run: Run| {
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
                (Some((key, _)), true) => Some(Bound::Excluded(K::own(key.borrow())?)),
                _ => K::low(&self.pool, spot.page)?.map(Bound::Excluded),
            };
            let onwards = |key: &K::Key| (Bound::Unbounded, from).contains(key);
            Self::gets_on(spot, Chunk { entries, next }, from, onwards)
        };
        let wanted = |key: &K::Key| (Bound::Unbounded, from).contains(key);
        self.read_leaf(seek, settled, |leaf| self.chunk_beside_writer(leaf, false, limit, wanted))
    }

    /// The chunk, if whoever goes on behind it is nearer to the end than at `from`. Bounds and keys
    /// that contradict each other would keep a scan going for ever.
    fn gets_on(
        spot: &Spot<'_>,
        chunk: Chunk<K>,
        from: Bound<&K::Key>,
        onwards: impl Fn(&K::Key) -> bool,
    ) -> Result<Chunk<K>> {
        let last = chunk.entries.last().is_none_or(|(key, _)| onwards(key.borrow()));
        let next = match (from, &chunk.next) {
            (Bound::Unbounded, _) | (_, None | Some(Bound::Unbounded)) => true,
            // Behind a key that the scan includes, or at one that lies behind it.
            (Bound::Included(_), Some(Bound::Excluded(key))) => onwards(key.borrow()),
            (Bound::Included(key) | Bound::Excluded(key), Some(Bound::Included(to)))
            | (Bound::Excluded(key), Some(Bound::Excluded(to))) => {
                onwards(to.borrow()) && to.borrow() != key
            }
        };
        if last && next {
            return Ok(chunk);
        }
        Err(damaged(spot.page, "its keys or its bounds lie where they cannot"))
    }

    /// The greatest entry whose key is at most `key`. One descent as a rule; more if the leaf of the
    /// key has no such entry.
    ///
    /// # Errors
    /// I/O errors and Corrupt.
    #[inline]
    pub fn floor(&self, key: &K::Key) -> Result<Option<(K::Owned, K::Value)>> {
        let settled = |spot: &Spot<'_>, run: Run| {
            let le = K::rank::<M, P>(&self.pool, spot.page, spot.shape, run, key)?.le;
            let Some(last) = le.checked_sub(1) else { return Ok(None) };
            let slot = Slot::read(spot.page, run.slot(spot.page, last));
            Ok(Some(K::pair(&self.pool, spot.shape, slot)?))
        };
        let found = self.read_leaf(Seek::At(key), settled, |_| Ok(None))?;
        if found.is_some() { Ok(found) } else { self.first_down(Bound::Included(key)) }
    }

    /// The first entry that a scan downwards meets.
    fn first_down(&self, from: Bound<&K::Key>) -> Result<Option<(K::Owned, K::Value)>> {
        let mut chunk = self.chunk_down(from, 1)?;
        loop {
            if let Some(entry) = chunk.entries.pop() {
                return Ok(Some(entry));
            }
            let Some(next) = chunk.next else { return Ok(None) };
            chunk = self.chunk_down(borrow(&next), 1)?;
        }
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
        positions: impl Iterator<Item = usize> + Clone,
    ) -> Result<Vec<(K::Owned, K::Value)>> {
        let (mut entries, mut weight) = (Vec::new(), 0);
        let slot_at = |pos| Slot::read(spot.page, run.slot(spot.page, pos));
        let mut ahead = positions.clone().skip(RECORDS_AHEAD);
        for pos in positions {
            // Neighbours in a leaf are strangers in memory: their records come while one is copied.
            if let Some(record) = ahead.next().and_then(|pos| K::record(spot.shape, slot_at(pos))) {
                self.pool.prefetch_record(record);
            }
            let pair = K::pair(&self.pool, spot.shape, slot_at(pos))?;
            weight += K::weight(&pair.1);
            room::push(&mut entries, pair, ENTRIES)?;
            if weight > CHUNK_BYTES {
                break;
            }
        }
        Ok(entries)
    }

    /// The entries of a leaf that a writer is changing, for which `wanted` holds, in scan order.
    #[cold]
    fn chunk_beside_writer(
        &self,
        leaf: Racing<'_>,
        upwards: bool,
        limit: usize,
        wanted: impl Fn(&K::Key) -> bool,
    ) -> Result<Chunk<K>> {
        let mut slots = leaf.slots()?;
        if !upwards {
            slots.reverse();
        }
        let mut entries = room::list(slots.len(), ENTRIES)?;
        for slot in slots {
            let key = K::key(&self.pool, leaf.shape, slot)?;
            if wanted(key.borrow()) {
                if entries.len() == limit.max(1) {
                    let last: Option<&(K::Owned, K::Value)> = entries.last();
                    let next = last.map(|(key, _)| K::own(key.borrow())).transpose()?;
                    return Ok(Chunk { entries, next: next.map(Bound::Excluded) });
                }
                entries.push((key, K::value(&self.pool, slot)?));
            }
        }
        let bound =
            if upwards { leaf.limits.high } else { Some(leaf.limits.low).filter(|&l| l > 0) };
        let bound = bound.and_then(K::from_order);
        let next = bound.map(if upwards { Bound::Included } else { Bound::Excluded });
        Ok(Chunk { entries, next })
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
        self.first_down(Bound::Unbounded)
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
