//! The contents of memory: pages with their frames and owners, large values, eviction, and what warms a pool.

pub(crate) mod budget;
pub(crate) mod cache;
pub(crate) mod evict;
pub(crate) mod frames;
pub(crate) mod leaves;
pub(crate) mod residents;
pub(crate) mod values;
pub(crate) mod warm;
