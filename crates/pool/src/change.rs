//! The pool's changes as a journal holds them. Tags 16 to 31 are the pool's; the tree above has
//! 1 to 15 and passes the rest to [`redo`](crate::redo()).
//!
//! | tag | operands (little-endian) |
//! |---|---|
//! | [`TAG_MAP`] | first index u16, length u16, byte |
//! | [`TAG_MAP_INIT`] | role |
//! | [`TAG_FREE_PAGE`] | – |
//! | [`TAG_RECORD_INIT`] | units of 16 bytes in a record u16 |
//! | [`TAG_RECORD_PUT`] | place u16, bytes |
//! | [`TAG_RECORD_FREE`] | place u16 |
//! | [`TAG_SET_ROOT`] | root u32 |
//! | [`TAG_ANCHOR_INIT`] | root u32 |

use everleaf_pmem::{Error, Medium, Page, Result};

/// A run of map bytes got a new owner.
pub const TAG_MAP: u8 = 16;
/// The smallest tag of the pool's changes: smaller ones belong to trees.
pub const TAG_MIN: u8 = TAG_MAP;
/// A map page came into being.
pub const TAG_MAP_INIT: u8 = 17;
/// A page ceased to be what it was.
pub const TAG_FREE_PAGE: u8 = 18;
/// A record page came into being.
pub const TAG_RECORD_INIT: u8 = 19;
/// A record was written.
pub const TAG_RECORD_PUT: u8 = 20;
/// A record was freed.
pub const TAG_RECORD_FREE: u8 = 21;
/// A tree got a new root.
pub const TAG_SET_ROOT: u8 = 22;
/// An anchor came into being.
pub const TAG_ANCHOR_INIT: u8 = 23;

/// Starts to write a line back, on media where lines have an order.
pub(crate) fn flush<M: Medium>(m: &M, page: Page<'_>, line: usize) {
    if !M::JOURNALED {
        m.flush(page, line);
    }
}

/// Completes the flushes, on media where lines have an order.
pub(crate) fn fence<M: Medium>(m: &M) {
    if !M::JOURNALED {
        m.fence();
    }
}

/// Damage in a page as an error, with its offset in the file.
pub fn damaged(page: Page<'_>, byte_in_page: usize, what: impl Into<String>) -> Error {
    Error::corrupt(
        page.file_offset() + byte_in_page as u64,
        format!("page {}: {}", page.no(), what.into()),
    )
}

/// The leading u16 of some operands and the rest.
pub(crate) fn split_u16<'a>(page: Page<'_>, operands: &'a [u8]) -> Result<(u16, &'a [u8])> {
    match operands {
        [a, b, rest @ ..] => Ok((u16::from_le_bytes([*a, *b]), rest)),
        _ => Err(damaged(page, 0, "a change without its operands")),
    }
}
