//! How a cursor goes through a tree: by one leaf and its sibling as long as they stay as they are, and by
//! a descent otherwise.

use std::mem;
use std::ops::Bound;

use everleaf_pmem::{Medium, Page, PageNo, Result, Version};
use everleaf_pool::{RecordRef, StoredValue};

use crate::blink::cursor::{Cursor, NO_RECORD, Side, Spot, Stepped, Way, astray};
use crate::blink::descend::{Blink, FoundNode, Seek};
use crate::blink::past::PastLeaf;
use crate::blink::scan::borrow;
use crate::node::{Kind, NodeAt, NodeBytes, sibling};
use crate::record::{one_entry, value_into};

/// After a leaf has changed under a cursor, so many steps go by single entries.
const PATIENCE: u8 = 4;

/// Whether a search that began at a bound may have found this key. In a leaf that contradicts itself it may find one that
/// lies on the other side, and a walk that goes on from there would go round for ever.
#[inline(always)]
fn lies_ahead(from: Bound<&[u8]>, key: &[u8], way: Way) -> bool {
    match (from, way) {
        (Bound::Unbounded, _) => true,
        (Bound::Included(from), Way::Up) => key >= from,
        (Bound::Excluded(from), Way::Up) => key > from,
        (Bound::Included(from), Way::Down) => key <= from,
        (Bound::Excluded(from), Way::Down) => key < from,
    }
}

/// Where a search begins that goes on from a bound.
#[inline(always)]
fn seek_from(from: Bound<&[u8]>, way: Way) -> Seek<'_, [u8]> {
    match (from, way) {
        (Bound::Unbounded, Way::Up) => Seek::Min,
        (Bound::Unbounded, Way::Down) => Seek::Max,
        (Bound::Excluded(key), Way::Down) => Seek::Below(key),
        (Bound::Included(key) | Bound::Excluded(key), _) => Seek::At(key),
    }
}

/// Whether a leaf that ends there leads on a walk that has come to it from a bound. Leaves whose bounds contradict each
/// other would keep it going for ever.
#[inline]
fn leads_on(from: Bound<&[u8]>, end: &[u8], way: Way) -> bool {
    match (from, way) {
        (Bound::Unbounded, _) => true,
        (Bound::Included(key) | Bound::Excluded(key), Way::Up) => end > key,
        (Bound::Included(key), Way::Down) => end <= key,
        (Bound::Excluded(key), Way::Down) => end < key,
    }
}

/// The outcome of a descent to a leaf.
enum Landing {
    Entry(usize, Result<bool>),
    /// Nothing: what is sought lies beyond this bound, if anywhere.
    Beyond(Option<Vec<u8>>),
}

/// Puts a cursor somewhere.
impl<M: Medium, K: Kind + NodeBytes> Blink<M, K> {
    /// Puts a cursor at the smallest key. O(log n).
    ///
    /// # Errors
    /// I/O errors, Corrupt, NoMemory; the cursor is as before, or nowhere.
    pub fn cursor_first(&self, cursor: &mut Cursor) -> Result<Stepped> {
        cursor.put(Side::Nowhere);
        self.find(cursor, Way::Up)
    }

    /// Puts a cursor at the greatest key. O(log n).
    ///
    /// # Errors
    /// As [`cursor_first`](Self::cursor_first).
    pub fn cursor_last(&self, cursor: &mut Cursor) -> Result<Stepped> {
        cursor.put(Side::Nowhere);
        self.find(cursor, Way::Down)
    }

    /// Puts a cursor at the smallest key that is not below `key`; behind all pairs if there is none.
    /// O(log n).
    ///
    /// # Errors
    /// As [`cursor_first`](Self::cursor_first).
    #[inline]
    pub fn cursor_seek(&self, cursor: &mut Cursor, key: &[u8]) -> Result<Stepped> {
        cursor.place(Side::Before, key)?;
        self.find(cursor, Way::Up)
    }

    /// Puts a cursor at the greatest key that is not above `key`; before all pairs if there is none.
    /// O(log n).
    ///
    /// # Errors
    /// As [`cursor_first`](Self::cursor_first).
    #[inline]
    pub fn cursor_seek_down(&self, cursor: &mut Cursor, key: &[u8]) -> Result<Stepped> {
        cursor.place(Side::After, key)?;
        self.find(cursor, Way::Down)
    }

