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

use std::sync::Arc;

use everleaf_check::{Explorer, Failure, Shared, Stats, Trace};
use everleaf_pmem::{Geometry, Medium, Page, Sim};

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

    fn persist(&self, line: usize) {
        self.medium.flush(self.page(), line);
        self.medium.fence();
    }

    fn push(&self, value: u64) {
        let (page, next) = (self.page(), self.page().head(NEXT).load());
        let at = (next % SLOTS) as usize;
        self.medium.store(page.body(at), value);
        if self.careful {
            self.persist(page.line_of(at));
        } else {
            self.medium.flush(page, page.line_of(at)); // and the fence below will do, surely?
        }
        self.medium.store(page.head(NEXT), next + 1);
        self.persist(0);
    }

    fn pop(&self) -> Option<u64> {
        let (page, first) = (self.page(), self.page().head(FIRST).load());
        let value = self.entries().first().copied()?;
        self.medium.store(page.head(FIRST), first + 1);
        self.persist(0);
        Some(value)
    }

    fn entries(&self) -> Vec<u64> {
        let page = self.page();
        let numbers = page.head(FIRST).load()..page.head(NEXT).load();
        numbers.map(|n| page.body((n % SLOTS) as usize).load()).collect()
    }
}

/// Twelve pushes with a pop after every third.
fn workload() -> Vec<Option<u64>> {
    (1..=16).map(|i| if i % 4 == 0 { None } else { Some(i) }).collect()
}

/// Runs the workload, and opens the queue after all power cuts of it: it must hold what the
/// answered operations left, or that and the one in flight.
fn check(careful: bool) -> Result<Stats, Box<Failure>> {
    let geometry = Geometry::new(8).expect("a power of two");
    let sim = Arc::new(Sim::new(geometry, 1).expect("memory"));
    let queue = Queue { medium: Shared::new(&sim), careful };
    let trace = Trace::new(&sim);
    let mut after = vec![vec![]];
    for (id, what) in (0..).zip(workload()) {
        trace.op(id, || match what {
            Some(value) => queue.push(value),
            None => drop(queue.pop()),
        });
        after.push(queue.entries());
    }
    Explorer::new().check(&trace.finish(), |sim, crash| {
        let found = Queue { medium: Shared::new(sim), careful }.entries();
        let (done, begun) = (crash.responded().len(), crash.invoked().len());
        if found == after[done] || found == after[begun] {
            return Ok(());
        }
        Err(format!("the queue holds {found:?}, it should be {:?}", after[done]))
    })
}

fn main() {
    println!("with a fence between entry and count: {}", check(true).expect("nothing is lost"));
    println!("without it: {}", check(false).expect_err("the checker finds it"));
}

#[test]
fn the_planted_bug_is_found_and_its_repair_passes() {
    let failure = check(false).expect_err("an entry may be counted before it is there");
    assert!(failure.to_string().contains("the queue holds [0]"), "{failure}");
    assert!(check(true).expect("nothing is lost").images > 20);
}
