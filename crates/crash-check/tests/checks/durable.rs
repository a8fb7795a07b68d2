//! The front door on structures that are right, and wrong in one way at a time.

use everleaf_crash_check::{Coverage, Durable, Explorer, Failure, Mutant, Mutation, OfOp, durable};
use everleaf_pmem::{Geometry, Medium};

fn geometry() -> Geometry {
    Geometry::new(16).unwrap()
}

/// How the counters are wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wrong {
    Nothing,
    /// Recovery clears what is to be done before it is durable.
    HastyRecovery,
    /// Recovery leaves a mark that makes the next operation go astray.
    LeavesItsMark,
    /// Recovery panics at what it has to finish.
    Panics,
}

/// Three counters in three lines, raised together. An operation says what it will do in the header,
/// does it, and clears the header; recovery finishes it.
struct Counters<M> {
    medium: M,
}

impl<M: Medium> Counters<M> {
    fn open(medium: M, wrong: Wrong) -> Self {
        let it = Self { medium };
        let to = it.medium.page(0).unwrap().head(0).load();
        if to != 0 {
            assert!(wrong != Wrong::Panics, "cannot finish");
            it.finish(to, wrong != Wrong::HastyRecovery);
            if wrong == Wrong::LeavesItsMark {
                it.persist(1, 1);
            }
        }
        it
    }

    fn persist(&self, word: usize, value: u64) {
        let page = self.medium.page(0).unwrap();
        self.medium.store(page.head(word), value);
        self.medium.flush(page, 0);
        self.medium.fence();
    }

    fn raise(&self) {
        let by = 1 + self.medium.page(0).unwrap().head(1).load();
        self.persist(0, self.values()[0] + by);
        self.finish(self.values()[0] + by, true);
    }

    fn finish(&self, to: u64, fence: bool) {
        let page = self.medium.page(0).unwrap();
        for word in [0, 8, 16] {
            self.medium.store(page.body(word), to);
            self.medium.flush(page, page.line_of(word));
        }
        if fence {
            self.medium.fence();
        }
        self.persist(0, 0);
    }

    fn values(&self) -> [u64; 3] {
        [0, 8, 16].map(|word| self.medium.page(0).unwrap().body(word).load())
    }
}

/// Calls `$what` of the counters' check: a macro, since the closures' types have no names.
macro_rules! counters {
    ($wrong:expr) => {
        Durable::new(
            geometry(),
            2,
            ["one", "two", "three"],
            |medium| Counters::open(medium, $wrong),
            |counters, _| counters.raise(),
            |counters| counters.values(),
        )
    };
}

fn refused(answer: Result<Coverage, Box<Failure>>) -> Box<Failure> {
    answer.expect_err("something is wrong")
}

#[test]
fn what_is_right_passes_and_recovery_is_crashed_too() {
    let stats = counters!(Wrong::Nothing).check().unwrap();
    assert!(stats.nested > 30 && stats.images > stats.nested + 30, "{stats}");
    let shallow = counters!(Wrong::Nothing).explorer(Explorer::new().depth(2)).check().unwrap();
    assert!(shallow.is_exhaustive(), "{shallow}");
}

#[test]
fn a_recovery_that_is_wrong_when_it_is_cut_short_is_found_and_replays() {
    let wrong = counters!(Wrong::HastyRecovery);
    let failure = refused(wrong.check());
    assert!(failure.depth() > 1, "{failure}");
    let text = failure.to_string();
    let starts = "with operation 0, \"one\", in flight: found [";
    assert!(text.starts_with(starts), "{text}");
    assert!(text.contains("expected [0, 0, 0] or [1, 1, 1]"), "{text}");
    assert!(text.contains("crash 2: recovery") && text.contains("lost: body word"), "{text}");
    let again = wrong.replay(&failure).expect_err("it is still wrong");
    assert_eq!((again.message, again.crashes), (failure.message.clone(), failure.crashes.clone()));
    counters!(Wrong::HastyRecovery).explorer(Explorer::new().depth(1)).check().unwrap();
}

