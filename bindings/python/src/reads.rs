//! Reads of anything that can be read: a tree, as it is, at a moment, or as a transaction sees it.

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use store::ReadTree;

use crate::bytes::{bytes, made};
use crate::errors::raise;

/// A key and its value.
pub type Pair<'py> = (Bound<'py, PyBytes>, Bound<'py, PyBytes>);

/// A pair of the store as one of Python.
pub fn pair(py: Python<'_>, pair: Option<store::Pair>) -> PyResult<Option<Pair<'_>>> {
    pair.map(|(key, value)| Ok((made(py, &key)?, made(py, &value)?))).transpose()
}

/// A pair that the store has found.
fn found(py: Python<'_>, found: store::Result<Option<store::Pair>>) -> PyResult<Option<Pair<'_>>> {
    pair(py, found.map_err(|error| raise(py, error))?)
}

#[inline]
pub fn get<'py>(
    py: Python<'py>,
    tree: &impl ReadTree,
    key: &Bound<'py, PyAny>,
) -> PyResult<Option<Bound<'py, PyBytes>>> {
    let key = bytes("a key", key)?;
    let found = tree.get_with(&*key, |value| made(py, value));
    found.map_err(|error| raise(py, error))?.transpose()
}

pub fn get_many<'py>(
    py: Python<'py>,
    tree: &impl ReadTree,
    keys: &Bound<'py, PyAny>,
) -> PyResult<Vec<Option<Bound<'py, PyBytes>>>> {
    keys.try_iter()?.map(|key| get(py, tree, &key?)).collect()
}

pub fn contains(py: Python<'_>, tree: &impl ReadTree, key: &Bound<'_, PyAny>) -> PyResult<bool> {
    tree.contains(&*bytes("a key", key)?).map_err(|error| raise(py, error))
}

pub fn len(py: Python<'_>, tree: &impl ReadTree) -> PyResult<usize> {
    tree.len().map(|pairs| pairs as usize).map_err(|error| raise(py, error))
}

pub fn first<'py>(py: Python<'py>, tree: &impl ReadTree) -> PyResult<Option<Pair<'py>>> {
    found(py, tree.first())
}

pub fn last<'py>(py: Python<'py>, tree: &impl ReadTree) -> PyResult<Option<Pair<'py>>> {
    found(py, tree.last())
}

/// The pair with the largest key that is not above `key`.
pub fn floor<'py>(
    py: Python<'py>,
    tree: &impl ReadTree,
    key: &Bound<'py, PyAny>,
) -> PyResult<Option<Pair<'py>>> {
    let key = bytes("a key", key)?;
    found(py, tree.floor(&*key))
}

/// The pair with the smallest key that is not below `key`.
pub fn ceiling<'py>(
    py: Python<'py>,
    tree: &impl ReadTree,
    key: &Bound<'py, PyAny>,
) -> PyResult<Option<Pair<'py>>> {
    let key = bytes("a key", key)?;
    found(py, tree.ceiling(&*key))
}

pub fn value_len(
    py: Python<'_>,
    tree: &impl ReadTree,
    key: &Bound<'_, PyAny>,
) -> PyResult<Option<u64>> {
    tree.value_len(&*bytes("a key", key)?).map_err(|error| raise(py, error))
}

/// At most `size` bytes of a value, from `offset` on.
pub fn read_at<'py>(
    py: Python<'py>,
    tree: &impl ReadTree,
    key: &Bound<'py, PyAny>,
    offset: u64,
    size: usize,
) -> PyResult<Option<Bound<'py, PyBytes>>> {
    let key = bytes("a key", key)?;
    let raised = |error| raise(py, error);
    let Some(len) = tree.value_len(&*key).map_err(raised)? else { return Ok(None) };
    // So that no more memory is asked for than there is to read.
    let size = len.saturating_sub(offset).min(size as u64) as usize;
    let mut part = vec![0; size];
    let read = tree.read_at(&*key, offset, &mut part).map_err(raised)?;
    read.map(|read| made(py, &part[..read])).transpose()
}
