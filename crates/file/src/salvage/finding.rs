//! What is found wrong with a pool.

use everleaf_pmem::error::Error;

/// Something that is not as it should be, by its place in the pool's file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Always `data`: the pool's only file.
    pub file: &'static str,
    /// Bytes from the start of the file.
    pub offset: u64,
    /// What was found.
    pub what: String,
}

impl Finding {
    pub(super) fn data(offset: u64, what: String) -> Self {
        Self { file: "data", offset, what }
    }

    /// What an error says; at `offset` if it names no place.
    pub(super) fn of(error: &Error, offset: u64) -> Self {
        match error {
            Error::Corrupt { offset, what, .. } => Self::data(*offset, what.clone()),
            other => Self::data(offset, other.to_string()),
        }
    }

    /// As the error that a live pool would have had.
    pub fn as_error(&self) -> Error {
        let Finding { file, offset, what } = self.clone();
        Error::Corrupt { file, offset, what }
    }
}
