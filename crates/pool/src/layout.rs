//! The bytes of a record page: places of one size, and a bitmap of those in use.
//!
//! ```text
//! w0     units of 16 bytes in a record u16 | number of places u16 << 16
//! w1..4  bitmap: bit i is set while place i holds a record
//! w5     kind
//! body   place i at units × 16 × i bytes
//! ```
//!
//! A *place* is named by its first unit of 16 bytes, so that a reader finds a record without
//! reading this header. The bitmap commits: bytes first, then the bit.

use std::ops::Range;

use everleaf_pmem::{LINE_BYTES, Medium, Page, Result};

use crate::change::{damaged, flush, split_u16};
use crate::class::MAX_SLOTS;
use crate::kind::{KIND_WORD, RECORD, kind_of, pack, word_in};

const SHAPE_WORD: usize = 0;
/// First of the four header words of the bitmap.
pub(crate) const USED_WORD: usize = 1;

const _: () = assert!(SHAPE_WORD < USED_WORD);
const _: () = assert!(USED_WORD + MAX_SLOTS / 64 <= KIND_WORD, "the bitmap ends before the kind");
const _: () = assert!(KIND_WORD < LINE_BYTES / 8, "one flush writes the whole header back");

/// A bitmap of places.
pub(crate) type Bits = [u64; MAX_SLOTS / 64];

/// How a record page is divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RecordShape {
    /// Units of 16 bytes in a record.
    pub units: u16,
    /// Number of places.
    pub places: u16,
}

impl RecordShape {
    /// The shape of pages of `slots` units for records of `units`.
    pub fn new(slots: usize, units: u16) -> Self {
        debug_assert!(units >= 2 && usize::from(units) <= slots, "{units} units in {slots} slots");
        Self { units, places: (slots / usize::from(units)).min(MAX_SLOTS) as u16 }
    }
    /// The bit of the place at `unit`, if there is such a place.
    pub fn bit(self, unit: u16) -> Option<usize> {
        let bit = unit / self.units;
        (unit.is_multiple_of(self.units) && bit < self.places).then_some(usize::from(bit))
    }
    /// The lowest place that no bit of `taken` claims.
    pub fn first_free(self, taken: &Bits) -> Option<usize> {
        let bit = taken.iter().enumerate().find_map(|(i, word)| {
            (*word != u64::MAX).then(|| 64 * i + word.trailing_ones() as usize)
        })?;
        (bit < usize::from(self.places)).then_some(bit)
    }
}

/// The shape of a record page; `None` if the header is not that of one. Needs no memory.
pub(crate) fn shape_of(page: Page<'_>) -> Option<RecordShape> {
    let (kind, word) = (page.head(KIND_WORD).load(), page.head(SHAPE_WORD).load());
    let units = word as u16;
    let is_one = kind_of(kind) == RECORD && units >= 2 && usize::from(units) <= page.slots();
    let shape = is_one.then(|| RecordShape::new(page.slots(), units))?;
    (word == shape_word(shape)).then_some(shape)
}

/// The shape of a record page, or what is wrong with its header.
pub(crate) fn shape(page: Page<'_>) -> Result<RecordShape> {
    shape_of(page).ok_or_else(|| {
        if kind_of(page.head(KIND_WORD).load()) != RECORD {
            return damaged(page, 8 * KIND_WORD, "should be a record page");
        }
        let word = page.head(SHAPE_WORD).load();
        damaged(page, 8 * SHAPE_WORD, format!("no shape of a record page: {word:#x}"))
    })
}

fn shape_word(shape: RecordShape) -> u64 {
    u64::from(shape.units) | u64::from(shape.places) << 16
}

/// The bytes of a record page behind the last place in use; none if its header is not that of one.
///
/// A record that is written later brings all of its bytes that are ever read.
pub(crate) fn unused(bytes: &[u8]) -> Option<Range<usize>> {
    let slots = bytes.len().checked_sub(LINE_BYTES)? / 16;
    let units = word_in(bytes, SHAPE_WORD) as u16;
    let is_one = units >= 2 && usize::from(units) <= slots;
    let shape = is_one.then(|| RecordShape::new(slots, units))?;
    let used: Bits = std::array::from_fn(|i| word_in(bytes, USED_WORD + i));
    let places = ones(used).last().map_or(0, |bit| bit + 1);
    let fits = word_in(bytes, SHAPE_WORD) == shape_word(shape);
    let fits = fits && places <= usize::from(shape.places);
    fits.then(|| LINE_BYTES + 16 * usize::from(units) * places..bytes.len())
}

/// The bitmap as it is now.
pub(crate) fn used(page: Page<'_>) -> Bits {
    std::array::from_fn(|i| page.head(USED_WORD + i).load())
}

pub(crate) fn has(bits: &Bits, bit: usize) -> bool {
    bits[bit / 64] >> (bit % 64) & 1 != 0
}

