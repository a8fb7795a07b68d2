//! One entry comes, or gets another value: whether there is room, and the change itself.
//!
//! A page has room at once if its gap has; after a compaction if the gap and what is dead have. An
//! [`Edit`] holds what the change needs, so that it is made before the step begins and nothing can fail in
//! it.

use everleaf_pmem::{Medium, PageNo, Result};

use super::entry::{EntryBuf, Value, ValueSize, entry_bytes, kept_of};
use super::format::SLOT_BYTES;
use super::read::View;
use super::redo;
use super::write::{Update, update_of};
use crate::keys::Rank;

/// Whether a node has room for an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Room {
    /// It has.
    Fits,
    /// It will have when it is compacted.
    AfterCompaction,
    /// It has none.
    Full,
}

impl View<'_> {
    #[inline(always)]
    fn room_of(&self, need: usize, given_up: usize) -> Room {
        if need <= self.gap() {
            Room::Fits
        } else if need <= self.free_bytes() + given_up {
            Room::AfterCompaction
        } else {
            Room::Full
        }
    }

    /// Bytes of the entry of a key in this node, without its slot.
    #[inline]
    pub fn bytes_for(&self, key: &[u8], value: ValueSize) -> usize {
        let (suffix, cut) = kept_of(key, self.prefix_len(), self.page_bytes());
        entry_bytes(suffix.len(), cut, value)
    }

    /// Whether there is room for a new entry.
    #[inline]
    pub fn room_for(&self, key: &[u8], value: ValueSize) -> Room {
        self.room_of(self.bytes_for(key, value) + SLOT_BYTES, 0)
    }

    /// Whether there is room for another value at a position.
    #[inline]
    pub fn room_for_update(&self, pos: usize, value: &Value<'_>) -> Room {
        match update_of(self, pos, value) {
            Update::InPlace => Room::Fits,
            Update::Anew(need) => self.room_of(need, self.entry(pos).bytes()),
        }
    }

    /// Whether the next insert, at `pos`, is one of many in a row at the end.
    #[inline]
    pub fn is_appending(&self, pos: usize) -> bool {
        pos == self.count() && self.run() >= super::format::LONG_RUN
    }
}

/// How an edit is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    Insert,
    Update,
    /// The old entry is removed first.
    Replace,
}

/// A change of one entry for which there is room.
#[derive(Debug)]
pub struct Edit {
    how: How,
    pos: usize,
    entry: EntryBuf,
    compacts: bool,
}

impl Default for Edit {
    #[inline(always)]
    fn default() -> Self {
        Self { how: How::Insert, pos: 0, entry: EntryBuf::default(), compacts: false }
    }
}

impl Edit {
    /// Takes memory for entries of keys and values of these lengths, so that making such an edit ready does not
    /// fail for want of it.
    ///
    /// # Errors
    /// NoMemory.
    #[inline]
    pub fn reserve(&mut self, key: usize, value: ValueSize) -> Result<()> {
        self.entry.reserve(entry_bytes(key, false, value) + 8)
    }

    /// Makes ready to store a value under a key, or a child under a separator; `rank` is the key's in the
    /// node. False if there is no room. If the key is [cut](super::is_cut), the value of a leaf is a reference.
    ///
    /// # Errors
    /// NoMemory, Corrupt.
    #[inline]
    pub fn put(
        &mut self,
        view: &View<'_>,
        rank: Rank,
        key: &[u8],
        value: Value<'_>,
    ) -> Result<bool> {
        self.pos = rank.lt();
        self.compacts = false;
        if !rank.exact {
            self.how = How::Insert;
            let (suffix, cut) = kept_of(key, view.prefix_len(), view.page_bytes());
            self.entry.fill(suffix, cut, value)?;
            let room = view.room_of(self.entry.entry().len() + SLOT_BYTES, 0);
            return Ok(self.make_room(room));
        }
        let room = view.room_for_update(self.pos, &value);
        if room == Room::Fits {
            self.how = How::Update;
            self.entry.fill(&[], false, value)?;
            return Ok(true);
        }
        self.replace(view, key, value)
    }

    /// Makes ready to give the entry at a position another separator, between its neighbours', and the same
    /// child. False if there is no room.
    ///
    /// # Errors
    /// NoMemory, Corrupt.
    pub fn rekey(
        &mut self,
        view: &View<'_>,
        pos: usize,
        separator: &[u8],
        child: PageNo,
    ) -> Result<bool> {
        self.pos = pos;
        self.replace(view, separator, Value::Inline(&child.to_le_bytes()))
    }

    fn replace(&mut self, view: &View<'_>, key: &[u8], value: Value<'_>) -> Result<bool> {
        self.how = How::Replace;
        let (suffix, cut) = kept_of(key, view.prefix_len(), view.page_bytes());
        self.entry.fill(suffix, cut, value)?;
        let room = view.room_of(self.entry.entry().len(), view.entry(self.pos).bytes());
        Ok(self.make_room(room))
    }

    #[inline(always)]
    fn make_room(&mut self, room: Room) -> bool {
        self.compacts = room == Room::AfterCompaction;
        room != Room::Full
    }

    /// Says where the new entry goes, if that was not known when it was made ready.
    pub fn place(&mut self, pos: usize) {
        debug_assert!(self.how == How::Insert);
        self.pos = pos;
    }

    /// Makes the change and notes it. The node is as it was when the edit was made ready.
    #[inline]
    pub fn apply<'m, M: Medium>(&mut self, m: &'m M, op: &mut M::Op<'m>, view: &View<'_>) {
        match (self.compacts, self.how) {
            (false, How::Insert) => redo::insert(m, op, view, self.pos, &mut self.entry),
            (false, How::Update) => redo::update(m, op, view, self.pos, &mut self.entry),
            _ => self.apply_in_parts(m, op, view),
        }
    }

    #[cold]
    fn apply_in_parts<'m, M: Medium>(&mut self, m: &'m M, op: &mut M::Op<'m>, view: &View<'_>) {
        let without = (self.how == How::Replace).then_some(self.pos);
        if self.compacts {
            redo::compact(m, op, view, without);
        } else {
            redo::remove(m, op, view, self.pos);
        }
        redo::insert(m, op, &View::read(view.page()), self.pos, &mut self.entry);
    }
}
