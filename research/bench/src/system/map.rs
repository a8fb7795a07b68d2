//! Std's `BTreeMap` behind a reader-writer lock: what a program has without any of this.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use everleaf_pmem::Result;
use everleaf_tree::Index;

use super::subject::Subject;

/// The map.
#[derive(Default)]
pub struct WordMap(RwLock<BTreeMap<u64, u64>>);

impl WordMap {
    fn read(&self) -> RwLockReadGuard<'_, BTreeMap<u64, u64>> {
        self.0.read().expect("no panic inside")
    }

    fn write(&self) -> RwLockWriteGuard<'_, BTreeMap<u64, u64>> {
        self.0.write().expect("no panic inside")
    }
}

impl Index for WordMap {
    fn get(&self, key: u64) -> Result<Option<u64>> {
        Ok(self.read().get(&key).copied())
    }

    fn insert(&self, key: u64, value: u64) -> Result<Option<u64>> {
        Ok(self.write().insert(key, value))
    }

    fn add(&self, key: u64, value: u64) -> Result<Option<u64>> {
        let mut map = self.write();
        let there = map.get(&key).copied();
        if there.is_none() {
            map.insert(key, value);
        }
        Ok(there)
    }

    fn update(&self, key: u64, value: u64) -> Result<Option<u64>> {
        Ok(self.write().get_mut(&key).map(|own| std::mem::replace(own, value)))
    }

    fn remove(&self, key: u64) -> Result<Option<u64>> {
        Ok(self.write().remove(&key))
    }

    fn first(&self) -> Result<Option<(u64, u64)>> {
        Ok(self.read().first_key_value().map(|(k, v)| (*k, *v)))
    }

    fn last(&self) -> Result<Option<(u64, u64)>> {
        Ok(self.read().last_key_value().map(|(k, v)| (*k, *v)))
    }

    fn range(&self, from: Bound<u64>, to: Bound<u64>, limit: usize) -> Result<Vec<(u64, u64)>> {
        Ok(self.read().range((from, to)).take(limit).map(|(k, v)| (*k, *v)).collect())
    }

    fn range_back(
        &self,
        from: Bound<u64>,
        to: Bound<u64>,
        limit: usize,
    ) -> Result<Vec<(u64, u64)>> {
        Ok(self.read().range((from, to)).rev().take(limit).map(|(k, v)| (*k, *v)).collect())
    }
}

impl Subject for WordMap {
    fn index(&self) -> &dyn Index {
        self
    }
}
