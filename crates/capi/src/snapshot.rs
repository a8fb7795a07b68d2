//! All trees at one moment.

use std::ffi::{c_char, c_int};

use db::{Db, Snapshot};

use crate::batch::tree_of;
use crate::call::{self, Handle, boxed, give, name, on};
use crate::lists::everleaf_names;
use crate::pool::everleaf_db;
use crate::tree::everleaf_tree;

/// All trees of a pool as they were at one moment. While it is open, writers keep the values that they replace. Any number of
/// threads may use it at once. Free it with everleaf_snapshot_free; trees that came from it keep the moment until they are
/// freed, too.
pub struct everleaf_snapshot {
    db: Db,
    snapshot: Snapshot,
}

impl Handle for everleaf_snapshot {
    fn db(&self) -> Option<&Db> {
        Some(&self.db)
    }
}

/// Makes a snapshot of all trees as they are now in `*out`, which is yours to free with everleaf_snapshot_free.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_snapshot_new(
    db: *const everleaf_db,
    out: *mut *mut everleaf_snapshot,
) -> c_int {
    // SAFETY: the promise of a caller.
    unsafe {
        give(out, std::ptr::null_mut());
        on("everleaf_snapshot_new", db, |db| {
            boxed(out, || {
                let snapshot = db.db.snapshot()?;
                Ok(Some(everleaf_snapshot { db: db.db.clone(), snapshot }))
            })
        })
    }
}

/// Makes a handle in `*out` to the tree that had this name at the moment of the snapshot, which is yours to free with
/// everleaf_tree_free; EVERLEAF_NOT_FOUND, and NULL, if there was none. All functions that read a tree read it; those that
/// write return EVERLEAF_READ_ONLY.
///
/// Errors: those of everleaf_get.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_snapshot_tree(
    snapshot: *const everleaf_snapshot,
    name: *const c_char,
    out: *mut *mut everleaf_tree,
) -> c_int {
    // SAFETY: the promise of a caller.
    unsafe {
        give(out, std::ptr::null_mut());
        on("everleaf_snapshot_tree", snapshot, |snapshot| {
            boxed(out, || {
                let tree = snapshot.snapshot.tree(self::name(name)?)?;
                Ok(tree.map(|tree| everleaf_tree::then(&snapshot.db, tree)))
            })
        })
    }
}

/// Makes a handle in `*out` to `tree` as it was at the moment of the snapshot: empty if it was made later. It is yours to free
/// with everleaf_tree_free.
///
/// Errors: EVERLEAF_OTHER_POOL; EVERLEAF_READ_ONLY if `tree` is that of a snapshot.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_snapshot_of(
    snapshot: *const everleaf_snapshot,
    tree: *const everleaf_tree,
    out: *mut *mut everleaf_tree,
) -> c_int {
    // SAFETY: the promise of a caller.
    unsafe {
        give(out, std::ptr::null_mut());
        on("everleaf_snapshot_of", snapshot, |snapshot| {
            boxed(out, || {
                let tree = snapshot.snapshot.of(tree_of(tree)?)?;
                Ok(Some(everleaf_tree::then(&snapshot.db, tree)))
            })
        })
    }
}

/// Makes a list of the names that trees had at the moment of the snapshot in `*out`, which is yours to free with
/// everleaf_names_free.
///
/// Errors: those of everleaf_get.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_snapshot_tree_names(
    snapshot: *const everleaf_snapshot,
    out: *mut *mut everleaf_names,
) -> c_int {
    // SAFETY: the promise of a caller.
    unsafe {
        give(out, std::ptr::null_mut());
        on("everleaf_snapshot_tree_names", snapshot, |snapshot| {
            boxed(out, || Ok(Some(everleaf_names::new(snapshot.snapshot.tree_names()?))))
        })
    }
}

/// Frees the snapshot. NULL may be freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_snapshot_free(snapshot: *mut everleaf_snapshot) {
    // SAFETY: the promise of a caller.
    unsafe { call::free("everleaf_snapshot_free", snapshot) }
}