    /// Goes on upwards. O(1) as a rule, O(log n) if the leaf has changed.
    ///
    /// # Errors
    /// I/O errors, Corrupt, NoMemory, of more than one pair; the cursor is as before.
    pub fn cursor_next(&self, cursor: &mut Cursor) -> Result<Stepped> {
        if cursor.step_in_copy(self.medium(), true) {
            return Ok(Stepped::Pair);
        }
        cursor.settle()?;
        match self.try_up(cursor)? {
            Some(step) => Ok(step),
            None => self.find_anew(cursor, Way::Up),
        }
    }

    /// Goes on downwards. O(1) as a rule, O(log n) from leaf to leaf, or if the leaf has changed.
    ///
    /// # Errors
    /// As [`cursor_next`](Self::cursor_next).
    pub fn cursor_prev(&self, cursor: &mut Cursor) -> Result<Stepped> {
        if cursor.step_in_copy(self.medium(), false) {
            return Ok(Stepped::Pair);
        }
        cursor.settle()?;
        match self.try_down(cursor)? {
            Some(step) => Ok(step),
            None => self.find_anew(cursor, Way::Down),
        }
    }

    /// Goes on upwards or downwards, if that is but a step in a leaf that was copied and has not changed.
    /// Says whether it was; otherwise the cursor is as before. O(1).
    #[inline(always)]
    pub fn cursor_slides(&self, cursor: &mut Cursor, up: bool) -> bool {
        cursor.step_in_copy(self.medium(), up)
    }

    /// Reads the value of the pair that the cursor is at, unless it is there. Says whether it is now: the
    /// pair may have gone, and then there is none.
    ///
    /// # Errors
    /// I/O errors, Corrupt, NoMemory.
    #[inline]
    pub fn cursor_value(&self, cursor: &mut Cursor) -> Result<bool> {
        if !cursor.has_all() && self.cursor_far_value(cursor)? {
            return Ok(true);
        }
        if !cursor.has_all() && cursor.is_at_pair() {
            cursor.has_value = self.find_value(&cursor.key, &mut cursor.value)?;
            if !cursor.has_value
                && let Some(spot) = cursor.spot
            {
                let page = self.medium().page(spot.page)?;
                if page.latch().validate(spot.version) {
                    // Nobody has taken the pair away, and yet a search does not lead to it. A cursor that
                    // tries again would do so for ever.
                    return Err(astray(page));
                }
            }
        }
        Ok(cursor.has_all())
    }
}

impl<M: Medium, K: Kind + NodeBytes> Blink<M, K> {
    /// Reads the value of a pair in the copy of a leaf from its record, if the leaf is still as it was. Says
    /// whether it did; otherwise the cursor goes on with its key.
    fn cursor_far_value(&self, cursor: &mut Cursor) -> Result<bool> {
        let (Some(record), Some(spot)) = (cursor.record(), cursor.entry_spot()) else {
            cursor.settle()?;
            return Ok(false);
        };
        if let Some([next, behind]) = cursor.records_ahead(spot.pos) {
            self.pool.prefetch_values(&next, true);
            self.pool.prefetch_values(&behind, false);
        }
        let page = self.medium().page(spot.page)?;
        let found = value_into(&self.pool, RecordRef::from_bits(record), &mut cursor.value);
        if !page.latch().validate(spot.version) {
            cursor.settle()?;
            return Ok(false);
        }
        if let StoredValue::External(far) = found? {
            far.read_into(cursor.value.own())?;
        }
        cursor.has_value = true;
        Ok(true)
    }
}

/// Steps.
impl<M: Medium, K: Kind + NodeBytes> Blink<M, K> {
    /// One step up, if the leaf is still as it was, and so is the way to its sibling.
    #[inline(always)]
    fn try_up(&self, cursor: &mut Cursor) -> Result<Option<Stepped>> {
        let Some(spot) = cursor.spot else { return Ok(None) };
        let page = self.medium().page(spot.page)?;
        let Some(at) = K::node(page) else { return Ok(None) };
        let pos = spot.pos + 1;
        if pos < at.count() {
            self.try_entry(cursor, &at, Spot { pos, ..spot }, Way::Up)
        } else {
            self.try_sibling(cursor, page, spot.version)
        }
    }

