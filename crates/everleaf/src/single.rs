//! Operations of a tree that look at what is there and change it, each as one.

use everleaf_tree::blink::{self, Condition, End};

use crate::attempts::{ATTEMPTS, Attempts};
use crate::cursor::Pair;
use crate::engine::{Engine, Share};
use crate::limits::{check_key, check_value};
use crate::{AsBytes, Bytes, KeyRange, Result, Tree};

/// A value from so many bytes on is not written before it is known that it is wanted.
const LARGE_BYTES: usize = 1 << 16;

/// How a compare-and-swap ended.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "the value may be another one, and then nothing has changed"]
pub enum Swap {
    /// The key had the expected value, and has the new one now.
    Done,
    /// Nothing has changed: the key has this value, or is not there.
    Found(Option<Bytes>),
}

impl Swap {
    /// Whether the value was swapped.
    pub fn is_done(&self) -> bool {
        *self == Swap::Done
    }
}

/// # Operations that look before they write
///
/// Each of these is one operation to other threads, and is in one epoch: no write of another thread comes
/// between the look and the change. But [`remove_range`](Tree::remove_range) is many operations, and so is
/// [`clear`](Tree::clear) where there is no room for an empty tree beside the full one.
impl Tree {
    /// Sets the value of `key` if the key is not there, and returns whether it has done so. Of several
    /// threads that try at once, one gets `true`. A value that is there already is not read. O(log n).
    ///
    /// With [`Durability::Sync`](crate::Durability::Sync) the pair that is there when this returns is on disk, even if
    /// another thread put it.
    ///
    /// # Errors
    ///
    /// Those of [`put`](Tree::put).
    ///
    /// ```
    /// # fn main() -> everleaf::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = everleaf::Db::open(dir.path().join("p.ever"))?;
    /// let users = db.tree("users")?;
    /// assert!(users.insert_new("ada", "1")?);
    /// assert!(!users.insert_new("ada", "2")?);
    /// assert_eq!(users.get("ada")?.as_deref(), Some(&b"1"[..]));
    /// # Ok(())
    /// # }
    /// ```
    pub fn insert_new(&self, key: impl AsBytes, value: impl AsBytes) -> Result<bool> {
        let is_new = self.put_if(key.as_bytes(), value.as_bytes(), Condition::Absent)?;
        self.settle()?;
        Ok(is_new)
    }

