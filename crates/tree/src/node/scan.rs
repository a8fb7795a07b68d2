//! Linear search from the base: FAST+FAIR's in a linear node, `Circ-Tree_ls`'s in a circular one
//! (Circ-Tree §6.1; Sentinel Array §4 compares with it). Touches half of a node's lines on average.

use everleaf_pmem::Page;

use super::header::Run;
use super::probe::Probe;

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
