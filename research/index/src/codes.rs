//! The numbers that functions return. Those of errors are [`everleaf_pmem::Error::code`]'s, which a test compares.

use std::ffi::{CStr, c_int};

/// The call has done what was asked for.
pub const EVERLEAF_INDEX_OK: c_int = 0;
/// The key is not there, and nothing was changed. It is no error.
pub const EVERLEAF_INDEX_NOT_FOUND: c_int = 1;
/// The key is there already, and nothing was changed. It is no error.
pub const EVERLEAF_INDEX_EXISTS: c_int = 2;

/// Bytes of the pool are not what was written.
pub const EVERLEAF_INDEX_CORRUPT: c_int = -1;
/// The file is no pool, or one of another tree.
pub const EVERLEAF_INDEX_FOREIGN: c_int = -2;
/// The pool is open already; the message says whether in this process or in another one.
pub const EVERLEAF_INDEX_LOCKED: c_int = -3;
/// A file that is not the pool's has a name that the pool needs.
pub const EVERLEAF_INDEX_IN_THE_WAY: c_int = -4;
/// The handle was closed.
pub const EVERLEAF_INDEX_CLOSED: c_int = -5;
/// The handle was opened by a process of which this one is a fork. Nothing was done.
pub const EVERLEAF_INDEX_FORKED: c_int = -6;
/// The file is not on a DAX file system, which EVERLEAF_INDEX_DAX needs.
pub const EVERLEAF_INDEX_NOT_DAX: c_int = -7;
/// The operating system failed a call: everleaf_index_last_errno says how.
pub const EVERLEAF_INDEX_IO: c_int = -8;
/// There is no memory. Nothing was changed.
pub const EVERLEAF_INDEX_NO_MEMORY: c_int = -9;
/// Writes have stopped after an earlier failure, which the message names.
pub const EVERLEAF_INDEX_POISONED: c_int = -10;
/// There is no room for more than `keys` of the options said. Nothing was changed.
pub const EVERLEAF_INDEX_FULL: c_int = -11;
/// The epoch has changed as many bytes as memory can hold, and no thread ends epochs. End it with everleaf_index_sync.
pub const EVERLEAF_INDEX_EPOCH_TOO_LARGE: c_int = -12;
/// Other threads were in the way for more than ten minutes.
pub const EVERLEAF_INDEX_STUCK: c_int = -15;
/// The pool has nodes of another layout than the tree.
pub const EVERLEAF_INDEX_WRONG_LAYOUT: c_int = -30;
/// No tree has this name; or this tree cannot be on this medium, or cannot be read in this way; or the processor cannot.
pub const EVERLEAF_INDEX_UNSUPPORTED: c_int = -36;
/// An option is outside its limits. Nothing was opened.
pub const EVERLEAF_INDEX_INVALID_OPTION: c_int = -37;
/// An argument is not allowed: the program has a mistake, which the message names.
pub const EVERLEAF_INDEX_INVALID: c_int = -38;
/// A tree that was checked is not right after a crash, or without one: the message has the image, and what was found there.
pub const EVERLEAF_INDEX_UNSOUND: c_int = -101;
/// The call has met a defect of the library, and was ended. All later calls with the handle return
/// EVERLEAF_INDEX_POISONED. The message says where it was: please report it.
pub const EVERLEAF_INDEX_PANIC: c_int = -100;

