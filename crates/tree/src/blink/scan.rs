//! Ordered scans, one leaf at a time, in both directions.
//!
//! The entries of a chunk were in the leaf at one moment; a scan over several leaves is not one moment
//! (FAST+FAIR's *atomic per leaf*, docs/PAPERS.md, F19). A scan holds nothing between chunks: it
//! goes on from a key, so it may be kept for as long as one likes.

use std::borrow::Borrow;
use std::ops::{Bound, RangeBounds};

use everleaf_pmem::{Error, Medium, Result, fallible};
use everleaf_pool::StoredValue;

use crate::blink::descend::{Blink, Seek};
use crate::node::{
    FarValue, KeyOf, Kind, NodeAt, NodeReads, OwnedKeyOf, TreeKey, TreeValue, ValueOf, damaged,
    settled, sibling,
};
use crate::record::one_entry;
use crate::slots::racing::Racing;

/// The name of this memory in errors.
const ENTRIES: &str = "the entries of a leaf";

/// A chunk is cut off after so many bytes of values.
const CHUNK_BYTES: usize = 1 << 20;

/// How many entries before its own a record is asked for.
const RECORDS_AHEAD: usize = 3;

/// Some entries in scan order, and where the scan goes on.
pub struct Chunk<O, V> {
    /// Keys and values; ascending, or descending in a reverse scan. May be empty though more
    /// follows.
    pub entries: Vec<(O, V)>,
    /// Entries that could not be read, and before how many of the others each comes.
    pub damages: Vec<(usize, Error)>,
    /// Where the next chunk starts; `None` if there is nothing behind this one.
    pub next: Option<Bound<O>>,
}

/// The work left on an entry when the leaf has been read.
enum Unfinished<O, F> {
    /// Its value has to be read.
    Far(O, F),
    /// It cannot be read.
    Damaged(Error),
}

/// A chunk as the leaf has it.
#[allow(clippy::type_complexity)]
struct Gathered<'t, M: Medium, K: Kind> {
    entries: Vec<(OwnedKeyOf<K>, ValueOf<K>)>,
    /// With the number of entries of both kinds before it.
    apart: Vec<(usize, Unfinished<OwnedKeyOf<K>, <K as NodeReads>::Far<'t, M>>)>,
    next: Option<Bound<OwnedKeyOf<K>>>,
}

impl<M: Medium, K: Kind> Gathered<'_, M, K> {
    fn len(&self) -> usize {
        self.entries.len() + self.apart.len()
    }

    /// The last key that could be read.
    fn last(&self) -> Option<&KeyOf<K>> {
        let far = self.apart.iter().rev().find_map(|(at, apart)| match apart {
            Unfinished::Far(key, _) => Some((*at, key)),
            Unfinished::Damaged(_) => None,
        });
        let here = self.entries.last().map(|(key, _)| key.borrow());
        match far {
            // As many others before it as there are: it is behind all of them.
            Some((at, key)) if here.is_none() || self.is_last(at) => Some(key.borrow()),
            _ => here,
        }
    }

    /// Whether what is apart at `at` has no entry behind it.
    fn is_last(&self, at: usize) -> bool {
        let behind = self.apart.iter().filter(|(other, _)| *other > at).count();
        at + 1 + behind == self.len()
    }

    /// Reads what is far, now that nobody waits for it.
    #[inline]
    fn finish(self) -> Result<Chunk<OwnedKeyOf<K>, ValueOf<K>>> {
        if self.apart.is_empty() {
            return Ok(Chunk { entries: self.entries, damages: Vec::new(), next: self.next });
        }
        self.finish_apart()
    }

    #[cold]
    fn finish_apart(self) -> Result<Chunk<OwnedKeyOf<K>, ValueOf<K>>> {
        let count = self.len();
        let mut entries = fallible::list(count, ENTRIES)?;
        let (mut damages, mut here) = (Vec::new(), self.entries.into_iter());
        for (seen, (at, apart)) in self.apart.into_iter().enumerate() {
            // Of those before it, `seen` were apart.
            let missing = (at - seen).saturating_sub(entries.len() + damages.len() - seen);
            entries.extend(here.by_ref().take(missing));
            let read = match apart {
                Unfinished::Far(key, far) => far.read().map(|value| (key, value)),
                Unfinished::Damaged(error) => Err(error),
            };
            match read {
                Ok(entry) => entries.push(entry),
                Err(error) => {
                    fallible::push(&mut damages, (entries.len(), one_entry(error)?), ENTRIES)?;
                }
            }
        }
        entries.extend(here);
        debug_assert_eq!(entries.len() + damages.len(), count, "each entry is told once");
        Ok(Chunk { entries, damages, next: self.next })
    }
}

