//! An open pool.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::raise;
use crate::options::{self, Settings};
use crate::pool::Pool;
use crate::stats;
use crate::wait;

/// An open pool of named trees.
#[pyclass(frozen, subclass, module = "everleaf._everleaf")]
pub struct Db {
    pub db: store::Db,
    pub sync: bool,
    pub pool: Arc<Pool>,
}

#[pymethods]
impl Db {
    /// Opens the pool at `path`; without a path, makes one in memory.
    #[new]
    #[pyo3(signature = (path, **options))]
    fn new(
        py: Python<'_>,
        path: Option<PathBuf>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let settings = options::read(options)?;
        let ends_epochs = settings.ends_epochs();
        let Settings { options, sync, .. } = settings;
        let db = wait::run(py, move || match path {
            Some(path) => options.open(path),
            None => options.in_memory(),
        })?;
        Ok(Self { pool: Pool::new(db.clone(), ends_epochs), db, sync })
    }

    /// The path of the pool's file, or None if it is in memory.
    #[getter]
    fn path(&self) -> Option<PathBuf> {
        self.db.path().map(PathBuf::from)
    }

    /// Whether the pool was closed.
    #[getter]
    fn closed(&self) -> bool {
        self.pool.is_closed()
    }

    /// Make everything durable and close the pool. A second time it does nothing.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        if self.pool.set_closed() {
            return Ok(());
        }
        let db = self.db.clone();
        wait::run(py, move || db.close())
    }

    /// Close the pool as a crash would: what is not durable is gone.
    fn abandon(&self, py: Python<'_>) -> PyResult<()> {
        if self.pool.set_closed() {
            return Ok(());
        }
        let db = self.db.clone();
        wait::run(py, move || db.abandon())
    }

    /// Return the names of all trees, in order.
    fn tree_names(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        self.db.tree_names().map_err(|error| raise(py, error))
    }

    /// Remove a tree with all that it holds; return whether there was one.
    fn drop_tree(&self, py: Python<'_>, name: String) -> PyResult<bool> {
        let db = self.db.clone();
        wait::run(py, move || db.drop_tree(&name))
    }

    /// Give a tree another name; return whether there was one. `TreeExists` if another tree has it.
    fn rename_tree(&self, py: Python<'_>, name: String, to: String) -> PyResult<bool> {
        let db = self.db.clone();
        wait::run(py, move || db.rename_tree(&name, &to))
    }

    /// Wait until everything before this call is on disk.
    fn sync(&self, py: Python<'_>) -> PyResult<()> {
        let db = self.db.clone();
        wait::run(py, move || db.sync())
    }

    /// Write all changed pages to their places and empty the journal.
    fn checkpoint(&self, py: Python<'_>) -> PyResult<()> {
        let db = self.db.clone();
        wait::run(py, move || db.checkpoint())
    }

    /// End the current epoch without waiting for the disk, and return its number. A killed process loses nothing of it.
    ///
    /// It is for pools that were opened with `manual_epochs=True`: all that was written since the last end becomes durable
    /// together, or not at all.
    fn end_epoch(&self, py: Python<'_>) -> PyResult<u64> {
        let db = self.db.clone();
        wait::run(py, move || db.end_epoch())
    }

    /// About how many bytes of changes the current epoch has.
    #[getter]
    fn pending_bytes(&self) -> u64 {
        self.db.pending_bytes()
    }

    /// The epoch that runs: what was written until now is on disk when it is.
    #[getter]
    fn epoch(&self) -> u64 {
        self.db.epoch()
    }

    /// The last epoch that is on disk.
    #[getter]
    fn durable_epoch(&self) -> u64 {
        self.db.durable_epoch()
    }

    /// Wait until an epoch is on disk, or for `timeout` seconds; return whether it is.
    ///
    /// Without an epoch it waits for everything before this call.
    #[pyo3(signature = (epoch=None, timeout=None))]
    fn wait_durable(
        &self,
        py: Python<'_>,
        epoch: Option<u64>,
        timeout: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<bool> {
        let most: Option<Duration> =
            timeout.map(|timeout| options::seconds("timeout", timeout)).transpose()?;
        let epoch = epoch.unwrap_or_else(|| self.db.epoch());
        wait::until_durable(py, self.db.durable(epoch), most)
    }

    /// Copy the pool to a new file, and return the epoch that the copy holds. Others read and write meanwhile.
    fn backup(&self, py: Python<'_>, path: PathBuf) -> PyResult<u64> {
        let db = self.db.clone();
        wait::run(py, move || db.backup(path))
    }

    /// The lengths of the file before and after.
    fn _compact(&self, py: Python<'_>) -> PyResult<(u64, u64)> {
        let db = self.db.clone();
        let compaction = wait::run(py, move || db.compact())?;
        Ok((compaction.before_bytes, compaction.after_bytes))
    }

    /// Of each damage the file, the place and what it is.
    fn _check(&self, py: Python<'_>) -> PyResult<Vec<(&'static str, u64, String)>> {
        let db = self.db.clone();
        let damages = wait::run(py, move || db.check())?;
        Ok(damages.into_iter().map(|damage| (damage.file, damage.offset, damage.what)).collect())
    }

    fn _stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let stats = self.db.stats().map_err(|error| raise(py, error))?;
        stats::of_pool(py, &stats)
    }

    fn _count<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let db = self.db.clone();
        let counts = wait::run(py, move || db.count())?;
        stats::of_trees(py, &counts)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let path = match self.db.path() {
            Some(path) => path.into_pyobject(py)?.str()?.to_string_lossy().into_owned(),
            None => "in memory".to_owned(),
        };
        let closed = if self.closed() { ", closed" } else { "" };
        Ok(format!("<everleaf.Db {path}{closed}>"))
    }
}
