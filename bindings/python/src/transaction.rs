//! Reads and writes of which all take effect or none.

use std::sync::{Arc, Mutex, MutexGuard};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use store::{Bytes, Isolation, Swap, TransactionOptions};

use crate::bytes::some_bytes;
use crate::bytes::{bytes, made, owned};
use crate::db::Db;
use crate::errors::{over, raise};
use crate::options::durability;
use crate::pool::Pool;
use crate::reads;
use crate::scan::{Bounds, What};
use crate::tree::Tree;
use crate::wait::lock_at_once;

/// A transaction: optimistic, and serializable unless it was asked to be less.
#[pyclass(frozen, subclass, module = "everleaf._everleaf")]
pub struct Transaction {
    /// None when it was committed or aborted.
    transaction: Mutex<Option<store::Transaction>>,
    _pool: Arc<Pool>,
}

impl Transaction {
    fn lock(&self) -> PyResult<MutexGuard<'_, Option<store::Transaction>>> {
        lock_at_once(&self.transaction, "the transaction")
    }

    fn with<T>(
        &self,
        py: Python<'_>,
        act: impl FnOnce(&store::Transaction) -> store::Result<T>,
    ) -> PyResult<T> {
        match &*self.lock()? {
            Some(transaction) => act(transaction).map_err(|error| raise(py, error)),
            None => Err(is_over(py)),
        }
    }

    /// Reads a tree as the transaction sees it.
    fn reading<'py, T>(
        &self,
        py: Python<'py>,
        tree: &Tree,
        read: impl FnOnce(&store::TransactionTree<'_, '_>) -> PyResult<T>,
    ) -> PyResult<T> {
        match &*self.lock()? {
            Some(transaction) => {
                read(&transaction.of(&tree.tree).map_err(|error| raise(py, error))?)
            }
            None => Err(is_over(py)),
        }
    }
}

/// Runs a transaction that `begin` makes until nobody is in its way, or often enough; returns what `run` has returned.
#[pyfunction]
pub fn transact<'py>(
    py: Python<'py>,
    db: &Db,
    run: &Bound<'py, PyAny>,
    begin: &Bound<'py, PyAny>,
    attempts: u32,
) -> PyResult<Bound<'py, PyAny>> {
    let mut attempts = db.pool.db(py)?.attempts(attempts);
    loop {
        let object = begin.call0()?;
        let own = object.cast::<Transaction>()?.get();
        let answer = run.call1((&object,)).inspect_err(|_| drop(own.abort()))?;
        let transaction = own.lock()?.take().ok_or_else(|| is_over(py))?;
        let committed = py.detach(|| attempts.commit(transaction));
        if committed.map_err(|error| raise(py, error))? {
            return Ok(answer);
        }
    }
}

fn is_over(py: Python<'_>) -> PyErr {
    over(py, "the transaction was committed or aborted")
}

#[pymethods]
impl Transaction {
    #[new]
    #[pyo3(signature = (db, *, isolation="serializable", sync=None))]
    fn new(py: Python<'_>, db: &Db, isolation: &str, sync: Option<bool>) -> PyResult<Self> {
        let isolation = match isolation {
            "serializable" => Isolation::Serializable,
            "snapshot" => Isolation::Snapshot,
            other => {
                let what = format!("isolation is 'serializable' or 'snapshot', not {other:?}");
                return Err(PyValueError::new_err(what));
            }
        };
        let handle = db.pool.db(py)?.with(durability(sync.unwrap_or(db.sync)));
        let transaction = handle.begin_with(TransactionOptions::new().isolation(isolation));
        Ok(Self { transaction: Mutex::new(Some(transaction)), _pool: Arc::clone(&db.pool) })
    }

