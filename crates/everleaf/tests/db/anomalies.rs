//! Histories that were written by hand, with and without an anomaly: what the checker of `histories` finds.

use std::ops::Range;

use everleaf::Isolation;

use crate::histories::{Done, History, List, Seen, queue_key, queue_range};

const BOTH: [Isolation; 2] = [Isolation::Serializable, Isolation::Snapshot];

/// A transaction that was committed, or a plain operation.
fn done(at: Range<u64>, see: impl FnOnce(&mut Seen)) -> Done {
    let mut seen = Seen::default();
    see(&mut seen);
    Done { begun: at.start, ended: at.end, is_committed: true, seen }
}

/// The first append of a transaction.
fn by(id: u32) -> List {
    vec![(id, 0)]
}

/// Judges a history of transactions with the numbers from 0 on; says what the anomaly is called.
fn judge<const N: usize>(
    isolation: Isolation,
    all: [&Done; N],
    there: &[(u64, List)],
) -> Option<String> {
    let history =
        History::new((0..).zip(all.into_iter().cloned()), there.iter().cloned().collect());
    let found = history.anomalies(isolation);
    assert!(found.len() < 2, "{found:?}");
    found.into_iter().next().map(|what| what.split(':').next().unwrap_or_default().to_owned())
}

/// Under both isolations.
fn judge_both<const N: usize>(all: [&Done; N], there: &[(u64, List)]) -> Option<String> {
    let [one, two] = BOTH.map(|isolation| judge(isolation, all, there));
    assert_eq!(one, two, "the two isolations do not differ in that");
    one
}

/// Two keys of two trees: which of two writes each reader sees, all at the same time.
fn two_readers(one: [bool; 2], two: [bool; 2]) -> Option<String> {
    let write = |id: u32| done(0..9, move |seen| drop(seen.append(id.into(), Vec::new(), (id, 0))));
    let read = |sees: [bool; 2]| {
        done(0..9, move |seen| {
            for (id, sees) in (0..).zip(sees) {
                seen.read(id.into(), if sees { by(id) } else { Vec::new() });
            }
        })
    };
    judge_both([&write(0), &write(1), &read(one), &read(two)], &[(0, by(0)), (1, by(1))])
}

#[test]
fn two_readers_see_two_writes_in_opposite_orders() {
    let fork = Some("long fork".to_owned());
    assert_eq!(two_readers([true, false], [false, true]), fork);
    assert_eq!(two_readers([false, true], [true, false]), fork);
    for same in [[true, false], [false, true], [true, true], [false, false]] {
        assert_eq!(two_readers(same, same), None);
        assert_eq!(two_readers(same, [true, true]), None);
        assert_eq!(two_readers([false, false], same), None);
    }
}

/// The second reader sees too little only since the first one had ended, or since it had begun before the first write
/// had ended.
#[test]
fn a_fork_is_one_in_time_too() {
    let write = |id: u32, at| {
        done(at, move |seen| {
            seen.read(id.into(), Vec::new());
            drop(seen.append(id.into(), Vec::new(), (id, 0)));
        })
    };
    let there = [(0, by(0)), (1, by(1))];
    let look = |at, sees: [&List; 2]| {
        let sees = sees.map(Clone::clone);
        done(at, move |seen| (0..).zip(sees).for_each(|(n, list)| seen.read(n, list)))
    };
    let nothing = List::new();
    let (early, late) = (write(0, 0..1), write(1, 4..5));
    for (at, wanted) in [(2..3, Some("G-single in the order of time")), (0..3, None)] {
        let reader = look(at, [&nothing, &nothing]);
        assert_eq!(judge_both([&early, &late, &reader], &there).as_deref(), wanted);
    }
    let reader = look(0..9, [&nothing, &by(1)]);
    let wanted = Some("G-single in the order of time".to_owned());
    assert_eq!(judge_both([&early, &late, &reader], &there), wanted);
}

