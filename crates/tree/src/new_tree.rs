//! Trees with an anchor of their own, made and unmade: what fails half-way leaves nothing behind.

use std::sync::Arc;

use everleaf_pmem::{Error, Medium, Result};
use everleaf_pool::{CATALOG_ANCHOR, Pool, kind};

use crate::blink::Blink;
use crate::check::{Shares, TreeReport};
use crate::node::Kind;

/// The error to return after `error` stopped an operation and the work before it was undone with the
/// result `undone`. The first error counts. But if the undoing failed, the answer is Poisoned: pages
/// that nobody names must not become durable.
#[must_use]
pub fn after_undo(error: Error, undone: Result<()>) -> Error {
    match (undone, error) {
        (Ok(()), error) | (_, error @ Error::Poisoned { .. }) => error,
        (Err(_), error) => Error::Poisoned { cause: Arc::new(error) },
    }
}

impl<M: Medium, K: Kind> Blink<M, K> {
    /// Makes an empty tree with a new anchor, in two steps. The caller must then name the anchor
    /// somewhere; on strict media a crash before that leaks the tree.
    ///
    /// # Errors
    /// The same as for [`create`](Self::create); the anchor is given back then. Poisoned, if that fails,
    /// too: then the medium must be [poisoned](everleaf_file::File::poison) before the epoch ends.
    pub fn create_new(pool: Arc<Pool<M>>) -> Result<Self> {
        let anchor = Self::new_anchor(&pool)?;
        Self::create(Arc::clone(&pool), anchor)
            .map_err(|error| after_undo(error, pool.free_page(anchor, kind::ANCHOR)))
    }

    /// Checks that the tree has an anchor of its own, is sound and holds no entry, and returns the report
    /// that [`discard`](Self::discard) needs. Changes nothing.
    ///
    /// # Errors
    /// NotEmpty for a tree that holds entries, and for the first one of a pool; Corrupt for one with
    /// damage; I/O errors.
    pub fn check_empty(&self) -> Result<TreeReport> {
        // It is given back with the rest.
        self.pool().anchor(self.anchor())?;
        // A few nodes: their owners one by one, not those of all pages.
        let report = self.check_in(&[], None, Shares { threads: 1, leaves: 1 })?;
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

    /// Gives back all pages and records of a tree that nobody names or uses any more. `report` must come
    /// from [`check_empty`](Self::check_empty), after the last write to the tree.
    ///
    /// # Errors
    /// Corrupt, and errors of a poisoned or read-only medium. Pages and records given back before stay so.
    ///
    /// # Panics
    /// If `report` is of another tree, or of one that holds entries.
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
