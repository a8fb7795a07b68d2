//! BD+Tree as an [`Index`].

use std::ops::Bound;

use everleaf_pmem::{Medium, Result};

use crate::blink::Condition;
use crate::hybrid::tree::Hybrid;
use crate::index::Index;

impl<M: Medium> Index for Hybrid<M> {
    fn get(&self, key: u64) -> Result<Option<u64>> {
        Hybrid::get(self, key)
    }
    fn insert(&self, key: u64, value: u64) -> Result<Option<u64>> {
        self.put(key, value, Condition::Always).map(|put| put.old)
    }
    fn update(&self, key: u64, value: u64) -> Result<Option<u64>> {
        self.put(key, value, Condition::Present).map(|put| put.old)
    }
    fn remove(&self, key: u64) -> Result<Option<u64>> {
        Hybrid::remove(self, key).map(|put| put.old)
    }
    fn first(&self) -> Result<Option<(u64, u64)>> {
        Hybrid::first(self)
    }
    fn last(&self) -> Result<Option<(u64, u64)>> {
        Hybrid::last(self)
    }
    fn range(&self, from: Bound<u64>, to: Bound<u64>, limit: usize) -> Result<Vec<(u64, u64)>> {
        Hybrid::range(self, from, to, limit)
    }
    fn range_back(
        &self,
        from: Bound<u64>,
        to: Bound<u64>,
        limit: usize,
    ) -> Result<Vec<(u64, u64)>> {
        Hybrid::range_back(self, from, to, limit)
    }
}
