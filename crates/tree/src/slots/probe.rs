//! Which slots a search looks at, and the three probes without an aid.
//!
//! [`Binary`] searches over the logical order. It has nothing to maintain, so redo and recovery use it before a
//! page's aid exists.
//!
//! [`Scan`] is a linear search from the base: FAST+FAIR's in a linear node, `Circ-Tree_ls`'s in a circular one
//! (Circ-Tree §6.1; Sentinel Array §4 compares with it). Touches half of a node's lines on average.
//!
//! [`Segment`] is Circ-Tree's own search (§5.1, Figure 3): linear, in one contiguous piece of the circle.
//!
//! ```text
//! last ≥ base          the run is in one piece: search it
//! else key ≥ A[0]      the piece at the node's start: its keys are greater than those at the end
//! else                 the piece from the base to the node's end
//! ```
//!
//! An empty node may have stale keys in `A[0]`, which the paper's search does not expect; here the
//! count answers before they are looked at.

use everleaf_pmem::{Page, Vectors, Word};

use crate::node::Run;

/// Which slots a search looks at. A probe is volatile: rebuilt at first touch, never flushed.
pub trait Probe: Send + Sync + 'static {
    /// The aid keeps something for each physical slot whose number is a multiple of this; 0: for
    /// none, there is no aid.
    const STRIDE: usize;
    /// Bytes of the aid for each slot that a search may read; 0: there is no aid.
    const AID_BYTES: usize = 0;
    /// How many live slots have a key word ≤ `head`. Under a race the answer may be anything up to
    /// the count; the reader validates the latch afterwards.
    fn rank(page: Page<'_>, run: Run, key_word: usize, head: u64) -> usize;
    /// The logical position of the live slot whose key word is `head`, in nodes where that is
    /// unique. Under a race as [`rank`](Self::rank).
    #[inline(always)]
    fn find(page: Page<'_>, run: Run, key_word: usize, head: u64) -> Option<usize> {
        let last = Self::rank(page, run, key_word, head).checked_sub(1)?;
        (page.body(2 * run.slot(page, last) + key_word).load() == head).then_some(last)
    }
    /// The words of the last live slot whose key word is ≤ `head`. Under a race those of any slot.
    #[inline(always)]
    fn last_words<'m>(
        page: Page<'m>,
        _: Vectors,
        key_word: usize,
        head: u64,
    ) -> Option<[Word<'m>; 2]> {
        let run = Run::of(page);
        let last = Self::rank(page, run, key_word, head).checked_sub(1)?;
        Some(words_at(page, run.slot(page, last)))
    }
    /// The words of the live slot whose key word is `head`, as [`find`](Self::find).
    #[inline(always)]
    fn find_words<'m>(
        page: Page<'m>,
        _: Vectors,
        key_word: usize,
        head: u64,
    ) -> Option<[Word<'m>; 2]> {
        let run = Run::of(page);
        let pos = Self::find(page, run, key_word, head)?;
        Some(words_at(page, run.slot(page, pos)))
    }
    /// Asks the processor for what a search for `head` reads of the slots.
    #[inline(always)]
    fn prefetch_slots(_page: Page<'_>, _: Vectors, _head: u64) {}
    /// The `n` slots from physical slot `first` on, modulo the node, were moved there.
    #[inline(always)]
    fn moved(page: Page<'_>, first: usize, n: usize, key_word: usize) {
        let mut i = first.wrapping_neg() % Self::STRIDE;
        while i < n {
            let p = (first + i) & (page.slots() - 1);
            Self::stored(page, p, page.body(2 * p + key_word).load());
            i += Self::STRIDE;
        }
    }
    /// Physical slot `p`, a multiple of the stride, now holds `head`.
    fn stored(_page: Page<'_>, _p: usize, _head: u64) {}
    /// Physical slot `p`, a multiple of the stride, is no longer live.
    fn cleared(_page: Page<'_>, _p: usize) {}
    /// Builds the aid from the slots.
    fn rebuild(_page: Page<'_>, _run: Run, _key_word: usize) {}
}

/// Both words of a physical slot.
#[inline(always)]
fn words_at(page: Page<'_>, slot: usize) -> [Word<'_>; 2] {
    [page.body(2 * slot), page.body(2 * slot + 1)]
}

/// Binary search without an aid.
#[derive(Debug, Clone, Copy)]
pub struct Binary;

impl Probe for Binary {
    const STRIDE: usize = 0;
    fn rank(page: Page<'_>, run: Run, key_word: usize, head: u64) -> usize {
        let (mut low, mut high) = (0, run.count.min(page.slots()));
        while low < high {
            let mid = (low + high) / 2;
            if page.body(2 * run.slot(page, mid) + key_word).load() <= head {
                low = mid + 1;
            } else {
                high = mid;
            }
        }
        low
    }
}

/// Linear search from the smallest key on.
#[derive(Debug, Clone, Copy)]
pub struct Scan;

/// Counts the slots with key words ≤ `head` from physical slot `from` on, `n` at most, none of them
/// behind the end of the node.
#[inline(always)]
pub(super) fn count_while_le(
    page: Page<'_>,
    from: usize,
    n: usize,
    key_word: usize,
    head: u64,
) -> usize {
    (0..n).take_while(|i| page.body(2 * (from + i) + key_word).load() <= head).count()
}

impl Probe for Scan {
    const STRIDE: usize = 0;
    fn rank(page: Page<'_>, run: Run, key_word: usize, head: u64) -> usize {
        let count = run.count.min(page.slots());
        // Up to the end of the node, and then, if all of that is smaller, from its start.
        let first = count.min(page.slots() - run.base);
        let found = count_while_le(page, run.base, first, key_word, head);
        if found < first {
            return found;
        }
        first + count_while_le(page, 0, count - first, key_word, head)
    }
}

/// Linear search in the contiguous piece that a key must be in.
#[derive(Debug, Clone, Copy)]
pub struct Segment;

impl Probe for Segment {
    const STRIDE: usize = 0;
    fn rank(page: Page<'_>, run: Run, key_word: usize, head: u64) -> usize {
        let count = run.count.min(page.slots());
        let at_end = count.min(page.slots() - run.base);
        let wrapped = count - at_end;
        if wrapped > 0 && page.body(key_word).load() <= head {
            at_end + count_while_le(page, 0, wrapped, key_word, head)
        } else {
            count_while_le(page, run.base, at_end, key_word, head)
        }
    }
}
