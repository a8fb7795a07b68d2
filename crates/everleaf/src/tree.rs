//! One named ordered map.

use std::fmt;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

use crate::engine::{Engine, TreeHandle};
use crate::limits::{check_key, check_value};
use crate::range::{Pair, Range, copy_bound, prefix_end};
use crate::{Durability, Result};

/// A named ordered map from byte strings to byte strings. Clones are handles to the same tree.
///
/// A read waits for a writer only while that writer changes the very page that the read looks at. Reads
/// take no latches, unless writers disturb them several times in a row: then one descent latches the
/// nodes on its way, so that it comes to an end. The time of an operation grows with the logarithm of the
/// number of pairs, and with the length of key and value.
///
/// If a key is longer than [`KEY_BYTES_MAX`](crate::KEY_BYTES_MAX), reads find nothing and writes
/// return [`Error::KeyTooLong`](crate::Error::KeyTooLong).
#[derive(Clone)]
pub struct Tree {
    pub(crate) engine: Arc<Engine>,
    pub(crate) id: TreeHandle,
    name: Arc<str>,
}

impl Tree {
    pub(crate) fn new(engine: Arc<Engine>, name: &str, id: TreeHandle) -> Self {
        Tree { engine, id, name: name.into() }
    }

    /// Returns the name that this handle was opened with.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Sets the value of `key`. The change is durable within the interval. The old value is not read,
    /// so it does not matter how large it is, or whether it is damaged.
    ///
    /// # Errors
    ///
    /// - [`KeyTooLong`](crate::Error::KeyTooLong) or [`ValueTooLong`](crate::Error::ValueTooLong).
    /// - [`ReadOnly`](crate::Error::ReadOnly) if the pool was opened read-only.
    /// - [`Full`](crate::Error::Full) if the pool has reached its limit.
    /// - [`Poisoned`](crate::Error::Poisoned) after a failed write to the disk.
    /// - [`NoMemory`](crate::Error::NoMemory) if an allocation failed.
    /// - [`Corrupt`](crate::Error::Corrupt) or [`Io`](crate::Error::Io) if a page on the way to the key
    ///   cannot be read.
    /// - [`Closed`](crate::Error::Closed), [`Dropped`](crate::Error::Dropped) or
    ///   [`Forked`](crate::Error::Forked) if the handle is not valid any more.
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.put_with(key, value, Durability::Buffered)
    }

    /// Like [`put`](Tree::put), with explicit durability.
    ///
    /// # Errors
    ///
    /// Those of [`put`](Tree::put). With [`Durability::Sync`] also those of
    /// [`Db::sync`](crate::Db::sync): then the value is set in memory, and it is unknown whether it is
    /// on disk until the pool is opened again.
    pub fn put_with(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        durability: Durability,
    ) -> Result<()> {
        let (key, value) = (key.as_ref(), value.as_ref());
        check_key(key)?;
        check_value(value)?;
        self.engine.put(&self.id, key, value)?;
        self.settle(durability)
    }

    /// Sets the value of `key` and returns the old one. This costs a copy of the old value, and a read
    /// from the disk if that is large. Use [`put`](Tree::put) if you do not need it.
    ///
    /// # Errors
    ///
    /// Those of [`put`](Tree::put). [`Corrupt`](crate::Error::Corrupt) or [`Io`](crate::Error::Io) if
    /// the old value cannot be read; then nothing changes.
    pub fn insert(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<Option<Vec<u8>>> {
        self.insert_with(key, value, Durability::Buffered)
    }

    /// Like [`insert`](Tree::insert), with explicit durability.
    ///
    /// # Errors
    ///
    /// Those of [`insert`](Tree::insert) and of [`put_with`](Tree::put_with).
    pub fn insert_with(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        durability: Durability,
    ) -> Result<Option<Vec<u8>>> {
        let (key, value) = (key.as_ref(), value.as_ref());
        check_key(key)?;
        check_value(value)?;
        let old = self.engine.insert(&self.id, key, value)?;
        self.settle(durability)?;
        Ok(old)
    }

    /// Returns the value of `key`, or `None` if the key is not there.
    ///
    /// # Errors
    ///
    /// - [`Corrupt`](crate::Error::Corrupt) or [`Io`](crate::Error::Io) if a page on the way to the key,
    ///   or the value, cannot be read.
    /// - [`NoMemory`](crate::Error::NoMemory) if an allocation failed.
    /// - [`Closed`](crate::Error::Closed), [`Dropped`](crate::Error::Dropped) or
    ///   [`Forked`](crate::Error::Forked) if the handle is not valid any more.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.engine.get(&self.id, key.as_ref())
    }

    /// Returns whether `key` is there. This is cheaper than [`get`](Tree::get), which copies the value.
    ///
    /// # Errors
    ///
    /// Those of [`get`](Tree::get).
    pub fn contains(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        self.engine.contains(&self.id, key.as_ref())
    }

    /// Removes `key` if it is there. The change is durable within the interval. Like
    /// [`put`](Tree::put), this does not read the value.
    ///
    /// # Errors
    ///
    /// Those of [`put`](Tree::put).
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.delete_with(key, Durability::Buffered)
    }

    /// Like [`delete`](Tree::delete), with explicit durability.
    ///
    /// # Errors
    ///
    /// Those of [`put_with`](Tree::put_with).
    pub fn delete_with(&self, key: impl AsRef<[u8]>, durability: Durability) -> Result<()> {
        let key = key.as_ref();
        check_key(key)?;
        self.engine.delete(&self.id, key)?;
        self.settle(durability)
    }

    /// Removes `key` and returns the value that it had. If several threads remove a key at once, one of
    /// them gets the value. Use [`delete`](Tree::delete) if you do not need it.
    ///
    /// # Errors
    ///
    /// Those of [`insert`](Tree::insert).
    pub fn remove(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.remove_with(key, Durability::Buffered)
    }

    /// Like [`remove`](Tree::remove), with explicit durability.
    ///
    /// # Errors
    ///
    /// Those of [`insert_with`](Tree::insert_with).
    pub fn remove_with(
        &self,
        key: impl AsRef<[u8]>,
        durability: Durability,
    ) -> Result<Option<Vec<u8>>> {
        let key = key.as_ref();
        check_key(key)?;
        let old = self.engine.remove(&self.id, key)?;
        self.settle(durability)?;
        Ok(old)
    }

    /// Returns the pair with the smallest key, or `None` if the tree is empty.
    ///
    /// # Errors
    ///
    /// Those of [`get`](Tree::get).
    pub fn first(&self) -> Result<Option<Pair>> {
        self.range_of(1).next().transpose()
    }

    /// Returns the pair with the largest key, or `None` if the tree is empty.
    ///
    /// # Errors
    ///
    /// Those of [`get`](Tree::get).
    pub fn last(&self) -> Result<Option<Pair>> {
        self.range_of(1).next_back().transpose()
    }

    /// Iterates over the pairs whose keys are in `range`, in order. [`rev`](Iterator::rev) turns the
    /// order round. A range that ends before it begins is empty.
    ///
    /// Both ends of a range must have one type: write byte strings of different lengths as
    /// `&b"a"[..]`. For pairs of [`Bound`] and for `..` name the type: `range::<&str, _>(..)`.
    ///
    /// ```
    /// # fn main() -> everleaf::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = everleaf::Db::open(dir.path().join("p.ever"))?;
    /// let days = db.tree("days")?;
    /// for day in ["05-30", "06-01", "06-02", "07-01"] {
    ///     days.insert(day, "")?;
    /// }
    /// assert_eq!(days.range("06-01".."07-01").count(), 2);
    /// assert_eq!(days.range("06-02"..).count(), 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn range<K: AsRef<[u8]>, R: RangeBounds<K>>(&self, range: R) -> Range {
        let owned = |bound: Bound<&K>| copy_bound(bound.map(AsRef::as_ref));
        self.within(owned(range.start_bound()), owned(range.end_bound()))
    }

    /// Iterates over the pairs whose keys start with `prefix`, in order.
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Range {
        let prefix = prefix.as_ref();
        self.within(copy_bound(Bound::Included(prefix)), prefix_end(prefix))
    }

    /// Iterates over all pairs, in order.
    pub fn iter(&self) -> Range {
        self.within(Ok(Bound::Unbounded), Ok(Bound::Unbounded))
    }

    /// Iterates over all pairs, for a caller who expects to take `pairs` of them.
    fn range_of(&self, pairs: usize) -> Range {
        let mut all = self.iter();
        all.expect(pairs);
        all
    }

    fn within(&self, from: Result<Bound<Vec<u8>>>, to: Result<Bound<Vec<u8>>>) -> Range {
        Range::new((Arc::clone(&self.engine), self.id.clone(), Arc::clone(&self.name)), from, to)
    }

    fn settle(&self, durability: Durability) -> Result<()> {
        match durability {
            Durability::Buffered => Ok(()),
            Durability::Sync => self.engine.sync(),
        }
    }
}

impl IntoIterator for &Tree {
    type Item = Result<Pair>;
    type IntoIter = Range;

    fn into_iter(self) -> Range {
        self.iter()
    }
}

impl fmt::Debug for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Tree").field(&self.name).finish()
    }
}
