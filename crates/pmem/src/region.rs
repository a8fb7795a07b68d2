//! Anonymous memory for pages and frames, as large as the pool may become, touched on demand.

use std::ptr;
use std::sync::atomic::AtomicU64;

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

use crate::error::{Error, Result};
use crate::page::{Geometry, Page, PageNo};

/// Memory for `limit` pages and their frames. Reserved at once, backed when touched, all zero.
#[derive(Debug)]
pub struct Region {
    pages: Mapping,
    frames: Mapping,
    geometry: Geometry,
    limit: PageNo,
}

impl Region {
    /// Reserves address space for `limit` pages.
    ///
    /// # Errors
    /// [`Error::Io`] if the system has no such address space.
    pub fn new(geometry: Geometry, limit: PageNo) -> Result<Self> {
        let n = limit as usize;
        Ok(Self {
            pages: Mapping::new(n * geometry.page_bytes())?,
            frames: Mapping::new(n * geometry.frame_bytes())?,
            geometry,
            limit,
        })
    }
    /// The shape of the pages.
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }
    /// The number of pages that fit.
    pub fn limit(&self) -> PageNo {
        self.limit
    }
    /// Has the system back the pages `from..to` and their frames now. Their contents stay. Best
    /// effort: what fails here is tried again by the first touch.
    pub fn populate(&self, from: PageNo, to: PageNo) {
        let (from, to) = (from.min(self.limit) as usize, to.min(self.limit) as usize);
        let g = self.geometry;
        self.pages.populate(from * g.page_bytes()..to * g.page_bytes());
        self.frames.populate(from * g.frame_bytes()..to * g.frame_bytes());
    }
    /// The page of that number.
    #[inline(always)]
    pub fn page(&self, no: PageNo) -> Option<Page<'_>> {
        if no >= self.limit {
            return None;
        }
        let g = self.geometry;
        // SAFETY: no < limit, so both pointers stay inside mappings that live as long as &self;
        // strides are multiples of 64 and mappings are page-aligned.
        unsafe {
            Some(Page::new(
                self.pages.at(no as usize * g.page_bytes()),
                self.frames.at(no as usize * g.frame_bytes()),
                no,
                g,
            ))
        }
    }
}

#[derive(Debug)]
struct Mapping {
    base: *mut u8,
    bytes: usize,
}

// SAFETY: the mapping is plain memory, reached only through atomics.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    fn new(bytes: usize) -> Result<Self> {
        const HUGE: usize = 2 << 20;
        const SMALL: usize = 4096;
        // Small regions are for tests that open a pool thousands of times a second.
        let huge = bytes >= 2 * HUGE;
        let bytes = bytes.max(1).next_multiple_of(if huge { HUGE } else { SMALL });
        // SAFETY: a fresh private anonymous mapping aliases nothing.
        let base = unsafe {
            mmap_anonymous(
                ptr::null_mut(),
                bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )
        }
        .map_err(|e| Error::io(format!("reserving {bytes} bytes of memory"), e.into()))?;
        if huge {
            // SAFETY: the range is the mapping just made. Failure only costs speed.
            let _ = unsafe { madvise(base, bytes, Advice::LinuxHugepage) };
        }
        Ok(Self { base: base.cast(), bytes })
    }

    fn populate(&self, range: std::ops::Range<usize>) {
        const PAGE: usize = 4096;
        let start = range.start / PAGE * PAGE;
        let end = range.end.next_multiple_of(PAGE).min(self.bytes);
        if start < end {
            // SAFETY: start..end lies in the mapping; populating keeps what is there.
            let _ = unsafe {
                madvise(self.base.add(start).cast(), end - start, Advice::LinuxPopulateWrite)
            };
        }
    }

    /// # Safety
    /// `offset` must be below the mapping's size and a multiple of 8.
    #[inline(always)]
    unsafe fn at(&self, offset: usize) -> *const AtomicU64 {
        debug_assert!(offset < self.bytes);
        // SAFETY: the caller keeps offset inside the mapping.
        unsafe { self.base.add(offset) }.cast::<AtomicU64>().cast_const()
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: base and bytes are what mmap returned; nobody holds a Page any more, since
        // pages borrow the region.
        let _ = unsafe { munmap(self.base.cast(), self.bytes) };
    }
}