/// The extent of a chunk: the keys between two bounds, in one direction.
struct Wish<'k, Q: ?Sized> {
    low: Bound<&'k Q>,
    high: Bound<&'k Q>,
    upwards: bool,
    limit: usize,
}

impl<Q: ?Sized + Ord> Wish<'_, Q> {
    /// Where the scan begins.
    fn from(&self) -> Bound<&Q> {
        if self.upwards { self.low } else { self.high }
    }
    /// Whether it begins behind its end.
    fn is_void(&self) -> bool {
        match (self.low, self.high) {
            (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
            (
                Bound::Included(low) | Bound::Excluded(low),
                Bound::Included(high) | Bound::Excluded(high),
            ) => low > high,
        }
    }
    /// Whether a key lies on the scan's side of its beginning.
    fn is_ahead(&self, key: &Q) -> bool {
        if self.upwards {
            (self.low, Bound::Unbounded).contains(key)
        } else {
            (Bound::Unbounded, self.high).contains(key)
        }
    }
}

impl<M: Medium, K: Kind> Blink<M, K> {
    /// The entries of one leaf from `from` on, upwards. It ends after `limit` entries, or soon after a
    /// mebibyte of values.
    ///
    /// # Errors
    /// I/O errors and Corrupt, also of one entry.
    pub fn chunk_up(
        &self,
        from: Bound<&KeyOf<K>>,
        limit: usize,
    ) -> Result<Chunk<OwnedKeyOf<K>, ValueOf<K>>> {
        whole(self.chunk((from, Bound::Unbounded), true, limit)?)
    }

    /// The entries of one leaf from `from` on, downwards, `limit` at most. `Included(k)` starts with k
    /// itself.
    ///
    /// # Errors
    /// The same as for [`chunk_up`](Self::chunk_up).
    pub fn chunk_down(
        &self,
        from: Bound<&KeyOf<K>>,
        limit: usize,
    ) -> Result<Chunk<OwnedKeyOf<K>, ValueOf<K>>> {
        whole(self.chunk((Bound::Unbounded, from), false, limit)?)
    }

    /// The entries of one leaf between two bounds, starting at one of them. It ends after `limit` entries,
    /// or soon after a mebibyte of values. Entries that cannot be read are reported beside the others, and
    /// may come on top of the limit. Values in extents are read after the leaf has been left alone.
    ///
    /// # Errors
    /// I/O errors and Corrupt, of more than one entry.
    pub fn chunk(
        &self,
        (low, high): (Bound<&KeyOf<K>>, Bound<&KeyOf<K>>),
        upwards: bool,
        limit: usize,
    ) -> Result<Chunk<OwnedKeyOf<K>, ValueOf<K>>> {
        let wish = Wish { low, high, upwards, limit: limit.max(1) };
        if wish.is_void() {
            return Ok(Chunk { entries: Vec::new(), damages: Vec::new(), next: None });
        }
        self.gather_leaf(&wish)?.finish()
    }

    /// The keys of one leaf from `from` on, in no order, and where the next keys start. It reads no value
    /// in extents, so it does not notice damage there.
    ///
    /// # Errors
    /// I/O errors and Corrupt, also of one entry.
    #[allow(clippy::type_complexity)]
    pub fn keys_up(
        &self,
        from: Bound<&KeyOf<K>>,
        limit: usize,
    ) -> Result<(Vec<OwnedKeyOf<K>>, Option<Bound<OwnedKeyOf<K>>>)> {
        self.keys((from, Bound::Unbounded), true, limit)
    }

    /// The keys of one leaf between two bounds, downwards, and where the next keys start, as
    /// [`keys_up`](Self::keys_up).
    ///
    /// # Errors
    /// I/O errors and Corrupt, also of one entry.
    #[allow(clippy::type_complexity)]
    pub fn keys_down(
        &self,
        range: (Bound<&KeyOf<K>>, Bound<&KeyOf<K>>),
        limit: usize,
    ) -> Result<(Vec<OwnedKeyOf<K>>, Option<Bound<OwnedKeyOf<K>>>)> {
        self.keys(range, false, limit)
    }

