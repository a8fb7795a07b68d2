//! One named ordered map.

use std::fmt;
use std::io::Read;
use std::mem;
use std::sync::Arc;

use everleaf_tree::FoundValue;

use crate::bytes::with_spare;
use crate::cursor::{Cursor, Pair, Source};
use crate::engine::{Cut, Engine, Move, PoolTree, Share, Shares, TreeHandle, ValueSource};
use crate::limits::{check_key, check_value, check_value_len};
use crate::range::{Keys, OwnedBounds, Range};
use crate::read_tree::sealed;
use crate::{AsBytes, Bytes, Durability, Error, KeyRange, ReadTree, Result};

/// A named ordered map from byte strings to byte strings. Clones are handles to the same tree.
///
/// A read waits for a writer only while that writer changes the very page that the read looks at, and for the disk only
/// if a page is not in memory or the value is a large one. Reads take no latches, unless writers disturb them several
/// times in a row: then one descent latches the nodes on its way, so that it comes to an end. The time of an operation
/// grows with the logarithm of the number of pairs, and with the length of key and value.
/// If other threads are in a call's way for more than ten minutes, it returns [`Stuck`](crate::Error::Stuck).
///
/// If a key is longer than [`KEY_BYTES_MAX`](crate::KEY_BYTES_MAX), reads find nothing and writes
/// return [`Error::KeyTooLong`](crate::Error::KeyTooLong).
#[derive(Clone)]
pub struct Tree {
    pub(crate) on: PoolTree,
    durability: Durability,
    /// After what has the pool, which is closed while its trees are there.
    own: Arc<Own>,
}

/// The part that a handle has in common with its clones.
#[derive(Debug)]
struct Own {
    name: Arc<str>,
    shares: Shares<NamedTree>,
}

/// A tree, for whoever has its pool.
pub(crate) struct NamedTree {
    pub tree: TreeHandle,
    pub name: Arc<str>,
}

impl NamedTree {
    /// Others have changed what an attempt has read or written at a key.
    pub fn conflict(&self, key: Vec<u8>) -> Error {
        Error::Conflict { tree: (&*self.name).into(), key, attempts: 1 }
    }
}

impl Tree {
    pub(crate) fn new(on: PoolTree, name: &str, durability: Durability) -> Self {
        Tree { on, durability, own: Arc::new(Own { name: name.into(), shares: Shares::default() }) }
    }

    /// The tree, for a transaction of this thread.
    #[inline]
    pub(crate) fn share(&self) -> Share<NamedTree> {
        let Own { name, shares } = &*self.own;
        shares.take(|| NamedTree { tree: self.on.tree(), name: Arc::clone(name) })
    }

    /// Returns the name that this handle was opened with.
    pub fn name(&self) -> &str {
        &self.own.name
    }

