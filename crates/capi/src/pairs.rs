//! Single operations on a tree.

use std::ffi::{c_int, c_void};
use std::ops::Bound;
use std::ptr;

use db::{KEY_BYTES_MAX, KeyRange, Swap, VALUE_BYTES_MAX};

use crate::call::{buffer, bytes, expect_out, found, give, on, on_any, plain_bytes};
use crate::codes::{EVERLEAF_NOT_FOUND, EVERLEAF_OK};
use crate::failure::{Failure, Result, invalid};
use crate::memory::{clear, give_copy};
use crate::tree::{Which, everleaf_tree, of_either};

/// A range begins behind its first bound, not at it.
pub const EVERLEAF_FROM_EXCLUDED: u32 = 1;
/// A range ends at its second bound, and has that key, too.
pub const EVERLEAF_TO_INCLUDED: u32 = 2;
/// A scan goes from the largest key to the smallest one. The bounds stay as they are: `from` is the smaller one.
pub const EVERLEAF_REVERSE: u32 = 4;
/// A scan gives keys without values, which are not read.
pub const EVERLEAF_KEYS_ONLY: u32 = 8;

/// The flags that say how a range is bounded.
pub(crate) const BOUNDS: u32 = EVERLEAF_FROM_EXCLUDED | EVERLEAF_TO_INCLUDED;

/// A range of keys that a caller names.
pub(crate) struct Keys<'a> {
    pub from: Bound<&'a [u8]>,
    pub to: Bound<&'a [u8]>,
}

impl KeyRange for Keys<'_> {
    fn low(&self) -> Bound<&[u8]> {
        self.from
    }

    fn high(&self) -> Bound<&[u8]> {
        self.to
    }
}

/// The range between two bounds, each of which NULL leaves out.
///
/// # Safety
///
/// That of [`bytes`].
pub(crate) unsafe fn keys<'a>(
    (from, from_len): (*const c_void, usize),
    (to, to_len): (*const c_void, usize),
    (flags, known): (u32, u32),
) -> Result<Keys<'a>> {
    if flags & !known != 0 {
        return Err(invalid(format!("flags {flags:#x}: only {known:#x} are known here")));
    }
    let bound = |place: *const c_void, len, is_included| -> Result<Bound<&[u8]>> {
        if place.is_null() && len == 0 {
            return Ok(Bound::Unbounded);
        }
        // SAFETY: the caller's promise.
        let key = unsafe { bytes(place, len) }?;
        Ok(if is_included { Bound::Included(key) } else { Bound::Excluded(key) })
    };
    let from = bound(from, from_len, flags & EVERLEAF_FROM_EXCLUDED == 0)?;
    Ok(Keys { from, to: bound(to, to_len, flags & EVERLEAF_TO_INCLUDED != 0)? })
}

/// Copies a value to a caller's buffer if it has room; returns how long the value is. The reads that call this pass on what
/// it returns several times, so that is a number, and no failure.
///
/// # Safety
///
/// The buffer is there, or NULL without a length.
#[inline(always)]
pub(crate) unsafe fn copy_value(value: &[u8], buf: *mut c_void, buf_len: usize) -> usize {
    if !value.is_empty() && value.len() <= buf_len {
        // SAFETY: the caller's promise; the value is not in the caller's buffer, but in the pool's memory.
        unsafe { ptr::copy_nonoverlapping(value.as_ptr(), buf.cast(), value.len()) };
    }
    value.len()
}

/// Says how long the value is that was copied, if it was there and had room.
///
/// # Safety
///
/// The place is there, or NULL.
#[inline(always)]
pub(crate) unsafe fn say_copied(
    copied: Option<usize>,
    buf_len: usize,
    value_len: *mut usize,
) -> Result<c_int> {
    // SAFETY: the caller's promise.
    unsafe { give(value_len, copied.unwrap_or(0)) };
    match copied {
        None => Ok(EVERLEAF_NOT_FOUND),
        Some(needed) if needed > buf_len => Err(Failure::BufferTooSmall { bytes: buf_len, needed }),
        Some(_) => Ok(EVERLEAF_OK),
    }
}

