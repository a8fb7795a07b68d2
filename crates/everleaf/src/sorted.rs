//! A sorted map from byte strings in memory that may be refused: a list of short sorted lists.
//!
//! `BTreeMap` ends the process where the system gives no memory, and these grow with what users write. Most keys are
//! short, and an allocation takes longer than to find one: a short key is in its entry.

use std::ops::Bound;

use everleaf_pmem::fallible;
use everleaf_pmem::fallible::taken;
use everleaf_pmem::page::prefetch;

use crate::{Bytes, Result};

/// A list that has so many entries is divided.
const MOST: usize = 128;

/// The processor is asked for a key so many entries before it is looked at.
const KEYS_AHEAD: usize = 6;

/// The list of lists of a small map, and what is kept beside a map, take no more than so many entries.
const LIST_ROOM: u64 = 24;

/// The room that a map of `len` entries takes at most for `more` keys that come in ascending order: for entries, and for
/// the lists of them, in entries.
pub(crate) fn room_at_most(len: u64, more: u64) -> u64 {
    let most = MOST as u64;
    let room = match len {
        // Each list is full before the next one begins.
        0 => more.next_multiple_of(most),
        // A list that is divided has room for twice what it keeps, and each one may have been full.
        _ => 2 * more + len.min(most * more) + most,
    };
    room + (len + more) / (most / 2) + LIST_ROOM
}

type Entries<V> = Vec<(Bytes, V)>;

/// Where an entry is: its list, and its place there.
pub(crate) type Place = (usize, usize);

/// The map. An entry costs O(log n) to find. To insert one moves half a list, and now and then half of the list of
/// lists.
///
/// It knows what memory it takes: its lists and its keys, and nothing of what values lead to.
#[derive(Debug)]
pub(crate) struct Sorted<V> {
    /// None of them is empty.
    lists: Vec<Entries<V>>,
    len: usize,
    /// Bytes that the keys take.
    key_bytes: u64,
    /// Entries that the lists have room for.
    room: usize,
}

impl<V> Default for Sorted<V> {
    fn default() -> Self {
        Self { lists: Vec::new(), len: 0, key_bytes: 0, room: 0 }
    }
}

impl<V> Sorted<V> {
    /// Bytes of an entry in its list.
    pub const ENTRY_BYTES: u64 = size_of::<(Bytes, V)>() as u64;

