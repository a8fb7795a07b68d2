//! Waiting for an epoch as a future.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::Result;
use crate::engine::Engine;

/// A future that is ready when an epoch is on disk, made by [`Db::durable`](crate::Db::durable).
///
/// It belongs to no runtime. Its waker is woken once, at the end of its epoch. If it is dropped before that, it is
/// forgotten, and the epoch ends all the same. If it is polled after it was ready, it answers again.
#[derive(Debug)]
#[must_use = "a future does nothing until it is polled"]
pub struct Durable(State);

#[derive(Debug)]
enum State {
    Waits(everleaf_file::Durable),
    /// There are no epochs.
    Is(Result<()>),
}

impl Durable {
    pub(crate) fn new(engine: &Engine, epoch: u64) -> Self {
        Self(match engine.durable(epoch) {
            Some(waits) => State::Waits(waits),
            None => State::Is(engine.wait_durable(epoch)),
        })
    }
}

impl Future for Durable {
    type Output = Result<()>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        match &mut self.get_mut().0 {
            State::Waits(waits) => Pin::new(waits).poll(context),
            State::Is(answer) => Poll::Ready(answer.clone()),
        }
    }
}
