//! The bytes of an entry that is to be stored, of the form that [`view`](crate::slotted::view) reads.
//!
//! There is one code for each pair of lengths: the shortest. So entries of equal keys and values are equal.

use crate::slotted::view::{
    CUT_BIT, HEAD_BYTES, KEPT_BYTES, NumberBuf, Value, ValueSize, head_of, inline_value_max,
    slot_head, whole_key_max,
};

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

/// Whether a pair lives in its leaf.
#[inline(always)]
pub fn is_inline(key: usize, value: usize, page_bytes: usize) -> bool {
    value <= inline_value_max(page_bytes) && !is_cut(key, page_bytes)
}

/// Whether entries keep only a part of a key of so many bytes.
#[inline(always)]
pub fn is_cut(key: usize, page_bytes: usize) -> bool {
    key > whole_key_max(page_bytes)
}

/// The bytes of a key that an entry keeps behind a prefix, and whether they are a part.
#[inline(always)]
pub fn kept_of(key: &[u8], prefix: usize, page_bytes: usize) -> (&[u8], bool) {
    let suffix = key.get(prefix..).unwrap_or_default();
    if !is_cut(key.len(), page_bytes) {
        return (suffix, false);
    }
    // The key is longer than what is kept, always.
    (&suffix[..KEPT_BYTES.min(suffix.len().saturating_sub(1))], true)
}

/// An entry on its way into a page.
#[derive(Debug, Clone, Copy)]
pub(super) struct NewEntry<'a> {
    /// Bytes of the key behind the prefix: all, or those that are kept.
    pub suffix: &'a [u8],
    /// Whether the key goes on behind them.
    pub cut: bool,
    /// Its part beside the key.
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
    use crate::slotted::view::{Entry, head_behind, prefix_max, short_len};

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
