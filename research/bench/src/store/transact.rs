//! Transactions of the stores that have them: reads and writes that happen together, alone, or not at all.

use anyhow::{Result, bail};

/// How a transaction will access the store. Programs know it, and some stores are faster if they are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// It only reads.
    Read,
    /// It may write.
    Write,
}

/// The work of a transaction. It may be run several times.
pub type Body<'b> = &'b mut dyn FnMut(&mut dyn Transaction) -> Result<()>;

/// A store whose transactions are serializable. Any number of threads use it at once, each by a session.
pub trait Transactional: Send + Sync {
    /// The session that a thread of a program keeps: a connection, where there are some.
    fn session(&self) -> Result<Box<dyn Session + '_>>;

    /// Shows all pairs as they are at one moment, ascending, while others write.
    fn scan_snapshot(&self, each: &mut dyn FnMut(&[u8], &[u8])) -> Result<()>;

    /// Does now what writes have left for the background, as far as the store can be asked to.
    fn settle(&self) -> Result<()>;
}

/// A store as one thread uses it.
pub trait Session {
    /// Runs `body` in a transaction and commits it; runs it again if others were in its way. If `body`
    /// answers an error, nothing has happened.
    fn transact(&mut self, access: Access, body: Body<'_>) -> Result<()>;
}

/// Reads and writes of one transaction, which sees its own writes.
pub trait Transaction {
    /// Shows the value of a key to `read`; returns whether it is there.
    fn get(&mut self, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<bool>;

    /// Sets the value of a key.
    fn put(&mut self, _key: &[u8], _value: &[u8]) -> Result<()> {
        bail!("this transaction only reads")
    }
}

/// How an attempt of a transaction ended whose store lets it fail at its commit.
#[cfg(any(feature = "fjall", feature = "rocksdb"))]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attempt {
    /// It has happened.
    Done,
    /// Others were in its way, and nothing has happened.
    Conflict,
}

/// Makes attempts until one is done.
#[cfg(any(feature = "fjall", feature = "rocksdb"))]
pub fn until_done(mut attempt: impl FnMut() -> Result<Attempt>) -> Result<()> {
    while attempt()? == Attempt::Conflict {
        std::thread::yield_now();
    }
    Ok(())
}

#[cfg(test)]
mod tests;
