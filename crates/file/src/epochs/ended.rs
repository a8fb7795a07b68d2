//! Epochs that the program ends, without waiting for the disk.
//!
//! ```text
//! end_epoch   close the epoch, write what is left of it        a killed process loses nothing of it any more
//! a task      sync, publish                                    nor does a power cut; waiters are told
//! end_epoch   the same again, after the one before is durable
//! ```
//!
//! The journal promises that the blocks of an epoch are written after the one before was synced (see
//! [`journal`](crate::journal)): that is how a torn tail is told from damage. So an end waits for the sync of the end
//! before it, if that still runs, and what a power cut takes back is the running epoch and one more.
//!
//! An end is where a program is held back that is faster than the disk: where the journal is at its bound, it waits for
//! the checkpoint that makes room. It waits before it closes the epoch, and with nothing in hand.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use everleaf_pmem::epoch::EpochPin;
use everleaf_pmem::error::{Error, Result};
use everleaf_pmem::sync::lock_plain as lock;

use crate::epochs::barrier::CLOSED;
use crate::inner::{Commit, Inner};
use crate::observe::{self, EpochEnd};
use crate::workers::Job;

/// When the task tries again what it had no memory for.
const AGAIN: Duration = Duration::from_millis(10);

impl Inner {
    /// Ends the running epoch, and hands all of it to the system. Says which one it was.
    pub(crate) fn end_epoch(&self) -> Result<u64> {
        self.life.check()?;
        EpochPin::refuse_inside()?;
        self.check_writable()?;
        if self.barrier.load(Ordering::SeqCst) & CLOSED != 0 {
            return Err(Error::Closed);
        }
        let is_of_use = self.ahead.is_manual && !self.ahead.is_stuck(self.epochs.now());
        if is_of_use && self.bounds.is_journal_full() {
            // Its error is that of the caller who asked for it, or shows again.
            let _ = self.checkpoint();
        }
        let mut commit = lock(&self.commit);
        self.check_writable()?;
        let before = self.keep_last(&mut commit);
        let (epoch, kept) = match before {
            Ok(kept) => (self.end_now(&mut commit), kept),
            Err(error) => (Err(error), None),
        };
        drop(commit);
        self.tell_kept(kept);
        if self.ahead.syncs.get().is_none() {
            // Nobody but them makes it durable.
            self.wake_waiters();
        }
        let (epoch, kept) = epoch.inspect_err(|error| observe::commit_failed(&self.uuid, error))?;
        self.tell_kept(kept);
        Ok(epoch)
    }

    /// Makes the last epoch durable that has ended, unless it is.
    pub(crate) fn keep_last(&self, commit: &mut Commit) -> Result<Option<EpochEnd>> {
        let ended = match commit.ended.take() {
            Some(ended) => ended,
            // There was no room for it, or no memory.
            None if commit.closed.is_some() => self.end_running(commit)?,
            None => return Ok(None),
        };
        self.keep_ended(commit, ended).map(Some)
    }

    /// Ends the running epoch. If it has nothing to keep, it is durable at once.
    fn end_now(&self, commit: &mut Commit) -> Result<(u64, Option<EpochEnd>)> {
        let ended = self.end_running(commit)?;
        let epoch = ended.epoch;
        if !ended.is_commit && ended.large == 0 {
            return Ok((epoch, Some(self.keep_ended(commit, ended)?)));
        }
        self.ahead.ended_large.store(ended.large, Ordering::Relaxed);
        commit.ended = Some(ended);
        if let Some(syncs) = self.ahead.syncs.get() {
            syncs.wake();
        }
        Ok((epoch, None))
    }

    /// Says that an epoch is durable, to threads, too.
    pub(crate) fn tell_kept(&self, kept: Option<EpochEnd>) {
        if let Some(end) = kept {
            self.epochs.wake();
            self.wake_keeper(false);
            self.tell_end(&end);
        }
    }

    /// The last epoch that has ended.
    pub(crate) fn last_ended(&self) -> u64 {
        self.epochs.now() - 1
    }

    /// Bytes that the running epoch has noted, as slots have told.
    pub(crate) fn epoch_bytes(&self) -> u64 {
        let ended = self.ahead.ended_large.load(Ordering::Relaxed);
        self.bounds.noted(self.epochs.now()) + self.bounds.large().saturating_sub(ended)
    }

    /// Makes all epochs durable that have ended; and the one that runs, unless the program ends it.
    pub(crate) fn keep_ended_epochs(&self) -> Result<()> {
        let runs = u64::from(!self.ahead.is_manual);
        self.wait_durable(self.last_ended() + runs)
    }
}

/// Makes epochs durable that the program has ended, and spills the one that runs.
pub(crate) struct Syncs {
    inner: Weak<Inner>,
}

impl Syncs {
    pub fn new(inner: &Arc<Inner>) -> Self {
        Self { inner: Arc::downgrade(inner) }
    }
}

impl Job for Syncs {
    fn run(&mut self) -> Option<Duration> {
        let inner = self.inner.upgrade()?;
        if lock(&inner.work).stop {
            return None;
        }
        // A failure has poisoned the file and is told to whoever writes or waits next.
        let kept = inner.wait_durable(inner.last_ended()).and_then(|()| inner.spill_now());
        inner.wake_keeper(false);
        (kept.is_err() && inner.poisoned().is_none()).then_some(AGAIN)
    }

    fn broke(&mut self) {
        if let Some(inner) = self.inner.upgrade() {
            inner.poison(Error::Interrupted { what: "the end of an epoch was cut off" });
        }
    }
}
