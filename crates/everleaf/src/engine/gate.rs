//! Lets many writers pass, or one that must be alone.

use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crossbeam_utils::CachePadded;
use everleaf_pmem::thread_number;

/// In parts, so that writers of different parts share no word.
pub(crate) struct Gate(Box<[CachePadded<RwLock<()>>; 16]>);

impl Gate {
    pub fn new() -> Self {
        Self(Box::new(std::array::from_fn(|_| CachePadded::default())))
    }

    /// Waits while the gate is closed. Not to be taken twice by one thread.
    pub fn pass(&self) -> RwLockReadGuard<'_, ()> {
        let mine = thread_number() % self.0.len();
        self.0[mine].read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until everybody is out, and keeps them out.
    pub fn close(&self) -> Vec<RwLockWriteGuard<'_, ()>> {
        self.0.iter().map(|part| part.write().unwrap_or_else(PoisonError::into_inner)).collect()
    }
}
