//! Reads and writes that happen together, alone.

mod cursor;
mod tree;
mod walk;
mod work;

use std::fmt;
use std::ops::Bound;
use std::time::Duration;

use everleaf_pmem::fallible;

use crate::attempts::{ATTEMPTS, Attempts};
use crate::cursor::Pair;
use crate::engine::{Engine, Share};
use crate::limits::{check_key, check_value};
use crate::range::copy_bound;
use crate::read_tree::own_reads;
use crate::sorted::room_at_most;
use crate::{AsBytes, Bytes, Durability, Error, KeyRange, ReadTree, Result, Swap, Tree};
pub use cursor::TransactionCursor;
pub use tree::TransactionTree;
pub use walk::{TransactionKeys, TransactionRange};
pub(crate) use work::Locker;
use work::Work;

/// How far transactions are kept apart.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Isolation {
    /// The result is as if each transaction ran alone, at the moment of its commit. A commit fails if others have changed
    /// anything that the transaction has read: a key, even one that was not there, or a range, even by a new key in it.
    #[default]
    Serializable,
    /// Reads see one moment, that of the first read, and a commit fails if others have changed a key that it writes
    /// since then. If the transaction has read nothing, there is no such moment, and the commit does not fail for this.
    /// Two transactions may each read a key that the other one writes, and both commit (*write skew*).
    Snapshot,
}

/// How a transaction runs. Its durability is that of the [`Db`](crate::Db::with) that it comes from.
///
/// ```
/// # fn main() -> everleaf::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = everleaf::Db::open(dir.path().join("p.ever"))?;
/// use everleaf::{Isolation, TransactionOptions};
///
/// let tree = db.tree("t")?;
/// let options = TransactionOptions::new().isolation(Isolation::Snapshot).attempts(1000);
/// db.transact_with(options, |tx| tx.put(&tree, "a", "1"))?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransactionOptions {
    isolation: Isolation,
    attempts: u32,
    locks: Option<Duration>,
}

impl Default for TransactionOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl TransactionOptions {
    /// Returns the defaults: [`Isolation::Serializable`], 100 attempts, and no locks.
    pub const fn new() -> Self {
        Self { isolation: Isolation::Serializable, attempts: ATTEMPTS, locks: None }
    }

    /// Sets how far the transaction is kept apart from others. Default: [`Isolation::Serializable`].
    #[must_use]
    pub const fn isolation(mut self, isolation: Isolation) -> Self {
        self.isolation = isolation;
        self
    }

    /// Sets how often [`Db::transact`](crate::Db::transact) runs the transaction at most while others are in its way.
    /// Default: 100; 0 counts as 1. From the ninth time on other writers wait for it.
    #[must_use]
    pub const fn attempts(mut self, attempts: u32) -> Self {
        self.attempts = attempts;
        self
    }

    /// Has the transaction lock each key and each range before it reads or writes it, until it ends: for a transaction
    /// that is long, or that others would be in the way of each time. Without this it locks nothing, and is tried again.
    ///
    /// Another transaction of this kind waits for a lock. So do single writes, batches and commits of other threads,
    /// before they begin. A writer that does not know its key before it looks, such as [`Tree::pop_first`], does not wait.
    /// Reads outside of such transactions wait for nothing. [`Db::transact`](crate::Db::transact) keeps the locks from one
    /// attempt to the next. At [`Isolation::Snapshot`] only writes lock.
    ///
    /// **Nobody waits for ever.** The locks of an attempt hold others up for `lasts` after its begin at most, and then for
    /// no longer, whatever becomes of the transaction: what it has read is validated at the commit all the same. Of two
    /// that wait for each other one gets [`Deadlock`](crate::Error::Deadlock) and has no locks any more, which
    /// `Db::transact` counts as an attempt, and tries again. So does one that wants a lock that another transaction of its
    /// own thread has.
    ///
    /// The locks take memory as the reads do, and count against
    /// [`Options::transaction_memory`](crate::Options::transaction_memory).
    ///
    /// ```
    /// # fn main() -> everleaf::Result<()> {
    /// # let db = everleaf::Db::in_memory()?;
    /// use std::time::Duration;
    ///
    /// let scores = db.tree("scores")?;
    /// for n in 0..100u8 {
    ///     scores.put([n], [1])?;
    /// }
    /// let options = everleaf::TransactionOptions::new().pessimistic(Duration::from_secs(1));
    /// let sum = db.transact_with(options, |tx| {
    ///     let mut sum = 0;
    ///     for pair in tx.iter(&scores) {
    ///         sum += u64::from(pair?.1[0]); // whoever puts a score waits
    ///     }
    ///     tx.put(&scores, "sum", sum.to_le_bytes())?;
    ///     Ok(sum)
    /// })?;
    /// assert_eq!(sum, 100);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub const fn pessimistic(mut self, lasts: Duration) -> Self {
        self.locks = Some(lasts);
        self
    }

    #[inline]
    fn locker(self, engine: &Engine) -> Option<Locker> {
        self.locks.map(|lasts| Locker::new(engine, lasts))
    }
}

