//! Loops that start again because another thread was in the way: how long they wait in between, and when they end.
//!
//! Each turn but the last means that somebody else has done something meanwhile, or is about to: has changed a node, holds a
//! page, has moved an image. So such a loop ends by itself as soon as the others do, and most of the time at once. That is
//! an argument, though, and a program that it does not hold for would hang without a word. So turns are counted, and the
//! last one is an error. It comes after minutes, since a slow disk or a busy machine is no reason to fail.
//!
//! Waiting for a [latch](crate::Latch), or for a lock of the standard library, is no such loop: nothing starts again there.

use std::time::Duration;

use crate::sync::{rest, spin_loop, yield_now};
use crate::{Error, Result};

/// So often there is no wait at all, for a thread that can go on.
const HASTY: u32 = 4;
/// So often the processor is kept.
const SPINS: u32 = 64;
/// So often it is given away for a moment. After that a thread sleeps, and others get on.
const YIELDS: u32 = 1 << 12;
const SLEEP: Duration = Duration::from_millis(1);
/// Ten minutes of sleep, and some turns before them. One more attempt there is than there are turns.
const MOST: u32 = YIELDS - 1 + 600_000;

/// The turns of one loop.
#[derive(Debug, Default)]
pub struct Retries(u32);

impl Retries {
    /// As if there had been so many turns before the last one is reached, for tests of what comes then.
    pub fn left(turns: u32) -> Self {
        Self(MOST.saturating_sub(turns))
    }

    /// How often there was an [`again`](Self::again).
    #[inline(always)]
    pub fn count(&self) -> u32 {
        self.0
    }

    /// Waits a little, longer each time, before the next turn of `what`, which another thread was in the way of.
    ///
    /// # Errors
    /// [`Error::Stuck`] if there were too many.
    #[inline(always)]
    pub fn again(&mut self, what: &'static str) -> Result<()> {
        self.0 = pause(self.0 + 1);
        if self.0 > MOST { Err(stuck(what)) } else { Ok(()) }
    }

    /// As [`again`](Self::again), where this thread itself has done what lets it go on: it waits only if that was of no
    /// use some times.
    ///
    /// # Errors
    /// The same.
    #[inline(always)]
    pub fn go_on(&mut self, what: &'static str) -> Result<()> {
        if self.0 < HASTY {
            self.0 += 1;
            return Ok(());
        }
        self.again(what)
    }
}

/// Waits before turn `turn`, and gives it back: the count of a loop stays in a register.
#[cold]
#[inline(never)]
fn pause(turn: u32) -> u32 {
    match turn {
        ..SPINS => spin_loop(),
        SPINS..YIELDS => yield_now(),
        YIELDS..=MOST => rest(SLEEP),
        _ => {}
    }
    turn
}

#[cold]
#[inline(never)]
fn stuck(what: &'static str) -> Error {
    Error::Stuck { what, attempts: u64::from(MOST) + 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_turn_is_an_error_that_counts_them() {
        let mut turns = Retries::left(3);
        for _ in 0..3 {
            turns.again("a test").expect("one of the three");
        }
        let error = turns.again("a test").expect_err("there was no fourth");
        assert_eq!(
            error.to_string(),
            "a test: given up after 604,096 attempts, for other threads were in the way each time"
        );
    }

    #[test]
    fn the_first_turns_do_not_sleep() {
        let mut turns = Retries::default();
        for n in 0..YIELDS - 1 {
            assert_eq!(turns.count(), n);
            let turn = if n % 2 == 0 { Retries::again } else { Retries::go_on };
            turn(&mut turns, "a test").expect("far from the last one");
        }
        assert!(Retries::left(0).go_on("a test").is_err());
    }
}
