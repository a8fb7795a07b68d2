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
use std::io::{self, IoSliceMut};
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::path::Path;

mod memory;
pub mod real;
pub mod sim;
mod whole;

pub use memory::MemoryIo;
pub use real::RealIo;
pub use sim::{Fault, SimIo, Weather};
pub use whole::uninterrupted;

/// What a file is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Read only; the file must exist.
    Read,
    /// Read and write; the file must exist.
    Write,
    /// Read and write; the file is made. `AlreadyExists` if something has the name.
    New,
}

/// The calls on directories.
pub trait Io: Debug + Send + Sync {
    /// Opens a regular file.
    ///
    /// # Errors
    /// `Unsupported` if the path names something else (a directory, a symbolic link, a pipe), and
    /// what the system says.
    fn open(&self, path: &Path, access: Access) -> io::Result<Box<dyn IoFile>>;

    /// Whether the name is taken, by whatever.
    ///
    /// # Errors
    /// What the system says.
    fn exists(&self, path: &Path) -> io::Result<bool>;

    /// Gives a file another name, in the same directory, replacing what had it.
    ///
    /// # Errors
    /// What the system says.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// As [`rename`](Self::rename), for a name that nothing has: `AlreadyExists` if something does.
    ///
    /// # Errors
    /// That, and what the system says.
    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a name.
    ///
    /// # Errors
    /// What the system says.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Makes the names in the directory of `path` durable.
    ///
    /// # Errors
    /// What the system says.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;

    /// Sixteen bytes that no other pool has.
    ///
    /// # Errors
    /// What the system says.
    fn entropy(&self) -> io::Result<[u8; 16]>;
}

/// The calls on one open file.
pub trait IoFile: Debug + Send + Sync {
    /// Reads at `offset` until `buf` is full or the file ends; says how much it read.
    ///
    /// # Errors
    /// What the system says.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Reads at `offset` into one part after the other, until all are full or the file ends; says how much
    /// it read. The parts are anything afterwards.
    ///
    /// # Errors
    /// What the system says.
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
    /// What the system says; any part of the bytes may then have been written.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Sets the length in bytes. Durable only after [`sync_data`](Self::sync_data).
    ///
    /// # Errors
    /// What the system says.
    fn set_len(&self, bytes: u64) -> io::Result<()>;

    /// Sees to it that no write to these bytes can meet a full disk: they have room, and read as they do now,
    /// or as zeros behind the end of the file, which is made longer for them. After a crash that may be lost.
    ///
    /// # Errors
    /// `Unsupported` if the system cannot do that; and what it says. The file may be longer then.
    fn allocate(&self, range: Range<u64>) -> io::Result<()> {
        let _ = range;
        Err(io::ErrorKind::Unsupported.into())
    }

    /// The length in bytes.
    ///
    /// # Errors
    /// What the system says.
    fn len(&self) -> io::Result<u64>;

    /// Whether the file has no bytes.
    ///
    /// # Errors
    /// What the system says.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Makes everything written to this file durable, and its length.
    ///
    /// # Errors
    /// What the system says. Some of what was written is then lost for good, so that a second call
    /// which succeeds proves nothing.
    fn sync_data(&self) -> io::Result<()>;

    /// Forgets what memory holds of these bytes, unless it still has to be written, so that they are
    /// read from the disk again. After a failed sync the two may differ. The range may go beyond the
    /// end of the file. It is rounded outwards to what the system keeps as one, at least to its pages.
    /// Best effort.
    ///
    /// # Errors
    /// What the system says.
    fn drop_cached(&self, range: Range<u64>) -> io::Result<()>;

    /// Locks the file against others until it is [unlocked](Self::unlock) or dropped: alone, or
    /// together with others who lock it `shared`. `false` if somebody else has it.
    ///
    /// # Errors
    /// What the system says.
    fn lock(&self, shared: bool) -> io::Result<bool>;

    /// Gives the lock back at once, also if a process that was forked meanwhile shares the file. Nothing
    /// if the file is not locked. A drop does the same, but for one in a forked process, which gives
    /// nothing back that is its parent's.
    ///
    /// # Errors
    /// What the system says.
    fn unlock(&self) -> io::Result<()>;

    /// The descriptor, if the operating system has one for this file: what can be mapped.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}
