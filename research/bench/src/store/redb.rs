//! redb: commits that are not durable, and one that is every half a second.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Result;
use redb::{
    AccessGuard, Database, Durability, ReadOnlyTable, ReadableDatabase, ReadableTable,
    StorageError, Table, TableDefinition, WriteTransaction,
};

use super::api::{How, KvStore, SyncMode};
use super::transact::{Access, Body, Session, Transaction, Transactional};

const TABLE: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("bench");

/// How much a loss of power may take.
const INTERVAL: Duration = Duration::from_millis(500);

/// One table.
pub struct Redb {
    db: Database,
    mode: SyncMode,
    /// When the last durable commit was.
    synced: Mutex<Instant>,
}

impl Redb {
    /// Opens a database in a folder, or makes it.
    pub fn open(how: &How) -> Result<Self> {
        let path = how.dir.join("bench.redb");
        let db = Database::builder().set_cache_size(how.cache_bytes() as usize).create(path)?;
        let own = Self { db, mode: how.mode, synced: Mutex::new(Instant::now()) };
        // Makes the table, so that reads find it.
        own.write(|_| Ok(()))?;
        Ok(own)
    }

    fn reader(&self) -> Result<ReadOnlyTable<&'static [u8], &'static [u8]>> {
        Ok(self.db.begin_read()?.open_table(TABLE)?)
    }

    fn commit(&self, mut txn: WriteTransaction) -> Result<()> {
        let mut synced = self.synced.lock().unwrap_or_else(PoisonError::into_inner);
        if self.mode == SyncMode::SyncEach || synced.elapsed() >= INTERVAL {
            txn.set_durability(Durability::Immediate)?;
            txn.commit()?;
            *synced = Instant::now();
        } else {
            txn.set_durability(Durability::None)?;
            txn.commit()?;
        }
        Ok(())
    }

    fn write<T>(
        &self,
        change: impl FnOnce(&mut Table<'_, &'static [u8], &'static [u8]>) -> Result<T>,
    ) -> Result<T> {
        let txn = self.db.begin_write()?;
        let changed = change(&mut txn.open_table(TABLE)?)?;
        self.commit(txn)?;
        Ok(changed)
    }
}

/// A pair as a table lends it.
type Lent<'t> = (AccessGuard<'t, &'static [u8]>, AccessGuard<'t, &'static [u8]>);

/// Shows pairs; returns how many.
fn show_all<'t>(
    pairs: impl Iterator<Item = Result<Lent<'t>, StorageError>>,
    each: &mut dyn FnMut(&[u8], &[u8]),
) -> Result<usize> {
    let mut count = 0;
    for pair in pairs {
        let (key, value) = pair?;
        each(key.value(), value.value());
        count += 1;
    }
    Ok(count)
}

impl KvStore for Redb {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.write(|table| {
            table.insert(key, value)?;
            Ok(())
        })
    }

    fn put_all(&self, pairs: &[(Vec<u8>, Vec<u8>)]) -> Result<()> {
        self.write(|table| {
            for (key, value) in pairs {
                table.insert(&key[..], &value[..])?;
            }
            Ok(())
        })
    }

    fn get(&self, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<bool> {
        show(&self.reader()?, key, read)
    }

    fn remove(&self, key: &[u8]) -> Result<bool> {
        self.write(|table| Ok(table.remove(key)?.is_some()))
    }

    fn scan_range(
        &self,
        from: &[u8],
        limit: usize,
        each: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<usize> {
        show_all(self.reader()?.range(from..)?.take(limit), each)
    }

    fn scan_back(
        &self,
        from: &[u8],
        limit: usize,
        each: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<usize> {
        show_all(self.reader()?.range(..=from)?.rev().take(limit), each)
    }

    fn pop_first(&self, _least: &[u8], each: &mut dyn FnMut(&[u8], &[u8])) -> Result<bool> {
        self.write(|table| {
            let first = table.pop_first()?;
            Ok(first.map(|(key, value)| each(key.value(), value.value())).is_some())
        })
    }

    fn sync(&self) -> Result<()> {
        // An empty transaction would do; its durability is what counts.
        let txn = self.db.begin_write()?;
        Ok(txn.commit()?)
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.sync()?;
        Ok(self.db.close()?)
    }
}

impl Transactional for Redb {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(self))
    }

    fn scan_snapshot(&self, each: &mut dyn FnMut(&[u8], &[u8])) -> Result<()> {
        self.scan_range(&[], usize::MAX, each).map(drop)
    }

    fn settle(&self) -> Result<()> {
        self.sync()
    }
}

impl Session for &Redb {
    fn transact(&mut self, access: Access, body: Body<'_>) -> Result<()> {
        match access {
            Access::Read => body(&mut self.reader()?),
            Access::Write => self.write(|table| body(table)),
        }
    }
}

/// Shows the value of a key in a table that may be of a transaction that writes.
fn show(
    table: &impl ReadableTable<&'static [u8], &'static [u8]>,
    key: &[u8],
    read: &mut dyn FnMut(&[u8]),
) -> Result<bool> {
    Ok(table.get(key)?.map(|value| read(value.value())).is_some())
}

impl Transaction for ReadOnlyTable<&'static [u8], &'static [u8]> {
    fn get(&mut self, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<bool> {
        show(self, key, read)
    }
}

impl Transaction for Table<'_, &'static [u8], &'static [u8]> {
    fn get(&mut self, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<bool> {
        show(self, key, read)
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.insert(key, value)?;
        Ok(())
    }
}
