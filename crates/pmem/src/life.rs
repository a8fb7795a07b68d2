//! Whether a handle is of use: it was neither closed, nor made by the process of which this is a fork.
//!
//! A forked process has copies of its parent's handles, without the threads that serve them, and with
//! locks of threads that it does not have. It must touch nothing of what they lead to. That is told
//! from one word of memory that the system clears in a fork (`MADV_WIPEONFORK`), hence without a
//! system call; where the system cannot do that, by the process's number.

use std::process;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::epoch::EpochPin;
use crate::error::{Error, Result};
use crate::locks::Mutex;
use crate::region::wiped_by_fork;
use crate::sync::lock_plain;

/// Values of [`Life::mine`] that the word never has.
const UNSURE: u64 = 0;
const ENDED: u64 = u64::MAX;

const _: () = assert!(UNSURE != ENDED, "a handle that ended is not looked at again");

/// The life of a handle.
#[derive(Debug)]
pub struct Life {
    word: &'static AtomicU64,
    /// The value of the word in the process that made this, while it lives.
    mine: AtomicU64,
    pid: u32,
}

/// In place of a word that a fork clears: never what a handle has, so that each call looks closer.
static OTHER: AtomicU64 = AtomicU64::new(1);

/// The word that a fork clears, and what it is now. In a forked process it gets a number that no
/// process before it had.
fn word() -> (&'static AtomicU64, u64) {
    static WORD: OnceLock<Option<&'static AtomicU64>> = OnceLock::new();
    static LAST: AtomicU64 = AtomicU64::new(0);
    let Some(word) = *WORD.get_or_init(wiped_by_fork) else { return (&OTHER, UNSURE) };
    if word.load(Ordering::SeqCst) == 0 {
        let next = 1 + LAST.fetch_add(1, Ordering::SeqCst);
        // If another thread was faster, its number counts.
        let _ = word.compare_exchange(0, next, Ordering::SeqCst, Ordering::SeqCst);
    }
    (word, word.load(Ordering::SeqCst))
}

impl Default for Life {
    fn default() -> Self {
        let (word, mine) = word();
        Self { word, mine: AtomicU64::new(mine), pid: process::id() }
    }
}

impl Life {
    /// Whether the handle is of use. Two loads, for it is asked at each call.
    ///
    /// # Errors
    /// [`Error::Forked`], [`Error::Closed`].
    #[inline(always)]
    pub fn check(&self) -> Result<()> {
        if self.word.load(Ordering::Relaxed) == self.mine.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.look()
    }

    #[cold]
    fn look(&self) -> Result<()> {
        match self.mine.load(Ordering::SeqCst) {
            _ if process::id() != self.pid => Err(Error::Forked),
            UNSURE => Ok(()),
            ENDED => Err(Error::Closed),
            // Numbers of processes may repeat.
            _ => Err(Error::Forked),
        }
    }

    /// Whether this process is a fork of the one that made the handle.
    pub fn is_forked(&self) -> bool {
        matches!(self.check(), Err(Error::Forked))
    }

    /// The handle is of no use from now on.
    pub fn end(&self) {
        self.mine.store(ENDED, Ordering::SeqCst);
    }
}

/// The end of a medium with epochs: it comes once, and all who ask for it are told how it went.
#[derive(Debug, Default)]
pub struct CloseOnce(Mutex<Option<Result<()>>>);

impl CloseOnce {
    /// Closes by `close`, unless that was done before; a caller that comes meanwhile waits.
    ///
    /// # Errors
    /// The error that `close` has answered. [`Error::InsideBatch`] inside an [`EpochPin`],
    /// where nothing is done: a close waits for threads that may wait for the batch.
    pub fn once(&self, close: impl FnOnce() -> Result<()>) -> Result<()> {
        EpochPin::refuse_inside()?;
        lock_plain(&self.0).get_or_insert_with(close).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_lives_until_it_is_ended_whether_forks_show_in_memory_or_not() {
        let (word, mine) = word();
        assert!(mine != UNSURE || cfg!(miri), "the system has MADV_WIPEONFORK");
        for life in [
            Life { word, mine: AtomicU64::new(mine), pid: process::id() },
            Life { word: &OTHER, mine: AtomicU64::new(UNSURE), pid: process::id() },
        ] {
            assert!(life.check().is_ok() && !life.is_forked());
            life.end();
            assert!(matches!(life.check(), Err(Error::Closed)));
        }
        let elsewhere = Life { word: &OTHER, mine: AtomicU64::new(UNSURE), pid: process::id() + 1 };
        assert!(elsewhere.is_forked());
        static WIPED: AtomicU64 = AtomicU64::new(0);
        let elsewhere = Life { word: &WIPED, mine: AtomicU64::new(7), pid: process::id() };
        assert!(elsewhere.is_forked());
    }
}
