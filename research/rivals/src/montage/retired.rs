//! Payloads on their way to be used again.

use crate::cells::Cell;

/// A payload that the tree does not lead to any more.
#[derive(Debug, Clone, Copy)]
pub struct Retired {
    /// Since this epoch.
    pub epoch: u64,
    pub cell: Cell,
    pub stage: Stage,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Stage {
    /// A pair, which must become none.
    Pair,
    /// An anti-payload, as long as older payloads of its number may be pairs.
    Anti,
    /// One whose older payloads are none, but maybe not durably.
    AntiLast,
}
