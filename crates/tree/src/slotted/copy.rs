//! A leaf in memory of its own, for a cursor that goes through it pair by pair and lends keys and values.

use std::ops::Range;

use everleaf_pmem::{Result, fallible};

use crate::slotted::view::{
    Entry, HEAD_BYTES, SLOT_BYTES, SLOTS_AT, ValueSize, View, prefix_max, short_lengths,
    whole_key_max,
};

/// Bytes that are copied at once where fewer are wanted.
const WORD: usize = 8;
/// Bytes that both lists have to spare: those of a code, of a word and of a suffix in its slot.
const SPARE: usize = 16;

/// The slots and the heap of a leaf as they were at one moment, and one pair of it. The slots are
/// believed as little as in a page: nothing here panics.
#[derive(Debug, Default)]
pub struct LeafCopy {
    /// The slots, then the heap, then zeros; behind them what is [kept](Self::keep) beside.
    bytes: Vec<u8>,
    /// Where the heap ends.
    end: usize,
    count: usize,
    /// How far the heap was moved to stand behind the slots.
    shift: usize,
    prefix: usize,
    /// The key of the pair, and bytes to spare. The prefix stays.
    key: Vec<u8>,
    key_len: usize,
    value: (usize, usize),
    /// The record that holds its value, if the leaf does not.
    record: u64,
}

/// The part of a key behind the prefix.
struct Suffix<'c> {
    /// Its first bytes, filled up with zeros.
    head: u64,
    rest: &'c [u8],
    len: usize,
    /// Whether the key goes on.
    cut: bool,
}

impl Suffix<'_> {
    /// Whether its key may stand before another one.
    fn may_precede(&self, other: &Self) -> bool {
        if self.cut || other.cut {
            // Only as many bytes say something as are there of both.
            let n = self.rest.len().min(other.rest.len());
            return (self.head, &self.rest[..n]) <= (other.head, &other.rest[..n]);
        }
        (self.head, self.rest, self.len) < (other.head, other.rest, other.len)
    }
}

/// How a copy went to a pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Went {
    /// It has all of the pair.
    Whole,
    /// It has the key; a record has the value.
    Far,
    /// It has no such pair, or not all of its key, and stays where it was.
    Not,
}

/// Entries of a copy around the one that a cursor is at, with nothing between them that changes what it sees.
#[derive(Debug, Clone, Default)]
pub struct Window {
    at: usize,
    from: usize,
    len: usize,
}

impl Window {
    /// At one of some entries.
    pub fn new(at: usize, entries: Range<usize>) -> Self {
        Self { at, from: entries.start, len: entries.len() }
    }

    /// The entry that it is at.
    pub fn at(&self) -> usize {
        self.at
    }

    /// The entry beside, if it is one of them.
    #[inline(always)]
    pub fn beside(&self, up: bool) -> Option<usize> {
        let pos = if up { self.at + 1 } else { self.at.wrapping_sub(1) };
        (pos.wrapping_sub(self.from) < self.len).then_some(pos)
    }

    /// Goes to one of them.
    #[inline(always)]
    pub fn slide(&mut self, pos: usize) {
        self.at = pos;
    }

    /// Has no entries any more.
    pub fn close(&mut self) {
        self.len = 0;
    }
}

