//! A crash-safe ordered store on an ordinary file.
//!
//! A [`Db`] is one file that holds named [`Tree`]s. A tree maps byte strings to byte strings in
//! bytewise order. Any number of threads read and write at memory speed; what they wrote becomes
//! durable in *epochs*, a few milliseconds each, and everything of one epoch survives a crash or
//! nothing of it does.
//!
//! ```
//! # fn main() -> everleaf::Result<()> {
//! # let dir = tempfile::tempdir().unwrap();
//! # let path = dir.path().join("sales.ever");
//! let db = everleaf::Db::open(&path)?;
//! let orders = db.tree("orders")?;
//! orders.put("2026-11-20/0001", "2 chairs")?; // durable within the interval, 10 ms
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
//! - **Durability.** With [`Durability::Buffered`] an operation is durable at most about one
//!   [interval](Options::interval) after it returned, or when [`Db::sync`] returns, whichever is
//!   first. With [`Durability::Sync`] it is durable when it returns. A crash keeps a prefix of
//!   epochs, never a later epoch without an earlier one.
//! - **Atomicity.** A single operation, and a whole [`Batch`], is in one epoch: after a crash all
//!   of it is there or none of it.
//! - **Failure.** A failed write or sync stops all writes with [`Error::Poisoned`]; reads go on.
//!   What was reported durable is still there after reopening.
//!
//! # Persistent memory
//!
//! With [`Storage::Dax`] a pool lies on a DAX file system instead, and an operation is durable when
//! it returns, without epochs; a batch is still all or nothing.
//!
//! # Limits
//!
//! Keys have 0 to [`KEY_BYTES_MAX`] bytes, values 0 to [`VALUE_BYTES_MAX`], tree names 1 to
//! [`TREE_NAME_BYTES_MAX`]. One process at a time has a pool open for writing.

#![forbid(unsafe_code)]

mod batch;
mod db;
mod engine;
mod limits;
mod options;
mod range;
mod stats;
mod tree;
mod walk;

pub use batch::Batch;
pub use db::Db;
pub use everleaf_pmem::{Error, Result};
pub use limits::{KEY_BYTES_MAX, TREE_NAME_BYTES_MAX, VALUE_BYTES_MAX};
pub use options::{Durability, Options, Storage};
pub use range::{Pair, Range};
pub use stats::{Damage, PageCount, Stats, TreeStats};
pub use tree::Tree;
