//! Reads and writes that happen together, alone.

use std::cell::{OnceCell, RefCell};
use std::fmt;
use std::iter::{FusedIterator, Peekable};
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use everleaf_pmem::fallible;

use crate::engine::{Alone, BatchChange, Engine, TreeHandle};
use crate::limits::{check_key, check_value};
use crate::range::{ALL, OwnedBounds, Pair, Range, bounds_of, bounds_of_prefix, is_empty};
use crate::sorted::{Between, Sorted};
use crate::{AsBytes, Durability, Error, KeyRange, Result, Snapshot, SnapshotTree, Tree};

/// What memory here is for.
const WRITES: &str = "the writes of a transaction";
const READS: &str = "the reads of a transaction";

/// Attempts before one waits longer than for the processor.
const HASTY: u32 = 4;
/// The longest that one waits, in microseconds.
const LONGEST: u64 = 2_000;

/// How far transactions are kept apart.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Isolation {
    /// As if each transaction ran alone, at the moment of its commit. A commit fails if others have changed what
    /// the transaction has read: a key, also one that was not there, or a range, also by a new key in it.
    #[default]
    Serializable,
    /// Reads see one moment, and of two transactions that run at once and write one key the second fails. Two may
    /// each read what the other writes (*write skew*).
    Snapshot,
}

/// How a transaction runs.
///
/// ```
/// # fn main() -> everleaf::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = everleaf::Db::open(dir.path().join("p.ever"))?;
/// use everleaf::{Durability, Isolation, TransactionOptions};
///
/// let tree = db.tree("t")?;
/// let options = TransactionOptions::new().isolation(Isolation::Snapshot).durability(Durability::Sync);
/// db.transact_with(options, |tx| tx.put(&tree, "a", "1"))?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransactionOptions {
    isolation: Isolation,
    /// `None`: that of the pool.
    durability: Option<Durability>,
    attempts: u32,
}

impl Default for TransactionOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl TransactionOptions {
    /// Serializable, as durable as the [pool](crate::Options::durability) says, 100 attempts.
    pub const fn new() -> Self {
        Self { isolation: Isolation::Serializable, durability: None, attempts: 100 }
    }

    /// Sets how far it is kept apart from others.
    #[must_use]
    pub const fn isolation(mut self, isolation: Isolation) -> Self {
        self.isolation = isolation;
        self
    }

    /// Sets when it is durable: within the interval, or when the commit returns. Default:
    /// [`Options::durability`](crate::Options::durability).
    #[must_use]
    pub const fn durability(mut self, durability: Durability) -> Self {
        self.durability = Some(durability);
        self
    }

    /// Sets how often [`Db::transact`](crate::Db::transact) runs it at most while others are in its way; at least
    /// once.
    #[must_use]
    pub const fn attempts(mut self, attempts: u32) -> Self {
        self.attempts = attempts;
        self
    }
}

/// Reads and writes of any trees of one pool that happen together or not at all, apart from all others.
///
/// Reads see one moment, that of the first read, and the transaction's own writes. Writes are kept in memory until
/// [`commit`](Transaction::commit), which looks whether what was read is still so, applies them in one epoch, and
/// fails with [`Conflict`](crate::Error::Conflict) otherwise: then nothing has happened, and the whole may be tried
/// again. [`Db::transact`](crate::Db::transact) does that. A transaction that is dropped does nothing, as does one
/// that only reads, which never fails for what others write.
///
/// A transaction is serializable against transactions, batches and all single writes; for less see [`Isolation`]. A
/// single read of another thread, outside of a transaction and of a snapshot, sees the writes of a commit appear
/// one by one.
///
/// **Cost.** While a transaction that has read is open, writers keep what they replace, as for a
/// [snapshot](crate::Snapshot), whose bound counts here, too: one that stays open too long returns
/// [`SnapshotTooOld`](crate::Error::SnapshotTooOld). Commits run one after the other, and other writers wait
/// meanwhile: O(reads + writes). Keys that were read are kept until the end; values are not.
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
/// assert_eq!(accounts.get("bob")?, Some(vec![40]));
/// # Ok(())
/// # }
/// ```
#[must_use = "a transaction does nothing until it is committed"]
pub struct Transaction {
    engine: Arc<Engine>,
    options: TransactionOptions,
    /// The moment of the first read.
    cut: OnceCell<Snapshot>,
    reads: RefCell<Vec<ReadSet>>,
    /// There was no memory to remember a read.
    forgot: RefCell<Option<Error>>,
    /// By tree, in the order in which the trees came.
    writes: Vec<TreeWrites>,
}

