//! Changes that belong together.

use std::fmt;

use everleaf_pmem::fallible;
use everleaf_pmem::fallible::taken;

use crate::engine::{Buffer, Change, Engine, Share, TreeChanges, TreeHandle};
use crate::limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX, check_key, check_value};
use crate::sorted::head_of;
use crate::{AsBytes, Durability, Error, Result, Tree};

/// Names this memory in errors.
const BATCH: &str = "the changes of a batch";
/// The first piece of memory for keys and values has so many bytes, and each further one twice as many as the last
/// one, up to the other bound. A longer change gets a piece of its own.
const PIECE_BYTES: [usize; 2] = [512, 64 << 10];
/// So many of the trees that were named last are looked at, to see whether one of them is named again.
const RECENT_TREES: usize = 8;

/// Changes to any trees of one pool that a crash keeps or loses together.
///
/// Nothing happens before [`commit`](Batch::commit), and a batch that is dropped does nothing.
/// Of several changes of one key the last one counts.
///
/// A [snapshot](crate::Snapshot) and a [transaction](crate::Transaction) see all of a batch or nothing, and so does an
/// open after a crash. No two commits of batches or transactions are mixed. Single
/// reads and writes of other threads may come between two changes of a batch. A batch reads nothing; a transaction does.
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
    engine: Share<Engine>,
    durability: Durability,
    /// In the order in which they were added.
    changes: Vec<Added>,
    /// The trees that they name by their places here; some are here more than once.
    trees: Vec<TreeHandle>,
    /// Their keys and values, each pair in one piece: those that are full, and the last one.
    full: Vec<Vec<u8>>,
    piece: Vec<u8>,
    /// Bytes of all pieces.
    piece_bytes: u64,
    buffer: Buffer,
}

/// A change that was added.
#[derive(Debug, Clone, Copy)]
struct Added {
    tree: u32,
    /// Its place among all that were added.
    position: u32,
    /// The first bytes of its key, which most keys are told apart by.
    head: u64,
    /// Where its key begins; the value is behind it.
    piece: u32,
    key_len: u32,
    at: usize,
    /// None if it removes the key.
    value_len: Option<u32>,
}

const _: () = assert!(KEY_BYTES_MAX <= VALUE_BYTES_MAX && VALUE_BYTES_MAX <= u32::MAX as usize);

/// Bytes that a list with so much room takes.
fn list_bytes<T>(room: usize) -> u64 {
    taken(room.saturating_mul(size_of::<T>()))
}

/// Bytes by which a list grows to take one more: one without room grows to twice as much.
fn growth<T>(list: &Vec<T>) -> u64 {
    let room = list.capacity();
    if list.len() < room { 0 } else { list_bytes::<T>(room.max(2) * 2) - list_bytes::<T>(room) }
}

impl Drop for Batch {
    fn drop(&mut self) {
        self.buffer.forget(self.engine.buffers());
    }
}

impl Batch {
    pub(crate) fn new(engine: Share<Engine>, durability: Durability) -> Self {
        let buffer = Buffer::new(engine.buffers());
        let (changes, trees) = (Vec::new(), Vec::new());
        let (full, piece) = (Vec::new(), Vec::new());
        Batch { engine, durability, changes, trees, full, piece, piece_bytes: 0, buffer }
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
    /// - [`Invalid`](crate::Error::Invalid) if the batch has 2³² changes already.
    ///
    /// The batch stays as it was.
    pub fn put(&mut self, tree: &Tree, key: impl AsBytes, value: impl AsBytes) -> Result<()> {
        // Once: it is the caller's, and might answer otherwise the next time.
        let value = value.as_bytes();
        check_value(value)?;
        self.add(tree, key.as_bytes(), Some(value))
    }

    /// Adds a change that removes `key` from `tree` if it is there.
    ///
    /// # Errors
    ///
    /// Those of [`put`](Batch::put).
    pub fn delete(&mut self, tree: &Tree, key: impl AsBytes) -> Result<()> {
        self.add(tree, key.as_bytes(), None)
    }

    /// Returns how many changes were added, several changes of one key included.
    pub fn len(&self) -> usize {
        self.changes.len()
    }

    /// Returns whether no change was added.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// Applies all changes in one epoch. They are on disk soon after, or when this returns, as the
    /// [durability](crate::Db::with) of the [`Db`](crate::Db) says that the batch comes from. On persistent memory they
    /// are durable when this returns, and other writers wait meanwhile. O(n log n) for n changes.
    ///
    /// Before the first change, `commit` reserves room for the whole batch and reads all pages that it will
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
        let mut batch = self;
        batch.apply()?;
        batch.engine.settle(batch.durability)
    }

