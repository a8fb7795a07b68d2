//! A node of WORT: a header word and sixteen children, three lines of a page of 8 slots.
//!
//! ```text
//! header line   w0 depth 1 B | length of the prefix 1 B | its first 6 nibbles, one a byte      w5 the pool's kind
//! body          child 0 … child 15
//! child         0 none | page << 32 a node | page << 32 | cell << 1 | 1 a leaf
//! ```
//!
//! A key is 16 nibbles, from the top. `depth` is how many of them lie above the node, and `depth` and the length of
//! the prefix together are the nibble in which its children differ. A split of the prefix changes both, and leaves
//! their sum as it was.

use everleaf_pmem::PageNo;

use crate::cells::Cell;

/// Nibbles of a key.
pub const NIBBLES: usize = 16;
/// Nibbles of a prefix that the header keeps. Others are in the keys below.
pub const KEPT: usize = 6;

/// Nibble `at` of a key, from the top.
#[inline(always)]
pub const fn nibble(key: u64, at: usize) -> usize {
    (key >> (4 * (NIBBLES - 1 - at)) & 15) as usize
}

/// How many nibbles two different keys share from nibble `from` on.
#[inline(always)]
pub const fn shared(a: u64, b: u64, from: usize) -> usize {
    ((a ^ b) << (4 * from)).leading_zeros() as usize / 4
}

/// The header word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// Nibbles above the node.
    pub depth: u8,
    /// Nibbles that all keys below share from there on.
    pub len: u8,
    /// The first of those.
    pub partial: [u8; KEPT],
}

impl Head {
    /// The header of a node at `depth` whose keys have `len` nibbles of `key` there.
    pub fn of_key(key: u64, depth: usize, len: usize) -> Self {
        debug_assert!(depth + len < NIBBLES, "a nibble is left for the children");
        let kept = |i| if i < len { nibble(key, depth + i) as u8 } else { 0 };
        Self { depth: depth as u8, len: len as u8, partial: std::array::from_fn(kept) }
    }
    /// From the word of a page.
    #[inline(always)]
    pub fn of_word(word: u64) -> Self {
        let [depth, len, partial @ ..] = word.to_le_bytes();
        Self { depth, len, partial }
    }
    /// As a word of a page.
    pub fn word(self) -> u64 {
        let [a, b, c, d, e, f] = self.partial;
        u64::from_le_bytes([self.depth, self.len, a, b, c, d, e, f])
    }
    /// The nibble in which the children differ.
    #[inline(always)]
    pub fn at(self) -> usize {
        usize::from(self.depth) + usize::from(self.len)
    }
    /// How many nibbles of the prefix are here.
    #[inline(always)]
    pub fn kept(self) -> usize {
        usize::from(self.len).min(KEPT)
    }
    /// Whether the nibbles that are here are those of a key. Others are for the leaf to settle.
    #[inline(always)]
    pub fn agrees(self, key: u64) -> bool {
        let depth = usize::from(self.depth);
        (0..self.kept()).all(|i| usize::from(self.partial[i]) == nibble(key, depth + i))
    }
    /// The nibbles that are here, where a key has them; all others 0.
    pub fn prefix(self) -> u64 {
        let place = |i| 4 * (NIBBLES - 1 - usize::from(self.depth) - i);
        (0..self.kept()).fold(0, |key, i| key | u64::from(self.partial[i] & 15) << place(i))
    }
}

/// The meaning of a word for a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Child {
    /// There is none.
    None,
    /// A leaf: a cell of key and value.
    Leaf(Cell),
    /// A node.
    Node(PageNo),
}

impl Child {
    /// From the word of a page.
    #[inline(always)]
    pub fn of_word(word: u64) -> Self {
        let page = (word >> 32) as PageNo;
        match word {
            0 => Child::None,
            _ if word & 1 != 0 => Child::Leaf(Cell { page, at: (word >> 1) as u16 }),
            _ => Child::Node(page),
        }
    }
    /// As a word of a page.
    pub fn word(self) -> u64 {
        match self {
            Child::None => 0,
            Child::Leaf(cell) => u64::from(cell.page) << 32 | u64::from(cell.at) << 1 | 1,
            Child::Node(page) => u64::from(page) << 32,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_come_back() {
        let head = Head::of_key(0x0123_4567_89ab_cdef, 3, 9);
        assert_eq!(head, Head { depth: 3, len: 9, partial: [3, 4, 5, 6, 7, 8] });
        assert_eq!((Head::of_word(head.word()), head.at(), head.kept()), (head, 12, 6));
        assert!(head.agrees(0x0003_4567_8000_0000) && !head.agrees(0x0003_4567_9000_0000));
        assert_eq!(head.prefix(), 0x0003_4567_8000_0000);
        let cell = Cell { page: 7, at: 513 };
        for child in [Child::None, Child::Leaf(cell), Child::Node(u32::MAX)] {
            assert_eq!(Child::of_word(child.word()), child);
        }
    }

    #[test]
    fn nibbles_are_counted_from_the_top() {
        assert_eq!((nibble(0xa << 60 | 5, 0), nibble(0xa << 60 | 5, 15)), (10, 5));
        assert_eq!(
            (shared(0x10, 0x11, 0), shared(0x10, 0x11, 15), shared(0, 1 << 60, 0)),
            (15, 0, 0)
        );
    }
}
