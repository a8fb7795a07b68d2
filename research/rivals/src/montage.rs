//! Montage's B+-tree, which BD+Tree (VLDB '24, §4) compares with: a tree in DRAM whose leaves lead to payloads on
//! persistent memory, which become durable by epochs (Wen et al., "A Fast, General System for Buffered Persistent Data
//! Structures", ICPP '21; clock and payloads after the code in urcs-sync/Montage).
//!
//! No B+-tree is in that repository. The tree is a [`CircTree`] on [`Dram`], the clock a
//! [`Buffered`] medium, and a payload has the seven fields of the code in a line of its own
//! (`montage/payload.rs`).
//!
//! | change | lines that wait for the end of the epoch |
//! |---|---|
//! | insert | the payload |
//! | update, remove of a payload of this epoch | none: in place, in the line that waits already |
//! | update of an older one | the new payload; two epochs later, that the old one is none |
//! | remove of an older one | an *anti-payload*; two epochs later, that the old one is none |
//!
//! No change flushes or fences anything itself. A payload has a number that its successors keep. After a crash those
//! of epochs that are not durable are none; an anti-payload cancels all of its number; else the newest counts. So an
//! old payload must durably be none before its anti-payload is used again: it goes two epochs after the change, and
//! the anti-payload two epochs after that.
//!
//! Writers of one key exclude each other by one of 256 locks, where BD+Tree latches a leaf.
//!
//! Bugs of the source, which [`AsPublished`](crate::AsPublished) has and [`Only`](crate::Only) has one by one:
//!
//! - `a`: a payload's range is written back up to the byte behind it, which is the next line: twice as many lines.
//! - `b`: the clock's word is never written back. Recovery takes the greatest epoch of any payload for the clock, and
//!   two epochs before that for the last durable one: what was written before a `sync` is gone unless newer
//!   payloads have got to memory.
//!
//! A bug that no image shows is not here: the last flush and the clock's compare-and-swap without a fence in between, which
//! an x86 processor makes good.

mod open;
mod payload;
mod retired;
mod write;

pub use open::MontageOpened;

use std::collections::VecDeque;
use std::marker::PhantomData;
use std::ops::Bound;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use everleaf_pmem::{Buffered, Dram, Medium, Result};
use everleaf_pool::Pool;
use everleaf_tree::blink::Condition;
use everleaf_tree::{CircTree, Index};

use crate::cells::{Cell, Cells};
use crate::limbo::Limbo;
use crate::version::{Sound, Version};
use retired::Retired;

/// Locks of keys.
const LOCKS: usize = 256;

/// Montage's B+-tree on a strict medium with a clock, in one of its two versions. A write is durable when its epoch is.
pub struct Montage<M: Medium, V: Version = Sound> {
    pool: Arc<Pool<Buffered<M>>>,
    tree: CircTree<Dram>,
    payloads: Cells<Buffered<M>>,
    /// The number of the next payload.
    next: AtomicU64,
    locks: Box<[Mutex<()>]>,
    retired: Mutex<VecDeque<Retired>>,
    limbo: Limbo<Cell>,
    _version: PhantomData<V>,
}

fn cell_of(value: u64) -> Cell {
    Cell { page: (value >> 16) as u32, at: value as u16 }
}

fn value_of(cell: Cell) -> u64 {
    u64::from(cell.page) << 16 | u64::from(cell.at)
}

impl<M: Medium, V: Version> Montage<M, V> {
    /// The pool that the payloads are in.
    pub fn pool(&self) -> &Arc<Pool<Buffered<M>>> {
        &self.pool
    }

    /// The medium, with the clock.
    pub fn medium(&self) -> &Buffered<M> {
        self.pool.medium()
    }

    /// The tree in DRAM.
    pub fn tree(&self) -> &CircTree<Dram> {
        &self.tree
    }

    /// Makes all writes durable that have returned.
    ///
    /// # Errors
    /// Those of [`Buffered::sync`].
    pub fn sync(&self) -> Result<()> {
        self.medium().sync()
    }

    fn lock(&self, key: u64) -> MutexGuard<'_, ()> {
        let lock = (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as usize % LOCKS;
        self.locks[lock].lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn cell(&self, key: u64) -> Result<Option<Cell>> {
        Ok(self.tree.get(&key)?.map(cell_of))
    }

    fn values(&self, cells: Vec<(u64, u64)>) -> Result<Vec<(u64, u64)>> {
        let value = |(key, cell)| Ok((key, self.value(cell_of(cell))?));
        cells.into_iter().map(value).collect()
    }
}

impl<M: Medium, V: Version> Index for Montage<M, V> {
    fn get(&self, key: u64) -> Result<Option<u64>> {
        let _pin = self.limbo.pin();
        self.cell(key)?.map(|cell| self.value(cell)).transpose()
    }
    fn insert(&self, key: u64, value: u64) -> Result<Option<u64>> {
        self.put(key, value, Condition::Always).map(|put| put.0)
    }
    fn add(&self, key: u64, value: u64) -> Result<Option<u64>> {
        self.put(key, value, Condition::Absent).map(|put| put.0)
    }
    fn update(&self, key: u64, value: u64) -> Result<Option<u64>> {
        self.put(key, value, Condition::Present).map(|put| put.0)
    }
    fn remove(&self, key: u64) -> Result<Option<u64>> {
        self.take_out(key).map(|put| put.0)
    }
    fn first(&self) -> Result<Option<(u64, u64)>> {
        Ok(self.range(Bound::Unbounded, Bound::Unbounded, 1)?.pop())
    }
    fn last(&self) -> Result<Option<(u64, u64)>> {
        Ok(self.range_back(Bound::Unbounded, Bound::Unbounded, 1)?.pop())
    }
    fn range(&self, from: Bound<u64>, to: Bound<u64>, limit: usize) -> Result<Vec<(u64, u64)>> {
        let _pin = self.limbo.pin();
        self.values(Index::range(&self.tree, from, to, limit)?)
    }
    fn range_back(
        &self,
        from: Bound<u64>,
        to: Bound<u64>,
        limit: usize,
    ) -> Result<Vec<(u64, u64)>> {
        let _pin = self.limbo.pin();
        self.values(Index::range_back(&self.tree, from, to, limit)?)
    }
}
