//! Large values: bytes that go straight between the caller and their homes in the data file.
//!
//! Neither memory nor journal sees them. The layer above writes an extent to pages that nothing
//! durable refers to, then links it in a step; the commit that makes the link durable syncs the data
//! file first. After a crash an extent without a link is free space.

use std::ops::Range;
use std::sync::atomic::Ordering;

use everleaf_pmem::error::{Error, Result};
use everleaf_pmem::page::{Geometry, PageNo};

use crate::barrier::CLOSED;
use crate::format::{FIRST_PAGE_OFFSET, page_offset};
use crate::inner::Inner;
use crate::slots::LAST_MARK;

/// The offset in the file of `len` bytes that start `offset` bytes behind the home of `first`, and
/// the pages that they touch.
pub(crate) fn extent_range(
    g: Geometry,
    limit: PageNo,
    first: PageNo,
    offset: u64,
    len: u64,
) -> Result<(u64, Range<PageNo>)> {
    let page_bytes = g.page_bytes() as u64;
    let end = offset.checked_add(len).map(|end| u64::from(first) + end.div_ceil(page_bytes));
    match end {
        Some(end) if end <= u64::from(limit) => {
            let pages = first + (offset / page_bytes) as PageNo..end as PageNo;
            debug_assert!(pages.end <= limit);
            Ok((page_offset(first, g) + offset, pages))
        }
        _ => {
            let what = format!("{len} bytes at {offset} behind page {first}");
            Err(Error::Invalid { what: format!("outside the pool: {what}") })
        }
    }
}

impl Inner {
    fn range(&self, first: PageNo, offset: u64, len: usize) -> Result<(u64, Range<PageNo>)> {
        extent_range(self.region.geometry(), self.region.limit(), first, offset, len as u64)
    }

    pub(crate) fn extent_write(&self, first: PageNo, offset: u64, bytes: &[u8]) -> Result<()> {
        let (at, pages) = self.range(first, offset, bytes.len())?;
        self.check_writable()?;
        if self.barrier.load(Ordering::SeqCst) & CLOSED != 0 {
            return Err(Error::Closed);
        }
        for no in pages {
            let used = self.region.page(no).map(|p| p.mark(LAST_MARK).load(Ordering::Relaxed));
            if used != Some(0) {
                let what = format!("page {no} has been a page in memory; it cannot hold an extent");
                return Err(Error::Invalid { what });
            }
        }
        debug_assert!(at >= FIRST_PAGE_OFFSET, "a large value over the superblock");
        self.bounds.note_large(bytes.len() as u64);
        self.write_data(bytes, at, "writing a large value")?;
        self.extents.store(true, Ordering::Release);
        Ok(())
    }

    pub(crate) fn extent_read(&self, first: PageNo, offset: u64, buf: &mut [u8]) -> Result<()> {
        let (at, _) = self.range(first, offset, buf.len())?;
        let n = self.data.read_at(buf, at).map_err(|e| Error::io("reading a large value", e))?;
        // After a close somebody else may write there.
        self.life.check()?;
        if n < buf.len() {
            return Err(Error::corrupt(at + n as u64, "the file ends within a large value"));
        }
        Ok(())
    }
}
