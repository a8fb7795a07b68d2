//! Trees by name, and trees as a snapshot sees them: one type, for all that can read one can read the other.

use std::ffi::{CString, c_char, c_int};

use db::{Db, Error, SnapshotTree, Tree};

use crate::call::{self, Handle, boxed, expect_out, found, give, name, on};
use crate::codes::EVERLEAF_OK;
use crate::failure::Result;
use crate::options::durability;
use crate::pool::everleaf_db;

/// A named ordered map from bytes to bytes, as it is now or as a snapshot sees it. Any number of threads may use it at once.
/// Free it with everleaf_tree_free.
pub struct everleaf_tree {
    pub(crate) db: Db,
    pub(crate) is: Which,
    /// Its name for C.
    name: CString,
}

pub(crate) enum Which {
    Now(Tree),
    Then(SnapshotTree),
}

impl everleaf_tree {
    pub(crate) fn now(db: &Db, tree: Tree) -> Self {
        let name = name_of(tree.name());
        everleaf_tree { db: db.clone(), is: Which::Now(tree), name }
    }

    pub(crate) fn then(db: &Db, tree: SnapshotTree) -> Self {
        let name = name_of(tree.name());
        everleaf_tree { db: db.clone(), is: Which::Then(tree), name }
    }

    /// The tree, to write to it.
    #[inline(always)]
    pub(crate) fn writable(&self) -> Result<&Tree> {
        match &self.is {
            Which::Now(tree) => Ok(tree),
            Which::Then(_) => Err(Error::ReadOnly.into()),
        }
    }
}

fn name_of(name: &str) -> CString {
    CString::new(name.replace('\0', "?")).unwrap_or_default()
}

/// Does the same with a tree as it is now and as a snapshot sees it.
macro_rules! of_either {
    ($tree:expr, $one:ident => $body:expr) => {
        match &$tree.is {
            crate::tree::Which::Now($one) => $body,
            crate::tree::Which::Then($one) => $body,
        }
    };
}

pub(crate) use of_either;

impl Handle for everleaf_tree {
    #[inline(always)]
    fn db(&self) -> Option<&Db> {
        Some(&self.db)
    }
}

/// Makes a handle to the tree called `name` in `*out`, which is yours to free with everleaf_tree_free. Creates an empty tree if
/// there is none; that is as durable as a write. `name` ends with 0 and has 1 to 255 bytes of UTF-8.
///
/// Errors: EVERLEAF_TREE_NAME; EVERLEAF_INVALID if it is not UTF-8; EVERLEAF_READ_ONLY; otherwise those of everleaf_put.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_tree_create(
    db: *const everleaf_db,
    name: *const c_char,
    out: *mut *mut everleaf_tree,
) -> c_int {
    // SAFETY: the promise of a caller.
    unsafe {
        give(out, std::ptr::null_mut());
        on("everleaf_tree_create", db, |db| {
            let make = || Ok(Some(everleaf_tree::now(&db.db, db.db.tree(self::name(name)?)?)));
            boxed(out, make)
        })
    }
}

/// Makes a handle to the tree called `name` in `*out`, which is yours to free with everleaf_tree_free; EVERLEAF_NOT_FOUND, and
/// NULL in `*out`, if there is none.
///
/// Errors: those of everleaf_get.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_tree_open(
    db: *const everleaf_db,
    name: *const c_char,
    out: *mut *mut everleaf_tree,
) -> c_int {
    // SAFETY: the promise of a caller.
    unsafe {
        give(out, std::ptr::null_mut());
        on("everleaf_tree_open", db, |db| {
            boxed(out, || {
                let tree = db.db.open_tree(self::name(name)?)?;
                Ok(tree.map(|tree| everleaf_tree::now(&db.db, tree)))
            })
        })
    }
}

