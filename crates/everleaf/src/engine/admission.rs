//! Admission: what a write passes, once, before it changes pairs.
//!
//! ```text
//! alive           the pool is open, in this process
//! right of way    what has failed often because others wrote goes first (way.rs)
//! gate            nobody is alone: no snapshot is made, and no transaction validated (gate.rs)
//! sound           no batch was cut off half way
//! the operation   a tree takes it, and keeps for snapshots what it replaces (versions.rs)
//! room            if there was none, dropped trees give theirs, and it is tried again
//! ```
//!
//! The order matters: a writer waits for the right of way while it holds nothing. Work in the background
//! [enters](Store::enter) without giving way, and looks for no room, since it makes some.

use super::gate::Gate;
use super::way::RightOfWay;
use crate::{Error, Result};

/// A store that writers enter, one operation at a time.
pub(crate) trait Store: Send + Sync + 'static {
    /// Whether the pool is open, in this process. Asked before anything else, for a process that was
    /// forked has locks that nobody ever lets go; and after what reads memory that others see, for a
    /// close in between makes it undefined.
    fn alive(&self) -> Result<()>;

    fn way(&self) -> &RightOfWay;

    fn gate(&self) -> &Gate;

    /// Refuses where a batch was cut off half way. Asked inside of the gate.
    fn expect_sound(&self) -> Result<()>;

    /// Why a write failed: that writes have stopped, if they have, whatever else was in its way.
    fn why(&self, error: Error) -> Error;

    /// Frees room that dropped trees have; says whether there was some.
    fn free_room(&self) -> Result<bool>;

    /// Makes everything durable that was written.
    fn sync(&self) -> Result<()>;

    /// Waits for writers, makes everything durable, and ends the pool. Nothing works in the background any more.
    fn close(&self) -> Result<()>;

    /// Asked after what reads: whether the pool is open, if others see the memory that was read. On a file it is of this
    /// process, or the medium sees to it.
    #[inline(always)]
    fn alive_after_read(&self) -> Result<()> {
        Ok(())
    }

    /// Admits an operation of a writer, which holds nothing.
    #[inline(always)]
    fn admit<T>(&self, operation: impl Fn() -> Result<T>) -> Result<T> {
        self.give_way()?;
        self.with_room(|| self.pass(&operation))
    }

    /// The pool is open, and no other thread has the right of way.
    #[inline(always)]
    fn give_way(&self) -> Result<()> {
        self.alive()?;
        self.way().give();
        Ok(())
    }

    /// Runs an operation inside of the gate, while the pool is open.
    fn enter<T>(&self, operation: impl FnOnce() -> Result<T>) -> Result<T> {
        self.alive()?;
        self.pass(operation)
    }

    /// Runs an operation inside of the gate. The caller knows that the pool is open.
    #[inline(always)]
    fn pass<T>(&self, operation: impl FnOnce() -> Result<T>) -> Result<T> {
        let _pass = self.gate().pass();
        self.expect_sound()?;
        operation().map_err(|error| self.why(error))
    }

    /// Runs an operation, again if it has found no room and dropped trees could give some.
    #[inline(always)]
    fn with_room<T>(&self, mut operation: impl FnMut() -> Result<T>) -> Result<T> {
        let answer = operation();
        match &answer {
            Err(Error::Full { .. }) => self.try_again(answer, &mut operation),
            _ => answer,
        }
    }

    #[cold]
    #[inline(never)]
    fn try_again<T>(
        &self,
        mut answer: Result<T>,
        operation: &mut dyn FnMut() -> Result<T>,
    ) -> Result<T> {
        // Each time somebody has dropped another tree, or a snapshot has let one go.
        while let Err(Error::Full { .. }) = answer
            && self.free_room().is_ok_and(|some| some)
        {
            answer = operation();
        }
        answer
    }
}