/// New values by their keys, and keys that go.
type Written = Sorted<Option<Vec<u8>>>;
/// A key, and its value if it is not one that goes.
type Change = (Vec<u8>, Option<Vec<u8>>);

/// What is to be written to one tree.
struct TreeWrites {
    tree: TreeHandle,
    name: Arc<str>,
    keys: Written,
}

/// Keys of a tree that were read.
struct ReadSet {
    tree: TreeHandle,
    name: Arc<str>,
    keys: ReadKeys,
}

enum ReadKeys {
    One(Vec<u8>),
    Between(Bound<Vec<u8>>, Bound<Vec<u8>>),
}

impl ReadKeys {
    /// The key, or where the range begins.
    fn first(&self) -> Vec<u8> {
        match self {
            ReadKeys::Between(Bound::Unbounded, _) => Vec::new(),
            ReadKeys::One(key) | ReadKeys::Between(Bound::Included(key), _) => key.clone(),
            ReadKeys::Between(Bound::Excluded(key), _) => key.clone(),
        }
    }
}

impl Transaction {
    pub(crate) fn new(engine: Arc<Engine>, options: TransactionOptions) -> Self {
        Self {
            engine,
            options,
            cut: OnceCell::new(),
            reads: RefCell::default(),
            forgot: RefCell::default(),
            writes: Vec::new(),
        }
    }

    /// The tree as it was at the first read.
    fn then(&self, tree: &Tree) -> Result<SnapshotTree> {
        if let Some(snapshot) = self.cut.get() {
            return snapshot.of(tree);
        }
        let snapshot = Snapshot::new(Arc::clone(&self.engine))?;
        self.cut.get_or_init(|| snapshot).of(tree)
    }

    /// Remembers what is read. What cannot be remembered is not taken for unread: the commit says why not.
    fn note(&self, tree: &Tree, keys: impl FnOnce() -> Result<ReadKeys>) {
        if self.options.isolation == Isolation::Snapshot {
            return;
        }
        let noted = keys().and_then(|keys| {
            let (tree, name) = (tree.id.clone(), Arc::clone(&tree.name));
            fallible::push(&mut self.reads.borrow_mut(), ReadSet { tree, name, keys }, READS)
        });
        if let Err(error) = noted {
            *self.forgot.borrow_mut() = Some(error);
        }
    }

    fn note_key(&self, tree: &Tree, key: &[u8]) {
        self.note(tree, || fallible::copy(key, READS).map(ReadKeys::One));
    }

    fn writes_of(&self, tree: &TreeHandle) -> Option<&TreeWrites> {
        self.writes.iter().find(|writes| writes.tree.is(tree))
    }

    /// What the transaction itself has written for a key.
    fn own(&self, tree: &Tree, key: &[u8]) -> Option<&Option<Vec<u8>>> {
        self.writes_of(&tree.id).and_then(|writes| writes.keys.get(key))
    }

    /// Returns the value of `key`, or `None` if the key is not there.
    ///
    /// # Errors
    ///
    /// Those of [`Tree::get`]; [`OtherPool`](crate::Error::OtherPool);
    /// [`SnapshotTooOld`](crate::Error::SnapshotTooOld).
    pub fn get(&self, tree: &Tree, key: impl AsBytes) -> Result<Option<Vec<u8>>> {
        let key = key.as_bytes();
        if let Some(value) = self.own(tree, key) {
            return value.as_deref().map(|value| fallible::copy(value, "a value")).transpose();
        }
        let then = self.then(tree)?;
        self.note_key(tree, key);
        then.get(key)
    }