    /// Bytes that it takes of memory, without what values lead to.
    pub fn bytes(&self) -> u64 {
        let lists = self.lists.capacity() * size_of::<Entries<V>>();
        self.key_bytes + self.room as u64 * Self::ENTRY_BYTES + taken(lists)
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Where a key is, or where it would be.
    #[inline]
    pub fn place(&self, key: &[u8]) -> Result<Place, Place> {
        let behind = self.lists.partition_point(|list| list[0].0[..] <= *key);
        let Some(no) = behind.checked_sub(1) else { return Err((0, 0)) };
        match self.lists[no].binary_search_by(|(k, _)| k[..].cmp(key)) {
            Ok(at) => Ok((no, at)),
            Err(at) => Err((no, at)),
        }
    }

    /// The same, if the key is not below the entry at `near`. It costs less the nearer that is.
    pub fn place_behind(&self, key: &[u8], near: Place) -> Result<Place, Place> {
        let Some(later) = self.lists.get(near.0 + 1..) else { return self.place(key) };
        let (no, from) = match gallop(later, |list| list[0].0[..] <= *key) {
            0 => near,
            further => (near.0 + further, 0),
        };
        let list = &self.lists[no];
        let at = from + gallop(&list[from..], |(k, _)| k[..] < *key);
        if list.get(at).is_some_and(|(k, _)| k[..] == *key) { Ok((no, at)) } else { Err((no, at)) }
    }

    pub fn get(&self, key: &[u8]) -> Option<&V> {
        self.place(key).ok().map(|(no, at)| &self.lists[no][at].1)
    }

    pub fn get_mut(&mut self, key: &[u8]) -> Option<&mut V> {
        self.place(key).ok().map(|(no, at)| &mut self.lists[no][at].1)
    }

    /// The value of a key, which gets one if it is not there.
    ///
    /// # Errors
    /// [`NoMemory`](crate::Error::NoMemory); the map is as it was, and takes as much.
    pub fn entry(
        &mut self,
        key: &[u8],
        new: impl FnOnce() -> V,
        what: &'static str,
    ) -> Result<&mut V> {
        let (no, at) = match self.place(key) {
            Ok(place) => place,
            Err(place) => self.insert(place, key, new(), what)?,
        };
        Ok(&mut self.lists[no][at].1)
    }

    /// The same for a key that is not below the entry at `near`, where it is then.
    ///
    /// # Errors
    /// Those of [`entry`](Self::entry).
    pub fn entry_behind(
        &mut self,
        key: &[u8],
        near: &mut Place,
        new: impl FnOnce() -> V,
        what: &'static str,
    ) -> Result<&mut V> {
        let (no, at) = match self.place_behind(key, *near) {
            Ok(place) => place,
            Err(place) => self.insert(place, key, new(), what)?,
        };
        *near = (no, at);
        Ok(&mut self.lists[no][at].1)
    }

    /// Adds a key whose [place](Self::place) is known; says where it is now.
    ///
    /// # Errors
    /// Those of [`entry`](Self::entry).
    pub fn insert(
        &mut self,
        place: Place,
        key: &[u8],
        value: V,
        what: &'static str,
    ) -> Result<Place> {
        let key = Bytes::copy(key, what)?;
        let (no, at) = self.make_room(place, what)?;
        self.key_bytes += key.taken();
        self.lists[no].insert(at, (key, value));
        self.len += 1;
        Ok((no, at))
    }

    /// The entries just below a place and at it.
    pub fn beside(&self, place: Place) -> [Option<(&[u8], &V)>; 2] {
        let entry =
            |(no, at): Place| self.lists.get(no)?.get(at).map(|(key, value)| (&key[..], value));
        // The entry below a place is in its list, but for the very first one.
        let below = place.1.checked_sub(1).and_then(|at| entry((place.0, at)));
        [below, entry(self.settle(place))]
    }

    /// Has a list take one more entry; says where that goes then.
    fn make_room(&mut self, (no, at): Place, what: &'static str) -> Result<Place> {
        if self.lists.is_empty() {
            let list = fallible::list(4, what)?;
            fallible::more(&mut self.lists, 1, what)?;
            self.room += list.capacity();
            self.lists.push(list);
            return Ok((0, 0));
        }
        let list = &mut self.lists[no];
        if list.len() < MOST {
            self.room -= list.capacity();
            let made = fallible::more(list, 1, what);
            self.room += list.capacity();
            return made.map(|()| (no, at));
        }
        // At the end of all a list stays full: who writes rising keys fills each one.
        let keep = if at == MOST && no + 1 == self.lists.len() { MOST } else { MOST / 2 };
        let mut right = fallible::list(MOST, what)?;
        fallible::more(&mut self.lists, 1, what)?;
        self.room += right.capacity();
        right.extend(self.lists[no].drain(keep..));
        if keep == MOST {
            // It gets its first entry at once.
            self.lists.push(right);
            return Ok((no + 1, 0));
        }
        self.lists.insert(no + 1, right);
        Ok(if at > keep { (no + 1, at - keep) } else { (no, at) })
    }

    /// Removes entries that `keep` refuses from one of the lists; says whether there is such a list, and which one
    /// comes next.
    pub fn retain_in(
        &mut self,
        no: usize,
        mut keep: impl FnMut(&[u8], &mut V) -> bool,
    ) -> Option<usize> {
        let list = self.lists.get_mut(no)?;
        let before = list.len();
        let mut gone_bytes = 0;
        list.retain_mut(|(key, value)| {
            let is_kept = keep(key, value);
            gone_bytes += if is_kept { 0 } else { key.taken() };
            is_kept
        });
        self.len -= before - list.len();
        self.key_bytes -= gone_bytes;
        let is_empty = list.is_empty();
        self.tighten(no);
        Some(if is_empty { no } else { no + 1 })
    }

    /// Gives memory back that a list does not need any more, or the list if it is empty. A map without entries takes
    /// none.
    fn tighten(&mut self, no: usize) {
        let list = &mut self.lists[no];
        let room = list.capacity();
        if list.is_empty() {
            self.room -= room;
            self.lists.remove(no);
            shorten(&mut self.lists);
        } else {
            shorten(list);
            self.room = self.room - room + list.capacity();
        }
    }

    /// The last entry whose key is not above `key`.
    pub fn at_or_before(&mut self, key: &[u8]) -> Option<(&[u8], &mut V)> {
        let (no, at) = match self.place(key) {
            Ok(place) => place,
            // The entry before a place is in its list, but for the very first one.
            Err((no, at)) => (no, at.checked_sub(1)?),
        };
        self.lists[no].get_mut(at).map(|(key, value)| (&key[..], value))
    }

    /// Removes a key.
    pub fn remove(&mut self, key: &[u8]) -> Option<V> {
        let (no, at) = self.place(key).ok()?;
        let (key, value) = self.lists[no].remove(at);
        self.len -= 1;
        self.key_bytes -= key.taken();
        self.tighten(no);
        Some(value)
    }

    /// The place of the first entry that a lower bound lets through.
    fn from(&self, low: Bound<&[u8]>) -> Place {
        let place = match low {
            Bound::Unbounded => (0, 0),
            Bound::Included(key) => self.place(key).unwrap_or_else(|place| place),
            Bound::Excluded(key) => {
                self.place(key).map_or_else(|place| place, |(no, at)| (no, at + 1))
            }
        };
        self.settle(place)
    }

    /// The place behind the last entry that an upper bound lets through.
    fn to(&self, high: Bound<&[u8]>) -> Place {
        let place = match high {
            Bound::Unbounded => (self.lists.len(), 0),
            Bound::Excluded(key) => self.place(key).unwrap_or_else(|place| place),
            Bound::Included(key) => {
                self.place(key).map_or_else(|place| place, |(no, at)| (no, at + 1))
            }
        };
        self.settle(place)
    }

    /// The end of a list is the beginning of the next one.
    fn settle(&self, (no, at): Place) -> Place {
        let is_end = self.lists.get(no).is_some_and(|list| at >= list.len());
        if is_end { (no + 1, 0) } else { (no, at) }
    }

    /// The entries from a key on. `near` is where that was for a key not far from this one,
    /// or anywhere: then it costs more to find.
    pub fn range_near(&self, key: &[u8], near: Place) -> Between<'_, V> {
        let key_at = |(no, at): Place| self.lists.get(no)?.get(at).map(|(key, _)| &key[..]);
        let begins = |place| key_at(place).map_or(place == (self.lists.len(), 0), |at| key <= at);
        let is_here = begins(near)
            && match near {
                (0, 0) => true,
                (no, 0) => key_at((no - 1, self.lists[no - 1].len() - 1)) < Some(key),
                (no, at) => key_at((no, at - 1)) < Some(key),
            };
        let front = if is_here { near } else { self.from(Bound::Included(key)) };
        Between { lists: &self.lists, front, back: (self.lists.len(), 0) }
    }

