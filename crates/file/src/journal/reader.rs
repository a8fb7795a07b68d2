//! The file as a scan reads it.

use everleaf_pmem::error::{Error, Result};
use everleaf_pmem::fallible;

use super::{BLOCK_HEAD, BlockKey, EXTENT_BYTES, corrupt, payload_room, start_of};
use crate::io::IoFile;
use crate::store::format::u32_at;

pub(super) fn read_error(e: std::io::Error) -> Error {
    Error::io("reading the journal", e)
}

/// Reads the file an extent at a time.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    pub(super) file: &'a dyn IoFile,
    pub(super) len: u64,
    base: Option<u64>,
    window: Vec<u8>,
    /// A head elsewhere, which is asked for with each block.
    other: Option<(u64, [u8; BLOCK_HEAD])>,
}

impl Reader<'_> {
    pub(super) fn new(file: &dyn IoFile) -> Result<Reader<'_>> {
        let len = file.len().map_err(read_error)?;
        Ok(Reader { file, len, base: None, window: Vec::new(), other: None })
    }

    pub(super) fn forget(&mut self) {
        (self.base, self.other) = (None, None);
    }

    /// The bytes of the file from `at` to the end of the extent, or of the file.
    pub(super) fn rest(&mut self, at: u64) -> Result<&[u8]> {
        let base = at - at % EXTENT_BYTES;
        if self.base != Some(base) {
            self.base = None;
            let n = EXTENT_BYTES.min(self.len.saturating_sub(base)) as usize;
            self.window.clear();
            fallible::just(&mut self.window, n, "an extent of a journal")?;
            self.window.resize(n, 0);
            let got = self.file.read_at(&mut self.window, base).map_err(read_error)?;
            if got < n {
                let what = "the file became shorter while it was read";
                return Err(corrupt(base + got as u64, what));
            }
            self.base = Some(base);
        }
        Ok(self.window.get((at - base) as usize..).unwrap_or_default())
    }

    /// What is where a block's head would be; zeros if the file ends before.
    pub(super) fn head(&mut self, at: u64) -> Result<[u8; BLOCK_HEAD]> {
        if let Some((_, head)) = self.other.filter(|other| other.0 == at) {
            return Ok(head);
        }
        let mut head = [0; BLOCK_HEAD];
        if self.base == Some(at - at % EXTENT_BYTES) {
            if let Some(bytes) = self.rest(at)?.get(..BLOCK_HEAD) {
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
        let Some(block) = self.rest(at)?.get(..BLOCK_HEAD + len) else { return Ok(None) };
        let (head, payload) = block.split_at(BLOCK_HEAD);
        Ok((u32_at(head, 4) == key.crc(head, payload)).then_some(payload))
    }
}

/// Where the extents of a file start, but for the one of the superblock.
pub(super) fn starts(len: u64) -> impl Iterator<Item = u64> {
    (1..).map(start_of).take_while(move |&at| at < len)
}
