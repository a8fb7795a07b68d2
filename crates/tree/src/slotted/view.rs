//! How a node is read, also by a reader that races, and where a key belongs in it.
//!
//! The bytes are in a page, or copied, and are read in the same way from both ([`Node`](crate::slotted::Node)). A
//! page may change meanwhile, and its reader validates; a copy stays as it is. Code that makes a node anew reads the
//! old one there.
//!
//! A reader makes a [`View`] of a page that it may share with a writer, reads, and validates the page's
//! version afterwards. Bytes read before that may be anything, and so may a damaged page: nothing here
//! panics, leaves the page or goes on for ever. An impossible state is an error, which is believed like any
//! other answer: after the version was validated.
//!
//! An entry begins with a code:
//!
//! ```text
//! code     low nibble   suffix length 0..=13; 14: it is in the next byte; 15: in the next two, whose top
//!                       bit says that the key is cut
//!          high nibble  value length 0..=12; 13: it is in a byte; 14: in two; 15: a reference of 8 bytes
//! entry    code | length of the suffix, if it is not in the code | that of the value | suffix from its
//!          7th byte on | value
//! ```
//!
//! A search says where a key belongs: among the entries of a node, or beyond its high fence. Halves of the slots are
//! ruled out until a few lines are left, and one pass of vectors counts those in them
//! whose six bytes are not above the key's. Only where six bytes are equal are entries looked at, by bisection
//! if there are many. Zeros that pad a short suffix are no bytes of it: where heads are equal and one suffix is
//! shorter than they are, the lengths decide.

use std::cmp::Ordering;

use everleaf_pmem::{Error, Page, PageNo, Result, fallible};
use everleaf_pool::damaged;
use everleaf_pool::kind::{self, KIND_WORD};

use crate::node::{FLAG_BYTES, FLAG_SLOTTED, KIND_AND_FLAGS, MAX_LEVEL, NodeView, Rank, Shape};

/// Header word: count, heap start, dead bytes, flags; 16 bits each.
pub const RUN_WORD: usize = 0;
/// Header word: the sibling in the low half.
pub const SIBLING_WORD: usize = 1;
/// Header word: where the low fence is, its length, where the high fence is, its length.
pub const FENCES_WORD: usize = 2;
/// Header word: the first 8 bytes of the high fence behind the prefix.
pub const HIGH_HEAD_WORD: usize = 3;
/// Header word without a use: 0.
pub const SPARE_WORD: usize = 4;

/// Word of a page where the slots begin, and the byte.
pub const FIRST_SLOT: usize = 8;
/// Byte of a page where the slots begin.
pub const SLOTS_AT: usize = 8 * FIRST_SLOT;
/// Bytes of a slot.
pub const SLOT_BYTES: usize = 8;
/// How many bytes of a suffix are in its slot, and only there.
pub const HEAD_BYTES: usize = 6;
/// How many bytes of a suffix an entry keeps of a key that is cut, when it is inserted.
pub const KEPT_BYTES: usize = 26;
/// Bytes of a reference to a record.
pub const REFERENCE_BYTES: usize = 8;
/// Bytes of a child's number.
pub const CHILD_BYTES: usize = 4;
/// Bytes of a child's number and of the reference to the record of its separator, which is cut.
pub const LONG_CHILD_BYTES: usize = CHILD_BYTES + REFERENCE_BYTES;

/// The length of a fence that there is not: the node begins at -infinity, or ends at +infinity.
pub const NO_FENCE: u16 = 0xffff;
/// Flag of the node: 8 bytes behind the low fence name the record that holds it whole.
pub const LOW_IS_LONG: u16 = 1;
/// Flag of the node: the same of the high fence.
pub const HIGH_IS_LONG: u16 = 2;
/// Where in the flags the length of the run is.
pub const RUN_SHIFT: u32 = 8;
/// After so many inserts in a row at the end a node is filled from left to right.
pub const LONG_RUN: usize = 8;
/// A run is not counted further.
pub const RUN_MAX: usize = 255;

/// The smallest page that there is, for tests, and the largest.
pub const PAGE_BYTES_MIN: usize = 512;
/// The largest page: offsets have 16 bits, and lengths of suffixes 15.
pub const PAGE_BYTES_MAX: usize = 1 << 15;

