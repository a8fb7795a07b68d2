//! The only place that matches a name to a type.

use crate::blink::Blink;
use crate::keys::{Strings, Words};
use crate::node::{Circular, Scan, Sentinel};

/// Circ-Tree with sentinels: u64 → u64 on any medium.
pub type CircTree<M> = Blink<M, Circular, Sentinel, Words>;

/// Circ-Tree with binary search in the node.
pub type CircTreeBinary<M> = Blink<M, Circular, Scan, Words>;

/// The Db's tree: byte strings in records, circular nodes, sentinels over heads. Crash-safe on media
/// with a journal; on others it lives as long as memory does.
pub type StringTree<M> = Blink<M, Circular, Sentinel, Strings>;
