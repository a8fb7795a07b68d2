//! Admission: what a write passes, once, before it changes pairs.
//!
//! ```text
//! alive           the pool is open, in this process
//! turn            the disk is not behind, or it is this thread's turn
//! right of way    what has failed often because others wrote goes first
//! locks           no transaction has locked its key (locks.rs)
//! gate            nobody is alone: no snapshot is made, and no transaction validated (versions.rs)
//! sound           no batch was cut off half way
//! the operation   a tree takes it, and keeps for snapshots what it replaces (versions.rs)
//! room            if there was none, dropped trees give theirs, and it is tried again
//! ```
//!
//! The order matters: a writer waits for the right of way, for locks and for the disk while it holds nothing that a
//! snapshot or a transaction wants. Work in the background [enters](Store::enter) without giving way, and looks for no
//! room, since it makes some.
//!
//! # The right of way
//!
//! Work that has failed often because others wrote meanwhile gets a moment in which they wait.
//!
//! ```text
//! holder   ──take──┬─────── an attempt ───────┬─give back──
//! writers          └─ wait before they write ─┘          at most LONGEST, whatever the holder does
//! ```
//!
//! It is about progress, and nothing rests on it: what is read is validated all the same. So the word that writers
//! load may be an old one, and whoever has waited for long goes on.
//!
//! **Nobody waits for ever.** A writer waits here before it holds anything of the pool: no latch, no epoch, no gate,
//! no turn of batches or names. It waits by the clock, for `LONGEST` in all, and so does who wants the way while
//! another one has it. The holder never waits for its own way, whatever it writes beside its transaction. So it makes
//! no difference what the holder waits for meanwhile: a lock of the program's that a waiting writer has, another
//! thread that writes, or nothing at all, for ever. If it is never heard of again, the way ends by the clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use everleaf_pmem::locks::Condvar;
use everleaf_pmem::sync::wait_timeout;

use super::locks::{Locks, OWNERS};
use super::sync::{Mutex, MutexGuard, lock};
use super::versions::Gate;
use crate::{Error, Result};