/// Reads and writes of any trees of one pool that happen together or not at all, apart from all others.
///
/// Reads see one moment, that of the first read, and the transaction's own writes. In the first run of
/// [`Db::transact`](crate::Db::transact) that moment is a later one, at which everything that was read before was still so. Writes are kept in memory until
/// [`commit`](Transaction::commit), which checks that everything that was read is unchanged, and then applies them in one
/// epoch. If something has changed, it fails with [`Conflict`](crate::Error::Conflict): nothing has happened, and the whole
/// transaction may be tried again, as [`Db::transact`](crate::Db::transact) does. A transaction that is dropped does
/// nothing. One from [`Db::begin`](crate::Db::begin) that only reads never conflicts.
///
/// A transaction is serializable against transactions, batches and all single writes; [`Isolation::Snapshot`] asks for
/// less. A single read of another thread, outside of a transaction and of a snapshot, may see a part of the writes of a
/// commit.
///
/// # Reads
///
/// A transaction has the reads of a [`Tree`], which documents them, with the tree as their first argument:
/// `tx.get(&tree, key)` for `tree.get(key)`. [`of`](Transaction::of) returns the tree itself as the transaction sees it,
/// for code that takes any [`ReadTree`](crate::ReadTree). Everything that an answer depends on counts as read as soon as
/// it is given:
///
/// - a read of one key counts that key, whether it is there or not;
/// - `first`, `last`, `floor`, `ceiling` and `is_empty` count all keys between the place that was asked for and the key
///   that was found;
/// - ranges and cursors count the keys that they have passed, and no more: see [`TransactionRange`];
/// - `len` counts all of the tree. It is O(n), for only the tree as it is now has a count of its own.
///
/// A read of one key that the transaction has written does not count, for its value is the transaction's own. All other
/// reads count each key that they pass, those that the transaction has written, too. All reads return the errors of a
/// tree's reads, [`OtherPool`](crate::Error::OtherPool), [`SnapshotTooOld`](crate::Error::SnapshotTooOld), and
/// [`TransactionTooLarge`](crate::Error::TransactionTooLarge) if there is no room to note the read.
///
/// ```
/// # fn main() -> everleaf::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = everleaf::Db::open(dir.path().join("p.ever"))?;
/// let jobs = db.tree("jobs")?;
/// for (day, job) in [("05-30", "done"), ("06-01", "done"), ("06-02", "open")] {
///     jobs.put(day, job)?;
/// }
/// db.transact(|tx| -> everleaf::Result<()> {
///     for pair in tx.prefix(&jobs, "06-") {
///         let (day, job) = pair?;
///         if job == b"done" {
///             tx.delete(&jobs, day)?; // it may write while it iterates
///         }
///     }
///     Ok(())
/// })?;
/// assert_eq!(jobs.len()?, 2);
/// # Ok(())
/// # }
/// ```
///
/// # Cost
///
/// While a transaction that has read is open, writers keep the values that they replace, as for a
/// [snapshot](crate::Snapshot), and within the same bound: a transaction that stays open too long returns
/// [`SnapshotTooOld`](crate::Error::SnapshotTooOld). In its first run `Db::transact` spares them that, as long as it gets
/// no more than eight keys and does nothing else but write. If others change what it has read, the next read returns
/// [`Conflict`](crate::Error::Conflict): pass it on, and the transaction runs again, with all that is said above. The
/// keys that were read are kept in memory until the end; their values are not.
///
/// A commit takes O((reads + writes) × log n). It runs beside others if the transaction has done no more than that first
/// run may, and each of up to 16 writes is in a leaf of its own, with room. Other commits run one after the other, and
/// writers wait meanwhile.
///
/// ```
/// # fn main() -> everleaf::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = everleaf::Db::open(dir.path().join("p.ever"))?;
/// let accounts = db.tree("accounts")?;
/// accounts.put("ada", [70])?;
/// accounts.put("bob", [10])?;
/// db.transact(|tx| {
///     let amount = |key| Ok::<_, everleaf::Error>(tx.get(&accounts, key)?.map_or(0, |v| v[0]));
///     let (ada, bob) = (amount("ada")?, amount("bob")?);
///     tx.put(&accounts, "ada", [ada - 30])?;
///     tx.put(&accounts, "bob", [bob + 30])
/// })?;
/// assert_eq!(accounts.get("bob")?, Some([40].into()));
/// # Ok(())
/// # }
/// ```
#[must_use = "a transaction does nothing until it is committed"]
pub struct Transaction {
    durability: Durability,
    work: Work,
}

