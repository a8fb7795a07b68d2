//! What a node says: its header as it was at one moment, and the entries that it leads to.
//!
//! A reader makes a [`View`] of a page that it may share with a writer, reads, and validates the page's
//! version afterwards. What it read before that may be anything, and so may a damaged page: nothing here
//! panics, leaves the page or goes on for ever. What cannot be is an error, which is believed like any
//! other answer: after the version was validated.

use everleaf_pmem::{Page, PageNo, Result, fallible};
use everleaf_pool::kind::{self, KIND_WORD};

use super::bytes::{Bytes, Flat};
use super::entry::{Entry, Value, ValueSize, short_len};
use super::format::{
    CHILD_BYTES, FENCES_WORD, HEAD_BYTES, HIGH_IS_LONG, LONG_CHILD_BYTES, LOW_IS_LONG, NO_FENCE,
    REFERENCE_BYTES, RUN_SHIFT, RUN_WORD, SIBLING_WORD, SLOT_BYTES, SLOTS_AT, fence_max,
    prefix_max,
};
use crate::node::header::{FLAG_BYTES, FLAG_SLOTTED, MAX_LEVEL};

/// A fence as it is given to a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fence<'a> {
    /// The bytes of the fence that the node keeps: all, or the first ones.
    pub kept: &'a [u8],
    /// The record that holds a longer fence whole.
    pub record: Option<u64>,
}

impl<'a> Fence<'a> {
    /// A fence that a node of such a page keeps whole.
    pub fn whole(bytes: &'a [u8]) -> Self {
        Self { kept: bytes, record: None }
    }
    /// The fence of these bytes; `record` holds all of them if the node cannot.
    pub fn of(bytes: &'a [u8], record: u64, page_bytes: usize) -> Self {
        match bytes.get(..fence_max(page_bytes)) {
            Some(kept) if is_long_fence(bytes.len(), page_bytes) => {
                Self { kept, record: Some(record) }
            }
            _ => Self::whole(bytes),
        }
    }
}

/// Whether a fence of so many bytes needs a record that holds it whole.
pub fn is_long_fence(bytes: usize, page_bytes: usize) -> bool {
    bytes > fence_max(page_bytes)
}

/// Where a fence is in its page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FenceAt {
    /// Its first byte.
    pub at: usize,
    /// How many bytes of it the node keeps.
    pub kept: usize,
    /// The record that holds it whole, if the node keeps a part.
    pub record: Option<u64>,
}

impl FenceAt {
    /// Bytes that it takes.
    pub fn bytes(&self) -> usize {
        self.kept + if self.record.is_some() { REFERENCE_BYTES } else { 0 }
    }
}

/// A node's header as it was at one moment, and its bytes.
#[derive(Clone, Copy)]
pub struct Node<B> {
    bytes: B,
    run: u64,
    fences: u64,
    kind: u64,
}

/// A node in its page.
pub type View<'m> = Node<Page<'m>>;

/// What the flags in the kind word of a slotted node are.
pub(super) const KIND_FLAGS: u16 = FLAG_BYTES | FLAG_SLOTTED;

/// Whether a kind word is that of a slotted node.
#[inline(always)]
fn is_node(kind: u64, page_bytes: usize) -> bool {
    kind::kind_of(kind) == kind::NODE
        && kind::level_of(kind) <= MAX_LEVEL
        && kind::flags_of(kind) == KIND_FLAGS
        && kind::prefix_of(kind) as usize <= prefix_max(page_bytes)
}

impl<'m> Node<Page<'m>> {
    /// The node on a page; none if the page says that it is something else.
    #[inline(always)]
    pub fn of(page: Page<'m>) -> Option<Self> {
        let kind = page.head(KIND_WORD).load();
        is_node(kind, page.geometry().page_bytes()).then(|| Self::read(page))
    }

    /// The node on a page of which the caller knows that it is one, or will know when it validates.
    #[inline(always)]
    pub fn read(page: Page<'m>) -> Self {
        Self {
            bytes: page,
            run: page.head(RUN_WORD).load(),
            fences: page.head(FENCES_WORD).load(),
            kind: page.head(KIND_WORD).load(),
        }
    }

