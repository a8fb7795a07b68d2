//! A persistent queue of one's own, checked against power cuts in a few lines.
//!
//! The queue is a ring of 16 words with the numbers of the first and the next entry in the header:
//!
//! ```text
//! page 0   head: | first | next | ...      body: | entry 0 | entry 1 | ... | entry 15 |
//! ```
//!
//! A push stores the entry, makes it durable, and only then counts it. Forgetting the middle part
//! is the planted bug: run `cargo run --example queue` to see what the checker says.

use std::io::{Write, stdout};

use everleaf_crash_check::{Coverage, Durable, Failure, Mutants};
use everleaf_pmem::{Geometry, Medium, Page};

const SLOTS: u64 = 16;
const FIRST: usize = 0;
const NEXT: usize = 1;

/// A queue of up to 16 numbers that survives power cuts.
struct Queue<M> {
    medium: M,
    /// Whether a push makes the entry durable before it counts it.
    careful: bool,
}

impl<M: Medium> Queue<M> {
    fn page(&self) -> Page<'_> {
        self.medium.page(0).expect("the medium has a page")
    }

    fn push(&self, value: u64) {
        let (page, next) = (self.page(), self.page().head(NEXT).load());
        let at = (next % SLOTS) as usize;
        self.medium.store(page.body(at), value);
        self.medium.flush(page, page.line_of(at));
        if self.careful {
            self.medium.fence();
        } // else: the fence below will do, surely?
        self.count(NEXT, next + 1);
    }

    fn pop(&self) -> Option<u64> {
        let value = self.entries().first().copied()?;
        self.count(FIRST, self.page().head(FIRST).load() + 1);
        Some(value)
    }

    fn count(&self, which: usize, number: u64) {
        self.medium.store(self.page().head(which), number);
        self.medium.flush(self.page(), 0);
        self.medium.fence();
    }

    fn entries(&self) -> Vec<u64> {
        let page = self.page();
        let numbers = page.head(FIRST).load()..page.head(NEXT).load();
        numbers.map(|n| page.body((n % SLOTS) as usize).load()).collect()
    }
}

/// An operation of the queue.
#[derive(Debug)]
enum Do {
    Push(u64),
    Pop,
}

/// Checks twelve pushes with a pop after every third; then each flush, fence and store of theirs is
/// left out in turn, which somebody must notice.
fn check(careful: bool) -> Result<(Coverage, Mutants), Box<Failure>> {
    let queue = Durable::new(
        Geometry::new(8).expect("a power of two"),
        1,
        (1..=16).map(|i| if i % 4 == 0 { Do::Pop } else { Do::Push(i) }),
        |medium| Queue { medium, careful },
        |queue, what| match what {
            Do::Push(value) => queue.push(*value),
            Do::Pop => drop(queue.pop()),
        },
        |queue| queue.entries(),
    );
    Ok((queue.check()?, queue.mutants()))
}

fn main() -> std::io::Result<()> {
    let (stats, mutants) = check(true).expect("nothing is lost");
    writeln!(stdout(), "with a fence between entry and count: {stats}; {mutants}")?;
    writeln!(stdout(), "without it: {}", check(false).expect_err("the checker finds it"))
}

#[test]
fn the_planted_bug_is_found_and_its_repair_passes() {
    let failure = check(false).expect_err("an entry may be counted before it is there").to_string();
    let what = "with operation 0, Push(1), in flight: found [0], expected [] or [1]";
    assert!(failure.contains(what) && failure.contains("lost: body word 0 := 1"), "{failure}");
    assert!(check(true).expect("nothing is lost").0.is_exhaustive());
}

#[test]
fn each_flush_fence_and_store_of_the_queue_is_needed() {
    let (_, mutants) = check(true).expect("nothing is lost");
    assert_eq!(mutants.survivors().count(), 0, "{mutants}");
    // 12 pushes of two flushes, fences and stores, and 4 pops of one; and one swap less than stores.
    assert_eq!(mutants.all.len(), 4 * 28 - 1);
}
