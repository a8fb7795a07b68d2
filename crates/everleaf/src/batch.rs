//! Changes that belong together.

use std::fmt;
use std::sync::Arc;

use everleaf_pmem::fallible;

use crate::engine::{Change, Engine};
use crate::limits::{check_key, check_value};
use crate::{Durability, Error, Result, Tree};

/// Changes to any trees of one pool that a crash keeps or loses together.
///
/// Nothing is written before [`commit`](Batch::commit); a batch that is dropped does nothing.
/// Changes apply in the order in which they were added. Other threads may see some of them before
/// the rest while `commit` runs: a batch is atomic with respect to crashes, not to readers. Batches
/// run one after the other, so none is mixed with another; single writes of other threads may come
/// between two changes of a batch.
///
/// ```
/// # fn main() -> everleaf::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = everleaf::Db::open(dir.path().join("p.ever"))?;
/// let (by_name, by_age) = (db.tree("by-name")?, db.tree("by-age")?);
/// let mut batch = db.batch();
/// batch.insert(&by_name, "ada", "36")?;
/// batch.insert(&by_age, "036/ada", "")?;
/// batch.commit()?;
/// # assert!(by_age.contains("036/ada")?);
/// # Ok(())
/// # }
/// ```
#[must_use = "a batch does nothing until it is committed"]
pub struct Batch {
    engine: Arc<Engine>,
    changes: Vec<Change>,
}

impl Batch {
    pub(crate) fn new(engine: Arc<Engine>) -> Self {
        Batch { engine, changes: Vec::new() }
    }

    /// Adds: set the value of `key` in `tree`.
    ///
    /// # Errors
    ///
    /// [`Error::KeyTooLong`], [`Error::ValueTooLong`]; [`Error::OtherPool`] for a tree of another pool;
    /// [`Error::NoMemory`]. The batch is as before.
    pub fn insert(
        &mut self,
        tree: &Tree,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<()> {
        check_value(value.as_ref())?;
        self.add(tree, key.as_ref(), Some(value.as_ref()))
    }

    /// Adds: remove `key` from `tree`, if it is there.
    ///
    /// # Errors
    ///
    /// As [`insert`](Batch::insert).
    pub fn remove(&mut self, tree: &Tree, key: impl AsRef<[u8]>) -> Result<()> {
        self.add(tree, key.as_ref(), None)
    }

    /// How many changes were added.
    pub fn len(&self) -> usize {
        self.changes.len()
    }

    /// Whether nothing was added.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// Applies all changes in one epoch. Durable within the interval; on persistent memory when it
    /// returns, and other writers wait meanwhile.
    ///
    /// # Errors
    ///
    /// As [`Tree::insert`]; nothing has happened then. Room for the whole batch is made sure of before
    /// its first change, and all that it changes is read. Where room is scarce that is counted with
    /// some care and not to the last page, and other writers wait meanwhile; a batch of one change is
    /// a plain write. If a later change fails all the same, by a failed read or for want of memory,
    /// some of the changes are visible until the pool is reopened, and all writes stop with
    /// [`Error::Poisoned`]; what is on disk is all or nothing.
    pub fn commit(self) -> Result<()> {
        self.commit_with(Durability::Buffered)
    }

    /// As [`commit`](Batch::commit), with the durability said.
    ///
    /// # Errors
    ///
    /// As [`commit`](Batch::commit); with [`Durability::Sync`] also those of
    /// [`Db::sync`](crate::Db::sync).
    pub fn commit_with(self, durability: Durability) -> Result<()> {
        self.engine.commit(&self.changes)?;
        match durability {
            Durability::Buffered => Ok(()),
            Durability::Sync => self.engine.sync(),
        }
    }

    fn add(&mut self, tree: &Tree, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        check_key(key)?;
        if !Arc::ptr_eq(&self.engine, &tree.engine) {
            return Err(Error::OtherPool { name: tree.name().to_owned() });
        }
        let value = value.map(|value| fallible::copy(value, "a value of a batch")).transpose()?;
        let key = fallible::copy(key, "a key of a batch")?;
        fallible::push(&mut self.changes, Change { tree: tree.id.clone(), key, value }, "a batch")
    }
}

impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch").field("len", &self.len()).finish_non_exhaustive()
    }
}