impl Transaction {
    pub(crate) fn new(
        engine: Share<Engine>,
        durability: Durability,
        options: TransactionOptions,
    ) -> Self {
        let locker = options.locker(&engine);
        Self::with_locker(engine, durability, (options, false), locker)
    }

    #[inline(always)]
    fn with_locker(
        engine: Share<Engine>,
        durability: Durability,
        (options, by_leaves): (TransactionOptions, bool),
        locker: Option<Locker>,
    ) -> Self {
        let notes_reads = options.isolation == Isolation::Serializable;
        let work = Work::new(engine, (notes_reads, by_leaves), locker);
        Self { durability, work }
    }

    /// Returns a tree as the transaction sees it, for code that takes any [`ReadTree`](crate::ReadTree). It reads as the
    /// transaction's own methods do: `tx.of(&tree)?.get(key)` is `tx.get(&tree, key)`.
    ///
    /// # Errors
    ///
    /// [`OtherPool`](crate::Error::OtherPool) if the tree belongs to another pool.
    pub fn of<'a>(&self, tree: &'a Tree) -> Result<TransactionTree<'_, 'a>> {
        tree.expect_of(self.work.engine())?;
        Ok(TransactionTree::new(&self.work, tree))
    }

    /// Sets the value of `key`. Key and value are copied, and nothing else happens before the commit. The transaction's own
    /// reads see the value at once.
    ///
    /// # Errors
    ///
    /// [`KeyTooLong`](crate::Error::KeyTooLong) or [`ValueTooLong`](crate::Error::ValueTooLong);
    /// [`OtherPool`](crate::Error::OtherPool); [`NoMemory`](crate::Error::NoMemory);
    /// [`TransactionTooLarge`](crate::Error::TransactionTooLarge). The transaction stays as it was.
    pub fn put(&self, tree: &Tree, key: impl AsBytes, value: impl AsBytes) -> Result<()> {
        let value = value.as_bytes();
        check_value(value)?;
        self.work.write(tree, key.as_bytes(), Some(value))
    }

    /// Removes `key` if it is there.
    ///
    /// # Errors
    ///
    /// Those of [`put`](Transaction::put).
    pub fn delete(&self, tree: &Tree, key: impl AsBytes) -> Result<()> {
        self.work.write(tree, key.as_bytes(), None)
    }

    /// Sets the value of `key` and returns the old one, which counts as read.
    ///
    /// # Errors
    ///
    /// Those of [`get`](Transaction::get) and [`put`](Transaction::put).
    pub fn insert(
        &self,
        tree: &Tree,
        key: impl AsBytes,
        value: impl AsBytes,
    ) -> Result<Option<Bytes>> {
        let key = key.as_bytes();
        let old = self.get(tree, key)?;
        self.put(tree, key, value)?;
        Ok(old)
    }

    /// Removes `key` and returns the value that it had, which counts as read.
    ///
    /// # Errors
    ///
    /// Those of [`insert`](Transaction::insert).
    pub fn remove(&self, tree: &Tree, key: impl AsBytes) -> Result<Option<Bytes>> {
        let key = key.as_bytes();
        check_key(key)?;
        let old = self.get(tree, key)?;
        if old.is_some() {
            self.delete(tree, key)?;
        }
        Ok(old)
    }

    /// Sets the value of `key` if the key is not there, and returns whether it has done so. The key counts as read, whether
    /// it is there or not.
    ///
    /// # Errors
    ///
    /// Those of [`insert`](Transaction::insert).
    pub fn insert_new(&self, tree: &Tree, key: impl AsBytes, value: impl AsBytes) -> Result<bool> {
        self.put_if(tree, key.as_bytes(), value.as_bytes(), false)
    }

    /// Sets the value of `key` if the key is there, and returns whether it has done so. The key counts as read, whether it is
    /// there or not.
    ///
    /// # Errors
    ///
    /// Those of [`insert`](Transaction::insert).
    pub fn replace(&self, tree: &Tree, key: impl AsBytes, value: impl AsBytes) -> Result<bool> {
        self.put_if(tree, key.as_bytes(), value.as_bytes(), true)
    }

    fn put_if(&self, tree: &Tree, key: &[u8], value: &[u8], is_there: bool) -> Result<bool> {
        check_key(key)?;
        let happens = self.contains(tree, key)? == is_there;
        if happens {
            self.put(tree, key, value)?;
        }
        Ok(happens)
    }

    /// Changes the value of `key` to `new` if it is `expected`, and says whether it did, as
    /// [`Tree::compare_and_swap`] does. The value counts as read.
    ///
    /// # Errors
    ///
    /// Those of [`insert`](Transaction::insert).
    pub fn compare_and_swap<V: AsBytes>(
        &self,
        tree: &Tree,
        key: impl AsBytes,
        expected: Option<V>,
        new: Option<V>,
    ) -> Result<Swap> {
        let key = key.as_bytes();
        check_key(key)?;
        let old = self.get(tree, key)?;
        if old.as_deref() != expected.as_ref().map(V::as_bytes) {
            return Ok(Swap::Found(old));
        }
        self.set(tree, key, new.as_ref().map(V::as_bytes))?;
        Ok(Swap::Done)
    }

    /// Gives the value of `key` to `change`, sets the key to the value that `change` returns, and returns that. `None`
    /// stands for no value, as in [`Tree::update`]. The old value counts as read. `change` is called once, and may use the
    /// transaction; in the end the key has the value that it returned.
    ///
    /// # Errors
    ///
    /// Those of [`insert`](Transaction::insert).
    pub fn update(
        &self,
        tree: &Tree,
        key: impl AsBytes,
        change: impl FnOnce(Option<&[u8]>) -> Option<Vec<u8>>,
    ) -> Result<Option<Vec<u8>>> {
        let key = key.as_bytes();
        check_key(key)?;
        let new = change(self.get(tree, key)?.as_deref());
        self.set(tree, key, new.as_deref())?;
        Ok(new)
    }

    fn set(&self, tree: &Tree, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        match value {
            Some(value) => self.put(tree, key, value),
            None => self.delete(tree, key),
        }
    }

    /// Removes the pair with the smallest key and returns it, or `None` if the tree is empty. All keys up to that one count
    /// as read: if another thread puts a smaller key, or takes this one, the commit fails. Where that
    /// happens often, many threads that drain a tree are faster with [`Tree::pop_first`].
    ///
    /// # Errors
    ///
    /// Those of [`insert`](Transaction::insert).
    pub fn pop_first(&self, tree: &Tree) -> Result<Option<Pair>> {
        let pair = self.first(tree)?;
        self.take(tree, pair)
    }

    /// Removes the pair with the largest key and returns it, or `None` if the tree is empty. In all else it is like
    /// [`pop_first`](Transaction::pop_first).
    ///
    /// # Errors
    ///
    /// Those of [`insert`](Transaction::insert).
    pub fn pop_last(&self, tree: &Tree) -> Result<Option<Pair>> {
        let pair = self.last(tree)?;
        self.take(tree, pair)
    }

    fn take(&self, tree: &Tree, pair: Option<Pair>) -> Result<Option<Pair>> {
        if let Some((key, _)) = &pair {
            self.delete(tree, key)?;
        }
        Ok(pair)
    }

    /// Removes the pairs whose keys are in `range`, and returns how many there were. All of the range counts as read:
    /// the commit fails if another thread has put a key into it, or has removed one. The keys are kept until the
    /// commit. No values are read. O(log n) for each pair.
    ///
    /// # Errors
    ///
    /// Those of [`insert`](Transaction::insert). After [`TransactionTooLarge`](crate::Error::TransactionTooLarge) no pair
    /// is gone; to be sure of that, the call asks for up to twice the memory that the removals take. After another error
    /// some pairs may be gone from the transaction.
    pub fn remove_range(&self, tree: &Tree, range: impl KeyRange) -> Result<u64> {
        tree.expect_of(self.work.engine())?;
        let (low, high) = (range.low(), range.high());
        let keys = || {
            let bounds = (copy_bound(low), copy_bound(high));
            TransactionRange::new(&self.work, tree, bounds).keys()
        };
        let behind = |key: &[u8]| fallible::taken(key.len() + 1);
        let ends = [low, high].map(|end| match end {
            Bound::Included(key) | Bound::Excluded(key) => behind(key),
            Bound::Unbounded => 0,
        });
        let written = self.work.written() as u64;
        let (mut count, mut bytes, mut longest) = (0, 0, ends[0].max(ends[1]));
        for key in keys() {
            let key_bytes = behind(&key?);
            (count, bytes) = (count + 1, bytes + key_bytes);
            // A step notes what it has passed by two places, also where that is noted already.
            longest = key_bytes.max(longest);
            self.work.admit_removals(room_at_most(written, count), bytes + 2 * longest)?;
        }
        keys().try_for_each(|key| self.delete(tree, key?))?;
        Ok(count)
    }

    /// Removes all pairs of a tree, and returns how many there were, as [`remove_range`](Transaction::remove_range)
    /// of all keys does. So it takes memory and O(log n) for each pair, unlike [`Tree::clear`].
    ///
    /// # Errors
    ///
    /// Those of [`remove_range`](Transaction::remove_range).
    pub fn clear(&self, tree: &Tree) -> Result<u64> {
        self.remove_range(tree, ..)
    }

    /// Applies all writes in one epoch if everything that was read is unchanged. They are on disk soon after, or when this
    /// returns, as the [durability](crate::Db::with) of the [`Db`](crate::Db) says that the transaction comes from. Returns
    /// at once if there are no writes. O((reads + writes) × log n); other writers may wait meanwhile.
    ///
    /// # Errors
    ///
    /// [`Conflict`](crate::Error::Conflict) if others have changed something that the transaction has read, or, at
    /// [`Isolation::Snapshot`], written. [`SnapshotTooOld`](crate::Error::SnapshotTooOld) if that is not known any more. After
    /// both nothing has happened. Otherwise those of [`Batch::commit`](crate::Batch::commit).
    pub fn commit(mut self) -> Result<()> {
        let (has_written, durability) = (self.work.commit()?, self.durability);
        let engine = self.work.engine().clone();
        // Nobody waits for it while it waits for the disk.
        drop(self);
        settle(&engine, has_written, durability)
    }

    /// Ends the transaction and drops its writes. A drop does the same.
    pub fn abort(self) {}
}