/// The longest key that an entry keeps whole. Longer ones are cut.
#[inline(always)]
pub const fn whole_key_max(page_bytes: usize) -> usize {
    page_bytes / 8
}

/// The longest value that an entry keeps. Longer ones are in records.
#[inline(always)]
pub const fn inline_value_max(page_bytes: usize) -> usize {
    page_bytes / 8
}

/// How many bytes of a fence a node keeps; of a longer one a record holds all.
#[inline(always)]
pub const fn fence_max(page_bytes: usize) -> usize {
    page_bytes / 8
}

/// The longest prefix. A long fence has at least the 8 bytes for the header behind it, and a cut key the 6
/// for its slot and one that is not kept.
#[inline(always)]
pub const fn prefix_max(page_bytes: usize) -> usize {
    fence_max(page_bytes) - 8
}

/// Bytes that slots, entries and fences have together.
#[inline(always)]
pub const fn room(page_bytes: usize) -> usize {
    page_bytes - SLOTS_AT
}

/// The most slots that a page can have.
#[inline(always)]
pub const fn slots_max(page_bytes: usize) -> usize {
    room(page_bytes) / (SLOT_BYTES + 1)
}

const _: () = {
    let mut page = PAGE_BYTES_MIN;
    while page <= PAGE_BYTES_MAX {
        // Code and lengths, a whole key with an inline value, and a slot. A cut key keeps at most the
        // bytes of a prefix and those of its insertion, and has a child and a reference.
        let whole = SLOT_BYTES + 5 + whole_key_max(page) - HEAD_BYTES + inline_value_max(page);
        let cut = SLOT_BYTES + 3 + prefix_max(page) + KEPT_BYTES - HEAD_BYTES + LONG_CHILD_BYTES;
        let entry = if whole > cut { whole } else { cut };
        let fences = 2 * (fence_max(page) + REFERENCE_BYTES);
        assert!(fences + 2 * entry <= room(page), "beside one entry is always room for another");
        assert!(fence_max(page) < NO_FENCE as usize);
        assert!(whole_key_max(page) - prefix_max(page) >= HEAD_BYTES);
        page *= 2;
    }
};

/// Longest code with the lengths that follow it.
const CODE_MAX: usize = 5;
/// Bytes of a page that tell everything about an entry but its own bytes.
const _: () = assert!(CODE_MAX <= size_of::<u64>());
pub(super) const CUT_BIT: u64 = 1 << 15;

/// The part of an entry beside its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value<'a> {
    /// These bytes: a value that is not too long.
    Inline(&'a [u8]),
    /// The name of the record that holds key and value.
    Reference(u64),
    /// A child of an inner node.
    Child(PageNo),
    /// A child at a separator that is cut, and the record that holds the whole separator.
    LongChild(PageNo, u64),
}

impl Value<'_> {
    /// Bytes that it takes in the entry.
    #[inline(always)]
    pub fn size(&self) -> ValueSize {
        match self {
            Value::Inline(bytes) => ValueSize::Inline(bytes.len()),
            Value::Reference(_) => ValueSize::Reference,
            Value::Child(_) => ValueSize::Inline(CHILD_BYTES),
            Value::LongChild(..) => ValueSize::Inline(LONG_CHILD_BYTES),
        }
    }
    /// Its bytes; `buf` holds those of a number.
    #[inline(always)]
    pub(super) fn bytes<'b>(&'b self, buf: &'b mut NumberBuf) -> &'b [u8] {
        match self {
            Value::Inline(bytes) => bytes,
            Value::Reference(record) => {
                buf[..REFERENCE_BYTES].copy_from_slice(&record.to_le_bytes());
                &buf[..REFERENCE_BYTES]
            }
            Value::Child(no) => {
                buf[..CHILD_BYTES].copy_from_slice(&no.to_le_bytes());
                &buf[..CHILD_BYTES]
            }
            Value::LongChild(no, record) => {
                buf[..CHILD_BYTES].copy_from_slice(&no.to_le_bytes());
                buf[CHILD_BYTES..].copy_from_slice(&record.to_le_bytes());
                buf
            }
        }
    }
}

/// Room for the bytes of a value that is numbers.
pub(super) type NumberBuf = [u8; LONG_CHILD_BYTES];

/// How much room a value takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueSize {
    /// So many bytes.
    Inline(usize),
    /// The name of a record.
    Reference,
}