    /// Returns whether `key` is there.
    ///
    /// # Errors
    ///
    /// Those of [`get`](Transaction::get).
    pub fn contains(&self, tree: &Tree, key: impl AsBytes) -> Result<bool> {
        let key = key.as_bytes();
        if let Some(value) = self.own(tree, key) {
            return Ok(value.is_some());
        }
        let then = self.then(tree)?;
        self.note_key(tree, key);
        then.contains(key)
    }

    /// Sets the value of `key`.
    ///
    /// # Errors
    ///
    /// [`KeyTooLong`](crate::Error::KeyTooLong) or [`ValueTooLong`](crate::Error::ValueTooLong);
    /// [`OtherPool`](crate::Error::OtherPool); [`NoMemory`](crate::Error::NoMemory). The transaction stays as it was.
    pub fn put(&mut self, tree: &Tree, key: impl AsBytes, value: impl AsBytes) -> Result<()> {
        let value = value.as_bytes();
        check_value(value)?;
        let value = fallible::copy(value, WRITES)?;
        self.write(tree, key.as_bytes(), Some(value))
    }

    /// Removes `key` if it is there.
    ///
    /// # Errors
    ///
    /// Those of [`put`](Transaction::put).
    pub fn delete(&mut self, tree: &Tree, key: impl AsBytes) -> Result<()> {
        self.write(tree, key.as_bytes(), None)
    }

    /// Sets the value of `key` and returns the old one, which counts as read.
    ///
    /// # Errors
    ///
    /// Those of [`get`](Transaction::get) and [`put`](Transaction::put).
    pub fn insert(
        &mut self,
        tree: &Tree,
        key: impl AsBytes,
        value: impl AsBytes,
    ) -> Result<Option<Vec<u8>>> {
        let old = self.get(tree, key.as_bytes())?;
        self.put(tree, key, value)?;
        Ok(old)
    }

    /// Removes `key` and returns the value that it had, which counts as read.
    ///
    /// # Errors
    ///
    /// Those of [`insert`](Transaction::insert).
    pub fn remove(&mut self, tree: &Tree, key: impl AsBytes) -> Result<Option<Vec<u8>>> {
        let old = self.get(tree, key.as_bytes())?;
        self.delete(tree, key)?;
        Ok(old)
    }

    fn write(&mut self, tree: &Tree, key: &[u8], value: Option<Vec<u8>>) -> Result<()> {
        check_key(key)?;
        if !Arc::ptr_eq(&self.engine, &tree.engine) {
            return Err(Error::OtherPool { name: tree.name().to_owned() });
        }
        let at = match self.writes.iter().position(|writes| writes.tree.is(&tree.id)) {
            Some(at) => at,
            None => {
                let (tree, name) = (tree.id.clone(), Arc::clone(&tree.name));
                let writes = TreeWrites { tree, name, keys: Written::default() };
                fallible::push(&mut self.writes, writes, WRITES)?;
                self.writes.len() - 1
            }
        };
        *self.writes[at].keys.entry(key, || None, WRITES)? = value;
        Ok(())
    }

