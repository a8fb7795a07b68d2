//! Figures of a pool, counts of what it holds, and what is wrong with it.

use std::fmt;

/// The trees and pages of a pool, [counted](crate::Db::count).
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Counts {
    /// The trees, in bytewise order of their names.
    pub trees: Vec<TreeStats>,
    /// Pages by what they hold. Free pages are not listed.
    pub pages: Vec<PageCount>,
}

/// Figures of an open pool at one moment.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Stats {
    /// Bytes in a page.
    pub page_bytes: u32,
    /// Bytes in a node.
    pub node_bytes: u32,
    /// Length of the pool's file in bytes.
    pub file_bytes: u64,
    /// Bytes of the file that hold pages, large values and the page table as they are now. 0 on persistent memory, like
    /// `free_bytes` and `journal_file_bytes`.
    pub live_bytes: u64,
    /// Bytes of the file that can be used again, in free pieces of 1 MiB. Free bytes within a piece that is in use do not
    /// count, and neither does a free end of the file that this open has not used.
    pub free_bytes: u64,
    /// Bytes of the file that are set aside for the journal.
    pub journal_file_bytes: u64,
    /// Bytes of journal that the next open would read if the process crashed now; 0 after a clean close.
    pub journal_bytes: u64,
    /// Bytes that were written to the journal since this open, padding included.
    pub journal_written_bytes: u64,
    /// The memory of pages, on a file.
    pub memory: MemoryStats,
    /// Open snapshots, and open transactions that have read, as far as they have not expired.
    pub snapshots: u64,
    /// Old values that are kept for these; a key that was absent counts as one.
    pub snapshot_values: u64,
    /// Bytes of memory that the old values take.
    pub snapshot_bytes: u64,
    /// Snapshots and transactions that have expired since this open, with
    /// [`SnapshotTooOld`](crate::Error::SnapshotTooOld).
    pub snapshots_given_up: u64,
    /// Bytes of memory that transactions and batches under way take, with their reads and writes; for each of them up to
    /// 4 KiB may be missing.
    pub transaction_bytes: u64,
    /// Bytes of memory that cursors and iterators take: a copy of the page that they are in, the last pair, and of an
    /// iterator the 4 KiB of which its next long keys and values become parts; for each of
    /// them up to 1 KiB may be missing, and in a transaction what they have copied of its own writes. When it is dropped, a
    /// thread keeps up to 64 KiB for its next one, which do not count.
    pub cursor_bytes: u64,
    /// Transactions that were committed since this open and had something to write.
    pub transactions: u64,
    /// Commits since this open that failed with [`Conflict`](crate::Error::Conflict), with those that
    /// [`Db::transact`](crate::Db::transact) tried again.
    pub conflicts: u64,
    /// Trees that were dropped or cleared, and whose space is not free yet.
    pub dropped_trees: u64,
    /// The current epoch; 0 on persistent memory.
    pub epoch: u64,
    /// The last epoch that is on disk; 0 on persistent memory.
    pub durable_epoch: u64,
    /// How many opens have written to the pool.
    pub open_generation: u64,
    /// The pool's identity, chosen at random when it was created.
    pub uuid: [u8; 16],
}

/// The memory of a pool's pages and large values on a file, and how often they came and went since the open. See
/// [`Options::memory`](crate::Options::memory). All figures are 0 on persistent memory. Pages of less than 4,096 bytes never
/// leave memory: in a pool of them all are 0 except `misses`, `write_backs` and those of values.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MemoryStats {
    /// Bytes that pages, their frames, the page table and large values take.
    pub bytes: u64,
    /// Bytes that they may take, together with those of all pools that share the [budget](crate::Budget).
    pub most_bytes: u64,
    /// How often the search for pages that can leave memory met a page that had been used since it came by last, and left
    /// it there.
    pub hits: u64,
    /// How often a page was needed that was not in memory, new pages included.
    pub misses: u64,
    /// Pages that have left memory.
    pub evictions: u64,
    /// Pages that checkpoints have written.
    pub write_backs: u64,
    /// Bytes that large values take, with long keys beside them: a part of `bytes`, where pages count.
    pub value_bytes: u64,
    /// How often a large value, or a long key, was not in memory when it was needed.
    pub value_misses: u64,
    /// Large values that have left memory for want of room.
    pub value_evictions: u64,
}

/// The length of a pool's file before and after [`Db::compact`](crate::Db::compact).
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compaction {
    /// Length of the pool's file before, in bytes.
    pub before_bytes: u64,
    /// Length of the pool's file afterwards, in bytes. It is larger if others wrote more meanwhile.
    pub after_bytes: u64,
}

/// Counts of one tree.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TreeStats {
    /// The tree's name.
    pub name: String,
    /// How many pairs the tree holds.
    pub entries: u64,
    /// Levels from the root to a leaf. It is 1 if the tree is a single leaf.
    pub depth: u32,
    /// How many nodes each level has, the leaves first.
    pub nodes_by_level: Vec<u64>,
    /// The share of the leaves' room that is in use, 0 to 1.
    pub fill: f64,
    /// The length of all keys, in bytes.
    pub key_bytes: u64,
    /// The length of all values, in bytes.
    pub value_bytes: u64,
}

/// How many pages hold one kind of thing.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageCount {
    /// Their kind, in one word.
    pub kind: &'static str,
    /// How many such pages there are.
    pub pages: u64,
}

/// One thing that is wrong with a pool.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// The file: `data`, the only one.
    pub file: &'static str,
    /// The place, in bytes from the start of that file.
    pub offset: u64,
    /// Says what was expected and what was found.
    pub what: String,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}: {}", self.file, self.offset, self.what)
    }
}