/// All codes with their names.
pub(crate) const ALL: &[(&CStr, c_int)] = &[
    (c"EVERLEAF_INDEX_OK", EVERLEAF_INDEX_OK),
    (c"EVERLEAF_INDEX_NOT_FOUND", EVERLEAF_INDEX_NOT_FOUND),
    (c"EVERLEAF_INDEX_EXISTS", EVERLEAF_INDEX_EXISTS),
    (c"EVERLEAF_INDEX_CORRUPT", EVERLEAF_INDEX_CORRUPT),
    (c"EVERLEAF_INDEX_FOREIGN", EVERLEAF_INDEX_FOREIGN),
    (c"EVERLEAF_INDEX_LOCKED", EVERLEAF_INDEX_LOCKED),
    (c"EVERLEAF_INDEX_IN_THE_WAY", EVERLEAF_INDEX_IN_THE_WAY),
    (c"EVERLEAF_INDEX_CLOSED", EVERLEAF_INDEX_CLOSED),
    (c"EVERLEAF_INDEX_FORKED", EVERLEAF_INDEX_FORKED),
    (c"EVERLEAF_INDEX_NOT_DAX", EVERLEAF_INDEX_NOT_DAX),
    (c"EVERLEAF_INDEX_IO", EVERLEAF_INDEX_IO),
    (c"EVERLEAF_INDEX_NO_MEMORY", EVERLEAF_INDEX_NO_MEMORY),
    (c"EVERLEAF_INDEX_POISONED", EVERLEAF_INDEX_POISONED),
    (c"EVERLEAF_INDEX_FULL", EVERLEAF_INDEX_FULL),
    (c"EVERLEAF_INDEX_EPOCH_TOO_LARGE", EVERLEAF_INDEX_EPOCH_TOO_LARGE),
    (c"EVERLEAF_INDEX_STUCK", EVERLEAF_INDEX_STUCK),
    (c"EVERLEAF_INDEX_WRONG_LAYOUT", EVERLEAF_INDEX_WRONG_LAYOUT),
    (c"EVERLEAF_INDEX_UNSUPPORTED", EVERLEAF_INDEX_UNSUPPORTED),
    (c"EVERLEAF_INDEX_INVALID_OPTION", EVERLEAF_INDEX_INVALID_OPTION),
    (c"EVERLEAF_INDEX_INVALID", EVERLEAF_INDEX_INVALID),
    (c"EVERLEAF_INDEX_UNSOUND", EVERLEAF_INDEX_UNSOUND),
    (c"EVERLEAF_INDEX_PANIC", EVERLEAF_INDEX_PANIC),
];

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::sync::Arc;

    use everleaf_pmem::Error;

    use super::*;

    #[test]
    fn codes_are_those_of_the_errors_and_none_is_given_twice() {
        let what = String::new;
        let errors = [
            (Error::corrupt(0, what()), EVERLEAF_INDEX_CORRUPT),
            (Error::Foreign { path: PathBuf::new(), what: what() }, EVERLEAF_INDEX_FOREIGN),
            (Error::Locked { path: PathBuf::new(), is_here: None }, EVERLEAF_INDEX_LOCKED),
            (Error::InTheWay { path: PathBuf::new(), what: what() }, EVERLEAF_INDEX_IN_THE_WAY),
            (Error::Closed, EVERLEAF_INDEX_CLOSED),
            (Error::Forked, EVERLEAF_INDEX_FORKED),
            (Error::NotDax { path: PathBuf::new() }, EVERLEAF_INDEX_NOT_DAX),
            (Error::io("", std::io::Error::other("")), EVERLEAF_INDEX_IO),
            (Error::NoMemory { what: "", bytes: 0 }, EVERLEAF_INDEX_NO_MEMORY),
            (Error::Poisoned { cause: Arc::new(Error::Closed) }, EVERLEAF_INDEX_POISONED),
            (Error::Full { bytes: 0 }, EVERLEAF_INDEX_FULL),
            (Error::EpochTooLarge { bytes: 0, bytes_max: 0 }, EVERLEAF_INDEX_EPOCH_TOO_LARGE),
            (Error::Stuck { what: "", attempts: 0 }, EVERLEAF_INDEX_STUCK),
            (Error::WrongLayout { tree: what(), pool: what() }, EVERLEAF_INDEX_WRONG_LAYOUT),
            (Error::Unsupported { what: what() }, EVERLEAF_INDEX_UNSUPPORTED),
            (Error::InvalidOption { option: "", what: what() }, EVERLEAF_INDEX_INVALID_OPTION),
            (Error::Invalid { what: what() }, EVERLEAF_INDEX_INVALID),
        ];
        for (error, code) in &errors {
            assert_eq!(error.code(), *code, "{error:?}");
        }
        // All but the three that are no errors, that of a defect, and that of a tree which was checked.
        assert_eq!(errors.len() + 5, ALL.len());
        for (at, (name, code)) in ALL.iter().enumerate() {
            let same = ALL.iter().position(|(_, other)| other == code);
            assert_eq!(same, Some(at), "{name:?}");
        }
    }
}
