//! Operations on pairs.

use std::ffi::c_int;
use std::ops::Bound;

use crate::call::{expect_place, give, on};
use crate::codes::{EVERLEAF_INDEX_EXISTS, EVERLEAF_INDEX_NOT_FOUND, EVERLEAF_INDEX_OK};
use crate::handle::everleaf_index;

/// Writes the value that was found, or says that there is none.
///
/// # Safety
///
/// The place is NULL, or has room for it.
unsafe fn found(old: Option<u64>, place: *mut u64) -> c_int {
    let Some(old) = old else { return EVERLEAF_INDEX_NOT_FOUND };
    // SAFETY: the caller's promise.
    unsafe { give(place, old) };
    EVERLEAF_INDEX_OK
}

/// Writes the value of a key to `*value`, which may be NULL.
///
/// Returns EVERLEAF_INDEX_NOT_FOUND if the key is not there. Errors: EVERLEAF_INDEX_CORRUPT, EVERLEAF_INDEX_IO.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_index_get(
    index: *const everleaf_index,
    key: u64,
    value: *mut u64,
) -> c_int {
    // SAFETY: the promise of a caller.
    unsafe { on("everleaf_index_get", index, |index| Ok(found(index.index.get(key)?, value))) }
}

/// Adds a key with a value. Of several threads that insert the same key at once, one does.
///
/// Returns EVERLEAF_INDEX_EXISTS if the key is there, with whatever value: nothing is changed then. Errors:
/// EVERLEAF_INDEX_FULL, EVERLEAF_INDEX_NO_MEMORY, EVERLEAF_INDEX_IO, EVERLEAF_INDEX_POISONED, EVERLEAF_INDEX_CORRUPT,
/// EVERLEAF_INDEX_EPOCH_TOO_LARGE, EVERLEAF_INDEX_STUCK.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_index_insert(
    index: *mut everleaf_index,
    key: u64,
    value: u64,
) -> c_int {
    // SAFETY: the promise of a caller.
    unsafe {
        on("everleaf_index_insert", index, |index| {
            let there = index.index.add(key, value)?.is_some();
            Ok(if there { EVERLEAF_INDEX_EXISTS } else { EVERLEAF_INDEX_OK })
        })
    }
}

/// Sets the value of a key, whether it is there or not.
///
/// Errors: those of everleaf_index_insert.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_index_put(
    index: *mut everleaf_index,
    key: u64,
    value: u64,
) -> c_int {
    // SAFETY: the promise of a caller.
    unsafe {
        on("everleaf_index_put", index, |index| {
            index.index.insert(key, value)?;
            Ok(EVERLEAF_INDEX_OK)
        })
    }
}

/// Sets the value of a key that is there.
///
/// Returns EVERLEAF_INDEX_NOT_FOUND if it is not. Errors: those of everleaf_index_insert.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_index_update(
    index: *mut everleaf_index,
    key: u64,
    value: u64,
) -> c_int {
    // SAFETY: the promise of a caller.
    unsafe {
        on("everleaf_index_update", index, |index| {
            Ok(found(index.index.update(key, value)?, std::ptr::null_mut()))
        })
    }
}

/// Removes a key, and writes its value to `*value`, which may be NULL.
///
/// Returns EVERLEAF_INDEX_NOT_FOUND if the key is not there. Errors: those of everleaf_index_insert.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_index_remove(
    index: *mut everleaf_index,
    key: u64,
    value: *mut u64,
) -> c_int {
    // SAFETY: the promise of a caller.
    unsafe {
        on("everleaf_index_remove", index, |index| Ok(found(index.index.remove(key)?, value)))
    }
}

/// Fills two arrays with the first `count` pairs from the key `from` on, that included, in ascending order, and writes how
/// many there were to `*found`. Either array may be NULL, but not `found`. Pairs of one leaf are of one moment.
///
/// Errors: those of everleaf_index_get; EVERLEAF_INDEX_NO_MEMORY.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_index_scan(
    index: *const everleaf_index,
    from: u64,
    count: usize,
    keys: *mut u64,
    values: *mut u64,
    found: *mut usize,
) -> c_int {
    // SAFETY: the promise of a caller.
    unsafe { give(found, 0) };
    // SAFETY: the promise of a caller.
    unsafe {
        on("everleaf_index_scan", index, |index| {
            expect_place(found, 1, "the place for the number of pairs")?;
            for (place, what) in [(keys, "the keys"), (values, "the values")] {
                expect_place(place, if place.is_null() { 0 } else { count }, what)?;
            }
            let pairs = index.index.range(Bound::Included(from), Bound::Unbounded, count)?;
            for (at, (key, value)) in pairs.iter().enumerate() {
                if !keys.is_null() {
                    keys.add(at).write(*key);
                }
                if !values.is_null() {
                    values.add(at).write(*value);
                }
            }
            found.write(pairs.len());
            Ok(EVERLEAF_INDEX_OK)
        })
    }
}

/// Looks for `count` keys. For each one that is there, its value is written to its place in `values`, and 1 to its place in
/// `is_there`; for the others 0 to both. Writes how many are there to `*found`, which may be NULL. Each get is of a moment of
/// its own.
///
/// Errors: those of everleaf_index_get: then the arrays hold what was found before.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_index_get_many(
    index: *const everleaf_index,
    keys: *const u64,
    count: usize,
    values: *mut u64,
    is_there: *mut u8,
    found: *mut usize,
) -> c_int {
    // SAFETY: the promise of a caller.
    unsafe {
        give(found, 0);
        on("everleaf_index_get_many", index, |index| {
            expect_place(keys, count, "the keys")?;
            expect_place(values, count, "the values")?;
            expect_place(is_there, count, "the marks of what is there")?;
            let mut there = 0;
            for at in 0..count {
                let value = index.index.get(keys.add(at).read())?;
                values.add(at).write(value.unwrap_or(0));
                is_there.add(at).write(value.is_some().into());
                there += usize::from(value.is_some());
            }
            give(found, there);
            Ok(EVERLEAF_INDEX_OK)
        })
    }
}
