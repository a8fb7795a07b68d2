//! The tree's handle: its pool, its anchor and its root.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use everleaf_pmem::{Medium, Page, PageNo, Result, Seen, Version};
use everleaf_pool::Pool;

use super::pending::PendingMerges;
use super::reading::Reading;
use crate::kind::Kind;

/// An ordered map in a pool. `K` says how nodes are laid out and searched, and what keys are.
pub struct Blink<M: Medium, K: Kind> {
    pub(super) pool: Arc<Pool<M>>,
    /// Another one after the tree was [cleared](Self::take_over).
    anchor: AtomicU32,
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
            anchor: anchor.into(),
            root: root.into(),
            pending: Mutex::default(),
            merging: Mutex::default(),
            reading: Reading::default(),
        }
    }

    /// The page that names this tree in its pool.
    #[inline(always)]
    pub fn anchor(&self) -> PageNo {
        self.anchor.load(Ordering::Relaxed)
    }

    /// This handle is now one of the tree that `new` is a handle of, which nobody else has: what it was a handle of
    /// is not its own any more. No writer is in either, nor will be in `new`. Readers that are under way, and
    /// cursors, still read what they have begun with: who uses the handle tells them afterwards.
    pub fn take_over(&self, new: Self) {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner).places.clear();
        self.anchor.store(new.anchor(), Ordering::Relaxed);
        self.root.store(new.root(), Ordering::Release);
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