#[test]
fn a_reader_sees_a_part_of_a_commit_over_two_trees() {
    let write = done(0..9, |seen| {
        seen.append(0, Vec::new(), (0, 0));
        seen.append(1, Vec::new(), (0, 1));
    });
    let there = [(0, by(0)), (1, vec![(0, 1)])];
    let read = |sees: [bool; 2]| {
        let reader = done(0..9, |seen| {
            for ((n, list), sees) in there.iter().zip(sees) {
                seen.read(*n, if sees { list.clone() } else { List::new() });
            }
        });
        judge_both([&write, &reader], &there)
    };
    for part in [[true, false], [false, true]] {
        assert_eq!(read(part).as_deref(), Some("G-single"));
    }
    assert_eq!([[true, true], [false, false]].map(read), [None, None]);
}

/// Each sees what the other has not written yet: snapshot isolation allows that, and no more.
#[test]
fn a_write_skew_is_no_fork() {
    let skew = |own: u32| {
        done(0..9, move |seen| {
            seen.read((1 - own).into(), Vec::new());
            seen.append(own.into(), Vec::new(), (own, 0));
        })
    };
    let there = [(0, by(0)), (1, by(1))];
    let found = BOTH.map(|isolation| judge(isolation, [&skew(0), &skew(1)], &there));
    assert_eq!(found, [Some("G2".to_owned()), None]);
}

/// The number of a key of a queue that the transaction `id` puts.
fn at(place: u64, id: u32) -> u64 {
    queue_key(0, place, (id, 0))
}

fn all() -> Range<u64> {
    queue_range(0, 0..64)
}

/// A plain put.
fn put(when: Range<u64>, place: u64, id: u32) -> Done {
    done(when, move |seen| drop(seen.append(at(place, id), Vec::new(), (id, 0))))
}

/// A plain removal of the first pair, which a transaction has put at a place.
fn pop(when: Range<u64>, popped: Option<(u64, u32)>) -> Done {
    done(when, move |seen| {
        let first = popped.map_or(all().end, |(place, id)| at(place, id));
        seen.range(all().start..first, &[]);
        if let Some((place, id)) = popped {
            seen.read(at(place, id), by(id));
            seen.take(at(place, id), by(id));
        }
    })
}

/// A transaction that has read all, and found so much.
fn reads(when: Range<u64>, found: &[(u64, u32)]) -> Done {
    let found: Vec<_> = found.iter().map(|(place, id)| (at(*place, *id), by(*id))).collect();
    done(when, move |seen| seen.range(all(), &found))
}

/// It has read which pair is the first, and puts one before it. A pop in the midst takes the former first one: for the
/// pop the new one is not there yet, and for the transaction the pop was not there yet.
#[test]
fn a_pop_takes_the_first_pair_of_one_who_puts_before_it() {
    let old = put(0..1, 5, 0);
    let before = |end| {
        done(2..9, move |seen| {
            seen.range(all().start..end, &[(at(5, 0), by(0))]);
            drop(seen.append(at(4, 1), Vec::new(), (1, 0)));
        })
    };
    let writer = before(at(5, 0) + 1);
    let anomaly = judge(
        Isolation::Serializable,
        [&old, &writer, &pop(3..4, Some((5, 0)))],
        &[(at(4, 1), by(1))],
    );
    assert_eq!(anomaly.as_deref(), Some("G2 by a phantom"));
    let snapshot =
        judge(Isolation::Snapshot, [&old, &writer, &pop(3..4, Some((5, 0)))], &[(at(4, 1), by(1))]);
    assert_eq!(snapshot, None, "a write skew");
    // The pop comes after the transaction, and takes what it has put.
    let sound = judge_both([&old, &writer, &pop(3..4, Some((4, 1)))], &[(at(5, 0), by(0))]);
    assert_eq!(sound, None);
    // The new pair is gone in the end, too: the pop had ended before the other one began.
    let both = [&old, &writer, &pop(3..4, Some((5, 0))), &pop(6..8, Some((4, 1)))];
    assert_eq!(judge(Isolation::Serializable, both, &[]).as_deref(), Some("G2 by a phantom"));
    // If they ran at once, the former one can have been popped when the new one was gone.
    let both = [&old, &writer, &pop(3..7, Some((5, 0))), &pop(6..8, Some((4, 1)))];
    assert_eq!(judge_both(both, &[]), None);
}

