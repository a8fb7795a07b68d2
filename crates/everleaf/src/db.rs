//! One open pool.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use everleaf_file::io::Io;

use crate::engine::Engine;
use crate::limits::check_name;
use crate::{Batch, Damage, Options, Result, Stats, Tree};

/// An open pool of named trees.
///
/// Clones are handles to the same pool, and so are its [`Tree`]s; all may be used from any thread.
/// The pool is closed, and everything in it durable, when the last of them is dropped. A drop has
/// no way to report an error: call [`Db::close`] or [`Db::sync`] to hear of one.
#[derive(Clone)]
pub struct Db {
    engine: Arc<Engine>,
}

impl Db {
    /// Opens the pool at `path` with [`Options::new`], and creates it if it is missing.
    ///
    /// # Errors
    ///
    /// As [`Options::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<Db> {
        Options::new().open(path)
    }

    pub(crate) fn open_with(io: Arc<dyn Io>, path: &Path, options: &Options) -> Result<Db> {
        Ok(Db { engine: Arc::new(Engine::open(io, path, options)?) })
    }

    /// The tree called `name`; created empty if there is none.
    ///
    /// # Errors
    ///
    /// [`TreeName`](crate::Error::TreeName) for a name of 0 bytes or of more than
    /// [`TREE_NAME_BYTES_MAX`](crate::TREE_NAME_BYTES_MAX);
    /// [`ReadOnly`](crate::Error::ReadOnly) if it is missing in a read-only pool; else those of a
    /// write.
    pub fn tree(&self, name: &str) -> Result<Tree> {
        check_name(name)?;
        let id = self.engine.create_tree(name)?;
        Ok(Tree::new(Arc::clone(&self.engine), name, id))
    }

    /// The tree called `name`, or `None` if there is none.
    ///
    /// # Errors
    ///
    /// As [`Tree::get`].
    pub fn find_tree(&self, name: &str) -> Result<Option<Tree>> {
        let id = self.engine.find_tree(name)?;
        Ok(id.map(|id| Tree::new(Arc::clone(&self.engine), name, id)))
    }

    /// The names of all trees, in bytewise order.
    ///
    /// # Errors
    ///
    /// As [`Tree::get`].
    pub fn tree_names(&self) -> Result<Vec<String>> {
        self.engine.tree_names()
    }

    /// Removes the tree called `name` and all that it holds; false if there is none. Time grows with
    /// the tree.
    ///
    /// Handles and ranges of the tree answer [`Dropped`](crate::Error::Dropped) from then on, also
    /// after another tree gets its name. Pairs go first, a little at a time: a crash, or an error, in
    /// the middle leaves the tree under its name with some of them, and it can be dropped again. What
    /// has returned is durable as a write is.
    ///
    /// # Errors
    ///
    /// As [`Tree::remove`].
    pub fn drop_tree(&self, name: &str) -> Result<bool> {
        self.engine.drop_tree(name)
    }

    /// Gives the tree called `from` the name `to`, whole or not at all whatever crashes; false if there
    /// is none. Its handles stay what they are, and so does what [`Tree::name`] says of them.
    ///
    /// # Errors
    ///
    /// [`TreeExists`](crate::Error::TreeExists) if there is a tree called `to`;
    /// [`TreeName`](crate::Error::TreeName) if no tree can be called `to`; else as [`Tree::insert`].
    pub fn rename_tree(&self, from: &str, to: &str) -> Result<bool> {
        check_name(to)?;
        self.engine.rename_tree(from, to)
    }

    /// An empty batch: changes to any trees of this pool that a crash keeps or loses together.
    pub fn batch(&self) -> Batch {
        Batch::new(Arc::clone(&self.engine))
    }

    /// Returns when every operation that returned before this call is on disk.
    ///
    /// Threads that call at the same time share one disk sync.
    ///
    /// # Errors
    ///
    /// The failure of this or an earlier write to the disk. Then it is unknown whether the
    /// operations since the last success are durable; reopening tells. After
    /// [`NoMemory`](crate::Error::NoMemory) nothing is lost: call it again.
    pub fn sync(&self) -> Result<()> {
        self.engine.sync()
    }

    /// Writes all changed pages to the data file and empties the journal, so that the next open has
    /// less to do. A pool with [background](Options::background) threads does it by itself when the
    /// journal is half full. Others go on reading and writing meanwhile. Nothing on persistent
    /// memory, which has no journal.
    ///
    /// # Errors
    ///
    /// As [`Db::sync`]; those of reading pages that the journal has changes for;
    /// [`ReadOnly`](crate::Error::ReadOnly).
    pub fn checkpoint(&self) -> Result<()> {
        self.engine.checkpoint()
    }

    /// The current epoch: every operation that returned before this call is in this epoch or an
    /// earlier one. Together with [`durable_epoch`](Db::durable_epoch) it tells, without waiting,
    /// when work is durable.
    ///
    /// ```
    /// # fn main() -> everleaf::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = everleaf::Db::open(dir.path().join("p.ever"))?;
    /// db.tree("t")?.insert("k", "v")?;
    /// let mark = db.epoch();
    /// // ... other work ...
    /// # db.sync()?;
    /// let durable = db.durable_epoch() >= mark;
    /// # assert!(durable);
    /// # Ok(())
    /// # }
    /// ```
    pub fn epoch(&self) -> u64 {
        self.engine.epochs().0
    }

    /// The last epoch that is on disk, with all before it. It never decreases while the pool is
    /// open, and reaches [`epoch`](Db::epoch) about an interval later even if nothing is written.
    /// On persistent memory both are 0: what has returned is durable.
    pub fn durable_epoch(&self) -> u64 {
        self.engine.epochs().1
    }

    /// Counts of everything in the pool. Walks all trees: time grows with the pool.
    ///
    /// Others may write meanwhile: each node is counted as it is when the walk passes.
    ///
    /// # Errors
    ///
    /// As [`Tree::get`].
    pub fn stats(&self) -> Result<Stats> {
        crate::walk::stats(&self.engine)
    }

    /// Walks every byte of the pool and names each damage that it finds; empty if it is sound. Others
    /// may write meanwhile: what they are at work on is never taken for damage.
    ///
    /// # Errors
    ///
    /// Only what keeps it from looking, such as a failed read; damage is in the list.
    pub fn check(&self) -> Result<Vec<Damage>> {
        crate::walk::check(&self.engine)
    }

    /// Makes everything durable, marks the pool as cleanly closed and releases it at once, whatever
    /// other handles of it live on, and whatever processes were forked meanwhile. These handles answer
    /// [`Closed`](crate::Error::Closed) from now on.
    ///
    /// A process that was forked from this one has handles that are not its own: all that they can
    /// answer is [`Forked`](crate::Error::Forked), and dropping them does nothing.
    ///
    /// # Errors
    ///
    /// As [`Db::sync`]. The pool is released in any case.
    pub fn close(self) -> Result<()> {
        self.engine.close()
    }
}

impl fmt::Debug for Db {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Db").field("epoch", &self.epoch()).finish_non_exhaustive()
    }
}
