//! The store's errors as exceptions. The classes are those of `everleaf/_errors.py`.

use std::io::ErrorKind;

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use store::Error;

/// Numbers of Linux.
const ENOENT: i32 = 2;
const EIO: i32 = 5;
const EAGAIN: i32 = 11;
const ENOMEM: i32 = 12;
const EACCES: i32 = 13;
const EBUSY: i32 = 16;
const EEXIST: i32 = 17;
const EINVAL: i32 = 22;
const ENOSPC: i32 = 28;
const EROFS: i32 = 30;
const EDEADLK: i32 = 35;
const EBADF: i32 = 9;
const ENOTSUP: i32 = 95;
const ESTALE: i32 = 116;

static CLASSES: PyOnceLock<Py<PyModule>> = PyOnceLock::new();

/// The exception for an error of the store.
#[cold]
pub fn raise(py: Python<'_>, error: Error) -> PyErr {
    exception(py, &error).unwrap_or_else(|failed| failed)
}

/// An exception of a handle that was closed, committed or aborted.
#[cold]
pub fn over(py: Python<'_>, what: &str) -> PyErr {
    let make = || Ok(PyErr::from_value(new(py, "Closed", EBADF, what)?));
    make().unwrap_or_else(|failed: PyErr| failed)
}

fn new<'py>(py: Python<'py>, class: &str, errno: i32, what: &str) -> PyResult<Bound<'py, PyAny>> {
    let classes = CLASSES
        .get_or_try_init(py, || PyModule::import(py, "everleaf._errors").map(Bound::unbind))?;
    classes.bind(py).getattr(class)?.call1((errno, what))
}

fn exception(py: Python<'_>, error: &Error) -> PyResult<PyErr> {
    let (class, errno) = class(error);
    let exception = new(py, class, errno, &error.to_string())?;
    match error {
        Error::Corrupt { file, offset, .. } => {
            exception.setattr("file", file)?;
            exception.setattr("offset", offset)?;
        }
        Error::Conflict { tree, key, attempts } => {
            exception.setattr("tree", &**tree)?;
            exception.setattr("key", &key[..])?;
            exception.setattr("attempts", attempts)?;
        }
        _ => {}
    }
    Ok(PyErr::from_value(exception))
}

/// The class of an error, and the number that the system has for the like. A test compares this list with the variants
/// that there are.
fn class(error: &Error) -> (&'static str, i32) {
    match error {
        Error::Corrupt { .. } => ("Corrupt", EIO),
        Error::Foreign { .. } | Error::WrongLayout { .. } => ("Foreign", EINVAL),
        Error::Locked { .. } => ("Locked", EAGAIN),
        Error::InTheWay { .. } | Error::FileExists { .. } => ("FileExists", EEXIST),
        Error::Closed => ("Closed", EBADF),
        Error::Forked => ("Forked", EBADF),
        Error::Io { source, .. } => system(source),
        Error::Reader { source } => ("Error", source.raw_os_error().unwrap_or(EIO)),
        Error::NoMemory { .. } => ("NoMemory", ENOMEM),
        Error::Poisoned { .. } | Error::Interrupted { .. } => ("Poisoned", EIO),
        Error::Full { .. } => ("Full", ENOSPC),
        Error::EpochTooLarge { .. } => ("EpochTooLarge", ENOMEM),
        Error::SnapshotTooOld { .. } => ("SnapshotTooOld", ESTALE),
        Error::Conflict { .. } => ("Conflict", EAGAIN),
        Error::Deadlock { .. } => ("Deadlock", EDEADLK),
        Error::Stuck { .. } => ("Stuck", EBUSY),
        Error::TransactionTooLarge { .. } => ("TransactionTooLarge", ENOMEM),
        Error::ReadOnly => ("ReadOnly", EROFS),
        Error::KeyTooLong { .. } | Error::ValueTooLong { .. } | Error::RecordTooLong { .. } => {
            ("TooLong", EINVAL)
        }
        Error::TreeExists { .. } => ("TreeExists", EEXIST),
        Error::NoTree => ("NoTree", ENOENT),
        Error::NotDax { .. } | Error::Unsupported { .. } => ("Unsupported", ENOTSUP),
        Error::Unrecovered { .. } => ("Unrecovered", EBUSY),
        Error::InvalidOption { .. }
        | Error::Invalid { .. }
        | Error::TreeName { .. }
        | Error::KeyEncoding { .. }
        | Error::NotAscending { .. }
        | Error::ReaderEnded { .. }
        | Error::OtherPool { .. }
        | Error::InsideBatch
        | Error::InUse { .. }
        | Error::NotEmpty => ("Invalid", EINVAL),
        // One that a later version of the crate has brought.
        _ => ("Error", EIO),
    }
}

/// The class of a failure of the system.
fn system(source: &std::io::Error) -> (&'static str, i32) {
    let errno = |other| source.raw_os_error().unwrap_or(other);
    match source.kind() {
        ErrorKind::NotFound => ("NotFound", errno(ENOENT)),
        ErrorKind::PermissionDenied => ("Denied", errno(EACCES)),
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
            ("Full", errno(ENOSPC))
        }
        _ => ("Error", errno(EIO)),
    }
}