    fn apply(&mut self) -> Result<()> {
        if let [change] = &self.changes[..] {
            let part =
                TreeChanges { tree: self.tree(change), changes: &[self.change(change)], seen: &[] };
            return self.engine.commit(&[part], None);
        }
        self.sort()?;
        let mut all = fallible::list(self.changes.len(), BATCH)?;
        all.extend(self.changes.iter().map(|change| self.change(change)));
        let (mut parts, mut rest) = (Vec::new(), &all[..]);
        for same in self.changes.chunk_by(|a, b| a.tree == b.tree) {
            let (changes, others) = rest.split_at(same.len());
            let part = TreeChanges { tree: self.tree(&same[0]), changes, seen: &[] };
            fallible::push(&mut parts, part, BATCH)?;
            rest = others;
        }
        self.engine.commit(&parts, None)
    }

    fn tree(&self, change: &Added) -> &TreeHandle {
        &self.trees[change.tree as usize]
    }

    /// The piece that a change is in, from its key on.
    fn bytes_of(&self, change: &Added) -> &[u8] {
        &self.full.get(change.piece as usize).unwrap_or(&self.piece)[change.at..]
    }

    fn key(&self, change: &Added) -> &[u8] {
        &self.bytes_of(change)[..change.key_len as usize]
    }

    fn change(&self, change: &Added) -> Change<'_> {
        let (key, rest) = self.bytes_of(change).split_at(change.key_len as usize);
        let value = change.value_len.map(|len| &rest[..len as usize]);
        Change { key, value }
    }

    /// Sorts the changes by tree and key, and leaves the last one of each key.
    fn sort(&mut self) -> Result<()> {
        self.name_trees_once()?;
        let mut changes = std::mem::take(&mut self.changes);
        let order = |a: &Added, b: &Added| {
            let heads = (a.tree, a.head).cmp(&(b.tree, b.head));
            heads.then_with(|| self.key(a).cmp(self.key(b)))
        };
        if !changes.is_sorted_by(|a, b| order(a, b).is_lt()) {
            // The last one of a key first, so that it is the one that stays.
            changes.sort_unstable_by(|a, b| order(a, b).then(b.position.cmp(&a.position)));
            changes.dedup_by(|a, b| order(a, b).is_eq());
        }
        self.changes = changes;
        Ok(())
    }

    /// Sees to it that all changes of a tree name it by the same number.
    fn name_trees_once(&mut self) -> Result<()> {
        if self.trees.len() == 1 {
            return Ok(());
        }
        let mut ids = fallible::list(self.trees.len(), BATCH)?;
        ids.extend(self.trees.iter().map(TreeHandle::id).zip(0_u32..));
        ids.sort_unstable();
        for change in &mut self.changes {
            let id = self.trees[change.tree as usize].id();
            change.tree = ids[ids.partition_point(|(other, _)| *other < id)].1;
        }
        Ok(())
    }

    fn add(&mut self, tree: &Tree, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        check_key(key)?;
        tree.expect_of(&self.engine)?;
        let position = u32::try_from(self.changes.len()).map_err(|_| self.too_many())?;
        let recent = self.trees.iter().rev().take(RECENT_TREES);
        let known = recent.map(TreeHandle::id).position(|id| id == tree.on.id());
        let len = key.len() + value.map_or(0, <[u8]>::len);
        let is_full = self.piece.capacity() - self.piece.len() < len;
        let [first, most] = PIECE_BYTES;
        let piece_bytes = (2 * self.piece.capacity()).clamp(first, most).max(len);
        let lists = growth(&self.changes)
            + if is_full { growth(&self.full) + taken(piece_bytes) } else { 0 }
            + if known.is_none() { growth(&self.trees) } else { 0 };
        self.buffer.admit(lists)?;
        // Room that is made here stays if something after it fails, and is used next time.
        fallible::more(&mut self.changes, 1, BATCH)?;
        if is_full {
            let piece = fallible::list(piece_bytes, BATCH)?;
            if self.piece.capacity() > 0 {
                fallible::more(&mut self.full, 1, BATCH)?;
                self.full.push(std::mem::take(&mut self.piece));
            }
            self.piece = piece;
            self.piece_bytes += taken(piece_bytes);
        }
        let tree = match known {
            Some(back) => self.trees.len() - 1 - back,
            None => {
                fallible::push(&mut self.trees, tree.on.tree(), BATCH)?;
                self.trees.len() - 1
            }
        };
        let at = self.piece.len();
        self.piece.extend_from_slice(key);
        self.piece.extend_from_slice(value.unwrap_or_default());
        self.changes.push(Added {
            tree: tree as u32,
            position,
            head: head_of(key),
            piece: self.full.len() as u32,
            key_len: key.len() as u32,
            at,
            value_len: value.map(|value| value.len() as u32),
        });
        self.buffer.set(self.engine.buffers(), self.bytes());
        Ok(())
    }

    /// Bytes that all of it takes.
    fn bytes(&self) -> u64 {
        self.piece_bytes
            + list_bytes::<Added>(self.changes.capacity())
            + list_bytes::<TreeHandle>(self.trees.capacity())
            + list_bytes::<Vec<u8>>(self.full.capacity())
    }

    /// There are as many changes as can be counted.
    #[cold]
    fn too_many(&self) -> Error {
        let what = format!("a batch has at most {} changes", u32::MAX);
        Error::Invalid { what }
    }
}

impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch").field("len", &self.len()).finish_non_exhaustive()
    }
}
