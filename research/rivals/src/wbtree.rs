//! The wB+-tree with slot arrays and bitmaps (Chen and Jin, VLDB '15), by the code that was derived from it for
//! FAST+FAIR's figures, and by FAST+FAIR's text (FAST '18, §6.1).
//!
//! Inner nodes and leaves are alike and all of them are persistent (`wbtree/node.rs`).
//!
//! ```text
//! anchor   | w2 the root | w3 the page of the log |
//! log      a page: w3 the node that is being split, or 0 | w4 the new node | w0, w1 and body: the node's copy
//! ```
//!
//! | change | lines, each row durable before the next | lines / fences |
//! |---|---|---|
//! | insert | the bit for *valid* off, and the pair; the slot array; the bitmap with *valid* | 4 / 3 |
//! | remove | *valid* off; the slot array; the bitmap | 3 / 3 |
//! | update | the value | 1 / 1 |
//! | split | the log's copy; its name; the new node; bitmap and slot array of the old one; the insert into the parent; the log's name | n + 1 + n + 2 + 1 and an insert, n lines of a node |
//! | a new root | bitmap and slot array; the anchor | 3 / 2 |
//!
//! A slot array that a crash has left invalid is sorted anew by who reads it, and stored by the next writer (2 / 2).
//!
//! **Splits.** If the leaf is full, the full nodes above it are split first, from the top down, each with the log and
//! a parent that has room: the nodes are those that a split from the leaf upwards would split. The commit of a split
//! is the parent's bitmap. An open that finds a log whose new node is reachable clears it; else it puts the old node
//! back.
//!
//! The source differs, and [`AsPublished`](crate::AsPublished) with it:
//!
//! - **a** The new node is not flushed as a whole before something leads to it.
//! - **b** The word that makes the log count is not flushed.
//! - **c** The log ends before the parent has the new node: between the two its pairs are lost, for no search moves to
//!   a sibling.
//!
//! In no source: merges. An empty node stays. One lock in DRAM is around everything, shared by readers: FAST+FAIR says
//! (§6.7) that there is no version for threads.

mod node;
mod open;
mod split;
mod write;

pub use open::WbOpened;

use std::marker::PhantomData;
use std::ops::Bound;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use everleaf_pmem::{Medium, PageNo, Result};
use everleaf_pool::Pool;
use everleaf_tree::Index;

use crate::span::Span;
use crate::version::Version;
use node::{View, level, link};

/// The wB+-tree on a strict medium, in one of its two versions. Every write is durable when it returns.
pub struct WbTree<M: Medium, V: Version> {
    pool: Arc<Pool<M>>,
    anchor: PageNo,
    log: PageNo,
    lock: RwLock<()>,
    _version: PhantomData<V>,
}

impl<M: Medium, V: Version> WbTree<M, V> {
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

    /// The leaf for a key.
    fn leaf_of(&self, key: u64) -> Result<PageNo> {
        let mut no = self.root()?;
        loop {
            let page = self.pool.page(no)?;
            if level(page) == 0 {
                return Ok(no);
            }
            no = View::of(page)?.child(key);
        }
    }

    fn collect(&self, span: Option<Span>) -> Result<Vec<(u64, u64)>> {
        let Some(mut span) = span else { return Ok(Vec::new()) };
        let _shared = self.reading();
        match span.back {
            true => self.collect_back(self.root()?, &mut span)?,
            false => self.collect_from(&mut span)?,
        }
        Ok(span.found)
    }

    /// Along the leaves.
    fn collect_from(&self, span: &mut Span) -> Result<()> {
        let mut no = self.leaf_of(span.low)?;
        while no != 0 {
            let page = self.pool.page(no)?;
            let view = View::of(page)?;
            for k in view.lower(span.low)..view.len() {
                if span.is_full() || view.key(k) > span.high {
                    return Ok(());
                }
                span.found.push((view.key(k), view.value(k)));
            }
            no = link(page);
        }
        Ok(())
    }

    /// Leaves have no way back: down from the root.
    fn collect_back(&self, no: PageNo, span: &mut Span) -> Result<()> {
        let page = self.pool.page(no)?;
        let view = View::of(page)?;
        if level(page) == 0 {
            for k in (0..view.len()).rev() {
                let key = view.key(k);
                if span.contains(key) && !span.is_full() {
                    span.found.push((key, view.value(k)));
                }
            }
            return Ok(());
        }
        for k in (0..=view.len()).rev() {
            let is_above = k > 0 && view.key(k - 1) > span.high;
            let is_below = k < view.len() && view.key(k) <= span.low;
            if !is_above && !is_below && !span.is_full() {
                self.collect_back(view.child_at(k), span)?;
            }
        }
        Ok(())
    }
}

impl<M: Medium, V: Version> Index for WbTree<M, V> {
    fn get(&self, key: u64) -> Result<Option<u64>> {
        let _shared = self.reading();
        let view = View::of(self.pool.page(self.leaf_of(key)?)?)?;
        Ok(view.find(key).map(|k| view.value(k)))
    }
    fn insert(&self, key: u64, value: u64) -> Result<Option<u64>> {
        let _alone = self.writing();
        match self.replace(key, value)? {
            Some(old) => Ok(Some(old)),
            None => self.put(key, value).map(|()| None),
        }
    }
    fn add(&self, key: u64, value: u64) -> Result<Option<u64>> {
        let _alone = self.writing();
        let view = View::of(self.pool.page(self.leaf_of(key)?)?)?;
        match view.find(key) {
            Some(k) => Ok(Some(view.value(k))),
            None => self.put(key, value).map(|()| None),
        }
    }
    fn update(&self, key: u64, value: u64) -> Result<Option<u64>> {
        let _alone = self.writing();
        self.replace(key, value)
    }
    fn remove(&self, key: u64) -> Result<Option<u64>> {
        let _alone = self.writing();
        self.take_out(key)
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
