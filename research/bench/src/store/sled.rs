//! sled 0.34.

use anyhow::Result;
use sled::{Batch, Config, Db};

use super::api::{How, KvStore, SyncMode, show_pairs};

/// The default tree.
pub struct Sled {
    db: Db,
    mode: SyncMode,
}

impl Sled {
    /// Opens a database in a folder, or makes it.
    pub fn open(how: &How) -> Result<Box<dyn KvStore>> {
        let db = Config::new()
            .path(how.dir.join("sled"))
            .cache_capacity(how.cache_bytes())
            .flush_every_ms(Some(500))
            .open()?;
        Ok(Box::new(Self { db, mode: how.mode }))
    }

    fn settle(&self) -> Result<()> {
        match self.mode {
            SyncMode::Buffered => Ok(()),
            SyncMode::SyncEach => self.sync(),
        }
    }
}

impl KvStore for Sled {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.db.insert(key, value)?;
        self.settle()
    }

    fn put_all(&self, pairs: &[(Vec<u8>, Vec<u8>)]) -> Result<()> {
        let mut batch = Batch::default();
        for (key, value) in pairs {
            batch.insert(&key[..], &value[..]);
        }
        self.db.apply_batch(batch)?;
        self.settle()
    }

    fn get(&self, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<bool> {
        Ok(self.db.get(key)?.map(|value| read(&value)).is_some())
    }

    fn remove(&self, key: &[u8]) -> Result<bool> {
        let was = self.db.remove(key)?.is_some();
        self.settle()?;
        Ok(was)
    }

    fn scan_range(
        &self,
        from: &[u8],
        limit: usize,
        each: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<usize> {
        show_pairs(self.db.range(from..).take(limit), each)
    }

    fn scan_back(
        &self,
        from: &[u8],
        limit: usize,
        each: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<usize> {
        show_pairs(self.db.range(..=from).rev().take(limit), each)
    }

    fn pop_first(&self, _least: &[u8], each: &mut dyn FnMut(&[u8], &[u8])) -> Result<bool> {
        let first = self.db.pop_min()?;
        self.settle()?;
        Ok(first.map(|(key, value)| each(&key, &value)).is_some())
    }

    fn sync(&self) -> Result<()> {
        self.db.flush()?;
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.sync()
    }
}