/// Sets the value of a key, which other threads see when this returns, and which is on disk soon after or then, as the
/// durability of the handle says. An empty key is a key, and an empty value a value.
///
/// Errors: EVERLEAF_KEY_TOO_LONG, EVERLEAF_VALUE_TOO_LONG, EVERLEAF_READ_ONLY, EVERLEAF_FULL, EVERLEAF_POISONED,
/// EVERLEAF_NO_MEMORY, EVERLEAF_CORRUPT, EVERLEAF_IO, EVERLEAF_EPOCH_TOO_LARGE, EVERLEAF_NO_TREE, EVERLEAF_CLOSED,
/// EVERLEAF_FORKED, EVERLEAF_STUCK. With EVERLEAF_SYNC also those of everleaf_sync: then the value is set, and it is unknown
/// whether it is on disk.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_put(
    tree: *const everleaf_tree,
    key: *const c_void,
    key_len: usize,
    value: *const c_void,
    value_len: usize,
) -> c_int {
    // SAFETY: the promise of a caller.
    unsafe {
        on_any("everleaf_put", tree, |tree| {
            let pair = (
                plain_bytes(key, key_len, KEY_BYTES_MAX),
                plain_bytes(value, value_len, VALUE_BYTES_MAX),
            );
            match (&tree.is, pair) {
                (Which::Now(tree), (Some(key), Some(value))) => tree.put(key, value)?,
                _ => put_rarely(tree, (key, key_len), (value, value_len))?,
            }
            Ok(EVERLEAF_OK)
        })
    }
}

/// A put that is refused, or has nothing as its key or value. A pool that is closed says so first, whatever is asked of it.
///
/// # Safety
///
/// That of [`bytes`].
#[cold]
#[inline(never)]
unsafe fn put_rarely(
    tree: &everleaf_tree,
    (key, key_len): (*const c_void, usize),
    (value, value_len): (*const c_void, usize),
) -> Result<()> {
    tree.db.expect_open()?;
    // SAFETY: the caller's promise.
    let (key, value) = unsafe { (bytes(key, key_len)?, bytes(value, value_len)?) };
    Ok(tree.writable()?.put(key, value)?)
}

/// Sets the value of a key if it is not there; EVERLEAF_NOT_FOUND, and no change, if it is there.
///
/// Errors: those of everleaf_put.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_insert_new(
    tree: *const everleaf_tree,
    key: *const c_void,
    key_len: usize,
    value: *const c_void,
    value_len: usize,
) -> c_int {
    // SAFETY: the promise of a caller.
    unsafe {
        on("everleaf_insert_new", tree, |tree| {
            let (key, value) = (bytes(key, key_len)?, bytes(value, value_len)?);
            Ok(found(tree.writable()?.insert_new(key, value)?))
        })
    }
}

/// Sets the value of a key if it is there; EVERLEAF_NOT_FOUND, and no change, if it is not.
///
/// Errors: those of everleaf_put.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_replace(
    tree: *const everleaf_tree,
    key: *const c_void,
    key_len: usize,
    value: *const c_void,
    value_len: usize,
) -> c_int {
    // SAFETY: the promise of a caller.
    unsafe {
        on("everleaf_replace", tree, |tree| {
            let (key, value) = (bytes(key, key_len)?, bytes(value, value_len)?);
            Ok(found(tree.writable()?.replace(key, value)?))
        })
    }
}

