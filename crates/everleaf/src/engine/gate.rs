//! Lets many writers pass, or one that must be alone.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// In parts, so that writers of different parts share no word.
pub(crate) struct Gate(Box<[Part; 16]>);

#[derive(Default)]
#[repr(align(128))]
struct Part(RwLock<()>);

impl Gate {
    pub fn new() -> Self {
        Self(Box::new(std::array::from_fn(|_| Part::default())))
    }

    /// Waits while the gate is closed. Not to be taken twice by one thread.
    pub fn pass(&self) -> RwLockReadGuard<'_, ()> {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        thread_local!(static MINE: usize = NEXT.fetch_add(1, Ordering::Relaxed));
        let mine = MINE.with(|n| *n) % self.0.len();
        self.0[mine].0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until everybody is out, and keeps them out.
    pub fn close(&self) -> Vec<RwLockWriteGuard<'_, ()>> {
        self.0.iter().map(|part| part.0.write().unwrap_or_else(PoisonError::into_inner)).collect()
    }
}
