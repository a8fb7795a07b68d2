//! A node of the wB+-tree: a slot array and a bitmap over pairs in no order.
//!
//! ```text
//! header line   w0 bit 0 the slot array is valid | bit i + 1: pair i is there
//!               w1 the leftmost child, or the next leaf      w5 the pool's kind, and the level
//! body line 0   the slot array, a byte each: how many pairs, then their numbers by rising key
//! other lines   pairs: key, value or child; four in a line
//! ```
//!
//! With 64 slots a node has 60 pairs; the source has 63 in nodes whose header is in the same line as the bitmap.

use everleaf_pmem::{Page, PageNo, Result, Word};
use everleaf_pool::damaged;
use everleaf_pool::kind::{KIND_WORD, level_of};

/// Slots of the body that the slot array takes.
const ARRAY_SLOTS: usize = 4;
/// Words of the slot array.
pub const ARRAY_WORDS: usize = 8;
/// Bytes of the slot array.
pub const ARRAY_BYTES: usize = 8 * ARRAY_WORDS;
/// Header word of the bitmap.
pub const STATE: usize = 0;
/// Header word of the leftmost child, or of the next leaf.
pub const LINK: usize = 1;
/// Bit of the bitmap that says that the slot array is valid.
pub const VALID: u64 = 1;
/// The line of the slot array in its page.
pub const ARRAY_LINE: usize = 1;

/// How many pairs a node has at most.
pub fn capacity(page: Page<'_>) -> usize {
    page.slots() - ARRAY_SLOTS
}

/// The bit of a pair.
pub fn bit(pair: usize) -> u64 {
    2 << pair
}

/// The words of a pair.
#[inline(always)]
pub fn pair<'p>(page: Page<'p>, i: usize) -> [Word<'p>; 2] {
    let first = ARRAY_WORDS + 2 * i;
    [page.body_word(first), page.body_word(first + 1)]
}

/// The line of a pair in its page.
pub fn line_of_pair(i: usize) -> usize {
    ARRAY_LINE + (ARRAY_WORDS + 2 * i) / 8
}

/// A page number in a word.
pub fn link(page: Page<'_>) -> PageNo {
    page.head(LINK).load() as PageNo
}

/// How far above the leaves a node is.
pub fn level(page: Page<'_>) -> u8 {
    level_of(page.head(KIND_WORD).load())
}

/// The pairs of a node by rising key.
pub struct View<'p> {
    page: Page<'p>,
    /// The slot array, if it is not valid in the page.
    sorted: Option<[u8; ARRAY_BYTES]>,
    len: usize,
}

impl<'p> View<'p> {
    /// Looks at a node. If its slot array is not valid, the pairs of the bitmap are sorted.
    ///
    /// # Errors
    /// Corrupt if the slot array names no pair.
    pub fn of(page: Page<'p>) -> Result<Self> {
        let state = page.head(STATE).load();
        let all = capacity(page);
        if state & VALID == 0 {
            let mut pairs: Vec<usize> = (0..all).filter(|i| state & bit(*i) != 0).collect();
            pairs.sort_unstable_by_key(|i| pair(page, *i)[0].load());
            return Ok(Self { page, sorted: Some(array_of(&pairs)), len: pairs.len() });
        }
        let view = Self { page, sorted: None, len: usize::from(array_byte(page, 0)) };
        if view.len > all {
            return Err(damaged(
                page,
                8 * everleaf_pmem::HEAD_WORDS,
                "a slot array that is too long",
            ));
        }
        Ok(view)
    }

    /// How many pairs there are.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.len
    }

    /// The number of the `k`-th pair.
    #[inline(always)]
    pub fn at(&self, k: usize) -> usize {
        let byte = match &self.sorted {
            None => array_byte(self.page, k + 1),
            Some(bytes) => bytes[k + 1],
        };
        usize::from(byte)
    }

    /// The key of the `k`-th pair.
    #[inline(always)]
    pub fn key(&self, k: usize) -> u64 {
        pair(self.page, self.at(k))[0].load()
    }

    /// Value or child of the `k`-th pair.
    #[inline(always)]
    pub fn value(&self, k: usize) -> u64 {
        pair(self.page, self.at(k))[1].load()
    }

    /// How many keys are lower. O(log n).
    #[inline]
    pub fn lower(&self, key: u64) -> usize {
        let (mut low, mut high) = (0, self.len);
        while low < high {
            let mid = (low + high) / 2;
            if self.key(mid) < key { low = mid + 1 } else { high = mid }
        }
        low
    }

    /// Which pair has a key, by its rank.
    #[inline]
    pub fn find(&self, key: u64) -> Option<usize> {
        let k = self.lower(key);
        (k < self.len && self.key(k) == key).then_some(k)
    }

    /// The child for a key, of an inner node.
    #[inline]
    pub fn child(&self, key: u64) -> PageNo {
        let k = self.find(key).map_or_else(|| self.lower(key), |k| k + 1);
        self.child_at(k)
    }

    /// The child before the `k`-th key.
    pub fn child_at(&self, k: usize) -> PageNo {
        match k.checked_sub(1) {
            None => link(self.page),
            Some(k) => self.value(k) as PageNo,
        }
    }

    /// The numbers of the pairs by rising key.
    pub fn pairs(&self) -> Vec<usize> {
        (0..self.len).map(|k| self.at(k)).collect()
    }
}

/// A slot array as bytes.
fn array_of(pairs: &[usize]) -> [u8; ARRAY_BYTES] {
    let mut bytes = [0; ARRAY_BYTES];
    bytes[0] = pairs.len() as u8;
    bytes[1..].iter_mut().zip(pairs).for_each(|(byte, i)| *byte = *i as u8);
    bytes
}

/// A slot array as words.
pub fn array_words(pairs: &[usize]) -> [u64; ARRAY_WORDS] {
    let bytes = array_of(pairs);
    std::array::from_fn(|i| u64::from_le_bytes(std::array::from_fn(|j| bytes[8 * i + j])))
}

#[inline(always)]
fn array_byte(page: Page<'_>, i: usize) -> u8 {
    (page.body_word(i / 8).load() >> (8 * (i % 8))) as u8
}
