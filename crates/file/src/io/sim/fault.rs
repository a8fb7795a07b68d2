//! Calls that fail, writes that are lies, and the places where that happened.

use std::fmt;
use std::io::{self, ErrorKind};
use std::path::PathBuf;

/// A failure that strikes one call. One that does not fit the call does nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fault {
    /// Any call: an I/O error, without effect. The same call works when it is tried again.
    Io,
    /// A read or a write: an I/O error after a part is done.
    PartialIo,
    /// A read: an I/O error because of one of its sectors, which cannot be read until it is written
    /// over, also by the next process and after a power cut.
    BadSector,
    /// A write, a change of length or a new file: no space, after a part of the write is done.
    NoSpace,
    /// From this call on the disk is full: writes over bytes that have been written before, or for which
    /// room was taken, work, others do not, until [`SimIo::heal`](super::SimIo::heal).
    Full,
    /// A sync: an I/O error; half of what was to be synced is dropped, and the file then passes for
    /// clean, so that another sync succeeds and saves nothing.
    LostSync,
}

impl Fault {
    /// All of them.
    pub const ALL: [Fault; 6] = [
        Fault::Io,
        Fault::PartialIo,
        Fault::BadSector,
        Fault::NoSpace,
        Fault::Full,
        Fault::LostSync,
    ];
}

/// How the disk lies about a write. The write succeeds, and so does the sync after it. Memory
/// has the bytes until it [forgets](crate::io::IoFile::drop_cached) them, or the power is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Lie {
    /// Nothing of it reaches the disk. A file that was to grow grows, by zeros.
    Lost,
    /// Its sectors land elsewhere in the same file, over what is there, and its own place keeps what
    /// it had.
    Misdirected,
}

/// Faults that a disk has without being asked for one at a certain call. The default is none. The disk
/// after a cut has the weather of the one before.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Weather {
    /// Of so many attempts to read or write one is interrupted, or does a part only; 0: none.
    pub short: u32,
    /// Of so many calls one fails; 0: none.
    pub storm: u32,
    /// A call in a storm fails by one of these that fits it.
    pub faults: &'static [Fault],
    /// Whether a power cut sends one unsynced sector to a wrong place.
    pub misdirects: bool,
}

/// The calls, as far as faults tell them apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IoCall {
    Read,
    Write,
    /// A new file, or a new length.
    Room,
    Sync,
    Other,
}

impl Fault {
    pub(super) fn fits(self, call: IoCall) -> bool {
        match self {
            Fault::Io => true,
            Fault::PartialIo => matches!(call, IoCall::Read | IoCall::Write),
            Fault::BadSector => call == IoCall::Read,
            Fault::NoSpace | Fault::Full => matches!(call, IoCall::Write | IoCall::Room),
            Fault::LostSync => call == IoCall::Sync,
        }
    }
}

pub(super) fn eio() -> io::Error {
    io::Error::other("simulated I/O error")
}

pub(super) fn no_space() -> io::Error {
    ErrorKind::StorageFull.into()
}

/// A place on a simulated disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskPlace {
    /// The file's name.
    pub path: PathBuf,
    /// Bytes from the start of the file.
    pub offset: u64,
}

impl fmt::Display for DiskPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}", self.path.display(), self.offset)
    }
}

/// A sector of 512 bytes that was written to a wrong place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stray {
    /// Where it belonged; the bytes there are old.
    pub from: DiskPlace,
    /// Where it was written; the bytes there are gone.
    pub to: DiskPlace,
}

/// A write that was a [`Lie`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lied {
    /// Where the write belonged, from the start of its first sector; the bytes there are old.
    pub from: DiskPlace,
    /// The bytes of its sectors, as far as the file goes.
    pub bytes: u64,
    /// Where they landed: a multiple of 512 or 4096; `None` if nowhere. It may overlap their own
    /// place. The bytes there are gone as soon as a sync, or a power cut, has written them.
    pub to: Option<u64>,
}