/// Changes the value of a key to `desired` if it is `expected`; EVERLEAF_NOT_FOUND, and no change, if it is something else. In
/// both, NULL with a length of 0 stands for a key that is not there; an empty value has a pointer that is not NULL.
///
/// If nothing was changed, `*found_value` is a copy of the value that the key has, which is yours to free with
/// everleaf_bytes_free, or NULL if the key is not there; otherwise it is NULL. `found_value` and `found_len` may be NULL.
///
/// Errors: those of everleaf_put.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_compare_and_swap(
    tree: *const everleaf_tree,
    key: *const c_void,
    key_len: usize,
    expected: *const c_void,
    expected_len: usize,
    desired: *const c_void,
    desired_len: usize,
    found_value: *mut *mut c_void,
    found_len: *mut usize,
) -> c_int {
    // SAFETY: the promise of a caller.
    unsafe {
        clear(found_value, found_len);
        on("everleaf_compare_and_swap", tree, |tree| {
            let value = |place: *const c_void, len| {
                if place.is_null() && len == 0 { Ok(None) } else { bytes(place, len).map(Some) }
            };
            let key = bytes(key, key_len)?;
            let (expected, desired) =
                (value(expected, expected_len)?, value(desired, desired_len)?);
            match tree.writable()?.compare_and_swap(key, expected, desired)? {
                Swap::Done => Ok(EVERLEAF_OK),
                Swap::Found(value) => {
                    if !found_value.is_null() {
                        give_copy(value.as_deref(), found_value, found_len)?;
                    }
                    Ok(EVERLEAF_NOT_FOUND)
                }
            }
        })
    }
}

/// Removes a key if it is there. This returns EVERLEAF_OK if it was not, too, for it does not look; everleaf_take does.
///
/// Errors: those of everleaf_put.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_delete(
    tree: *const everleaf_tree,
    key: *const c_void,
    key_len: usize,
) -> c_int {
    // SAFETY: the promise of a caller.
    unsafe {
        on("everleaf_delete", tree, |tree| {
            tree.writable()?.delete(bytes(key, key_len)?)?;
            Ok(EVERLEAF_OK)
        })
    }
}

/// Removes a key and gives you the value that it had, to free with everleaf_bytes_free; EVERLEAF_NOT_FOUND, and NULL, if it
/// was not there. If several threads take a key at once, one of them gets the value. `value_len` may be NULL.
///
/// Errors: those of everleaf_put. After EVERLEAF_NO_MEMORY the key may be gone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_take(
    tree: *const everleaf_tree,
    key: *const c_void,
    key_len: usize,
    value: *mut *mut c_void,
    value_len: *mut usize,
) -> c_int {
    // SAFETY: the promise of a caller.
    unsafe {
        clear(value, value_len);
        on("everleaf_take", tree, |tree| {
            expect_out(value)?;
            let old = tree.writable()?.remove(bytes(key, key_len)?)?;
            give_copy(old.as_deref(), value, value_len)
        })
    }
}

/// Sets the value of a key and gives you the one that it had, to free with everleaf_bytes_free; EVERLEAF_NOT_FOUND, and NULL,
/// if the key was not there: the new value is set all the same. `old_len` may be NULL.
///
/// Errors: those of everleaf_put. After EVERLEAF_NO_MEMORY the new value may be set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_swap(
    tree: *const everleaf_tree,
    key: *const c_void,
    key_len: usize,
    value: *const c_void,
    value_len: usize,
    old: *mut *mut c_void,
    old_len: *mut usize,
) -> c_int {
    // SAFETY: the promise of a caller.
    unsafe {
        clear(old, old_len);
        on("everleaf_swap", tree, |tree| {
            expect_out(old)?;
            let (key, value) = (bytes(key, key_len)?, bytes(value, value_len)?);
            give_copy(tree.writable()?.insert(key, value)?.as_deref(), old, old_len)
        })
    }
}

/// Removes the pairs from the key `from` up to the key `to`, which stays, and writes how many there were to `*pairs`, which may
/// be NULL. NULL with a length of 0 stands for no bound. `flags` is 0, or EVERLEAF_FROM_EXCLUDED and EVERLEAF_TO_INCLUDED.
/// This is many operations: others may see a part of it, and so may a crash or an error.
///
/// Errors: those of everleaf_put.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_remove_range(
    tree: *const everleaf_tree,
    from: *const c_void,
    from_len: usize,
    to: *const c_void,
    to_len: usize,
    flags: u32,
    pairs: *mut u64,
) -> c_int {
    // SAFETY: the promise of a caller.
    unsafe {
        on("everleaf_remove_range", tree, |tree| {
            let range = keys((from, from_len), (to, to_len), (flags, BOUNDS))?;
            give(pairs, tree.writable()?.remove_range(range)?);
            Ok(EVERLEAF_OK)
        })
    }
}

