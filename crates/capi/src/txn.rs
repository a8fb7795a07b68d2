//! Transactions.

use std::ffi::{c_int, c_void};
use std::sync::{Arc, Mutex, PoisonError};

use db::{Db, Error, Isolation, Transaction, TransactionOptions};

use crate::batch::tree_of;
use crate::call::{self, Handle, boxed, bytes, expect_out, expect_place, found, give, on};
use crate::codes::{EVERLEAF_NOT_FOUND, EVERLEAF_OK};
use crate::failure::{Result, invalid};
use crate::memory::{clear, give_copy};
use crate::options::durability;
use crate::pairs::{copy_value, say_copied};
use crate::pool::everleaf_db;
use crate::tree::everleaf_tree;

/// A commit fails if others have changed anything that the transaction has read. The default.
pub const EVERLEAF_SERIALIZABLE: c_int = 0;
/// A commit fails if others have changed a key that the transaction writes, since its first read.
pub const EVERLEAF_SNAPSHOT_ISOLATION: c_int = 1;

/// A transaction: reads at one moment, and writes that happen together or not at all. It takes no locks; a commit finds out
/// whether others were in the way. One thread at a time may use it, with its scans. Free it with everleaf_txn_free.
pub struct everleaf_txn {
    pub(crate) db: Db,
    pub(crate) shared: Arc<Shared>,
}

/// The part that a transaction and its scans have in common.
pub(crate) struct Shared(Mutex<Option<Transaction>>);

impl Shared {
    /// Does something with the transaction, unless it has ended.
    pub(crate) fn with<T>(&self, run: impl FnOnce(&Transaction) -> Result<T>) -> Result<T> {
        let txn = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        run(txn.as_ref().ok_or_else(has_ended)?)
    }

    fn take(&self) -> Result<Transaction> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take().ok_or_else(has_ended)
    }
}

#[cold]
fn has_ended() -> crate::failure::Failure {
    invalid("the transaction was committed or aborted")
}

impl Handle for everleaf_txn {
    fn db(&self) -> Option<&Db> {
        Some(&self.db)
    }
}

/// Begins a transaction in `*out`, which is yours to free with everleaf_txn_free. The moment that it sees is that of its first
/// read. `isolation` is EVERLEAF_SERIALIZABLE or EVERLEAF_SNAPSHOT_ISOLATION; `durability` is EVERLEAF_AS_OPENED,
/// EVERLEAF_BUFFERED or EVERLEAF_SYNC.
///
/// Errors: EVERLEAF_INVALID_OPTION.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_txn_begin(
    db: *const everleaf_db,
    isolation: c_int,
    durability: c_int,
    out: *mut *mut everleaf_txn,
) -> c_int {
    // SAFETY: the promise of a caller.
    unsafe {
        give(out, std::ptr::null_mut());
        on("everleaf_txn_begin", db, |db| {
            boxed(out, || {
                let isolation = match isolation {
                    EVERLEAF_SERIALIZABLE => Isolation::Serializable,
                    EVERLEAF_SNAPSHOT_ISOLATION => Isolation::Snapshot,
                    other => {
                        let what = format!("isolation {other}: there is no such choice");
                        return Err(Error::InvalidOption { option: "isolation", what }.into());
                    }
                };
                let durability = self::durability(durability)?;
                let db = durability.map_or_else(|| db.db.clone(), |one| db.db.with(one));
                let txn = db.begin_with(TransactionOptions::new().isolation(isolation));
                Ok(Some(everleaf_txn { db, shared: Arc::new(Shared(Mutex::new(Some(txn)))) }))
            })
        })
    }
}

/// Copies a value as everleaf_get does, as the transaction sees it: with its own writes. The key counts as read, whether it is
/// there or not.
///
/// Errors: those of everleaf_get; EVERLEAF_BUFFER_TOO_SMALL; EVERLEAF_SNAPSHOT_TOO_OLD; EVERLEAF_OTHER_POOL;
/// EVERLEAF_TRANSACTION_TOO_LARGE; EVERLEAF_INVALID after the transaction has ended.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_txn_get(
    txn: *const everleaf_txn,
    tree: *const everleaf_tree,
    key: *const c_void,
    key_len: usize,
    buf: *mut c_void,
    buf_len: usize,
    value_len: *mut usize,
) -> c_int {
    // SAFETY: the promise of a caller.
    unsafe {
        on("everleaf_txn_get", txn, |txn| {
            if buf_len > 0 {
                expect_place(buf, buf_len)?;
            }
            let (tree, key) = (tree_of(tree)?, bytes(key, key_len)?);
            let copy = |value: &[u8]| copy_value(value, buf, buf_len);
            let copied = txn.shared.with(|txn| Ok(txn.get_with(tree, key, copy)?))?;
            say_copied(copied, buf_len, value_len)
        })
    }
}

