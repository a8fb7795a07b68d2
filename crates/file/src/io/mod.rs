//! The operating system as the file medium needs it, small enough to be simulated.
//!
//! | | |
//! |---|---|
//! | [`RealIo`] | files of this machine |
//! | [`MemoryIo`] | files in memory, which go with their process |
//! | [`SimIo`] | files in memory that lose power, tear, and fail on demand, replayable by seed |
//!
//! Contract of each implementation: a write is durable only after [`IoFile::sync_data`] on the same
//! file; a created, renamed or removed name only after [`Io::sync_dir`]. Interrupted and short
//! calls are retried inside, unless signals interrupt 10,000 in a row; every other failure is returned, once, and
//! never retried.

use std::fmt::Debug;
use std::io::{self, ErrorKind, IoSliceMut};
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};

use everleaf_pmem::error::{Error, Result};

mod memory;
pub mod real;
pub mod sim;
mod whole;

pub use memory::MemoryIo;
pub use real::RealIo;
pub use sim::{Fault, SimIo, Weather};
pub use whole::uninterrupted;

/// The purpose for which a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Read only; the file must exist.
    Read,
    /// Read and write; the file must exist.
    Write,
    /// Read and write; the file is made. The open fails with `AlreadyExists` if something has the name.
    New,
}

/// The calls on directories.
pub trait Io: Debug + Send + Sync {
    /// Opens a regular file.
    ///
    /// # Errors
    /// `Unsupported` if the path names something else (a directory, a symbolic link, a pipe), and the system's error.
    fn open(&self, path: &Path, access: Access) -> io::Result<Box<dyn IoFile>>;

    /// Says whether anything has the name.
    ///
    /// # Errors
    /// The system's error.
    fn exists(&self, path: &Path) -> io::Result<bool>;

    /// Gives a file another name, in the same directory, replacing what had it.
    ///
    /// # Errors
    /// The system's error.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Does what [`rename`](Self::rename) does, for a name that nothing has.
    ///
    /// # Errors
    /// `AlreadyExists` if something has the name, and the system's error.
    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a name.
    ///
    /// # Errors
    /// The system's error.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Makes the names in the directory of `path` durable.
    ///
    /// # Errors
    /// The system's error.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;

    /// Returns sixteen random bytes, which no other pool has.
    ///
    /// # Errors
    /// The system's error.
    fn entropy(&self) -> io::Result<[u8; 16]>;
}

/// The calls on one open file.
pub trait IoFile: Debug + Send + Sync {
    /// Reads at `offset` until `buf` is full or the file ends; says how much it read.
    ///
    /// # Errors
    /// The system's error.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Reads at `offset` into one part after the other, until all are full or the file ends; says how much
    /// it read. The parts are anything afterwards.
    ///
    /// # Errors
    /// The system's error.
    fn read_parts_at(&self, parts: &mut [IoSliceMut<'_>], offset: u64) -> io::Result<usize> {
        let mut done = 0;
        for part in parts {
            let read = self.read_at(part, offset + done as u64)?;
            done += read;
            if read < part.len() {
                break;
            }
        }
        Ok(done)
    }

    /// Writes all bytes at `offset`. Durable only after [`sync_data`](Self::sync_data).
    ///
    /// # Errors
    /// The system's error; any part of the bytes may then have been written.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Sets the length in bytes. Durable only after [`sync_data`](Self::sync_data).
    ///
    /// # Errors
    /// The system's error.
    fn set_len(&self, bytes: u64) -> io::Result<()>;

    /// Gives these bytes room on the disk, so that no write to them can meet a full disk. They read as they do now, or as
    /// zeros behind the end of the file, which becomes longer for them. A crash may take the room away again.
    ///
    /// # Errors
    /// `Unsupported` if the system cannot do that, and the system's error. The file may be longer then.
    fn allocate(&self, range: Range<u64>) -> io::Result<()> {
        let _ = range;
        Err(ErrorKind::Unsupported.into())
    }

    /// Returns the length in bytes.
    ///
    /// # Errors
    /// The system's error.
    fn len(&self) -> io::Result<u64>;

    /// Says whether the file has no bytes.
    ///
    /// # Errors
    /// The system's error.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Makes everything written to this file durable, and its length.
    ///
    /// # Errors
    /// The system's error. Some of the bytes that were written may then be lost for good, so that a second call
    /// which succeeds proves nothing.
    fn sync_data(&self) -> io::Result<()>;

    /// Asks the system to forget these bytes in its cache, unless they still have to be written, so that they are
    /// read from the disk again. After a failed sync the two may differ. The range may go beyond the
    /// end of the file. It is rounded outwards to the system's pages at least. The system need not obey.
    ///
    /// # Errors
    /// The system's error.
    fn drop_cached(&self, range: Range<u64>) -> io::Result<()>;

    /// Locks the file against others until it is [unlocked](Self::unlock) or dropped: alone, or
    /// together with others who lock it `shared`. `false` if somebody else has it.
    ///
    /// # Errors
    /// The system's error.
    fn lock(&self, shared: bool) -> io::Result<bool>;

    /// Gives the lock back at once, even if a process that was forked meanwhile shares the file. It does nothing
    /// if the file is not locked. A drop does the same, except in a forked process, where it gives nothing back that is its
    /// parent's.
    ///
    /// # Errors
    /// The system's error.
    fn unlock(&self) -> io::Result<()>;

    /// Returns the descriptor of a file that can be mapped, if the operating system has one for it.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

/// The file beside `path` whose name ends in `suffix`.
pub(crate) fn sibling(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// The error of an open that failed: what is not a regular file is not a pool.
pub(crate) fn refused(path: &Path, e: io::Error) -> Error {
    if e.kind() == ErrorKind::Unsupported {
        return Error::Foreign { path: path.to_owned(), what: format!("it is {e}") };
    }
    Error::io(format!("opening {}", path.display()), e)
}

/// Locks a file, or says that somebody else has it.
pub(crate) fn take_lock(file: &dyn IoFile, path: &Path, shared: bool) -> Result<()> {
    match file.lock(shared) {
        Ok(true) => Ok(()),
        Ok(false) => Err(locked(file, path)),
        Err(e) => Err(Error::io(format!("locking {}", path.display()), e)),
    }
}

/// The error for a file that somebody has locked.
pub(crate) fn locked(file: &dyn IoFile, path: &Path) -> Error {
    Error::Locked { path: path.to_owned(), is_here: is_locked_here(file) }
}

/// Whether it is this process that has locked a file, as the system tells of each file that is open here. A fork has the
/// files of its parent open, with the parent's locks.
fn is_locked_here(file: &dyn IoFile) -> Option<bool> {
    let inode = rustix::fs::fstat(file.descriptor()?).ok()?.st_ino;
    let process = std::process::id().to_string();
    let is_it = |line: &str| {
        // lock: 1: FLOCK ADVISORY WRITE 4711 fe:00:10010830 0 EOF
        let words: Vec<_> = line.split_whitespace().collect();
        let [_, _, "FLOCK", _, _, holder, place, ..] = words[..] else { return false };
        let place = place.rsplit(':').next().and_then(|inode| inode.parse().ok());
        holder == process && place == Some(inode)
    };
    let mut open = std::fs::read_dir("/proc/self/fdinfo").ok()?.flatten();
    Some(open.any(|entry| {
        let told = std::fs::read_to_string(entry.path()).unwrap_or_default();
        told.lines().any(|line| line.starts_with("lock:") && is_it(line))
    }))
}
