//! Which slots a search looks at.

use everleaf_pmem::Page;

use super::header::Run;

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
    /// Physical slot `p`, a multiple of the stride, now holds `head`.
    fn stored(_page: Page<'_>, _p: usize, _head: u64) {}
    /// Physical slot `p`, a multiple of the stride, is no longer live.
    fn cleared(_page: Page<'_>, _p: usize) {}
    /// Builds the aid from the slots.
    fn rebuild(_page: Page<'_>, _run: Run, _key_word: usize) {}
}