impl ValueSize {
    /// Bytes of the value in the entry.
    #[inline(always)]
    pub fn bytes(self) -> usize {
        match self {
            ValueSize::Inline(bytes) => bytes,
            ValueSize::Reference => REFERENCE_BYTES,
        }
    }
}

/// Bytes of an entry by its code; 0 if lengths follow the code.
const LENGTHS: [u8; 256] = {
    let mut lengths = [0; 256];
    let mut code = 0;
    while code < 256 {
        let (suffix, value): (usize, usize) = (code & 15, code >> 4);
        if suffix < 14 && value < 13 {
            let rest = suffix.saturating_sub(HEAD_BYTES);
            lengths[code] = (1 + rest + value) as u8;
        }
        code += 1;
    }
    lengths
};

/// Bytes of the code, of the suffix and of an inline value, if two bytes say all of them: which is so for
/// most entries.
#[inline(always)]
pub(super) fn short_lengths(word: u64) -> Option<(usize, usize, usize)> {
    let (suffix, value) = (word as usize & 15, word as usize >> 4 & 15);
    match value {
        _ if suffix > 13 => None,
        0..13 => Some((1, suffix, value)),
        13 => Some((2, suffix, word as usize >> 8 & 0xff)),
        _ => None,
    }
}

/// Bytes of an entry with this code; 0 if lengths follow the code. Its key is not cut.
#[inline(always)]
pub(super) fn short_len(code: u8) -> usize {
    usize::from(LENGTHS[usize::from(code)])
}

/// Where the parts of an entry are in its page. Read from a page that others change, or from a damaged
/// one, it may be anything, and its parts may lie outside the page: their reader is told so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// The entry's first byte.
    pub at: usize,
    /// Bytes of the key behind the prefix: all, or those that are kept.
    pub suffix: usize,
    /// Whether the key goes on behind them.
    pub cut: bool,
    /// Where the suffix goes on behind what is in the slot.
    pub rest_at: usize,
    /// Where the value is.
    pub value_at: usize,
    /// The size of the value.
    pub value: ValueSize,
}

impl Entry {
    /// The entry at byte `at`, whose first 8 bytes are `word` (little-endian).
    #[inline(always)]
    pub fn parse(at: usize, word: u64) -> Self {
        let Some((code_bytes, suffix, value)) = short_lengths(word) else {
            return Self::parse_long(at, word);
        };
        let rest_at = at + code_bytes;
        let value_at = rest_at + suffix.saturating_sub(HEAD_BYTES);
        Self { at, suffix, cut: false, rest_at, value_at, value: ValueSize::Inline(value) }
    }

    #[inline(never)]
    fn parse_long(at: usize, word: u64) -> Self {
        let (mut rest_at, mut left) = (at + 1, word >> 8);
        let mut take = |bytes: u32| {
            let taken = left & ((1 << (8 * bytes)) - 1);
            left >>= 8 * bytes;
            rest_at += bytes as usize;
            taken
        };
        let (suffix, cut) = match word & 15 {
            14 => (take(1), false),
            15 => {
                let length = take(2);
                (length & !CUT_BIT, length & CUT_BIT != 0)
            }
            short => (short, false),
        };
        let value = match word >> 4 & 15 {
            13 => ValueSize::Inline(take(1) as usize),
            14 => ValueSize::Inline(take(2) as usize),
            15 => ValueSize::Reference,
            short => ValueSize::Inline(short as usize),
        };
        let suffix = suffix as usize;
        let value_at = rest_at + suffix.saturating_sub(HEAD_BYTES);
        Self { at, suffix, cut, rest_at, value_at, value }
    }

    /// Bytes of the suffix that are not in the slot.
    #[inline(always)]
    pub fn rest(&self) -> usize {
        self.suffix.saturating_sub(HEAD_BYTES)
    }
    /// The byte behind the entry.
    #[inline(always)]
    pub fn end(&self) -> usize {
        self.value_at + self.value.bytes()
    }
    /// Bytes of the entry, without its slot.
    #[inline(always)]
    pub fn bytes(&self) -> usize {
        self.end() - self.at
    }
    /// Bytes of the code and the lengths.
    #[inline(always)]
    pub fn code_bytes(&self) -> usize {
        self.rest_at - self.at
    }
}

