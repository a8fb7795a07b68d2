//! Pools on files: the file engine of Everleaf.
//!
//! This crate puts pages into files. `everleaf-pmem`, below, gives memory: pages, latches, the epoch
//! clock and all code that is `unsafe`. The crates above see a [`Medium`](everleaf_pmem::Medium).
//!
//! | | |
//! |---|---|
//! | [`File`] | a medium on one ordinary file, its journal inside: epochs, `sync` on demand, checkpoints |
//! | [`Dax`] | a medium on a mapped file: what is flushed and fenced is durable |
//! | [`DamagedFile`] | a damaged pool as a medium that is read and never written |
//! | [`io`] | the operating system as these see it, real or simulated |
//!
//! | folder | its subject |
//! |---|---|
//! | `store` | the bytes of a pool: superblocks, extents, the table of images |
//! | `epochs` | what an epoch changed, how it is committed, when it is durable |
//! | `journal` | blocks of changes, written in order and read back |
//! | `checkpoint` | images of changed pages, a table of them, a root; the cleaner; compaction and backup |
//! | `values` | values that are too long for a node |
//! | `limits` | which writer waits, and which is refused: bounds, room on the disk, the reserve |
//! | `memory` | which pages are in memory, and which leave it |
//! | `open` | a pool that is made, opened, recovered |
//! | `salvage`, `dax`, `io`, `observe` | damaged pools, mapped files, the operating system, telemetry |
//!
//! `docs/FORMAT.md` describes the bytes of the file, and `docs/MEDIA.md` what is asked of disks.

#![forbid(unsafe_code)]

mod checkpoint;
pub mod dax;
mod epochs;
pub mod file;
mod inner;
pub mod io;
mod journal;
mod limits;
mod memory;
pub mod observe;
mod open;
mod options;
pub mod salvage;
mod stats;
mod store;
mod tasks;
mod values;
pub mod workers;

pub use dax::{Dax, DaxOptions};
pub use epochs::durable::DurableFuture;
pub use epochs::slots::FileOp;
pub use file::File;
pub use limits::room::is_want_of_room;
pub use memory::budget::{Budget, Part, Share};
pub use memory::evict::KeptPages;
pub use options::{BYTES_MOST, Compression, FileOptions, INTERVAL_LEAST, INTERVAL_MOST, PageUse};
pub use salvage::DamagedFile;
pub use stats::FileStats;
pub use store::format::{FIRST_PAGE_OFFSET, FORMAT_VERSION};

/// Keeps the code of the README true.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
