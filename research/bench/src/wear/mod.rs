//! Which lines of persistent memory are written, how often, and by whom: what a tree's stores and flushes
//! come to behind a cache of a given size.
//!
//! A tree asks for write-backs; memory sees another count of them. A flush of a line that is clean writes
//! nothing, and a dirty line that waits for its flush may be evicted before, and then be written once more.
//! [`Cache`](cache::Cache) says what leaves the cache, [`Wear`](counts::Wear) counts it for each line, and
//! [`Cached`](medium::Cached) is the medium that feeds both.

pub mod cache;
pub mod counts;
pub mod medium;