/// Fewer than 8 bytes as the first ones of a big-endian number; the others are 0.
#[inline(always)]
fn short_head(bytes: &[u8]) -> u64 {
    let n = bytes.len();
    // Both ends, which may overlap.
    if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        let (first, last) = (u32::from_be_bytes(*first), u32::from_be_bytes(*last));
        return u64::from(first) << 32 | u64::from(last) << (64 - 8 * n);
    }
    if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        let (first, last) = (u16::from_be_bytes(*first), u16::from_be_bytes(*last));
        return u64::from(first) << 48 | u64::from(last) << (64 - 8 * n);
    }
    bytes.first().map_or(0, |byte| u64::from(*byte) << 56)
}

/// The first 8 bytes of a suffix as a big-endian number, padded with zeros.
#[inline(always)]
pub fn head_of(suffix: &[u8]) -> u64 {
    match suffix.first_chunk() {
        Some(bytes) => u64::from_be_bytes(*bytes),
        None => short_head(suffix),
    }
}

/// As [`head_of`] for what of a key is behind its first `prefix` bytes.
#[inline(always)]
pub fn head_behind(key: &[u8], prefix: usize) -> u64 {
    let Some(behind) = key.get(prefix..) else { return 0 };
    if let Some(bytes) = behind.first_chunk() {
        return u64::from_be_bytes(*bytes);
    }
    match key.last_chunk() {
        // The last bytes of the key's last 8; none if there are none.
        Some(last) => u64::from_be_bytes(*last) << 8 << (8 * (7 - behind.len())),
        None => short_head(behind),
    }
}

/// The six bytes of a suffix that are in its slot, where they are in the slot.
#[inline(always)]
pub(super) fn slot_head(head: u64) -> u64 {
    head & !0xffff
}

/// Bytes of a node. A byte outside of them is 0, or said to be outside: nothing panics.
pub trait Bytes: Copy {
    /// How many there are.
    fn page_bytes(self) -> usize;
    /// 8 bytes as a little-endian number.
    fn load_le(self, at: usize) -> u64;
    /// Copies bytes to the end of a list that has room for them; false if they are not all there.
    fn append_to(self, at: usize, len: usize, to: &mut Vec<u8>) -> bool;
    /// Compares bytes with others, and then by length.
    fn cmp_bytes(self, at: usize, len: usize, other: &[u8]) -> Ordering;
    /// How many of the first `n` slots are not above a word.
    fn slots_le(self, n: usize, word: u64) -> usize;
    /// An error that says what is wrong with the node.
    fn damage(self, what: &str) -> Error;
}

impl Bytes for Page<'_> {
    #[inline(always)]
    fn page_bytes(self) -> usize {
        self.geometry().page_bytes()
    }
    #[inline(always)]
    fn load_le(self, at: usize) -> u64 {
        Page::load_le(self, at)
    }
    #[inline(always)]
    fn append_to(self, at: usize, len: usize, to: &mut Vec<u8>) -> bool {
        Page::append_to(self, at, len, to)
    }
    #[inline(always)]
    fn cmp_bytes(self, at: usize, len: usize, other: &[u8]) -> Ordering {
        Page::cmp_bytes(self, at, len, other)
    }
    #[inline(always)]
    fn slots_le(self, n: usize, word: u64) -> usize {
        self.words_le(FIRST_SLOT, n, word)
    }
    #[cold]
    fn damage(self, what: &str) -> Error {
        damaged(self, 0, what)
    }
}

/// A node in memory that nobody changes.
#[derive(Clone, Copy)]
pub struct Flat<'a> {
    pub(super) bytes: &'a [u8],
    page: PageNo,
    offset: u64,
}

impl<'a> Flat<'a> {
    /// Bytes that were copied out of a page of this number and place.
    pub(super) fn new(bytes: &'a [u8], page: PageNo, offset: u64) -> Self {
        Self { bytes, page, offset }
    }
    /// Bytes of the node; none if they are not all there.
    #[inline(always)]
    pub fn get(self, at: usize, len: usize) -> Option<&'a [u8]> {
        self.bytes.get(at..)?.get(..len)
    }
}

