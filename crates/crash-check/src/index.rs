//! The interface that the conformance suite asks of an index: the tree crate's own.

pub use everleaf_tree::Index;
