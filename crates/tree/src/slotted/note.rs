//! A change of a node as a journal keeps it, in bytes.
//!
//! ```text
//! tag  7 INSERT      pos u16 | an entry
//!      8 UPDATE      pos u16 | an entry without a suffix: the new value
//!      9 REMOVE      pos u16
//!     10 COMPACT     –
//!     11 IMAGE       run word | sibling u32 | fences word | head of the high fence | kind word | slots | heap
//!     12 TRIM BACK   keep u16 | sibling u32 | high fence          the first `keep` entries stay
//!     13 TRIM FRONT  first u16 | low fence                        those from `first` on stay
//!     14 ADD BACK    high fence | entries behind those that are there
//!     15 ADD FRONT   low fence | entries before those that are there
//!
//! fence     u16: bytes that are kept, top bit: a record follows | those bytes | record u64, if it follows
//! entry     code and lengths as in the page | the whole suffix | value
//! entries   count u16 | slots | the entries that they lead to, from the last one on; offsets are from there
//! ```
//!
//! Suffixes of entries that are added are behind the prefix that the node gets. The prefix that a node gets
//! by a trim or by more entries is not noted: its fences decide it.

use std::ops::Range;

use everleaf_pmem::{PageNo, Result, fallible};

use crate::slotted::entry::NewEntry;
use crate::slotted::image::Image;
use crate::slotted::view::{
    Entry, Fence, HEAD_BYTES, REFERENCE_BYTES, SLOT_BYTES, SLOTS_AT, Value, ValueSize,
};

/// An entry came.
pub(super) const INSERT: u8 = 7;
/// A value was replaced.
pub(super) const UPDATE: u8 = 8;
/// An entry went.
pub(super) const REMOVE: u8 = 9;
/// Dead bytes went.
pub(super) const COMPACT: u8 = 10;
/// All of a node.
pub(super) const IMAGE: u8 = 11;
/// The last entries went.
pub(super) const TRIM_BACK: u8 = 12;
/// The first entries went.
pub(super) const TRIM_FRONT: u8 = 13;
/// Entries came at the end.
pub(super) const ADD_BACK: u8 = 14;
/// Entries came at the beginning.
pub(super) const ADD_FRONT: u8 = 15;
const _: () = assert!(ADD_FRONT < crate::slots::notes::TAG_END, "higher tags are the pool's");

/// Bytes of the image's header in a note; they end where the slots begin.
pub(super) const IMAGE_HEAD_BYTES: usize = 8 + 4 + 8 + 8 + 8;
const _: () = assert!(IMAGE_HEAD_BYTES <= SLOTS_AT);
/// In the length of a fence: a record follows.
const LONG: u16 = 1 << 15;

/// Adds a fence to a note.
fn put_fence(note: &mut Vec<u8>, fence: Fence<'_>) {
    let long = if fence.record.is_some() { LONG } else { 0 };
    note.extend((fence.kept.len() as u16 | long).to_le_bytes());
    note.extend_from_slice(fence.kept);
    if let Some(record) = fence.record {
        note.extend(record.to_le_bytes());
    }
}

/// Bytes of a fence in a note.
fn fence_bytes(fence: Fence<'_>) -> usize {
    2 + fence.kept.len() + REFERENCE_BYTES
}

/// The note of a trim at the back.
pub(super) fn trim_back(keep: usize, sibling: PageNo, high: Fence<'_>) -> Result<Vec<u8>> {
    let mut note = fallible::list(6 + fence_bytes(high), "the note of a trim")?;
    trim_back_again(&mut note, keep, sibling, high);
    Ok(note)
}

/// As [`trim_back`], in memory that was taken for it.
pub(super) fn trim_back_again(note: &mut Vec<u8>, keep: usize, sibling: PageNo, high: Fence<'_>) {
    note.clear();
    note.extend((keep as u16).to_le_bytes());
    note.extend(sibling.to_le_bytes());
    put_fence(note, high);
}

/// The note of a trim at the front.
pub(super) fn trim_front(first: usize, low: Fence<'_>) -> Result<Vec<u8>> {
    let mut note = fallible::list(2 + fence_bytes(low), "the note of a trim")?;
    note.extend((first as u16).to_le_bytes());
    put_fence(&mut note, low);
    Ok(note)
}

/// The note of entries that came with a fence: those of the image in a range.
pub(super) fn add(fence: Fence<'_>, image: &Image, range: Range<usize>) -> Result<Vec<u8>> {
    let at = |pos: usize| image.slot(pos) as usize & 0xffff;
    // Entries of an image lie one below the other.
    let (first, end) = match range.start {
        _ if range.is_empty() => (0, 0),
        0 => (at(range.end - 1), at(0) + Entry::parse(0, image.load(at(0))).end()),
        begin => (at(range.end - 1), at(begin - 1)),
    };
    let bytes = fence_bytes(fence) + 2 + SLOT_BYTES * range.len() + end - first;
    let mut note = fallible::list(bytes, "the note of entries")?;
    put_fence(&mut note, fence);
    note.extend((range.len() as u16).to_le_bytes());
    let slots = &image.bytes[SLOTS_AT + SLOT_BYTES * range.start..];
    for slot in slots.as_chunks::<SLOT_BYTES>().0.iter().take(range.len()) {
        let slot = u64::from_le_bytes(*slot) - first as u64;
        note.extend_from_slice(&slot.to_le_bytes());
    }
    note.extend_from_slice(&image.bytes[first..end]);
    Ok(note)
}

