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
//! What one write holds begins at a multiple of 4096 bytes that no durable byte shares which is still
//! needed. So no sector of live data is ever written again, but for the two superblocks, which take
//! turns.

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
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(word)
}

/// Reads a u64 out of bytes that are long enough.
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

/// Byte offset of a page in the file of a DAX pool.
pub(crate) fn page_offset(no: PageNo, g: Geometry) -> u64 {
    FIRST_PAGE_OFFSET + u64::from(no) * g.page_bytes() as u64
}
