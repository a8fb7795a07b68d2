//! The primitives of the gate, the versions and the store. `loom_versions.rs` of `everleaf-testing` compiles `versions.rs`
//! with another module of this name, of loom's types, and so checks the code that runs.
//!
//! Under a test's scheduler ([`everleaf_pmem::schedule`]) one thread runs at a time. So whoever waits here for another
//! thread does it by the locks of [`everleaf_pmem::sync`], which report that and try again.

pub(crate) use everleaf_pmem::locks::{
    Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard,
};
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
pub(crate) use std::thread_local;

pub(crate) use everleaf_pmem::sync::{
    lock_plain as lock, read_plain as read, write_plain as write,
};
pub(crate) use everleaf_pmem::thread_number;

/// Parts of a gate.
pub(crate) const PARTS: usize = 16;