    /// One step down, if the leaf is still as it was.
    #[inline(always)]
    fn try_down(&self, cursor: &mut Cursor) -> Result<Option<Stepped>> {
        let Some(spot) = cursor.spot else { return Ok(None) };
        let page = self.medium().page(spot.page)?;
        let Some(at) = K::node(page) else { return Ok(None) };
        match spot.pos.checked_sub(1) {
            Some(pos) => self.try_entry(cursor, &at, Spot { pos, ..spot }, Way::Down),
            None => self.try_below(cursor, page, spot.version),
        }
    }

    #[inline(always)]
    fn try_entry<'m>(
        &'m self,
        cursor: &mut Cursor,
        at: &NodeAt<'m, K>,
        spot: Spot,
        way: Way,
    ) -> Result<Option<Stepped>> {
        let page = at.page();
        if !cursor.copy.is_there() && cursor.patience == 0 {
            if !self.copy_leaf(cursor, at, spot.version)? {
                return Ok(None);
            }
            if cursor.go_in_copy(page, spot, way)? {
                return Ok(Some(Stepped::Pair));
            }
        }
        cursor.patience = cursor.patience.saturating_sub(1);
        if let Some([next, _]) = cursor.records_ahead(spot.pos) {
            // Keys that their leaf does not hold.
            let records = next.iter().filter(|record| **record != NO_RECORD);
            records.for_each(|record| self.pool.prefetch_record(RecordRef::from_bits(*record)));
        }
        let copied = cursor.copy(self, at, spot.pos);
        if !page.latch().validate(spot.version) {
            return Ok(None);
        }
        if copied.is_ok() && !cursor.may_meet(&cursor.next_key, way) {
            return Err(astray(page));
        }
        cursor.land(spot, copied, way).map(Some)
    }

    /// Copies a leaf, if its kind can be copied. Says whether it was still as it had been.
    fn copy_leaf(&self, cursor: &mut Cursor, at: &NodeAt<'_, K>, version: Version) -> Result<bool> {
        let copied = K::leaf_into(at, &mut cursor.copy);
        let stands = at.page().latch().validate(version);
        if !stands || !matches!(copied, Ok(true)) {
            cursor.copy.forget();
        }
        if stands { copied.map(|_| true) } else { Ok(false) }
    }

    /// A step up from the last entry of a leaf to the first one behind it.
    fn try_sibling<'m>(
        &'m self,
        cursor: &mut Cursor,
        mut page: Page<'m>,
        mut version: Version,
    ) -> Result<Option<Stepped>> {
        let mut is_long = false;
        loop {
            let right = sibling(page);
            let high = right.map(|_| K::high(&self.pool, page)).transpose();
            if !page.latch().validate(version) {
                return Ok(None);
            }
            let (Some(right), Some(high)) = (right, high?) else {
                return Ok(Some(cursor.end(Way::Up)));
            };
            let next = self.medium().page(right)?;
            let next_version = self.read_version(next)?;
            // It was still the sibling when its version was known.
            if !page.latch().validate(version) {
                return Ok(None);
            }
            is_long |= cursor.crossed == Some(Way::Up);
            cursor.cross(page, Way::Up, high)?;
            (page, version) = (next, next_version);
            let Some(at) = NodeAt::of(page, 0) else {
                let stands = page.latch().validate(version);
                return if stands { Err(astray(page)) } else { Ok(None) };
            };
            if at.count() > 0 {
                if is_long && let Some(Ok(next)) = sibling(page).map(|no| self.medium().page(no)) {
                    // A cursor that goes from leaf to leaf goes on.
                    K::prefetch_whole(next);
                }
                return self.try_first(cursor, &at, version);
            }
        }
    }

    /// A step to the first entry of another leaf.
    fn try_first(
        &self,
        cursor: &mut Cursor,
        at: &NodeAt<'_, K>,
        version: Version,
    ) -> Result<Option<Stepped>> {
        if !self.copy_leaf(cursor, at, version)? {
            return Ok(None);
        }
        let spot = Spot { page: at.page().no(), version, pos: 0 };
        if cursor.go_in_copy(at.page(), spot, Way::Up)? {
            return Ok(Some(Stepped::Pair));
        }
        // The cursor is not in this leaf yet.
        cursor.copy.forget();
        let copied = cursor.copy(self, at, 0);
        if !at.page().latch().validate(version) {
            return Ok(None);
        }
        if copied.is_ok() && !cursor.may_meet(&cursor.next_key, Way::Up) {
            return Err(astray(at.page()));
        }
        cursor.land(spot, copied, Way::Up).map(Some)
    }

    /// A step down from the first entry of a leaf to the last one before it.
    fn try_below(
        &self,
        cursor: &mut Cursor,
        page: Page<'_>,
        version: Version,
    ) -> Result<Option<Stepped>> {
        let low = K::low(&self.pool, page);
        if !page.latch().validate(version) {
            return Ok(None);
        }
        let Some(low) = low? else { return Ok(Some(cursor.end(Way::Down))) };
        if cursor.is_at_pair() && low > cursor.key {
            // The tree's root begins further up than its keys: below the bound are those that it has just had.
            return Err(astray(page));
        }
        cursor.cross(page, Way::Down, low)?;
        let bound = mem::take(&mut cursor.bound);
        let step = self.find_from(cursor, Way::Down, Bound::Excluded(&bound), 0);
        cursor.bound = bound;
        step.map(Some)
    }

    /// A step by the key: the leaf has changed, or there is none.
    #[cold]
    fn find_anew(&self, cursor: &mut Cursor, way: Way) -> Result<Stepped> {
        if let Some(spot) = cursor.spot
            && !cursor.copy.ascends()
        {
            // Steps in the copy may have led back, and a walk that goes on by its key would go round for ever.
            return Err(astray(self.medium().page(spot.page)?));
        }
        (cursor.crossed, cursor.has_value) = (None, false);
        let step = self.find(cursor, way);
        // Somebody writes here: a copy may be good for one step only.
        cursor.patience = PATIENCE;
        step
    }

    /// The first entry one way of the cursor's key.
    #[inline]
    fn find(&self, cursor: &mut Cursor, way: Way) -> Result<Stepped> {
        let key = mem::take(&mut cursor.key);
        let (from, told) = (cursor.ahead(way, &key), cursor.told(way));
        let step = self.find_from(cursor, way, from, told);
        match step {
            // The old key's list is the next to be filled.
            Ok(Stepped::Pair) => cursor.next_key = key,
            _ => cursor.key = key,
        }
        step
    }

    /// The first entry from `from` on. `told` of those that cannot be read are left out.
    #[inline]
    fn find_from(
        &self,
        cursor: &mut Cursor,
        way: Way,
        from: Bound<&[u8]>,
        told: usize,
    ) -> Result<Stepped> {
        let mut beyond: Option<Bound<Vec<u8>>> = None;
        loop {
            let from = beyond.as_ref().map_or(from, borrow);
            let look = |spot: &FoundNode<'_, K>| {
                let at = &spot.node;
                // Most cursors go on.
                K::prefetch_whole(at.page());
                let landing = match way {
                    Way::Up => self.look_up(cursor, at, from, told)?,
                    Way::Down => self.look_down(cursor, at, from, told)?,
                };
                Ok((at.page().no(), spot.version, landing))
            };
            let racing = |_: crate::slots::racing::Racing<'_>| -> Result<_> {
                unreachable!("no reader goes on beside a writer of byte strings")
            };
            let (page, version, landing) = self.read_spot(seek_from(from, way), look, racing)?;
            match landing {
                Landing::Entry(pos, copied) => {
                    cursor.copy.forget();
                    if copied.is_ok() && !lies_ahead(from, &cursor.next_key, way) {
                        return Err(astray(self.medium().page(page)?));
                    }
                    return cursor.land(Spot { page, version, pos }, copied, way);
                }
                Landing::Beyond(None) => return Ok(cursor.end(way)),
                Landing::Beyond(Some(bound)) => {
                    if !leads_on(from, &bound, way) {
                        return Err(astray(self.medium().page(page)?));
                    }
                    beyond = Some(match way {
                        Way::Up => Bound::Included(bound),
                        Way::Down => Bound::Excluded(bound),
                    });
                }
            }
        }
    }

    #[inline]
    fn look_up(
        &self,
        cursor: &mut Cursor,
        at: &NodeAt<'_, K>,
        from: Bound<&[u8]>,
        mut told: usize,
    ) -> Result<Landing> {
        for pos in self.low_end(at, from)?..at.count() {
            match cursor.copy(self, at, pos) {
                Err(error) if told > 0 => {
                    one_entry(error)?;
                    told -= 1;
                }
                copied => return Ok(Landing::Entry(pos, copied)),
            }
        }
        let high = sibling(at.page()).map(|_| K::high(&self.pool, at.page())).transpose()?;
        Ok(Landing::Beyond(high))
    }

    #[inline]
    fn look_down(
        &self,
        cursor: &mut Cursor,
        at: &NodeAt<'_, K>,
        from: Bound<&[u8]>,
        mut told: usize,
    ) -> Result<Landing> {
        for pos in (0..self.high_end(at, from)?).rev() {
            match cursor.copy(self, at, pos) {
                Err(error) if told > 0 => {
                    one_entry(error)?;
                    told -= 1;
                }
                copied => return Ok(Landing::Entry(pos, copied)),
            }
        }
        Ok(Landing::Beyond(K::low(&self.pool, at.page())?))
    }
}

