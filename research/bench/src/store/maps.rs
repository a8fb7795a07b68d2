//! Concurrent maps of u64 in memory: a skip list, a radix tree, a B+ tree.

use anyhow::{Result, anyhow};
use congee::U64Congee;
use congee::epoch::pin;
use crossbeam_skiplist::SkipMap;
use scc::{Guard, TreeIndex};

use super::api::{KvStore, word};

/// A skip list.
pub type Skip = SkipMap<u64, u64>;

/// An adaptive radix tree.
pub type Radix = U64Congee<usize>;

/// A B+ tree.
pub type Plus = TreeIndex<u64, u64>;

/// The operations of a map of words.
pub trait WordIndex: Send + Sync {
    /// Sets the value of a key.
    fn set(&self, key: u64, value: u64) -> Result<()>;
    /// The value of a key.
    fn value(&self, key: u64) -> Option<u64>;
    /// Removes a key; returns whether it was there.
    fn take(&self, key: u64) -> bool;
    /// Shows up to `limit` pairs from a key on; returns how many.
    fn range(&self, from: u64, limit: usize, each: impl FnMut(u64, u64)) -> usize;
}

impl<T: WordIndex> KvStore for T {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.set(word(key)?, word(value)?)
    }

    fn put_all(&self, pairs: &[(Vec<u8>, Vec<u8>)]) -> Result<()> {
        pairs.iter().try_for_each(|(key, value)| self.put(key, value))
    }

    fn get(&self, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<bool> {
        Ok(self.value(word(key)?).map(|value| read(&value.to_be_bytes())).is_some())
    }

    fn remove(&self, key: &[u8]) -> Result<bool> {
        Ok(self.take(word(key)?))
    }

    fn scan_range(
        &self,
        from: &[u8],
        limit: usize,
        each: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<usize> {
        let each = |key: u64, value: u64| each(&key.to_be_bytes(), &value.to_be_bytes());
        Ok(self.range(word(from)?, limit, each))
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

impl WordIndex for Skip {
    fn set(&self, key: u64, value: u64) -> Result<()> {
        self.insert(key, value);
        Ok(())
    }

    fn value(&self, key: u64) -> Option<u64> {
        self.get(&key).map(|entry| *entry.value())
    }

    fn take(&self, key: u64) -> bool {
        self.remove(&key).is_some()
    }

    fn range(&self, from: u64, limit: usize, mut each: impl FnMut(u64, u64)) -> usize {
        let range = self.range(from..);
        range.take(limit).map(|entry| each(*entry.key(), *entry.value())).count()
    }
}

impl WordIndex for Plus {
    fn set(&self, key: u64, value: u64) -> Result<()> {
        self.upsert_sync(key, value);
        Ok(())
    }

    fn value(&self, key: u64) -> Option<u64> {
        self.peek_with(&key, |_, value| *value)
    }

    fn take(&self, key: u64) -> bool {
        self.remove_sync(&key)
    }

    fn range(&self, from: u64, limit: usize, mut each: impl FnMut(u64, u64)) -> usize {
        let guard = Guard::new();
        let range = self.range(from.., &guard);
        range.take(limit).map(|(key, value)| each(*key, *value)).count()
    }
}

impl WordIndex for Radix {
    fn set(&self, key: u64, value: u64) -> Result<()> {
        let set = self.insert(key, value as usize, &pin());
        set.map(|_| ()).map_err(|error| anyhow!("{error:?}"))
    }

    fn value(&self, key: u64) -> Option<u64> {
        self.get(key, &pin()).map(|value| value as u64)
    }

    fn take(&self, key: u64) -> bool {
        self.remove(key, &pin()).is_some()
    }

    fn range(&self, from: u64, limit: usize, mut each: impl FnMut(u64, u64)) -> usize {
        // It fills a slice; so a part at a time.
        const PART: usize = 128;
        let guard = pin();
        let (mut count, mut from) = (0, Some(from));
        while let Some(start) = from.take().filter(|_| count < limit) {
            let mut part = [([0; 8], 0); PART];
            let wanted = PART.min(limit - count);
            let found = self.range(start, u64::MAX, &mut part[..wanted], &guard);
            for (key, value) in &part[..found] {
                each(u64::from_be_bytes(*key), *value as u64);
            }
            count += found;
            if found == wanted {
                from = u64::from_be_bytes(part[found - 1].0).checked_add(1);
            }
        }
        count
    }
}
