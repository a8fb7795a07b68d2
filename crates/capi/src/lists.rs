//! Lists that a call returns at once: names of trees, and damages.

use std::ffi::{c_char, c_int};

use db::{Damage, Db};

use crate::call::{self, Handle, boxed, give, invalid_index, on};
use crate::codes::EVERLEAF_OK;
use crate::pool::everleaf_db;

/// The names of trees, in bytewise order. They stay as they were, whatever happens to the trees and to the pool.
pub struct everleaf_names {
    /// Each with a 0 behind it.
    names: Vec<Box<[u8]>>,
}

impl everleaf_names {
    pub(crate) fn new(names: Vec<String>) -> Self {
        let with_end = |name: String| {
            let mut bytes = name.into_bytes();
            bytes.push(0);
            bytes.into_boxed_slice()
        };
        Self { names: names.into_iter().map(with_end).collect() }
    }
}

impl Handle for everleaf_names {
    fn db(&self) -> Option<&Db> {
        None
    }
}

/// The damages of a pool, by their places in the file. The list stays as it was, whatever happens to the pool.
pub struct everleaf_damages {
    damages: Vec<Damage>,
    /// The text of each, with a 0 behind it.
    texts: Vec<Box<[u8]>>,
}

impl Handle for everleaf_damages {
    fn db(&self) -> Option<&Db> {
        None
    }
}

/// Makes a list of the names of all trees in `*out`, which is yours to free with everleaf_names_free.
///
/// Errors: those of everleaf_get.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_tree_names(
    db: *const everleaf_db,
    out: *mut *mut everleaf_names,
) -> c_int {
    // SAFETY: the promise of a caller.
    unsafe {
        give(out, std::ptr::null_mut());
        on("everleaf_tree_names", db, |db| {
            boxed(out, || Ok(Some(everleaf_names::new(db.db.tree_names()?))))
        })
    }
}

/// Returns how many names there are; 0 if `names` is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_names_len(names: *const everleaf_names) -> usize {
    call::lend("everleaf_names_len", 0, || {
        // SAFETY: the promise of a caller.
        unsafe { names.as_ref() }.map_or(0, |names| names.names.len())
    })
}

/// Lends the name at `index`, counted from 0: `*name` ends with 0, and has `*name_len` bytes of UTF-8 before that, which
/// differs from strlen if a program in another language has put a 0 into the name. `name_len` may be NULL. The name is good
/// until the list is freed.
///
/// Errors: EVERLEAF_INVALID if there are not as many names.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_names_at(
    names: *const everleaf_names,
    index: usize,
    name: *mut *const c_char,
    name_len: *mut usize,
) -> c_int {
    // SAFETY: the promise of a caller.
    unsafe {
        on("everleaf_names_at", names, |names| {
            let found = names.names.get(index).ok_or_else(|| invalid_index(index))?;
            give(name, found.as_ptr().cast());
            give(name_len, found.len() - 1);
            Ok(EVERLEAF_OK)
        })
    }
}

/// Frees a list of names. NULL may be freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_names_free(names: *mut everleaf_names) {
    // SAFETY: the promise of a caller.
    unsafe { call::free("everleaf_names_free", names) }
}

/// Reads the whole pool, and makes a list of each damage that it finds in `*out`, which is yours to free with
/// everleaf_damages_free. The list is empty if the pool is sound. Others may write meanwhile.
///
/// Errors: only one that ends the walk, such as EVERLEAF_IO. Damage is not an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_check(
    db: *const everleaf_db,
    out: *mut *mut everleaf_damages,
) -> c_int {
    // SAFETY: the promise of a caller.
    unsafe {
        give(out, std::ptr::null_mut());
        on("everleaf_check", db, |db| {
            boxed(out, || {
                let damages = db.db.check()?;
                let text = |damage: &Damage| format!("{}\0", damage.what).into_bytes().into();
                let texts = damages.iter().map(text).collect();
                Ok(Some(everleaf_damages { damages, texts }))
            })
        })
    }
}

/// Returns how many damages there are; 0 if `damages` is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_damages_len(damages: *const everleaf_damages) -> usize {
    call::lend("everleaf_damages_len", 0, || {
        // SAFETY: the promise of a caller.
        unsafe { damages.as_ref() }.map_or(0, |damages| damages.damages.len())
    })
}

/// Lends the damage at `index`, counted from 0: its place in bytes from the start of the file, and a sentence that says what
/// was expected and what was found, which ends with 0. Each may be NULL. The sentence is good until the list is freed.
///
/// Errors: EVERLEAF_INVALID if there are not as many damages.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_damages_at(
    damages: *const everleaf_damages,
    index: usize,
    offset: *mut u64,
    what: *mut *const c_char,
) -> c_int {
    // SAFETY: the promise of a caller.
    unsafe {
        on("everleaf_damages_at", damages, |damages| {
            let found = damages.damages.get(index).ok_or_else(|| invalid_index(index))?;
            give(offset, found.offset);
            give(what, damages.texts[index].as_ptr().cast());
            Ok(EVERLEAF_OK)
        })
    }
}

/// Frees a list of damages. NULL may be freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_damages_free(damages: *mut everleaf_damages) {
    // SAFETY: the promise of a caller.
    unsafe { call::free("everleaf_damages_free", damages) }
}
