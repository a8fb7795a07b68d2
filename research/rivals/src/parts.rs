//! Small parts of several leaves: a line that becomes durable, fingerprints, bitmaps.

use everleaf_pmem::{Error, Medium, Page, Result};

/// Makes a line durable: one flush and one fence.
#[inline]
pub fn persist<M: Medium>(m: &M, page: Page<'_>, line: usize) {
    m.flush(page, line);
    m.fence();
}

/// Refuses a medium with a journal, whose steps need none of what a tree does line by line.
///
/// # Errors
/// InvalidOption.
pub fn expect_lines<M: Medium>(tree: &str) -> Result<()> {
    if !M::JOURNALED {
        return Ok(());
    }
    let what = format!("{tree} is for media that are flushed by line");
    Err(Error::InvalidOption { option: "medium", what })
}

/// One byte of a key's multiplicative hash, as the trees of this repository have it.
#[inline(always)]
pub fn fingerprint(key: u64) -> u8 {
    (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

/// The bytes of a word that are `byte`, as a bitmap of 8 bits; it may have bits too many.
#[inline(always)]
pub fn bytes_like(word: u64, byte: u8) -> u64 {
    const LOW: u64 = 0x0101_0101_0101_0101;
    let differ = word ^ LOW.wrapping_mul(u64::from(byte));
    let same = differ.wrapping_sub(LOW) & !differ & (LOW << 7);
    (same >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56
}

/// The bits that are set, ascending.
pub fn ones(mut bits: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let bit = bits.trailing_zeros() as usize;
        (bits != 0).then(|| {
            bits &= bits - 1;
            bit
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_byte_that_matches_is_missed() {
        for byte in [0u8, 1, 7, 0x80, 0xff] {
            for mask in 0..256u64 {
                let bytes: [u8; 8] =
                    std::array::from_fn(|i| if mask >> i & 1 != 0 { byte } else { byte ^ 0x55 });
                assert_eq!(bytes_like(u64::from_le_bytes(bytes), byte), mask);
            }
        }
        assert_eq!(bytes_like(0x0100, 0) & 1, 1, "a byte behind one that matches may seem to");
        assert_eq!(ones(0b1001_0001).collect::<Vec<_>>(), [0, 4, 7]);
    }
}