    /// The page.
    #[inline(always)]
    pub fn page(&self) -> Page<'m> {
        self.bytes
    }
}

impl<'a> Node<Flat<'a>> {
    /// The value of an entry, lent; none if it is not there.
    #[inline(always)]
    pub fn value_of(&self, entry: &Entry) -> Option<Value<'a>> {
        match entry.value {
            ValueSize::Inline(len) => self.bytes.get(entry.value_at, len).map(Value::Inline),
            ValueSize::Reference => Some(Value::Reference(self.bytes.load_le(entry.value_at))),
        }
    }
}

impl<B: Bytes> Node<B> {
    /// The node of some bytes, which are one.
    #[inline]
    pub(super) fn new(bytes: B) -> Self {
        let word = |word: usize| bytes.load_le(8 * word);
        Self { bytes, run: word(RUN_WORD), fences: word(FENCES_WORD), kind: word(KIND_WORD) }
    }
    /// Whether the page says that it is a slotted node.
    pub(super) fn says_so(&self) -> bool {
        is_node(self.kind, self.page_bytes())
    }
    /// Its bytes.
    #[inline(always)]
    pub(super) fn bytes(&self) -> B {
        self.bytes
    }
    /// Bytes of the page.
    #[inline(always)]
    pub fn page_bytes(&self) -> usize {
        self.bytes.page_bytes()
    }
    /// 0 for leaves.
    #[inline(always)]
    pub fn level(&self) -> u8 {
        kind::level_of(self.kind)
    }
    /// Whether its entries hold values.
    #[inline(always)]
    pub fn is_leaf(&self) -> bool {
        self.level() == 0
    }
    /// Bytes that all keys of the node begin with, and that entries leave out.
    #[inline(always)]
    pub fn prefix_len(&self) -> usize {
        (kind::prefix_of(self.kind) as usize).min(prefix_max(self.page_bytes()))
    }
    /// Entries, as the header says.
    #[inline(always)]
    pub fn count(&self) -> usize {
        self.run as usize & 0xffff
    }
    /// The first byte of the heap.
    #[inline(always)]
    pub fn heap_start(&self) -> usize {
        (self.run >> 16) as usize & 0xffff
    }
    /// Bytes of the heap that nothing uses.
    #[inline(always)]
    pub fn dead_bytes(&self) -> usize {
        (self.run >> 32) as usize & 0xffff
    }
    /// The node's flags: long fences, and the run.
    #[inline(always)]
    pub(super) fn flags(&self) -> u16 {
        (self.run >> 48) as u16
    }
    /// How many inserts in a row were at the end.
    #[inline(always)]
    pub fn run(&self) -> usize {
        usize::from(self.flags() >> RUN_SHIFT)
    }
    /// The byte behind the slots.
    #[inline(always)]
    pub fn slots_end(&self) -> usize {
        SLOTS_AT + SLOT_BYTES * self.count()
    }
    /// Bytes between the slots and the heap.
    #[inline(always)]
    pub fn gap(&self) -> usize {
        self.heap_start().saturating_sub(self.slots_end())
    }
    /// Bytes that are free after a compaction.
    #[inline(always)]
    pub fn free_bytes(&self) -> usize {
        self.gap() + self.dead_bytes()
    }
    /// Bytes that slots, entries and fences use.
    #[inline(always)]
    pub fn used_bytes(&self) -> usize {
        (self.page_bytes() - SLOTS_AT).saturating_sub(self.free_bytes())
    }
    /// The sibling, if there is one.
    #[inline(always)]
    pub fn sibling(&self) -> Option<PageNo> {
        match self.bytes.load_le(8 * SIBLING_WORD) as PageNo {
            0 => None,
            no => Some(no),
        }
    }
    /// An error that says what is wrong with the page.
    #[cold]
    pub(super) fn damage(&self, what: &str) -> everleaf_pmem::Error {
        self.bytes.damage(what)
    }

