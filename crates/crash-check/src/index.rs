//! What the conformance suite asks of an index: the tree crate's own interface.

pub use everleaf_tree::Index;