    /// Iterates over the pairs whose keys are in `range`, in order, with the transaction's own writes. What the
    /// iterator has passed counts as read, and no more. A range that ends before it begins is empty.
    pub fn range(&self, tree: &Tree, range: impl KeyRange) -> TransactionRange<'_> {
        self.within(tree, bounds_of(&range), true)
    }

    /// As [`range`](Transaction::range), from the largest key down.
    pub fn range_rev(&self, tree: &Tree, range: impl KeyRange) -> TransactionRange<'_> {
        self.within(tree, bounds_of(&range), false)
    }

    /// Iterates over the pairs whose keys start with `prefix`, as [`range`](Transaction::range).
    pub fn prefix(&self, tree: &Tree, prefix: impl AsBytes) -> TransactionRange<'_> {
        self.within(tree, bounds_of_prefix(prefix.as_bytes()), true)
    }

    /// Iterates over all pairs of a tree, as [`range`](Transaction::range).
    pub fn iter(&self, tree: &Tree) -> TransactionRange<'_> {
        self.within(tree, ALL, true)
    }

    fn within(&self, tree: &Tree, (low, high): OwnedBounds, up: bool) -> TransactionRange<'_> {
        let walk = low.and_then(|low| Ok((low, high?))).and_then(|(low, high)| {
            if is_empty(&low, &high) {
                return Ok(None);
            }
            let pairs = self.then(tree)?.between(low.clone(), high.clone());
            let own = self.writes_of(&tree.id);
            let own = own.map(|own| own.keys.range(slice(&low), slice(&high)));
            let own = Direction { of: own.unwrap_or_default(), up }.peekable();
            let then = Direction { of: pairs, up }.peekable();
            Ok(Some(Walk { tree: tree.clone(), low, high, then, own, passed: None }))
        });
        let (walk, failed) = match walk {
            Ok(walk) => (walk, None),
            Err(error) => (None, Some(error)),
        };
        TransactionRange { transaction: self, up, walk, failed }
    }

    /// Applies all writes in one epoch, if what was read is still so. Returns at once if there are none.
    ///
    /// # Errors
    ///
    /// [`Conflict`](crate::Error::Conflict) if others have changed what it depends on, and
    /// [`SnapshotTooOld`](crate::Error::SnapshotTooOld) if that is not known any more: nothing has happened. Otherwise
    /// those of [`Batch::commit_with`](crate::Batch::commit_with).
    pub fn commit(mut self) -> Result<()> {
        let count = self.writes.iter().map(|writes| writes.keys.len()).sum();
        let mut changes = fallible::list(count, WRITES)?;
        for writes in &mut self.writes {
            let keys = std::mem::take(&mut writes.keys).into_iter();
            let tree = &writes.tree;
            changes.extend(keys.map(|(key, value)| BatchChange { tree: tree.clone(), key, value }));
        }
        if changes.is_empty() {
            return Ok(());
        }
        if let Some(error) = self.forgot.take() {
            return Err(error);
        }
        // From then on nothing needs to be kept for it, what it writes itself least of all.
        let begin = || self.cut.get().into_iter().for_each(|snapshot| snapshot.cut().end());
        let alone = Alone { validate: &|| self.validate(&changes), begin: &begin };
        let outcome = self.engine.commit_alone(&changes, &alone);
        self.engine.versions().count_commit(&outcome);
        outcome?;
        self.engine.settle(self.options.durability.unwrap_or(self.engine.durability()))
    }

    /// Does nothing: as a drop.
    pub fn abort(self) {}

    /// Whether it may happen now: its own cut has made all writers, who are out, keep what they replaced.
    fn validate(&self, changes: &[BatchChange]) -> Result<()> {
        let Some(snapshot) = self.cut.get() else { return Ok(()) };
        let cut = snapshot.cut();
        cut.alive()?;
        let conflict = |name: &Arc<str>, key| Err(Error::Conflict { tree: (&**name).into(), key });
        for ReadSet { tree, name, keys } in self.reads.borrow().iter() {
            let changed = match keys {
                // It was cleared: each key was removed.
                keys if tree.former(cut).is_some() => Some(keys.first()),
                ReadKeys::One(key) => tree.images().has_changed(cut, key).then(|| key.clone()),
                ReadKeys::Between(low, high) => {
                    tree.images().changed(cut, (slice(low), slice(high)))
                }
            };
            if let Some(key) = changed {
                return conflict(name, key);
            }
        }
        if self.options.isolation == Isolation::Snapshot {
            for BatchChange { tree, key, .. } in changes {
                if tree.former(cut).is_some() || tree.images().has_changed(cut, key) {
                    let name = self.writes_of(tree).map(|writes| &writes.name);
                    return conflict(name.expect("it has been written to"), key.clone());
                }
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let writes: usize = self.writes.iter().map(|writes| writes.keys.len()).sum();
        f.debug_struct("Transaction").field("writes", &writes).finish_non_exhaustive()
    }
}

fn slice(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    bound.as_ref().map(|key| &key[..])
}

/// Runs a transaction until nobody is in its way.
pub(crate) fn transact<T, E: From<Error>>(
    engine: &Arc<Engine>,
    options: TransactionOptions,
    mut run: impl FnMut(&mut Transaction) -> Result<T, E>,
) -> Result<T, E> {
    for attempt in 1.. {
        let mut transaction = Transaction::new(Arc::clone(engine), options);
        let answer = run(&mut transaction)?;
        match transaction.commit() {
            Ok(()) => return Ok(answer),
            Err(Error::Conflict { .. }) if attempt < options.attempts => wait(attempt),
            Err(error) => return Err(error.into()),
        }
    }
    unreachable!("the last attempt has an answer")
}

/// Before another attempt: longer each time, and not all for the same time.
fn wait(attempt: u32) {
    if attempt < HASTY {
        std::thread::yield_now();
        return;
    }
    let longest = LONGEST.min(8 << (attempt - HASTY).min(16));
    let own =
        everleaf_pmem::thread_number() as u64 * 0x9E37_79B9 + u64::from(attempt) * 0x85EB_CA6B;
    std::thread::sleep(Duration::from_micros(1 + own % longest));
}

/// An iterator from one of its ends.
struct Direction<I> {
    of: I,
    up: bool,
}

impl<I: DoubleEndedIterator> Iterator for Direction<I> {
    type Item = I::Item;

    fn next(&mut self) -> Option<I::Item> {
        if self.up { self.of.next() } else { self.of.next_back() }
    }
}

/// The two sides of a range: what was there, and what the transaction has written.
struct Walk<'t> {
    tree: Tree,
    low: Bound<Vec<u8>>,
    high: Bound<Vec<u8>>,
    then: Peekable<Direction<Range>>,
    own: Peekable<Direction<Between<'t, Option<Vec<u8>>>>>,
    /// How far it has come: to a key, or to the end.
    passed: Option<Bound<Vec<u8>>>,
}