/// Leaves as they were at a cut.
impl<M: Medium, K: Kind + NodeBytes> Blink<M, K> {
    /// Copies the leaf in which a cursor that reads at a cut goes on: from a bound upwards or downwards. The cursor stays
    /// where it is until it [enters](Cursor::enter_past). O(log n), or O(1) for the right sibling of the leaf that it
    /// comes from.
    ///
    /// # Errors
    /// I/O errors, Corrupt, NoMemory; the cursor is as before.
    pub fn cursor_copies(&self, cursor: &mut Cursor, from: Bound<&[u8]>, up: bool) -> Result<()> {
        let left = cursor.past.as_mut().and_then(|past| past.take_left());
        cursor.forget_copy()?;
        cursor.spot = None;
        let mut past = cursor.past.take().unwrap_or_default();
        let copied = match left {
            Some(left) if up && self.copy_sibling(cursor, &mut past, left, from)? => Ok(()),
            _ => self.copy_found(cursor, &mut past, from, up),
        };
        cursor.past = Some(past);
        if copied.is_err() {
            cursor.forget_pairs();
        }
        copied
    }

    /// Why a walk came to an end in a leaf as it was at a cut.
    #[cold]
    pub fn leads_astray(&self, no: PageNo) -> everleaf_pmem::Error {
        self.medium().page(no).map_or_else(|error| error, astray)
    }

