//! Figures of a pool.
//!
//! The caller makes room for them, and says how much. So a later version may have more figures, and still writes no byte
//! more to a program that was compiled against this one.

use std::ffi::c_int;
use std::mem::offset_of;
use std::ptr;

use db::Stats;

use crate::call::{expect_out, on};
use crate::codes::EVERLEAF_OK;
use crate::failure::invalid;
use crate::pool::everleaf_db;

/// Figures of an open pool at one moment. Set `size` to sizeof(everleaf_stats) before you ask for them.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct everleaf_stats {
    /// Bytes of this struct: yours before the call, and those that were written after it, which are fewer if the library is
    /// older than your header.
    pub size: usize,
    /// Bytes in a page.
    pub page_bytes: u32,
    /// Bytes in a node.
    pub node_bytes: u32,
    /// Length of the pool's file in bytes.
    pub file_bytes: u64,
    /// Bytes of the file that hold pages, large values and the page table as they are now.
    pub live_bytes: u64,
    /// Bytes of the file that can be used again.
    pub free_bytes: u64,
    /// Bytes of the file that are set aside for the journal.
    pub journal_file_bytes: u64,
    /// Bytes of journal that the next open would read after a crash now.
    pub journal_bytes: u64,
    /// Bytes that were written to the journal since this open.
    pub journal_written_bytes: u64,
    /// Bytes of memory that pages, their frames, the page table and large values take.
    pub memory_bytes: u64,
    /// Bytes of memory that they may take.
    pub memory_most_bytes: u64,
    /// How often a page was left in memory because it was used.
    pub memory_hits: u64,
    /// How often a page was needed that was not in memory.
    pub memory_misses: u64,
    /// Pages that have left memory.
    pub memory_evictions: u64,
    /// Pages that checkpoints have written.
    pub memory_write_backs: u64,
    /// Bytes of memory that large values take, a part of memory_bytes.
    pub memory_value_bytes: u64,
    /// How often a large value was needed that was not in memory.
    pub memory_value_misses: u64,
    /// Large values that have left memory.
    pub memory_value_evictions: u64,
    /// Open snapshots, and open transactions that have read.
    pub snapshots: u64,
    /// Old values that are kept for these.
    pub snapshot_values: u64,
    /// Bytes of memory that the old values take.
    pub snapshot_bytes: u64,
    /// Snapshots and transactions that have expired since this open.
    pub snapshots_given_up: u64,
    /// Bytes of memory that transactions and batches under way take.
    pub transaction_bytes: u64,
    /// Bytes of memory that cursors and scans take.
    pub cursor_bytes: u64,
    /// Transactions that were committed since this open and had something to write.
    pub transactions: u64,
    /// Commits since this open that failed with EVERLEAF_CONFLICT.
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

impl everleaf_stats {
    fn new(stats: &Stats) -> Self {
        let memory = &stats.memory;
        everleaf_stats {
            size: size_of::<everleaf_stats>(),
            page_bytes: stats.page_bytes,
            node_bytes: stats.node_bytes,
            file_bytes: stats.file_bytes,
            live_bytes: stats.live_bytes,
            free_bytes: stats.free_bytes,
            journal_file_bytes: stats.journal_file_bytes,
            journal_bytes: stats.journal_bytes,
            journal_written_bytes: stats.journal_written_bytes,
            memory_bytes: memory.bytes,
            memory_most_bytes: memory.most_bytes,
            memory_hits: memory.hits,
            memory_misses: memory.misses,
            memory_evictions: memory.evictions,
            memory_write_backs: memory.write_backs,
            memory_value_bytes: memory.value_bytes,
            memory_value_misses: memory.value_misses,
            memory_value_evictions: memory.value_evictions,
            snapshots: stats.snapshots,
            snapshot_values: stats.snapshot_values,
            snapshot_bytes: stats.snapshot_bytes,
            snapshots_given_up: stats.snapshots_given_up,
            transaction_bytes: stats.transaction_bytes,
            cursor_bytes: stats.cursor_bytes,
            transactions: stats.transactions,
            conflicts: stats.conflicts,
            dropped_trees: stats.dropped_trees,
            epoch: stats.epoch,
            durable_epoch: stats.durable_epoch,
            open_generation: stats.open_generation,
            uuid: stats.uuid,
        }
    }
}

const _: () = assert!(offset_of!(everleaf_stats, size) == 0);

/// Writes the figures of a pool to `*stats`, as many as its `size` has room for. It takes the same short time for any pool.
///
/// Errors: EVERLEAF_INVALID if `size` is smaller than sizeof(size_t).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_db_stats(
    db: *const everleaf_db,
    stats: *mut everleaf_stats,
) -> c_int {
    // SAFETY: the promise of a caller. No reference to `*stats` is made: it may be shorter than the type.
    unsafe {
        on("everleaf_db_stats", db, |db| {
            expect_out(stats)?;
            let room = (&raw const (*stats).size).read();
            if room < size_of::<usize>() {
                return Err(invalid(format!("everleaf_stats has a size of {room} bytes")));
            }
            let written = room.min(size_of::<everleaf_stats>());
            let known = everleaf_stats { size: written, ..everleaf_stats::new(&db.db.stats()?) };
            ptr::copy_nonoverlapping((&raw const known).cast::<u8>(), stats.cast(), written);
            Ok(EVERLEAF_OK)
        })
    }
}
