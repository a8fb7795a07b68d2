//! Std's `BTreeMap` of byte vectors behind a reader-writer lock.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use anyhow::Result;

use super::api::KvStore;

type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

/// The map.
#[derive(Default)]
pub struct ByteMap(RwLock<Pairs>);

impl ByteMap {
    fn read(&self) -> RwLockReadGuard<'_, Pairs> {
        self.0.read().expect("no panic inside")
    }

    fn write(&self) -> RwLockWriteGuard<'_, Pairs> {
        self.0.write().expect("no panic inside")
    }
}

impl KvStore for ByteMap {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        let (key, value) = (key.to_vec(), value.to_vec());
        self.write().insert(key, value);
        Ok(())
    }

    fn put_all(&self, pairs: &[(Vec<u8>, Vec<u8>)]) -> Result<()> {
        self.write().extend(pairs.iter().cloned());
        Ok(())
    }

    fn get(&self, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<bool> {
        Ok(self.read().get(key).map(|value| read(value)).is_some())
    }

    fn remove(&self, key: &[u8]) -> Result<bool> {
        Ok(self.write().remove(key).is_some())
    }

    fn scan_range(
        &self,
        from: &[u8],
        limit: usize,
        each: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<usize> {
        let pairs = self.read();
        let range = pairs.range::<[u8], _>((Bound::Included(from), Bound::Unbounded));
        Ok(range.take(limit).map(|(key, value)| each(key, value)).count())
    }

    fn scan_back(
        &self,
        from: &[u8],
        limit: usize,
        each: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<usize> {
        let pairs = self.read();
        let range = pairs.range::<[u8], _>((Bound::Unbounded, Bound::Included(from)));
        Ok(range.rev().take(limit).map(|(key, value)| each(key, value)).count())
    }

    fn pop_first(&self, _least: &[u8], each: &mut dyn FnMut(&[u8], &[u8])) -> Result<bool> {
        Ok(self.write().pop_first().map(|(key, value)| each(&key, &value)).is_some())
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}
