//! A place in a tree of byte strings, and steps from it in both directions.
//!
//! A cursor stands at a pair, whose key and value it has in memory of its own, or beside a key. Between two
//! steps it holds nothing: it remembers the leaf, the leaf's version and the position. As long as the
//! version stands, the next step is the entry beside, or the first one of the sibling. One that goes on copies
//! slots and heap of a slotted leaf once, and steps in the copy as long as the leaf has its version:
//!
//! ```text
//! in a copy  leaf still has its version; parse the entry beside                         (no descent)
//! step       leaf still has its version; copy the entry beside, or the leaf; validate   (no descent)
//! at its end version of the sibling; validate the leaf; first entry; validate the sibling
//! otherwise  a descent from the key: so a key that was removed is no obstacle
//! ```
//!
//! A cursor at a cut has a copy of each leaf with what its pairs were then ([`past`](super::past)), and no version to ask
//! for.
//!
//! Each step shows the tree as it is then. A copy is lent only after it was validated, so a step
//! that fails in the middle leaves the cursor where it was.
//!
//! *A pair that cannot be read.* The cursor goes past it, tells the error, and counts it (`damaged`): with
//! the last key that could be read the count says where it is, also when the leaf has changed.

use std::mem;
use std::ops::Bound;

use everleaf_pmem::{
    Error, Medium, PAIRS_AHEAD, Page, PageNo, Result, SharedPair, SharedRoom, Version, fallible,
};

use crate::blink::descend::Blink;
use crate::blink::past::{Met, PastLeaf, PastState, Was};
use crate::node::{FoundValue, Kind, NodeAt, NodeBytes, damaged};
use crate::record::one_entry;
use crate::slotted::{LeafCopy, Went, Window};

/// Where a cursor is, as seen from its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Side {
    /// It has no key yet: all pairs are above it, and below it.
    #[default]
    Nowhere,
    /// Just below the key.
    Before,
    /// At the key, which was there.
    At,
    /// Just above the key.
    After,
}

/// Values are asked for so many pairs ahead: a group, and behind it another one, whose places have to be known first.
const NEXT: isize = 2;
/// No record has this name.
pub(super) const NO_RECORD: u64 = 0;

/// A direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    Up,
    Down,
}

/// An entry of a leaf, for as long as the leaf has this version.
#[derive(Debug, Clone, Copy)]
pub(super) struct Spot {
    pub page: PageNo,
    pub version: Version,
    pub pos: usize,
}

/// A place in a tree. Only the tree that it was used with first knows what it means.
#[derive(Debug, Default)]
pub struct Cursor {
    side: Side,
    /// Entries that could not be read between the key and the place: above it, or below if negative.
    damaged: isize,
    pub(super) spot: Option<Spot>,
    pub(super) key: Vec<u8>,
    pub(super) value: FoundValue,
    /// Whether `value` is the value.
    pub(super) has_value: bool,
    /// Whether values are not copied.
    keys_only: bool,
    /// Where a step copies a key to, before it is validated.
    pub(super) next_key: Vec<u8>,
    /// The leaf of the spot, if it was copied; else it has no pairs.
    pub(super) copy: LeafCopy,
    /// Whether key and value are those of the copy.
    lent: bool,
    /// Whether only the key is, because a record has the value.
    far: bool,
    /// The position in the leaf of the last pair of which something was read from its record.
    read_at: usize,
    /// After so many steps the leaf is copied.
    pub(super) patience: u8,
    /// The last bound between two leaves that was crossed, and which way.
    pub(super) bound: Vec<u8>,
    pub(super) crossed: Option<Way>,
    /// The leaf as it was at a cut, if the cursor reads at one. Then the copy belongs to it, and there is no spot.
    pub(super) past: Option<Box<PastLeaf>>,
    window: Window,
    /// For the user of the tree: what it knows its leaf of.
    pub life: u32,
    /// Where it has found what was kept of a leaf's pairs.
    pub near: (usize, usize),
    /// Memory for strings that its user gives away.
    pub room: Option<SharedRoom>,
    /// And how much of its memory is known to others.
    pub told_bytes: u64,
}

