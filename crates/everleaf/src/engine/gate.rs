//! Lets many writers pass, or one that must be alone.

use std::cell::Cell;

use crossbeam_utils::CachePadded;

use super::sync::{
    PARTS, RwLock, RwLockReadGuard, RwLockWriteGuard, read, thread_local, thread_number, write,
};

/// In parts, so that writers of different parts share no word.
pub(crate) struct Gate(Box<[CachePadded<RwLock<()>>; PARTS]>);

/// A writer has passed: nobody is alone until this is dropped.
pub(crate) struct Passed<'g>(#[expect(dead_code, reason = "held")] RwLockReadGuard<'g, ()>, Inside);

/// Everybody is out, and stays out until this is dropped.
pub(crate) struct Closed<'g>(
    #[expect(dead_code, reason = "held")] [RwLockWriteGuard<'g, ()>; PARTS],
    Inside,
);

impl Gate {
    pub fn new() -> Self {
        Self(Box::new(std::array::from_fn(|_| CachePadded::default())))
    }

    /// Waits while the gate is closed. A thread that passes or closes a second time could wait for
    /// itself for ever; debug builds refuse that.
    pub fn pass(&self) -> Passed<'_> {
        let inside = Inside::enter();
        let mine = thread_number() % self.0.len();
        Passed(read(&self.0[mine]), inside)
    }

    /// Waits until everybody is out, and keeps them out.
    pub fn close(&self) -> Closed<'_> {
        let inside = Inside::enter();
        Closed(self.0.each_ref().map(|part| write(part)), inside)
    }
}

thread_local! {
    /// Whether this thread is inside a gate, in debug builds.
    #[allow(clippy::missing_const_for_thread_local, reason = "loom's macro knows no const")]
    static INSIDE: Cell<bool> = Cell::new(false);
}

/// This thread is inside a gate.
struct Inside;

impl Inside {
    fn enter() -> Self {
        if cfg!(debug_assertions) {
            let was_inside = INSIDE.with(|cell| cell.replace(true));
            assert!(!was_inside, "a thread in a gate would wait for itself");
        }
        Self
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        if cfg!(debug_assertions) {
            INSIDE.with(|cell| cell.set(false));
        }
    }
}
