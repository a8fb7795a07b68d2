//! A place in a tree, from which one can go in both directions.

use std::ffi::{c_int, c_void};
use std::ptr;

use db::{Cursor, Db};

use crate::call::{self, Handle, boxed, bytes, found, give, on, on_mut};
use crate::codes::{EVERLEAF_NOT_FOUND, EVERLEAF_OK};
use crate::tree::{everleaf_tree, of_either};

/// A place in a tree. It holds no lock, and lends keys and values from its own memory.
///
/// A new cursor is at neither end: everleaf_cursor_next goes to the first pair, everleaf_cursor_prev to the last one. A step
/// that finds no pair puts it behind the last one or before the first one, and the step back gives that one. If the pair under
/// it is removed, it keeps key and value, and goes on from there. One thread at a time may use a cursor. Free it with
/// everleaf_cursor_free.
pub struct everleaf_cursor {
    db: Db,
    cursor: Cursor,
}

impl Handle for everleaf_cursor {
    #[inline(always)]
    fn db(&self) -> Option<&Db> {
        Some(&self.db)
    }
}

/// Lends bytes, or NULL and 0.
///
/// # Safety
///
/// Each place is NULL or has room.
#[inline(always)]
unsafe fn lend(bytes: Option<&[u8]>, place: *mut *const c_void, len: *mut usize) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        give(place, bytes.map_or(ptr::null(), |bytes| bytes.as_ptr().cast()));
        give(len, bytes.map_or(0, <[u8]>::len));
    }
    if bytes.is_some() { EVERLEAF_OK } else { EVERLEAF_NOT_FOUND }
}

/// Makes a cursor of a tree in `*out`, which is yours to free with everleaf_cursor_free. It reads nothing yet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_cursor_new(
    tree: *const everleaf_tree,
    out: *mut *mut everleaf_cursor,
) -> c_int {
    // SAFETY: the promise of a caller.
    unsafe {
        give(out, std::ptr::null_mut());
        on("everleaf_cursor_new", tree, |tree| {
            boxed(out, || {
                let cursor = of_either!(tree, tree => tree.cursor());
                Ok(Some(everleaf_cursor { db: tree.db.clone(), cursor }))
            })
        })
    }
}

/// Goes to the pair with the smallest key; EVERLEAF_NOT_FOUND if there is none.
///
/// Errors: those of everleaf_get. If one pair cannot be read, the cursor is there without key and value, and the next step
/// goes on behind it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_cursor_first(cursor: *mut everleaf_cursor) -> c_int {
    // SAFETY: the promise of a caller.
    unsafe { on_mut("everleaf_cursor_first", cursor, |cursor| Ok(found(cursor.cursor.first()?))) }
}

/// Goes to the pair with the largest key; EVERLEAF_NOT_FOUND if there is none.
///
/// Errors: those of everleaf_cursor_first.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_cursor_last(cursor: *mut everleaf_cursor) -> c_int {
    // SAFETY: the promise of a caller.
    unsafe { on_mut("everleaf_cursor_last", cursor, |cursor| Ok(found(cursor.cursor.last()?))) }
}

/// Goes to the first pair whose key is `key` or above it; EVERLEAF_NOT_FOUND if there is none: then it is behind the last pair.
///
/// Errors: those of everleaf_cursor_first.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_cursor_seek(
    cursor: *mut everleaf_cursor,
    key: *const c_void,
    key_len: usize,
) -> c_int {
    // SAFETY: the promise of a caller.
    unsafe {
        on_mut("everleaf_cursor_seek", cursor, |cursor| {
            Ok(found(cursor.cursor.seek(bytes(key, key_len)?)?))
        })
    }
}

/// Goes to the last pair whose key is `key` or below it; EVERLEAF_NOT_FOUND if there is none: then it is before the first pair.
///
/// Errors: those of everleaf_cursor_first.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_cursor_seek_for_prev(
    cursor: *mut everleaf_cursor,
    key: *const c_void,
    key_len: usize,
) -> c_int {
    // SAFETY: the promise of a caller.
    unsafe {
        on_mut("everleaf_cursor_seek_for_prev", cursor, |cursor| {
            Ok(found(cursor.cursor.seek_for_prev(bytes(key, key_len)?)?))
        })
    }
}

/// Goes to the next pair; EVERLEAF_NOT_FOUND if there is none.
///
/// Errors: those of everleaf_cursor_first.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_cursor_next(cursor: *mut everleaf_cursor) -> c_int {
    // SAFETY: the promise of a caller.
    unsafe { on_mut("everleaf_cursor_next", cursor, |cursor| Ok(found(cursor.cursor.next()?))) }
}

/// Goes to the pair before this one; EVERLEAF_NOT_FOUND if there is none.
///
/// Errors: those of everleaf_cursor_first.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_cursor_prev(cursor: *mut everleaf_cursor) -> c_int {
    // SAFETY: the promise of a caller.
    unsafe { on_mut("everleaf_cursor_prev", cursor, |cursor| Ok(found(cursor.cursor.prev()?))) }
}

/// Lends the key that the cursor is at; EVERLEAF_NOT_FOUND, NULL and 0 if it is at no pair. The bytes are good until the next
/// call with this cursor but everleaf_cursor_key, everleaf_cursor_value and everleaf_cursor_pair. No 0 follows them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_cursor_key(
    cursor: *const everleaf_cursor,
    key: *mut *const c_void,
    key_len: *mut usize,
) -> c_int {
    // SAFETY: the promise of a caller.
    unsafe {
        on("everleaf_cursor_key", cursor, |cursor| Ok(lend(cursor.cursor.key(), key, key_len)))
    }
}

/// Lends the value that the cursor is at; EVERLEAF_NOT_FOUND, NULL and 0 if it is at no pair, or if a large value was removed
/// since the cursor came there. The bytes are good as long as those of everleaf_cursor_key, and no 0 follows them. A value
/// that is too long for the page of its key is read by the first call.
///
/// Errors: those of everleaf_cursor_first.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_cursor_value(
    cursor: *mut everleaf_cursor,
    value: *mut *const c_void,
    value_len: *mut usize,
) -> c_int {
    // SAFETY: the promise of a caller.
    unsafe {
        on_mut("everleaf_cursor_value", cursor, |cursor| {
            Ok(lend(cursor.cursor.value()?, value, value_len))
        })
    }
}

/// Lends key and value at once, as everleaf_cursor_key and everleaf_cursor_value do.
///
/// Errors: those of everleaf_cursor_first.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_cursor_pair(
    cursor: *mut everleaf_cursor,
    key: *mut *const c_void,
    key_len: *mut usize,
    value: *mut *const c_void,
    value_len: *mut usize,
) -> c_int {
    // SAFETY: the promise of a caller.
    unsafe {
        on_mut("everleaf_cursor_pair", cursor, |cursor| {
            let pair = cursor.cursor.pair()?;
            lend(pair.map(|pair| pair.0), key, key_len);
            Ok(lend(pair.map(|pair| pair.1), value, value_len))
        })
    }
}

/// Frees the cursor. NULL may be freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_cursor_free(cursor: *mut everleaf_cursor) {
    // SAFETY: the promise of a caller.
    unsafe { call::free("everleaf_cursor_free", cursor) }
}