    fn fence(&self, word: u64, long: u16) -> Option<FenceAt> {
        let (at, len) = (word as u16, (word >> 16) as u16);
        if len == NO_FENCE {
            return None;
        }
        let (at, kept) = (usize::from(at), usize::from(len));
        let record = (self.flags() & long != 0).then(|| self.bytes.load_le(at + kept));
        Some(FenceAt { at, kept, record })
    }
    /// The low fence, inclusive; none: -infinity.
    #[inline]
    pub fn low(&self) -> Option<FenceAt> {
        self.fence(self.fences, LOW_IS_LONG)
    }
    /// The high fence, exclusive; none: +infinity.
    #[inline]
    pub fn high(&self) -> Option<FenceAt> {
        self.fence(self.fences >> 32, HIGH_IS_LONG)
    }
    /// Where the prefix is: the first bytes of the low fence.
    #[inline(always)]
    pub(super) fn prefix_at(&self) -> usize {
        self.fences as usize & 0xffff
    }
    /// Where the high fence is and how many bytes of it are kept.
    #[inline(always)]
    pub(super) fn high_at(&self) -> Option<(usize, usize)> {
        let (at, len) = ((self.fences >> 32) as u16, (self.fences >> 48) as u16);
        (len != NO_FENCE).then_some((usize::from(at), usize::from(len)))
    }
    /// Whether a record holds one of the fences.
    #[inline(always)]
    pub(super) fn has_long_fence(&self) -> bool {
        self.flags() & (LOW_IS_LONG | HIGH_IS_LONG) != 0
    }
    /// Whether more of the high fence is in a record.
    #[inline(always)]
    pub(super) fn high_is_long(&self) -> bool {
        self.flags() & HIGH_IS_LONG != 0
    }

    /// Copies what the node keeps of a fence to the end of a list.
    ///
    /// # Errors
    /// Corrupt, NoMemory.
    pub fn fence_into(&self, fence: FenceAt, to: &mut Vec<u8>) -> Result<()> {
        self.append(fence.at, fence.kept, to)
    }

    /// Slot `pos`; 0 outside the page.
    #[inline(always)]
    pub(super) fn slot(&self, pos: usize) -> u64 {
        self.bytes.load_le(SLOTS_AT + SLOT_BYTES * pos)
    }
    /// The entry that a slot leads to.
    #[inline(always)]
    pub(super) fn entry_of(&self, slot: u64) -> Entry {
        let at = slot as usize & 0xffff;
        Entry::parse(at, self.bytes.load_le(at))
    }
    /// The entry of a position below the count.
    #[inline(always)]
    pub fn entry(&self, pos: usize) -> Entry {
        self.entry_of(self.slot(pos))
    }
    /// Bytes of the entry at a position, and of its slot.
    #[inline(always)]
    pub(super) fn weight(&self, pos: usize) -> usize {
        let at = self.slot(pos) as usize & 0xffff;
        let word = self.bytes.load_le(at);
        SLOT_BYTES
            + match short_len(word as u8) {
                0 => Entry::parse(at, word).bytes(),
                len => len,
            }
    }
    /// Whether the key of an entry may be cut: all that are short are whole.
    #[inline(always)]
    pub(super) fn may_be_cut(&self, pos: usize) -> bool {
        short_len(self.bytes.load_le(self.slot(pos) as usize & 0xffff) as u8) == 0
    }
    /// The child of an inner node's entry.
    #[inline(always)]
    pub fn child_of(&self, entry: &Entry) -> PageNo {
        self.bytes.load_le(entry.value_at) as PageNo
    }
    /// The child at a position of an inner node.
    #[inline(always)]
    pub fn child(&self, pos: usize) -> PageNo {
        self.child_of(&self.entry(pos))
    }
    /// The record that an entry's value is in; none if the entry holds the value.
    #[inline(always)]
    pub fn reference_of(&self, entry: &Entry) -> Option<u64> {
        match entry.value {
            ValueSize::Inline(_) => None,
            ValueSize::Reference => Some(self.bytes.load_le(entry.value_at)),
        }
    }
    /// The record that holds the whole key of an entry, if the entry keeps a part.
    ///
    /// # Errors
    /// Corrupt, if it cannot be.
    #[inline]
    pub fn far_of(&self, entry: &Entry) -> Result<Option<u64>> {
        if !entry.cut {
            return Ok(None);
        }
        match (entry.value, self.is_leaf()) {
            (ValueSize::Reference, true) => Ok(Some(self.bytes.load_le(entry.value_at))),
            (ValueSize::Inline(LONG_CHILD_BYTES), false) => {
                Ok(Some(self.bytes.load_le(entry.value_at + CHILD_BYTES)))
            }
            _ => Err(self.damage("the key of an entry is nowhere")),
        }
    }

