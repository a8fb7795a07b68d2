//! NBTree on two threads, cut off anywhere: one is stopped before a flush of an insert that copies its leaf, and the other
//! one changes the next leaf and answers.

// Items that the lists alone need are not used here.
mod scripts {
    #[allow(dead_code)]
    pub mod lists;
    #[allow(dead_code)]
    pub mod meeting;
    pub mod ops;
}

use std::collections::BTreeMap;

use everleaf_crash_check::Coverage;
use everleaf_crash_check::Persistency::{Eadr, X86};
use everleaf_pmem::{Geometry, Medium};
use everleaf_rivals::{NbTree, Sound};
use scripts::lists::{Insert, Op, Remove};
use scripts::meeting::{Before, Meeting, Second, meet_in};

/// Three leaves of 3 pairs: 10 | 50 55 57 | 60 70 80.
const THREE: &[Op] = &[
    Insert(10),
    Insert(50),
    Insert(60),
    Insert(70), // 10 | 50 60 70
    Insert(80), // 10 | 50 | 60 70 80
    Insert(55),
    Insert(57),
];

fn open<M: Medium>(medium: M) -> NbTree<M, Sound> {
    NbTree::on(medium).expect("it opens")
}

/// Whether all pairs of the keys from 60 on are there, and those below that nobody changes.
fn has_all(found: &BTreeMap<u64, u64>, upper: &[u64]) -> bool {
    let above: Vec<u64> = found.range(60..).map(|(key, _)| *key).collect();
    above == upper
        && [10, 50, 55, 57].iter().all(|key| found.contains_key(key))
        && found.iter().all(|(key, value)| *value == !key)
}

/// A split of the leaf in the middle, whose link is that of the first leaf, and a change of the last leaf.
fn survives(second: Second, answer: Option<u64>, holds: fn(&BTreeMap<u64, u64>) -> bool) {
    let geometry = Geometry::new(4).expect("a power of two");
    for mode in [X86, Eadr] {
        let mut all = Coverage::default();
        for flush in 0..9 {
            let at = (Before::Flush, flush);
            let meeting = Meeting { before: THREE, first: Insert(52), at, second, answer, holds };
            let seen = meet_in(mode, geometry, &meeting, open, open);
            all += seen.unwrap_or_else(|failure| panic!("flush {flush}: {failure}"));
        }
        println!("{mode:?}: {all}");
        assert!(all.is_exhaustive() && all.images > 100, "{all}");
    }
}

#[test]
fn a_remove_beside_a_split_survives() {
    survives(Second::Change(Remove(70)), Some(!70), |found| has_all(found, &[60, 80]));
}

#[test]
fn an_update_beside_a_split_survives() {
    survives(Second::Change(Insert(80)), Some(!80), |found| has_all(found, &[60, 70, 80]));
}
