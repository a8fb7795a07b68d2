//! A leaf as it was at a cut: a copy of it, and over that what was kept of pairs that have changed since.
//!
//! ```text
//! copy      a   b   c   d   e           entries 0 to 4
//! changes       B       -       x       b had another value, d came later, x was behind e and is gone
//! seen      a   B   c       e   x
//! ```
//!
//! A change stands in front of an entry, or for it. Between two changes the entries of the copy are a *window*, in
//! which a step costs what it costs in a copy of a leaf that nobody has changed. So the cost of a walk follows what
//! has changed in the leaves that it comes through, by the cut that it reads at. Nothing of it is looked at a second
//! time: what was seen at a cut stays so.

use std::cmp::Ordering;
use std::ops::{Bound, Range};

use everleaf_pmem::{PageNo, Result, Version, fallible};

use crate::slotted::{LeafCopy, Went, Window};

/// Longer values are asked for where they are kept, when somebody wants them.
const LONGEST: usize = 1024;
const WHAT: &str = "what a leaf had at a cut";

/// The state at a cut of a key that has changed since.
#[derive(Debug, Clone, Copy)]
pub enum Was<'v> {
    /// It was not there.
    Absent,
    /// It had this value.
    Value(&'v [u8]),
    /// It was there, and its value cannot be told.
    Lost,
}

/// How much a change shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shows {
    Nothing,
    Pair,
    /// The value is kept elsewhere.
    Key,
    /// Why there is none is known elsewhere.
    Lost,
}

#[derive(Debug, Clone, Copy)]
struct Change {
    /// The entry that it stands for, or in front of.
    pos: u32,
    covers: bool,
    shows: Shows,
    /// Where key and value are in the copy, and how long they are.
    at: u32,
    key: u32,
    value: u32,
}

impl Change {
    fn pos(&self) -> usize {
        self.pos as usize
    }
    /// The first entry behind it.
    fn end(&self) -> usize {
        self.pos() + usize::from(self.covers)
    }
    fn key(&self) -> Range<usize> {
        self.at as usize..self.at as usize + self.key as usize
    }
    fn value(&self) -> Range<usize> {
        self.key().end..self.key().end + self.value as usize
    }
}

/// The outcome of a step in such a leaf.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Met {
    /// A pair of the copy, which is at it now.
    Pair(Went),
    /// A key whose value is kept elsewhere.
    Key(usize),
    /// A key that had a value which cannot be told.
    Lost(usize),
    /// Nothing: the next pair is in another leaf.
    End,
    /// An entry of which the copy has not all.
    Unreadable,
}

/// A place among entries and changes.
#[derive(Debug, Clone, Copy)]
enum Place {
    /// In front of this entry, and of this change.
    Gap(usize, usize),
    /// At the entry of the window, which is in front of this change.
    Entry(usize),
    Change(usize),
}

/// Whether a cursor goes by such a leaf.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum PastState {
    #[default]
    Off,
    On,
    /// Not within this leaf's bounds, since not all of it can be copied.
    Slow,
}

#[derive(Debug)]
pub(super) struct PastLeaf {
    pub state: PastState,
    /// The page that it was copied from.
    pub page: PageNo,
    /// Where it was copied from, if it has all of that leaf's keys.
    leaf: Option<(PageNo, Version)>,
    /// That page, when its user has come to its upper end.
    left: Option<(PageNo, Version)>,
    low: Option<Vec<u8>>,
    high: Option<Vec<u8>>,
    /// The entries within the bounds.
    entries: Range<usize>,
    place: Place,
    changes: Vec<Change>,
}

impl Default for PastLeaf {
    fn default() -> Self {
        Self {
            state: PastState::Off,
            page: 0,
            leaf: None,
            left: None,
            low: None,
            high: None,
            entries: 0..0,
            place: Place::Gap(0, 0),
            changes: Vec::new(),
        }
    }
}

/// How the key of an entry compares with another; nothing if the copy has not all of it.
#[inline]
fn compare(copy: &mut LeafCopy, pos: usize, key: &[u8]) -> Option<Ordering> {
    (copy.go(pos) != Went::Not).then(|| copy.key().cmp(key))
}

impl PastLeaf {
    /// Becomes the leaf that was copied from a page, without changes yet.
    pub fn begin(
        &mut self,
        leaf: (PageNo, Version),
        (low, high): (Option<Vec<u8>>, Option<Vec<u8>>),
        entries: Option<usize>,
    ) {
        self.state = if entries.is_some() { PastState::On } else { PastState::Slow };
        (self.page, self.leaf, self.low, self.high) = (leaf.0, Some(leaf), low, high);
        (self.entries, self.place) = (0..entries.unwrap_or(0), Place::Gap(0, 0));
        self.changes.clear();
    }

