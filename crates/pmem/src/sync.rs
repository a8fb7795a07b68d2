//! What the latch is made of. `tests/loom_latch.rs` compiles the latch with another module of this
//! name, of loom's types, and so checks the code that runs.

pub(crate) use std::sync::atomic::{AtomicU64, Ordering, fence};

pub(crate) use crate::schedule::{before_read, before_write};

/// One turn of a short wait.
#[inline]
pub(crate) fn spin_loop() {
    if !crate::schedule::pause() {
        std::hint::spin_loop();
    }
}

/// One turn of a long wait.
#[inline]
pub(crate) fn yield_now() {
    if !crate::schedule::pause() {
        std::thread::yield_now();
    }
}

/// Runs a test of the latch; loom's runs it in every order.
#[cfg(test)]
pub(crate) fn model(test: impl Fn()) {
    test();
}