pub(crate) fn set(bits: &mut Bits, bit: usize) {
    bits[bit / 64] |= 1 << (bit % 64);
}

/// The bits that are set, ascending.
///
/// A step asks this of each record page that it latches, mostly for one bit: the cost is that of the
/// bits that are set, and of four words.
pub(crate) fn ones(bits: Bits) -> impl Iterator<Item = usize> {
    bits.into_iter().enumerate().flat_map(|(i, word)| {
        // Each step takes the lowest bit away.
        let rest = std::iter::successors(Some(word), |rest| Some(rest & rest.wrapping_sub(1)));
        rest.take_while(|rest| *rest != 0).map(move |rest| 64 * i + rest.trailing_zeros() as usize)
    })
}

/// Makes an empty record page. Not flushed: the first [`mark`] flushes the same line.
pub(crate) fn init<M: Medium>(m: &M, page: Page<'_>, units: u16) {
    let shape = RecordShape::new(page.slots(), units);
    m.store(page.head(SHAPE_WORD), shape_word(shape));
    for i in 0..MAX_SLOTS / 64 {
        m.store(page.head(USED_WORD + i), 0);
    }
    m.store(page.head(KIND_WORD), pack(RECORD, 0, 0, 0));
}

/// Writes the bytes of a place; they are flushed, not fenced. The last word is padded with zeros,
/// words behind it keep what they hold. O(bytes).
pub(crate) fn write<M: Medium>(m: &M, page: Page<'_>, unit: u16, bytes: &[u8]) {
    let first = 2 * usize::from(unit);
    // Behind the body is its last word again, and another record would be overwritten.
    debug_assert!(8 * first + bytes.len() <= 16 * page.slots(), "a record ends in its page");
    let (whole, rest) = bytes.as_chunks::<8>();
    if M::ORDERED {
        for (i, chunk) in whole.iter().enumerate() {
            m.store(page.body_word(first + i), u64::from_le_bytes(*chunk));
        }
    } else {
        m.copy_in(page, LINE_BYTES + 8 * first, whole.as_flattened());
    }
    if !rest.is_empty() {
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        m.store(page.body_word(first + whole.len()), u64::from_le_bytes(last));
    }
    if !bytes.is_empty() {
        let last = first + bytes.len().div_ceil(8) - 1;
        for line in page.body_word(first).line()..=page.body_word(last).line() {
            flush(m, page, line);
        }
    }
}

/// Sets or clears the bit of a place; the header is flushed, not fenced.
pub(crate) fn mark<M: Medium>(m: &M, page: Page<'_>, bit: usize, in_use: bool) {
    debug_assert!(bit < MAX_SLOTS, "behind the bitmap is the kind");
    let word = page.head(USED_WORD + bit / 64);
    let mask = 1 << (bit % 64);
    m.store(word, if in_use { word.load() | mask } else { word.load() & !mask });
    flush(m, page, 0);
}

pub(crate) fn redo_init<M: Medium>(m: &M, page: Page<'_>, operands: &[u8]) -> Result<()> {
    let (units, rest) = split_u16(page, operands)?;
    if units < 2 || usize::from(units) > page.slots() || !rest.is_empty() {
        return Err(damaged(page, 0, format!("no records of {units} units fit a page")));
    }
    init(m, page, units);
    Ok(())
}

fn operand_bit(page: Page<'_>, unit: u16) -> Result<(RecordShape, usize)> {
    let shape = shape(page)?;
    let bit =
        shape.bit(unit).ok_or_else(|| damaged(page, 0, format!("no place at unit {unit}")))?;
    Ok((shape, bit))
}

pub(crate) fn redo_put<M: Medium>(m: &M, page: Page<'_>, operands: &[u8]) -> Result<()> {
    let (unit, bytes) = split_u16(page, operands)?;
    let (shape, bit) = operand_bit(page, unit)?;
    if bytes.len() > 16 * usize::from(shape.units) {
        return Err(damaged(page, 0, format!("{} bytes do not fit a place", bytes.len())));
    }
    write(m, page, unit, bytes);
    mark(m, page, bit, true);
    Ok(())
}

pub(crate) fn redo_free<M: Medium>(m: &M, page: Page<'_>, operands: &[u8]) -> Result<()> {
    let (unit, _) = split_u16(page, operands)?;
    let (_, bit) = operand_bit(page, unit)?;
    mark(m, page, bit, false);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ones_are_the_bits_that_are_set_in_order() {
        let mixed = [0x8000_0000_0000_0001, 0, u64::MAX, 0x0123_4567_89ab_cdef];
        for bits in [[0; 4], [u64::MAX; 4], mixed] {
            let set: Vec<usize> = (0..MAX_SLOTS).filter(|bit| has(&bits, *bit)).collect();
            assert_eq!(ones(bits).collect::<Vec<_>>(), set);
        }
    }
}