    /// Has only keys below a bound any more; all changes are.
    pub fn cut_off(&mut self, copy: &mut LeafCopy, high: Vec<u8>) {
        match self.rank(copy, &high, Ordering::is_lt) {
            Some(pos) => (self.high, self.entries.end, self.leaf) = (Some(high), pos, None),
            None => self.state = PastState::Slow,
        }
    }

    /// Has no changes any more, and only keys from a bound on, if there is one.
    pub fn begin_at(&mut self, copy: &mut LeafCopy, low: Option<Vec<u8>>) {
        self.changes.clear();
        copy.drop_kept();
        let Some(low) = low else { return };
        match self.rank(copy, &low, Ordering::is_lt) {
            Some(pos) => (self.low, self.entries.start, self.leaf) = (Some(low), pos, None),
            None => self.state = PastState::Slow,
        }
    }

    /// Bytes of memory that it keeps.
    pub fn memory(&self) -> usize {
        let bounds = [&self.low, &self.high].into_iter().flatten();
        size_of::<Self>()
            + self.changes.capacity() * size_of::<Change>()
            + bounds.map(Vec::capacity).sum::<usize>()
    }

    /// Where it was copied from, and the entry there that the window is at, if that is where the place is.
    pub fn entry(&self, window: &Window) -> Option<(PageNo, Version, usize)> {
        match (self.state, self.place, self.leaf) {
            (PastState::On, Place::Entry(_), Some((page, version))) => {
                Some((page, version, window.at()))
            }
            _ => None,
        }
    }

    /// It is over: where to go on upwards or downwards, unless that is an end of the tree.
    pub fn end(&mut self, up: bool) -> Option<Vec<u8>> {
        self.state = PastState::Off;
        self.left = self.leaf.filter(|_| up);
        if up { self.high.take() } else { self.low.take() }
    }

    /// Its user has no copy of it any more, or goes on elsewhere in the tree.
    pub fn forget_entries(&mut self) {
        self.left = None;
        if self.state == PastState::On {
            self.state = PastState::Off;
        }
    }

    /// The page of which its user has come to the upper end.
    pub fn take_left(&mut self) -> Option<(PageNo, Version)> {
        self.left.take()
    }

    /// Which keys it has.
    pub fn range(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        let low = self.low.as_deref().map_or(Bound::Unbounded, Bound::Included);
        (low, self.high.as_deref().map_or(Bound::Unbounded, Bound::Excluded))
    }

    /// Whether it has a key.
    pub fn covers(&self, key: &[u8]) -> bool {
        self.low.as_deref().is_none_or(|low| low <= key) && self.is_below_end(key)
    }

    /// Where it ends upwards or downwards, if that is no end of the tree.
    pub fn bound(&self, up: bool) -> Option<&[u8]> {
        if up { self.high.as_deref() } else { self.low.as_deref() }
    }

    /// Whether its keys begin there.
    pub fn begins_at(&self, low: &[u8]) -> bool {
        self.low.as_deref() == Some(low)
    }

    /// Notes a change, by ascending keys from the lower bound on; says whether more can follow, which is so while keys are
    /// below the upper bound. Without `values` none is copied.
    ///
    /// # Errors
    /// NoMemory.
    #[inline]
    pub fn change(
        &mut self,
        copy: &mut LeafCopy,
        key: &[u8],
        was: Was<'_>,
        values: bool,
    ) -> Result<bool> {
        if self.state != PastState::On {
            return Ok(false);
        }
        let Some((pos, covers)) = self.search(copy, key) else {
            self.state = PastState::Slow;
            return Ok(false);
        };
        if !covers {
            // An equal key would be within the bounds, and begin as all keys of the leaf do.
            if !self.is_below_end(key) {
                return Ok(false);
            }
            if !copy.may_show(key) {
                self.state = PastState::Slow;
                return Ok(false);
            }
        }
        let (shows, value): (_, &[u8]) = match was {
            Was::Absent if !covers => return Ok(true),
            Was::Absent => (Shows::Nothing, &[]),
            Was::Value(value) if value.len() > LONGEST || !values => (Shows::Key, &[]),
            Was::Value(value) => (Shows::Pair, value),
            Was::Lost => (Shows::Lost, &[]),
        };
        let at = copy.keep(key, value)?;
        let [pos, at, key, value] = [pos, at, key.len(), value.len()].map(|n| n as u32);
        fallible::push(&mut self.changes, Change { pos, covers, shows, at, key, value }, WHAT)?;
        Ok(true)
    }

    /// Whether a key is below the upper bound.
    pub fn is_below_end(&self, key: &[u8]) -> bool {
        self.high.as_deref().is_none_or(|high| key < high)
    }