    /// The entries between two bounds; none if they leave none.
    pub fn range(&self, low: Bound<&[u8]>, high: Bound<&[u8]>) -> Between<'_, V> {
        let (front, back) = (self.from(low), self.to(high));
        Between { lists: &self.lists, front, back: back.max(front) }
    }
}

impl<V> IntoIterator for Sorted<V> {
    type Item = (Bytes, V);
    type IntoIter = std::iter::Flatten<std::vec::IntoIter<Entries<V>>>;

    fn into_iter(self) -> Self::IntoIter {
        self.lists.into_iter().flatten()
    }
}

/// Entries between two bounds.
#[derive(Debug)]
pub(crate) struct Between<'m, V> {
    lists: &'m [Entries<V>],
    front: Place,
    /// Behind the last one.
    back: Place,
}

impl<V> Default for Between<'_, V> {
    fn default() -> Self {
        Self { lists: &[], front: (0, 0), back: (0, 0) }
    }
}

impl<V> Between<'_, V> {
    /// The place of the next entry.
    pub fn place(&self) -> Place {
        self.front
    }

    /// Asks the processor for a key that comes soon.
    #[inline]
    pub fn prefetch(&self) {
        let (no, at) = self.front;
        if let Some((key, _)) = self.lists.get(no).and_then(|list| list.get(at + KEYS_AHEAD)) {
            prefetch(key.as_ptr());
        }
    }
}

impl<'m, V> Iterator for Between<'m, V> {
    type Item = (&'m [u8], &'m V);

    fn next(&mut self) -> Option<Self::Item> {
        if self.front >= self.back {
            return None;
        }
        let (no, at) = self.front;
        let list = &self.lists[no];
        self.front = if at + 1 == list.len() { (no + 1, 0) } else { (no, at + 1) };
        let (key, value) = &list[at];
        Some((key, value))
    }
}

