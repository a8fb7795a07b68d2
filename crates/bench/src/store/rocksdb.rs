//! RocksDB: its log is written by each operation and not synced.

use anyhow::Result;
use rocksdb::{BlockBasedOptions, Cache, DB, DBCompressionType, Options, WriteBatch, WriteOptions};

use super::api::{How, KvStore, SyncMode};

/// The default column family.
pub struct Rocks {
    db: DB,
    write: WriteOptions,
}

impl Rocks {
    /// Opens a database in a folder, or makes it.
    pub fn open(how: &How) -> Result<Box<dyn KvStore>> {
        let mut table = BlockBasedOptions::default();
        table.set_block_cache(&Cache::new_lru_cache(how.cache_bytes() as usize));
        table.set_bloom_filter(10.0, false);
        let mut options = Options::default();
        options.create_if_missing(true);
        options.set_block_based_table_factory(&table);
        options.set_compression_type(DBCompressionType::Lz4);
        options.increase_parallelism(2);
        let db = DB::open(&options, how.dir.join("rocksdb"))?;
        let mut write = WriteOptions::default();
        write.set_sync(how.mode == SyncMode::SyncEach);
        Ok(Box::new(Self { db, write }))
    }
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
        let mut count = 0;
        while let Some((key, value)) = at.item().filter(|_| count < limit) {
            each(key, value);
            count += 1;
            at.next();
        }
        at.status()?;
        Ok(count)
    }

    fn sync(&self) -> Result<()> {
        Ok(self.db.flush_wal(true)?)
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.sync()
    }
}