    /// Returns a handle to the same tree whose writes have this durability. This costs no more than a clone, which
    /// is next to nothing beside a disk sync; a program that writes in both ways may keep two handles.
    ///
    /// A handle from [`Db::tree`](crate::Db::tree) has the durability of that [`Db`](crate::Db), which is
    /// [`Options::durability`](crate::Options::durability) unless [`Db::with`](crate::Db::with) says otherwise. Reads
    /// are the same through all handles. So are the changes of a batch or a transaction, which have the durability of
    /// the `Db` that they come from, whatever that of their trees is.
    ///
    /// ```
    /// use everleaf::Durability;
    ///
    /// # fn main() -> everleaf::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = everleaf::Db::open(dir.path().join("p.ever"))?;
    /// let orders = db.tree("orders")?;
    /// orders.put("1", "open")?; // on disk within about 10 ms
    /// orders.with(Durability::Sync).put("1", "paid")?; // on disk now, and so is the line before
    /// # assert!(db.durable_epoch() > 0);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn with(&self, durability: Durability) -> Self {
        Self { durability, ..self.clone() }
    }

    /// Sets the value of `key`. Other threads see it when this returns. It is on disk soon after, or when this returns, as
    /// the handle's [durability](Durability) says. The old value is not read, however large it is, unless an open
    /// [snapshot](crate::Snapshot) or transaction needs it; if it is damaged, the write goes on all the same. O(log n),
    /// and O(bytes) for key and value.
    ///
    /// # Errors
    ///
    /// - [`KeyTooLong`](crate::Error::KeyTooLong) or [`ValueTooLong`](crate::Error::ValueTooLong).
    /// - [`ReadOnly`](crate::Error::ReadOnly) if the pool was opened read-only.
    /// - [`Full`](crate::Error::Full) if the pool has reached its limit.
    /// - [`Poisoned`](crate::Error::Poisoned) after a failed write or sync of the file.
    /// - [`NoMemory`](crate::Error::NoMemory) if an allocation failed.
    /// - [`Corrupt`](crate::Error::Corrupt) or [`Io`](crate::Error::Io) if a page on the way to the key
    ///   cannot be read.
    /// - [`Io`](crate::Error::Io) if the disk has no room for this value, or for earlier writes that still wait.
    /// - [`EpochTooLarge`](crate::Error::EpochTooLarge) if the program ends epochs itself, this one has changed
    ///   what [memory](crate::Options::memory) can hold, and no checkpoint could write that.
    /// - [`Closed`](crate::Error::Closed), [`NoTree`](crate::Error::NoTree) or
    ///   [`Forked`](crate::Error::Forked) if the handle is not valid any more.
    ///
    /// With [`Durability::Sync`] also those of [`Db::sync`](crate::Db::sync): then the value is set in memory, and it
    /// is unknown whether it is on disk until the pool is opened again.
    pub fn put(&self, key: impl AsBytes, value: impl AsBytes) -> Result<()> {
        let (key, value) = (key.as_bytes(), value.as_bytes());
        check_key(key)?;
        check_value(value)?;
        self.on.put(key, value)?;
        self.settle()
    }

    /// Sets the value of `key` to the next `len` bytes of `reader`, which may be more than there is memory
    /// for: little more than 1 MiB of the value is in memory at a time, and it goes to the disk while it comes.
    /// Other threads see the old value until all of the new one is there, and then the new one. Further
    /// bytes of `reader` stay in it; [`by_ref`](Read::by_ref) lends it.
    ///
    /// No lock is held while `reader` is read: it may wait for a network, and may use the pool. Room for a value that is too
    /// long for its leaf is reserved before its first byte is read.
    ///
    /// # Errors
    ///
    /// Those of [`put`](Tree::put), and:
    ///
    /// - [`Reader`](crate::Error::Reader) if `reader` fails.
    /// - [`ReaderEnded`](crate::Error::ReaderEnded) if it ends before it has given `len` bytes.
    /// - [`Invalid`](crate::Error::Invalid) if it says that it has read more bytes than there was room for.
    ///
    /// Then nothing has changed, and the space of the bytes that were written is free again. The same holds if `reader`
    /// panics.
    ///
    /// ```
    /// # fn main() -> everleaf::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = everleaf::Db::open(dir.path().join("p.ever"))?;
    /// # let path = dir.path().join("film");
    /// # std::fs::write(&path, vec![7; 3 << 20]).unwrap();
    /// let tree = db.tree("films")?;
    /// let film = std::fs::File::open(path).unwrap();
    /// let len = film.metadata().unwrap().len();
    /// tree.put_from("nosferatu", film, len)?;
    /// assert_eq!(tree.value_len("nosferatu")?, Some(len));
    /// assert!(tree.put_from("short", &b"1234"[..], 5).is_err());
    /// # assert!(!tree.contains("short")?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn put_from(&self, key: impl AsBytes, mut reader: impl Read, len: u64) -> Result<()> {
        let key = key.as_bytes();
        check_key(key)?;
        check_value_len(len)?;
        self.on.put_from(key, &mut ValueSource::new(&mut reader, len))?;
        self.settle()
    }

    /// Sets the value of `key` and returns the old one, or `None` if the key was not there. This costs a copy of the old
    /// value, and a read from the disk if that is large, unless it has at most 64 KiB and is in memory. Use
    /// [`put`](Tree::put) if you do not need the old value. It is as durable as a `put`.
    ///
    /// # Errors
    ///
    /// Those of [`put`](Tree::put). [`Corrupt`](crate::Error::Corrupt) or [`Io`](crate::Error::Io) if
    /// the old value cannot be read; then nothing changes.
    pub fn insert(&self, key: impl AsBytes, value: impl AsBytes) -> Result<Option<Bytes>> {
        let (key, value) = (key.as_bytes(), value.as_bytes());
        check_key(key)?;
        check_value(value)?;
        let old = self.on.insert(key, value)?;
        self.settle()?;
        Ok(old.map(Bytes::from))
    }

    /// Returns the value of `key`, or `None` if the key is not there. It may be a value that is not on disk yet. Up to 30
    /// bytes allocate nothing, and a large value that is in memory is not copied. O(log n), and O(bytes) for the copy.
    ///
    /// # Errors
    ///
    /// - [`Corrupt`](crate::Error::Corrupt) or [`Io`](crate::Error::Io) if a page on the way to the key,
    ///   or the value, cannot be read.
    /// - [`NoMemory`](crate::Error::NoMemory) if an allocation failed.
    /// - [`Closed`](crate::Error::Closed), [`NoTree`](crate::Error::NoTree) or
    ///   [`Forked`](crate::Error::Forked) if the handle is not valid any more.
    pub fn get(&self, key: impl AsBytes) -> Result<Option<Bytes>> {
        self.on.get(key.as_bytes())
    }

    /// Returns the values of many keys, in the order in which the keys come: `None` for each that is not there. It is
    /// as many calls of [`get`](Tree::get), one after the other; a [`Snapshot`](crate::Snapshot) shows all keys at one
    /// moment.
    ///
    /// # Errors
    ///
    /// Those of [`get`](Tree::get), of the first key that has one.
    ///
    /// ```
    /// # fn main() -> everleaf::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = everleaf::Db::open(dir.path().join("p.ever"))?;
    /// let tree = db.tree("t")?;
    /// tree.put("a", "1")?;
    /// tree.put("b", "2")?;
    /// assert_eq!(tree.get_many(["b", "c", "a"])?, [Some("2".into()), None, Some("1".into())]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn get_many<K: AsBytes>(
        &self,
        keys: impl IntoIterator<Item = K>,
    ) -> Result<Vec<Option<Bytes>>> {
        ReadTree::get_many(self, keys)
    }

    /// Copies the value of `key` into `value`, which is cleared before, and returns whether the key is
    /// there. Like [`get`](Tree::get), but a vector that is used again costs no allocation. O(log n), and
    /// O(bytes) for the copy.
    ///
    /// # Errors
    ///
    /// Those of [`get`](Tree::get). Then `value` holds anything.
    ///
    /// ```
    /// # fn main() -> everleaf::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = everleaf::Db::open(dir.path().join("p.ever"))?;
    /// let tree = db.tree("t")?;
    /// tree.put("a", "1")?;
    /// let mut value = Vec::new();
    /// assert!(tree.get_into("a", &mut value)?);
    /// assert_eq!(value, b"1");
    /// assert!(!tree.get_into("b", &mut value)? && value.is_empty());
    /// # Ok(())
    /// # }
    /// ```
    pub fn get_into(&self, key: impl AsBytes, value: &mut Vec<u8>) -> Result<bool> {
        self.on.get_into(key.as_bytes(), value)
    }

    /// Gives the value of `key` to `read` and returns the answer, or `None` if the key is not there. A value that lies
    /// in the page of its key is copied to memory that this thread uses again, so as a rule nothing is allocated. A
    /// longer one that is in memory is lent without a copy. Nothing is latched: `read` may take its time, and may use the
    /// tree. O(log n), and O(bytes) for a value that is copied or read from the file.
    ///
    /// # Errors
    ///
    /// Those of [`get`](Tree::get).
    ///
    /// ```
    /// # fn main() -> everleaf::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = everleaf::Db::open(dir.path().join("p.ever"))?;
    /// let tree = db.tree("t")?;
    /// tree.put("words", "one two three")?;
    /// let count = |text: &[u8]| text.split(|&b| b == b' ').count();
    /// assert_eq!(tree.get_with("words", count)?, Some(3));
    /// assert_eq!(tree.get_with("other", count)?, None);
    /// # Ok(())
    /// # }
    /// ```
    pub fn get_with<T>(
        &self,
        key: impl AsBytes,
        read: impl FnOnce(&[u8]) -> T,
    ) -> Result<Option<T>> {
        ReadTree::get_with(self, key, read)
    }

    /// Copies bytes of the value of `key` into `buf`, from byte `offset` of the value on. Returns how many
    /// bytes it has copied, or `None` if the key is not there. It copies fewer bytes than `buf` has room for only where
    /// the value ends, and 0 if `offset` is at its end or behind it.
    ///
    /// Of a large value this reads the pages in which the bytes are, and no others: O(log n), and O(bytes
    /// that are asked for). All bytes of one call are of one value, even if it is replaced or removed meanwhile;
    /// two calls may see two values. [`get`](Tree::get) and its variants check a large value against its checksum.
    /// Here the checksums of the pages are checked; on persistent memory, where a page of a large value has
    /// none, nothing is checked.
    ///
    /// # Errors
    ///
    /// Those of [`get`](Tree::get), except for damage in parts of the value that are not read. Then `buf` holds anything.
    ///
    /// ```
    /// # fn main() -> everleaf::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = everleaf::Db::open(dir.path().join("p.ever"))?;
    /// let tree = db.tree("t")?;
    /// tree.put("alphabet", "abcdefghijklmnopqrstuvwxyz")?;
    /// let mut buf = [0; 10];
    /// assert_eq!(tree.read_at("alphabet", 3, &mut buf)?, Some(10));
    /// assert_eq!(&buf, b"defghijklm");
    /// assert_eq!(tree.read_at("alphabet", 24, &mut buf)?, Some(2));
    /// assert_eq!(&buf[..2], b"yz");
    /// assert_eq!(tree.read_at("alphabet", 26, &mut buf)?, Some(0));
    /// assert_eq!(tree.read_at("other", 0, &mut buf)?, None);
    /// # Ok(())
    /// # }
    /// ```
    pub fn read_at(&self, key: impl AsBytes, offset: u64, buf: &mut [u8]) -> Result<Option<usize>> {
        self.on.read_at(key.as_bytes(), offset, buf)
    }

    /// Returns how many bytes the value of `key` has, or `None` if the key is not there. A large value is
    /// not read. O(log n).
    ///
    /// # Errors
    ///
    /// Those of [`get`](Tree::get), except for a large value that cannot be read.
    ///
    /// ```
    /// # fn main() -> everleaf::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = everleaf::Db::open(dir.path().join("p.ever"))?;
    /// let tree = db.tree("t")?;
    /// tree.put("large", vec![0; 1 << 20])?;
    /// assert_eq!(tree.value_len("large")?, Some(1 << 20));
    /// assert_eq!(tree.value_len("other")?, None);
    /// # Ok(())
    /// # }
    /// ```
    pub fn value_len(&self, key: impl AsBytes) -> Result<Option<u64>> {
        self.on.value_len(key.as_bytes())
    }

    /// Returns whether `key` is there. This is cheaper than [`get`](Tree::get), which copies the value. O(log n).
    ///
    /// # Errors
    ///
    /// Those of [`get`](Tree::get).
    pub fn contains(&self, key: impl AsBytes) -> Result<bool> {
        self.on.contains(key.as_bytes())
    }

    /// Returns how many pairs there are. The number is exact: it is that of one moment at which nothing
    /// is half done, no [`Batch`](crate::Batch) and no [transaction](crate::Transaction). It survives a crash with the
    /// pairs that it counts.
    ///
    /// Writers wait while the number is taken, and the call waits for batches in progress. O(threads that write). On
    /// persistent memory the first call after a crash may count the pairs: O(n).
    ///
    /// # Errors
    ///
    /// Those of [`get`](Tree::get).
    ///
    /// ```
    /// # fn main() -> everleaf::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = everleaf::Db::open(dir.path().join("p.ever"))?;
    /// let tree = db.tree("t")?;
    /// tree.put("a", "1")?;
    /// tree.put("a", "2")?;
    /// tree.put("b", "3")?;
    /// assert_eq!(tree.len()?, 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn len(&self) -> Result<u64> {
        self.on.len()
    }

    /// Returns whether there are no pairs. O(log n); of an empty tree as [`len`](Tree::len), which waits for writers.
    ///
    /// # Errors
    ///
    /// Those of [`get`](Tree::get).
    pub fn is_empty(&self) -> Result<bool> {
        match self.keys().next() {
            Some(Ok(_)) => Ok(false),
            // A walk that meets nothing may have passed pairs that came behind it. The count is of one moment.
            _ => self.len().map(|pairs| pairs == 0),
        }
    }

    /// Removes `key` if it is there. The removal is as durable as a [`put`](Tree::put), and like that call this one
    /// reads the value only if an open snapshot or transaction needs it. O(log n).
    ///
    /// # Errors
    ///
    /// Those of [`put`](Tree::put).
    pub fn delete(&self, key: impl AsBytes) -> Result<()> {
        let key = key.as_bytes();
        check_key(key)?;
        self.on.delete(key)?;
        self.settle()
    }

    /// Removes `key` and returns the value that it had, or `None` if the key was not there. If several threads remove a key
    /// at once, one of them gets the value. Use [`delete`](Tree::delete) if you do not need the value. It is as durable as a
    /// [`put`](Tree::put).
    ///
    /// # Errors
    ///
    /// Those of [`insert`](Tree::insert).
    pub fn remove(&self, key: impl AsBytes) -> Result<Option<Bytes>> {
        let key = key.as_bytes();
        check_key(key)?;
        let old = self.on.remove(key)?;
        self.settle()?;
        Ok(old.map(Bytes::from))
    }

    /// Returns the pair with the smallest key, or `None` if the tree is empty. O(log n).
    ///
    /// # Errors
    ///
    /// Those of [`get`](Tree::get).
    pub fn first(&self) -> Result<Option<Pair>> {
        self.source().pair(Move::First)
    }

    /// Returns the pair with the largest key, or `None` if the tree is empty. O(log n).
    ///
    /// # Errors
    ///
    /// Those of [`get`](Tree::get).
    pub fn last(&self) -> Result<Option<Pair>> {
        self.source().pair(Move::Last)
    }

    /// Returns the pair with the largest key that is not above `key`, or `None` if there is none.
    /// O(log n).
    ///
    /// # Errors
    ///
    /// Those of [`get`](Tree::get).
    ///
    /// ```
    /// # fn main() -> everleaf::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = everleaf::Db::open(dir.path().join("p.ever"))?;
    /// let tree = db.tree("t")?;
    /// tree.put([10], "ten")?;
    /// tree.put([20], "twenty")?;
    /// assert_eq!(tree.floor([19])?, Some(([10].into(), "ten".into())));
    /// assert_eq!(tree.floor([9])?, None);
    /// # Ok(())
    /// # }
    /// ```
    pub fn floor(&self, key: impl AsBytes) -> Result<Option<Pair>> {
        self.source().pair(Move::SeekDown(key.as_bytes()))
    }

    /// Returns the pair with the smallest key that is not below `key`, or `None` if there is none.
    /// O(log n).
    ///
    /// # Errors
    ///
    /// Those of [`get`](Tree::get).
    ///
    /// ```
    /// # fn main() -> everleaf::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = everleaf::Db::open(dir.path().join("p.ever"))?;
    /// let tree = db.tree("t")?;
    /// tree.put([10], "ten")?;
    /// tree.put([20], "twenty")?;
    /// assert_eq!(tree.ceiling([11])?, Some(([20].into(), "twenty".into())));
    /// assert_eq!(tree.ceiling([21])?, None);
    /// # Ok(())
    /// # }
    /// ```
    pub fn ceiling(&self, key: impl AsBytes) -> Result<Option<Pair>> {
        self.source().pair(Move::Seek(key.as_bytes()))
    }

    /// Returns a cursor: a place in the tree that goes in both directions and lends what it finds. This
    /// reads nothing yet.
    ///
    /// ```
    /// # fn main() -> everleaf::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = everleaf::Db::open(dir.path().join("p.ever"))?;
    /// let tree = db.tree("t")?;
    /// for i in 0..100_u32 {
    ///     tree.put(i.to_be_bytes(), i.to_le_bytes())?;
    /// }
    /// let mut cursor = tree.cursor();
    /// cursor.seek(50_u32.to_be_bytes())?;
    /// cursor.prev()?;
    /// assert_eq!(cursor.key(), Some(&49_u32.to_be_bytes()[..]));
    /// # Ok(())
    /// # }
    /// ```
    pub fn cursor(&self) -> Cursor {
        Cursor::new(self.source())
    }

    /// Iterates over the pairs whose keys are in `range`, in bytewise order. [`rev`](Iterator::rev) turns the
    /// order round. A range that ends before it begins is empty. The first step costs O(log n), each further one O(1) as a
    /// rule.
    ///
    /// Every range of Rust will do, and a pair of [`Bound`](std::ops::Bound)s: see [`KeyRange`]. For ends of different
    /// types or lengths there is [`between`](crate::between).
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
    pub fn range(&self, range: impl KeyRange) -> Range {
        ReadTree::range(self, range)
    }

    /// Iterates over the pairs whose keys start with `prefix`, in bytewise order. With an empty prefix these are all pairs.
    pub fn prefix(&self, prefix: impl AsBytes) -> Range {
        ReadTree::prefix(self, prefix)
    }

    /// Iterates over all pairs, in bytewise order of their keys.
    pub fn iter(&self) -> Range {
        ReadTree::iter(self)
    }

    /// Iterates over all keys, in bytewise order. This reads no values, so damage of a value does not show.
    ///
    /// ```
    /// # fn main() -> everleaf::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = everleaf::Db::open(dir.path().join("p.ever"))?;
    /// let tree = db.tree("t")?;
    /// tree.put("large", vec![0; 1 << 20])?;
    /// tree.put("small", "1")?;
    /// let keys: everleaf::Result<Vec<_>> = tree.keys().collect();
    /// assert_eq!(keys?, [b"large", b"small"]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn keys(&self) -> Keys {
        ReadTree::keys(self)
    }

    fn source(&self) -> Source {
        self.at(None)
    }

    /// The tree at a moment, or now.
    pub(crate) fn at(&self, cut: Option<Arc<Cut>>) -> Source {
        Source { tree: self.on.clone(), name: Arc::clone(&self.own.name), cut }
    }

    /// Refuses a tree of another pool.
    #[inline(always)]
    pub(crate) fn expect_of(&self, engine: &Engine) -> Result<()> {
        if engine.has(&self.on) { Ok(()) } else { Err(self.of_another_pool()) }
    }

    #[cold]
    fn of_another_pool(&self) -> Error {
        Error::OtherPool { name: self.name().to_owned() }
    }

    /// Copies the value of a key into a buffer, if that has room for all of it, and returns how many bytes the value has;
    /// otherwise the buffer holds anything. For bindings of languages whose callers have buffers and no lists.
    #[doc(hidden)]
    #[inline]
    pub fn copy_value(&self, key: &[u8], buf: &mut [u8]) -> Result<Option<usize>> {
        self.on.copy_value(key, buf)
    }

    /// Returns whether the next write may wait for the disk or for a transaction, as far as can be told. For bindings of languages in which
    /// a thread that waits has to give up a lock first.
    #[doc(hidden)]
    #[inline]
    pub fn may_wait(&self) -> bool {
        self.on.may_wait()
    }

    /// Waits until what the handle has just written is as durable as it is to be.
    #[inline(always)]
    pub(crate) fn settle(&self) -> Result<()> {
        self.on.settle(self.durability)
    }
}

