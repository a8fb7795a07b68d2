//! Large values: bytes stored straight to runs of pages, by words, without headers.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::Result;
use crate::file::FIRST_PAGE_OFFSET;
use crate::file::extent::extent_range;
use crate::page::{LINE_BYTES, PageNo};

use super::Dax;

/// Calls `f` for each word that the bytes `start..start + len` touch, with those bytes' places in
/// the word and in the run.
fn by_words(start: usize, len: usize, mut f: impl FnMut(usize, Range<usize>, Range<usize>)) {
    let mut done = 0;
    while done < len {
        let (word, skip) = ((start + done) / 8, (start + done) % 8);
        let n = (8 - skip).min(len - done);
        f(word, skip..skip + n, done..done + n);
        done += n;
    }
}

impl Dax {
    /// The words from the start of page `first` on, after the bounds have been checked.
    fn extent(&self, first: PageNo, offset: u64, len: usize) -> Result<(&[AtomicU64], usize)> {
        let (g, limit) = (self.region.geometry(), self.region.limit());
        let (at, _) = extent_range(g, limit, first, offset, len as u64)?;
        Ok((self.region.words(), (at - FIRST_PAGE_OFFSET) as usize))
    }

    pub(super) fn write_extent(&self, first: PageNo, offset: u64, bytes: &[u8]) -> Result<()> {
        self.life.check()?;
        let (words, start) = self.extent(first, offset, bytes.len())?;
        if self.refusal.load(Ordering::SeqCst) != 0 {
            return Err(self.refused());
        }
        by_words(start, bytes.len(), |word, part, run| {
            let mut value = [0; 8];
            if part.len() < 8 {
                value = words[word].load(Ordering::Acquire).to_ne_bytes();
            }
            value[part].copy_from_slice(&bytes[run]);
            words[word].store(u64::from_ne_bytes(value), Ordering::Release);
        });
        for line in start / LINE_BYTES..(start + bytes.len()).div_ceil(LINE_BYTES) {
            self.flusher.line(&words[line * LINE_BYTES / 8]);
        }
        self.flusher.fence();
        Ok(())
    }

    pub(super) fn read_extent(&self, first: PageNo, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.life.check()?;
        let (words, start) = self.extent(first, offset, buf.len())?;
        by_words(start, buf.len(), |word, part, run| {
            let value = words[word].load(Ordering::Acquire).to_ne_bytes();
            buf[run].copy_from_slice(&value[part]);
        });
        Ok(())
    }
}
