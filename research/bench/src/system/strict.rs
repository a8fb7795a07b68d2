//! Trees that are durable by the end of each operation.

use std::sync::MutexGuard;

use anyhow::Result;
use everleaf_pmem::{Counts, Medium};
use everleaf_pool::PageCounts;
use everleaf_tree::Index;
use everleaf_tree::named::Named;
use tempfile::TempDir;

use super::space::bytes;
use super::subject::{Footprint, Subject};
use crate::memory::Counting;
use crate::wear::medium::Traffic;

/// Durable by the end of each operation.
pub struct Strict<M: Medium> {
    tree: Named<M>,
    _dir: Option<TempDir>,
}

impl<M: Medium> Strict<M> {
    pub fn new(tree: Named<M>, dir: Option<TempDir>) -> Self {
        Self { tree, _dir: dir }
    }
}

impl<M: Counting> Subject for Strict<M> {
    fn index(&self) -> &dyn Index {
        &*self.tree.index
    }

    fn counts(&self) -> Option<Counts> {
        self.tree.pool.medium().counts()
    }

    fn traffic(&self) -> Option<MutexGuard<'_, Traffic>> {
        self.tree.pool.medium().traffic()
    }

    fn pages(&self) -> Result<PageCounts> {
        Ok(self.tree.pool.stats()?)
    }

    fn space(&self) -> Result<Footprint> {
        let [pool, frames] = bytes(self.tree.pool.geometry(), self.pages()?);
        Ok(Footprint { pool, frames, inner: 0 })
    }
}