/// A store that writers enter, one operation at a time.
pub(crate) trait Store: Send + Sync + 'static {
    /// Whether the pool is open, in this process. Asked before anything else, for a process that was
    /// forked has locks that nobody ever lets go; and after what reads memory that others see, for a
    /// close in between makes it undefined.
    fn alive(&self) -> Result<()>;

    fn way(&self) -> &RightOfWay;

    fn locks(&self) -> &Locks;

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

    /// Whether the pool is open, in this process, for a writer: it waits while the disk is behind with what others have
    /// written, if it is not this thread's turn.
    #[inline(always)]
    fn turn(&self) -> Result<()> {
        self.alive()
    }

    /// Admits an operation of a writer, which holds nothing: on a key of a tree, if it knows which one.
    #[inline(always)]
    fn admit<'k, T>(
        &self,
        key: impl FnOnce() -> Option<(usize, &'k [u8])>,
        operation: impl Fn() -> Result<T>,
    ) -> Result<T> {
        self.give_way(key)?;
        self.with_room(|| self.pass(&operation))
    }

    /// The pool is open, the disk is not behind, or it is this thread's turn, no other thread has the right of way, and no
    /// transaction has locked the key.
    #[inline(always)]
    fn give_way<'k>(&self, key: impl FnOnce() -> Option<(usize, &'k [u8])>) -> Result<()> {
        self.turn()?;
        if self.way().is_in_the_way() {
            self.wait_for_others(key());
        }
        Ok(())
    }

    #[cold]
    #[inline(never)]
    fn wait_for_others(&self, key: Option<(usize, &[u8])>) {
        self.way().give();
        if let Some((tree, key)) = key {
            self.locks().give(tree, key);
        }
    }

    /// Runs an operation inside of the gate, while the pool is open, when it is this thread's turn.
    fn enter<T>(&self, operation: impl FnOnce() -> Result<T>) -> Result<T> {
        self.turn()?;
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

/// A way lasts no longer, and nobody waits for longer. In unit tests it is long, so that none ends too early on a busy
/// machine.
const LONGEST: Duration = Duration::from_millis(if cfg!(test) { 1000 } else { 50 });

/// Of the word that writers load before they begin: somebody has the right of way.
const HOLDER: u8 = 1 << 1;
const _: () = assert!(HOLDER & OWNERS == 0, "both are in one word");

/// Which thread writers wait for, if any.
#[derive(Default)]
pub(crate) struct RightOfWay {
    /// Whether somebody is in the way of writers: the holder, whose bit is set and cleared with it in hand, or who has
    /// [locked](super::locks) something.
    pub in_the_way: Arc<AtomicU8>,
    holder: Mutex<Option<Holder>>,
    /// There is no holder any more.
    ended: Condvar,
}

struct Holder {
    thread: ThreadId,
    until: Instant,
}

/// The thread that took this has the right of way until it [gives it back](RightOfWay::give_back), or [`LONGEST`] is over.
#[must_use]
pub(crate) struct Way {
    until: Instant,
}

impl RightOfWay {
    /// Takes the way, unless this thread has it, or others have had it for as long as one waits.
    #[cold]
    pub fn take(&self) -> Option<Way> {
        let mut free = self.wait()?;
        let until = Instant::now() + LONGEST;
        *free = Some(Holder { thread: std::thread::current().id(), until });
        self.in_the_way.fetch_or(HOLDER, Ordering::Relaxed);
        Some(Way { until })
    }

    /// Ends a way of this thread. It may have ended by the clock, and another thread may have the next one.
    pub fn give_back(&self, way: Way) {
        let mut holder = lock(&self.holder);
        let me = std::thread::current().id();
        if holder.as_ref().is_some_and(|now| now.thread == me && now.until == way.until) {
            self.end(&mut holder);
        }
    }

    /// Whether somebody may have it, or may have locked something.
    #[inline(always)]
    pub fn is_in_the_way(&self) -> bool {
        self.in_the_way.load(Ordering::Relaxed) != 0
    }

    /// Whether somebody may have it: who is about to write would wait, unless it is the same thread.
    #[inline(always)]
    pub fn is_taken(&self) -> bool {
        self.in_the_way.load(Ordering::Relaxed) & HOLDER != 0
    }

    /// Waits while another thread has the right of way. The caller is about to write, and holds nothing.
    #[inline(always)]
    pub fn give(&self) {
        if self.is_taken() {
            drop(self.wait());
        }
    }

    /// Waits until nobody has the way, or for `LONGEST`; not at all if this thread has it. Returns the lock if
    /// nobody has the way.
    #[cold]
    #[inline(never)]
    fn wait(&self) -> Option<MutexGuard<'_, Option<Holder>>> {
        let (mut now, me) = (Instant::now(), std::thread::current().id());
        let patience = now + LONGEST;
        let mut holder = lock(&self.holder);
        loop {
            match &*holder {
                None => return Some(holder),
                Some(other) if other.until <= now => {
                    self.end(&mut holder);
                    return Some(holder);
                }
                Some(other) if other.thread == me || patience <= now => return None,
                Some(other) => {
                    let most = other.until.min(patience) - now;
                    holder = wait_timeout(&self.ended, &self.holder, holder, most);
                    now = Instant::now();
                }
            }
        }
    }

    fn end(&self, holder: &mut Option<Holder>) {
        *holder = None;
        self.in_the_way.fetch_and(!HOLDER, Ordering::Relaxed);
        self.ended.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    /// A way that another thread took, and of which nothing is heard any more.
    fn of_a_thread_that_is_gone(right: &RightOfWay) {
        let take = || assert!(right.take().is_some(), "nobody has it");
        std::thread::scope(|scope| scope.spawn(take).join()).expect("no panic");
    }

    #[test]
    fn a_thread_waits_for_another_one_and_never_for_itself() {
        let right = RightOfWay::default();
        let way = right.take().expect("nobody has it");
        let way_until = way.until;
        assert!(right.take().is_none() && right.is_taken());
        right.give();
        let (waits, is_over) = (AtomicBool::new(false), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                waits.store(true, Ordering::SeqCst);
                right.give();
                assert!(is_over.load(Ordering::SeqCst) || Instant::now() >= way_until);
            });
            while !waits.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
            // So that it is seen if it does not wait.
            std::thread::sleep(LONGEST / 4);
            is_over.store(true, Ordering::SeqCst);
            right.give_back(way);
        });
        assert!(!right.is_taken() && right.take().is_some());
    }

    #[test]
    fn a_way_that_is_never_given_back_ends() {
        let right = RightOfWay::default();
        of_a_thread_that_is_gone(&right);
        let began = Instant::now();
        right.give();
        assert!(began.elapsed() >= LONGEST / 2 && !right.is_taken());
        of_a_thread_that_is_gone(&right);
        right.give_back(right.take().expect("the other one has had it for as long as it may"));
        assert!(!right.is_taken());
    }

    #[test]
    fn a_way_that_has_ended_takes_nothing_from_the_next_one() {
        let right = RightOfWay::default();
        let late = right.take().expect("nobody has it");
        std::thread::sleep(LONGEST);
        let next = right.take().expect("the first one is over");
        right.give_back(late);
        assert!(right.is_taken() && right.take().is_none());
        right.give_back(next);
        assert!(!right.is_taken());
    }
}
