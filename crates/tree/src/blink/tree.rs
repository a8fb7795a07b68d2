//! The tree's handle: its pool, its anchor and its root.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use everleaf_pmem::{Medium, Page, PageNo, Result, Seen, Version};
use everleaf_pool::Pool;

use super::pending::PendingMerges;
use super::reading::Reading;
use crate::kind::Kind;

/// An ordered map in a pool. `K` says how nodes are laid out and searched, and what keys are.
pub struct Blink<M: Medium, K: Kind> {
    pub(super) pool: Arc<Pool<M>>,
    pub(super) anchor: PageNo,
    /// The root while the tree is open; the anchor holds it for the next open.
    pub(super) root: AtomicU32,
    pub(super) pending: Mutex<PendingMerges<K>>,
    /// Held while nodes merge, or must not merge.
    pub(super) merging: Mutex<()>,
    pub(super) reading: Reading,
}

impl<M: Medium, K: Kind> Blink<M, K> {
    pub(super) fn with_root(pool: Arc<Pool<M>>, anchor: PageNo, root: PageNo) -> Self {
        Self {
            pool,
            anchor,
            root: root.into(),
            pending: Mutex::default(),
            merging: Mutex::default(),
            reading: Reading::default(),
        }
    }

    /// The page that names this tree in its pool.
    pub fn anchor(&self) -> PageNo {
        self.anchor
    }

    /// The pool that the tree is in.
    pub fn pool(&self) -> &Arc<Pool<M>> {
        &self.pool
    }

    #[inline]
    pub(crate) fn medium(&self) -> &M {
        self.pool.medium()
    }

    #[inline]
    pub(crate) fn root(&self) -> PageNo {
        self.root.load(Ordering::Acquire)
    }

    /// The version of a page that may be read; touches it first if nobody has in this open.
    #[inline(always)]
    pub(crate) fn read_version(&self, page: Page<'_>) -> Result<Version> {
        loop {
            match page.latch().read_version() {
                Seen::Ready(version) => return Ok(version),
                Seen::Absent => drop(self.pool.latch(page.no())?),
            }
        }
    }
}
