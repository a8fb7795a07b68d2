//! The kind of a page: the kind word of its header, and the byte that the map holds for it.
//!
//! ```text
//! kind word   0..8 kind | 8..16 level | 16..32 flags | 32..64 prefix bytes
//! ```
//!
//! The kind stands in both places. The map's byte decides who owns the page; the header's byte
//! lets a reader that arrives late, and `check`, see what the bytes are.

use everleaf_pmem::{SEQ_WORD, SUM_WORD};

/// Header word of every page that says what it is.
pub const KIND_WORD: usize = 5;

/// Not in use.
pub const FREE: u8 = 0;
/// A node of a tree.
pub const NODE: u8 = 1;
/// A page of records of one size class.
pub const RECORD: u8 = 2;
/// A page of the map itself.
pub const MAP: u8 = 3;
/// The root of a tree.
pub const ANCHOR: u8 = 4;
/// Map byte only: the first page of an extent. Its bytes are raw, without a header.
pub const EXTENT_HEAD: u8 = 5;
/// Map byte only: a further page of an extent.
pub const EXTENT_TAIL: u8 = 6;

/// The copy of a node that is being changed in more than one store (strict media).
pub const LOG: u8 = 7;

const _: () = assert!(FREE == 0, "zeroed pages are free");
const _: () =
    assert!(KIND_WORD < SEQ_WORD && KIND_WORD < SUM_WORD, "the medium has the last words");

/// Makes a kind word.
pub const fn pack(kind: u8, level: u8, flags: u16, prefix: u32) -> u64 {
    debug_assert!(kind <= LOG, "a kind that nobody knows");
    debug_assert!(kind == NODE || level == 0, "only nodes have levels");
    kind as u64 | (level as u64) << 8 | (flags as u64) << 16 | (prefix as u64) << 32
}
/// The kind in a kind word.
#[inline(always)]
pub const fn kind_of(word: u64) -> u8 {
    word as u8
}
/// The level in a kind word (nodes; leaves have 0).
#[inline(always)]
pub const fn level_of(word: u64) -> u8 {
    (word >> 8) as u8
}
/// The flags in a kind word.
#[inline(always)]
pub const fn flags_of(word: u64) -> u16 {
    (word >> 16) as u16
}
/// The prefix field in a kind word.
#[inline(always)]
pub const fn prefix_of(word: u64) -> u32 {
    (word >> 32) as u32
}

/// A word in the bytes of a page; 0 behind their end.
pub(crate) fn word_in(bytes: &[u8], word: usize) -> u64 {
    let bytes = bytes.get(8 * word..).and_then(|bytes| bytes.first_chunk());
    bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_come_back() {
        let w = pack(NODE, 7, 0xBEEF, 0xDEAD_CAFE);
        assert_eq!((kind_of(w), level_of(w)), (NODE, 7));
        assert_eq!((flags_of(w), prefix_of(w)), (0xBEEF, 0xDEAD_CAFE));
        assert_eq!(pack(FREE, 0, 0, 0), 0, "zeroed pages are free");
    }
}
