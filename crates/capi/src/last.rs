//! Questions of a program about codes and about the last failure of its thread.

use std::ffi::{CString, c_char, c_int, c_void};
use std::ptr;

use crate::call;
use crate::codes::{ALL, EVERLEAF_OK};
use crate::failure::last;

/// Returns the name of a code, such as "EVERLEAF_LOCKED", or "unknown". The text lasts as long as the program.
#[unsafe(no_mangle)]
pub extern "C" fn everleaf_code_name(code: c_int) -> *const c_char {
    call::lend("everleaf_code_name", c"unknown".as_ptr(), || {
        let known = ALL.iter().find(|(_, number)| *number == code);
        known.map_or(c"unknown", |(name, _)| name).as_ptr()
    })
}

fn start(text: &Option<CString>) -> *const c_char {
    text.as_deref().unwrap_or_default().as_ptr()
}

/// Returns the code of this thread's last failure; EVERLEAF_OK if nothing has failed yet.
#[unsafe(no_mangle)]
pub extern "C" fn everleaf_last_code() -> c_int {
    call::lend("everleaf_last_code", EVERLEAF_OK, || last(|last| last.code))
}

/// Returns a sentence about this thread's last failure, in English and UTF-8; empty if nothing has failed yet. It is good
/// until the thread's next failure, or its end.
#[unsafe(no_mangle)]
pub extern "C" fn everleaf_last_message() -> *const c_char {
    call::lend("everleaf_last_message", c"".as_ptr(), || last(|last| start(&last.message)))
}

/// Returns the errno of this thread's last failure, or 0 if the operating system was not the reason.
#[unsafe(no_mangle)]
pub extern "C" fn everleaf_last_errno() -> c_int {
    call::lend("everleaf_last_errno", 0, || last(|last| last.errno))
}

/// Returns the name of the tree in which a transaction met others, if this thread's last failure was EVERLEAF_CONFLICT;
/// empty otherwise. It is good until the thread's next failure, or its end.
#[unsafe(no_mangle)]
pub extern "C" fn everleaf_last_conflict_tree() -> *const c_char {
    call::lend("everleaf_last_conflict_tree", c"".as_ptr(), || {
        last(|last| start(&last.conflict_tree))
    })
}

/// Returns the key that others have changed, if this thread's last failure was EVERLEAF_CONFLICT, and writes its length to
/// `*key_len`; NULL and 0 otherwise. `key_len` may be NULL. The bytes are good until the thread's next failure, or its end.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_last_conflict_key(key_len: *mut usize) -> *const c_void {
    call::lend("everleaf_last_conflict_key", ptr::null(), || {
        last(|last| {
            let key = last.conflict_key.as_deref();
            // SAFETY: the promise of a caller.
            unsafe { call::give(key_len, key.map_or(0, <[u8]>::len)) };
            key.map_or(ptr::null(), |key| key.as_ptr().cast())
        })
    })
}
