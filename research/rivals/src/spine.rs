//! Inner nodes in DRAM over a chain of leaves in the pool: what FPTree, LB+-Tree and others have in common.
//!
//! The inner nodes are a [`CircTree`] on [`Dram`] from the lowest key of a leaf to its page, whatever tree the source
//! has there. That changes times and no count of flushes. They are a hint: a leaf knows in its frame which keys it is
//! for, a search that is led too far to the left moves right, and one that finds no leaf of its key begins again. The
//! sources use hardware transactions for their inner nodes; here readers read versions of latches instead.
//!
//! ```text
//! mark 1 low | mark 2 high | mark 3 live, high is +infinity        of a leaf's frame
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use everleaf_pmem::{Dram, Geometry, Medium, Page, PageNo, Result, Seen, Version};
use everleaf_pool::{CATALOG_ANCHOR, Pool, change::damaged};
use everleaf_tree::CircTree;
use everleaf_tree::blink::Condition;

use crate::leaf::Leaf;

const LOW_MARK: usize = 1;
const HIGH_MARK: usize = 2;
const STATE_MARK: usize = 3;
const LIVE: u64 = 1;
const HIGHEST: u64 = 2;

/// Slots of inner nodes: 4 KiB, or 512 B in pools of few pages.
const INNER_SLOTS: u32 = 256;
const INNER_SLOTS_OF_SMALL: u32 = 32;
/// Pages of a small pool, at most.
const SMALL_POOL: PageNo = 4096;
/// More moves to the right than any tree needs.
const HOPS_MAX: u32 = 1 << 28;

/// The keys that a leaf is for: `low` up to and without `high`; `None` is +infinity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeafRange {
    /// The lowest key.
    pub low: u64,
    /// The lowest key of the leaf to the right.
    pub high: Option<u64>,
}

impl LeafRange {
    /// Whether the key belongs to a leaf further right.
    pub fn ends_before(self, key: u64) -> bool {
        self.high.is_some_and(|high| high <= key)
    }
}

/// The range of a page, or `None` if it is no leaf that can be reached (any more).
pub fn range(page: Page<'_>) -> Option<LeafRange> {
    let state = page.mark(STATE_MARK).load(Ordering::Acquire);
    let low = page.mark(LOW_MARK).load(Ordering::Acquire);
    let high = page.mark(HIGH_MARK).load(Ordering::Acquire);
    (state & LIVE != 0).then_some(LeafRange { low, high: (state & HIGHEST == 0).then_some(high) })
}

/// Gives a leaf its range, under its latch.
pub fn set_range(page: Page<'_>, range: LeafRange) {
    debug_assert!(page.latch().is_held(), "page {} changes without its latch", page.no());
    page.mark(LOW_MARK).store(range.low, Ordering::Release);
    page.mark(HIGH_MARK).store(range.high.unwrap_or(0), Ordering::Release);
    let state = if range.high.is_some() { LIVE } else { LIVE | HIGHEST };
    page.mark(STATE_MARK).store(state, Ordering::Release);
}

/// Says that nothing leads to the page any more, under its latch.
pub fn set_dead(page: Page<'_>) {
    debug_assert!(page.latch().is_held(), "page {} changes without its latch", page.no());
    page.mark(STATE_MARK).store(0, Ordering::Release);
}

/// A leaf that was for the key when it had this version.
pub struct Found<'m> {
    /// The leaf.
    pub page: Page<'m>,
    /// Its version then.
    pub version: Version,
    /// The keys that it was for.
    pub range: LeafRange,
}

/// The inner nodes.
pub struct Spine {
    inner: CircTree<Dram>,
    /// The first leaf, which stays, unless leaves give way to copies.
    head: AtomicU32,
}

impl Spine {
    /// Its pages.
    pub fn pool(&self) -> &Arc<Pool<Dram>> {
        self.inner.pool()
    }

    /// Inner nodes without an entry, with room for as many leaves as the pool has pages.
    ///
    /// # Errors
    /// Those of memory that cannot be reserved.
    pub fn new<M: Medium>(pool: &Pool<M>, head: PageNo) -> Result<Self> {
        let limit = pool.medium().limit();
        let slots = if limit > SMALL_POOL { INNER_SLOTS } else { INNER_SLOTS_OF_SMALL };
        let geometry = Geometry::new(slots).expect("a power of two");
        let pages = u64::from(limit) * 4 / u64::from(slots) + 64;
        let memory = Dram::new(geometry, pages.min(u64::from(PageNo::MAX)) as PageNo)?;
        let inner = CircTree::create(Arc::new(CircTree::format_pool(memory)?), CATALOG_ANCHOR)?;
        Ok(Self { inner, head: AtomicU32::new(head) })
    }

    /// The first leaf of the chain.
    pub fn head(&self) -> PageNo {
        self.head.load(Ordering::Acquire)
    }

    /// Says that the chain begins with another leaf.
    pub fn set_head(&self, head: PageNo) {
        self.head.store(head, Ordering::Release);
    }

    /// Leads searches of keys from `low` on to a leaf. If it fails the leaf is found all the same, by a move to the
    /// right more.
    pub fn enter(&self, low: u64, leaf: PageNo) {
        let _ = self.inner.put(&low, &u64::from(leaf), Condition::Always);
    }

    /// Forgets the leaf that begins with `low`.
    pub fn forget(&self, low: u64) {
        let _ = self.inner.remove(&low);
    }

    /// The leaf of a key, or `None` if it is changing place just now. Latches nothing, and waits for a writer that is
    /// inside a leaf. O(log leaves).
    ///
    /// # Errors
    /// Corrupt.
    pub fn leaf<'m, M: Medium, L: Leaf>(&self, m: &'m M, key: u64) -> Result<Option<Found<'m>>> {
        let mut no = match self.inner.floor(&key)? {
            Some((_, leaf)) => leaf as PageNo,
            None => self.head(),
        };
        for _ in 0..HOPS_MAX {
            let Some(found) = look(m.page(no)?) else { return Ok(None) };
            if !found.range.ends_before(key) {
                return Ok((found.range.low <= key).then_some(found));
            }
            let right = L::next(found.page);
            if !found.page.latch().validate(found.version) {
                return Ok(None);
            }
            if right == 0 {
                return Err(damaged(found.page, 0, "keys end, but the chain does not"));
            }
            no = right;
        }
        Err(damaged(m.page(no)?, 0, "the leaves form a cycle"))
    }
}

/// A page as a leaf; `None` if it is none now.
pub fn look(page: Page<'_>) -> Option<Found<'_>> {
    page.prefetch(0);
    let Seen::Ready(version) = page.latch().read_version() else { return None };
    let range = range(page);
    if !page.latch().validate(version) {
        return None;
    }
    range.map(|range| Found { page, version, range })
}