own_reads!(
    impl [] Transaction {
        range: TransactionRange<'_>, keys: TransactionKeys<'_>, cursor: TransactionCursor<'_>
    }
    |self, tree: &Tree| TransactionTree::new(&self.work, tree)
);

impl fmt::Debug for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let writes = self.work.written();
        f.debug_struct("Transaction").field("writes", &writes).finish_non_exhaustive()
    }
}

/// Runs a transaction until nobody is in its way, or often enough.
pub(crate) fn transact<T, E: From<Error>>(
    (engine, share): (&Engine, impl Fn() -> Share<Engine>),
    durability: Durability,
    options: TransactionOptions,
    mut run: impl FnMut(&Transaction) -> Result<T, E>,
) -> Result<T, E> {
    let locker = options.locker(engine);
    // As a rule there is one, which needs no account of them.
    let mut attempts = None;
    let first = || Attempts::new(share(), options.attempts);
    // Without a cut only if it can be tried again.
    let mut by_leaves = options.attempts > 1;
    loop {
        let how = (options, std::mem::take(&mut by_leaves));
        let mut transaction = Transaction::with_locker(share(), durability, how, locker.clone());
        match run(&transaction) {
            Ok(answer) => {
                let committed = transaction.work.commit();
                drop(transaction);
                match committed {
                    Err(Error::Conflict { tree, key, .. }) => {
                        attempts.get_or_insert_with(first).overtaken(tree, key)?;
                    }
                    committed => {
                        // Nobody waits for it while it waits for the disk.
                        drop((attempts, locker));
                        settle(engine, committed?, durability)?;
                        return Ok(answer);
                    }
                }
            }
            Err(error) => {
                let may_go_on = transaction.work.in_deadlock() || transaction.work.is_overtaken();
                drop(transaction);
                if !may_go_on || attempts.get_or_insert_with(first).failed().is_err() {
                    return Err(error);
                }
            }
        }
    }
}

impl Attempts {
    /// Commits a transaction of the pool. False if others were in its way: then it is time to begin another one.
    ///
    /// # Errors
    ///
    /// [`Conflict`](Error::Conflict) if that was the last attempt; otherwise those of [`Transaction::commit`].
    pub fn commit(&mut self, mut transaction: Transaction) -> Result<bool> {
        let (committed, durability) = (transaction.work.commit(), transaction.durability);
        drop(transaction);
        match committed {
            Err(Error::Conflict { tree, key, .. }) => self.overtaken(tree, key).map(|()| false),
            committed => {
                // Nobody waits for it while it waits for the disk.
                self.end_way();
                settle(self.engine(), committed?, durability).map(|()| true)
            }
        }
    }
}

/// After a commit. A transaction that has written nothing waits for nobody.
fn settle(engine: &Engine, has_written: bool, durability: Durability) -> Result<()> {
    if has_written { engine.settle(durability) } else { Ok(()) }
}
