//! The last failure of a thread. It stays until that thread's next failure, whatever succeeds in between.

use std::cell::RefCell;
use std::ffi::{CString, c_int};

use db::Error;

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
pub(crate) struct Last {
    pub code: c_int,
    pub message: Option<CString>,
    pub errno: c_int,
    pub conflict_tree: Option<CString>,
    pub conflict_key: Option<Vec<u8>>,
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

/// Looks at the last failure of this thread.
pub(crate) fn last<T>(look: impl FnOnce(&Last) -> T) -> T {
    LAST.with_borrow(look)
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
