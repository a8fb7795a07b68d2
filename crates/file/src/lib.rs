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
//! `docs/FORMAT.md` describes the bytes of the file, and `docs/MEDIA.md` what is asked of disks.

#![forbid(unsafe_code)]

mod address;
mod backup;
mod barrier;
mod born;
mod bounds;
mod bulk;
mod cache;
mod checkpoint;
mod cleaner;
mod commit;
mod compact;
mod counts;
mod data;
pub mod dax;
mod durable;
mod evict;
mod extents;
pub mod file;
mod format;
mod image;
mod inner;
pub mod io;
mod journal;
mod names;
pub mod observe;
mod open;
mod options;
mod ready;
mod recovery;
mod replay;
mod reserve;
mod residents;
mod room;
pub mod salvage;
mod seed;
mod segment_reads;
mod segments;
mod slots;
mod spill;
mod stats;
mod stream;
mod superblock;
mod table;
mod tasks;
mod ticker;
mod waits;
mod warm;
pub mod workers;

pub use dax::{Dax, DaxOptions};
pub use durable::Durable;
pub use evict::KeptPages;
pub use file::File;
pub use format::{FIRST_PAGE_OFFSET, FORMAT_VERSION};
pub use options::{BYTES_MOST, Compression, FileOptions, INTERVAL_LEAST, INTERVAL_MOST, PageUse};
pub use salvage::DamagedFile;
pub use slots::FileOp;
pub use stats::FileStats;

/// Keeps the code of the README true.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
