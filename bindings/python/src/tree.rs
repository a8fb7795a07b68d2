//! A tree: a mapping of bytes to bytes in the order of its keys.

use std::sync::Arc;

use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::bytes::some_bytes;
use crate::bytes::{bytes, owned, pair};
use crate::cursor::Cursor;
use crate::db::Db;
use crate::errors::raise;
use crate::options::durability;
use crate::pool::Pool;
use crate::reads;
use crate::scan::{Bounds, Scan};
use crate::wait;

/// A value of more bytes goes to the file, some of them at once, and other threads of Python are not to stand still for that.
const LARGE: usize = 2 << 10;

/// A named tree of a pool.
#[pyclass(frozen, subclass, mapping, module = "everleaf._everleaf")]
pub struct Tree {
    pub tree: store::Tree,
    /// Each write waits for the disk.
    pub sync: bool,
    pub pool: Arc<Pool>,
}

impl Tree {
    /// Runs a write, without the interpreter's lock if it is to wait, or to write many bytes.
    #[inline]
    fn write<T: Send>(
        &self,
        py: Python<'_>,
        bytes: usize,
        write: impl FnOnce(&store::Tree) -> store::Result<T> + Send,
    ) -> PyResult<T> {
        let answer = match self.sync || bytes > LARGE || self.tree.may_wait() {
            true => py.detach(|| write(&self.tree)),
            false => write(&self.tree),
        };
        answer.map_err(|error| raise(py, error))
    }
}

/// The exception for a key that is not there.
#[cold]
fn missing(key: &Bound<'_, PyAny>) -> PyErr {
    PyKeyError::new_err(key.clone().unbind())
}

#[pymethods]
impl Tree {
    /// Opens the tree called `name`, or makes it.
    #[new]
    #[pyo3(signature = (db, name, *, create=true, sync=None))]
    fn new(
        py: Python<'_>,
        db: &Db,
        name: &str,
        create: bool,
        sync: Option<bool>,
    ) -> PyResult<Self> {
        let sync = sync.unwrap_or(db.sync);
        let handle = db.db.with(durability(sync));
        let tree = match create {
            true => py.detach(|| handle.tree(name)),
            false => handle.open_tree(name).and_then(|tree| tree.ok_or(store::Error::NoTree)),
        };
        let tree = tree.map_err(|error| raise(py, error))?;
        Ok(Self { tree, sync, pool: Arc::clone(&db.pool) })
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
        reads::get(py, &self.tree, key)?.ok_or_else(|| missing(key))
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
        self.tree.contains(&*bytes("a key", key)?).map_err(|error| raise(py, error))
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        self.tree.len().map(|pairs| pairs as usize).map_err(|error| raise(py, error))
    }

    fn __setitem__(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let (key, value) = (bytes("a key", key)?, bytes("a value", value)?);
        let (key, value) = (&*key, &*value);
        self.write(py, value.len(), |tree| tree.put(key, value))
    }

    /// Set the value of `key`. With `sync` it is on disk when this returns; the default is that of the handle.
    #[pyo3(signature = (key, value, *, sync=None))]
    fn put(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
        sync: Option<bool>,
    ) -> PyResult<()> {
        let Some(sync) = sync.filter(|sync| *sync != self.sync) else {
            return self.__setitem__(py, key, value);
        };
        let tree = self.tree.with(durability(sync));
        Self { tree, sync, pool: Arc::clone(&self.pool) }.__setitem__(py, key, value)
    }

    fn __delitem__(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<()> {
        match self.take(py, key)? {
            Some(_) => Ok(()),
            None => Err(missing(key)),
        }
    }

    /// Remove `key` if it is there.
    fn delete(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<()> {
        let key = bytes("a key", key)?;
        let key = &*key;
        self.write(py, 0, |tree| tree.delete(key))
    }

    /// Remove `key` and return its value, or None if it is not there.
    fn take<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let key = bytes("a key", key)?;
        let key = &*key;
        let old = self.write(py, 0, |tree| tree.remove(key))?;
        some_bytes(py, old.as_deref())
    }

    /// Set the value of `key` and return the one before, or None.
    fn swap<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        value: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let (key, value) = (bytes("a key", key)?, bytes("a value", value)?);
        let (key, value) = (&*key, &*value);
        let old = self.write(py, value.len(), |tree| tree.insert(key, value))?;
        some_bytes(py, old.as_deref())
    }

