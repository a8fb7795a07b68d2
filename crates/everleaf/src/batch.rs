//! Changes that belong together.

use std::fmt;

use everleaf_pmem::fallible;
use everleaf_pmem::fallible::taken;

use crate::engine::{BatchChange, Buffer, Engine};
use crate::limits::{check_key, check_value};
use crate::{AsBytes, Durability, Result, Tree};

/// Changes to any trees of one pool that a crash keeps or loses together.
///
/// Nothing happens before [`commit`](Batch::commit), and a batch that is dropped does nothing.
/// `commit` applies the changes in the order in which they were added.
///
/// A [snapshot](crate::Snapshot) and a [transaction](crate::Transaction) see all of a batch or nothing, and so does an
/// open after a crash. Batches and transactions run one after the other, so no two are mixed. Single
/// reads and writes of other threads may come between two changes of a batch. A batch reads nothing; use a transaction
/// for that.
///
/// A batch is in memory as a whole. [`Options::transaction_memory`](crate::Options::transaction_memory) bounds its
/// changes. While it is committed, their records, which are about as long, and the pages that it changes are in memory,
/// too, and nothing else bounds those. Divide a larger load into several batches, or end epochs yourself
/// ([`Options::background`](crate::Options::background)).
///
/// ```
/// # fn main() -> everleaf::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = everleaf::Db::open(dir.path().join("p.ever"))?;
/// let (by_name, by_age) = (db.tree("by-name")?, db.tree("by-age")?);
/// let mut batch = db.batch();
/// batch.put(&by_name, "ada", "36")?;
/// batch.put(&by_age, "036/ada", "")?;
/// batch.commit()?;
/// # assert!(by_age.contains("036/ada")?);
/// # Ok(())
/// # }
/// ```
#[must_use = "a batch does nothing until it is committed"]
pub struct Batch {
    engine: Engine,
    durability: Durability,
    changes: Vec<BatchChange>,
    /// Bytes that keys and values take.
    data_bytes: u64,
    buffer: Buffer,
}

/// What a list of so many changes takes.
fn list_bytes(room: usize) -> u64 {
    taken(room.saturating_mul(size_of::<BatchChange>()))
}

impl Batch {
    pub(crate) fn new(engine: Engine, durability: Durability) -> Self {
        let buffer = Buffer::new(engine.buffers());
        Batch { engine, durability, changes: Vec::new(), data_bytes: 0, buffer }
    }

    /// Adds a change that sets the value of `key` in `tree`. Both are copied.
    ///
    /// # Errors
    ///
    /// - [`KeyTooLong`](crate::Error::KeyTooLong) or [`ValueTooLong`](crate::Error::ValueTooLong).
    /// - [`OtherPool`](crate::Error::OtherPool) if the tree belongs to another pool.
    /// - [`NoMemory`](crate::Error::NoMemory) if an allocation failed.
    /// - [`TransactionTooLarge`](crate::Error::TransactionTooLarge) if the batch would take more memory than
    ///   [`Options::transaction_memory`](crate::Options::transaction_memory).
    ///
    /// The batch stays as it was.
    pub fn put(&mut self, tree: &Tree, key: impl AsBytes, value: impl AsBytes) -> Result<()> {
        check_value(value.as_bytes())?;
        self.add(tree, key.as_bytes(), Some(value.as_bytes()))
    }

    /// Adds a change that removes `key` from `tree` if it is there.
    ///
    /// # Errors
    ///
    /// Those of [`put`](Batch::put).
    pub fn delete(&mut self, tree: &Tree, key: impl AsBytes) -> Result<()> {
        self.add(tree, key.as_bytes(), None)
    }

    /// Returns how many changes were added.
    pub fn len(&self) -> usize {
        self.changes.len()
    }

    /// Returns whether no change was added.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// Applies all changes in one epoch. They are on disk within the interval, or when this returns, as the
    /// [durability](crate::Db::with) of the [`Db`](crate::Db) says that the batch comes from. On persistent memory they
    /// are durable when this returns, and other writers wait meanwhile.
    ///
    /// Before the first change, `commit` reserves room for the whole batch and reads all that it will
    /// change. If the pool is nearly full, other writers wait while it counts that room; the count is
    /// careful, so the last few pages may stay unused. A batch of one change is a plain write.
    ///
    /// # Errors
    ///
    /// Those of [`Tree::put`]; then nothing has changed. The exception is a failure after the first
    /// change, by a failed read, a failed allocation, or a disk that was filled meanwhile. On
    /// a file, some of the changes are then visible until the pool is opened again, all writes stop with
    /// [`Poisoned`](crate::Error::Poisoned), and none of the changes becomes durable. On persistent memory, the changes that
    /// were made are undone.
    ///
    /// With [`Durability::Sync`] also those of [`Db::sync`](crate::Db::sync): then all changes are visible, and it is
    /// unknown whether they are on disk until the pool is opened again.
    pub fn commit(self) -> Result<()> {
        self.engine.commit(&self.changes)?;
        self.engine.settle(self.durability)
    }

    fn add(&mut self, tree: &Tree, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        check_key(key)?;
        tree.expect_of(&self.engine)?;
        let data_bytes = taken(key.len()) + value.map_or(0, |value| taken(value.len()));
        // A list without room grows to twice as much.
        let (len, room) = (self.changes.len(), self.changes.capacity());
        let grown = if len == room { list_bytes(room.max(2) * 2) - list_bytes(room) } else { 0 };
        self.buffer.admit(data_bytes + grown)?;
        let value = value.map(|value| fallible::copy(value, "a value of a batch")).transpose()?;
        let key = fallible::copy(key, "a key of a batch")?;
        let change = BatchChange { tree: tree.on.tree(), key, value };
        fallible::push(&mut self.changes, change, "a batch")?;
        self.data_bytes += data_bytes;
        self.buffer.set(self.data_bytes + list_bytes(self.changes.capacity()));
        Ok(())
    }
}

impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch").field("len", &self.len()).finish_non_exhaustive()
    }
}
