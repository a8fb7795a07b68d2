//! Values of byte strings that come piece by piece.

use everleaf_pmem::Medium;
use everleaf_pool::Large;

use super::writes::NodeWrites;

/// How a value that was written before its step began gets into a leaf.
pub trait NodeStreams: NodeWrites<Key = [u8], Input = [u8]> {
    /// What a put of a large pair has prepared. The put need not have the value any more: nothing of it
    /// goes into the leaf.
    fn prepared<M: Medium>(large: Large<'_, M>) -> Self::Prepared<'_, M>;
}