    #[allow(clippy::type_complexity)]
    fn keys(
        &self,
        (low, high): (Bound<&KeyOf<K>>, Bound<&KeyOf<K>>),
        upwards: bool,
        limit: usize,
    ) -> Result<(Vec<OwnedKeyOf<K>>, Option<Bound<OwnedKeyOf<K>>>)> {
        let wish = Wish { low, high, upwards, limit: limit.max(1) };
        if wish.is_void() {
            return Ok((Vec::new(), None));
        }
        let found = self.gather_leaf(&wish)?;
        let mut keys = fallible::list(found.len(), ENTRIES)?;
        keys.extend(found.entries.into_iter().map(|(key, _)| key));
        for (at, apart) in found.apart {
            match apart {
                // In its place: a caller that removes keys in order leaves the last ones, wherever it ends.
                Unfinished::Far(key, _) => keys.insert(at.min(keys.len()), key),
                Unfinished::Damaged(error) => return Err(error),
            }
        }
        Ok((keys, found.next))
    }

    /// Gathers what a wish finds in the first leaf that it concerns.
    #[inline]
    fn gather_leaf(&self, wish: &Wish<'_, KeyOf<K>>) -> Result<Gathered<'_, M, K>> {
        let seek = match (wish.from(), wish.upwards) {
            (Bound::Unbounded, true) => Seek::Min,
            (Bound::Unbounded, false) => Seek::Max,
            (Bound::Excluded(key), false) => Seek::Below(key),
            (Bound::Included(key) | Bound::Excluded(key), _) => Seek::At(key),
        };
        let settled = |at: &NodeAt<'_, K>| match wish.upwards {
            true => self.gather_up(at, wish),
            false => self.gather_down(at, wish),
        };
        self.read_leaf(seek, settled, |leaf| self.gather_beside_writer(leaf, wish))
    }

