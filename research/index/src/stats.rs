//! The functions that concern a tree as a whole: durability, recovery, figures.

use std::ffi::c_int;

use crate::call::{expect_place, give, on};
use crate::codes::{EVERLEAF_INDEX_NOT_FOUND, EVERLEAF_INDEX_OK};
use crate::figures::everleaf_index_stats;
use crate::handle::everleaf_index;
use crate::options::expect_size;

/// Makes durable all that was done before this call. Trees without epochs on persistent memory need none of it; in memory it
/// does nothing.
///
/// Errors: EVERLEAF_INDEX_POISONED, EVERLEAF_INDEX_IO, EVERLEAF_INDEX_NO_MEMORY.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_index_sync(index: *mut everleaf_index) -> c_int {
    // SAFETY: the promise of a caller.
    unsafe {
        on("everleaf_index_sync", index, |index| {
            index.tree.sync()?;
            Ok(EVERLEAF_INDEX_OK)
        })
    }
}

/// Writes the running epoch to `*running` and the last durable one to `*durable`; either may be NULL. A write that returned
/// before the call is durable as soon as an epoch is that is not below `*running`.
///
/// Returns EVERLEAF_INDEX_NOT_FOUND if the tree has no epochs: a write is durable when it returns, or the tree is in memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_index_epoch(
    index: *const everleaf_index,
    running: *mut u64,
    durable: *mut u64,
) -> c_int {
    // SAFETY: the promise of a caller.
    unsafe {
        on("everleaf_index_epoch", index, |index| {
            let Some([now, last]) = index.tree.epochs() else {
                return Ok(EVERLEAF_INDEX_NOT_FOUND);
            };
            give(running, now);
            give(durable, last);
            Ok(EVERLEAF_INDEX_OK)
        })
    }
}

/// Completes what a crash has left, and gives back what it has leaked; writes the number of pages that were given back to
/// `*returned`, and that of entries that parents lacked to `*completed`. Either may be NULL. It costs a walk over the tree. Call
/// it after an open that follows a crash. Without it the tree is right, and is completed as it is used; what leaked stays so.
/// Of BdTree and the rivals the open has done all of it, and this does nothing. Nobody else may use the tree meanwhile.
///
/// Errors: EVERLEAF_INDEX_CORRUPT, EVERLEAF_INDEX_FULL, EVERLEAF_INDEX_IO.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_index_recover(
    index: *mut everleaf_index,
    returned: *mut u64,
    completed: *mut u64,
) -> c_int {
    // SAFETY: the promise of a caller.
    unsafe {
        on("everleaf_index_recover", index, |index| {
            let recovery = index.tree.recover()?;
            let leaks = &recovery.returned;
            let pages = leaks.anchors.len() + leaks.nodes.len() + leaks.logs.len();
            give(returned, pages as u64);
            give(completed, recovery.walked.entries_added);
            Ok(EVERLEAF_INDEX_OK)
        })
    }
}

/// Fills `*stats`. `struct_bytes` is sizeof(everleaf_index_stats). It looks at one byte for each page.
///
/// Errors: EVERLEAF_INDEX_INVALID for another size; EVERLEAF_INDEX_CORRUPT, EVERLEAF_INDEX_IO.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_index_get_stats(
    index: *const everleaf_index,
    stats: *mut everleaf_index_stats,
    struct_bytes: usize,
) -> c_int {
    // SAFETY: the promise of a caller.
    unsafe {
        on("everleaf_index_get_stats", index, |index| {
            expect_place(stats, 1, "the stats")?;
            expect_size::<everleaf_index_stats>(struct_bytes, "the stats")?;
            let mut all = everleaf_index_stats::default();
            index.tree.stats(&mut all)?;
            stats.write(all);
            Ok(EVERLEAF_INDEX_OK)
        })
    }
}