    fn copy_found(
        &self,
        cursor: &mut Cursor,
        past: &mut PastLeaf,
        from: Bound<&[u8]>,
        up: bool,
    ) -> Result<()> {
        let way = if up { Way::Up } else { Way::Down };
        let look = |spot: &FoundNode<'_, K>| {
            K::prefetch_whole(spot.node.page());
            self.copy_past(cursor, past, &spot.node, spot.version)?;
            match past.bound(up).is_none_or(|end| leads_on(from, end, way)) {
                true => Ok(()),
                false => Err(astray(spot.node.page())),
            }
        };
        let racing = |_: crate::slots::racing::Racing<'_>| -> Result<_> {
            unreachable!("no reader goes on beside a writer of byte strings")
        };
        self.read_spot(seek_from(from, way), look, racing)
    }

    /// Copies a leaf and its bounds. Counts if the leaf is validated after it.
    fn copy_past(
        &self,
        cursor: &mut Cursor,
        past: &mut PastLeaf,
        at: &NodeAt<'_, K>,
        version: Version,
    ) -> Result<()> {
        let page = at.page();
        let copied = K::leaf_into(at, &mut cursor.copy)?;
        let low = K::low(&self.pool, page)?;
        let high = sibling(page).map(|_| K::high(&self.pool, page)).transpose()?;
        past.begin((page.no(), version), (low, high), copied.then(|| at.count()));
        Ok(())
    }

    /// Copies the right sibling of the leaf that a cursor has left, if both are as they were and this is where to go on.
    fn copy_sibling(
        &self,
        cursor: &mut Cursor,
        past: &mut PastLeaf,
        (no, version): (PageNo, Version),
        from: Bound<&[u8]>,
    ) -> Result<bool> {
        let Bound::Included(from) = from else { return Ok(false) };
        let page = self.medium().page(no)?;
        let right = sibling(page);
        let (true, Some(right)) = (page.latch().validate(version), right) else { return Ok(false) };
        let next = self.medium().page(right)?;
        let next_version = self.read_version(next)?;
        // It was still the sibling when its version was known.
        if !page.latch().validate(version) {
            return Ok(false);
        }
        let Some(at) = NodeAt::of(next, 0) else { return Ok(false) };
        if let Some(Ok(beyond)) = sibling(next).map(|no| self.medium().page(no)) {
            // Most cursors go on.
            K::prefetch_whole(beyond);
        }
        let copied = self.copy_past(cursor, past, &at, next_version);
        // Else a search from the root tells.
        let leads_on = past.begins_at(from) && past.bound(true).is_none_or(|end| from < end);
        Ok(next.latch().validate(next_version) && copied.is_ok() && leads_on)
    }
}

