//! Sentinel Array's search as printed (Sentinel Array §3, Algorithm 1): sentinels of leaves, walked one after the other
//! until one is greater. [`Sentinel`] is ours, which counts all of them by vectors, in inner nodes too.
//!
//! ```text
//! S[l] = key of physical slot 4l if that slot is live, else u64::MAX, by the order of lines (ours has another one)
//! from the first line of the run on, in order of keys: is S[l] > k? then stop
//! look at the slots from the last line whose sentinel is ≤ k on, until a key is greater
//! ```
//!
//! [`InLeaves`] confines an aid to leaves: inner nodes are searched from the base, as the paper's are. It does the same for
//! fingerprints, which the paper compares with.
//!
//! How this departs from the paper: the walk begins at the first line of the run, so that in a circle sentinels ascend
//! (docs/PAPERS.md, S3), and is bounded by the run (S2). The array is in the page's frame, in DRAM, as ours is: where it
//! lies changes no count, since it has its own lines in the paper's node, too.

use std::marker::PhantomData;

use everleaf_pmem::Page;

use crate::node::Run;
use crate::slots::fingerprint::Fingerprint;
use crate::slots::probe::{Probe, Scan};
use crate::slots::sentinel::Sentinel;
use crate::slots::writer::PER_LINE;

/// One sentinel key a cache line, walked until one is greater: [`SentinelWalk`] has it in leaves.
#[derive(Debug, Clone, Copy)]
pub struct Walk;

/// An aid of leaves alone: inner nodes are searched from the base on.
#[derive(Debug, Clone, Copy)]
pub struct InLeaves<P>(PhantomData<P>);

/// The Sentinel Array as printed.
pub type SentinelWalk = InLeaves<Walk>;

/// Fingerprints as Sentinel Array §4 has them: inner nodes are searched from the base on.
pub type FingerprintInLeaves = InLeaves<Fingerprint>;

impl Probe for Walk {
    const STRIDE: usize = Sentinel::STRIDE;
    const AID_BYTES: usize = Sentinel::AID_BYTES;
    #[inline(always)]
    fn rank(page: Page<'_>, run: Run, key_word: usize, head: u64) -> usize {
        let count = run.count.min(page.slots());
        // Logical position of the first slot that has a sentinel, and of the line to begin with.
        let first = run.base.wrapping_neg() % PER_LINE;
        let sentinels = (first..count).step_by(PER_LINE);
        let le =
            sentinels.take_while(|pos| page.aid(run.slot(page, *pos) / PER_LINE) <= head).count();
        let from = if le == 0 { 0 } else { first + PER_LINE * (le - 1) };
        let key = |pos: &usize| page.body(2 * run.slot(page, *pos) + key_word).load();
        let end = if le == 0 { first.min(count) } else { count.min(from + PER_LINE) };
        from + (from..end).take_while(|pos| key(pos) <= head).count()
    }
    #[inline(always)]
    fn stored(page: Page<'_>, p: usize, head: u64) {
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
            Self::stored(page, p, page.body(2 * p + key_word).load());
        }
    }
}

impl<P: Probe> Probe for InLeaves<P> {
    const STRIDE: usize = P::STRIDE;
    const AID_BYTES: usize = P::AID_BYTES;
    #[inline(always)]
    fn rank(page: Page<'_>, run: Run, key_word: usize, head: u64) -> usize {
        // Keys of words are identities in leaves, and payloads in inner nodes.
        if key_word == 0 {
            P::rank(page, run, key_word, head)
        } else {
            Scan::rank(page, run, key_word, head)
        }
    }
    #[inline(always)]
    fn find(page: Page<'_>, run: Run, key_word: usize, head: u64) -> Option<usize> {
        if key_word == 0 {
            P::find(page, run, key_word, head)
        } else {
            Scan::find(page, run, key_word, head)
        }
    }
    #[inline(always)]
    fn stored(page: Page<'_>, p: usize, head: u64) {
        P::stored(page, p, head);
    }
    #[inline(always)]
    fn cleared(page: Page<'_>, p: usize) {
        P::cleared(page, p);
    }
    fn rebuild(page: Page<'_>, run: Run, key_word: usize) {
        P::rebuild(page, run, key_word);
    }
}
