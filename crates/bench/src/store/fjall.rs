//! fjall: a log-structured merge tree whose journal is handed to the system by each write.

use anyhow::Result;
use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};

use super::api::{How, KvStore, SyncMode};

/// One keyspace.
pub struct Fjall {
    db: Database,
    keys: Keyspace,
    mode: SyncMode,
}

impl Fjall {
    /// Opens a database in a folder, or makes it.
    pub fn open(how: &How) -> Result<Box<dyn KvStore>> {
        let db = Database::builder(how.dir.join("fjall")).cache_size(how.cache_bytes()).open()?;
        let keys = db.keyspace("bench", KeyspaceCreateOptions::default)?;
        Ok(Box::new(Self { db, keys, mode: how.mode }))
    }

    fn settle(&self) -> Result<()> {
        match self.mode {
            SyncMode::Buffered => Ok(()),
            SyncMode::SyncEach => Ok(self.db.persist(PersistMode::SyncData)?),
        }
    }
}

impl KvStore for Fjall {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.keys.insert(key, value)?;
        self.settle()
    }

    fn put_all(&self, pairs: &[(Vec<u8>, Vec<u8>)]) -> Result<()> {
        let mut batch = self.db.batch();
        for (key, value) in pairs {
            batch.insert(&self.keys, &key[..], &value[..]);
        }
        batch.commit()?;
        self.settle()
    }

    fn get(&self, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<bool> {
        Ok(self.keys.get(key)?.map(|value| read(&value)).is_some())
    }

    fn remove(&self, key: &[u8]) -> Result<bool> {
        self.keys.remove(key)?;
        self.settle()?;
        Ok(true)
    }

    fn scan_range(
        &self,
        from: &[u8],
        limit: usize,
        each: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<usize> {
        let mut count = 0;
        for pair in self.keys.range(from..).take(limit) {
            let (key, value) = pair.into_inner()?;
            each(&key, &value);
            count += 1;
        }
        Ok(count)
    }

    fn sync(&self) -> Result<()> {
        Ok(self.db.persist(PersistMode::SyncData)?)
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.sync()
    }
}
