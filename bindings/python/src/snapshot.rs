//! All trees of a pool at one moment.

use std::sync::{Arc, Mutex};

use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::cursor::Cursor;
use crate::db::Db;
use crate::errors::{over, raise};
use crate::pool::Pool;
use crate::reads;
use crate::scan::{Bounds, Scan};
use crate::tree::Tree;
use crate::wait::lock;

/// All trees of a pool as they were at one moment.
#[pyclass(frozen, subclass, module = "everleaf._everleaf")]
pub struct Snapshot {
    /// None when it was closed.
    snapshot: Mutex<Option<store::Snapshot>>,
    pool: Arc<Pool>,
}

impl Snapshot {
    fn get(&self, py: Python<'_>) -> PyResult<store::Snapshot> {
        lock(&self.snapshot).clone().ok_or_else(|| over(py, "the snapshot was closed"))
    }
}

#[pymethods]
impl Snapshot {
    #[new]
    fn new(py: Python<'_>, db: &Db) -> PyResult<Self> {
        // It waits for writers, and one that waits for the disk has given up the interpreter's lock.
        let snapshot = py.detach(|| db.db.snapshot()).map_err(|error| raise(py, error))?;
        Ok(Self { snapshot: Mutex::new(Some(snapshot)), pool: Arc::clone(&db.pool) })
    }

    /// Return the names that trees had at the moment, in order.
    fn tree_names(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        self.get(py)?.tree_names().map_err(|error| raise(py, error))
    }

    /// End the snapshot. Its trees keep the moment for as long as they are there.
    fn close(&self) {
        *lock(&self.snapshot) = None;
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __exit__(
        &self,
        _kind: &Bound<'_, PyAny>,
        _value: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) {
        self.close();
    }
}

/// A tree at the moment of a snapshot.
#[pyclass(frozen, subclass, mapping, module = "everleaf._everleaf")]
pub struct SnapshotTree {
    tree: store::SnapshotTree,
    pool: Arc<Pool>,
}

#[pymethods]
impl SnapshotTree {
    /// The tree as it was; of one that is given by name, by the name that it had.
    #[new]
    fn new(py: Python<'_>, snapshot: &Snapshot, tree: &Bound<'_, PyAny>) -> PyResult<Self> {
        let moment = snapshot.get(py)?;
        let found = match tree.cast::<Tree>() {
            Ok(tree) => moment.of(&tree.get().tree).map(Some),
            Err(_) => moment.tree(&tree.extract::<String>()?),
        };
        match found.map_err(|error| raise(py, error))? {
            Some(tree) => Ok(Self { tree, pool: Arc::clone(&snapshot.pool) }),
            None => Err(raise(py, store::Error::NoTree)),
        }
    }

    /// The name that the tree was opened with.
    #[getter]
    fn name(&self) -> &str {
        self.tree.name()
    }

    fn __getitem__<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let found = reads::get(py, &self.tree, key)?;
        found.ok_or_else(|| PyKeyError::new_err(key.clone().unbind()))
    }

    /// Return the value of `key`, or `default` if it is not there.
    #[pyo3(signature = (key, default=None))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        Ok(reads::get(py, &self.tree, key)?.map(Bound::into_any).or(default))
    }

    /// Return the values of many keys, with None for each that is not there.
    fn get_many<'py>(
        &self,
        py: Python<'py>,
        keys: &Bound<'py, PyAny>,
    ) -> PyResult<Vec<Option<Bound<'py, PyBytes>>>> {
        reads::get_many(py, &self.tree, keys)
    }

    fn __contains__(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        reads::contains(py, &self.tree, key)
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        reads::len(py, &self.tree)
    }

    /// Whether it has a pair; `len` counts all of them.
    fn __bool__(&self, py: Python<'_>) -> PyResult<bool> {
        let is_empty = self.tree.is_empty().map_err(|error| raise(py, error))?;
        Ok(!is_empty)
    }

    /// Return the pair with the smallest key, or None.
    fn first<'py>(&self, py: Python<'py>) -> PyResult<Option<reads::Pair<'py>>> {
        reads::first(py, &self.tree)
    }

    /// Return the pair with the largest key, or None.
    fn last<'py>(&self, py: Python<'py>) -> PyResult<Option<reads::Pair<'py>>> {
        reads::last(py, &self.tree)
    }

    /// Return the last pair whose key is `key` or below it, or None.
    fn floor<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
    ) -> PyResult<Option<reads::Pair<'py>>> {
        reads::floor(py, &self.tree, key)
    }

    /// Return the first pair whose key is `key` or above it, or None.
    fn ceiling<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
    ) -> PyResult<Option<reads::Pair<'py>>> {
        reads::ceiling(py, &self.tree, key)
    }

    /// Return the bytes of a value, or None if the key is not there. The value is not read.
    fn value_len(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<Option<u64>> {
        reads::value_len(py, &self.tree, key)
    }

    /// Return at most `size` bytes of a value from byte `offset` on, or None if the key is not there.
    fn read_at<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        offset: u64,
        size: usize,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        reads::read_at(py, &self.tree, key, offset, size)
    }

    /// Return a new cursor, which is at no pair yet.
    fn cursor(&self) -> Cursor {
        Cursor::new(self.tree.cursor(), Arc::clone(&self.pool))
    }

    #[allow(clippy::too_many_arguments)]
    fn _scan(
        &self,
        py: Python<'_>,
        start: Option<&Bound<'_, PyAny>>,
        stop: Option<&Bound<'_, PyAny>>,
        prefix: Option<&Bound<'_, PyAny>>,
        reverse: bool,
        keys: bool,
        values: bool,
    ) -> PyResult<Scan> {
        let bounds = Bounds::new(py, start, stop, prefix)?;
        Scan::new(self.tree.cursor(), bounds, reverse, (keys, values), Arc::clone(&self.pool))
    }

    fn __repr__(&self) -> String {
        format!("<everleaf.SnapshotTree {:?}>", self.tree.name())
    }
}
