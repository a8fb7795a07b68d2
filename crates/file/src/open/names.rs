//! What a pool's files are called, and what it means if one cannot be opened or locked.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use everleaf_pmem::error::{Error, Result};

use crate::io::IoFile;

/// The file beside `path` whose name ends in `suffix`.
pub(crate) fn sibling(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// An open that failed: what is not a regular file is not a pool.
pub(crate) fn refused(path: &Path, e: std::io::Error) -> Error {
    if e.kind() == ErrorKind::Unsupported {
        return Error::Foreign { path: path.to_owned(), what: format!("it is {e}") };
    }
    Error::io(format!("opening {}", path.display()), e)
}

pub(crate) fn take_lock(file: &dyn IoFile, path: &Path, shared: bool) -> Result<()> {
    match file.lock(shared) {
        Ok(true) => Ok(()),
        Ok(false) => Err(Error::Locked { path: path.to_owned() }),
        Err(e) => Err(Error::io(format!("locking {}", path.display()), e)),
    }
}
