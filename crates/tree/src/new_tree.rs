//! Trees with an anchor of their own, made and unmade: what fails half-way leaves nothing behind.

use std::sync::Arc;

use everleaf_pmem::{Error, Medium, Result};
use everleaf_pool::{CATALOG_ANCHOR, Pool, kind};

use crate::blink::Blink;
use crate::check::TreeReport;
use crate::kind::Kind;

/// What to say of `error` once the undoing of what came before it has ended as `undone`. The first
/// error counts; but pages that nobody names must not become durable.
#[must_use]
pub fn after_undo(error: Error, undone: Result<()>) -> Error {
    match (undone, error) {
        (Ok(()), error) | (_, error @ Error::Poisoned { .. }) => error,
        (Err(_), error) => Error::Poisoned { cause: Arc::new(error) },
    }
}

impl<M: Medium, K: Kind> Blink<M, K> {
    /// Makes an empty tree with a new anchor, in two steps. It is the caller's to name the anchor
    /// somewhere; on strict media a crash before that is a leak.
    ///
    /// # Errors
    /// As [`create`](Self::create); the anchor is given back then. Poisoned if not even that was
    /// possible: then the medium must be [poisoned](everleaf_file::File::poison) before the epoch ends.
    pub fn create_new(pool: Arc<Pool<M>>) -> Result<Self> {
        let anchor = Self::new_anchor(&pool)?;
        Self::create(Arc::clone(&pool), anchor)
            .map_err(|error| after_undo(error, pool.free_page(anchor, kind::ANCHOR)))
    }

    /// The report of a tree that has an anchor of its own, is sound and holds no entry, for
    /// [`discard`](Self::discard). Changes nothing.
    ///
    /// # Errors
    /// NotEmpty for a tree that holds entries, and for the first one of a pool; Corrupt for one with
    /// damage; I/O errors.
    pub fn check_empty(&self) -> Result<TreeReport> {
        let report = self.check()?;
        if let Some(damage) = report.damages.first() {
            let page = self.pool().page(damage.page)?;
            let offset = page.file_offset() + damage.offset_bytes_in_page as u64;
            return Err(Error::corrupt(offset, damage.what.clone()));
        }
        if report.entries > 0 || self.anchor() == CATALOG_ANCHOR {
            return Err(Error::NotEmpty);
        }
        Ok(report)
    }

    /// Gives back all pages and records of a tree that nobody names or uses any more. `report` is
    /// that of [`check_empty`](Self::check_empty), made since the last write to the tree.
    ///
    /// # Errors
    /// Corrupt, a poisoned or read-only medium. What was given back until then stays so.
    pub fn discard(&self, report: &TreeReport) -> Result<()> {
        assert_eq!(report.anchor, self.anchor(), "the report is of another tree");
        assert_eq!(report.entries, 0, "only an empty tree can be discarded");
        // The anchor first, so that none is left whose root is free.
        self.pool().free_page(self.anchor(), kind::ANCHOR)?;
        report.pages.iter().try_for_each(|no| self.pool().free_page(*no, kind::NODE))?;
        report.log.map_or(Ok(()), |no| self.pool().free_page(no, kind::LOG))?;
        // Of bounds: an emptied tree may have several nodes.
        report.records.iter().try_for_each(|r| self.pool().free_record(*r))
    }
}
