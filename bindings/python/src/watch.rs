//! Waits of an event loop.

use std::future::Future;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;

use crate::db::Db;
use crate::errors::raise;
use crate::wait::lock_at_once;

/// An epoch that an event loop waits for. The store's thread wakes the loop by a byte in a socket, for which it needs
/// nothing of the interpreter.
#[pyclass(frozen, module = "everleaf._everleaf")]
pub struct Watch {
    waits: Mutex<store::Durable>,
    waker: Waker,
    /// Readable when the epoch is durable, or cannot become so.
    readable: UnixStream,
}

struct Ringer(UnixStream);

impl Wake for Ringer {
    fn wake(self: Arc<Self>) {
        // If the buffer is full, the loop is woken anyhow.
        let _ = (&self.0).write(&[1]);
    }
}

#[pymethods]
impl Watch {
    #[new]
    fn new(db: &Db, epoch: u64) -> PyResult<Self> {
        let failed = |error: std::io::Error| PyOSError::new_err(error.to_string());
        let (readable, written) = UnixStream::pair().map_err(failed)?;
        readable.set_nonblocking(true).map_err(failed)?;
        written.set_nonblocking(true).map_err(failed)?;
        let waker = Waker::from(Arc::new(Ringer(written)));
        Ok(Self { waits: Mutex::new(db.db.durable(epoch)), waker, readable })
    }

    fn fileno(&self) -> i32 {
        self.readable.as_raw_fd()
    }

    /// Whether the epoch is durable.
    fn poll(&self, py: Python<'_>) -> PyResult<bool> {
        let mut bytes = [0; 8];
        // Nothing is there the first time.
        let _ = (&self.readable).read(&mut bytes);
        let mut waits = lock_at_once(&self.waits, "the watch")?;
        match Pin::new(&mut *waits).poll(&mut Context::from_waker(&self.waker)) {
            Poll::Pending => Ok(false),
            Poll::Ready(answer) => answer.map(|()| true).map_err(|error| raise(py, error)),
        }
    }
}
