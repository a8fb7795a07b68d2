//! Large values that come piece by piece, from whoever has them: no more of one than a piece is in memory here.
//!
//! The value goes to its extents while it comes. The bytes written are nobody's until a step takes them, so
//! a value that stops coming is given up like any large value without a step.

use everleaf_pmem::{Error, Medium, Result, fallible};

use crate::extent::Large;
use crate::pool::Pool;

/// Bytes of a piece, at most; a whole number of pages.
const PIECE_BYTES: usize = 1 << 20;

/// A large pair whose value is on its way. Again and again the caller fills the [`space`](Self::space)
/// and has it [written](Self::write), until there is none; then a step can take the pair. If this is
/// dropped before, all that was written is discarded, and the pages are given back.
pub struct LargeWriter<'p, M: Medium> {
    large: Large<'p, M>,
    medium: &'p M,
    /// Bytes that the extents will hold, and how many of them are written, with their checksum.
    bytes: u64,
    written: u64,
    crc: u32,
    /// The piece that is coming: its first bytes are there.
    piece: Vec<u8>,
    begun: usize,
}

impl<M: Medium> LargeWriter<'_, M> {
    /// Where the next bytes of the value go; `None` if all are written.
    pub fn space(&mut self) -> Option<&mut [u8]> {
        let len = self.piece_len();
        if len == 0 { None } else { self.piece.get_mut(self.begun..len) }
    }

    /// Bytes of the piece that is coming.
    fn piece_len(&self) -> usize {
        (self.bytes - self.written).min(self.piece.len() as u64) as usize
    }

    /// Writes what the caller has put into the [`space`](Self::space), all of it. Waits while the medium
    /// has much to write. The caller holds no latch.
    ///
    /// # Errors
    /// I/O errors. The pair can only be dropped then.
    pub fn write(&mut self) -> Result<()> {
        self.medium.throttle(true)?;
        let piece = &self.piece[..self.piece_len()];
        self.large.write_part(self.written, piece)?;
        self.crc = crc32c::crc32c_append(self.crc, piece);
        self.written += piece.len() as u64;
        self.begun = 0;
        Ok(())
    }
}

impl<'p, M: Medium> LargeWriter<'p, M> {
    /// The pair, of which all is written.
    ///
    /// # Errors
    /// [`Error::Invalid`] if something is not.
    pub fn finish(mut self) -> Result<Large<'p, M>> {
        if self.written < self.bytes {
            let what = format!("{} of {} bytes of a large pair", self.written, self.bytes);
            return Err(Error::Invalid { what });
        }
        self.large.seal(self.crc);
        Ok(self.large)
    }
}

impl<M: Medium> Pool<M> {
    /// Reserves extents for a large pair whose value will come piece by piece and has so many bytes.
    /// O(pages).
    ///
    /// # Errors
    /// As [`write_large`](Self::write_large), before anything has come.
    pub fn begin_large(&self, key: &[u8], value_bytes: u64) -> Result<LargeWriter<'_, M>> {
        let large = self.reserve_large(key, value_bytes)?;
        let key = self.far_key(key);
        let bytes = key.len() as u64 + value_bytes;
        let page = self.geometry().page_bytes();
        let longest = (PIECE_BYTES / page).max(1) * page;
        let mut piece =
            fallible::filled(0, bytes.min(longest as u64) as usize, "a piece of a value")?;
        debug_assert!(key.len() <= piece.len(), "the key is a part of the first piece");
        piece[..key.len()].copy_from_slice(key);
        if bytes == 0 {
            // As a pair that comes at once: each page that a step adopts was written.
            large.write_part(0, &[0])?;
        }
        let (medium, begun) = (self.medium(), key.len());
        Ok(LargeWriter { large, medium, bytes, written: 0, crc: 0, piece, begun })
    }
}
