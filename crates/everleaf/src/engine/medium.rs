//! Which trees the Db keeps on which medium.

use everleaf_file::{Dax, File};
use everleaf_pmem::Medium;
use everleaf_tree::blink::Blink;
use everleaf_tree::keys::Strings;
use everleaf_tree::kind::{Kind, NodeCopies, NodeStreams};
use everleaf_tree::node::{Circular, Sentinel};
use everleaf_tree::slotted::Slotted;

/// A medium of the Db.
pub(crate) trait DbMedium: Medium {
    /// The nodes of its trees.
    type Nodes: Kind + NodeCopies + NodeStreams;

    /// The pool's identity.
    fn identity(&self) -> [u8; 16];
}

/// On a file pairs live in their leaf: a journal makes each change whole.
impl DbMedium for File {
    type Nodes = Slotted;

    fn identity(&self) -> [u8; 16] {
        self.stats().uuid
    }
}

/// On persistent memory each store must leave a node that the next open can mend, so slots are of one
/// size and pairs are in records.
impl DbMedium for Dax {
    type Nodes = (Circular, Sentinel, Strings);

    fn identity(&self) -> [u8; 16] {
        self.uuid()
    }
}

/// A tree of byte strings on a medium of the Db.
pub(crate) type DbTree<M> = Blink<M, <M as DbMedium>::Nodes>;
