//! The extension module of the Python package `everleaf`: the classes that the package's own classes are made of.
//!
//! **The interpreter's lock.** A get keeps it, and so does a put: to give it up and take it back costs more than either.
//! [`Tree`](tree::Tree) gives it up around a write that has to wait for the disk. All calls that wait as a rule run in a
//! thread of their own ([`wait`]), so that Control-C ends the wait.
//!
//! **Threads.** The store's own threads never ask for the interpreter's lock: a thread that holds it may be waiting for
//! them.
//!
//! **Ends.** Each object that has a handle of the store has a reference to its [`Pool`](pool::Pool), and lets it go last:
//! so the pool is closed in one place.

#![forbid(unsafe_code)]

mod batch;
mod budget;
mod bytes;
mod cursor;
mod db;
mod errors;
mod options;
mod pool;
mod reads;
mod scan;
mod snapshot;
mod stats;
mod transaction;
mod tree;
mod wait;
mod watch;

use pyo3::prelude::*;

/// The parts that the package `everleaf` is made of. Use the package: the names here may change.
#[pymodule]
fn _everleaf(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<db::Db>()?;
    module.add_class::<budget::Budget>()?;
    module.add_class::<tree::Tree>()?;
    module.add_class::<snapshot::Snapshot>()?;
    module.add_class::<snapshot::SnapshotTree>()?;
    module.add_class::<cursor::Cursor>()?;
    module.add_class::<scan::Scan>()?;
    module.add_class::<batch::Batch>()?;
    module.add_class::<transaction::Transaction>()?;
    module.add_class::<transaction::TransactionScan>()?;
    module.add_class::<watch::Watch>()?;
    module.add_function(wrap_pyfunction!(transaction::transact, module)?)?;
    module.add_function(wrap_pyfunction!(pool::at_exit, module)?)
}