    fn gather_up(
        &self,
        at: &NodeAt<'_, K>,
        wish: &Wish<'_, KeyOf<K>>,
    ) -> Result<Gathered<'_, M, K>> {
        let right = sibling(at.page());
        // The scan goes on there: its lines come while this leaf is read.
        if let (true, Some(Ok(next))) =
            (wish.limit > at.count(), right.map(|no| self.pool.page(no)))
        {
            K::prefetch_whole(next);
        }
        let high = right.map(|_| K::high(&self.pool, at.page())).transpose()?;
        // As a whole: the end of the scan need not begin as the keys of this leaf do.
        let ends = match (&high, wish.high) {
            (None, _) => true,
            (Some(_), Bound::Unbounded) => false,
            (Some(high), Bound::Included(key)) => key < high.borrow(),
            (Some(high), Bound::Excluded(key)) => key <= high.borrow(),
        };
        let first = self.low_end(at, wish.low)?;
        let end = if ends { self.high_end(at, wish.high)? } else { at.count() };
        let mut found = self.gather(at, first..end, wish.limit)?;
        found.next = match found.last() {
            Some(key) if first + found.len() < end => Some(Bound::Excluded(key.own()?)),
            _ if ends => None,
            _ => high.map(Bound::Included),
        };
        Self::gets_on(at, found, wish)
    }

    fn gather_down(
        &self,
        at: &NodeAt<'_, K>,
        wish: &Wish<'_, KeyOf<K>>,
    ) -> Result<Gathered<'_, M, K>> {
        let end = self.high_end(at, wish.high)?;
        let low = K::low(&self.pool, at.page())?;
        let ends = match (&low, wish.low) {
            (None, _) => true,
            (Some(_), Bound::Unbounded) => false,
            (Some(low), Bound::Included(key) | Bound::Excluded(key)) => low.borrow() <= key,
        };
        let first = if ends { self.low_end(at, wish.low)? } else { 0 };
        let mut found = self.gather(at, (first..end).rev(), wish.limit)?;
        found.next = match found.last() {
            Some(key) if first + found.len() < end => Some(Bound::Excluded(key.own()?)),
            _ if ends => None,
            _ => low.map(Bound::Excluded),
        };
        Self::gets_on(at, found, wish)
    }

    /// The chunk, if a scan that goes on behind it is nearer to the end than at its beginning. Bounds and
    /// keys that contradict each other would keep a scan going for ever.
    fn gets_on<'t>(
        at: &NodeAt<'_, K>,
        found: Gathered<'t, M, K>,
        wish: &Wish<'_, KeyOf<K>>,
    ) -> Result<Gathered<'t, M, K>> {
        let last = found.last().is_none_or(|key| wish.is_ahead(key));
        let next = match (wish.from(), &found.next) {
            (Bound::Unbounded, _) | (_, None | Some(Bound::Unbounded)) => true,
            // Behind a key that the scan includes, or at one that lies behind it.
            (Bound::Included(_), Some(Bound::Excluded(key))) => wish.is_ahead(key.borrow()),
            (Bound::Included(key) | Bound::Excluded(key), Some(Bound::Included(to)))
            | (Bound::Excluded(key), Some(Bound::Excluded(to))) => {
                wish.is_ahead(to.borrow()) && to.borrow() != key
            }
        };
        if last && next {
            return Ok(found);
        }
        Err(damaged(at.page(), "its keys or its bounds lie where they cannot"))
    }

    /// The greatest entry whose key is at most `key`. This takes one descent as a rule, and more if the
    /// leaf of the key has no such entry.
    ///
    /// # Errors
    /// I/O errors and Corrupt.
    #[inline]
    pub fn floor(&self, key: &KeyOf<K>) -> Result<Option<(OwnedKeyOf<K>, ValueOf<K>)>> {
        let below = |at: &NodeAt<'_, K>| {
            let le = K::rank(&self.pool, at, key)?.le;
            let Some(last) = le.checked_sub(1) else { return Ok(None) };
            Ok(Some(K::pair(&self.pool, at.shape(), at.entry(last))?))
        };
        match self.read_leaf(Seek::At(key), below, |_| Ok(None))? {
            Some((key, value)) => Ok(Some((key, settled(value)?))),
            None => self.first_down(Bound::Included(key)),
        }
    }

    /// The first entry that a scan downwards meets.
    fn first_down(&self, from: Bound<&KeyOf<K>>) -> Result<Option<(OwnedKeyOf<K>, ValueOf<K>)>> {
        let mut chunk = self.chunk_down(from, 1)?;
        loop {
            if let Some(entry) = chunk.entries.pop() {
                return Ok(Some(entry));
            }
            let Some(next) = chunk.next else { return Ok(None) };
            chunk = self.chunk_down(borrow(&next), 1)?;
        }
    }

    /// How many entries of a leaf lie below a lower bound.
    pub(super) fn low_end(&self, at: &NodeAt<'_, K>, bound: Bound<&KeyOf<K>>) -> Result<usize> {
        let (key, excluded) = match bound {
            Bound::Unbounded => return Ok(0),
            Bound::Included(key) => (key, false),
            Bound::Excluded(key) => (key, true),
        };
        match K::rank(&self.pool, at, key) {
            Ok(rank) => Ok(if excluded { rank.le } else { rank.lt() }),
            // The key is like one that cannot be read: behind the last that is surely below.
            Err(error) => {
                one_entry(error)?;
                let below = |k: &KeyOf<K>| k < key || excluded && k == key;
                Ok(self.readable(at, (0..at.count()).rev(), below)?.map_or(0, |pos| pos + 1))
            }
        }
    }

    /// How many entries of a leaf lie below an upper bound, or at it.
    pub(super) fn high_end(&self, at: &NodeAt<'_, K>, bound: Bound<&KeyOf<K>>) -> Result<usize> {
        let (key, excluded) = match bound {
            Bound::Unbounded => return Ok(at.count()),
            Bound::Included(key) => (key, false),
            Bound::Excluded(key) => (key, true),
        };
        match K::rank(&self.pool, at, key) {
            Ok(rank) => Ok(if excluded { rank.lt() } else { rank.le }),
            // As above: before the first that is surely above.
            Err(error) => {
                one_entry(error)?;
                let above = |k: &KeyOf<K>| k > key || excluded && k == key;
                Ok(self.readable(at, 0..at.count(), above)?.unwrap_or(at.count()))
            }
        }
    }

    /// The first of the positions whose key can be read and is as wanted.
    #[cold]
    fn readable(
        &self,
        at: &NodeAt<'_, K>,
        mut positions: impl Iterator<Item = usize>,
        wanted: impl Fn(&KeyOf<K>) -> bool,
    ) -> Result<Option<usize>> {
        let is_wanted = |pos: usize| match K::key(&self.pool, at.shape(), at.entry(pos)) {
            Ok(key) => Ok(wanted(key.borrow())),
            Err(error) => one_entry(error).map(|_| false),
        };
        positions
            .find_map(|pos| is_wanted(pos).map(|yes| yes.then_some(pos)).transpose())
            .transpose()
    }

    /// Copies entries until there are `limit`, or enough bytes. The last one of them can be read, or
    /// there is none behind it: the next chunk begins behind a key.
    fn gather(
        &self,
        at: &NodeAt<'_, K>,
        positions: impl ExactSizeIterator<Item = usize> + Clone,
        limit: usize,
    ) -> Result<Gathered<'_, M, K>> {
        debug_assert!(limit > 0, "a chunk of nothing would not get on");
        let entry_at = |pos| at.entry(pos);
        let mut entries = fallible::list(positions.len().min(limit), ENTRIES)?;
        let (mut apart, mut weight) = (Vec::new(), 0_usize);
        let mut ahead = positions.clone().take(limit).skip(RECORDS_AHEAD);
        for pos in positions {
            // Neighbours in a leaf are strangers in memory: their records come while one is copied.
            if let Some(record) = ahead.next().and_then(|pos| K::record(at.shape(), entry_at(pos)))
            {
                self.pool.prefetch_record(record);
            }
            let place = entries.len() + apart.len();
            match K::pair(&self.pool, at.shape(), entry_at(pos)) {
                Ok((key, StoredValue::Inline(value))) => {
                    weight = weight.saturating_add(value.weight());
                    fallible::push(&mut entries, (key, value), ENTRIES)?;
                }
                Ok((key, StoredValue::External(far))) => {
                    weight = weight.saturating_add(far.weight());
                    fallible::push(&mut apart, (place, Unfinished::Far(key, far)), ENTRIES)?;
                }
                Err(error) => {
                    let damaged = Unfinished::Damaged(one_entry(error)?);
                    fallible::push(&mut apart, (place, damaged), ENTRIES)?;
                    continue;
                }
            }
            if place + 1 >= limit || weight > CHUNK_BYTES {
                break;
            }
        }
        Ok(Gathered { entries, apart, next: None })
    }

    /// The entries of a leaf that a writer is changing, in scan order.
    #[cold]
    fn gather_beside_writer(
        &self,
        leaf: Racing<'_>,
        wish: &Wish<'_, KeyOf<K>>,
    ) -> Result<Gathered<'_, M, K>> {
        let mut slots = leaf.slots()?;
        if !wish.upwards {
            slots.reverse();
        }
        let entries = fallible::list(slots.len().min(wish.limit), ENTRIES)?;
        let mut found = Gathered { entries, apart: Vec::new(), next: None };
        for slot in slots {
            let key = K::key(&self.pool, leaf.shape, K::raced(slot))?;
            if !(wish.low, wish.high).contains(key.borrow()) {
                continue;
            }
            if found.len() == wish.limit {
                found.next = found.last().map(K::Key::own).transpose()?.map(Bound::Excluded);
                return Ok(found);
            }
            match K::found(&self.pool, K::raced(slot))? {
                StoredValue::Inline(value) => {
                    fallible::push(&mut found.entries, (key, value), ENTRIES)?
                }
                StoredValue::External(far) => {
                    let at = found.len();
                    fallible::push(&mut found.apart, (at, Unfinished::Far(key, far)), ENTRIES)?;
                }
            }
        }
        found.next = if wish.upwards {
            leaf.limits.high.and_then(K::Key::from_order).map(Bound::Included)
        } else {
            Some(leaf.limits.low)
                .filter(|&l| l > 0)
                .and_then(K::Key::from_order)
                .map(Bound::Excluded)
        };
        Ok(found)
    }

    /// The smallest key and its value.
    ///
    /// # Errors
    /// I/O errors and Corrupt.
    pub fn first(&self) -> Result<Option<(OwnedKeyOf<K>, ValueOf<K>)>> {
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
    pub fn last(&self) -> Result<Option<(OwnedKeyOf<K>, ValueOf<K>)>> {
        self.first_down(Bound::Unbounded)
    }
}

/// The chunk, if all of it could be read.
fn whole<O, V>(mut chunk: Chunk<O, V>) -> Result<Chunk<O, V>> {
    match chunk.damages.is_empty() {
        true => Ok(chunk),
        false => Err(chunk.damages.swap_remove(0).1),
    }
}

/// A bound of a borrowed key.
pub(super) fn borrow<Q: ?Sized, O: std::borrow::Borrow<Q>>(bound: &Bound<O>) -> Bound<&Q> {
    match bound {
        Bound::Included(key) => Bound::Included(key.borrow()),
        Bound::Excluded(key) => Bound::Excluded(key.borrow()),
        Bound::Unbounded => Bound::Unbounded,
    }
}
