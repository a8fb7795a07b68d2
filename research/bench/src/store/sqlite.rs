//! SQLite: a write-ahead log that is synced by checkpoints and not by commits.

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::Result;
use rusqlite::{Connection, OptionalExtension as _, Params, params};

use super::api::{How, KvStore, SyncMode};
use super::transact::{Access, Body, Session, Transaction, Transactional};

const PUT: &str = "INSERT INTO bench (key, value) VALUES (?1, ?2) \
                   ON CONFLICT (key) DO UPDATE SET value = excluded.value";

/// One table of two blobs.
pub struct Sqlite {
    path: PathBuf,
    cache_bytes: u64,
    mode: SyncMode,
    /// Connections that no thread uses.
    idle: Mutex<Vec<Connection>>,
    /// A thread that writes has it. SQLite itself has no queue: a thread that finds another writing sleeps for a
    /// millisecond or more before it looks again.
    turn: Mutex<()>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a statement, which is parsed once for each connection; returns how many rows it has changed.
fn execute(connection: &Connection, text: &str, with: impl Params) -> Result<usize> {
    Ok(connection.prepare_cached(text)?.execute(with)?)
}

impl Sqlite {
    /// Opens a database in a folder, or makes it.
    pub fn open(how: &How) -> Result<Self> {
        let own = Self {
            path: how.dir.join("bench.sqlite"),
            cache_bytes: how.cache_bytes(),
            mode: how.mode,
            idle: Mutex::default(),
            turn: Mutex::default(),
        };
        own.with(|connection| {
            let table = "CREATE TABLE IF NOT EXISTS bench \
                         (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID";
            execute(connection, table, [])
        })?;
        Ok(own)
    }

    fn connect(&self) -> Result<Connection> {
        let connection = Connection::open(&self.path)?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        let synchronous = match self.mode {
            SyncMode::Buffered => "NORMAL",
            SyncMode::SyncEach => "FULL",
        };
        connection.pragma_update(None, "synchronous", synchronous)?;
        // A negative number is one of KiB.
        connection.pragma_update(None, "cache_size", -((self.cache_bytes >> 10) as i64))?;
        Ok(connection)
    }

    /// Runs something with a connection that no other thread uses.
    fn with<T>(&self, run: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        let idle = lock(&self.idle).pop();
        let connection = idle.map_or_else(|| self.connect(), Ok)?;
        let answer = run(&connection);
        lock(&self.idle).push(connection);
        answer
    }

    /// Runs something in a transaction, and commits it unless it answers an error.
    fn within<T>(
        &self,
        connection: &Connection,
        access: Access,
        run: impl FnOnce(&Connection) -> Result<T>,
    ) -> Result<T> {
        let (_turn, begin) = match access {
            Access::Read => (None, "BEGIN"),
            Access::Write => (Some(lock(&self.turn)), "BEGIN IMMEDIATE"),
        };
        execute(connection, begin, [])?;
        let answer = run(connection);
        execute(connection, if answer.is_ok() { "COMMIT" } else { "ROLLBACK" }, [])?;
        answer
    }

    /// Runs a statement that is a transaction of its own.
    fn write(&self, text: &str, with: impl Params) -> Result<usize> {
        let _turn = lock(&self.turn);
        self.with(|connection| execute(connection, text, with))
    }

    /// Shows the pairs that a statement selects from a key on; returns how many.
    fn scan(
        &self,
        select: &str,
        (from, limit): (&[u8], usize),
        each: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<usize> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.with(|connection| {
            let mut select = connection.prepare_cached(select)?;
            let mut rows = select.query(params![from, limit])?;
            let mut count = 0;
            while let Some(row) = rows.next()? {
                each(row.get_ref(0)?.as_blob()?, row.get_ref(1)?.as_blob()?);
                count += 1;
            }
            Ok(count)
        })
    }
}

/// Shows the value of a key, as the transaction of a connection sees it, or as it is now.
fn show(connection: &Connection, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<bool> {
    let mut select = connection.prepare_cached("SELECT value FROM bench WHERE key = ?1")?;
    let found = select.query_row([key], |row| {
        read(row.get_ref(0)?.as_blob()?);
        Ok(())
    });
    Ok(found.optional()?.is_some())
}

impl KvStore for Sqlite {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.write(PUT, params![key, value]).map(drop)
    }

    fn put_all(&self, pairs: &[(Vec<u8>, Vec<u8>)]) -> Result<()> {
        self.with(|connection| {
            self.within(connection, Access::Write, |connection| {
                let mut put = connection.prepare_cached(PUT)?;
                for (key, value) in pairs {
                    put.execute(params![key, value])?;
                }
                Ok(())
            })
        })
    }

    fn get(&self, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.with(|connection| show(connection, key, read))
    }

    fn remove(&self, key: &[u8]) -> Result<bool> {
        Ok(self.write("DELETE FROM bench WHERE key = ?1", [key])? > 0)
    }

    fn scan_range(
        &self,
        from: &[u8],
        limit: usize,
        each: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<usize> {
        let select = "SELECT key, value FROM bench WHERE key >= ?1 ORDER BY key LIMIT ?2";
        self.scan(select, (from, limit), each)
    }

    fn scan_back(
        &self,
        from: &[u8],
        limit: usize,
        each: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<usize> {
        let select = "SELECT key, value FROM bench WHERE key <= ?1 ORDER BY key DESC LIMIT ?2";
        self.scan(select, (from, limit), each)
    }

    fn sync(&self) -> Result<()> {
        let _turn = lock(&self.turn);
        self.with(|connection| {
            // It syncs the log, and then the database, to which it has copied the log.
            Ok(connection.query_row("PRAGMA wal_checkpoint(FULL)", [], |_| Ok(()))?)
        })
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.sync()
    }
}

impl Transactional for Sqlite {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(Thread { store: self, connection: self.connect()? }))
    }

    fn scan_snapshot(&self, each: &mut dyn FnMut(&[u8], &[u8])) -> Result<()> {
        self.scan_range(&[], usize::MAX, each).map(drop)
    }

    fn settle(&self) -> Result<()> {
        self.sync()
    }
}

/// A connection of a thread.
struct Thread<'s> {
    store: &'s Sqlite,
    connection: Connection,
}

impl Session for Thread<'_> {
    fn transact(&mut self, access: Access, body: Body<'_>) -> Result<()> {
        self.store.within(&self.connection, access, |connection| body(&mut &*connection))
    }
}

impl Transaction for &Connection {
    fn get(&mut self, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<bool> {
        show(self, key, read)
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        execute(self, PUT, params![key, value]).map(drop)
    }
}
