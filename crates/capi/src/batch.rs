//! Changes that belong together.

use std::ffi::{c_int, c_void};
use std::mem;

use db::{Batch, Db};

use crate::call::{self, Handle, boxed, bytes, expect_out, give, on, on_mut};
use crate::codes::EVERLEAF_OK;
use crate::failure::{Result, invalid};
use crate::options::durability;
use crate::pool::everleaf_db;
use crate::tree::everleaf_tree;

/// Changes to any trees of one pool that a crash keeps or loses together. Nothing happens before everleaf_batch_commit. One
/// thread at a time may use a batch. Free it with everleaf_batch_free.
pub struct everleaf_batch {
    /// The pool, with the durability of the batch.
    db: Db,
    batch: Batch,
}

impl Handle for everleaf_batch {
    fn db(&self) -> Option<&Db> {
        Some(&self.db)
    }
}

/// The tree that a change is for. It must be open as the batch or the transaction is: the caller looks at that.
///
/// # Safety
///
/// The handle is NULL or good.
pub(crate) unsafe fn tree_of<'a>(tree: *const everleaf_tree) -> Result<&'a db::Tree> {
    // SAFETY: the caller's promise.
    unsafe { tree.as_ref() }.ok_or_else(|| invalid("the tree is NULL"))?.writable()
}

/// Makes an empty batch in `*out`, which is yours to free with everleaf_batch_free. `durability` is EVERLEAF_AS_OPENED,
/// EVERLEAF_BUFFERED or EVERLEAF_SYNC, and counts for the whole batch, whatever that of the trees is.
///
/// Errors: EVERLEAF_INVALID_OPTION.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_batch_new(
    db: *const everleaf_db,
    durability: c_int,
    out: *mut *mut everleaf_batch,
) -> c_int {
    // SAFETY: the promise of a caller.
    unsafe {
        give(out, std::ptr::null_mut());
        on("everleaf_batch_new", db, |db| {
            boxed(out, || {
                let durability = self::durability(durability)?;
                let db = durability.map_or_else(|| db.db.clone(), |one| db.db.with(one));
                Ok(Some(everleaf_batch { batch: db.batch(), db }))
            })
        })
    }
}

/// Adds a change that sets the value of a key. Key and value are copied. Of several changes of a key the last one counts.
///
/// Errors: EVERLEAF_KEY_TOO_LONG, EVERLEAF_VALUE_TOO_LONG, EVERLEAF_OTHER_POOL, EVERLEAF_NO_MEMORY,
/// EVERLEAF_TRANSACTION_TOO_LARGE. The batch stays as it was.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_batch_put(
    batch: *mut everleaf_batch,
    tree: *const everleaf_tree,
    key: *const c_void,
    key_len: usize,
    value: *const c_void,
    value_len: usize,
) -> c_int {
    // SAFETY: the promise of a caller.
    unsafe {
        on_mut("everleaf_batch_put", batch, |batch| {
            let (key, value) = (bytes(key, key_len)?, bytes(value, value_len)?);
            batch.batch.put(tree_of(tree)?, key, value)?;
            Ok(EVERLEAF_OK)
        })
    }
}

/// Adds a change that removes a key if it is there.
///
/// Errors: those of everleaf_batch_put.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_batch_delete(
    batch: *mut everleaf_batch,
    tree: *const everleaf_tree,
    key: *const c_void,
    key_len: usize,
) -> c_int {
    // SAFETY: the promise of a caller.
    unsafe {
        on_mut("everleaf_batch_delete", batch, |batch| {
            batch.batch.delete(tree_of(tree)?, bytes(key, key_len)?)?;
            Ok(EVERLEAF_OK)
        })
    }
}

/// Writes how many changes were added since the last commit to `*changes`, several of one key included.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_batch_len(
    batch: *const everleaf_batch,
    changes: *mut usize,
) -> c_int {
    // SAFETY: the promise of a caller.
    unsafe {
        on("everleaf_batch_len", batch, |batch| {
            expect_out(changes)?;
            give(changes, batch.batch.len());
            Ok(EVERLEAF_OK)
        })
    }
}

/// Applies all changes in one epoch. The batch is empty afterwards, also after an error, and can be filled again.
///
/// Errors: those of everleaf_put; then nothing has changed. If a read, an allocation or the disk fails after the first change,
/// writes stop with EVERLEAF_POISONED, and none of the changes becomes durable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_batch_commit(batch: *mut everleaf_batch) -> c_int {
    // SAFETY: the promise of a caller.
    unsafe {
        on_mut("everleaf_batch_commit", batch, |batch| {
            mem::replace(&mut batch.batch, batch.db.batch()).commit()?;
            Ok(EVERLEAF_OK)
        })
    }
}

/// Frees the batch; what was not committed is dropped. NULL may be freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_batch_free(batch: *mut everleaf_batch) {
    // SAFETY: the promise of a caller.
    unsafe { call::free("everleaf_batch_free", batch) }
}