#[test]
fn a_range_that_was_popped_is_one_moment() {
    let (one, two) = (put(0..1, 1, 0), put(0..1, 2, 1));
    let (first, second) = (pop(3..4, Some((1, 0))), pop(5..6, Some((2, 1))));
    let all = |found| judge_both([&one, &two, &first, &second, &reads(2..9, found)], &[]);
    assert_eq!([&[(1, 0), (2, 1)][..], &[(2, 1)], &[]].map(all), [None, None, None]);
    let anomaly = all(&[(1, 0)]);
    assert_eq!(anomaly.as_deref(), Some("G-single by a phantom in the order of time"));
}

/// Between the two pops there was nothing, and it has seen the pair that was put afterwards.
#[test]
fn a_range_has_a_pair_of_before_and_one_of_after_a_pop() {
    let (one, two) = (put(0..1, 1, 0), put(5..6, 2, 1));
    let popped = pop(3..4, Some((1, 0)));
    let all = |found| judge_both([&one, &two, &popped, &reads(2..9, found)], &[(at(2, 1), by(1))]);
    assert_eq!([&[(1, 0)][..], &[(2, 1)], &[]].map(all), [None, None, None]);
    let anomaly = all(&[(1, 0), (2, 1)]);
    assert_eq!(anomaly.as_deref(), Some("G-single by a phantom in the order of time"));
}

#[test]
fn a_pop_says_that_nothing_is_before_its_pair() {
    let (one, two) = (put(0..1, 1, 0), put(0..1, 2, 1));
    let there = [(at(1, 0), by(0))];
    assert_eq!(
        judge_both([&one, &two, &pop(2..3, Some((2, 1)))], &there).as_deref(),
        Some("G-single by a phantom in the order of time")
    );
    assert_eq!(judge_both([&one, &two, &pop(0..3, Some((2, 1)))], &there), None);
}

#[test]
fn a_pop_that_finds_nothing_says_so() {
    let (one, none) = (put(0..1, 1, 0), pop(2..3, None));
    let anomaly = judge_both([&one, &none], &[(at(1, 0), by(0))]);
    assert_eq!(anomaly.as_deref(), Some("G-single by a phantom in the order of time"));
    assert_eq!(judge_both([&put(0..9, 1, 0), &none], &[(at(1, 0), by(0))]), None);
}

#[test]
fn a_pair_is_popped_once_and_not_lost() {
    let (one, popped) = (put(0..1, 1, 0), pop(2..3, Some((1, 0))));
    let there = [(at(1, 0), by(0))];
    let name = |what: Option<String>| what.unwrap_or_default();
    assert!(name(judge_both([&one, &popped, &popped], &[])).contains("was taken by [1, 2]"));
    assert!(name(judge_both([&one, &popped], &there)).contains("was taken by [1]"));
    assert!(name(judge_both([&one], &[])).contains("nobody has removed it"));
    assert_eq!(judge_both([&one, &popped], &[]), None);
    assert_eq!(judge_both([&one], &there), None);
}

/// Three pairs, of which a removal of a range takes those from the second place on, and one who reads all.
fn swept(
    when: Range<u64>,
    removed: u64,
    there: &[(u64, u32)],
    reader: (Range<u64>, &[(u64, u32)]),
) -> Option<String> {
    let puts = [put(0..1, 1, 0), put(0..1, 2, 1), put(0..1, 3, 2)];
    let sweep = done(when, |seen| seen.sweep(queue_range(0, 2..64), removed));
    let there: Vec<_> = there.iter().map(|(place, id)| (at(*place, *id), by(*id))).collect();
    let all = [&puts[0], &puts[1], &puts[2], &sweep, &reads(reader.0, reader.1)];
    judge_both(all, &there)
}

const ALL: &[(u64, u32)] = &[(1, 0), (2, 1), (3, 2)];

/// The pairs of a range that is removed go one by one, the largest first: all others see that, and no more is promised.
#[test]
fn a_range_goes_from_its_end() {
    let first = &ALL[..1];
    for found in [ALL, &ALL[..2], first] {
        assert_eq!(swept(2..9, 2, first, (3..8, found)), None);
    }
    let anomaly = swept(2..9, 2, first, (3..8, &[(1, 0), (3, 2)]));
    assert_eq!(anomaly.as_deref(), Some("G-single by a phantom in the order of time"));
    // It had ended.
    for found in [ALL, &ALL[..2]] {
        let anomaly = swept(2..3, 2, first, (4..5, found));
        assert_eq!(anomaly.as_deref(), Some("G-single by a phantom in the order of time"));
    }
    assert_eq!(swept(2..3, 2, first, (4..5, first)), None);
}

