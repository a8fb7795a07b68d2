//! Whether a pool was ever committed to is told by its blocks, not by its clock: epochs without
//! changes end, too, before the first block.

use std::sync::Arc;

use everleaf_file::File;
use everleaf_file::io::SimIo;

use crate::toy::{Toy, options, path};

/// A pool whose pages are not made as soon as it is open.
fn open(disk: &SimIo) -> Toy {
    Toy { file: File::open(Arc::new(disk.clone()), &path(), &options()).expect("a pool") }
}

/// How a pool passes for, in which the first block follows empty epochs, if the process dies before
/// call `at` (counted from the end of these) or the power does. `None` if there are fewer calls.
fn cut_in_first_commit(at: u64, seed: Option<u64>) -> Option<(bool, u64)> {
    let disk = SimIo::new(1);
    let toy = open(&disk);
    for _ in 0..5 {
        toy.file.sync().expect("nothing to write");
    }
    toy.set(&[(1, 1, 7)]).expect("set");
    disk.cut_at(disk.calls() + at, seed);
    toy.file.sync().expect("no fault");
    toy.abandon();
    let toy = open(&disk.take_cut()?);
    let fresh = toy.file.is_fresh();
    Some((fresh, if fresh { 0 } else { toy.get(1, 1).expect("readable") }))
}

#[test]
fn a_pool_that_died_in_its_first_commit_is_fresh_or_has_it() {
    let mut seen = [0, 0];
    for seed in std::iter::once(None).chain((0..20).map(Some)) {
        for at in 0.. {
            let Some((fresh, value)) = cut_in_first_commit(at, seed) else {
                assert!(at > 6, "two superblocks and the block, each synced, behind a sync");
                break;
            };
            assert_eq!(value, if fresh { 0 } else { 7 }, "cut before call {at}, seed {seed:?}");
            seen[usize::from(fresh)] += 1;
        }
    }
    assert!(seen.iter().all(|&n| n > 0), "{seen:?}");
}
