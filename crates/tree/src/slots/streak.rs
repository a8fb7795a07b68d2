//! Inserts in a row, each beside the one before it: by them a full node knows where it is best cut.
//!
//! ```text
//! mark 7   position behind the last insert | length of the streak << 16
//! ```
//!
//! A streak that comes to a full node will go on there. Halves would leave behind what nothing fills up again, so the
//! node is cut where the streak is: what the streak has filled stays full, wherever in the node and in the key space
//! it is. Random keys hardly ever make a streak, and their nodes are halved.
//!
//! The word is in the frame, so it costs no line and no flush. It is a hint: after an open it is zero, and one
//! more node is halved. It changes under the node's latch.

use std::sync::atomic::Ordering::Relaxed;

use everleaf_pmem::Page;

const MARK: usize = 7;
const POSITION: u64 = 0xffff;

/// So many inserts in a row are no chance: of random keys one in 10^8 that find a leaf of 32 slots is the last of them.
const LONG: u64 = 8;

/// The last inserts into a node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Streak {
    /// The position behind the last one.
    behind: usize,
    /// How many were beside the one before.
    length: u64,
}

impl Streak {
    #[inline(always)]
    pub fn of(page: Page<'_>) -> Self {
        let word = page.mark(MARK).load(Relaxed);
        Self { behind: (word & POSITION) as usize, length: word >> 16 }
    }

    #[inline(always)]
    pub fn keep(self, page: Page<'_>) {
        page.mark(MARK).store(self.behind as u64 | self.length << 16, Relaxed);
    }

    /// Whether an insert at `pos` is behind the last one, or before it.
    #[inline(always)]
    fn is_beside(self, pos: usize) -> bool {
        self.behind.wrapping_sub(pos) <= 1
    }

    /// An insert at `pos` of a node.
    #[inline(always)]
    pub fn goes_on(page: Page<'_>, pos: usize) {
        let last = Self::of(page);
        let length = if last.is_beside(pos) { last.length + 1 } else { 0 };
        Self { behind: pos + 1, length }.keep(page);
    }

    /// Whether an insert at `pos` is one more of many.
    pub fn is_long_at(self, pos: usize) -> bool {
        self.length >= LONG && self.is_beside(pos)
    }

    /// Gives the streak to the half of a split to which its next insert goes. The left half keeps `keep` of `count`
    /// entries; one that keeps all has no room for the insert, which then begins the right one.
    pub fn part(left: Page<'_>, right: Page<'_>, (keep, count): (usize, usize)) {
        let own = Self::of(left);
        let goes_right = own.behind > keep || keep == count;
        let (stays, goes) = match goes_right {
            true => (Self::default(), Self { behind: own.behind.saturating_sub(keep), ..own }),
            false => (own, Self::default()),
        };
        stays.keep(left);
        goes.keep(right);
    }
}
