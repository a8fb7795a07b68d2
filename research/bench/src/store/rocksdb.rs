//! RocksDB: its log is written by each operation and not synced.

use anyhow::Result;
use rocksdb::{
    BlockBasedOptions, Cache, DB, DBAccess, DBCompressionType, DBRawIteratorWithThreadMode,
    ErrorKind, OptimisticTransactionDB, OptimisticTransactionOptions, Options,
    SnapshotWithThreadMode, WriteBatch, WriteOptions,
};

use super::api::{How, KvStore, SyncMode};
use super::transact::{Access, Attempt, Body, Session, Transaction, Transactional, until_done};

/// The default column family.
pub struct Rocks {
    db: DB,
    write: WriteOptions,
}

/// How a database is opened.
fn options(how: &How) -> Options {
    let mut table = BlockBasedOptions::default();
    table.set_block_cache(&Cache::new_lru_cache(how.cache_bytes() as usize));
    table.set_bloom_filter(10.0, false);
    let mut options = Options::default();
    options.create_if_missing(true);
    options.set_block_based_table_factory(&table);
    options.set_compression_type(DBCompressionType::Lz4);
    options.increase_parallelism(2);
    options
}

/// How operations write.
fn writes(how: &How) -> WriteOptions {
    let mut write = WriteOptions::default();
    write.set_sync(how.mode == SyncMode::SyncEach);
    write
}

impl Rocks {
    /// Opens a database in a folder, or makes it.
    pub fn open(how: &How) -> Result<Box<dyn KvStore>> {
        let db = DB::open(&options(how), how.dir.join("rocksdb"))?;
        Ok(Box::new(Self { db, write: writes(how) }))
    }
}

/// Shows up to `limit` pairs from where an iterator is; returns how many.
fn show<'i, D: DBAccess>(
    mut at: DBRawIteratorWithThreadMode<'i, D>,
    step: fn(&mut DBRawIteratorWithThreadMode<'i, D>),
    limit: usize,
    each: &mut dyn FnMut(&[u8], &[u8]),
) -> Result<usize> {
    let mut count = 0;
    while let Some((key, value)) = at.item().filter(|_| count < limit) {
        each(key, value);
        count += 1;
        step(&mut at);
    }
    at.status()?;
    Ok(count)
}

impl KvStore for Rocks {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        Ok(self.db.put_opt(key, value, &self.write)?)
    }

    fn put_all(&self, pairs: &[(Vec<u8>, Vec<u8>)]) -> Result<()> {
        let mut batch = WriteBatch::default();
        for (key, value) in pairs {
            batch.put(key, value);
        }
        Ok(self.db.write_opt(batch, &self.write)?)
    }

    fn get(&self, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<bool> {
        Ok(self.db.get_pinned(key)?.map(|value| read(&value)).is_some())
    }

    fn remove(&self, key: &[u8]) -> Result<bool> {
        self.db.delete_opt(key, &self.write)?;
        Ok(true)
    }

    fn scan_range(
        &self,
        from: &[u8],
        limit: usize,
        each: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<usize> {
        let mut at = self.db.raw_iterator();
        at.seek(from);
        show(at, DBRawIteratorWithThreadMode::next, limit, each)
    }

    fn scan_back(
        &self,
        from: &[u8],
        limit: usize,
        each: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<usize> {
        let mut at = self.db.raw_iterator();
        at.seek_for_prev(from);
        show(at, DBRawIteratorWithThreadMode::prev, limit, each)
    }

    fn sync(&self) -> Result<()> {
        Ok(self.db.flush_wal(true)?)
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.sync()
    }
}

/// The default column family of a database with optimistic transactions.
pub struct RocksTransactions {
    db: OptimisticTransactionDB,
    write: WriteOptions,
    options: OptimisticTransactionOptions,
}

impl RocksTransactions {
    /// Opens a database in a folder, or makes it.
    pub fn open(how: &How) -> Result<Self> {
        let db = OptimisticTransactionDB::open(&options(how), how.dir.join("rocksdb"))?;
        Ok(Self { db, write: writes(how), options: OptimisticTransactionOptions::new() })
    }

    fn attempt(&self, body: Body<'_>) -> Result<Attempt> {
        let mut txn = self.db.transaction_opt(&self.write, &self.options);
        body(&mut txn)?;
        match txn.commit() {
            Ok(()) => Ok(Attempt::Done),
            // The second kind: it has forgotten too much to tell whether there was a conflict.
            Err(error) if [ErrorKind::Busy, ErrorKind::TryAgain].contains(&error.kind()) => {
                Ok(Attempt::Conflict)
            }
            Err(error) => Err(error.into()),
        }
    }
}

impl Transactional for RocksTransactions {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(self))
    }

    fn scan_snapshot(&self, each: &mut dyn FnMut(&[u8], &[u8])) -> Result<()> {
        let snapshot = self.db.snapshot();
        let mut at = snapshot.raw_iterator();
        at.seek_to_first();
        show(at, DBRawIteratorWithThreadMode::next, usize::MAX, each).map(drop)
    }

    fn settle(&self) -> Result<()> {
        Ok(self.db.flush_wal(true)?)
    }
}

impl Session for &RocksTransactions {
    fn transact(&mut self, access: Access, body: Body<'_>) -> Result<()> {
        match access {
            Access::Read => body(&mut self.db.snapshot()),
            Access::Write => until_done(|| self.attempt(body)),
        }
    }
}

impl Transaction for SnapshotWithThreadMode<'_, OptimisticTransactionDB> {
    fn get(&mut self, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<bool> {
        Ok(self.get_pinned(key)?.map(|value| read(&value)).is_some())
    }
}

impl Transaction for rocksdb::Transaction<'_, OptimisticTransactionDB> {
    fn get(&mut self, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<bool> {
        // A plain read would not be looked at again at the commit.
        Ok(self.get_pinned_for_update(key, true)?.map(|value| read(&value)).is_some())
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        // The method of the same name, not of this trait.
        Ok(rocksdb::Transaction::put(self, key, value)?)
    }
}
