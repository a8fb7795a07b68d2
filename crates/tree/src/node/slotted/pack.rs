//! A heap in the making: entries one below the other from the page's end down, and their slots.
//!
//! This is where whoever makes a node anew spends its time. So an entry that goes from one place to another
//! as it is costs the length of its code, looked up, and one copy of a fixed number of bytes that ends where
//! the entry ends. What such a copy brings along lies below the entry, where the next one comes.

use std::ops::Range;

use super::entry::{Code, Entry, NumberBuf, Value, head_of, short_len, slot_head};
use super::format::{HEAD_BYTES, SLOT_BYTES, SLOTS_AT};

/// Bytes of a short copy.
const SHORT: usize = 16;

/// Bytes of the entry at `at`. They may not all be there.
#[inline(always)]
fn entry_len(bytes: &[u8], at: usize) -> Option<usize> {
    match short_len(*bytes.get(at)?) {
        0 => Some(long_len(&bytes[at..])),
        len => Some(len),
    }
}

#[inline(never)]
fn long_len(bytes: &[u8]) -> usize {
    let mut word = [0; 8];
    let n = bytes.len().min(8);
    word[..n].copy_from_slice(&bytes[..n]);
    Entry::parse(0, u64::from_le_bytes(word)).end()
}

/// A page in the making.
pub(super) struct Pack<'b> {
    bytes: &'b mut [u8],
    count: usize,
    start: usize,
}

impl<'b> Pack<'b> {
    /// Goes on behind `count` slots and below `start`; what is between is zero.
    pub fn new(bytes: &'b mut [u8], count: usize, start: usize) -> Self {
        Self { bytes, count, start }
    }
    /// How many slots there are, and where the heap starts.
    pub fn end(self) -> (usize, usize) {
        (self.count, self.start)
    }

    /// Room for an entry of `len` bytes, whose slot begins with `head`; none if it does not fit.
    #[inline(always)]
    pub fn take(&mut self, head: u64, len: usize) -> Option<&mut [u8]> {
        let slot = SLOTS_AT + SLOT_BYTES * self.count;
        if slot + SLOT_BYTES + len > self.start {
            return None;
        }
        self.start -= len;
        self.count += 1;
        let word = (head | self.start as u64).to_le_bytes();
        self.bytes[slot..slot + SLOT_BYTES].copy_from_slice(&word);
        Some(&mut self.bytes[self.start..self.start + len])
    }

    /// Adds bytes that have no slot; answers where they are, if they fit.
    pub fn put(&mut self, bytes: &[u8]) -> Option<usize> {
        let slots_end = SLOTS_AT + SLOT_BYTES * self.count;
        let at = self.start.checked_sub(bytes.len()).filter(|at| *at >= slots_end)?;
        self.bytes[at..self.start].copy_from_slice(bytes);
        self.start = at;
        Some(at)
    }

    /// Adds entries of another page as they are. False if they do not fit, or if they are none.
    pub fn copy(&mut self, from: &[u8], range: Range<usize>) -> bool {
        let slots = from.get(SLOTS_AT..).unwrap_or_default().as_chunks::<SLOT_BYTES>().0;
        let Some(slots) = slots.get(range) else { return false };
        let first = SLOTS_AT + SLOT_BYTES * self.count;
        let heap_at = first + SLOT_BYTES * slots.len();
        let Some(mut left) = self.start.checked_sub(heap_at) else { return false };
        // The heap begins where the new slots will end: no entry can go where a slot is to be.
        let (to_slots, heap) = self.bytes.split_at_mut(heap_at);
        let to_slots = to_slots[first..].as_chunks_mut::<SLOT_BYTES>().0;
        for (to_slot, slot) in to_slots.iter_mut().zip(slots) {
            let slot = u64::from_le_bytes(*slot);
            let at = slot as usize & 0xffff;
            let Some(len) = entry_len(from, at) else { return false };
            if at + len > from.len() || len > left {
                return false;
            }
            let (source, target) = (&from[..at + len], &mut heap[..left]);
            if let (Some(source), true) = (source.last_chunk::<SHORT>(), len <= SHORT)
                && let Some(target) = target.last_chunk_mut::<SHORT>()
            {
                *target = *source;
            } else {
                target[left - len..].copy_from_slice(&source[at..]);
            }
            left -= len;
            *to_slot = (slot & !0xffff | (heap_at + left) as u64).to_le_bytes();
        }
        // What came along below the last one.
        heap[left.saturating_sub(SHORT)..left].fill(0);
        (self.count, self.start) = (self.count + slots.len(), heap_at + left);
        true
    }
}

impl Pack<'_> {
    /// Adds an entry; false if it does not fit.
    pub fn push(&mut self, suffix: &[u8], cut: bool, value: Value<'_>) -> bool {
        let code = Code::new(suffix.len(), cut, value.size());
        let rest = suffix.get(HEAD_BYTES..).unwrap_or_default();
        let len = code.bytes().len() + rest.len() + value.size().bytes();
        let Some(to) = self.take(slot_head(head_of(suffix)), len) else { return false };
        let (to_code, to) = to.split_at_mut(code.bytes().len());
        to_code.copy_from_slice(code.bytes());
        let (to_rest, to) = to.split_at_mut(rest.len());
        to_rest.copy_from_slice(rest);
        to.copy_from_slice(value.bytes(&mut NumberBuf::default()));
        true
    }

    /// As [`push`](Self::push), of a whole key: its head as the slot has it, what follows as the first bytes of
    /// a big-endian number, and how many bytes that are. False also if the entry is long, or if few bytes are
    /// left: then nothing is done. Who calls this calls [`tidy`](Self::tidy) at the end.
    #[inline(always)]
    pub fn push_short(&mut self, (head, rest, suffix): (u64, u64, usize), value: &[u8]) -> bool {
        let rest_len = suffix.saturating_sub(HEAD_BYTES);
        let len = 1 + rest_len + value.len();
        let slot = SLOTS_AT + SLOT_BYTES * self.count;
        if len > SHORT || value.len() > 8 || slot + SLOT_BYTES + SHORT > self.start {
            return false;
        }
        let code = suffix as u64 | (value.len() as u64) << 4;
        let value = u128::from(head_of(value).swap_bytes());
        let entry =
            u128::from(code) | u128::from(rest.swap_bytes()) << 8 | value << (8 * (1 + rest_len));
        let to = &mut self.bytes[self.start - SHORT..self.start];
        to.copy_from_slice(&(entry << (8 * (SHORT - len))).to_le_bytes());
        self.start -= len;
        self.count += 1;
        let word = (head | self.start as u64).to_le_bytes();
        self.bytes[slot..slot + SLOT_BYTES].copy_from_slice(&word);
        true
    }

    /// Makes zero again what short copies brought along below the last entry.
    pub fn tidy(&mut self) {
        let slots_end = SLOTS_AT + SLOT_BYTES * self.count;
        self.bytes[self.start.saturating_sub(SHORT).max(slots_end)..self.start].fill(0);
    }
}