    /// The first entry that is not below a key, from the last change on, and whether it has the key. Close at hand as a
    /// rule, where much has changed.
    #[inline]
    fn search(&self, copy: &mut LeafCopy, key: &[u8]) -> Option<(usize, bool)> {
        let mut low = self.changes.last().map_or(self.entries.start, Change::end);
        let (mut high, mut step) = (self.entries.end, 1);
        while low < high {
            let probe = if step < high - low { low + step - 1 } else { low + (high - low) / 2 };
            match compare(copy, probe, key)? {
                Ordering::Less => (low, step) = (probe + 1, step.saturating_mul(2)),
                Ordering::Equal => return Some((probe, true)),
                Ordering::Greater => (high, step) = (probe, usize::MAX),
            }
        }
        Some((low, false))
    }

    /// How many entries pass, of which those in front do; nothing if that cannot be told.
    fn rank(
        &self,
        copy: &mut LeafCopy,
        key: &[u8],
        passes: impl Fn(Ordering) -> bool,
    ) -> Option<usize> {
        let Range { start: mut low, end: mut high } = self.entries;
        while low < high {
            let middle = low + (high - low) / 2;
            match passes(compare(copy, middle, key)?) {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        Some(low)
    }

    /// Goes to where the pairs begin that lie above a bound, or below it. Says whether that can be told.
    pub fn enter(&mut self, copy: &mut LeafCopy, from: Bound<&[u8]>, up: bool) -> bool {
        let (key, included) = match from {
            Bound::Unbounded => {
                let last = Place::Gap(self.entries.end, self.changes.len());
                self.place = if up { Place::Gap(self.entries.start, 0) } else { last };
                return true;
            }
            Bound::Included(key) => (key, true),
            Bound::Excluded(key) => (key, false),
        };
        // One that is equal lies in front of the place upwards if it is excluded, and downwards if it is not.
        let passes = |order: Ordering| order.is_lt() || order.is_eq() && included != up;
        let Some(pos) = self.rank(copy, key, passes) else { return false };
        let before = |change: &Change| passes(copy.kept(change.key()).cmp(key));
        self.place = Place::Gap(pos, self.changes.partition_point(before));
        true
    }

    /// Goes on to the next pair, if the copy has all of it; else the place is as before.
    pub fn slide_over(
        &mut self,
        copy: &mut LeafCopy,
        window: &mut Window,
        up: bool,
    ) -> Option<Went> {
        let before = (self.place, window.clone());
        if let Met::Pair(went) = self.go_on(copy, window, up) {
            return Some(went);
        }
        (self.place, *window) = before;
        None
    }

    /// Goes on to the next pair that it shows, or past one that is lost.
    pub fn go_on(&mut self, copy: &mut LeafCopy, window: &mut Window, up: bool) -> Met {
        let (mut pos, mut next) = match self.place {
            Place::Gap(pos, next) => (pos, next),
            Place::Entry(next) => (window.at() + usize::from(up), next),
            Place::Change(no) if up => (self.changes[no].end(), no + 1),
            Place::Change(no) => (self.changes[no].pos(), no),
        };
        loop {
            let beside = if up { Some(next) } else { next.checked_sub(1) };
            let change = beside.and_then(|no| Some((no, self.changes.get(no)?)));
            match change {
                Some((no, change)) if pos == if up { change.pos() } else { change.end() } => {
                    if change.shows != Shows::Nothing {
                        return self.go_to_change(copy, window, no);
                    }
                    (pos, next) = if up { (change.end(), no + 1) } else { (change.pos(), no) };
                }
                _ => {
                    let pos = if up { Some(pos) } else { pos.checked_sub(1) };
                    return self.go_to_entry(copy, window, (pos, next));
                }
            }
        }
    }

    fn go_to_change(&mut self, copy: &mut LeafCopy, window: &mut Window, no: usize) -> Met {
        let change = self.changes[no];
        window.close();
        self.place = Place::Change(no);
        match change.shows {
            Shows::Pair => {
                copy.show(change.key(), change.value());
                Met::Pair(Went::Whole)
            }
            Shows::Key => Met::Key(no),
            Shows::Nothing | Shows::Lost => Met::Lost(no),
        }
    }

    fn go_to_entry(
        &mut self,
        copy: &mut LeafCopy,
        window: &mut Window,
        (pos, next): (Option<usize>, usize),
    ) -> Met {
        let Some(pos) = pos.filter(|pos| self.entries.contains(pos)) else { return Met::End };
        let went = copy.go(pos);
        if went == Went::Not {
            return Met::Unreadable;
        }
        self.place = Place::Entry(next);
        let Range { start, end } = self.entries;
        let from = next.checked_sub(1).map_or(start, |no| self.changes[no].end());
        let until = self.changes.get(next).map_or(end, Change::pos);
        *window = Window::new(pos, from..until);
        Met::Pair(went)
    }

    /// The key of a change.
    pub fn key<'c>(&self, copy: &'c LeafCopy, no: usize) -> &'c [u8] {
        copy.kept(self.changes[no].key())
    }
}
