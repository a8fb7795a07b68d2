//! One named ordered map.

use std::fmt;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

use crate::engine::{Engine, TreeHandle, copy_bound};
use crate::limits::{check_key, check_value};
use crate::range::{Pair, Range, prefix_end};
use crate::{Durability, Result};

/// A named ordered map from byte strings to byte strings. Clones are handles to the same tree.
///
/// Reads take no latches; they wait for a writer only while it changes the very page that they
/// look at. A key that is longer than
/// [`KEY_BYTES_MAX`](crate::KEY_BYTES_MAX) is in no tree: reads find nothing, writes return
/// [`Error::KeyTooLong`](crate::Error::KeyTooLong).
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

    /// The name under which [`Db::tree`](crate::Db::tree) finds this tree.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Sets the value of `key`. Durable within the interval. The old value is not read,
    /// however large or damaged it is.
    ///
    /// # Errors
    ///
    /// [`KeyTooLong`](crate::Error::KeyTooLong), [`ValueTooLong`](crate::Error::ValueTooLong),
    /// [`ReadOnly`](crate::Error::ReadOnly), [`Full`](crate::Error::Full) if the pool has reached
    /// its limit, [`Poisoned`](crate::Error::Poisoned) after a failed disk write,
    /// [`NoMemory`](crate::Error::NoMemory), and
    /// [`Corrupt`](crate::Error::Corrupt) or [`Io`](crate::Error::Io) from a page on the way.
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.put_with(key, value, Durability::Buffered)
    }

    /// As [`put`](Tree::put), with the durability said.
    ///
    /// # Errors
    ///
    /// As [`put`](Tree::put). With [`Durability::Sync`] also those of
    /// [`Db::sync`](crate::Db::sync); then the value is set in memory, and reopening tells whether
    /// it is on disk.
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

    /// Sets the value of `key` and returns the one that it had, which costs a copy of it, and a read
    /// from the disk if it is large: who does not want it calls [`put`](Tree::put).
    ///
    /// # Errors
    ///
    /// As [`put`](Tree::put); [`Corrupt`](crate::Error::Corrupt) or [`Io`](crate::Error::Io) also if
    /// the old value cannot be read. Nothing is changed then.
    pub fn insert(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<Option<Vec<u8>>> {
        self.insert_with(key, value, Durability::Buffered)
    }

    /// As [`insert`](Tree::insert), with the durability said.
    ///
    /// # Errors
    ///
    /// As [`insert`](Tree::insert) and [`put_with`](Tree::put_with).
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

    /// The value of `key`.
    ///
    /// # Errors
    ///
    /// [`Corrupt`](crate::Error::Corrupt) or [`Io`](crate::Error::Io) from a page on the way,
    /// [`NoMemory`](crate::Error::NoMemory).
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.engine.get(&self.id, key.as_ref())
    }

    /// Whether `key` has a value. Cheaper than [`get`](Tree::get), which copies it.
    ///
    /// # Errors
    ///
    /// As [`get`](Tree::get).
    pub fn contains(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        self.engine.contains(&self.id, key.as_ref())
    }

    /// Removes `key`, if it is there. Durable within the interval. As [`put`](Tree::put) it does not
    /// read the value.
    ///
    /// # Errors
    ///
    /// As [`put`](Tree::put).
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.delete_with(key, Durability::Buffered)
    }

    /// As [`delete`](Tree::delete), with the durability said.
    ///
    /// # Errors
    ///
    /// As [`put_with`](Tree::put_with).
    pub fn delete_with(&self, key: impl AsRef<[u8]>, durability: Durability) -> Result<()> {
        let key = key.as_ref();
        check_key(key)?;
        self.engine.delete(&self.id, key)?;
        self.settle(durability)
    }

    /// Removes `key` and returns the value that it had; who does not want it calls
    /// [`delete`](Tree::delete).
    ///
    /// # Errors
    ///
    /// As [`insert`](Tree::insert).
    pub fn remove(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.remove_with(key, Durability::Buffered)
    }

    /// As [`remove`](Tree::remove), with the durability said.
    ///
    /// # Errors
    ///
    /// As [`insert_with`](Tree::insert_with).
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

    /// The pair with the smallest key.
    ///
    /// # Errors
    ///
    /// As [`get`](Tree::get).
    pub fn first(&self) -> Result<Option<Pair>> {
        self.range_of(1).next().transpose()
    }

    /// The pair with the largest key.
    ///
    /// # Errors
    ///
    /// As [`get`](Tree::get).
    pub fn last(&self) -> Result<Option<Pair>> {
        self.range_of(1).next_back().transpose()
    }

    /// The pairs whose keys are in `range`, in order; from the back with
    /// [`rev`](Iterator::rev). Nothing if the range is inverted.
    ///
    /// The compiler must see one type of key: write byte-string literals as `&b"a"[..]`, and for
    /// pairs of [`Bound`] and for `..` name it, `range::<&str, _>(..)`.
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
        Range::new(self.clone(), owned(range.start_bound()), owned(range.end_bound()))
    }

    /// The pairs whose keys start with `prefix`, in order.
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Range {
        let prefix = prefix.as_ref();
        Range::new(self.clone(), copy_bound(Bound::Included(prefix)), prefix_end(prefix))
    }

    /// All pairs, in order.
    pub fn iter(&self) -> Range {
        Range::new(self.clone(), Ok(Bound::Unbounded), Ok(Bound::Unbounded))
    }

    /// All pairs, for who wants so many.
    fn range_of(&self, pairs: usize) -> Range {
        let mut all = self.iter();
        all.expect(pairs);
        all
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
