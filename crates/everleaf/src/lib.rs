//! A crash-safe ordered store on an ordinary file.
//!
//! A [`Db`] holds named [`Tree`]s in one file, its journal inside. A tree maps byte strings to byte
//! strings, in bytewise order. Any number of threads read and write in memory. Their writes become
//! durable in *epochs* of a few milliseconds: after a crash, either everything of an epoch is there or
//! nothing of it.
//!
//! ```
//! # fn main() -> everleaf::Result<()> {
//! # let dir = tempfile::tempdir().unwrap();
//! # let path = dir.path().join("sales.ever");
//! let db = everleaf::Db::open(&path)?;
//! let orders = db.tree("orders")?;
//! orders.put("2026-11-20/0001", "2 chairs")?; // visible now, on disk within about 10 ms
//! orders.put("2026-11-20/0002", "1 table")?;
//! orders.put("2026-11-21/0001", "5 lamps")?;
//!
//! for pair in orders.prefix("2026-11-20/").rev() {
//!     let (key, value) = pair?;
//!     println!("{} {}", String::from_utf8_lossy(&key), String::from_utf8_lossy(&value));
//! }
//! db.sync()?; // everything before this line is on disk
//! # assert_eq!(orders.prefix("2026-11-20/").count(), 2);
//! # Ok(())
//! # }
//! ```
//!
//! # What is promised
//!
//! - **Order.** Keys compare bytewise, as `&[u8]` does: a prefix comes before its extensions.
//! - **Visibility.** An operation is visible to every thread when it returns.
//! - **Durability.** With [`Durability::Buffered`] an operation is durable one
//!   [interval](Options::interval) and two disk syncs after it returned, or when [`Db::sync`] returns,
//!   whichever comes first. Writers that are faster than the disk wait; then the bound is ten intervals and
//!   two syncs, on a disk that takes 1 MiB in four intervals (25 MB a second). With [`Durability::Sync`] it is durable
//!   when it returns. A crash never keeps a later epoch without all earlier ones.
//! - **Atomicity.** A single operation is in one epoch, and so is a whole [`Batch`] or [`Transaction`]: after
//!   a crash all of it is there or none of it.
//! - **Isolation.** A single operation is linearizable. A [`Snapshot`] shows all trees at one moment, with
//!   all of a batch or transaction or nothing of it. A transaction is serializable: it happens as if it were
//!   alone, or not at all. Single reads outside of both may see a part of others' changes.
//! - **Failure.** A failed write or sync stops all writes with [`Error::Poisoned`]; reads go on.
//!   Everything that was reported durable is there after reopening. If the disk is full, a call that needs
//!   room fails with [`Error::Io`]: a write that adds something, a sync, a checkpoint, a backup. All accepted writes
//!   stay, deletes are accepted, and the same calls work again when there is room. A full disk stops writes as any
//!   failure does if it shows only when the system syncs, at the superblock, or in the middle of a batch.
//!
//! # In memory
//!
//! [`Db::in_memory`] makes a pool without a file, for tests and caches: all of the API works, and only backups outlive
//! the process. See [`Options::in_memory`].
//!
//! # Persistent memory
//!
//! With [`Storage::Dax`] the pool is a mapped file on a DAX file system. There are no epochs: an
//! operation is durable when it returns. A batch is still all or nothing.
//!
//! # Features
//!
//! `dax`, which is on by default, is for [persistent memory](#persistent-memory): without it every tree is compiled once, for
//! files alone, and a program is smaller. `tracing` and `metrics` are off by default. With `tracing`, pools on files report epochs,
//! checkpoints, cleaning and writers that wait to a subscriber of that crate, and all pools report snapshots and
//! transactions; with `metrics`, they count these for a recorder. Neither adds anything to a get, or to a put while there
//! is no snapshot. [`Db::durable`] is a future that needs no feature.
//!
//! # Limits
//!
//! Keys have 0 to [`KEY_BYTES_MAX`] bytes, values 0 to [`VALUE_BYTES_MAX`], tree names 1 to
//! [`TREE_NAME_BYTES_MAX`]. One process opens a pool for writing, or any number open it read-only.
//! A [`Budget`] bounds the memory of all pools. Calls block: see the guide for use in async programs.

#![forbid(unsafe_code)]

mod attempts;
mod batch;
mod bytes;
mod cursor;
mod db;
mod engine;
mod key_range;
pub mod keys;
mod limits;
mod load;
mod memory;
mod options;
mod range;
mod read_tree;
#[doc(hidden)]
pub mod scan;
mod single;
mod snapshot;
mod sorted;
mod spans;
mod stats;
mod transaction;
mod tree;

#[doc(hidden)]
pub use attempts::Attempts;
pub use batch::Batch;
pub use bytes::Bytes;
pub use cursor::{Cursor, Pair};
pub use db::{Db, Durable};
pub use everleaf_file::Compression;
/// The file systems that a pool can lie on, for [`Options::open_on`].
pub use everleaf_file::io;
pub use everleaf_pmem::{Error, Result};
pub use key_range::{AsBytes, KeyRange, between};
pub use limits::{KEY_BYTES_MAX, TREE_NAME_BYTES_MAX, VALUE_BYTES_MAX};
pub use load::IntoPair;
pub use memory::Budget;
pub use options::{Durability, Options, Storage};
pub use range::{Keys, Range, prefix_end};
pub use read_tree::{ReadCursor, ReadTree};
pub use single::Swap;
pub use snapshot::{Snapshot, SnapshotTree};
pub use stats::{Compaction, Counts, Damage, MemoryStats, PageCount, Stats, TreeStats};
pub use transaction::{
    Isolation, Transaction, TransactionCursor, TransactionKeys, TransactionOptions,
    TransactionRange, TransactionTree,
};
pub use tree::Tree;

/// Keeps the code of the README true.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
