//! Binary search over the logical order. No aid, nothing to maintain; what redo and recovery use
//! before a page's aid exists.

use everleaf_pmem::Page;

use super::header::Run;
use super::probe::Probe;

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
