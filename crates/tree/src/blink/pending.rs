//! The merges that a tree still has to do.

use crate::kind::{Kind, OwnedKeyOf};

/// The merges of a tree that are still to be done. They are done one at a time: the anchor has room
/// for one announcement.
pub(super) struct PendingMerges<K: Kind> {
    /// Somebody is at it, and does what comes in meanwhile.
    pub busy: bool,
    /// Keys and levels of nodes to look at.
    pub places: Vec<(OwnedKeyOf<K>, u8)>,
}

impl<K: Kind> Default for PendingMerges<K> {
    fn default() -> Self {
        Self { busy: false, places: Vec::new() }
    }
}