#[test]
fn what_reads_well_and_cannot_be_used_is_found_by_the_next_operation() {
    let failure = refused(counters!(Wrong::LeavesItsMark).check());
    let says = "then operation 1, \"two\", leads to [3, 3, 3], expected [2, 2, 2]";
    assert!(failure.message.contains(says), "{failure}");
    counters!(Wrong::LeavesItsMark).then(0).check().unwrap();
}

#[test]
fn a_recovery_that_panics_is_refused() {
    let failure = refused(counters!(Wrong::Panics).check());
    assert!(failure.message.contains("panic: cannot finish"), "{failure}");
}

#[test]
fn mutants_of_workload_and_recovery_are_told_apart() {
    let mutants = counters!(Wrong::Nothing).mutants();
    let of = |within: &str| mutants.all.iter().filter(|m| m.within == within).count();
    // Five stores, five flushes, three fences, and the swaps of each store with the next.
    assert_eq!(of("operation 0, \"one\""), 5 + 5 + 3 + 5);
    assert_eq!(of("each recovery"), 4 + 4 + 2 + 3);
    // Calls that clear the header may be left out: finishing twice comes to the same. No others may.
    let clears = |m: &&Mutant| match m.fault {
        Mutation::DropStore(k) | Mutation::DropFlush(k) => {
            if m.within == "each recovery" {
                k == 3
            } else {
                k % 5 == 4
            }
        }
        Mutation::DropFence(k) => {
            if m.within == "each recovery" {
                k == 1
            } else {
                k % 3 == 2
            }
        }
        Mutation::SwapStores(_) => false,
    };
    assert_eq!(mutants.survivors().filter(clears).count(), 12, "{mutants}");
    assert_eq!(mutants.survivors().count(), 12, "{mutants}");
    assert!(mutants.to_string().contains("survived: flush 3 dropped in each recovery"));
}

#[test]
fn write_backs_are_those_of_the_operations() {
    let counters = counters!(Wrong::Nothing);
    let (all, mutants) = (counters.mutants().all.len(), counters.write_backs().all);
    let of = |op: usize| mutants.iter().filter(move |m| m.of_op.is_some_and(|of| of.op == op));
    assert_eq!((of(0).count(), of(1).count()), (5 + 3, 5 + 3));
    let third = of(1).find(|m| m.fault == Mutation::DropFlush(7)).expect("the third of five");
    assert_eq!(third.of_op, Some(OfOp { op: 1, nth: 2, of: 5 }));
    let is_write_back =
        |m: &Mutant| matches!(m.fault, Mutation::DropFlush(_) | Mutation::DropFence(_));
    assert!(mutants.len() < all && mutants.iter().all(is_write_back));
    // As above: what clears the header, in each operation.
    let is_last = |m: &Mutant| m.of_op.is_some_and(|of| of.nth + 1 == of.of);
    assert!(mutants.iter().all(|m| m.noticed.is_none() == is_last(m)));
}

#[test]
fn an_empty_workload_crashes_the_first_open() {
    let format = |fence: bool| {
        durable(
            geometry(),
            1,
            [(); 0],
            move |medium| {
                let page = medium.page(0).unwrap();
                if page.head(0).load() == 0 {
                    medium.store(page.body(0), 7);
                    medium.flush(page, page.line_of(0));
                    if fence {
                        medium.fence();
                    }
                    medium.store(page.head(0), 1);
                    medium.flush(page, 0);
                    medium.fence();
                }
                medium
            },
            |_, ()| {},
            |medium| medium.page(0).unwrap().body(0).load(),
        )
    };
    assert!(format(true).unwrap().images > 2);
    let failure = refused(format(false));
    assert!(failure.message.starts_with("before the first operation: found 0, expected 7"));
}

#[test]
#[should_panic(expected = "two runs without a crash")]
fn a_structure_that_does_not_repeat_itself_is_named() {
    let calls = std::cell::Cell::new(0);
    let _ = durable(
        geometry(),
        1,
        [()],
        |medium| medium,
        |_, ()| calls.set(calls.get() + 1),
        |_| calls.get(),
    );
}
