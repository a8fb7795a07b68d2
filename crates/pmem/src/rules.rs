//! An account of what this thread holds, so that media can assert the rules of [`Medium`](crate::Medium):
//! a thread that stores to a page has latched it and has entered a step.
//!
//! Only builds with debug assertions keep this account. In others the functions are empty, and
//! answer that each rule is kept.

#[cfg(debug_assertions)]
pub use kept::{Redoing, Stepping, holds_latch, holds_no_latch, is_in_step, is_redoing};
#[cfg(debug_assertions)]
pub(crate) use kept::{latched, unlatched, waits_for_itself};

#[cfg(debug_assertions)]
mod kept {
    use std::cell::{Cell, RefCell};

    thread_local! {
        /// The addresses of the latches that this thread holds.
        static LATCHES: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
        static STEPS: Cell<u32> = const { Cell::new(0) };
        static REDOS: Cell<u32> = const { Cell::new(0) };
    }

    /// This thread has taken the latch at that address.
    pub(crate) fn latched(latch: usize) {
        // A thread that ends has no list any more.
        let _ = LATCHES.try_with(|held| {
            let mut held = held.borrow_mut();
            if held.capacity() == 0 {
                // For all that a step ever holds: in the middle of one memory may be refused.
                held.reserve(64);
            }
            held.push(latch);
        });
    }

    /// This thread gives the latch at that address back.
    pub(crate) fn unlatched(latch: usize) {
        // A thread that ends has no list any more.
        let _ = LATCHES.try_with(|held| {
            let mut held = held.borrow_mut();
            let at = held.iter().rposition(|&one| one == latch);
            assert!(at.is_some(), "a latch is given back by a thread that does not hold it");
            at.map(|at| held.swap_remove(at));
        });
    }

    /// Whether this thread holds the latch at that address; yes, if nobody knows any more because
    /// the thread ends.
    pub fn holds_latch(latch: usize) -> bool {
        LATCHES.try_with(|held| held.borrow().contains(&latch)).unwrap_or(true)
    }

    /// Whether this thread would wait for itself at the latch at that address.
    pub(crate) fn waits_for_itself(latch: usize) -> bool {
        LATCHES.try_with(|held| held.borrow().contains(&latch)).unwrap_or(false)
    }

    /// Whether this thread holds no latch at all, so that it may wait for others.
    pub fn holds_no_latch() -> bool {
        LATCHES.try_with(|held| held.borrow().is_empty()).unwrap_or(true)
    }

    /// A step of this thread on a medium that needs to be entered.
    #[derive(Debug)]
    pub struct Stepping(());

    impl Stepping {
        /// A step begins.
        pub fn begin() -> Self {
            STEPS.set(STEPS.get() + 1);
            Self(())
        }
    }

    impl Drop for Stepping {
        fn drop(&mut self) {
            let steps = STEPS.get();
            assert!(steps > 0, "a step ends in a thread that has none");
            STEPS.set(steps - 1);
        }
    }

    /// Whether this thread is inside a step.
    pub fn is_in_step() -> bool {
        STEPS.get() > 0
    }

    /// A fetch that redoes changes in this thread: what it stores has been in a step before.
    #[derive(Debug)]
    pub struct Redoing(());

    impl Redoing {
        /// A redo begins.
        pub fn begin() -> Self {
            REDOS.set(REDOS.get() + 1);
            Self(())
        }
    }

    impl Drop for Redoing {
        fn drop(&mut self) {
            REDOS.set(REDOS.get() - 1);
        }
    }

    /// Whether this thread redoes changes.
    pub fn is_redoing() -> bool {
        REDOS.get() > 0
    }
}

#[cfg(not(debug_assertions))]
pub use free::{Redoing, Stepping, holds_latch, holds_no_latch, is_in_step, is_redoing};
#[cfg(not(debug_assertions))]
pub(crate) use free::{latched, unlatched, waits_for_itself};

#[cfg(not(debug_assertions))]
#[allow(missing_docs, reason = "documented above, where they do something")]
mod free {
    #[derive(Debug)]
    pub struct Stepping;

    impl Stepping {
        #[inline(always)]
        pub fn begin() -> Self {
            Self
        }
    }

    #[derive(Debug)]
    pub struct Redoing;

    impl Redoing {
        #[inline(always)]
        pub fn begin() -> Self {
            Self
        }
    }

    #[inline(always)]
    pub(crate) fn latched(_: usize) {}

    #[inline(always)]
    pub(crate) fn unlatched(_: usize) {}

    #[inline(always)]
    pub(crate) fn waits_for_itself(_: usize) -> bool {
        false
    }

    #[inline(always)]
    pub fn holds_latch(_: usize) -> bool {
        true
    }

    #[inline(always)]
    pub fn holds_no_latch() -> bool {
        true
    }

    #[inline(always)]
    pub fn is_in_step() -> bool {
        true
    }

    #[inline(always)]
    pub fn is_redoing() -> bool {
        true
    }
}
