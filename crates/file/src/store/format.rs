//! Where everything is in the file, and how numbers are read out of bytes.
//!
//! All integers are little-endian.
//!
//! ```text
//! pool on a file   0         superblock, copy A        4 KiB   (superblock.rs)
//!                  4096      superblock, copy B        4 KiB
//!                  e MiB     extent e; of the first one, what is behind the superblocks (extents.rs)
//!
//! extent           images, back to back (image.rs), or blocks of the journal (journal.rs)
//!
//! DAX pool         0, 4096   superblocks
//!                  8192      unused                    4 MiB
//!                  +4 MiB    page 0, page 1, …         64 + 16 × slots bytes each
//! ```
//!
//! The bytes of one write begin at a multiple of 4096 bytes that no durable byte shares which is still
//! needed. So no sector of live data is ever written again, but for the two superblocks, which take
//! turns.
//!
//! All checksums of images and blocks begin with that of the pool's uuid, the *seed*. CRC-32C is linear: what
//! it makes of bytes behind a seed is what it makes of them behind zero, combined by XOR with what it makes of
//! as many zero bytes behind the seed. The latter can be undone, bit by bit. So bytes and their checksum say
//! what the seed was.

use everleaf_pmem::page::{Geometry, PageNo};

pub use everleaf_pmem::page::FIRST_PAGE_OFFSET;

pub(crate) const SUPER_BYTES: usize = 4096;
/// Bytes of an extent.
pub(crate) const EXTENT_BYTES: u64 = 1 << 20;
/// A write begins at a multiple of this.
pub(crate) const SECTOR: u64 = 4096;
/// Version of the file format that this build writes and reads.
pub const FORMAT_VERSION: u32 = 4;

const _: () = {
    assert!(EXTENT_BYTES.is_multiple_of(SECTOR) && (2 * SUPER_BYTES as u64).is_multiple_of(SECTOR));
    assert!(2 * (SUPER_BYTES as u64) < FIRST_PAGE_OFFSET);
};

/// Reads a u32 out of bytes that are long enough.
#[inline]
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(word)
}

/// Reads a u64 out of bytes that are long enough.
#[inline]
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

/// Byte offset of a page in the file of a DAX pool.
pub(crate) fn page_offset(no: PageNo, g: Geometry) -> u64 {
    FIRST_PAGE_OFFSET + u64::from(no) * g.page_bytes() as u64
}

/// CRC-32C's polynomial, bits reversed, as the register has it.
const POLYNOMIAL: u32 = 0x82f6_3b78;

/// The seed from which `bytes` have this checksum.
pub(crate) fn seed_of(crc: u32, bytes: &[u8]) -> u32 {
    let mut register = crc ^ crc32c::crc32c_append(0, bytes);
    for _ in 0..8 * bytes.len() {
        register = match register >> 31 {
            0 => register << 1,
            _ => (register ^ POLYNOMIAL) << 1 | 1,
        };
    }
    register
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checksum_says_with_what_it_began() {
        let bytes: Vec<u8> = (0..300_u32).map(|i| (i * 7) as u8).collect();
        for seed in [0, 1, 0x8000_0000, 0xdead_beef, u32::MAX] {
            for n in [0, 1, 44, 300] {
                let crc = crc32c::crc32c_append(seed, &bytes[..n]);
                assert_eq!(seed_of(crc, &bytes[..n]), seed, "{n} bytes");
            }
        }
    }
}
