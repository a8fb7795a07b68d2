//! The interface that the spine asks of a leaf.

use everleaf_pmem::{Geometry, Medium, Page, PageNo, Result};
use everleaf_pool::Pool;

use crate::ulog::{Log, Logs};

/// The result of a split.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    /// The lowest key of the new leaf.
    pub key: u64,
    /// Whether the pair that had no room is in the new leaf already.
    pub stored: bool,
}

/// The two pages of a split or of an unlinking. The caller has latched both.
#[derive(Clone, Copy)]
pub struct Neighbours<'m> {
    /// The leaf of the lower keys.
    pub left: Page<'m>,
    /// The leaf behind it.
    pub right: Page<'m>,
}

/// The new leaves in place of one that gives way to copies. The caller has latched all of them.
#[derive(Clone, Copy)]
pub struct Copies<'m> {
    /// The one of the lower keys, or of all.
    pub left: Page<'m>,
    /// The lowest key of the other one, and it.
    pub right: Option<(u64, Page<'m>)>,
}

/// How pairs lie in a leaf, and in which order a change of it becomes durable. Every function that changes a page is
/// called under its latch, and everything it stored is durable when it returns. Those that only read may race with a
/// writer; the caller validates the page's version after.
pub trait Leaf: Send + Sync + 'static {
    /// The name in tables.
    const NAME: &'static str;
    /// Whether splits and unlinkings need a micro-log.
    const LOGS: bool;
    /// Whether the inner nodes learn of a new leaf only after the write that made it was answered. Its log is not ended
    /// by [`split`](Self::split) then, but when they have learnt of it ([`late`](crate::late)).
    const LATE: bool = false;
    /// Whether a full leaf gives way to copies ([`copied`](crate::copied)), and is not [`split`](Self::split).
    const COPIED: bool = false;
    /// Whether the leaf has the bugs of its source. Remains of such a leaf are not called damage: keys that no
    /// search would find are left out.
    const PUBLISHED: bool;

    /// Whether leaves can have this shape.
    fn fits(geometry: Geometry) -> bool;

    /// Makes an empty leaf without a leaf behind it.
    fn build_empty<M: Medium>(m: &M, page: Page<'_>);

    /// Pairs in the leaf.
    fn count(page: Page<'_>) -> usize;

    /// The leaf behind it, 0 for none.
    fn next(page: Page<'_>) -> PageNo;

    /// Gives it another leaf behind it.
    fn set_next<M: Medium>(m: &M, page: Page<'_>, next: PageNo);

    /// The value of a key. O(capacity).
    fn find(page: Page<'_>, key: u64) -> Option<u64>;

    /// Visits the pairs in any order.
    fn for_each(page: Page<'_>, visit: impl FnMut(u64, u64));

    /// Stores the pair of a key that is not there. False if the leaf is full: nothing has changed then.
    fn insert<M: Medium>(m: &M, page: Page<'_>, key: u64, value: u64) -> bool;

    /// Gives a key that is there another value. False if the leaf has no room for that: nothing has changed then.
    fn update<M: Medium>(m: &M, page: Page<'_>, key: u64, value: u64) -> bool;

    /// Removes a key that is there.
    fn remove<M: Medium>(m: &M, page: Page<'_>, key: u64);

    /// Moves the upper half of a full leaf to a new page, whose map byte `publish` makes durable. `pair` had no room.
    fn split<M: Medium>(
        m: &M,
        log: Option<&Log<'_, M>>,
        halves: Neighbours<'_>,
        pair: (u64, u64),
        publish: impl FnOnce(),
    ) -> Cut;

    /// The key at which a full leaf that gives way to copies is cut in two, above the lowest key that it is for; `None`
    /// if one new leaf is enough.
    fn cut(_page: Page<'_>) -> Option<u64> {
        None
    }

    /// Copies a full leaf to new ones, with the leaf behind it behind them. They are durable when it returns, and
    /// nothing leads to them.
    fn copy_out<M: Medium>(_m: &M, _old: Page<'_>, _new: Copies<'_>) {
        unreachable!("no leaf of this kind gives way to copies")
    }

    /// Takes the right leaf, which holds one pair, out of the chain; `publish` frees its page.
    fn unlink<M: Medium>(
        m: &M,
        log: Option<&Log<'_, M>>,
        both: Neighbours<'_>,
        publish: impl FnOnce(),
    );

    /// Finishes what a crash has interrupted, by the logs. Says how many it has finished.
    ///
    /// # Errors
    /// Corrupt if a log names a page that is not there.
    fn finish<M: Medium>(_pool: &Pool<M>, _logs: &Logs) -> Result<u64> {
        Ok(0)
    }

    /// Mends a leaf of the chain after a crash.
    fn mend<M: Medium>(_m: &M, _page: Page<'_>) {}
}
