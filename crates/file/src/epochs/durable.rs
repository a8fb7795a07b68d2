//! Those who wait for the end of an epoch and do not end it themselves.
//!
//! Threads wait at the [clock](everleaf_pmem::epoch), as those do who share a commit. Futures leave a waker
//! in a [list](super::waits). Both are woken when an epoch has become durable, and when that cannot happen any more:
//! writes have stopped, or the file was closed.
//!
//! **No wakeup is lost.** A future looks at the clock and leaves its waker under the lock of the list. A thread
//! that publishes an epoch, poisons the file or ends it does so first, and takes the lock after that. So it
//! either finds the waker, or the future has seen what it did.
//!
//! **Epochs end while somebody waits.** In a file whose epochs end by themselves, an epoch in which nobody
//! does anything goes on. So a waiter asks for the end of the running epoch after an interval, and of the
//! next one, until its own is durable. In other files it waits for whoever ends epochs; it makes one that has ended
//! durable itself where no task does.
//!
//! A waker is called without any lock that it could want, but sometimes by a thread that is in the midst of
//! a commit. It may do what a waker should: make its task ready, and return.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use everleaf_pmem::error::{Error, Result};
use everleaf_pmem::sync::lock_plain as lock;

use crate::inner::Inner;

impl Inner {
    /// Whether `epoch` is durable, or why it does not become so; `None` if that is still to be seen.
    fn answer(&self, epoch: u64) -> Option<Result<()>> {
        if self.life.is_forked() {
            return Some(Err(Error::Forked));
        }
        if self.epochs.durable() >= epoch {
            return Some(Ok(()));
        }
        self.check_writable().err().map(Err)
    }

    /// Whether only those who wait for an epoch that has ended make it durable.
    fn is_for_who_waits(&self, epoch: u64) -> bool {
        self.ahead.is_manual && self.ahead.syncs.get().is_none() && epoch <= self.last_ended()
    }

    /// Has the running epoch end after an interval, if it is `epoch` or one before it.
    fn ask_for(&self, epoch: u64) {
        self.ticker.begin(epoch.min(self.epochs.now()));
    }

    /// Waits until `epoch` is durable, and does not end it; `until` then at the longest. Says whether it is durable.
    pub(crate) fn await_durable(&self, epoch: u64, until: Option<Instant>) -> Result<bool> {
        if let Some(answer) = self.answer(epoch) {
            return answer.map(|()| true);
        }
        if self.ahead.is_manual && until.is_none() && epoch <= self.last_ended() {
            // It need not wait for the task, if there is one.
            return self.wait_durable(epoch).map(|()| true);
        }
        // Somebody may end it now, and leave it to those who wait.
        let is_own = || until.is_none() && self.is_for_who_waits(epoch);
        let is_durable = self.epochs.await_durable(epoch, until, || {
            self.check_writable()?;
            self.ask_for(epoch);
            Ok(!is_own())
        })?;
        match !is_durable && is_own() {
            true => self.wait_durable(epoch).map(|()| true),
            false => Ok(is_durable),
        }
    }

    /// Says that an epoch is durable to futures. Threads hear it from the leader.
    pub(crate) fn wake_durable(&self) {
        if self.waits.wake(self.epochs.durable()) {
            self.ask_for(u64::MAX);
        }
    }

    /// Has all who wait look again whether waiting is of use.
    pub(crate) fn wake_waiters(&self) {
        self.epochs.wake();
        self.waits.wake(u64::MAX);
    }
}

/// A future that is ready when an epoch is durable, or when that cannot happen any more. Polled again, it
/// answers again. It does not keep the pool open; dropped, it is forgotten.
#[must_use = "a future does nothing until it is polled"]
pub struct DurableFuture {
    inner: Arc<Inner>,
    epoch: u64,
    /// In the list of those who wait.
    at: Option<usize>,
}

impl DurableFuture {
    pub(crate) fn new(inner: Arc<Inner>, epoch: u64) -> Self {
        Self { inner, epoch, at: None }
    }

    /// Gives its place back. Not in a forked process, where the lock may be nobody's.
    fn forget(&mut self) {
        if let Some(at) = self.at.take()
            && !self.inner.life.is_forked()
        {
            let left = lock(&self.inner.waits.list).forget(at);
            // Without the lock: what a waker does when it is dropped is its own affair.
            drop(left);
        }
    }
}

impl Future for DurableFuture {
    type Output = Result<()>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        let this = self.get_mut();
        // Before the lock, which may be nobody's after a fork.
        let mut answer = this.inner.answer(this.epoch);
        if answer.is_none() {
            // Made before the lock, and dropped after it.
            let mut waker = Some(context.waker().clone());
            let mut list = lock(&this.inner.waits.list);
            answer = this.inner.answer(this.epoch);
            if answer.is_none() {
                answer = list.leave(&mut this.at, this.epoch, &mut waker).err().map(Err);
            }
            drop(list);
        }
        match answer {
            Some(answer) => {
                this.forget();
                Poll::Ready(answer)
            }
            None if this.inner.is_for_who_waits(this.epoch) => {
                this.forget();
                Poll::Ready(this.inner.wait_durable(this.epoch))
            }
            None => {
                this.inner.ask_for(this.epoch);
                Poll::Pending
            }
        }
    }
}

impl Drop for DurableFuture {
    fn drop(&mut self) {
        self.forget();
    }
}

impl fmt::Debug for DurableFuture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DurableFuture").field("epoch", &self.epoch).finish_non_exhaustive()
    }
}
