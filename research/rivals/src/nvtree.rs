//! NV-tree (Yang et al., FAST '15), after the UNIST code in thustorage/nvm-datastructure, and as Circ-Tree's figures 7
//! to 11 measure it.
//!
//! Leaves are on persistent memory and are only appended to (`nvtree/leaf.rs`). Inner nodes are in DRAM, in one array
//! without pointers, which is built anew when a row of it is full: everybody waits then (`nvtree/inner.rs`).
//!
//! ```text
//! anchor   | w2 the first leaf |
//! insert   entry ->  count ->                                       (-> is a flush and a fence)   2 lines, 2 fences
//! update   the old value as removed, and the new one ->  count ->                             2 or 3 lines, 2 fences
//! remove   the key as removed ->  count ->                                                        2 lines, 2 fences
//! split    [map]  both new leaves ->  the link of the leaf to the left ->  [map]         2 (N / 64 + 1) + 1, 2 fences
//! ```
//!
//! N is the bytes of a leaf without our header line. Every fourth entry lies in two lines and costs one more. A leaf
//! without room is sorted: into two if more than half of its entries are alive, else into one; one with none alive is
//! taken out of the chain, if it is not the first of its row. The leaf itself is garbage when the link is durable, so
//! there is nothing to undo: a crash leaves pages that nothing leads to, which the next open returns.
//!
//! Bugs of the source, which [`AsPublished`](crate::AsPublished) has and [`Only`](crate::Only) has one by one:
//!
//! - `a`: a split of the leftmost leaf ends before the new pair is in it and before the new leaves are flushed: the
//!   pair is lost without a crash, and all others of the leaf by one.
//! - `b`: entries and new leaves are flushed without a fence, so that the count or the link may overtake them.
//!
//! Bugs that no crash image shows are not here: a count of one byte for up to 300 entries; a parent's number in each leaf,
//! which is never flushed; a last key that is taken for the greatest one of a leaf that is not sorted. In no source:
//! the merge of neighbours, which Circ-Tree's text does not mention either; threads, which the text says "stall".

mod inner;
mod leaf;
mod open;
mod write;

pub use open::NvOpened;

use std::marker::PhantomData;
use std::ops::Bound;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use everleaf_pmem::{Backoff, Medium, PageNo, Result};
use everleaf_pool::Pool;
use everleaf_tree::Index;
use everleaf_tree::blink::Condition;

use crate::scan;
use crate::spine::{Found, LeafRange, look};
use crate::version::{Sound, Version};
use inner::Inner;

/// NV-tree on a strict medium, in one of its two versions. Every write is durable when it returns.
pub struct NvTree<M: Medium, V: Version = Sound> {
    pool: Arc<Pool<M>>,
    anchor: PageNo,
    inner: RwLock<Inner>,
    rebuilds: AtomicU64,
    _version: PhantomData<V>,
}

impl<M: Medium, V: Version> NvTree<M, V> {
    /// The pool that the tree is in.
    pub fn pool(&self) -> &Arc<Pool<M>> {
        &self.pool
    }

    /// How often the inner nodes were built anew since the tree was opened.
    pub fn rebuilds(&self) -> u64 {
        self.rebuilds.load(Ordering::Relaxed)
    }

    fn inner(&self) -> RwLockReadGuard<'_, Inner> {
        self.inner.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The leaf of a key.
    fn leaf(&self, key: u64) -> Result<Found<'_>> {
        let mut wait = Backoff::default();
        loop {
            let no = self.inner().leaf_of(key);
            if let Some(found) = look(self.pool.page(no)?)
                && found.range.low <= key
                && !found.range.ends_before(key)
            {
                return Ok(found);
            }
            wait.pause();
        }
    }

    /// The pairs of the leaf of `at` that lie within bounds, in order, and the leaf's range then.
    fn sorted(&self, at: u64, pairs: &mut Vec<(u64, u64)>) -> Result<LeafRange> {
        let mut wait = Backoff::default();
        loop {
            let found = self.leaf(at)?;
            leaf::alive(found.page, pairs)?;
            if found.page.latch().validate(found.version) {
                return Ok(found.range);
            }
            wait.pause();
        }
    }
}

impl<M: Medium, V: Version> Index for NvTree<M, V> {
    fn get(&self, key: u64) -> Result<Option<u64>> {
        let mut wait = Backoff::default();
        loop {
            let found = self.leaf(key)?;
            let value = leaf::find(found.page, key);
            if found.page.latch().validate(found.version) {
                return Ok(value);
            }
            wait.pause();
        }
    }
    fn insert(&self, key: u64, value: u64) -> Result<Option<u64>> {
        self.put(key, value, Condition::Always)
    }
    fn add(&self, key: u64, value: u64) -> Result<Option<u64>> {
        self.put(key, value, Condition::Absent)
    }
    fn update(&self, key: u64, value: u64) -> Result<Option<u64>> {
        self.put(key, value, Condition::Present)
    }
    fn remove(&self, key: u64) -> Result<Option<u64>> {
        self.take_out(key)
    }
    fn first(&self) -> Result<Option<(u64, u64)>> {
        Ok(self.range(Bound::Unbounded, Bound::Unbounded, 1)?.pop())
    }
    fn last(&self) -> Result<Option<(u64, u64)>> {
        Ok(self.range_back(Bound::Unbounded, Bound::Unbounded, 1)?.pop())
    }
    fn range(&self, from: Bound<u64>, to: Bound<u64>, limit: usize) -> Result<Vec<(u64, u64)>> {
        scan::up((from, to), limit, |at, pairs| self.sorted(at, pairs))
    }
    fn range_back(
        &self,
        from: Bound<u64>,
        to: Bound<u64>,
        limit: usize,
    ) -> Result<Vec<(u64, u64)>> {
        scan::down((from, to), limit, |at, pairs| self.sorted(at, pairs))
    }
}
