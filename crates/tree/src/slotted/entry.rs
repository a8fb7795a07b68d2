//! The bytes of an entry, where everything is in a page, and the limits that follow from its size.
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
//! There is one code for each pair of lengths: the shortest. So entries of equal keys and values are equal.

use everleaf_pmem::PageNo;

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

/// Whether a pair lives in its leaf.
#[inline(always)]
pub fn is_inline(key: usize, value: usize, page_bytes: usize) -> bool {
    value <= inline_value_max(page_bytes) && !is_cut(key, page_bytes)
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
const CUT_BIT: u64 = 1 << 15;

/// What an entry has beside its key.
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
/// one, it may be anything, and its parts may lie outside the page: whoever reads them is told so.
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
    /// What the value takes.
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

/// The code of an entry and the lengths that follow it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Code {
    bytes: [u8; 8],
    len: usize,
}

impl Code {
    #[inline(always)]
    pub fn new(suffix: usize, cut: bool, value: ValueSize) -> Self {
        match value {
            ValueSize::Inline(bytes) if suffix < 14 && bytes < 13 && !cut => {
                let word = suffix as u64 | (bytes as u64) << 4;
                Self { bytes: word.to_le_bytes(), len: 1 }
            }
            _ => Self::long(suffix, cut, value),
        }
    }

    fn long(suffix: usize, cut: bool, value: ValueSize) -> Self {
        debug_assert!((suffix as u64) < CUT_BIT, "a suffix fits its length");
        let (mut word, mut len) = (0, 1);
        let mut put = |bytes: usize, length: u64| {
            word |= length << (8 * len);
            len += bytes;
        };
        let low = match suffix {
            0..14 if !cut => suffix as u64,
            14..256 if !cut => {
                put(1, suffix as u64);
                14
            }
            _ => {
                put(2, suffix as u64 | if cut { CUT_BIT } else { 0 });
                15
            }
        };
        let high = match value {
            ValueSize::Inline(bytes @ 0..13) => bytes as u64,
            ValueSize::Inline(bytes @ 13..256) => {
                put(1, bytes as u64);
                13
            }
            ValueSize::Inline(bytes) => {
                debug_assert!(bytes <= usize::from(u16::MAX), "a value fits its length");
                put(2, bytes as u64);
                14
            }
            ValueSize::Reference => 15,
        };
        Self { bytes: (word | low | high << 4).to_le_bytes(), len }
    }

    #[inline(always)]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// Bytes of an entry without its slot.
#[inline]
pub fn entry_bytes(suffix: usize, cut: bool, value: ValueSize) -> usize {
    Code::new(suffix, cut, value).len + suffix.saturating_sub(HEAD_BYTES) + value.bytes()
}

/// Whether entries keep only a part of a key of so many bytes.
#[inline(always)]
pub fn is_cut(key: usize, page_bytes: usize) -> bool {
    key > whole_key_max(page_bytes)
}

/// What an entry keeps of a key behind a prefix, and whether that is a part.
#[inline(always)]
pub fn kept_of(key: &[u8], prefix: usize, page_bytes: usize) -> (&[u8], bool) {
    let suffix = key.get(prefix..).unwrap_or_default();
    if !is_cut(key.len(), page_bytes) {
        return (suffix, false);
    }
    // The key is longer than what is kept, always.
    (&suffix[..KEPT_BYTES.min(suffix.len().saturating_sub(1))], true)
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

/// An entry on its way into a page.
#[derive(Debug, Clone, Copy)]
pub(super) struct NewEntry<'a> {
    /// Bytes of the key behind the prefix: all, or those that are kept.
    pub suffix: &'a [u8],
    /// Whether the key goes on behind them.
    pub cut: bool,
    /// What it holds beside the key.
    pub value: Value<'a>,
}

impl Default for NewEntry<'_> {
    #[inline(always)]
    fn default() -> Self {
        Self { suffix: &[], cut: false, value: Value::Inline(&[]) }
    }
}

impl<'a> NewEntry<'a> {
    /// The entry of a key in a node with this prefix.
    #[inline(always)]
    pub fn of(key: &'a [u8], prefix: usize, page_bytes: usize, value: Value<'a>) -> Self {
        let (suffix, cut) = kept_of(key, prefix, page_bytes);
        Self { suffix, cut, value }
    }
    #[inline(always)]
    pub fn code(&self) -> Code {
        Code::new(self.suffix.len(), self.cut, self.value.size())
    }
    /// The suffix behind what is in the slot.
    #[inline(always)]
    pub fn rest(&self) -> &'a [u8] {
        self.suffix.get(HEAD_BYTES..).unwrap_or_default()
    }
    /// Bytes of the entry, without its slot.
    #[inline(always)]
    pub fn bytes(&self) -> usize {
        entry_bytes(self.suffix.len(), self.cut, self.value.size())
    }
    /// The first bytes of the suffix, where they are in the slot.
    #[inline(always)]
    pub fn head(&self) -> u64 {
        slot_head(head_of(self.suffix))
    }

    /// The entry and its note, put together, if it is short.
    #[inline(always)]
    pub fn short(&self, pos: usize) -> Option<ShortEntry> {
        let (code, rest, mut number) = (self.code(), self.rest(), NumberBuf::default());
        let value = self.value.bytes(&mut number);
        if rest.len() > 8 || value.len() > 8 {
            return None;
        }
        let (head, rest_word) = (head_of(self.suffix), head_of(rest).to_be_bytes());
        let (n, value_word) = (code.len, head_of(value).to_be_bytes());
        // Words from the front to the back: what is too much of one is overwritten by the next.
        let mut short = ShortEntry { entry: [0; 32], note: [0; 40], entry_len: 0, note_len: 0 };
        put(&mut short.entry, 0, code.bytes);
        put(&mut short.entry, n, rest_word);
        put(&mut short.entry, n + rest.len(), value_word);
        short.entry_len = n + rest.len() + value.len();
        put(&mut short.note, 0, (pos as u64).to_le_bytes());
        put(&mut short.note, 2, code.bytes);
        put(&mut short.note, 2 + n, head.to_be_bytes());
        put(&mut short.note, 2 + n + HEAD_BYTES, rest_word);
        put(&mut short.note, 2 + n + self.suffix.len(), value_word);
        short.note_len = 2 + n + self.suffix.len() + value.len();
        Some(short)
    }
}

