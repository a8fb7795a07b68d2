//! The word that leads from one node to the next.

use everleaf_pmem::{HEAD_WORDS, PageNo};

use crate::cells::Cell;

/// Words of a node.
pub const NODE_WORDS: usize = 4;
/// Word of a node's key.
pub const KEY: usize = 0;
/// Word of its value.
pub const VALUE: usize = 1;
/// Word of its link.
pub const LINK: usize = 2;
/// Word of how high it is entered above.
pub const HEIGHT: usize = 3;
/// Header word of the anchor that has the link to the first node.
const FIRST_WORD: usize = 2;

const MARKED: u64 = 1;
const DIRTY: u64 = 2;

/// A link as it is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link(pub u64);

impl Link {
    /// A link to a node.
    pub fn to(cell: Cell) -> Self {
        Self(u64::from(cell.page) << 32 | u64::from(cell.at) << 2)
    }
    /// The node that it leads to; no page of cells has the number 0.
    #[inline(always)]
    pub fn node(self) -> Option<Cell> {
        let page = (self.0 >> 32) as PageNo;
        (page != 0).then_some(Cell { page, at: (self.0 >> 2) as u16 })
    }
    /// Whether the node that has this link is removed.
    #[inline(always)]
    pub fn is_marked(self) -> bool {
        self.0 & MARKED != 0
    }
    /// Says that the node that has this link is removed.
    pub fn marked(self) -> Self {
        Self(self.0 | MARKED)
    }
    /// The same way, in a node that is not removed.
    pub fn unmarked(self) -> Self {
        Self(self.0 & !MARKED)
    }
    /// Whether it may not be durable yet.
    #[inline(always)]
    pub fn is_dirty(self) -> bool {
        self.0 & DIRTY != 0
    }
    /// Says that it may not be durable yet.
    pub fn dirty(self) -> Self {
        Self(self.0 | DIRTY)
    }
    /// Says that it is durable.
    pub fn clean(self) -> Self {
        Self(self.0 & !DIRTY)
    }
}

/// Where a link is: in a node, or in the anchor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    pub page: PageNo,
    /// Index of the word in its page, the header first.
    pub word: usize,
}

impl Place {
    pub fn of_node(cell: Cell) -> Self {
        Self { page: cell.page, word: HEAD_WORDS + NODE_WORDS * usize::from(cell.at) + LINK }
    }
    /// The node that a link is in; `None` for the anchor's.
    pub fn node(self) -> Option<Cell> {
        let at = self.word.checked_sub(HEAD_WORDS)? / NODE_WORDS;
        Some(Cell { page: self.page, at: at as u16 })
    }
    pub fn of_anchor(page: PageNo) -> Self {
        Self { page, word: FIRST_WORD }
    }
}
