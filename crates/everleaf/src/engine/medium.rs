//! Which trees the Db keeps on which medium.

use everleaf_file::{File, Share};
use everleaf_pmem::{Medium, PageNo};
use everleaf_pool::Pool;
use everleaf_tree::blink::Blink;
use everleaf_tree::node::{Kind, NodeBytes};
use everleaf_tree::slotted::Slotted;

use crate::{Options, Result};

/// A medium of the Db.
pub(crate) trait DbMedium: Medium {
    /// The nodes of its trees.
    type Nodes: Kind + NodeBytes;

    /// The pool's identity.
    fn identity(&self) -> [u8; 16];

    /// The memory that the old values of a pool count in: the one that these options name, or that the medium has by them.
    fn share_memory(&self, options: &Options) -> Share;

    /// A tree is opened that this process has not used yet: the medium is to know how many pairs it has, if
    /// it does not anyway. `is_new` if it was just made.
    ///
    /// # Errors
    /// Those of a read; NoMemory.
    fn begin_count(_pool: &Pool<Self>, _anchor: PageNo, _is_new: bool) -> Result<()>
    where
        Self: Sized,
    {
        Ok(())
    }

    /// The medium is to know that a tree, which nobody changes now, has so many pairs.
    ///
    /// # Errors
    /// NoMemory.
    fn know_count(&self, _anchor: PageNo, _pairs: u64) -> Result<()> {
        Ok(())
    }
}

/// On a file pairs live in their leaf: a journal makes each change whole.
impl DbMedium for File {
    type Nodes = Slotted;

    fn identity(&self) -> [u8; 16] {
        self.stats().uuid
    }

    fn share_memory(&self, _: &Options) -> Share {
        self.share_memory()
    }
}

/// Runs the same code on either medium, of an enum with a variant for each: in one of its methods. In a build without the
/// feature `dax` there is one medium, and no code for the other one.
#[collapse_debuginfo(yes)]
macro_rules! on_medium {
    ($value:expr, $on:ident => $body:expr) => {
        match $value {
            Self::File($on) => $body,
            #[cfg(feature = "dax")]
            Self::Dax($on) => $body,
        }
    };
}

pub(super) use on_medium;

/// A tree of byte strings on a medium of the Db.
pub(crate) type DbTree<M> = Blink<M, <M as DbMedium>::Nodes>;
