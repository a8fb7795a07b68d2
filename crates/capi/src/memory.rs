//! Bytes that the caller gets for its own.
//!
//! Before the bytes is a head with their number, so that they can be given back without it:
//!
//! ```text
//!   number (16 bytes) | bytes …
//!                     ^ what the caller gets
//! ```

use std::alloc::{Layout, alloc, dealloc};
use std::ffi::{c_int, c_void};
use std::ptr;

use db::Error;

use crate::call;
use crate::codes::{EVERLEAF_NOT_FOUND, EVERLEAF_OK};
use crate::failure::Result;

/// A head, so long that what is behind it has the alignment that C expects of memory.
const HEAD: usize = 16;

const _: () = assert!(size_of::<usize>() <= HEAD && HEAD >= align_of::<u128>());

fn layout(bytes: usize) -> Option<Layout> {
    Layout::from_size_align(HEAD.checked_add(bytes)?, HEAD).ok()
}

/// A copy that the caller owns.
fn copy(bytes: &[u8]) -> Result<*mut c_void> {
    let no_memory = Error::NoMemory { what: "a copy for the caller", bytes: bytes.len() };
    let Some(layout) = layout(bytes.len()) else { return Err(no_memory.into()) };
    // SAFETY: the layout has the head at least.
    let head = unsafe { alloc(layout) };
    if head.is_null() {
        return Err(no_memory.into());
    }
    // SAFETY: there is room for the head and, behind it, for the bytes; nobody else has it yet.
    unsafe {
        head.cast::<usize>().write(bytes.len());
        let start = head.add(HEAD);
        ptr::copy_nonoverlapping(bytes.as_ptr(), start, bytes.len());
        Ok(start.cast())
    }
}

/// Gives the caller a copy; without bytes, NULL and 0.
///
/// # Safety
///
/// Each place is NULL or has room.
pub(crate) unsafe fn give_copy(
    bytes: Option<&[u8]>,
    out: *mut *mut c_void,
    len: *mut usize,
) -> Result<c_int> {
    let copied = bytes.map_or(Ok(ptr::null_mut()), copy)?;
    // SAFETY: the caller's promise.
    unsafe {
        out.write(copied);
        call::give(len, bytes.map_or(0, <[u8]>::len));
    }
    Ok(if bytes.is_some() { EVERLEAF_OK } else { EVERLEAF_NOT_FOUND })
}

/// Empties the places of a copy before anything can fail, so that they can be freed whatever comes.
///
/// # Safety
///
/// Each place is NULL or has room.
pub(crate) unsafe fn clear(out: *mut *mut c_void, len: *mut usize) {
    // SAFETY: the caller's promise.
    unsafe {
        call::give(out, ptr::null_mut());
        call::give(len, 0);
    }
}

/// Frees bytes that a function of this library gave to the caller to own: those of everleaf_get_alloc, everleaf_take,
/// everleaf_swap and others that say so. NULL may be freed. Do not use free(), and do not free bytes that are lent.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_bytes_free(bytes: *mut c_void) {
    call::lend("everleaf_bytes_free", (), || {
        if bytes.is_null() {
            return;
        }
        // SAFETY: the promise of a caller: they come from `copy`, whose head is before them.
        unsafe {
            let head = bytes.cast::<u8>().sub(HEAD);
            let layout = layout(head.cast::<usize>().read()).expect("it was the layout before");
            dealloc(head, layout);
        }
    });
}
