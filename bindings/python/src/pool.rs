//! The end of a pool: its last handle, or the end of the interpreter.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};

use pyo3::prelude::*;

use crate::errors::raise;
use crate::wait::lock;

/// The interpreter is about to end.
static ENDS: AtomicBool = AtomicBool::new(false);
/// The pools that may be open.
static OPEN: Mutex<Vec<Weak<Pool>>> = Mutex::new(Vec::new());

/// The handle that lets the pool go, after all other handles: each object has it as its last field.
pub struct Pool {
    db: Option<store::Db>,
    /// Threads end its epochs.
    ends_epochs: bool,
    closed: AtomicBool,
}

impl Pool {
    pub fn new(db: store::Db, ends_epochs: bool) -> Arc<Self> {
        let pool = Arc::new(Self { db: Some(db), ends_epochs, closed: AtomicBool::new(false) });
        let mut open = lock(&OPEN);
        open.retain(|pool| pool.strong_count() > 0);
        open.push(Arc::downgrade(&pool));
        pool
    }

    /// The pool, while it is open.
    pub fn db(&self, py: Python<'_>) -> PyResult<&store::Db> {
        let db = self.db.as_ref().filter(|_| !self.is_closed());
        db.ok_or_else(|| raise(py, store::Error::Closed))
    }

    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    /// Says whether it was so already.
    pub fn set_closed(&self) -> bool {
        self.closed.swap(true, Ordering::Relaxed)
    }

    /// Makes everything durable, in the thread that asks.
    pub fn sync(&self, py: Python<'_>) -> PyResult<()> {
        let db = self.db(py)?;
        py.detach(|| db.sync()).map_err(|error| raise(py, error))
    }
}

impl Drop for Pool {
    /// Closes the pool, which may take a while; but an interpreter that ends waits for no checkpoint.
    fn drop(&mut self) {
        let mut db = self.db.take();
        if ENDS.load(Ordering::Relaxed) {
            std::mem::forget(db);
            return;
        }
        // Without the interpreter's lock, if there is one to give up.
        let closed = Python::try_attach(|py| {
            let db = db.take();
            py.detach(|| drop(db));
        });
        debug_assert!(closed.is_none() || db.is_none());
    }
}

/// Makes what pools hold durable. Those whose epochs the program ends stay as they were at the last end.
#[pyfunction]
pub fn at_exit(py: Python<'_>) {
    ENDS.store(true, Ordering::Relaxed);
    let pools: Vec<_> = lock(&OPEN).iter().filter_map(Weak::upgrade).collect();
    for pool in pools {
        if let Some(db) = &pool.db
            && pool.ends_epochs
        {
            // Nobody is left to hear of a failure; and a pool may be closed already.
            let _ = py.detach(|| db.sync());
        }
    }
}
