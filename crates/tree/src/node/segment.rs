//! Circ-Tree's own search (§5.1, Figure 3): linear, in one contiguous piece of the circle.
//!
//! ```text
//! last ≥ base          the run is in one piece: search it
//! else key ≥ A[0]      the piece at the node's start: its keys are greater than those at the end
//! else                 the piece from the base to the node's end
//! ```
//!
//! An empty node may have stale keys in `A[0]`, which the paper's search does not expect; here the
//! count answers before they are looked at.

use everleaf_pmem::Page;

use super::header::Run;
use super::probe::Probe;
use super::scan::count_while_le;

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