/// The outcome of a cursor's step within a leaf as it was at a cut.
#[derive(Debug)]
#[must_use]
pub enum InPast {
    /// A pair, which the cursor now has.
    Pair,
    /// A key, at which the cursor is not, of whose pair nothing can be told.
    Lost(Vec<u8>),
    /// The end of the leaf. The keys behind it begin at this bound; there are none if it is `None`.
    End(Option<Bound<Vec<u8>>>),
    /// The keys of the leaf of this page contradict each other, or its bounds.
    Astray(PageNo),
    /// The cursor goes by no such leaf, or not by this one.
    Not,
}

/// The outcome of a cursor's step.
#[derive(Debug)]
#[must_use]
pub enum Stepped {
    /// A pair, which the cursor now has.
    Pair,
    /// No pair: the cursor is before the first one, or behind the last.
    End,
    /// A pair that cannot be read. The cursor stands there, and the next step goes on.
    Damaged(Error),
}

impl Cursor {
    /// Values are not copied on its way any more.
    pub fn skip_values(&mut self) {
        self.keys_only = true;
    }

    /// Becomes as a new one, but for its memory.
    pub fn reset(&mut self) {
        self.clear();
        self.keys_only = false;
    }

    /// A cursor at a bound: with all pairs within the bound above it if that is a lower one, or below it.
    /// It goes on with the memory of this one, which is new or was [`reset`](Self::reset).
    pub fn beside(mut self, bound: Bound<Vec<u8>>, is_lower: bool) -> Self {
        let (key, included) = match bound {
            Bound::Unbounded => return self,
            Bound::Included(key) => (key, true),
            Bound::Excluded(key) => (key, false),
        };
        self.side = if included == is_lower { Side::Before } else { Side::After };
        self.key = key;
        self
    }

    /// Bytes of memory that it keeps for keys, values and a leaf, and for strings that its user gives away. A value that
    /// was lent is none of them: it is the pool's.
    pub fn memory(&self) -> usize {
        let lists = [&self.key, &self.next_key, &self.bound];
        self.copy.memory()
            + self.value.memory()
            + self.past.as_ref().map_or(0, |past| past.memory())
            + self.room.as_ref().map_or(0, SharedRoom::memory)
            + lists.iter().map(|list| list.capacity()).sum::<usize>()
    }

    /// Which keys lie above its place, as far as it knows, or below it.
    pub fn bound(&self, is_lower: bool) -> Bound<&[u8]> {
        self.ahead(if is_lower { Way::Up } else { Way::Down }, self.last_key())
    }

    /// Whether a key lies above its place, or below it.
    #[inline]
    pub fn is_beyond(&self, key: &[u8], above: bool) -> bool {
        let place = self.last_key();
        match (self.side, above) {
            (Side::Nowhere, _) => true,
            (Side::Before, true) => key >= place,
            (Side::At | Side::After, true) => key > place,
            (Side::Before | Side::At, false) => key < place,
            (Side::After, false) => key <= place,
        }
    }

