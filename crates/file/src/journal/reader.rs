//! The file as a scan reads it.

use everleaf_pmem::error::{Error, Result};
use everleaf_pmem::fallible;

use super::{BLOCK_HEAD, BlockKey, EXTENT_BYTES, corrupt, payload_room, start_of};
use crate::io::IoFile;
use crate::store::format::u32_at;

pub(super) fn read_error(e: std::io::Error) -> Error {
    Error::io("reading the journal", e)
}

/// How much is read at once, unless more is asked for.
const AHEAD: usize = 64 << 10;

/// Reads the file, and keeps what it read last.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    pub(super) file: &'a dyn IoFile,
    pub(super) len: u64,
    /// The first byte of the window, and how many of its bytes are the file's.
    start: u64,
    held: usize,
    window: Vec<u8>,
    /// A head elsewhere, which is asked for with each block.
    other: Option<(u64, [u8; BLOCK_HEAD])>,
}

impl Reader<'_> {
    pub(super) fn new(file: &dyn IoFile) -> Result<Reader<'_>> {
        let len = file.len().map_err(read_error)?;
        Ok(Reader { file, len, start: 0, held: 0, window: Vec::new(), other: None })
    }

    pub(super) fn forget(&mut self) {
        (self.held, self.other) = (0, None);
    }

    /// Whether the window has byte `at`.
    fn holds(&self, at: u64) -> bool {
        (self.start..self.start + self.held as u64).contains(&at)
    }

    /// So many bytes of the file from `at` on, or as many as come before the end of the extent, or of the file.
    fn bytes(&mut self, at: u64, n: usize) -> Result<&[u8]> {
        let end = (at / EXTENT_BYTES + 1).saturating_mul(EXTENT_BYTES).min(self.len);
        let room = end.saturating_sub(at) as usize;
        let n = n.min(room);
        if n == 0 {
            return Ok(&[]);
        }
        if !self.holds(at) || !self.holds(at + n as u64 - 1) {
            self.held = 0;
            let more = n.max(AHEAD).min(room);
            if self.window.len() < more {
                // Nothing of it is kept, so nothing is copied.
                self.window = Vec::new();
                self.window = fallible::filled(0, more, "an extent of a journal")?;
            }
            let got = self.file.read_at(&mut self.window[..more], at).map_err(read_error)?;
            if got < more {
                let what = "the file became shorter while it was read";
                return Err(corrupt(at + got as u64, what));
            }
            (self.start, self.held) = (at, more);
        }
        let from = (at - self.start) as usize;
        Ok(&self.window[from..from + n])
    }

    /// The bytes of the file from `at` to the end of the extent, or of the file.
    pub(super) fn rest(&mut self, at: u64) -> Result<&[u8]> {
        self.bytes(at, EXTENT_BYTES as usize)
    }

    /// The bytes where a block's head would be; zeros if the file ends before.
    pub(super) fn head(&mut self, at: u64) -> Result<[u8; BLOCK_HEAD]> {
        if let Some((_, head)) = self.other.filter(|other| other.0 == at) {
            return Ok(head);
        }
        let mut head = [0; BLOCK_HEAD];
        if self.holds(at) {
            if let Some(bytes) = self.bytes(at, BLOCK_HEAD)?.get(..BLOCK_HEAD) {
                head.copy_from_slice(bytes);
            }
            return Ok(head);
        }
        if self.file.read_at(&mut head, at).map_err(read_error)? < BLOCK_HEAD {
            head.fill(0);
        }
        self.other = Some((at, head));
        Ok(head)
    }

    /// The payload of a block with that head, if it is good.
    pub(super) fn payload(&mut self, key: BlockKey, at: u64, len: usize) -> Result<Option<&[u8]>> {
        if len > payload_room(at) {
            return Ok(None);
        }
        let n = BLOCK_HEAD + len;
        let Some(block) = self.bytes(at, n)?.get(..n) else { return Ok(None) };
        let (head, payload) = block.split_at(BLOCK_HEAD);
        Ok((u32_at(head, 4) == key.crc(head, payload)).then_some(payload))
    }
}

/// Where the extents of a file start, but for the one of the superblock.
pub(super) fn starts(len: u64) -> impl Iterator<Item = u64> {
    (1..).map(start_of).take_while(move |&at| at < len)
}
