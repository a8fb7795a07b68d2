//! The end of a medium with epochs: it comes once, and all who ask for it are told how it went.

use std::sync::Mutex;

use crate::epoch::EpochPin;
use crate::error::Result;
use crate::sync::lock_plain;

/// How closing went, once somebody has.
#[derive(Debug, Default)]
pub struct CloseOnce(Mutex<Option<Result<()>>>);

impl CloseOnce {
    /// Closes by `close`, unless that was done before; whoever comes meanwhile waits.
    ///
    /// # Errors
    /// What `close` has answered. [`Error::InsideBatch`](crate::Error::InsideBatch) inside an [`EpochPin`],
    /// where nothing is done: what closes waits for threads that may wait for the batch.
    pub fn once(&self, close: impl FnOnce() -> Result<()>) -> Result<()> {
        EpochPin::refuse_inside()?;
        lock_plain(&self.0).get_or_insert_with(close).clone()
    }
}