#[test]
fn a_range_that_is_removed_is_gone_and_counted() {
    let reader = || (0..9, &[][..]);
    let name = |what: Option<String>| what.unwrap_or_default();
    assert!(name(swept(2..3, 1, &ALL[..2], reader())).contains("is there, and was removed"));
    assert!(
        name(swept(2..3, 3, &ALL[..1], reader())).contains("that it has removed 3, not 2 to 2")
    );
    // A key that is put meanwhile may stay.
    assert_eq!(swept(0..3, 1, &ALL[..2], (0..9, ALL)), None);
}

/// Two have removed ranges, and it is not known which of them has removed which pair.
#[test]
fn two_remove_a_range() {
    let puts = [put(0..1, 2, 0), put(0..1, 3, 1)];
    let sweep = |when, removed| done(when, move |seen| seen.sweep(all(), removed));
    let judge = |counts: [u64; 2], found| {
        let [one, two] = [sweep(2..6, counts[0]), sweep(3..7, counts[1])];
        judge_both([&puts[0], &puts[1], &one, &two, &reads(4..5, found)], &[])
    };
    for counts in [[0, 2], [1, 1], [2, 0]] {
        assert_eq!(
            [&[(2, 0), (3, 1)][..], &[(3, 1)], &[]].map(|found| judge(counts, found)),
            [None, None, None]
        );
    }
    assert!(judge([3, 0], &[]).is_some_and(|what| what.contains("removed 3, not 0 to 2")));
}

/// It has read a range with a pair that another one removes, and writes what that one would have to see.
#[test]
fn a_range_is_removed_under_one_who_depends_on_it() {
    let (old, fork) = (put(0..1, 5, 0), 7);
    let writer = done(2..9, |seen| {
        seen.range(all(), &[(at(5, 0), by(0))]);
        seen.read(fork, List::new());
        drop(seen.append(fork, List::new(), (1, 0)));
    });
    let sweep = |when| done(when, |seen| seen.sweep(all(), 1));
    let look = |when, list: List| done(when, move |seen| seen.read(fork, list));
    let there = [(fork, by(1))];
    let judge = |sweep: Done, look: Done| {
        judge(Isolation::Serializable, [&old, &writer, &sweep, &look], &there)
    };
    let anomaly = judge(sweep(3..4), look(5..6, List::new()));
    assert_eq!(anomaly.as_deref(), Some("G2 by a phantom in the order of time"));
    assert_eq!(judge(sweep(3..4), look(5..6, by(1))), None);
    assert_eq!(judge(sweep(3..6), look(5..6, List::new())), None);
}

/// A key is put and popped while three read, one after the other by what they read of a list. Time does not say which of
/// them reads before the key is there and which reads when it is gone; the list does.
#[test]
fn a_key_that_is_absent_was_not_there_yet_or_is_gone() {
    const LIST: u64 = 7;
    let (new, gone) = (put(0..9, 1, 0), pop(0..9, Some((1, 0))));
    let append = |list: List, id| done(0..9, move |seen| drop(seen.append(LIST, list, (id, 0))));
    let judge = |sees: [bool; 3]| {
        let lists = [List::new(), by(2), vec![(2, 0), (3, 0)]];
        let reader = |at: usize| {
            let mut reader = reads(0..9, if sees[at] { &[(1, 0)] } else { &[] });
            reader.seen.read(LIST, lists[at].clone());
            reader
        };
        let (one, two) = (append(List::new(), 2), append(by(2), 3));
        let all = [&new, &gone, &one, &two, &reader(0), &reader(1), &reader(2)];
        judge(Isolation::Serializable, all, &[(LIST, lists[2].clone())])
    };
    for n in 0..8 {
        let sees = [n & 1 > 0, n & 2 > 0, n & 4 > 0];
        let wanted = (sees == [true, false, true]).then(|| "a phantom".to_owned());
        assert_eq!(judge(sees), wanted, "{sees:?}");
    }
}
