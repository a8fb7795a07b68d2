//! Large values: bytes that go straight between the caller and their homes in the data file.
//!
//! Neither memory nor journal sees them. The layer above writes an extent to pages that nothing
//! durable refers to, then links it in a step; the commit that makes the link durable syncs the data
//! file first. After a crash an extent without a link is free space.

use std::sync::atomic::Ordering;

use crate::error::{Error, Result};
use crate::page::PageNo;

use super::inner::{CLOSED, Inner};
use super::layout::page_offset;
use super::slots::LAST_MARK;

impl Inner {
    fn extent_range(&self, first: PageNo, pages: u32, offset: u64, len: u64) -> Result<u64> {
        let g = self.region.geometry();
        let end = u64::from(first) + u64::from(pages);
        let room = u64::from(pages) * g.page_bytes() as u64;
        if end > u64::from(self.region.limit()) || offset.checked_add(len).is_none_or(|e| e > room)
        {
            let what = format!("{len} bytes at {offset} in {pages} pages from page {first}");
            return Err(Error::Invalid { what: format!("outside the extent or the pool: {what}") });
        }
        Ok(page_offset(first, g) + offset)
    }

    pub(super) fn extent_write(&self, first: PageNo, pages: u32, bytes: &[u8]) -> Result<()> {
        let at = self.extent_range(first, pages, 0, bytes.len() as u64)?;
        self.check_writable()?;
        if self.barrier.load(Ordering::SeqCst) & CLOSED != 0 {
            return Err(Error::Invalid { what: "the pool has been closed".into() });
        }
        for no in first..first + pages {
            let used = self.region.page(no).map(|p| p.mark(LAST_MARK).load(Ordering::Relaxed));
            if used != Some(0) {
                let what = format!("page {no} has been a page in memory; it cannot hold an extent");
                return Err(Error::Invalid { what });
            }
        }
        self.write_data(bytes, at, "writing a large value")?;
        self.extents.store(true, Ordering::Release);
        Ok(())
    }

    pub(super) fn extent_read(&self, first: PageNo, offset: u64, buf: &mut [u8]) -> Result<()> {
        let g = self.region.geometry();
        let pages = offset.saturating_add(buf.len() as u64).div_ceil(g.page_bytes() as u64);
        let pages = u32::try_from(pages).unwrap_or(u32::MAX);
        let at = self.extent_range(first, pages, offset, buf.len() as u64)?;
        let n = self.data.read_at(buf, at).map_err(|e| Error::io("reading a large value", e))?;
        if n < buf.len() {
            return Err(Error::corrupt(at + n as u64, "the file ends within a large value"));
        }
        Ok(())
    }
}