    /// Set `key` if it is not there, and return whether that was so.
    fn insert_new(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<bool> {
        let (key, value) = (bytes("a key", key)?, bytes("a value", value)?);
        let (key, value) = (&*key, &*value);
        self.write(py, value.len(), |tree| tree.insert_new(key, value))
    }

    /// Set `key` if it is there, and return whether that was so.
    fn replace(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<bool> {
        let (key, value) = (bytes("a key", key)?, bytes("a value", value)?);
        let (key, value) = (&*key, &*value);
        self.write(py, value.len(), |tree| tree.replace(key, value))
    }

    /// Change the value of `key` from `expected` to `new`, and return whether that was done.
    ///
    /// None stands for no value: it is expected if the key is to be missing, and as the new one it removes the key.
    fn compare_and_swap(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        expected: Option<&Bound<'_, PyAny>>,
        new: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<bool> {
        let key = bytes("a key", key)?;
        let (expected, new) = (owned("a value", expected)?, owned("a value", new)?);
        let key = &*key;
        let bytes = new.as_ref().map_or(0, Vec::len);
        let swap = self.write(py, bytes, |tree| tree.compare_and_swap(key, expected, new))?;
        Ok(swap.is_done())
    }

    /// Remove the pair with the smallest key and return it, or None.
    fn pop_first<'py>(&self, py: Python<'py>) -> PyResult<Option<reads::Pair<'py>>> {
        let pair = self.write(py, 0, |tree| tree.pop_first())?;
        reads::pair(py, pair)
    }

    /// Remove the pair with the largest key and return it, or None.
    fn pop_last<'py>(&self, py: Python<'py>) -> PyResult<Option<reads::Pair<'py>>> {
        let pair = self.write(py, 0, |tree| tree.pop_last())?;
        reads::pair(py, pair)
    }

    /// Remove all pairs, in the same time however many there are.
    fn clear(&self, py: Python<'_>) -> PyResult<()> {
        let tree = self.tree.clone();
        wait::run(py, move || tree.clear().map(drop))
    }

    /// Remove the pairs from `start` on and before `stop` whose keys begin with `prefix`; return how many.
    #[pyo3(signature = (start=None, stop=None, *, prefix=None))]
    fn remove_range(
        &self,
        py: Python<'_>,
        start: Option<&Bound<'_, PyAny>>,
        stop: Option<&Bound<'_, PyAny>>,
        prefix: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<u64> {
        let bounds = Bounds::new(py, start, stop, prefix)?;
        let tree = self.tree.clone();
        wait::run(
            py,
            move || if bounds.is_empty() { Ok(0) } else { tree.remove_range(bounds.of()) },
        )
    }

    /// Put an iterable of pairs, one after the other, and return how many there were.
    ///
    /// It takes any number of pairs. A crash keeps some of them; `update` keeps all or none.
    fn update_many(&self, py: Python<'_>, pairs: &Bound<'_, PyAny>) -> PyResult<u64> {
        let mut count = 0;
        let buffered = self.tree.with(store::Durability::Buffered);
        let writer = Self { tree: buffered, sync: false, pool: Arc::clone(&self.pool) };
        for item in pairs.try_iter()? {
            let (key, value) = pair(&item?)?;
            writer.__setitem__(py, &key, &value)?;
            count += 1;
        }
        if self.sync {
            self.pool.sync(py)?;
        }
        Ok(count)
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
        format!("<everleaf.Tree {:?}>", self.tree.name())
    }
}
