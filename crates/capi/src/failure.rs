//! What failed last in a thread. It stays until that thread's next failure, whatever succeeds in between.

use std::cell::RefCell;
use std::ffi::{CString, c_char, c_int, c_void};
use std::ptr;

use db::Error;

use crate::call;
use crate::codes::{EVERLEAF_BUFFER_TOO_SMALL, EVERLEAF_OK, EVERLEAF_PANIC};

/// Why a call fails.
pub(crate) enum Failure {
    Db(Error),
    /// The caller's buffer has so many bytes, and so many are needed.
    BufferTooSmall {
        bytes: usize,
        needed: usize,
    },
    /// A panic, with its message.
    Panic(String),
}

pub(crate) type Result<T> = std::result::Result<T, Failure>;

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure::Db(error)
    }
}

/// A mistake of the program that calls.
#[cold]
pub(crate) fn invalid(what: impl Into<String>) -> Failure {
    Failure::Db(Error::Invalid { what: what.into() })
}

/// The last failure of a thread.
struct Last {
    code: c_int,
    message: Option<CString>,
    errno: c_int,
    conflict_tree: Option<CString>,
    conflict_key: Option<Vec<u8>>,
}

thread_local! {
    static LAST: RefCell<Last> = const { RefCell::new(Last::NONE) };
}

impl Last {
    const NONE: Last = Last {
        code: EVERLEAF_OK,
        message: None,
        errno: 0,
        conflict_tree: None,
        conflict_key: None,
    };

    fn of(failure: Failure) -> Last {
        match failure {
            Failure::Panic(message) => {
                Last { code: EVERLEAF_PANIC, message: Some(text(message)), ..Last::NONE }
            }
            Failure::BufferTooSmall { bytes, needed } => {
                let message = format!("the buffer has {bytes} bytes, and {needed} are needed");
                Last { code: EVERLEAF_BUFFER_TOO_SMALL, message: Some(text(message)), ..Last::NONE }
            }
            Failure::Db(error) => {
                let (message, errno) = (Some(text(error.to_string())), errno(&error));
                let last = Last { code: error.code(), message, errno, ..Last::NONE };
                match error {
                    Error::Conflict { tree, key, .. } => Last {
                        conflict_tree: Some(text(tree.into_string())),
                        conflict_key: Some(key),
                        ..last
                    },
                    _ => last,
                }
            }
        }
    }
}

/// Keeps a failure for this thread, and returns its code.
#[cold]
pub(crate) fn keep(failure: Failure) -> c_int {
    let last = Last::of(failure);
    let code = last.code;
    // A thread that ends has nowhere to keep it.
    let _ = LAST.try_with(|kept| kept.replace(last));
    code
}

/// The system's number for what went wrong; 0 if it was not the system.
fn errno(error: &Error) -> c_int {
    match error {
        Error::Io { source, .. } | Error::Reader { source } => source.raw_os_error().unwrap_or(0),
        Error::Poisoned { cause } => errno(cause),
        _ => 0,
    }
}

/// A text for C, in which a 0 would be the end.
fn text(text: String) -> CString {
    CString::new(text).unwrap_or_else(|error| {
        let mut bytes = error.into_vec();
        bytes.iter_mut().filter(|byte| **byte == 0).for_each(|byte| *byte = b'?');
        CString::new(bytes).unwrap_or_default()
    })
}

fn start(text: &Option<CString>) -> *const c_char {
    text.as_deref().unwrap_or_default().as_ptr()
}

/// Returns the code of this thread's last failure; EVERLEAF_OK if nothing has failed yet.
#[unsafe(no_mangle)]
pub extern "C" fn everleaf_last_code() -> c_int {
    call::lend("everleaf_last_code", EVERLEAF_OK, || LAST.with_borrow(|last| last.code))
}

/// Returns a sentence about this thread's last failure, in English and UTF-8; empty if nothing has failed yet. It is good
/// until the thread's next failure, or its end.
#[unsafe(no_mangle)]
pub extern "C" fn everleaf_last_message() -> *const c_char {
    call::lend("everleaf_last_message", c"".as_ptr(), || {
        LAST.with_borrow(|last| start(&last.message))
    })
}

/// Returns the errno of this thread's last failure, or 0 if the operating system was not the reason.
#[unsafe(no_mangle)]
pub extern "C" fn everleaf_last_errno() -> c_int {
    call::lend("everleaf_last_errno", 0, || LAST.with_borrow(|last| last.errno))
}

/// Returns the name of the tree in which a transaction met others, if this thread's last failure was EVERLEAF_CONFLICT;
/// empty otherwise. It is good until the thread's next failure, or its end.
#[unsafe(no_mangle)]
pub extern "C" fn everleaf_last_conflict_tree() -> *const c_char {
    call::lend("everleaf_last_conflict_tree", c"".as_ptr(), || {
        LAST.with_borrow(|last| start(&last.conflict_tree))
    })
}

/// Returns the key that others have changed, if this thread's last failure was EVERLEAF_CONFLICT, and writes its length to
/// `*key_len`; NULL and 0 otherwise. `key_len` may be NULL. The bytes are good until the thread's next failure, or its end.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_last_conflict_key(key_len: *mut usize) -> *const c_void {
    call::lend("everleaf_last_conflict_key", ptr::null(), || {
        LAST.with_borrow(|last| {
            let key = last.conflict_key.as_deref();
            // SAFETY: the promise of a caller.
            unsafe { call::give(key_len, key.map_or(0, <[u8]>::len)) };
            key.map_or(ptr::null(), |key| key.as_ptr().cast())
        })
    })
}
