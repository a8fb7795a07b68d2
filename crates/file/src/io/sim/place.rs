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