impl<V> DoubleEndedIterator for Between<'_, V> {
    fn next_back(&mut self) -> Option<Self::Item> {
        if self.front >= self.back {
            return None;
        }
        let (no, at) = self.back;
        self.back = if at == 0 { (no - 1, self.lists[no - 1].len() - 1) } else { (no, at - 1) };
        let (key, value) = &self.lists[self.back.0][self.back.1];
        Some((key, value))
    }
}

/// How many items come first of which something holds, and of none behind them. It looks at few if they are few.
fn gallop<T>(items: &[T], holds: impl Fn(&T) -> bool) -> usize {
    let (mut low, mut step) = (0, 1);
    while items.get(low + step - 1).is_some_and(&holds) {
        low += step;
        step *= 2;
    }
    let end = items.len().min(low + step - 1);
    low + items[low..end].partition_point(holds)
}

/// The first eight bytes of a key, as a number that is greater for a greater key; zeros stand for those that a shorter
/// one lacks.
pub(crate) fn head_of(key: &[u8]) -> u64 {
    match key.first_chunk() {
        Some(head) => u64::from_be_bytes(*head),
        None => key.iter().rev().fold(0, |head, byte| head >> 8 | u64::from(*byte) << 56),
    }
}

/// The least key above another.
///
/// # Errors
/// [`NoMemory`](crate::Error::NoMemory).
pub(crate) fn behind(key: &[u8], what: &'static str) -> Result<Vec<u8>> {
    let mut behind = fallible::list(key.len() + 1, what)?;
    behind.extend_from_slice(key);
    behind.push(0);
    Ok(behind)
}