/// Removes the pair with the smallest key and gives you both, each to free with everleaf_bytes_free; EVERLEAF_NOT_FOUND, and
/// NULL, if the tree is empty. Of several threads that do this at once each gets another pair.
///
/// Errors: those of everleaf_put. After EVERLEAF_NO_MEMORY the pair may be gone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_pop_first(
    tree: *const everleaf_tree,
    key: *mut *mut c_void,
    key_len: *mut usize,
    value: *mut *mut c_void,
    value_len: *mut usize,
) -> c_int {
    // SAFETY: the promise of a caller.
    unsafe {
        clear(key, key_len);
        clear(value, value_len);
        on("everleaf_pop_first", tree, |tree| {
            expect_out(key)?;
            expect_out(value)?;
            let pair = tree.writable()?.pop_first()?;
            give_pair(pair, (key, key_len), (value, value_len))
        })
    }
}

/// Removes the pair with the largest key and gives you both, as everleaf_pop_first does with the smallest one.
///
/// Errors: those of everleaf_pop_first.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_pop_last(
    tree: *const everleaf_tree,
    key: *mut *mut c_void,
    key_len: *mut usize,
    value: *mut *mut c_void,
    value_len: *mut usize,
) -> c_int {
    // SAFETY: the promise of a caller.
    unsafe {
        clear(key, key_len);
        clear(value, value_len);
        on("everleaf_pop_last", tree, |tree| {
            expect_out(key)?;
            expect_out(value)?;
            let pair = tree.writable()?.pop_last()?;
            give_pair(pair, (key, key_len), (value, value_len))
        })
    }
}

/// Gives the caller a pair.
///
/// # Safety
///
/// That of [`give_copy`].
unsafe fn give_pair(
    pair: Option<db::Pair>,
    (key, key_len): (*mut *mut c_void, *mut usize),
    (value, value_len): (*mut *mut c_void, *mut usize),
) -> Result<c_int> {
    let pair = pair.as_ref();
    // SAFETY: the caller's promise.
    unsafe {
        give_copy(pair.map(|pair| &pair.0[..]), key, key_len)?;
        give_copy(pair.map(|pair| &pair.1[..]), value, value_len)
    }
}

/// Says whether a key is there: EVERLEAF_OK if it is, EVERLEAF_NOT_FOUND if it is not.
///
/// Errors: those of everleaf_get.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_contains(
    tree: *const everleaf_tree,
    key: *const c_void,
    key_len: usize,
) -> c_int {
    // SAFETY: the promise of a caller.
    unsafe {
        on("everleaf_contains", tree, |tree| {
            let key = bytes(key, key_len)?;
            Ok(found(of_either!(tree, tree => tree.contains(key))?))
        })
    }
}

/// Copies the value of a key to `buf`, which has room for `buf_len` bytes, and writes its length to `*value_len`, which may be
/// NULL. EVERLEAF_NOT_FOUND, and 0, if the key is not there. If the value is longer than the buffer,
/// EVERLEAF_BUFFER_TOO_SMALL, and `*value_len` says how many bytes it has. Whenever this does not return EVERLEAF_OK, the
/// buffer holds anything. It is not where the key is.
///
/// Errors: EVERLEAF_CORRUPT or EVERLEAF_IO if it cannot be read; EVERLEAF_NO_MEMORY; EVERLEAF_NO_TREE; EVERLEAF_CLOSED;
/// EVERLEAF_FORKED; EVERLEAF_STUCK; for the tree of a snapshot also EVERLEAF_SNAPSHOT_TOO_OLD.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_get(
    tree: *const everleaf_tree,
    key: *const c_void,
    key_len: usize,
    buf: *mut c_void,
    buf_len: usize,
    value_len: *mut usize,
) -> c_int {
    // SAFETY: the promise of a caller.
    unsafe {
        on_any("everleaf_get", tree, |tree| {
            let most = isize::MAX as usize;
            let copied = match (&tree.is, plain_bytes(key, key_len, most)) {
                (Which::Now(tree), Some(key)) if buf_len <= most && !buf.is_null() => {
                    tree.copy_value(key, buffer(buf, buf_len)?)?
                }
                _ => get_otherwise(tree, (key, key_len), (buf, buf_len))?,
            };
            say_copied(copied, buf_len, value_len)
        })
    }
}