/// Gives you a copy of a value as everleaf_get_alloc does, as the transaction sees it.
///
/// Errors: those of everleaf_txn_get.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_txn_get_alloc(
    txn: *const everleaf_txn,
    tree: *const everleaf_tree,
    key: *const c_void,
    key_len: usize,
    value: *mut *mut c_void,
    value_len: *mut usize,
) -> c_int {
    // SAFETY: the promise of a caller.
    unsafe {
        clear(value, value_len);
        on("everleaf_txn_get_alloc", txn, |txn| {
            expect_out(value)?;
            let (tree, key) = (tree_of(tree)?, bytes(key, key_len)?);
            let copy = |found: &[u8]| give_copy(Some(found), value, value_len);
            let copied = txn.shared.with(|txn| Ok(txn.get_with(tree, key, copy)?))?;
            copied.unwrap_or(Ok(EVERLEAF_NOT_FOUND))
        })
    }
}

/// Says whether a key is there, as the transaction sees it: EVERLEAF_OK or EVERLEAF_NOT_FOUND.
///
/// Errors: those of everleaf_txn_get.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_txn_contains(
    txn: *const everleaf_txn,
    tree: *const everleaf_tree,
    key: *const c_void,
    key_len: usize,
) -> c_int {
    // SAFETY: the promise of a caller.
    unsafe {
        on("everleaf_txn_contains", txn, |txn| {
            let (tree, key) = (tree_of(tree)?, bytes(key, key_len)?);
            Ok(found(txn.shared.with(|txn| Ok(txn.contains(tree, key)?))?))
        })
    }
}

/// Sets the value of a key when the transaction is committed. Key and value are copied, and its own reads see them at once.
///
/// Errors: EVERLEAF_KEY_TOO_LONG, EVERLEAF_VALUE_TOO_LONG, EVERLEAF_OTHER_POOL, EVERLEAF_NO_MEMORY,
/// EVERLEAF_TRANSACTION_TOO_LARGE; EVERLEAF_INVALID after the transaction has ended. The transaction stays as it was.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_txn_put(
    txn: *mut everleaf_txn,
    tree: *const everleaf_tree,
    key: *const c_void,
    key_len: usize,
    value: *const c_void,
    value_len: usize,
) -> c_int {
    // SAFETY: the promise of a caller.
    unsafe {
        on("everleaf_txn_put", txn, |txn| {
            let (key, value) = (bytes(key, key_len)?, bytes(value, value_len)?);
            let tree = tree_of(tree)?;
            txn.shared.with(|txn| Ok(txn.put(tree, key, value)?))?;
            Ok(EVERLEAF_OK)
        })
    }
}

/// Removes a key when the transaction is committed, if it is there.
///
/// Errors: those of everleaf_txn_put.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_txn_delete(
    txn: *mut everleaf_txn,
    tree: *const everleaf_tree,
    key: *const c_void,
    key_len: usize,
) -> c_int {
    // SAFETY: the promise of a caller.
    unsafe {
        on("everleaf_txn_delete", txn, |txn| {
            let (tree, key) = (tree_of(tree)?, bytes(key, key_len)?);
            txn.shared.with(|txn| Ok(txn.delete(tree, key)?))?;
            Ok(EVERLEAF_OK)
        })
    }
}

/// Makes all writes in one epoch if everything that was read is unchanged. The transaction has ended then, also after an error;
/// free it.
///
/// Errors: EVERLEAF_CONFLICT if others were in the way: nothing has happened; begin a new one, and do all of it again.
/// EVERLEAF_SNAPSHOT_TOO_OLD: nothing has happened. Otherwise those of everleaf_batch_commit; EVERLEAF_INVALID if the
/// transaction had ended before.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_txn_commit(txn: *mut everleaf_txn) -> c_int {
    // SAFETY: the promise of a caller.
    unsafe {
        on("everleaf_txn_commit", txn, |txn| {
            txn.shared.take()?.commit()?;
            Ok(EVERLEAF_OK)
        })
    }
}

/// Ends the transaction and drops its writes; everleaf_txn_free does so, too.
///
/// Errors: EVERLEAF_INVALID if it had ended before.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_txn_abort(txn: *mut everleaf_txn) -> c_int {
    // SAFETY: the promise of a caller.
    unsafe {
        on("everleaf_txn_abort", txn, |txn| {
            txn.shared.take()?.abort();
            Ok(EVERLEAF_OK)
        })
    }
}

/// Frees the transaction, and ends it if it has not ended. NULL may be freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_txn_free(txn: *mut everleaf_txn) {
    // SAFETY: the promise of a caller.
    unsafe { call::free("everleaf_txn_free", txn) }
}

impl Drop for everleaf_txn {
    /// A scan must not keep what the transaction sees.
    fn drop(&mut self) {
        let _ = self.shared.take();
    }
}
