//! Changes that belong together.

use std::sync::{Arc, Mutex, MutexGuard};

use pyo3::prelude::*;

use crate::bytes::{bytes, pair};
use crate::db::Db;
use crate::errors::{over, raise};
use crate::options::durability;
use crate::pool::Pool;
use crate::tree::Tree;
use crate::wait::lock_at_once;

/// Changes to any trees of one pool that a crash keeps or loses together.
#[pyclass(frozen, subclass, module = "everleaf._everleaf")]
pub struct Batch {
    /// None when it was committed or aborted.
    batch: Mutex<Option<store::Batch>>,
    _pool: Arc<Pool>,
}

impl Batch {
    fn lock(&self) -> PyResult<MutexGuard<'_, Option<store::Batch>>> {
        lock_at_once(&self.batch, "the batch")
    }

    fn with<T>(
        &self,
        py: Python<'_>,
        add: impl FnOnce(&mut store::Batch) -> store::Result<T>,
    ) -> PyResult<T> {
        match &mut *self.lock()? {
            Some(batch) => add(batch).map_err(|error| raise(py, error)),
            None => Err(is_over(py)),
        }
    }
}

fn is_over(py: Python<'_>) -> PyErr {
    over(py, "the batch was committed or aborted")
}

#[pymethods]
impl Batch {
    /// An empty batch of a pool, or of the pool of a tree, and as durable as the writes of that.
    #[new]
    #[pyo3(signature = (of, *, sync=None))]
    fn new(py: Python<'_>, of: &Bound<'_, PyAny>, sync: Option<bool>) -> PyResult<Self> {
        let (pool, own) = match of.cast::<Tree>() {
            Ok(tree) => (&tree.get().pool, tree.get().sync),
            Err(_) => {
                let db = of.cast::<Db>()?.get();
                (&db.pool, db.sync)
            }
        };
        let batch = pool.db(py)?.with(durability(sync.unwrap_or(own))).batch();
        Ok(Self { batch: Mutex::new(Some(batch)), _pool: Arc::clone(pool) })
    }

    /// Add a change that sets the value of `key` in `tree`.
    fn put(
        &self,
        py: Python<'_>,
        tree: &Tree,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let (key, value) = (bytes("a key", key)?, bytes("a value", value)?);
        self.with(py, |batch| batch.put(&tree.tree, &*key, &*value))
    }

    /// Add a change for each pair of an iterable.
    fn put_many(&self, py: Python<'_>, tree: &Tree, pairs: &Bound<'_, PyAny>) -> PyResult<()> {
        for item in pairs.try_iter()? {
            let (key, value) = pair(&item?)?;
            self.put(py, tree, &key, &value)?;
        }
        Ok(())
    }

    /// Add a change that removes `key` from `tree`.
    fn delete(&self, py: Python<'_>, tree: &Tree, key: &Bound<'_, PyAny>) -> PyResult<()> {
        let key = bytes("a key", key)?;
        self.with(py, |batch| batch.delete(&tree.tree, &*key))
    }

    /// Make all changes, in one epoch.
    fn commit(&self, py: Python<'_>) -> PyResult<()> {
        let batch = self.lock()?.take().ok_or_else(|| is_over(py))?;
        py.detach(|| batch.commit()).map_err(|error| raise(py, error))
    }

    /// Drop all changes.
    fn abort(&self) -> PyResult<()> {
        *self.lock()? = None;
        Ok(())
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        self.with(py, |batch| Ok(batch.len()))
    }

    fn __bool__(&self) -> bool {
        true
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
        let batch = self.lock()?.take();
        match batch {
            Some(batch) if kind.is_none() => {
                py.detach(|| batch.commit()).map_err(|error| raise(py, error))
            }
            _ => Ok(()),
        }
    }
}