/// A get from a snapshot, or one that is refused, or has nothing as its key or buffer. A pool that is closed says so first.
///
/// # Safety
///
/// That of [`bytes`] and of [`buffer`].
#[inline(never)]
unsafe fn get_otherwise(
    tree: &everleaf_tree,
    (key, key_len): (*const c_void, usize),
    (buf, buf_len): (*mut c_void, usize),
) -> Result<Option<usize>> {
    tree.db.expect_open()?;
    // SAFETY: the caller's promise.
    let (key, room) = unsafe { (bytes(key, key_len)?, buffer(buf, buf_len)?) };
    Ok(match &tree.is {
        Which::Now(tree) => tree.copy_value(key, room)?,
        Which::Then(tree) => tree.get_with(key, |value| {
            // SAFETY: the caller's promise.
            unsafe { copy_value(value, buf, buf_len) }
        })?,
    })
}

/// Gives you a copy of the value of a key, to free with everleaf_bytes_free; EVERLEAF_NOT_FOUND, and NULL, if the key is not
/// there. `value_len` may be NULL. The copy of an empty value is not NULL, and must be freed, too.
///
/// Errors: those of everleaf_get.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_get_alloc(
    tree: *const everleaf_tree,
    key: *const c_void,
    key_len: usize,
    value: *mut *mut c_void,
    value_len: *mut usize,
) -> c_int {
    // SAFETY: the promise of a caller.
    unsafe {
        clear(value, value_len);
        on("everleaf_get_alloc", tree, |tree| {
            expect_out(value)?;
            let key = bytes(key, key_len)?;
            let copy = |found: &[u8]| give_copy(Some(found), value, value_len);
            of_either!(tree, tree => tree.get_with(key, copy))?.unwrap_or(Ok(EVERLEAF_NOT_FOUND))
        })
    }
}

/// Writes the length of the value of a key to `*value_len`; EVERLEAF_NOT_FOUND if the key is not there. A large value is not
/// read for it.
///
/// Errors: those of everleaf_get.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_value_len(
    tree: *const everleaf_tree,
    key: *const c_void,
    key_len: usize,
    value_len: *mut u64,
) -> c_int {
    // SAFETY: the promise of a caller.
    unsafe {
        on("everleaf_value_len", tree, |tree| {
            expect_out(value_len)?;
            let key = bytes(key, key_len)?;
            let len = of_either!(tree, tree => tree.value_len(key))?;
            give(value_len, len.unwrap_or(0));
            Ok(found(len.is_some()))
        })
    }
}

/// Copies bytes of the value of a key to `buf`, from byte `offset` of the value on, and writes how many to `*copied`: fewer than
/// `buf_len` only where the value ends. EVERLEAF_NOT_FOUND if the key is not there. Of a large value only what is asked for
/// is read. Two calls may see two values, if it is replaced in between.
///
/// Errors: those of everleaf_get.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_read_at(
    tree: *const everleaf_tree,
    key: *const c_void,
    key_len: usize,
    offset: u64,
    buf: *mut c_void,
    buf_len: usize,
    copied: *mut usize,
) -> c_int {
    // SAFETY: the promise of a caller.
    unsafe {
        on("everleaf_read_at", tree, |tree| {
            expect_out(copied)?;
            let (key, buf) = (bytes(key, key_len)?, buffer(buf, buf_len)?);
            let read = of_either!(tree, tree => tree.read_at(key, offset, buf))?;
            give(copied, read.unwrap_or(0));
            Ok(found(read.is_some()))
        })
    }
}
