//! WORT, a write-optimal radix tree (Lee et al., FAST '17), by the code that its authors published.
//!
//! ```text
//! anchor   | w2 the topmost child |
//! node     a page of 8 slots: header line, two lines of children            (`wort/node.rs`)
//! leaf     a cell of 16 bytes: key, value; four in a line
//! ```
//!
//! The source gives each leaf a line of its own. Flushes are the same, space is not.
//!
//! | change | lines, each row durable before the next | lines / fences |
//! |---|---|---|
//! | insert where no child is | leaf; the child | 2 / 2 |
//! | insert where a leaf is | leaf and a node of both leaves; the child | 5 / 2 |
//! | insert into a prefix | leaf and a node of the leaf and the old node; the child and the old node's header | 6 / 2 |
//! | update | the value | 1 / 1 |
//! | remove | the child := 0 | 1 / 1 |
//!
//! The lines of the pool's map for pages that are new are the allocator's and come on top.
//!
//! A crash can leave an insert that has not happened, and a leaf and a node that the next open returns; or, of
//! an insert into a prefix, the new child without the old node's new header, or the header without the child. Both
//! are the same on the way down: the header says another depth than the path. The prefix is then what the keys
//! below say; writers put it into the header and flush it, readers only compute it.
//!
//! Removes are in no source: the child becomes 0, and no path is made shorter. That is what the two versions differ
//! in. `recovery_prefix` of the source takes the smallest leaf below each of the first two children, and what these
//! share is the prefix. A node in which removes have left one child has no second leaf, and the source reads a
//! pointer that it has not set. In [`AsPublished`](crate::AsPublished) this is an error, and what is below is lost.
//! [`Sound`](crate::Sound) takes one leaf: depth and length of any header that a crash can leave have the right sum.
//! Below a node without leaves there is nothing to be found, and an insert gives it the prefix that it needs.
//!
//! One lock in DRAM is around everything, shared by readers: the source has none.

mod node;
mod open;
mod walk;
mod write;

pub use open::WortOpened;

use std::marker::PhantomData;
use std::ops::Bound;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use everleaf_pmem::{Medium, PageNo, Result};
use everleaf_pool::Pool;
use everleaf_tree::Index;

use crate::cells::Cells;
use crate::span::Span;
use crate::version::Version;

/// WORT on a strict medium, in one of its two versions. Every write is durable when it returns.
pub struct Wort<M: Medium, V: Version> {
    pool: Arc<Pool<M>>,
    anchor: PageNo,
    leaves: Cells<M>,
    lock: RwLock<()>,
    _version: PhantomData<V>,
}

impl<M: Medium, V: Version> Wort<M, V> {
    /// The pool that the tree is in.
    pub fn pool(&self) -> &Arc<Pool<M>> {
        &self.pool
    }

    fn reading(&self) -> RwLockReadGuard<'_, ()> {
        self.lock.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn writing(&self) -> RwLockWriteGuard<'_, ()> {
        self.lock.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn collect(&self, span: Option<Span>) -> Result<Vec<(u64, u64)>> {
        let Some(mut span) = span else { return Ok(Vec::new()) };
        let _shared = self.reading();
        self.visit(self.child(self.root())?, 0, 0, &mut span)?;
        Ok(span.found)
    }
}

impl<M: Medium, V: Version> Index for Wort<M, V> {
    fn get(&self, key: u64) -> Result<Option<u64>> {
        let _shared = self.reading();
        match self.find(key, false)? {
            Some((_, leaf)) => Ok(Some(self.leaf(leaf)?.1)),
            None => Ok(None),
        }
    }
    fn insert(&self, key: u64, value: u64) -> Result<Option<u64>> {
        let _alone = self.writing();
        self.put(key, value)
    }
    fn add(&self, key: u64, value: u64) -> Result<Option<u64>> {
        let _alone = self.writing();
        match self.find(key, true)? {
            Some((_, leaf)) => Ok(Some(self.leaf(leaf)?.1)),
            None => self.put(key, value),
        }
    }
    fn update(&self, key: u64, value: u64) -> Result<Option<u64>> {
        let _alone = self.writing();
        match self.find(key, true)? {
            Some((_, leaf)) => self.set_value(leaf, value).map(Some),
            None => Ok(None),
        }
    }
    fn remove(&self, key: u64) -> Result<Option<u64>> {
        let _alone = self.writing();
        match self.find(key, true)? {
            Some((place, leaf)) => self.take_out(place, leaf).map(Some),
            None => Ok(None),
        }
    }
    fn first(&self) -> Result<Option<(u64, u64)>> {
        self.range(Bound::Unbounded, Bound::Unbounded, 1).map(|found| found.first().copied())
    }
    fn last(&self) -> Result<Option<(u64, u64)>> {
        self.range_back(Bound::Unbounded, Bound::Unbounded, 1).map(|found| found.first().copied())
    }
    fn range(&self, from: Bound<u64>, to: Bound<u64>, limit: usize) -> Result<Vec<(u64, u64)>> {
        self.collect(Span::of(from, to, limit, false))
    }
    fn range_back(
        &self,
        from: Bound<u64>,
        to: Bound<u64>,
        limit: usize,
    ) -> Result<Vec<(u64, u64)>> {
        self.collect(Span::of(from, to, limit, true))
    }
}
