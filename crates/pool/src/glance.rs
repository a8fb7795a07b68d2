//! Glances: pages that are looked at once, and need not come to memory for that.
//!
//! A walk over all of a pool touches pages that nobody may touch again, and in a memory that holds few pages each
//! would drive out another one. So a page that is in memory is looked at there, and one that is not is copied to
//! a place that the next copy gets. The page's own latch says whether what was seen is still so: a page that is
//! absent keeps its version until a thread fetches it, and no thread changes a page that it has not fetched. During a
//! glance no frame is given back, and so no version is forgotten.

use std::cell::{Cell, OnceCell};
use std::sync::atomic::Ordering::SeqCst;

use everleaf_pmem::{Aside, Medium, Page, PageNo, Result, Retries, Seen, Version};

use crate::pool::Pool;

/// Looks at pages of a pool, one after the other.
pub struct Glance<'p, M: Medium> {
    pool: &'p Pool<M>,
    /// Made for the first page that is not in memory: to map memory takes longer than to walk over a small tree.
    aside: OnceCell<Aside>,
    /// The page that is there as it is with that version.
    copy: Cell<Option<(PageNo, Version)>>,
}

impl<'p, M: Medium> Glance<'p, M> {
    /// Nothing is seen yet, and frames are kept from now on.
    pub fn new(pool: &'p Pool<M>) -> Self {
        pool.medium.frames_kept().map(|kept| kept.fetch_add(1, SeqCst));
        Self { pool, aside: OnceCell::new(), copy: Cell::new(None) }
    }

    fn aside(&self) -> Result<&Aside> {
        if let Some(aside) = self.aside.get() {
            return Ok(aside);
        }
        let aside = Aside::new(self.pool.geometry())?;
        Ok(self.aside.get_or_init(|| aside))
    }

    /// A page, or a copy, to be read until the next one is asked for, and the version of the page's own latch. A
    /// read from it holds if that latch validates the version afterwards. A copy's latch says nothing. Costs one read
    /// of the file at most.
    ///
    /// # Errors
    /// Those of a first touch; [`Error::Io`](everleaf_pmem::Error::Io) if the system has no memory for a copy.
    pub fn page(&self, no: PageNo) -> Result<(Page<'_>, Version)> {
        let page = self.pool.page(no)?;
        let mut turns = Retries::default();
        loop {
            if let Seen::Ready(version) = page.latch().read_version() {
                return Ok((page, version));
            }
            // Else somebody is fetching it.
            let Some(version) = page.latch().read_absent() else {
                turns.again("a glance at a page")?;
                continue;
            };
            let aside = self.aside()?;
            if self.copy.get() == Some((no, version)) {
                return Ok((aside.page(no), version));
            }
            self.copy.set(None);
            let copy = aside.new_page(no);
            let copied = self.pool.copy(copy);
            if page.latch().validate(version) {
                if copied? {
                    self.copy.set(Some((no, version)));
                    return Ok((copy, version));
                }
                drop(self.pool.latch(no)?);
            }
            turns.go_on("a glance at a page")?;
        }
    }

    /// Reads a page as it is at one moment.
    ///
    /// # Errors
    /// The same as for [`page`](Self::page).
    pub fn read<T>(&self, no: PageNo, read: impl Fn(Page<'_>) -> T) -> Result<T> {
        let mut turns = Retries::default();
        loop {
            let (page, version) = self.page(no)?;
            let seen = read(page);
            if self.pool.page(no)?.latch().validate(version) {
                return Ok(seen);
            }
            turns.again("a glance at a page")?;
        }
    }
}

impl<M: Medium> Drop for Glance<'_, M> {
    fn drop(&mut self) {
        self.pool.medium.frames_kept().map(|kept| kept.fetch_sub(1, SeqCst));
    }
}
