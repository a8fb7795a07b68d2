//! Places on a simulated disk.

use std::fmt;
use std::path::PathBuf;

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

/// A write that was a [`Lie`](super::Lie).
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
