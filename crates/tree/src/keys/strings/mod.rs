//! Byte-string keys and values in records, in byte order (docs/PAPERS.md, *Byte strings in order*).
//!
//! ```text
//! slot     identity = where << 16 | key bytes p+8, p+9         payload = key bytes p … p+7 (the head)
//! where    leaf: the record of key and value; inner node: the child, whose lower bound is the key
//! p        bytes that the node's bounds share, and so all its keys; fixed when the node is made
//! ```
//!
//! Heads are big-endian and zero-padded, so comparing them as numbers is comparing bytes; where
//! head and the two bytes are equal the record decides, by length too ("a" < "a\0"). A search
//! therefore touches one record, the one that it looks for, unless keys agree in ten bytes after
//! the prefix. Each node owns the records of its bounds; inner entries own none, since a node's
//! lower bound never changes and is the separator in its parent.

mod bounds;
mod inspect;
mod order;
mod record;
mod slot;
mod values;

pub use slot::Strings;