/// Gives memory back if a list takes much more than it needs. If there is none for the shorter list, the longer one
/// stays.
fn shorten<T>(list: &mut Vec<T>) {
    let room = list.capacity();
    if list.is_empty() {
        *list = Vec::new();
    } else if room > 8
        && list.len() <= room / 4
        && let Ok(mut shorter) = fallible::list(2 * list.len(), "a shorter list")
    {
        shorter.append(list);
        *list = shorter;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use crate::bytes::SHORT_MAX;

    use everleaf_testing::Rng;

    use super::*;

    fn key(rng: &mut Rng) -> Vec<u8> {
        let n = rng.below(3000).to_be_bytes();
        let long = [[7; SHORT_MAX - 8].to_vec(), n.to_vec(), vec![0; rng.below(3) as usize]];
        if rng.one_in(2) { long.concat() } else { n[rng.below(2) as usize * 6..].to_vec() }
    }

    fn bound(rng: &mut Rng, key: &[u8]) -> Bound<Vec<u8>> {
        match rng.below(5) {
            0 => Bound::Unbounded,
            1 | 2 => Bound::Included(key.to_vec()),
            _ => Bound::Excluded(key.to_vec()),
        }
    }

    /// The bytes that it reports are those that it has.
    fn assert_bytes(map: &Sorted<u64>) {
        let lists = taken(map.lists.capacity() * size_of::<Entries<u64>>());
        let room: usize = map.lists.iter().map(Vec::capacity).sum();
        let keys: u64 = map.lists.iter().flatten().map(|(key, _)| key.taken()).sum();
        assert_eq!(map.bytes(), lists + room as u64 * 40 + keys);
        assert!(map.lists.iter().all(|list| !list.is_empty()));
        assert!(!map.is_empty() || map.bytes() == 0, "{} bytes of nothing", map.bytes());
    }

    #[test]
    fn keys_in_ascending_order_take_no_more_room_than_was_said() {
        let number = |n: u64| n.to_be_bytes();
        for seed in 0..300 {
            let mut rng = Rng(seed);
            let mut map = Sorted::default();
            // Rising keys leave full lists, others half full ones.
            let (len, is_rising) = (rng.below(1000) * rng.below(2), rng.one_in(2));
            let others = BTreeSet::from_iter((0..rng.below(1000)).map(|_| rng.below(100_000)));
            for i in 0..len {
                let key = if is_rising { 50 * i } else { rng.below(100_000) };
                map.entry(&number(key), || 0_u64, "a test").expect("memory");
            }
            let (len, before) = (map.len() as u64, map.bytes());
            for (key, more) in others.iter().zip(1..) {
                map.entry(&number(*key), || 0, "a test").expect("memory");
                let keys = map.len() as u64 - len;
                let most = room_at_most(len, more) * 40 + keys * taken(8);
                assert!(map.bytes() - before <= most, "seed {seed}: {len} and {more}");
            }
        }
    }

    #[test]
    fn it_is_a_sorted_map() {
        for seed in 0..4 {
            println!("seed {seed}");
            let mut rng = Rng(seed);
            let (mut map, mut model) = (Sorted::default(), BTreeMap::new());
            for round in 0..6000_u64 {
                let k = if seed == 0 { round.to_be_bytes().to_vec() } else { key(&mut rng) };
                *map.entry(&k, || 0, "a test").expect("memory") = round;
                model.insert(k.clone(), round);
                assert_eq!((map.len(), map.is_empty()), (model.len(), false));
                if rng.one_in(3) {
                    let k = key(&mut rng);
                    assert_eq!(map.remove(&k), model.remove(&k));
                }
                let k = key(&mut rng);
                let below = model.range::<[u8], _>((Bound::Unbounded, Bound::Included(&k[..])));
                let below = below.last().map(|(k, v)| (&k[..], *v));
                assert_eq!(map.at_or_before(&k).map(|(k, v)| (k, *v)), below);
                assert_bytes(&map);
                if rng.one_in(500) {
                    let mut no = Some(0);
                    while let Some(next) = no {
                        no = map.retain_in(next, |_, value| *value % 7 != seed);
                    }
                    model.retain(|_, value| *value % 7 != seed);
                }
                let k = key(&mut rng);
                assert_eq!(map.get(&k), model.get(&k));
                let other = key(&mut rng);
                let (low, high) = (bound(&mut rng, &k), bound(&mut rng, &other));
                let mut found =
                    map.range(low.as_ref().map(|k| &k[..]), high.as_ref().map(|k| &k[..]));
                let of_model =
                    model.iter().filter(|(k, _)| (low.as_ref(), high.as_ref()).contains_key(k));
                let mut right: std::collections::VecDeque<_> = of_model.collect();
                for _ in 0..40 {
                    let (a, b) = match rng.one_in(2) {
                        true => (found.next(), right.pop_front()),
                        false => (found.next_back(), right.pop_back()),
                    };
                    assert_eq!(a, b.map(|(k, v)| (&k[..], v)), "{low:?} {high:?}");
                }
            }
            if seed % 2 == 0 {
                assert!(map.into_iter().map(|(key, value)| (key.to_vec(), value)).eq(model));
                continue;
            }
            for (key, value) in model {
                assert_eq!(map.remove(&key), Some(value));
                assert_bytes(&map);
            }
            assert!(map.is_empty());
        }
    }

    #[test]
    fn a_key_is_found_from_each_place_that_is_not_behind_it() {
        let mut rng = Rng(7);
        let mut map = Sorted::default();
        assert_eq!(map.place_behind(b"k", (0, 0)), Err((0, 0)));
        for _ in 0..1500 {
            map.entry(&key(&mut rng), || 0_u64, "a test").expect("memory");
        }
        let mut places = map.range(Bound::Unbounded, Bound::Unbounded);
        let places: Vec<Place> =
            std::iter::from_fn(|| Some((places.place(), places.next()?)).map(|(at, _)| at))
                .collect();
        for _ in 0..3000 {
            let key = key(&mut rng);
            let place = map.place(&key);
            let (Ok(upto) | Err(upto)) = place;
            let before = places.partition_point(|at| *at <= upto).max(1);
            for near in [0, rng.below(before as u64) as usize, before.saturating_sub(2)] {
                // The last one may be the one above the key, where that is not there.
                let near = if map.is_behind(&key, places[near]) { (0, 0) } else { places[near] };
                assert_eq!(map.place_behind(&key, near), place, "from {near:?}");
            }
        }
    }

    impl Sorted<u64> {
        /// Whether the entry at a place is above a key.
        fn is_behind(&self, key: &[u8], (no, at): Place) -> bool {
            self.lists[no][at].0[..] > *key
        }
    }

    /// `RangeBounds::contains`, which takes no two bounds of references to lists.
    trait ContainsKey {
        fn contains_key(&self, key: &[u8]) -> bool;
    }

    impl ContainsKey for (Bound<&Vec<u8>>, Bound<&Vec<u8>>) {
        fn contains_key(&self, key: &[u8]) -> bool {
            let above = match self.0 {
                Bound::Unbounded => true,
                Bound::Included(low) => key >= &low[..],
                Bound::Excluded(low) => key > &low[..],
            };
            above
                && match self.1 {
                    Bound::Unbounded => true,
                    Bound::Included(high) => key <= &high[..],
                    Bound::Excluded(high) => key < &high[..],
                }
        }
    }
}