impl Bytes for Flat<'_> {
    #[inline(always)]
    fn page_bytes(self) -> usize {
        self.bytes.len()
    }
    #[inline(always)]
    fn load_le(self, at: usize) -> u64 {
        match self.bytes.get(at..).and_then(|bytes| bytes.first_chunk()) {
            Some(bytes) => u64::from_le_bytes(*bytes),
            None => load_at_end(self.bytes.get(at..).unwrap_or_default()),
        }
    }
    #[inline(always)]
    fn append_to(self, at: usize, len: usize, to: &mut Vec<u8>) -> bool {
        let bytes = self.get(at, len).filter(|_| len <= to.capacity() - to.len());
        bytes.is_some_and(|bytes| {
            to.extend_from_slice(bytes);
            true
        })
    }
    #[inline(always)]
    fn cmp_bytes(self, at: usize, len: usize, other: &[u8]) -> Ordering {
        let bytes = self.bytes.get(at..).unwrap_or_default();
        bytes[..len.min(bytes.len())].cmp(other)
    }
    fn slots_le(self, n: usize, word: u64) -> usize {
        let slots = self.bytes.get(SLOTS_AT..).unwrap_or_default();
        let (slots, _) = slots.as_chunks::<SLOT_BYTES>();
        let slots = &slots[..n.min(slots.len())];
        slots.partition_point(|slot| u64::from_le_bytes(*slot) <= word)
    }
    #[cold]
    fn damage(self, what: &str) -> Error {
        Error::corrupt(self.offset, format!("page {}: {what}", self.page))
    }
}

#[cold]
fn load_at_end(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(word)
}

/// The first 8 of `len` bytes as a big-endian number, padded with zeros.
#[inline(always)]
pub(super) fn padded<B: Bytes>(bytes: B, at: usize, len: usize) -> u64 {
    let word = u64::from_be_bytes(bytes.load_le(at).to_le_bytes());
    match len {
        0 => 0,
        1..8 => word & !(u64::MAX >> (8 * len)),
        _ => word,
    }
}

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
    sibling: PageNo,
    fences: u64,
    kind: u64,
    prefix: u32,
}

/// A node in its page.
pub type View<'m> = Node<Page<'m>>;

/// The flags in the kind word of a slotted node.
pub(super) const KIND_FLAGS: u16 = FLAG_BYTES | FLAG_SLOTTED;

/// Whether a kind word says that it is that of a slotted node.
#[inline(always)]
fn is_own(kind: u64) -> bool {
    kind & KIND_AND_FLAGS == kind::pack(kind::NODE, 0, KIND_FLAGS, 0)
        && kind::level_of(kind) <= MAX_LEVEL
}

/// Whether a kind word can be that of a slotted node in a page of so many bytes.
#[inline(always)]
fn is_node(kind: u64, page_bytes: usize) -> bool {
    is_own(kind) && kind::prefix_of(kind) as usize <= prefix_max(page_bytes)
}

impl<'m> Node<Page<'m>> {
    /// The node on a page; none if the page says that it is something else.
    #[inline(always)]
    pub fn of(page: Page<'m>) -> Option<Self> {
        let kind = page.head(KIND_WORD).load();
        is_node(kind, page.geometry().page_bytes()).then(|| Self::read(page))
    }

    /// The node on a page, as a search meets it: cut to the page where it is read.
    #[inline(always)]
    pub(super) fn at(page: Page<'m>) -> Option<Self> {
        let node = Self::read(page);
        is_own(node.kind).then_some(node)
    }

    /// The node on a page of which the caller knows that it is one, or will know when it validates.
    #[inline(always)]
    pub fn read(page: Page<'m>) -> Self {
        let kind = page.head(KIND_WORD).load();
        Self {
            bytes: page,
            run: page.head(RUN_WORD).load(),
            sibling: page.head(SIBLING_WORD).load() as PageNo,
            fences: page.head(FENCES_WORD).load(),
            kind,
            prefix: kind::prefix_of(kind),
        }
    }

    /// The page.
    #[inline(always)]
    pub fn page(&self) -> Page<'m> {
        self.bytes
    }
}