impl LeafCopy {
    /// Copies a leaf. Its reader validates afterwards. False, and there is nothing, if its parts are not
    /// where they can be.
    ///
    /// # Errors
    /// NoMemory.
    pub fn fill(&mut self, view: &View<'_>) -> Result<bool> {
        let (count, prefix, heap) = (view.count(), view.prefix_len(), view.heap_start());
        let (page_bytes, slots) = (view.page_bytes(), SLOT_BYTES * count);
        self.count = 0;
        self.bytes.clear();
        self.key.clear();
        let Some(heap_bytes) = page_bytes.checked_sub(heap) else { return Ok(false) };
        if heap < SLOTS_AT + slots || prefix > prefix_max(page_bytes) {
            return Ok(false);
        }
        fallible::more(&mut self.bytes, page_bytes + SPARE, "a copy of a leaf")?;
        fallible::more(&mut self.key, whole_key_max(page_bytes) + SPARE, "a key")?;
        let page = view.page();
        let copied = page.append_to(SLOTS_AT, slots, &mut self.bytes)
            && page.append_to(heap, heap_bytes, &mut self.bytes)
            && page.append_to(view.prefix_at(), prefix, &mut self.key);
        if !copied {
            return Ok(false);
        }
        self.end = slots + heap_bytes;
        self.bytes.resize(self.end + SPARE, 0);
        self.key.resize(whole_key_max(page_bytes) + SPARE, 0);
        (self.count, self.shift, self.prefix) = (count, heap - slots, prefix);
        Ok(true)
    }

    /// Whether there is a leaf with pairs.
    #[inline(always)]
    pub fn is_there(&self) -> bool {
        self.count > 0
    }
    /// Bytes of memory that it keeps.
    pub fn memory(&self) -> usize {
        self.bytes.capacity() + self.key.capacity()
    }
    /// Has no pairs any more. The one that it is at stays.
    #[inline(always)]
    pub fn forget(&mut self) {
        self.count = 0;
    }
    /// The key of its pair.
    #[inline(always)]
    pub fn key(&self) -> &[u8] {
        self.key.get(..self.key_len).unwrap_or_default()
    }
    /// The value of its pair.
    #[inline(always)]
    pub fn value(&self) -> &[u8] {
        self.bytes.get(self.value.0..self.value.1).unwrap_or_default()
    }

    /// Whether a pair with this key can be [shown](Self::show): the leaf's keys have the same beginning.
    #[inline]
    pub fn may_show(&self, key: &[u8]) -> bool {
        key.len() + SPARE <= self.key.len()
            && key.get(..self.prefix).is_some_and(|prefix| *prefix == self.key[..self.prefix])
    }

    /// Keeps a pair beside those of the leaf; says where its key begins, and the value behind it.
    ///
    /// # Errors
    /// NoMemory.
    #[inline]
    pub fn keep(&mut self, key: &[u8], value: &[u8]) -> Result<usize> {
        let at = self.bytes.len();
        fallible::more(&mut self.bytes, key.len() + value.len(), "a pair beside a copy of a leaf")?;
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
        Ok(at)
    }

    /// Keeps no pairs beside those of the leaf any more.
    pub fn drop_kept(&mut self) {
        self.bytes.truncate(self.end + SPARE);
    }

    /// Bytes of a pair that is kept beside those of the leaf.
    pub fn kept(&self, at: Range<usize>) -> &[u8] {
        self.bytes.get(at).unwrap_or_default()
    }

    /// Goes to such a pair, which [may be shown](Self::may_show).
    #[inline]
    pub fn show(&mut self, key: Range<usize>, value: Range<usize>) {
        let len = key.len();
        if let (Some(to), Some(from)) = (self.key.get_mut(..len), self.bytes.get(key)) {
            to.copy_from_slice(from);
            (self.key_len, self.value) = (len, (value.start, value.end));
        }
    }

    /// Whether its keys ascend, as far as the leaf keeps them. O(entries).
    pub fn ascends(&self) -> bool {
        let behind = (1..self.count).map(|pos| self.suffix(pos));
        (0..self.count).map(|pos| self.suffix(pos)).zip(behind).all(|pair| match pair {
            (Some(left), Some(right)) => left.may_precede(&right),
            _ => false,
        })
    }

