//! Sentinel Array (Sentinel Array §3): one key a cache line, so that a search touches few lines.
//!
//! ```text
//! S[l] = key of physical slot 4l if that slot is live, else u64::MAX
//! c    = number of S[l] ≤ k                     (counted by vectors in two steps: `simd.rs` of `everleaf-pmem`)
//! i    = logical position of the c-th of those slots; look at ≤ 3 slots behind it, in its line
//! ```
//!
//! How this departs from the paper: it walks S until a key is greater; in a circular node the base
//! line can hold both the smallest and the largest keys, so the physical order is not monotone
//! (docs/PAPERS.md, S3). But the *number* of sentinels ≤ k does not depend on where the base is,
//! hence counts replace the walk and both cases of wrap-around. Dead lines hold u64::MAX; a search for
//! u64::MAX itself does not ask them, since all live slots are up to it, so no key is reserved
//! (docs/PAPERS.md, S2). S lives in DRAM beside the pool and is rebuilt at first touch after open
//! (docs/PAPERS.md, S5).

use everleaf_pmem::{Page, Vectors, Word};

use crate::node::Run;
use crate::slots::probe::Probe;
use crate::slots::writer::PER_LINE;

/// One sentinel key a cache line, counted by vectors.
#[derive(Debug, Clone, Copy)]
pub struct Sentinel;

impl Probe for Sentinel {
    const STRIDE: usize = PER_LINE;
    const AID_BYTES: usize = 8 / PER_LINE;
    #[inline(always)]
    fn rank(page: Page<'_>, run: Run, key_word: usize, head: u64) -> usize {
        page.rank_in_ring(run.base, run.count, key_word, head)
    }
    #[inline(always)]
    fn last_words<'m>(
        page: Page<'m>,
        vectors: Vectors,
        key_word: usize,
        head: u64,
    ) -> Option<[Word<'m>; 2]> {
        page.last_in_ring(vectors, Run::word_of(page), key_word, head)
    }
    #[inline(always)]
    fn find_words<'m>(
        page: Page<'m>,
        vectors: Vectors,
        key_word: usize,
        head: u64,
    ) -> Option<[Word<'m>; 2]> {
        let words = page.last_in_ring(vectors, Run::word_of(page), key_word, head)?;
        (words[key_word & 1].load() == head).then_some(words)
    }
    #[inline(always)]
    fn prefetch_slots(page: Page<'_>, vectors: Vectors, head: u64) {
        page.prefetch_in_ring(vectors, Run::of(page).base, head);
    }
    #[inline(always)]
    fn moved(page: Page<'_>, first: usize, n: usize, key_word: usize) {
        page.set_sentinels(first, n, key_word);
    }
    #[inline(always)]
    fn stored(page: Page<'_>, p: usize, head: u64) {
        debug_assert!(p.is_multiple_of(PER_LINE) && p < page.slots());
        page.set_sentinel(p / PER_LINE, head);
    }
    #[inline(always)]
    fn cleared(page: Page<'_>, p: usize) {
        Self::stored(page, p, u64::MAX);
    }
    fn rebuild(page: Page<'_>, run: Run, key_word: usize) {
        page.clear_sentinels();
        let first = run.base.wrapping_neg() % PER_LINE;
        for pos in (first..run.count).step_by(PER_LINE) {
            let p = run.slot(page, pos);
            page.set_sentinel(p / PER_LINE, page.body(2 * p + key_word).load());
        }
    }
}
