//! A lock-free reader beside a merge of the last two leaves, or of two of which the left one is empty,
//! stopped in every combination of two
//! places in the writer and one in the reader. The leaf that loses its sibling then has no upper
//! bound; what is read of its header in two pieces must not lead a reader astray.

use std::sync::Arc;

use everleaf_pmem::{Geometry, Sim};
use everleaf_tree::{FastFair, INDEX_ANCHOR, Index, Reading};

use crate::turns::beside;

/// A tree whose last leaf but one merges with the last one when a key goes, or with the one before it
/// if that is empty, and a reader of the key beside it. `taken`
/// pages have other owners, so that the leaves lie in the first group of pages or in the second:
/// the step that frees a page latches the map page of its group. Answers the accesses of both.
fn merge_beside_reader(taken: u32, empty: bool, stops: [usize; 3]) -> (usize, usize) {
    let sim = Sim::new(Geometry::new(4).expect("valid"), 200).expect("memory");
    let pool = Arc::new(FastFair::format_pool(sim).expect("formats"));
    let tree = FastFair::create(Arc::clone(&pool), INDEX_ANCHOR).expect("space");
    (0..taken).for_each(|_| {
        FastFair::<Sim>::new_anchor(&pool).expect("space");
    });
    let first = 1 << 63;
    for i in 0..4 {
        tree.insert(first + i, i).expect("space");
    }
    // A full first leaf takes nothing in.
    (0..if empty { 0 } else { 3 }).for_each(|i| {
        tree.insert(i, i).expect("space");
    });
    let tree = tree.reading(Reading::LockFree).expect("linear nodes");
    beside(
        stops,
        || assert_eq!(Index::remove(&tree, first).expect("memory"), Some(0)),
        || assert_eq!(Index::get(&tree, first + 1).expect("no damage"), Some(1), "{stops:?}"),
    )
}

/// Answers how many runs there were.
fn stop_everywhere(taken: u32, empty: bool, step: usize) -> u64 {
    let (writes, reads) = merge_beside_reader(taken, empty, [usize::MAX; 3]);
    let mut runs = 0;
    for first in 8..34.min(writes) {
        for second in first + 1..(first + 10).min(writes) {
            for read in (1..reads + 90).step_by(step) {
                merge_beside_reader(taken, empty, [first, second, read]);
                runs += 1;
            }
        }
    }
    println!("{runs} runs, {writes} accesses of the writer that are no reads, {reads} reads");
    runs
}

#[test]
fn a_reader_beside_a_merge_finds_its_key() {
    for (taken, empty, step, least) in
        [(70, false, 1, 10_000), (0, false, 1, 10_000), (0, true, 3, 3000)]
    {
        let runs = stop_everywhere(taken, empty, step);
        assert!(runs > least, "{runs}");
    }
}