impl Walk<'_> {
    /// The next pair, or what took the place of one.
    fn step(&mut self, up: bool) -> Option<Result<Change>> {
        let is_own = match (self.then.peek(), self.own.peek()) {
            (Some(Err(_)), _) | (_, None) => false,
            (None, Some(_)) => true,
            (Some(Ok((then, _))), Some((own, _))) => {
                if then[..] == **own {
                    self.then.next();
                    true
                } else {
                    (**own < then[..]) == up
                }
            }
        };
        if !is_own {
            return self.then.next().map(|pair| pair.map(|(key, value)| (key, Some(value))));
        }
        self.own.next().map(|(key, value)| {
            let value =
                value.as_deref().map(|value| fallible::copy(value, "a value")).transpose()?;
            Ok((fallible::copy(key, "a key")?, value))
        })
    }
}

/// An iterator over a part of a tree as a [`Transaction`] sees it. A pair that cannot be read is an error in its
/// place.
pub struct TransactionRange<'t> {
    transaction: &'t Transaction,
    up: bool,
    /// `None` at the end.
    walk: Option<Walk<'t>>,
    failed: Option<Error>,
}

impl TransactionRange<'_> {
    /// What was passed is read.
    fn note(&mut self) {
        let Some(Walk { tree, low, high, passed: Some(passed), .. }) = self.walk.take() else {
            return;
        };
        let (low, high) = if self.up { (low, passed) } else { (passed, high) };
        self.transaction.note(&tree, || Ok(ReadKeys::Between(low, high)));
    }
}

impl Iterator for TransactionRange<'_> {
    type Item = Result<Pair>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(error) = self.failed.take() {
            return Some(Err(error));
        }
        let walk = self.walk.as_mut()?;
        loop {
            match walk.step(self.up) {
                Some(Ok((key, value))) => {
                    match fallible::copy(&key, READS) {
                        Err(error) => return Some(Err(error)),
                        Ok(key) => walk.passed = Some(Bound::Included(key)),
                    }
                    if let Some(value) = value {
                        return Some(Ok((key, value)));
                    }
                }
                Some(Err(error)) => return Some(Err(error)),
                None => {
                    let end = if self.up { &walk.high } else { &walk.low };
                    walk.passed = Some(end.clone());
                    self.note();
                    return None;
                }
            }
        }
    }
}

impl FusedIterator for TransactionRange<'_> {}

impl Drop for TransactionRange<'_> {
    fn drop(&mut self) {
        self.note();
    }
}

impl fmt::Debug for TransactionRange<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TransactionRange").finish_non_exhaustive()
    }
}