impl sealed::Sealed for Tree {}

impl ReadTree for Tree {
    type Range = Range;
    type Keys = Keys;
    type Cursor = Cursor;

    fn name(&self) -> &str {
        Tree::name(self)
    }

    #[inline]
    fn get(&self, key: impl AsBytes) -> Result<Option<Bytes>> {
        Tree::get(self, key)
    }

    #[inline]
    fn get_into(&self, key: impl AsBytes, value: &mut Vec<u8>) -> Result<bool> {
        Tree::get_into(self, key, value)
    }

    fn get_with<T>(&self, key: impl AsBytes, read: impl FnOnce(&[u8]) -> T) -> Result<Option<T>> {
        with_spare(|own| {
            let mut value = FoundValue::new(mem::take(own));
            let is_there = self.on.find_value(key.as_bytes(), &mut value)?;
            let answer = is_there.then(|| read(value.bytes()));
            *own = mem::take(value.own());
            Ok(answer)
        })
    }

    fn read_at(&self, key: impl AsBytes, offset: u64, buf: &mut [u8]) -> Result<Option<usize>> {
        Tree::read_at(self, key, offset, buf)
    }

    fn value_len(&self, key: impl AsBytes) -> Result<Option<u64>> {
        Tree::value_len(self, key)
    }

    fn contains(&self, key: impl AsBytes) -> Result<bool> {
        Tree::contains(self, key)
    }

    fn len(&self) -> Result<u64> {
        Tree::len(self)
    }

    fn is_empty(&self) -> Result<bool> {
        Tree::is_empty(self)
    }

    fn first(&self) -> Result<Option<Pair>> {
        Tree::first(self)
    }

    fn last(&self) -> Result<Option<Pair>> {
        Tree::last(self)
    }

    fn floor(&self, key: impl AsBytes) -> Result<Option<Pair>> {
        Tree::floor(self, key)
    }

    fn ceiling(&self, key: impl AsBytes) -> Result<Option<Pair>> {
        Tree::ceiling(self, key)
    }

    fn cursor(&self) -> Cursor {
        Tree::cursor(self)
    }

    #[inline]
    fn between(&self, bounds: OwnedBounds) -> Range {
        Range::new(self.source(), bounds)
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
        f.debug_tuple("Tree").field(&self.own.name).finish()
    }
}
