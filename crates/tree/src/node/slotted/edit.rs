//! One entry comes, or gets another value: whether there is room, and the change itself.
//!
//! A page has room at once if its gap has; after a compaction if the gap and what is dead have. An
//! [`Edit`] holds what the change needs, so that it is made before the step begins and nothing can fail in
//! it.

use everleaf_pmem::{Medium, PageNo};

use super::entry::{NewEntry, Value, ValueSize, entry_bytes, kept_of};
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
}

/// How an edit is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    Insert,
    Update,
    /// The old entry is removed first.
    Replace,
}

/// An edit without the bytes that it borrowed.
#[derive(Debug)]
pub struct DetachedEdit {
    how: How,
    pos: usize,
    compacts: bool,
}

impl DetachedEdit {
    /// The edit, with the same bytes as before.
    pub fn attach<'a>(&self, view: &View<'_>, key: &'a [u8], value: Value<'a>) -> Edit<'a> {
        let entry = NewEntry::of(key, view.prefix_len(), view.page_bytes(), value);
        Edit { how: self.how, pos: self.pos, entry, compacts: self.compacts }
    }
}

/// A change of one entry for which there is room.
#[derive(Debug, Clone, Copy)]
pub struct Edit<'a> {
    how: How,
    pos: usize,
    entry: NewEntry<'a>,
    compacts: bool,
}

impl Default for Edit<'_> {
    #[inline(always)]
    fn default() -> Self {
        Self { how: How::Insert, pos: 0, entry: NewEntry::default(), compacts: false }
    }
}

impl<'a> Edit<'a> {
    /// Makes ready to store a value under a key, or a child under a separator; `rank` is the key's in the
    /// node. False if there is no room. If the key is [cut](super::is_cut), the value of a leaf is a
    /// reference.
    #[inline(always)]
    pub fn put(&mut self, view: &View<'_>, rank: Rank, key: &'a [u8], value: Value<'a>) -> bool {
        (self.pos, self.compacts) = (rank.lt(), false);
        self.entry = NewEntry::of(key, view.prefix_len(), view.page_bytes(), value);
        let room = match rank.exact {
            false => {
                self.how = How::Insert;
                view.room_of(self.entry.bytes() + SLOT_BYTES, 0)
            }
            true => match update_of(view, self.pos, &value) {
                Update::InPlace => {
                    self.how = How::Update;
                    return true;
                }
                Update::Anew(need) if need <= view.gap() => {
                    self.how = How::Update;
                    return true;
                }
                Update::Anew(_) => {
                    self.how = How::Replace;
                    view.room_of(self.entry.bytes(), view.entry(self.pos).bytes())
                }
            },
        };
        self.compacts = room == Room::AfterCompaction;
        room != Room::Full
    }

    /// Makes ready to give the entry at a position another separator, which is not cut, between its
    /// neighbours', and the same child. False if there is no room.
    pub fn rekey(
        &mut self,
        view: &View<'_>,
        pos: usize,
        separator: &'a [u8],
        child: PageNo,
    ) -> bool {
        (self.pos, self.how) = (pos, How::Replace);
        let value = Value::Child(child);
        self.entry = NewEntry::of(separator, view.prefix_len(), view.page_bytes(), value);
        let room = view.room_of(self.entry.bytes(), view.entry(pos).bytes());
        self.compacts = room == Room::AfterCompaction;
        room != Room::Full
    }

    /// The edit without the bytes that it borrows.
    pub fn detach(self) -> DetachedEdit {
        DetachedEdit { how: self.how, pos: self.pos, compacts: self.compacts }
    }

    /// Makes the change and notes it. The node is as it was when the edit was made ready.
    #[inline(always)]
    pub fn apply<'m, M: Medium>(&self, m: &'m M, op: &mut M::Op<'m>, view: &View<'_>) {
        match (self.compacts, self.how) {
            (false, How::Insert) => redo::insert(m, op, view, self.pos, &self.entry),
            (false, How::Update) => redo::update(m, op, view, self.pos, self.entry.value),
            _ => self.apply_in_parts(m, op, view),
        }
    }

    #[cold]
    fn apply_in_parts<'m, M: Medium>(&self, m: &'m M, op: &mut M::Op<'m>, view: &View<'_>) {
        let without = (self.how == How::Replace).then_some(self.pos);
        if self.compacts {
            redo::compact(m, op, view, without);
        } else {
            redo::remove(m, op, view, self.pos);
        }
        redo::insert(m, op, &View::read(view.page()), self.pos, &self.entry);
    }
}
