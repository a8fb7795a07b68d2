//! A place in a tree.

use std::sync::{Arc, Mutex, MutexGuard};

use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::bytes::some_bytes;
use crate::bytes::{bytes, made};
use crate::errors::raise;
use crate::pool::Pool;
use crate::reads::Pair;
use crate::wait::lock_at_once;

/// A place in a tree, from which one can go in both directions.
#[pyclass(frozen, module = "everleaf._everleaf")]
pub struct Cursor {
    cursor: Mutex<store::Cursor>,
    _pool: Arc<Pool>,
}

impl Cursor {
    pub fn new(cursor: store::Cursor, pool: Arc<Pool>) -> Self {
        Self { cursor: Mutex::new(cursor), _pool: pool }
    }

    fn at(&self) -> PyResult<MutexGuard<'_, store::Cursor>> {
        lock_at_once(&self.cursor, "the cursor")
    }

    fn go(
        &self,
        py: Python<'_>,
        step: impl FnOnce(&mut store::Cursor) -> store::Result<bool>,
    ) -> PyResult<bool> {
        step(&mut *self.at()?).map_err(|error| raise(py, error))
    }
}

#[pymethods]
impl Cursor {
    /// Go to the pair with the smallest key; return whether there is one.
    fn first(&self, py: Python<'_>) -> PyResult<bool> {
        self.go(py, store::Cursor::first)
    }

    /// Go to the pair with the largest key; return whether there is one.
    fn last(&self, py: Python<'_>) -> PyResult<bool> {
        self.go(py, store::Cursor::last)
    }

    /// Go to the next pair, from nowhere to the first one; return whether there is one.
    fn next(&self, py: Python<'_>) -> PyResult<bool> {
        self.go(py, store::Cursor::next)
    }

    /// Go to the pair before, from nowhere to the last one; return whether there is one.
    fn prev(&self, py: Python<'_>) -> PyResult<bool> {
        self.go(py, store::Cursor::prev)
    }

    /// Go to the first pair whose key is `key` or above it; return whether there is one.
    fn seek(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        let key = bytes("a key", key)?;
        self.go(py, |cursor| cursor.seek(&*key))
    }

    /// Go to the last pair whose key is `key` or below it; return whether there is one.
    fn seek_for_prev(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        let key = bytes("a key", key)?;
        self.go(py, |cursor| cursor.seek_for_prev(&*key))
    }

    /// The key that the cursor is at, or None.
    #[getter]
    fn key<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        some_bytes(py, self.at()?.key())
    }

    /// The value that the cursor is at, or None.
    #[getter]
    fn value<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let mut cursor = self.at()?;
        let value = cursor.value().map_err(|error| raise(py, error))?;
        some_bytes(py, value)
    }

    /// The pair that the cursor is at, or None.
    #[getter]
    fn item<'py>(&self, py: Python<'py>) -> PyResult<Option<Pair<'py>>> {
        let mut cursor = self.at()?;
        let pair = cursor.pair().map_err(|error| raise(py, error))?;
        pair.map(|(key, value)| Ok((made(py, key)?, made(py, value)?))).transpose()
    }
}