    /// Forgets the leaf that was copied, so that the next step looks at the tree.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    pub fn forget_copy(&mut self) -> Result<()> {
        if self.lent {
            let value = self.value.own();
            value.clear();
            fallible::append(value, self.copy.value(), "the value of a cursor")?;
            self.settle()?;
            self.has_value = true;
        }
        self.settle()?;
        self.forget_pairs();
        self.patience = 0;
        Ok(())
    }

    /// The copy has no pairs any more.
    pub(super) fn forget_pairs(&mut self) {
        self.copy.forget();
        self.window.close();
        if let Some(past) = &mut self.past {
            past.forget_entries();
        }
    }

    /// Forgets in which leaf it is: the next step goes on from the key. For a caller that knows that the tree has other
    /// leaves now.
    ///
    /// # Errors
    /// As [`forget_copy`](Self::forget_copy).
    #[cold]
    pub fn forget_leaf(&mut self) -> Result<()> {
        self.forget_copy()?;
        (self.spot, self.crossed, self.damaged) = (None, None, 0);
        if let Some(past) = &mut self.past {
            past.state = PastState::Off;
        }
        Ok(())
    }

    /// Goes to a pair that the tree has no more, or had before: the next step goes on from its key.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    pub fn go_to_pair(&mut self, key: &[u8], value: Vec<u8>) -> Result<()> {
        self.place(Side::At, key)?;
        (self.value, self.has_value) = (FoundValue::new(value), true);
        Ok(())
    }

    /// Goes just below a key, or just above it.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    pub fn go_beside(&mut self, key: &[u8], below: bool) -> Result<()> {
        self.place(if below { Side::Before } else { Side::After }, key)
    }

    /// Goes past a key whose pair cannot be read, up or down.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    pub fn go_past(&mut self, key: &[u8], up: bool) -> Result<()> {
        self.place(if up { Side::After } else { Side::Before }, key)
    }

    /// Goes to a key that had a pair, and has not read its value.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    pub fn go_to_key(&mut self, key: &[u8]) -> Result<()> {
        self.place(Side::At, key)
    }

    /// The value that was read just now is another's.
    pub fn forget_value(&mut self) {
        debug_assert!(!self.lent, "a value in a leaf was not read just now");
        self.has_value = false;
    }

    /// Gives the pair that the cursor is at another value.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    pub fn set_value(&mut self, value: Vec<u8>) -> Result<()> {
        self.settle()?;
        (self.value, self.has_value) = (FoundValue::new(value), true);
        Ok(())
    }

    /// Takes the value of the pair that the cursor is at, if the cursor has it. O(1), or O(bytes) for one that stays in
    /// memory besides.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    pub fn take_value(&mut self) -> Result<Option<Vec<u8>>> {
        let has_own = !self.lent && mem::take(&mut self.has_value) && self.is_at_pair();
        has_own.then(|| self.value.take()).transpose()
    }

    /// The key of the pair that the cursor is at.
    #[inline]
    pub fn key(&self) -> Option<&[u8]> {
        if self.lent || self.far {
            return Some(self.copy.key());
        }
        self.is_at_pair().then_some(&self.key)
    }

    /// The value of that pair, if the cursor has it already.
    #[inline]
    pub fn value(&self) -> Option<&[u8]> {
        if self.lent {
            return Some(self.copy.value());
        }
        (self.has_value && self.is_at_pair()).then(|| self.value.bytes())
    }

    /// The pair whose value that is, if others hold it, too.
    pub fn shared(&self) -> Option<&SharedPair> {
        let has_own = !self.lent && self.has_value && self.is_at_pair();
        self.value.shared().filter(|_| has_own)
    }

    /// Key and value of that pair, if the cursor has both already.
    #[inline(always)]
    pub fn pair(&self) -> Option<(&[u8], &[u8])> {
        if self.lent {
            return Some((self.copy.key(), self.copy.value()));
        }
        self.key().zip(self.value())
    }

    /// The key of that pair, and memory for a copy of it.
    #[inline]
    pub fn key_and_room(&mut self) -> Option<(&[u8], &mut Option<SharedRoom>)> {
        let is_in_copy = self.lent || self.far;
        if !is_in_copy && !self.is_at_pair() {
            return None;
        }
        Some((if is_in_copy { self.copy.key() } else { &self.key }, &mut self.room))
    }

    /// Key and value of that pair, if the cursor has both already, and memory for a copy of them.
    #[inline]
    pub fn pair_and_room(&mut self) -> Option<(&[u8], &[u8], &mut Option<SharedRoom>)> {
        if self.lent {
            return Some((self.copy.key(), self.copy.value(), &mut self.room));
        }
        if !self.has_value || !self.is_at_pair() {
            return None;
        }
        let key = if self.far { self.copy.key() } else { &self.key };
        Some((key, self.value.bytes(), &mut self.room))
    }

    /// Whether the cursor has all of the pair that it is at.
    #[inline(always)]
    pub fn has_all(&self) -> bool {
        self.lent || self.has_value
    }

    /// The last key that was read, or the one that was sought.
    #[inline(always)]
    pub(super) fn last_key(&self) -> &[u8] {
        if self.lent || self.far { self.copy.key() } else { &self.key }
    }

    /// The record of the value of a pair in the copy, if a record has it.
    pub(super) fn record(&self) -> Option<u64> {
        self.far.then(|| self.copy.record())
    }

    /// Something at a position of the leaf is read from its record. If it is the one beside that of the last time, those
    /// in this direction will be wanted, too: these are the records of the next ones, and of those behind them.
    #[inline]
    pub(super) fn records_ahead(&mut self, pos: usize) -> Option<[[u64; PAIRS_AHEAD]; 2]> {
        let last = mem::replace(&mut self.read_at, pos);
        if !pos.is_multiple_of(PAIRS_AHEAD) || !self.copy.is_there() {
            return None;
        }
        let step = match pos.wrapping_sub(last) as isize {
            step @ (1 | -1) => step,
            // The next leaf, most likely.
            _ if pos == 0 => 1,
            _ => return None,
        };
        let at = |ahead: isize| self.copy.record_at(pos.wrapping_add_signed(step * ahead));
        let group = |from| std::array::from_fn(|i| at(from + i as isize).unwrap_or(NO_RECORD));
        Some([group(NEXT), group(NEXT + PAIRS_AHEAD as isize)])
    }

    /// Keeps the key in a list of its own: the copy is about to be another one.
    pub(super) fn settle(&mut self) -> Result<()> {
        if self.lent || self.far {
            self.key.clear();
            fallible::append(&mut self.key, self.copy.key(), "the key of a cursor")?;
            self.has_value &= self.far;
            (self.lent, self.far) = (false, false);
        }
        Ok(())
    }

    /// Goes to a position of the leaf that was copied, one way of where it is. Says whether the pair is in the
    /// copy.
    #[inline(always)]
    pub(super) fn go_in_copy(&mut self, page: Page<'_>, spot: Spot, way: Way) -> Result<bool> {
        let went = self.copy.go(spot.pos);
        if went != Went::Not {
            if !self.may_meet(self.copy.key(), way) {
                self.copy.forget();
                return Err(astray(page));
            }
            self.spot = Some(spot);
            self.arrive(went);
        }
        Ok(went != Went::Not)
    }

    /// It is at the pair of the copy.
    #[inline(always)]
    fn arrive(&mut self, went: Went) {
        (self.side, self.damaged) = (Side::At, 0);
        (self.lent, self.far) = (went == Went::Whole, went == Went::Far);
        self.has_value = false;
    }

    /// Whether a step one way may lead to this key. In a leaf that contradicts itself it may lead back, and a cursor
    /// that goes on from there by the key, since the leaf has changed, would go round for ever.
    #[inline(always)]
    pub(super) fn may_meet(&self, key: &[u8], way: Way) -> bool {
        match (self.side, way) {
            (Side::At, Way::Up) if self.damaged >= 0 => key > &self.key[..],
            (Side::At, Way::Down) if self.damaged <= 0 => key < &self.key[..],
            // It has turned round between its key and its place, where others may have put pairs.
            _ => true,
        }
    }

    /// One step in the leaf that was copied, if it is still as it was.
    #[inline(always)]
    pub(super) fn step_in_copy<M: Medium>(&mut self, medium: &M, up: bool) -> bool {
        let Some(spot) = &mut self.spot else { return self.slide_in_past(up) };
        let pos = if up { spot.pos + 1 } else { spot.pos.wrapping_sub(1) };
        let Ok(page) = medium.page(spot.page) else { return false };
        if !page.latch().validate(spot.version) {
            return false;
        }
        match self.copy.go(pos) {
            Went::Whole => {
                spot.pos = pos;
                if !self.lent {
                    self.arrive(Went::Whole);
                }
                true
            }
            Went::Far => {
                spot.pos = pos;
                self.arrive(Went::Far);
                true
            }
            Went::Not => false,
        }
    }

    /// One step in a leaf as it was at a cut, if its pair is in memory.
    #[inline(always)]
    fn slide_in_past(&mut self, up: bool) -> bool {
        let Some(pos) = self.window.beside(up) else { return self.slide_over(up) };
        let went = self.copy.go(pos);
        if went == Went::Not {
            return false;
        }
        self.window.slide(pos);
        if went == Went::Far || !self.lent {
            self.arrive(went);
        }
        true
    }

    /// The same, where something has changed.
    #[inline(never)]
    fn slide_over(&mut self, up: bool) -> bool {
        let Some(past) = self.past.as_mut().filter(|past| past.state == PastState::On) else {
            return false;
        };
        let went = past.slide_over(&mut self.copy, &mut self.window, up);
        went.inspect(|went| self.arrive(*went)).is_some()
    }

    /// One step in a leaf as it was at a cut.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    pub fn step_in_past(&mut self, up: bool) -> Result<InPast> {
        self.go_in_past(up, false)
    }

    /// The same, or the first step in a leaf that it enters.
    fn go_in_past(&mut self, up: bool, enters: bool) -> Result<InPast> {
        let Some(past) = self.past.as_mut().filter(|past| past.state == PastState::On) else {
            return Ok(InPast::Not);
        };
        match past.go_on(&mut self.copy, &mut self.window, up) {
            Met::Pair(went) => {
                self.arrive(went);
                Ok(InPast::Pair)
            }
            Met::Key(no) => {
                (self.side, self.damaged, self.lent, self.far) = (Side::At, 0, false, false);
                self.has_value = false;
                self.key.clear();
                fallible::append(&mut self.key, past.key(&self.copy, no), "the key of a cursor")?;
                Ok(InPast::Pair)
            }
            Met::Lost(no) => {
                let key = past.key(&self.copy, no);
                fallible::copy(key, "the key of a cursor").map(InPast::Lost)
            }
            Met::End => {
                let wrap = if up { Bound::Included } else { Bound::Excluded };
                Ok(InPast::End(past.end(up).map(wrap)))
            }
            Met::Unreadable => {
                past.state = PastState::Slow;
                // From here on it goes by its key, which must not lead back. That is of the leaf before when it enters.
                let key = if self.lent || self.far { self.copy.key() } else { &self.key };
                let is_astray = !enters && !past.covers(key) || !self.copy.ascends();
                Ok(match is_astray && self.side == Side::At {
                    true => InPast::Astray(past.page),
                    false => InPast::Not,
                })
            }
        }
    }

    /// Goes to the first pair above or below a bound in a leaf that was just copied for it.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    pub fn enter_past(&mut self, from: Bound<&[u8]>, up: bool) -> Result<InPast> {
        let Some(past) = self.past.as_mut().filter(|past| past.state == PastState::On) else {
            return Ok(InPast::Not);
        };
        if !past.enter(&mut self.copy, from, up) {
            past.state = PastState::Slow;
            return Ok(InPast::Not);
        }
        self.go_in_past(up, true)
    }

    /// Notes what a key had at the cut that the cursor reads at, of one that has changed since, if the leaf that was copied
    /// has it: by ascending keys. Says whether more can follow.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    pub fn change_past(&mut self, key: &[u8], was: Was<'_>) -> Result<bool> {
        let Some(past) = &mut self.past else { return Ok(false) };
        past.change(&mut self.copy, key, was, !self.keys_only)
    }

    /// The leaf that was copied for a cut has only keys below this one any more, and all its changes are.
    pub fn cut_off_past(&mut self, high: Vec<u8>) {
        if let Some(past) = &mut self.past {
            past.cut_off(&mut self.copy, high);
        }
    }

    /// The leaf that was copied for a cut has no changes any more, and only keys from this one on, if there is one.
    pub fn begin_past_at(&mut self, low: Option<Vec<u8>>) {
        if let Some(past) = &mut self.past {
            past.begin_at(&mut self.copy, low);
        }
    }

    /// Which keys belong to the leaf that was copied for a cut.
    pub fn past_range(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        self.past.as_ref().map_or((Bound::Unbounded, Bound::Unbounded), |past| past.range())
    }

    /// Whether a key is below the upper bound of the leaf that was copied for a cut; not if that was not all of it.
    pub fn is_below_past(&self, key: &[u8]) -> bool {
        let past = self.past.as_ref().filter(|past| past.state == PastState::On);
        past.is_some_and(|past| past.is_below_end(key))
    }

    /// Whether it is in a leaf of which a cut has no copy, so that each step looks at the tree.
    pub fn is_slow_in_past(&self) -> bool {
        let slow = self.past.as_ref().filter(|past| past.state == PastState::Slow);
        slow.is_some_and(|past| self.side != Side::Nowhere && past.covers(self.last_key()))
    }

    /// There is nothing more one way, at the cut that it reads at.
    pub fn end_past(&mut self, up: bool) -> Result<Stepped> {
        self.settle()?;
        Ok(self.end(if up { Way::Up } else { Way::Down }))
    }

    /// The entry of a leaf that it is at, for as long as the leaf has this version.
    pub(super) fn entry_spot(&self) -> Option<Spot> {
        let past = || self.past.as_ref()?.entry(&self.window);
        self.spot.or_else(|| past().map(|(page, version, pos)| Spot { page, version, pos }))
    }

    /// Forgets where it is, and what it has.
    pub fn clear(&mut self) {
        self.put(Side::Nowhere);
        if let Some(past) = &mut self.past {
            past.state = PastState::Off;
        }
        self.key.clear();
        self.value.own().clear();
    }

    #[inline]
    pub(super) fn is_at_pair(&self) -> bool {
        self.side == Side::At && self.damaged == 0
    }

    /// Beside its key, or nowhere.
    pub(super) fn put(&mut self, side: Side) {
        (self.side, self.damaged, self.spot) = (side, 0, None);
        (self.has_value, self.crossed) = (false, None);
        (self.lent, self.far) = (false, false);
        self.forget_pairs();
        self.patience = 0;
    }

    /// Beside a key that somebody seeks.
    pub(super) fn place(&mut self, side: Side, key: &[u8]) -> Result<()> {
        self.put(Side::Nowhere);
        self.key.clear();
        fallible::append(&mut self.key, key, "the key of a cursor")?;
        self.side = side;
        Ok(())
    }

    /// Which keys lie one way of it.
    pub(super) fn ahead<'k>(&self, way: Way, key: &'k [u8]) -> Bound<&'k [u8]> {
        let included = match (self.side, way) {
            (Side::Nowhere, _) => return Bound::Unbounded,
            (Side::Before, _) => way == Way::Up,
            (Side::After, _) => way == Way::Down,
            // Between the key and the place are entries that cannot be read.
            (Side::At, Way::Up) => self.damaged < 0,
            (Side::At, Way::Down) => self.damaged > 0,
        };
        if included { Bound::Included(key) } else { Bound::Excluded(key) }
    }

    /// How many entries that cannot be read were told of already, and are not again.
    pub(super) fn told(&self, way: Way) -> usize {
        match way {
            Way::Up => self.damaged.max(0).unsigned_abs(),
            Way::Down => self.damaged.min(0).unsigned_abs(),
        }
    }

    /// Copies an entry, into the next key. Says whether the value came with it.
    #[inline(always)]
    pub(super) fn copy<M: Medium, K: Kind + NodeBytes>(
        &mut self,
        tree: &Blink<M, K>,
        at: &NodeAt<'_, K>,
        pos: usize,
    ) -> Result<bool> {
        let entry = at.entry(pos);
        if self.keys_only {
            let key = &mut self.next_key;
            return K::key_into(&tree.pool, at.shape(), entry, key).map(|()| false);
        }
        self.has_value = false;
        K::pair_into(&tree.pool, at.shape(), entry, &mut self.next_key, self.value.own())
    }

    /// The entry was validated: the cursor is there.
    #[inline(always)]
    pub(super) fn land(&mut self, spot: Spot, copied: Result<bool>, way: Way) -> Result<Stepped> {
        match copied {
            Ok(has_value) => {
                mem::swap(&mut self.key, &mut self.next_key);
                (self.side, self.damaged, self.spot) = (Side::At, 0, Some(spot));
                (self.lent, self.far) = (false, false);
                self.has_value = has_value;
                Ok(Stepped::Pair)
            }
            Err(error) => self.pass(spot, error, way),
        }
    }

    #[cold]
    fn pass(&mut self, spot: Spot, error: Error, way: Way) -> Result<Stepped> {
        let error = one_entry(error)?;
        debug_assert!(!self.lent, "its key would change with the copy");
        (self.spot, self.has_value) = (Some(spot), false);
        self.damaged += if way == Way::Up { 1 } else { -1 };
        Ok(Stepped::Damaged(error))
    }

    /// There is nothing one way.
    pub(super) fn end(&mut self, way: Way) -> Stepped {
        let side = match (self.side, way) {
            (Side::At, Way::Up) => Side::After,
            (Side::At, Way::Down) => Side::Before,
            (side, _) => side,
        };
        self.put(side);
        Stepped::End
    }

    /// Remembers a bound between two leaves that the cursor crosses. Each one lies further on than the
    /// last, or else leaves that contradict each other would keep somebody going round for ever.
    pub(super) fn cross(&mut self, page: Page<'_>, way: Way, bound: Vec<u8>) -> Result<()> {
        let is_further = match way {
            Way::Up => bound > self.bound,
            Way::Down => bound < self.bound,
        };
        if self.crossed == Some(way) && !is_further {
            return Err(astray(page));
        }
        (self.bound, self.crossed) = (bound, Some(way));
        Ok(())
    }
}

#[cold]
pub(super) fn astray(page: Page<'_>) -> Error {
    damaged(page, "its keys or its bounds lie where they cannot")
}
