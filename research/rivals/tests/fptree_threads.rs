//! FPTree on two threads, cut off anywhere: one is stopped before a flush of an insert or a split, and the other one
//! changes the next leaf and answers. Two splits come one after the other, since each holds the page of the map until it
//! is done.

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
use everleaf_crash_check::Persistency::X86;
use everleaf_pmem::{Geometry, Medium};
use everleaf_rivals::{FpTree, Sound};
use scripts::lists::{Insert, Op, Remove};
use scripts::meeting::{Before, Meeting, Second, meet_in};

/// Two leaves of 4 pairs, both full: keys below 50, and the others.
const FULL: &[Op] = &[
    Insert(10),
    Insert(20),
    Insert(50),
    Insert(60),
    Insert(70), // 10 20 | 50 60 70
    Insert(80),
    Insert(11),
    Insert(12), // 10 11 12 20 | 50 60 70 80
];

fn open<M: Medium>(medium: M) -> FpTree<M, Sound> {
    FpTree::on(medium).expect("it opens")
}

/// Whether all pairs of the keys from 50 on are there, and those of the lower half that nobody changes.
fn has_all(found: &BTreeMap<u64, u64>, upper: &[u64]) -> bool {
    let lower = [10, 11, 20];
    let above: Vec<u64> = found.range(50..).map(|(key, _)| *key).collect();
    above == upper
        && lower.iter().all(|key| found.contains_key(key))
        && found.iter().all(|(key, value)| *value == !key)
}

/// The meeting before each of the first one's flushes that `flushes` names.
fn survives(flushes: impl IntoIterator<Item = u64>, meeting: Meeting) {
    let geometry = Geometry::new(4).expect("a power of two");
    let mut all = Coverage::default();
    for flush in flushes {
        let meeting = Meeting { at: (Before::Flush, flush), ..meeting };
        let seen = meet_in(X86, geometry, &meeting, open, open);
        all += seen.unwrap_or_else(|failure| panic!("flush {flush}: {failure}"));
    }
    println!("{all}");
    assert!(all.is_exhaustive() && all.images > 100, "{all}");
}

/// An insert that splits its leaf, or not, and one that splits the next leaf.
const SPLITS: Meeting = Meeting {
    before: FULL,
    first: Insert(15),
    at: (Before::Flush, 0),
    second: Second::Change(Insert(90)),
    answer: None,
    holds: |found| has_all(found, &[50, 60, 70, 80, 90]),
};

#[test]
fn a_remove_beside_a_split_survives() {
    let holds = |found: &BTreeMap<u64, u64>| has_all(found, &[50, 60, 80]);
    let second = Second::Change(Remove(70));
    survives(0..12, Meeting { second, answer: Some(!70), holds, ..SPLITS });
}

/// The first one's leaf has room.
#[test]
fn a_split_beside_an_insert_survives() {
    survives(0..3, Meeting { before: &FULL[..7], first: Insert(12), ..SPLITS });
}
