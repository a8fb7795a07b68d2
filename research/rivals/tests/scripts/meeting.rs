//! The skip list and the uTree on two threads: one is stopped between a store and its flush, and the other acts.

use std::collections::BTreeMap;
use std::ops::Bound::Unbounded;
use std::sync::{Arc, Mutex, OnceLock};

use everleaf_crash_check::{Coverage, Explorer, Failure, Persistency, SharedMedium, Trace};
use everleaf_pmem::{Geometry, Medium, Page, Sim, Word};
use everleaf_rivals::Version;
use everleaf_rivals::list::Above;
use everleaf_tree::Index;

use super::lists::{Insert, Op, PAGES, Remove, Update, geometry, open};
use super::ops::apply;

pub type Shared = SharedMedium<Sim>;

/// The kind of call that the second thread comes before.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Before {
    Store,
    Flush,
}

/// A medium that has something done by another thread before one of its stores or flushes.
pub struct Between {
    inner: Shared,
    /// Which of them, and how many come before that one; 0 is now.
    at: Mutex<(Before, u64)>,
    act: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl Between {
    fn comes(&self, before: Before) {
        let mut act = self.act.lock().expect("no panic inside");
        let mut at = self.at.lock().expect("no panic inside");
        if act.is_none() || at.0 != before {
            return;
        }
        if at.1 > 0 {
            at.1 -= 1;
            return;
        }
        let then = act.take().expect("it was there");
        drop((act, at));
        std::thread::spawn(then).join().expect("no panic inside");
    }
}

impl Medium for Between {
    everleaf_pmem::pass_on!(inner: Shared);
    fn store(&self, word: Word<'_>, value: u64) {
        self.comes(Before::Store);
        self.inner.store(word, value);
    }
    fn flush(&self, page: Page<'_>, line: usize) {
        self.comes(Before::Flush);
        self.inner.flush(page, line);
    }
    fn fence(&self) {
        self.inner.fence();
    }
}

/// The action of the second thread.
#[derive(Debug, Clone, Copy)]
pub enum Second {
    Get(u64),
    Change(Op),
}

/// Two threads: the first one's change is stopped before a store or a flush, and the second one acts.
pub struct Meeting {
    pub before: &'static [Op],
    pub first: Op,
    pub at: (Before, u64),
    pub second: Second,
    /// The answer to the second thread.
    pub answer: Option<u64>,
    /// Whether what was recovered has the second thread's doing.
    pub holds: fn(&BTreeMap<u64, u64>) -> bool,
}

/// Crashes a meeting in a list.
pub fn meet<V: Version, A: Above>(
    mode: Persistency,
    meeting: &Meeting,
) -> Result<Coverage, Box<Failure>> {
    meet_in(mode, geometry(), meeting, open::<_, V, A>, open::<_, V, A>)
}

/// Crashes a meeting in an index, which `open` makes and `reopen` recovers.
pub fn meet_in<I: Index + 'static, R: Index>(
    mode: Persistency,
    geometry: Geometry,
    meeting: &Meeting,
    open: impl Fn(SharedMedium<Between>) -> I,
    reopen: impl Fn(Shared) -> R,
) -> Result<Coverage, Box<Failure>> {
    let sim = Arc::new(Sim::new(geometry, PAGES).expect("memory"));
    let trace = Arc::new(Trace::new(&sim));
    let medium = Between {
        inner: SharedMedium::new(&sim),
        at: Mutex::new(meeting.at),
        act: Mutex::default(),
    };
    let medium = Arc::new(medium);
    let list = Arc::new(open(SharedMedium::new(&medium)));
    for (id, op) in (2..).zip(meeting.before) {
        trace.op(id, || apply(&*list, op));
    }
    let answered = Arc::new(OnceLock::new());
    let (then, second) = (Arc::clone(&list), meeting.second);
    let (record, found) = (Arc::clone(&trace), Arc::clone(&answered));
    let act = move || {
        let done = record.op(1, || match second {
            Second::Get(key) => then.get(key).expect("reads"),
            Second::Change(op) => apply(&*then, &op),
        });
        found.set(done).expect("it is done once");
    };
    *medium.act.lock().expect("no panic inside") = Some(Box::new(act));
    trace.op(0, || apply(&*list, &meeting.first));
    let answer = meeting.answer;
    assert_eq!(answered.get(), Some(&answer), "the second thread meets what the first has stored");
    drop(list);
    let trace = Arc::into_inner(trace).expect("the other thread has ended");
    Explorer::new().depth(2).mode(mode).explore(
        &trace.finish(),
        |sim| Ok(reopen(SharedMedium::new(sim))),
        |list, _, crash| {
            let found = list.range(Unbounded, Unbounded, 99).expect("reads").into_iter().collect();
            let is_answered = crash.responded().contains(&1);
            if is_answered && !(meeting.holds)(&found) {
                return Err(format!(
                    "the second thread had answered {answer:x?}: found {found:x?}"
                ));
            }
            Ok(())
        },
    )
}

/// Before the change, two nodes in one line; the next two are in another.
const TWO: &[Op] = &[Insert(10), Insert(11)];
const THREE: &[Op] = &[Insert(10), Insert(11), Insert(20)];

/// An insert behind a node whose link is not flushed.
pub const BEHIND_A_LINK: Meeting = Meeting {
    before: TWO,
    first: Insert(20),
    at: (Before::Flush, 1),
    second: Second::Change(Insert(30)),
    answer: None,
    holds: |found| found.contains_key(&30),
};

/// A reader of an insert whose link is not flushed.
pub const READS_AN_INSERT: Meeting = Meeting {
    before: TWO,
    first: Insert(20),
    at: (Before::Flush, 1),
    second: Second::Get(20),
    answer: Some(!20),
    holds: |found| found.contains_key(&20),
};

/// A reader that the tree in DRAM leads to a node that is in no list yet.
pub const READS_AN_ENTRY: Meeting = Meeting { at: (Before::Flush, 0), ..READS_AN_INSERT };

/// A remove has found what is before and behind its node, which are in other pages, and another thread links a node
/// behind it.
pub const BEHIND_A_REMOVE: Meeting = Meeting {
    before: &[Insert(1), Insert(2), Insert(10), Insert(11), Insert(20)],
    first: Remove(20),
    at: (Before::Store, 0),
    second: Second::Change(Insert(21)),
    answer: None,
    holds: |found| found.contains_key(&21),
};

/// A reader of a remove whose mark is not flushed.
pub const READS_A_REMOVE: Meeting = Meeting {
    before: THREE,
    first: Remove(20),
    at: (Before::Flush, 0),
    second: Second::Get(20),
    answer: None,
    holds: |found| !found.contains_key(&20),
};

/// A reader of a value that is not flushed.
pub const READS_A_VALUE: Meeting = Meeting {
    before: THREE,
    first: Update(20),
    at: (Before::Flush, 0),
    second: Second::Get(20),
    answer: Some(20),
    holds: |found| found.get(&20) == Some(&20),
};

/// An insert that finds the node of its key unlinked, and the unlinking not flushed.
pub const IN_ITS_PLACE: Meeting = Meeting {
    before: THREE,
    first: Remove(20),
    at: (Before::Flush, 0),
    second: Second::Change(Insert(20)),
    answer: None,
    holds: |found| found.contains_key(&20),
};