    /// Return the value of `key`, or `default` if it is not there.
    #[pyo3(signature = (tree, key, default=None))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        tree: &Tree,
        key: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let found = self.reading(py, tree, |tree| reads::get(py, tree, key))?;
        Ok(found.map(Bound::into_any).or(default))
    }

    /// Return whether `key` is in `tree`.
    fn contains(&self, py: Python<'_>, tree: &Tree, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        self.reading(py, tree, |tree| reads::contains(py, tree, key))
    }

    /// Return how many pairs `tree` has. It counts them, and all count as read.
    fn len(&self, py: Python<'_>, tree: &Tree) -> PyResult<usize> {
        self.reading(py, tree, |tree| reads::len(py, tree))
    }

    /// Return the pair with the smallest key, or None.
    fn first<'py>(&self, py: Python<'py>, tree: &Tree) -> PyResult<Option<reads::Pair<'py>>> {
        self.reading(py, tree, |tree| reads::first(py, tree))
    }

    /// Return the pair with the largest key, or None.
    fn last<'py>(&self, py: Python<'py>, tree: &Tree) -> PyResult<Option<reads::Pair<'py>>> {
        self.reading(py, tree, |tree| reads::last(py, tree))
    }

    /// Return the last pair whose key is `key` or below it, or None.
    fn floor<'py>(
        &self,
        py: Python<'py>,
        tree: &Tree,
        key: &Bound<'py, PyAny>,
    ) -> PyResult<Option<reads::Pair<'py>>> {
        self.reading(py, tree, |tree| reads::floor(py, tree, key))
    }

    /// Return the first pair whose key is `key` or above it, or None.
    fn ceiling<'py>(
        &self,
        py: Python<'py>,
        tree: &Tree,
        key: &Bound<'py, PyAny>,
    ) -> PyResult<Option<reads::Pair<'py>>> {
        self.reading(py, tree, |tree| reads::ceiling(py, tree, key))
    }

    /// Set the value of `key`. Others see it after the commit.
    fn put(
        &self,
        py: Python<'_>,
        tree: &Tree,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let (key, value) = (bytes("a key", key)?, bytes("a value", value)?);
        self.with(py, |transaction| transaction.put(&tree.tree, &*key, &*value))
    }

    /// Remove `key` if it is there.
    fn delete(&self, py: Python<'_>, tree: &Tree, key: &Bound<'_, PyAny>) -> PyResult<()> {
        let key = bytes("a key", key)?;
        self.with(py, |transaction| transaction.delete(&tree.tree, &*key))
    }

    /// Removes a key and returns the value that it had, or nothing.
    fn take<'py>(
        &self,
        py: Python<'py>,
        tree: &Tree,
        key: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let key = bytes("a key", key)?;
        let old = self.with(py, |transaction| transaction.remove(&tree.tree, &*key))?;
        some_bytes(py, old.as_deref())
    }

    /// Set `key` if it is not there, and return whether that was so.
    fn insert_new(
        &self,
        py: Python<'_>,
        tree: &Tree,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<bool> {
        let (key, value) = (bytes("a key", key)?, bytes("a value", value)?);
        self.with(py, |transaction| transaction.insert_new(&tree.tree, &*key, &*value))
    }

    /// Change the value of `key` from `expected` to `new`, and return whether that was done.
    ///
    /// None stands for no value: it is expected if the key is to be missing, and as the new one it removes the key.
    fn compare_and_swap(
        &self,
        py: Python<'_>,
        tree: &Tree,
        key: &Bound<'_, PyAny>,
        expected: Option<&Bound<'_, PyAny>>,
        new: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<bool> {
        let key = bytes("a key", key)?;
        let (expected, new) = (owned("a value", expected)?, owned("a value", new)?);
        self.with(py, |transaction| {
            transaction
                .compare_and_swap(&tree.tree, &*key, expected, new)
                .map(|swap| swap == Swap::Done)
        })
    }

    /// Remove the pairs from `start` on and before `stop` whose keys begin with `prefix`; return how many.
    #[pyo3(signature = (tree, start=None, stop=None, *, prefix=None))]
    fn remove_range(
        &self,
        py: Python<'_>,
        tree: &Tree,
        start: Option<&Bound<'_, PyAny>>,
        stop: Option<&Bound<'_, PyAny>>,
        prefix: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<u64> {
        let bounds = Bounds::new(py, start, stop, prefix)?;
        if bounds.is_empty() {
            return Ok(0);
        }
        self.with(py, |transaction| transaction.remove_range(&tree.tree, bounds.of()))
    }

    /// Iterate over a part of `tree`, as `Tree.range` does. The part that it has passed counts as read.
    #[pyo3(signature = (tree, start=None, stop=None, *, prefix=None, reverse=false, keys=true, values=true))]
    #[allow(clippy::too_many_arguments)]
    fn range(
        slf: Py<Self>,
        py: Python<'_>,
        tree: Py<Tree>,
        start: Option<&Bound<'_, PyAny>>,
        stop: Option<&Bound<'_, PyAny>>,
        prefix: Option<&Bound<'_, PyAny>>,
        reverse: bool,
        keys: bool,
        values: bool,
    ) -> PyResult<TransactionScan> {
        let what = What::new((keys, values))?;
        let rest = Some(Bounds::new(py, start, stop, prefix)?);
        let rest = Mutex::new(rest.filter(|bounds| !bounds.is_empty()));
        Ok(TransactionScan { transaction: slf, tree, rest, reverse, what })
    }

    /// Make all writes, unless others have changed what was read: then `Conflict` is raised.
    fn commit(&self, py: Python<'_>) -> PyResult<()> {
        let transaction = self.lock()?.take().ok_or_else(|| is_over(py))?;
        py.detach(|| transaction.commit()).map_err(|error| raise(py, error))
    }

    /// Drop all writes.
    fn abort(&self) -> PyResult<()> {
        *self.lock()? = None;
        Ok(())
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    /// Commits; after an exception, and after a commit or an abort in the block, does nothing.
    fn __exit__(
        &self,
        py: Python<'_>,
        kind: &Bound<'_, PyAny>,
        _value: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let transaction = self.lock()?.take();
        match transaction {
            Some(transaction) if kind.is_none() => {
                py.detach(|| transaction.commit()).map_err(|error| raise(py, error))
            }
            _ => Ok(()),
        }
    }
}

/// An iterator over a part of a tree as a transaction sees it. It takes a pair at a time: what it has passed counts as
/// read, and no more.
#[pyclass(frozen, module = "everleaf._everleaf")]
pub struct TransactionScan {
    transaction: Py<Transaction>,
    tree: Py<Tree>,
    /// The bounds that are left; None at the end.
    rest: Mutex<Option<Bounds>>,
    reverse: bool,
    what: What,
}

#[pymethods]
impl TransactionScan {
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let mut place = lock_at_once(&self.rest, "the iterator")?;
        let Some(rest) = &mut *place else { return Ok(None) };
        let (transaction, tree) = (self.transaction.get(), &self.tree.get().tree);
        let found = transaction.with(py, |transaction| {
            let mut range = transaction.range(tree, rest.of());
            if let What::Keys = self.what {
                let mut keys = range.keys();
                let key = if self.reverse { keys.next_back() } else { keys.next() };
                return Ok(key.map(|key| key.map(|key| (key, Bytes::default()))));
            }
            Ok(if self.reverse { range.next_back() } else { range.next() })
        });
        let (key, value) = match found? {
            Some(Ok(pair)) => pair,
            // A pair that cannot be read tells no key, so another call would come to it again.
            Some(Err(error)) => {
                *place = None;
                return Err(raise(py, error));
            }
            None => {
                *place = None;
                return Ok(None);
            }
        };
        let item = match self.what {
            What::Keys => made(py, &key)?.into_any(),
            What::Values => made(py, &value)?.into_any(),
            What::Pairs => (made(py, &key)?, made(py, &value)?).into_pyobject(py)?.into_any(),
        };
        let end = std::ops::Bound::Excluded(key.into_vec());
        if self.reverse {
            rest.high = end;
        } else {
            rest.low = end;
        }
        Ok(Some(item))
    }
}
