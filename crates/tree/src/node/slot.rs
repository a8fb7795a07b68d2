//! The slots of a node.

use everleaf_pmem::Page;

use super::header::{RightBounds, Shape};

/// One slot's two words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slot {
    /// Unique in the node, has a void state.
    pub ident: u64,
    /// Any bits.
    pub payload: u64,
}

impl Slot {
    /// Reads physical slot `p`.
    #[inline(always)]
    pub fn read(page: Page<'_>, p: usize) -> Self {
        Self { ident: page.body(2 * p).load(), payload: page.body(2 * p + 1).load() }
    }
    /// The word that orders it among the slots of a node.
    #[inline(always)]
    pub fn key(self, shape: Shape) -> u64 {
        if shape.key_word() == 0 { self.ident } else { self.payload }
    }
}

/// A whole node: header and slots in order.
#[derive(Debug, Clone, Copy)]
pub struct Image<'a> {
    /// Level, kind of keys, prefix.
    pub shape: Shape,
    /// Inclusive lower bound: u64 key (0 = -infinity), or record of the low key (0 = -infinity).
    pub low: u64,
    /// Right-hand bounds.
    pub right: RightBounds,
    /// Slots in key order.
    pub slots: &'a [Slot],
}
