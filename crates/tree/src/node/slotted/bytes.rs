//! The bytes of a node: in its page, or copied.
//!
//! What a node says is read in the same way from both ([`Node`](super::Node)). A page may change meanwhile,
//! and its reader validates; a copy stays as it is. Whoever makes a node anew reads the old one there.

use std::cmp::Ordering;

use everleaf_pmem::{Error, Page, PageNo};
use everleaf_pool::damaged;

use super::format::{FIRST_SLOT, SLOT_BYTES, SLOTS_AT};

/// Bytes of a node. What lies outside of them is 0, or said to be outside: nothing panics.
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
