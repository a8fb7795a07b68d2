//! Calls that wait: without the interpreter's lock, and so that Control-C ends the wait.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use crate::errors::raise;

/// After so long a signal is seen.
const SLICE: Duration = Duration::from_millis(20);

/// The lock of what no code that could panic changes half-way.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The lock of an object that Python code may use from two threads, or from within itself.
pub fn lock_at_once<'m, T>(mutex: &'m Mutex<T>, what: &str) -> PyResult<MutexGuard<'m, T>> {
    match mutex.try_lock() {
        Ok(guard) => Ok(guard),
        Err(std::sync::TryLockError::Poisoned(guard)) => Ok(guard.into_inner()),
        Err(std::sync::TryLockError::WouldBlock) => {
            Err(PyRuntimeError::new_err(format!("{what} is in use by another call")))
        }
    }
}

/// Runs a call of the store in a thread of its own and waits for it. A signal whose handler raises ends the wait; the
/// call goes on then, and nobody sees its answer.
pub fn run<T: Send + 'static>(
    py: Python<'_>,
    call: impl FnOnce() -> store::Result<T> + Send + 'static,
) -> PyResult<T> {
    let answer = Arc::new(Mutex::new(None));
    let place = Arc::clone(&answer);
    run_job(py, Box::new(move || *lock(&place) = Some(call())))?;
    let answer = lock(&answer).take().expect("the job has ended");
    answer.map_err(|error| raise(py, error))
}

/// The part of it that is the same for all types.
fn run_job(py: Python<'_>, job: Box<dyn FnOnce() + Send>) -> PyResult<()> {
    let (send, mut done) = mpsc::sync_channel(1);
    let thread = std::thread::Builder::new().name("everleaf-call".into());
    let spawned = thread.spawn(move || {
        job();
        // Nobody listens any more after a signal.
        let _ = send.send(());
    });
    if let Err(error) = spawned {
        return Err(PyRuntimeError::new_err(format!("no thread for the call: {error}")));
    }
    loop {
        let ended;
        (done, ended) = py.detach(move || {
            let ended = done.recv_timeout(SLICE);
            (done, ended)
        });
        match ended {
            Ok(()) => return Ok(()),
            Err(mpsc::RecvTimeoutError::Timeout) => py.check_signals()?,
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                return Err(PyRuntimeError::new_err("the call panicked; its message is on stderr"));
            }
        }
    }
}

/// A waker for a thread that waits by the clock.
#[derive(Default)]
struct Bell {
    rung: Mutex<bool>,
    rings: Condvar,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        *lock(&self.rung) = true;
        self.rings.notify_all();
    }
}

impl Bell {
    fn wait(&self, most: Duration) {
        let rung = lock(&self.rung);
        drop(self.rings.wait_timeout_while(rung, most, |rung| !*rung));
    }
}

/// Waits until an epoch is durable, and for no longer than that. Says whether it is.
pub fn until_durable(
    py: Python<'_>,
    mut waits: store::Durable,
    most: Option<Duration>,
) -> PyResult<bool> {
    let begun = Instant::now();
    let bell = Arc::new(Bell::default());
    let waker = Waker::from(Arc::clone(&bell));
    loop {
        if let Poll::Ready(answer) = Pin::new(&mut waits).poll(&mut Context::from_waker(&waker)) {
            return answer.map(|()| true).map_err(|error| raise(py, error));
        }
        let left = most.map_or(SLICE, |most| most.saturating_sub(begun.elapsed()));
        if left.is_zero() {
            return Ok(false);
        }
        py.detach(|| bell.wait(left.min(SLICE)));
        py.check_signals()?;
    }
}
