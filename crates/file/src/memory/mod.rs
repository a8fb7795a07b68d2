//! Which pages are in memory: frames, their owners, eviction, and what warms a pool.

pub(crate) mod address;
pub(crate) mod cache;
pub(crate) mod evict;
pub(crate) mod residents;
pub(crate) mod warm;
