//! The functions by which a program asks about codes and about the last failure of its thread.

use std::ffi::{c_char, c_int};

use crate::call;
use crate::codes::{ALL, EVERLEAF_INDEX_OK};
use crate::failure::last;

/// Returns the name of a code, such as "EVERLEAF_INDEX_FULL", or "unknown".
#[unsafe(no_mangle)]
pub extern "C" fn everleaf_index_code_name(code: c_int) -> *const c_char {
    call::lend("everleaf_index_code_name", c"unknown".as_ptr(), || {
        let known = ALL.iter().find(|(_, number)| *number == code);
        known.map_or(c"unknown", |(name, _)| name).as_ptr()
    })
}

/// Returns the code of this thread's last failure; EVERLEAF_INDEX_OK if nothing has failed yet.
#[unsafe(no_mangle)]
pub extern "C" fn everleaf_index_last_code() -> c_int {
    call::lend("everleaf_index_last_code", EVERLEAF_INDEX_OK, || {
        last(EVERLEAF_INDEX_OK, |last| last.code)
    })
}

/// Returns a sentence about this thread's last failure, in English and UTF-8; empty if nothing has failed yet. It is good
/// until the thread's next failure, or its end.
#[unsafe(no_mangle)]
pub extern "C" fn everleaf_index_last_message() -> *const c_char {
    call::lend("everleaf_index_last_message", c"".as_ptr(), || {
        last(c"".as_ptr(), |last| last.message.as_ptr())
    })
}

/// Returns the errno of this thread's last failure, or 0 if the operating system was not the reason.
#[unsafe(no_mangle)]
pub extern "C" fn everleaf_index_last_errno() -> c_int {
    call::lend("everleaf_index_last_errno", 0, || last(0, |last| last.errno))
}