/// Removes the tree called `name` with all its pairs; EVERLEAF_NOT_FOUND if there is none. Handles to it return
/// EVERLEAF_NO_TREE from then on; a snapshot from before still reads it. The time does not grow with the tree.
///
/// Errors: those of everleaf_delete.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_tree_drop(db: *const everleaf_db, name: *const c_char) -> c_int {
    // SAFETY: the promise of a caller.
    unsafe { on("everleaf_tree_drop", db, |db| Ok(found(db.db.drop_tree(self::name(name)?)?))) }
}

/// Renames the tree called `from` to `to`; EVERLEAF_NOT_FOUND if there is no tree `from`. Handles to it stay good.
///
/// Errors: EVERLEAF_TREE_EXISTS if there is a tree `to`; EVERLEAF_TREE_NAME; otherwise those of everleaf_put.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_tree_rename(
    db: *const everleaf_db,
    from: *const c_char,
    to: *const c_char,
) -> c_int {
    // SAFETY: the promise of a caller.
    unsafe {
        on("everleaf_tree_rename", db, |db| {
            Ok(found(db.db.rename_tree(self::name(from)?, self::name(to)?)?))
        })
    }
}

/// Makes another handle to the tree in `*out`, whose writes have this durability: EVERLEAF_BUFFERED, EVERLEAF_SYNC, or
/// EVERLEAF_AS_OPENED, which is that of `tree`. It is yours to free with everleaf_tree_free. Reads are the same through all
/// handles, and batches and transactions have a durability of their own.
///
/// Errors: EVERLEAF_READ_ONLY if `tree` is that of a snapshot; EVERLEAF_INVALID_OPTION.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_tree_with(
    tree: *const everleaf_tree,
    durability: c_int,
    out: *mut *mut everleaf_tree,
) -> c_int {
    // SAFETY: the promise of a caller.
    unsafe {
        give(out, std::ptr::null_mut());
        on("everleaf_tree_with", tree, |tree| {
            boxed(out, || {
                let (now, durability) = (tree.writable()?, self::durability(durability)?);
                let other =
                    durability.map_or_else(|| now.clone(), |durability| now.with(durability));
                Ok(Some(everleaf_tree::now(&tree.db, other)))
            })
        })
    }
}

/// Lends the name that the handle was made with, in `*name`; it ends with 0 and is good until the handle is freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_tree_name(
    tree: *const everleaf_tree,
    name: *mut *const c_char,
) -> c_int {
    // SAFETY: the promise of a caller.
    unsafe {
        on("everleaf_tree_name", tree, |tree| {
            expect_out(name)?;
            give(name, tree.name.as_ptr());
            Ok(EVERLEAF_OK)
        })
    }
}

/// Writes the number of pairs to `*pairs`. Of a tree as it is now that takes no longer for a large one; of a tree of a snapshot
/// all keys are walked.
///
/// Errors: those of everleaf_get.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_tree_len(tree: *const everleaf_tree, pairs: *mut u64) -> c_int {
    // SAFETY: the promise of a caller.
    unsafe {
        on("everleaf_tree_len", tree, |tree| {
            expect_out(pairs)?;
            give(pairs, of_either!(tree, tree => tree.len())?);
            Ok(EVERLEAF_OK)
        })
    }
}

/// Removes all pairs at once, and writes how many there were to `*pairs`, which may be NULL. The time does not grow with the
/// tree.
///
/// Errors: those of everleaf_delete.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_tree_clear(tree: *const everleaf_tree, pairs: *mut u64) -> c_int {
    // SAFETY: the promise of a caller.
    unsafe {
        on("everleaf_tree_clear", tree, |tree| {
            give(pairs, tree.writable()?.clear()?);
            Ok(EVERLEAF_OK)
        })
    }
}

/// Frees the handle; the tree stays. NULL may be freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_tree_free(tree: *mut everleaf_tree) {
    // SAFETY: the promise of a caller.
    unsafe { call::free("everleaf_tree_free", tree) }
}