    /// The part of a key that the leaf keeps behind the prefix.
    fn suffix(&self, pos: usize) -> Option<Suffix<'_>> {
        let slot = u64::from_le_bytes(*self.bytes.as_chunks::<SLOT_BYTES>().0.get(pos)?);
        let at = (slot as usize & 0xffff).wrapping_sub(self.shift);
        let word = u64::from_le_bytes(*self.bytes.get(at..)?.first_chunk()?);
        let entry = Entry::parse(at, word);
        let rest = self.bytes.get(entry.rest_at..entry.value_at)?;
        let head = slot >> (8 * (SLOT_BYTES - HEAD_BYTES));
        Some(Suffix { head, rest, len: entry.suffix, cut: entry.cut })
    }

    /// The record that holds its value, if it [went](Self::go) to one that is far.
    pub fn record(&self) -> u64 {
        self.record
    }

    /// The record that holds the value of the pair at a position, if the leaf does not.
    pub fn record_at(&self, pos: usize) -> Option<u64> {
        let slots = self.bytes.as_chunks::<SLOT_BYTES>().0.get(..self.count)?;
        let at = (u64::from_le_bytes(*slots.get(pos)?) as usize & 0xffff).wrapping_sub(self.shift);
        let entry = Entry::parse(at, u64::from_le_bytes(*self.bytes.get(at..)?.first_chunk()?));
        let record = self.bytes.get(entry.value_at..)?.first_chunk()?;
        (entry.value == ValueSize::Reference).then(|| u64::from_le_bytes(*record))
    }

    /// Goes to the pair at a position.
    #[inline(always)]
    pub fn go(&mut self, pos: usize) -> Went {
        if pos < self.count { self.try_go(pos).unwrap_or(Went::Not) } else { Went::Not }
    }

    /// Most keys are so short that a copy of as many bytes as the longest of them has is cheaper than one of
    /// as many as there are.
    #[inline(always)]
    fn try_go(&mut self, pos: usize) -> Option<Went> {
        let bytes = self.bytes.as_slice();
        let slot = u64::from_le_bytes(*bytes.as_chunks::<SLOT_BYTES>().0.get(pos)?);
        let at = (slot as usize & 0xffff).wrapping_sub(self.shift);
        let chunk: &[u8; SPARE] = bytes.get(at..)?.first_chunk()?;
        let word = u64::from_le_bytes(*chunk.first_chunk()?);
        let Some((code_bytes, suffix, value)) = short_lengths(word) else {
            return self.go_long(slot, at, word);
        };
        let value_at = at + code_bytes + suffix.saturating_sub(HEAD_BYTES);
        if value_at + value > self.end {
            return None;
        }
        // More than is wanted: what is behind the key is not looked at.
        let key = self.key.get_mut(self.prefix..self.prefix + SPARE)?;
        key[..WORD].copy_from_slice(&slot.to_be_bytes());
        key[HEAD_BYTES..HEAD_BYTES + WORD].copy_from_slice(&chunk[code_bytes..code_bytes + WORD]);
        self.key_len = self.prefix + suffix;
        self.value = (value_at, value_at + value);
        Some(Went::Whole)
    }

    /// Goes to a pair of any length.
    #[inline(never)]
    fn go_long(&mut self, slot: u64, at: usize, word: u64) -> Option<Went> {
        let entry = Entry::parse(at, word);
        let end = entry.end();
        if entry.cut || end > self.end {
            return None;
        }
        let rest = self.bytes.get(entry.rest_at..entry.value_at)?;
        let key = self.key.get_mut(self.prefix..)?;
        let (first, more) = key.get_mut(..HEAD_BYTES + rest.len())?.split_at_mut(HEAD_BYTES);
        first.copy_from_slice(&slot.to_be_bytes()[..HEAD_BYTES]);
        more.copy_from_slice(rest);
        let record = self.bytes.get(entry.value_at..)?.first_chunk()?;
        self.key_len = self.prefix + entry.suffix;
        self.value = (entry.value_at, end);
        self.record = u64::from_le_bytes(*record);
        Some(match entry.value {
            ValueSize::Inline(_) => Went::Whole,
            ValueSize::Reference => Went::Far,
        })
    }
}
