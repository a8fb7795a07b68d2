//! Fingerprints (FPTree's, as Sentinel Array §4 adds them to sorted nodes): one byte of a hash for
//! each slot, all compared at once by vectors.
//!
//! ```text
//! F[p] = hash(key of physical slot p), one byte
//! find(k): for each p with F[p] = hash(k): live, and its key is k? found
//! ```
//!
//! A fingerprint finds a key that is there; it cannot say where a missing one would be. So an
//! insert and the way down through inner nodes use binary search. Like all probes they live in DRAM,
//! are never flushed, and are built at a node's first touch. A dead slot may match; hence the check.

use everleaf_pmem::Page;

use crate::node::Run;
use crate::slots::probe::{Binary, Probe};

/// One hash byte a slot, matched by vectors.
#[derive(Debug, Clone, Copy)]
pub struct Fingerprint;

/// The upper byte of a multiplicative hash: neighbouring keys differ.
#[inline(always)]
pub(crate) fn hash(key: u64) -> u8 {
    (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

impl Probe for Fingerprint {
    const STRIDE: usize = 1;
    const AID_BYTES: usize = 1;
    fn rank(page: Page<'_>, run: Run, key_word: usize, head: u64) -> usize {
        Binary::rank(page, run, key_word, head)
    }
    #[inline(always)]
    fn find(page: Page<'_>, run: Run, key_word: usize, head: u64) -> Option<usize> {
        let (slots, wanted) = (page.slots(), hash(head));
        for block in 0..slots.div_ceil(64) {
            let mut matches = page.aid_bytes_eq(block, wanted);
            while matches != 0 {
                let p = 64 * block + matches.trailing_zeros() as usize;
                matches &= matches - 1;
                let pos = p.wrapping_sub(run.base) & (slots - 1);
                if p < slots && pos < run.count && page.body(2 * p + key_word).load() == head {
                    return Some(pos);
                }
            }
        }
        None
    }
    #[inline(always)]
    fn stored(page: Page<'_>, p: usize, head: u64) {
        debug_assert!(p < page.slots());
        page.set_aid_byte(p, hash(head));
    }
    fn rebuild(page: Page<'_>, run: Run, key_word: usize) {
        for pos in 0..run.count {
            let p = run.slot(page, pos);
            Self::stored(page, p, page.body(2 * p + key_word).load());
        }
    }
}
