//! What is found wrong with a pool.

use everleaf_pmem::error::Error;

/// Something that is not as it should be, by its place in one of the pool's files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// `data`, `journal 0` or `journal 1`.
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

    /// As the error that a live pool would have had.
    pub fn as_error(&self) -> Error {
        self.into()
    }
}