    /// Sets the value of `key` if the key is there, and returns whether it has done so. Like [`put`](Tree::put) this
    /// reads the old value only if an open snapshot or transaction needs it. O(log n).
    ///
    /// # Errors
    ///
    /// Those of [`put`](Tree::put).
    ///
    /// ```
    /// # fn main() -> everleaf::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = everleaf::Db::open(dir.path().join("p.ever"))?;
    /// let users = db.tree("users")?;
    /// assert!(!users.replace("ada", "1")?);
    /// users.put("ada", "1")?;
    /// assert!(users.replace("ada", "2")?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn replace(&self, key: impl AsBytes, value: impl AsBytes) -> Result<bool> {
        let was_there = self.put_if(key.as_bytes(), value.as_bytes(), Condition::Present)?;
        if was_there {
            self.settle()?;
        }
        Ok(was_there)
    }

    fn put_if(&self, key: &[u8], value: &[u8], condition: Condition) -> Result<bool> {
        check_key(key)?;
        check_value(value)?;
        let wants_there = condition == Condition::Present;
        // A large value goes to the disk before the leaf is looked at, and would have to go again.
        if value.len() >= LARGE_BYTES && self.on.is_there_to_change(key)? != wants_there {
            return Ok(false);
        }
        self.on.put_if(key, value, condition)
    }

    /// Changes the value of `key` to `new` if it is `expected`, and says whether it did; if not, it returns the
    /// value that was found. `None` stands for no value: as `expected` it inserts, as `new` it
    /// removes. Both have one type: beside `old.as_deref()` of an answer of [`get`](Tree::get), pass a text as
    /// `Some(text.as_bytes())`.
    ///
    /// A value that was changed and changed back counts as unchanged: put a counter into it where that
    /// matters. O(log n), and O(bytes) for the comparison. A large value on a file is read from the disk to
    /// be compared, while others may write, unless it has at most 64 KiB and is in memory. If the value was another
    /// one, this does not wait for the disk, whatever the handle's durability.
    ///
    /// # Errors
    ///
    /// Those of [`insert`](Tree::insert).
    ///
    /// ```
    /// use everleaf::Swap;
    /// # fn main() -> everleaf::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = everleaf::Db::open(dir.path().join("p.ever"))?;
    /// let locks = db.tree("locks")?;
    /// assert_eq!(locks.compare_and_swap("printer", None, Some("ada"))?, Swap::Done);
    /// let other = locks.compare_and_swap("printer", None, Some("bob"))?;
    /// assert_eq!(other, Swap::Found(Some("ada".into())));
    /// assert!(locks.compare_and_swap("printer", Some("ada"), None)?.is_done());
    /// assert!(!locks.contains("printer")?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn compare_and_swap<V: AsBytes>(
        &self,
        key: impl AsBytes,
        expected: Option<V>,
        new: Option<V>,
    ) -> Result<Swap> {
        let key = key.as_bytes();
        let expected = expected.as_ref().map(V::as_bytes);
        let new = new.as_ref().map(V::as_bytes);
        check_key(key)?;
        new.map_or(Ok(()), check_value)?;
        let swap = self.on.swap(key, expected, new)?;
        if let blink::Swap::Found(found) = swap {
            return Ok(Swap::Found(found.map(Bytes::from)));
        }
        self.settle()?;
        Ok(Swap::Done)
    }

    /// Gives the value of `key` to `change`, sets the key to the value that `change` returns, and returns that. `None`
    /// stands for no value: `change` gets it if the key is not there, and returns it to remove the key.
    ///
    /// Nothing is locked while `change` runs, so it may be slow, and may use the pool. If another thread changes the value
    /// meanwhile, `change` is called again with that value; only its last call counts. From the ninth call on, other writers
    /// wait for it, each for at most 50 ms. If it returns what it was given, nothing is written. O(log n), and O(bytes), for
    /// each call.
    ///
    /// # Errors
    ///
    /// Those of [`insert`](Tree::insert), and [`Conflict`](crate::Error::Conflict) if the value had become another one after
    /// each of 100 calls, as it does if `change` itself writes it to the tree. If `change` panics, nothing has changed.
    ///
    /// ```
    /// # fn main() -> everleaf::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = everleaf::Db::open(dir.path().join("p.ever"))?;
    /// let counters = db.tree("counters")?;
    /// let count = |old: Option<&[u8]>| {
    ///     let n = old.map_or(0, |n| u64::from_be_bytes(n.try_into().unwrap()));
    ///     Some((n + 1).to_be_bytes().to_vec())
    /// };
    /// counters.update("visits", count)?;
    /// assert_eq!(counters.update("visits", count)?, Some(2_u64.to_be_bytes().to_vec()));
    /// # Ok(())
    /// # }
    /// ```
    pub fn update(
        &self,
        key: impl AsBytes,
        mut change: impl FnMut(Option<&[u8]>) -> Option<Vec<u8>>,
    ) -> Result<Option<Vec<u8>>> {
        let key = key.as_bytes();
        check_key(key)?;
        let mut attempts = None;
        loop {
            let old = self.on.get_to_change(key)?;
            let new = change(old.as_deref());
            new.as_deref().map_or(Ok(()), check_value)?;
            let is_done = new.as_deref() == old.as_deref()
                || self.on.swap(key, old.as_deref(), new.as_deref())?.is_done();
            if is_done {
                // Nobody else waits for the disk.
                drop(attempts);
                self.settle()?;
                return Ok(new);
            }
            let first = || Attempts::new(Share::new(Engine::of(&self.on)), ATTEMPTS);
            attempts.get_or_insert_with(first).overtaken(self.name().into(), key.to_vec())?;
        }
    }

    /// Removes the pair with the smallest key and returns it, or `None` if the tree is empty. Several
    /// threads that do so at once get a pair each. So a tree is a queue that any number of threads fill and
    /// drain, in the order of its keys. O(log n): emptied pages are freed, and no later call passes them.
    ///
    /// A crash may take back removals that are not durable yet: then pairs that were returned are there again.
    /// [`Db::sync`](crate::Db::sync) makes the removals durable.
    ///
    /// # Errors
    ///
    /// Those of [`remove`](Tree::remove). Then no pair is gone, unless the handle's [durability](Tree::with) is
    /// [`Durability::Sync`](crate::Durability::Sync) and the wait for the disk failed: then a pair is gone that was not
    /// returned.
    ///
    /// ```
    /// # fn main() -> everleaf::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = everleaf::Db::open(dir.path().join("p.ever"))?;
    /// let jobs = db.tree("jobs")?;
    /// jobs.put([1], "first")?;
    /// jobs.put([2], "second")?;
    /// assert_eq!(jobs.pop_first()?, Some(([1].into(), "first".into())));
    /// assert_eq!(jobs.pop_first()?, Some(([2].into(), "second".into())));
    /// assert_eq!(jobs.pop_first()?, None);
    /// # Ok(())
    /// # }
    /// ```
    pub fn pop_first(&self) -> Result<Option<Pair>> {
        self.pop(End::First)
    }

    /// Removes the pair with the largest key and returns it, or `None` if the tree is empty. In all else it is
    /// like [`pop_first`](Tree::pop_first).
    ///
    /// # Errors
    ///
    /// Those of [`pop_first`](Tree::pop_first).
    ///
    /// ```
    /// # fn main() -> everleaf::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = everleaf::Db::open(dir.path().join("p.ever"))?;
    /// let stack = db.tree("stack")?;
    /// stack.put([1], "below")?;
    /// stack.put([2], "above")?;
    /// assert_eq!(stack.pop_last()?, Some(([2].into(), "above".into())));
    /// # Ok(())
    /// # }
    /// ```
    pub fn pop_last(&self) -> Result<Option<Pair>> {
        self.pop(End::Last)
    }

    fn pop(&self, end: End) -> Result<Option<Pair>> {
        let pair = self.on.pop(end)?;
        if pair.is_some() {
            self.settle()?;
        }
        Ok(pair.map(|(key, value)| (key.into(), value.into())))
    }

    /// Removes the pairs whose keys are in `range`, and returns how many it has removed. It takes the ranges that
    /// [`range`](Tree::range) takes.
    ///
    /// The pairs go one by one, those with the largest keys first. So this is not one moment: other threads
    /// see a part gone, and a pair that they put meanwhile may go or stay. A crash may keep some of the
    /// removals, and then the pairs that are left are those with the smallest keys of the range. Values are read only
    /// if an open snapshot or transaction needs them. O(log n) for each pair that goes.
    ///
    /// # Errors
    ///
    /// Those of [`delete`](Tree::delete). Then a part of the pairs is gone.
    ///
    /// ```
    /// # fn main() -> everleaf::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = everleaf::Db::open(dir.path().join("p.ever"))?;
    /// let days = db.tree("days")?;
    /// for day in ["05-30", "06-01", "06-02", "07-01"] {
    ///     days.put(day, "")?;
    /// }
    /// assert_eq!(days.remove_range("06-01".."07-01")?, 2);
    /// assert_eq!(days.iter().count(), 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn remove_range(&self, range: impl KeyRange) -> Result<u64> {
        let removed = self.on.remove_range(range.low(), range.high())?;
        self.settle()?;
        Ok(removed)
    }

    /// Removes all pairs at one moment, and returns how many there were. The time is the same however many there are,
    /// with two exceptions: without [background](crate::Options::background) threads the call frees their pages, and on
    /// persistent memory it may have to count them first, as [`len`](Tree::len) does. The tree and its handles stay;
    /// [`Db::drop_tree`](crate::Db::drop_tree) removes the tree, too.
    ///
    /// Other threads see all pairs or none of them, and so does an open after a crash. A [`Snapshot`](crate::Snapshot) from
    /// before still has them. A cursor whose step meets the moment is at the end. The space becomes free as after
    /// [`drop_tree`](crate::Db::drop_tree). If there is no room for an empty tree beside the full one, in the pool or
    /// on the disk, the pairs go one by one instead, as with [`remove_range`](Tree::remove_range).
    ///
    /// # Errors
    ///
    /// Those of [`delete`](Tree::delete). Then no pair is gone, unless they go one by one, or the wait for the disk failed.
    ///
    /// ```
    /// # fn main() -> everleaf::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = everleaf::Db::open(dir.path().join("p.ever"))?;
    /// let tree = db.tree("t")?;
    /// tree.put("a", "1")?;
    /// tree.put("b", "2")?;
    /// assert_eq!(tree.clear()?, 2);
    /// assert_eq!(tree.first()?, None);
    /// # Ok(())
    /// # }
    /// ```
    pub fn clear(&self) -> Result<u64> {
        let pairs = self.on.clear(self.name())?;
        self.settle()?;
        Ok(pairs)
    }
}
