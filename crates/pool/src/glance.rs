//! Glances: pages that are looked at once, and need not come to memory for that.
//!
//! Who walks over all of a pool touches pages that nobody may touch again, and in a memory that holds few of them each
//! would drive out another one. So a page that is in memory is looked at there, and of one that is not there is a
//! copy, in a place that the next one gets. The page's own latch says whether what was seen is still so: a page that
//! is absent keeps its version until somebody fetches it, and nobody changes what he has not fetched. While somebody
//! glances, no frame is given back, and so no version forgotten.

use std::cell::Cell;
use std::sync::atomic::Ordering::SeqCst;

use everleaf_pmem::{Aside, Medium, Page, PageNo, Result, Retries, Seen, Version};

use crate::pool::Pool;

/// Looks at pages of a pool, one after the other.
pub struct Glance<'p, M: Medium> {
    pool: &'p Pool<M>,
    aside: Aside,
    /// The page that is there as it is with that version.
    copy: Cell<Option<(PageNo, Version)>>,
}

impl<'p, M: Medium> Glance<'p, M> {
    /// Takes memory for one page.
    ///
    /// # Errors
    /// [`Error::Io`](everleaf_pmem::Error::Io) if the system has none.
    pub fn new(pool: &'p Pool<M>) -> Result<Self> {
        let aside = Aside::new(pool.geometry())?;
        pool.medium.frames_kept().map(|kept| kept.fetch_add(1, SeqCst));
        Ok(Self { pool, aside, copy: Cell::new(None) })
    }

    /// A page, or a copy, to be read until the next one is asked for, and the version of the page's own latch. What
    /// was read was so if that latch validates the version afterwards. A copy's latch says nothing. Costs one read
    /// of the file at most.
    ///
    /// # Errors
    /// Those of a first touch.
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
            if self.copy.get() == Some((no, version)) {
                return Ok((self.aside.page(no), version));
            }
            self.copy.set(None);
            let copy = self.aside.new_page(no);
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

    /// What a page says at one moment.
    ///
    /// # Errors
    /// Those of a first touch.
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
