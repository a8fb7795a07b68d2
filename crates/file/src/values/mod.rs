//! Values that are too long for a node: segments, their reads, and bulk writes.

pub(crate) mod bulk;
pub(crate) mod segment_reads;
pub(crate) mod segments;
