//! The gate of a pool: many writers pass, or one thread is alone, to make a cut or to validate a transaction.
//!
//! ```text
//! pass    count oneself in a part; if the gate is closed, leave again, and wait for the lock of who has closed it
//! close   lock; say so; wait until nobody is counted in any part
//! ```
//!
//! Writers of different parts write no word in common. Who closes the gate looks at each part by a step that writes, so the
//! part's own order decides: a writer that counts itself after that look finds the gate closed, and one that did so
//! before is seen.

use std::cell::Cell;
use std::sync::PoisonError;

use crossbeam_utils::CachePadded;

use super::sync::{
    AtomicBool, AtomicUsize, Condvar, LOOKS, Mutex, MutexGuard, Ordering, PARTS, before_write,
    lock, thread_local, thread_number, wait,
};

/// How many writers are inside, in parts.
type Parts = [CachePadded<AtomicUsize>; PARTS];

pub(crate) struct Gate {
    parts: Box<Parts>,
    /// Somebody is alone, or waits for the last ones to leave.
    is_closed: CachePadded<AtomicBool>,
    /// Held by who has closed the gate.
    closing: Mutex<()>,
    /// For the last ones of a part to tell that they have left.
    left: (Mutex<()>, Condvar),
}

/// A writer has passed: nobody is alone until this is dropped.
pub(crate) struct Passed<'g> {
    gate: &'g Gate,
    part: &'g AtomicUsize,
    _inside: InsideGate,
}

/// Everybody is out, and stays out until this is dropped.
pub(crate) struct Closed<'g> {
    gate: &'g Gate,
    _closing: MutexGuard<'g, ()>,
    _inside: InsideGate,
}

impl Gate {
    pub fn new() -> Self {
        Self {
            parts: Box::new(std::array::from_fn(|_| CachePadded::new(AtomicUsize::new(0)))),
            is_closed: CachePadded::new(AtomicBool::new(false)),
            closing: Mutex::new(()),
            left: (Mutex::new(()), Condvar::new()),
        }
    }

    /// Waits while the gate is closed. A thread that passes or closes a second time could wait for
    /// itself for ever; debug builds refuse that.
    #[inline]
    pub fn pass(&self) -> Passed<'_> {
        let _inside = InsideGate::enter();
        let part = &*self.parts[thread_number() % PARTS];
        before_write();
        part.fetch_add(1, Ordering::AcqRel);
        if self.is_closed.load(Ordering::Acquire) {
            self.wait_to_pass(part);
        }
        Passed { gate: self, part, _inside }
    }

    #[cold]
    fn wait_to_pass(&self, part: &AtomicUsize) {
        self.leave(part);
        // Nobody closes the gate while this has the lock.
        let _open = lock(&self.closing);
        part.fetch_add(1, Ordering::AcqRel);
    }

    #[inline]
    fn leave(&self, part: &AtomicUsize) {
        before_write();
        part.fetch_sub(1, Ordering::AcqRel);
        if self.is_closed.load(Ordering::Acquire) {
            self.tell();
        }
    }

    #[cold]
    fn tell(&self) {
        // Under the lock: who closes the gate looks at the part again, or sleeps already.
        drop(lock(&self.left.0));
        self.left.1.notify_all();
    }

    /// Waits until everybody is out, and keeps them out.
    pub fn close(&self) -> Closed<'_> {
        let _inside = InsideGate::enter();
        let closed = Closed { gate: self, _closing: lock(&self.closing), _inside };
        self.is_closed.store(true, Ordering::Release);
        for part in self.parts.iter() {
            if !is_empty(part) {
                self.await_empty(part);
            }
        }
        closed
    }

    #[cold]
    fn await_empty(&self, part: &AtomicUsize) {
        for _ in 0..LOOKS {
            if is_empty(part) {
                return;
            }
            std::hint::spin_loop();
        }
        let mut left = lock(&self.left.0);
        while !is_empty(part) {
            left = wait(&self.left.1, &self.left.0, left).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Whether nobody is inside, as the last one to write to the part knows.
#[inline]
fn is_empty(part: &AtomicUsize) -> bool {
    before_write();
    part.fetch_add(0, Ordering::AcqRel) == 0
}

impl Drop for Passed<'_> {
    #[inline]
    fn drop(&mut self) {
        self.gate.leave(self.part);
    }
}

impl Drop for Closed<'_> {
    fn drop(&mut self) {
        // Before the lock is free.
        self.gate.is_closed.store(false, Ordering::Release);
    }
}

thread_local! {
    /// Whether this thread is inside a gate, in debug builds.
    #[allow(clippy::missing_const_for_thread_local, reason = "loom's macro knows no const")]
    static INSIDE: Cell<bool> = Cell::new(false);
}

/// This thread is inside a gate.
struct InsideGate;

impl InsideGate {
    fn enter() -> Self {
        if cfg!(debug_assertions) {
            let was_inside = INSIDE.with(|cell| cell.replace(true));
            assert!(!was_inside, "a thread in a gate would wait for itself");
        }
        Self
    }
}

impl Drop for InsideGate {
    fn drop(&mut self) {
        if cfg!(debug_assertions) {
            INSIDE.with(|cell| cell.set(false));
        }
    }
}