    /// Copies the key at a position, as far as the node knows it, into a list that is cleared before. Names
    /// the record with the whole key if this is a part.
    ///
    /// # Errors
    /// Corrupt, NoMemory.
    #[inline]
    pub fn key_into(&self, pos: usize, to: &mut Vec<u8>) -> Result<Option<u64>> {
        to.clear();
        let (slot, prefix) = (self.slot(pos), self.prefix_len());
        let entry = self.entry_of(slot);
        fallible::more(to, prefix + entry.suffix, "a key")?;
        if prefix > 0 {
            self.append(self.prefix_at(), prefix, to)?;
        }
        self.suffix_onto(slot, &entry, to)?;
        self.far_of(&entry)
    }

    /// Copies the suffix of an entry to the end of a list.
    #[inline]
    pub(super) fn suffix_onto(&self, slot: u64, entry: &Entry, to: &mut Vec<u8>) -> Result<()> {
        fallible::more(to, entry.suffix, "a key")?;
        to.extend_from_slice(&slot.to_be_bytes()[..entry.suffix.min(HEAD_BYTES)]);
        self.append(entry.rest_at, entry.rest(), to)
    }

    /// Copies the value at a position into a list that is cleared before, if the entry holds it. Answers
    /// the name of its record if not.
    ///
    /// # Errors
    /// Corrupt, NoMemory.
    #[inline]
    pub fn value_into(&self, pos: usize, to: &mut Vec<u8>) -> Result<Option<u64>> {
        to.clear();
        let entry = self.entry(pos);
        if let Some(record) = self.reference_of(&entry) {
            return Ok(Some(record));
        }
        self.append(entry.value_at, entry.value.bytes(), to)?;
        Ok(None)
    }

    /// Copies the value that an entry holds to the end of a list.
    ///
    /// # Errors
    /// Corrupt, NoMemory.
    #[inline]
    pub fn value_onto(&self, entry: &Entry, to: &mut Vec<u8>) -> Result<()> {
        self.append(entry.value_at, entry.value.bytes(), to)
    }

    /// Copies bytes of the page to the end of a list.
    #[inline]
    pub(super) fn append(&self, at: usize, len: usize, to: &mut Vec<u8>) -> Result<()> {
        fallible::more(to, len, "bytes of a node")?;
        if self.bytes.append_to(at, len, to) {
            Ok(())
        } else {
            Err(self.damage("it ends too early"))
        }
    }
}

impl View<'_> {
    /// Fills a buffer with bytes of the value that an entry holds, from byte `from` of it on. Says how many
    /// that were: fewer than asked for only at the value's end.
    ///
    /// # Errors
    /// Corrupt.
    #[inline]
    pub fn value_part(&self, entry: &Entry, from: u64, buf: &mut [u8]) -> Result<usize> {
        let len = entry.value.bytes();
        let from = from.min(len as u64) as usize;
        let n = buf.len().min(len - from);
        match self.bytes.copy_out(entry.value_at.saturating_add(from), &mut buf[..n]) {
            true => Ok(n),
            false => Err(self.damage("it ends too early")),
        }
    }
}
