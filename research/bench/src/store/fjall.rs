//! fjall: a log-structured merge tree whose journal is handed to the system by each write.

use anyhow::Result;
use fjall::{
    Database, Guard, Keyspace, KeyspaceCreateOptions, OptimisticTxDatabase, OptimisticTxKeyspace,
    OptimisticWriteTx, PersistMode, Readable, Snapshot,
};

use super::api::{How, KvStore, SyncMode, show_pairs};
use super::transact::{Access, Attempt, Body, Session, Transaction, Transactional, until_done};

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

/// Shows pairs; returns how many.
fn show(pairs: impl Iterator<Item = Guard>, each: &mut dyn FnMut(&[u8], &[u8])) -> Result<usize> {
    show_pairs(pairs.map(Guard::into_inner), each)
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
        show(self.keys.range(from..).take(limit), each)
    }

    fn scan_back(
        &self,
        from: &[u8],
        limit: usize,
        each: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<usize> {
        show(self.keys.range(..=from).rev().take(limit), each)
    }

    fn sync(&self) -> Result<()> {
        Ok(self.db.persist(PersistMode::SyncData)?)
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.sync()
    }
}

/// One keyspace of a database with optimistic transactions, whose commits write the journal.
pub struct FjallTransactions {
    db: OptimisticTxDatabase,
    keys: OptimisticTxKeyspace,
    /// How a commit is persisted.
    persist: PersistMode,
}

impl FjallTransactions {
    /// Opens a database in a folder, or makes it.
    pub fn open(how: &How) -> Result<Self> {
        let builder = OptimisticTxDatabase::builder(how.dir.join("fjall"));
        let db = builder.cache_size(how.cache_bytes()).open()?;
        let keys = db.keyspace("bench", KeyspaceCreateOptions::default)?;
        let persist = match how.mode {
            SyncMode::Buffered => PersistMode::Buffer,
            SyncMode::SyncEach => PersistMode::SyncData,
        };
        Ok(Self { db, keys, persist })
    }

    fn attempt(&self, body: Body<'_>) -> Result<Attempt> {
        let txn = self.db.write_tx()?.durability(Some(self.persist));
        let mut own = InKeyspace { txn, keys: &self.keys };
        body(&mut own)?;
        Ok(match own.txn.commit()? {
            Ok(()) => Attempt::Done,
            Err(fjall::Conflict) => Attempt::Conflict,
        })
    }
}

impl Transactional for FjallTransactions {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(self))
    }

    fn scan_snapshot(&self, each: &mut dyn FnMut(&[u8], &[u8])) -> Result<()> {
        show(self.db.read_tx().iter(&self.keys), each).map(drop)
    }

    fn settle(&self) -> Result<()> {
        Ok(self.db.persist(PersistMode::SyncData)?)
    }
}

impl Session for &FjallTransactions {
    fn transact(&mut self, access: Access, body: Body<'_>) -> Result<()> {
        match access {
            Access::Read => body(&mut InKeyspace { txn: self.db.read_tx(), keys: &self.keys }),
            Access::Write => until_done(|| self.attempt(body)),
        }
    }
}

/// A transaction and the keyspace that it is about.
struct InKeyspace<'k, T> {
    txn: T,
    keys: &'k OptimisticTxKeyspace,
}

impl<T: Readable> InKeyspace<'_, T> {
    fn show(&self, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<bool> {
        Ok(self.txn.get(self.keys, key)?.map(|value| read(&value)).is_some())
    }
}

impl Transaction for InKeyspace<'_, Snapshot> {
    fn get(&mut self, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.show(key, read)
    }
}

impl Transaction for InKeyspace<'_, OptimisticWriteTx> {
    fn get(&mut self, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.show(key, read)
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.txn.insert(self.keys, key, value);
        Ok(())
    }
}
