//! How the trees report a damaged node.

use std::fmt::Display;

use everleaf_pmem::{Error, Page};

/// A damaged node, by its place in the pool.
pub(crate) fn damaged(page: Page<'_>, what: impl Display) -> Error {
    everleaf_pool::damaged(page, 0, what.to_string())
}
