//! The bytes of a pool: superblocks, extents, the table of images, and how each is written and read.

pub(crate) mod ahead;
pub(crate) mod extents;
pub(crate) mod format;
pub(crate) mod image;
pub(crate) mod stream;
pub(crate) mod superblock;
pub(crate) mod table;