impl Image {
    /// Slot `pos`.
    pub(super) fn slot(&self, pos: usize) -> u64 {
        self.load(SLOTS_AT + SLOT_BYTES * pos)
    }

    /// 8 bytes from `at` on as a little-endian number; those behind the end are 0.
    pub(super) fn load(&self, at: usize) -> u64 {
        let bytes = self.bytes.get(at..).unwrap_or_default();
        let mut word = [0; 8];
        let n = bytes.len().min(8);
        word[..n].copy_from_slice(&bytes[..n]);
        u64::from_le_bytes(word)
    }

    /// The note of the whole node. The image is of no use afterwards: its bytes are moved together.
    pub(super) fn note(&mut self) -> &[u8] {
        let [run, sibling, fences, high_head] = self.words().map(|(_, value)| value);
        let begin = SLOTS_AT - IMAGE_HEAD_BYTES;
        let mut to = &mut self.bytes[begin..SLOTS_AT];
        for part in [
            &run.to_le_bytes()[..],
            &(sibling as PageNo).to_le_bytes(),
            &fences.to_le_bytes(),
            &high_head.to_le_bytes(),
            &self.kind.to_le_bytes(),
        ] {
            let (here, behind) = to.split_at_mut(part.len());
            here.copy_from_slice(part);
            to = behind;
        }
        let (from, end) = (self.heap_start, self.bytes.len());
        let slots_end = SLOTS_AT + SLOT_BYTES * self.count;
        self.bytes.copy_within(from.., slots_end);
        &self.bytes[begin..slots_end + end - from]
    }
}

/// Reads operands, and complains when they end early.
pub(super) struct Operands<'a>(pub &'a [u8]);

impl<'a> Operands<'a> {
    pub fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*first)
    }
    pub fn bytes(&mut self, n: usize) -> Option<&'a [u8]> {
        let (first, rest) = self.0.split_at_checked(n)?;
        self.0 = rest;
        Some(first)
    }
    pub fn u16(&mut self) -> Option<usize> {
        self.take().map(|bytes| usize::from(u16::from_le_bytes(bytes)))
    }
    pub fn page(&mut self) -> Option<PageNo> {
        self.take().map(PageNo::from_le_bytes)
    }
    pub fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }
    pub fn fence(&mut self) -> Option<Fence<'a>> {
        let len = self.u16()?;
        let kept = self.bytes(len & !usize::from(LONG))?;
        let record = if len & usize::from(LONG) != 0 { Some(self.u64()?) } else { None };
        Some(Fence { kept, record })
    }
    /// An entry: its code and lengths, its suffix, its value.
    #[inline]
    pub fn entry(&mut self) -> Option<NewEntry<'a>> {
        let entry = parse(self.0, 0);
        self.bytes(entry.code_bytes())?;
        let suffix = self.bytes(entry.suffix)?;
        let value = value_of(&entry, self.bytes(entry.value.bytes())?)?;
        Some(NewEntry { suffix, cut: entry.cut, value })
    }
    /// The entries of slots, with what of their suffixes the slots hold.
    pub fn entries(&mut self) -> Option<impl Iterator<Item = Option<SlotEntry<'a>>>> {
        let count = self.u16()?;
        let slots = self.bytes(SLOT_BYTES * count)?.as_chunks::<SLOT_BYTES>().0;
        let heap = self.bytes(self.0.len())?;
        Some(slots.iter().map(move |slot| {
            let slot = u64::from_le_bytes(*slot);
            let entry = parse(heap, slot as usize & 0xffff);
            let rest = heap.get(entry.rest_at..entry.value_at)?;
            let value = heap.get(entry.value_at..entry.end())?;
            Some(SlotEntry { slot, rest, entry, value: value_of(&entry, value)? })
        }))
    }
}

/// The entry that begins at a byte; its parts may be outside.
fn parse(bytes: &[u8], at: usize) -> Entry {
    let begin = bytes.get(at..).unwrap_or_default();
    let mut word = [0; 8];
    let n = begin.len().min(8);
    word[..n].copy_from_slice(&begin[..n]);
    Entry::parse(at, u64::from_le_bytes(word))
}

fn value_of<'a>(entry: &Entry, bytes: &'a [u8]) -> Option<Value<'a>> {
    Some(match entry.value {
        ValueSize::Inline(_) => Value::Inline(bytes),
        ValueSize::Reference => Value::Reference(u64::from_le_bytes(bytes.try_into().ok()?)),
    })
}

/// An entry in a note, and its slot.
pub(super) struct SlotEntry<'a> {
    slot: u64,
    rest: &'a [u8],
    pub entry: Entry,
    pub value: Value<'a>,
}

impl SlotEntry<'_> {
    /// The suffix, put together in a list.
    pub fn suffix<'b>(&self, to: &'b mut Vec<u8>) -> Result<&'b [u8]> {
        to.clear();
        fallible::more(to, self.entry.suffix, "a key")?;
        to.extend_from_slice(&self.slot.to_be_bytes()[..self.entry.suffix.min(HEAD_BYTES)]);
        to.extend_from_slice(self.rest);
        Ok(to)
    }
}
