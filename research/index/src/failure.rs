//! The last failure of a thread. It stays until that thread's next one, whatever succeeds in between.

use std::cell::RefCell;
use std::ffi::{CString, c_int};

use everleaf_pmem::Error;

use crate::codes::{EVERLEAF_INDEX_PANIC, EVERLEAF_INDEX_UNSOUND};

/// Why a call fails.
pub(crate) enum Failure {
    Tree(Error),
    /// A panic, with its message.
    Panic(String),
    /// The fault that a check found in a tree.
    Unsound(String),
}

pub(crate) type Result<T> = std::result::Result<T, Failure>;

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure::Tree(error)
    }
}

/// A mistake of the program that calls.
#[cold]
pub(crate) fn invalid(what: impl Into<String>) -> Failure {
    Failure::Tree(Error::Invalid { what: what.into() })
}

/// An option that is not allowed.
#[cold]
pub(crate) fn invalid_option(option: &'static str, what: impl Into<String>) -> Failure {
    Failure::Tree(Error::InvalidOption { option, what: what.into() })
}

/// The last failure of a thread.
pub(crate) struct Last {
    pub code: c_int,
    pub message: CString,
    pub errno: c_int,
}

thread_local! {
    static LAST: RefCell<Option<Last>> = const { RefCell::new(None) };
}

/// Keeps a failure for this thread, and returns its code.
#[cold]
pub(crate) fn keep(failure: Failure) -> c_int {
    let (code, message, errno) = match failure {
        Failure::Panic(message) => (EVERLEAF_INDEX_PANIC, message, 0),
        Failure::Unsound(message) => (EVERLEAF_INDEX_UNSOUND, message, 0),
        Failure::Tree(error) => (error.code(), error.to_string(), errno(&error)),
    };
    let message = CString::new(message.replace('\0', "?")).unwrap_or_default();
    // A thread that ends has nowhere to keep it.
    let _ = LAST.try_with(|kept| kept.replace(Some(Last { code, message, errno })));
    code
}

/// The system's number for what went wrong; 0 if it was not the system.
fn errno(error: &Error) -> c_int {
    match error {
        Error::Io { source, .. } => source.raw_os_error().unwrap_or(0),
        Error::Poisoned { cause } => errno(cause),
        _ => 0,
    }
}

/// Looks at the last failure of this thread, if there is one.
pub(crate) fn last<T>(otherwise: T, look: impl FnOnce(&Last) -> T) -> T {
    LAST.with_borrow(|last| last.as_ref().map_or(otherwise, look))
}