impl<'m> NodeView<'m> for View<'m> {
    #[inline(always)]
    fn page(self) -> Page<'m> {
        self.bytes
    }
    #[inline(always)]
    fn shape(self) -> Shape {
        let prefix = kind::prefix_of(self.kind) as usize;
        Shape { level: self.level(), bytes: true, slotted: true, prefix }
    }
    #[inline(always)]
    fn count(self) -> usize {
        Node::count(&self)
    }
    #[inline(always)]
    fn sibling(self) -> Option<PageNo> {
        Node::sibling(&self)
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
        let kind = word(KIND_WORD);
        Self {
            bytes,
            run: word(RUN_WORD),
            sibling: word(SIBLING_WORD) as PageNo,
            fences: word(FENCES_WORD),
            kind,
            prefix: kind::prefix_of(kind),
        }
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
    /// Bytes that all keys of the node begin with, and that entries leave out. No more than a node of any page has,
    /// whatever the header says.
    #[inline(always)]
    pub fn prefix_len(&self) -> usize {
        (self.prefix as usize).min(prefix_max(PAGE_BYTES_MAX))
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
        Some(self.sibling).filter(|no| *no != 0)
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

/// Bytes of the high fence that a header word holds.
const HIGH_HEAD_BYTES: usize = 8;

/// The order of a stored key to another key, as far as its bytes tell.
enum KeptOrder {
    Order(Ordering),
    /// All that is kept of it is how the other key begins.
    Part,
}

/// The order of a stored string, of which `stored` bytes are kept, to another string. The first `head`
/// bytes of both are equal, those behind the end of either taken as zeros; `compare` tells the order of what
/// is kept behind `head` to bytes of the other.
#[inline(always)]
fn order(
    (stored, cut): (usize, bool),
    other: &[u8],
    head: usize,
    compare: impl FnOnce(&[u8]) -> Ordering,
) -> KeptOrder {
    if stored < head || other.len() < head {
        // A string that goes on behind the other, which ends within the head, is the greater one.
        return KeptOrder::Order(match stored.cmp(&other.len()) {
            Ordering::Equal if cut => Ordering::Greater,
            order => order,
        });
    }
    if !cut {
        return KeptOrder::Order(compare(&other[head..]));
    }
    let kept = other.len().min(stored);
    match compare(&other[head..kept]) {
        Ordering::Equal if other.len() > stored => KeptOrder::Part,
        // The kept bytes are all of the other key, and a cut key is longer than what is kept of it.
        Ordering::Equal => KeptOrder::Order(Ordering::Greater),
        order => KeptOrder::Order(order),
    }
}

/// How two strings are ordered of which one is stored behind the head.
enum Behind {
    Order(Ordering),
    /// More than 8 bytes of it have to be looked at, or it is cut.
    Long,
}

impl<B: Bytes> Node<B> {
    /// How many slots are not above a word.
    #[inline(always)]
    fn slots_le(&self, word: u64) -> usize {
        self.bytes().slots_le(self.count(), word)
    }

    /// Ranks a key that lies between the fences, and parses its entry if it is there. `far` answers the order of the
    /// key in a record to this one.
    ///
    /// # Errors
    /// Those of `far`; Corrupt.
    #[inline(always)]
    pub fn locate(
        &self,
        key: &[u8],
        far: impl FnMut(u64) -> Result<Ordering>,
    ) -> Result<(Rank, Option<Entry>)> {
        let last = head_behind(key, self.prefix_len()) | 0xffff;
        let le = self.slots_le(last);
        let is_none = (Rank { le, exact: false }, None);
        if le == 0 {
            return Ok(is_none);
        }
        let slot = self.slot(le - 1);
        if slot | 0xffff != last {
            return Ok(is_none);
        }
        // Most often there is just one such key, and a short one.
        let entry = self.entry_of(slot);
        match self.short_order(&entry, key) {
            Behind::Order(Ordering::Less) => Ok(is_none),
            Behind::Order(Ordering::Equal) => Ok((Rank { le, exact: true }, Some(entry))),
            _ => {
                let rank = self.rank_equal_heads(key, last, le, far)?;
                Ok((rank, rank.exact.then(|| self.entry(rank.le - 1))))
            }
        }
    }

    /// The same without the entry.
    ///
    /// # Errors
    /// As [`locate`](Self::locate).
    #[inline]
    pub fn rank(&self, key: &[u8], far: impl FnMut(u64) -> Result<Ordering>) -> Result<Rank> {
        self.locate(key, far).map(|(rank, _)| rank)
    }

    /// The order of an entry to a key with the same head, if 8 more bytes decide it.
    #[inline(always)]
    fn short_order(&self, entry: &Entry, key: &[u8]) -> Behind {
        let (prefix, rest) = (self.prefix_len(), entry.rest());
        let ours = padded(self.bytes(), entry.rest_at, rest);
        let theirs = head_behind(key, prefix + HEAD_BYTES);
        if entry.cut || (ours == theirs && rest > 8) {
            return Behind::Long;
        }
        // The zeros that pad the shorter one are less than no byte of the other: lengths decide.
        let len = key.len().saturating_sub(prefix);
        Behind::Order(ours.cmp(&theirs).then(entry.suffix.cmp(&len)))
    }

    /// The slots before `le` have the head of the key, and `last` is the greatest word with that head.
    #[inline(never)]
    fn rank_equal_heads(
        &self,
        key: &[u8],
        last: u64,
        le: usize,
        mut far: impl FnMut(u64) -> Result<Ordering>,
    ) -> Result<Rank> {
        match self.order(le - 1, key, &mut far)? {
            Ordering::Less => return Ok(Rank { le, exact: false }),
            Ordering::Equal => return Ok(Rank { le, exact: true }),
            Ordering::Greater => {}
        }
        let mut high = le - 1;
        if high == 0 || self.slot(high - 1) | 0xffff != last {
            return Ok(Rank { le: high, exact: false });
        }
        let mut low = match (last & !0xffff).checked_sub(1) {
            Some(below) => self.slots_le(below).min(high),
            None => 0,
        };
        while low < high {
            let middle = (low + high) / 2;
            match self.order(middle, key, &mut far)? {
                Ordering::Less => low = middle + 1,
                Ordering::Equal => return Ok(Rank { le: middle + 1, exact: true }),
                Ordering::Greater => high = middle,
            }
        }
        Ok(Rank { le: low, exact: false })
    }

    /// The order of an entry to a key with the same head.
    #[inline]
    fn order(
        &self,
        pos: usize,
        key: &[u8],
        far: &mut impl FnMut(u64) -> Result<Ordering>,
    ) -> Result<Ordering> {
        let entry = self.entry(pos);
        if let Behind::Order(order) = self.short_order(&entry, key) {
            return Ok(order);
        }
        let suffix = key.get(self.prefix_len()..).unwrap_or_default();
        let known = order((entry.suffix, entry.cut), suffix, HEAD_BYTES, |rest| {
            self.bytes().cmp_bytes(entry.rest_at, entry.rest(), rest)
        });
        match known {
            KeptOrder::Order(order) => Ok(order),
            KeptOrder::Part => match self.far_of(&entry)? {
                Some(place) => far(place),
                None => Err(self.damage("an entry changes")),
            },
        }
    }

    /// Compares a key with the high fence; less if there is none. `far` answers the order of a fence that
    /// is in a record to the key.
    ///
    /// # Errors
    /// Those of `far`.
    #[inline]
    pub fn cmp_high(
        &self,
        key: &[u8],
        far: impl FnOnce(u64) -> Result<Ordering>,
    ) -> Result<Ordering> {
        let Some((at, kept)) = self.high_at() else { return Ok(Ordering::Less) };
        let prefix = self.prefix_len();
        if prefix > 0 {
            let begin = &key[..prefix.min(key.len())];
            let order = self.bytes().cmp_bytes(at, prefix, begin).reverse();
            if order != Ordering::Equal {
                return Ok(order);
            }
        }
        let head = self.bytes().load_le(8 * HIGH_HEAD_WORD);
        match head_behind(key, prefix).cmp(&head) {
            Ordering::Equal => self.cmp_high_behind(key, (at, kept), far),
            order => Ok(order),
        }
    }

    /// The heads are equal.
    #[cold]
    fn cmp_high_behind(
        &self,
        key: &[u8],
        (at, kept): (usize, usize),
        far: impl FnOnce(u64) -> Result<Ordering>,
    ) -> Result<Ordering> {
        let prefix = self.prefix_len();
        let suffix = key.get(prefix..).unwrap_or_default();
        let stored = (kept.saturating_sub(prefix), self.high_is_long());
        let known = order(stored, suffix, HIGH_HEAD_BYTES, |rest| {
            let behind = prefix + HIGH_HEAD_BYTES;
            self.bytes().cmp_bytes(at + behind, kept - behind, rest)
        });
        let order = match known {
            KeptOrder::Order(order) => order,
            KeptOrder::Part => match self.high().and_then(|high| high.record) {
                Some(record) => far(record)?,
                None => return Err(self.damage("its high fence changes")),
            },
        };
        Ok(order.reverse())
    }
}
