//! Sessions that expire: looked up by their token, removed in the order of their expiry.
//!
//! ```sh
//! cargo run --release -p everleaf --example session_cache [POOL]
//! ```
//!
//! | tree       | key                       | value                             |
//! |------------|---------------------------|-----------------------------------|
//! | `sessions` | token (16 bytes)          | expiry (8 bytes), then the data   |
//! | `expiry`   | the pair (expiry, token)  | nothing                           |
//!
//! A lookup needs `sessions` alone: it compares the expiry that is stored with the
//! data, so a session ends on time even if nobody has removed it yet. `expiry` is an index for the
//! removal: `everleaf::keys` encodes its keys in the order of the expiries, so its first keys are the sessions that ended
//! first.
//!
//! To renew a session is to read its old expiry and then to write three keys: a transaction, so that two threads
//! that do so at once leave no index entry behind.

use std::error::Error;
use std::io::{Write, stdout};
use std::path::Path;
use std::thread;
use std::time::Duration;

use everleaf::{Db, Options, Transaction, Tree, keys};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;
type Token = [u8; 16];

struct Sessions {
    db: Db,
    sessions: Tree,
    expiry: Tree,
}

impl Sessions {
    /// Opens the cache. A crash may take the changes of the last 100 ms or so, which ends a session
    /// too early or too late: that is fine here, and saves nine of ten disk syncs.
    fn open(path: &Path) -> Result<Sessions> {
        let db = Options::new().interval(Duration::from_millis(100)).open(path)?;
        let (sessions, expiry) = (db.tree("sessions")?, db.tree("expiry")?);
        Ok(Sessions { db, sessions, expiry })
    }

    /// Starts a session that ends at `expiry`. The token is random: nobody can guess it.
    fn start(&self, data: &str, expiry: u64) -> Result<Token> {
        let token: Token = rand::random();
        self.db.try_transact(|tx| self.set(tx, &token, data.as_bytes(), None, expiry))?;
        Ok(token)
    }

    /// The data of a session, if it has not ended.
    fn get(&self, token: &Token, now: u64) -> Result<Option<Vec<u8>>> {
        let Some(stored) = self.sessions.get(token)? else { return Ok(None) };
        let (expiry, data) = split(&stored)?;
        Ok((expiry > now).then(|| data.to_vec()))
    }

    /// Lets a session end later; false if it has ended.
    fn renew(&self, token: &Token, now: u64, expiry: u64) -> Result<bool> {
        self.db.try_transact(|tx| {
            let Some(stored) = tx.get(&self.sessions, token)? else { return Ok(false) };
            let (old, data) = split(&stored)?;
            if old <= now {
                return Ok(false);
            }
            self.set(tx, token, data, Some(old), expiry)?;
            Ok(true)
        })
    }

    /// Ends a session now. It is on disk when this returns: a session that was closed stays closed.
    fn end(&self, token: &Token) -> Result<()> {
        self.db.try_transact(|tx| -> Result<()> {
            if let Some(stored) = tx.remove(&self.sessions, token)? {
                tx.delete(&self.expiry, keys::encode((split(&stored)?.0, token)))?;
            }
            Ok(())
        })?;
        Ok(self.db.sync()?)
    }

    /// Removes at most `limit` sessions that have ended; returns how many. Less than `limit` says that
    /// there are no more. The bound keeps each transaction short: one of those sessions may be renewed meanwhile,
    /// and then it is run again.
    fn expire(&self, now: u64, limit: usize) -> Result<usize> {
        self.db.try_transact(|tx| {
            let ended = tx.range(&self.expiry, ..keys::encode(now + 1)).keys().take(limit);
            let ended = ended.collect::<everleaf::Result<Vec<_>>>()?;
            for key in &ended {
                let (_, token): (u64, Token) = keys::decode(key)?;
                tx.delete(&self.sessions, token)?;
                tx.delete(&self.expiry, key)?;
            }
            Ok(ended.len())
        })
    }

    fn set(
        &self,
        tx: &Transaction,
        token: &Token,
        data: &[u8],
        old: Option<u64>,
        expiry: u64,
    ) -> Result<()> {
        if let Some(old) = old {
            tx.delete(&self.expiry, keys::encode((old, token)))?;
        }
        tx.put(&self.expiry, keys::encode((expiry, token)), "")?;
        Ok(tx.put(&self.sessions, token, [&expiry.to_be_bytes(), data].concat())?)
    }
}

/// The expiry and the data of what is stored for a session.
fn split(stored: &[u8]) -> Result<(u64, &[u8])> {
    let (expiry, data) = stored.split_first_chunk().ok_or("a session is too short")?;
    Ok((u64::from_be_bytes(*expiry), data))
}

/// The program: 1,000 sessions that end at 1 to 1,000; some are renewed while others are removed.
pub fn run(path: &Path) -> Result<()> {
    let cache = Sessions::open(path)?;
    let start = |i: u64| cache.start(&format!("user {i}"), i);
    let tokens = (1..=1000).map(start).collect::<Result<Vec<_>>>()?;
    assert_eq!(cache.get(&tokens[499], 499)?, Some(b"user 500".to_vec()));
    assert_eq!(cache.get(&tokens[499], 500)?, None); // Ended, though nothing has removed it.

    cache.end(&tokens[999])?;
    let renewed = thread::scope(|scope| {
        let renewer = scope.spawn(|| -> Result<Vec<bool>> {
            tokens.iter().step_by(10).map(|token| cache.renew(token, 400, 2000)).collect()
        });
        while cache.expire(400, 64)? == 64 {}
        renewer.join().expect("no thread panicked")
    })?;
    // Sessions 1, 11, … 991 were to be renewed; those up to 391 had ended.
    assert!(renewed.iter().enumerate().all(|(i, &renewed)| renewed == (i >= 40)));
    drop(cache);

    let cache = Sessions::open(path)?;
    while cache.expire(1000, 64)? == 64 {}
    for (token, i) in tokens.iter().zip(1..) {
        let is_there = cache.get(token, 1000)?.is_some();
        assert_eq!(is_there, i % 10 == 1 && i > 400, "session {i}");
    }
    let (sessions, entries) = (cache.sessions.iter().count(), cache.expiry.iter().count());
    assert_eq!(sessions, entries, "each session has one entry in the index");
    while cache.expire(2000, 64)? == 64 {}
    assert!(cache.sessions.first()?.is_none() && cache.expiry.first()?.is_none());
    writeln!(stdout(), "{sessions} of {} sessions were renewed in time", tokens.len())?;
    Ok(cache.db.close()?)
}

/// Runs in the pool that is named, or in one that is removed at the end.
fn main() -> Result<()> {
    match std::env::args_os().nth(1) {
        Some(path) => run(path.as_ref()),
        None => run(&tempfile::tempdir()?.path().join("sessions.ever")),
    }
}