/// Questions of cursors to leaves.
impl<M: Medium, K: Kind + NodeBytes> Blink<M, K> {
    /// Whether the entry that a cursor has come to, going up or down, lies before the place of `limit`,
    /// although its pair cannot be read. If nobody knows any more, it does.
    ///
    /// # Errors
    /// I/O errors, Corrupt, NoMemory.
    #[cold]
    pub fn cursor_is_short_of(&self, cursor: &Cursor, limit: &Cursor, up: bool) -> Result<bool> {
        let Some(spot) = cursor.spot else {
            // It has gone past a key that it knows.
            return Ok(limit.is_beyond(cursor.last_key(), !up));
        };
        if let Some(other) = limit.spot
            && (other.page, other.version) == (spot.page, spot.version)
        {
            return Ok(if up { spot.pos < other.pos } else { spot.pos > other.pos });
        }
        let page = self.medium().page(spot.page)?;
        let Some(at) = K::node(page) else { return Ok(true) };
        let within = match up {
            true => self.is_within(&at, spot.pos, Bound::Unbounded, limit.bound(false)),
            false => self.is_within(&at, spot.pos, limit.bound(true), Bound::Unbounded),
        };
        if page.latch().validate(spot.version) { within } else { Ok(true) }
    }

    /// A bound that lies outside of the leaf has nothing to say about its entries' order.
    fn is_within(
        &self,
        at: &NodeAt<'_, K>,
        pos: usize,
        low: Bound<&[u8]>,
        high: Bound<&[u8]>,
    ) -> Result<bool> {
        let begin = K::low(&self.pool, at.page())?;
        let end = sibling(at.page()).map(|_| K::high(&self.pool, at.page())).transpose()?;
        let covers = |key: &[u8]| {
            begin.as_ref().is_none_or(|begin| begin.as_slice() <= key)
                && end.as_ref().is_none_or(|end| key < end.as_slice())
        };
        let above_low = match low {
            Bound::Included(key) | Bound::Excluded(key) if covers(key) => {
                self.low_end(at, low)? <= pos
            }
            Bound::Included(key) | Bound::Excluded(key) => {
                begin.as_ref().is_some_and(|begin| key < begin.as_slice())
            }
            Bound::Unbounded => true,
        };
        let below_high = match high {
            Bound::Included(key) | Bound::Excluded(key) if covers(key) => {
                pos < self.high_end(at, high)?
            }
            Bound::Included(key) | Bound::Excluded(key) => {
                end.as_ref().is_some_and(|end| end.as_slice() <= key)
            }
            Bound::Unbounded => true,
        };
        Ok(above_low && below_high)
    }
}
