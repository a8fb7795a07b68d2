//! Sentinel Array (Sentinel Array §3): one key a cache line, so that a search touches few lines.
//!
//! ```text
//! S[l] = key of physical slot 4l if that slot is live, else u64::MAX
//! c    = number of S[l] ≤ k, at most the number of live slots among 4l      (one SIMD count)
//! i    = logical position of the c-th of those slots; look at ≤ 3 slots behind it, in its line
//! ```
//!
//! How this departs from the paper: it walks S until a key is greater; in a circular node the base
//! line can hold both the smallest and the largest keys, so the physical order is not monotone
//! (docs/PAPERS.md, S3). But the *number* of sentinels ≤ k does not depend on where the base is,
//! hence one count over the whole array replaces the walk and both cases of wrap-around. Dead lines
//! hold u64::MAX; a search for u64::MAX itself counts them too, which the bound by the number of
//! live sentinels undoes, so no key is reserved (docs/PAPERS.md, S2). S lives in DRAM beside the
//! pool and is rebuilt at first touch after open (docs/PAPERS.md, S5).

use everleaf_pmem::Page;

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
        let count = run.count.min(page.slots());
        // Logical position of the first slot that has a sentinel.
        let first = run.base.wrapping_neg() % PER_LINE;
        let live = if count > first { (count - first).div_ceil(PER_LINE) } else { 0 };
        let le = page.aids_le(head).min(live);
        let from = if le == 0 { 0 } else { first + PER_LINE * (le - 1) + 1 };
        let end = if le == 0 { first } else { from + PER_LINE - 1 }.min(count);
        // No branch on what the line holds: it has just been asked for, and a wrong guess would
        // wait for it to arrive.
        let mut pos = from;
        for i in 0..PER_LINE - 1 {
            let below = page.body(2 * run.slot(page, from + i) + key_word).load() <= head;
            pos += usize::from(below & (from + i < end));
        }
        pos
    }
    #[inline(always)]
    fn stored(page: Page<'_>, p: usize, head: u64) {
        debug_assert!(p.is_multiple_of(PER_LINE) && p < page.slots());
        page.set_aid(p / PER_LINE, head);
    }
    #[inline(always)]
    fn cleared(page: Page<'_>, p: usize) {
        Self::stored(page, p, u64::MAX);
    }
    fn rebuild(page: Page<'_>, run: Run, key_word: usize) {
        for i in 0..page.geometry().aid_words() {
            page.set_aid(i, u64::MAX);
        }
        let first = run.base.wrapping_neg() % PER_LINE;
        for pos in (first..run.count).step_by(PER_LINE) {
            let p = run.slot(page, pos);
            page.set_aid(p / PER_LINE, page.body(2 * p + key_word).load());
        }
    }
}
