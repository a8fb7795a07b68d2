//! LMDB, with its own way to write or through a writable map.

use anyhow::Result;
use lmdb::{
    Cursor, Database, DatabaseFlags, Environment, EnvironmentFlags, Error, RoTransaction,
    RwTransaction, Transaction as _, WriteFlags,
};

use super::api::{How, KvStore, SyncMode, show_pairs};
use super::transact::{Access, Body, Session, Transaction, Transactional};

/// How far the map may grow. The file of a writable map is as long at once, mostly holes.
const MAP_BYTES: usize = 16 << 30;

/// The operations of `mdb_cursor_get` that the crate has no name for.
const FIRST: u32 = 0;
const LAST: u32 = 6;
const PREVIOUS: u32 = 12;
const NOT_LESS: u32 = 17;

/// The pair that a cursor found, or nothing if there is no such pair.
fn found<T>(at: Result<T, Error>) -> Result<Option<T>> {
    match at {
        Ok(pair) => Ok(Some(pair)),
        Err(Error::NotFound) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// One unnamed database.
pub struct Lmdb {
    env: Environment,
    db: Database,
}

impl Lmdb {
    /// Opens an environment in a folder, or makes it.
    pub fn open(how: &How, writes_to_map: bool) -> Result<Self> {
        let mut flags = EnvironmentFlags::empty();
        flags.set(EnvironmentFlags::NO_SYNC, how.mode == SyncMode::Buffered);
        flags.set(EnvironmentFlags::WRITE_MAP, writes_to_map);
        // A program sets this if its pairs do not fit into memory: else each page that is missed brings
        // others that are not needed.
        flags.set(EnvironmentFlags::NO_READAHEAD, how.memory_bytes > 0);
        let env = Environment::new().set_flags(flags).set_map_size(MAP_BYTES).open(&how.dir)?;
        let db = env.create_db(None, DatabaseFlags::empty())?;
        Ok(Self { env, db })
    }
}

impl KvStore for Lmdb {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        let mut txn = self.env.begin_rw_txn()?;
        txn.put(self.db, &key, &value, WriteFlags::empty())?;
        Ok(txn.commit()?)
    }

    fn put_all(&self, pairs: &[(Vec<u8>, Vec<u8>)]) -> Result<()> {
        let mut txn = self.env.begin_rw_txn()?;
        for (key, value) in pairs {
            txn.put(self.db, key, value, WriteFlags::empty())?;
        }
        Ok(txn.commit()?)
    }

    fn get(&self, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<bool> {
        InDatabase { txn: self.env.begin_ro_txn()?, db: self.db }.show(key, read)
    }

    fn remove(&self, key: &[u8]) -> Result<bool> {
        let mut txn = self.env.begin_rw_txn()?;
        match txn.del(self.db, &key, None) {
            Ok(()) => {}
            Err(Error::NotFound) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
        txn.commit()?;
        Ok(true)
    }

    fn scan_range(
        &self,
        from: &[u8],
        limit: usize,
        each: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<usize> {
        let txn = self.env.begin_ro_txn()?;
        let mut cursor = txn.open_ro_cursor(self.db)?;
        show_pairs(cursor.iter_from(from).take(limit), each)
    }

    fn scan_back(
        &self,
        from: &[u8],
        limit: usize,
        each: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<usize> {
        let txn = self.env.begin_ro_txn()?;
        let cursor = txn.open_ro_cursor(self.db)?;
        let mut at = match found(cursor.get(Some(from), None, NOT_LESS))? {
            None => found(cursor.get(None, None, LAST))?,
            Some((Some(key), _)) if key > from => found(cursor.get(None, None, PREVIOUS))?,
            is_it => is_it,
        };
        let mut count = 0;
        while let Some((key, value)) = at.filter(|_| count < limit) {
            // It tells no key if that is the one that was asked for.
            each(key.unwrap_or(from), value);
            count += 1;
            at = found(cursor.get(None, None, PREVIOUS))?;
        }
        Ok(count)
    }

    fn pop_first(&self, _least: &[u8], each: &mut dyn FnMut(&[u8], &[u8])) -> Result<bool> {
        let mut txn = self.env.begin_rw_txn()?;
        {
            let mut cursor = txn.open_rw_cursor(self.db)?;
            let Some((key, value)) = found(cursor.get(None, None, FIRST))? else {
                return Ok(false);
            };
            each(key.unwrap_or_default(), value);
            cursor.del(WriteFlags::empty())?;
        }
        txn.commit()?;
        Ok(true)
    }

    fn sync(&self) -> Result<()> {
        Ok(self.env.sync(true)?)
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.sync()
    }
}

impl Transactional for Lmdb {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(self))
    }

    fn scan_snapshot(&self, each: &mut dyn FnMut(&[u8], &[u8])) -> Result<()> {
        // There is no empty key, and none that is less than this.
        self.scan_range(&[0], usize::MAX, each).map(drop)
    }

    fn settle(&self) -> Result<()> {
        self.sync()
    }
}

impl Session for &Lmdb {
    fn transact(&mut self, access: Access, body: Body<'_>) -> Result<()> {
        match access {
            Access::Read => body(&mut InDatabase { txn: self.env.begin_ro_txn()?, db: self.db }),
            Access::Write => {
                let mut own = InDatabase { txn: self.env.begin_rw_txn()?, db: self.db };
                body(&mut own)?;
                Ok(own.txn.commit()?)
            }
        }
    }
}

/// A transaction and the database that it is about.
struct InDatabase<T> {
    txn: T,
    db: Database,
}

impl<T: lmdb::Transaction> InDatabase<T> {
    fn show(&self, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<bool> {
        match self.txn.get(self.db, &key) {
            Ok(value) => {
                read(value);
                Ok(true)
            }
            Err(Error::NotFound) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

impl Transaction for InDatabase<RoTransaction<'_>> {
    fn get(&mut self, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.show(key, read)
    }
}

impl Transaction for InDatabase<RwTransaction<'_>> {
    fn get(&mut self, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.show(key, read)
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        Ok(self.txn.put(self.db, &key, &value, WriteFlags::empty())?)
    }
}