#[inline(always)]
fn put<const N: usize>(to: &mut [u8; N], at: usize, word: [u8; 8]) {
    to[at..at + 8].copy_from_slice(&word);
}

/// A short entry, and what a journal notes of its insertion.
pub(super) struct ShortEntry {
    entry: [u8; 32],
    note: [u8; 40],
    entry_len: usize,
    note_len: usize,
}

impl ShortEntry {
    /// The entry as the page holds it.
    #[inline(always)]
    pub fn entry(&self) -> &[u8] {
        &self.entry[..self.entry_len]
    }
    /// Its position, and the entry with the whole suffix.
    #[inline(always)]
    pub fn note(&self) -> &[u8] {
        &self.note[..self.note_len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LENGTHS_OF_PARTS: [usize; 16] =
        [0, 1, 5, 6, 7, 12, 13, 14, 15, 16, 255, 256, 257, 1000, 4095, 4096];

    #[test]
    fn a_code_says_what_it_was_made_of() {
        let values = LENGTHS_OF_PARTS.map(ValueSize::Inline).into_iter();
        for value in values.chain([ValueSize::Reference]) {
            for (suffix, cut) in LENGTHS_OF_PARTS.iter().flat_map(|n| [(*n, false), (*n, true)]) {
                let code = Code::new(suffix, cut, value);
                let entry = Entry::parse(100, u64::from_le_bytes(code.bytes));
                assert_eq!((entry.suffix, entry.cut, entry.value), (suffix, cut, value));
                assert_eq!((entry.at, entry.rest_at), (100, 100 + code.len));
                assert_eq!(entry.value_at, entry.rest_at + suffix.saturating_sub(6));
                assert_eq!(entry.bytes(), entry_bytes(suffix, cut, value));
                let longer = usize::from(suffix > 13) + usize::from(suffix > 255 || cut);
                let longer = if cut { 2 } else { longer };
                let more = match value {
                    ValueSize::Inline(n) => usize::from(n > 12) + usize::from(n > 255),
                    ValueSize::Reference => 0,
                };
                assert_eq!(code.len, 1 + longer + more, "{suffix} {cut} {value:?}");
            }
        }
    }

    #[test]
    fn the_table_knows_the_entries_whose_code_says_all() {
        for code in 0..=255 {
            let entry = Entry::parse(0, u64::from(code));
            let wanted = if entry.code_bytes() > 1 || code >> 4 == 15 { 0 } else { entry.end() };
            assert_eq!(short_len(code), wanted, "code {code}");
        }
    }

    #[test]
    fn heads_are_the_first_bytes_padded_with_zeros() {
        let key: Vec<u8> = (1..=20).collect();
        for (len, prefix) in (0..=20).flat_map(|len| (0..=22).map(move |prefix| (len, prefix))) {
            let behind = key[..len].get(prefix..).unwrap_or_default();
            let mut wanted = [0; 8];
            let n = behind.len().min(8);
            wanted[..n].copy_from_slice(&behind[..n]);
            let wanted = u64::from_be_bytes(wanted);
            assert_eq!(head_of(behind), wanted);
            assert_eq!(head_behind(&key[..len], prefix), wanted, "{len} bytes behind {prefix}");
        }
    }

    #[test]
    fn a_short_entry_is_what_its_parts_are() {
        let bytes: Vec<u8> = (1..=20).collect();
        let values = (0..=9).map(|n| Value::Inline(&bytes[..n]));
        let numbers = [Value::Reference(7 << 40), Value::Child(9), Value::LongChild(9, 7)];
        for value in values.chain(numbers) {
            for (suffix, cut) in (0..=16).flat_map(|n| [(&bytes[..n], false), (&bytes[..n], true)])
            {
                let entry = NewEntry { suffix, cut, value };
                let (code, mut number) = (entry.code(), NumberBuf::default());
                let value = value.bytes(&mut number);
                let Some(short) = entry.short(0x0102) else {
                    assert!(entry.rest().len() > 8 || value.len() > 8);
                    continue;
                };
                assert_eq!(short.entry(), [code.bytes(), entry.rest(), value].concat());
                assert_eq!(short.entry().len(), entry.bytes());
                assert_eq!(short.note(), [&[2, 1], code.bytes(), suffix, value].concat());
            }
        }
    }

    #[test]
    fn what_is_kept_of_a_long_key_is_never_all_of_it() {
        for page_bytes in [512, 4096, 32768] {
            let whole = whole_key_max(page_bytes);
            for len in [whole - 1, whole, whole + 1, whole + 2, whole + 30, 65_536] {
                let key = vec![b'k'; len];
                for prefix in [0, 1, prefix_max(page_bytes)] {
                    let (kept, cut) = kept_of(&key, prefix, page_bytes);
                    assert_eq!(cut, len > whole);
                    assert!(!cut || HEAD_BYTES <= kept.len() && prefix + kept.len() < len);
                    assert!(cut || prefix + kept.len() == len);
                }
            }
        }
    }
}
